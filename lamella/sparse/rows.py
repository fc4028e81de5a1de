"""Matrices by compressed rows: :class:`CSR`, and what is computed with them.

Products run over the entries of each row and keep its sums in registers; products at the entries
alone (``sampled_matmul``) never form the dense product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lamella import ops, tree
from lamella.dtypes import bool_, int64, uint8
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.ir.dim import Size
from lamella.ir.node import Node
from lamella.ops.families import broadcast_shapes
from lamella.sparse.pattern import Pattern, index_node, matrix_shape, tensor_of
from lamella.tensor.core import TensorCore, node_of, value_of, wrap
from lamella.tensor.operands import TensorLike, as_float, as_node, cast, pair
from lamella.tensor.reduction import sum_dtype

if TYPE_CHECKING:
    from lamella.sparse.coordinates import COO
    from lamella.tensor.tensor import Tensor

__all__ = ["CSR", "from_dense", "sampled_matmul"]


class CSR:
    """A matrix by compressed rows.

    Args:
        data: the values, of shape (..., entries); leading axes are a batch with one pattern.
        indices: the column of each entry, shape (entries,).
        indptr: where each row begins among them, shape (rows + 1,).
        shape: (rows, columns).

    Raises:
        ShapeError, DTypeError: for arrays that do not fit.
        LamellaIndexError: for entries outside the matrix (inside ``jit``: CheckError when it runs).

    >>> a = CSR([1.0, 2.0, 3.0], [0, 2, 1], [0, 2, 3], (2, 3))
    >>> a.to_dense().tolist()
    [[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]
    >>> (a @ [[1.0], [2.0], [3.0]]).tolist()
    [[7.0], [6.0]]
    """

    __array_priority__ = 1000
    __array_ufunc__ = None

    def __init__(
        self, data: TensorLike, indices: TensorLike, indptr: TensorLike, shape: tuple[int, int]
    ) -> None:
        columns = index_node("indices", indices, 1)
        pattern = Pattern(index_node("indptr", indptr, 1), columns, matrix_shape(shape))
        self._set(tensor_of(data), pattern)

    def _set(self, data: Tensor, pattern: Pattern) -> None:
        if data.ndim < 1 or data.shape[-1] != pattern.count:
            raise ShapeError(
                f"[sparse] data of shape {data.shape} for {pattern.count} entries; its last axis "
                "has one value for each"
            )
        self.data = data
        self.pattern = pattern

    def with_data(self, data: TensorLike) -> CSR:
        """Other values at the same places."""
        return _csr(tensor_of(data), self.pattern)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """The data, and the pattern as it is."""
        return (self.data,), self.pattern

    @classmethod
    def tree_unflatten(cls, pattern: Any, children: Any) -> CSR:
        """The inverse; leaves may be anything."""
        made = object.__new__(cls)
        (made.data,) = children
        made.pattern = pattern
        return made

    # -- what it is --------------------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, ...]:
        """Leading axes of the data, rows, columns."""
        return (*self.data.shape[:-1], *self.pattern.shape)

    @property
    def dtype(self) -> Any:
        """The element type of the data."""
        return self.data.dtype

    @property
    def nnz(self) -> int:
        """How many entries there are, zeros and repeated ones too."""
        return self.pattern.count

    @property
    def indices(self) -> Tensor:
        """The column of each entry."""
        return self.pattern.columns

    @property
    def indptr(self) -> Tensor:
        """Where each row begins."""
        return self.pattern.offsets

    @property
    def rows(self) -> Tensor:
        """The row of each entry."""
        return self.pattern.rows

    def __repr__(self) -> str:
        return f"CSR(shape={self.shape}, nnz={self.nnz}, dtype={self.dtype.name})"

    def to_dense(self) -> Tensor:
        """The matrix with its zeros."""
        data = node_of(self.data)
        rows, columns = self.pattern.shape
        at = ops.add(
            ops.multiply(wide(self.rows), ops.constant(columns, wide(self.rows).dtype)),
            wide(self.indices),
        )
        found = summed(data, at, rows * columns)
        return wrap(ops.reshape(found, (*data.shape[:-1], rows, columns)))

    @property
    def T(self) -> CSR:  # noqa: N802
        """The transposed matrix."""
        other = self.pattern.other
        order = node_of(self.pattern.order)
        return _csr(wrap(entries(node_of(self.data), order)), other)

    def to_coo(self) -> COO:
        """By coordinates, in the same order."""
        from lamella.sparse.coordinates import COO

        places = [ops.reshape(wide(index), (1, self.nnz)) for index in (self.rows, self.indices)]
        return COO(self.data, wrap(ops.concatenate(places, 0)), self.pattern.shape)

    def __getitem__(self, index: Any) -> Any:
        """Rows ``a[rows]``, or rows and columns ``a[rows, columns]``: by numbers, slices, lists or
        arrays of numbers or of bools. Sparse; a single row or column, by a number, has its zeros.

        Raises:
            LamellaIndexError: for what lies outside, or is no index.
            OptionError: in a transformed function, if pattern or index are its arguments.

        >>> a = CSR([1.0, 2.0, 3.0], [0, 2, 1], [0, 2, 3], (2, 3))
        >>> a[1].tolist(), a[:, [2, 0]].to_dense().tolist()
        ([0.0, 3.0, 0.0], [[2.0, 1.0], [0.0, 0.0]])
        """
        from lamella.sparse.selection import select

        return select(self, index)

    # -- arithmetic --------------------------------------------------------------------------------
    def __matmul__(self, dense: TensorLike) -> Tensor:
        require_dense(dense)
        values, right = pair("sparse matmul", self.data, dense)
        vector = right.ndim == 1
        if right.ndim == 0 or right.shape[-1 if vector else -2] != self.pattern.shape[1]:
            raise ShapeError(
                f"[sparse matmul] {self.pattern.shape} and {right.shape}: the first has "
                f"{self.pattern.shape[1]} columns, the second must have as many rows"
            )
        if vector:
            right = ops.reshape(right, (*right.shape, 1))
        lead = broadcast_shapes("sparse matmul", values.shape[:-1], right.shape[:-2])
        values = ops.broadcast_to(values, (*lead, values.shape[-1]))
        right = ops.broadcast_to(right, (*lead, *right.shape[-2:]))
        found = self._product(values, right)
        return wrap(ops.reshape(found, found.shape[:-1]) if vector else found)

    def _product(self, values: Node, right: Node) -> Node:
        """Complex numbers by their parts: those of the dense matrix are columns side by side."""
        pattern = self.pattern.nodes()
        if values.dtype.kind not in "fc":
            return self._counted(values, right)
        if values.dtype.kind != "c":
            return ops.sparse_product(values, right, pattern)
        k = right.shape[-1]
        both = ops.concatenate([ops.real(right), ops.imag(right)], right.ndim - 1)
        found = [ops.sparse_product(part(values), both, pattern) for part in (ops.real, ops.imag)]
        (aa, ab), (ba, bb) = ([_half(f, i, k) for i in (0, 1)] for f in found)
        return ops.complex(ops.subtract(aa, bb), ops.add(ab, ba))

    def _counted(self, values: Node, right: Node) -> Node:
        """Of integers, whose order of summation does not matter, and bools: (i, k) is the sum of
        the entries of row i, each times what the dense matrix has in its column.
        """
        chosen = entries(_swapped(right), node_of(self.indices))
        factors = ops.reshape(values, (*values.shape[:-1], 1, values.shape[-1]))
        factors = ops.broadcast_to(factors, chosen.shape)
        times = ops.logical_and if values.dtype is bool_ else ops.multiply
        return _swapped(summed(times(chosen, factors), node_of(self.rows), self.pattern.shape[0]))

    def __rmatmul__(self, dense: TensorLike) -> Tensor:
        left = as_node(dense)
        if left.ndim < 2:
            return self.T @ wrap(left)
        found = node_of(self.T @ wrap(_swapped(left)))
        return wrap(_swapped(found))

    def __mul__(self, other: Any) -> CSR:
        if isinstance(other, CSR):
            _require_same(self, other)
            return self.with_data(self.data * other.data)
        if isinstance(other, TensorCore | np.ndarray) and other.ndim > 0:
            return self.with_data(self.data * self._sampled(as_node(other)))
        return self.with_data(self.data * other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> CSR:
        if isinstance(other, TensorCore | np.ndarray) and other.ndim > 0:
            return self.with_data(self.data / self._sampled(as_node(other)))
        return self.with_data(self.data / other)

    def _sampled(self, dense: Node) -> Tensor:
        """A dense matrix (which broadcasts) at the entries."""
        rows, columns = self.pattern.shape
        whole = ops.broadcast_to(dense, broadcast_shapes("sparse", dense.shape, (rows, columns)))
        found = ops.gather_nd(
            whole, [node_of(self.rows), node_of(self.indices)], (whole.ndim - 2, whole.ndim - 1),
            (False, False),
        )  # fmt: skip
        return wrap(ops.permute(found, (*range(1, found.ndim), 0)))

    def __neg__(self) -> CSR:
        return self.with_data(-self.data)

    def __add__(self, other: Any) -> CSR:
        term = _compressed(other)
        if term.pattern is self.pattern:
            return self.with_data(self.data + term.data)
        from lamella.sparse.coordinates import COO

        return COO.concatenated(self, term).to_csr()

    def __sub__(self, other: Any) -> CSR:
        return self + -_compressed(other)

    # -- reductions --------------------------------------------------------------------------------
    def sum(self, axis: int | None = None) -> Tensor:
        """The sum over ``axis`` of rows (-2 or 0) or columns (-1 or 1), or of all entries; of
        integers and bools as int64 (uint64 of unsigned ones), as :func:`lamella.sum`.
        """
        data = cast(node_of(self.data), sum_dtype(self.data.dtype, None))
        if axis is None:
            return wrap(ops.reduce_sum(data, (data.ndim - 1,)))
        if axis not in (0, 1, -1, -2):
            raise OptionError(f"[sparse] sum over axis {axis}; a matrix has 0 and 1")
        by_row = axis in (1, -1)
        index = self.rows if by_row else self.indices
        return wrap(summed(data, node_of(index), self.pattern.shape[0 if by_row else 1]))

    def softmax(self) -> CSR:
        """exp(x) divided by its sum, over the entries of each row; of integers as the default
        float.

        Raises:
            DTypeError: for complex numbers, which have no order.
        """
        if self.dtype.kind == "c":
            raise DTypeError(
                f"[softmax] {self.dtype.name} numbers have no largest to take off; use their "
                "modulus, a.with_data(lm.abs(a.data))"
            )
        data, rows = as_float(node_of(self.data)), node_of(self.rows)
        count = self.pattern.shape[0]
        high = ops.stop_gradient(_largest(data, rows, count, -np.inf))
        power = ops.exp(ops.subtract(data, entries(high, rows)))
        total = summed(power, rows, count)
        return self.with_data(wrap(ops.divide(power, entries(total, rows))))


def _csr(data: Any, pattern: Pattern) -> CSR:
    made = object.__new__(CSR)
    made._set(data, pattern)
    return made


def wide(x: Tensor) -> Node:
    return cast(node_of(x), int64)


def _compressed(matrix: Any) -> CSR:
    """A term of a sum by rows."""
    if isinstance(matrix, CSR):
        return matrix
    if not hasattr(matrix, "to_csr"):
        raise OptionError(
            f"[sparse] a sparse matrix and a {type(matrix).__name__}; add sparse matrices, or "
            "use to_dense()"
        )
    made: CSR = matrix.to_csr()
    return made


def _half(x: Node, number: int, columns: Size) -> Node:
    """The first or the last ``columns`` of twice as many."""
    shape = (*x.shape[:-1], columns)
    halves = ops.reshape(x, (*x.shape[:-1], 2, columns))
    start = (*[0] * (x.ndim - 1), number, 0)
    return ops.reshape(ops.slice(halves, start, (*x.shape[:-1], 1, columns)), shape)


def require_dense(x: object) -> None:
    """Raise if the right factor of a product is sparse too."""
    if hasattr(x, "to_dense"):
        raise OptionError(
            f"[sparse matmul] the product with a {type(x).__name__} would be sparse, which is not "
            "there; use to_dense() of one of them"
        )


def _swapped(x: Node) -> Node:
    return ops.permute(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _first(x: Node) -> Node:
    """The last axis first."""
    return ops.permute(x, (x.ndim - 1, *range(x.ndim - 1)))


def _last(x: Node) -> Node:
    """The first axis last."""
    return ops.permute(x, (*range(1, x.ndim), 0))


def entries(x: Node, index: Node) -> Node:
    """The last axis at ``index``."""
    return _last(ops.gather(_first(x), index, 0, checked=False))


def summed(data: Node, index: Node, count: int) -> Node:
    """Sums of the entries by index, along the last axis; of bools, whether one is true."""
    if data.dtype is bool_:
        return ops.cast(_largest(ops.cast(data, uint8), index, count, 0), bool_)
    start = ops.full(0, (count, *data.shape[:-1]), data.dtype)
    return _last(ops.scatter(start, index, _first(data), "add", 0, False))


def _largest(data: Node, index: Node, count: int, least: float) -> Node:
    """The largest of the entries by index, along the last axis; ``least`` where there is none."""
    start = ops.full(least, (count, *data.shape[:-1]), data.dtype)
    return _last(ops.scatter(start, index, _first(data), "max", 0, False))


def _require_same(a: CSR, b: CSR) -> None:
    if a.pattern is not b.pattern:
        raise OptionError(
            "[sparse] the product of matrices with patterns of their own; give both one pattern "
            "(a.with_data(...)), or use to_dense()"
        )


def from_dense(x: TensorLike) -> CSR:
    """The entries of a matrix that are not 0; looks at the values.

    >>> from_dense([[0.0, 2.0], [0.0, 0.0]])
    CSR(shape=(2, 2), nnz=1, dtype=float32)
    """
    node = as_node(x)
    if node.ndim != 2:
        raise ShapeError(f"[sparse] from_dense of shape {node.shape}; give a matrix")
    rows, columns = np.nonzero(value_of(wrap(node)))
    shape = (int(node.shape[0]), int(node.shape[1]))
    offsets = np.searchsorted(rows, np.arange(shape[0] + 1))
    made = CSR(np.zeros(len(rows), node.dtype.numpy), columns, offsets, shape)
    return made.with_data(made._sampled(node))


def sampled_matmul(pattern: CSR, a: TensorLike, b: TensorLike) -> CSR:
    """The entries of ``a @ b`` at the places of ``pattern``, nothing else of it is computed.

    Args:
        pattern: a sparse matrix of shape (n, m); its data does not matter.
        a: shape (..., n, k).
        b: shape (..., k, m).

    >>> p = CSR([1.0, 1.0], [0, 1], [0, 1, 2], (2, 2))
    >>> sampled_matmul(p, [[1.0], [2.0]], [[3.0, 4.0]]).data.tolist()
    [3.0, 8.0]
    """
    left, right = pair("sampled_matmul", a, b)
    n, m = pattern.pattern.shape
    fits = left.ndim >= 2 and right.ndim >= 2 and left.shape[-1] == right.shape[-2]
    if not fits or left.shape[-2] != n or right.shape[-1] != m:
        raise ShapeError(
            f"[sampled_matmul] {left.shape} times {right.shape} at the entries of a matrix "
            f"{(n, m)}; they need {n} rows and {m} columns"
        )
    found = ops.sampled_product(pattern.pattern.nodes(), left, _swapped(right))
    return pattern.with_data(wrap(found))


tree.register(CSR, CSR.tree_flatten, CSR.tree_unflatten)
