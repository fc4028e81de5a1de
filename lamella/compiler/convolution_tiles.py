"""The direct schedule of convolutions: output channels along the lanes, pixels in registers.

Input: a group of kind "tiles" whose contraction is a ``conv_last``, and the elementwise statements
on its result. Output: its kernel's grid loop. A grid iteration copies the part of the image that it
reads into local scratch, with zeros around it (or reads the image in place, where nothing is
padded), and for each block of output channels and each tile of ``rows x columns`` places keeps all
sums of the tile in registers: each tap and channel takes one vector of kernels and one number per
place. The elementwise statements are computed from the registers. A dilated image (the derivative
of a strided convolution) is computed by phases, so that no zero between its elements is multiplied.
The order of every sum depends on sizes alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from lamella.compiler.convolution_base import (
    ConvolutionWriter,
    maximum,
    multiply_add,
    not_before,
    sizes_of,
    tiles_of,
    within,
)
from lamella.compiler.convolution_plan import LINE, Plan, crowded, flattened, parts_of, plan
from lamella.compiler.fusion import Group
from lamella.compiler.statements import Program
from lamella.compiler.walk import extent_of
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
    mod,
    mul,
    split_linear,
    sub,
)  # fmt: skip
from lamella.ir.loops import Alloc, Const, Expr, For, If, Load, Stmt, Store, Var, cast
from lamella.ir.node import Node
from lamella.ir.vectors import VectorUnit
from lamella.ir.walk import loads_of
from lamella.ops.base import Index

__all__ = ["ConvolutionKernel"]

CHANNELS = 16  # steps of a sum along the channels, at most, that are written out
WRITTEN = 9  # and along the channels and the last taps together


class ConvolutionKernel(ConvolutionWriter):
    """Writes the kernel of one ``conv_last`` with its tail."""

    def __init__(
        self, group: Group, program: Program, needed: set[Node], unit: VectorUnit
    ) -> None:
        node = group.members[0].node
        w = node.inputs[1]
        super().__init__(group, program, needed, w.shape[2:-2])
        self.groups, self.blocks, self.lanes = sizes_of(w.shape[0], w.shape[1], w.shape[-1])
        self.inner = int(w.shape[-2])  # input channels of a group
        self.beside = int(node.inputs[0].shape[-1]) // (self.groups * self.inner)
        self.each = int(node.shape[-1]) // self.groups
        flat = flattened(self.axes, self.images)
        self.flat = flat is not None
        self.axes = flat or self.axes
        self.count = 1 if self.flat else self.images
        self.plan = _plan(self, unit)
        self.rows_apart = self.axes[-2].apart(self.plan.task_rows)
        self.work = self._work()

    def _work(self) -> int:
        p = self.plan
        taps = prod(tuple(a.taps for a in self.axes))
        return p.task_rows * p.task_columns * p.blocks * self.lanes * taps * self.inner // 8 + 1

    def spatial(self, at: Sequence[Expr], space: Sequence[int]) -> Index:
        """Image and position as the graph has them."""
        if self.flat:
            return tuple(split_linear(at[-1], (self.images, *space)))
        return super().spatial(at, space)

    def pixel(self, at: Sequence[Expr], channel: Expr) -> Expr:
        """The image's element at a position that it has; places of a flat axis become one variable
        before that is replaced, because only so do quotients and remainders meet again.
        """
        if not self.flat:
            return super().pixel(at, channel)
        place = Var("place", self.axes[-1].size)
        element = super().pixel((*at[:-1], place), channel)
        return Substitution({place: at[-1]})(element)

    # -- the kernel --------------------------------------------------------------------------------
    def grid(self) -> For:
        """The kernel's grid loop."""
        p, axes = self.plan, self.axes
        high, wide = axes[-2], axes[-1]
        sizes = (
            self.groups,
            parts_of(self.blocks, p.blocks),
            self.count,
            *(a.phases for a in axes),
            axes[0].each,
            parts_of(high.each, p.task_rows),
            parts_of(wide.each, p.task_columns),
        )
        grid = Var("g", prod(sizes))
        at = [constant(0)] * len(sizes) if grid.extent == 1 else list(split_linear(grid, sizes))
        self.at_group, chunk = at[:2]
        self.begin(at[2], at[3:6], at[6])
        self.row0, self.column0 = mul(at[7], p.task_rows), mul(at[8], p.task_columns)
        # the last tile of an axis is moved back to end with it
        self.top = minimum(self.row0, high.each - p.rows)
        self.left = minimum(self.column0, wide.each - p.columns)
        self.direct = self._reads_in_place()
        body: list[Stmt] = [] if self.direct else list(self._copy())
        block0 = mul(chunk, p.blocks)
        block = Var("ob", extent_of(minimum(p.blocks, sub(self.blocks, block0))))
        body.append(For(block, "serial", self._tiles(add(block0, block))))
        return For(grid, "grid", tuple(body))

    def _tiles(self, block: Expr) -> tuple[Stmt, ...]:
        """Loops over the tiles of a task, for one block of output channels."""
        p = self.plan
        rows = tiles_of("tr", self.axes[-2].each, self.row0, p.task_rows, p.rows)
        columns = tiles_of("tc", self.axes[-1].each, self.column0, p.task_columns, p.columns)
        row, column = add(self.row0, mul(rows, p.rows)), add(self.column0, mul(columns, p.columns))
        inner = For(columns, "serial", tuple(self._tile(block, row, column)))
        return (For(rows, "serial", (inner,)),)

    def _tile(self, block: Expr, row: Expr, column: Expr) -> list[Stmt]:
        """One register tile: clear, sum, and the tail."""
        p = self.plan
        top = minimum(row, self.axes[-2].each - p.rows)
        left = minimum(column, self.axes[-1].each - p.columns)
        i, l0 = Var("pz", p.rows * p.columns), Var("lz", self.lanes)
        zero = Const(0.0 if self.dtype.kind == "f" else 0, self.dtype)
        clear = Store("acc", add(mul(i, self.lanes), l0), zero)
        return [
            Alloc("acc", self.dtype, p.rows * p.columns * self.lanes, "register"),
            For(i, "unroll", (For(l0, "lanes", (clear,)),)),
            self._sum(block, top, left),
            *self._tail(block, (row, column), (top, left)),
        ]

    def _sum(self, block: Expr, top: Expr, left: Expr) -> Stmt:
        """The loops over taps and channels, without the taps of rows outside the image."""
        p = self.plan
        taps = [Var(f"k{a}", extent_of(phase.taps)) for a, phase in enumerate(self.phases)]
        channel = Var("c", self.inner)
        r, s, lane = Var("pr", p.rows), Var("ps", p.columns), Var("l", self.lanes)
        tap = tuple(self.tap(a, t) for a, t in enumerate(taps))
        rank = len(self.space[0])
        kernel_tap = (constant(0),) * rank if self.flat else tap[3 - rank :]
        kernel = cast(
            self.kernel((self.at_group, block, *kernel_tap, channel, lane)), self.dtype
        )
        pixel = self._operand(taps, channel, lane, add(top, r), add(left, s))
        at = add(mul(r, p.columns * self.lanes), mul(s, self.lanes), lane)
        old = Load("acc", at, self.dtype)
        step: Stmt = Store("acc", at, multiply_add(pixel, kernel, old))
        step = For(r, "unroll", (For(s, "unroll", (For(lane, "lanes", (step,)),)),))
        ends = (self.depth, self.depth), (top, add(top, p.rows - 1))
        step = For(channel, "unroll" if self.inner <= CHANNELS else "serial", (step,))
        few = self.axes[2].phases == 1 and self.axes[2].taps * self.inner <= WRITTEN
        step = For(taps[2], "unroll" if few else "serial", (step,))
        for axis in (1, 0):
            inside = self.reads(axis, *ends[axis], taps[axis])
            step = step if inside == TRUE else If(inside, (step,))
            step = For(taps[axis], "serial", (step,))
        return step

    def _operand(
        self, taps: Sequence[Var], channel: Expr, lane: Expr, row: Expr, column: Expr
    ) -> Expr:
        """The image's number for a place (of this phase) and tap: from scratch or in place."""
        high, wide = self.axes[1:]
        if self.direct:
            places = (self.depth, row, column)
            at = tuple(self.position(a, places[a], taps[a]) for a in range(3))
            return self.pixel(at, self._channel(channel))
        if self.beside > 1:
            channel = add(mul(channel, self.lanes), lane)
        if self.rows_apart:
            y = add(mul(taps[1], self.plan.task_rows), sub(row, self.top))
        else:
            y = add(mul(sub(row, self.top), high.step), mul(taps[1], high.gap))
        x = add(mul(sub(column, self.left), wide.step), mul(taps[2], wide.gap))
        return Load("image", self._scratch(taps[0], y, x, channel), self.dtype)

    @property
    def copied(self) -> int:
        """Elements of a place in scratch: a group's channels, or of groups side by side each
        channel in all lanes that multiply by it.
        """
        return self.inner * (self.lanes if self.beside > 1 else 1)

    def _channel(self, copied: Expr) -> Expr:
        """The image's channel, of an element of a place in scratch."""
        group, inner = mul(self.at_group, self.beside), copied
        if self.beside > 1:
            inner, lane = split_linear(copied, (self.inner, self.lanes))
            group = add(group, floordiv(lane, self.lanes // self.beside))
        return add(mul(group, self.inner), inner)

    # -- the tail ----------------------------------------------------------------------------------
    def _tail(self, block: Expr, tile: tuple[Expr, Expr], start: tuple[Expr, Expr]) -> list[Stmt]:
        """Every member's elements from the registers; places computed twice are stored once."""
        p, (high, wide) = self.plan, self.axes[1:]
        r, s, lane = Var("tr_", p.rows), Var("ts_", p.columns), Var("tl_", self.lanes)
        row, column = add(start[0], r), add(start[1], s)
        inner = add(mul(block, self.lanes), lane)
        mask = TRUE if self.each % self.lanes == 0 else lt(inner, self.each)
        at = self.result_position((row, column))
        index = (*self.spatial(at, self.space[1]), add(mul(self.at_group, self.each), inner))
        place = add(mul(r, p.columns * self.lanes), mul(s, self.lanes), lane)
        body: Stmt = For(
            lane, "lanes", tuple(self.stores(Load("acc", place, self.dtype), index, mask))
        )
        inside = both(self.exists(at), not_before(row, tile[0], high, p.rows))
        inside = both(inside, not_before(column, tile[1], wide, p.columns))
        if inside != TRUE:
            body = If(inside, (body,))
        return [For(r, "unroll", (For(s, "unroll", (body,)),))]

    # -- the copy of the image ---------------------------------------------------------------------
    def _reads_in_place(self) -> bool:
        """Whether nothing is padded and a number is one plain load, channels side by side."""
        if self.beside > 1 or not all(a.unpadded for a in self.axes):
            return False
        value, channel, at = self._probe()
        if not isinstance(value, Load) or coefficient(value.index, channel) != 1:
            return False
        apart = [coefficient(value.index, place) for place in at[1:]]
        return not self._crowded([step if isinstance(step, int) else 0 for step in apart])

    def _probe(self) -> tuple[Expr, Var, tuple[Var, ...]]:
        """An element of the image, and the variables of its channel and of its place."""
        channel = Var("probe", self.copied)
        at = tuple(Var(f"probe{a}", axis.size) for a, axis in enumerate(self.axes))
        return self.pixel(at, self._channel(channel)), channel, at

    def _crowded(self, apart: Sequence[int]) -> bool:
        """Whether a tile's places evict one another, with so many elements from a row and a column
        of the image to the next.
        """
        steps = (
            size * axis.step * self.dtype.itemsize
            for size, axis in zip(apart, self.axes[1:], strict=True)
        )
        return crowded((self.plan.rows, self.plan.columns), tuple(steps))

    def _windows(self) -> tuple[int, int, int]:
        p, (deep, high, wide) = self.plan, self.axes
        return deep.reach, high.rows(p.task_rows), wide.window(p.task_columns)

    def _scratch(self, z: Expr, y: Expr, x: Expr, channel: Expr) -> Expr:
        sizes = self._windows()
        if self.channels_first:
            return linearise((channel, z, y, x), (self.copied, *sizes))
        return linearise((z, y, x, channel), (*sizes, self.pitch))

    def _copy(self) -> list[Stmt]:
        """The task's part of the image into scratch, zeros where it ends."""
        value, channel, (*_, last) = self._probe()
        loads = [e.index for e in loads_of(value)]
        self.channels_first = self.beside == 1 and bool(loads) and all(
            coefficient(e, channel) != 1 and coefficient(e, last) == 1 for e in loads
        )
        sizes = self._windows()
        self.pitch = self.copied
        if not self.channels_first and self._crowded((sizes[2] * self.pitch, self.pitch)):
            self.pitch += LINE // self.dtype.itemsize
        body: list[Stmt] = [Alloc("image", self.dtype, prod(sizes) * self.pitch, "local")]
        z, y = Var("iz", sizes[0]), Var("iy", sizes[1])
        deep, high, wide = self.axes
        s0 = add(mul(self.depth, deep.step), self.phases[0].offset, mul(z, deep.gap))
        down: Expr = y
        if self.rows_apart:
            tap, row = floordiv(y, self.plan.task_rows), mod(y, self.plan.task_rows)
            down = add(mul(tap, high.gap), mul(row, high.step))
        s1 = add(mul(self.top, high.step), self.phases[1].offset, down)
        start = add(mul(self.left, wide.step), self.phases[2].offset)
        inside = both(within(s0, deep.size), within(s1, high.size))
        if self.channels_first:
            channel = Var("ic", self.inner)
            rows = self._row((z, y), (s0, s1, start), inside, channel)
            loops: Stmt = For(z, "serial", (For(y, "serial", rows),))
            body.append(For(channel, "serial", (loops,)))
        else:
            rows = self._row((z, y), (s0, s1, start), inside, None)
            body.append(For(z, "serial", (For(y, "serial", rows),)))
        return body

    def _row(
        self, at: tuple[Var, Var], source: tuple[Expr, Expr, Expr], inside: Expr,
        channel: Var | None,
    ) -> tuple[Stmt, ...]:  # fmt: skip
        """One row of scratch: zeros, what the image has, zeros."""
        columns, wide = self._windows()[2], self.axes[-1].size
        start = source[2]
        before = minimum(maximum(mul(start, -1), constant(0)), columns)
        end = maximum(minimum(sub(wide, start), columns), before)
        middle = self._span("im", at, before, sub(end, before), channel, (*source[:2], start))
        copied = (
            *self._span("ib", at, constant(0), before, channel, None),
            *middle,
            *self._span("ia", at, end, sub(columns, end), channel, None),
        )
        if inside == TRUE:
            return copied
        blank = self._span("iw", at, constant(0), constant(columns), channel, None)
        return (If(inside, copied, blank),)

    def _span(
        self, name: str, at: tuple[Var, Var], first: Expr, count: Expr, channel: Var | None,
        source: tuple[Expr, Expr, Expr] | None,
    ) -> tuple[Stmt, ...]:  # fmt: skip
        """``count`` columns of a row of scratch from ``first``: zeros, or the image's."""
        if count == constant(0):
            return ()
        zero: Expr = Const(0.0 if self.dtype.kind == "f" else 0, self.dtype)
        inner: Expr
        if channel is not None:
            j = Var(name, extent_of(count))
            column, inner = add(first, j), channel
            loops: list[Var] = [j]
        elif self.beside > 1 and source is not None:
            loops = [Var(name, extent_of(count)), Var(f"{name}c", self.inner)]
            loops.append(Var(f"{name}l", self.lanes))
            sizes = self.inner, self.lanes
            column, inner = add(first, loops[0]), linearise((loops[1], loops[2]), sizes)
        elif source is None or (self.groups == 1 and self.pitch == self.copied):
            j = Var(name, extent_of(mul(count, self.pitch)))
            column, inner = add(first, floordiv(j, self.pitch)), mod(j, self.pitch)
            loops = [j]
        else:
            outer, j = Var(name, extent_of(count)), Var(f"{name}c", self.copied)
            column, inner = add(first, outer), j
            loops = [outer, j]
        value = zero
        if source is not None:
            place = (source[0], source[1], add(source[2], column))
            value = self.pixel(place, self._channel(inner))
        body: Stmt = Store("image", self._scratch(*at, column, inner), value)
        body = For(loops[-1], "lanes", (body,))
        for loop in reversed(loops[:-1]):
            body = For(loop, "serial" if loop is loops[0] else "unroll", (body,))
        return (body,)


def _plan(kernel: ConvolutionKernel, unit: VectorUnit) -> Plan:
    outer = kernel.groups * kernel.count * kernel.axes[0].each
    outer *= prod(tuple(a.phases for a in kernel.axes))
    found = plan(
        kernel.axes, outer, kernel.copied, kernel.blocks, kernel.lanes, unit,
        kernel.dtype.itemsize,
    )  # fmt: skip
    if found is None:
        raise ValueError("the convolution's image does not fit scratch memory")
    return found
