"""What gathers read many times is computed once; what they read seldom, where it is read."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella.config import config
from lamella.nn import functional as F


@pytest.fixture(autouse=True)
def with_passes() -> object:
    with config(optimize=1, skip_passes="", backend="llvm", cache=0):
        yield


def kernels(f: object, *args: lm.Tensor) -> int:
    return lm.jit(f).lower(*args).text(2).count("\nkernel ")  # type: ignore[arg-type]


def test_elements_read_often_are_stored() -> None:
    draw = np.random.default_rng(0)
    x, index = draw.normal(size=(30, 64)), draw.integers(0, 30, (2, 60))
    a, i, j = lm.asarray(x), lm.asarray(index[0]), lm.asarray(index[1])

    def f(x: lm.Tensor) -> lm.Tensor:
        y = lm.exp(x) * 2 + 1
        return lm.take(y, i, axis=0) + lm.take(y, j, axis=0)

    y = np.exp(x) * 2 + 1
    np.testing.assert_allclose(lm.jit(f)(a).numpy(), y[index[0]] + y[index[1]], rtol=1e-12)
    assert kernels(f, a) == 2


def test_elements_read_seldom_are_not() -> None:
    x, index = lm.ones((1000, 64)), lm.asarray([3, 5, 7])
    assert kernels(lambda x: lm.take(lm.exp(x) * 2 + 1, index, axis=0), x) == 1


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_axes_are_resized_one_after_the_other(mode: str) -> None:
    """One axis is resized for all rows, before rows are read several times; no index is checked."""
    x = lm.ones((2, 16, 14, 14))
    with lm.no_grad():
        text = lm.jit(lambda x: F.interpolate(x, scale_factor=2, mode=mode)).lower(x).text(2)
    assert text.count("\nkernel ") == 2
    assert "checked_index" not in text


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("aligned", [False, True])
def test_derivatives_of_resizing(mode: str, aligned: bool) -> None:
    """Enlarging: the transpose gathers; forward mode, batching and second derivatives agree."""
    draw = np.random.default_rng(1)
    x, t = (lm.asarray(draw.normal(size=(2, 3, 5, 6))) for _ in range(2))
    c = lm.asarray(draw.normal(size=(2, 3, 11, 12)))

    def f(x: lm.Tensor) -> lm.Tensor:
        return F.interpolate(x, size=(11, 12), mode=mode, align_corners=aligned)

    moved = lm.jvp(f, (x,), (t,))[1]
    np.testing.assert_allclose(moved.numpy(), f(t).numpy(), rtol=1e-12)
    (pulled,) = lm.vjp(f, x)[1](c)
    assert (pulled * t).sum().item() == pytest.approx((c * moved).sum().item(), rel=1e-12)
    assert "scatter" not in lm.jit(lambda x, c: lm.vjp(f, x)[1](c)).lower(x, c).text(1)
    gradient = lm.grad(lambda x: (f(x) ** 3).sum())
    many = lm.vmap(gradient)(lm.stack([x, t]))
    np.testing.assert_allclose(many[1].numpy(), gradient(t).numpy(), rtol=1e-12)
    near = (gradient(x + 1e-5 * t) - gradient(x - 1e-5 * t)) / 2e-5
    found = lm.jvp(gradient, (x,), (t,))[1].numpy()
    np.testing.assert_allclose(found, near.numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("size", [(3, 4), (90, 100)])
def test_derivatives_that_scatter(size: tuple[int, int]) -> None:
    """Reducing leaves elements unread; enlarging by much reads one many times."""
    draw = np.random.default_rng(2)
    x, t = (lm.asarray(draw.normal(size=(1, 2, 9, 10))) for _ in range(2))

    def f(x: lm.Tensor) -> lm.Tensor:
        return F.interpolate(x, size=size, mode="bilinear")

    c = lm.asarray(draw.normal(size=(1, 2, *size)))
    (pulled,) = lm.vjp(f, x)[1](c)
    assert (pulled * t).sum().item() == pytest.approx((c * f(t)).sum().item(), rel=1e-12)
