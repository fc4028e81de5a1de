"""Reads the lists of names in ``docs/from-pytorch.md``."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "from-pytorch.md"


def section(title: str) -> tuple[set[str], set[str]]:
    """The names under a heading: those that are there, and those that are not."""
    text = PAGE.read_text().split(f"\n## {title}\n", 1)[1].split("\n## ")[0]
    there, missing = text.split("\nWhat is not there:\n")
    return _names(there, 2), _names(missing, 1)


def _names(text: str, column: int) -> set[str]:
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row[column - 1])}
