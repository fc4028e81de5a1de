"""The shape of the source: short files and functions, a purpose at the top, nothing left to do."""

from __future__ import annotations

import ast
import io
import re
import statistics
import tokenize
from collections.abc import Iterator
from pathlib import Path

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


def test_files_are_short() -> None:
    lines = {name(p): len(p.read_text(encoding="utf-8").splitlines()) for p in FILES}
    assert {where: count for where, count in lines.items() if count > LINES_PER_FILE} == {}


def test_files_say_their_purpose() -> None:
    trees = {name(p): ast.parse(p.read_text(encoding="utf-8")) for p in FILES if p.stat().st_size}
    assert [where for where, tree in trees.items() if not ast.get_docstring(tree)] == []


def comments(path: Path) -> Iterator[str]:
    source = io.StringIO(path.read_text(encoding="utf-8"))
    for token in tokenize.generate_tokens(source.readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def test_nothing_is_left_to_do_in_comments() -> None:
    assert [(name(p), c) for p in FILES for c in comments(p) if LEFT_TO_DO.search(c)] == []


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
