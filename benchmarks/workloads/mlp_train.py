"""A training step of a 784-512-512-10 network: batch 128, cross-entropy, Adam."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Figure, Task, Work, against, race

SIZES = (784, 512, 512, 10)
DRAW = np.random.default_rng(0)
LAYERS = [
    (DRAW.normal(size=(n, m)).astype(np.float32) / m**0.5, np.zeros(n, np.float32))
    for m, n in pairwise(SIZES)
]
IMAGES = DRAW.normal(size=(128, 784)).astype(np.float32)
LABELS = DRAW.integers(0, 10, 128)
RATE = 1e-3


def lamella() -> Task:
    """Modules and an optimiser, the step jitted."""
    import lamella as lm
    from lamella import nn, optim

    linears = [nn.Linear(m, n) for m, n in pairwise(SIZES)]
    for linear, (weight, bias) in zip(linears, LAYERS, strict=True):
        linear.load_state_dict({"weight": weight, "bias": bias})
    model = nn.Sequential(linears[0], nn.ReLU(), linears[1], nn.ReLU(), linears[2])
    optimizer = optim.Adam(model.parameters(), lr=RATE)
    images, labels = lm.asarray(IMAGES), lm.asarray(LABELS)

    @lm.jit
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    last: list[Any] = []

    def run() -> None:
        last[:] = [step(images, labels).numpy()]

    return Task(run, lambda: last[0])


def _torch(compiled: bool) -> Task:
    import torch as th

    linears = [th.nn.Linear(m, n) for m, n in pairwise(SIZES)]
    for linear, (weight, bias) in zip(linears, LAYERS, strict=True):
        linear.load_state_dict({"weight": th.from_numpy(weight), "bias": th.from_numpy(bias)})
    model = th.nn.Sequential(linears[0], th.nn.ReLU(), linears[1], th.nn.ReLU(), linears[2])
    optimizer = th.optim.Adam(model.parameters(), lr=RATE)
    images, labels = th.from_numpy(IMAGES), th.from_numpy(LABELS)

    def loss_of(x: Any, y: Any) -> Any:
        return th.nn.functional.cross_entropy(model(x), y)

    forward = th.compile(loss_of) if compiled else loss_of
    last: list[Any] = []

    def run() -> None:
        loss = forward(images, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last[:] = [loss.detach().numpy()]

    return Task(run, lambda: last[0])


def torch() -> Task:
    """PyTorch, eager."""
    return _torch(compiled=False)


def torch_compile() -> Task:
    """PyTorch, forward and backward compiled."""
    return _torch(compiled=True)


def jax() -> Task:
    """JAX, the whole step jitted, its state donated."""
    import jax as j
    import jax.numpy as jnp

    def loss_of(layers: Any, x: Any, y: Any) -> Any:
        for number, (weight, bias) in enumerate(layers):
            x = x @ weight.T + bias
            x = j.nn.relu(x) if number < len(layers) - 1 else x
        return -j.nn.log_softmax(x)[jnp.arange(128), y].mean()

    def step(state: Any, x: Any, y: Any) -> Any:
        layers, first, second, count = state
        loss, grads = j.value_and_grad(loss_of)(layers, x, y)
        count = count + 1
        first = j.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
        second = j.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
        one, two = 1 - 0.9**count, 1 - 0.999**count
        layers = j.tree.map(
            lambda p, m, v: p - RATE * (m / one) / (jnp.sqrt(v / two) + 1e-8), layers, first, second
        )
        return (layers, first, second, count), loss

    layers = [(jnp.asarray(w), jnp.asarray(b)) for w, b in LAYERS]
    zeros = j.tree.map(jnp.zeros_like, layers)
    jitted = j.jit(step, donate_argnums=0)
    state: list[Any] = [(layers, zeros, j.tree.map(jnp.zeros_like, layers), jnp.float32(0))]
    images, labels = jnp.asarray(IMAGES), jnp.asarray(LABELS)
    last: list[Any] = []

    def run() -> None:
        state[0], loss = jitted(state[0], images, labels)
        last[:] = [np.asarray(loss)]

    return Task(run, lambda: last[0])


def mlx() -> Task:
    """MLX's modules and optimiser, the step compiled."""
    import mlx.core as mx
    from mlx import nn, optimizers

    mx.set_default_device(mx.cpu)
    linears = [nn.Linear(m, n) for m, n in pairwise(SIZES)]
    for linear, (weight, bias) in zip(linears, LAYERS, strict=True):
        linear.weight, linear.bias = mx.array(weight), mx.array(bias)
    model = nn.Sequential(linears[0], nn.ReLU(), linears[1], nn.ReLU(), linears[2])
    optimizer = optimizers.Adam(learning_rate=RATE, bias_correction=True)
    images, labels = mx.array(IMAGES), mx.array(LABELS)
    gradient = nn.value_and_grad(
        model, lambda x, y: nn.losses.cross_entropy(model(x), y, reduction="mean")
    )
    state = [model.state, optimizer.state]

    def update(x: Any, y: Any) -> Any:
        loss, grads = gradient(x, y)
        optimizer.update(model, grads)
        return loss

    step = mx.compile(update, inputs=state, outputs=state)
    last: list[Any] = []

    def run() -> None:
        last[:] = [step(images, labels)]
        mx.eval(last, state)

    return Task(run, lambda: np.array(last[0]))


def tinygrad() -> Task:
    """tinygrad, the step recorded and repeated."""
    tensor, jit, _ = peers.tinygrad_parts()
    from tinygrad.helpers import Context
    from tinygrad.nn.optim import Adam

    layers = [(tensor(w).realize(), tensor(b).realize()) for w, b in LAYERS]
    optimizer = Adam([part for layer in layers for part in layer], lr=RATE)
    images, labels = tensor(IMAGES).realize(), tensor(LABELS).realize()

    @jit
    def step(x: Any, y: Any) -> Any:
        for number, (weight, bias) in enumerate(layers):
            x = x @ weight.T + bias
            x = x.relu() if number < len(layers) - 1 else x
        loss = x.sparse_categorical_crossentropy(y)
        optimizer.zero_grad()
        loss.backward()
        with Context(TRAINING=1):
            return loss.realize(*optimizer.schedule_step())

    last: list[Any] = []

    def run() -> None:
        last[:] = [step(images, labels).numpy()]

    return Task(run, lambda: last[0])


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'."""
    names = ["torch", "lamella", "torch_compile", "jax", "mlx", "tinygrad"]
    timings, left_out = race("mlp_train", names, rounds=3 if quick else 9, rtol=1e-3)
    limits = dict.fromkeys(names, 1.0)
    products = [m * n for m, n in pairwise(SIZES)]
    work = Work(flops=2.0 * len(IMAGES) * (3 * sum(products) - products[0]))
    return against("MLP training step", timings, left_out, limits, work)
