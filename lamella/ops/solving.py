"""Linear systems: solutions, triangular solutions, inverses, pseudoinverses, LU.

Derivatives: Giles, "An extended collection of matrix derivative results for forward and reverse
mode algorithmic differentiation" (2008), 2.2 and 3.1; of the pseudoinverse Golub and Pereyra
(1973); of LU as used by de Hoog, Anderssen and Lukas, "Differentiation of matrix functionals using
triangular factorization" (2011).
"""
from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from lamella import ops
from lamella.dtypes import DType, int64
from lamella.errors import DTypeError, LamellaIndexError, ShapeError
from lamella.ir.dim import Size, product
from lamella.ir.node import Node, make
from lamella.ops import lapack
from lamella.ops.base import Array, Needs, Sample
from lamella.ops.calls import Result, call, parts
from lamella.ops.elimination import Elimination
from lamella.ops.matrices import (
    MatrixCall,
    adjoint,
    diagonal,
    identity,
    least,
    lower,
    require_matrix,
    sample,
    transposed,
    unsound,
    upper,
)
from lamella.ops.matrix_kernel import KernelCall, failure_of
from lamella.ops.substitution import FEW, Substitution, Triangle

__all__ = [
    "LU", "Inverse", "Permutation", "PseudoInverse", "Solve", "TriangularSolve", "exchanged",
    "inverse", "lu", "permutation", "pseudo_inverse", "solve", "triangular_solve",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class System(KernelCall):
    """The solution x of a x = b, linear in b, whose leading axes end with those of a."""

    transposed: ClassVar[bool] = False

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """As ``b``."""
        a, b = inputs
        require_matrix(self.name, a, square=True)
        more = b.ndim - a.ndim
        if more < 0 or a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[more:-2]:
            raise ShapeError(
                f"[{self.name}] a matrix {a.shape} and a right side {b.shape}; they need equally "
                "many rows and the same leading axes"
            )
        if a.dtype is not b.dtype:
            raise DTypeError(f"[{self.name}] {a.dtype.name} and {b.dtype.name}; cast one of them")
        return ((b.shape, b.dtype),)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Right sides of one matrix are columns of one."""
        a, b = arrays
        more = b.ndim - a.ndim
        at = tuple(range(more)), tuple(range(b.ndim - 1 - more, b.ndim - 1))
        wide = np.moveaxis(b, *at)  # (..., n, *more, k)
        columns = wide.reshape(*a.shape[:-1], math.prod(wide.shape[a.ndim - 1 :]))
        (x,) = lapack.finite(self.name, a, lambda a: (self.solved(a, columns),))
        return (np.moveaxis(x.reshape(wide.shape), *at[::-1]),)

    def solved(self, a: Array, b: Array) -> Array:
        """The solution."""
        raise NotImplementedError

    def against(self, a: Node, b: Node) -> Node:
        """The solution with the adjoint of ``a``."""
        raise NotImplementedError

    def read(self, a: Node) -> Node:
        """What is read of ``a``."""
        return a

    def vjp_all(
        self, node: Node, cotangents: Sequence[Node | None], needs: Needs
    ) -> Sequence[Node | None]:
        """g_b = a⁻ᴴ g, g_a = -g_b xᴴ."""
        (g,) = cotangents
        if g is None:
            return (None, None)
        a = node.inputs[0]
        back = self.against(a, g)
        if not needs[0]:
            return (None, back)
        (x,) = parts(node)
        outer = self.read(ops.matmul(back, adjoint(x)))
        axes = tuple(range(outer.ndim - a.ndim))
        return ops.negative(ops.reduce_sum(outer, axes) if axes else outer), back

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """dx = a⁻¹ (db - da x)."""
        da, db = tangents
        if da is not None:
            (x,) = parts(node)
            moved = ops.negative(ops.matmul(self.read(da), x))
            db = moved if db is None else ops.add(db, moved)
        return (None,) if db is None else call(self, node.inputs[0], db)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """One more leading axis, which the matrix need not have."""
        a, b = args
        if not batched[1]:
            b = ops.broadcast_to(b, (size, *b.shape))
        if batched[0] and a.ndim != b.ndim:
            ones = (1,) * (b.ndim - a.ndim)
            a = ops.reshape(a, (size, *ones, *a.shape[1:]))
            a = ops.broadcast_to(a, (*b.shape[:-2], *a.shape[-2:]))
        return make(self, (a, b), (), node.dtype)


@dataclass(frozen=True, slots=True)
class Solve(System):
    """By LU with partial pivoting."""

    name: ClassVar[str] = "solve"

    def solved(self, a: Array, b: Array) -> Array:
        """LAPACK's gesv."""
        return np.asarray(np.linalg.solve(a, b))

    def kernels(self, node: Node) -> Sequence[Node]:
        """By elimination and substitution."""
        a, b = node.inputs
        b, back = _merged(a, b)
        failure = failure_of(self.name, "singular matrix", a)
        packed, _, order = call(Elimination(failure=failure), a)
        return (back(_solved(packed, order, b)),)

    def against(self, a: Node, b: Node) -> Node:
        """The same."""
        return solve(adjoint(a), b)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Single, batched, of one matrix for all."""
        yield from sample(solve, (3, 3), (3, 2))
        yield from sample(solve, (2, 3, 3), (2, 3, 1))
        yield from sample(solve, (2, 2), (3, 2, 2), note="one matrix")


@dataclass(frozen=True, slots=True)
class TriangularSolve(System):
    """Of a triangular matrix; the other triangle is not read, nor its diagonal if ``unit``."""

    name: ClassVar[str] = "triangular_solve"
    lower: bool
    unit: bool = False

    def solved(self, a: Array, b: Array) -> Array:
        """By blocks."""
        return lapack.triangular_solve(a, b, self.lower, self.unit)

    def kernels(self, node: Node) -> Sequence[Node]:
        """By substitution."""
        a, b = node.inputs
        failure = "" if self.unit else failure_of(self.name, "singular matrix", a)
        b = ops.add(b, unsound(self.read(a), b.shape))
        b, back = _merged(a, b)
        source = _turned(a) if b.shape[-1] >= FEW else None
        triangle = Triangle(self.lower, self.unit, source is not None)
        return (back(call(Substitution((triangle,), failure=failure), source or a, b)[0]),)

    def against(self, a: Node, b: Node) -> Node:
        """The adjoint is a triangle of the other side."""
        return triangular_solve(adjoint(a), b, not self.lower, self.unit)

    def read(self, a: Node) -> Node:
        """Its triangle."""
        k = 1 if self.unit else 0
        return lower(a, -k) if self.lower else upper(a, k)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Both triangles, with the diagonal and without."""
        for low in (True, False):
            for unit in (True, False):
                build = partial(triangular_solve, lower=low, unit=unit)
                yield from sample(build, (3, 3), (3, 2), note=f"{low}, {unit}")
        yield from sample(partial(triangular_solve, lower=True), (3, 3), (2, 3, 2), note="one")


def _merged(a: Node, b: Node) -> tuple[Node, Callable[[Node], Node]]:
    """Right sides of one matrix as columns of one, and the way back."""
    more = b.ndim - a.ndim
    if not more:
        return b, lambda x: x
    last = b.ndim - 1
    order = (*range(more, last), *range(more), last)
    wide = ops.permute(b, order)
    inverse = [order.index(axis) for axis in range(b.ndim)]
    columns = ops.reshape(wide, (*a.shape[:-1], product(wide.shape[a.ndim - 1 :])))
    return columns, lambda x: ops.permute(ops.reshape(x, wide.shape), inverse)


def _turned(a: Node) -> Node | None:
    """What ``a`` is the transpose of, if it is one."""
    if a.op.name != "permute" or a.value is not None:
        return None
    (source,) = a.inputs
    return source if transposed(source).op == a.op else None


def _solved(packed: Node, order: Node, b: Node) -> Node:
    """The solution by what elimination gave for a matrix."""
    triangles = Triangle(lower=True, unit=True), Triangle(lower=False)
    return call(Substitution(triangles), packed, b, order)[0]


@dataclass(frozen=True, slots=True)
class Inverse(KernelCall):
    """The inverse; with ``lenient`` infinities for singular matrices."""

    name: ClassVar[str] = "inverse"
    lenient: bool = False

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """As the matrix."""
        (a,) = inputs
        require_matrix(self.name, a, square=True)
        return ((a.shape, a.dtype),)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """LAPACK's gesv."""
        return lapack.finite(self.name, arrays[0], self._inverted)

    def kernels(self, node: Node) -> Sequence[Node]:
        """The solution for the identity."""
        (a,) = node.inputs
        failure = "" if self.lenient else failure_of(self.name, "singular matrix", a)
        packed, _, order = call(Elimination(failure=failure), a)
        found = _solved(packed, order, identity(a.shape, a.dtype))
        if not self.lenient:
            return (found,)
        zero = ops.equal(diagonal(packed), ops.constant(0.0, a.dtype))
        singular = ops.reshape(ops.reduce_any(zero, (zero.ndim - 1,)), (*a.shape[:-2], 1, 1))
        infinite = ops.constant(math.inf, a.dtype)
        return (ops.where(ops.broadcast_to(singular, a.shape), infinite, found),)

    def _inverted(self, a: Array) -> tuple[Array]:
        try:
            return (np.linalg.inv(a),)
        except np.linalg.LinAlgError:
            if not self.lenient:
                raise
        found = np.full_like(a, np.inf)
        for at in np.ndindex(a.shape[:-2]):
            with contextlib.suppress(np.linalg.LinAlgError):
                found[at] = np.linalg.inv(a[at])
        return (found,)

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """-P da P."""
        (da,) = tangents
        if da is None:
            return (None,)
        (p,) = parts(node)
        return (ops.negative(ops.matmul(ops.matmul(p, da), p)),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Single and batched."""
        yield from sample(inverse, (3, 3))
        yield from sample(inverse, (2, 2, 2))


@dataclass(frozen=True, slots=True)
class PseudoInverse(MatrixCall):
    """The Moore-Penrose inverse; singular values up to the second input times the largest count as
    zero.
    """

    name: ClassVar[str] = "pseudo_inverse"
    hermitian: bool = False

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """The sizes exchanged."""
        a, _ = inputs
        require_matrix(self.name, a, square=self.hermitian)
        return (((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype),)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """By singular values (or eigenvalues)."""
        return lapack.finite(self.name, arrays[0], lambda a: self._inverted(a, arrays[1]))

    def _inverted(self, a: Array, rtol: Array) -> tuple[Array]:
        if 0 in a.shape:
            return (np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype),)
        return (np.linalg.pinv(a, rcond=rtol, hermitian=self.hermitian),)

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """-P da P + P Pᴴ daᴴ (I - A P) + (I - P A) daᴴ Pᴴ P, while the rank stays as it is."""
        da, _ = tangents
        if da is None:
            return (None,)
        (a, _), (p,) = node.inputs, parts(node)
        mm, dah = ops.matmul, adjoint(da)
        left = mm(p, mm(adjoint(p), dah))
        right = mm(dah, mm(adjoint(p), p))
        moved = ops.add(
            ops.subtract(left, mm(mm(left, a), p)), ops.subtract(right, mm(p, mm(a, right)))
        )
        return (ops.subtract(moved, mm(mm(p, da), p)),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Wide and tall."""
        for shape in ((2, 3), (2, 3, 2)):
            yield from sample(
                lambda a: pseudo_inverse(a, ops.constant(1e-6, a.dtype.part)), shape
            )


@dataclass(frozen=True, slots=True)
class LU(KernelCall):
    """Both factors in one matrix (the unit diagonal of L is left out), and the exchanges of rows.

    The derivative is that with the exchanges as they are.
    """

    name: ClassVar[str] = "lu"

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """The packed factors; the row that each row changed places with, from 0."""
        (a,) = inputs
        require_matrix(self.name, a)
        k = least(self.name, *a.shape[-2:])
        return (a.shape, a.dtype), ((*a.shape[:-2], k), int64)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """By blocks, with partial pivoting."""
        return lapack.finite(self.name, arrays[0], lapack.lu)

    def kernels(self, node: Node) -> Sequence[Node]:
        """By elimination."""
        return call(Elimination(), node.inputs[0])[:2]

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """Of the square part F = L⁻¹ P da U⁻¹: dL = L low(F), dU = up(F) U; the rest follows."""
        (da,) = tangents
        if da is None:
            return (None, None)
        packed, pivots = parts(node)
        m, n = packed.shape[-2:]
        k = least(self.name, m, n)
        moved = exchanged(da, pivots)
        square = _block(packed, 0, 0, k, k)
        f = triangular_solve(square, _block(moved, 0, 0, k, k), lower=True, unit=True)
        f = adjoint(triangular_solve(adjoint(square), adjoint(f), lower=True))
        ell, you = ops.add(lower(square, -1), identity(square.shape, square.dtype)), upper(square)
        d_low, d_up = ops.matmul(ell, lower(f, -1)), ops.matmul(upper(f), you)
        result = ops.add(d_low, d_up)
        if m != k:  # below: L₂ U = A₂
            below = ops.subtract(
                _block(moved, k, 0, m, k), ops.matmul(_block(packed, k, 0, m, k), d_up)
            )
            below = adjoint(triangular_solve(adjoint(square), adjoint(below), lower=True))
            result = ops.concatenate([result, below], result.ndim - 2)
        if n != k:  # beside: L U₂ = A₂
            beside = ops.subtract(
                _block(moved, 0, k, k, n), ops.matmul(d_low, _block(packed, 0, k, k, n))
            )
            beside = triangular_solve(square, beside, lower=True, unit=True)
            result = ops.concatenate([result, beside], result.ndim - 1)
        return result, None

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Square, wide and tall."""
        for shape in ((3, 3), (2, 2, 4), (4, 2)):
            yield from sample(lambda a: lu(a)[0], shape)


def _block(x: Node, top: Size, left: Size, bottom: Size, right: Size) -> Node:
    """Rows ``top`` to ``bottom`` and columns ``left`` to ``right``."""
    lead = x.shape[:-2]
    starts = (*(0 for _ in lead), int(top), int(left))
    return ops.slice(x, starts, (*lead, bottom - top, right - left), (1,) * x.ndim)


@dataclass(frozen=True, slots=True)
class Permutation(MatrixCall):
    """The order of rows that exchanges make; its second input gives their number."""

    name: ClassVar[str] = "permutation"
    differentiable: ClassVar[bool] = False

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """Which row comes to each place."""
        pivots, rows = inputs
        return (((*pivots.shape[:-1], rows.shape[-2]), int64),)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """One exchange after the other."""
        pivots, rows = arrays
        count = rows.shape[-2]
        if pivots.size and not (pivots.min() >= 0 and pivots.max() < count):
            raise LamellaIndexError(
                f"[permutation] pivots from {pivots.min()} to {pivots.max()} of {count} rows; pass "
                "those that lm.linalg.lu_factor gave"
            )
        return (lapack.pivots_to_permutation(pivots, count),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Some exchanges."""

        def draw(
            rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, position: int
        ) -> Array:
            return np.asarray(rng.integers(0, 3, shape))

        for shapes in (((3,), (3, 0)), ((2, 2), (2, 3, 0))):
            yield Sample(shapes, lambda p, r: call(Permutation(), p, r)[0], (int64,), draw=draw)


# -- builders --------------------------------------------------------------------------------------
def solve(a: Node, b: Node) -> Node:
    """The x of a x = b."""
    return call(Solve(), a, b)[0]


def triangular_solve(a: Node, b: Node, lower: bool, unit: bool = False) -> Node:
    """The x of a x = b, of which only a triangle of a is read."""
    return call(TriangularSolve(lower, unit), a, b)[0]


def inverse(a: Node, lenient: bool = False) -> Node:
    """The inverse."""
    return call(Inverse(lenient), a)[0]


def pseudo_inverse(a: Node, rtol: Node, hermitian: bool = False) -> Node:
    """The Moore-Penrose inverse; ``rtol`` is one number, or one for each matrix."""
    return call(PseudoInverse(hermitian), a, ops.broadcast_to(rtol, a.shape[:-2]))[0]


def lu(a: Node) -> tuple[Node, Node]:
    """The packed factors of ``a`` with its rows exchanged, and the exchanges (from 0)."""
    packed, pivots = call(LU(), a)
    return packed, pivots


def permutation(pivots: Node, rows: Size) -> Node:
    """The order of ``rows`` that exchanges make."""
    template = ops.full(0, (*pivots.shape[:-1], rows, 0), int64)
    return call(Permutation(), pivots, template)[0]


def exchanged(x: Node, pivots: Node) -> Node:
    """The rows of ``x`` after exchanges."""
    order = permutation(pivots, x.shape[-2])
    return ops.gather(x, order, x.ndim - 2, checked=False)
