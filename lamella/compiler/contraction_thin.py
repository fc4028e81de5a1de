"""Schedules for a few rows against a large right factor, which memory gives once: no panels, no
padding.

Input: a group of kind "tiles" with at most ``MOST`` rows. Output: its kernel's grid loop; a grid
iteration makes some columns of every row. Where the right factor is contiguous along its columns
(:class:`StreamKernel`), each turn adds a few steps of k to all sums of a wide strip, which stay in
the first-level cache. Where it is contiguous along k (:class:`DotKernel`), lanes run along k:
partial sums of a few columns stay in registers, and their lanes are added at the end. The order of
every sum depends on sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from lamella.compiler.contraction_base import ContractionKernel, plain, plain_loads
from lamella.compiler.contraction_bytes import offset_alloc, offsets
from lamella.compiler.contraction_panels import LINE, Panel
from lamella.compiler.contraction_register import zero
from lamella.compiler.contraction_shapes import RUN, Thin
from lamella.compiler.fusion import Group
from lamella.ir.decisions import at_least, pinned
from lamella.ir.dim import Size, ceildiv, product
from lamella.ir.index import (
    Substitution,
    add,
    constant,
    floordiv,
    minimum,
    mul,
    parts,
    split_linear,
)  # fmt: skip
from lamella.ir.loops import (
    Accumulate,
    Alloc,
    Apply,
    Declare,
    Expr,
    For,
    Load,
    Prefetch,
    Read,
    Stmt,
    Store,
    Var,
)  # fmt: skip
from lamella.ir.node import Node
from lamella.ir.vectors import VectorUnit

__all__ = ["DotKernel", "StreamKernel"]


ROWS_HINTED = 7  # rows from which products hide hints for what lanes along k read next
FAR = 1 << 20  # elements of a right factor that is likely to come from memory: hints pay


class ThinKernel(ContractionKernel):
    """What both schedules share: the grid over strips of columns, and the sums in scratch."""

    def __init__(self, group: Group, needed: set[Node], unit: VectorUnit, shape: Thin) -> None:
        super().__init__(group, needed, unit, shape.swapped)
        rows = pinned(self.sizes[1])
        if not isinstance(rows, int):
            raise TypeError("a thin schedule needs to know the number of rows")
        self.rows = rows
        self.shape = shape
        batch, _, n, k = self.sizes
        many = rows >= unit.hinted_rows
        self.far = many and at_least(product((batch, n, k)), FAR, False)

    def grid(self) -> For:
        """The kernel's grid loop."""
        width = self.shape.columns
        batch, _, n, k = self.sizes
        blocks = (batch, ceildiv(n, width))
        grid = Var("g", product(blocks))
        self.batch, at = split_linear(grid, blocks)
        self.column0 = mul(at, width)
        self.count = self.valid(width, n, self.column0)
        self.work = self.rows * width * k // 8 + 1
        rows: tuple[Expr, Size | Expr] = (constant(0), self.rows)
        tail = self.tail_loops("tile", constant(0), width, rows, (self.column0, self.count))
        sums = Alloc("tile", self.dtype, max(1, self.rows * width), "local")
        i, j = Var("zi", self.rows), Var("zj", self.count)
        clear = Store("tile", self._place(i, j), self.start(i))
        start = For(i, "serial", (For(j, "lanes", (clear,)),))
        return For(grid, "grid", (sums, *self._offsets(), start, *self._body(), tail))

    def _offsets(self) -> list[Stmt]:
        """What the sums of the rows begin with, where that is not zero."""
        if not self.shifts:
            return []
        return [offset_alloc(self.rows), offsets(self.rows, self.sizes[3], self.left)]

    def _place(self, row: Expr, column: Expr) -> Expr:
        return add(mul(row, self.shape.columns), column)

    def _body(self) -> list[Stmt]:
        """Statements that add every product to the sums."""
        raise NotImplementedError


class StreamKernel(ThinKernel):
    """Sums of a wide strip in the first-level cache; a few steps of k at a time, so that memory is
    read in as many places at a time as there are steps. Where a strip is as wide as memory's rows,
    the steps are a part of k apart, and each place reads on from row to row. A few vectors of each
    step stay in registers for all rows.
    """

    @property
    def run(self) -> int:
        """Vectors of columns taken in one go, a power of two: with their sums they fill the
        registers.
        """
        fit = (self.unit.registers - 1) // (self.shape.group + 1)
        return min(RUN, 1 << max(0, fit.bit_length() - 1))

    def _body(self) -> list[Stmt]:
        k, count, steps = self.sizes[3], self.count, self.shape.group
        turns, rest = k // steps, k % steps
        body: list[Stmt] = []
        if turns != 0:
            turn = Var("mk", turns)
            whole = not at_least(self.sizes[2], self.shape.columns + 1, True)
            self.apart, self.on = (turns, 1) if whole else (1, steps)
            body.append(For(turn, "serial", tuple(self._turn(mul(turn, self.on)))))
        if not isinstance(rest, int):
            step = Var("mr", rest)
            each = self._add([add(mul(turns, steps), step)], "r", constant(0), count)
            body.append(For(step, "serial", (each,)))
        elif rest:
            last = [add(mul(turns, steps), step) for step in range(rest)]
            body.append(self._add(last, "r", constant(0), count))
        return body

    def _turn(self, k0: Expr) -> list[Stmt]:
        """Add the steps of a turn: whole runs of columns, then what is left of them."""
        count, width = self.count, self.run * self.lanes
        runs = plain(floordiv(count, width))
        rest = plain(add(count, mul(runs, -width)))
        run, row = Var("mb", runs), Var("mi", self.rows)
        start = mul(run, width)
        line = self._line(k0, row, start)
        across = For(run, "serial", (*self._ahead(k0, start), For(row, "unroll", line)))
        body: list[Stmt] = [] if runs == 0 else [across]
        if rest != 0:
            body.append(self._add(self._steps(k0), "t", mul(runs, width), rest))
        return body

    def _steps(self, k0: Expr) -> list[Expr]:
        """The steps of k of a turn that begins with ``k0``."""
        return [add(k0, mul(self.apart, step)) for step in range(self.shape.group)]

    def _ahead(self, k0: Expr, start: Expr) -> list[Stmt]:
        """Hints for the same columns, a run of them from ``start`` on, of the steps after these."""
        if not self.far:
            return []
        j = Var("hj", self.run * self.lanes)
        found: dict[Prefetch, None] = {}
        for k in self._steps(add(k0, self.on)):
            value = self.right(add(self.column0, start, j), k)
            for load in plain_loads(value):
                for shift in range(0, self.run * self.lanes, LINE // load.dtype.itemsize):
                    index = Substitution({j: constant(shift)})(load.index)
                    found[Prefetch(load.buffer, index, 2)] = None
        return list(found)

    def _line(self, k0: Expr, i: Var, start: Expr) -> tuple[Stmt, ...]:
        """Add the steps of a turn to a run of columns of one row: a step's factor is read once."""
        lanes = self.lanes

        def each(tag: str, value: Callable[[Expr], Expr], to: str = "sums") -> Stmt:
            part, j = Var("mv" + tag, self.run), Var("mj" + tag, lanes)
            at = add(mul(part, lanes), j)
            place = at if to == "sums" else self._place(i, add(start, at))
            return For(part, "unroll", (For(j, "lanes", (Store(to, place, value(at)),)),))

        def total(at: Expr) -> Expr:
            return Load("sums", at, self.dtype)

        def step(at: Expr, k: Expr) -> Expr:
            right = self.right(add(self.column0, start, at), k)
            return self.fused(self.left(i, k), right, total(at))

        first = each("b", lambda at: Load("tile", self._place(i, add(start, at)), self.dtype))
        turns = [each(str(s), partial(step, k=k)) for s, k in enumerate(self._steps(k0))]
        sums = Alloc("sums", self.dtype, self.run * lanes, "register")
        return (sums, first, *turns, each("e", total, "tile"))

    def _add(self, steps: Sequence[Expr], tag: str, start: Expr, count: Size | Expr) -> Stmt:
        """Add a few steps to the sums of ``count`` columns from ``start`` on, row by row."""
        i, j = Var("mi" + tag, self.rows), Var("mj" + tag, count)
        column = add(start, j)
        place = self._place(i, column)
        total: Expr = Load("tile", place, self.dtype)
        for k in steps:
            total = self.fused(self.left(i, k), self.right(add(self.column0, column), k), total)
        return For(i, "unroll", (For(j, "lanes", (Store("tile", place, total),)),))


class DotKernel(ThinKernel):
    """Partial sums along lanes of a few columns at a time, in blocks of k. Those columns are a part
    of the strip apart: memory is read in as many places, from row to row in each.
    """

    def _body(self) -> list[Stmt]:
        k, depth = self.sizes[3], self.shape.depth
        turns = ceildiv(k, depth)
        kb = Var("kb", turns)
        k0 = mul(kb, depth)
        count = plain(minimum(depth, add(k, mul(k0, -1))))
        self.panel = Panel("left", self.dtype, self.rows, depth, 1, True, self.lanes)
        pack = self.panel.fill(0, self.rows, count, lambda i, s: self.left(i, add(k0, s)))
        first = Var("mg", self._apart())
        columns = For(first, "serial", tuple(self._columns(first, k0, count)))
        return [self.panel.alloc(), For(kb, "serial", (*pack, columns))]

    def _apart(self) -> Size | Expr:
        """Columns from one of a group to the next, as many as there are groups."""
        return plain(floordiv(add(self.count, self.shape.group - 1), self.shape.group))

    def _inside(self, first: Expr, c: Expr | int) -> Expr:
        """Column ``c`` of a group in its strip."""
        return add(first, mul(c, self._apart()))

    def _column(self, first: Expr, c: Expr | int) -> Expr:
        """Column ``c`` of a group; beyond the edge, the last one again."""
        n, group = self.sizes[2], self.shape.group
        column = add(self.column0, self._inside(first, c))
        inside = isinstance(n, int) and n % group == 0
        return column if inside else minimum(column, n - 1)

    def _columns(self, first: Expr, k0: Expr, count: Size | Expr) -> list[Stmt]:
        """The sums of one group of columns over one block of k."""
        lanes, group = self.lanes, self.shape.group
        turns = plain(floordiv(count, lanes))
        rest = plain(add(count, mul(turns, -lanes)))
        acc = Alloc("acc", self.dtype, self.rows * group * lanes, "register")
        x, y = Var("cx", self.rows * group), Var("cy", lanes)
        clear = Store("acc", add(mul(x, lanes), y), zero(self.dtype))
        body: list[Stmt] = [acc, For(x, "unroll", (For(y, "lanes", (clear,)),))]
        if turns != 0:
            body.append(self._turn(first, k0, Var("mk", turns)))
        i, c, lane = Var("si", self.rows), Var("sc", group), Var("sl", lanes)
        at = add(mul(i, group * lanes), mul(c, lanes), lane)
        total: list[Stmt] = [
            Declare("s", self.dtype, zero(self.dtype)),
            For(lane, "lanes", (Accumulate(("s",), "add", (Load("acc", at, self.dtype),)),)),
        ]
        if parts(rest) != (0, {}):
            total.append(self._rest(i, self._column(first, c), k0, turns, Var("sr", rest)))
        place = self._place(i, self._inside(first, c))
        value = Apply("add", (Load("tile", place, self.dtype), Read("s", self.dtype)), self.dtype)
        total.append(Store("tile", place, value))
        body.append(For(i, "unroll", (For(c, "unroll", tuple(total)),)))
        return body

    def _turn(self, first: Expr, k0: Expr, turn: Var) -> Stmt:
        lanes, group = self.lanes, self.shape.group
        i, c, lane = Var("mi", self.rows), Var("mc", group), Var("ml", lanes)
        at = add(mul(i, group * lanes), mul(c, lanes), lane)
        k = add(mul(turn, lanes), lane)
        right = self.right(self._column(first, c), add(k0, k))
        step = self.fused(self.panel.load(0, i, k), right, Load("acc", at, self.dtype))
        unrolled = For(i, "unroll", (For(c, "unroll", (Store("acc", at, step),)),))
        hints = self._ahead(first, add(k0, mul(turn, lanes)))
        return For(turn, "serial", (*hints, For(lane, "lanes", (unrolled,))))

    def _ahead(self, first: Expr, k: Expr) -> list[Stmt]:
        """Hints for the same steps of the next group."""
        if not self.far and self.rows < ROWS_HINTED:
            return []
        last, after = add(self.sizes[2], -1), add(self.column0, first, 1)
        apart = self._apart()
        columns = [minimum(add(after, mul(apart, c)), last) for c in range(self.shape.group)]
        return [hint for column in columns for hint in self.soon(self.right(column, k), 2)]

    def _rest(self, i: Expr, column: Expr, k0: Expr, turns: Size | Expr, few: Var) -> Stmt:
        """Steps of k that are less than a vector."""
        k = add(mul(turns, self.lanes), few)
        left, right = self.panel.load(0, i, k), self.right(column, add(k0, k))
        value: Expr = Apply("mul", (left, right), self.dtype)
        if self.words:
            value = self.fused(left, right, zero(self.dtype))
        return For(few, "serial", (Accumulate(("s",), "add", (value,)),))
