"""Rows of the next iteration, asked for while one is worked on.

Input: the grid loop of a kernel that goes over a row several times. Output: the same loop with
prefetches. The first pass over a row waits for memory, and a pass that computes functions leaves
memory idle: in that one the next row's lines are asked for, one with each that it works on. Passes
that do less keep memory busy, and prefetches would only get in the way of what they read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lamella.compiler.mathlib.expand import FUNCTIONS
from lamella.ir.index import Substitution, add, coefficient
from lamella.ir.loops import Alloc, Apply, Expr, For, Load, Prefetch, Stmt
from lamella.ir.walk import expressions, loads_of, roots, statements

__all__ = ["ahead"]

SHORT: Final = 1024  # bytes of a row below which the processor is far enough ahead by itself
LONG: Final = 128 << 10  # bytes of a row of which two would drive each other out of the caches


def ahead(grid: For) -> For:
    """The grid loop with prefetches, if it has several passes over rows of a fitting length and one
    of them computes functions.
    """
    passes = [s for s in grid.body if isinstance(s, For) and s.kind == "lanes"]
    busy = max(passes, key=_functions, default=None)
    if busy is None or len(passes) < 2 or not _functions(busy):
        return grid
    known = {s.name for s in grid.body if isinstance(s, Alloc)}  # scratch is always near
    soon: list[Stmt] = []
    for loop in passes:
        for load in _below(loop):
            if isinstance(load, Load) and load.buffer not in known and _is_row(load, loop, grid):
                known.add(load.buffer)
                if loop.var.extent == busy.var.extent:
                    index = Substitution({loop.var: busy.var})(load.index)
                    step = coefficient(load.index, grid.var) or 0
                    soon.append(Prefetch(load.buffer, add(index, step)))
    body = (replace(s, body=(*soon, *busy.body)) if s is busy else s for s in grid.body)
    return replace(grid, body=tuple(body))


def _below(loop: For) -> list[Expr]:
    return list(expressions(root for s in statements(loop.body) for root in roots(s)))


def _functions(loop: For) -> int:
    """How many functions are computed of what varies in the loop."""
    found = [e for e in _below(loop) if isinstance(e, Apply) and e.op in FUNCTIONS]
    return sum(loop.var in expressions([e]) for e in found)


def _is_row(load: Load, loop: For, grid: For) -> bool:
    """Whether a load passes over a row, another one in each iteration of the grid."""
    if not isinstance(loop.var.extent, int) or load.mask is not None or loads_of(load.index):
        return False
    fits = SHORT <= loop.var.extent * load.dtype.itemsize <= LONG
    steps = [coefficient(load.index, v) for v in (loop.var, grid.var)]
    return fits and steps[0] == 1 and steps[1] not in (0, None)
