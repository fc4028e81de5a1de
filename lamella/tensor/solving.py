"""Linear systems, inverses, determinants and other functions of matrices.

Matrices lie in the last two axes, other axes are batches and broadcast. Element types are float32,
float64, complex64 and complex128 (integers become the default float).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lamella import ops
from lamella.dtypes import int64
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.ir.node import Node
from lamella.ops import matrices
from lamella.ops.families import broadcast_shapes
from lamella.ops.matrices import identity, transposed
from lamella.tensor.core import wrap
from lamella.tensor.decomposition import matrix_node
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.norms import matrix_rank, tolerance
from lamella.tensor.operands import TensorLike, as_float, as_node, cast, pair

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "LstsqResult", "SlogdetResult", "cholesky_inverse", "cholesky_solve", "det", "inv", "lstsq",
    "lu_solve", "matrix_exp", "matrix_power", "multi_dot", "pinv", "slogdet", "solve",
    "solve_triangular", "tensorinv", "tensorsolve", "vander",
]  # fmt: skip


class SlogdetResult(NamedTuple):
    """The sign of a determinant (of modulus 1, or 0) and the logarithm of its modulus."""

    sign: Tensor
    logabsdet: Tensor


class LstsqResult(NamedTuple):
    """A solution of least squares, what it leaves, and the rank and singular values of the
    matrix.
    """

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def _system(
    name: str, a: TensorLike, b: TensorLike, square: bool = True
) -> tuple[Node, Node, bool]:
    """Both sides in one type with broadcast leading axes; whether ``b`` is one vector."""
    left, right = pair(name, a, b)
    left, right = matrix_node(name, wrap(left), square), as_float(right)
    vector = right.ndim == 1
    if right.ndim == 0:
        raise ShapeError(f"[{name}] the right side is 0-d; give a vector or a matrix")
    if vector:
        right = ops.reshape(right, (*right.shape, 1))
    if left.shape[-2] != right.shape[-2]:
        raise ShapeError(
            f"[{name}] a matrix of shape {left.shape} and a right side of {right.shape[-2]} rows; "
            "they need equally many rows"
        )
    lead = broadcast_shapes(name, left.shape[:-2], right.shape[:-2])
    right = ops.broadcast_to(right, (*lead, *right.shape[-2:]))
    if any(size != 1 for size in left.shape[:-2]) or len(lead) < left.ndim - 2:
        left = ops.broadcast_to(left, (*lead, *left.shape[-2:]))
    else:  # one matrix for all
        left = ops.reshape(left, left.shape[-2:])
    return left, right, vector


def _columns(x: Node, vector: bool) -> Tensor:
    return wrap(ops.reshape(x, x.shape[:-1]) if vector else x)


def solve(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The solution x of x1 @ x = x2.

    Args:
        x1: square matrices.
        x2: a vector, or matrices whose columns are right sides.

    Raises:
        LinAlgError: when computed, if a matrix is singular.
        ShapeError, DTypeError: for operands that do not fit.

    >>> solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0]).tolist()
    [1.0, 0.5]
    """
    a, b, vector = _system("solve", x1, x2)
    return _columns(ops.solve(a, b), vector)


def solve_triangular(
    x1: TensorLike, x2: TensorLike, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """The solution of x1 @ x = x2 (of x @ x1 = x2 without ``left``) with a triangular x1.

    Args:
        x1: square matrices, of which only one triangle is read.
        x2: matrices of right sides, or a vector.
        upper: the triangle is the upper one.
        left: x1 stands on the left.
        unitriangular: the diagonal is 1 and is not read.

    Raises:
        LinAlgError: when computed, for a 0 on the diagonal.

    >>> solve_triangular([[2.0, 9.0], [1.0, 1.0]], [2.0, 3.0], upper=False).tolist()
    [1.0, 2.0]
    """
    if not left:
        a, b = as_float(as_node(x1)), as_float(as_node(x2))
        flipped = solve_triangular(
            wrap(transposed(a)), wrap(transposed(b)), upper=not upper, unitriangular=unitriangular
        )
        return wrap(transposed(flipped.node))
    a, b, vector = _system("solve_triangular", x1, x2)
    return _columns(ops.triangular_solve(a, b, lower=not upper, unit=unitriangular), vector)


def lu_solve(
    LU: TensorLike, pivots: TensorLike, B: TensorLike, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """The solution of A x = B from what :func:`lu_factor` gave for A.

    ``left=False`` solves x A = B, ``adjoint`` takes the adjoint of A.

    Raises:
        ShapeError: if ``B`` is a vector, or shapes do not fit.

    >>> from lamella.tensor.decomposition import lu_factor
    >>> lu_solve(*lu_factor([[0.0, 2.0], [1.0, 3.0]]), [[2.0], [4.0]]).tolist()
    [[1.0], [1.0]]
    """
    factors, b = pair("lu_solve", LU, B)
    if factors.ndim < 2 or b.ndim < 2:
        raise ShapeError(
            f"[lu_solve] shapes {factors.shape} and {b.shape}; factors and right side are "
            "matrices: give a vector as one column, B[:, None]"
        )
    if not left:
        turned = matrices.adjoint(b)
        found = lu_solve(wrap(factors), pivots, wrap(turned), adjoint=not adjoint).node
        return wrap(matrices.adjoint(found))
    rows = cast(as_node(pivots), int64)
    rows = ops.subtract(rows, ops.constant(1, int64))
    lead = broadcast_shapes("lu_solve", factors.shape[:-2], b.shape[:-2])
    b = ops.broadcast_to(b, (*lead, *b.shape[-2:]))
    factors = ops.broadcast_to(factors, (*lead, *factors.shape[-2:]))
    rows = ops.broadcast_to(rows, (*lead, rows.shape[-1]))
    if not adjoint:
        half = ops.triangular_solve(factors, ops.exchanged(b, rows), lower=True, unit=True)
        return wrap(ops.triangular_solve(factors, half, lower=False))
    half = ops.triangular_solve(matrices.adjoint(factors), b, lower=True)
    found = ops.triangular_solve(matrices.adjoint(factors), half, lower=False, unit=True)
    eye = ops.exchanged(identity((*lead, *factors.shape[-2:]), factors.dtype), rows)
    return wrap(ops.matmul(matrices.adjoint(eye), found))


def cholesky_solve(B: TensorLike, L: TensorLike, upper: bool = False) -> Tensor:
    """The solution of A x = B for A = L Lᴴ (Lᴴ L with ``upper``), from its triangular factor.

    >>> cholesky_solve([[4.0], [6.0]], [[2.0, 0.0], [1.0, 1.0]]).tolist()
    [[-1.0], [4.0]]
    """
    factor, b, vector = _system("cholesky_solve", L, B)
    low = matrices.adjoint(factor) if upper else factor
    half = ops.triangular_solve(low, b, lower=True)
    return _columns(ops.triangular_solve(matrices.adjoint(low), half, lower=False), vector)


def cholesky_inverse(L: TensorLike, upper: bool = False) -> Tensor:
    """The inverse of A = L Lᴴ (Lᴴ L with ``upper``) from its triangular factor.

    >>> cholesky_inverse([[2.0, 0.0], [0.0, 1.0]]).tolist()
    [[0.25, 0.0], [0.0, 1.0]]
    """
    node = matrix_node("cholesky_inverse", L, square=True)
    return cholesky_solve(wrap(identity(node.shape, node.dtype)), wrap(node), upper)


def inv(x: TensorLike) -> Tensor:
    """The inverse.

    Raises:
        LinAlgError: when computed, if a matrix is singular.

    >>> inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return wrap(ops.inverse(matrix_node("inv", x, square=True)))


@with_synonyms
def pinv(x: TensorLike, rtol: TensorLike | None = None, hermitian: bool = False) -> Tensor:
    """The Moore-Penrose inverse.

    Args:
        x: matrices of any shape.
        rtol: singular values up to this (a number, or one for each matrix) times the largest count
            as 0; by default the larger size times the type's epsilon.
        hermitian: ``x`` is Hermitian.

    The derivative (Golub and Pereyra 1973) is that while the rank stays as it is.

    >>> pinv([[2.0], [0.0]]).tolist()
    [[0.5, 0.0]]
    """
    node = matrix_node("pinv", x, square=hermitian)
    return wrap(ops.pseudo_inverse(node, tolerance(node, rtol), hermitian))


def lstsq(x1: TensorLike, x2: TensorLike, rcond: float | None = None) -> LstsqResult:
    """The x of least norm among those that make |x1 @ x - x2|² least, by the pseudoinverse.

    Args:
        x1: matrices of shape (..., m, n).
        x2: a vector of m, or matrices of shape (..., m, k).
        rcond: as ``rtol`` of :func:`pinv`.

    Returns:
        The solution; |x1 @ x - x2|² of each column, empty if m <= n; the rank and the singular
        values of x1.

    >>> lstsq([[1.0], [1.0]], [1.0, 3.0]).solution.round(4).tolist()
    [2.0]
    """
    a, b, vector = _system("lstsq", x1, x2, square=False)
    relative = tolerance(a, rcond)
    x = ops.matmul(ops.pseudo_inverse(a, relative), b)
    left = ops.subtract(ops.matmul(a, x), b)
    square = ops.square(ops.abs(left)) if left.dtype.kind != "c" else _squared(left)
    over = bool(a.shape[-2] > a.shape[-1])
    sums = ops.reduce_sum(square, (square.ndim - 2,))
    if not over:
        sums = ops.full(0.0, (0,), sums.dtype)
    elif vector:
        sums = ops.reshape(sums, sums.shape[:-1])
    rank = matrix_rank(wrap(a), rtol=wrap(relative))
    return LstsqResult(_columns(x, vector), wrap(sums), rank, wrap(ops.svd(a)[1]))


def _squared(x: Node) -> Node:
    return ops.add(ops.square(ops.real(x)), ops.square(ops.imag(x)))


def det(x: TensorLike) -> Tensor:
    """The determinant; its derivative, the cofactors, exists for singular matrices too.

    Second derivatives need an inverse.

    >>> det([[2.0, 0.0], [0.0, 4.0]]).item()
    8.0
    """
    return wrap(ops.determinant(matrix_node("det", x, square=True)))


def slogdet(x: TensorLike) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its modulus: 0 and -inf for a singular
    matrix, which has no derivative.

    >>> slogdet([[2.0, 0.0], [0.0, 4.0]]).sign.item()
    1.0
    """
    sign, log = ops.log_determinant(matrix_node("slogdet", x, square=True))
    return SlogdetResult(wrap(sign), wrap(log))


def matrix_exp(x: TensorLike) -> Tensor:
    """The sum of xᵏ / k!, by a Padé approximant with scaling and squaring (Higham 2005).

    >>> matrix_exp([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return wrap(ops.matrix_exp(matrix_node("matrix_exp", x, square=True)))


def matrix_power(x: TensorLike, n: int) -> Tensor:
    """The matrix multiplied with itself, ``n`` times in all; its inverse for negative ``n``.

    Raises:
        OptionError: unless ``n`` is a whole number.
        ShapeError: if the matrices are not square.

    >>> matrix_power([[1, 1], [0, 1]], 3).tolist()
    [[1, 3], [0, 1]]
    """
    node = as_node(x)
    if node.ndim < 2 or node.shape[-1] != node.shape[-2]:
        raise ShapeError(
            f"[matrix_power] shape {node.shape} holds no square matrix; give one in the last two "
            "axes"
        )
    if not isinstance(n, int | np.integer):
        raise OptionError(f"[matrix_power] exponent {n!r} is no whole number; give an int")
    n = int(n)
    if n < 0:
        node, n = ops.inverse(matrix_node("matrix_power", wrap(node), square=True)), -n
    found: Node | None = None
    while n:
        if n & 1:
            found = node if found is None else ops.matmul(found, node)
        node = ops.matmul(node, node) if n > 1 else node
        n >>= 1
    return wrap(identity(node.shape, node.dtype) if found is None else found)


def multi_dot(arrays: Sequence[TensorLike]) -> Tensor:
    """The product of matrices, in the order of multiplication that takes the fewest operations.

    The first and the last may be vectors.

    >>> multi_dot([[[1.0, 2.0]], [[3.0], [4.0]], [[5.0]]]).tolist()
    [[55.0]]
    """
    nodes = [as_node(x) for x in arrays]
    if not nodes:
        raise OptionError("[multi_dot] no matrices; give at least one")
    first, last = nodes[0].ndim == 1, nodes[-1].ndim == 1
    if first:
        nodes[0] = ops.reshape(nodes[0], (1, *nodes[0].shape))
    if last:
        nodes[-1] = ops.reshape(nodes[-1], (*nodes[-1].shape, 1))
    if any(node.ndim != 2 for node in nodes):
        raise ShapeError(
            f"[multi_dot] shapes {[node.shape for node in nodes]}; give matrices, and vectors only "
            "at the ends"
        )
    sizes = [int(node.shape[0]) for node in nodes] + [int(nodes[-1].shape[1])]
    found = wrap(_product(nodes, _splits(sizes), 0, len(nodes) - 1))
    shape = found.shape[int(first) : 2 - int(last)]
    return wrap(ops.reshape(found.node, shape))


def _splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to part each chain i..j (Cormen et al., "Introduction to Algorithms", 14.2)."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], split[i, j] = min(options)
    return split


def _product(nodes: Sequence[Node], split: dict[tuple[int, int], int], i: int, j: int) -> Node:
    if i == j:
        return nodes[i]
    k = split[i, j]
    return ops.matmul(_product(nodes, split, i, k), _product(nodes, split, k + 1, j))


def tensorsolve(x1: TensorLike, x2: TensorLike, axes: Sequence[int] | None = None) -> Tensor:
    """The x of tensordot(x1, x, x.ndim) = x2, whose axes are the last of x1.

    ``axes`` of x1 are moved to its end first.

    >>> tensorsolve([[2.0, 0.0], [0.0, 4.0]], [2.0, 4.0]).tolist()
    [1.0, 1.0]
    """
    a, b = pair("tensorsolve", x1, x2)
    if axes is not None:
        moved = [axis % a.ndim for axis in axes]
        a = ops.permute(a, (*(i for i in range(a.ndim) if i not in moved), *moved))
    shape = a.shape[b.ndim :]
    rows, columns = math.prod(b.shape), math.prod(int(size) for size in shape)
    if rows != columns or a.shape[: b.ndim] != b.shape:
        raise ShapeError(
            f"[tensorsolve] {a.shape} and {b.shape}: the first must begin with the second, and its "
            f"other axes must have as many elements ({columns}, not {rows})"
        )
    found = solve(wrap(ops.reshape(a, (rows, columns))), wrap(ops.reshape(b, (rows,))))
    return wrap(ops.reshape(found.node, shape))


def tensorinv(x: TensorLike, ind: int = 2) -> Tensor:
    """The inverse of tensordot by ``x`` over the axes from ``ind`` on.

    >>> tensorinv([[2.0, 0.0], [0.0, 4.0]], ind=1).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    node = as_node(x)
    first, last = node.shape[:ind], node.shape[ind:]
    rows, columns = (math.prod(int(size) for size in part) for part in (first, last))
    if ind <= 0 or rows != columns:
        raise ShapeError(
            f"[tensorinv] shape {node.shape} parted before axis {ind}: {rows} and {columns} "
            "elements; they must be equally many, and ind positive"
        )
    found = inv(wrap(ops.reshape(node, (rows, columns))))
    return wrap(ops.reshape(found.node, (*last, *first)))


def vander(x: TensorLike, N: int | None = None) -> Tensor:
    """The matrix of powers: ``result[..., i, j] = x[..., i] ** j`` for j < N (by default square).

    >>> vander([2, 3], 3).tolist()
    [[1, 2, 4], [1, 3, 9]]
    """
    node = as_node(x)
    if node.ndim == 0 or node.dtype.kind == "b":
        kind = ShapeError if node.ndim == 0 else DTypeError
        raise kind(f"[vander] {node.dtype.name}{list(node.shape)}; give a vector of numbers")
    count = node.shape[-1] if N is None else N
    column = ops.reshape(node, (*node.shape, 1))
    if isinstance(count, int) and count == 0:
        return wrap(ops.full(0, (*node.shape, 0), node.dtype))
    ones = ops.full(1, (*node.shape, 1), node.dtype)
    rest = ops.broadcast_to(column, (*node.shape, count - 1))
    return wrap(ops.cumprod(ops.concatenate([ones, rest], node.ndim), node.ndim))
