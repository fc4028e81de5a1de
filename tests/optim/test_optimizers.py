"""Optimisers beyond SGD and Adam: what PyTorch has not, options, and states in files."""

import numpy as np
import pytest

import lamella as lm
from lamella import optim
from lamella.errors import OptionError

KINDS = {
    "SGD": {"momentum": 0.9},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "RMSprop": {"momentum": 0.5, "centered": True},
    "Adagrad": {"initial_accumulator_value": 0.1},
    "Adadelta": {},
    "Adamax": {},
    "NAdam": {},
    "RAdam": {},
    "Lion": {},
    "Adafactor": {},
}


def parameters():
    rng = np.random.default_rng(1)
    return [lm.tensor(rng.normal(size=s), requires_grad=True) for s in ((3, 2), (4,))]


def train(opt, params, steps):
    for _ in range(steps):
        opt.zero_grad()
        sum((lm.cos(p) * p).sum() for p in params).backward()
        opt.step()


def test_lion_is_the_formula_of_the_paper():
    params = parameters()
    rate, decay, first, second = 0.1, 0.3, 0.8, 0.95
    opt = optim.Lion(params, lr=rate, betas=(first, second), weight_decay=decay)
    values = [p.numpy().copy() for p in params]
    means = [np.zeros_like(v) for v in values]
    for _ in range(5):
        for v, m in zip(values, means, strict=True):
            g = np.cos(v) - v * np.sin(v)
            v -= rate * (np.sign(first * m + (1 - first) * g) + decay * v)
            m[...] = second * m + (1 - second) * g
    train(opt, params, 5)
    for p, v in zip(params, values, strict=True):
        np.testing.assert_allclose(p.numpy(), v, rtol=1e-12)


@pytest.mark.parametrize("name", KINDS)
def test_training_goes_on_from_a_file(name, tmp_path):
    params, again = parameters(), parameters()
    kind = getattr(optim, name)
    opt = kind(params, lr=0.05, **KINDS[name])
    train(opt, params, 3)
    path = tmp_path / "optimizer.safetensors"
    lm.save(opt.state_dict(flat=True), path)
    other = kind(again)
    for p, q in zip(again, params, strict=True):
        p.data = q.data
    other.load_state_dict(lm.load(path))
    train(opt, params, 3)
    train(other, again, 3)
    assert other.param_groups[0]["lr"] == 0.05
    for p, q in zip(params, again, strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


@pytest.mark.parametrize("eps", [(None, 1e-3), (1e-6, 1e-2)])
def test_options_that_may_be_none_are_kept(eps):
    opt = optim.Adafactor(parameters(), eps=eps)
    other = optim.Adafactor(parameters(), eps=(1e-9 if eps[0] else None, 1.0))
    other.load_state_dict(opt.state_dict(flat=True))
    assert other.param_groups[0]["eps"] == eps


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("RMSprop", {"alpha": -0.1}), ("Adagrad", {"eps": -1.0}), ("Adadelta", {"rho": 1.5}),
        ("Adamax", {"betas": (0.9, 1.0)}), ("NAdam", {"momentum_decay": -1.0}),
        ("RAdam", {"betas": 0.9}), ("Lion", {"lr": -1.0}), ("Adafactor", {"d": 0.5}),
        ("Adafactor", {"beta2_decay": 0.5}), ("Adafactor", {"eps": 1e-3}),
    ],
)  # fmt: skip
def test_options_out_of_range_are_named(name, options):
    with pytest.raises(OptionError, match=rf"^\[{name}\] {next(iter(options))}="):
        getattr(optim, name)(parameters(), **options)


def test_a_name_that_is_not_of_a_flat_state_is_refused():
    opt = optim.Adam(parameters())
    with pytest.raises(OptionError, match="no name of an optimiser's flat state"):
        opt.load_state_dict({**opt.state_dict(flat=True), "weight": lm.zeros(2)})
