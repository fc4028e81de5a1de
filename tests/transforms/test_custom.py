"""``custom_vjp``, ``custom_jvp``, ``custom_batch``: the rules are used, and compose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella.errors import DTypeError, GradientError, MissingRuleError, OptionError, ShapeError

X = lm.asarray(np.random.default_rng(0).normal(size=(4,)))
Y = lm.asarray(np.random.default_rng(1).normal(size=(4,)))


@lm.custom_vjp
def product(x: lm.Tensor, y: lm.Tensor) -> lm.Tensor:
    return x * lm.sin(y)


def _forward(x: lm.Tensor, y: lm.Tensor) -> Any:
    return product(x, y), {"x": x, "y": y}


def _backward(kept: Any, g: lm.Tensor) -> Any:
    # ten times the true derivative by x, so that it shows
    return g * lm.sin(kept["y"]) * 10, g * kept["x"] * lm.cos(kept["y"])


product.defvjp(_forward, _backward)


def close(found: lm.Tensor, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-10)


@pytest.mark.parametrize("jit", [False, True])
def test_vjp(jit: bool) -> None:
    compiled = lm.jit if jit else lambda f: f
    x, y = X.numpy(), Y.numpy()
    f = lambda x, y: lm.sum(product(x, y) ** 2)  # noqa: E731
    value, (gx, gy) = compiled(lm.value_and_grad(f, argnums=(0, 1)))(X, Y)
    assert value.item() == pytest.approx(((x * np.sin(y)) ** 2).sum())
    close(gx, 20 * x * np.sin(y) ** 2)
    close(gy, 2 * x * np.sin(y) * x * np.cos(y))
    second = compiled(lm.grad(lambda x, y: lm.sum(lm.grad(f)(x, y) * y)))(X, Y)
    # d/dx of 20 product sin y * y: the rule once more
    close(second, 200 * np.sin(y) ** 2 * y)
    xs = lm.stack([X, X * 2])
    many = compiled(lm.vmap(lm.grad(f), in_axes=(0, None)))(xs, Y)
    close(many, 20 * xs.numpy() * np.sin(y) ** 2)
    each = compiled(lm.grad(lambda xs: lm.sum(lm.vmap(product, in_axes=(0, None))(xs, Y))))(xs)
    close(each, 10 * np.sin(np.stack([y, y])))


def test_backward_and_eager_values() -> None:
    x = lm.tensor(X.numpy(), requires_grad=True)
    out = product(x, Y)
    close(out, X.numpy() * np.sin(Y.numpy()))
    lm.sum(out).backward()
    close(x.grad, 10 * np.sin(Y.numpy()))


def test_inside_loops() -> None:
    f = lambda x: lm.sum(lm.scan(lambda c, y: (product(c, y), None), x, lm.stack([Y, Y]))[0])  # noqa: E731
    close(lm.jit(lm.grad(f))(X), 100 * np.sin(Y.numpy()) ** 2)
    g = lambda x: lm.sum(lm.cond(lm.sum(x) < 100, lambda: product(x, Y), lambda: x))  # noqa: E731
    close(lm.grad(g)(X), 10 * np.sin(Y.numpy()))


def test_arguments_that_are_not_differentiated() -> None:
    import functools

    @functools.partial(lm.custom_vjp, nondiff_argnums=(0, 2))
    def apply(f: Any, x: lm.Tensor, scale: float) -> lm.Tensor:
        return f(x) * scale

    apply.defvjp(lambda f, x, scale: (f(x) * scale, x), lambda f, scale, x, g: (g * scale + 7,))
    close(lm.grad(lambda x: lm.sum(apply(lm.sin, x, 3.0)))(X), np.full(4, 10.0))


def test_trees_integers_and_none() -> None:
    @lm.custom_vjp
    def pick(tree: Any, i: lm.Tensor) -> Any:
        return {"out": tree["a"][i], "index": i}

    pick.defvjp(
        lambda tree, i: ({"out": tree["a"][i], "index": i}, None),
        lambda kept, g: ({"a": X[:3] * 0 + 5 * g["out"], "b": [X * 0]}, None),
    )
    tree = {"a": lm.asarray([1.0, 2.0, 3.0], dtype=lm.float64), "b": [X]}
    g = lm.grad(lambda t: pick(t, lm.asarray(1))["out"] * 2)(tree)
    close(g["a"], np.full(3, 10.0))
    close(g["b"][0], np.zeros(4))


@lm.custom_jvp
def root(x: lm.Tensor) -> lm.Tensor:
    return lm.sqrt(x)


@root.defjvp
def _(primals: Any, tangents: Any) -> Any:
    y = root(primals[0])
    return y, tangents[0] * 0.5 / y * 10


@pytest.mark.parametrize("jit", [False, True])
def test_jvp(jit: bool) -> None:
    compiled = lm.jit if jit else lambda f: f
    x = lm.abs(X) + 1
    wanted = 5 / np.sqrt(x.numpy())
    out, tangent = compiled(lambda x: lm.jvp(root, (x,), (x * 0 + 1,)))(x)
    close(out, np.sqrt(x.numpy()))
    close(tangent, wanted)
    close(compiled(lm.grad(lambda x: lm.sum(root(x))))(x), wanted)
    close(compiled(lm.vmap(lm.grad(root)))(x), wanted)
    close(compiled(lm.vmap(lm.grad(lm.grad(root))))(x), -25 / np.sqrt(x.numpy()) ** 3)
    matrix = compiled(lm.jacfwd(root))(x)
    close(matrix, np.diag(wanted))
    looped = compiled(lm.grad(lambda x: lm.sum(lm.fori_loop(0, 2, lambda i, c: root(c), x))))(x)
    close(looped, 25 * x.numpy() ** -0.75)


def test_batch() -> None:
    seen: list[Any] = []

    @lm.custom_batch
    def f(x: lm.Tensor, w: lm.Tensor) -> lm.Tensor:
        return lm.sum(x * w)

    @f.def_vmap
    def rule(size: int, batched: Any, x: lm.Tensor, w: lm.Tensor) -> Any:
        seen.append((size, batched))
        return lm.sum(x * w, -1) * 2, True

    xs = lm.stack([X, X * 2, Y])
    close(f(X, Y), (X.numpy() * Y.numpy()).sum())
    close(lm.jit(lm.vmap(f, in_axes=(0, None)))(xs, Y), 2 * (xs.numpy() * Y.numpy()).sum(-1))
    assert seen[-1] == (3, (True, False))
    close(lm.grad(f)(X, Y), Y.numpy())
    summed = lambda xs: lm.sum(lm.vmap(f, in_axes=(0, None))(xs, Y))  # noqa: E731
    close(lm.grad(summed)(xs), 2 * np.stack([Y.numpy()] * 3))


def test_errors() -> None:
    bare = lm.custom_vjp(lambda x: x * 2)
    assert bare(lm.ones(())).item() == 2.0
    with pytest.raises(MissingRuleError, match="defvjp"):
        lm.grad(bare)(lm.ones(()))
    with pytest.raises(GradientError, match="custom_jvp"):
        lm.jvp(lambda x: product(x, Y), (X,), (X,))
    w = lm.tensor(X.numpy(), requires_grad=True)
    closes = lm.custom_vjp(lambda x: x * w)
    closes.defvjp(lambda x: (x * w, None), lambda kept, g: (g,))
    with pytest.raises(GradientError, match="closes over"):
        lm.sum(closes(lm.tensor(Y.numpy(), requires_grad=True))).backward()
    wrong = lm.custom_vjp(lambda x: x)
    wrong.defvjp(lambda x: (x, None), lambda kept, g: g)
    with pytest.raises(OptionError, match="tuple with a cotangent for each"):
        lm.grad(lambda x: lm.sum(wrong(x)))(X)
    wrong.defvjp(lambda x: (x, None), lambda kept, g: (lm.sum(g),))
    with pytest.raises(ShapeError, match="has its shape"):
        lm.grad(lambda x: lm.sum(wrong(x)))(X)
    wrong.defvjp(lambda x: x, lambda kept, g: (g,))
    with pytest.raises(OptionError, match=r"return \(result, kept\)"):
        lm.grad(lambda x: lm.sum(wrong(x)))(X)
    with pytest.raises(MissingRuleError, match="def_vmap"):
        lm.vmap(lm.custom_batch(lambda x: x))(X)
    with pytest.raises(OptionError, match="cannot be called"):
        lm.custom_vjp(3)


def test_batching_rules_that_return_something_else() -> None:
    for rule, kind in (
        (lambda n, b, x: x, OptionError),
        (lambda n, b, x: ((x, x), True), OptionError),
        (lambda n, b, x: (x.sum(), True), ShapeError),
        (lambda n, b, x: (lm.stack([x, x]), True), ShapeError),
        (lambda n, b, x: (x, False), ShapeError),
        (lambda n, b, x: (x > 0, True), DTypeError),
    ):
        f = lm.custom_batch(lambda x: x * 2)
        f.def_vmap(rule)
        with pytest.raises(kind, match="custom_batch"):
            lm.vmap(f)(lm.arange(3.0))


def test_a_forward_rule_returns_what_the_function_does() -> None:
    x = lm.asarray([1.0, 2.0, 3.0])
    for forward, kind in (
        (lambda x: (x.sum(), None), ShapeError),
        (lambda x: ((x, x), None), OptionError),
        (lambda x: (x > 0, None), DTypeError),
    ):
        f = lm.custom_vjp(lambda x: x * 2)
        f.defvjp(forward, lambda kept, g: (g,))
        assert f(x).tolist() == [2, 4, 6]
        with pytest.raises(kind, match="forward returned"):
            lm.grad(lambda x, f=f: f(x).sum())(x)
