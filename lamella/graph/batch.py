"""Batching: the graph of one example becomes the graph of many, with a new leading axis.

Input: outputs, for each input its batched counterpart, the batch size. Output: for each output its
batched counterpart and whether it has the new axis: what depends on no batched input is left alone.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from lamella.errors import ShapeError
from lamella.graph.forward import between
from lamella.ir.dim import Size
from lamella.ir.node import Node
from lamella.ops.calls import Call, Part

__all__ = ["batch"]


def batch(
    outputs: Sequence[Node], inputs: Mapping[Node, Node], size: Size
) -> list[tuple[Node, bool]]:
    """``outputs`` for a batch of ``inputs``.

    Args:
        outputs: nodes that may depend on the keys of ``inputs``.
        inputs: node -> the node to put in its place, which has one more leading axis of ``size``.
        size: the batch size.

    Returns:
        For each output the new node and True if it has the batch axis (else the output itself).

    Raises:
        ShapeError: if a batched input does not have shape ``(size, *shape)`` and the same dtype.
        MissingRuleError: if a primitive on the way has no batching rule.

    >>> from lamella import ops
    >>> from lamella.dtypes import float64
    >>> x, xs = ops.placeholder((3,), float64), ops.placeholder((5, 3), float64)
    >>> [(y, has)] = batch([ops.reduce_sum(x)], {x: xs}, 5)
    >>> y.shape, has
    ((5,), True)
    """
    for node, many in inputs.items():
        if many.shape != (size, *node.shape) or many.dtype is not node.dtype:
            raise ShapeError(
                f"[batch] {node.dtype.name}{list(node.shape)} for a batch of {size} needs "
                f"{[size, *node.shape]}, but {many.dtype.name}{list(many.shape)} was given; "
                "move the batch axis to the front"
            )
    found: dict[Node, Node] = dict(inputs)
    several: dict[Node, Sequence[Node]] = {}  # a call -> its batched results
    for node in between(outputs, set(inputs)):
        if node in found:
            continue
        if isinstance(node.op, Part):
            found[node] = several[node.inputs[0]][node.op.index]
            continue
        args = [found.get(source, source) for source in node.inputs]
        batched = tuple(source in found for source in node.inputs)
        if isinstance(node.op, Call):
            several[node] = node.op.batch_all(node, args, batched, size)
        else:
            found[node] = node.op.batch(node, args, batched, size)
    return [(found.get(node, node), node in found) for node in outputs]
