"""Ten pointwise operations on 100 elements, built and read, the program in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Array, Figure, Task, against, race, within

LIMIT = 60e-6
INPUT = np.linspace(-1.0, 1.0, 100, dtype=np.float32)


def chain(xp: Any, x: Any) -> Any:
    """Ten operations."""
    y = x * 1.5 + 0.25
    y = xp.exp(y) - x
    y = xp.tanh(y) * y
    y = xp.sqrt(y + 4.0)
    return y / (x + 3.0)


def lamella() -> Task:
    """Recorded, found in memory, run and read."""
    import lamella as lm

    x = lm.asarray(INPUT)
    last: list[Array] = []

    def run() -> None:
        last[:] = [chain(lm, x).numpy()]

    return Task(run, lambda: last[0])


def numpy() -> Task:
    """One call an operation."""
    last: list[Array] = []

    def run() -> None:
        last[:] = [chain(np, INPUT)]

    return Task(run, lambda: last[0])


WRITTEN = {
    "torch": lambda th, _, x: chain(th, x),
    "jax": lambda jax, _, x: chain(jax.numpy, x),
    "mlx": lambda mx, _, x: chain(mx, x),
    "tinygrad": lambda methods, _, x: chain(methods, x),
}
__getattr__ = peers.contestants(WRITTEN, lambda: [INPUT])


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to 60 µs, and to the others'."""
    timings, left_out = race(
        "chain_latency", ["numpy", "lamella", *peers.ALL], rounds=3 if quick else 9
    )
    own = timings["lamella"]
    figures = [within("10-op chain, 100 elements", "60 µs", own.median, LIMIT, str(own))]
    return figures + against("10-op chain, 100 elements", timings, left_out, {})
