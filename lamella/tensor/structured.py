"""Matrices of a given structure, under SciPy's names, and a few functions of matrices.

Matrices of constants are exact in float64 and rounded once to float32 unless ``dtype`` says
otherwise; those of a vector take its element type.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from lamella.dtypes import as_dtype, default_float
from lamella.errors import OptionError, ShapeError
from lamella.tensor.comparison import where
from lamella.tensor.core import wrap
from lamella.tensor.creation import asarray
from lamella.tensor.decomposition import cholesky, svd
from lamella.tensor.elementwise import abs
from lamella.tensor.joining import concat
from lamella.tensor.operands import TensorLike, as_float, as_node
from lamella.tensor.searching import take
from lamella.tensor.solving import cholesky_solve, matrix_exp

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "cho_factor", "cho_solve", "circulant", "companion", "convolution_matrix", "dft", "expm",
    "fiedler", "hadamard", "hankel", "helmert", "hilbert", "invhilbert", "invpascal", "leslie",
    "pascal", "polar", "toeplitz",
]  # fmt: skip


def _vector(name: str, x: TensorLike) -> Any:
    found: Any = wrap(as_node(x))
    if found.ndim != 1:
        raise ShapeError(f"[{name}] shape {found.shape} is no vector; give one axis")
    return found


def _size(name: str, n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise OptionError(f"[{name}] size {n!r:.40} is no whole number from 1 on; give one")
    return n


def _constant(values: Any, dtype: object) -> Tensor:
    return asarray(np.asarray(values), dtype=default_float() if dtype is None else as_dtype(dtype))


# -- of vectors ------------------------------------------------------------------------------------
def toeplitz(c: TensorLike, r: TensorLike | None = None) -> Tensor:
    """The matrix with the first column ``c`` and the first row ``r`` (by default the conjugate of
    ``c``), the same along each diagonal; ``r[0]`` is not used.

    >>> toeplitz([1, 2], [1, 3]).tolist()
    [[1, 3], [2, 1]]
    """
    column = _vector("toeplitz", c)
    row = column.conj() if r is None else _vector("toeplitz", r)
    values = concat([column.flip(0), row[1:].astype(column.dtype)])
    rows, columns = np.arange(column.shape[0])[:, None], np.arange(row.shape[0])
    return take(values, column.shape[0] - 1 - rows + columns, axis=0)


def circulant(c: TensorLike) -> Tensor:
    """The matrix whose columns are ``c`` turned by 0, 1, 2, … places.

    >>> circulant([1, 2, 3]).tolist()
    [[1, 3, 2], [2, 1, 3], [3, 2, 1]]
    """
    column = _vector("circulant", c)
    place = np.arange(column.shape[0])
    return take(column, (place[:, None] - place) % max(len(place), 1), axis=0)


def hankel(c: TensorLike, r: TensorLike | None = None) -> Tensor:
    """The matrix with the first column ``c`` and the last row ``r`` (by default zeros), the same
    along each antidiagonal; ``r[0]`` is not used.

    >>> hankel([1, 2], [2, 3]).tolist()
    [[1, 2], [2, 3]]
    """
    column = _vector("hankel", c)
    row = column * 0 if r is None else _vector("hankel", r)
    values = concat([column, row[1:].astype(column.dtype)])
    rows, columns = np.arange(column.shape[0])[:, None], np.arange(row.shape[0])
    return take(values, rows + columns, axis=0)


def companion(a: TensorLike) -> Tensor:
    """The companion matrix of a polynomial with the coefficients ``a``, the highest power first:
    its eigenvalues are the roots.

    >>> companion([1.0, -3.0, 2.0]).tolist()
    [[3.0, -2.0], [1.0, 0.0]]
    """
    x: Any = wrap(as_float(as_node(_vector("companion", a))))
    size = x.shape[0] - 1
    if size < 1:
        raise ShapeError(f"[companion] {x.shape[0]} coefficients; give 2 or more")
    first = (-x[1:] / x[0]).reshape(1, size)
    return concat([first, asarray(np.eye(size - 1, size), dtype=x.dtype)])


def leslie(f: TensorLike, s: TensorLike) -> Tensor:
    """The matrix of a population by age: births ``f`` in the first row, survivals ``s``, one fewer,
    below the diagonal.

    >>> leslie([1.0, 2.0], [0.5]).tolist()
    [[1.0, 2.0], [0.5, 0.0]]
    """
    births, rates = _vector("leslie", f), _vector("leslie", s)
    size = births.shape[0]
    if rates.shape[0] != size - 1:
        raise ShapeError(f"[leslie] {size} births and {rates.shape[0]} survivals; give one fewer")
    below = rates[:, None] * asarray(np.eye(size - 1, size), dtype=rates.dtype)
    return concat([births.reshape(1, size), below.astype(births.dtype)])


def fiedler(a: TensorLike) -> Tensor:
    """``|aᵢ - aⱼ|``.

    >>> fiedler([1, 3]).tolist()
    [[0, 2], [2, 0]]
    """
    x = _vector("fiedler", a)
    return abs(x[:, None] - x)


def convolution_matrix(a: TensorLike, n: int, mode: str = "full") -> Tensor:
    """The matrix whose product with a vector of ``n`` elements is ``lm.convolve(a, vector, mode)``.

    Raises:
        OptionError: for another mode than full, same, valid.

    >>> convolution_matrix([1, 2], 2).tolist()
    [[1, 0], [2, 1], [0, 2]]
    """
    x = _vector("convolution_matrix", a)
    size = x.shape[0]
    if mode not in ("full", "same", "valid"):
        raise OptionError(f"[convolution_matrix] mode={mode!r:.40}; use full, same or valid")
    start = {"full": 0, "same": (min(n, size) - 1) // 2, "valid": min(n, size) - 1}[mode]
    rows = {"full": n + size - 1, "same": max(n, size), "valid": max(n, size) - min(n, size) + 1}
    place = start + np.arange(rows[mode])[:, None] - np.arange(_size("convolution_matrix", n))
    inside = (place >= 0) & (place < size)
    return where(asarray(inside), take(x, np.clip(place, 0, size - 1), axis=0), 0)


# -- of constants ----------------------------------------------------------------------------------
def hilbert(n: int, dtype: object = None) -> Tensor:
    """``1 / (i + j + 1)``.

    >>> hilbert(2)[0].tolist()
    [1.0, 0.5]
    """
    place = np.arange(float(_size("hilbert", n)))
    return _constant(1 / (place[:, None] + place + 1), dtype)


def invhilbert(n: int, dtype: object = None) -> Tensor:
    """The inverse of :func:`hilbert`, of whole numbers, exact before it is rounded.

    >>> invhilbert(2).tolist()
    [[4.0, -6.0], [-6.0, 12.0]]
    """
    size = _size("invhilbert", n)

    def entry(i: int, j: int) -> float:
        product = math.comb(size + i, size - j - 1) * math.comb(size + j, size - i - 1)
        return float((-1) ** (i + j) * (i + j + 1) * product * math.comb(i + j, i) ** 2)

    return _constant([[entry(i, j) for j in range(size)] for i in range(size)], dtype)


def pascal(n: int, kind: str = "symmetric", dtype: object = None) -> Tensor:
    """Binomial coefficients ``(i + j over i)``; "lower" and "upper": Pascal's triangle.

    >>> pascal(3).tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [1.0, 3.0, 6.0]]
    """
    if kind not in ("symmetric", "lower", "upper"):
        raise OptionError(f"[pascal] kind={kind!r:.40}; use symmetric, lower or upper")
    place = range(_size("pascal", n))
    if kind == "symmetric":
        return _constant([[float(math.comb(i + j, i)) for j in place] for i in place], dtype)
    lower = np.array([[float(math.comb(i, j)) for j in place] for i in place])
    return _constant(lower if kind == "lower" else lower.T, dtype)


def invpascal(n: int, kind: str = "symmetric", dtype: object = None) -> Tensor:
    """The inverse of :func:`pascal`, of whole numbers.

    >>> invpascal(2).tolist()
    [[2.0, -1.0], [-1.0, 1.0]]
    """
    place = range(_size("invpascal", n))
    signed = np.array([[float((-1) ** (i + j) * math.comb(i, j)) for j in place] for i in place])
    if kind == "symmetric":
        return _constant(signed.T @ signed, dtype)
    if kind not in ("lower", "upper"):
        raise OptionError(f"[invpascal] kind={kind!r:.40}; use symmetric, lower or upper")
    return _constant(signed if kind == "lower" else signed.T, dtype)


def hadamard(n: int, dtype: object = None) -> Tensor:
    """Sylvester's Hadamard matrix, of 1 and -1 with orthogonal rows.

    Raises:
        OptionError: unless ``n`` is a power of 2.

    >>> hadamard(2).tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    if _size("hadamard", n) & (n - 1):
        raise OptionError(f"[hadamard] size {n} is no power of 2; give one")
    found = np.ones((1, 1))
    while len(found) < n:
        found = np.block([[found, found], [found, -found]])
    return _constant(found, dtype)


def helmert(n: int, full: bool = False, dtype: object = None) -> Tensor:
    """Helmert's orthogonal matrix; without ``full`` its first, constant row is left out.

    >>> (helmert(2)[0, 0] + helmert(2)[0, 1]).item()
    0.0
    """
    size = _size("helmert", n)
    found = np.tril(np.ones((size, size)), -1) - np.diag(np.arange(float(size)))
    found[0] = 1.0
    place = np.arange(float(size))
    found /= np.sqrt(np.where(place == 0, size, place * (place + 1)))[:, None]
    return _constant(found if full else found[1:], dtype)


def dft(n: int, scale: str | None = None) -> Tensor:
    """The matrix of the discrete Fourier transform ``exp(-2πi j k / n)``, over ``√n`` ("sqrtn") or
    ``n`` ("n"), complex64.

    >>> dft(2).real.round().tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    sizes = {None: 1.0, "sqrtn": math.sqrt(_size("dft", n)), "n": float(n)}
    if scale not in sizes:
        raise OptionError(f"[dft] scale={scale!r:.40}; use None, 'sqrtn' or 'n'")
    place = np.arange(n)
    turn = np.exp(-2j * math.pi * (np.outer(place, place) % n) / n)
    return asarray(turn / sizes[scale], dtype="complex64")


# -- functions of matrices -------------------------------------------------------------------------
def expm(A: TensorLike) -> Tensor:
    """The matrix exponential, :func:`lamella.linalg.matrix_exp` by SciPy's name.

    >>> expm([[0.0]]).tolist()
    [[1.0]]
    """
    return matrix_exp(A)


def cho_factor(a: TensorLike, lower: bool = False) -> tuple[Tensor, bool]:
    """The Cholesky factor of a positive definite matrix and which triangle it is, for
    :func:`cho_solve`; zeros in the other triangle.

    >>> cho_factor([[4.0]])[0].tolist()
    [[2.0]]
    """
    factor: Any = cholesky(a)
    return (factor if lower else factor.mH), lower


def cho_solve(c_and_lower: tuple[TensorLike, bool], b: TensorLike) -> Tensor:
    """The solution ``x`` of ``A x = b`` by the factor of :func:`cho_factor`.

    >>> cho_solve(cho_factor([[4.0]]), [8.0]).tolist()
    [2.0]
    """
    factor, lower = c_and_lower
    right: Any = wrap(as_node(b))
    single = right.ndim == 1
    found: Any = cholesky_solve(right[:, None] if single else right, factor, upper=not lower)
    return found[..., 0] if single else found  # type: ignore[no-any-return]


def polar(a: TensorLike, side: str = "right") -> tuple[Tensor, Tensor]:
    """Factors ``a = u p`` (right) or ``a = p u`` (left): ``u`` with orthonormal columns or rows,
    ``p`` Hermitian, positive semidefinite.

    Raises:
        OptionError: for another side.

    >>> [f.round(decimals=3).tolist() for f in polar([[2.0]])]
    [[[1.0]], [[2.0]]]
    """
    if side not in ("right", "left"):
        raise OptionError(f"[polar] side={side!r:.40}; use right or left")
    u, s, vh = svd(a, full_matrices=False)
    frame: Any = vh if side == "right" else u.mH
    return u @ vh, (frame.mH * s[..., None, :]) @ frame
