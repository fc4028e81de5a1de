"""``linearize``, ``hvp``, Jacobians by several arguments, and randomness under ``vmap``."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella.errors import OptionError, ShapeError

X = lm.asarray(np.random.default_rng(0).normal(size=(3,)))
Y = lm.asarray(np.random.default_rng(1).normal(size=(2,)))


def f(x: lm.Tensor, y: lm.Tensor) -> lm.Tensor:
    return lm.sum(lm.sin(x)) * y * y + lm.sum(x * x)


def close(a: lm.Tensor, b: np.ndarray | lm.Tensor) -> None:
    np.testing.assert_allclose(a.numpy(), np.asarray(b), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("jit", [False, True])
def test_linearize(jit: bool) -> None:
    def both(x: lm.Tensor, y: lm.Tensor, dx: lm.Tensor, dy: lm.Tensor) -> tuple[lm.Tensor, ...]:
        out, linear = lm.linearize(f, x, y)
        return out, linear(dx, dy), linear(dx * 2, dy * 2)

    out, once, twice = (lm.jit(both) if jit else both)(X, Y, X + 1, Y - 1)
    value, tangent = lm.jvp(f, (X, Y), (X + 1, Y - 1))
    close(out, value)
    close(once, tangent)
    close(twice, tangent * 2)
    out, linear, aux = lm.linearize(lambda x: (x * x, {"twice": x * 2}), X, has_aux=True)
    close(aux["twice"], X * 2)
    close(lm.vmap(linear)(lm.eye(3, dtype=lm.float64)), np.diag(2 * X.numpy()))
    with pytest.raises(ShapeError):
        linear(Y)


def test_hvp() -> None:
    g = lambda x, y: lm.sum(f(x, y))  # noqa: E731
    found = lm.hvp(g, (X, Y), (X * 2, Y + 1))
    h = lm.hessian(g, argnums=(0, 1))(X, Y)
    v = (2 * X.numpy(), Y.numpy() + 1)
    for row, one in zip(h, found, strict=True):
        close(one, row[0].numpy() @ v[0] + row[1].numpy() @ v[1])


@pytest.mark.parametrize("jacobian", [lm.jacrev, lm.jacfwd])
def test_jacobians_by_several_arguments(jacobian: type) -> None:
    by_x, by_y = jacobian(f, argnums=(0, 1))(X, Y)
    x, y = X.numpy(), Y.numpy()
    close(by_x, np.outer(y * y, np.cos(x)) + 2 * x)
    close(by_y, np.diag(2 * y * np.sin(x).sum()))
    only, aux = jacobian(lambda y: ({"a": f(X, y)}, y * 3), has_aux=True)(Y)
    close(only["a"], by_y)
    close(aux, Y * 3)


def test_randomness_under_vmap() -> None:
    g = lambda x: x + lm.random.normal((2,))  # noqa: E731
    x = lm.zeros((4, 2))
    with pytest.raises(OptionError, match="randomness="):
        lm.vmap(g)(x)
    lm.manual_seed(0)
    same = lm.vmap(g, randomness="same")(x).numpy()
    assert (same == same[0]).all()
    lm.manual_seed(0)
    assert np.array_equal(same[0], lm.random.normal((2,)).numpy())
    for wrap in (lambda f: f, lm.jit):
        lm.manual_seed(0)
        different = wrap(lm.vmap(g, randomness="different"))
        first, second = different(x).numpy(), different(x).numpy()
        assert len(np.unique(np.concatenate([first, second]))) == 16
        lm.manual_seed(0)
        assert np.array_equal(first, different(x).numpy())
    nested = lm.vmap(lm.vmap(g, randomness="different"), randomness="different")
    assert len(np.unique(nested(lm.zeros((3, 4, 2))).numpy())) == 24
    with pytest.raises(OptionError, match="did you mean"):
        lm.vmap(g, randomness="differnt")
