"""``docs/from-numpy.md`` tells the truth: it names all that NumPy has; what it maps to exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

import lamella as lm

PAGE = (Path(__file__).parents[2] / "docs" / "from-numpy.md").read_text()
# Modules and tables of NumPy's own, which are no names of arrays.
OWN = {
    "ScalarType", "True_", "False_", "char", "core", "ctypeslib", "dtypes", "emath", "exceptions",
    "f2py", "fft", "lib", "linalg", "little_endian", "ma", "polynomial", "random", "rec",
    "sctypeDict", "strings", "testing", "typecodes", "typing",
}  # fmt: skip


def names(title: str, column: int) -> set[str]:
    """The names in a column of the table under a heading."""
    text = PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {name for row in rows[1:] for name in re.findall(r"`(\w+)`", row[column])}


def test_names_that_are_the_same() -> None:
    same = names("The same names", 1)
    assert [name for name in sorted(same) if not hasattr(lm, name)] == []
    for name in sorted(same & {"linalg", "fft"}):
        assert hasattr(lm, name)


def test_names_that_are_not_there() -> None:
    others = names("Under another name", 0) | names("What is not there", 0)
    assert [name for name in sorted(others) if name in lm.__all__] == []


def test_every_name_of_numpy_is_listed() -> None:
    listed = names("The same names", 1) | names("Under another name", 0)
    listed |= names("What is not there", 0)
    public = {name for name in np.__all__ if not name.startswith("_")}
    assert sorted(public - listed - OWN) == []


def test_namespaces_are_whole() -> None:
    for space in ("linalg", "fft"):
        public = [n for n in getattr(np, space).__all__ if n != "LinAlgError"]
        assert [n for n in public if not hasattr(getattr(lm, space), n)] == []


def test_replacements_exist() -> None:
    for path in re.findall(r"`lm\.([\w.]+)", PAGE):
        found: Any = lm
        for part in path.split("."):
            found = getattr(found, part)
