"""The generated API reference: what docstrings become, and that every public name has one."""

from __future__ import annotations

import inspect

import pytest

from tools.api_reference import markdown, modules, pages

pytestmark = pytest.mark.makes_no_program

MODULES = list(modules())


def test_docstring_becomes_markdown() -> None:
    docstring = "Sum of ``x``.\n\nArgs:\n    x: a number\n\n>>> f(1)\n1"
    assert markdown(docstring) == (
        "Sum of `x`.\n\n**Args**\n\n- `x`: a number\n\n```pycon\n>>> f(1)\n1\n```"
    )


def test_an_example_amid_text_is_closed() -> None:
    assert markdown(">>> f(1)\n1\n\nMore.") == "```pycon\n>>> f(1)\n1\n```\n\nMore."


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_public_names_have_docstrings(module) -> None:
    assert module.__doc__
    missing = [
        name
        for name in module.__all__
        if (inspect.isclass(found := getattr(module, name)) or inspect.isfunction(found))
        and not inspect.getdoc(found)
    ]
    assert missing == []


def test_index_lists_every_page() -> None:
    made = pages()
    index = made["reference/index.md"]
    for path in made:
        name = path.removeprefix("reference/")
        assert name == "index.md" or f"]({name})" in index
