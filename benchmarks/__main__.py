"""``python -m benchmarks [--list] [--quick] [--alone] [WORKLOAD ...]``: measure, print and write.

Tables and a chart go to bench-results/ too.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Figure, python, table
from benchmarks.summary import draw, summary, summary_table

WORKLOADS = (
    "imports", "record", "chain_latency", "mlp_latency", "chain20", "softmax", "ln_gelu", "gemm",
    "mlp_train", "resnet18", "mobilenet_v2", "resnet_train", "gpt_train", "gpt_start", "attention",
    "gpt2", "gru", "ode", "transforms", "spmm", "ops", "cold", "recompiles", "memory", "quickstart",
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=f"of: {', '.join(WORKLOADS)}"
    )
    parser.add_argument("--list", action="store_true", help="print the workloads and end")
    parser.add_argument(
        "--quick", action="store_true", help="few rounds: for a first look, not for a claim"
    )
    parser.add_argument("--alone", action="store_true", help="without other frameworks")
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 when a wanted ratio is missed"
    )
    return parser


def _limits() -> str:
    """What the machine could do at most, before anything else keeps it busy."""
    code = (
        "from lamella.runtime.limits import limits; m = limits(); "
        "print(f'{m.flops / 1e9:.0f} GFLOP/s of multiply-adds in float32, {m.copy / 1e9:.1f} GB/s "
        "copied, {m.read / 1e9:.1f} GB/s read')"
    )
    return python(code, LAMELLA_THREADS="2").strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the chosen workloads; the exit code is 1 when one of them failed."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.list:
        print("\n".join(WORKLOADS))
        return 0
    if unknown := set(chosen.workloads) - set(WORKLOADS):
        parser.error(
            f"unknown workload {', '.join(sorted(unknown))}; known: {', '.join(WORKLOADS)}"
        )
    if chosen.alone:
        os.environ["BENCHMARKS_ALONE"] = "1"
    limits = [_limits()]
    figures = [
        figure for name in chosen.workloads or WORKLOADS for figure in _measure(name, chosen.quick)
    ]
    limits.append(_limits())
    rows = summary(figures)
    text = (
        f"{_machine()}; {time.strftime('%Y-%m-%d')}\n\nLimits, with 2 threads, before and after: "
        f"{limits[0]}; {limits[1]}.\n\n{summary_table(rows)}\n{table(figures)}"
    )
    print(text)
    folder = Path.cwd() / "bench-results"
    folder.mkdir(exist_ok=True)
    name = "-".join(chosen.workloads) or "all"
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    if any(row.best for row in rows):
        draw(rows, folder / f"{name}.png")
    failed = any(f.detail.startswith("failed") for f in figures)
    missed = any(f.passed is False for f in figures)
    return 1 if failed or (chosen.strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
