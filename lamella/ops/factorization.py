"""Factorisations of matrices: Cholesky, QR, symmetric and general eigenvalues, singular values.

Derivatives: of Cholesky Giles (2008) and Murray, "Differentiation of the Cholesky decomposition"
(2016); of QR Walter and Lehmann, "Algorithmic differentiation of linear algebra functions with
application in optimum experimental design" (2010); of singular values Townsend, "Differentiating
the singular value decomposition" (2016), and Wan and Zhang, "Automatic differentiation for complex
valued SVD" (2019); of eigenvectors Giles (2008) and Boeddeker et al. (2017). Vectors of equal
eigenvalues or singular values have no derivative: it comes out infinite or NaN. Values have one.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella import ops
from lamella.dtypes import complex_of
from lamella.errors import GradientError
from lamella.ir.node import Node
from lamella.ops import lapack
from lamella.ops.base import Array, Sample
from lamella.ops.calls import Call, Result, call, parts
from lamella.ops.cholesky_kernel import CholeskyRows
from lamella.ops.matrices import (
    MatrixCall,
    adjoint,
    column_scaled,
    columns,
    diagonal,
    diagonal_matrix,
    identity,
    least,
    lower,
    mirrored,
    real_part,
    require_matrix,
    row_scaled,
    sample,
)
from lamella.ops.matrix_kernel import KernelCall, failure_of
from lamella.ops.solving import solve, triangular_solve

__all__ = ["QR", "SVD", "Cholesky", "Eig", "Eigh", "cholesky", "eig", "eigh", "qr", "svd"]


def _inverses(x: Node) -> Node:
    """1 / x off the diagonal, 0 on it."""
    one = identity(x.shape, x.dtype)
    return ops.subtract(ops.divide(ops.constant(1.0, x.dtype), ops.add(x, one)), one)


def _differences(values: Node) -> Node:
    """result[i, j] = values[j] - values[i]."""
    *lead, n = values.shape
    row = ops.reshape(values, (*lead, 1, n))
    column = ops.reshape(values, (*lead, n, 1))
    return ops.subtract(row, column)


@dataclass(frozen=True, slots=True)
class Cholesky(KernelCall):
    """The lower triangular L of A = L Lᴴ; only the lower triangle of A is read."""

    name: ClassVar[str] = "cholesky"

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """As A."""
        (a,) = inputs
        require_matrix(self.name, a, square=True)
        return ((a.shape, a.dtype),)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """LAPACK's potrf."""
        return lapack.finite(self.name, arrays[0], lambda a: (np.linalg.cholesky(a),))

    def kernels(self, node: Node) -> Sequence[Node]:
        """By rows of the transpose."""
        (a,) = node.inputs
        failure = failure_of(self.name, "matrix is not positive definite", a)
        return call(CholeskyRows(failure=failure), a)

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """L Φ(L⁻¹ dA L⁻ᴴ), Φ the lower triangle with half the diagonal."""
        (da,) = tangents
        if da is None:
            return (None,)
        (ell,) = parts(node)
        half = triangular_solve(ell, mirrored(da), lower=True)
        inner = triangular_solve(ell, adjoint(half), lower=True)
        phi = ops.subtract(
            lower(inner), diagonal_matrix(ops.multiply(diagonal(inner), _half(inner)))
        )
        return (ops.matmul(ell, phi),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Of symmetric matrices, single and batched."""
        for shape in ((3, 3), (2, 2, 2)):
            yield from sample(lambda a: cholesky(mirrored(a)), shape)


def _half(x: Node) -> Node:
    return ops.constant(0.5, x.dtype)


@dataclass(frozen=True, slots=True)
class QR(MatrixCall):
    """Q with orthonormal columns and upper triangular R, of at least as many rows as columns.

    ``complete``: Q is square; that has no derivative unless A is.
    """

    name: ClassVar[str] = "qr"
    complete: bool = False

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """Q and R."""
        (a,) = inputs
        require_matrix(self.name, a)
        *lead, m, n = a.shape
        k = m if self.complete else least(self.name, m, n)
        return ((*lead, m, k), a.dtype), ((*lead, k, n), a.dtype)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """LAPACK's geqrf."""
        if self.complete:
            return lapack.finite("qr", arrays[0], lambda a: tuple(np.linalg.qr(a, "complete")))
        return lapack.finite("qr", arrays[0], lambda a: tuple(np.linalg.qr(a, "reduced")))

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """With X = dA R⁻¹ and Ω the skew part of Qᴴ X by its lower triangle: dQ = X - Q (Qᴴ X - Ω),
        dR = (Qᴴ X - Ω) R.
        """
        (da,) = tangents
        if da is None:
            return (None, None)
        q, r = parts(node)
        if r.shape[-1] != r.shape[-2]:
            raise GradientError(
                f"[qr] the complete factors of a matrix {node.inputs[0].shape} have no derivative, "
                "because columns of Q are arbitrary; use mode='reduced'"
            )
        x = adjoint(triangular_solve(adjoint(r), adjoint(da), lower=True))
        inner = ops.matmul(adjoint(q), x)
        below = lower(inner, -1)
        rest = ops.subtract(inner, ops.subtract(below, adjoint(below)))
        if rest.dtype.kind == "c":  # the diagonal of R is real
            turn = ops.imag(diagonal(inner))
            turn = ops.complex(ops.full(0.0, turn.shape, turn.dtype), turn)
            rest = ops.subtract(rest, diagonal_matrix(turn))
        return ops.subtract(x, ops.matmul(q, rest)), ops.matmul(rest, r)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Both factors, square and tall."""
        for i in (0, 1):
            for shape in ((3, 3), (2, 4, 2)):
                yield from sample(lambda a, i=i: qr(a)[i], shape)


@dataclass(frozen=True, slots=True)
class Eigh(MatrixCall):
    """Eigenvalues, ascending, and orthonormal eigenvectors of a Hermitian matrix, whose lower
    triangle is read.

    ``alone``: the values alone, which take a third of the time; the compiler asks for it.
    """

    name: ClassVar[str] = "eigh"
    alone: bool = False

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """Values and vectors."""
        (a,) = inputs
        require_matrix(self.name, a, square=True)
        values = (a.shape[:-1], a.dtype.part)
        return (values,) if self.alone else (values, (a.shape, a.dtype))

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """LAPACK's syevd."""
        if self.alone:
            return lapack.finite(self.name, arrays[0], lambda a: (np.linalg.eigvalsh(a),))
        return lapack.finite(self.name, arrays[0], lambda a: tuple(np.linalg.eigh(a)))

    def kept(
        self, node: Node, used: Sequence[int]
    ) -> tuple[Call, Sequence[Node], dict[int, int]] | None:
        """The values alone where nothing uses vectors."""
        return (Eigh(alone=True), node.inputs, {0: 0}) if list(used) == [0] else None

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """With M = Vᴴ dA V: dw = diag(M), dV = V (M / (wⱼ - wᵢ))."""
        (da,) = tangents
        if da is None:
            return (None, None)
        w, v = parts(node)
        m = ops.matmul(ops.matmul(adjoint(v), mirrored(da)), v)
        f = _inverses(_differences(w))
        turned = ops.matmul(v, ops.multiply(_as(f, m), m))
        return real_part(diagonal(m)), turned

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Values and vectors."""
        for i in (0, 1):
            for shape in ((3, 3), (2, 2, 2)):
                yield from sample(lambda a, i=i: _modulus(eigh(mirrored(a))[i]), shape)


def _singular_values(a: Array) -> Array:
    return np.asarray(np.linalg.svd(a, compute_uv=False))


def _modulus(x: Node) -> Node:
    """What does not depend on the choice of vectors."""
    return ops.modulus(x) if x.dtype.kind == "c" else ops.abs(x)


def _as(x: Node, like: Node) -> Node:
    """``x`` in the dtype of ``like``, which may be complex."""
    return x if x.dtype is like.dtype else ops.cast(x, like.dtype)


def _completed(whole: Node, first: Node, change: Node) -> Node:
    """The derivative of orthonormal columns from that of the first of them: of the others W2 it is
    ``-W1 (dW1ᴴ W2)``.
    """
    count, total = first.shape[-1], whole.shape[-1]
    if count == total:
        return change
    rest = columns(whole, count, total)
    other = ops.matmul(first, ops.matmul(adjoint(change), rest))
    return ops.concatenate([change, ops.negative(other)], change.ndim - 1)


@dataclass(frozen=True, slots=True)
class SVD(MatrixCall):
    """U, the singular values, descending, and Vᴴ.

    ``full``: U and V are square. Columns beyond the singular values are arbitrary, and so is their
    turning among themselves; their derivative is the least that keeps U and V orthogonal.
    ``alone``: the values alone, which take a quarter of the time; the compiler asks for it.
    """

    name: ClassVar[str] = "svd"
    full: bool = False
    alone: bool = False

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """U, S and Vᴴ."""
        (a,) = inputs
        require_matrix(self.name, a)
        *lead, m, n = a.shape
        k = least(self.name, m, n)
        u, v = (m, n) if self.full else (k, k)
        if self.alone:
            return (((*lead, k), a.dtype.part),)
        return ((*lead, m, u), a.dtype), ((*lead, k), a.dtype.part), ((*lead, v, n), a.dtype)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """LAPACK's gesdd."""
        if self.alone:
            return lapack.finite(self.name, arrays[0], lambda a: (_singular_values(a),))
        return lapack.finite(self.name, arrays[0], lambda a: tuple(np.linalg.svd(a, self.full)))

    def kept(
        self, node: Node, used: Sequence[int]
    ) -> tuple[Call, Sequence[Node], dict[int, int]] | None:
        """The values alone where nothing uses U and V."""
        return (SVD(self.full, alone=True), node.inputs, {1: 0}) if list(used) == [1] else None

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """With P = Uᴴ dA V and F = 1 / (sⱼ² - sᵢ²): dS = diag(P), dU = U (F (P S + S Pᴴ)) + (I - U
        Uᴴ) dA V S⁻¹, and dV with A's adjoint.
        """
        (da,) = tangents
        if da is None:
            return (None, None, None)
        u, s, vh = parts(node)
        k = s.shape[-1]
        whole_u, whole_v = u, adjoint(vh)
        u, v = columns(whole_u, 0, k), columns(whole_v, 0, k)
        dav, dahu = ops.matmul(da, v), ops.matmul(adjoint(da), u)
        p = ops.matmul(adjoint(u), dav)
        squares = ops.multiply(_differences(s), _sums(s))
        f, s_in = _as(_inverses(squares), p), _as(ops.reciprocal(s), p)
        ps, sp = column_scaled(p, _as(s, p)), row_scaled(p, _as(s, p))
        inner_u = ops.multiply(f, ops.add(ps, adjoint(ps)))
        inner_v = ops.multiply(f, ops.add(sp, adjoint(sp)))
        if p.dtype.kind == "c":
            turn = ops.multiply(ops.subtract(p, adjoint(p)), _half(p))
            inner_u = ops.add(inner_u, diagonal_matrix(ops.multiply(diagonal(turn), s_in)))
        du, dv = ops.matmul(u, inner_u), ops.matmul(v, inner_v)
        if u.shape[-2] != u.shape[-1]:
            du = ops.add(du, column_scaled(_outside(u, dav), s_in))
        if v.shape[-2] != v.shape[-1]:
            dv = ops.add(dv, column_scaled(_outside(v, dahu), s_in))
        du, dv = _completed(whole_u, u, du), _completed(whole_v, v, dv)
        return du, real_part(diagonal(p)), adjoint(dv)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """All factors, square, wide and tall."""
        for i in (0, 1, 2):
            for shape in ((3, 3), (2, 2, 3), (4, 2)):
                yield from sample(lambda a, i=i: _modulus(svd(a)[i]), shape)


def _sums(values: Node) -> Node:
    *lead, n = values.shape
    return ops.add(ops.reshape(values, (*lead, 1, n)), ops.reshape(values, (*lead, n, 1)))


def _outside(q: Node, x: Node) -> Node:
    """The part of ``x`` orthogonal to the columns of ``q``."""
    return ops.subtract(x, ops.matmul(q, ops.matmul(adjoint(q), x)))


@dataclass(frozen=True, slots=True)
class Eig(MatrixCall):
    """Eigenvalues and eigenvectors (columns of length 1) of any square matrix, always complex.

    A vector's factor of modulus 1 is LAPACK's choice: derivatives are those of functions that do
    not depend on it.
    """

    name: ClassVar[str] = "eig"

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """Values and vectors."""
        (a,) = inputs
        require_matrix(self.name, a, square=True)
        dtype = complex_of(a.dtype.part)
        return (a.shape[:-1], dtype), (a.shape, dtype)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """LAPACK's geev."""
        dtype = complex_of(node.inputs[0].dtype.part).numpy

        def run(a: Array) -> list[Array]:
            return [part.astype(dtype, copy=False) for part in np.linalg.eig(a)]

        return lapack.finite(self.name, arrays[0], run)

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """With M = V⁻¹ dA V: dw = diag(M), dV = V (M / (wⱼ - wᵢ)), kept at length 1."""
        (da,) = tangents
        if da is None:
            return (None, None)
        w, v = parts(node)
        m = solve(v, ops.matmul(_as(da, v), v))
        moved = ops.matmul(v, ops.multiply(_inverses(_differences(w)), m))
        along = ops.real(ops.reduce_sum(ops.multiply(ops.conj(v), moved), (v.ndim - 2,)))
        return diagonal(m), ops.subtract(moved, column_scaled(v, _as(along, v)))

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """What does not depend on the choice of vectors."""
        yield from sample(lambda a: ops.real(eig(a)[0]), (3, 3))
        yield from sample(lambda a: ops.modulus(eig(a)[1]), (2, 3, 3))


# -- builders --------------------------------------------------------------------------------------
def cholesky(a: Node) -> Node:
    """The lower triangular factor."""
    return call(Cholesky(), a)[0]


def qr(a: Node, complete: bool = False) -> tuple[Node, Node]:
    """Q and R; of a wide matrix R of the square part decides, the rest follows."""
    m, n = a.shape[-2:]
    if complete or not isinstance(m, int) or not isinstance(n, int) or m >= n:
        q, r = call(QR(complete), a)
        return q, r
    lead = a.shape[:-2]
    zeros, ones = (0,) * a.ndim, (1,) * a.ndim
    q, r = call(QR(), ops.slice(a, zeros, (*lead, m, m), ones))
    rest = ops.slice(a, (*zeros[:-1], m), (*lead, m, n - m), ones)
    return q, ops.concatenate([r, ops.matmul(adjoint(q), rest)], a.ndim - 1)


def eigh(a: Node) -> tuple[Node, Node]:
    """Eigenvalues and eigenvectors of a Hermitian matrix."""
    w, v = call(Eigh(), a)
    return w, v


def svd(a: Node, full: bool = False) -> tuple[Node, Node, Node]:
    """U, S and Vᴴ."""
    u, s, vh = call(SVD(full), a)
    return u, s, vh


def eig(a: Node) -> tuple[Node, Node]:
    """Eigenvalues and eigenvectors of any square matrix."""
    w, v = call(Eig(), a)
    return w, v
