"""The tiled schedule of contractions: packed panels, a register tile, and the elementwise tail on
each finished tile.

Input: a group of kind "tiles". Output: its kernel's grid loop, and that of the kernel that packs
its right factor before, where several blocks of rows need it. A grid iteration makes one block of
the result. For each block of k it packs the left factor's panels (whatever expression it is:
transposed, cast, gathered from an image) into local scratch; then, panel by panel of columns, it
packs the right factor's, unless that is done, and multiplies it with every panel of rows in the
register tile. What a tile has from earlier blocks of k is added in scratch; behind the last block
the tail is computed from it and stored. The order of every sum depends on sizes alone.
"""

from __future__ import annotations

from lamella.compiler.contraction_base import ContractionKernel, along, plain
from lamella.compiler.contraction_panels import Panel
from lamella.compiler.contraction_register import UNROLL, RegisterTile
from lamella.compiler.contraction_shapes import Shape
from lamella.compiler.fusion import Group
from lamella.compiler.walk import operations
from lamella.ir.dim import Size, ceildiv, product
from lamella.ir.index import (
    TRUE,
    add,
    both,
    constant,
    floordiv,
    lt,
    minimum,
    mul,
    split_linear,
)  # fmt: skip
from lamella.ir.loops import Alloc, Apply, Expr, For, If, Load, Stmt, Store, Var
from lamella.ir.node import Node

__all__ = ["TileKernel"]

PACK_STEPS = 128  # steps of k that a grid iteration packs; a multiple of ``UNROLL``
PACK_PANELS = 2  # panels that a grid iteration packs
AHEAD = 16  # steps of k for which the right panel is asked for before
SHORT = 96  # operations of a tail that may be written out for every row of the register tile


class TileKernel(ContractionKernel):
    """Writes the kernel of one contraction with its tail."""

    def __init__(self, group: Group, needed: set[Node], vector_bytes: int, shape: Shape) -> None:
        super().__init__(group, needed, vector_bytes, shape.swapped)
        self.shape = shape
        self.packing_work = 2 * PACK_STEPS * PACK_PANELS * shape.columns
        self.acc = RegisterTile(shape.rows, shape.columns, self.dtype)
        self._allocs: list[Stmt] = []

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
        left, right = self._left_panels(), self._right_panels()
        self._allocs = [left.alloc()] if s.shared else [left.alloc(), right.alloc()]
        pj = self.panels("mj", s.column_panels, n, self.column0, s.columns)
        pi = self.panels("mi", s.row_panels, m, self.row0, s.rows)
        qi = Var("qi", pi.extent)
        row0, column0 = add(self.row0, mul(qi, s.rows)), add(self.column0, mul(pj, s.columns))
        pack = left.fill(
            qi, self.valid(s.rows, m, row0), self.count,
            lambda i, k: self.left(add(row0, i), add(self.k0, k)),
        )  # fmt: skip
        inner: list[Stmt] = []
        if not s.shared:
            inner += right.fill(
                0, self.valid(s.columns, n, column0), self.count,
                lambda j, k: self.right(add(column0, j), add(self.k0, k)),
            )  # fmt: skip
        which, start = (self._shared_panel(pj), self.k0) if s.shared else (0, constant(0))
        multiply = self.acc.multiply(
            self.count,
            lambda i, k: left.load(pi, i, k),
            lambda k, j: right.load(which, j, add(start, k)),
            whole=True,
            soon=lambda k: right.soon(which, add(start, k, AHEAD)),
        )
        tile = (*self.acc.clear(), *multiply, *self._finish(pi, pj, kb))
        inner.append(For(pi, "serial", tile))
        return [For(qi, "serial", tuple(pack)), For(pj, "serial", tuple(inner))]

    # -- panels ------------------------------------------------------------------------------------
    def _left_panels(self) -> Panel:
        s = self.shape
        (along_rows, along_k), _ = self.order()
        by_rows = along_k and not along_rows
        return Panel("left", self.dtype, s.rows, s.depth, s.row_panels, by_rows, self.lanes)

    def _right_panels(self) -> Panel:
        """The right factor's panel in scratch, or all of them, one batch behind the other."""
        s = self.shape
        if not s.shared:
            return Panel("right", self.dtype, s.columns, s.depth, 1, False, self.lanes)
        _, _, n, k = self.sizes
        if not isinstance(n, int) or not isinstance(k, int):
            raise TypeError("a factor of unknown size is not packed as a whole")
        depth, count = -(-k // UNROLL) * UNROLL, -(-n // s.columns)
        return Panel(self.packed, self.dtype, s.columns, depth, count, False, self.lanes)

    def _shared_panel(self, pj: Var) -> Expr:
        """The panel of the packed factor that column panel ``pj`` of this block is."""
        first = floordiv(self.column0, self.shape.columns)
        batch = self.batch if self.right_batch() != 1 else constant(0)
        return add(mul(batch, self._right_panels().count), first, pj)

    def packing(self) -> For | None:
        """The grid loop of the kernel that packs the right factor, if the schedule wants one."""
        if not self.shape.shared:
            return None
        columns, panels = self.shape.columns, self._right_panels()
        _, _, n, k = self.sizes
        self.packed_size = self.right_batch() * panels.size
        steps = max(1, ceildiv(k, PACK_STEPS))
        blocks = (self.right_batch(), ceildiv(panels.count, PACK_PANELS), steps)
        grid = Var("g", product(blocks))
        at_batch, at_n, at_k = split_linear(grid, blocks)
        first, k0 = mul(at_n, PACK_PANELS), mul(at_k, PACK_STEPS)
        panel = self.panels("mp", PACK_PANELS, n, mul(first, columns), columns)
        column0 = mul(add(first, panel), columns)
        fill = panels.fill(
            add(mul(at_batch, panels.count), first, panel),
            self.valid(columns, n, column0),
            plain(minimum(PACK_STEPS, add(k, mul(k0, -1)))),
            lambda j, step: self.right(add(column0, j), add(k0, step), at_batch),
            k0,
        )
        return For(grid, "grid", (For(panel, "serial", tuple(fill)),))

    # -- the end of a tile -------------------------------------------------------------------------
    def _finish(self, pi: Var, pj: Var, kb: Var | None) -> list[Stmt]:
        """Add what earlier blocks of k made, and behind the last block compute the tail."""
        s = self.shape
        row0, column0 = add(self.row0, mul(pi, s.rows)), add(self.column0, mul(pj, s.columns))
        rows = self.valid(s.rows, self.sizes[1], row0)
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
