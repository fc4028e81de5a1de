"""Softmax over the rows of 4096 × 1024 float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Array, Figure, Task, Work, against, race

SHAPE = (4096, 1024)


def data() -> list[Array]:
    """The input."""
    return [np.random.default_rng(0).normal(size=SHAPE).astype(np.float32) * 4]


def _numpy(np: Any, _: Any, x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


WRITTEN = {
    "numpy": _numpy,
    "torch": lambda th, _, x: th.softmax(x, dim=1),
    "jax": lambda jax, _, x: jax.nn.softmax(x, axis=1),
    "mlx": lambda mx, _, x: mx.softmax(x, axis=1),
    "tinygrad": lambda _, __, x: x.softmax(1),
}
__getattr__ = peers.contestants(WRITTEN, data)


def lamella() -> Task:
    """nn.functional.softmax, without jit."""
    import lamella as lm
    from lamella import nn

    x = lm.asarray(data()[0])

    def step() -> Any:
        y = nn.functional.softmax(x, dim=1)
        lm.eval(y)
        return y

    return peers.repeated(step, lambda y: y.numpy())


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'."""
    names = ["numpy", "lamella", *peers.ALL]
    timings, left_out = race("softmax", names, rounds=3 if quick else 9)
    work = Work(bytes=2 * 4 * float(np.prod(SHAPE)))
    limits = dict.fromkeys(peers.ALL, 1.0)
    return against("softmax, 4096 × 1024", timings, left_out, limits, work)
