"""Small dense products between tiles in scratch memory: the inner loops of attention's kernels.

Input: functions that give the element of each factor. Output: the loops of ``result[i, j] =
start(i, j) + sum over k of left(i, k) * right(k, j)``, in register tiles of a few rows by one or
two vectors. ``right`` is read along lanes, ``left`` one element at a time. Products are added in
the order of k, so the result depends on the sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lamella.dtypes import DType
from lamella.ir import index as ix
from lamella.ir.loops import Alloc, Apply, Const, Expr, For, If, Load, Stmt, Store
from lamella.ir.vectors import VectorUnit
from lamella.ops.base import KernelWriter

__all__ = ["Product", "guard", "rounded_up", "row_step"]

At = Callable[[Expr, Expr], Expr]


def rounded_up(size: int, step: int) -> int:
    """The least multiple of ``step`` that is not below ``size``, and not 0.

    >>> rounded_up(17, 8), rounded_up(0, 8)
    (24, 8)
    """
    return max(1, -(-size // step)) * step


def row_step(unit: VectorUnit) -> int:
    """Rows of a register tile: with two vectors a row, enough sums to hide an addition's latency.

    >>> row_step(VectorUnit(64, 32)), row_step(VectorUnit(32, 16))
    (8, 4)
    """
    return unit.registers // 4


def guard(condition: Expr, body: Sequence[Stmt]) -> list[Stmt]:
    """``body`` where ``condition`` holds."""
    if condition == ix.TRUE:
        return list(body)
    return [] if condition == ix.FALSE else [If(condition, tuple(body))]


@dataclass(frozen=True, slots=True)
class Product:
    """A product of ``rows`` (a multiple of ``row_step``) by ``columns`` (of ``lanes``).

    ``depth`` may be an expression, or a function of the first row of a register tile; where it is
    not above 0, nothing is added. ``finish(i, j, total)`` says what becomes of an element.
    """

    rows: int
    columns: int
    depth: int | Expr | Callable[[Expr], int | Expr]
    left: At
    right: At
    start: At | None
    finish: Callable[[Expr, Expr, Expr], Stmt]
    dtype: DType
    wanted: At | None = None  # (first row, first column) -> whether a register tile is needed

    def loops(self, out: KernelWriter) -> list[Stmt]:
        """Panels of two vectors, and one of a single vector where the number is odd."""
        lanes = out.unit.lanes(self.dtype)
        if self.rows % row_step(out.unit) or self.columns % lanes:
            raise ValueError(f"{self.rows} x {self.columns} is no number of register tiles")
        pairs = self.columns // (2 * lanes)
        found = self._panels(out, 0, pairs, 2 * lanes)
        if self.columns % (2 * lanes):
            found += self._panels(out, pairs * 2 * lanes, 1, lanes)
        return found

    def _panels(self, out: KernelWriter, first: int, count: int, width: int) -> list[Stmt]:
        if not count:
            return []
        step = row_step(out.unit)
        across, down = out.var("across", count), out.var("down", self.rows // step)
        row, column = ix.mul(down, step), ix.add(ix.mul(across, width), first)
        body = self._tile(out, row, column, step, width)
        if self.wanted is not None:
            body = guard(self.wanted(row, column), body)
        return [For(across, "serial", (For(down, "serial", tuple(body)),))]

    def _tile(
        self, out: KernelWriter, row: Expr, column: Expr, step: int, width: int
    ) -> list[Stmt]:
        acc = out.temporary("acc")

        def nest(body: Callable[[Expr, Expr, Expr], Stmt]) -> Stmt:
            i, j = out.var("i", step), out.var("j", width)
            at = ix.add(ix.mul(i, width), j)
            return For(
                i, "unroll", (For(j, "lanes", (body(ix.add(row, i), ix.add(column, j), at),)),)
            )

        def begin(i: Expr, j: Expr, at: Expr) -> Stmt:
            zero = Const(0.0, self.dtype)
            return Store(acc, at, zero if self.start is None else self.start(i, j))

        k = out.var("k", self.depth(row) if callable(self.depth) else self.depth)

        def add(i: Expr, j: Expr, at: Expr) -> Stmt:
            terms = (self.left(i, k), self.right(k, j), Load(acc, at, self.dtype))
            return Store(acc, at, Apply("fma", terms, self.dtype))

        def end(i: Expr, j: Expr, at: Expr) -> Stmt:
            return self.finish(i, j, Load(acc, at, self.dtype))

        return [
            Alloc(acc, self.dtype, step * width, "register"),
            nest(begin),
            For(k, "serial", (nest(add),)),
            nest(end),
        ]
