"""One training step of ResNet-18: batch 16 of 64 × 64 images, cross-entropy, SGD with momentum."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import Array, Figure, Task, against, race
from benchmarks.workloads import vision

NAMES = ["torch", "lamella", "torch_last", "torch_compile"]
BATCH, SIZE, CLASSES = 16, 64, 1000


def labels() -> Array:
    """Random classes."""
    return np.random.default_rng(3).integers(0, CLASSES, BATCH)


def lamella() -> Task:
    """The step under one jit."""
    import lamella as lm
    from lamella import nn, optim

    model = vision.resnet18(nn)
    model.load_state_dict(vision.weights(model), strict=False)
    optimizer = optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x, y = lm.asarray(vision.images(BATCH, SIZE)), lm.asarray(labels())

    @lm.jit
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    losses: list[Any] = []

    def run() -> None:
        losses.append(step(x, y))
        lm.eval(losses[-1])

    return Task(run, lambda: np.asarray([float(losses[0])]))


def _torch(last: bool = False, compiled: bool = False) -> Task:
    import torch as th

    model = vision.torch_model(vision.resnet18, last).train()
    optimizer = th.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    forward = th.compile(model) if compiled else model
    x, y = th.from_numpy(vision.images(BATCH, SIZE)), th.from_numpy(labels())
    x = x.to(memory_format=th.channels_last) if last else x
    losses: list[Any] = []

    def run() -> None:
        loss = th.nn.functional.cross_entropy(forward(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    return Task(run, lambda: np.asarray([float(losses[0])]))


def torch() -> Task:
    """PyTorch, eager."""
    return _torch()


def torch_last() -> Task:
    """PyTorch, eager, channels last."""
    return _torch(last=True)


def torch_compile() -> Task:
    """PyTorch, torch.compile."""
    return _torch(compiled=True)


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'."""
    timings, left_out = race("resnet_train", NAMES, rounds=3 if quick else 9, target=1.0)
    limits = dict.fromkeys(NAMES, 1.0)
    return against("ResNet-18 training step, 16 × 64²", timings, left_out, limits)
