"""Forward mode against reverse mode and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from lamella.errors import DTypeError, OptionError, ShapeError
from tests.transforms.numeric import derivative

RNG = np.random.default_rng(4)

FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda x: lm.tanh(x) * x.sum(), lambda x: x @ x.T, lambda x: lm.sort(x, 1),
    lambda x: lm.concat([x, x * 2], 1)[:, ::-2], lambda x: nn.functional.softmax(x, -1),
    lambda x: x.max(0), lambda x: lm.cumsum(x, 0).prod(1), lambda x: x[[1, 0, 1]] ** 2,
    lambda x: x.at[0].add(x[1]), lambda x: nn.functional.gelu(x).var(0),
    lambda x: lm.einsum("ij,kj->ik", x, lm.exp(x)), lambda x: lm.pad(x, 1).reshape(-1),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_tangents(number: int) -> None:
    f = FUNCTIONS[number]
    x, v = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3))
    out, tangent = lm.jvp(f, (x,), (v,))
    np.testing.assert_allclose(out.numpy(), f(lm.asarray(x)).numpy(), rtol=1e-12)
    jacobian = derivative(lambda a: f(lm.asarray(a)).numpy(), x)
    want = np.tensordot(jacobian, v, 2)
    np.testing.assert_allclose(tangent.numpy(), want, rtol=1e-6, atol=1e-7)
    forward, reverse = lm.jacfwd(f)(x).numpy(), lm.jacrev(f)(x).numpy()
    np.testing.assert_allclose(forward, reverse, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(forward, jacobian, rtol=1e-6, atol=1e-7)


def test_orders_and_modes_mix() -> None:
    """The second derivative by all four combinations of modes."""
    x, one = lm.asarray(0.3, dtype=lm.float64), lm.asarray(1.0, dtype=lm.float64)

    def f(x: Any) -> Any:
        return lm.exp(x * x) * lm.sin(x)

    def forward(f: Any) -> Any:
        return lambda x: lm.jvp(f, (x,), (one,))[1]

    first = derivative(lambda a: f(lm.asarray(a)).numpy(), np.array(0.3))
    second = derivative(lambda a: forward(f)(lm.asarray(a)).numpy(), np.array(0.3))
    np.testing.assert_allclose(forward(f)(x).item(), first, rtol=1e-8)
    for outer in (forward, lm.grad):
        for inner in (forward, lm.grad):
            np.testing.assert_allclose(outer(inner(f))(x).item(), second, rtol=1e-8)
            assert np.isfinite(outer(inner(lm.grad(forward(f))))(x).item())


def test_trees_integers_and_aux() -> None:
    def f(p: Any, n: Any) -> Any:
        return {"y": p["a"] * p["b"] * n, "i": n + 1}, "aux"

    primals = ({"a": lm.ones(2), "b": 3.0}, lm.asarray(2))
    out, tangent, aux = lm.jvp(f, primals, ({"a": lm.ones(2), "b": 10.0}, 0), has_aux=True)
    assert out["y"].tolist() == [6, 6] and tangent["y"].tolist() == [26, 26]
    assert tangent["i"].item() == 0 and aux == "aux"


def test_tangents_take_the_dtype_of_primals() -> None:
    x = lm.ones(2, dtype=lm.float64)
    out, tangent = lm.jvp(lambda x: x * x, (x,), (lm.ones(2),))
    assert out.dtype is lm.float64 and tangent.dtype is lm.float64 and tangent.tolist() == [2, 2]
    out, tangent = lm.jvp(lambda x: x * 0 + 1, (x,), (np.ones(2, np.float32),))
    assert tangent.tolist() == [0, 0]


def test_confusion_of_perturbations() -> None:
    """d/dx (x · d/dy (x + y)) is 1, not 2."""
    one = lm.asarray(1.0)

    def outer(x: Any) -> Any:
        return x * lm.jvp(lambda y: x + y, (one,), (one,))[1]

    assert lm.jvp(outer, (one,), (one,))[1].item() == 1


@pytest.mark.parametrize(("act", "kind", "match"), [
    (lambda: lm.jvp(lambda x: x, (lm.ones(2),), (lm.ones(3),)), ShapeError, r"shape \(3,\)"),
    (lambda: lm.jvp(lambda x: x, (lm.ones(2),), ()), ShapeError, "one tangent for each"),
    (lambda: lm.jvp(lambda x: x, (lm.ones(2),), ("a",)), DTypeError, "str"),
    (lambda: lm.jvp(lambda x: "a", (lm.ones(2),), (lm.ones(2),)), DTypeError, "returned str"),
    (lambda: lm.jvp(lambda x: x, (1,), (1,)), DTypeError, "hold int"),
    (lambda: lm.jvp(lambda x: x, (1.0,), (1.0,), has_aux=True), OptionError, "pair"),
])  # fmt: skip
def test_errors(act: Callable[[], Any], kind: Any, match: str) -> None:
    with pytest.raises(kind, match=match):
        act()


def test_tangents_of_a_module_with_counters() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).eval()
    x = lm.asarray(RNG.normal(size=(4, 3)), dtype="float32")

    def loss(model: nn.Module) -> lm.Tensor:
        return (model(x) ** 2).sum()

    def along(v: float) -> float:
        moved = lm.tree.map(lambda p: p + v * p if p.dtype.inexact else p, net)
        return loss(moved).item()

    _, slope = lm.jvp(loss, (net,), (net,))
    assert slope.item() == pytest.approx((along(1e-2) - along(-1e-2)) / 2e-2, rel=1e-3)
    rows = lm.jacfwd(loss)(net)[0].weight
    np.testing.assert_allclose(rows.numpy(), lm.grad(loss)(net)[0].weight.numpy(), rtol=1e-4)
    twice = lm.hessian(loss)(net)[0].bias[0].bias
    (pushed,) = lm.hvp(loss, (net,), (lm.tree.map(lambda p: p * 0, net),))
    assert twice.shape == (2, 2)
    assert not pushed[0].bias.any()
