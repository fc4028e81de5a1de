"""Gaussian elimination with partial pivoting as a kernel: P A = L U, a matrix a task.

Input: matrices ``(*lead, m, n)`` in memory, of float32 or float64. Output: both factors in one
matrix (without the ones of L), the row that each row changed places with, and the order of rows
that the exchanges make. The method goes from panel to panel of columns (Golub and Van Loan, "Matrix
Computations", 4th ed., 3.2.11 and 3.4.4): a panel is eliminated by itself, turned so that lanes run
down its columns; then rows change places, and what is right of and below the panel follows in
register tiles. The order of sums depends on the sizes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from lamella.dtypes import bool_, int64
from lamella.ir import index as ix
from lamella.ir.dim import Shape
from lamella.ir.loops import (
    Accumulate,
    Alloc,
    Const,
    Declare,
    Expr,
    For,
    Load,
    Read,
    Stmt,
    Store,
    apply,
)
from lamella.ir.node import Node
from lamella.ops import lapack
from lamella.ops.base import Array, Element, Index, KernelWriter, Sample
from lamella.ops.calls import Result, call
from lamella.ops.matrices_in_lanes import in_lanes, lanes_elimination, matrix_tasks
from lamella.ops.matrix_kernel import (
    Flag,
    MatrixKernel,
    Square,
    fixed,
    kernel_sample,
    require_real,
    swap,
    turned,
    where_finite,
)
from lamella.ops.register_rows import RowTile, tile_rows, tile_width

__all__ = ["Elimination"]

PANEL: Final = 32  # columns that are eliminated one by one
SOLVED: Final = 8  # rows of U that are solved at once, at most
MORE: Final = 16  # rows behind the last that tiles may touch


@dataclass(frozen=True, slots=True)
class Elimination(MatrixKernel):
    """The packed factors, the exchanges, and the order of rows. A matrix with an entry that is not
    finite gives NaN and exchanges nothing. A pivot of 0 is a failure if there is a message.
    """

    name: ClassVar[str] = "elimination"
    stored: ClassVar[tuple[int, ...]] = (0,)

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """As A; a row for each pivot, for each row."""
        (a,) = inputs
        require_real(self.name, a)
        *lead, m, n = a.shape
        exchanges = min(fixed(m), fixed(n))
        return (a.shape, a.dtype), ((*lead, exchanges), int64), ((*lead, m), int64)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """By blocks, in NumPy."""
        packed, pivots = lapack.finite(self.name, arrays[0], lapack.lu)
        return packed, pivots, lapack.pivots_to_permutation(pivots, packed.shape[-2])

    def grid(self, node: Node) -> Shape:
        """Matrices, or groups of small ones."""
        return (matrix_tasks(node.inputs[0]),)

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        """One matrix, or a group."""
        if in_lanes(node.inputs[0]):
            return lanes_elimination(node.inputs[0], args[0], at, out, bool(self.failure))
        return _Matrix(self, node.inputs[0], args[0], at, out).statements()

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Square, wide and tall, of one panel and of several."""
        for m, n in ((1, 1), (5, 5), (7, 3), (3, 7), (70, 70), (41, 66), (50, 35)):
            yield from kernel_sample(lambda a: call(cls(), a)[0], (2, m, n))
        for part in range(3):
            yield from kernel_sample(lambda a, i=part: call(cls(), a)[i], (33, 3, 4))


class _Matrix:
    """Writes the task of a matrix."""

    def __init__(
        self, op: Elimination, a: Node, element: Element, at: Index, out: KernelWriter
    ) -> None:
        self.op, self.out, self.dtype, self.element = op, out, a.dtype, element
        self.m, self.n = fixed(a.shape[-2]), fixed(a.shape[-1])
        self.steps = min(self.m, self.n)
        self.width = tile_width(out.unit, a.dtype)
        self.work = Square(out, "work", a.dtype, self.m + MORE, self.n + self.width)
        self.panel = Square(out, "panel", a.dtype, PANEL, self.m + 2 * MORE)
        self.order, self.places = out.temporary("order"), out.temporary("places")
        self.lead = ix.split_linear(at[0], a.shape[:-2])
        self.singular = Flag(out, "singular")

    def statements(self) -> list[Stmt]:
        """Into local memory, panel by panel, and out of it."""
        out, m, n = self.out, self.m, self.n
        i, j, row, column = out.var("i", m), out.var("j", n), out.var("row", m), out.var("j", n)
        load = self.work.store(i, j, self.element((*self.lead, i, j)))
        fails = bool(self.op.failure)
        begin = [self.singular.begin()] if fails else []
        end = [self.singular.fail()] if fails else []
        return [
            self.work.alloc(),
            self.panel.alloc(),
            Alloc(self.order, int64, m, "local"),
            Alloc(self.places, int64, self.steps, "local"),
            For(i, "serial", (For(j, "lanes", (load,)),)),
            *self._in_order(),
            *where_finite(
                out, self.dtype, row, column, self.work.at(row, column),
                [*begin, *self._panels(), *end, self._put(self.work.at)],
                [self._put(lambda i, j: Const(float("nan"), self.dtype))],
            ),
            *self._put_order(),
        ]  # fmt: skip

    # -- results -----------------------------------------------------------------------------------
    def _in_order(self) -> list[Stmt]:
        """Nothing is exchanged yet."""
        i, j = self.out.var("i", self.m), self.out.var("i", self.steps)
        return [
            For(i, "lanes", (Store(self.order, i, i),)),
            For(j, "lanes", (Store(self.places, j, j),)),
        ]

    def _put(self, value: Callable[[Expr, Expr], Expr]) -> Stmt:
        i, j = self.out.var("i", self.m), self.out.var("j", self.n)
        store = self.out.part(0, (*self.lead, i, j), value(i, j))
        return For(i, "serial", (For(j, "lanes", (store,)),))

    def _put_order(self) -> list[Stmt]:
        found: list[Stmt] = []
        for number, name, count in ((1, self.places, self.steps), (2, self.order, self.m)):
            i = self.out.var("i", count)
            store = self.out.part(number, (*self.lead, i), Load(name, i, int64))
            found.append(For(i, "lanes", (store,)))
        return found

    # -- panels ------------------------------------------------------------------------------------
    def _panels(self) -> list[Stmt]:
        """Panels of ``PANEL`` columns; the last has what columns are left."""
        whole, rest = divmod(self.steps, PANEL)
        found: list[Stmt] = []
        if whole:
            number = self.out.var("number", whole)
            body = self._step(ix.mul(number, PANEL), PANEL)
            found.append(For(number, "serial", tuple(body)))
        return found + (self._step(ix.constant(whole * PANEL), rest) if rest else [])

    def _step(self, first: Expr, size: int) -> list[Stmt]:
        """Eliminate the columns from ``first`` on; the rest of the matrix follows."""
        work, panel, rows = self.work, self.panel, ix.sub(self.m, first)
        lanes = min(16, self.out.unit.lanes(self.dtype))
        whole = ix.mul(ix.floordiv(ix.add(rows, lanes - 1), lanes), lanes)
        column = self.out.var("column", size)

        def load(i: Expr, c: Expr) -> Stmt:
            return panel.store(c, i, work.at(ix.add(first, i), ix.add(first, c)))

        def store(c: Expr, i: Expr) -> Stmt:
            return work.store(ix.add(first, i), ix.add(first, c), panel.at(c, i))

        found = [
            *turned(self.out, self.dtype, whole, size, load),
            For(column, "serial", tuple(self._column(first, column, size))),
            self._exchange(first, size),
            *turned(self.out, self.dtype, size, whole, store),
        ]
        across = self.out.var("across", self._strips(ix.add(first, size)))
        beside = ix.add(first, ix.mul(across, self.width), size)
        if size == PANEL or self.n > self.m:
            below = self._below(first, beside) if size == PANEL else []
            found.append(For(across, "serial", (*self._right(first, size, beside), *below)))
        return found

    def _strips(self, first: Expr) -> Expr:
        return ix.floordiv(ix.add(ix.sub(self.n, first), self.width - 1), self.width)

    def _column(self, first: Expr, column: Expr, size: int) -> list[Stmt]:
        """Find the pivot, exchange rows of the panel, divide, take off the columns after."""
        out, panel, dtype = self.out, self.panel, self.dtype
        rows = ix.sub(ix.sub(self.m, first), column)
        best, place, pivot = (out.temporary(name) for name in ("best", "place", "pivot"))
        t = out.var("t", rows)
        below, late = (out.var(name, ix.sub(rows, 1)) for name in ("below", "late"))
        after = out.var("after", ix.sub(size - 1, column))
        row, other = ix.add(column, 1, below), ix.add(column, 1, after)
        value = panel.at(column, ix.add(column, t))
        zero = apply("eq", Read(pivot, dtype), Const(0.0, dtype), dtype=bool_)
        own = panel.at(column, row)
        scaled = apply("select", zero, own, apply("div", own, Read(pivot, dtype)), dtype=dtype)
        down = ix.add(column, 1, late)
        less = apply("mul", panel.at(column, down), panel.at(other, column))
        taken = apply("sub", panel.at(other, down), less)
        found = Read(place, int64)
        return [
            Declare(best, dtype, Const(float("-inf"), dtype)),
            Declare(place, int64, Const(2**63 - 1, int64)),
            For(t, "lanes", (
                Accumulate((best, place), "argmax", (apply("abs", value), ix.add(column, t))),
            )),
            Store(self.places, ix.add(first, column), ix.add(first, found)),
            self._panel_exchange(column, found, size),
            Declare(pivot, dtype, panel.at(column, column)),
            *([self.singular.raised(zero)] if self.op.failure else []),
            For(below, "lanes", (panel.store(column, row, scaled),)),
            For(after, "serial", (For(late, "lanes", (panel.store(other, down, taken),)),)),
        ]  # fmt: skip

    def _panel_exchange(self, a: Expr, b: Expr, size: int) -> Stmt:
        c = self.out.var("c", size)
        get, put = (lambda i: self.panel.at(c, i)), (lambda i, x: self.panel.store(c, i, x))
        return For(c, "serial", swap(self.out, get, put, a, b))

    def _exchange(self, first: Expr, size: int) -> Stmt:
        """Whole rows change places, as those of the panel did, and their numbers."""
        c, j = self.out.var("c", size), self.out.var("j", self.n)
        a = ix.add(first, c)
        b = Load(self.places, a, int64)
        rows = swap(
            self.out, lambda i: self.work.at(i, j), lambda i, x: self.work.store(i, j, x), a, b
        )
        numbers = swap(
            self.out, lambda i: Load(self.order, i, int64),
            lambda i, x: Store(self.order, i, x), a, b,
        )  # fmt: skip
        return For(c, "serial", (For(j, "lanes", rows), *numbers))

    # -- what follows a panel ----------------------------------------------------------------------
    def _right(self, first: Expr, size: int, column: Expr) -> list[Stmt]:
        """The rows of U beside the panel, a strip of them."""
        rows = math.gcd(size, SOLVED)
        down = self.out.var("down", size // rows)
        begin = ix.mul(down, rows)
        top, tile = ix.add(first, begin), RowTile(self.out, self.dtype, rows, self.width)

        def left(i: Expr, k: Expr) -> Load:
            return self.work.at(ix.add(top, i), ix.add(first, k))

        body = [
            *self._begin(tile, top, column),
            *tile.subtract(begin, left, self._above(first, column)),
            *tile.solve(True, lambda r, q: left(r, ix.add(begin, q)), None),
            self._end(tile, top, column),
        ]
        return [For(down, "serial", tuple(body))]

    def _below(self, first: Expr, column: Expr) -> list[Stmt]:
        """The rows below the panel, a strip of them, less L times U."""
        rows = tile_rows(self.out.unit)
        left = ix.sub(self.m - PANEL, first)
        down = self.out.var("down", ix.floordiv(ix.add(left, rows - 1), rows))
        begin = ix.add(ix.mul(down, rows), PANEL)
        tile = RowTile(self.out, self.dtype, rows, self.width)
        top = ix.add(first, begin)
        body = [
            *self._begin(tile, top, column),
            *tile.subtract(
                PANEL, lambda i, k: self.panel.at(k, ix.add(begin, i)), self._above(first, column)
            ),
            self._end(tile, top, column),
        ]
        return [For(down, "serial", tuple(body))]

    def _begin(self, tile: RowTile, top: Expr, column: Expr) -> list[Stmt]:
        return tile.begin(lambda i, j: self.work.at(ix.add(top, i), ix.add(column, j)))

    def _above(self, first: Expr, column: Expr) -> Callable[[Expr, Expr], Expr]:
        """The rows of U that are known."""
        return lambda k, j: self.work.at(ix.add(first, k), ix.add(column, j))

    def _end(self, tile: RowTile, top: Expr, column: Expr) -> Stmt:
        return tile.put(lambda i, j, x: self.work.store(ix.add(top, i), ix.add(column, j), x))
