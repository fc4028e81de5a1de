"""The tiled schedule of contractions: packed panels, a register tile, and the elementwise tail on
each finished tile.

Input: a group of kind "tiles". Output: its kernel's grid loop. A grid iteration makes one block of
the result. For each block of k it packs the right factor's panels (whatever expression it is:
transposed, cast, gathered from an image) into local scratch, which stays in the second-level cache;
then every panel of rows of the left factor, packed or read where it lies, meets them all in the
register tile. What a tile has from earlier blocks of k is added in scratch; behind the last block
the tail is computed from it and stored. The order of every sum depends on sizes alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from lamella.compiler.contraction_base import ContractionKernel, along, plain, plain_loads
from lamella.compiler.contraction_bytes import offset_alloc, offsets
from lamella.compiler.contraction_panels import LINE, Panel
from lamella.compiler.contraction_register import UNROLL, RegisterTile
from lamella.compiler.contraction_shapes import Shape
from lamella.compiler.fusion import Group
from lamella.compiler.mathlib.expand import FUNCTIONS
from lamella.compiler.walk import operations
from lamella.ir.dim import Size, product
from lamella.ir.index import (
    TRUE,
    add,
    both,
    constant,
    floordiv,
    lt,
    minimum,
    mod,
    mul,
    split_linear,
)  # fmt: skip
from lamella.ir.loops import Alloc, Apply, Expr, For, If, Load, Prefetch, Stmt, Store, Var
from lamella.ir.node import Node
from lamella.ir.vectors import VectorUnit
from lamella.ir.walk import expressions

__all__ = ["TileKernel"]

AHEAD = 16  # steps of k for which the right panel is asked for before
STREAMED = 4  # rows that take as long as reading what they are multiplied by
FAR = 1 << 18  # elements of a right factor that is more than caches keep from call to call
SHORT = 96  # operations of a tail that may be written out for every row of the register tile


class TileKernel(ContractionKernel):
    """Writes the kernel of one contraction with its tail."""

    def __init__(self, group: Group, needed: set[Node], unit: VectorUnit, shape: Shape) -> None:
        super().__init__(group, needed, unit, shape.swapped)
        if shape.in_place and self.sizes[1] % shape.rows != 0 and self.rereads():
            shape = replace(shape, in_place=False)
        s = self.shape = shape
        self.acc = RegisterTile(s.rows, s.columns, self.dtype, fused=self.fused)
        along_rows, along_k = self.runs_order()
        by_rows = along_k and not along_rows
        self.together = s.together if along_rows and not by_rows and not s.in_place else 1
        self.left_panels = Panel(
            "left", self.dtype, s.rows, s.depth, self.together, by_rows, self.lanes
        )
        self.right_panels = Panel(
            "right", self.dtype, s.columns, s.depth, s.column_panels, False, self.lanes
        )
        size = product(self.sizes[2:])
        many = s.row_panels > 1 and isinstance(size, int) and size >= FAR
        self.far = s.ready and many  # whether panels of columns are likely to come from memory
        self._allocs: list[Stmt] = [] if s.ready else [self.right_panels.alloc()]
        if not s.in_place:
            self._allocs.append(self.left_panels.alloc())
        if self.shifts:
            self._allocs.append(offset_alloc(s.rows))

    # -- the grid ----------------------------------------------------------------------------------
    def grid(self) -> For:
        """The kernel's grid loop."""
        s = self.shape
        batch, m, n, k = self.sizes
        tile_rows, tile_columns = s.rows * s.row_panels, s.columns * s.column_panels
        blocks = (batch, -((-m) // tile_rows), -((-n) // tile_columns))
        grid = Var("g", product(blocks))
        self.batch, at_m, at_n = split_linear(grid, blocks)
        self.row0, self.column0 = mul(at_m, tile_rows), mul(at_n, tile_columns)
        rows = max(tile_rows, STREAMED) if s.ready else tile_rows
        self.work = rows * tile_columns * k // 8 + 1
        self.k0: Expr = constant(0)
        self.count: Size | Expr = k
        if isinstance(k, int) and k <= s.depth:
            body = self._block(None)
        else:
            kb = Var("kb", _at_least_one(k, s.depth))
            self.k0 = mul(kb, s.depth)
            self.count = plain(minimum(s.depth, add(k, mul(self.k0, -1))))
            body = [For(kb, "serial", tuple(self._block(kb)))]
        return For(grid, "grid", (*self._allocs, *body))

    def _block(self, kb: Var | None) -> list[Stmt]:
        """One block of k."""
        s = self.shape
        _, m, n, _ = self.sizes
        pj = self.panels("mj", s.column_panels, n, self.column0, s.columns)
        pi = self.panels("mi", s.row_panels, m, self.row0, s.rows)
        return [*self._pack_right(pj), self._rows(pi, pj, kb)]

    def _rows(self, panels: Var, pj: Var, kb: Var | None) -> For:
        """Every panel of rows against all of columns: packed one by one, or some together."""

        def met(pi: Expr) -> tuple[Stmt, ...]:
            tiles = For(pj, "serial", tuple(self._tile(pi, pj, kb)))
            return *self._offsets(pi), tiles

        few = self.together
        if few == 1:
            return For(panels, "serial", (*self._pack_left(panels), *met(panels)))
        group = Var("mg", plain(floordiv(add(panels.extent, few - 1), few)))
        first = mul(group, few)
        each = Var("me", plain(minimum(few, add(panels.extent, mul(first, -1)))))
        pack = self._pack_together(first, each.extent)
        return For(group, "serial", (*pack, For(each, "serial", met(add(first, each)))))

    def _pack_right(self, pj: Var) -> list[Stmt]:
        """All panels of columns into scratch, unless they lie in memory so."""
        if self.shape.ready:
            return []
        qj = Var("qj", pj.extent)
        column0 = add(self.column0, mul(qj, self.shape.columns))
        pack = self.right_panels.fill(
            qj, self.valid(self.shape.columns, self.sizes[2], column0), self.count,
            lambda j, k: self.right(add(column0, j), add(self.k0, k)), self.right_runs[1],
        )  # fmt: skip
        return [For(qj, "serial", tuple(pack))]

    def _pack_left(self, pi: Expr) -> list[Stmt]:
        """A panel of rows into scratch, unless it is read in place."""
        if self.shape.in_place:
            return []
        row0 = self._row0(pi)
        return self.left_panels.fill(
            0, self.valid(self.shape.rows, self.sizes[1], row0), self.count,
            lambda i, k: self.left(add(row0, i), add(self.k0, k)), self.left_runs[1],
        )  # fmt: skip

    def _pack_together(self, first: Expr, count: Size | Expr) -> list[Stmt]:
        """Panels of rows from ``first`` on into scratch: whole lines of memory where all are full,
        else one after the other.
        """
        rows, few, run = self.shape.rows, self.together, self.left_runs[1]
        row0 = self._row0(first)

        def element(i: Expr, k: Expr) -> Expr:
            return self.left(add(row0, i), add(self.k0, k))

        all_of = self.left_panels.fill_all(self.count, element)
        valid = self.valid(rows * few, self.sizes[1], row0)
        full = both(lt(few - 1, count), lt(rows * few - 1, valid))
        if full == TRUE:
            return all_of
        q = Var("mq", count)
        start = mul(q, rows)
        part = self.left_panels.fill(
            q, self.valid(rows, self.sizes[1], add(row0, start)), self.count,
            lambda i, k: element(add(start, i), k), run,
        )  # fmt: skip
        return [If(full, tuple(all_of), (For(q, "serial", tuple(part)),))]

    def _offsets(self, pi: Expr) -> list[Stmt]:
        """What the sums of a panel's rows begin with, where that is not zero."""
        if not self.shifts:
            return []
        return [offsets(self.shape.rows, self.count, lambda i, k: self._left(pi, i, k))]

    def _left(self, pi: Expr, i: Expr, k: Expr) -> Expr:
        """An element of a panel of rows, where the register tile reads it."""
        if self.shape.in_place:
            return self.left(add(self._row0(pi), i), add(self.k0, k))
        return self.left_panels.load(mod(pi, self.together), i, k)

    def _row0(self, pi: Expr) -> Expr:
        """The first row of a panel; read in place, the last one begins early enough to be full."""
        row0, m = add(self.row0, mul(pi, self.shape.rows)), self.sizes[1]
        if not self.shape.in_place or m % self.shape.rows == 0:
            return row0
        return minimum(row0, m - self.shape.rows)

    def _tile(self, pi: Expr, pj: Var, kb: Var | None) -> list[Stmt]:
        """One register tile; at the edge, as many of its vectors as hold columns."""
        s, n = self.shape, self.sizes[2]
        multiply = self._multiply(pi, pj, kb)
        few = -(-(n % s.columns) // self.lanes) * self.lanes if isinstance(n, int) else 0
        if 0 < few < s.columns:
            whole = lt(add(self.column0, mul(pj, s.columns), s.columns - 1), n)
            multiply = [If(whole, tuple(multiply), tuple(self._multiply(pi, pj, kb, few)))]
        hints = self._hints(pi, pj, kb)
        return [*self.acc.clear(self.start), *hints, *multiply, *self._finish(pi, pj, kb)]

    def _multiply(self, pi: Expr, pj: Var, kb: Var | None, columns: int = 0) -> list[Stmt]:
        """Add the products of a block of k."""
        return self.acc.multiply(
            self.count,
            lambda i, k: self._left(pi, i, k),
            lambda k, j: self._right(pj, k, j),
            whole=not self.shape.in_place,
            soon=lambda k: [*self._soon(pj, add(k, AHEAD)), *self._later(pi, pj, kb, k)],
            columns=columns,
        )

    def _hints(self, pi: Expr, pj: Var, kb: Var | None) -> list[Stmt]:
        """Ask for what the tail reads, while the sums are computed that it waits for."""
        s = self.shape
        column0 = add(self.column0, mul(pj, s.columns))
        hints = self.tail_hints(self._row0(pi), column0, s.rows, s.columns)
        if kb is None or not hints:
            return hints
        return [If(lt(add(kb.extent, -2), kb), tuple(hints))]

    def _right(self, pj: Var, k: Expr, j: Expr) -> Expr:
        """An element of a panel of columns."""
        if not self.shape.ready:
            return self.right_panels.load(pj, j, k)
        column = add(self.column0, mul(pj, self.shape.columns), j)
        return self.right(column, add(self.k0, k))

    def _soon(self, pj: Var, k: Expr) -> list[Stmt]:
        """Hints for a turn's steps of a panel of columns."""
        if not self.shape.ready:
            return self.right_panels.soon(pj, k)
        first = self._right(pj, k, constant(0))
        return self._lines(first, constant(0), UNROLL * self.shape.columns)

    def _later(self, pi: Expr, pj: Var, kb: Var | None, k: Expr) -> list[Stmt]:
        """Hints for the panels of the next block, where they lie in memory, which is likely to give
        them only once: every turn of every panel of rows asks for a part.
        """
        s, steps = self.shape, self.sizes[3]
        if not self.far or not isinstance(steps, int):
            return []
        each = -(-UNROLL * s.columns // s.row_panels)
        blocks = max(1, -(-steps // s.depth))
        after = add(kb or 0, 1)
        jump = floordiv(after, blocks)
        k0 = mul(add(after, mul(jump, -blocks)), s.depth)
        panel = add(pj, mul(jump, s.column_panels))
        column = add(self.column0, mul(panel, s.columns))
        turn = add(mul(pi, s.depth // UNROLL), floordiv(k, UNROLL))
        return self._lines(self.right(column, k0), mul(turn, each), each, 2)

    def _lines(
        self, value: Expr, start: Expr, count: int, level: Literal[1, 2] = 1
    ) -> list[Stmt]:
        """Hints for ``count`` elements from ``start`` on behind one that lies in memory."""
        line = LINE // self.dtype.itemsize
        return [
            Prefetch(load.buffer, add(load.index, start, at), level)
            for load in plain_loads(value)
            for at in range(0, count, line)
        ]

    # -- the end of a tile -------------------------------------------------------------------------
    def _finish(self, pi: Expr, pj: Var, kb: Var | None) -> list[Stmt]:
        """Add what earlier blocks of k made, and behind the last block compute the tail."""
        s = self.shape
        row0, column0 = self._row0(pi), add(self.column0, mul(pj, s.columns))
        rows = s.rows if s.in_place else self.valid(s.rows, self.sizes[1], row0)
        columns = self.valid(s.columns, self.sizes[2], column0)
        direct = self._direct(row0, column0) if kb is None else None
        whole = both(lt(s.rows - 1, rows), lt(s.columns - 1, columns))
        if direct is not None and whole == TRUE:
            return [direct]
        panel = add(mul(pj, s.row_panels), pi) if kb is not None else constant(0)
        place = mul(panel, s.rows * s.columns)
        tail = self.tail_loops("tile", place, s.columns, (row0, rows), (column0, columns))
        through = self._through_scratch(place, kb, tail)
        return through if direct is None else [If(whole, (direct,), tuple(through))]

    def _direct(self, row0: Expr, column0: Expr) -> Stmt | None:
        """The tail from the accumulators of a whole tile, where it is short and runs along the
        columns. Functions need the registers that the other accumulators would wait in.
        """
        s = self.shape
        i, j = Var("wi", s.rows), Var("wj", s.columns)
        stores = self.tail(self.acc.value(i, j), add(row0, i), add(column0, j))
        values = [x.value for x in stores]
        if any(isinstance(e, Apply) and e.op in FUNCTIONS for e in expressions(values)):
            return None
        if not along(stores, j) or operations(values) * s.rows > SHORT:
            return None
        return For(i, "unroll", (For(j, "lanes", tuple(stores)),))

    def _through_scratch(self, place: Expr, kb: Var | None, tail: Stmt) -> list[Stmt]:
        s = self.shape
        count = s.row_panels * s.column_panels if kb is not None else 1
        self._allocs.append(Alloc("tile", self.dtype, s.rows * s.columns * count, "local"))
        if kb is None:
            return [self._keep(place, "", False), tail]
        last = lt(add(kb.extent, -2), kb)
        return [
            If(lt(0, kb), (self._keep(place, "", True),), (self._keep(place, "f", False),)),
            If(last, (tail,)),
        ]

    def _keep(self, place: Expr, tag: str, more: bool) -> Stmt:
        """The accumulators into scratch, or added to what is there."""
        s = self.shape
        i, j = Var("ki" + tag, s.rows), Var("kj" + tag, s.columns)
        at = add(place, mul(i, s.columns), j)
        value = self.acc.value(i, j)
        if more:
            value = Apply("add", (Load("tile", at, self.dtype), value), self.dtype)
        return For(i, "unroll", (For(j, "lanes", (Store("tile", at, value),)),))


def _at_least_one(k: Size, depth: int) -> Size | Expr:
    """The blocks of k; one where there is nothing to sum, so that the tail runs."""
    if isinstance(k, int):
        return max(1, -(-k // depth))
    blocks = constant(-((-k) // depth))
    return Apply("max", (blocks, constant(1)), blocks.dtype)
