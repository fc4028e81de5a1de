"""Cholesky's method as a kernel: the lower triangular L of A = L Lᵀ, a matrix a task.

Input: symmetric matrices ``(*lead, n, n)`` in memory, of which the lower triangle is read, of
float32 or float64. Output: L, with zeros above the diagonal. The rows of U = Lᵀ solve Uᵀ U = A by
substitution with the rows before them, a register tile of a few rows and columns at a time (Golub
and Van Loan, "Matrix Computations", 4th ed., 4.2.9): nearly all work is in products of tiles, and
the order of sums depends on the sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella.dtypes import bool_
from lamella.ir import index as ix
from lamella.ir.dim import Shape, ceildiv
from lamella.ir.loops import Const, Declare, Expr, For, Load, Read, Stmt, apply
from lamella.ir.node import Node
from lamella.ops import lapack
from lamella.ops.base import Array, Element, Index, KernelWriter, Sample
from lamella.ops.calls import Result, call
from lamella.ops.matrices import mirrored
from lamella.ops.matrices_in_lanes import in_lanes, lanes_cholesky, matrix_tasks
from lamella.ops.matrix_kernel import (
    Flag,
    MatrixKernel,
    Square,
    fixed,
    kernel_sample,
    require_real,
    turned,
    where_finite,
)
from lamella.ops.register_rows import RowTile, tile_rows, tile_width

__all__ = ["CholeskyRows"]


@dataclass(frozen=True, slots=True)
class CholeskyRows(MatrixKernel):
    """The lower triangular factor; NaN where the triangle has an entry that is not finite."""

    name: ClassVar[str] = "cholesky_rows"
    stored: ClassVar[tuple[int, ...]] = (0,)

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """As A."""
        (a,) = inputs
        require_real(self.name, a)
        return ((a.shape, a.dtype),)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """NumPy's, of the lower triangle."""

        def factor(a: Array) -> tuple[Array]:
            return (np.linalg.cholesky(a),)

        return lapack.finite(self.name, np.tril(arrays[0]), factor)

    def grid(self, node: Node) -> Shape:
        """Matrices, or groups of small ones."""
        return (matrix_tasks(node.inputs[0]),)

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        """One matrix, or a group."""
        if in_lanes(node.inputs[0]):
            return lanes_cholesky(node.inputs[0], args[0], at, out)
        return _Factor(node.inputs[0], args[0], at, out).statements()

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Sizes that fill tiles and that do not."""
        for shape in ((2, 1, 1), (2, 5, 5), (2, 12, 12), (1, 67, 67), (33, 4, 4)):
            yield from kernel_sample(lambda a: call(cls(), mirrored(a))[0], shape)


class _Factor:
    """Writes the task of a matrix."""

    def __init__(self, a: Node, element: Element, at: Index, out: KernelWriter) -> None:
        self.out, self.dtype, self.n = out, a.dtype, fixed(a.shape[-1])
        self.width = tile_width(out.unit, a.dtype)
        self.step = min(tile_rows(out.unit), self.width)  # the corner is in one tile
        self.padded = fixed(ceildiv(self.n, self.step)) * self.step
        self.work = Square(out, "work", a.dtype, self.padded, self.padded + self.width)
        self.lead = ix.split_linear(at[0], a.shape[:-2])
        self.element = element
        self.indefinite = Flag(out, "indefinite")

    def statements(self) -> list[Stmt]:
        """Into local memory, row by row, and out of it."""
        n, work = self.n, self.work
        load = self._turned(lambda i, j: work.store(j, i, self.element((*self.lead, i, j))))
        row = self.out.var("row", n)
        seen = self.out.var("seen", ix.sub(n, row))
        finite = where_finite(
            self.out, self.dtype, row, seen, work.at(row, ix.add(row, seen)),
            [self.indefinite.begin(), *self._rows(), self.indefinite.fail(), *self._put()],
            self._turned(lambda j, i: self._result(i, j, Const(float("nan"), self.dtype))),
        )  # fmt: skip
        return [work.alloc(), *load, *(self._behind() if self.padded > n else []), *finite]

    def _turned(self, move: Callable[[Expr, Expr], Stmt]) -> list[Stmt]:
        return turned(self.out, self.dtype, self.n, self.n, move)

    def _put(self) -> list[Stmt]:
        def put(j: Expr, i: Expr) -> Stmt:
            above = apply("lt", i, j, dtype=bool_)
            zero = Const(0.0, self.dtype)
            value = apply("select", above, zero, self.work.at(j, i), dtype=self.dtype)
            return self._result(i, j, value)

        return self._turned(put)

    def _result(self, i: Expr, j: Expr, value: Expr) -> Stmt:
        return self.out.part(0, (*self.lead, i, j), value)

    def _rows(self) -> list[Stmt]:
        """Tiles of rows; those behind the last are rows of the identity."""
        tile = self.out.var("tile", self.padded // self.step)
        return [For(tile, "serial", tuple(self._tiles(ix.mul(tile, self.step), self.step)))]

    def _behind(self) -> list[Stmt]:
        """The identity behind the matrix, which fills the last tile."""
        zero, one = Const(0.0, self.dtype), Const(1.0, self.dtype)
        row, i = self.out.var("row", self.padded), self.out.var("i", self.padded - self.n)
        j, last = ix.add(self.n, i), self.out.var("i", self.padded - self.n)
        diagonal = ix.add(self.n, last)
        return [
            For(row, "serial", (For(i, "serial", (self.work.store(row, j, zero),)),)),
            For(last, "serial", (self.work.store(diagonal, diagonal, one),)),
        ]

    def _tiles(self, first: Expr, rows: int) -> list[Stmt]:
        """The tile on the diagonal, and those beside it."""
        beside = ix.floordiv(ix.sub(self.padded - 1, first), self.width)
        across = self.out.var("across", beside)
        column = ix.add(first, ix.mul(across, self.width), self.width)
        one = self.out.var("one", 1)  # a block, for the registers of the tile
        return [
            For(one, "serial", tuple(self._corner(first, rows))),
            For(across, "serial", tuple(self._beside(first, rows, column))),
        ]

    def _started(self, tile: RowTile, first: Expr, column: Expr) -> list[Stmt]:
        """A less what the rows before contribute."""
        work = self.work
        return [
            *tile.begin(lambda i, j: work.at(ix.add(first, i), ix.add(column, j))),
            *tile.subtract(
                first,
                lambda i, k: work.at(k, ix.add(first, i)),
                lambda k, j: work.at(k, ix.add(column, j)),
            ),
        ]

    def _beside(self, first: Expr, rows: int, column: Expr) -> list[Stmt]:
        work, tile = self.work, RowTile(self.out, self.dtype, rows, self.width)

        def known(r: Expr | int, q: Expr | int) -> Load:
            return work.at(ix.add(first, q), ix.add(first, r))

        return [
            *self._started(tile, first, column),
            *tile.solve(True, known, lambda r: known(r, r)),
            tile.put(lambda i, j, x: work.store(ix.add(first, i), ix.add(column, j), x)),
        ]

    def _corner(self, first: Expr, rows: int) -> list[Stmt]:
        """Each row by those above it and the root of its pivot."""
        work, tile = self.work, RowTile(self.out, self.dtype, rows, self.width)
        found = self._started(tile, first, first)
        for r in range(rows):
            row, pivot = ix.add(first, r), self.out.temporary("pivot")
            root = self.out.temporary("root")
            value = Read(pivot, self.dtype)
            positive = apply("lt", Const(0.0, self.dtype), value, dtype=bool_)
            store = self._stored(row, first)
            found += [
                tile.put_row(r, store),
                Declare(pivot, self.dtype, work.at(row, row)),
                self.indefinite.raised(apply("not", positive)),
                Declare(root, self.dtype, apply("sqrt", value)),
                tile.divide(r, Read(root, self.dtype)),
                tile.put_row(r, store),
                *tile.take_off(r, True, lambda i, q: work.at(ix.add(first, q), ix.add(first, i))),
            ]
        return found

    def _stored(self, row: Expr, first: Expr) -> Callable[[Expr, Expr], Stmt]:
        return lambda j, x: self.work.store(row, ix.add(first, j), x)
