"""State under ``lm.jit``: parameters, gradients, optimisers, buffers, random numbers, aliases."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn, optim
from lamella.errors import LamellaIndexError, TraceError

F = nn.functional
RNG = np.random.default_rng(11)
X = RNG.normal(size=(8, 5)).astype(np.float32)
Y = RNG.integers(0, 3, 8)


def network(*extra: nn.Module) -> nn.Module:
    lm.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 6), *extra, nn.Tanh(), nn.Linear(6, 3))


def stepper(model: nn.Module, optimizer: Any) -> Callable[..., Any]:
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def values(model: nn.Module) -> list[np.ndarray]:
    return [value.numpy().copy() for value in model.state_dict().values()]


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return all(x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True))


# -- training --------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [
    lambda p: optim.SGD(p, 0.1), lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    lambda p: optim.Adam(p, 0.01), lambda p: optim.AdamW(p, 0.01, amsgrad=True),
])  # fmt: skip
def test_losses_are_those_of_the_eager_loop(make: Any) -> None:
    losses = []
    for compile_it in (False, True):
        model = network()
        step = stepper(model, make(model.parameters()))
        if compile_it:
            step = lm.jit(step)
        losses.append([step(X, Y).item() for _ in range(6)])
        if compile_it:
            assert step.programs == 1  # type: ignore[attr-defined]
    np.testing.assert_allclose(losses[1], losses[0], rtol=2e-6)
    assert losses[0][-1] < losses[0][0]


def test_gradients_are_visible_after_a_step() -> None:
    model, twin = network(), network()
    step = lm.jit(stepper(model, optim.SGD(model.parameters(), 0.0)))
    for _ in range(2):
        step(X, Y)
    F.cross_entropy(twin(lm.asarray(X)), lm.asarray(Y)).backward()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert p.requires_grad and p.is_leaf
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5, atol=1e-7)


def test_gradients_accumulate_over_calls_and_steps() -> None:
    model, twin = network(), network()
    backward = lm.jit(lambda x, y: F.cross_entropy(model(x), y).backward())
    for round_ in range(3):  # the gradient is another tensor in every round
        model.zero_grad()
        twin.zero_grad()
        for part in (slice(0, 4), slice(4, 8)):
            backward(X[part] + round_, Y[part])
            F.cross_entropy(twin(lm.asarray(X[part] + round_)), lm.asarray(Y[part])).backward()
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5, atol=1e-7)
    assert backward.programs == 2


def test_gradients_set_to_none_by_the_function() -> None:
    p = lm.ones(2).requires_grad_()
    clear = lm.jit(lambda: setattr(p, "grad", None))
    (p * 3).sum().backward()
    clear()
    assert p.grad is None
    clear()
    (p * 2).sum().backward()
    clear()
    assert p.grad is None


def test_a_gradient_that_is_returned() -> None:
    p = lm.ones(2).requires_grad_()

    @lm.jit
    def f(x: Any) -> Any:
        p.grad = None
        (p * x).sum().backward()
        return p.grad

    first, second = f(np.full(2, 2.0, np.float32)), f(np.full(2, 3.0, np.float32))
    assert first.tolist() == [2, 2] and second.tolist() == [3, 3] and p.grad.tolist() == [3, 3]


def test_requires_grad_arguments() -> None:
    @lm.jit
    def f(x: Any) -> Any:
        (x**2).sum().backward()
        return x.requires_grad

    for _ in range(2):
        x = lm.asarray([3.0]).requires_grad_()
        assert f(x) is True and x.grad.tolist() == [6]
        f(x)
        assert x.grad.tolist() == [12]
    with pytest.raises(TraceError, match="cannot reach"):
        f(lm.asarray([3.0]).requires_grad_() * 2)


def test_inner_leaves_have_gradients() -> None:
    @lm.jit
    def f(x: Any) -> Any:
        inner = x.detach().requires_grad_()
        (inner**3).sum().backward()
        return inner.grad

    for value in (1.0, 2.0):
        assert f(np.float32([value])).tolist() == [3 * value**2]


def test_requires_grad_set_inside() -> None:
    x = lm.ones(2)

    @lm.jit
    def f(fail: bool) -> Any:
        x.requires_grad_()
        if fail:
            raise KeyError
        return x * 2

    with pytest.raises(KeyError):
        f(True)
    assert not x.requires_grad and x._leaf is None
    f(False)
    assert x.requires_grad and x.is_leaf
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3] and f(False).requires_grad


def test_hooks_of_parameters() -> None:
    p = lm.ones(2).requires_grad_()

    @lm.jit
    def f() -> None:
        p.grad = None
        (p * 2).sum().backward()

    f()
    handle = p.register_hook(lambda g: g * 10)
    f()
    assert p.grad.tolist() == [20, 20]
    handle.remove()
    f()
    assert p.grad.tolist() == [2, 2]


def test_learning_rates_change_without_a_retrace() -> None:
    model, twin = network(), network()
    optimizer = optim.SGD(model.parameters(), 0.1, momentum=0.9)
    other = optim.SGD(twin.parameters(), 0.1, momentum=0.9)
    step, eager = lm.jit(stepper(model, optimizer)), stepper(twin, other)
    scheduler, second = (optim.lr_scheduler.StepLR(o, 2, 0.5) for o in (optimizer, other))
    for i in range(6):
        if i == 3:
            optimizer.param_groups[0]["momentum"] = other.param_groups[0]["momentum"] = 0.5
        got, want = step(X, Y).item(), eager(lm.asarray(X), lm.asarray(Y)).item()
        assert abs(got - want) < 1e-5
        scheduler.step()
        second.step()
    assert step.programs == 1


def test_options_that_are_baked_in_retrace() -> None:
    model, twin = network(), network()
    optimizer, other = optim.SGD(model.parameters(), 0.1), optim.SGD(twin.parameters(), 0.1)
    step, eager = lm.jit(stepper(model, optimizer)), stepper(twin, other)
    for name, value in (("weight_decay", 0.1), ("momentum", 0.9), ("maximize", True)):
        for _ in range(3):
            step(X, Y)
            eager(lm.asarray(X), lm.asarray(Y))
        optimizer.param_groups[0][name] = other.param_groups[0][name] = value
    for _ in range(3):
        assert abs(step(X, Y).item() - eager(lm.asarray(X), lm.asarray(Y)).item()) < 1e-4


def test_an_optimiser_of_another_model_is_not_confused() -> None:
    """The model is an argument, the optimiser is captured and knows one model."""
    model = network()
    optimizer = optim.SGD(model.parameters(), 0.1)

    @lm.jit
    def step(net: nn.Module, x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step(model, X)
    other = network()
    before = values(other)
    for p in model.parameters():
        p.grad = None
    step(other, X)
    assert same(values(other), before)
    assert other[0].weight.grad is not None


# -- modes, buffers, random numbers ----------------------------------------------------------------
def test_running_statistics_and_modes() -> None:
    model, twin = network(nn.BatchNorm1d(6)), network(nn.BatchNorm1d(6))
    f = lm.jit(lambda x: model(x))
    for train in (True, True, False, True, False):
        model.train(train)
        twin.train(train)
        np.testing.assert_allclose(
            f(X).numpy(), twin(lm.asarray(X)).numpy(), rtol=1e-5, atol=1e-6
        )
    for a, b in zip(values(model), values(twin), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert model[1].num_batches_tracked.item() == 3 and f.programs == 2


def test_dropout_draws_anew_at_each_call() -> None:
    layer = nn.Dropout(0.5)
    f = lm.jit(lambda x: layer(x))
    x = np.ones(64, np.float32)
    lm.manual_seed(5)
    masks = [f(x).numpy().tobytes() for _ in range(4)]
    lm.manual_seed(5)
    assert len(set(masks)) == 4
    assert [layer(lm.asarray(x)).numpy().tobytes() for _ in range(4)] == masks
    lm.manual_seed(5)
    assert [f(x).numpy().tobytes() for _ in range(4)] == masks and f.programs == 1


def test_the_generator_may_be_first_used_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    from lamella.tensor import random as source

    monkeypatch.setattr(source._Lazy, "generator", None)
    f = lm.jit(lambda: lm.random.uniform((3,)))
    assert len({tuple(f().tolist()) for _ in range(3)}) == 3 and f.programs == 1


def test_explicit_keys() -> None:
    f = lm.jit(lambda key: lm.random.normal((2,), key=key))
    keys = lm.random.split(lm.random.key(0))
    a, b = f(keys[0]).tolist(), f(keys[1]).tolist()
    assert a != b and f(keys[0]).tolist() == a
    assert a == lm.random.normal((2,), key=keys[0]).tolist()


GENERATOR = np.random.default_rng(0)


@pytest.mark.parametrize("draw", [
    lambda: random.random(), lambda: np.random.normal(), lambda: GENERATOR.normal(),
    lambda: random.choice([1, 2]),
])  # fmt: skip
def test_foreign_random_numbers_are_refused(draw: Callable[[], float]) -> None:
    f = lm.jit(lambda x: x * draw())
    with pytest.raises(TraceError, match=r"lm\.random"):
        f(lm.ones(2))


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
