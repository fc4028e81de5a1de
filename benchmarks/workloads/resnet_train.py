"""One training step of ResNet-18: batch 16 of 64 × 64 images, cross-entropy, SGD with momentum."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Array, Figure, Task, Work, against, race
from benchmarks.layers import jax_functions, tinygrad_functions
from benchmarks.workloads import resnet18, vision

NAMES = (
    "torch", "lamella", "torch_last", "torch_compile", "torch_compile_last", "jax", "tinygrad",
)  # fmt: skip
BATCH, SIZE, CLASSES = 16, 64, 1000
RATE, MOMENTUM = 1e-3, 0.9


def labels() -> Array:
    """Random classes."""
    return np.random.default_rng(3).integers(0, CLASSES, BATCH)


def lamella() -> Task:
    """The step under one jit."""
    import lamella as lm
    from lamella import nn, optim

    model = vision.resnet18(nn)
    model.load_state_dict(vision.weights(model), strict=False)
    optimizer = optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
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
    optimizer = th.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
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


def torch_compile_last() -> Task:
    """PyTorch, torch.compile, channels last."""
    return _torch(last=True, compiled=True)


def jax() -> Task:
    """JAX, the whole step jitted, its state donated."""
    import jax as j

    model, values = vision.stated(vision.resnet18, jax_functions(), training=True)
    chosen = j.numpy.arange(BATCH)

    def loss_of(trained: Any, kept: Any, x: Any, y: Any) -> Any:
        model.bind({**trained, **kept})
        loss = -j.nn.log_softmax(model(x))[chosen, y].mean()
        state = model.state_dict()
        return loss, {name: state[name] for name in kept}

    def update(state: Any, x: Any, y: Any) -> Any:
        trained, kept, momenta = state
        (loss, kept), grads = j.value_and_grad(loss_of, has_aux=True)(trained, kept, x, y)
        momenta = j.tree.map(lambda m, g: MOMENTUM * m + g, momenta, grads)
        trained = j.tree.map(lambda p, m: p - RATE * m, trained, momenta)
        return (trained, kept, momenta), loss

    arrays = {name: j.numpy.asarray(value) for name, value in values.items()}
    kept = {name: arrays.pop(name) for name in list(arrays) if "running" in name}
    state = [(arrays, kept, j.tree.map(j.numpy.zeros_like, arrays))]
    step = j.jit(update, donate_argnums=0)
    x, y = j.numpy.asarray(vision.images(BATCH, SIZE)), j.numpy.asarray(labels())
    losses: list[Any] = []

    def run() -> None:
        state[0], loss = step(state[0], x, y)
        losses.append(loss.block_until_ready())

    return Task(run, lambda: np.asarray([float(losses[0])]))


def tinygrad() -> Task:
    """tinygrad, the step recorded and repeated."""
    tensor, jit, wait = peers.tinygrad_parts()
    from tinygrad.helpers import Context
    from tinygrad.nn.optim import SGD

    model, values = vision.stated(vision.resnet18, tinygrad_functions(), training=True)
    model.bind({name: tensor(value).realize() for name, value in values.items()})
    kept = {name: v for name, v in model.state_dict().items() if "running" in name}
    trained = [value for name, value in model.state_dict().items() if "running" not in name]
    optimizer = SGD(trained, lr=RATE, momentum=MOMENTUM)
    x, y = tensor(vision.images(BATCH, SIZE)).realize(), tensor(labels()).realize()

    @jit
    def step(x: Any, y: Any) -> Any:
        model.bind(kept)
        loss = model(x).sparse_categorical_crossentropy(y)
        optimizer.zero_grad()
        loss.backward()
        new = model.state_dict()
        changed = [value.assign(new[name].detach()) for name, value in kept.items()]
        with Context(TRAINING=1):
            return loss.realize(*optimizer.schedule_step(), *changed)

    losses: list[float] = []

    def run() -> None:
        losses.append(float(step(x, y).numpy()))
        wait()

    return Task(run, lambda: np.asarray([losses[0]]))


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'."""
    timings, left_out = race("resnet_train", NAMES, rounds=3 if quick else 9, target=1.0)
    limits = dict.fromkeys(NAMES, 1.0)
    # a third of the size of the paper's images each way, forward and two products behind
    work = Work(flops=3 * BATCH * resnet18.FLOPS * (SIZE / 224) ** 2)
    return against("ResNet-18 training step, 16 × 64²", timings, left_out, limits, work)
