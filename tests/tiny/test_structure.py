"""The shape of the source: short files and functions, a purpose at the top, nothing left to do."""

from __future__ import annotations

import ast
import io
import re
import statistics
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ("lamella", "tests", "tools", "benchmarks", "examples")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PACKAGE = [path for path in FILES if path.is_relative_to(ROOT / "lamella")]
LINES_PER_FILE = 500
LINES_PER_FUNCTION = 60  # never more …
USUAL_LINES_PER_FUNCTION = 40  # … and more than this for few
SHARE_OVER_USUAL = 0.02
LEFT_TO_DO = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function with its number of lines, its docstring left out."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or 0) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                size -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            yield f"{name(path)}:{node.lineno} {node.name}", size


@pytest.mark.parametrize("path", FILES, ids=name)
def test_file_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES_PER_FILE


@pytest.mark.parametrize("path", [p for p in FILES if p.stat().st_size], ids=name)
def test_file_says_its_purpose(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", FILES, ids=name)
def test_nothing_is_left_to_do_in_comments(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    comments = [
        t
        for t in tokenize.generate_tokens(io.StringIO(source).readline)
        if t.type == tokenize.COMMENT
    ]
    assert [t.string for t in comments if LEFT_TO_DO.search(t.string)] == []


def test_no_function_is_long() -> None:
    sizes = [found for path in PACKAGE for found in functions(path)]
    assert [where for where, size in sizes if size > LINES_PER_FUNCTION] == []


def test_functions_are_usually_short() -> None:
    sizes = [found for path in PACKAGE for found in functions(path)]
    longer = [where for where, size in sizes if size > USUAL_LINES_PER_FUNCTION]
    assert len(longer) <= SHARE_OVER_USUAL * len(sizes), longer
    assert statistics.median(size for _, size in sizes) <= 8


def test_no_assert_guards_user_input() -> None:
    found = [
        f"{name(path)}:{node.lineno}"
        for path in PACKAGE
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assert)
    ]
    assert found == []
