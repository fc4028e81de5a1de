"""Determinants, and the matrix exponential.

Derivatives: Giles (2008), 2.2.4; of the exponential Najfeld and Havel, "Derivatives of the matrix
exponential and their computation" (1995): a block of the exponential of a matrix twice as large.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella import ops
from lamella.dtypes import float64, int64
from lamella.ir.node import Node
from lamella.ops import lapack
from lamella.ops.base import Array, Needs, Sample
from lamella.ops.calls import Result, call, parts
from lamella.ops.elimination import Elimination
from lamella.ops.matrices import (
    MatrixCall,
    adjoint,
    diagonal,
    require_matrix,
    sample,
    transposed,
)
from lamella.ops.matrix_kernel import KernelCall
from lamella.ops.solving import inverse

__all__ = [
    "Cofactor", "Determinant", "LogDeterminant", "MatrixExponential", "determinant",
    "log_determinant", "matrix_exp",
]  # fmt: skip


def _inner(a: Node, b: Node) -> Node:
    """The sum of products of the entries of two matrices."""
    return ops.reduce_sum(ops.multiply(a, b), (a.ndim - 2, a.ndim - 1))


def _pivots(a: Node) -> tuple[Node, Node]:
    """The pivots of elimination, in float64, and the sign of the permutation."""
    packed, places, _ = call(Elimination(), a)
    moved = ops.not_equal(places, ops.iota(places.shape, places.ndim - 1, int64))
    signs = ops.where(moved, ops.constant(-1.0, float64), ops.constant(1.0, float64))
    parity = ops.reduce_prod(signs, (places.ndim - 1,))
    return ops.cast(diagonal(packed), float64), parity


def _sign_and_log(pivots: Node, parity: Node) -> tuple[Node, Node]:
    axes = (pivots.ndim - 1,)
    sign = ops.multiply(parity, ops.reduce_prod(ops.sign(pivots), axes))
    return sign, ops.reduce_sum(ops.log(ops.abs(pivots)), axes)


@dataclass(frozen=True, slots=True)
class Determinant(KernelCall):
    """The determinant."""

    name: ClassVar[str] = "determinant"

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """A number a matrix."""
        (a,) = inputs
        require_matrix("det", a, square=True)
        return ((a.shape[:-2], a.dtype),)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """By LU."""
        return lapack.finite("det", arrays[0], lambda a: (np.asarray(np.linalg.det(a)),))

    def kernels(self, node: Node) -> Sequence[Node]:
        """The product of the pivots; by its logarithm where that leaves the range on the way."""
        (a,) = node.inputs
        pivots, parity = _pivots(a)
        product = ops.multiply(parity, ops.reduce_prod(pivots, (pivots.ndim - 1,)))
        sign, log = _sign_and_log(pivots, parity)
        other = ops.not_equal(product, ops.constant(0.0, float64))
        usual = ops.logical_and(ops.isfinite(product), other)
        return (ops.cast(ops.where(usual, product, ops.multiply(sign, ops.exp(log))), a.dtype),)

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """The sum of cofactors times da, of singular matrices too."""
        (da,) = tangents
        if da is None:
            return (None,)
        (cofactors,) = call(Cofactor(), node.inputs[0])
        return (_inner(cofactors, da),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Single and batched."""
        yield from sample(determinant, (3, 3))
        yield from sample(determinant, (2, 2, 2))


@dataclass(frozen=True, slots=True)
class Cofactor(MatrixCall):
    """The matrix of cofactors; its own derivative is that of det(A) inv(A)ᵀ."""

    name: ClassVar[str] = "cofactor"

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """As the matrix."""
        (a,) = inputs
        require_matrix(self.name, a, square=True)
        return ((a.shape, a.dtype),)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Of singular matrices by singular values."""
        return lapack.finite(self.name, arrays[0], lambda a: (lapack.cofactors(a),))

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """With P = A⁻¹ and C the cofactors: tr(P da) C - C (P da)ᵀ."""
        (da,) = tangents
        if da is None:
            return (None,)
        (c,) = parts(node)
        p = inverse(node.inputs[0])
        first = ops.multiply(_spread(_inner(transposed(p), da)), c)
        return (ops.subtract(first, ops.matmul(c, transposed(ops.matmul(p, da)))),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Single and batched."""
        yield from sample(lambda a: call(Cofactor(), a)[0], (3, 3))
        yield from sample(lambda a: call(Cofactor(), a)[0], (2, 2, 2))


def _spread(x: Node) -> Node:
    return ops.reshape(x, (*x.shape, 1, 1))


@dataclass(frozen=True, slots=True)
class LogDeterminant(KernelCall):
    """The sign (or factor of modulus 1) of the determinant, and the logarithm of its modulus."""

    name: ClassVar[str] = "log_determinant"

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """Two numbers a matrix."""
        (a,) = inputs
        require_matrix("slogdet", a, square=True)
        return (a.shape[:-2], a.dtype), (a.shape[:-2], a.dtype.part)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """By LU."""
        return lapack.finite("slogdet", arrays[0], lambda a: tuple(np.linalg.slogdet(a)))

    def kernels(self, node: Node) -> Sequence[Node]:
        """By the pivots."""
        (a,) = node.inputs
        return [ops.cast(part, a.dtype) for part in _sign_and_log(*_pivots(a))]

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """The real part of tr(A⁻¹ da); of the sign i times the imaginary part."""
        (da,) = tangents
        if da is None:
            return (None, None)
        change = _inner(transposed(inverse(node.inputs[0])), da)
        if change.dtype.kind != "c":
            return None, change
        turn = ops.imag(change)
        turn = ops.complex(ops.full(0.0, turn.shape, turn.dtype), turn)
        return ops.multiply(parts(node)[0], turn), ops.real(change)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Single and batched."""
        yield from sample(lambda a: log_determinant(a)[1], (3, 3))
        yield from sample(lambda a: log_determinant(a)[1], (2, 2, 2))


@dataclass(frozen=True, slots=True)
class MatrixExponential(MatrixCall):
    """The sum of Aᵏ / k!."""

    name: ClassVar[str] = "matrix_exp"
    transposed: ClassVar[bool] = False

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """As the matrix."""
        (a,) = inputs
        require_matrix(self.name, a, square=True)
        return ((a.shape, a.dtype),)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Padé approximant with scaling and squaring."""
        return lapack.finite(self.name, arrays[0], lambda a: (lapack.expm(a),))

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """The upper right block of exp([[A, da], [0, A]])."""
        (da,) = tangents
        return (None,) if da is None else (_change(node.inputs[0], da),)

    def vjp_all(
        self, node: Node, cotangents: Sequence[Node | None], needs: Needs
    ) -> Sequence[Node | None]:
        """The change of the exponential of the adjoint along the cotangent."""
        (g,) = cotangents
        return (None,) if g is None else (_change(adjoint(node.inputs[0]), g),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Single and batched."""
        yield from sample(matrix_exp, (3, 3))
        yield from sample(matrix_exp, (2, 2, 2))


def _change(a: Node, along: Node) -> Node:
    *lead, n, _ = a.shape
    last, axis = a.ndim - 1, a.ndim - 2
    above = ops.concatenate([a, along], last)
    below = ops.concatenate([ops.full(0, a.shape, a.dtype), a], last)
    found = matrix_exp(ops.concatenate([above, below], axis))
    return ops.slice(found, (*(0 for _ in lead), 0, int(n)), a.shape, (1,) * a.ndim)


# -- builders --------------------------------------------------------------------------------------
def determinant(a: Node) -> Node:
    """The determinant."""
    return call(Determinant(), a)[0]


def log_determinant(a: Node) -> tuple[Node, Node]:
    """Sign and logarithm of the modulus of the determinant."""
    sign, log = call(LogDeterminant(), a)
    return sign, log


def matrix_exp(a: Node) -> Node:
    """The matrix exponential."""
    return call(MatrixExponential(), a)[0]
