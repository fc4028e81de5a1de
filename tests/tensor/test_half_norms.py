"""Norms and spreads of float16 and bfloat16 whose squares lie outside their range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm

F = lm.nn.functional
Of = Callable[[Any], Any]
ROUNDING = {"float16": 2e-3, "bfloat16": 2e-2}


def cosine(a: np.ndarray) -> np.ndarray:
    return (a * a[:1]).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(a[0]))


CASES: dict[str, tuple[Of, Of]] = {
    "vector_norm": (lambda t: lm.linalg.vector_norm(t, axis=1),
                    lambda a: np.linalg.norm(a, axis=1)),
    "order 3": (lambda t: lm.linalg.vector_norm(t, axis=1, ord=3),
                lambda a: np.linalg.norm(a, 3, axis=1)),
    "norm": (lm.norm, np.linalg.norm),
    "matrix_norm": (lm.linalg.matrix_norm, np.linalg.norm),
    "std": (lambda t: lm.std(t, axis=1), lambda a: a.std(1)),
    "normalize": (F.normalize, lambda a: a / np.linalg.norm(a, axis=1, keepdims=True)),
    "cosine_similarity": (lambda t: F.cosine_similarity(t, t[:1]), cosine),
    "pairwise_distance": (lambda t: F.pairwise_distance(t, -t, eps=0.0),
                          lambda a: np.linalg.norm(2 * a, axis=1)),
    "cdist": (lambda t: lm.cdist(t, -t),
              lambda a: np.linalg.norm(a[:, None] + a[None], axis=2)),
}  # fmt: skip


def draw(scale: float, dtype: str) -> tuple[Any, np.ndarray]:
    array = np.random.default_rng(0).normal(size=(6, 50)) * scale
    tensor = lm.asarray(array).astype(getattr(lm, dtype))
    return tensor, tensor.astype(lm.float64).numpy()


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("scale", [1000.0, 2e-3])
@pytest.mark.parametrize("name", CASES)
def test_squares_beyond_the_range(name: str, scale: float, dtype: str) -> None:
    ours, theirs = CASES[name]
    tensor, array = draw(scale, dtype)
    found, wanted = ours(tensor), theirs(array)
    assert found.dtype is getattr(lm, dtype)
    np.testing.assert_allclose(
        found.astype(lm.float64).numpy(), wanted, rtol=ROUNDING[dtype],
        atol=ROUNDING[dtype] * np.abs(wanted).max(),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ROUNDING)
def test_gradients_of_a_norm(dtype: str) -> None:
    tensor, array = draw(1000.0, dtype)
    found = lm.grad(lm.norm)(tensor)
    assert found.dtype is getattr(lm, dtype)
    np.testing.assert_allclose(
        found.astype(lm.float64).numpy(), array / np.linalg.norm(array), atol=ROUNDING[dtype]
    )


def test_covariance_of_half_precision() -> None:
    tensor, array = draw(30.0, "float16")
    found = lm.cov(tensor.reshape(2, 150))
    np.testing.assert_allclose(found.numpy(), np.cov(array.reshape(2, 150)), rtol=2e-3, atol=2)
    assert found.dtype is lm.float16


def test_unit_vectors_of_zeros_are_zeros() -> None:
    zeros = lm.zeros((2, 3), dtype=lm.float16)
    assert F.normalize(zeros).tolist() == zeros.tolist()
    assert F.cosine_similarity(zeros, zeros).tolist() == [0.0, 0.0]
