"""Ten pointwise operations on 100 elements, built and read, the program in memory."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.harness import Array, Figure, Task, against, race, within

LIMIT = 60e-6
INPUT = np.linspace(-1.0, 1.0, 100, dtype=np.float32)


def chain(xp: ModuleType, x: Any) -> Any:
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


def torch() -> Task:
    """PyTorch, eager."""
    import torch as th

    x = th.from_numpy(INPUT)
    last: list[Array] = []

    def run() -> None:
        last[:] = [chain(th, x).numpy()]

    return Task(run, lambda: last[0])


def jax() -> Task:
    """JAX, jitted."""
    import jax as j
    import jax.numpy as jnp

    x = jnp.asarray(INPUT)
    jitted = j.jit(lambda x: chain(jnp, x))
    last: list[Array] = []

    def run() -> None:
        last[:] = [np.asarray(jitted(x))]

    return Task(run, lambda: last[0])


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to 60 µs, and to the others'."""
    timings, left_out = race(
        "chain_latency", ["numpy", "lamella", "torch", "jax"], rounds=3 if quick else 9
    )
    own = timings["lamella"]
    figures = [within("10-op chain, 100 elements", "60 µs", own.median, LIMIT, str(own))]
    return figures + against("10-op chain, 100 elements", timings, left_out, {})
