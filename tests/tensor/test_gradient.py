"""backward(), leaves, accumulation, hooks and in-place changes; values against finite differences
and by hand.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella.errors import GradientError

RNG = np.random.default_rng(5)


def numeric(
    function: Callable[[np.ndarray], float], x: np.ndarray, step: float = 1e-6
) -> np.ndarray:
    """Central differences."""
    found = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        for sign in (1, -1):
            moved = x.copy()
            moved[i] += sign * step
            found[i] += sign * function(moved) / (2 * step)
    return found


FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda t: (lm.tanh(t) * t).sum(),
    lambda t: lm.var(t, 0).sum(),
    lambda t: lm.std(t, correction=1),
    lambda t: lm.logsumexp(t, 1).sum(),
    lambda t: lm.einsum("ij,kj->ik", t, t).sum(),
    lambda t: (t @ t.T).square().mean(),
    lambda t: lm.sort(t, 0)[0].sum() * t[1, 2],
    lambda t: lm.concat([t, t * 2]).prod(),
    lambda t: lm.norm(t),
    lambda t: lm.norm(t, 3),
    lambda t: t[[0, 0, 1], :, None].square().sum(),
    lambda t: lm.where(t > 0, t**2, t**3).sum(),
    lambda t: lm.cumsum(t, 1)[:, -2].sum() * t[0, 0],
    lambda t: lm.pad(t, 1, mode="wrap").square().sum(),
    lambda t: t.at[0].set(t[1]).square().sum(),
    lambda t: lm.diagonal(t).sum() * lm.trace(t),
    lambda t: lm.quantile(t, 0.4, 1).square().sum(),
    lambda t: lm.roll(t, 1, 1).mul(t).sum(),
    lambda t: lm.hypot(t, t.flip(1)).sum(),
    lambda t: lm.logaddexp(t, t.flip(1)).sum(),
    lambda t: lm.take_along_axis(t, lm.argsort(t, 1), 1)[:, 0].sum(),
    lambda t: lm.kron(t, t).square().sum(),
    lambda t: lm.outer(t, t).square().sum(),
    lambda t: t.max(1).sum() - t.min() * lm.sigmoid(t).sum(),
    lambda t: lm.divide(t, t.square() + 1).sum(),
    lambda t: lm.lerp(t, t.flip(0), 0.3).square().sum(),
]


@pytest.mark.parametrize("position", range(len(FUNCTIONS)))
def test_composed_functions(position: int) -> None:
    function = FUNCTIONS[position]
    x = RNG.normal(size=(3, 4))
    t = lm.tensor(x, requires_grad=True)
    function(t).backward()
    assert t.grad is not None
    want = numeric(lambda a: function(lm.asarray(a)).item(), x)
    np.testing.assert_allclose(t.grad.numpy(), want, rtol=2e-5, atol=2e-6)


def test_gradients_accumulate_and_the_graph_stays() -> None:
    t = lm.tensor([1.0, 2.0], requires_grad=True)
    loss = (t * t).sum()
    loss.backward()
    first = t.grad
    loss.backward()
    assert t.grad is first and t.grad is not None and t.grad.tolist() == [4.0, 8.0]
    t.grad = None
    loss.item()
    loss.backward()
    assert t.grad.tolist() == [2.0, 4.0]


def test_leaves_through_updates() -> None:
    p = lm.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(3):
        p.grad = None
        (p * p).sum().backward()
        with lm.no_grad():
            p -= 0.25 * p.grad
        assert p.is_leaf and p.requires_grad
    assert p.tolist() == [0.125, 0.25]
    assert not p.node.inputs  # no history is kept


@pytest.mark.parametrize("look", [False, True])
def test_history_of_updates_is_released(look: bool) -> None:
    p = lm.ones(3, requires_grad=True)
    (p * p).sum().backward()
    old = weakref.ref(p.node)
    with lm.no_grad():
        p -= p.grad
    p.grad = None
    if look:
        p.numpy()
    else:
        lm.eval()
        (p * 1.0).sum().item()
        p.numpy()
    gc.collect()
    assert old() is None


def test_data_writes_through() -> None:
    p = lm.ones(3, requires_grad=True)
    p.data.mul_(3.0)
    p.data[0] = 7.0
    p.data += 1.0
    assert p.tolist() == [8.0, 4.0, 4.0] and p.is_leaf
    p.data = lm.zeros(3)
    assert p.tolist() == [0.0] * 3 and p.requires_grad
    p.data.copy_(np.arange(3))
    (p * 2).sum().backward()
    assert p.grad is not None and p.grad.tolist() == [2.0] * 3


def test_changing_a_leaf_in_place_outside_no_grad_is_refused() -> None:
    p = lm.ones(3, requires_grad=True)
    with pytest.raises(GradientError, match=r"no_grad"):
        p += 1
    with pytest.raises(GradientError):
        p[0] = 1.0
    assert p.tolist() == [1.0] * 3


def test_in_place_changes_of_results_are_differentiated() -> None:
    x = lm.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 2
    z = y * 1.0
    y[0] = 0.0
    y *= y
    (y.sum() + z.sum()).backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 18.0, 26.0]


def test_detach_and_no_grad() -> None:
    x = lm.tensor([2.0], requires_grad=True)
    y = x * x.detach()
    assert not x.detach().requires_grad and y.requires_grad
    y.backward()
    assert x.grad is not None and x.grad.tolist() == [2.0]
    with lm.no_grad():
        assert not (x * x).requires_grad
        with lm.enable_grad():
            assert (x * x).requires_grad

    @lm.no_grad()
    def twice(v: Any) -> Any:
        return v * 2

    @lm.no_grad
    def thrice(v: Any) -> Any:
        return v * 3

    assert not twice(x).requires_grad and not thrice(x).requires_grad and lm.is_grad_enabled()
    with lm.set_grad_enabled(False):
        assert not lm.is_grad_enabled()


def test_hooks_on_leaves_and_results() -> None:
    x = lm.tensor([1.0, 2.0], requires_grad=True)
    seen: list[list[float]] = []
    handle = x.register_hook(lambda g: seen.append(g.tolist()))
    y = x * 3
    y.register_hook(lambda g: g * 10)
    (y * y).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [180.0, 360.0] and seen == [[180.0, 360.0]]
    handle.remove()
    y.sum().backward()
    assert len(seen) == 1


def test_retained_gradients_of_results() -> None:
    x = lm.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.retain_grad()
    (y * y).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [6.0, 12.0] and not y.is_leaf


def test_second_order_through_create_graph() -> None:
    x = lm.tensor([2.0, 3.0], dtype="float64", requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    x.grad = None
    assert first is not None
    first.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), [12.0, 18.0])


def test_gradient_argument_and_inputs() -> None:
    x, w = lm.ones(3, requires_grad=True), lm.ones(3, requires_grad=True)
    (x * w).backward(lm.tensor([1.0, 2.0, 3.0]), inputs=[w])
    assert x.grad is None and w.grad is not None and w.grad.tolist() == [1.0, 2.0, 3.0]


def test_requires_grad_can_be_set_and_unset() -> None:
    x = lm.ones(2)
    x.requires_grad = True
    assert x.is_leaf and x.requires_grad_(False) is x and not x.requires_grad
    pending = lm.ones(2) * 3
    pending.requires_grad_()
    (pending * 2).sum().backward()
    assert pending.grad is not None and pending.grad.tolist() == [2.0, 2.0] and pending.is_leaf
    with pytest.raises(GradientError):
        (pending * 2).requires_grad = False
    with pytest.raises(TypeError, match="floating point"):
        lm.tensor([1, 2], requires_grad=True)


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (lambda: lm.ones(2).backward(), GradientError),
        (lambda: lm.ones(2, requires_grad=True).mul(2).backward(), GradientError),
        (lambda: lm.ones(2, requires_grad=True).sum().backward(lm.ones(2)), ValueError),
        (lambda: lm.ones(2).register_hook(print), GradientError),
        (lambda: setattr(lm.ones(2, requires_grad=True), "grad", lm.ones(3)), ValueError),
        (lambda: setattr(lm.ones(2), "grad", lm.ones(2, dtype="float64")), TypeError),
    ],
)
def test_wrong_uses(act: Callable[[], Any], kind: Any) -> None:
    with pytest.raises(kind):
        act()
