"""Twenty pointwise operations over 16 M float32, as a share of the copy bandwidth measured in the
same run.

The chain reads its input once and writes its result once when it is fused, so its traffic is a
copy's.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Figure, Task, Work, against, duration, race

SIZE = 16 * 2**20
SHARE = 0.85


def chain(xp: Any, x: Any) -> Any:
    """Twenty operations, none of them transcendental: what bounds a fused chain is memory."""
    y = x
    for scale in (0.5, 0.75, 0.9, 0.6, 0.8):
        y = xp.abs(y * scale + 0.125) - x
    return y


def data() -> np.ndarray[Any, np.dtype[np.float32]]:
    """The input."""
    return np.random.default_rng(0).normal(size=SIZE).astype(np.float32)


def lamella() -> Task:
    """Recorded once a run, one kernel."""
    import lamella as lm

    x = lm.asarray(data())
    last: list[Any] = []

    def run() -> None:
        y = chain(lm, x)
        lm.eval(y)
        last[:] = [y]

    return Task(run, lambda: last[0].numpy())


def numpy() -> Task:
    """One pass an operation."""
    x = data()
    last: list[Any] = []

    def run() -> None:
        last[:] = [chain(np, x)]

    return Task(run, lambda: last[0])


def copy() -> Task:
    """A copy by two threads: the limit. Its value is the chain's, for the agreement check."""
    x, y = data(), np.empty(SIZE, np.float32)
    pool = ThreadPoolExecutor(2)
    halves = [slice(0, SIZE // 2), slice(SIZE // 2, SIZE)]

    def run() -> None:
        list(pool.map(lambda part: np.copyto(y[part], x[part]), halves))

    return Task(run, lambda: chain(np, y))


WRITTEN = {
    "torch": lambda th, _, x: chain(th, x),
    "jax": lambda jax, _, x: chain(jax.numpy, x),
    "mlx": lambda mx, _, x: chain(mx, x),
    "tinygrad": lambda methods, _, x: chain(methods, x),
}
__getattr__ = peers.contestants(WRITTEN, lambda: [data()])


def measure(quick: bool) -> list[Figure]:
    """The copy's time as a ratio to Lamella's (≥ 0.85 wanted), and Lamella's to the others'."""
    names = ["copy", "lamella", "numpy", *peers.ALL]
    timings, left_out = race("chain20", names, rounds=3 if quick else 9)
    own, limit = timings["lamella"], timings["copy"]
    share = limit.median / own.median
    rate = 2 * 4 * SIZE / limit.median / 1e9
    detail = f"{own}; copy {duration(limit.median)}, {rate:.1f} GB/s"
    title = "20-op chain, 16 M float32"
    figures = [
        Figure(title, "lamella", "copy bandwidth", share, detail, f"≥ {SHARE}", share >= SHARE)
    ]
    del timings["copy"]
    limits, work = dict.fromkeys(peers.ALL, 1.0), Work(bytes=2.0 * 4 * SIZE)
    return figures + against(title, timings, left_out, limits, work)
