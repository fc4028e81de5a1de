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
