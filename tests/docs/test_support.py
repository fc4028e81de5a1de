"""The support table has no hole, and the page in docs/ says what was found."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamella.ops.base import PRIMITIVES
from tools.support_table import line, markdown, row, shown

SHOWN = shown()


@pytest.fixture
def page(root: Path) -> str:
    return (root / "docs" / "support.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SHOWN)
def test_no_hole(name: str, page: str) -> None:
    found = row(name, SHOWN[name])
    assert found.notes == []
    assert line(found) in page.splitlines(), "run make support"


def test_page_is_up_to_date(page: str) -> None:
    head = markdown([])
    assert page.startswith(head), "run make support"
    written = [each.split("`")[1] for each in page.removeprefix(head).splitlines()]
    assert written == list(SHOWN), "run make support"


def test_every_primitive_has_samples() -> None:
    without = set(PRIMITIVES) - set(SHOWN)
    given = {"data", "scalar", "placeholder", "part", "pure_callback", "io_callback", "kernel"}
    assert without <= given  # their values or functions come from outside
