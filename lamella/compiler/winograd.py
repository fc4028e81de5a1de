"""The schedule of convolutions by Winograd's transforms: a quarter of the products of direct sums.

Input: a group of kind "tiles" whose contraction is a ``conv_winograd``, and the elementwise
statements on its result. Output: its kernel's grid loop. A grid iteration has some tiles of results
and some blocks of output channels. It transforms the part of the image under each tile into
scratch, channels along the lanes; multiplies, for each point, tiles by kernels in a register tile,
as the direct schedule does; and transforms the sums of a tile back in registers, from which the
elementwise statements are computed. The order of every sum depends on sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from lamella.compiler.convolution_base import (
    ConvolutionWriter,
    multiply_add,
    nearest,
    sizes_of,
    within,
    zero_unless,
)
from lamella.compiler.convolution_plan import parts_of
from lamella.compiler.fusion import Group
from lamella.compiler.statements import Program
from lamella.compiler.walk import extent_of
from lamella.compiler.winograd_plan import Fast, Sizes, fast
from lamella.dtypes import DType
from lamella.ir.index import TRUE, add, both, constant, lt, minimum, mul, split_linear, sub
from lamella.ir.loops import (
    Alloc,
    Apply,
    Const,
    Declare,
    Expr,
    For,
    If,
    Load,
    Read,
    Stmt,
    Store,
    Var,
)  # fmt: skip
from lamella.ir.node import Node
from lamella.ir.vectors import VectorUnit
from lamella.ops.convolution_winograd import TAPS, Transforms, transforms

__all__ = ["WinogradKernel"]


class WinogradKernel(ConvolutionWriter):
    """Writes the kernel of one ``conv_winograd`` with its tail."""

    def __init__(
        self, group: Group, program: Program, needed: set[Node], unit: VectorUnit
    ) -> None:
        node = group.members[0].node
        super().__init__(group, program, needed, (TAPS, TAPS))
        _, self.blocks, self.size, _, self.inner, self.lanes = sizes_of(*node.inputs[1].shape)
        images, high, wide, self.filters = sizes_of(*node.shape)
        itemsize = self.dtype.itemsize
        sizes = Sizes(images, high, wide, self.inner, self.filters, itemsize, unit)
        self.transforms = transforms(self.size - TAPS + 1)
        self.plan = _plan(sizes, self.transforms.edge, self.lanes)
        self.tiles = (images, *(parts_of(n, self.transforms.edge) for n in (high, wide)))
        self.row = self.plan.image_row(self.inner, itemsize)
        products = self.plan.tiles * self.plan.blocks * self.lanes * self.inner
        self.work = products * self.size**2 // 8 + 1

    def grid(self) -> For:
        """The kernel's grid loop."""
        p, count, points = self.plan, prod(self.tiles), self.size**2
        sizes = (parts_of(self.blocks, p.blocks), parts_of(count, p.tiles))
        grid = Var("g", prod(sizes))
        chunk, part = split_linear(constant(0) if grid.extent == 1 else grid, sizes)
        self.begin(constant(0), [constant(0)] * 3, constant(0))
        self.own = mul(part, p.tiles)
        # the last task is moved back to end with the tiles
        self.tile0 = minimum(self.own, count - p.tiles)
        block0 = mul(chunk, p.blocks)
        number = Var("ob", extent_of(minimum(p.blocks, sub(self.blocks, block0))))
        block = add(block0, number)
        each = For(number, "serial", (self._products(block), self._results(block)))
        return For(grid, "grid", (
            Alloc("image", self.dtype, points * p.tiles * self.row, "local"),
            Alloc("sums", self.dtype, points * p.tiles * self.lanes, "local"),
            self._image(),
            each,
        ))  # fmt: skip

    def _tile(self, number: Expr) -> tuple[Expr, Expr]:
        """The first row and column of a tile's results; its image becomes the current one."""
        image, down, across = split_linear(number, self.tiles)
        self.at_image = image
        return mul(down, self.transforms.edge), mul(across, self.transforms.edge)

    # -- the image ---------------------------------------------------------------------------------
    def _image(self) -> Stmt:
        """The loop that transforms the image under every tile of a task."""
        t = Var("t", self.plan.tiles)
        row, column = self._tile(add(self.tile0, t))
        high, wide = self.axes[1:]
        y, x = sub(row, high.low), sub(column, wide.low)
        inside: Expr = TRUE
        for first, size in ((y, high.size), (x, wide.size)):
            inside = both(inside, both(lt(-1, first), lt(add(first, self.size - 1), size)))
        plain, edge = self._under(t, (y, x), False), self._under(t, (y, x), True)
        if inside == TRUE:
            return For(t, "serial", (plain,))
        return For(t, "serial", (If(inside, (plain,), (edge,)),))

    def _under(self, t: Var, first: tuple[Expr, Expr], masked: bool) -> Stmt:
        """Bᵀ d B of the image under one tile; positions outside the image are zeros."""
        lane = Var("ce" if masked else "ci", self.inner)
        lines = Lines("e" if masked else "i", self.dtype)
        high, wide = self.axes[1:]

        def pixel(i: int, j: int) -> Expr:
            y, x = add(first[0], i), add(first[1], j)
            if not masked:
                return self.pixel((constant(0), y, x), lane)
            near = (nearest(y, high.size), nearest(x, wide.size))
            inside = both(within(y, high.size), within(x, wide.size))
            return zero_unless(inside, self.pixel((constant(0), *near), lane))

        points = range(self.size)
        columns = [lines.image(self.transforms, [pixel(i, j) for i in points]) for j in points]
        for i in points:
            for j, value in enumerate(lines.image(self.transforms, [c[i] for c in columns])):
                at = add(mul(add((i * self.size + j) * self.plan.tiles, t), self.row), lane)
                lines.body.append(Store("image", at, value))
        return For(lane, "lanes", tuple(lines.body))

    # -- the products ------------------------------------------------------------------------------
    def _products(self, block: Expr) -> Stmt:
        """For each point and ``rows`` tiles: their image times the kernels, in registers."""
        p = self.plan
        point, group = Var("a", self.size**2), Var("q", p.tiles // p.rows)
        channel, tile0 = Var("c", self.inner), add(mul(point, p.tiles), mul(group, p.rows))
        kernel = (constant(0), block, *split_linear(point, (self.size, self.size)), channel)

        def clear(_: Expr, __: Expr, total: Load) -> Store:
            return Store("acc", total.index, Const(0.0, self.dtype))

        def step(r: Expr, lane: Expr, total: Load) -> Store:
            pixel = Load("image", add(mul(add(tile0, r), self.row), channel), self.dtype)
            value = multiply_add(pixel, self.kernel((*kernel, lane)), total)
            return Store("acc", total.index, value)

        def keep(r: Expr, lane: Expr, total: Load) -> Store:
            return Store("sums", add(mul(add(tile0, r), self.lanes), lane), total)

        body: tuple[Stmt, ...] = (
            Alloc("acc", self.dtype, p.rows * self.lanes, "register"),
            self._each("z", clear),
            For(channel, "serial", (self._each("p", step),)),
            self._each("k", keep),
        )
        return For(point, "serial", (For(group, "serial", body),))

    def _each(self, name: str, store: Callable[[Expr, Expr, Load], Store]) -> Stmt:
        """One store for each sum of the register tile."""
        r, lane = Var(f"r{name}", self.plan.rows), Var(f"l{name}", self.lanes)
        total = Load("acc", add(mul(r, self.lanes), lane), self.dtype)
        return For(r, "unroll", (For(lane, "lanes", (store(r, lane, total),)),))

    # -- the results -------------------------------------------------------------------------------
    def _results(self, block: Expr) -> Stmt:
        """The loop that transforms the sums of every tile back, and the tail."""
        t, lane = Var("u", self.plan.tiles), Var("m", self.lanes)
        number = add(self.tile0, t)
        first = self._tile(number)
        channel = add(mul(block, self.lanes), lane)
        mask = TRUE if self.filters % self.lanes == 0 else lt(channel, self.filters)
        lines = Lines("r", self.dtype)

        def total(i: int, j: int) -> Expr:
            tile = add((i * self.size + j) * self.plan.tiles, t)
            return Load("sums", add(mul(tile, self.lanes), lane), self.dtype)

        points = range(self.size)
        columns = [lines.result(self.transforms, [total(i, j) for i in points]) for j in points]
        for i in range(self.transforms.edge):
            values = lines.result(self.transforms, [c[i] for c in columns])
            lines.body += self._row(add(first[0], i), first[1], values, channel, mask)
        body: Stmt = For(lane, "lanes", tuple(lines.body))
        if prod(self.tiles) % self.plan.tiles:
            body = If(lt(self.own, add(number, 1)), (body,))
        return For(t, "serial", (body,))

    def _row(
        self, row: Expr, column: Expr, values: Sequence[Expr], channel: Expr, mask: Expr
    ) -> list[Stmt]:
        """The tail of one row of a tile; places beyond the result are left out."""
        high, wide = (a.places for a in self.axes[1:])
        edge = self.transforms.edge
        body: list[Stmt] = []
        for j, value in enumerate(values):
            place = (self.at_image, row, add(column, j), channel)
            stores = self.stores(value, place, mask)
            body += stores if wide % edge == 0 else [If(lt(place[2], wide), tuple(stores))]
        return body if high % edge == 0 else [If(lt(row, high), tuple(body))]


class Lines:
    """Statements that name the values of transforms, so that each is computed once."""

    def __init__(self, name: str, dtype: DType) -> None:
        self.body: list[Stmt] = []
        self._name, self._dtype = name, dtype
        self._count = 0

    def _named(self, value: Expr) -> Expr:
        name = f"w{self._name}{self._count}"
        self._count += 1
        self.body.append(Declare(name, self._dtype, value))
        return Read(name, self._dtype)

    def image(self, t: Transforms, values: Sequence[Expr]) -> list[Expr]:
        """Bᵀ of the values. The rows of a point and its negative are e + s·o and e − s·o: e sums
        even columns, o odd ones.
        """
        values = [self._named(v) for v in values]
        found: list[Expr] = [self._sum(t.image[0], values)]
        for row in t.image[1:-1:2]:
            even = self._sum(row[0::2], values[0::2])
            scale = next(c for c in reversed(row[1::2]) if c)
            odd = self._sum([c / scale for c in row[1::2]], values[1::2])
            found += [self._plus(even, scale, odd), self._plus(even, -scale, odd)]
        return [*found, self._sum(t.image[-1], values)]

    def result(self, t: Transforms, values: Sequence[Expr]) -> list[Expr]:
        """Aᵀ of the values. A point and its negative meet even rows by their sum, odd rows by their
        difference.
        """
        pairs = range(1, len(values) - 1, 2)
        sums = [self._plus(values[i], 1.0, values[i + 1]) for i in pairs]
        differences = [self._plus(values[i], -1.0, values[i + 1]) for i in pairs]
        found = []
        for k, row in enumerate(t.result):
            both_ways = differences if k % 2 else sums
            found.append(
                self._sum([row[0], *row[1:-1:2], row[-1]], [values[0], *both_ways, values[-1]])
            )
        return found

    def _plus(self, value: Expr, factor: float, other: Expr) -> Expr:
        return self._sum((1.0, factor), (value, other))

    def _sum(self, factors: Sequence[float], values: Sequence[Expr]) -> Expr:
        """Σ factor · value, beginning with a factor of 1 if there is one."""
        terms = [(f, v) for f, v in zip(factors, values, strict=True) if f]
        terms.sort(key=lambda term: term[0] != 1.0)
        factor, total = terms[0]
        if factor != 1.0:
            total = Apply("mul", (total, Const(factor, self._dtype)), self._dtype)
        for factor, value in terms[1:]:
            if abs(factor) == 1.0:
                op = "add" if factor > 0 else "sub"
                total = Apply(op, (total, value), self._dtype)
            else:
                total = multiply_add(value, Const(factor, self._dtype), total)
        return self._named(total)


def _plan(sizes: Sizes, edge: int, lanes: int) -> Fast:
    found = fast(sizes, edge, lanes)
    if found is None:
        raise ValueError(f"no schedule for {sizes} in tiles of {edge}")
    return found
