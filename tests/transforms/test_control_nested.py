"""Control flow inside control flow, with derivatives by finite differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lamella as lm

Function = Callable[[lm.Tensor], lm.Tensor]
X = lm.asarray(np.random.default_rng(0).normal(size=(5, 3)))


def bounded(x: lm.Tensor) -> lm.Tensor:
    """A bounded while loop at every step of a scan."""

    def body(c: lm.Tensor, row: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor]:
        grown = lm.while_loop(
            lambda v: lm.sum(v * v) < 4, lambda v: v * 1.3 + 0.1 * row, c, max_steps=10
        )
        return grown * 0.3, lm.sum(grown)

    return lm.sum(lm.scan(body, x[0], x)[1])


def chosen(x: lm.Tensor) -> lm.Tensor:
    """A branch at every step."""

    def body(c: lm.Tensor, row: lm.Tensor) -> tuple[lm.Tensor, None]:
        return lm.cond(lm.sum(row) > 0, lambda c: lm.sin(c) * row, lambda c: c + row, c), None

    return lm.sum(lm.scan(body, x[0], x)[0])


def again(x: lm.Tensor) -> lm.Tensor:
    """A checkpoint at every step."""
    inner = lm.checkpoint(lambda c, row: lm.tanh(lm.sin(c) * row + lm.exp(-c * c)))
    return lm.sum(lm.scan(lambda c, row: (inner(c, row), None), x[0], x)[0])


def around(x: lm.Tensor) -> lm.Tensor:
    """A checkpoint around a scan."""
    inner = lm.checkpoint(lambda x: lm.scan(lambda c, row: (lm.sin(c) * row, c), x[0], x)[1])
    return lm.sum(inner(x))


@pytest.mark.parametrize("f", [bounded, chosen, again, around])
def test_gradients(f: Function) -> None:
    found = lm.grad(f)(X).numpy()
    wanted = np.zeros_like(found)
    for at in np.ndindex(wanted.shape):
        step = np.zeros(wanted.shape)
        step[at] = 1e-6
        move = lm.asarray(step)
        wanted[at] = (f(X + move).item() - f(X - move).item()) / 2e-6
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(lm.jit(lm.grad(f))(X).numpy(), found, rtol=1e-12)
    many = lm.jit(lm.vmap(lm.grad(f)))(lm.stack([X, X * 0.5])).numpy()
    np.testing.assert_allclose(many[0], found, rtol=1e-10)
    np.testing.assert_allclose(many[1], lm.grad(f)(X * 0.5).numpy(), rtol=1e-10)


@pytest.mark.parametrize("f", [bounded, chosen, again, around])
def test_second_derivatives(f: Function) -> None:
    along = lm.hvp(f, (X,), (lm.cos(X),))[0].numpy()
    twice = lm.grad(lambda x: lm.sum(lm.grad(f)(x) * lm.stop_gradient(lm.cos(X))))(X).numpy()
    np.testing.assert_allclose(along, twice, rtol=1e-9, atol=1e-12)


def test_narrow_carries() -> None:
    for dtype in (lm.float16, lm.bfloat16, lm.int8, lm.bool_):
        start = lm.ones((4,), dtype=dtype)
        last, rows = lm.scan(lambda c, _: (c + c, c), start, length=3)
        assert last.dtype is dtype and rows.shape == (3, 4)
        assert last.tolist() == ([True] * 4 if dtype is lm.bool_ else [8] * 4)
