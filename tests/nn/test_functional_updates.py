"""Modules updated as trees, eagerly and compiled: memory stays flat, derivatives pass through."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from lamella.runtime.buffer import memory_in_use

X = np.random.default_rng(0).standard_normal((16, 3)).astype(np.float32)


def _loss(model: nn.Module, x: lm.Tensor) -> lm.Tensor:
    return ((model(x) - 1.0) ** 2).mean()


def _update(model: nn.Module) -> tuple[lm.Tensor, nn.Module]:
    value, grads = lm.value_and_grad(_loss)(model, lm.asarray(X))
    return value, lm.tree.map(lambda p, g: p - 0.1 * g, model, grads)


@pytest.mark.parametrize("compiled", [False, True])
def test_updates_without_history_keep_memory_flat(compiled: bool) -> None:
    update = lm.jit(_update) if compiled else _update
    model: nn.Module = nn.Linear(3, 2)
    losses, held = [], []
    for _ in range(40):
        with lm.no_grad():
            value, model = update(model)
        losses.append(value.item())
        held.append(memory_in_use())
    assert losses[-1] < losses[0] / 2
    assert held[-1] <= held[10] + 65536


def test_derivatives_pass_through_an_update() -> None:
    model = nn.Linear(3, 2)

    def after(model: nn.Module) -> lm.Tensor:
        return _loss(_update(model)[1], lm.asarray(X))

    exact = lm.grad(after)(model).weight.numpy()
    step = 1e-2
    for place in ((0, 0), (1, 2)):
        ends = []
        for sign in (1, -1):
            moved = nn.Linear(3, 2)
            moved.load_state_dict(model.state_dict())
            with lm.no_grad():
                moved.weight[place] = moved.weight[place] + sign * step
            ends.append(after(moved).item())
        slope = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(slope, exact[place], rtol=2e-2, atol=1e-3)
