"""Contractions with few results and many terms become two steps: sums over equal parts of k, then
over the parts.

Input: the outputs of a graph. Output: the same graph in which such a contraction has the parts as
one more batch. Sizes alone decide how many there are, so the order of a sum does not depend on the
number of workers.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamella import ops
from lamella.compiler.canonicalise import map_graph, with_inputs
from lamella.compiler.contraction_shapes import STRIP, are_few
from lamella.compiler.partition import is_external
from lamella.dtypes import float32
from lamella.ir.dim import Size, product
from lamella.ir.node import Node
from lamella.ops.contraction import Contract, contract
from lamella.ops.movement import Permute

__all__ = ["split_contractions"]

BUSY = 16  # blocks of a result that keep every worker busy
ROWS, COLUMNS = 12, 64  # of such a block, at least
DEEP = 4096  # terms of a sum from which splitting pays
PIECE = 512  # terms of a part, at least
WORK = 1 << 19  # multiply-adds from which splitting pays
STREAM = 1 << 20  # elements of a factor that is streamed in parts
STREAMED = 256  # terms of such a part, at least


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
    sizes: dict[int, int] = {}
    for source, labels in zip(node.inputs, (op.a_labels, op.b_labels), strict=True):
        for label, size in zip(labels, source.shape, strict=True):
            if not isinstance(size, int):
                return 0, 1
            sizes[label] = size
    summed = [label for label in op.a_labels if label not in op.out_labels]
    m = product(tuple(sizes[i] for i in op.out_labels if i not in op.b_labels))
    n = product(tuple(sizes[i] for i in op.out_labels if i not in op.a_labels))
    total = product(tuple(sizes[i] for i in op.out_labels))
    if not summed or not isinstance(m, int) or not isinstance(n, int) or not isinstance(total, int):
        return 0, 1
    label = max(summed, key=lambda i: sizes[i])
    terms = product(tuple(sizes[i] for i in summed))
    if not isinstance(terms, int):
        return label, 1
    strips = _strips(node, op, m, n, terms)
    if strips:
        return label, max(1, min(BUSY // strips, sizes[label] // STREAMED))
    blocks = total // max(1, m * n) * -(-m // ROWS) * -(-n // COLUMNS)
    if terms < DEEP or total * terms < WORK or 2 * blocks > BUSY:
        return label, 1
    return label, min(BUSY // max(1, blocks), sizes[label] // PIECE)


def _strips(node: Node, op: Contract, m: int, n: int, terms: int) -> int:
    """Strips of columns of a product that streams its large factor, few rows against one that lies
    along its columns; 0 for every other. Parts of k let each strip be as wide as sums have room
    for, so that memory is read in order.
    """
    few, many = min(m, n), max(m, n)
    large, labels = (node.inputs[1], op.b_labels) if n >= m else (node.inputs[0], op.a_labels)
    if not are_few(few, many) or many * terms < STREAM:
        return 0
    if any(i in op.a_labels and i in op.b_labels for i in op.out_labels):
        return 0  # a batch
    across = _stored(large, labels)[-1] in op.out_labels
    return -(-many * few * node.dtype.itemsize // STRIP) if across else 0


def _stored(factor: Node, labels: Sequence[int]) -> Sequence[int]:
    """The labels of a factor in the order in which its elements lie in memory."""
    while isinstance(factor.op, Permute):
        labels = [labels[factor.op.axes.index(i)] for i in range(len(labels))]
        factor = factor.inputs[0]
    return labels


def _split(node: Node, op: Contract, label: int, parts: int) -> Node:
    a, b = node.inputs
    extent = a.shape[op.a_labels.index(label)]
    if not isinstance(extent, int):
        return node
    parts = next((p for p in range(parts, 2 * parts) if extent % p == 0), parts)
    piece = extent // parts
    part = max((*op.a_labels, *op.b_labels)) + 1
    wide = float32 if node.dtype.kind == "f" and node.dtype.itemsize == 2 else node.dtype
    first, of_a = _cut(a, op.a_labels, label, part, parts, piece)
    second, of_b = _cut(b, op.b_labels, label, part, parts, piece)
    sums = contract(first, second, of_a, of_b, (part, *op.out_labels), wide)
    total = ops.reduce_sum(sums, (0,))
    if parts * piece != extent:
        done = parts * piece
        rest = _rest(a, op.a_labels, label, done), _rest(b, op.b_labels, label, done)
        more = contract(*rest, op.a_labels, op.b_labels, op.out_labels, wide)
        total = ops.add(total, more)
    sums.site = node.site
    return ops.cast(total, node.dtype)


def _cut(
    x: Node, labels: Sequence[int], label: int, part: int, parts: int, piece: int
) -> tuple[Node, tuple[int, ...]]:
    """An operand with the axis of ``label`` in ``parts`` of ``piece``, and its labels."""
    axis = labels.index(label)
    whole = _region(x, axis, 0, parts * piece)
    shape = (*x.shape[:axis], parts, piece, *x.shape[axis + 1 :])
    return ops.reshape(whole, shape), (*labels[:axis], part, *labels[axis:])


def _rest(x: Node, labels: Sequence[int], label: int, start: int) -> Node:
    axis = labels.index(label)
    return _region(x, axis, start, x.shape[axis] - start)


def _region(x: Node, axis: int, start: int, count: Size) -> Node:
    """``count`` elements of an axis, from ``start`` on."""
    sizes = tuple(count if i == axis else size for i, size in enumerate(x.shape))
    return ops.slice(x, [start if i == axis else 0 for i in range(x.ndim)], sizes)
