"""A small network, its data and its training step, for tests of compiled steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import lamella as lm
from lamella import nn

__all__ = ["X", "Y", "network", "same", "stepper", "values"]

RNG = np.random.default_rng(11)
X = RNG.normal(size=(8, 5)).astype(np.float32)
Y = RNG.integers(0, 3, 8)


def network(*extra: nn.Module) -> nn.Module:
    lm.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 6), *extra, nn.Tanh(), nn.Linear(6, 3))


def stepper(model: nn.Module, optimizer: Any) -> Callable[..., Any]:
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def values(model: nn.Module) -> list[np.ndarray]:
    return [value.numpy().copy() for value in model.state_dict().values()]


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return all(x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True))
