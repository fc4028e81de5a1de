"""The schedule of sums over rows, one for each column: rows are read whole, and sums stay in the
first-level cache.

Input: folds that share their loops, with lanes along the columns. Output: the statements of a grid
iteration. A column's sum in a register would mean a narrow strip of every row, each in another page
of memory; here a pass over a row adds it to a row of sums. The order within a column is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lamella.dtypes import DType
from lamella.ir.index import Substitution
from lamella.ir.loops import Alloc, Apply, Const, Expr, For, Load, Stmt, Store, Var, cast

__all__ = ["NARROW", "OPS", "WIDE", "Column", "columns"]

OPS: Final = ("add", "max", "min")
NARROW: Final = 64  # columns whose sums fit registers
WIDE: Final = 1024  # columns of a task


@dataclass(frozen=True, slots=True)
class Column:
    """A fold: the name of its sums, how it begins, what is folded in, and the buffer, the place and
    the type of its results.
    """

    sums: str
    op: str
    identity: Const
    value: Expr
    buffer: str
    index: Expr
    dtype: DType


def columns(found: Sequence[Column], lane: Var, width: int, over: Sequence[Var]) -> list[Stmt]:
    """The sums of ``width`` columns over the loops ``over``; indices are in terms of ``lane``."""
    first, last = Var("z", lane.extent), Var("y", lane.extent)
    there = Substitution({lane: last})
    allocs = [Alloc(c.sums, c.identity.dtype, width, "local") for c in found]
    begin = tuple(Store(c.sums, first, c.identity) for c in found)
    fold = tuple(Store(c.sums, lane, _folded(c, lane)) for c in found)
    end = tuple(
        Store(c.buffer, there(c.index), cast(Load(c.sums, last, c.identity.dtype), c.dtype))
        for c in found
    )
    rows = For(lane, "lanes", fold)
    for var in reversed(over):
        rows = For(var, "serial", (rows,))
    return [*allocs, For(first, "lanes", begin), rows, For(last, "lanes", end)]


def _folded(c: Column, lane: Var) -> Expr:
    dtype = c.identity.dtype
    return Apply(c.op, (Load(c.sums, lane, dtype), c.value), dtype)
