"""Modules inside compiled functions: what changes between calls is seen, state moves on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import lamella as lm
from lamella import nn, optim

X = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)


def test_training_mode_is_seen() -> None:
    net = nn.Dropout(0.5)
    forward = lm.jit(lambda x: net(x))
    x = lm.ones(1000)
    assert (forward(x).numpy() == 0).any()
    net.eval()
    assert not (forward(x).numpy() == 0).any()
    net.train()
    assert (forward(x).numpy() == 0).any()


def test_dropout_draws_anew_each_call() -> None:
    net = nn.Dropout(0.5)
    forward = lm.jit(lambda x: net(x))
    lm.manual_seed(0)
    first, second = forward(lm.ones(100)).tolist(), forward(lm.ones(100)).tolist()
    lm.manual_seed(0)
    assert first != second
    assert forward(lm.ones(100)).tolist() == first


def test_running_statistics_move_as_without_jit() -> None:
    plain, compiled = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    forward = lm.jit(lambda x: compiled(x))
    for step in range(4):
        plain(lm.asarray(X + step))
        forward(lm.asarray(X + step))
    assert compiled.num_batches_tracked.item() == 4
    for name, value in plain.state_dict().items():
        np.testing.assert_allclose(compiled.state_dict()[name].numpy(), value.numpy(), rtol=1e-5)


def test_attributes_layers_and_parameters_exchanged_outside_are_seen() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Identity()
            self.scale = 2.0
            self.shift = nn.Parameter(lm.zeros(()))

        def forward(self, x: lm.Tensor) -> lm.Tensor:
            return self.inner(x) * self.scale + self.shift

    net = Scaled()
    forward = lm.jit(lambda x: net(x))
    x = lm.asarray([-1.0])
    assert forward(x).tolist() == [-2.0]
    net.scale = 3.0
    assert forward(x).tolist() == [-3.0]
    net.inner = nn.ReLU()
    assert forward(x).tolist() == [0.0]
    net.shift = nn.Parameter(lm.ones(()))
    assert forward(x).tolist() == [1.0]
    net.load_state_dict({"shift": np.float32(5)})
    assert forward(x).tolist() == [5.0]
    handle = net.register_forward_hook(lambda module, args, y: y * 10)
    assert forward(x).tolist() == [50.0]
    handle.remove()
    assert forward(x).tolist() == [5.0]


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_whole_steps_train_as_without_jit_from_one_trace(kind: str) -> None:
    traces = itertools.count()

    def train(compiled: bool) -> list[float]:
        lm.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 1))
        make = {"sgd": lambda p: optim.SGD(p, 0.05, 0.9), "adamw": lambda p: optim.AdamW(p, 0.01)}
        optimizer = make[kind](net.parameters())
        schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

        def step(x: lm.Tensor, y: lm.Tensor) -> lm.Tensor:
            next(traces)
            loss = nn.functional.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            return loss

        run = lm.jit(step) if compiled else step
        losses = []
        for _ in range(10):
            losses.append(run(lm.asarray(X), lm.asarray(X[:, :1] ** 2)).item())
            schedule.step()
        return losses

    eager = train(False)
    before = next(traces)
    np.testing.assert_allclose(train(True), eager, rtol=2e-4)
    assert eager[-1] < eager[0]
    if lm.config.backend != "interpret":
        assert next(traces) - before - 1 <= 2


def test_functional_gradients_of_modules() -> None:
    net = nn.Linear(3, 1)
    x, y = lm.asarray(X), lm.asarray(X[:, :1])

    def loss_of(model: nn.Linear, x: lm.Tensor, y: lm.Tensor) -> lm.Tensor:
        return nn.functional.mse_loss(model(x), y)

    value, gradients = lm.value_and_grad(loss_of)(net, x, y)
    loss = loss_of(net, x, y)
    loss.backward()
    assert value.item() == pytest.approx(loss.item(), rel=1e-6)
    assert isinstance(gradients, nn.Linear)
    np.testing.assert_allclose(gradients.weight.numpy(), net.weight.grad.numpy(), rtol=1e-5)
    moved = lm.tree.map(lambda p, g: p - 0.1 * g, net, gradients)
    assert loss_of(moved, x, y).item() < value.item()
    each = lm.vmap(lm.grad(loss_of), in_axes=(None, 0, 0))(net, x[:, None], y[:, None])
    np.testing.assert_allclose(each.weight.numpy().mean(0), net.weight.grad.numpy(), rtol=1e-4)
