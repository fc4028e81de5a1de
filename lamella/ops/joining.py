"""Padding and concatenation: results with elements that come from different places, chosen by
position.

Input: nodes of one dtype. Output: a node whose element reads the input its position belongs to and
touches no other memory. Both are linear; their transposes are slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lamella import dtypes, ops
from lamella.dtypes import DType
from lamella.errors import ShapeError
from lamella.ir import index as ix
from lamella.ir.dim import Shape, Size
from lamella.ir.loops import Expr
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Element, Index, Needs, Sample
from lamella.ops.families import Movement, check_fits, normalize_axes, to_shape
from lamella.ops.movement import reshape, zeros
from lamella.ops.slicing import slice
from lamella.ops.validate import require_same_dtype, zero

__all__ = ["Concatenate", "Pad", "concatenate", "pad"]


@dataclass(frozen=True, slots=True)
class Pad(Movement):
    """x with ``low`` fill elements before each axis, ``interior`` between neighbours and the rest
    after; inputs x, value.
    """

    low: tuple[int, ...]
    interior: tuple[int, ...]

    name = "pad"

    def check(self, node: Node) -> None:
        """At least as long as the spread input; a 0-d fill of the same dtype."""
        x, value = node.inputs
        require_same_dtype(self.name, x, value)
        check_fits(node, node.shape, x.dtype)
        check_fits(value, (), value.dtype)
        for have, size, low, gap in zip(node.shape, x.shape, self.low, self.interior, strict=True):
            least = low + _spread(size, gap)
            if isinstance(have, int) and isinstance(least, int) and have < least:
                check_fits(node, (*x.shape, "at least"), x.dtype)  # type: ignore[arg-type]

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """The input assigned into an array of the fill."""
        x, value = arrays
        result = np.full(shape, value, dtype.numpy)
        at = zip(self.low, x.shape, self.interior, strict=True)
        result[np.ix_(*(low + np.arange(n) * (gap + 1) for low, n, gap in at))] = x
        return result

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The region of the input, and the sum outside it."""
        x = node.inputs[0]
        inner = slice(cotangent, self.low, x.shape, [gap + 1 for gap in self.interior])
        if not needs[1]:
            return inner, None
        mask = pad(zeros(x.shape, cotangent.dtype), self.low, self._high(node), 1.0, self.interior)
        axes = tuple(range(node.ndim))
        return inner if needs[0] else None, ops.reduce_sum(ops.multiply(cotangent, mask), axes)

    def _high(self, node: Node) -> tuple[Size, ...]:
        at = zip(node.shape, node.inputs[0].shape, self.low, self.interior, strict=True)
        return tuple(have - low - _spread(size, gap) for have, size, low, gap in at)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The batch axis unpadded; fills that differ along it are chosen by a mask."""
        x, value = args
        low, high, gaps = (0, *self.low), (0, *self._high(node)), (0, *self.interior)
        source = x if batched[0] else to_shape(x, (size, *x.shape))
        if not batched[1]:
            return pad(source, low, high, value, gaps)
        inside = zeros(node.inputs[0].shape, dtypes.bool_)
        outside = pad(inside, self.low, self._high(node), True, self.interior)
        fill = reshape(value, (size, *(1,) * node.ndim))
        shape = (size, *node.shape)
        return ops.where(
            to_shape(outside, shape), to_shape(fill, shape), pad(source, low, high, 0, gaps)
        )

    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """The input where the position is one of its own, else the fill."""
        inside: Expr = ix.TRUE
        at: list[Expr] = []
        for i, size, have, low, gap in zip(
            index, node.inputs[0].shape, node.shape, self.low, self.interior, strict=True
        ):
            offset = ix.sub(i, low)
            if size != have:
                inside = ix.both(inside, ix.lt(-1, offset))
                if gap:
                    inside = ix.both(inside, ix.lt(ix.mod(offset, gap + 1), 1))
                    offset = ix.floordiv(offset, gap + 1)
                inside = ix.both(inside, ix.lt(offset, size))
            at.append(offset)
        return args[0].guarded(inside, tuple(at), args[1](()))

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Each side, interior gaps, empty inputs."""
        cases: tuple[tuple[tuple[int, ...], ...], ...] = (
            ((), (), (), ()), ((3,), (1,), (2,), (0,)), ((3, 4), (0, 2), (1, 0), (0, 0)),
            ((3, 2), (1, 0), (0, 2), (2, 1)), ((0, 2), (2, 1), (1, 1), (0, 0)),
            ((0,), (1,), (1,), (3,)),
        )  # fmt: skip
        for shape, low, high, gaps in cases:
            yield Sample(
                (shape, ()), lambda x, v, a=low, b=high, g=gaps: pad(x, a, b, v, g), dtypes.ALL
            )


def _spread(size: Size, gap: int) -> Size:
    """The extent of ``size`` elements with ``gap`` between neighbours; a symbolic size counts as at
    least 1.
    """
    if gap == 0 or size == 0:
        return size
    return (size - 1) * (gap + 1) + 1


def pad(
    x: Node,
    low: Sequence[int],
    high: Sequence[Size],
    value: Node | float = 0,
    interior: Sequence[int] | None = None,
) -> Node:
    """``x`` surrounded by ``value``: ``low`` elements before and ``high`` after each axis,
    ``interior`` between neighbours.

    Raises:
        ShapeError: unless every axis has its amounts, none negative.
        DTypeError: when ``value`` is a node of another dtype.

    >>> from lamella import dtypes, ops
    >>> pad(ops.iota((3,), 0, dtypes.int64), (1,), (2,), 0, (1,)).shape
    (8,)
    """
    gaps = (0,) * x.ndim if interior is None else tuple(interior)
    if not len(low) == len(high) == len(gaps) == x.ndim or any(
        isinstance(n, int) and n < 0 for n in (*low, *high, *gaps)
    ):
        raise ShapeError(
            f"[pad] amounts {tuple(low)} before, {tuple(high)} after, {gaps} between for shape "
            f"{x.shape}: every axis needs its own and none may be negative; slice to crop"
        )
    fill = value if isinstance(value, Node) else ops.constant(_literal(value, x.dtype), x.dtype)
    require_same_dtype("pad", x, fill)
    if fill.shape != ():
        raise ShapeError(f"[pad] a value of shape {fill.shape}, but one scalar fills all; index it")
    at = zip(low, x.shape, gaps, high, strict=True)
    shape = tuple(before + _spread(n, gap) + after for before, n, gap, after in at)
    if shape == x.shape:
        return x
    return make(Pad(tuple(low), gaps), (x, fill), shape, x.dtype)


def _literal(value: float, dtype: DType) -> bool | int | float:
    return {"b": bool, "f": float}.get(dtype.kind, int)(value)


@dataclass(frozen=True, slots=True)
class Concatenate(Movement):
    """The inputs one after the other along ``axis``."""

    axis: int

    name = "concatenate"

    def check(self, node: Node) -> None:
        """Equal shapes beside the axis; sizes along it add up."""
        require_same_dtype(self.name, *node.inputs)
        check_fits(node, _joined(node.inputs, self.axis), node.inputs[0].dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.concatenate``."""
        return np.concatenate(arrays, self.axis)

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The slice that belongs to each input."""
        found: list[Node | None] = []
        offset: Size = 0
        for source, needed in zip(node.inputs, needs, strict=True):
            found.append(self._part(cotangent, offset, source.shape) if needed else None)
            offset = offset + source.shape[self.axis]
        return found

    def _part(self, cotangent: Node, offset: Size, shape: Shape) -> Node:
        if isinstance(offset, int):
            starts = [offset if a == self.axis else 0 for a in range(len(shape))]
            return slice(cotangent, starts, shape)
        # a symbolic offset is no number while recording: the part is what is left after it, counted
        # from the end
        whole = cotangent.shape[self.axis]
        axis = (self.axis,)
        tail = [whole - offset if a == self.axis else n for a, n in enumerate(cotangent.shape)]
        backwards = slice(ops.flip(cotangent, axis), [0] * len(shape), tail)
        return slice(ops.flip(backwards, axis), [0] * len(shape), shape)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """Unbatched inputs are repeated."""
        pairs = zip(args, batched, strict=True)
        full = [arg if has else to_shape(arg, (size, *arg.shape)) for arg, has in pairs]
        return concatenate(full, self.axis + 1)

    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """The input whose range holds the position."""
        i = index[self.axis]
        end = node.shape[self.axis]
        result: Expr = zero(node.dtype)
        for place in range(len(args) - 1, -1, -1):
            offset = end - node.inputs[place].shape[self.axis]
            at = (*index[: self.axis], ix.sub(i, offset), *index[self.axis + 1 :])
            inside = ix.both(ix.lt(ix.sub(offset, 1), i), ix.lt(i, end))
            result = args[place].guarded(inside, at, result)
            end = offset
        return result

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Two and three inputs, empty ones too."""
        cases: tuple[tuple[tuple[tuple[int, ...], ...], int], ...] = (
            (((3,), (2,)), 0), (((2, 3), (2, 1), (2, 4)), 1), (((1, 2, 3), (2, 2, 3)), 0),
            (((2, 0), (2, 3)), 1), (((0, 3), (0, 3)), 0),
        )  # fmt: skip
        for shapes, axis in cases:
            yield Sample(shapes, lambda *xs, a=axis: concatenate(xs, a), dtypes.ALL)


def _joined(xs: Sequence[Node], axis: int) -> Shape:
    first = xs[0].shape
    before, after = first[:axis], first[axis + 1 :]
    total: Size = 0
    for x in xs:
        shape = x.shape
        if shape[:axis] != before or shape[axis + 1 :] != after:
            raise ShapeError(
                f"[concatenate] shapes {first} and {shape} differ beside axis {axis}, so they do "
                "not line up; make every other axis equal"
            )
        total = total + shape[axis]
    return (*before, total, *after)


def concatenate(xs: Sequence[Node], axis: int) -> Node:
    """The nodes ``xs`` one after the other along ``axis``.

    Raises:
        ShapeError: for no input, 0-d inputs, or shapes that differ along another axis.
        DTypeError: when the dtypes differ.

    >>> from lamella import dtypes, ops
    >>> concatenate([ops.iota((2, 3), 0, dtypes.int64), ops.iota((2, 1), 0, dtypes.int64)], 1).shape
    (2, 4)
    """
    if not xs:
        raise ShapeError("[concatenate] no tensor was given, so the result has no dtype; pass one")
    found = normalize_axes("concatenate", axis, xs[0].ndim)[0]
    require_same_dtype("concatenate", *xs)
    shape = _joined(xs, found)
    kept = [x for x in xs if x.shape[found] != 0] or [xs[0]]
    return kept[0] if len(kept) == 1 else make(Concatenate(found), tuple(kept), shape, xs[0].dtype)
