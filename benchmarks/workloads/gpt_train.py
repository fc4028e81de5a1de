"""A training step of a 6-layer, 384-wide GPT: batch 8 × 256, AdamW; and its peak memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks import gpt
from benchmarks.harness import Figure, Task, against, python, race

MEMORY = """
import resource, sys
from benchmarks import gpt
step = {"lamella": gpt.lamella_step, "torch": lambda: gpt.torch_step(False)}[sys.argv[1]]()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(3):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def _task(step: Callable[[], float]) -> Task:
    last: list[float] = []

    def run() -> None:
        last[:] = [step()]

    return Task(run, lambda: np.asarray(last[0]))


def lamella() -> Task:
    """The whole step jitted."""
    return _task(gpt.lamella_step())


def torch() -> Task:
    """PyTorch, eager."""
    return _task(gpt.torch_step(compiled=False))


def torch_compile() -> Task:
    """PyTorch, forward and backward compiled."""
    return _task(gpt.torch_step(compiled=True))


def jax() -> Task:
    """JAX, jitted."""
    return _task(gpt.jax_step())


def _memory() -> list[Figure]:
    grown = {}
    for name in ("lamella", "torch"):
        try:
            grown[name] = float(python(MEMORY, name, LAMELLA_THREADS="2", OMP_NUM_THREADS="2"))
        except RuntimeError:
            return []
    ratio = grown["lamella"] / grown["torch"]
    detail = ", ".join(f"{name} {kib / 1024:.0f} MiB" for name, kib in grown.items())
    return [Figure("GPT training step, peak memory", "lamella", "torch", ratio, detail, "≤ 1",
                   ratio <= 1)]  # fmt: skip


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others', and its memory to PyTorch's."""
    names = ["torch", "lamella", "torch_compile", "jax"]
    timings, left_out = race("gpt_train", names, rounds=3 if quick else 7, target=1.0, rtol=1e-3)
    limits = dict.fromkeys(["torch", "torch_compile", "jax"], 1.0)
    return against("GPT training step", timings, left_out, limits) + _memory()
