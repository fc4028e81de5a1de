"""The array-API conformance suite, run against Lamella, with counts.

Input: the path of a checkout of https://github.com/data-apis/array-api-tests with its submodule
``array-api`` (``git clone --recurse-submodules``), and options for pytest after it. Output: what
pytest prints, then one line of counts; exit status 0 when nothing failed that
``array_api_xfails.txt`` beside this file does not explain. Needs pytest, hypothesis,
pytest-json-report and ndindex::

    python -m tools.array_api_tests ../array-api-tests --max-examples 20
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

__all__ = ["command", "counts", "main"]

XFAILS = Path(__file__).with_name("array_api_xfails.txt")
NEEDED = {
    "pytest_jsonreport": "pytest-json-report", "ndindex": "ndindex", "hypothesis": "hypothesis",
}  # fmt: skip


def command(suite: Path, options: Sequence[str]) -> list[str]:
    """How the suite is started."""
    return [
        sys.executable, "-m", "pytest", str(suite / "array_api_tests"), "-q", "-W", "ignore",
        "--disable-deadline", "--xfails-file", str(XFAILS), *options,
    ]  # fmt: skip


def environment(suite: Path) -> Mapping[str, str]:
    """The suite finds Lamella by name, and itself and Lamella by path."""
    root = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(p for p in (root, str(suite), os.environ.get("PYTHONPATH", "")) if p)
    return {**os.environ, "ARRAY_API_TESTS_MODULE": "lamella", "PYTHONPATH": path}


def counts(report: str) -> dict[str, int]:
    """The numbers in pytest's last line.

    >>> counts("1 failed, 20 passed, 3 skipped, 2 xfailed in 4.5s")
    {'failed': 1, 'passed': 20, 'skipped': 3, 'xfailed': 2}
    """
    last = report.strip().splitlines()[-1] if report.strip() else ""
    return {kind: int(number) for number, kind in re.findall(r"(\d+) ([a-z]+)", last)}


def main(arguments: Sequence[str]) -> int:
    """Run the suite; 0 when there was no unexplained failure."""
    if not arguments or not (Path(arguments[0]) / "array_api_tests").is_dir():
        print("usage: python -m tools.array_api_tests PATH [pytest options]; PATH is a checkout of")
        print("https://github.com/data-apis/array-api-tests with its submodule array-api")
        return 2
    missing = [name for module, name in NEEDED.items() if find_spec(module) is None]
    if missing:
        print(f"the suite needs {', '.join(missing)}: pip install {' '.join(missing)}")
        return 2
    suite = Path(arguments[0]).resolve()
    run = subprocess.Popen(
        command(suite, arguments[1:]), cwd=suite, env=environment(suite), text=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    lines = []
    for line in run.stdout or ():
        print(line, end="", flush=True)
        lines.append(line)
    status = run.wait()
    found = counts("".join(lines))
    print("array-API suite:", ", ".join(f"{number} {kind}" for kind, number in found.items()))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
