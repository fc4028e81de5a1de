"""Matrix algorithms in NumPy, over leading axes: what ``numpy.linalg`` has no function for.

Input: arrays of float32, float64, complex64 or complex128 with matrices in the last two axes.
Output: arrays of the same type. Triangular systems and LU are blocked, so that nearly all of the
work is in matrix products. Matrices with entries that are not finite give NaN (``finite``).
Sources: Golub and Van Loan, "Matrix Computations" (4th ed.), 3.1.4 and 3.2.11; Higham, "The scaling
and squaring method for the matrix exponential revisited" (2005).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lamella.errors import LinAlgError

__all__ = [
    "adjoint", "cofactors", "expm", "finite", "lu", "no_result", "pivots_to_permutation",
    "triangular_solve",
]  # fmt: skip

Array = npt.NDArray[Any]
BLOCK: Final = 64  # rows that are eliminated one by one, or by LAPACK


def adjoint(a: Array) -> Array:
    """The conjugate transpose."""
    return np.conj(np.swapaxes(a, -1, -2))


def _flat(a: Array, kept: int) -> Array:
    """All but the last ``kept`` axes as one."""
    axes = a.ndim - kept
    return a.reshape(math.prod(a.shape[:axes]), *a.shape[axes:])


def finite(name: str, a: Array, run: Callable[[Array], Sequence[Array]]) -> tuple[Array, ...]:
    """``run(a)``; where a matrix has an entry that is not finite its results are NaN.

    LAPACK may fail or never end on such matrices, so it sees the identity in their place.

    Raises:
        LinAlgError: if the factorisation of a matrix does not exist.
    """
    if np.isfinite(a).all():
        return tuple(checked(name, run, a))
    bad = ~np.isfinite(a).all((-2, -1))
    replaced = a.copy()
    replaced[bad] = np.eye(*a.shape[-2:], dtype=a.dtype)
    results = [np.array(result) for result in checked(name, run, replaced)]
    for result in results:
        if result.dtype.kind in "fc":
            result[bad] = np.nan
    return tuple(results)


def checked(name: str, run: Callable[..., Sequence[Array]], *args: Array) -> Sequence[Array]:
    """``run(*args)``, its failure as one of ours."""
    try:
        with np.errstate(all="ignore"):
            return run(*args)
    except np.linalg.LinAlgError as error:
        found = str(error).lower().rstrip(".")
        kinds = [(a.dtype.name, a.shape) for a in args]
        raise LinAlgError(no_result(name, found, kinds)) from None


def no_result(name: str, what: str, matrices: Iterable[tuple[str, Sequence[object]]]) -> str:
    """The message of an error: why ``name`` has no result, and of which dtypes and shapes."""
    shapes = ", ".join(f"{dtype}{list(shape)}" for dtype, shape in matrices)
    return (
        f"[{name}] {what} (of {shapes}), so there is no result; check the matrix, for example with "
        "lm.linalg.cond or lm.linalg.matrix_rank"
    )


# -- triangular systems ----------------------------------------------------------------------------
def triangular_solve(t: Array, b: Array, lower: bool, unit: bool) -> Array:
    """The ``x`` of ``t @ x = b``; the other triangle of ``t`` is not read, nor its diagonal if
    ``unit``.
    """
    n = t.shape[-1]
    if n <= BLOCK:
        return _small_solve(t, b, lower, unit)
    half = (n // 2 + BLOCK - 1) // BLOCK * BLOCK
    first, last = slice(0, half), slice(half, n)
    if not lower:
        first, last = last, first
    x = np.empty(np.broadcast_shapes(t.shape[:-2], b.shape[:-2]) + b.shape[-2:], b.dtype)
    x[..., first, :] = triangular_solve(t[..., first, first], b[..., first, :], lower, unit)
    rest = b[..., last, :] - t[..., last, first] @ x[..., first, :]
    x[..., last, :] = triangular_solve(t[..., last, last], rest, lower, unit)
    return x


def _small_solve(t: Array, b: Array, lower: bool, unit: bool) -> Array:
    """LAPACK's solver needs no pivoting for a triangle, except that rows may change places."""
    triangle = np.tril(t) if lower else np.triu(t)
    if unit:
        index = np.arange(t.shape[-1])
        triangle[..., index, index] = 1
    return np.asarray(np.linalg.solve(triangle, b))


# -- LU --------------------------------------------------------------------------------------------
def lu(a: Array) -> tuple[Array, Array]:
    """The factors of ``a`` with its rows exchanged, packed, and the exchanges: ``pivots[i]`` is the
    row that row ``i`` changed places with (counted from 0).
    """
    packed = _flat(a, 2).copy()
    m, n = a.shape[-2:]
    pivots = np.zeros((len(packed), min(m, n)), np.int64)
    for begin in range(0, min(m, n), BLOCK):
        end = min(begin + BLOCK, m, n)
        _panel(packed, pivots, begin, end)
        if end < n:
            corner, right = packed[:, begin:end, begin:end], packed[:, begin:end, end:]
            right[...] = triangular_solve(corner, right, lower=True, unit=True)
            packed[:, end:, end:] -= packed[:, end:, begin:end] @ right
    return packed.reshape(a.shape), pivots.reshape(*a.shape[:-2], min(m, n))


def _panel(packed: Array, pivots: Array, begin: int, end: int) -> None:
    """Eliminate the columns ``begin`` to ``end``; rows change places in the whole matrix."""
    each = np.arange(len(packed))
    for j in range(begin, end):
        found = j + np.argmax(_size(packed[:, j:, j]), axis=1)
        pivots[:, j] = found
        upper = packed[each, found].copy()
        packed[each, found] = packed[:, j]
        packed[:, j] = upper
        pivot = packed[:, j, j, None]
        column = packed[:, j + 1 :, j]
        np.divide(column, pivot, out=column, where=pivot != 0)
        packed[:, j + 1 :, j + 1 : end] -= column[:, :, None] * packed[:, j, None, j + 1 : end]


def _size(x: Array) -> Array:
    """What LAPACK chooses pivots by."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def pivots_to_permutation(pivots: Array, rows: int) -> Array:
    """The order of rows that exchanges (from 0) make of ``rows``."""
    flat = _flat(pivots, 1)
    order = np.tile(np.arange(rows), (len(flat), 1))
    if len(flat) < flat.shape[-1]:  # one matrix after the other
        for row, exchanges in zip(order, flat.tolist(), strict=True):
            row[:] = _exchanged(list(range(rows)), exchanges)
        return order.reshape(*pivots.shape[:-1], rows)
    each = np.arange(len(flat))
    for j in range(flat.shape[-1]):  # all matrices at once
        other = flat[:, j]
        moved = order[each, other].copy()
        order[each, other] = order[:, j]
        order[:, j] = moved
    return order.reshape(*pivots.shape[:-1], rows)


def _exchanged(order: list[int], exchanges: Sequence[int]) -> list[int]:
    for i, other in enumerate(exchanges):
        order[i], order[other] = order[other], order[i]
    return order


# -- other functions -------------------------------------------------------------------------------
def cofactors(a: Array) -> Array:
    """The matrix of cofactors, the derivative of the determinant, of singular matrices too.

    det(A) inv(A)^T where A has an inverse, else from A = U diag(s) V: conj(U) diag(p) conj(V)
    det(U) det(V), where p_i is the product of all s but s_i.
    """
    flat = _flat(a, 2)
    found = np.empty_like(flat)
    for i, matrix in enumerate(flat):
        det = np.linalg.det(matrix)
        if det != 0:
            found[i] = det * np.linalg.inv(matrix).T
        else:
            u, s, v = np.linalg.svd(matrix)
            others = [np.prod(np.delete(s, k)) for k in range(len(s))]
            sign = np.linalg.det(u) * np.linalg.det(v)
            found[i] = sign * (np.conj(u) * np.asarray(others, s.dtype)) @ np.conj(v)
    return found.reshape(a.shape)


_PADE: Final = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
    129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0,
    960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_RADIUS: Final = 5.371920351148152  # of the 1-norm, up to which the approximant is exact enough


def expm(a: Array) -> Array:
    """The matrix exponential, by the Padé approximant of degree 13, scaling and squaring."""
    wide = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    norm = np.abs(wide).sum(-2).max(-1, initial=0.0)
    with np.errstate(divide="ignore"):
        squarings = np.maximum(0, np.ceil(np.log2(norm / _RADIUS))).astype(np.int64)
    found = _pade(wide * np.exp2(-squarings.astype(np.float64))[..., None, None])
    for step in range(int(squarings.max(initial=0))):
        found = np.where((squarings > step)[..., None, None], found @ found, found)
    return found.astype(a.dtype)


def _pade(a: Array) -> Array:
    b, one = _PADE, np.eye(a.shape[-1], dtype=a.dtype)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    odd = a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2
    odd = a @ (odd + b[1] * one)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2
    even = even + b[0] * one
    return np.asarray(np.linalg.solve(even - odd, even + odd))
