"""Under ``lm.jit`` nothing is lost by errors, changed behind an alias, or left in a wrong place."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn, optim
from lamella.errors import LamellaIndexError
from tests.transforms.training import X, Y, network, same, stepper, values

F = nn.functional


# -- nothing is lost -------------------------------------------------------------------------------
@pytest.mark.parametrize("where", ["forward", "backward", "step", "end"])
def test_exceptions_while_tracing_lose_nothing(where: str) -> None:
    model = network(nn.BatchNorm1d(6), nn.Dropout(0.5))
    optimizer = optim.AdamW(model.parameters(), 0.01)
    stepper(model, optimizer)(lm.asarray(X), lm.asarray(Y))
    fail = [True]

    def check(place: str) -> None:
        if fail[0] and place == where:
            raise ZeroDivisionError

    @lm.jit
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        check("forward")
        optimizer.zero_grad()
        loss.backward()
        check("backward")
        optimizer.step()
        check("step")
        model.zero_grad()
        check("end")
        return loss

    def everything() -> list[np.ndarray]:
        generator = lm.manual_seed.__globals__["generator"]()
        kept = [v for s in optimizer.state.values() for v in s.values()]
        grads = [p.grad for p in model.parameters()]
        found = [*kept, *grads, generator.key, generator.counter, *optimizer._steps]
        return [*values(model), *(np.array(v.numpy()) for v in found)]

    handles, before = [p.grad for p in model.parameters()], everything()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            step(X, Y)
    assert same(everything(), before)
    assert all(p.grad is g for p, g in zip(model.parameters(), handles, strict=True))
    assert all(p.is_leaf and p.requires_grad for p in model.parameters())
    fail[0] = False
    twin, other = copy.deepcopy((model, optimizer))
    state = lm.random.uniform(()) * 0  # both draw the same masks
    del state
    lm.manual_seed(9)
    got = step(X, Y).item()
    lm.manual_seed(9)
    want = stepper(twin, other)(lm.asarray(X), lm.asarray(Y)).item()
    assert abs(got - want) < 1e-5


def test_errors_when_run_change_nothing() -> None:
    table, total = lm.arange(3), lm.zeros(())

    @lm.jit
    def f(i: Any) -> Any:
        total.add_(1)
        return table[i]

    f(np.array([1]))
    with pytest.raises(LamellaIndexError):
        f(np.array([3]))
    assert total.item() == 1 and f(np.array([2])).tolist() == [2] and total.item() == 2


def test_aliases_of_rebound_tensors_stay() -> None:
    model = network()
    step = lm.jit(stepper(model, optim.SGD(model.parameters(), 0.5, momentum=0.9)))
    step(X, Y)
    p = model[0].weight
    snapshot, clone, view, array = p.detach(), p.clone(), p.data, p.numpy()
    state, want = model.state_dict(), p.numpy().copy()
    reshaped = p.reshape(-1)
    for _ in range(3):
        step(X, Y)
    assert not np.array_equal(p.numpy(), want)
    for alias in (snapshot.numpy(), clone.detach().numpy(), array, state["0.weight"].numpy(),
                  reshaped.detach().numpy().reshape(want.shape)):  # fmt: skip
        assert alias.tobytes() == want.tobytes()
    assert view.shape == p.shape


def test_loaded_values_are_used() -> None:
    model = network()
    f = lm.jit(lambda x: model(x))
    f(X)
    other = network()
    with lm.no_grad():
        for q in other.parameters():
            q.mul_(2)
    model.load_state_dict(other.state_dict())
    assert f(X).numpy().tobytes() == other(lm.asarray(X)).numpy().tobytes() and f.programs == 1
    with lm.no_grad():
        model[0].bias.data = lm.ones(6)
    assert not np.array_equal(f(X).numpy(), other(lm.asarray(X)).numpy()) and f.programs == 1


def test_data_changed_inside() -> None:
    p = lm.ones(3).requires_grad_()

    @lm.jit
    def f(x: Any) -> Any:
        p.data.mul_(2)
        p.data += x
        p.data[0] = 7.0
        return p.sum()

    assert f(np.ones(3, np.float32)).item() == 13 and p.tolist() == [7, 3, 3]
    assert f(np.ones(3, np.float32)).item() == 21 and p.tolist() == [7, 7, 7] and p.is_leaf


def test_parameters_made_inside_are_the_calls_own() -> None:
    @lm.jit
    def f(x: Any) -> Any:
        p = nn.Parameter(lm.ones(2))
        p.data += x
        (p * x).sum().backward()
        return p.detach(), p.grad

    for _ in range(2):
        value, grad = f(np.float32([1, 2]))
        assert value.tolist() == [2, 3] and grad.tolist() == [1, 2]


# -- tensors left outside --------------------------------------------------------------------------
class Cache:
    def __init__(self) -> None:
        self.last: Any = None


class Hidden:
    __slots__ = ("last",)


@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize("kind", ["attribute", "list", "closure", "slots", "unseen"])
def test_tensors_left_outside(kind: str, returned: bool) -> None:
    """What is stored belongs to its call; each stores a new tensor, as without jit."""
    cache, hidden, log, last = Cache(), Hidden(), [], None
    unseen = {"f": lambda: hidden}

    @lm.jit
    def f(x: Any) -> Any:
        nonlocal last
        y = x * 2
        if kind == "attribute":
            cache.last = y
        elif kind == "list":
            log.append(y)
        elif kind == "closure":
            last = y
        elif kind == "slots":
            hidden.last = y
        else:
            vars(unseen["f"].__code__.__class__).get("x")
            unseen["f"]().last = y
        return y if returned else x + 1

    kept = []
    for i in range(3):
        result = f(np.float32([i]))
        assert result.tolist() == [2 * i if returned else i + 1]
        stored = {"attribute": cache.last, "list": log[-1] if log else None, "closure": last}
        kept.append(stored.get(kind, getattr(hidden, "last", None)))
        assert kept[-1].tolist() == [2 * i]
    assert [k.tolist() for k in kept] == [[0], [2], [4]]
    assert len(log) == (3 if kind == "list" else 0)


def test_buffers_made_at_first_use() -> None:
    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", None)

        def forward(self, x: Any) -> Any:
            if self.total is None:
                self.total = lm.zeros(x.shape)
            self.total += x
            return self.total * 1

    mean = Mean()
    f = lm.jit(mean)
    assert [f(np.float32([i])).item() for i in (1, 2, 3, 4)] == [1, 3, 6, 10]
    assert f.programs == 2


def test_a_tensor_attribute_assigned_each_call_warns_in_the_end() -> None:
    cache = Cache()
    cache.last = lm.zeros(())

    @lm.jit
    def f(x: Any) -> Any:
        cache.last = cache.last + x
        return cache.last

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [f(np.float32(1)).item() for _ in range(18)]
    assert found == list(range(1, 19)) and cache.last.item() == 18
    assert len(caught) == 1 and "cache.last" in str(caught[0].message)


def test_python_counters_go_on() -> None:
    cache = Cache()
    cache.last = 0

    @lm.jit
    def f(x: Any) -> Any:
        cache.last += 1
        return x * cache.last

    assert [f(lm.ones(())).item() for _ in range(4)] == [1, 2, 3, 4] and cache.last == 4
