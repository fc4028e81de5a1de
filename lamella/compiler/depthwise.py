"""The schedule of depthwise convolutions: channels along the lanes, a row of places in variables.

Input: a group of kind "tiles" whose contraction is a ``conv_depthwise``, and the elementwise
statements on its result. Output: its kernel's grid loop. A grid iteration makes some rows of the
result; for every few neighbouring places it runs once along the channels, keeps their sums in
variables over all taps, and computes the elementwise statements from them. Taps outside the image
are left out: whole rows of them, and columns in the tiles at the edges, which are written out each
for itself. Where such tiles are many, or the image is dilated, columns outside read zero under a
mask instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from lamella.compiler.convolution_base import (
    ConvolutionWriter,
    maximum,
    multiply_add,
    nearest,
    not_before,
    within,
    zero_unless,
)
from lamella.compiler.convolution_plan import parts_of
from lamella.compiler.fusion import Group
from lamella.compiler.statements import Program
from lamella.compiler.walk import extent_of
from lamella.ir.index import (
    TRUE,
    add,
    both,
    bounds,
    constant,
    floordiv,
    lt,
    minimum,
    mul,
    split_linear,
    sub,
)
from lamella.ir.loops import (
    Assign,
    Const,
    Declare,
    Expr,
    For,
    If,
    Read,
    Stmt,
    Var,
    cast,
)  # fmt: skip
from lamella.ir.node import Node

__all__ = ["DepthwiseKernel"]

MOST = 8  # places in a tile
TASKS = 16
CHANNELS = 64  # of a task, at least
EDGES = 6  # tiles of a row, at most, that are written out for themselves


class DepthwiseKernel(ConvolutionWriter):
    """Writes the kernel of one ``conv_depthwise`` with its tail."""

    def __init__(self, group: Group, program: Program, needed: set[Node]) -> None:
        node = group.members[0].node
        super().__init__(group, program, needed, tuple(node.inputs[1].shape[:-1]))
        self.channels = int(node.shape[-1])
        self.columns = _columns(self.axes[-1].each)
        self.rows = self._task_rows()
        self.part = self._task_channels()
        taps = prod(a.taps for a in self.axes)
        self.work = self.rows * self.axes[-1].each * self.part * taps // 8 + 1

    def _outer(self) -> int:
        return self.images * prod(a.phases for a in self.axes) * self.axes[0].each

    def _task_rows(self) -> int:
        each = self.axes[-2].each
        return max(1, min(each, self._outer() * each // TASKS))

    def _task_channels(self) -> int:
        """Channels of a task: all, unless that leaves too few tasks."""
        tasks = self._outer() * parts_of(self.axes[-2].each, self.rows)
        parts = max(1, min(parts_of(TASKS, tasks), self.channels // CHANNELS))
        whole = parts_of(self.channels, parts)
        return min(self.channels, parts_of(whole, 16) * 16)

    def grid(self) -> For:
        """The kernel's grid loop."""
        axes = self.axes
        sizes = (
            self.images,
            *(a.phases for a in axes),
            axes[0].each,
            parts_of(axes[-2].each, self.rows),
            parts_of(self.channels, self.part),
        )
        grid = Var("g", prod(sizes))
        at = [constant(0)] * len(sizes) if grid.extent == 1 else list(split_linear(grid, sizes))
        self.begin(at[0], at[1:4], at[4])
        row0 = mul(at[5], self.rows)
        self.channel0 = mul(at[6], self.part)
        y = Var("y", extent_of(minimum(self.rows, sub(axes[-2].each, row0))))
        return For(grid, "grid", (For(y, "serial", tuple(self._tiles(add(row0, y)))),))

    def _tiles(self, row: Expr) -> list[Stmt]:
        """The tiles of a row: those at the edges, and a loop over the others between them."""
        wide, most = self.axes[-1], self.columns
        starts = range(0, wide.each, most)
        inner = [number for number, at in enumerate(starts) if self._is_inside(at)]
        if wide.phases > 1 or len(starts) - len(inner) > EDGES:
            tile = Var("tx", len(starts))
            column = mul(tile, most)
            left = minimum(column, wide.each - most)
            places = [add(left, p) for p in range(most)]
            return [For(tile, "serial", (self._lanes(row, places, "m", column),))]
        body: list[Stmt] = []
        for number, at in enumerate(starts):
            if number not in inner:
                places = [constant(p) for p in range(at, min(at + most, wide.each))]
                body.append(self._lanes(row, places, f"e{number}"))
            elif number == inner[0]:
                tile = Var("tx", len(inner))
                places = [add(mul(tile, most), at + p) for p in range(most)]
                body.append(For(tile, "serial", (self._lanes(row, places, "i"),)))
        return body

    def _is_inside(self, at: int) -> bool:
        """Whether a tile is whole, and all of its taps read columns of the image."""
        wide, end = self.axes[-1], at + self.columns
        last = (end - 1) * wide.step + (wide.taps - 1) * wide.gap - wide.low
        return end <= wide.each and at * wide.step >= wide.low and last < wide.size

    def _lanes(
        self, row: Expr, places: Sequence[Expr], name: str, column: Expr | None = None
    ) -> Stmt:
        """One run along the channels; under masks if the tile begins at ``column``, to which places
        before it do not belong.
        """
        most = extent_of(minimum(self.part, sub(self.channels, self.channel0)))
        lane = Var(f"c{name}", most)
        channel = add(self.channel0, lane)
        sums = {f"s{name}{p}": place for p, place in enumerate(places)}
        zero = Const(0.0 if self.dtype.kind == "f" else 0, self.dtype)
        body: list[Stmt] = [Declare(s, self.dtype, zero) for s in sums]
        body.append(self._taps(row, channel, column is not None, name, sums))
        for s, place in sums.items():
            body += self._stored(Read(s, self.dtype), (row, place), column, channel)
        return For(lane, "lanes", tuple(body))

    def _taps(
        self, row: Expr, channel: Expr, masked: bool, name: str, sums: Mapping[str, Expr]
    ) -> Stmt:
        """The loops over the rows of taps inside the image, columns inside it written out."""
        (z0, z) = self._inside(0, self.depth, f"kz{name}")
        (y0, y) = self._inside(1, row, f"ky{name}")
        tz, ty = add(z0, z), add(y0, y)
        body: list[Stmt] = []
        for tx in range(self.axes[-1].reach):
            tap = constant(tx)
            body += [
                Assign(s, self._product(tz, ty, tap, (row, place), channel, masked, s))
                for s, place in sums.items()
                if not self._is_outside(self.position(2, place, tap))
            ]
        return For(z, "serial", (For(y, "serial", tuple(body)),))

    def _is_outside(self, position: Expr) -> bool:
        """Whether a column is known not to be one of the image."""
        low, high = bounds(position)
        past = isinstance(low, int) and low >= self.axes[-1].size
        return past or (isinstance(high, int) and high < 0)

    def _inside(self, axis: int, place: Expr, name: str) -> tuple[Expr, Var]:
        """The first tap inside the image, and a loop over those inside."""
        a, phase = self.axes[axis], self.phases[axis]
        start = self.position(axis, place, constant(0))
        before = _ceiling(maximum(mul(start, -1), constant(0)), a.gap)
        after = _ceiling(maximum(sub(a.size, start), constant(0)), a.gap)
        end = minimum(phase.taps, after)
        return before, Var(name, extent_of(maximum(sub(end, before), constant(0))))

    def _product(
        self, tz: Expr, ty: Expr, tx: Expr, place: tuple[Expr, Expr], channel: Expr, masked: bool,
        name: str,
    ) -> Expr:  # fmt: skip
        row, column = place
        x = self.position(2, column, tx)
        near = nearest(x, self.axes[-1].size) if masked else x
        at = (self.position(0, self.depth, tz), self.position(1, row, ty), near)
        value = self.pixel(at, channel)
        taps = [self.tap(axis, t) for axis, t in enumerate((tz, ty, tx))]
        if masked:
            wide, phase = self.axes[-1], self.phases[-1]
            inside = both(within(x, wide.size), lt(tx, phase.taps))
            value = zero_unless(inside, value)
            taps[-1] = maximum(minimum(taps[-1], wide.taps - 1), constant(0))
        kernel = cast(self.kernel((*taps[3 - len(self.space[0]) :], channel)), self.dtype)
        return multiply_add(value, kernel, Read(name, self.dtype))

    def _stored(
        self, total: Expr, place: tuple[Expr, Expr], column: Expr | None, channel: Expr
    ) -> list[Stmt]:
        """The tail of one place, unless an earlier tile has made it or it is none."""
        at = self.result_position(place)
        stores = self.stores(total, (*self.spatial(at, self.space[1]), channel), TRUE)
        inside = self.exists(at)
        if column is not None:
            inside = both(inside, not_before(place[1], column, self.axes[-1], self.columns))
        return stores if inside == TRUE else [If(inside, tuple(stores))]


def _columns(each: int) -> int:
    """Places in a tile: the most that leave the least to do twice."""
    most = min(MOST, each)
    return min(range(max(1, most // 2), most + 1), key=lambda n: (parts_of(each, n) * (n + 1), -n))


def _ceiling(value: Expr, by: int) -> Expr:
    return floordiv(add(value, by - 1), by)
