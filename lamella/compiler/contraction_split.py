"""Contractions with few results and many terms become two steps: sums over equal parts of k, then
over the parts.

Input: the outputs of a graph. Output: the same graph in which such a contraction has the parts as
one more batch. Sizes alone decide how many there are, so the order of a sum does not depend on the
number of workers.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamella import ops
from lamella.compiler.canonicalise import first_of, last_of, map_graph, with_inputs
from lamella.compiler.contraction_shapes import LARGE, STRIP, are_few
from lamella.compiler.partition import is_external
from lamella.dtypes import float32
from lamella.ir.decisions import at_least, counted
from lamella.ir.dim import Size, ceildiv, product
from lamella.ir.node import Node
from lamella.ops.contraction import Contract, contract
from lamella.ops.movement import Permute

__all__ = ["split_contractions"]

BUSY = 16  # blocks of a result that keep every worker busy
ROWS, COLUMNS = 12, 64  # of such a block, at least
DEEP = 4096  # terms of a sum from which splitting pays
PIECE = 512  # terms of a part, at least
WORK = 1 << 19  # multiply-adds from which splitting pays
WIDE = 256  # columns of a product that streams its large factor in parts, at least
STREAMED = 128  # terms of a part of a product that streams its large factor, at least


def split_contractions(outputs: Sequence[Node]) -> list[Node]:
    """Splits where too few blocks of a result share the work."""

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if is_external(node) or node.op.kind == "leaf":
            return node
        found = with_inputs(node, inputs)
        if isinstance(found.op, Contract):
            label, parts = _wanted(found, found.op)
            if parts > 1:
                return _split(found, found.op, label, parts)
        return found

    return map_graph(outputs, change)


def _wanted(node: Node, op: Contract) -> tuple[int, int]:
    """The label to split, and into how many parts (1: not at all)."""
    sizes: dict[int, Size] = {}
    for source, labels in zip(node.inputs, (op.a_labels, op.b_labels), strict=True):
        sizes.update(zip(labels, source.shape, strict=True))
    summed = [label for label in op.a_labels if label not in op.out_labels]
    if not summed:
        return 0, 1
    label = summed[0]
    for other in summed[1:]:
        if not at_least(sizes[label], sizes[other], True):
            label = other
    m = product(tuple(sizes[i] for i in op.out_labels if i not in op.b_labels))
    n = product(tuple(sizes[i] for i in op.out_labels if i not in op.a_labels))
    batch = product(tuple(sizes[i] for i in op.out_labels if i in op.a_labels and i in op.b_labels))
    terms = product(tuple(sizes[i] for i in summed))
    most = _streamed(node, op, m, n, terms)
    if most:
        return label, max(1, counted(sizes[label], STREAMED, most, 1))
    blocks = batch * ceildiv(m, ROWS) * ceildiv(n, COLUMNS)
    if not at_least(terms, DEEP, False) or not at_least(batch * m * n * terms, WORK, False):
        return label, 1
    many = counted(blocks, 1, BUSY // 2 + 1, BUSY)
    return label, counted(sizes[label], PIECE, BUSY // many, 1) if 2 * many <= BUSY else 1


def _streamed(node: Node, op: Contract, m: Size, n: Size, terms: Size) -> int:
    """The most parts of k of a product that streams its large factor, few rows against one that
    lies along its columns; 0 for every other. Parts let each strip of columns be as wide as sums
    have room for, so that memory is read in order. A part is large enough to be streamed itself.
    """
    if any(i in op.a_labels and i in op.b_labels for i in op.out_labels):
        return 0  # a batch
    right = at_least(n, m, True)
    few, many = (m, n) if right else (n, m)
    large, labels = (node.inputs[1], op.b_labels) if right else (node.inputs[0], op.a_labels)
    if not at_least(many, WIDE, False) or not at_least(many * terms, 2 * LARGE, False):
        return 0
    if not are_few(few, many):
        return 0
    if _stored(large, labels)[-1] not in op.out_labels:
        return 0
    strips = counted(ceildiv(many * few * node.dtype.itemsize, STRIP), 1, BUSY, 0)
    return max(1, counted(many * terms, LARGE, BUSY // strips, 1)) if strips else 0


def _stored(factor: Node, labels: Sequence[int]) -> Sequence[int]:
    """The labels of a factor in the order in which its elements lie in memory."""
    while isinstance(factor.op, Permute):
        labels = [labels[factor.op.axes.index(i)] for i in range(len(labels))]
        factor = factor.inputs[0]
    return labels


def _split(node: Node, op: Contract, label: int, parts: int) -> Node:
    a, b = node.inputs
    extent = a.shape[op.a_labels.index(label)]
    piece = extent // parts
    part = max((*op.a_labels, *op.b_labels)) + 1
    wide = float32 if node.dtype.kind == "f" and node.dtype.itemsize == 2 else node.dtype
    first, of_a = _cut(a, op.a_labels, label, part, parts, piece)
    second, of_b = _cut(b, op.b_labels, label, part, parts, piece)
    sums = contract(first, second, of_a, of_b, (part, *op.out_labels), wide)
    total = ops.reduce_sum(sums, (0,))
    if parts * piece != extent:
        left = extent - parts * piece
        rest = _rest(a, op.a_labels, label, left), _rest(b, op.b_labels, label, left)
        more = contract(*rest, op.a_labels, op.b_labels, op.out_labels, wide)
        total = ops.add(total, more)
    sums.site = node.site
    return ops.cast(total, node.dtype)


def _cut(
    x: Node, labels: Sequence[int], label: int, part: int, parts: int, piece: Size
) -> tuple[Node, tuple[int, ...]]:
    """An operand with the axis of ``label`` in ``parts`` of ``piece``, and its labels."""
    axis = labels.index(label)
    whole = first_of(x, axis, parts * piece)
    shape = (*x.shape[:axis], parts, piece, *x.shape[axis + 1 :])
    return ops.reshape(whole, shape), (*labels[:axis], part, *labels[axis:])


def _rest(x: Node, labels: Sequence[int], label: int, count: Size) -> Node:
    return last_of(x, labels.index(label), count)
