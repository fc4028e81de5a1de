"""``docs/from-pytorch.md`` tells the truth: every name that it maps exists.

That it names everything PyTorch has is checked by ``tests/parity/test_torch_names.py``.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

import lamella as lm
from lamella import nn
from tests.support.pytorch_page import section

NAMESPACES: dict[str, Any] = {"torch.nn.functional": nn.functional, "torch.nn": nn}


@pytest.mark.parametrize("title", NAMESPACES)
def test_names_that_are_there(title: str) -> None:
    here, missing = section(title)
    assert here and missing
    assert [name for name in here if not hasattr(NAMESPACES[title], name)] == []
    assert sorted(here & missing) == []


@pytest.mark.parametrize("title", NAMESPACES)
def test_names_that_are_not_there(title: str) -> None:
    _, missing = section(title)
    module = NAMESPACES[title]
    there = [name for name in missing if name in module.__all__]
    assert there == []


@pytest.mark.parametrize("title", NAMESPACES)
def test_every_public_name_is_listed(title: str) -> None:
    here, _ = section(title)
    own = {"cdist", "padding_row"}
    assert [name for name in NAMESPACES[title].__all__ if name not in here | own] == []


def test_replacements_exist() -> None:
    import lamella.tensor.random  # noqa: F401

    text = section.__globals__["PAGE"].read_text()
    for path in re.findall(r"`(lm\.[a-zA-Z_.]+)", text):
        found: Any = lm
        for part in path.split(".")[1:]:
            found = getattr(found, part)
