"""From the start of the process to the end of the first training step of the GPT, with an empty and
with a full cache of programs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from benchmarks.contestant import wanted_peers
from benchmarks.harness import ROOT, Figure, duration, within

STEPS = {
    "lamella": "gpt.lamella_step()",
    "torch": "gpt.torch_step(False)",
    "torch_compile": "gpt.torch_step(True)",
    "jax": "gpt.jax_step()",
}
LIMITS = {"empty": 7.0, "full": 2.5}


def _seconds(name: str, folder: str) -> float:
    code = f"from benchmarks import gpt; {STEPS[name]}()"
    environment = {
        **os.environ, "LAMELLA_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": folder,
        "JAX_COMPILATION_CACHE_DIR": folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "LAMELLA_THREADS": "2", "OMP_NUM_THREADS": "2",
    }  # fmt: skip
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stderr[-2000:]}")
    return time.perf_counter() - start


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to its limits and to the others'."""
    names = wanted_peers(list(STEPS))
    found: dict[str, dict[str, float]] = {"empty": {}, "full": {}}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            try:
                found["empty"][name] = _seconds(name, folder)
                found["full"][name] = min(_seconds(name, folder) for _ in range(1 if quick else 3))
            except RuntimeError:
                if name == "lamella":
                    raise
    figures = []
    for cache, times in found.items():
        own, title = times["lamella"], f"first GPT step, {cache} cache"
        figures.append(within(title, duration(LIMITS[cache]), own, LIMITS[cache], duration(own)))
        for name, other in times.items():
            if name != "lamella":
                ratio = own / other
                detail = f"{duration(own)}, {name} {duration(other)}"
                figures.append(
                    Figure(title, "lamella", name, ratio, detail, "≤ 1", ratio <= 1, own, other)
                )
    return figures
