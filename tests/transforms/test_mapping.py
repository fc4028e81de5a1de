"""``vectorize`` and ``apply_along_axis`` against NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella.errors import OptionError, ShapeError

T = np.random.default_rng(0).normal(size=(3, 4, 5))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize(
    "function",
    [
        lambda m, v: m.max(v) - m.min(v),
        lambda m, v: m.cumsum(v),
        lambda m, v: m.stack([v[:2], v[1:3]]),
    ],
)
def test_apply_along_axis(function: Callable[[Any, Any], Any], axis: int) -> None:
    expected = np.apply_along_axis(lambda v: function(np, v), axis, T)
    found = lm.apply_along_axis(lambda v: function(lm, v), axis, T)
    np.testing.assert_allclose(found.numpy(), expected)


def test_apply_over_axes() -> None:
    np.testing.assert_allclose(
        lm.apply_over_axes(lm.sum, T, [0, 2]).numpy(), np.apply_over_axes(np.sum, T, [0, 2])
    )
    np.testing.assert_allclose(
        lm.apply_over_axes(lm.cumsum, T, 1).numpy(), np.apply_over_axes(np.cumsum, T, 1)
    )
    with pytest.raises(ShapeError, match="remove the axis"):
        lm.apply_over_axes(lambda x, axis: x.sum(), T, 0)


def test_vectorize() -> None:
    def clipped(a: Any, b: Any, low: float = 0.0) -> Any:
        return lm.where(a > b, a, b) + low

    found = lm.vectorize(clipped)(T, T[0, 0], low=1.0)
    np.testing.assert_allclose(found.numpy(), np.maximum(T, T[0, 0]) + 1)
    power = lm.vectorize(lambda a, n: a**n, excluded=(1,))
    np.testing.assert_allclose(power(T, 3).numpy(), T**3)
    assert lm.vectorize(lambda a: a + 1)(2.0).item() == 3.0

    product = lm.vectorize(lambda m, v: m @ v, signature="(m,n),(n)->(m)")
    np.testing.assert_allclose(product(T, T[:, 0]).numpy(), np.einsum("bmn,bn->bm", T, T[:, 0]))
    np.testing.assert_allclose(product(T, T[0, 0]).numpy(), T @ T[0, 0])
    slope = lm.grad(lambda t: product(t, t[0, 0]).sum())(lm.asarray(T))
    assert slope.shape == T.shape
    np.testing.assert_allclose(lm.jit(product)(lm.asarray(T), T[0, 0]).numpy(), T @ T[0, 0])


def test_misuse() -> None:
    with pytest.raises(OptionError, match="signature"):
        lm.vectorize(lambda a: a, signature="n->n")
    with pytest.raises(OptionError, match="as many"):
        lm.vectorize(lambda a: a, signature="(n),(n)->()")(T)
    with pytest.raises(ShapeError, match="axes of its own"):
        lm.vectorize(lambda a: a, signature="(m,n)->()")(T[0, 0])
    with pytest.raises(ShapeError, match="axis"):
        lm.apply_along_axis(lm.sum, 3, T)
