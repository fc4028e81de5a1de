"""Reads from the pages for those who come from elsewhere which names are left out, and why."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs"


def patterns(page: str, title: str) -> set[str]:
    """The names in the first column of a section's tables; ``*`` stands for any letters."""
    text = (PAGES / page).read_text(encoding="utf-8").split(f"\n## {title}\n", 1)[1]
    lines = [line for line in text.split("\n## ")[0].splitlines() if line.startswith("| `")]
    return {n for line in lines for n in re.findall(r"`([\w*]+)`", line.split(" | ")[0])}


def left(names: set[str], known: set[str]) -> list[str]:
    """The names that no pattern stands for."""
    return sorted(n for n in names if not any(fnmatch.fnmatchcase(n, p) for p in known))
