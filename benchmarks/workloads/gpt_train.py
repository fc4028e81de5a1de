"""A training step of a 6-layer, 384-wide GPT: batch 8 × 256, AdamW; and its peak memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks import gpt
from benchmarks.harness import Figure, Task, Work, against, python, race

MEMORY = """
import sys
from benchmarks import gpt

def peak():  # KiB; getrusage would count what the process was before it became this program
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

step = {"lamella": gpt.lamella_step, "torch": lambda: gpt.torch_step(False)}[sys.argv[1]]()
before = peak()
for _ in range(3):
    step()
print(peak() - before)
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


def mlx() -> Task:
    """MLX, compiled."""
    return _task(gpt.mlx_step())


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
    names = ["torch", "lamella", "torch_compile", "jax", "mlx"]
    timings, left_out = race("gpt_train", names, rounds=3 if quick else 7, target=1.0, rtol=1e-3)
    limits = dict.fromkeys(names, 1.0)
    places = gpt.BATCH * gpt.CONTEXT
    matrices = gpt.LAYERS * 12 * gpt.WIDTH**2 + gpt.VOCABULARY * gpt.WIDTH
    attention = gpt.LAYERS * 3.5 * 2 * gpt.BATCH * gpt.CONTEXT**2 * gpt.WIDTH / 2
    work = Work(flops=6.0 * places * matrices + 2 * attention)
    return against("GPT training step", timings, left_out, limits, work) + _memory()
