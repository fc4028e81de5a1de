"""layernorm(gelu(x·w + b) + x) on 4096 × 1024 float32: w and b scale and shift each column."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Array, Figure, Task, Work, against, race

EPSILON = 1e-5
ROWS, COLUMNS = 4096, 1024


def data() -> list[Array]:
    """x, w and b."""
    draw = np.random.default_rng(0)
    shapes = ((ROWS, COLUMNS), (COLUMNS,), (COLUMNS,))
    return [draw.normal(size=shape).astype(np.float32) for shape in shapes]


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

    def step() -> Any:
        y = nn.functional.layer_norm(nn.functional.gelu(x * w + b) + x, (COLUMNS,), eps=EPSILON)
        lm.eval(y)
        return y

    return peers.repeated(step, lambda y: y.numpy())


def _torch(th: Any, _: Any, x: Any, w: Any, b: Any) -> Any:
    f = th.nn.functional
    return f.layer_norm(f.gelu(x * w + b) + x, (COLUMNS,), eps=EPSILON)


def _normed(xp: Any, y: Any) -> Any:
    y = y - xp.mean(y, 1, keepdims=True)
    return y / xp.sqrt(xp.mean(y * y, 1, keepdims=True) + EPSILON)


def _jax(jax: Any, _: Any, x: Any, w: Any, b: Any) -> Any:
    return _normed(jax.numpy, jax.nn.gelu(x * w + b, approximate=False) + x)


def _mlx(mx: Any, _: Any, x: Any, w: Any, b: Any) -> Any:
    t = x * w + b
    y = t * (1 + mx.erf(t / math.sqrt(2))) / 2 + x
    return mx.fast.layer_norm(y, None, None, EPSILON)


def _tinygrad(_: Any, __: Any, x: Any, w: Any, b: Any) -> Any:
    t = x * w + b
    return (t * (1 + (t / math.sqrt(2)).erf()) / 2 + x).layernorm(eps=EPSILON)


WRITTEN = {"torch": _torch, "jax": _jax, "mlx": _mlx, "tinygrad": _tinygrad}
__getattr__ = peers.contestants(WRITTEN, data)


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'; NumPy only checks the values."""
    names = ["numpy", "lamella", *peers.ALL]
    timings, left_out = race("ln_gelu", names, rounds=3 if quick else 9)
    timings.pop("numpy", None)
    limits, work = dict.fromkeys(peers.ALL, 1.0), Work(bytes=8.0 * ROWS * COLUMNS)
    return against("layernorm(gelu(x·w+b)+x)", timings, left_out, limits, work)
