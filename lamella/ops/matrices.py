"""What the matrix primitives share: their base, and small functions of nodes.

Matrices lie in the last two axes, other axes are batches. An operation on matrices is an opaque
call: NumPy's LAPACK runs it, unless there are kernels (``matrix_kernel``). Its derivative in
forward mode is a graph of products, solutions and masks; reverse mode is derived from it
(``graph.reverse``). Of symmetric (Hermitian) operands the derivative is that along symmetric
changes.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from lamella import ops
from lamella.dtypes import DType, float32, float64, int64
from lamella.errors import DTypeError, ShapeError
from lamella.ir.dim import Shape, Size
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Needs, Sample
from lamella.ops.calls import Call

__all__ = [
    "REALS", "MatrixCall", "adjoint", "column_scaled", "columns", "diagonal", "diagonal_matrix",
    "identity", "least", "lower", "mirrored", "real_part", "require_matrix", "row_scaled", "sample",
    "transposed", "unsound", "upper",
]  # fmt: skip

REALS = (float64, float32)


@dataclass(frozen=True, slots=True)
class MatrixCall(Call):
    """A function of matrices, batched along leading axes."""

    opaque: ClassVar[bool] = True
    transposed: ClassVar[bool] = True

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """One more leading axis."""
        wide = [
            arg if has else ops.broadcast_to(arg, (size, *arg.shape))
            for arg, has in zip(args, batched, strict=True)
        ]
        return make(self, tuple(wide), (), node.dtype)


def require_matrix(name: str, a: Node, square: bool = False) -> None:
    """Raise unless ``a`` holds matrices of a type that LAPACK has.

    Raises:
        ShapeError, DTypeError.
    """
    if a.ndim < 2 or (square and a.shape[-1] != a.shape[-2]):
        kind = "square matrix" if square else "matrix"
        raise ShapeError(
            f"[{name}] shape {a.shape} holds no {kind}, which lies in the last two axes; reshape "
            "it, or give another operand"
        )
    if not a.dtype.inexact or a.dtype.part not in REALS:
        raise DTypeError(
            f"[{name}] takes float32, float64 and complex matrices, not {a.dtype.name}; cast with "
            ".astype(lm.float32)"
        )


def least(name: str, m: Size, n: Size) -> Size:
    """The smaller of two sizes.

    Raises:
        ShapeError: if it is not known which that is.
    """
    if m == n:
        return m
    if not isinstance(m, int) or not isinstance(n, int):
        raise ShapeError(
            f"[{name}] a matrix of {m} rows and {n} columns, of which the smaller number must be "
            "known when a program is compiled; leave these sizes out of dynamic="
        )
    return min(m, n)


# -- functions of nodes ----------------------------------------------------------------------------
def transposed(x: Node) -> Node:
    """The last two axes exchanged."""
    axes = list(range(x.ndim))
    return ops.permute(x, (*axes[:-2], axes[-1], axes[-2]))


def adjoint(x: Node) -> Node:
    """The conjugate transpose."""
    return transposed(ops.conj(x) if x.dtype.kind == "c" else x)


def mirrored(x: Node) -> Node:
    """(x + xᴴ) / 2."""
    return ops.multiply(ops.add(x, adjoint(x)), ops.constant(0.5, x.dtype))


def real_part(x: Node) -> Node:
    """The real part; ``x`` itself if it is real."""
    return ops.real(x) if x.dtype.kind == "c" else x


def _kept(x: Node, rule: Callable[[Node, Node], Node]) -> Node:
    shape = x.shape[-2:]
    mask = rule(ops.iota(shape, 0, int64), ops.iota(shape, 1, int64))
    return ops.where(ops.broadcast_to(mask, x.shape), x, ops.constant(0, x.dtype))


def _moved(index: Node, by: int) -> Node:
    return ops.add(index, ops.constant(by, int64)) if by else index


def lower(x: Node, k: int = 0) -> Node:
    """The lower triangle, up to diagonal ``k``."""
    return _kept(x, lambda row, column: ops.less_equal(column, _moved(row, k)))


def upper(x: Node, k: int = 0) -> Node:
    """The upper triangle, from diagonal ``k``."""
    return _kept(x, lambda row, column: ops.greater_equal(column, _moved(row, k)))


def diagonal(x: Node) -> Node:
    """The diagonal of square matrices, as the last axis."""
    return ops.reduce_sum(_kept(x, ops.equal), (x.ndim - 1,))


def row_scaled(x: Node, by: Node) -> Node:
    """diag(by) x."""
    return ops.multiply(ops.reshape(by, (*by.shape, 1)), x)


def column_scaled(x: Node, by: Node) -> Node:
    """x diag(by)."""
    return ops.multiply(x, ops.reshape(by, (*by.shape[:-1], 1, by.shape[-1])))


def columns(x: Node, start: Size, stop: Size) -> Node:
    """The columns from ``start`` up to ``stop``."""
    if start == 0 and stop == x.shape[-1]:
        return x
    return ops.slice(x, (*[0] * (x.ndim - 1), cast("int", start)), (*x.shape[:-1], stop - start))


def diagonal_matrix(values: Node) -> Node:
    """The square matrix with these on its diagonal."""
    n = values.shape[-1]
    row = ops.reshape(values, (*values.shape[:-1], 1, n))
    return _kept(ops.broadcast_to(row, (*values.shape, n)), ops.equal)


def identity(shape: Shape, dtype: DType) -> Node:
    """Identity matrices of ``shape`` (the last two sizes may differ)."""
    return _kept(ops.full(1, shape, dtype), ops.equal)


def unsound(x: Node, shape: Shape) -> Node:
    """NaN for each matrix with an entry that is not finite, else 0, broadcast to ``shape``, whose
    leading axes end with those of ``x``.
    """
    nothing = ops.multiply(x, ops.constant(0.0, x.dtype))
    total = ops.reduce_sum(nothing, (x.ndim - 2, x.ndim - 1))
    return ops.broadcast_to(ops.reshape(total, (*total.shape, 1, 1)), shape)


# -- samples ---------------------------------------------------------------------------------------
def _well_posed(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, position: int
) -> Array:
    """Random matrices with distinct singular values and eigenvalues, far from singular."""
    array: Array = rng.uniform(-1, 1, shape)
    m, n = shape[-2:]
    return array + np.asarray(2.0 * np.eye(m, n) * (1 + np.arange(n)))


def sample(
    build: Callable[..., Node], *shapes: tuple[int, ...], note: str = ""
) -> Iterator[Sample]:
    """A sample of matrices for which derivatives exist."""
    yield Sample(shapes, build, REALS, draw=_well_posed, rtol=2e-4, note=note)
