"""Compiled programs on disk: a graph whose program is known needs no pass of the compiler.

Input: what ``compile_graph`` takes. Output: a key that says all of it as text (source lines of
operations that may fail included, because their errors name them), and the program kept under it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from lamella.compiler.blueprint import Blueprint, from_json, to_json
from lamella.errors import CompilerError
from lamella.ir.node import Node, topological
from lamella.runtime import disk

__all__ = ["find", "keep", "key_of"]


def key_of(
    roots: Sequence[Node],
    inputs: Sequence[Node],
    scalars: Sequence[Node],
    donated: Mapping[int, int],
    settings: str,
) -> str | None:
    """The key of a program; None for a graph that no text describes."""
    outside = {node: f"input {i}" for i, node in enumerate(inputs)}
    outside |= {node: f"scalar {i}" for i, node in enumerate(scalars)}
    number: dict[Node, int] = {}
    lines = [settings, repr(sorted(donated.items())), str(len(outside))]
    for node in topological(roots, stop=inputs):
        what = outside.get(node)
        if what is None:
            sources = [number[source] for source in node.inputs]
            try:
                what = f"{node.op.name} {node.op!r} {sources} {node.site or ''}"
            except CompilerError:  # a loop's body holds a function, as kernels do
                return None
        number[node] = len(number)
        lines.append(f"{what} {node.dtype.name}{node.shape}")
    lines.append(repr([number[root] for root in roots]))
    lines.append(repr([(node.dtype.name, node.shape) for node in outside]))
    text = "\n".join(lines)
    if " at 0x" in text:
        return None
    return "program/" + hashlib.sha256(text.encode()).hexdigest()


def find(key: str | None) -> Blueprint | None:
    """The program kept under ``key``."""
    data = None if key is None else disk.get(key)
    if data is None:
        return None
    try:
        return from_json(data)
    except (ValueError, KeyError, TypeError):
        return None


def keep(key: str | None, program: Blueprint) -> None:
    """Keep ``program`` under ``key``."""
    if key is not None:
        disk.put(key, to_json(program))
