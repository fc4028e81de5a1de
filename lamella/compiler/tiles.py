"""The tiled schedule of contractions: packed panels, a register tile, and the elementwise tail on
each finished tile.

Input: a group of kind "tiles": one contraction and the elementwise statements on its result.
Output: its kernel's grid loop. A grid iteration makes one block of the result. For each block of k
it packs the left factor's panels (whatever expression it is: transposed, cast, gathered from an
image) into local scratch; then, panel by panel of columns, it packs the right factor's and
multiplies it with every panel of rows in the register tile. What a tile has from earlier blocks of
k is added in scratch; behind the last block the tail is computed from it and stored. The order of
every sum depends on sizes alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from lamella.compiler.contraction_panels import Panel, contiguous
from lamella.compiler.contraction_register import UNROLL, RegisterTile
from lamella.compiler.contraction_shapes import Shape, choose
from lamella.compiler.fusion import Group
from lamella.compiler.statements import Statement, Tiles
from lamella.compiler.walk import expressions, operations
from lamella.ir.dim import Size, ceildiv, product
from lamella.ir.index import (
    TRUE,
    Substitution,
    add,
    both,
    coefficient,
    constant,
    floordiv,
    linearise,
    lt,
    minimum,
    mul,
    parts,
    split_linear,
)  # fmt: skip
from lamella.ir.loops import Alloc, Apply, Const, Expr, For, If, Load, Stmt, Store, Var, cast
from lamella.ir.node import Node

__all__ = ["Shape", "TileKernel", "choose"]

PACK_STEPS = 128  # steps of k that a grid iteration packs; a multiple of ``UNROLL``
PACK_PANELS = 2  # panels that a grid iteration packs
SHORT = 96  # operations of a tail that may be written out for every row of the register tile


class TileKernel:
    """Writes the kernel of one contraction with its tail."""

    def __init__(
        self, group: Group, needed: set[Node], vector_bytes: int, shape: Shape | None = None
    ) -> None:
        self.group = group
        self.needed = needed
        first = group.members[0]
        if first.tiles is None:
            raise ValueError("a group of kind tiles starts with a contraction")
        self.first: Statement = first
        self.tiles: Tiles = first.tiles
        what = self.tiles.description
        self.dtype = what.accumulate
        self.sizes = tuple(product(axes) for axes in (what.batch, what.m, what.n, what.k))
        batch, m, n, k = self.sizes
        self.shape = shape or choose(vector_bytes, self.dtype, m, n, k, batch)
        self.block = max(1, vector_bytes // self.dtype.itemsize)
        self.work: Size = 1
        self.packed = f"{first.name}_right"
        self.packed_size: Size = 0
        self.packing_work = 2 * PACK_STEPS * PACK_PANELS * self.shape.columns

    # -- the grid ----------------------------------------------------------------------------------
    def grid(self) -> For:
        """The kernel's grid loop."""
        s = self.shape
        batch, m, n, k = self.sizes
        tile_rows, tile_columns = s.rows * s.row_panels, s.columns * s.column_panels
        blocks = (batch, -((-m) // tile_rows), -((-n) // tile_columns))
        grid = Var("g", product(blocks))
        at_batch, at_m, at_n = split_linear(grid, blocks)
        self.batch = at_batch
        self.row0, self.column0 = mul(at_m, tile_rows), mul(at_n, tile_columns)
        self.work = tile_rows * tile_columns * k // 8 + 1
        several = not isinstance(k, int) or k > s.depth
        turns = _at_least_one(k, s.depth)
        kb = Var("kb", turns)
        self.k0: Expr = mul(kb, s.depth) if several else constant(0)
        self.count = _plain(minimum(s.depth, add(k, mul(self.k0, -1)))) if several else k
        self.acc = RegisterTile(s.rows, s.columns, self.dtype)
        body = self._block(kb if several else None)
        allocs = [*self._allocs]
        if several:
            body = [For(kb, "serial", tuple(body))]
        return For(grid, "grid", (*allocs, *body))

    # -- the right factor, packed before the grid starts -----------------------------------------
    def _shared(self) -> Panel:
        """All of the right factor's panels, one batch behind the other."""
        s = self.shape
        _, _, n, k = self.sizes
        if not isinstance(n, int) or not isinstance(k, int):
            raise TypeError("a factor of unknown size is not packed as a whole")
        depth, count = -(-k // UNROLL) * UNROLL, -(-n // s.columns)
        return Panel(self.packed, self.dtype, s.columns, depth, count, False, self.block)

    def packing(self) -> For | None:
        """The grid loop of the kernel that packs the right factor, if the schedule wants one."""
        if not self.shape.shared:
            return None
        s, shared = self.shape, self._shared()
        _, _, n, k = self.sizes
        batch = self._right_batch()
        self.packed_size = batch * shared.size
        blocks = (batch, ceildiv(shared.count, PACK_PANELS), max(1, ceildiv(k, PACK_STEPS)))
        grid = Var("g", product(blocks))
        at_batch, at_n, at_k = split_linear(grid, blocks)
        k0 = mul(at_k, PACK_STEPS)
        group = mul(at_n, PACK_PANELS)
        panel = self._panels("mp", PACK_PANELS, n, mul(group, s.columns), s.columns)
        column0 = mul(add(group, panel), s.columns)
        fill = shared.fill(
            add(mul(at_batch, shared.count), group, panel),
            self._valid(s.columns, n, column0),
            _plain(minimum(PACK_STEPS, add(k, mul(k0, -1)))),
            lambda j, step: self._right(add(column0, j), add(k0, step), at_batch),
            k0,
        )
        return For(grid, "grid", (For(panel, "serial", tuple(fill)),))

    def _right_batch(self) -> Size:
        """The batches of the right factor that differ: one where no index of the batch is in it."""
        used = any(v in self.tiles.batch for v in expressions([self.tiles.right]))
        return self.sizes[0] if used else 1

    def _block(self, kb: Var | None) -> list[Stmt]:
        """One block of k."""
        s = self.shape
        left = self._panel("left", s.rows, s.row_panels)
        right = self._shared() if s.shared else self._panel("right", s.columns, 1)
        self._allocs: list[Stmt] = [left.alloc()] if s.shared else [left.alloc(), right.alloc()]
        pj = self._panels("mj", s.column_panels, self.sizes[2], self.column0, s.columns)
        pi = self._panels("mi", s.row_panels, self.sizes[1], self.row0, s.rows)
        qi = Var("qi", pi.extent)
        columns = add(self.column0, mul(pj, s.columns))
        row0 = add(self.row0, mul(qi, s.rows))
        pack = left.fill(
            qi, self._valid(s.rows, self.sizes[1], row0), self.count,
            lambda i, k: self._left(add(row0, i), add(self.k0, k)),
        )  # fmt: skip
        body: list[Stmt] = [For(qi, "serial", tuple(pack))]
        inner: list[Stmt] = [] if s.shared else right.fill(
            0, self._valid(s.columns, self.sizes[2], columns),
            self.count, lambda j, k: self._right(add(columns, j), add(self.k0, k), self.batch),
        )  # fmt: skip
        which, start = (self._shared_panel(pj), self.k0) if s.shared else (constant(0), constant(0))
        tile: list[Stmt] = [
            *self.acc.clear(),
            *self.acc.multiply(
                self.count,
                lambda i, k: left.load(pi, i, k),
                lambda k, j: right.load(which, j, add(start, k)),
                whole=True,
            ),
            *self._finish(pi, pj, kb),
        ]
        inner.append(For(pi, "serial", tuple(tile)))
        body.append(For(pj, "serial", tuple(inner)))
        return body

    # -- factors -----------------------------------------------------------------------------------
    def _element(self, value: Expr, *axes: tuple[tuple[Var, ...], Expr]) -> Expr:
        """A factor's element with its axes at the given linear positions."""
        variables: dict[Var, Expr] = {}
        for names, position in axes:
            sizes = tuple(v.size for v in names)
            variables.update(zip(names, split_linear(position, sizes), strict=True))
        return cast(Substitution(variables)(value), self.dtype)

    def _left(self, row: Expr, k: Expr) -> Expr:
        t = self.tiles
        return self._element(t.left, (t.batch, self.batch), (t.m, row), (t.k, k))

    def _right(self, column: Expr, k: Expr, batch: Expr) -> Expr:
        t = self.tiles
        return self._element(t.right, (t.batch, batch), (t.k, k), (t.n, column))

    def _shared_panel(self, pj: Var) -> Expr:
        """The panel of the packed factor that column panel ``pj`` of this block is."""
        first = floordiv(self.column0, self.shape.columns)
        batch = self.batch if self._right_batch() != 1 else constant(0)
        return add(mul(batch, self._shared().count), first, pj)

    def _panel(self, name: str, across: int, count: int) -> Panel:
        depth = self.shape.depth
        by_rows = False
        if name == "left":
            probe = (Var("left_x", self.sizes[1]), Var("left_y", self.sizes[3]))
            along_rows, along_k = contiguous(self._left, probe)
            by_rows = along_k and not along_rows
        return Panel(name, self.dtype, across, depth, count, by_rows, self.block)

    # -- extents -----------------------------------------------------------------------------------
    def _panels(self, name: str, most: int, size: Size, start: Expr, step: int) -> Var:
        """A loop over the panels of a block that hold anything."""
        if isinstance(size, int) and size % (most * step) == 0:
            return Var(name, most)
        used = floordiv(add(size, mul(start, -1), step - 1), step)
        return Var(name, _plain(minimum(most, used)))

    def _valid(self, step: int, size: Size, start: Expr) -> Size | Expr:
        """Positions of a panel that are inside the result."""
        if isinstance(size, int) and (size % step == 0 or size <= step):
            return step if size % step == 0 else size
        return _plain(minimum(step, add(size, mul(start, -1))))

    # -- the end of a tile -------------------------------------------------------------------------
    def _finish(self, pi: Var, pj: Var, kb: Var | None) -> list[Stmt]:
        """Add what earlier blocks of k made, and behind the last block compute the tail."""
        s = self.shape
        row0, column0 = add(self.row0, mul(pi, s.rows)), add(self.column0, mul(pj, s.columns))
        rows = self._valid(s.rows, self.sizes[1], row0)
        columns = self._valid(s.columns, self.sizes[2], column0)
        direct = self._direct(row0, column0) if kb is None else None
        whole = both(lt(s.rows - 1, rows), lt(s.columns - 1, columns))
        if direct is not None and whole == TRUE:
            return [direct]
        through = self._through_scratch(pi, pj, kb, (row0, rows), (column0, columns))
        return through if direct is None else [If(whole, (direct,), tuple(through))]

    def _direct(self, row0: Expr, column0: Expr) -> Stmt | None:
        """The tail from the accumulators of a whole tile, where it is short and runs along the
        columns.
        """
        s = self.shape
        i, j = Var("wi", s.rows), Var("wj", s.columns)
        stores = self._tail(self.acc.value(i, j), add(row0, i), add(column0, j))
        along = all(coefficient(x.index, j) == 1 for x in stores)
        if not along or operations([x.value for x in stores]) * s.rows > SHORT:
            return None
        return For(i, "unroll", (For(j, "lanes", tuple(stores)),))

    def _through_scratch(
        self,
        pi: Var,
        pj: Var,
        kb: Var | None,
        at_row: tuple[Expr, Size | Expr],
        at_column: tuple[Expr, Size | Expr],
    ) -> list[Stmt]:
        s = self.shape
        each = s.rows * s.columns
        panel = mul(add(mul(pj, s.row_panels), pi), each) if kb is not None else constant(0)
        count = s.row_panels * s.column_panels if kb is not None else 1
        self._allocs.append(Alloc("tile", self.dtype, each * count, "local"))

        def keep(tag: str, more: bool) -> Stmt:
            i, j = Var("ki" + tag, s.rows), Var("kj" + tag, s.columns)
            place = add(panel, mul(i, s.columns), j)
            value = self.acc.value(i, j)
            if more:
                value = Apply("add", (Load("tile", place, self.dtype), value), self.dtype)
            return For(i, "unroll", (For(j, "lanes", (Store("tile", place, value),)),))

        i, j = Var("ti", at_row[1]), Var("tj", at_column[1])
        tile = Load("tile", add(panel, mul(i, s.columns), j), self.dtype)
        stores = self._tail(tile, add(at_row[0], i), add(at_column[0], j))
        inner, outer = (i, j) if self._along_rows(stores, i, j) else (j, i)
        tail = For(outer, "serial", (For(inner, "lanes", tuple(stores)),))
        if kb is None:
            return [keep("", False), tail]
        last = lt(add(_extent(kb), -2), kb)
        return [
            If(lt(0, kb), (keep("", True),), (keep("f", False),)),
            If(last, (tail,)) if last != TRUE else tail,
        ]

    def _tail(self, product: Expr, row: Expr, column: Expr) -> list[Store]:
        """Every member's element from the finished sum at (row, column)."""
        t = self.tiles
        variables: dict[Var, Expr] = {}
        for names, position in ((t.batch, self.batch), (t.m, row), (t.n, column)):
            sizes = tuple(v.size for v in names)
            variables.update(zip(names, split_linear(position, sizes), strict=True))
        index = tuple(Substitution(variables)(e) for e in t.index)
        values: dict[str, Expr] = {self.first.name: cast(product, self.first.node.dtype)}
        stores: list[Store] = []
        for member in self.group.members:
            if member is not self.first:
                values[member.name] = self._member(member, index, values)
            if member.node in self.needed:
                place = linearise(index, member.node.shape)
                stores.append(Store(member.name, place, values[member.name]))
        return stores

    def _member(self, member: Statement, index: tuple[Expr, ...], values: dict[str, Expr]) -> Expr:
        variables = dict(zip(member.out, index, strict=True))
        inside = {m.name for m in self.group.members}

        def load(_: Load, new: Load) -> Expr:
            return values[new.buffer] if new.buffer in inside else new

        value = member.value or Const(0, member.node.dtype)
        return Substitution(variables, load)(value)

    def _along_rows(self, stores: Sequence[Store], i: Var, j: Var) -> bool:
        return bool(stores) and all(
            coefficient(s.index, i) == 1 and coefficient(s.index, j) != 1 for s in stores
        )


def _plain(extent: Size | Expr) -> Size | Expr:
    """An extent that is no expression, if it can be."""
    const, terms = parts(extent)
    return extent if terms else const


def _extent(var: Var) -> Expr | Size:
    return var.extent


def _at_least_one(k: Size, depth: int) -> Size | Expr:
    """The blocks of k; one where there is nothing to sum, so that the tail runs."""
    if isinstance(k, int):
        return max(1, -(-k // depth))
    blocks = constant(-((-k) // depth))
    return Apply("max", (blocks, constant(1)), blocks.dtype)
