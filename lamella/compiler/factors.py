"""Factors of products laid out in panels: for each block of columns, as wide as the register tile,
the rows of k one after the other, as the tiled schedule reads them where they lie
(``tiles.TileKernel``).

Input: a product, and the nodes that may be laid out before it runs. Output: the node of the panels,
and the product that reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from lamella import ops
from lamella.dtypes import DType
from lamella.ir.dim import Size, product
from lamella.ir.node import Node
from lamella.ops.contraction import Contract
from lamella.ops.movement import Permute

__all__ = ["Factor", "Layout", "Width", "factor_of"]

Layout = tuple[Node, int, int]  # a matrix, its axis that columns run along, columns of a panel

Width = Callable[[DType, Size, Size, Size], int]
"""(dtype, rows, columns, k) of a product -> the columns of a panel; 0: better left as it is"""


@dataclass(frozen=True, slots=True)
class Factor:
    """A product that reads a matrix made before it: which operand, and by which axis of the matrix
    the columns of the product run; panels are ``width`` columns wide.
    """

    node: Node
    operand: int
    constant: Node
    axis: int
    width: int

    @property
    def layout(self) -> Layout:
        """What says how the matrix is laid out."""
        return self.constant, self.axis, self.width

    def panels(self, matrix: Node) -> Node:
        """``matrix`` in the place of the constant as (blocks of columns, k, columns of a block)."""
        matrix = ops.permute(matrix, (self.axis, 1 - self.axis))
        columns, k = matrix.shape
        blocks = ops.reshape(matrix, (columns // self.width, self.width, k))
        return ops.permute(blocks, (0, 2, 1))

    def matrix(self, panels: Node) -> Node:
        """The product's operand, read from the panels: it is moved, which costs nothing."""
        blocks, k, width = panels.shape
        found = ops.reshape(ops.permute(panels, (0, 2, 1)), (blocks * width, k))
        op = self.node.op
        if not isinstance(op, Contract):
            raise TypeError(f"{op.name} is no contraction")
        labels = (op.a_labels, op.b_labels)[self.operand]
        return found if labels[0] in op.out_labels else ops.permute(found, (1, 0))


def factor_of(
    node: Node, constants: Collection[Node], width: Width, last: bool = False
) -> Factor | None:
    """The operand of a product that is one of ``constants`` and better read from panels, if there
    is one; ``last``: only one whose columns are those of the result as it lies in memory.
    """
    op = node.op
    if not isinstance(op, Contract):
        return None
    both = op.a_labels, op.b_labels
    for operand, labels in enumerate(both):
        source, axes = _moved(node.inputs[operand])
        columns = [i for i, label in enumerate(labels) if label in op.out_labels]
        if source not in constants or source.ndim != 2 or len(columns) != 1:
            continue
        label = labels[columns[0]]
        if label in both[1 - operand] or (last and label != op.out_labels[-1]):
            continue
        axis = axes[columns[0]]
        sizes = zip(node.shape, op.out_labels, strict=True)
        rows = product(tuple(size for size, at in sizes if at != label))
        found = width(source.dtype, rows, source.shape[axis], source.shape[1 - axis])
        if found:
            return Factor(node, operand, source, axis, found)
    return None


def _moved(node: Node) -> tuple[Node, tuple[int, ...]]:
    """What permutations only move, and which axis of it each axis is."""
    axes = tuple(range(node.ndim))
    while isinstance(node.op, Permute) and node.value is None:
        axes = tuple(node.op.axes[a] for a in axes)
        node = node.inputs[0]
    return node, axes
