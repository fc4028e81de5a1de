"""Every ``python`` block of README.md and docs/ runs and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.docs_examples import ROOT, ExampleError, blocks, check_page, examples, pages, update_page


@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path) -> None:
    check_page(page)


def test_a_wrong_output_is_found_and_can_be_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 2\n```\n\n```python\nprint(x + 1)\n```\n\n```text\n4\n```\n")
    with pytest.raises(ExampleError, match=r"page\.md:6: the page says"):
        check_page(page)
    assert update_page(page) == 1
    check_page(page)
    assert "```text\n3\n```" in page.read_text()


def test_an_error_names_the_line_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Words.\n\n```python\nok = 1\nok / 0\n```\n")
    with pytest.raises(ExampleError, match=r"page\.md\", line 5"):
        check_page(page)


def test_blocks_and_what_belongs_together() -> None:
    text = (
        "```python\na\n```\n```text\nA\n```\nwords\n"
        "<!-- not executed: needs a camera -->\n```python\nb\n```\n"
        "```python\nc\n```\nwords\n```text\nC\n```\n"
    )
    assert [(b.language, b.first) for b in blocks(text)] == [
        ("python", 2), ("text", 5), ("python", 10), ("python", 13), ("text", 17),
    ]  # fmt: skip
    found = [(run.lines, None if out is None else out.lines) for run, out in examples(text)]
    assert found == [(["a"], ["A"]), (["c"], None)]
