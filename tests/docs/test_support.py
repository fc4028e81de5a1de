"""The support table has no hole, and the page in docs/ says what was found."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamella.ops.base import PRIMITIVES
from tools.support_table import Row, markdown, rows


@pytest.fixture(scope="module")
def table() -> list[Row]:
    return rows()


def test_no_hole(table: list[Row]) -> None:
    assert [note for made in table for note in made.notes] == []


def test_page_is_up_to_date(table: list[Row], root: Path) -> None:
    written = (root / "docs" / "support.md").read_text(encoding="utf-8")
    assert written == markdown(table), "run make support"


def test_every_primitive_has_samples(table: list[Row]) -> None:
    without = set(PRIMITIVES) - {made.name for made in table}
    given = {"data", "scalar", "placeholder", "part", "pure_callback", "io_callback", "kernel"}
    assert without <= given  # their values or functions come from outside
