"""jit, grad, jvp, vmap and backward() inside one another, in every order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn

RNG = np.random.default_rng(8)
X = RNG.normal(size=(4, 3))
W = RNG.normal(size=(3, 2))


def f(x: Any) -> Any:
    return (lm.tanh(x @ lm.asarray(W)) ** 2).sum() + lm.exp(x[..., 0]).sum()


def first(x: np.ndarray) -> np.ndarray:
    t = np.tanh(x @ W)
    found = (2 * t * (1 - t**2)) @ W.T
    found[..., 0] += np.exp(x[..., 0])
    return found


@pytest.mark.parametrize("order", list(permutations(["jit", "vmap", "grad"])))
def test_jit_vmap_and_grad(order: tuple[str, ...]) -> None:
    def total(x: Any) -> Any:
        return f(x)

    g: Any = total
    mapped = False
    for name in order:
        if name == "jit":
            g = lm.jit(g)
        elif name == "vmap":
            g, mapped = lm.vmap(g), True
        else:
            inner = g
            g = lm.grad(lambda x, h=inner: h(x).sum()) if mapped else lm.grad(inner)
    for scale in (1.0, 0.5):
        np.testing.assert_allclose(g(lm.asarray(X * scale)).numpy(), first(X * scale), rtol=1e-10)


@pytest.mark.parametrize("wrap", [
    lambda h: lm.jit(lm.grad(h)), lambda h: lm.grad(lm.jit(h)),
    lambda h: lm.jit(lm.grad(lm.jit(h))),
    lambda h: lambda x: lm.jit(lambda v: lm.vjp(h, v)[1](lm.ones((), dtype="float64"))[0])(x),
    lambda h: lambda x: lm.vjp(lm.jit(h), x)[1](lm.ones((), dtype="float64"))[0],
])  # fmt: skip
def test_gradients_and_hessians_through_jit(wrap: Callable[[Any], Any]) -> None:
    x = lm.asarray(X[0])
    np.testing.assert_allclose(wrap(f)(x).numpy(), first(X[0]), rtol=1e-10)
    want = lm.hessian(f)(x).numpy()
    np.testing.assert_allclose(lm.jacrev(wrap(f))(x).numpy(), want, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(lm.jacfwd(wrap(f))(x).numpy(), want, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(lm.jit(lm.hessian(f))(x).numpy(), want, rtol=1e-9, atol=1e-12)


def test_forward_mode_through_jit() -> None:
    x, v = lm.asarray(X), lm.asarray(RNG.normal(size=X.shape))
    want = (first(X) * v.numpy()).sum()
    for compiled in (lm.jit(f), lm.jit(lambda x: lm.jit(f)(x) * 1)):
        out, tangent = lm.jvp(compiled, (x,), (v,))
        np.testing.assert_allclose(tangent.item(), want, rtol=1e-10)
        np.testing.assert_allclose(out.item(), f(x).item(), rtol=1e-12)
    inside = lm.jit(lambda x, v: lm.jvp(f, (x,), (v,))[1])
    np.testing.assert_allclose(inside(x, v).item(), want, rtol=1e-10)

    def mixed(x: Any) -> Any:
        return lm.jvp(lm.grad(lm.jit(f)), (x,), (v,))[1]

    def plain(x: Any) -> Any:
        return lm.jvp(lm.grad(f), (x,), (v,))[1]

    np.testing.assert_allclose(mixed(x).numpy(), plain(x).numpy(), rtol=1e-9)


def test_vmap_of_compiled_functions_with_captured_tensors() -> None:
    w = lm.asarray(W).requires_grad_()
    g = lm.jit(lambda x, s: (x @ w * s).sum())
    got = lm.vmap(g, in_axes=(0, None))(X, np.float64(2))
    np.testing.assert_allclose(got.numpy(), 2 * (X @ W).sum(1), rtol=1e-10)
    got.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), np.repeat(2 * X.sum(0)[:, None], 2, 1), rtol=1e-9)


def test_backward_after_a_compiled_forward() -> None:
    results = []
    for compile_it in (False, True):
        lm.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        forward: Any = lm.jit(model) if compile_it else model
        x = lm.asarray(X.astype(np.float32)).requires_grad_()
        grads = []
        for _ in range(2):
            forward(x).square().mean().backward()
            grads += [p.grad.numpy().copy() for p in model.parameters()]
        results.append([*grads, x.grad.numpy().copy()])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_second_derivatives_after_a_compiled_forward() -> None:
    found = []
    for g in (f, lm.jit(f)):
        x = lm.asarray(X).requires_grad_()
        g(x).backward(create_graph=True)
        (x.grad**2).sum().backward()
        found.append(x.grad.numpy().copy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)


def test_a_chain_of_compiled_calls_counts_each_path_once() -> None:
    """The parameter is an input of both calls, and the first call's result one of the second."""
    cell = lm.jit(lambda w, h: lm.tanh(w * h))
    w = lm.asarray(0.7, dtype=lm.float64).requires_grad_()

    def unroll(step: Any, w: Any) -> Any:
        h = lm.asarray(1.0, dtype=lm.float64)
        for _ in range(4):
            h = step(w, h)
        return h

    unroll(cell, w).backward()
    want = lm.grad(lambda w: unroll(lambda w, h: lm.tanh(w * h), w))(w.detach())
    np.testing.assert_allclose(w.grad.item(), want.item(), rtol=1e-12)
    one = lm.asarray(1.0, dtype=lm.float64)
    tangent = lm.jvp(lambda w: unroll(cell, w), (w.detach(),), (one,))[1]
    np.testing.assert_allclose(tangent.item(), want.item(), rtol=1e-12)


def test_state_carries_gradients_between_calls() -> None:
    """Backpropagation through time through a captured state."""
    totals = []
    for compile_it in (False, True):
        w = lm.asarray(0.5, dtype=lm.float64).requires_grad_()
        h = lm.ones((), dtype=lm.float64)

        def step(x: Any, w: Any = w, h: Any = h) -> Any:
            h.copy_(lm.tanh(h * w + x))
            return h * 1

        run = lm.jit(step) if compile_it else step
        for value in (0.1, 0.2, 0.3):
            out = run(lm.asarray(value, dtype=lm.float64))
        out.backward()
        totals.append(w.grad.item())
    np.testing.assert_allclose(totals[1], totals[0], rtol=1e-12)


def test_several_outputs_share_a_history() -> None:
    g = lm.jit(lambda x: (lm.exp(x), {"s": (x * x).sum(), "n": x.argmax()}))
    x = lm.asarray(X[0]).requires_grad_()
    e, rest = g(x)
    (e.sum() * rest["s"]).backward()
    a = X[0]
    want = np.exp(a) * (a * a).sum() + np.exp(a).sum() * 2 * a
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-10)
    assert not rest["n"].requires_grad


def test_a_step_that_uses_grad_inside() -> None:
    """Functional training: gradients by ``value_and_grad`` inside, the module in and out."""
    model = nn.Linear(3, 1)
    x, y = X.astype(np.float32), X[:, :1].astype(np.float32)

    def loss(model: Any, x: Any, y: Any) -> Any:
        return (model(x) - y).square().mean()

    @lm.jit
    def step(model: Any, x: Any, y: Any) -> Any:
        value, grads = lm.value_and_grad(loss)(model, x, y)
        return lm.tree.map(lambda p, g: p - 0.1 * g, model, grads), value

    losses = []
    for _ in range(20):
        model, value = step(model, x, y)
        losses.append(value.item())
    assert losses[-1] < 0.5 * losses[0] and step.programs <= 2


def test_vmap_inside_and_outside_of_compiled_state() -> None:
    count = lm.zeros(())

    @lm.jit
    def g(x: Any) -> Any:
        count.add_(1)
        return lm.vmap(lambda row: row * count)(x)

    for i in range(1, 4):
        assert g(np.ones((2, 2), np.float32)).tolist() == [[i, i], [i, i]]
    assert lm.vmap(g)(np.ones((3, 2, 2), np.float32)).numpy().max() == 4 and count.item() == 4


def test_dynamic_sizes_under_grad() -> None:
    g = lm.jit(lambda x: (lm.tanh(x @ lm.asarray(W)) ** 2).sum(), dynamic={"x": {0: "n"}})
    for n in (1, 3, 4):
        t = np.tanh(X[:n] @ W)
        want = (2 * t * (1 - t**2)) @ W.T
        np.testing.assert_allclose(lm.grad(g)(lm.asarray(X[:n])).numpy(), want, rtol=1e-9)
    assert g.programs == 1
