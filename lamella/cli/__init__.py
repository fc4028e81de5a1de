"""The ``lamella`` command: ``quickstart``, ``predict``, ``info``, ``bench``.

A mistake in the arguments or in a file is one line on standard error and exit code 2.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import lamella
from lamella.errors import LamellaError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code.

    Args:
        arguments: what follows ``lamella`` on the command line (default: the process's own).

    >>> main(["predict", "/nowhere/digits.safetensors", "/nowhere/three.png"])
    2
    """
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (LamellaError, OSError) as error:
        print(f"lamella {options.command}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lamella", description="Deep learning with its own compiler."
    )
    parser.add_argument("--version", action="version", version=f"lamella {lamella.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    quickstart = commands.add_parser(
        "quickstart", help="train a small network on real handwritten digits"
    )
    quickstart.add_argument("--epochs", type=_positive, default=None, help="passes over the images")
    quickstart.add_argument("--seed", type=_seed, default=0, help="of weights, order and variation")
    quickstart.add_argument(
        "--batch-size", type=_batch, default=None, help="images a step (at least 2)"
    )
    quickstart.add_argument(
        "--out", type=Path, default=Path(), help="folder of digits.safetensors and digits.png"
    )
    quickstart.set_defaults(run=_quickstart)

    predict = commands.add_parser("predict", help="read the digit in a picture")
    predict.add_argument("model", metavar="MODEL.safetensors", help="what the quickstart wrote")
    predict.add_argument(
        "picture", metavar="PICTURE", help="a picture of one digit, any size and colours"
    )
    predict.set_defaults(run=_predict)

    info = commands.add_parser("info", help="version, processor, threads, program cache, devices")
    info.set_defaults(run=_info)

    bench = commands.add_parser("bench", help="time Lamella's part of the benchmarks here")
    bench.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="default: all")
    bench.add_argument("--list", action="store_true", help="print the workloads and end")
    bench.add_argument("--quick", action="store_true", help="few rounds, for a first look")
    bench.set_defaults(run=_bench)
    return parser


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None


def _seed(text: str) -> int:
    value = _whole(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is negative; give a seed from 0 up")
    return value


def _positive(text: str) -> int:
    value = _whole(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value


def _batch(text: str) -> int:
    value = _whole(text)
    if value < 2:
        raise argparse.ArgumentTypeError(
            f"{value} is not at least 2, which batch normalisation needs"
        )
    return value


def _quickstart(options: argparse.Namespace) -> int:
    from lamella.cli.quickstart import Recipe, run

    given = {"epochs": options.epochs, "batch_size": options.batch_size}
    chosen = {name: value for name, value in given.items() if value is not None}
    return run(Recipe(seed=options.seed, **chosen), options.out)


def _predict(options: argparse.Namespace) -> int:
    from lamella.cli.predict import run

    return run(options.model, options.picture)


def _info(options: argparse.Namespace) -> int:
    from lamella.cli.info import report

    print(report())
    return 0


def _bench(options: argparse.Namespace) -> int:
    from lamella.cli.bench import run

    return run(options.workloads, quick=options.quick, names=options.list)
