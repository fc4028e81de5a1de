"""Gather: elements chosen by integer indices, and the multi-axis forms composed from it.

Input: ``x (*lead, N, *rest)`` and integer ``index (*lead, *I)``. Output: ``(*lead, *I, *rest)``. An
index may be negative (counted from the end); one outside ``[-N, N)`` is a fault of the program,
raised as IndexError with the line that recorded the operation when the value is computed. The
derivative is a ``scatter`` that adds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from lamella import dtypes, ops
from lamella.dtypes import DType
from lamella.errors import LamellaIndexError, ShapeError
from lamella.ir import index as ix
from lamella.ir.dim import Dim, Shape, Size, product
from lamella.ir.loops import Apply, Expr, apply, cast
from lamella.ir.node import Node, make
from lamella.ir.walk import operands
from lamella.ops.base import Array, Element, Index, Needs, Parts, Primitive, Sample, each_part
from lamella.ops.families import broadcast_shapes, check_fits, normalize_axes, to_shape
from lamella.ops.movement import permute, reshape, zeros
from lamella.ops.site import user_site
from lamella.ops.validate import require_integer, zero

Draw = Callable[[np.random.Generator, tuple[int, ...], DType, int], Array]

__all__ = [
    "Gather",
    "RavelIndex",
    "check_indices",
    "gather",
    "gather_nd",
    "ravel_index",
    "take_along_axis",
    "wrap_index",
]


def wrap_index(op: str, index: Array, size: int) -> Array:
    """Indices counted from the front, in NumPy.

    Raises:
        LamellaIndexError: for an index outside ``[-size, size)``.

    >>> wrap_index("gather", np.array([-1, 0]), 3).tolist()
    [2, 0]
    """
    found = np.asarray(index).astype(np.int64)
    bad = (found < -size) | (found >= size)
    if bad.any():
        raise LamellaIndexError(
            f"[{op}] index {found[bad][0]} is outside an axis of size {size}; "
            f"use indices in [{-size}, {size})"
        )
    return np.where(found < 0, found + size, found)


def check_indices(op: str, index: Node, size: Size) -> None:
    """Check what is known of an index while recording: its dtype, and that it can be in range.

    Raises:
        DTypeError: when it is not of an integer dtype.
        LamellaIndexError: for indices into an axis of size 0.
    """
    require_integer(op, index)
    if size == 0 and 0 not in index.shape:
        raise LamellaIndexError(
            f"[{op}] indices of shape {index.shape} into an axis of size 0, which has no element; "
            "index an axis that has some, or pass no index"
        )


def position(index: Element, at: Index, size: Size, checked: bool) -> Expr:
    """The int64 position that an index element names, wrapped and reported if ``checked``."""
    found = cast(index(at), dtypes.int64)
    return apply("checked_index", found, ix.constant(size)) if checked else found


def _parts(value: Expr) -> set[Expr]:
    """Everything that an expression is made of."""
    found, stack = {value}, [value]
    while stack:
        fresh = [part for part in operands(stack.pop()) if part not in found]
        found.update(fresh)
        stack.extend(fresh)
    return found


def keep_checks(value: Expr, place: Expr) -> Expr:
    """``value`` with the checks in ``place`` that it has not: a repeated element is the same at
    every position, so nothing else would report one outside the axis.
    """
    checks = [e for e in _parts(place) if isinstance(e, Apply) and e.op == "checked_index"]
    if not checks:
        return value
    known = _parts(value)
    for check in checks:
        if check not in known:
            never = ix.lt(check, 0)
            value = apply("select", never, zero(value.dtype), value, dtype=value.dtype)
    return value


@dataclass(frozen=True, slots=True)
class Gather(Primitive):
    """result[b, i, r] = x[b, index[b, i], r] with ``lead`` axes b.

    Unchecked indices are known to lie in [0, N).
    """

    lead: int = 0
    checked: bool = True

    name = "gather"
    kind = "movement"

    def check(self, node: Node) -> None:
        """Integer indices with the lead axes of x."""
        x, index = node.inputs
        check_fits(node, _gathered(self.name, x, index, self.lead), x.dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """NumPy indexing with the lead axes as one."""
        x, index = arrays
        lead, size = x.shape[: self.lead], x.shape[self.lead]
        rows = x.reshape(prod(lead), size, prod(x.shape[self.lead + 1 :]))
        count = prod(index.shape[self.lead :])
        chosen = wrap_index(self.name, index, size).reshape(prod(lead), count)
        return rows[np.arange(prod(lead))[:, None], chosen].reshape(shape)

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangents added up where their elements came from."""
        x, index = node.inputs
        found = ops.scatter(
            zeros(x.shape, x.dtype), index, cotangent, "add", self.lead, self.checked
        )
        return _at_site(found, node), None

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """The same elements of the tangent."""
        if tangents[0] is None:
            return None
        return _at_site(gather(tangents[0], node.inputs[1], self.lead, self.checked), node)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """One more lead axis; none where only the index of a leadless gather is batched."""
        x, index = args
        if not batched[0] and self.lead == 0:
            return _at_site(gather(x, index, 0, self.checked), node)
        full = [
            arg if has else to_shape(arg, (size, *arg.shape))
            for arg, has in zip(args, batched, strict=True)
        ]
        return _at_site(gather(full[0], full[1], self.lead + 1, self.checked), node)

    def complex_parts(self, node: Node, args: Sequence[Parts]) -> Parts:
        """Each part by the same indices."""
        return each_part(node, args)

    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """The element at the position that the index names."""
        x, chosen = node.inputs
        lead, rest = index[: self.lead], index[chosen.ndim :]
        size = x.shape[self.lead]
        place = position(args[1], index[: chosen.ndim], size, self.checked)
        at = (*lead, place, *rest)
        if isinstance(size, Dim):  # it may turn out to be 0: nothing may be read then
            return keep_checks(args[0].guarded(ix.lt(0, size), at, zero(node.dtype)), place)
        return keep_checks(args[0](at), place)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """0-d to 2-d indices of several dtypes, negative ones, lead axes, empty ones."""
        cases: tuple[tuple[tuple[int, ...], tuple[int, ...], int], ...] = (
            ((5,), (), 0), ((5,), (7,), 0), ((5, 3), (2, 3), 0), ((4, 2, 3), (0,), 0),
            ((0, 3), (0,), 0), ((2, 5), (2, 3), 1), ((2, 3, 5), (2, 3), 2), ((2, 4, 3), (2, 2), 1),
        )  # fmt: skip
        for x, index, lead in cases:
            yield Sample(
                (x, index),
                lambda a, i, n=lead: gather(a, i, n),
                dtypes.ALL,
                input_dtypes=(None, dtypes.int64),
                draw=_draw(x[lead]),
            )
        for kind in (dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint64):
            yield Sample(
                ((5, 2), (4,)),
                gather,
                (dtypes.float64,),
                input_dtypes=(None, kind),
                draw=_draw(5),
            )


def _draw(size: int) -> Draw:
    """Draws for (x, index): small numbers, and indices over the whole allowed range."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, place: int) -> Array:
        if place == 1:
            low = 0 if dtype.kind == "u" else -size
            return rng.integers(low, max(size, 1), shape)
        low = 0 if dtype.kind in "bu" else -5
        return rng.integers(low, 6, shape) / (4 if dtype.kind == "f" else 1)

    return draw


def _at_site(node: Node, source: Node) -> Node:
    """``node`` reporting its faults at the line that recorded ``source``."""
    node.site = source.site
    return node


def _gathered(op: str, x: Node, index: Node, lead: int) -> Shape:
    if not 0 <= lead < x.ndim or x.shape[:lead] != index.shape[:lead]:
        raise ShapeError(
            f"[{op}] x of shape {x.shape} and index of shape {index.shape} with {lead} lead axes: "
            "both begin with the same lead sizes and x has one more axis to index; "
            "broadcast them to it"
        )
    check_indices(op, index, x.shape[lead])
    return (*index.shape, *x.shape[lead + 1 :])


def gather(x: Node, index: Node, lead: int = 0, checked: bool = True) -> Node:
    """Elements of ``x (*lead, N, *rest)`` at ``index (*lead, *I)``: shape ``(*lead, *I, *rest)``.

    Args:
        x: any dtype.
        index: any integer dtype; negative indices count from the end.
        lead: how many leading axes the two share.
        checked: False promises that every index lies in ``[0, N)``.

    Raises:
        ShapeError: when the lead axes differ or ``x`` has no axis left.
        DTypeError: when ``index`` is not of an integer dtype.
        LamellaIndexError: here, for an axis of size 0; when computed, for an index
            outside ``[-N, N)``.

    >>> from lamella import dtypes, ops
    >>> x = ops.iota((5, 2), 0, dtypes.float32)
    >>> gather(x, ops.iota((3,), 0, dtypes.int64)).shape
    (3, 2)
    """
    node = make(Gather(lead, checked), (x, index), _gathered("gather", x, index, lead), x.dtype)
    if checked:
        node.site = user_site()
    return node


@dataclass(frozen=True, slots=True)
class RavelIndex(Primitive):
    """The row-major position of a multi-index.

    Inputs: one index an axis, then any node of the shape indexed.

    Only the shape of the last input matters. ``checked[a]``: wrap and check the index of axis a.
    """

    checked: tuple[bool, ...]

    name = "ravel_index"
    kind = "movement"
    differentiable = False

    def check(self, node: Node) -> None:
        """One integer index an axis, all of one shape; int64 result."""
        *indices, within = node.inputs
        for index, size in zip(indices, within.shape, strict=True):
            check_indices(self.name, index, size)
            check_fits(index, node.shape, index.dtype)
        check_fits(node, node.shape, dtypes.int64)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """The dot product with the strides."""
        *indices, within = arrays
        result = np.zeros(shape, np.int64)
        for index, size in zip(indices, within.shape, strict=True):
            result = result * size + wrap_index(self.name, index, size)
        return result

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """None: positions are integers."""
        return (None,) * len(node.inputs)

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """None: positions are integers."""
        return None

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """Indices broadcast together; the shape indexed stays."""
        shape = (size, *node.shape)
        full = [
            arg if has else to_shape(arg, shape)
            for arg, has in zip(args[:-1], batched[:-1], strict=True)
        ]
        return _at_site(ravel_index(full, node.inputs[-1].shape, self.checked), node)

    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """The checked indices times the strides."""
        sizes = node.inputs[-1].shape
        at = zip(args, sizes, self.checked, strict=False)
        return ix.linearise(tuple(position(a, index, size, check) for a, size, check in at), sizes)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """One to three axes; 0-d indices."""
        cases: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
            ((4,), (3,)), ((5,), (2, 3)), ((), (4, 2)), ((2, 3), (2, 5, 3)), ((0,), (0, 2)),
        )  # fmt: skip
        for shape, sizes in cases:
            yield Sample(
                (shape,) * len(sizes),
                partial(_ravel_all, sizes),
                (dtypes.int64, dtypes.int32),
                draw=partial(_draw_for, sizes),
                differentiable=False,
            )


def _ravel_all(sizes: Shape, *indices: Node) -> Node:
    return ravel_index(indices, sizes)


def _draw_for(
    sizes: tuple[int, ...],
    rng: np.random.Generator,
    shape: tuple[int, ...],
    dtype: DType,
    place: int,
) -> Array:
    return rng.integers(-sizes[place], max(sizes[place], 1), shape)


def ravel_index(
    indices: Sequence[Node], sizes: Shape, checked: Sequence[bool] | None = None
) -> Node:
    """The int64 row-major position in ``sizes`` of ``indices``, one node an axis, broadcast.

    Raises:
        ShapeError: when their shapes do not broadcast or their number is not that of ``sizes``.
        DTypeError: for an index that is not of an integer dtype.
        LamellaIndexError: when computed, for an index outside its axis.

    >>> from lamella import dtypes, ops
    >>> i = ops.iota((3,), 0, dtypes.int64)
    >>> ravel_index([i, i], (3, 4)).shape
    (3,)
    """
    flags = (True,) * len(sizes) if checked is None else tuple(checked)
    if not len(indices) == len(sizes) == len(flags) or not sizes:
        raise ShapeError(
            f"[ravel_index] {len(indices)} indices for the sizes {sizes}: each axis needs one; "
            "pass as many as there are axes"
        )
    for index, size in zip(indices, sizes, strict=True):
        check_indices("ravel_index", index, size)
    shape = broadcast_shapes("ravel_index", *(index.shape for index in indices))
    full = tuple(to_shape(index, shape) for index in indices)
    node = make(RavelIndex(flags), (*full, zeros(sizes, dtypes.bool_)), shape, dtypes.int64)
    if any(flags):
        node.site = user_site()
    return node


def split_axes(
    op: str, ndim: int, indices: Sequence[Node], axes: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The indexed axes counted from the front, and the others."""
    normalize_axes(op, tuple(axes), ndim)
    if len(indices) != len(axes) or not axes:
        raise ShapeError(
            f"[{op}] {len(indices)} indices for the axes {tuple(axes)}: each axis needs one; "
            "pass as many as there are axes"
        )
    chosen = tuple(axis % ndim for axis in axes)
    return chosen, tuple(axis for axis in range(ndim) if axis not in chosen)


def flat_index(
    x: Node, indices: Sequence[Node], axes: Sequence[int], checked: Sequence[bool] | None
) -> tuple[Node, bool]:
    """One index into the indexed axes taken together, and whether it is still to be checked."""
    if len(axes) == 1:
        return indices[0], checked is None or checked[0]
    return ravel_index(indices, tuple(x.shape[a] for a in axes), checked), False


def gather_nd(
    x: Node, indices: Sequence[Node], axes: Sequence[int], checked: Sequence[bool] | None = None
) -> Node:
    """result[i, r] = ``x`` at ``indices[k][i]`` along each axis ``axes[k]``, other axes last.

    Raises:
        ShapeError: for wrong axes, or indices that do not broadcast.
        DTypeError: for an index that is not of an integer dtype.
        LamellaIndexError: when computed, for an index outside its axis.

    >>> from lamella import dtypes, ops
    >>> i = ops.iota((3,), 0, dtypes.int64)
    >>> gather_nd(ops.iota((3, 5, 4), 0, dtypes.float32), [i, i], (0, 2)).shape
    (3, 5)
    """
    chosen, rest = split_axes("gather_nd", x.ndim, indices, axes)
    flat, check = flat_index(x, indices, chosen, checked)
    others = tuple(x.shape[a] for a in rest)
    total = product(tuple(x.shape[a] for a in chosen))
    return gather(reshape(permute(x, (*chosen, *rest)), (total, *others)), flat, 0, check)


def along_axis(
    op: str, x: Node, index: Node, axis: int
) -> tuple[Node, Node, tuple[int, ...], tuple[int, ...]]:
    """``x`` and ``index`` broadcast, ``axis`` last; the permutation to there and back."""
    place = normalize_axes(op, axis, x.ndim)[0]
    if index.ndim != x.ndim:
        raise ShapeError(
            f"[{op}] index of shape {index.shape} for x of shape {x.shape}: both need the same "
            "number of axes, to line up beside the indexed one; insert axes of size 1"
        )
    others = broadcast_shapes(
        op, *((*n.shape[:place], 1, *n.shape[place + 1 :]) for n in (x, index))
    )
    order = (*(a for a in range(x.ndim) if a != place), place)
    back = tuple(order.index(a) for a in range(x.ndim))
    moved = [
        permute(to_shape(n, (*others[:place], n.shape[place], *others[place + 1 :])), order)
        for n in (x, index)
    ]
    return moved[0], moved[1], order, back


def take_along_axis(x: Node, index: Node, axis: int) -> Node:
    """result[…, j, …] = x[…, index[…, j, …], …] along ``axis``; other axes broadcast, as in NumPy.

    Raises:
        ShapeError: for a wrong axis or shapes that do not line up.
        DTypeError: when ``index`` is not of an integer dtype.
        LamellaIndexError: when computed, for an index outside the axis.

    >>> from lamella import dtypes, ops
    >>> x, i = ops.iota((3, 5), 0, dtypes.float32), ops.iota((3, 2), 1, dtypes.int64)
    >>> take_along_axis(x, i, 1).shape
    (3, 2)
    """
    source, chosen, _, back = along_axis("take_along_axis", x, index, axis)
    return permute(gather(source, chosen, x.ndim - 1), back)
