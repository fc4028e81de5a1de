"""``python -m benchmarks [--list] [--quick] [--alone | --peers A,B] [WORKLOAD ...]``: measure.

The summary is printed; it, every figure (``-details``) and a chart go to bench-results/.
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
from benchmarks.summary import Limits, Row, draw, rest_table, summary, summary_table

WORKLOADS = (
    "imports", "record", "chain_latency", "mlp_latency", "chain20", "softmax", "ln_gelu", "gemm",
    "mlp_train", "resnet18", "mobilenet_v2", "resnet_train", "gpt_train", "gpt_start", "attention",
    "gpt2", "gru", "ode", "transforms", "vmap", "spmm", "models", "ops", "cold", "recompiles",
    "memory", "quickstart",
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
        "--quick", action="store_true", help="three rounds instead of seven or nine"
    )
    parser.add_argument("--alone", action="store_true", help="without other frameworks")
    parser.add_argument(
        "--peers", metavar="NAMES", help="only these of the others, as torch,onnxruntime"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 when a wanted ratio is missed"
    )
    return parser


def _limits() -> Limits:
    """What the machine can do at most with two threads, now."""
    code = "from lamella.runtime.limits import limits; m = limits(); print(m.flops, m.copy, m.read)"
    return Limits(*map(float, python(code, LAMELLA_THREADS="2").split()))


def _write(name: str, rows: Sequence[Row], figures: Sequence[Figure], limits: Limits) -> None:
    """Print the summary; write it, every figure and the chart to bench-results/."""
    heading = f"{_machine()}; {time.strftime('%Y-%m-%d')}\n\nLimits, with 2 threads: {limits}.\n\n"
    text = heading + summary_table(rows, limits) if rows else heading + table(figures)
    left_out = [f for f in figures if f.detail.startswith(("left out", "failed"))]
    folder = Path.cwd() / "bench-results"
    print(text)
    print("".join(f"{f.workload}: {f.base or f.subject} {f.detail}\n" for f in left_out))
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / f"{name}-details.md").write_text(
        heading + rest_table(rows) + "\n" + table(figures), encoding="utf-8"
    )
    if any(row.best for row in rows):
        draw(rows, folder / f"{name}.png")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the chosen workloads, or those before Ctrl-C; the exit code is 1 when one failed."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.list:
        print("\n".join(WORKLOADS))
        return 0
    if unknown := set(chosen.workloads) - set(WORKLOADS):
        parser.error(
            f"unknown workload {', '.join(sorted(unknown))}; known: {', '.join(WORKLOADS)}"
        )
    if chosen.alone or chosen.peers is not None:
        os.environ["BENCHMARKS_PEERS"] = chosen.peers or ""
    names = chosen.workloads or WORKLOADS
    limits = _limits()
    figures: list[Figure] = []
    try:
        for name in names:
            figures += _measure(name, chosen.quick)
    except KeyboardInterrupt:
        print("interrupted: what was measured until now follows", file=sys.stderr)
    name = "-".join(chosen.workloads) or "all"
    _write(name, summary(figures), figures, limits.best(_limits()))
    failed = any(f.detail.startswith("failed") for f in figures)
    missed = any(f.passed is False for f in figures)
    return 1 if failed or (chosen.strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
