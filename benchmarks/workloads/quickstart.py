"""``lamella quickstart`` from an empty and from a full program cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from benchmarks.harness import ROOT, Figure, duration, within

COLD, WARM = 20.0, 8.0


def _run(cache: str, out: str) -> tuple[float, str]:
    start = time.perf_counter()
    command = [sys.executable, "-m", "lamella", "quickstart", "--out", out]
    settings = {**os.environ, "LAMELLA_CACHE_DIR": cache, "LAMELLA_THREADS": "2"}
    done = subprocess.run(
        command, cwd=ROOT, env=settings, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"quickstart failed:\n{done.stderr[-3000:]}")
    return time.perf_counter() - start, done.stdout.strip().splitlines()[-1]


def measure(quick: bool) -> list[Figure]:
    """Wall time, with the start of Python, as a ratio to 20 s and 8 s."""
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as out:
        cold, last = _run(cache, out)
        warm, _ = min(_run(cache, out) for _ in range(1 if quick else 3))
    return [
        within("quickstart, empty cache", "20 s", cold, COLD, f"{duration(cold)}; {last}"),
        within("quickstart, full cache", "8 s", warm, WARM, duration(warm)),
    ]
