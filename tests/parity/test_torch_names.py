"""Every public name of ``torch.nn.functional`` and ``torch.nn`` is in ``docs/from-pytorch.md``: as
one that Lamella has, or with the reason why not. The arguments of functions have PyTorch's names
and order.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import lamella as lm
from lamella import nn
from tests.support.pytorch_page import PAGE, section

torch = pytest.importorskip("torch", reason="make parity installs PyTorch")

# Options of PyTorch that the page says are gone, wherever they stand.
GONE = """
    size_average reduce _stacklevel device sparse out options args kwargs _weight _freeze
    enable_nested_tensor mask_check min_value max_value
"""


def public(module: Any, functions: bool) -> set[str]:
    return {
        name
        for name in dir(module)
        if not name.startswith("_") and (not functions or callable(getattr(module, name)))
    }


def test_functions_are_all_named() -> None:
    there, missing = section("torch.nn.functional")
    assert sorted(public(torch.nn.functional, True) - there - missing) == []


def test_modules_are_all_named() -> None:
    there, missing = section("torch.nn")
    assert sorted(public(torch.nn, False) - there - missing) == []


def test_methods_are_all_there_or_named() -> None:
    text = PAGE.read_text().split("\n## torch.Tensor\n", 1)[1].split("\n## ")[0]
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    missing = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    theirs, ours = public(torch.Tensor, False), public(lm.Tensor, False)
    assert sorted(theirs - ours - missing) == []
    assert sorted(missing & ours) == []


def arguments(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in GONE.split()]


def documented(function: Any, name: str) -> list[str]:
    """The arguments of a PyTorch function, from its signature or the first line of its text."""
    try:
        found = arguments(function)
        if found:
            return found
    except ValueError:
        pass
    line = next(part for part in (function.__doc__ or "").splitlines() if f"{name}(" in part)
    inside = line.split("(", 1)[1].split(") ->")[0].split(")")[0]
    return [part.split("=")[0].strip(" *:") for part in inside.split(",") if part.strip()]


@pytest.mark.parametrize("name", sorted(section("torch.nn.functional")[0]))
def test_arguments_of_functions(name: str) -> None:
    theirs = getattr(torch.nn.functional, f"{name}_with_indices", None) or getattr(
        torch.nn.functional, name
    )
    wanted = documented(theirs, name)
    assert arguments(getattr(nn.functional, name))[: len(wanted)] == wanted


@pytest.mark.parametrize("name", sorted(section("torch.nn")[0]))
def test_arguments_of_modules(name: str) -> None:
    theirs, ours = getattr(torch.nn, name), getattr(nn, name)
    if not inspect.isclass(theirs):
        return
    wanted, found = arguments(theirs.__init__)[1:], arguments(ours.__init__)[1:]
    assert [option for option in found if option in wanted] == [
        option for option in wanted if option in found
    ]
    assert [option for option in wanted if option not in found] == []
