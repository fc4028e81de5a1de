"""layernorm(gelu(x·w + b) + x) on 4096 × 1024 float32: w and b scale and shift each column."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.harness import Array, Figure, Task, against, race

EPSILON = 1e-5


def data() -> tuple[Any, Any, Any]:
    """x, w and b."""
    draw = np.random.default_rng(0)
    return tuple(draw.normal(size=s).astype(np.float32) for s in ((4096, 1024), 1024, 1024))  # type: ignore[return-value]


def numpy() -> Task:
    """NumPy in float64: the reference (its erf is Python's, tabulated)."""
    x, w, b = (part.astype(np.float64) for part in data())
    erf = np.vectorize(math.erf)
    last: list[Array] = []

    def run() -> None:
        if last:
            return
        t = x * w + b
        y = t * 0.5 * (1 + erf(t / math.sqrt(2))) + x
        y = y - y.mean(axis=1, keepdims=True)
        last[:] = [y / np.sqrt((y * y).mean(axis=1, keepdims=True) + EPSILON)]

    return Task(run, lambda: last[0])


def lamella() -> Task:
    """nn.functional, without jit."""
    import lamella as lm
    from lamella import nn

    x, w, b = (lm.asarray(part) for part in data())
    last: list[Any] = []

    def run() -> None:
        y = nn.functional.layer_norm(nn.functional.gelu(x * w + b) + x, (1024,), eps=EPSILON)
        lm.eval(y)
        last[:] = [y]

    return Task(run, lambda: last[0].numpy())


def torch() -> Task:
    """PyTorch, eager."""
    import torch as th
    from torch.nn import functional

    x, w, b = (th.from_numpy(part) for part in data())
    last: list[Any] = []

    def run() -> None:
        last[:] = [functional.layer_norm(functional.gelu(x * w + b) + x, (1024,), eps=EPSILON)]

    return Task(run, lambda: last[0].numpy())


def jax() -> Task:
    """JAX, jitted."""
    import jax as j
    import jax.numpy as jnp

    x, w, b = (jnp.asarray(part) for part in data())

    def block(x: Any, w: Any, b: Any) -> Any:
        y = j.nn.gelu(x * w + b, approximate=False) + x
        y = y - y.mean(axis=1, keepdims=True)
        return y / jnp.sqrt((y * y).mean(axis=1, keepdims=True) + EPSILON)

    jitted = j.jit(block)
    last: list[Any] = []

    def run() -> None:
        last[:] = [jitted(x, w, b).block_until_ready()]

    return Task(run, lambda: np.asarray(last[0]))


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'; NumPy only checks the values."""
    names = ["numpy", "lamella", "torch", "jax"]
    timings, left_out = race("ln_gelu", names, rounds=3 if quick else 9)
    del timings["numpy"]
    return against("layernorm(gelu(x·w+b)+x)", timings, left_out, {"torch": 1.0, "jax": 1.0})
