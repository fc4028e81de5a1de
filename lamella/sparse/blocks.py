"""Matrices by rows of dense blocks: :class:`BSR`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lamella import ops, tree
from lamella.dtypes import int64
from lamella.errors import ShapeError
from lamella.sparse.coordinates import COO
from lamella.sparse.forms import Arithmetic
from lamella.sparse.pattern import Pattern, index_node, matrix_shape, tensor_of
from lamella.sparse.rows import CSR, require_dense, summed, wide
from lamella.tensor.core import node_of, wrap
from lamella.tensor.operands import TensorLike, pair

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["BSR"]


class BSR(Arithmetic):
    """A matrix of blocks, of which most are 0, by rows of blocks.

    Args:
        data: the blocks, shape (blocks, height, width).
        indices: the column of blocks of each, shape (blocks,).
        indptr: where each row of blocks begins, shape (rows / height + 1,).
        shape: (rows, columns), multiples of a block's height and width.

    Raises:
        ShapeError, DTypeError, LamellaIndexError: for arrays that do not fit.

    >>> a = BSR([[[1.0, 2.0], [3.0, 4.0]]], [1], [0, 1], (2, 4))
    >>> a.to_dense().tolist()
    [[0.0, 0.0, 1.0, 2.0], [0.0, 0.0, 3.0, 4.0]]
    """

    def __init__(
        self, data: TensorLike, indices: TensorLike, indptr: TensorLike, shape: tuple[int, int]
    ) -> None:
        self.data = tensor_of(data)
        if self.data.ndim != 3 or 0 in self.data.shape[1:]:
            raise ShapeError(f"[sparse] blocks of shape {self.data.shape}; give (blocks, m, n)")
        _, height, width = self.data.shape
        shape = matrix_shape(shape)
        if shape[0] % height or shape[1] % width:
            raise ShapeError(
                f"[sparse] a matrix {shape} of blocks {(height, width)}; sizes must be multiples"
            )
        columns = index_node("indices", indices, 1)
        if columns.shape[0] != self.data.shape[0]:
            raise ShapeError(
                f"[sparse] {self.data.shape[0]} blocks and {columns.shape[0]} indices; give one "
                "for each"
            )
        grid = (shape[0] // height, shape[1] // width)
        self.pattern = Pattern(index_node("indptr", indptr, 1), columns, grid)
        self.shape = shape

    def __repr__(self) -> str:
        blocks, *block = self.data.shape
        return f"BSR(shape={self.shape}, blocks={blocks} of {tuple(block)})"

    @property
    def dtype(self) -> Any:
        """The element type of the blocks."""
        return self.data.dtype

    @property
    def nnz(self) -> int:
        """How many entries the blocks have."""
        blocks, height, width = self.data.shape
        return int(blocks * height * width)

    @property
    def T(self) -> BSR:  # noqa: N802
        """The transposed matrix."""
        other = self.pattern.other
        blocks = ops.gather(node_of(self.data), node_of(self.pattern.order), 0, checked=False)
        return self.tree_unflatten(
            (other, self.shape[::-1]), (wrap(ops.permute(blocks, (0, 2, 1))),)
        )

    def to_csr(self) -> CSR:
        """By compressed rows, with every element of the blocks.

        Raises:
            OptionError: in a transformed function, if the pattern is its argument.
        """
        starts, places = self.pattern.known
        count, height, width = self.data.shape
        rows = np.repeat(np.arange(self.pattern.shape[0]), np.diff(starts))
        at = np.arange(height * width)
        down = rows[:, None] * height + at // width
        across = places[:, None] * width + at % width
        data = ops.reshape(node_of(self.data), (count * height * width,))
        return COO(wrap(data), np.stack([down.ravel(), across.ravel()]), self.shape).to_csr()

    def __matmul__(self, dense: TensorLike) -> Tensor:
        require_dense(dense)
        blocks, right = pair("sparse matmul", self.data, dense)
        vector = right.ndim == 1
        if right.ndim not in (1, 2) or right.shape[0] != self.shape[1]:
            raise ShapeError(
                f"[sparse matmul] {self.shape} and {right.shape}; the second needs as many rows as "
                "the first has columns"
            )
        count, height, width = blocks.shape
        k = 1 if vector else right.shape[1]
        parts = ops.reshape(right, (self.pattern.shape[1], width, k))
        chosen = ops.gather(parts, node_of(self.pattern.columns), 0, checked=False)
        products = ops.reshape(ops.matmul(blocks, chosen), (count, height * k))
        flipped = ops.permute(products, (1, 0))
        total = summed(flipped, node_of(self.pattern.rows), self.pattern.shape[0])
        found = ops.reshape(ops.permute(total, (1, 0)), (self.shape[0], k))
        return wrap(ops.reshape(found, (self.shape[0],)) if vector else found)

    def to_dense(self) -> Tensor:
        """The matrix with its zeros."""
        blocks = node_of(self.data)
        count, height, width = blocks.shape
        rows, columns = self.pattern.shape
        at = ops.add(
            ops.multiply(wide(self.pattern.rows), ops.constant(columns, int64)),
            wide(self.pattern.columns),
        )
        flat = ops.permute(ops.reshape(blocks, (count, height * width)), (1, 0))
        grid = summed(flat, at, rows * columns)
        whole = ops.reshape(grid, (height, width, rows, columns))
        return wrap(ops.reshape(ops.permute(whole, (2, 0, 3, 1)), self.shape))

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """The blocks, and the pattern as it is."""
        return (self.data,), (self.pattern, self.shape)

    @classmethod
    def tree_unflatten(cls, extra: Any, children: Any) -> BSR:
        """The inverse; leaves may be anything."""
        made = object.__new__(cls)
        (made.data,) = children
        made.pattern, made.shape = extra
        return made


tree.register(BSR, BSR.tree_flatten, BSR.tree_unflatten)
