"""The tiled schedule of contractions: packed panels, a register tile, and the elementwise tail on
each finished tile.

Input: a group of kind "tiles": one contraction and the elementwise statements on its result.
Output: its kernel's grid loop. A grid iteration makes one
``rows x columns`` tile of the result: for each block of k it packs a panel of the left and of the
right factor (whatever expressions they are:
transposed, cast, gathered from an image) into local scratch with zeros beyond the edges, multiplies
them in register tiles, and adds to the tile in scratch; at the end the tail is computed from the
tile and stored. The order of every sum depends on sizes alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamella.compiler.fusion import Group
from lamella.compiler.statements import Statement, Tiles
from lamella.compiler.walk import expressions
from lamella.dtypes import DType
from lamella.ir.dim import Size, product
from lamella.ir.index import (
    TRUE,
    Substitution,
    add,
    both,
    coefficient,
    floordiv,
    linearise,
    lt,
    minimum,
    mul,
    parts,
    split_linear,
)  # fmt: skip
from lamella.ir.loops import (
    Alloc,
    Apply,
    Const,
    Expr,
    For,
    Load,
    LoopKind,
    Stmt,
    Store,
    Var,
    cast,
)  # fmt: skip
from lamella.ir.node import Node

__all__ = ["Shape", "TileKernel", "choose"]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of one schedule: the register tile, panels per tile, and the depth of a block of k."""

    rows: int  # of the register tile
    columns: int  # of the register tile
    row_panels: int
    column_panels: int
    depth: int


# bytes of scratch a tile may use: most of a core's second-level cache on small machines
LOCAL = 224 * 1024


def choose(vector_bytes: int, dtype: DType, m: Size, n: Size, k: Size, batch: Size) -> Shape:
    """The schedule for a machine's vectors and a problem's size."""
    lanes = max(1, vector_bytes // dtype.itemsize)
    rows, columns = (
        (12, 2 * lanes)
        if vector_bytes >= 64
        else ((6, 2 * lanes) if vector_bytes == 32 else (4, 2 * lanes))
    )
    if isinstance(m, int):
        rows = max(1, min(rows, m)) if m < rows else _even_rows(m, rows)
    depth = 256 if not isinstance(k, int) else max(1, min(256, k))
    if isinstance(k, int) and k > 256:
        depth = -(-k // -(-k // 256))  # equal blocks
    row_panels, column_panels = 8, 4
    if isinstance(m, int):
        row_panels = max(1, min(row_panels, -(-m // rows)))
    if isinstance(n, int):
        column_panels = max(1, min(column_panels, -(-n // columns)))
    while _bytes(rows, columns, row_panels, column_panels, depth, dtype) > LOCAL:
        if depth > 128:
            depth = (depth + 1) // 2
        elif row_panels >= column_panels and row_panels > 1:
            row_panels = (row_panels + 1) // 2
        elif column_panels > 1:
            column_panels = (column_panels + 1) // 2
        else:
            depth = (depth + 1) // 2
    return Shape(rows, columns, row_panels, column_panels, depth)


def _even_rows(m: int, rows: int) -> int:
    """Rows of the register tile such that the last panel is nearly as full as the others."""
    panels = -(-m // rows)
    return max(1, -(-m // panels))


def _bytes(
    rows: int, columns: int, row_panels: int, column_panels: int, depth: int, dtype: DType
) -> int:
    left, right = rows * row_panels * depth, columns * column_panels * depth
    return (left + right + rows * row_panels * columns * column_panels) * dtype.itemsize


class TileKernel:
    """Writes the kernel of one contraction with its tail."""

    def __init__(self, group: Group, needed: set[Node], vector_bytes: int) -> None:
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
        self.shape = choose(vector_bytes, self.dtype, m, n, k, batch)
        self.work: Size = 1

    # -- helpers -----------------------------------------------------------------------------------
    def _loader(
        self, value: Expr, axes: Sequence[tuple[tuple[Var, ...], Expr]], inside: Expr
    ) -> Expr:
        """A factor's element with its axes at the given linear positions, zero where not
        ``inside``.
        """
        variables: dict[Var, Expr] = {}
        for names, position in axes:

            variables.update(
                zip(names, split_linear(position, tuple(v.size for v in names)), strict=True)
            )

        def load(_: Load, new: Load) -> Load:
            mask = inside if new.mask is None else both(inside, new.mask)
            return Load(new.buffer, new.index, new.dtype, None if mask == TRUE else mask, new.other)

        return cast(Substitution(variables, load)(value), self.dtype)

    def grid(self) -> For:
        """The kernel's grid loop."""
        s = self.shape
        batch, m, n, k = self.sizes
        tile_rows, tile_columns = s.rows * s.row_panels, s.columns * s.column_panels
        blocks = (batch, -((-m) // tile_rows), -((-n) // tile_columns))
        grid = Var("g", product(blocks))
        at_batch, at_m, at_n = split_linear(grid, blocks)
        row0, column0 = mul(at_m, tile_rows), mul(at_n, tile_columns)
        depth_blocks = -((-k) // s.depth)
        self.work = tile_rows * tile_columns * k // 8 + 1
        body: list[Stmt] = [
            Alloc("right", self.dtype, tile_columns * s.depth, "local"),
            Alloc("left", self.dtype, tile_rows * s.depth, "local"),
            Alloc("tile", self.dtype, tile_rows * tile_columns, "local"),
        ]
        start = Var("z", tile_rows * tile_columns)
        zero = Const(0.0 if self.dtype.kind == "f" else 0, self.dtype)
        body.append(For(start, "lanes", (Store("tile", start, zero),)))
        kb = Var("kb", depth_blocks)
        k0 = mul(kb, s.depth)
        left_k = minimum(s.depth, add(k, mul(k0, -1)))
        count = parts(left_k)[0] if not parts(left_k)[1] else left_k
        block = (
            *self._pack_right(at_batch, column0, k0, count),
            *self._pack_left(at_batch, row0, k0, count),
            self._multiply(count, row0, column0),
        )
        body.append(For(kb, "serial", block))
        body.extend(self._tail(at_batch, row0, column0))
        return For(grid, "grid", tuple(body))

    def _panels(self, name: str, most: int, size: Size, start: Expr, step: int) -> Var:
        """A loop over the panels of a tile that hold anything."""
        remaining = add(size, mul(start, -1))
        if isinstance(size, int) and size % (most * step) == 0:
            return Var(name, most)
        used = floordiv(add(remaining, step - 1), step)
        bound = minimum(most, used)
        const, terms = parts(bound)
        return Var(name, bound if terms else const)

    def _pack_right(self, batch: Expr, column0: Expr, k0: Expr, count: Size | Expr) -> list[Stmt]:
        s, t = self.shape, self.tiles
        panel = self._panels("pj", s.column_panels, self.sizes[2], column0, s.columns)
        k, j = Var("pk", count), Var("pl", s.columns)
        column = add(column0, mul(panel, s.columns), j)
        inside = self._inside(column, self.sizes[2], s.columns * s.column_panels)
        value = self._loader(t.right, ((t.batch, batch), (t.k, add(k0, k)), (t.n, column)), inside)
        place = add(mul(panel, s.depth * s.columns), mul(k, s.columns), j)
        return [For(panel, "serial", self._pack_loops("right", place, value, k, j))]

    def _pack_left(self, batch: Expr, row0: Expr, k0: Expr, count: Size | Expr) -> list[Stmt]:
        s, t = self.shape, self.tiles
        panel = self._panels("qi", s.row_panels, self.sizes[1], row0, s.rows)
        k, i = Var("qk", count), Var("ql", s.rows)
        row = add(row0, mul(panel, s.rows), i)
        inside = self._inside(row, self.sizes[1], s.rows * s.row_panels)
        value = self._loader(t.left, ((t.batch, batch), (t.m, row), (t.k, add(k0, k))), inside)
        place = add(mul(panel, s.depth * s.rows), mul(k, s.rows), i)
        return [For(panel, "serial", self._pack_loops("left", place, value, k, i))]

    def _inside(self, position: Expr, size: Size, step: int) -> Expr:
        return TRUE if isinstance(size, int) and size % step == 0 else lt(position, size)

    def _pack_loops(
        self, name: str, place: Expr, value: Expr, k: Var, across: Var
    ) -> tuple[Stmt, ...]:
        """Lanes along the axis that memory is contiguous in."""
        store = (Store(name, place, value),)
        loads = _loads(value)
        along_k = bool(loads) and all(coefficient(e.index, k) == 1 for e in loads)
        if along_k and not all(coefficient(e.index, across) in (0, 1) for e in loads):
            return (For(across, "serial", (For(k, "lanes", store),)),)
        return (For(k, "serial", (For(across, "lanes", store),)),)

    def _multiply(self, count: Size | Expr, row0: Expr, column0: Expr) -> Stmt:
        s = self.shape
        pj = self._panels("mj", s.column_panels, self.sizes[2], column0, s.columns)
        pi = self._panels("mi", s.row_panels, self.sizes[1], row0, s.rows)
        k = Var("mk", count)
        width = s.columns * s.column_panels
        acc = "acc"
        zero = Const(0.0 if self.dtype.kind == "f" else 0, self.dtype)
        i0, j0 = Var("c0", s.rows), Var("d0", s.columns)
        i1, j1 = Var("c1", s.rows), Var("d1", s.columns)
        i2, j2 = Var("c2", s.rows), Var("d2", s.columns)
        clear = Store(acc, add(mul(i0, s.columns), j0), zero)
        left = Load("left", add(mul(pi, s.depth * s.rows), mul(k, s.rows), i1), self.dtype)
        right = Load("right", add(mul(pj, s.depth * s.columns), mul(k, s.columns), j1), self.dtype)
        at = add(mul(i1, s.columns), j1)
        step = Store(acc, at, _multiply_add(left, right, Load(acc, at, self.dtype)))
        row = add(mul(pi, s.rows), i2)
        place = add(mul(row, width), mul(pj, s.columns), j2)
        total = Apply(
            "add",
            (Load("tile", place, self.dtype), Load(acc, add(mul(i2, s.columns), j2), self.dtype)),
            self.dtype,
        )
        return For(pj, "serial", (
            For(pi, "serial", (
                Alloc(acc, self.dtype, s.rows * s.columns, "register"),
                _nest((i0, "unroll"), (j0, "lanes"), clear),
                For(k, "serial", (_nest((i1, "unroll"), (j1, "lanes"), step),)),
                _nest((i2, "unroll"), (j2, "lanes"), Store("tile", place, total)),
            )),
        ))  # fmt: skip

    # -- the tail ----------------------------------------------------------------------------------
    def _tail(self, batch: Expr, row0: Expr, column0: Expr) -> list[Stmt]:
        """Every member's element from the finished tile, row by row."""
        s, t = self.shape, self.tiles
        width = s.columns * s.column_panels
        rows = self._extent(s.rows * s.row_panels, self.sizes[1], row0)
        columns = self._extent(width, self.sizes[2], column0)
        i, j = Var("ti", rows), Var("tj", columns)
        axes = ((t.batch, batch), (t.m, add(row0, i)), (t.n, add(column0, j)))
        variables: dict[Var, Expr] = {}
        for names, position in axes:

            variables.update(
                zip(names, split_linear(position, tuple(v.size for v in names)), strict=True)
            )
        index = tuple(Substitution(variables)(e) for e in t.index)
        tile = Load("tile", add(mul(i, width), j), self.dtype)
        values: dict[str, Expr] = {self.first.name: cast(tile, self.first.node.dtype)}
        stores: list[Stmt] = []
        for member in self.group.members:
            if member is not self.first:
                values[member.name] = self._member(member, index, values)
            if member.node in self.needed:
                stores.append(
                    Store(member.name, linearise(index, member.node.shape), values[member.name])
                )
        lanes_over_rows = self._contiguous_rows(stores, i, j)
        inner, outer = (i, j) if lanes_over_rows else (j, i)
        return [For(outer, "serial", (For(inner, "lanes", tuple(stores)),))]

    def _extent(self, most: int, size: Size, start: Expr) -> Size | Expr:
        if isinstance(size, int) and size % most == 0:
            return most
        bound = minimum(most, add(size, mul(start, -1)))
        const, terms = parts(bound)
        return bound if terms else const

    def _member(self, member: Statement, index: tuple[Expr, ...], values: dict[str, Expr]) -> Expr:
        variables = dict(zip(member.out, index, strict=True))
        inside = {m.name for m in self.group.members}

        def load(_: Load, new: Load) -> Expr:
            return values[new.buffer] if new.buffer in inside else new

        value = member.value or Const(0, member.node.dtype)
        return Substitution(variables, load)(value)

    def _contiguous_rows(self, stores: Sequence[Stmt], i: Var, j: Var) -> bool:
        indices = [s.index for s in stores if isinstance(s, Store)]
        return bool(indices) and all(
            coefficient(e, i) == 1 and coefficient(e, j) != 1 for e in indices
        )


def _loads(value: Expr) -> list[Load]:
    return [e for e in expressions([value]) if isinstance(e, Load)]


def _multiply_add(a: Expr, b: Expr, c: Expr) -> Expr:
    if a.dtype.kind == "f":
        return Apply("fma", (a, b, c), a.dtype)
    return Apply("add", (Apply("mul", (a, b), a.dtype), c), a.dtype)


def _nest(outer: tuple[Var, LoopKind], inner: tuple[Var, LoopKind], statement: Stmt) -> Stmt:
    return For(outer[0], outer[1], (For(inner[0], inner[1], (statement,)),))
