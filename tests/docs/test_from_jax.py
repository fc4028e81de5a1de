"""``docs/from-jax.md`` tells the truth: every name of Lamella that it gives exists.

That it mentions everything JAX has is checked by ``tests/parity/test_jax_names.py``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lamella as lm
from lamella import nn

PAGE = Path(__file__).parents[2] / "docs" / "from-jax.md"


def resolve(path: str) -> Any:
    found: Any = lm
    for part in path.split(".")[1:]:
        found = getattr(found, part)
    return found


def test_replacements_exist() -> None:
    paths = set(re.findall(r"`(lm(?:\.[a-zA-Z_]\w*)+)", PAGE.read_text()))
    assert len(paths) > 60
    for path in paths:
        resolve(path)


def rows_of_the_same_names(place: str) -> set[str]:
    """The names of rows whose second cell says that they are the same in a module."""
    names: set[str] = set()
    for line in PAGE.read_text().splitlines():
        cells = line.split(" | ")
        if line.startswith("| ") and f"the same names in `{place}`" in cells[1]:
            names.update(re.findall(r"`(\w+)`", cells[0]))
    return names


def test_names_that_are_the_same() -> None:
    for place, module in (("lamella", lm), ("lm.nn.functional", nn.functional),
                          ("lm.random", lm.random)):  # fmt: skip
        names = rows_of_the_same_names(place)
        assert names
        assert [name for name in sorted(names) if not hasattr(module, name)] == []
