"""Executed documentation: runs the ``python`` blocks of Markdown pages and compares what they
print.

Input: Markdown files. All ``python`` blocks of a page run in order in one namespace, in an empty
folder. A ``text`` block that follows one directly is what it must print (``...`` matches anything,
as in doctest); a block after an HTML comment ``<!-- not executed: REASON -->`` does not run.
Output: nothing, or :class:`ExampleError` naming page and line.

``python -m tools.docs_examples [--update] [PAGE ...]`` runs pages, and with ``--update`` writes the
printed text into them.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w*)\s*$")
SKIP = re.compile(r"^<!-- not executed: .+ -->$")


class ExampleError(AssertionError):
    """An example that raised, or printed something other than the page says."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its lines, and the line number of its first line (from 1)."""

    language: str
    lines: list[str]
    first: int
    skipped: bool

    @property
    def text(self) -> str:
        """The block's text with its final newline."""
        return "".join(line + "\n" for line in self.lines)

    @property
    def end(self) -> int:
        """The number of the line with the closing fence."""
        return self.first + len(self.lines)


def pages() -> list[Path]:
    """README.md and every page of docs/, the generated ones left out.

    >>> pages()[0].name
    'README.md'
    """
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a Markdown text, in order."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opening = FENCE.match(lines[number])
        if opening is None:
            number += 1
            continue
        end = next(i for i in range(number + 1, len(lines)) if lines[i].rstrip() == "```")
        before = next((x for x in reversed(lines[:number]) if x.strip()), "")
        skipped = SKIP.match(before.strip()) is not None
        yield Block(opening[1], lines[number + 1 : end], number + 2, skipped)
        number = end + 1


def examples(text: str) -> list[tuple[Block, Block | None]]:
    """The blocks to execute, each with the block of its expected output, if there is one."""
    found = list(blocks(text))
    lines = text.splitlines()
    pairs: list[tuple[Block, Block | None]] = []
    for block, after in zip(found, [*found, None][1:], strict=True):
        if block.language != "python" or block.skipped:
            continue
        follows = after is not None and after.language == "text"
        if after is not None and follows:
            follows = not any(line.strip() for line in lines[block.end : after.first - 2])
        pairs.append((block, after if follows else None))
    return pairs


def _execute(block: Block, page: Path, namespace: dict[str, object]) -> str:
    code = compile("\n" * (block.first - 1) + block.text, str(page), "exec")
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)  # noqa: S102 - running the page is the purpose
    except Exception as error:
        tail = "".join(traceback.format_exception(error))
        raise ExampleError(f"{page}:{block.first}: the example raised\n{tail}") from error
    return "\n".join(line.rstrip() for line in printed.getvalue().splitlines()) + "\n"


def run_page(page: Path) -> list[tuple[Block, Block, str]]:
    """Execute a page; return its output blocks that differ, each with its example and what was
    printed.

    Raises:
        ExampleError: when an example raises.
    """
    checker = doctest.OutputChecker()
    namespace: dict[str, object] = {"__name__": "__main__"}
    differing: list[tuple[Block, Block, str]] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block, expected in examples(page.read_text(encoding="utf-8")):
            printed = _execute(block, page, namespace)
            if expected is None:
                continue
            if not checker.check_output(expected.text, printed, doctest.ELLIPSIS):
                differing.append((block, expected, printed))
    return differing


def check_page(page: Path) -> None:
    """Execute a page.

    Raises:
        ExampleError: when an example raises or prints something else than the page says.
    """
    for block, expected, printed in run_page(page):
        raise ExampleError(
            f"{page}:{block.first}: the page says\n{expected.text}\nbut this was printed\n{printed}"
        )


def update_page(page: Path) -> int:
    """Execute a page and write what it prints into its output blocks; return how many changed."""
    differing = run_page(page)
    lines = page.read_text(encoding="utf-8").splitlines()
    for _, expected, printed in reversed(differing):
        lines[expected.first - 1 : expected.end - 1] = printed.splitlines()
    if differing:
        page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(differing)


def main(arguments: list[str]) -> int:
    """Run the pages named, or all of them."""
    update = "--update" in arguments
    chosen = [Path(a).resolve() for a in arguments if not a.startswith("-")] or pages()
    failed = 0
    for page in chosen:
        name = os.path.relpath(page, ROOT)
        try:
            if update:
                print(f"{name}: {update_page(page)} outputs written")
            else:
                check_page(page)
                print(f"{name}: passed")
        except ExampleError as error:
            failed += 1
            print(f"{name}: FAILED\n{error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
