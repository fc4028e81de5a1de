"""What ``import lamella`` costs beside ``import numpy``: time and memory."""

from __future__ import annotations

import statistics

from benchmarks.harness import Figure, duration, python, within

CODE = """
import sys, time
start = time.perf_counter()
__import__(sys.argv[1])
seconds = time.perf_counter() - start
memory = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS"))
print(seconds, memory)
"""
RATIO, MEBIBYTES = 1.5, 20.0


def measure(quick: bool) -> list[Figure]:
    """Import time as a ratio to NumPy's, resident memory above NumPy's as a ratio to 20 MiB."""
    seconds: dict[str, list[float]] = {"numpy": [], "lamella": []}
    memory: dict[str, list[float]] = {"numpy": [], "lamella": []}
    for _ in range(5 if quick else 25):
        for module in seconds:
            time, size = python(CODE, module).split()
            seconds[module].append(float(time))
            memory[module].append(int(size) / 1024)
    base, own = (statistics.median(seconds[name]) for name in ("numpy", "lamella"))
    more = statistics.median(memory["lamella"]) - statistics.median(memory["numpy"])
    ratio = own / base
    detail = f"{duration(own)}, NumPy {duration(base)}"
    return [
        Figure(
            "import time", "lamella", "import numpy", ratio, detail, f"≤ {RATIO}", ratio <= RATIO
        ),
        within("import memory", "20 MiB", more, MEBIBYTES, f"{more:.1f} MiB more than NumPy"),
    ]
