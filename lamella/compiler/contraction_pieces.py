"""Products of a few rows with a concatenation become products with its pieces.

Input: the outputs of a graph. Output: the same graph in which such a product is the concatenation
of products with each piece (along a label of the result), or their sum (along one that is summed):
keys and values of a cache with those of a new token, weights side by side. Few rows take each
element of the concatenation few times, so that choosing its piece would take as long as to
multiply; the more rows there are, the less packing it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from lamella import ops
from lamella.compiler.canonicalise import first_of, last_of, map_graph, with_inputs
from lamella.compiler.partition import is_external
from lamella.dtypes import float32
from lamella.ir.decisions import at_least
from lamella.ir.dim import Size, product
from lamella.ir.node import Node
from lamella.ops.contraction import Contract, contract
from lamella.ops.joining import Concatenate
from lamella.ops.movement import Permute

__all__ = ["split_concatenations"]

ROWS = 128  # that meet a concatenation, at most
ELEMENTS = 1 << 14  # of a concatenation that is worth more kernels
PIECES = 4  # at most


def split_concatenations(outputs: Sequence[Node]) -> list[Node]:
    """The pass. A concatenation that is a result itself is read where it is stored."""
    stored = set(outputs)

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if is_external(node) or not isinstance(node.op, Contract):
            return with_inputs(node, inputs) if inputs else node
        found = with_inputs(node, inputs)
        for side in (0, 1):
            if _joined(node.inputs[side]) not in stored and _few(found, node.op, side):
                return _split(found, node.op, side)
        return found

    return map_graph(outputs, change)


def _joined(factor: Node) -> Node:
    """What a factor is, whatever the order of its axes."""
    while isinstance(factor.op, Permute) and not is_external(factor):
        (factor,) = factor.inputs
    return factor


def _few(node: Node, op: Contract, side: int) -> bool:
    """Whether a factor is a large concatenation of few pieces that meets few rows."""
    joined = _joined(node.inputs[side])
    if is_external(joined) or not isinstance(joined.op, Concatenate):
        return False
    of_joined = (op.a_labels, op.b_labels)[side]
    other, labels = node.inputs[1 - side], (op.a_labels, op.b_labels)[1 - side]
    rows: list[Size] = [
        size for size, label in zip(other.shape, labels, strict=True) if label not in of_joined
    ]
    many = at_least(product(tuple(rows)), ROWS + 1, True)
    large = at_least(product(joined.shape), ELEMENTS, True)
    return not many and large and len(joined.inputs) <= PIECES and node.dtype.kind != "b"


def _split(node: Node, op: Contract, side: int) -> Node:
    """The products with each piece, together."""
    factor = node.inputs[side]
    axes = tuple(range(factor.ndim))
    while isinstance(factor.op, Permute):
        axes = tuple(factor.op.axes[a] for a in axes)
        (factor,) = factor.inputs
    if not isinstance(factor.op, Concatenate):
        raise TypeError(f"{factor.op.name} is no concatenation")
    axis = axes.index(factor.op.axis)
    label = (op.a_labels, op.b_labels)[side][axis]
    summed = label not in op.out_labels
    half = node.dtype.kind == "f" and node.dtype.itemsize == 2
    wide = float32 if summed and half else node.dtype
    found: list[Node] = []
    start: Size = 0
    for source in factor.inputs:
        piece = ops.permute(source, axes)
        other = _range(node.inputs[1 - side], op, 1 - side, label, start, piece.shape[axis])
        a, b = (other, piece) if side else (piece, other)
        found.append(contract(a, b, op.a_labels, op.b_labels, op.out_labels, wide))
        found[-1].site = node.site
        start = start + piece.shape[axis]
    if summed:
        return ops.cast(reduce(ops.add, found), node.dtype)
    return ops.concatenate(found, op.out_labels.index(label))


def _range(x: Node, op: Contract, side: int, label: int, start: Size, count: Size) -> Node:
    """The positions of a factor that meet a piece; all where it has not the label."""
    labels = (op.a_labels, op.b_labels)[side]
    if label not in labels:
        return x
    axis = labels.index(label)
    return last_of(first_of(x, axis, start + count), axis, count)
