"""What every schedule of a contraction starts from: its sizes, its factors as functions of linear
positions, and the tail.

Input: a group of kind "tiles": one contraction and the elementwise statements on its result.
``swapped`` exchanges the factors, and with them rows and columns: the product is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import gcd
from typing import Literal

from lamella.compiler.contraction_bytes import WORD, has_words, offset, shifted, word
from lamella.compiler.contraction_panels import LINE, Element, contiguous
from lamella.compiler.contraction_register import fused, zero
from lamella.compiler.fusion import Group
from lamella.compiler.statements import Statement, Tiles
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
from lamella.ir.loops import Apply, Const, Expr, For, Load, Prefetch, Stmt, Store, Var, cast
from lamella.ir.node import Node
from lamella.ir.vectors import VectorUnit
from lamella.ir.walk import expressions

__all__ = ["ContractionKernel", "plain", "plain_loads"]

Position = tuple[tuple[Var, ...], Expr]


def plain_loads(value: Expr) -> list[Load]:
    """What an element loads, where no other load says which."""
    loads = [e for e in expressions([value]) if isinstance(e, Load)]
    return [e for e in loads if not any(isinstance(i, Load) for i in expressions([e.index]))]


class ContractionKernel:
    """The common part of the writers of a contraction's kernel."""

    def __init__(
        self, group: Group, needed: set[Node], unit: VectorUnit, swapped: bool = False
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
        self.unit = unit
        self.sizes = tuple(product(tuple(v.size for v in axes)) for axes in groups)
        self.steps = self.sizes[3]  # of k, as the factors have them
        self.words = has_words(t, self.dtype, self.sizes)
        if self.words:
            self.sizes = (*self.sizes[:3], -(-self.steps // WORD))
        self.lanes = unit.lanes(self.dtype)
        self.work: Size = 1
        self.batch: Expr = constant(0)  # of the grid iteration

    # -- factors -----------------------------------------------------------------------------------
    def _element(self, value: Expr, k: Expr, *axes: Position, ends: bool = False) -> Expr:
        """An element, or a word of four (see ``contraction_bytes``)."""

        def at(step: Expr) -> Expr:
            return Substitution(_positions((*axes, (self.tiles.k, step))))(value)

        if self.words and isinstance(self.steps, int):
            return word(at, k, self.steps, ends)
        return cast(at(k), self.dtype)

    def left(self, row: Expr, k: Expr) -> Expr:
        """The left factor's element."""
        t = self.tiles
        return self._element(t.left, k, (t.batch, self.batch), (t.m, row), ends=True)

    def right(self, column: Expr, k: Expr, batch: Expr | None = None) -> Expr:
        """The right factor's element, of this batch unless another is given."""
        t = self.tiles
        at = self.batch if batch is None else batch
        value = self._element(t.right, k, (t.batch, at), (t.n, column))
        return shifted(value) if self.shifts else value

    # -- products ----------------------------------------------------------------------------------
    @property
    def shifts(self) -> bool:
        """Whether the right factor's bytes are moved up, so that sums do not begin at zero."""
        return self.words and self.unit.unsigned_bytes

    def fused(self, left: Expr, right: Expr, total: Expr) -> Expr:
        """left · right + total."""
        if self.shifts:
            return Apply("udotbytes", (right, left, total), self.dtype)
        if self.words:
            return Apply("dotbytes", (left, right, total), self.dtype)
        return fused(left, right, total)

    def start(self, row: Expr) -> Expr:
        """What a sum begins with; where ``shifts``, ``offsets`` come before."""
        return offset(row) if self.shifts else zero(self.dtype)

    @cached_property
    def left_runs(self) -> tuple[int, int]:
        """Rows, and steps of k, in which the left factor's places are linear; 0: all."""
        return self._runs(self.left, self.sizes[1])

    @cached_property
    def right_runs(self) -> tuple[int, int]:
        """Columns, and steps of k, in which the right factor's places are linear; 0: all."""
        return self._runs(self.right, self.sizes[2])

    def _runs(self, element: Element, size: Size) -> tuple[int, int]:
        """How many positions across, and steps of k, places in memory are linear in; 0: all."""
        x, y = Var("run_x", size), Var("run_y", self.sizes[3])
        if self.words:
            return 0, 0
        found = list(expressions([element(x, y)]))
        return _run(found, x), _run(found, y)

    def runs_order(self) -> tuple[bool, bool]:
        """Whether memory is contiguous along the rows and along k of the left factor within its
        runs.
        """
        starts: list[Expr] = []
        inner: list[Var] = []
        for name, size, run in zip("xy", self.sizes[1::2], self.left_runs, strict=True):
            inner.append(Var(f"left_{name}", run or size))
            outer = mul(Var(f"left_{name}_run", -(-size // run)), run) if run else constant(0)
            starts.append(outer)
        first, second = inner
        return contiguous(
            lambda i, k: self.left(add(starts[0], i), add(starts[1], k)), (first, second)
        )

    def order(self) -> tuple[tuple[bool, bool], tuple[bool, bool]]:
        """Whether memory is contiguous along the rows and k of the left factor, and along the
        columns and k of the right one.
        """
        _, m, n, k = self.sizes
        rows, columns, steps = Var("left_x", m), Var("right_x", n), Var("left_y", k)
        return contiguous(self.left, (rows, steps)), contiguous(self.right, (columns, steps))

    def soon(self, value: Expr, level: Literal[1, 2] = 1) -> list[Prefetch]:
        """Hints for what an element loads, where no other load says which."""
        return [Prefetch(e.buffer, e.index, level) for e in plain_loads(value)]

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

    def rereads(self) -> bool:
        """Whether the tail reads where it stores: then no row may be computed twice, because the
        result may be written over what is read.
        """
        row, column = Var("left_x", self.sizes[1]), Var("right_x", self.sizes[2])
        stores = self.tail(zero(self.dtype), row, column)
        places = {s.index for s in stores}
        loads = (e for e in expressions([s.value for s in stores]) if isinstance(e, Load))
        return any(e.index in places for e in loads)

    def tail_hints(self, row: Expr, column: Expr, rows: int, columns: int) -> list[Stmt]:
        """Hints for what the tail of ``rows`` x ``columns`` results from (row, column) on reads
        along their rows: a residual, a mask.
        """
        line = LINE // self.dtype.itemsize
        i, j = Var("hi", rows), Var("hj", -(-columns // line))
        stores = self.tail(zero(self.dtype), add(row, i), add(column, mul(j, line)))
        found = dict.fromkeys(hint for store in stores for hint in self.soon(store.value))
        hints = tuple(
            hint
            for hint in found
            if coefficient(hint.index, j) == line and coefficient(hint.index, i) not in (0, None)
        )
        return [For(i, "unroll", (For(j, "unroll", hints),))] if hints else []

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


def _run(found: Sequence[Expr], var: Var) -> int:
    """The greatest number of values of ``var`` in which quotients and remainders are linear, if
    there are any and its extent is a multiple; else 0.
    """
    run = 0
    for e in found:
        if not isinstance(e, Apply) or e.op not in ("floordiv", "mod"):
            continue
        (divisor, terms), by = parts(e.args[1]), coefficient(e.args[0], var)
        if isinstance(by, int) and by and not terms and isinstance(divisor, int) and divisor:
            run = gcd(run, divisor // gcd(by, divisor))
    whole = isinstance(var.extent, int) and run > 1 and var.extent % run == 0
    return run if whole else 0


def exchanged(t: Tiles) -> Tiles:
    """The contraction with its factors the other way round."""
    return replace(t, m=t.n, n=t.m, left=t.right, right=t.left)


def along(stores: Sequence[Store], var: Var) -> bool:
    """Whether every store is contiguous along a variable."""
    return bool(stores) and all(coefficient(s.index, var) == 1 for s in stores)


def _positions(axes: Sequence[Position]) -> dict[Var, Expr]:
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
