"""What the direct schedules of convolutions share: axes, phases, elements and the tail.

Input: a group of kind "tiles" whose contraction is a convolution with channels last. Output: a
:class:`ConvolutionWriter`, which knows the sizes and writes the elements of the image and the
stores of the result, and small index arithmetic. Where the image is dilated (the derivative of a
strided convolution) the places of an axis fall into phases, place = phases·q + number, that meet
different taps, every ``phases``-th; a schedule takes one phase at a time, so that no zero between
the image's elements is multiplied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from lamella.compiler.convolution_plan import Axis, parts_of
from lamella.compiler.elements import Elements
from lamella.compiler.fusion import Group
from lamella.compiler.statements import Program, Statement
from lamella.compiler.tail import stores
from lamella.compiler.walk import extent_of
from lamella.dtypes import int64
from lamella.ir.dim import Size
from lamella.ir.index import (
    TRUE,
    add,
    both,
    bounds,
    constant,
    floordiv,
    lt,
    minimum,
    mod,
    mul,
    sub,
)  # fmt: skip
from lamella.ir.loops import Apply, Const, Expr, For, Stmt, Var, cast
from lamella.ir.node import Node
from lamella.ops.base import Index
from lamella.ops.convolution import Conv
from lamella.ops.families import accumulator

__all__ = [
    "ConvolutionWriter", "Phase", "axes_of", "maximum",
    "multiply_add", "nearest", "not_before", "phase_of", "sizes_of", "tiles_of", "within",
    "zero_unless",
]  # fmt: skip


def axes_of(
    op: Conv, image: Sequence[int], places: Sequence[int], taps: Sequence[int]
) -> list[Axis]:
    """The spatial axes, at least three: those that are missing have size 1."""
    found = []
    for a, (size, place, tap) in enumerate(zip(image, places, taps, strict=True)):
        gap, low = op.w_dilation[a], op.low[a]
        if gap < 0:
            low -= gap * (tap - 1)
        found.append(
            Axis(size, place, tap, op.stride[a], low, abs(gap), op.x_dilation[a], gap < 0)
        )
    return [Axis(1, 1, 1, 1, 0, 1)] * (3 - len(found)) + found


@dataclass(frozen=True, slots=True)
class Phase:
    """One axis in a task: the number of its phase, the first tap it meets, how many there are, and
    the position that place 0 and that tap read.
    """

    number: Expr
    first: Expr
    taps: Expr | Size
    offset: Expr


def phase_of(axis: Axis, number: Expr) -> Phase:
    """The taps that meet elements of the image, for places ``phases·q + number``."""
    if axis.phases == 1:
        return Phase(number, constant(0), axis.taps, constant(-axis.low))
    inverse = pow(axis.gap, -1, axis.phases)
    first = mod(mul(sub(axis.low, mul(number, axis.step)), inverse), axis.phases)
    taps = floordiv(add(axis.taps - 1 + axis.phases, mul(first, -1)), axis.phases)
    wide = add(mul(number, axis.step), mul(first, axis.gap), -axis.low)
    return Phase(number, first, taps, floordiv(wide, axis.phases))


class ConvolutionWriter(ABC):
    """The elements of one convolution and of its tail, by axes of the schedule (three, the first
    ones perhaps of size 1).
    """

    def __init__(
        self, group: Group, program: Program, needed: set[Node], taps: Sequence[Size]
    ) -> None:
        self.work: Size = 1
        self.group, self.needed = group, needed
        self.first: Statement = group.members[0]
        self.node = node = self.first.node
        x, w = node.inputs
        elements = Elements(program.names, program.params)
        self.image, self.kernel = elements.argument(x), elements.argument(w)
        self.dtype = accumulator(node.dtype)
        if not isinstance(node.op, Conv):
            raise TypeError(f"{node.op.name} is no convolution")
        self.images = int(x.shape[0])
        self.space = sizes_of(*x.shape[1:-1]), sizes_of(*node.shape[1:-1])
        self.axes = axes_of(node.op, *self.space, sizes_of(*taps))

    @abstractmethod
    def grid(self) -> For:
        """The kernel's grid loop."""

    def begin(self, image: Expr, phases: Sequence[Expr], depth: Expr) -> None:
        """Where a task is: its image, its phases, its place along the first axis."""
        self.at_image, self.depth = image, depth
        self.phases = [phase_of(a, n) for a, n in zip(self.axes, phases, strict=True)]

    def position(self, axis: int, place: Expr, tap: Expr) -> Expr:
        """Where along an axis a place of the phase and a tap of it read the image."""
        a, phase = self.axes[axis], self.phases[axis]
        return add(mul(place, a.step), mul(tap, a.gap), phase.offset)

    def tap(self, axis: int, number: Expr) -> Expr:
        """A tap of the phase among all taps."""
        a = self.axes[axis]
        found = add(self.phases[axis].first, mul(number, a.phases))
        return sub(a.taps - 1, found) if a.backwards else found

    def reads(self, axis: int, first: Expr, last: Expr, tap: Expr) -> Expr:
        """Whether a tap reads inside the image for some place from ``first`` to ``last``: what lies
        around is zero.
        """
        if self.axes[axis].unpadded:
            return TRUE
        low, high = self.position(axis, first, tap), self.position(axis, last, tap)
        return both(lt(-1, high), lt(low, self.axes[axis].size))

    def spatial(self, at: Sequence[Expr], space: Sequence[int]) -> Index:
        """Image and position as the graph has them."""
        return (self.at_image, *at[3 - len(space) :])

    def pixel(self, at: Sequence[Expr], channel: Expr) -> Expr:
        """The image's element at a position that it has."""
        return cast(self.image((*self.spatial(at, self.space[0]), channel)), self.dtype)

    # -- the tail ----------------------------------------------------------------------------------
    def result_position(self, place: tuple[Expr, Expr]) -> tuple[Expr, ...]:
        """The place of the result, of a row and column of the phase."""
        at = zip((self.depth, *place), self.axes, self.phases, strict=True)
        return tuple(add(mul(q, a.phases), phase.number) for q, a, phase in at)

    def exists(self, at: Sequence[Expr]) -> Expr:
        """Whether the result has a place: the last phases of an axis may be shorter."""
        inside: Expr = TRUE
        for place, a in zip(at, self.axes, strict=True):
            if a.places % a.phases:
                inside = both(inside, lt(place, a.places))
        return inside

    def stores(self, total: Expr, index: Index, mask: Expr) -> list[Stmt]:
        """The members' values at one index, and the stores of those that are needed."""
        return stores(self.group.members, self.needed, total, index, mask)


# -- index arithmetic ------------------------------------------------------------------------------
def sizes_of(*sizes: Size) -> tuple[int, ...]:
    """Sizes that are known, as numbers."""
    return tuple(int(size) for size in sizes)


def tiles_of(name: str, each: int, start: Expr, task: int, tile: int) -> Var:
    """A loop over the tiles of a task that begin inside the axis."""
    if each % task == 0:
        return Var(name, parts_of(task, tile))
    left = floordiv(add(each + tile - 1, mul(start, -1)), tile)
    return Var(name, extent_of(minimum(task // tile, left)))


def not_before(place: Expr, first: Expr, axis: Axis, tile: int) -> Expr:
    """Whether a place belongs to a tile that may have been moved back."""
    return TRUE if axis.each % tile == 0 else lt(sub(first, 1), place)


def within(position: Expr, size: int) -> Expr:
    """Whether a position is inside an axis."""
    return both(lt(-1, position), lt(position, size))


def maximum(a: Expr, b: Expr) -> Expr:
    """The greater of two indices."""
    low, high = bounds(sub(a, b))
    if isinstance(low, int) and low >= 0:
        return a
    if isinstance(high, int) and high <= 0:
        return b
    return Apply("max", (a, b), int64)


def nearest(position: Expr, size: int) -> Expr:
    """The position, moved inside the axis.

    What lies outside is read there and replaced by zero, not left out by a mask: a masked load of
    an address that no page is behind takes hundreds of cycles.
    """
    return minimum(maximum(position, constant(0)), size - 1)


def zero_unless(inside: Expr, value: Expr) -> Expr:
    """The value where ``inside`` holds, else zero."""
    if inside == TRUE:
        return value
    return Apply("select", (inside, value, Const(0, value.dtype)), value.dtype)


def multiply_add(a: Expr, b: Expr, c: Expr) -> Expr:
    """a · b + c."""
    if a.dtype.kind == "f":
        return Apply("fma", (a, b, c), a.dtype)
    return Apply("add", (Apply("mul", (a, b), a.dtype), c), a.dtype)
