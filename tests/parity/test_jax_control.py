"""Control flow, its derivatives and batching, compared with JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm

jax = pytest.importorskip("jax", reason="make parity installs JAX")
jnp, lax = jax.numpy, jax.lax

Function = Callable[..., Any]
DRAW = np.random.default_rng(0)
X, W, XS = DRAW.normal(size=(3,)), DRAW.normal(size=(3, 3)) / 2, DRAW.normal(size=(6, 3))


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def scan(xp: Any, loops: Any) -> Function:
    def f(x: Any, w: Any, xs: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            h, count = carry
            h = xp.tanh(h @ w + x)
            return (h, count + 1), {"y": h * h, "last": x}

        (h, _), rows = loops.scan(body, (x, 0), xs, reverse=True)
        return xp.sum(h) + xp.sum(xp.sin(rows["y"])) + xp.sum(rows["last"] ** 2)

    return f


def fori(xp: Any, loops: Any) -> Function:
    return lambda x, w, xs: xp.sum(
        loops.fori_loop(1, 5, lambda i, c: xp.sin(c @ w) * i + xs[0], x)
    )  # fmt: skip


def cond(xp: Any, loops: Any) -> Function:
    def f(x: Any, w: Any, xs: Any) -> Any:
        choose = lambda c, x: loops.cond(  # noqa: E731
            xp.sum(x) > 0, lambda c: c * x, lambda c: xp.sin(c @ w), c
        )
        return xp.sum(loops.scan(lambda c, x: (choose(c, x), None), x, xs)[0])

    return f


def switch(xp: Any, loops: Any) -> Function:
    def f(x: Any, w: Any, xs: Any) -> Any:
        sides = [lambda c: c * 2, lambda c: c @ w, lambda c: xp.exp(c)]
        total = xp.sum(x) * 0
        for i in (-1, 0, 1, 2, 5):
            total = total + xp.sum(loops.switch(xp.asarray(i), sides, x))
        return total

    return f


def mapped(xp: Any, loops: Any) -> Function:
    return lambda x, w, xs: xp.sum(loops.map(lambda row: xp.sum(xp.sin(row @ w) * x), xs) ** 2)


def running(xp: Any, loops: Any) -> Function:
    combine = lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1])  # noqa: E731
    return lambda x, w, xs: xp.sum(
        loops.associative_scan(combine, (xp.tanh(xs) + x, xs))[1] ** 2
    )  # fmt: skip


CASES = (scan, fori, cond, switch, mapped, running)
WRAPPED: dict[str, Callable[[Any, Function], Function]] = {
    "value": lambda m, f: f,
    "gradient": lambda m, f: m.grad(f, argnums=(0, 1, 2)),
    "tangent": lambda m, f: lambda *a: m.jvp(f, a, a),
    "hessian": lambda m, f: m.hessian(f),
    "batched gradient": lambda m, f: lambda x, w, xs: m.vmap(
        m.grad(f, argnums=(0, 1)), in_axes=(0, None, None)
    )(x * np.arange(1.0, 4.0)[:, None], w, xs),
}


@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.parametrize("case", CASES)
def test_control(case: Function, name: str) -> None:
    wrap = WRAPPED[name]
    found = lm.jit(wrap(lm, case(lm, lm)))(*(lm.asarray(a) for a in (X, W, XS)))
    wanted = jax.jit(wrap(jax, case(jnp, lax)))(X, W, XS)
    pairs = zip(lm.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(a.numpy(), np.asarray(b), rtol=1e-8, atol=1e-10)


def test_while_loop() -> None:
    def f(xp: Any, loops: Any) -> Function:
        return lambda x: loops.while_loop(
            lambda c: xp.sum(c[0]) < 50.0, lambda c: (c[0] * 1.5 + 1, c[1] + 1), (x, 0)
        )

    x = np.abs(X)
    for wrap in (lambda m, f: f, lambda m, f: lambda x: m.jvp(lambda x: f(x)[0], (x,), (x,))):
        found = wrap(lm, f(lm, lm))(lm.asarray(x))
        wanted = wrap(jax, f(jnp, lax))(x)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), np.asarray(b), rtol=1e-12)
    many = np.stack([x, x * 9, x * 99])
    found, wanted = lm.vmap(f(lm, lm))(lm.asarray(many)), jax.vmap(f(jnp, lax))(many)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), np.asarray(b), rtol=1e-12)


def test_custom_rules() -> None:
    def f(m: Any, xp: Any) -> Function:
        @m.custom_vjp
        def g(x: Any) -> Any:
            return xp.sin(x)

        g.defvjp(lambda x: (g(x), x), lambda x, ct: (ct * x * 3,))

        @m.custom_jvp
        def h(x: Any) -> Any:
            return xp.exp(x)

        @h.defjvp
        def rule(primals: Any, tangents: Any) -> Any:
            y = h(primals[0])
            return y, tangents[0] * y * 2

        return lambda x: xp.sum(g(h(x)) * h(g(x)))

    for wrap in (
        lambda m, f: f,
        lambda m, f: m.grad(f),
        lambda m, f: m.grad(lambda y: (m.grad(f)(y) ** 2).sum()),
        lambda m, f: m.vmap(m.grad(f)),
    ):
        x = np.stack([X, -X])
        found = wrap(lm, f(lm, lm))(lm.asarray(x)).numpy()
        np.testing.assert_allclose(found, np.asarray(wrap(jax, f(jax, jnp))(x)), rtol=1e-10)
