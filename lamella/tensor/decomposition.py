"""Factorisations of matrices, which lie in the last two axes; other axes are batches.

Element types are float32, float64, complex64 and complex128 (integers become the default float).
Large real matrices have kernels for Cholesky and LU; LAPACK computes the rest through NumPy.
Derivatives are graphs of products and solutions, to any order, with the sources that
``lamella.ops.factorization`` names. A matrix with an infinity or a NaN gives NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from lamella import ops
from lamella.dtypes import int32
from lamella.errors import OptionError, ShapeError, did_you_mean
from lamella.ir.dim import Size
from lamella.ir.node import Node
from lamella.ops.matrices import adjoint, identity, least, lower, require_matrix, upper
from lamella.tensor.core import wrap
from lamella.tensor.operands import TensorLike, as_float, as_node, cast

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "EigResult", "EighResult", "LUFactorResult", "LUResult", "QRResult", "SVDResult", "cholesky",
    "eig", "eigh", "eigvals", "eigvalsh", "householder_product", "lu", "lu_factor", "qr", "svd",
    "svdvals",
]  # fmt: skip


class EigResult(NamedTuple):
    """Eigenvalues and eigenvectors; vector ``[..., :, i]`` belongs to value ``[..., i]``."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    """As :class:`EigResult`, of a Hermitian matrix."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """The factors of x = Q R."""

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """The factors of x = U diag(S) Vh."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class LUResult(NamedTuple):
    """The factors of x = P L U."""

    P: Tensor
    L: Tensor
    U: Tensor


class LUFactorResult(NamedTuple):
    """Both factors in one matrix, and the exchanges of rows."""

    LU: Tensor
    pivots: Tensor


def matrix_node(name: str, x: TensorLike, square: bool = False) -> Node:
    """The node of matrices of an element type that LAPACK has.

    Raises:
        ShapeError, DTypeError.
    """
    node = as_float(as_node(x))
    require_matrix(name, node, square)
    return node


def cholesky(x: TensorLike, upper: bool = False) -> Tensor:
    """The lower triangular L with positive diagonal of x = L Lᴴ.

    Args:
        x: positive definite matrices, of which only the lower triangle is read.
        upper: the upper triangular U of x = Uᴴ U instead, from the upper triangle.

    Raises:
        LinAlgError: when computed, if a matrix is not positive definite.
        ShapeError, DTypeError: for other operands than square matrices.

    The derivative is that along symmetric changes: gradients are symmetric (Giles 2008).

    >>> cholesky([[4.0, 2.0], [2.0, 5.0]]).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    node = matrix_node("cholesky", x, square=True)
    return wrap(adjoint(ops.cholesky(adjoint(node))) if upper else ops.cholesky(node))


def qr(x: TensorLike, mode: str = "reduced") -> QRResult | Tensor:
    """Q with orthonormal columns and the upper triangular R of x = Q R.

    Args:
        x: matrices of shape (..., m, n).
        mode: "reduced" (Q is m × min(m, n)), "complete" (Q is m × m), "r" (R alone).

    Raises:
        OptionError: for another mode.
        GradientError: for a derivative of the complete factors of a matrix with m > n.

    Derivatives (Walter and Lehmann 2010) need the first min(m, n) columns to be independent.

    >>> q, r = qr([[3.0, 1.0], [4.0, 2.0]])
    >>> (q @ r).round(4).tolist()
    [[3.0, 1.0], [4.0, 2.0]]
    """
    node = matrix_node("qr", x)
    if mode not in ("reduced", "complete", "r"):
        raise OptionError(
            f"[qr] mode cannot be {mode!r}; {did_you_mean(mode, ('reduced', 'complete', 'r'))}"
        )
    q, r = ops.qr(node, complete=mode == "complete")
    return wrap(r) if mode == "r" else QRResult(wrap(q), wrap(r))


def svd(x: TensorLike, full_matrices: bool = True) -> SVDResult:
    """Singular values S, descending, and orthonormal U, V of x = U diag(S) Vᴴ.

    Args:
        x: matrices of shape (..., m, n).
        full_matrices: U is m × m and V n × n; otherwise both have min(m, n) columns.

    Derivatives of U and V (Townsend 2016; Wan and Zhang 2019) are infinite or NaN where singular
    values are equal (or one is 0, of a matrix that is not square); S has one there too. The columns
    that ``full_matrices`` adds are arbitrary but for the space they span, and their derivative is
    the least that stays orthogonal to the others: right for what depends on that space.

    >>> svd([[3.0, 0.0], [0.0, 4.0]]).S.tolist()
    [4.0, 3.0]
    """
    node = matrix_node("svd", x)
    full = full_matrices and node.shape[-1] != node.shape[-2]
    u, s, vh = ops.svd(node, full)
    return SVDResult(wrap(u), wrap(s), wrap(vh))


def svdvals(x: TensorLike) -> Tensor:
    """The singular values, descending; differentiable where they are equal too.

    >>> svdvals([[3.0, 0.0], [0.0, 4.0]]).tolist()
    [4.0, 3.0]
    """
    return wrap(ops.svd(matrix_node("svdvals", x))[1])


def _hermitian(name: str, x: TensorLike, uplo: str) -> Node:
    node = matrix_node(name, x, square=True)
    if uplo.upper() not in ("L", "U"):
        raise OptionError(
            f"[{name}] UPLO cannot be {uplo!r}; give 'L' or 'U': which triangle is read"
        )
    return node if uplo.upper() == "L" else adjoint(node)


def eigh(x: TensorLike, UPLO: str = "L") -> EighResult:
    """Eigenvalues, ascending, and orthonormal eigenvectors of Hermitian matrices.

    ``UPLO`` names the triangle that is read. Derivatives are those along symmetric changes; of
    vectors of equal eigenvalues they are infinite or NaN, of the values they are not.

    >>> eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues.tolist()
    [1.0, 2.0]
    """
    w, v = ops.eigh(_hermitian("eigh", x, UPLO))
    return EighResult(wrap(w), wrap(v))


def eigvalsh(x: TensorLike, UPLO: str = "L") -> Tensor:
    """The eigenvalues of Hermitian matrices, ascending; differentiable where they are equal too.

    >>> eigvalsh([[2.0, 0.0], [0.0, 1.0]]).tolist()
    [1.0, 2.0]
    """
    return wrap(ops.eigh(_hermitian("eigvalsh", x, UPLO))[0])


def eig(x: TensorLike) -> EigResult:
    """Eigenvalues and eigenvectors of any square matrices, always complex, in no certain order.

    Vectors have length 1; their factors of modulus 1 are LAPACK's choice, and derivatives are right
    for functions that do not depend on it. Matrices without a basis of eigenvectors have no
    derivative: LinAlgError or very large numbers.

    >>> eig([[0.0, 1.0], [-1.0, 0.0]]).eigenvalues.tolist()
    [1j, -1j]
    """
    w, v = ops.eig(matrix_node("eig", x, square=True))
    return EigResult(wrap(w), wrap(v))


def eigvals(x: TensorLike) -> Tensor:
    """The eigenvalues of any square matrices, always complex, in no certain order.

    >>> eigvals([[0.0, 1.0], [-1.0, 0.0]]).tolist()
    [1j, -1j]
    """
    return wrap(ops.eig(matrix_node("eigvals", x, square=True))[0])


def lu(x: TensorLike) -> LUResult:
    """The factors of x = P L U: a permutation, unit lower and upper triangular, for any shape.

    The derivative is that with the permutation as it is.

    >>> p, l, u = lu([[0.0, 2.0], [1.0, 3.0]])
    >>> p.tolist(), l.tolist(), u.tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0, 3.0], [0.0, 2.0]])
    """
    node = matrix_node("lu", x)
    packed, pivots = ops.lu(node)
    m, n = node.shape[-2:]
    k = least("lu", m, n)
    eye = identity((*node.shape[:-2], m, m), node.dtype)
    places = adjoint(ops.exchanged(eye, pivots))
    left = lower(_corner(packed, m, k), -1)
    left = ops.add(left, identity(left.shape, left.dtype))
    return LUResult(wrap(places), wrap(left), wrap(upper(_corner(packed, k, n))))


def _corner(x: Node, rows: Size, columns: Size) -> Node:
    return ops.slice(x, (0,) * x.ndim, (*x.shape[:-2], rows, columns), (1,) * x.ndim)


def lu_factor(x: TensorLike) -> LUFactorResult:
    """Both factors of :func:`lu` in one matrix (without the ones of L), for :func:`lu_solve`.

    ``pivots[..., i]`` is the row, counted from 1, that row i changed places with, as in LAPACK and
    PyTorch.

    >>> lu_factor([[0.0, 2.0], [1.0, 3.0]]).pivots.tolist()
    [2, 2]
    """
    packed, pivots = ops.lu(matrix_node("lu_factor", x))
    return LUFactorResult(wrap(packed), wrap(cast(_counted(pivots, 1), int32)))


def _counted(pivots: Node, by: Literal[1, -1]) -> Node:
    return ops.add(pivots, ops.constant(by, pivots.dtype))


def householder_product(x: TensorLike, tau: TensorLike) -> Tensor:
    """The first n columns of H₁ H₂ … Hₖ, with Hᵢ = I - τᵢ vᵢ vᵢᴴ.

    Args:
        x: shape (..., m, n), m >= n; vᵢ is column i below the diagonal, 1 on it, 0 above.
        tau: shape (..., k), k <= n.

    Q = I - V (I + T U)⁻¹ T Vᴴ, with T = diag(τ) and U the strictly upper triangle of Vᴴ V.

    >>> householder_product([[1.0], [0.0]], [2.0]).tolist()
    [[-1.0], [0.0]]
    """
    node = matrix_node("householder_product", x)
    t = cast(as_node(tau), node.dtype)
    *lead, m, n = node.shape
    if t.ndim < 1 or t.shape[:-1] != tuple(lead) or not (m >= n >= t.shape[-1]):
        raise ShapeError(
            f"[householder_product] vectors of shape {node.shape} and tau of shape {t.shape}; they "
            "need m >= n >= k for (..., m, n) and (..., k)"
        )
    v = _corner(node, m, t.shape[-1])
    v = ops.add(lower(v, -1), identity(v.shape, v.dtype))
    scale = ops.reshape(t, (*t.shape, 1))
    inner = ops.multiply(scale, upper(ops.matmul(adjoint(v), v), 1))
    middle = ops.triangular_solve(
        inner, ops.multiply(scale, adjoint(v)), lower=False, unit=True
    )
    whole = ops.subtract(identity((*lead, m, m), v.dtype), ops.matmul(v, middle))
    return wrap(_corner(whole, m, n))
