"""Windows: strided, dilated neighbourhoods as axes of their own, and their sum back; diagonals.

Two movement primitives, each the other's transpose, carry them: ``slide`` reads along the slanted
lines s = stride·o + dilation·k of the plane (s, k), ``unslide`` writes them. ``window`` slides over
a tensor repeated along k (which costs nothing); pooling is a reduction over its window axes, and
``fold`` (overlap-add) the sum over k of what unslide put back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

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
from lamella.ops.movement import permute, reshape
from lamella.ops.slicing import slice
from lamella.ops.validate import zero

T = TypeVar("T")

__all__ = ["Slide", "Unslide", "diagonal", "fold", "slide", "unslide", "window"]


@dataclass(frozen=True, slots=True)
class Slide(Movement):
    """(*L, *S, *K) to (*L, *O, *K): result[l, o, k] = x[l, strides·o + dilations·k, k]."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    name = "slide"

    def check(self, node: Node) -> None:
        """Only the window's positions change size, and all reads stay inside."""
        x = node.inputs[0]
        _check(self.name, x.shape, node.shape, self.strides, self.dilations)
        check_fits(node, node.shape, x.dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """NumPy indexing by broadcast positions."""
        return arrays[0][_lines(arrays[0].ndim, shape, self.strides, self.dilations)]

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangent put back on its lines."""
        _, space, _ = _parts(node.inputs[0].shape, len(self.strides))
        return (unslide(cotangent, space, self.strides, self.dilations),)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The batch axis is one more leading axis."""
        return make(self, (args[0],), (size, *node.shape), node.dtype)

    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """The element on the line of the position."""
        lead, places, taps = _parts(index, len(self.strides))
        at = (
            ix.add(ix.mul(o, step), ix.mul(k, tap))
            for o, k, step, tap in zip(places, taps, self.strides, self.dilations, strict=True)
        )
        return args[0]((*lead, *at, *taps))

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """One to three window axes; overlapping, touching and apart; a diagonal; empty results."""
        for lead, space, places, taps, strides, dilations in _CASES:
            yield Sample(
                ((*lead, *space, *taps),),
                lambda x, c=(places, strides, dilations): slide(x, *c),
                dtypes.ALL,
            )


# leading sizes, image, places, taps, strides, dilations
_CASES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((2,), (7,), (3,), (3,), (2,), (1,)),
    ((), (6,), (6,), (1,), (1,), (1,)),
    ((1, 2), (5, 6), (2, 3), (2, 3), (2, 1), (2, 1)),
    ((), (4, 3, 4), (2, 1, 2), (2, 3, 1), (2, 1, 3), (1, 1, 1)),
    ((2,), (4,), (1,), (4,), (1,), (1,)),
    ((), (9,), (2,), (3,), (5,), (1,)),
    ((2,), (3,), (0,), (2,), (1,), (1,)),
)


@dataclass(frozen=True, slots=True)
class Unslide(Movement):
    """(*L, *O, *K) to (*L, *S, *K): result[l, s, k] = x[l, o, k] where s = strides·o + dilations·k,
    else 0.
    """

    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    name = "unslide"

    def check(self, node: Node) -> None:
        """Only the positions change size, and none falls outside."""
        x = node.inputs[0]
        _check(self.name, node.shape, x.shape, self.strides, self.dilations)
        check_fits(node, node.shape, x.dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """NumPy assignment to broadcast positions of zeros."""
        result = np.zeros(shape, dtype.numpy)
        lines = _lines(len(shape), arrays[0].shape, self.strides, self.dilations)
        result[lines] = arrays[0]
        return result

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangent read along its lines."""
        _, places, _ = _parts(node.inputs[0].shape, len(self.strides))
        return (slide(cotangent, places, self.strides, self.dilations),)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The batch axis is one more leading axis."""
        return make(self, (args[0],), (size, *node.shape), node.dtype)

    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """The element whose line passes here, if one does."""
        lead, space, taps = _parts(index, len(self.strides))
        _, limits, _ = _parts(node.inputs[0].shape, len(self.strides))
        inside: Expr = ix.TRUE
        at: list[Expr] = []
        for s, k, step, tap, limit in zip(
            space, taps, self.strides, self.dilations, limits, strict=True
        ):
            offset = ix.sub(s, ix.mul(k, tap))
            inside = ix.both(inside, ix.lt(-1, offset))
            inside = ix.both(inside, ix.lt(offset, (limit - 1) * step + 1))
            inside = ix.both(inside, ix.lt(ix.mod(offset, step), 1))
            at.append(ix.floordiv(offset, step))
        return args[0].guarded(inside, (*lead, *at, *taps), zero(node.dtype))

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """The cases of slide, backwards."""
        for lead, space, places, taps, strides, dilations in _CASES:
            yield Sample(
                ((*lead, *places, *taps),),
                lambda x, c=(space, strides, dilations): unslide(x, *c),
                dtypes.ALL,
            )


def _parts(values: tuple[T, ...], rank: int) -> tuple[tuple[T, ...], ...]:
    """Leading values, those of the positions, those of the taps."""
    lead = len(values) - 2 * rank
    return values[:lead], values[lead : lead + rank], values[lead + rank :]


def _lines(
    ndim: int, shape: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> tuple[Array, ...]:
    """The index in (*L, *S, *K) of every element of ``shape`` (*L, *O, *K)."""
    grid = np.indices(shape, sparse=True)
    lead, places, taps = _parts(tuple(grid), len(strides))
    at = zip(places, taps, strides, dilations, strict=True)
    return (*lead, *(o * step + k * tap for o, k, step, tap in at), *taps)


def _check_steps(op: str, strides: tuple[int, ...], dilations: tuple[int, ...]) -> None:
    if any(step < 1 for step in (*strides, *dilations)):
        raise ShapeError(
            f"[{op}] strides {strides} or dilations {dilations} below 1; use 1 or more"
        )


def _check(
    op: str, wide: Shape, narrow: Shape, strides: tuple[int, ...], dilations: tuple[int, ...]
) -> None:
    rank = len(strides)
    if len(dilations) != rank or len(wide) != len(narrow) or len(wide) < 2 * rank:
        raise ShapeError(
            f"[{op}] strides {strides} and dilations {dilations} for shape {wide}: as many of each "
            "as window axes, and two axes a window; give one of each an axis"
        )
    _check_steps(op, strides, dilations)
    lead, space, taps = _parts(wide, rank)
    other, places, same = _parts(narrow, rank)
    if lead != other or taps != same:
        raise ShapeError(
            f"[{op}] shapes {wide} and {narrow} differ beside the positions; keep them"
        )
    for size, o, k, step, tap in zip(space, places, taps, strides, dilations, strict=True):
        if isinstance(size, int) and isinstance(o, int) and isinstance(k, int) and o and k:
            last = (o - 1) * step + (k - 1) * tap
            if last >= size:
                raise ShapeError(
                    f"[{op}] {o} positions of {k} taps reach {last + 1} elements of an axis of "
                    f"{size}; pad it first, or use fewer"
                )


def slide(
    x: Node, places: Sequence[Size], strides: Sequence[int], dilations: Sequence[int]
) -> Node:
    """``x (*L, *S, *K)`` read along slanted lines: result[l, o, k] = x[l, strides·o + dilations·k,
    k].

    Raises:
        ShapeError: when the axes do not pair up or a line leaves ``x``.

    >>> from lamella import dtypes, ops
    >>> slide(ops.iota((5, 3), 0, dtypes.int64), (2,), (2,), (1,)).shape
    (2, 3)
    """
    rank = len(places)
    shape = (*x.shape[: x.ndim - 2 * rank], *places, *x.shape[x.ndim - rank :])
    _check("slide", x.shape, shape, tuple(strides), tuple(dilations))
    return make(Slide(tuple(strides), tuple(dilations)), (x,), shape, x.dtype)


def unslide(
    x: Node, space: Sequence[Size], strides: Sequence[int], dilations: Sequence[int]
) -> Node:
    """The transpose of ``slide``: ``x (*L, *O, *K)`` put on its lines in zeros ``(*L, *space,
    *K)``.

    Raises:
        ShapeError: when the axes do not pair up or a line leaves ``space``.

    >>> from lamella import dtypes, ops
    >>> unslide(ops.iota((2, 3), 0, dtypes.int64), (5,), (2,), (1,)).shape
    (5, 3)
    """
    rank = len(space)
    shape = (*x.shape[: x.ndim - 2 * rank], *space, *x.shape[x.ndim - rank :])
    _check("unslide", shape, x.shape, tuple(strides), tuple(dilations))
    return make(Unslide(tuple(strides), tuple(dilations)), (x,), shape, x.dtype)


def window(
    x: Node, sizes: Sequence[Size], strides: Sequence[int], dilations: Sequence[int] | None = None
) -> Node:
    """The windows of the last ``len(sizes)`` axes: ``(*L, *S)`` to ``(*L, *O, *sizes)``, without
    padding.

    result[l, o, k] = x[l, strides·o + dilations·k], O = (S − dilations·(sizes − 1) − 1) // strides
    + 1.

    Raises:
        ShapeError: when a window is larger than its axis, or options do not pair up.

    >>> from lamella import dtypes, ops
    >>> window(ops.iota((2, 7), 1, dtypes.int64), (3,), (2,)).shape
    (2, 3, 3)
    """
    rank = len(sizes)
    taps = (1,) * rank if dilations is None else tuple(dilations)
    if not rank == len(strides) == len(taps) or rank > x.ndim:
        raise ShapeError(
            f"[window] sizes {tuple(sizes)}, strides {tuple(strides)}, dilations {taps} for shape "
            f"{x.shape}: as many of each, at most the axes there are; repeat them for every axis"
        )
    _check_steps("window", tuple(strides), taps)
    lead, space = x.shape[: x.ndim - rank], x.shape[x.ndim - rank :]
    places: list[Size] = []
    for size, k, step, tap in zip(space, sizes, strides, taps, strict=True):
        left = size - (k - 1) * tap - 1
        if isinstance(left, int) and left < 0:
            raise ShapeError(
                f"[window] windows of {k} elements {tap} apart in shape {x.shape}: they are larger "
                f"than the axis of {size}; pad it first"
            )
        places.append(left // step + 1)
    repeated = to_shape(reshape(x, (*x.shape, *(1,) * rank)), (*lead, *space, *sizes))
    return slide(repeated, places, strides, taps)


def fold(
    x: Node, space: Sequence[Size], strides: Sequence[int], dilations: Sequence[int] | None = None
) -> Node:
    """The transpose of ``window`` (overlap-add): ``(*L, *O, *K)`` to ``(*L, *space)``.

    result[l, s] = Σ x[l, o, k] over s = strides·o + dilations·k.

    Raises:
        ShapeError: when the axes do not pair up or a window leaves ``space``.

    >>> from lamella import dtypes, ops
    >>> fold(ops.iota((2, 3, 3), 1, dtypes.float32), (7,), (2,)).shape
    (2, 7)
    """
    rank = len(space)
    taps = (1,) * rank if dilations is None else tuple(dilations)
    spread = unslide(x, space, strides, taps)
    return ops.reduce_sum(spread, tuple(range(spread.ndim - rank, spread.ndim)))


def diagonal(x: Node, axis1: int = 0, axis2: int = 1, offset: int = 0) -> Node:
    """The elements where the index of ``axis2`` is that of ``axis1`` plus ``offset``, as a new last
    axis.

    Raises:
        ShapeError: for the same axis twice, or an offset of symbolic sizes.

    >>> from lamella import dtypes, ops
    >>> diagonal(ops.iota((2, 3, 5), 0, dtypes.int64), 1, 2, 1).shape
    (2, 3)
    """
    normalize_axes("diagonal", (axis1, axis2), x.ndim)
    first, second = axis1 % x.ndim, axis2 % x.ndim
    rest = [a for a in range(x.ndim) if a not in (first, second)]
    moved = permute(x, (*rest, first, second))
    rows, columns = moved.shape[-2:]
    if offset or rows != columns:
        if not isinstance(rows, int) or not isinstance(columns, int):
            raise ShapeError(
                f"[diagonal] offset {offset} of sizes {rows} and {columns}: its length is known "
                "only when the program runs; use sizes that are known"
            )
        down, right = max(-offset, 0), max(offset, 0)
        count = max(min(rows - down, columns - right), 0)
        starts = (0,) * len(rest) + ((down, right) if count else (0, 0))
        moved = slice(moved, starts, (*moved.shape[:-2], count, count))
    count_last = moved.shape[-1]
    if count_last == 0:
        return reshape(moved, (*moved.shape[:-2], 0))
    return reshape(slide(moved, (1,), (1,), (1,)), (*moved.shape[:-2], count_last))
