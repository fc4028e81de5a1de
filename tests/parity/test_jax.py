"""Comparisons with JAX: functions, and derivatives of compositions to higher order."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm

jax = pytest.importorskip("jax", reason="make parity installs JAX")
jnp = jax.numpy

DRAW = np.random.default_rng(0)
UNARY = (
    "exp", "expm1", "log1p", "tanh", "sin", "cos", "tan", "sinh", "cosh", "asinh", "atan", "floor",
    "ceil", "round", "trunc", "sign", "abs", "square", "isnan", "cumsum", "argsort", "sort",
)  # fmt: skip
BINARY = (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "maximum", "minimum",
    "atan2", "logaddexp", "less", "equal",
)  # fmt: skip


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    x = DRAW.normal(size=41) * 2
    found = getattr(lm, name)(lm.asarray(x)).numpy()
    np.testing.assert_allclose(found, np.asarray(getattr(jnp, name)(x)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    x, y = DRAW.normal(size=(2, 3, 7)) * 3
    found = getattr(lm, name)(lm.asarray(x), lm.asarray(y)).numpy()
    np.testing.assert_allclose(found, np.asarray(getattr(jnp, name)(x, y)), rtol=1e-12)


def functions(xp):
    """The same functions from either library; each takes a vector and returns a number."""
    return {
        "logsumexp": lambda x: xp.log(xp.sum(xp.exp(x - xp.max(x)))) + xp.max(x),
        "softplus of products": lambda x: xp.sum(xp.log1p(xp.exp(x[:, None] * x[None, :]))),
        "attention": lambda x: xp.sum(
            xp.tanh(xp.matmul(xp.exp(-xp.square(x[:, None] - x[None, :])), x))
        ),
        "sorted": lambda x: xp.sum(xp.sort(x) * xp.arange(x.shape[0], dtype=x.dtype)),
        "cumulative": lambda x: xp.sum(xp.sin(xp.cumsum(x))),
        "indexed": lambda x: xp.sum(x[::-1][1:4] * x[xp.asarray([0, 2, 2])]),
        "normalised": lambda x: xp.sum((x - xp.mean(x)) / xp.sqrt(xp.var(x) + 1e-3) * xp.cos(x)),
    }


NAMES = tuple(functions(jnp))
POINT = DRAW.normal(size=6)


@pytest.mark.parametrize("name", NAMES)
def test_gradient(name: str) -> None:
    wanted = jax.value_and_grad(functions(jnp)[name])(jnp.asarray(POINT))
    found = lm.value_and_grad(functions(lm)[name])(lm.asarray(POINT))
    for left, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(left.numpy(), np.asarray(right), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_hessian(name: str) -> None:
    wanted = jax.hessian(functions(jnp)[name])(jnp.asarray(POINT))
    found = lm.hessian(functions(lm)[name])(lm.asarray(POINT))
    np.testing.assert_allclose(found.numpy(), np.asarray(wanted), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_batched_gradient(name: str) -> None:
    points = DRAW.normal(size=(5, 6))
    wanted = jax.vmap(jax.grad(functions(jnp)[name]))(jnp.asarray(points))
    found = lm.vmap(lm.grad(functions(lm)[name]))(lm.asarray(points))
    np.testing.assert_allclose(found.numpy(), np.asarray(wanted), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_forward_mode_through_jit(name: str) -> None:
    tangent = DRAW.normal(size=6)
    _, wanted = jax.jvp(functions(jnp)[name], (jnp.asarray(POINT),), (jnp.asarray(tangent),))
    ours = lm.jit(lambda x, t: lm.jvp(functions(lm)[name], (x,), (t,))[1])
    found = ours(lm.asarray(POINT), lm.asarray(tangent))
    np.testing.assert_allclose(found.numpy(), np.asarray(wanted), rtol=1e-9, atol=1e-11)


def test_einsum() -> None:
    a, b = DRAW.normal(size=(3, 4, 5)), DRAW.normal(size=(5, 4, 2))
    for pattern in ("ijk,kjl->il", "ijk,kjl->ijl", "ijk,kjl->"):
        found = lm.einsum(pattern, lm.asarray(a), lm.asarray(b)).numpy()
        np.testing.assert_allclose(found, np.asarray(jnp.einsum(pattern, a, b)), rtol=1e-12)
