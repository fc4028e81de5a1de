"""Every doctest of the package runs, one test a module."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import sys
from collections.abc import Iterator

import pytest

import lamella

OTHER_SYSTEMS = {"os_windows": "win32", "os_macos": "darwin", "os_linux": "linux"}
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def modules() -> Iterator[str]:
    yield "lamella"
    for found in pkgutil.walk_packages(lamella.__path__, "lamella."):
        last = found.name.rpartition(".")[2]
        if last != "__main__" and OTHER_SYSTEMS.get(last, sys.platform) == sys.platform:
            yield found.name


@pytest.mark.parametrize("name", list(modules()))
def test_doctests(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # examples may write files
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    report: list[str] = []
    for test in finder.find(module, name):
        runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)
