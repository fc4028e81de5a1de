"""State under ``lm.jit``: parameters, gradients, optimisers, buffers, random numbers, aliases."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn, optim
from lamella.errors import TraceError
from tests.transforms.training import X, Y, network, same, stepper, values

F = nn.functional


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


def test_an_update_that_takes_no_arguments() -> None:
    net = nn.Linear(2, 1)
    opt = optim.SGD(net.parameters(), lr=0.5)

    @lm.jit
    def update() -> Any:
        total = nn.utils.clip_grad_norm_(net.parameters(), 100.0)
        opt.step()
        opt.zero_grad()
        return total

    weight = net.weight.numpy().copy()
    for times in (1.0, 2.0, 3.0):
        (net(lm.ones((1, 2))) * times).sum().backward()
        np.testing.assert_allclose(update().item(), times * np.sqrt(3), rtol=1e-6)
        weight -= 0.5 * times
        np.testing.assert_allclose(net.weight.numpy(), weight, rtol=1e-6)
        assert net.weight.grad is None


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


def test_what_hooks_read_is_watched() -> None:
    p, factor = lm.ones(2).requires_grad_(), [2.0]
    p.register_hook(lambda g: g * factor[0])

    @lm.jit
    def f() -> None:
        p.grad = None
        (p * 1).sum().backward()

    for factor[0] in (2.0, 5.0, 5.0, 3.0):
        f()
        assert p.grad.tolist() == [factor[0]] * 2
    assert f.programs == 3


def test_state_that_changes_its_form() -> None:
    h = lm.zeros(2)

    @lm.jit
    def f(x: Any) -> Any:
        h.data = lm.concat([h.astype("float64"), x])
        return h.sum()

    for i in range(1, 4):
        assert f(lm.ones(1)).item() == i and h.shape == (2 + i,) and h.dtype is lm.float64
    assert f.programs == 3


def test_eager_and_compiled_steps_alternate() -> None:
    losses = []
    for kinds in ("eeee", "cccc", "ecec"):
        model = network()
        step = stepper(model, optim.Adam(model.parameters(), 0.05))
        both = {"e": lambda s=step: s(lm.asarray(X), lm.asarray(Y)), "c": lm.jit(step)}
        both["c"] = lambda c=both["c"]: c(X, Y)
        losses.append([both[kind]().item() for kind in kinds])
    np.testing.assert_allclose(losses[1], losses[0], rtol=2e-6)
    np.testing.assert_allclose(losses[2], losses[0], rtol=2e-6)


def test_memory_stays_flat() -> None:
    model = network()
    step = lm.jit(stepper(model, optim.Adam(model.parameters(), 0.01)))
    kept = [step(X, Y) for _ in range(10)]
    from lamella.runtime.buffer import memory_in_use

    before = memory_in_use()
    kept = [step(X, Y) for _ in range(10)]
    for _ in range(100):
        step(X, Y)
        lm.jit(model)
    assert memory_in_use() - before < 1 << 16 and len(kept) == 10


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
        np.testing.assert_allclose(f(X).numpy(), twin(lm.asarray(X)).numpy(), rtol=1e-5, atol=1e-6)
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
    from lamella.tensor.random import stream as source

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


def test_slices_start_at_numbers_until_they_turn_out_to_vary() -> None:
    x = lm.arange(10)
    cut = lm.jit(lambda x, i: -x[i : i + 2])
    first = cut.lower(x, 1).kernels[0]
    assert not first.params
    for i in range(6):
        assert cut(x, i).tolist() == [-i, -i - 1]
    assert cut.programs == 2, "where it starts is an argument of the second"


def test_threads_that_replace_a_tensor_outside_see_values() -> None:
    """Another thread's trace must not be seen in what a trace has left outside."""
    state = {"n": lm.zeros(())}

    @lm.jit
    def count() -> None:
        state["n"] = state["n"] + 1

    faults: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(4):
                count()
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert state["n"].item() == 12


def test_what_replaces_a_tensor_at_every_call_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    state = [lm.zeros(())]

    @lm.jit
    def count() -> None:
        state[0] = state[0] + 1

    count()
    with lm.config(debug=1):
        count()
    assert "it left a tensor in a place outside" in capsys.readouterr().err

    @lm.jit
    def steady() -> None:
        state[0] += 1

    for _ in range(3):
        steady()
    assert steady.programs == 1 and state[0].item() == 5


class Holder:
    """A plain object with state in attributes, a list and a dict."""

    def __init__(self) -> None:
        self.w = lm.ones(2)
        self.parts: dict[str, list[lm.Tensor]] = {"a": [lm.ones(2)]}
        self.fresh: lm.Tensor | None = None


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fault", ["raised", "looked at"])
def test_what_a_failed_trace_leaves_in_python_has_a_value(dynamic: bool, fault: str) -> None:
    held, given, total = Holder(), {"g": lm.zeros(2)}, lm.zeros(2)
    counter = lm.zeros(())

    def step(x: lm.Tensor, given: dict[str, lm.Tensor]) -> lm.Tensor:
        nonlocal total
        counter.add_(1.0)
        held.w = held.w * x.sum(0)
        held.parts["a"][0] = held.w + 1
        held.parts["a"].append(x.sum())
        held.fresh = x[::-1]
        given["g"] = given["g"] + x.sum(0)
        total = total + held.w
        if fault == "raised":
            raise KeyError("mine")
        return lm.zeros(int(x.sum().item()))

    run = lm.jit(step, dynamic={"x": {0: "n"}} if dynamic else None)
    with pytest.raises(KeyError if fault == "raised" else TraceError):
        run(lm.asarray([[2.0, 3.0], [0.0, 0.0]]), given)
    assert counter.item() == 0
    assert held.w.tolist() == total.tolist() == given["g"].tolist() == [2, 3]
    assert [part.tolist() for part in held.parts["a"]] == [[3, 4], 5]
    assert held.fresh is not None
    assert held.fresh.tolist() == [[0, 0], [2, 3]]
    assert (held.w * 2).tolist() == [4, 6]


def test_what_a_failed_first_run_leaves_in_python_has_a_value() -> None:
    held = Holder()

    @lm.jit
    def step(x: lm.Tensor, i: lm.Tensor) -> lm.Tensor:
        held.w = held.w + x
        return x[i]

    with pytest.raises(IndexError):
        step(lm.ones(2), lm.asarray([5])).tolist()
    assert held.w.tolist() == [2, 2]
    assert step(lm.ones(2), lm.asarray([1])).tolist() == [1]
    assert held.w.tolist() == [3, 3]
