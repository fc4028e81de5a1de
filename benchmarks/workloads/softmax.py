"""Softmax over the rows of 4096 × 1024 float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import Array, Figure, Task, against, race


def data() -> np.ndarray[Any, np.dtype[np.float32]]:
    """The input."""
    return np.random.default_rng(0).normal(size=(4096, 1024)).astype(np.float32) * 4


def numpy() -> Task:
    """NumPy."""
    x = data()
    last: list[Array] = []

    def run() -> None:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        last[:] = [e / e.sum(axis=1, keepdims=True)]

    return Task(run, lambda: last[0])


def lamella() -> Task:
    """nn.functional.softmax, without jit."""
    import lamella as lm
    from lamella import nn

    x = lm.asarray(data())
    last: list[Any] = []

    def run() -> None:
        y = nn.functional.softmax(x, dim=1)
        lm.eval(y)
        last[:] = [y]

    return Task(run, lambda: last[0].numpy())


def torch() -> Task:
    """PyTorch, eager."""
    import torch as th

    x = th.from_numpy(data())
    last: list[Any] = []

    def run() -> None:
        last[:] = [th.softmax(x, dim=1)]

    return Task(run, lambda: last[0].numpy())


def jax() -> Task:
    """JAX, jitted."""
    import jax as j

    x = j.numpy.asarray(data())
    jitted = j.jit(lambda v: j.nn.softmax(v, axis=1))
    last: list[Any] = []

    def run() -> None:
        last[:] = [jitted(x).block_until_ready()]

    return Task(run, lambda: np.asarray(last[0]))


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'."""
    names = ["numpy", "lamella", "torch", "jax"]
    timings, left_out = race("softmax", names, rounds=3 if quick else 9)
    return against("softmax, 4096 × 1024", timings, left_out, {"torch": 1.0, "jax": 1.0})
