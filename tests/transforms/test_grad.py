"""grad, value_and_grad, vjp, Jacobians and Hessians, against finite differences and by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.ir.node import topological
from tests.transforms.numeric import derivative

RNG = np.random.default_rng(2)
A = RNG.normal(size=(3, 3))

SCALARS: list[Callable[[Any], Any]] = [
    lambda x: (lm.tanh(x) * x).sum(),
    lambda x: lm.logsumexp(x @ lm.asarray(A), 1).mean(),
    lambda x: ((x @ x.T) ** 2).sum() / (1 + (x**2).sum()),
    lambda x: lm.sort(x, 0)[1].prod() + lm.exp(x[0, 1:] * x[1, :2]).sum(),
    lambda x: nn.functional.softmax(x, 0)[0].square().sum(),
    lambda x: lm.where(x > 0, x**3, lm.sin(x)).sum() * x.max(),
    lambda x: nn.functional.layer_norm(x, (3,)).mul(lm.cumsum(x, 1)).sum(),
    lambda x: lm.einsum("ij,kj,kl,il->", x, x, x, x),
]


def on_array(f: Callable[[Any], Any]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda a: f(lm.asarray(a)).numpy()


@pytest.mark.parametrize("number", range(len(SCALARS)))
def test_first_to_third_order(number: int) -> None:
    f = SCALARS[number]
    x = RNG.normal(size=(2, 3))
    value, first = lm.value_and_grad(f)(x)
    np.testing.assert_allclose(value.numpy(), f(lm.asarray(x)).numpy(), rtol=1e-12)
    np.testing.assert_allclose(first.numpy(), derivative(on_array(f), x), rtol=1e-6, atol=1e-8)
    second = lm.hessian(f)(x)
    want = derivative(on_array(lm.grad(f)), x)
    np.testing.assert_allclose(second.numpy(), want, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        lm.jacrev(lm.grad(f))(x).numpy(), second.numpy(), rtol=1e-9, atol=1e-11
    )
    v = lm.asarray(RNG.normal(size=(2, 3)))

    def curvature(y: Any) -> Any:
        return (lm.grad(lambda z: (lm.grad(f)(z) * v).sum())(y) * v).sum()

    third = lm.grad(curvature)(lm.asarray(x))
    want = derivative(on_array(curvature), x)
    np.testing.assert_allclose(third.numpy(), want, rtol=1e-5, atol=1e-6)


def test_high_orders_of_a_scalar() -> None:
    f = lm.sin
    want = [np.sin, np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x)]
    for order in range(6):
        got = f(lm.asarray(0.7, dtype=lm.float64))
        np.testing.assert_allclose(got.item(), want[order % 4](0.7), rtol=1e-12)
        f = lm.grad(f)


def test_a_derivative_leaves_other_uses_of_its_argument_alone() -> None:
    x = lm.asarray(3.0)
    assert lm.grad(lambda y: x * y)(x).item() == 3
    assert lm.grad(lambda x: x * lm.grad(lambda y: x + y)(x))(x).item() == 1
    assert lm.grad(lambda x: x * lm.grad(lambda y: x * y)(x))(x).item() == 6
    assert lm.grad(lambda x: lm.stop_gradient(x) * x)(x).item() == 3
    assert lm.grad(lambda y: y * 0 + 2.0)(x).item() == 0
    assert lm.grad(lambda y: lm.ones(()))(x).item() == 0


def test_argument_numbers() -> None:
    def f(a: Any, b: Any, *, c: float = 1.0) -> Any:
        return (a * b * b * c).sum()

    a, b = lm.asarray([1.0, 2.0]), lm.asarray([3.0, 4.0])
    assert lm.grad(f)(a, b).tolist() == [9, 16]
    assert lm.grad(f, 1)(a, b, c=2.0).tolist() == [12, 32]
    assert lm.grad(f, -1)(a, b).tolist() == [6, 16]
    first, second = lm.grad(f, (1, 0))(a, b)
    assert first.tolist() == [6, 16] and second.tolist() == [9, 16]
    (only,) = lm.grad(f, (0,))(a, b)
    assert only.tolist() == [9, 16]
    assert lm.grad(f)(a, a).tolist() == [1, 4]  # one tensor twice: by the first only
    assert lm.jacrev(lambda a, b: a * b, 1)(a, b).tolist() == [[1, 0], [0, 2]]


def test_auxiliary_output() -> None:
    def f(x: Any) -> Any:
        return (x * x).sum(), {"twice": x * 2, "text": "t"}

    (value, aux), g = lm.value_and_grad(f, has_aux=True)(lm.asarray([3.0]))
    assert value.item() == 9 and aux["twice"].tolist() == [6] and g.tolist() == [6]
    g, aux = lm.grad(f, has_aux=True)(lm.asarray([3.0]))
    assert g.tolist() == [6] and aux["text"] == "t"
    out, pull, aux = lm.vjp(f, lm.asarray([3.0]), has_aux=True)
    assert out.item() == 9 and pull(lm.asarray(1.0))[0].tolist() == [6] and aux["text"] == "t"


def test_trees_of_arguments() -> None:
    p = {"w": np.array([1.0, 2.0]), "rest": (3.0, None, [np.array(4.0)], 5)}

    def f(p: Any) -> Any:
        return (p["w"] ** 2).sum() * p["rest"][0] + p["rest"][2][0] * p["rest"][3]

    g = lm.grad(f)(p)
    assert g["w"].tolist() == [6, 12] and g["rest"][0].item() == 5
    assert g["rest"][1] is None and g["rest"][2][0].item() == 5 and g["rest"][3] == 5


def test_integers_among_the_arguments_have_gradient_zero() -> None:
    g = lm.grad(lambda p: (p["x"] * p["n"]).sum())({"x": lm.ones(2), "n": lm.asarray([2, 3])})
    assert g["x"].tolist() == [2, 3] and g["n"].tolist() == [0, 0] and g["n"].dtype is lm.int64


def test_modules_are_arguments() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    x = RNG.normal(size=(6, 3)).astype(np.float32)

    def loss(model: Any, x: Any) -> Any:
        return model(x).square().mean()

    value, grads = lm.value_and_grad(loss)(model, lm.asarray(x))
    assert type(grads) is nn.Sequential and model[1].num_batches_tracked.item() == 1
    assert abs(model[1].running_mean.numpy()).sum() > 0
    want = loss(model, lm.asarray(x))
    want.backward()
    assert abs(value.item() - want.item()) < 1e-6
    for p, g in zip(model.parameters(), grads.parameters(), strict=True):
        np.testing.assert_allclose(g.numpy(), p.grad.numpy(), rtol=1e-5, atol=1e-6)
    moved = lm.tree.map(lambda p, g: p - 0.05 * g, model, grads)
    assert loss(moved, lm.asarray(x)).item() < value.item()


def test_backward_inside_and_outside_of_grad() -> None:
    w = lm.asarray([2.0]).requires_grad_()
    g = lm.grad(lambda x: (x * x * w).sum())(lm.asarray([3.0]))
    g.sum().backward()
    assert g.tolist() == [12] and w.grad.tolist() == [6]
    with lm.no_grad():
        assert lm.grad(lambda x: (x * x).sum())(lm.asarray([3.0])).tolist() == [6]


def test_pullbacks() -> None:
    def f(x: Any, y: Any) -> Any:
        return {"p": x * y, "n": lm.argmax(x), "s": x.sum()}

    x, y = RNG.normal(size=3), RNG.normal(size=3)
    out, pull = lm.vjp(f, x, y)
    np.testing.assert_allclose(out["p"].numpy(), x * y)
    seeds = {"p": lm.asarray([1.0, 2.0, 3.0]), "n": lm.asarray(0), "s": lm.asarray(2.0)}
    for _ in range(2):
        gx, gy = pull(seeds)
        np.testing.assert_allclose(gx.numpy(), y * [1, 2, 3] + 2)
        np.testing.assert_allclose(gy.numpy(), x * [1, 2, 3])
        assert gx.dtype is lm.float64
    with pytest.raises(ShapeError, match="tree like the output"):
        pull(lm.ones(3))
    with pytest.raises(ShapeError, match=r"cotangent of shape \(2,\)"):
        pull({**seeds, "p": lm.ones(2)})


@pytest.mark.parametrize("jacobian", [lm.jacrev, lm.jacfwd])
def test_jacobians_of_trees(jacobian: Any) -> None:
    def f(p: Any) -> Any:
        return {"m": p["a"][:, None] * p["b"] ** 2, "s": p["a"].sum()}

    p = {"a": RNG.normal(size=2), "b": RNG.normal(size=3)}
    found = jacobian(f)(p)
    for out in ("m", "s"):
        for name in ("a", "b"):

            def part(v: np.ndarray, name: str = name, out: str = out) -> np.ndarray:
                return f({**{k: lm.asarray(a) for k, a in p.items()}, name: lm.asarray(v)})[
                    out
                ].numpy()

            want = derivative(part, p[name])
            np.testing.assert_allclose(found[out][name].numpy(), want, rtol=1e-7, atol=1e-8)


def test_hessian_of_a_tree() -> None:
    p = {"a": lm.asarray([1.0, 2.0]), "b": lm.asarray([3.0, 4.0, 5.0])}
    h = lm.hessian(lambda p: (p["a"].sum() ** 2) * (p["b"] ** 2).sum())(p)
    assert h["a"]["b"].shape == (2, 3) and h["b"]["a"].shape == (3, 2)
    np.testing.assert_allclose(h["a"]["b"].numpy(), np.tile(4 * 3 * np.array([3.0, 4, 5]), (2, 1)))
    np.testing.assert_allclose(h["b"]["a"].numpy(), h["a"]["b"].numpy().T)
    np.testing.assert_allclose(h["a"]["a"].numpy(), np.full((2, 2), 100.0))


@pytest.mark.parametrize(("act", "kind", "match"), [
    (lambda: lm.grad(lambda x: x)(lm.ones(2)), DTypeError, r"float32\[2\]"),
    (lambda: lm.grad(lambda x: x.astype("int32").sum())(lm.ones(2)), DTypeError, "int64"),
    (lambda: lm.grad(lambda x: "no")(lm.ones(2)), DTypeError, "returned str"),
    (lambda: lm.grad(lambda x: x)(3), DTypeError, "hold int"),
    (lambda: lm.grad(lambda x: x.sum())(lm.arange(3)), DTypeError, r"int64\[3\]"),
    (lambda: lm.grad(lambda x: x, 1)(lm.ones(())), OptionError, "1 positional"),
    (lambda: lm.grad(lambda x, y: x, (0, -2))(lm.ones(()), 1), OptionError, "twice"),
    (lambda: lm.grad(lambda x: x, has_aux=True)(lm.ones(())), OptionError, "pair"),
    (lambda: lm.vjp(lambda x: "no", lm.ones(2)), DTypeError, "returned str"),
    (lambda: lm.vjp(lambda x: {"a": [x, None, 3]}, lm.ones(2)), DTypeError, r"\['a'\]\[2\]"),
])  # fmt: skip
def test_errors(act: Callable[[], Any], kind: Any, match: str) -> None:
    with pytest.raises(kind, match=match):
        act()


def test_an_exception_inside_leaves_everything() -> None:
    w = lm.ones(2).requires_grad_()

    def f(x: Any) -> Any:
        (x * w).sum()
        raise KeyError

    with pytest.raises(KeyError):
        lm.grad(f)(lm.ones(2))
    assert w.grad is None and lm.is_grad_enabled()


def test_results_have_no_history_of_the_calls_own():
    x = lm.asarray([1.0, 2.0])

    def cube(x):
        return (x**3).sum()

    held = []

    def with_aux(x):
        held.append(x)
        x += 1
        return (x * x).sum(), {"h": x * 2, "n": 3}

    y = lm.asarray([1.0, 2.0])
    out, pull = lm.vjp(lambda x: x**3, x)
    results = [
        *lm.value_and_grad(cube)(x), lm.grad(lm.grad(lambda x: x**3))(2.0), out, *pull(x),
        *lm.jvp(cube, (x,), (x,)), lm.jacrev(lm.exp)(x), lm.jacfwd(lm.exp)(x), lm.hessian(cube)(x),
        lm.grad(lm.jit(cube))(x), lm.value_and_grad(with_aux, has_aux=True)(y)[0][1]["h"], y,
    ]  # fmt: skip
    assert [r.requires_grad for r in results] == [False] * len(results)
    np.testing.assert_allclose(y.numpy(), [2.0, 3.0])


def test_a_descent_keeps_no_graph_of_earlier_steps():
    x = lm.asarray(np.ones(3, np.float32))
    sizes = []
    for _ in range(6):
        x = x - 0.1 * lm.grad(lambda x: (x**4).sum())(x)
        lm.eval(x)
        sizes.append(len(topological([x.node])))
    assert sizes[-1] == sizes[0]


def test_results_keep_the_history_of_leaves_outside():
    w = lm.asarray([2.0]).requires_grad_()
    found = lm.grad(lambda x: (x * x * w).sum())(lm.asarray([3.0]))
    assert found.requires_grad
    found.sum().backward()
    assert w.grad.tolist() == [6.0]
    model = nn.Linear(2, 1)
    (_, same), _ = lm.value_and_grad(lambda x: ((x * x).sum(), model), has_aux=True)(w)
    assert same is model


def test_real_functions_take_real_cotangents_and_tangents() -> None:
    _, pull = lm.vjp(lm.sin, lm.ones(2))
    with pytest.raises(DTypeError, match=r"\[vjp\] a cotangent of complex64"):
        pull(lm.ones(2) * 1j)
    with pytest.raises(DTypeError, match=r"\[jvp\] a tangent of complex64"):
        lm.jvp(lm.sin, (lm.ones(2),), (lm.ones(2) * 1j,))
