"""Forward-mode differentiation: from the tangents of inputs to those of outputs, as a graph.

Input: outputs, the nodes to differentiate by (marks) and their tangents. Output: one tangent per
output, or None where it is zero. All nodes between marks and outputs are walked, tracked or not;
only ``stop_gradient`` and integers stop a tangent.
"""
from __future__ import annotations

from collections.abc import Sequence

from lamella.errors import ShapeError
from lamella.ir.node import Node
from lamella.ops.calls import Call, Part

__all__ = ["between", "jvp"]


def jvp(
    outputs: Sequence[Node], marks: Sequence[Node], tangents: Sequence[Node | None]
) -> list[Node | None]:
    """The tangents of ``outputs``: for each, the sum over marks of d output / d mark · tangent.

    Raises:
        ShapeError: if a tangent does not have its mark's shape and dtype.
        MissingRuleError: if a primitive on the way has no derivative.

    >>> from lamella import ops
    >>> from lamella.dtypes import float64
    >>> x = ops.mark(ops.constant(3.0, float64))
    >>> (t,) = jvp([ops.multiply(x, x)], [x], [ops.constant(1.0, float64)])
    >>> from lamella.ir.interp import interpret
    >>> float(interpret([t])[0])
    6.0
    """
    found: dict[Node, Node] = {}
    for mark, tangent in zip(marks, tangents, strict=True):
        if tangent is None:
            continue
        if tangent.shape != mark.shape or tangent.dtype is not mark.dtype:
            raise ShapeError(
                f"[jvp] a tangent of {tangent.dtype.name}{list(tangent.shape)} was given for "
                f"{mark.dtype.name}{list(mark.shape)}; they must agree"
            )
        found[mark] = tangent
    several: dict[Node, Sequence[Node | None]] = {}  # a call -> the tangents of its results
    for node in between(outputs, set(marks)):
        if node in found or not node.dtype.inexact or not node.op.differentiable:
            continue
        if isinstance(node.op, Part):
            tangent = several[node.inputs[0]][node.op.index]
            if tangent is not None:
                found[node] = tangent
            continue
        parts = [found.get(source) for source in node.inputs]
        if isinstance(node.op, Call):
            several[node] = node.op.jvp_all(node, parts)
        elif any(part is not None for part in parts):
            tangent = node.op.jvp(node, parts)
            if tangent is not None:
                found[node] = tangent
    return [found.get(node) for node in outputs]


def between(outputs: Sequence[Node], sources: set[Node]) -> list[Node]:
    """The nodes that depend on ``sources`` and that ``outputs`` depend on, inputs before users.

    Nodes that hold a value are entered too. Sources are in the list if reached; nodes below them
    are not entered from them.
    """
    order: list[Node] = []
    reached: set[Node] = set()
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(outputs)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            if node in sources or any(source in reached for source in node.inputs):
                reached.add(node)
                order.append(node)
            continue
        if node in seen:
            continue
        seen.add(node)
        stack.append((node, True))
        stack.extend((source, False) for source in reversed(node.inputs))
    return order
