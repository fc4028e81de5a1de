"""``associative_scan`` against loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella.errors import OptionError, ShapeError


def matrices(a: Any, b: Any) -> Any:
    return a @ b


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_products_of_matrices(count: int, reverse: bool) -> None:
    x = np.random.default_rng(count).normal(size=(count, 2, 2))
    found = lm.jit(lambda x: lm.associative_scan(matrices, x, reverse=reverse))(lm.asarray(x))
    wanted = np.zeros_like(x)
    total = np.eye(2)
    for i in reversed(range(count)) if reverse else range(count):
        total = total @ x[i]
        wanted[i] = total
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9, atol=1e-12)


def test_trees_axes_and_gradients() -> None:
    a = np.random.default_rng(0).uniform(0.2, 0.9, size=(3, 10))
    b = np.random.default_rng(1).normal(size=(3, 10))

    def combine(left: Any, right: Any) -> Any:  # h = a·h + b
        return {"a": left["a"] * right["a"], "b": right["a"] * left["b"] + right["b"]}

    def last(a: lm.Tensor, b: lm.Tensor) -> lm.Tensor:
        return lm.associative_scan(combine, {"a": a, "b": b}, axis=-1)["b"]

    h, rows = np.zeros(3), []
    for t in range(10):
        h = a[:, t] * h + b[:, t]
        rows.append(h)
    found = last(lm.asarray(a), lm.asarray(b))
    np.testing.assert_allclose(found.numpy(), np.stack(rows, 1), rtol=1e-10)

    def by_scan(a: lm.Tensor, b: lm.Tensor) -> lm.Tensor:
        step = lambda h, x: (x[0] * h + x[1],) * 2  # noqa: E731
        return lm.scan(step, a[:, 0] * 0, (a.T, b.T))[1].T

    weights = lm.asarray(np.random.default_rng(2).normal(size=(3, 10)))
    gradients = [
        lm.grad(lambda a, b, f=f: lm.sum(f(a, b) * weights), argnums=(0, 1))(
            lm.asarray(a), lm.asarray(b)
        )
        for f in (last, by_scan)
    ]
    for x, y in zip(*gradients, strict=True):
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-9)


def test_errors() -> None:
    with pytest.raises(ShapeError, match="all of elems need one"):
        lm.associative_scan(lambda a, b: a, (lm.ones(2), lm.ones(3)))
    with pytest.raises(ShapeError, match="out of range"):
        lm.associative_scan(lm.add, lm.ones(2), axis=1)
    with pytest.raises(OptionError, match="a tree like elems"):
        lm.associative_scan(lambda a, b: (a, b), lm.ones(2))
