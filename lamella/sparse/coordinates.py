"""Matrices by coordinates: :class:`COO`, the form that is easy to build."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from lamella import ops, tree
from lamella.dtypes import int64, promote
from lamella.errors import LamellaIndexError, OptionError, ShapeError
from lamella.ir.node import Node
from lamella.ops.families import broadcast_shapes
from lamella.sparse.forms import Arithmetic
from lamella.sparse.pattern import index_node, matrix_shape, tensor_of
from lamella.sparse.rows import CSR, summed
from lamella.tensor.core import node_of, value_of, wrap
from lamella.tensor.operands import TensorLike, as_node
from lamella.tensor.pending import placeholder_in
from lamella.tensor.searching import argsort, searchsorted
from lamella.transforms.callback import check

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["COO"]


class COO(Arithmetic):
    """A matrix by coordinates.

    Args:
        data: the values, shape (..., entries).
        indices: rows and columns, shape (2, entries), in any order; entries at one place are added.
        shape: (rows, columns).

    Raises:
        ShapeError, DTypeError, LamellaIndexError: for arrays that do not fit.

    >>> a = COO([1.0, 2.0, 3.0], [[1, 0, 1], [0, 1, 0]], (2, 2))
    >>> a.to_dense().tolist()
    [[0.0, 2.0], [4.0, 0.0]]
    """

    def __init__(
        self, data: TensorLike, indices: TensorLike, shape: tuple[int, int]
    ) -> None:
        self.data = tensor_of(data)
        self.size = matrix_shape(shape)
        self.indices: Tensor = wrap(index_node("indices", indices, 2))
        count = self.indices.shape[1]
        if self.indices.shape[0] != 2 or self.data.ndim < 1 or self.data.shape[-1] != count:
            raise ShapeError(
                f"[sparse] data {self.data.shape} and indices {self.indices.shape}; they are "
                "(..., entries) and (2, entries)"
            )
        _check_places(self.indices, self.size)

    @property
    def dtype(self) -> Any:
        """The element type of the data."""
        return self.data.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Leading axes of the data, rows, columns."""
        return (*self.data.shape[:-1], *self.size)

    @property
    def nnz(self) -> int:
        """How many entries there are."""
        return int(self.indices.shape[1])

    def __repr__(self) -> str:
        return f"COO(shape={self.shape}, nnz={self.nnz}, dtype={self.data.dtype.name})"

    def to_csr(self) -> CSR:
        """By compressed rows; entries of a row stay in order."""
        rows, columns = (_row(self.indices, i) for i in (0, 1))
        order = node_of(argsort(wrap(rows), stable=True))
        ends = wrap(ops.iota((self.size[0] + 1,), 0, int64))
        offsets = searchsorted(wrap(ops.gather(rows, order, 0, checked=False)), ends)
        places = wrap(ops.gather(columns, order, 0, checked=False))
        data = node_of(self.data)
        first = ops.permute(data, (data.ndim - 1, *range(data.ndim - 1)))
        moved = ops.gather(first, order, 0, checked=False)
        return CSR(wrap(ops.permute(moved, (*range(1, data.ndim), 0))), places, offsets, self.size)

    def coalesce(self) -> COO:
        """The same matrix with one entry a place, sorted by rows, then columns: entries at one
        place are added. Places whose entries add up to 0 stay.

        Raises:
            OptionError: in a transformed function, if the indices are its arguments.

        >>> a = COO([1.0, 2.0, 3.0], [[1, 0, 1], [0, 1, 0]], (2, 2)).coalesce()
        >>> a.data.tolist(), a.indices.tolist()
        ([2.0, 4.0], [[0, 1], [1, 0]])
        """
        if placeholder_in(node_of(self.indices)):
            raise OptionError(
                "[coalesce] the indices are arguments of a function being transformed, so how "
                "many places there are is not known; coalesce outside, or use to_csr()"
            )
        rows, columns = np.asarray(value_of(self.indices))
        places, which = np.unique(rows * max(self.size[1], 1) + columns, return_inverse=True)
        data = summed(node_of(self.data), as_node(which.astype(np.int64)), len(places))
        return COO(wrap(data), np.stack(np.divmod(places, max(self.size[1], 1))), self.size)

    def to_dense(self) -> Tensor:
        """The matrix with its zeros."""
        return self.to_csr().to_dense()

    @property
    def T(self) -> COO:  # noqa: N802
        """The transposed matrix."""
        flipped = ops.concatenate(
            [ops.reshape(_row(self.indices, i), (1, self.nnz)) for i in (1, 0)], 0
        )
        return COO(self.data, wrap(flipped), self.size[::-1])

    def __matmul__(self, dense: TensorLike) -> Tensor:
        return self.to_csr() @ dense

    @staticmethod
    def concatenated(*matrices: CSR) -> COO:
        """The entries of all matrices: their sum."""
        shapes = {matrix.pattern.shape for matrix in matrices}
        if len(shapes) != 1:
            raise ShapeError(f"[sparse] the sum of matrices of shapes {sorted(shapes)}")
        data = [node_of(matrix.data) for matrix in matrices]
        places = [
            ops.concatenate([
                ops.reshape(ops.cast(node_of(index), int64), (1, matrix.nnz))
                for index in (matrix.rows, matrix.indices)
            ], 0)
            for matrix in matrices
        ]  # fmt: skip
        kind = functools.reduce(promote, (node.dtype for node in data))
        lead = functools.reduce(
            lambda a, b: broadcast_shapes("sparse add", a, b), (n.shape[:-1] for n in data)
        )
        data = [ops.broadcast_to(ops.cast(n, kind), (*lead, n.shape[-1])) for n in data]
        values = ops.concatenate(data, len(lead))
        return COO(wrap(values), wrap(ops.concatenate(places, 1)), shapes.pop())

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Data and indices."""
        return (self.data, self.indices), self.size

    @classmethod
    def tree_unflatten(cls, size: Any, children: Any) -> COO:
        """The inverse; leaves may be anything."""
        made = object.__new__(cls)
        made.data, made.indices = children
        made.size = size
        return made


def _check_places(indices: Tensor, size: tuple[int, int]) -> None:
    """Raise for entries outside the matrix; inside a transformed function, when it runs."""
    if not indices.shape[1]:
        return
    if placeholder_in(node_of(indices)):
        for i, what in enumerate(("rows", "columns")):
            numbers = wrap(_row(indices, i))
            inside = (numbers >= 0) & (numbers < size[i])
            check(inside.all(), f"[sparse] there are {what} outside a matrix of {size[i]}")
        return
    for numbers, most, what in zip(value_of(indices), size, ("rows", "columns"), strict=True):
        if not (numbers.min() >= 0 and numbers.max() < most):
            raise LamellaIndexError(
                f"[sparse] {what} from {numbers.min()} to {numbers.max()} in a matrix of {most}; "
                "they count from 0"
            )


def _row(indices: Tensor, i: int) -> Node:
    node = node_of(indices)
    return ops.reshape(ops.slice(node, (i, 0), (1, node.shape[1]), (1, 1)), (node.shape[1],))


tree.register(COO, COO.tree_flatten, COO.tree_unflatten)
