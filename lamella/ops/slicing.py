"""Strided slices, and replacing a strided slice: each is written in terms of the other.

Input: a tensor, 0-d int64 starts (run-time arguments, so that ``x[i]`` is one program for every
``i``) and static strides. Output: ``slice``: the region; ``update_slice``: the tensor with the
region replaced. The size of the region is the result's (or the update's) shape; position ``k`` of
the region along an axis is ``start + k * stride``, stride possibly negative. Starts that are known
numbers are checked here; others are the caller's duty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lamella import dtypes, ops
from lamella.dtypes import DType
from lamella.errors import LamellaIndexError, ShapeError
from lamella.ir import index as ix
from lamella.ir.dim import Shape, Size
from lamella.ir.loops import Expr
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Element, Index, Needs, Sample
from lamella.ops.families import Movement, check_fits, to_shape
from lamella.ops.leaf import Constant
from lamella.ops.movement import permute, reshape, zeros
from lamella.ops.validate import known_number, require_same_dtype

__all__ = ["Slice", "UpdateSlice", "slice", "update_slice"]

Starts = Sequence[Node | int]


@dataclass(frozen=True, slots=True)
class Slice(Movement):
    """result[k_0, …] = x[start_0 + k_0 * strides[0], …]; inputs x, start_0, …"""

    strides: tuple[int, ...]

    name = "slice"

    def check(self, node: Node) -> None:
        """One start and stride an axis, known starts in range."""
        x, *starts = node.inputs
        _check_starts(self.name, starts, node.shape, x.shape, self.strides)
        check_fits(node, node.shape, x.dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """NumPy indexing by the positions."""
        return arrays[0][_positions(arrays[1:], shape, self.strides)]

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangent put into zeros; starts have none."""
        x, *starts = node.inputs
        empty = zeros(x.shape, x.dtype)
        return (update_slice(empty, cotangent, starts, self.strides), *(None for _ in starts))

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The batch axis whole; starts that differ along it become a gather."""
        if any(batched[1:]):
            return _gather_slices(node, self.strides, args, batched, size)
        return slice(args[0], (0, *args[1:]), (size, *node.shape), (1, *self.strides))

    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """The element at start + i * stride."""
        at = zip(args[1:], index, self.strides, strict=True)
        return args[0](tuple(ix.add(start(()), ix.mul(i, stride)) for start, i, stride in at))

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Strides of both signs, empty and whole regions."""
        for shape, starts, sizes, strides in _CASES:
            yield Sample(
                (shape,),
                lambda x, a=starts, n=sizes, s=strides: slice(x, a, n, s),
                dtypes.ALL,
            )
        yield Sample(
            ((4, 7), (), ()),
            lambda x, i, j: slice(x, (i, j), (2, 3), (-1, 2)),
            dtypes.ALL,
            input_dtypes=(None, dtypes.int64, dtypes.int64),
            draw=_draw_starts,
            note="starts known at run time",
        )


# shape, starts, sizes, strides
_CASES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((), (), (), ()),
    ((6,), (1,), (4,), (1,)),
    ((7,), (1,), (3,), (2,)),
    ((7,), (6,), (4,), (-2,)),
    ((3, 5), (2, 0), (3, 2), (-1, 3)),
    ((3, 4), (1, 4), (1, 0), (1, 1)),
    ((2, 3, 4), (0, 1, 0), (2, 1, 4), (1, 1, 1)),
)


def _draw_starts(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, place: int
) -> Array:
    """Starts from which two rows upwards and every other of five columns stay inside (4, 7)."""
    return rng.integers(1, 3, shape) if shape == () else rng.integers(0, 6, shape) / 1


def _positions(
    starts: Sequence[Array], sizes: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[Array, ...]:
    at = zip(starts, sizes, strides, strict=True)
    return np.ix_(*(int(start) + np.arange(n) * step for start, n, step in at))


def _check_starts(
    op: str, starts: Sequence[Node], sizes: Shape, within: Shape, strides: tuple[int, ...]
) -> None:
    if not len(within) == len(sizes) == len(starts) == len(strides):
        raise ShapeError(
            f"[{op}] {len(starts)} starts, {len(sizes)} sizes and {len(strides)} strides for shape "
            f"{within}: every axis needs one of each; slice the axes left alone from 0 whole"
        )
    for axis, start in enumerate(starts):
        stride, size, limit = strides[axis], sizes[axis], within[axis]
        if stride == 0:
            raise ShapeError(f"[{op}] stride 0 at axis {axis} never moves; use 1 or more, or -1")
        if start.shape or start.dtype is not dtypes.int64:
            raise ShapeError(
                f"[{op}] start {axis} is {start.dtype.name} of shape {start.shape}, but starts are "
                "0-d int64; cast or index it first"
            )
        first = known_number(start)
        if first is None or type(size) is not int or type(limit) is not int or size == 0:
            continue
        last = first + (size - 1) * stride
        if not (0 <= first < limit and 0 <= last < limit):
            raise LamellaIndexError(
                f"[{op}] positions {first} to {last} at axis {axis} leave shape {within}, "
                f"whose size there is {limit}; keep them in [0, {limit})"
            )


def _as_starts(starts: Starts) -> tuple[Node, ...]:
    # not ops.constant: an index fits int64, so there is nothing to check
    return tuple(
        [s if isinstance(s, Node) else Node(Constant(s), (), (), dtypes.int64) for s in starts]
    )


def slice(
    x: Node, starts: Starts, sizes: Sequence[Size], strides: Sequence[int] | None = None
) -> Node:
    """The region of ``sizes`` elements from ``starts`` in steps of ``strides``, default 1.

    A start is a Python int (part of the program) or a 0-d int64 node (an argument of it); a
    stride may be negative.

    Raises:
        ShapeError: unless there is one start, size and stride an axis.
        LamellaIndexError: when the region is known to leave ``x``.

    >>> from lamella import dtypes, ops
    >>> slice(ops.iota((9,), 0, dtypes.int64), (8,), (5,), (-2,)).shape
    (5,)
    """
    steps = (1,) * x.ndim if strides is None else tuple(strides)
    found = _as_starts(starts)
    wanted = tuple(sizes)
    _check_starts("slice", found, wanted, x.shape, steps)
    if wanted == x.shape and steps == (1,) * x.ndim:
        return x  # the whole: no other start fits
    return make(Slice(steps), (x, *found), wanted, x.dtype)


@dataclass(frozen=True, slots=True)
class UpdateSlice(Movement):
    """x with x[start_0 + k_0 * strides[0], …] = update[k_0, …]; inputs x, update, start_0, …"""

    strides: tuple[int, ...]

    name = "update_slice"

    def check(self, node: Node) -> None:
        """The input's shape, known starts in range."""
        x, update, *starts = node.inputs
        require_same_dtype(self.name, x, update)
        _check_starts(self.name, starts, update.shape, x.shape, self.strides)
        check_fits(node, x.shape, x.dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """NumPy assignment to the positions."""
        result = arrays[0].copy()
        result[_positions(arrays[2:], arrays[1].shape, self.strides)] = arrays[1]
        return result

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangent with the region erased, and its region."""
        _, update, *starts = node.inputs
        erased = zeros(update.shape, cotangent.dtype)
        return (
            update_slice(cotangent, erased, starts, self.strides) if needs[0] else None,
            slice(cotangent, starts, update.shape, self.strides) if needs[1] else None,
            *(None for _ in starts),
        )

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The batch axis whole; starts that differ along it become a scatter."""
        x, update = (
            arg if has else to_shape(arg, (size, *arg.shape))
            for arg, has in zip(args[:2], batched[:2], strict=True)
        )
        if any(batched[2:]):
            return _scatter_slices(node, self.strides, (x, update, *args[2:]), batched, size)
        return update_slice(x, update, (0, *args[2:]), (1, *self.strides))

    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """The update inside the region, else the input."""
        inside: Expr = ix.TRUE
        at: list[Expr] = []
        sizes = node.inputs[1].shape
        for i, start, n, limit, step in zip(
            index, args[2:], sizes, node.shape, self.strides, strict=True
        ):
            if n == limit and step == 1:
                at.append(i)
                continue
            offset = ix.sub(i, start(())) if step > 0 else ix.sub(start(()), i)
            inside = ix.both(inside, ix.lt(-1, offset))
            if abs(step) > 1:
                inside = ix.both(inside, ix.lt(ix.mod(offset, abs(step)), 1))
                offset = ix.floordiv(offset, abs(step))
            inside = ix.both(inside, ix.lt(offset, n))
            at.append(offset)
        return args[1].guarded(inside, tuple(at), args[0](index))

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """The regions of slice."""
        for shape, starts, sizes, strides in _CASES:
            yield Sample(
                (shape, sizes),
                lambda x, u, a=starts, s=strides: update_slice(x, u, a, s),
                dtypes.ALL,
            )
        yield Sample(
            ((4, 7), (2, 3), (), ()),
            lambda x, u, i, j: update_slice(x, u, (i, j), (-1, 2)),
            dtypes.ALL,
            input_dtypes=(None, None, dtypes.int64, dtypes.int64),
            draw=_draw_starts,
            note="starts known at run time",
        )
        yield Sample(
            ((3, 4), (1, 4), (), ()),
            lambda x, u, i, j: update_slice(x, u, (i, j)),
            (dtypes.float64, dtypes.int8),
            input_dtypes=(None, None, dtypes.int64, dtypes.int64),
            draw=lambda rng, s, d, place: rng.integers(0, 3 if place == 2 else 1, s) / 1,
            note="one row",
        )


def update_slice(
    x: Node, update: Node, starts: Starts, strides: Sequence[int] | None = None
) -> Node:
    """``x`` with the region of ``slice(x, starts, update.shape, strides)`` replaced by ``update``.

    Raises:
        ShapeError: unless there is one start, size and stride an axis.
        DTypeError: when the dtypes of ``x`` and ``update`` differ.
        LamellaIndexError: when the region is known to leave ``x``.

    >>> from lamella import dtypes, ops
    >>> x = ops.iota((9,), 0, dtypes.int64)
    >>> update_slice(x, ops.iota((3,), 0, dtypes.int64), (2,)).shape
    (9,)
    """
    steps = (1,) * x.ndim if strides is None else tuple(strides)
    found = _as_starts(starts)
    require_same_dtype("update_slice", x, update)
    _check_starts("update_slice", found, update.shape, x.shape, steps)
    if update.shape == x.shape and steps == (1,) * x.ndim:
        return update
    return make(UpdateSlice(steps), (x, update, *found), x.shape, x.dtype)


# -- starts that differ along a batch: the positions become index arrays ---------------------------


def _batched_positions(
    axes: Sequence[int],
    starts: Sequence[Node],
    sizes: Shape,
    strides: tuple[int, ...],
    batched: Needs,
    size: Size,
) -> list[Node]:
    """The batch index, then the positions along each of ``axes``, shaped to broadcast together."""
    count = len(axes)
    ahead = ops.iota((size,), 0, dtypes.int64)
    found = [reshape(ahead, (size, *(1,) * count))]
    for place, axis in enumerate(axes):
        steps = ops.iota((sizes[axis],), 0, dtypes.int64)
        steps = ops.multiply(steps, ops.constant(strides[axis], dtypes.int64))
        along = (1, *(1,) * place, sizes[axis], *(1,) * (count - place - 1))
        start = starts[axis]
        if batched[axis]:
            start = reshape(start, (size, *(1,) * count))
        found.append(ops.add(reshape(steps, along), start))
    return found


def _gather_slices(
    node: Node, strides: tuple[int, ...], args: Sequence[Node], batched: Needs, size: Size
) -> Node:
    x, *starts = args
    apart = [a for a in range(node.ndim) if batched[a + 1]]
    rest = [a for a in range(node.ndim) if not batched[a + 1]]
    lead = 1 if batched[0] else 0
    common: list[Node | int] = [0] * lead
    sizes, steps = list(x.shape[:lead]), [1] * lead
    for a in range(node.ndim):
        common.append(0 if a in apart else starts[a])
        sizes.append(x.shape[a + lead] if a in apart else node.shape[a])
        steps.append(1 if a in apart else strides[a])
    source = slice(x, common, sizes, steps)
    where = _batched_positions(apart, starts, node.shape, strides, batched[1:], size)
    axes = [a + lead for a in apart]
    if batched[0]:
        found = ops.gather_nd(source, where, [0, *axes])
    else:
        shape = (size, *(node.shape[a] for a in apart))
        found = ops.gather_nd(source, [to_shape(w, shape) for w in where[1:]], axes)
    order = [*apart, *rest]
    return permute(found, (0, *(order.index(a) + 1 for a in range(node.ndim))))


def _scatter_slices(
    node: Node, strides: tuple[int, ...], args: Sequence[Node], batched: Needs, size: Size
) -> Node:
    x, update, *starts = args
    sizes = node.inputs[1].shape
    apart = [
        a
        for a in range(node.ndim)
        if batched[a + 2] or sizes[a] != node.shape[a] or strides[a] != 1
    ]
    rest = [a for a in range(node.ndim) if a not in apart]
    where = _batched_positions(apart, starts, sizes, strides, batched[2:], size)
    updates = permute(update, (0, *(a + 1 for a in apart), *(a + 1 for a in rest)))
    return ops.scatter_nd(x, where, [0, *(a + 1 for a in apart)], updates, "set")
