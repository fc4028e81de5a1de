"""The graph pass that stores results in the shape they are computed in.

Input and output: the outputs of a graph. Memory has no shape: whoever takes a result knows its own.
A loop over the shape before a final reshape needs no quotients and remainders, and what makes a
value of that shape needs no copy of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamella.compiler.partition import is_external
from lamella.ir.node import Node
from lamella.ops.movement import Reshape

__all__ = ["results"]


def results(outputs: Sequence[Node]) -> list[Node]:
    """The pass. A reshape of what the program is given stays, for that is a copy."""
    return [_unshaped(node) for node in outputs]


def _unshaped(node: Node) -> Node:
    found = node
    while not is_external(found) and isinstance(found.op, Reshape):
        found = found.inputs[0]
    return node if is_external(found) or found.op.kind == "leaf" else found
