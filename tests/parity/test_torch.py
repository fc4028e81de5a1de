"""Comparisons with PyTorch: modules, losses, optimisers, and training runs from equal numbers."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella import nn, optim

torch = pytest.importorskip("torch", reason="make parity installs PyTorch")
th_nn = torch.nn

DRAW = np.random.default_rng(0)


def draw(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (DRAW.normal(size=shape) * scale).astype(np.float32)


MODULES = {
    "Linear": (lambda n: n.Linear(5, 7), (4, 5)),
    "Linear without bias": (lambda n: n.Linear(5, 7, bias=False), (2, 3, 5)),
    "Conv1d": (lambda n: n.Conv1d(3, 6, 3, stride=2, padding=1), (2, 3, 11)),
    "Conv2d": (lambda n: n.Conv2d(3, 6, 3, padding=1), (2, 3, 9, 8)),
    "Conv2d strided, dilated": (lambda n: n.Conv2d(4, 8, 3, 2, 2, 2), (2, 4, 11, 10)),
    "Conv2d depthwise": (lambda n: n.Conv2d(4, 4, 3, groups=4), (2, 4, 7, 7)),
    "Conv3d": (lambda n: n.Conv3d(2, 3, 2), (1, 2, 4, 5, 6)),
    "ConvTranspose2d": (lambda n: n.ConvTranspose2d(4, 6, 3, 2, 1, 1), (2, 4, 5, 6)),
    "BatchNorm2d": (lambda n: n.BatchNorm2d(3), (4, 3, 5, 5)),
    "BatchNorm1d": (lambda n: n.BatchNorm1d(6), (8, 6)),
    "LayerNorm": (lambda n: n.LayerNorm(6), (3, 4, 6)),
    "GroupNorm": (lambda n: n.GroupNorm(2, 6), (3, 6, 4, 4)),
    "RMSNorm": (lambda n: n.RMSNorm(6), (3, 4, 6)),
    "GELU": (lambda n: n.GELU(), (3, 40)),
    "SiLU": (lambda n: n.SiLU(), (3, 40)),
    "Softmax": (lambda n: n.Softmax(dim=-1), (3, 40)),
    "LogSoftmax": (lambda n: n.LogSoftmax(dim=1), (3, 5, 4)),
    "MaxPool2d": (lambda n: n.MaxPool2d(3, 2, 1), (2, 3, 9, 8)),
    "AvgPool2d": (lambda n: n.AvgPool2d(2), (2, 3, 8, 6)),
    "AdaptiveAvgPool2d": (lambda n: n.AdaptiveAvgPool2d(1), (2, 3, 8, 6)),
    "network": (
        lambda n: n.Sequential(
            n.Conv2d(1, 8, 3, padding=1),
            n.BatchNorm2d(8),
            n.ReLU(),
            n.MaxPool2d(2),
            n.Flatten(),
            n.Linear(8 * 16, 10),
        ),  # fmt: skip
        (6, 1, 8, 8),
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_module_output_gradients_and_state(name: str) -> None:
    build, shape = MODULES[name]
    theirs, ours = build(th_nn), build(nn)
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    x = draw(*shape)
    their_x = torch.from_numpy(x.copy()).requires_grad_()
    our_x = lm.tensor(x, requires_grad=True)
    their_y, our_y = theirs(their_x), ours(our_x)
    np.testing.assert_allclose(
        our_y.detach().numpy(), their_y.detach().numpy(), atol=2e-5, rtol=2e-5
    )
    weights = draw(*their_y.shape)
    (their_y * torch.from_numpy(weights)).sum().backward()
    lm.sum(our_y * lm.asarray(weights)).backward()
    np.testing.assert_allclose(our_x.grad.numpy(), their_x.grad.numpy(), atol=1e-4, rtol=1e-4)
    grads = {k: p.grad.numpy() for k, p in theirs.named_parameters()}
    for key, parameter in ours.named_parameters():
        np.testing.assert_allclose(
            parameter.grad.numpy(), grads[key], atol=2e-4, rtol=2e-4, err_msg=key
        )
    for key, value in theirs.state_dict().items():
        np.testing.assert_allclose(
            ours.state_dict()[key].numpy(), value.numpy(), atol=1e-5, rtol=1e-5, err_msg=key
        )


def test_multihead_attention() -> None:
    theirs = th_nn.MultiheadAttention(16, 4, batch_first=True)
    ours = nn.MultiheadAttention(16, 4, batch_first=True)
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    x = draw(2, 5, 16)
    wanted, _ = theirs(*[torch.from_numpy(x)] * 3, need_weights=False)
    found, _ = ours(*[lm.asarray(x)] * 3, need_weights=False)
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_function(causal: bool) -> None:
    q, k, v = (draw(2, 3, 7, 8) for _ in range(3))
    wanted = th_nn.functional.scaled_dot_product_attention(
        *map(torch.from_numpy, (q, k, v)), is_causal=causal
    )
    found = nn.functional.scaled_dot_product_attention(
        *map(lm.asarray, (q, k, v)), is_causal=causal
    )
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), atol=1e-5)


LOSSES = {
    "cross_entropy": ({}, "labels"),
    "cross_entropy sum": ({"reduction": "sum"}, "labels"),
    "cross_entropy smoothed": ({"label_smoothing": 0.1}, "labels"),
    "cross_entropy ignoring": ({"ignore_index": 2}, "labels"),
    "mse_loss": ({}, "values"),
    "l1_loss": ({"reduction": "none"}, "values"),
    "binary_cross_entropy_with_logits": ({}, "shares"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name: str) -> None:
    options, kind = LOSSES[name]
    function = name.split()[0]
    x = draw(12, 5)
    target = {
        "labels": DRAW.integers(0, 5, 12),
        "values": draw(12, 5),
        "shares": DRAW.uniform(size=(12, 5)).astype(np.float32),
    }[kind]
    wanted = getattr(th_nn.functional, function)(
        torch.from_numpy(x), torch.from_numpy(target), **options
    )
    found = getattr(nn.functional, function)(lm.asarray(x), lm.asarray(target), **options)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=2e-5, atol=1e-6)


OPTIMISERS = {
    "SGD": {"lr": 0.05},
    "SGD momentum": {"lr": 0.05, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01},
    "SGD nesterov": {"lr": 0.05, "momentum": 0.9, "nesterov": True},
    "Adam": {"lr": 0.01, "betas": (0.8, 0.99)},
    "Adam decay": {"lr": 0.01, "weight_decay": 0.1},
    "AdamW": {"lr": 0.01, "weight_decay": 0.1},
}


def run(library, functional, optimiser, options, state, x, y, make, jit) -> list[float]:
    model = library.Sequential(library.Linear(6, 16), library.Tanh(), library.Linear(16, 3))
    model.load_state_dict(state)
    opt = optimiser(model.parameters(), **options)

    def step(x, y):
        loss = functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    step = jit(step)
    return [step(make(x), make(y)).item() for _ in range(20)]


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_training_run(name: str, jit: bool) -> None:
    template = th_nn.Sequential(th_nn.Linear(6, 16), th_nn.Tanh(), th_nn.Linear(16, 3))
    state = template.state_dict()
    numbers = {k: v.numpy().copy() for k, v in state.items()}
    x, y = draw(32, 6), DRAW.integers(0, 3, 32)
    kind, options = name.split()[0], OPTIMISERS[name]
    wanted = run(
        th_nn, th_nn.functional, getattr(torch.optim, kind), options, state, x, y,
        torch.from_numpy, lambda f: f,
    )  # fmt: skip
    found = run(
        nn, nn.functional, getattr(optim, kind), options, numbers, x, y,
        lm.asarray, lm.jit if jit else lambda f: f,
    )  # fmt: skip
    np.testing.assert_allclose(found, wanted, rtol=2e-4)


def test_dlpack_both_ways_shares_memory() -> None:
    theirs = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    ours = lm.from_dlpack(theirs)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    back = torch.from_dlpack(lm.asarray(np.arange(4.0)))
    assert back.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_default_initial_values_have_the_same_spread() -> None:
    lm.manual_seed(0)
    torch.manual_seed(0)
    for build in (lambda n: n.Linear(400, 300), lambda n: n.Conv2d(16, 64, 3)):
        theirs, ours = build(th_nn), build(nn)
        for name in ("weight", "bias"):
            wanted = getattr(theirs, name).detach().numpy()
            found = getattr(ours, name).detach().numpy()
            assert abs(found.std() / wanted.std() - 1) < 0.2
            assert abs(np.abs(found).max() / np.abs(wanted).max() - 1) < 0.1
