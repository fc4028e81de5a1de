"""A jitted 16-64-64-4 network on one row, NumPy in and NumPy out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Array, Figure, Task, against, race, within

LIMIT = 25e-6
SIZES = (16, 64, 64, 4)
DRAW = np.random.default_rng(0)
LAYERS = [
    (DRAW.normal(size=(n, m)).astype(np.float32) / 8, DRAW.normal(size=m).astype(np.float32) / 8)
    for n, m in pairwise(SIZES)
]
ROW = DRAW.normal(size=(1, 16)).astype(np.float32)


def network(x: Any, layers: Any, relu: Any) -> Any:
    """Two hidden layers."""
    for number, (weight, bias) in enumerate(layers):
        x = x @ weight + bias
        if number < len(layers) - 1:
            x = relu(x)
    return x


def lamella() -> Task:
    """One native call."""
    import lamella as lm

    layers = [(lm.asarray(w), lm.asarray(b)) for w, b in LAYERS]
    forward = lm.jit(lambda x: network(x, layers, lambda v: lm.maximum(v, 0.0)))
    last: list[Array] = []

    def run() -> None:
        last[:] = [forward(ROW).numpy()]

    return Task(run, lambda: last[0])


def numpy() -> Task:
    """NumPy."""
    last: list[Array] = []

    def run() -> None:
        last[:] = [network(ROW, LAYERS, lambda v: np.maximum(v, 0.0))]

    return Task(run, lambda: last[0])


WRITTEN = {
    "torch": lambda th, layers, x: network(x, layers, th.relu),
    "jax": lambda jax, layers, x: network(x, layers, jax.nn.relu),
    "mlx": lambda mx, layers, x: network(x, layers, lambda v: mx.maximum(v, 0)),
    "tinygrad": lambda methods, layers, x: network(x, layers, methods.relu),
}


def __getattr__(name: str) -> Callable[[], Task]:
    if name not in peers.ALL:
        raise AttributeError(name)
    return lambda: peers.task(name, WRITTEN, [ROW], LAYERS)


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to 25 µs, and to the others'."""
    timings, left_out = race(
        "mlp_latency", ["numpy", "lamella", *peers.ALL], rounds=3 if quick else 9
    )
    own = timings["lamella"]
    figures = [within("jitted MLP, one row", "25 µs", own.median, LIMIT, str(own))]
    return figures + against("jitted MLP, one row", timings, left_out, {})
