"""Optimisers against their definitions in NumPy; groups, state, schedules, compiled steps."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn, optim
from lamella.errors import OptionError, ShapeError, TraceError
from lamella.nn import module as module_state

RNG = np.random.default_rng(0)
START = RNG.standard_normal((3, 2))
GRADIENTS = [RNG.standard_normal((3, 2)) for _ in range(5)]


def run(make: Callable[[list[lm.Tensor]], optim.Optimizer], dtype: str = "float64") -> np.ndarray:
    """The parameter after a step with each of the gradients."""
    p = lm.tensor(START.astype(dtype), requires_grad=True)
    optimizer = make([p])
    for gradient in GRADIENTS:
        p.grad = lm.asarray(gradient.astype(dtype))
        optimizer.step()
    return p.numpy()


def sgd(
    lr: float, momentum: float = 0, dampening: float = 0, decay: float = 0, nesterov: bool = False
) -> np.ndarray:
    p, buffer = START.copy(), None
    for gradient in GRADIENTS:
        g = gradient + decay * p
        if momentum:
            buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
            g = g + momentum * buffer if nesterov else buffer
        p = p - lr * g
    return p


def adam(
    lr: float, betas: tuple[float, float], decay: float, decoupled: bool, amsgrad: bool = False
) -> np.ndarray:
    p, m, v, top = START.copy(), 0.0, 0.0, np.zeros_like(START)
    for t, gradient in enumerate(GRADIENTS, 1):
        g = gradient
        if decoupled:
            p = p * (1 - lr * decay)
        else:
            g = g + decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        top = np.maximum(top, v)
        root = np.sqrt((top if amsgrad else v) / (1 - betas[1] ** t)) + 1e-8
        p = p - lr * m / (1 - betas[0] ** t) / root
    return p


CASES: list[tuple[str, Callable[[list[lm.Tensor]], optim.Optimizer], np.ndarray]] = [
    ("sgd", lambda p: optim.SGD(p, lr=0.1), sgd(0.1)),
    ("decay", lambda p: optim.SGD(p, lr=0.1, weight_decay=0.3), sgd(0.1, decay=0.3)),
    ("momentum", lambda p: optim.SGD(p, lr=0.1, momentum=0.9), sgd(0.1, 0.9)),
    ("dampening", lambda p: optim.SGD(p, 0.1, 0.9, 0.5), sgd(0.1, 0.9, 0.5)),
    ("nesterov", lambda p: optim.SGD(p, 0.1, 0.9, 0, 0.1, True), sgd(0.1, 0.9, 0, 0.1, True)),
    ("adam", lambda p: optim.Adam(p, lr=0.1), adam(0.1, (0.9, 0.999), 0, False)),
    (
        "adam decay",
        lambda p: optim.Adam(p, 0.1, (0.8, 0.9), weight_decay=0.2),
        adam(0.1, (0.8, 0.9), 0.2, False),
    ),
    (
        "amsgrad",
        lambda p: optim.Adam(p, 0.1, (0.5, 0.6), amsgrad=True),
        adam(0.1, (0.5, 0.6), 0, False, True),
    ),
    ("adamw", lambda p: optim.AdamW(p, lr=0.1), adam(0.1, (0.9, 0.999), 0.01, True)),
    (
        "adamw decay",
        lambda p: optim.AdamW(p, 0.1, weight_decay=0.5),
        adam(0.1, (0.9, 0.999), 0.5, True),
    ),
]


@pytest.mark.parametrize(("name", "make", "expected"), CASES)
def test_updates(
    name: str, make: Callable[[list[lm.Tensor]], optim.Optimizer], expected: np.ndarray
) -> None:
    np.testing.assert_allclose(run(make), expected, rtol=1e-9)
    np.testing.assert_allclose(run(make, "float32"), expected, rtol=2e-5, atol=1e-6)


def test_maximize_is_the_other_way() -> None:
    up = run(lambda p: optim.SGD(p, lr=0.1, maximize=True))
    np.testing.assert_allclose(up - START, START - sgd(0.1), rtol=1e-9)


def test_step_keeps_handles_leaves_and_computes_now() -> None:
    net = nn.Linear(2, 1)
    weight = net.weight
    optimizer = optim.AdamW(net.parameters())
    for _ in range(3):
        loss = net(lm.ones((4, 2))).sum()
        optimizer.zero_grad()
        assert weight.grad is None
        loss.backward()
        optimizer.step()
        assert net.weight is weight
        assert weight.requires_grad
        assert weight.node.value is not None


def test_parameters_without_a_gradient_stay() -> None:
    a, b = lm.tensor([1.0], requires_grad=True), lm.tensor([1.0], requires_grad=True)
    optimizer = optim.AdamW([a, b], weight_decay=0.5)
    (a * 2).sum().backward()
    optimizer.step()
    assert b.tolist() == [1.0]
    assert a.tolist() != [1.0]


def test_closure() -> None:
    p = lm.tensor([2.0], requires_grad=True)
    optimizer = optim.SGD([p], lr=0.25)

    def closure() -> lm.Tensor:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    assert loss is not None
    assert loss.item() == 4.0
    assert p.tolist() == [1.0]


def test_groups_have_their_own_options() -> None:
    a, b = lm.tensor([1.0], requires_grad=True), lm.tensor([1.0], requires_grad=True)
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    (a + b).sum().backward()
    optimizer.step()
    assert a.item() == pytest.approx(0.9)
    assert b.item() == pytest.approx(0.5)
    optimizer.param_groups[0]["lr"] = 1.0
    optimizer.step()
    assert a.item() == pytest.approx(-0.1)
    c = lm.tensor([1.0], requires_grad=True)
    optimizer.add_param_group({"params": [c], "momentum": 0.9})
    assert optimizer.param_groups[2]["momentum"] == 0.9
    assert "momentum_buffer" in optimizer.state[c]


def test_group_numbers_are_mirrored_and_changes_of_structure_counted() -> None:
    group = optim.AdamW([lm.tensor([1.0], requires_grad=True)]).param_groups[0]
    before = module_state.epoch
    group["lr"] = 0.25
    group["betas"] = (0.5, 0.75)
    assert module_state.epoch == before
    assert group.number("lr").item() == 0.25
    assert [beta.item() for beta in group.numbers("betas")] == [0.5, 0.75]
    group["weight_decay"] = 0.0
    assert module_state.epoch > before
    before = module_state.epoch
    group["amsgrad"] = True
    assert module_state.epoch > before


def test_state_dict_continues_exactly() -> None:
    def fresh() -> tuple[nn.Linear, optim.Optimizer]:
        lm.manual_seed(0)
        net = nn.Linear(2, 2)
        return net, optim.AdamW(net.parameters(), lr=0.1, amsgrad=True)

    def train(net: nn.Linear, optimizer: optim.Optimizer, steps: range) -> None:
        for step in steps:
            x = lm.asarray(np.random.default_rng(step).standard_normal((4, 2)).astype(np.float32))
            optimizer.zero_grad()
            (net(x) ** 2).sum().backward()
            optimizer.step()

    net, optimizer = fresh()
    train(net, optimizer, range(3))
    optimizer.param_groups[0]["lr"] = 0.05
    saved, weights = optimizer.state_dict(), net.state_dict()
    train(net, optimizer, range(3, 6))
    again, other = fresh()
    again.load_state_dict(weights)
    other.load_state_dict(saved)
    assert other.param_groups[0]["lr"] == 0.05
    train(again, other, range(3, 6))
    assert again.weight.tolist() == net.weight.tolist()
    assert saved["param_groups"][0]["params"] == [0, 1]
    assert sorted(saved["state"][0]) == ["exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"]
    assert saved["state"][0]["step"].item() == 3


def test_state_dict_that_does_not_fit() -> None:
    a = optim.Adam([lm.tensor([1.0], requires_grad=True)])
    two = optim.Adam([lm.tensor([1.0], requires_grad=True) for _ in range(2)])
    wide = optim.Adam([lm.tensor([1.0, 2.0], requires_grad=True)])
    with pytest.raises(OptionError, match=r"of \[2\] parameters there, of \[1\] here"):
        a.load_state_dict(two.state_dict())
    with pytest.raises(ShapeError, match=r"\(2,\) for one of \(1,\)"):
        a.load_state_dict(wide.state_dict())


def test_option_errors() -> None:
    p = lm.tensor([1.0], requires_grad=True)
    with pytest.raises(OptionError, match="no parameters"):
        optim.SGD([])
    with pytest.raises(OptionError, match="lr=-1"):
        optim.SGD([p], lr=-1)
    with pytest.raises(OptionError, match="nesterov"):
        optim.SGD([p], nesterov=True)
    with pytest.raises(OptionError, match="betas"):
        optim.Adam([p], betas=(0.9, 1.0))
    with pytest.raises(OptionError, match="did you mean 'weight_decay'"):
        optim.Adam([{"params": [p], "weight_decoy": 1}])
    with pytest.raises(OptionError, match="given twice"):
        optim.Adam([p, p])
    with pytest.raises(OptionError, match="str is no parameter"):
        optim.Adam(["a"])  # type: ignore[list-item]


def test_jitted_step_sees_new_rates_counts_on_and_traces_once() -> None:
    traces = itertools.count()  # of which a guard sees the identity alone

    def train(use: Callable[[Any], Any]) -> list[float]:
        p = lm.tensor([1.0], requires_grad=True)
        optimizer = optim.AdamW([p], lr=0.1)

        def step(x: lm.Tensor) -> lm.Tensor:
            next(traces)
            loss = (p * x).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        compiled = use(step)
        values = []
        for i in range(6):
            if i == 3:
                optimizer.param_groups[0]["lr"] = 0.5
            compiled(lm.asarray(np.array([1.0 + i], np.float32)))
            values.append(p.item())
        return values

    eager = train(lambda f: f)
    assert next(traces) == 6
    np.testing.assert_allclose(train(lm.jit), eager, rtol=1e-5)
    if lm.config.backend != "interpret":
        assert next(traces) - 7 <= 2


def test_ema() -> None:
    net = nn.BatchNorm1d(1)
    average = optim.EMA(net, 0.5)
    expected = {name: value.numpy().astype(np.float64) for name, value in net.state_dict().items()}
    for count in range(1, 15):
        net(lm.asarray(RNG.standard_normal((4, 1)).astype(np.float32)))
        average.update()
        kept = min(0.5, (1 + count) / (10 + count))
        for name, value in net.state_dict().items():
            now = value.numpy()
            expected[name] = (
                kept * expected[name] + (1 - kept) * now if now.dtype.kind == "f" else now
            )
    for name, value in average.module.state_dict().items():
        np.testing.assert_allclose(value.numpy(), expected[name], rtol=1e-5)
    assert not average.module.training
    assert not any(p.requires_grad for p in average.module.parameters())


def schedule_rates(make: Callable[[optim.Optimizer], Any], steps: int) -> list[float]:
    optimizer = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=0.5)
    schedule = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        schedule.step()
    return rates


def test_schedules() -> None:
    s = optim.lr_scheduler
    steps = np.arange(10)
    np.testing.assert_allclose(
        schedule_rates(lambda o: s.StepLR(o, 3, 0.1), 10), 0.5 * 0.1 ** (steps // 3)
    )
    np.testing.assert_allclose(
        schedule_rates(lambda o: s.LambdaLR(o, lambda t: t), 10), 0.5 * steps
    )
    np.testing.assert_allclose(
        schedule_rates(lambda o: s.CosineAnnealingLR(o, 8, 0.1), 9),
        0.1 + 0.4 * (1 + np.cos(np.pi * steps[:9] / 8)) / 2,
    )
    np.testing.assert_allclose(
        schedule_rates(lambda o: s.LinearLR(o, 0.5, 1.0, 4), 6),
        [0.25, 0.3125, 0.375, 0.4375, 0.5, 0.5],
    )
    np.testing.assert_allclose(
        schedule_rates(lambda o: s.MultiStepLR(o, [7, 2, 2], 0.1), 10),
        0.5 * 0.1 ** (2 * (steps >= 2) + (steps >= 7)),
    )
    rates = schedule_rates(lambda o: s.ExponentialLR(o, 0.9), 10)
    np.testing.assert_allclose(rates, 0.5 * 0.9**steps)
    np.testing.assert_allclose(
        schedule_rates(lambda o: s.ConstantLR(o, 0.2, 4), 10), np.where(steps < 4, 0.1, 0.5)
    )
    np.testing.assert_allclose(
        schedule_rates(lambda o: s.PolynomialLR(o, 5, 2.0), 10),
        0.5 * np.maximum(1 - steps / 5, 0) ** 2,
    )
    share = np.array([0, 1 / 2, 0, 1 / 4, 2 / 4, 3 / 4, 0, 1 / 8, 2 / 8, 3 / 8])
    np.testing.assert_allclose(
        schedule_rates(lambda o: s.CosineAnnealingWarmRestarts(o, 2, 2, 0.1), 10),
        0.1 + 0.4 * (1 + np.cos(np.pi * share)) / 2,
    )
    with pytest.raises(OptionError, match="T_0=0"):
        schedule_rates(lambda o: s.CosineAnnealingWarmRestarts(o, 0), 1)


PLATEAUS: dict[str, tuple[dict[str, Any], list[float]]] = {  # rates after 3, 2, 2, 2, 1, 1, 1, 1
    "patience": ({"patience": 1}, [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25]),
    "cooldown": ({"patience": 0, "cooldown": 2}, [1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25]),
    "least": ({"patience": 0, "min_lr": 0.4}, [1, 1, 0.5, 0.4, 0.4, 0.4, 0.4, 0.4]),
    "at most": (
        {"patience": 0, "mode": "max", "eps": 0.1},
        [1, 0.5, 0.25, 0.125, 0.125, 0.125, 0.125, 0.125],
    ),
    "share": ({"patience": 2, "threshold": 0.5}, [1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25]),
    "difference": (
        {"patience": 2, "threshold": 1.0, "threshold_mode": "abs"},
        [1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLATEAUS)
def test_plateaus(name: str) -> None:
    options, expected = PLATEAUS[name]
    optimizer = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=1.0)
    schedule = optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, **options)
    rates = []
    for loss in (3.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0):
        again = optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, **options)
        again.load_state_dict(schedule.state_dict())
        schedule = again
        schedule.step(lm.asarray(loss))
        rates += schedule.get_last_lr()
    assert rates == expected


def test_plateau_refusals() -> None:
    optimizer = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=1.0)
    for options in ({"mode": "least"}, {"threshold_mode": "share"}, {"factor": 1.0}):
        with pytest.raises(OptionError, match=r"\[ReduceLROnPlateau\]"):
            optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_one_cycle(strategy: str) -> None:
    s = optim.lr_scheduler
    rates = schedule_rates(lambda o: s.OneCycleLR(o, 1.0, 20, 0.3, strategy), 20)
    assert rates[0] == pytest.approx(0.04)
    assert rates[5] == pytest.approx(1.0)
    assert rates[19] == pytest.approx(0.04 / 1e4)
    assert sorted(rates[:6]) == rates[:6]
    assert sorted(rates[5:], reverse=True) == rates[5:]
    middle = {
        "cos": 1.0 + (0.04e-4 - 1.0) * (1 - math.cos(math.pi / 2)) / 2,
        "linear": (1 + 0.04e-4) / 2,
    }
    assert rates[12] == pytest.approx(middle[strategy])
    with pytest.raises(OptionError, match="cycle is over"):
        schedule_rates(lambda o: s.OneCycleLR(o, 1.0, 3), 5)
    with pytest.raises(OptionError, match="'exp'"):
        schedule_rates(lambda o: s.OneCycleLR(o, 1.0, 3, anneal_strategy="exp"), 1)


def test_schedule_state_continues() -> None:
    optimizer = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=0.5)
    schedule = optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(3):
        schedule.step()
    other = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=9.0)
    again = optim.lr_scheduler.StepLR(other, 2)
    again.load_state_dict(schedule.state_dict())
    assert again.get_last_lr() == schedule.get_last_lr() == [pytest.approx(0.05)]


@pytest.mark.skipif(lm.config.backend == "interpret", reason="the interpreter does not trace")
def test_what_jit_would_freeze_is_an_error() -> None:
    optimizer = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=0.5)
    schedule = optim.lr_scheduler.StepLR(optimizer, 2)

    @lm.jit
    def steps(x: lm.Tensor) -> lm.Tensor:
        schedule.step()
        return x

    @lm.jit
    def sets(x: lm.Tensor) -> lm.Tensor:
        optimizer.param_groups[0]["lr"] = 0.1
        return x

    with pytest.raises(TraceError, match="call it after the compiled step"):
        steps(lm.ones(1))
    with pytest.raises(TraceError, match="set it between calls"):
        sets(lm.ones(1))
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert schedule.last_epoch == 0


def _trained() -> tuple[nn.Module, optim.Optimizer]:
    model = nn.Linear(3, 2)
    optimizer = optim.AdamW(model.parameters(), lr=0.05)
    _descend(model, optimizer)
    return model, optimizer


def _descend(model: nn.Module, optimizer: optim.Optimizer) -> list[float]:
    losses = []
    for _ in range(3):
        loss = (model(lm.ones((4, 3))) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("how", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_a_copied_or_pickled_optimiser_continues_exactly(how: Any) -> None:
    pair = _trained()
    twin = how(pair)
    assert _descend(*pair) == _descend(*twin)
    twin[1].param_groups[0]["lr"] = 0.0
    assert pair[1].param_groups[0]["lr"] == 0.05


@pytest.mark.parametrize("wrong", ["abc", None, (0.1, 0.2)])
def test_a_rate_that_is_no_number_is_refused_where_it_is_set(wrong: Any) -> None:
    model, optimizer = _trained()
    with pytest.raises(OptionError, match=r"\[optim\].*'lr'"):
        optimizer.param_groups[0]["lr"] = wrong
    with pytest.raises(OptionError, match="betas"):
        optimizer.param_groups[0]["betas"] = (0.9,)
    _descend(model, optimizer)


def test_rates_may_be_numpy_numbers() -> None:
    optimizer = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=np.float32(0.5))
    optimizer.param_groups[0]["lr"] = np.float32(0.25)
    assert optimizer.param_groups[0].number("lr").item() == 0.25


@pytest.mark.parametrize("wrong", [None, 3, {"params": []}])
def test_parameters_of_a_wrong_kind_are_named(wrong: Any) -> None:
    with pytest.raises(OptionError, match=r"\[SGD\] params is a"):
        optim.SGD(wrong, lr=0.1)
    with pytest.raises(OptionError, match="betas"):
        optim.Adam([lm.tensor([1.0], requires_grad=True)], betas=0.9)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [None, {}, {"state": {}}])
def test_a_state_of_a_wrong_form_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match=r"\[load_state_dict\].*'param_groups'"):
        _trained()[1].load_state_dict(wrong)
