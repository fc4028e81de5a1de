"""Pickles of objects that stand for functions: by name where they can be imported, else by what
they were made of.

Input: the object and the function that it stands for. Output: what ``__reduce__`` returns.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["reduced"]

Parts = tuple[Callable[..., Any], tuple[Any, ...]]


def reduced(value: object, f: object, parts: Parts) -> str | Parts:
    """The name of ``value``, if it has taken the place of ``f`` in its module; else ``parts``: a
    function and its arguments, which make another object like it.
    """
    name = getattr(f, "__qualname__", "")
    found: Any = sys.modules.get(getattr(f, "__module__", None) or "")
    for attribute in name.split("."):
        found = getattr(found, attribute, None)
    return name if found is value else parts
