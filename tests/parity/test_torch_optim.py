"""Optimisers step by step beside PyTorch's, eagerly and compiled."""

import numpy as np
import pytest

import lamella as lm
from lamella import optim

torch = pytest.importorskip("torch")

CASES = [
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.1, "alpha": 0.9}),
    ("RMSprop", {"maximize": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Adadelta", {}),
    ("Adadelta", {"rho": 0.7, "weight_decay": 0.1, "lr": 0.3}),
    ("Adamax", {}),
    ("Adamax", {"betas": (0.8, 0.9), "weight_decay": 0.1}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "momentum_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"betas": (0.8, 0.9), "weight_decay": 0.1}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adafactor", {}),
    ("Adafactor", {"eps": (1e-6, 1e-2), "weight_decay": 0.1, "d": 2.0, "lr": 0.3}),
]
SHAPES = ((4, 3), (5,), (2, 3, 4))


def losses(x, library):
    return sum((library.sin(p) * p * (i + 1)).sum() for i, p in enumerate(x))


@pytest.mark.parametrize(("name", "options"), CASES)
def test_steps_are_those_of_torch(name, options):
    rng = np.random.default_rng(3)
    start = [rng.normal(size=shape) for shape in SHAPES]
    theirs = [torch.tensor(s, requires_grad=True) for s in start]
    reference = getattr(torch.optim, name)(theirs, **options)
    found = []
    for compiled in (False, True):
        ours = [lm.tensor(s, requires_grad=True) for s in start]
        opt = getattr(optim, name)(ours, **options)

        def step(opt=opt, ours=ours):
            opt.zero_grad()
            losses(ours, lm).backward()
            opt.step()

        step = lm.jit(step) if compiled else step
        for _ in range(8):
            step()
        found.append(ours)
    for _ in range(8):
        reference.zero_grad()
        losses(theirs, torch).backward()
        reference.step()
    for ours in found:
        for mine, their in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine.numpy(), their.detach().numpy(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES}))
def test_defaults_are_those_of_torch(name):
    p = [lm.zeros(2, requires_grad=True)]
    theirs = getattr(torch.optim, name)([torch.zeros(2, requires_grad=True)]).defaults
    for option, value in getattr(optim, name)(p).defaults.items():
        assert theirs[option] == value, option


SCHEDULES = [
    ("StepLR", {"step_size": 3}),
    ("MultiStepLR", {"milestones": [2, 5]}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("ConstantLR", {}),
    ("LinearLR", {}),
    ("PolynomialLR", {"power": 2.0}),
    ("LambdaLR", {"lr_lambda": [lambda t: 1 / (1 + t), lambda t: 0.5**t]}),
    ("MultiplicativeLR", {"lr_lambda": [lambda t: 1 / (1 + t), lambda t: 0.9]}),
    ("CosineAnnealingLR", {"T_max": 30, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2}),
    ("OneCycleLR", {"max_lr": [0.3, 0.1], "total_steps": 21, "cycle_momentum": False}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": [0.5, 0.7], "step_size_up": 3}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 2, "step_size_down": 5,
                  "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 3, "mode": "exp_range",
                  "gamma": 0.9}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 3, "scale_fn": lambda c: 1 / c}),
]  # fmt: skip


def groups(library, leaf):
    return library.SGD([{"params": [leaf()], "lr": lr} for lr in (0.5, 0.2)], lr=1.0)


def rates(schedule, optimizer, steps=20):
    found = []
    for _ in range(steps):
        optimizer.step()
        schedule.step()
        found.append(schedule.get_last_lr())
    return found


def both(make):
    """The rates of 20 steps of a schedule that ``make`` makes, in PyTorch and here."""
    theirs = groups(torch.optim, lambda: torch.ones(1, requires_grad=True))
    ours = groups(optim, lambda: lm.nn.Parameter(lm.ones(1)))
    wanted = rates(make(torch.optim.lr_scheduler, theirs), theirs)
    return rates(make(optim.lr_scheduler, ours), ours), wanted


@pytest.mark.parametrize(("name", "options"), SCHEDULES)
def test_rates_are_those_of_torch(name, options):
    def make(library, optimizer):
        own = dict(options)
        if library is optim.lr_scheduler:
            own.pop("cycle_momentum", None)
        elif name == "CyclicLR":
            own["cycle_momentum"] = False
        return getattr(library, name)(optimizer, **own)

    found, wanted = both(make)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_chained_rates_are_those_of_torch():
    def make(library, optimizer):
        return library.ChainedScheduler([
            library.ConstantLR(optimizer, factor=0.1, total_iters=4),
            library.ExponentialLR(optimizer, gamma=0.9),
            library.LinearLR(optimizer, start_factor=0.5),
        ])  # fmt: skip

    found, wanted = both(make)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
