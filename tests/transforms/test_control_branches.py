"""``cond`` and ``switch``: only the chosen branch runs, through every transformation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella.errors import DTypeError, OptionError, ShapeError, TraceError

Function = Callable[..., Any]
X = lm.asarray(np.random.default_rng(0).normal(size=(3,)))
W = lm.asarray(np.random.default_rng(1).normal(size=(3,)))


def chosen(i: lm.Tensor, x: lm.Tensor, w: lm.Tensor) -> lm.Tensor:
    return lm.switch(
        i, [lambda x: lm.sin(x) * w, lambda x: x * x, lambda x: lm.zeros_like(x), lambda x: x], x
    )


def plain(i: int, x: lm.Tensor, w: lm.Tensor) -> lm.Tensor:
    return [lm.sin(x) * w, x * x, lm.zeros_like(x), x][min(max(i, 0), 3)]


def same(found: Any, wanted: Any) -> None:
    for a, b in zip(lm.tree.leaves(found), lm.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-14)


WRAPPED: dict[str, Function] = {
    "value": lambda f, i: lambda x, w: f(i, x, w),
    "gradient": lambda f, i: lm.grad(lambda x, w: lm.sum(f(i, x, w) ** 2), argnums=(0, 1)),
    "tangent": lambda f, i: lambda x, w: lm.jvp(lambda x, w: f(i, x, w), (x, w), (w, x)),
    "hessian": lambda f, i: lm.hessian(lambda x, w: lm.sum(f(i, x, w) ** 3)),
}


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", WRAPPED)
def test_switch_agrees_with_python(name: str, jit: bool) -> None:
    wrapped = WRAPPED[name]
    g = lambda i, x, w: wrapped(chosen, i)(x, w)  # noqa: E731
    g = lm.jit(g) if jit else g
    for i in (-2, 0, 1, 2, 3, 9):
        same(g(lm.asarray(i), X, W), wrapped(plain, i)(X, W))


@pytest.mark.parametrize("name", WRAPPED)
def test_vmap(name: str) -> None:
    wrapped = WRAPPED[name]
    xs = lm.stack([X, X * 2, X - 1, X * W, X])
    for index in (lm.asarray([0, 1, 2, 3, -1]), lm.asarray(1)):
        axes = (0 if index.ndim else None, 0, None)
        found = lm.vmap(lambda i, x, w: wrapped(chosen, i)(x, w), in_axes=axes)(index, xs, W)
        single = [index[k] if index.ndim else index for k in range(5)]
        each = [wrapped(plain, int(single[k].item()))(xs[k], W) for k in range(5)]
        for k, wanted in enumerate(each):
            same(lm.tree.map(lambda a, k=k: a[k], found), wanted)


def test_only_the_chosen_branch_runs() -> None:
    calls: list[str] = []

    def noting(name: str) -> Function:
        def run(x: np.ndarray) -> np.ndarray:
            calls.append(name)
            return x

        return lambda x: lm.pure_callback(run, x, x)

    f = lm.jit(lambda p, x: lm.cond(p, noting("yes"), noting("no"), x))
    for flag in (True, False, False):
        f(lm.asarray(flag), X).numpy()
    assert calls == ["yes", "no", "no"]


def test_python_values_choose_at_once() -> None:
    assert lm.cond(True, lambda: 1, lambda: 2) == 1
    assert lm.switch(7, [lambda: 1, lambda: 2]) == 2


def test_trees_and_nesting() -> None:
    def inner(x: lm.Tensor) -> Any:
        return lm.cond(lm.sum(x) > 0, lambda: {"a": x, "b": (x, None)},
                       lambda: {"a": -x, "b": (x * 0, None)})  # fmt: skip

    f = lm.jit(lambda x: lm.cond(lm.max(x) > 5, lambda x: {"a": x, "b": (x, None)}, inner, x))
    for values in ([1.0, 2.0], [-1.0, -2.0], [-9.0, 6.0]):
        x = np.asarray(values)
        found = f(lm.asarray(x))
        keep = x.max() > 5 or x.sum() > 0
        np.testing.assert_array_equal(found["a"].numpy(), x if keep else -x)
        np.testing.assert_array_equal(found["b"][0].numpy(), x if keep else x * 0)


def test_inside_loops() -> None:
    def collatz(n: lm.Tensor) -> lm.Tensor:
        step = lambda c: (  # noqa: E731
            lm.cond(c[0] % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, c[0]),
            c[1] + 1,
        )
        return lm.while_loop(lambda c: c[0] > 1, step, (n, 0))[1]

    numbers = [1, 2, 7, 27]
    assert [lm.jit(collatz)(lm.asarray(n)).item() for n in numbers] == [0, 1, 16, 111]
    assert lm.vmap(collatz)(lm.asarray(numbers)).tolist() == [0, 1, 16, 111]

    def f(x: lm.Tensor) -> lm.Tensor:
        body = lambda c, x: (lm.cond(x > 0, lambda c: c * x, lambda c: c + x, c), None)  # noqa: E731
        return lm.scan(body, x[0], x)[0]

    x = lm.asarray([0.5, -2.0, 3.0, -0.25, 1.5], dtype=lm.float64)
    value = x.numpy()[0]
    for each in x.numpy():
        value = value * each if each > 0 else value + each
    assert f(x).item() == pytest.approx(value)
    step = 1e-6 * np.eye(5)
    wanted = [(f(x + e).item() - f(x - e).item()) / 2e-6 for e in step]
    np.testing.assert_allclose(lm.grad(f)(x).numpy(), wanted, rtol=1e-6)


def test_state_that_one_branch_changes() -> None:
    counter = lm.asarray(0)

    def count() -> lm.Tensor:
        nonlocal counter
        counter += 1
        return lm.random.normal((2,))

    lm.manual_seed(1)
    for flag in (True, False, True):
        lm.cond(lm.asarray(flag), count, lambda: lm.zeros(2))
    after = lm.random.normal((2,))
    lm.manual_seed(1)
    wanted = [lm.random.normal((2,)) for _ in range(3)]
    assert counter.item() == 2
    same(after, wanted[2])


def test_open_sizes() -> None:
    f = lm.jit(lambda x: lm.cond(lm.sum(x) > 0, lambda: x * 2, lambda: -x), dynamic={"x": {0: "n"}})
    for n in (2, 5, 9):
        x = np.arange(n) - 1.5
        np.testing.assert_array_equal(f(lm.asarray(x)).numpy(), 2 * x if x.sum() > 0 else -x)
    assert f.programs == 1


def test_errors() -> None:
    flag = lm.asarray(True)
    with pytest.raises(OptionError, match="branch 0 returns"):
        lm.cond(flag, lambda: (1.0,), lambda: 1.0)
    with pytest.raises(ShapeError, match=r"at \['a'\] branch 0 returns float32\[3\] and branch 1"):
        lm.cond(flag, lambda: {"a": lm.ones(2)}, lambda: {"a": lm.ones(3)})
    with pytest.raises(DTypeError, match="same shapes and dtypes"):
        lm.cond(flag, lambda: lm.asarray(1), lambda: lm.asarray(1.0))
    with pytest.raises(ShapeError, match=r"lm\.where"):
        lm.cond(lm.asarray([True, False]), lambda: 1, lambda: 2)
    with pytest.raises(DTypeError, match="compare"):
        lm.cond(lm.asarray(1.0), lambda: 1, lambda: 2)
    with pytest.raises(DTypeError, match="integer"):
        lm.switch(lm.asarray(1.0), [lambda: 1])
    with pytest.raises(OptionError, match="no branches"):
        lm.switch(lm.asarray(1), [])
    with pytest.raises(TraceError, match="looked at"):
        lm.cond(flag, lambda x: float(x), lambda x: x, lm.ones(()))
