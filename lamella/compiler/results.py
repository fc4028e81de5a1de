"""The graph pass that stores results in the shape they are computed in.

Input and output: the outputs of a graph. Memory has no shape: whoever takes a result knows its own.
A loop over the shape before a final reshape needs no quotients and remainders, and what makes a
value of that shape needs no copy of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamella.compiler.partition import is_external
from lamella.ir.dim import symbols
from lamella.ir.node import Node
from lamella.ops.movement import Reshape

__all__ = ["results"]


def results(outputs: Sequence[Node]) -> list[Node]:
    """The pass. A reshape of what the program is given stays, for that is a copy, and so does one
    to a size that is known by its name alone: a program has the sizes of its results.
    """
    return [_unshaped(node) for node in outputs]


def _unshaped(node: Node) -> Node:
    found = node
    while not is_external(found) and isinstance(found.op, Reshape):
        found = found.inputs[0]
    if is_external(found) or found.op.kind == "leaf" or not _named(node) <= _named(found):
        return node
    return found


def _named(node: Node) -> frozenset[str]:
    return frozenset().union(*(symbols(size) for size in node.shape))
