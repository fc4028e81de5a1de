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

from lamella.compiler.contraction_base import ContractionKernel, along, plain
from lamella.compiler.contraction_panels import Panel
from lamella.compiler.contraction_register import RegisterTile, zero
from lamella.compiler.contraction_shapes import Shape
from lamella.compiler.fusion import Group
from lamella.compiler.walk import expressions, operations
from lamella.ir.dim import Size, product
from lamella.ir.index import TRUE, add, both, constant, lt, minimum, mul, split_linear
from lamella.ir.loops import Alloc, Apply, Expr, For, If, Load, Stmt, Store, Var
from lamella.ir.node import Node

__all__ = ["TileKernel"]

AHEAD = 16  # steps of k for which the right panel is asked for before
SHORT = 96  # operations of a tail that may be written out for every row of the register tile


class TileKernel(ContractionKernel):
    """Writes the kernel of one contraction with its tail."""

    def __init__(self, group: Group, needed: set[Node], vector_bytes: int, shape: Shape) -> None:
        super().__init__(group, needed, vector_bytes, shape.swapped)
        if shape.in_place and self.sizes[1] % shape.rows != 0 and self._rereads():
            shape = replace(shape, in_place=False)
        s = self.shape = shape
        self.acc = RegisterTile(s.rows, s.columns, self.dtype)
        (along_rows, along_k), _ = self.order()
        by_rows = along_k and not along_rows
        self.left_panel = Panel("left", self.dtype, s.rows, s.depth, 1, by_rows, self.lanes)
        self.right_panels = Panel(
            "right", self.dtype, s.columns, s.depth, s.column_panels, False, self.lanes
        )
        self._allocs: list[Stmt] = [self.right_panels.alloc()]
        if not s.in_place:
            self._allocs.append(self.left_panel.alloc())

    def _rereads(self) -> bool:
        """Whether the tail reads where it stores: then no row may be computed twice, because the
        result may be written over what is read.
        """
        row, column = Var("left_x", self.sizes[1]), Var("right_x", self.sizes[2])
        stores = self.tail(zero(self.dtype), row, column)
        places = {s.index for s in stores}
        loads = (e for e in expressions([s.value for s in stores]) if isinstance(e, Load))
        return any(e.index in places for e in loads)

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
        self.work = tile_rows * tile_columns * k // 8 + 1
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
        qj = Var("qj", pj.extent)
        column0 = add(self.column0, mul(qj, s.columns))
        pack = self.right_panels.fill(
            qj, self.valid(s.columns, n, column0), self.count,
            lambda j, k: self.right(add(column0, j), add(self.k0, k)),
        )  # fmt: skip
        tiles = For(pj, "serial", tuple(self._tile(pi, pj, kb)))
        rows = For(pi, "serial", (*self._pack_left(pi), tiles))
        return [For(qj, "serial", tuple(pack)), rows]

    def _pack_left(self, pi: Var) -> list[Stmt]:
        """A panel of rows into scratch, unless it is read in place."""
        if self.shape.in_place:
            return []
        row0 = self._row0(pi)
        return self.left_panel.fill(
            0, self.valid(self.shape.rows, self.sizes[1], row0), self.count,
            lambda i, k: self.left(add(row0, i), add(self.k0, k)),
        )  # fmt: skip

    def _row0(self, pi: Var) -> Expr:
        """The first row of a panel; read in place, the last one begins early enough to be full."""
        row0, m = add(self.row0, mul(pi, self.shape.rows)), self.sizes[1]
        if not self.shape.in_place or m % self.shape.rows == 0:
            return row0
        return minimum(row0, m - self.shape.rows)

    def _tile(self, pi: Var, pj: Var, kb: Var | None) -> list[Stmt]:
        """One register tile."""
        s, right, row0 = self.shape, self.right_panels, self._row0(pi)

        def load_left(i: Expr, k: Expr) -> Expr:
            if s.in_place:
                return self.left(add(row0, i), add(self.k0, k))
            return self.left_panel.load(0, i, k)

        multiply = self.acc.multiply(
            self.count,
            load_left,
            lambda k, j: right.load(pj, j, k),
            whole=not s.in_place,
            soon=lambda k: right.soon(pj, add(k, AHEAD)),
        )
        return [*self.acc.clear(), *multiply, *self._finish(pi, pj, kb)]

    # -- the end of a tile -------------------------------------------------------------------------
    def _finish(self, pi: Var, pj: Var, kb: Var | None) -> list[Stmt]:
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
        columns.
        """
        s = self.shape
        i, j = Var("wi", s.rows), Var("wj", s.columns)
        stores = self.tail(self.acc.value(i, j), add(row0, i), add(column0, j))
        if not along(stores, j) or operations([x.value for x in stores]) * s.rows > SHORT:
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
