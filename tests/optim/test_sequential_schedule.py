"""Schedules one after another: rates as PyTorch's formulas give them, from the first rates."""

from __future__ import annotations

import math

import pytest

import lamella as lm
from lamella.errors import OptionError
from lamella.optim import lr_scheduler as schedules


def optimizer(*rates):
    one = [lm.nn.Parameter(lm.ones(1)) for _ in rates]
    return lm.optim.SGD([{"params": [p], "lr": r} for p, r in zip(one, rates, strict=True)], lr=1.0)


def warm_then_cosine(opt):
    first = schedules.LinearLR(opt, start_factor=0.1, total_iters=3)
    then = schedules.CosineAnnealingLR(opt, T_max=10)
    return schedules.SequentialLR(opt, [first, then], milestones=[3])


def expected(step):
    if step < 3:
        return 0.1 + 0.9 * step / 3
    return (1 + math.cos(math.pi * (step - 3) / 10)) / 2


def test_warm_up_then_cosine():
    opt = optimizer(2.0, 0.5)
    schedule = warm_then_cosine(opt)
    for step in range(9):
        wanted = [rate * expected(step) for rate in (2.0, 0.5)]
        assert schedule.get_last_lr() == pytest.approx(wanted, abs=1e-12)
        schedule.step()


def test_a_second_schedule_starts_from_the_first_rates():
    opt = optimizer(1.0)
    schedules.ConstantLR(opt, factor=0.1)
    schedules.CosineAnnealingLR(opt, T_max=4)
    assert opt.param_groups[0]["lr"] == 1.0


def test_it_goes_on_from_its_state():
    schedule = warm_then_cosine(optimizer(2.0))
    for _ in range(5):
        schedule.step()
    resumed = optimizer(7.0)
    other = warm_then_cosine(resumed)
    other.load_state_dict(schedule.state_dict())
    assert other.get_last_lr() == schedule.get_last_lr()
    other.step()
    assert resumed.param_groups[0]["lr"] == pytest.approx(2 * expected(6))


def test_wrong_uses():
    opt, other = optimizer(1.0), optimizer(1.0)
    one, two = schedules.ConstantLR(opt), schedules.ConstantLR(other)
    for given, milestones in (([one], [3]), ([one, two], [3]), ([one, one, one], [5, 3])):
        with pytest.raises(OptionError, match=r"^\[SequentialLR\]"):
            schedules.SequentialLR(opt, given, milestones)
    with pytest.raises(OptionError, match=r"^\[SequentialLR\] ReduceLROnPlateau"):
        schedules.SequentialLR(opt, [one, schedules.ReduceLROnPlateau(opt)], [2])


def test_chained_schedules_multiply_and_continue():
    def made(opt):
        return schedules.ChainedScheduler([
            schedules.ExponentialLR(opt, 0.9),
            schedules.MultiplicativeLR(opt, lambda t: 1 / (1 + t)),
        ])  # fmt: skip

    one = made(optimizer(2.0, 0.5))
    for _ in range(5):
        one.step()
    wanted = [rate * 0.9**5 / math.factorial(6) for rate in (2.0, 0.5)]
    assert one.get_last_lr() == pytest.approx(wanted, rel=1e-12)
    again = made(optimizer(2.0, 0.5))
    again.load_state_dict(one.state_dict())
    assert again.get_last_lr() == pytest.approx(wanted, rel=1e-12)


def test_cycles_refuse_what_they_cannot_do():
    opt = optimizer(1.0, 1.0)
    with pytest.raises(OptionError, match=r"\[CyclicLR\].*triangular2"):
        schedules.CyclicLR(opt, 0.1, 1.0, mode="square")
    with pytest.raises(OptionError, match=r"\[CyclicLR\].*at least one step"):
        schedules.CyclicLR(opt, 0.1, 1.0, step_size_up=0)
    with pytest.raises(OptionError, match=r"\[CyclicLR\] max_lr: 3 for 2 groups"):
        schedules.CyclicLR(opt, 0.1, [1.0, 2.0, 3.0])
    with pytest.raises(OptionError, match=r"\[ChainedScheduler\] no schedules"):
        schedules.ChainedScheduler([])
    with pytest.raises(OptionError, match=r"\[ChainedScheduler\].*ReduceLROnPlateau"):
        schedules.ChainedScheduler([schedules.ReduceLROnPlateau(opt)])
