"""``checkpoint``: equal results and derivatives, values computed again, memory that is saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from lamella.compiler.memory import assign
from lamella.compiler.pipeline import compile_graph
from lamella.errors import OptionError
from lamella.ir.node import topological
from tests.support.units import AVX2

Function = Callable[..., Any]
WIDE, DEEP = 64, 6
RNG = np.random.default_rng(0)
WEIGHTS = [lm.asarray(RNG.normal(size=(WIDE, WIDE)).astype(np.float32) / 8) for _ in range(DEEP)]
X = lm.asarray(RNG.normal(size=(32, WIDE)).astype(np.float32))
POLICIES = lm.checkpoint_policies


def block(h: lm.Tensor, w: lm.Tensor) -> lm.Tensor:
    h = lm.checkpoint_name(h @ w, "product")
    return lm.tanh(h) * lm.sin(h)


def network(wrap: Function) -> Function:
    def f(weights: list[lm.Tensor], x: lm.Tensor) -> lm.Tensor:
        for w in weights:
            x = wrap(block)(x, w)
        return lm.sum(x * x)

    return f


def arena(f: Function, *args: Any) -> int:
    """Bytes of values between that a compiled function needs at once."""
    outputs = lm.jit(f).lower(*args).outputs
    order = topological(outputs)
    inputs = [n for n in order if n.op.name == "placeholder" or n.op.name == "data"]
    scalars = [n for n in order if n.op.name == "scalar"]
    program = compile_graph(outputs, inputs, scalars, AVX2)
    return assign(program.temporaries, [int(t.nbytes) for t in program.temporaries])[1]


WRAPS: dict[str, Function] = {
    "default": lm.checkpoint,
    "everything": lm.checkpoint(policy=POLICIES.everything_saveable),
    "dots": lm.checkpoint(policy=POLICIES.dots_saveable),
    "names": lm.checkpoint(policy=POLICIES.save_only_these_names("product")),
    "other names": lm.checkpoint(policy=POLICIES.save_any_names_but_these("product")),
    "budget": lm.checkpoint(memory_budget=1 << 20),
}


@pytest.mark.parametrize("name", WRAPS)
def test_derivatives_agree(name: str) -> None:
    plain, again = network(lambda f: f), network(WRAPS[name])
    for wrap in (
        lm.value_and_grad,
        lambda f: lm.jit(lm.grad(f)),
        lambda f: lm.grad(lambda w, x: lm.sum(lm.grad(f, argnums=1)(w, x) ** 2)),
        lambda f: lambda w, x: lm.jvp(lambda x: f(w, x), (x,), (x,)),
        lambda f: lm.vmap(lm.grad(f, argnums=1), in_axes=(None, 0)),
    ):
        found, wanted = (lm.tree.leaves(wrap(f)(WEIGHTS[:2], X[:4])) for f in (again, plain))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=1e-5)


def test_memory_is_saved() -> None:
    args = (WEIGHTS, X)
    need = {name: arena(lm.grad(network(wrap)), *args) for name, wrap in WRAPS.items()}
    plain = arena(lm.grad(network(lambda f: f)), *args)
    assert need["default"] < 0.75 * plain
    assert need["default"] <= need["dots"] <= need["everything"] * 1.05
    assert need["names"] == need["dots"]


def test_products_are_computed_again_only_where_they_may_be() -> None:
    def products(wrap: Function) -> int:
        outputs = lm.jit(lm.grad(network(wrap))).lower(WEIGHTS, X).outputs
        from lamella.compiler.canonicalise import canonicalise
        from lamella.graph.inlined import expand

        return sum(n.op.kind == "contraction" for n in topological(canonicalise(expand(outputs))))

    plain = products(lambda f: f)
    assert products(WRAPS["dots"]) == products(WRAPS["everything"]) == plain
    assert products(WRAPS["default"]) == plain + DEEP


def test_a_budget_is_kept() -> None:
    def whole(budget: int | None) -> Function:
        f = network(lambda f: f)
        return f if budget is None else lm.checkpoint(f, memory_budget=budget)

    plain = arena(lm.grad(whole(None)), WEIGHTS, X)
    wanted = lm.grad(whole(None))(WEIGHTS, X)
    tried = []
    for share in (0.6, 0.8, 1.5):
        budget = int(plain * share)
        f = lm.grad(whole(budget))
        tried.append(arena(f, WEIGHTS, X))
        assert tried[-1] <= budget
        for a, b in zip(f(WEIGHTS, X), wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=1e-5)
    assert tried[0] < tried[2] <= plain * 1.1
    with pytest.raises(OptionError, match="even with the best choice"):
        lm.grad(whole(16))(WEIGHTS, X)


def test_modules_random_numbers_and_backward() -> None:
    class Net(nn.Module):
        def __init__(self, again: bool) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 1)
            self.again = again

        def inner(self, x: lm.Tensor) -> lm.Tensor:
            return nn.functional.dropout(lm.tanh(self.first(x)), 0.5, training=True)

        def forward(self, x: lm.Tensor) -> lm.Tensor:
            inner = lm.checkpoint(self.inner) if self.again else self.inner
            return lm.sum(self.second(inner(x)))

    gradients = []
    for again in (False, True):
        lm.manual_seed(0)
        net = Net(again)
        loss = net(X[:, :8])
        loss.item()
        loss.backward()
        gradients.append([p.grad.numpy() for p in net.parameters()] + [lm.random.normal((2,))])
    for a, b in zip(*gradients, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5)


def test_other_arguments_and_options() -> None:
    f = lm.checkpoint(lambda x, power, *, scale: {"y": lm.sum(x**power) * scale})
    value, gradient = lm.value_and_grad(lambda x: f(x, 3, scale=2.0)["y"])(lm.asarray([1.0, 2.0]))
    assert value.item() == 18.0 and gradient.tolist() == [6.0, 24.0]


def test_errors() -> None:
    with pytest.raises(OptionError, match="exclude each other"):
        lm.checkpoint(lm.sin, policy=POLICIES.dots_saveable, memory_budget=1)
    with pytest.raises(OptionError, match="bytes"):
        lm.checkpoint(lm.sin, memory_budget=-1)
    with pytest.raises(OptionError, match="no function"):
        lm.checkpoint(lm.sin, policy="dots")
    with pytest.raises(OptionError, match="cannot be called"):
        lm.checkpoint(3)
