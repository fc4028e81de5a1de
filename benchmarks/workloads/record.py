"""Recording one operation in Python, nothing computed: ``x + y``, beside NumPy's call."""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Figure, Task, duration, race, within

COUNT = 256  # below the length at which pending operations are evaluated
LIMIT = 3e-6


def lamella() -> Task:
    """A chain of additions that is recorded and dropped."""
    import lamella as lm

    x, y = lm.ones(8), lm.ones(8)
    lm.eval(x, y)

    def run() -> None:
        z = x
        for _ in range(COUNT):
            z = z + y

    return Task(run, lambda: (x + y).numpy())


def numpy() -> Task:
    """The same additions, computed."""
    x, y = np.ones(8, np.float32), np.ones(8, np.float32)

    def run() -> None:
        z = x
        for _ in range(COUNT):
            z = z + y

    return Task(run, lambda: x + y)


def measure(quick: bool) -> list[Figure]:
    """The time of one operation as a ratio to 3 µs, and to a NumPy call."""
    timings, _ = race("record", ["numpy", "lamella"], rounds=3 if quick else 9)
    own = timings["lamella"].median / COUNT
    detail = f"{duration(own)} an operation"
    if "numpy" in timings:
        base = timings["numpy"].median / COUNT
        detail += f"; a NumPy addition of 8 numbers takes {duration(base)}"
    return [within("record an op", "3 µs", own, LIMIT, detail)]
