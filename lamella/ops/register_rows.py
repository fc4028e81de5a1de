"""A few rows in registers, from which products are taken off, and which are solved there.

Input: functions that give elements of the factors. Output: statements. This is the inner loop of
substitution, elimination and Cholesky's method (Golub and Van Loan, "Matrix Computations", 4th ed.,
3.1.4, 3.2.11, 4.2.9). Lanes run along the columns of the strip; terms are taken off in the order of
k, so that the result depends on the sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable

from lamella.dtypes import DType
from lamella.ir import index as ix
from lamella.ir.loops import Alloc, Apply, Expr, For, Load, Stmt, Store, apply
from lamella.ir.vectors import VectorUnit
from lamella.ops.base import KernelWriter

__all__ = ["RowTile", "tile_rows", "tile_width"]

At = Callable[[Expr, Expr], Expr]


def tile_rows(unit: VectorUnit) -> int:
    """Rows of a tile of two vectors each.

    >>> tile_rows(VectorUnit(64, 32)), tile_rows(VectorUnit(32, 16))
    (12, 6)
    """
    return unit.sums // 2


def tile_width(unit: VectorUnit, dtype: DType) -> int:
    """Columns of a tile: two vectors.

    >>> from lamella.dtypes import float32
    >>> tile_width(VectorUnit(64, 32), float32)
    32
    """
    return 2 * unit.lanes(dtype)


class RowTile:
    """``rows`` x ``width`` numbers in registers."""

    def __init__(self, out: KernelWriter, dtype: DType, rows: int, width: int) -> None:
        self.out, self.dtype, self.rows, self.width = out, dtype, rows, width
        self._name = out.temporary("tile")

    def value(self, i: Expr | int, j: Expr) -> Load:
        """An element; ``i`` constant or unrolled, ``j`` along the lanes."""
        return Load(self._name, ix.add(ix.mul(i, self.width), j), self.dtype)

    def _each(self, body: At | Callable[[Expr, Expr], Stmt], stores: bool) -> Stmt:
        i, j = self.out.var("i", self.rows), self.out.var("j", self.width)
        found = body(i, j)
        at = ix.add(ix.mul(i, self.width), j)
        stmt = Store(self._name, at, found) if stores else found  # type: ignore[arg-type]
        return For(i, "unroll", (For(j, "lanes", (stmt,)),))  # type: ignore[arg-type]

    def begin(self, start: At) -> list[Stmt]:
        """The elements at ``start(i, j)``; they live to the end of the enclosing block."""
        size = self.rows * self.width
        return [Alloc(self._name, self.dtype, size, "register"), self._each(start, True)]

    def subtract(self, depth: Expr | int, left: At, right: At) -> list[Stmt]:
        """Take off the sum over k below ``depth`` of left(i, k) · right(k, j)."""
        if depth == 0:
            return []
        k = self.out.var("k", depth)
        step = self._each(lambda i, j: _less(self.value(i, j), left(i, k), right(k, j)), True)
        return [For(k, "serial", (step,))]

    def solve(
        self, lower: bool, factor: At, divisor: Callable[[int], Expr] | None
    ) -> list[Stmt]:
        """Solve the rows from the first on (from the last, unless ``lower``): row q divided by
        divisor(q), then factor(r, q) times it taken off each row r that follows.
        """
        found: list[Stmt] = []
        for q in range(self.rows) if lower else range(self.rows - 1, -1, -1):
            if divisor is not None:
                found.append(self.divide(q, divisor(q)))
            found += self.take_off(q, lower, factor)
        return found

    def take_off(self, q: int, lower: bool, factor: At) -> list[Stmt]:
        """Take factor(r, q) times row q off each row r below it (above it, unless ``lower``)."""
        count = self.rows - 1 - q if lower else q
        if not count:
            return []
        i, j = self.out.var("i", count), self.out.var("j", self.width)
        r, known = ix.add(i, q + 1 if lower else 0), ix.constant(q)
        less = _less(self.value(r, j), factor(r, known), self.value(q, j))
        store = Store(self._name, ix.add(ix.mul(r, self.width), j), less)
        return [For(i, "unroll", (For(j, "lanes", (store,)),))]

    def divide(self, r: int, by: Expr) -> Stmt:
        """Divide row ``r``."""
        j = self.out.var("j", self.width)
        quotient = apply("div", self.value(r, j), by)
        return For(j, "lanes", (Store(self._name, ix.add(r * self.width, j), quotient),))

    def put(self, store: Callable[[Expr, Expr, Expr], Stmt]) -> Stmt:
        """``store(i, j, value)`` of every element."""
        return self._each(lambda i, j: store(i, j, self.value(i, j)), False)

    def put_row(self, r: int, store: Callable[[Expr, Expr], Stmt]) -> Stmt:
        """``store(j, value)`` of row ``r``."""
        j = self.out.var("j", self.width)
        return For(j, "lanes", (store(j, self.value(r, j)),))


def _less(x: Expr, a: Expr, b: Expr) -> Expr:
    """x - a · b, one instruction where the target has it."""
    return Apply("sub", (x, Apply("mul", (a, b), a.dtype)), x.dtype)
