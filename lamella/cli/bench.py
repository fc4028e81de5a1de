"""``lamella bench``: the project's benchmarks without other frameworks, on any machine.

Input: names of workloads. Output: tables, printed and written to ``bench-results/`` in the present
folder. The benchmarks come with the package: beside it in a checkout, inside it when installed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

import lamella
from lamella.errors import OptionError

__all__ = ["run"]


def run(workloads: Sequence[str], *, quick: bool = False, names: bool = False) -> int:
    """Measure; returns the exit code.

    Raises:
        OptionError: if the benchmarks were left out of this installation.
    """
    package = Path(lamella.__file__).resolve().parent
    places = [package / "_bench", package.parent]
    found = next((p for p in places if (p / "benchmarks" / "harness.py").is_file()), None)
    if found is None:
        raise OptionError(
            "[bench] the benchmarks are not part of this installation; install Lamella from a "
            "checkout or from its wheel"
        )
    sys.path.insert(0, str(found))
    try:
        main = importlib.import_module("benchmarks.__main__").main
    finally:
        sys.path.remove(str(found))
    options = ["--alone", *(["--quick"] if quick else []), *(["--list"] if names else [])]
    return int(main([*options, *workloads]))
