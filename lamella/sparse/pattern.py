"""Where the entries of a sparse matrix are: compressed rows, and the same by columns.

Input: offsets of rows and columns of entries. Output: :class:`Pattern`, compared by identity. Where
values are known they are checked at once; inside a compiled function they are limited to what is
in memory, and a check raises when the program has run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from lamella import ops
from lamella.dtypes import int32, int64
from lamella.errors import DTypeError, LamellaIndexError, OptionError, ShapeError
from lamella.ir.node import Node
from lamella.ops.sparse import Pattern as Nodes
from lamella.tensor.core import node_of, value_of, wrap
from lamella.tensor.operands import TensorLike, as_node, cast, scalar_node
from lamella.tensor.pending import current_trace, placeholder_in
from lamella.tensor.searching import argsort, searchsorted
from lamella.tensor.tensor import Tensor
from lamella.transforms.callback import check

__all__ = ["Pattern", "index_node", "matrix_shape", "tensor_of"]

Known = tuple[npt.NDArray[Any], npt.NDArray[Any]]

LARGE = 2**31  # sizes from which indices need 64 bits


def index_node(name: str, x: TensorLike, ndim: int) -> Node:
    """Indices as int64.

    Raises:
        DTypeError, ShapeError: if they are no integers, or of another number of axes.
    """
    node = as_node(x)
    if node.ndim != ndim:
        raise ShapeError(f"[sparse] {name} of shape {node.shape}; it needs {ndim} axes")
    if node.dtype.kind not in "iu" and node.size != 0:
        raise DTypeError(f"[sparse] {name} is {node.dtype.name}; indices are integers: cast it")
    return cast(node, int64)


def tensor_of(x: TensorLike) -> Tensor:
    """``x`` as a tensor: the very one that it may be."""
    return x if isinstance(x, Tensor) else wrap(as_node(x))


def matrix_shape(shape: Any) -> tuple[int, int]:
    """(rows, columns).

    Raises:
        ShapeError: if it is something else.
    """
    found = tuple(shape) if isinstance(shape, Iterable) else ()
    if len(found) != 2 or not all(isinstance(n, int | np.integer) and n >= 0 for n in found):
        raise ShapeError(f"[sparse] the shape {shape!r} of a matrix; give (rows, columns)")
    return int(found[0]), int(found[1])


class Pattern:
    """The entries' places in a matrix of ``shape``; ``count`` is how many there are."""

    def __init__(self, offsets: Node, columns: Node, shape: tuple[int, int]) -> None:
        rows, width = shape
        if offsets.shape != (rows + 1,):
            raise ShapeError(
                f"[sparse] indptr of shape {offsets.shape} for {rows} rows; it needs {rows + 1} "
                "numbers: where each row begins, and the end"
            )
        self.shape = shape
        self.count = int(columns.shape[0])
        offsets, columns, self._known = _valid(offsets, columns, self.count, width)
        small = max(rows, width, self.count) < LARGE
        self._kind = int32 if small else int64
        every = ops.iota((self.count,), 0, int64)
        found = searchsorted(wrap(offsets), wrap(every), side="right").node
        self.offsets, self.columns = wrap(offsets), wrap(cast(columns, self._kind))
        self.rows = self._near(ops.subtract(cast(found, int64), scalar_node(1, int64)))
        self._other: Pattern | None = None
        if current_trace() is None:
            _ = self.other  # made while a function is traced it would belong to that trace

    @property
    def known(self) -> Known:
        """Offsets and columns as arrays.

        Raises:
            OptionError: if they depend on an argument of a function being transformed.
        """
        if self._known is None and self._other is not None and self._other._known is not None:
            starts, columns = self._other._known
            rows = np.repeat(np.arange(self.shape[1]), np.diff(starts))
            order = np.argsort(columns, kind="stable")
            ends = np.searchsorted(columns[order], np.arange(self.shape[0] + 1))
            self._known = ends, rows[order]
        if self._known is None:
            raise OptionError(
                "[sparse] the pattern of the matrix is an argument of a function being "
                "transformed, so how many entries this gives is not known; do it outside, or use "
                "to_dense()"
            )
        return self._known

    def _near(self, node: Node) -> Tensor:
        return wrap(cast(node, self._kind))

    @property
    def other(self) -> Pattern:
        """The pattern of the transposed matrix."""
        if self._other is None:
            order = argsort(self.columns, stable=True)
            other = object.__new__(Pattern)
            other.shape, other.count, other._kind = self.shape[::-1], self.count, self._kind
            other._known = None
            columns = ops.gather(node_of(self.columns), node_of(order), 0, checked=False)
            ends = ops.iota((self.shape[1] + 1,), 0, int64)
            offsets = searchsorted(wrap(cast(columns, int64)), wrap(ends)).node
            other.offsets, other.rows = wrap(cast(offsets, int64)), wrap(columns)
            other.columns = wrap(
                ops.gather(node_of(self.rows), node_of(order), 0, checked=False)
            )
            self.order, other.order = order, argsort(order, stable=True)
            self._other, other._other = other, self
        return self._other

    order: Tensor

    def nodes(self) -> Nodes:
        """What a product is made from."""
        there = self.other
        mine = (node_of(self.offsets), node_of(self.columns), node_of(self.rows))
        theirs = (node_of(there.offsets), node_of(there.columns), node_of(there.rows))
        return Nodes(*mine, *theirs, node_of(self.order), node_of(there.order))


def _valid(
    offsets: Node, columns: Node, count: int, width: int
) -> tuple[Node, Node, Known | None]:
    if placeholder_in(offsets) or placeholder_in(columns):
        return *_limited(offsets, columns, count, width), None
    starts, places = value_of(wrap(offsets)), value_of(wrap(columns))
    if starts[0] != 0 or starts[-1] != count or (np.diff(starts) < 0).any():
        raise LamellaIndexError(
            f"[sparse] indptr begins with {starts[0]} and ends with {starts[-1]} for {count} "
            "entries; it must not decrease, from 0 to their number"
        )
    if count and not (places.min() >= 0 and places.max() < width):
        raise LamellaIndexError(
            f"[sparse] columns from {places.min()} to {places.max()} in a matrix of {width}; they "
            "count from 0"
        )
    return offsets, columns, (np.array(starts), np.array(places))


def _limited(offsets: Node, columns: Node, count: int, width: int) -> tuple[Node, Node]:
    zero = ops.constant(0, int64)
    starts = ops.minimum(ops.maximum(offsets, zero), ops.constant(count, int64))
    places = ops.minimum(ops.maximum(columns, zero), ops.constant(max(width - 1, 0), int64))
    same = ops.logical_and(
        ops.reduce_all(ops.equal(starts, offsets)), ops.reduce_all(ops.equal(places, columns))
    )
    check(wrap(same), "[sparse] indptr or indices name entries or columns that do not exist")
    return starts, places


