"""``python -m benchmarks [--list] [--quick] [WORKLOAD ...]``: measure, print and write a table.

The table goes to bench-results/ too.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import time
import traceback

from benchmarks.harness import ROOT, Figure, table

WORKLOADS = (
    "imports", "record", "chain_latency", "mlp_latency", "chain20", "softmax", "ln_gelu", "gemm",
    "cold", "recompiles", "memory", "quickstart",
)  # fmt: skip


def _machine() -> str:
    names = [
        platform.machine(),
        f"{os.cpu_count()} processors",
        f"Python {platform.python_version()}",
    ]
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names.insert(
                0, next(x.split(":", 1)[1].strip() for x in lines if x.startswith("model name"))
            )
    except (OSError, StopIteration):
        pass
    return ", ".join(names)


def _measure(name: str, quick: bool) -> list[Figure]:
    module = importlib.import_module(f"benchmarks.workloads.{name}")
    start = time.perf_counter()
    try:
        figures: list[Figure] = module.measure(quick)
    except RuntimeError as error:
        print(traceback.format_exc(), file=sys.stderr)
        last = str(error).strip().splitlines()[-1]
        figures = [Figure(name, "lamella", "", float("nan"), f"failed: {last}", "", False)]
    print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    return figures


def main() -> int:
    """Measure the chosen workloads; the exit code is 1 when one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=f"of: {', '.join(WORKLOADS)}"
    )
    parser.add_argument("--list", action="store_true", help="print the workloads and end")
    parser.add_argument(
        "--quick", action="store_true", help="few rounds: for a first look, not for a claim"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 when a wanted ratio is missed"
    )
    chosen = parser.parse_args()
    if chosen.list:
        print("\n".join(WORKLOADS))
        return 0
    if unknown := set(chosen.workloads) - set(WORKLOADS):
        parser.error(
            f"unknown workload {', '.join(sorted(unknown))}; known: {', '.join(WORKLOADS)}"
        )
    figures = [
        figure for name in chosen.workloads or WORKLOADS for figure in _measure(name, chosen.quick)
    ]
    text = f"{_machine()}; {time.strftime('%Y-%m-%d')}\n\n{table(figures)}"
    print(text)
    folder = ROOT / "bench-results"
    folder.mkdir(exist_ok=True)
    (folder / f"{'-'.join(chosen.workloads) or 'all'}.md").write_text(text, encoding="utf-8")
    failed = any(f.detail.startswith("failed") for f in figures)
    missed = any(f.passed is False for f in figures)
    return 1 if failed or (chosen.strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
