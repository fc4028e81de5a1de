"""The schedule of sums over padded windows (average pooling): rows are copied with what lies around
them, and then summed tap by tap.

Input: a group whose first member sums windows that reach out of the image, in floating-point
numbers, followed by elementwise statements on its result. Output: its kernel's grid loop. A task
copies the rows that its strip of places reads into scratch, each once, with the fold's identity
around them; so no load has a mask. The order of every sum is that of the taps, as in every other
schedule of such sums (``windows.in_turn``).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lamella.compiler.convolution_plan import parts_of
from lamella.compiler.fusion import Group
from lamella.compiler.pooling import (
    ROOM,
    TASKS,
    WRITTEN,
    PoolingKernel,
    folded,
    in_any_order,
)
from lamella.compiler.walk import extent_of
from lamella.compiler.windows import Windows, in_turn
from lamella.ir.dim import Size, product
from lamella.ir.index import (
    TRUE,
    Substitution,
    add,
    both,
    constant,
    linearise,
    lt,
    minimum,
    mul,
    split_linear,
    sub,
)
from lamella.ir.loops import Accumulate, Alloc, Declare, Expr, For, If, Load, Read, Stmt, Store, Var
from lamella.ir.node import Node

__all__ = ["IMAGE", "SlidingKernel", "sliding"]

IMAGE = "image"  # the name of the scratch


def sliding(group: Group, needed: set[Node]) -> SlidingKernel | None:
    """The writer of a group that this schedule takes; None for all others."""
    first = group.members[0]
    if first.fold is None or first.fold[0] not in ("add", "mul") or in_any_order(*first.fold):
        return None
    found = folded(group)
    if found is None or (found.width == 1 and not in_turn(first)):
        return None
    if found.last.unpadded and all(axis.unpadded for axis in found.rows):
        return None
    fits = prod(_scratch(found, 1)) * first.fold[1].dtype.itemsize <= ROOM
    return SlidingKernel(group, found, needed) if fits else None


class SlidingKernel(PoolingKernel):
    """Writes the kernel of one sum over windows with its tail."""

    def grid(self) -> For:
        """The kernel's grid loop: a task is a strip of rows of places."""
        found = self.windows
        outer = [*found.outer, *(axis.place for axis in found.rows[:-1])]
        sizes = [v.size for v in outer]
        rows = found.rows[-1].places if found.rows else 1
        strip = self._strip(rows, product(tuple(sizes)))
        taps = prod(int(tap.size) for tap in self.first.reduce)
        self.work = strip * found.last.places * found.width * taps // 4 + 1
        sizes.append(parts_of(rows, strip))
        grid = Var("g", product(tuple(sizes)))
        at = [constant(0)] * len(sizes) if grid.extent == 1 else split_linear(grid, tuple(sizes))
        self.where: dict[Var, Expr] = dict(zip(outer, at, strict=False))
        self.start = mul(at[-1], strip)
        self.count = minimum(strip, sub(rows, self.start))
        self.sizes = _scratch(found, strip)
        scratch = Alloc(IMAGE, self.identity.dtype, prod(self.sizes), "local")
        return For(grid, "grid", (scratch, self._copy(), self._sums()))

    def _strip(self, rows: int, many: Size) -> int:
        """Rows of a task: as many as scratch holds and leave tasks enough."""
        strip = max(1, min(rows, many * rows // TASKS)) if isinstance(many, int) else rows
        while strip > 1 and prod(_scratch(self.windows, strip)) * self._itemsize > ROOM:
            strip = parts_of(strip, 2)
        return strip

    @property
    def _itemsize(self) -> int:
        return self.identity.dtype.itemsize

    # -- the rows of scratch -----------------------------------------------------------------------
    def _copy(self) -> Stmt:
        """The loops over the rows that the task reads."""
        rows = self.windows.rows
        at, loops = dict(self.where), list[Var]()
        inside: Expr = TRUE
        for number, axis in enumerate(rows):
            extent: Expr | Size = axis.taps
            if number == len(rows) - 1:
                at[axis.place] = self.start
                extent = extent_of(add(mul(sub(self.count, 1), axis.step), axis.taps))
            loops.append(Var(f"c{number}", extent))
            at[axis.tap] = loops[-1]
            if not axis.unpadded:
                position = add(mul(at[axis.place], axis.step), loops[-1])
                inside = both(inside, lt(axis.low - 1, position))
                inside = both(inside, lt(position, axis.high))
        body = self._row(at, loops, inside)
        for loop in reversed(loops):
            body = (For(loop, "serial", body),)
        return body[0] if len(body) == 1 else For(Var("c", 1), "serial", body)

    def _row(
        self, at: dict[Var, Expr], loops: Sequence[Var], inside: Expr
    ) -> tuple[Stmt, ...]:
        """One row: the identity, what the image has, the identity."""
        last, width = self.windows.last, self.windows.width
        at[last.place] = constant(0)

        def body(position: Expr, inner: dict[Var, Expr]) -> tuple[Stmt, ...]:
            place = Substitution({**at, last.tap: add(position, last.low), **inner})
            to = (*loops, add(position, last.low), self.lane_of(inner))
            return (Store(IMAGE, linearise(to, self.sizes), place(self.windows.value)),)

        def blank(name: str, first: int, end: int) -> tuple[Stmt, ...]:
            lane = Var(name, (end - first) * width)
            to = add(linearise((*loops, constant(first), constant(0)), self.sizes), lane)
            return (For(lane, "lanes", (Store(IMAGE, to, self.identity),)),) if first < end else ()

        middle: tuple[Stmt, ...] = (self.along(last.high - last.low, "x", body),)
        if inside != TRUE:
            middle = (If(inside, middle, blank("w", last.low, last.high)),)
        return *blank("b", 0, last.low), *middle, *blank("e", last.high, last.positions)

    # -- the sums ----------------------------------------------------------------------------------
    def _sums(self) -> Stmt:
        """The results of the task's rows, each summed tap by tap."""
        rows, last = self.windows.rows, self.windows.last
        row, where = Var("y", extent_of(self.count)), dict(self.where)
        taps = {tap: Var(f"k{number}", tap.extent) for number, tap in enumerate(self.first.reduce)}
        at: list[Expr] = [taps[axis.tap] for axis in rows]
        if rows:
            where[rows[-1].place] = add(self.start, row)
            at[-1] = add(mul(row, rows[-1].step), at[-1])

        def body(place: Expr, inner: dict[Var, Expr]) -> tuple[Stmt, ...]:
            position = add(mul(place, last.step), taps[last.tap])
            index = linearise((*at, position, self.lane_of(inner)), self.sizes)
            read = Read("f", self.identity.dtype)
            step: Stmt = Accumulate((read.name,), self.op, (Load(IMAGE, index, read.dtype),))
            few = prod(int(tap.size) for tap in taps) <= WRITTEN
            for depth, loop in enumerate(reversed(taps.values())):
                step = For(loop, "unroll" if few or depth == 0 else "serial", (step,))
            stored = self.stored(read, {**where, last.place: place, **inner})
            return Declare(read.name, read.dtype, self.identity), step, *stored

        return For(row, "serial", (self.along(last.places, "r", body),))


def _scratch(found: Windows, strip: int) -> tuple[int, ...]:
    """The sizes of scratch for so many rows of places: rows of planes, positions, elements."""
    sizes = [axis.taps for axis in found.rows]
    if sizes:
        sizes[-1] += (strip - 1) * found.rows[-1].step
    return *sizes, found.last.positions, found.width
