"""What every schedule of a contraction starts from: its sizes, its factors as functions of linear
positions, and the tail.

Input: a group of kind "tiles": one contraction and the elementwise statements on its result.
``swapped`` exchanges the factors, and with them rows and columns: the product is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lamella.compiler.contraction_panels import contiguous
from lamella.compiler.fusion import Group
from lamella.compiler.statements import Statement, Tiles
from lamella.compiler.walk import expressions
from lamella.ir.dim import Size, product
from lamella.ir.index import (
    Substitution,
    add,
    coefficient,
    constant,
    floordiv,
    linearise,
    minimum,
    mul,
    parts,
    split_linear,
)  # fmt: skip
from lamella.ir.loops import Const, Expr, For, Load, Prefetch, Store, Var, cast
from lamella.ir.node import Node

__all__ = ["ContractionKernel", "plain"]


class ContractionKernel:
    """The common part of the writers of a contraction's kernel."""

    def __init__(
        self, group: Group, needed: set[Node], vector_bytes: int, swapped: bool = False
    ) -> None:
        self.group, self.needed = group, needed
        first = group.members[0]
        if first.tiles is None:
            raise ValueError("a group of kind tiles starts with a contraction")
        self.first: Statement = first
        self.tiles: Tiles = exchanged(first.tiles) if swapped else first.tiles
        t = self.tiles
        self.dtype = t.description.accumulate
        groups = (t.batch, t.m, t.n, t.k)
        self.sizes = tuple(product(tuple(v.size for v in axes)) for axes in groups)
        self.lanes = max(1, vector_bytes // self.dtype.itemsize)
        self.work: Size = 1
        self.batch: Expr = constant(0)  # of the grid iteration

    # -- factors -----------------------------------------------------------------------------------
    def _element(self, value: Expr, *axes: tuple[tuple[Var, ...], Expr]) -> Expr:
        return cast(Substitution(_positions(axes))(value), self.dtype)

    def left(self, row: Expr, k: Expr) -> Expr:
        """The left factor's element."""
        t = self.tiles
        return self._element(t.left, (t.batch, self.batch), (t.m, row), (t.k, k))

    def right(self, column: Expr, k: Expr, batch: Expr | None = None) -> Expr:
        """The right factor's element, of this batch unless another is given."""
        t = self.tiles
        at = self.batch if batch is None else batch
        return self._element(t.right, (t.batch, at), (t.k, k), (t.n, column))

    def order(self) -> tuple[tuple[bool, bool], tuple[bool, bool]]:
        """Whether memory is contiguous along the rows and k of the left factor, and along the
        columns and k of the right one.
        """
        _, m, n, k = self.sizes
        rows, columns, steps = Var("left_x", m), Var("right_x", n), Var("left_y", k)
        return contiguous(self.left, (rows, steps)), contiguous(self.right, (columns, steps))

    def soon(self, value: Expr) -> list[Prefetch]:
        """Hints for what a factor's element loads, where no other load says which."""
        loads = [e for e in expressions([value]) if isinstance(e, Load)]
        plain_loads = [
            e for e in loads if not any(isinstance(i, Load) for i in expressions([e.index]))
        ]
        return [Prefetch(e.buffer, e.index) for e in plain_loads]

    # -- extents -----------------------------------------------------------------------------------
    def panels(self, name: str, most: int, size: Size, start: Expr, step: int) -> Var:
        """A loop over the panels of a block that hold anything."""
        if isinstance(size, int) and size % (most * step) == 0:
            return Var(name, most)
        used = floordiv(add(size, mul(start, -1), step - 1), step)
        return Var(name, plain(minimum(most, used)))

    def valid(self, step: int, size: Size, start: Expr) -> Size | Expr:
        """Positions of a panel, from ``start`` on, that are inside the result."""
        if isinstance(size, int) and (size % step == 0 or size <= step):
            return step if size % step == 0 else size
        return plain(minimum(step, add(size, mul(start, -1))))

    # -- the tail ----------------------------------------------------------------------------------
    def tail(self, total: Expr, row: Expr, column: Expr) -> list[Store]:
        """Every member's element from the finished sum at (row, column)."""
        t = self.tiles
        where = _positions(((t.batch, self.batch), (t.m, row), (t.n, column)))
        index = tuple(Substitution(where)(e) for e in t.index)
        values: dict[str, Expr] = {self.first.name: cast(total, self.first.node.dtype)}
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

    def tail_loops(
        self, name: str, at: Expr, width: int, rows: tuple[Expr, Size | Expr],
        columns: tuple[Expr, Size | Expr],
    ) -> For:  # fmt: skip
        """The tail from finished sums in scratch ``name``: element (i, j) at ``at`` + ``width`` · i
        + j. ``rows`` and ``columns`` are where they start, and how many there are.
        """
        i, j = Var("ti", rows[1]), Var("tj", columns[1])
        total = Load(name, add(at, mul(i, width), j), self.dtype)
        stores = self.tail(total, add(rows[0], i), add(columns[0], j))
        inner, outer = (i, j) if along(stores, i) and not along(stores, j) else (j, i)
        return For(outer, "serial", (For(inner, "lanes", tuple(stores)),))


def exchanged(t: Tiles) -> Tiles:
    """The contraction with its factors the other way round."""
    return replace(t, m=t.n, n=t.m, left=t.right, right=t.left)


def along(stores: Sequence[Store], var: Var) -> bool:
    """Whether every store is contiguous along a variable."""
    return bool(stores) and all(coefficient(s.index, var) == 1 for s in stores)


def _positions(axes: Sequence[tuple[tuple[Var, ...], Expr]]) -> dict[Var, Expr]:
    """Loop variables by groups, from the linear position in each group."""
    found: dict[Var, Expr] = {}
    for names, position in axes:
        sizes = tuple(v.size for v in names)
        found.update(zip(names, split_linear(position, sizes), strict=True))
    return found


def plain(extent: Size | Expr) -> Size | Expr:
    """An extent that is no expression, if it can be."""
    const, terms = parts(extent)
    return extent if terms else const
