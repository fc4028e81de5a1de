"""The derivative of a product of what meets at a place: of each factor, the product of the others.

Input: places and factors. Output: products without quotients, so that zeros do no harm to
derivatives of any order. Factors are sorted by place; among those of one place the products before
and after each are running products. Where their number is not known, every pair is looked at.
"""

from __future__ import annotations

from lamella import ops
from lamella.dtypes import int64
from lamella.ir.dim import Dim, product
from lamella.ir.node import Node
from lamella.ops.cumulative import shift
from lamella.ops.families import to_shape
from lamella.ops.gathering import gather, take_along_axis
from lamella.ops.movement import reshape
from lamella.ops.sorting import argsort

__all__ = ["others_at"]


def others_at(index: Node, factors: Node, lead: int, size: Node) -> Node:
    """For each of ``factors (*lead, *I, *rest)`` the product of the others with its index.

    Args:
        index: ``(*lead, *I)``; negative ones count from the end.
        factors: what meets at the places.
        lead: how many leading axes the two share.
        size: of the axis indexed, a 0-d int64 node.

    >>> from lamella import dtypes
    >>> from lamella.ir.interp import interpret
    >>> i, f = ops.iota((3,), 0, dtypes.int64), ops.iota((3,), 0, dtypes.float64)
    >>> interpret([others_at(i, f, 0, ops.constant(3, dtypes.int64))])[0].tolist()
    [1.0, 1.0, 1.0]
    """
    places = ops.cast(index, int64)
    negative = ops.less(places, ops.constant(0, int64))
    wrapped = ops.where(negative, ops.add(places, size), places)
    count = product(index.shape[lead:])
    flat = reshape(wrapped, (*index.shape[:lead], count))
    rows = reshape(factors, (*flat.shape, *factors.shape[index.ndim :]))
    if isinstance(count, Dim):  # what is sorted has a size that is known
        return reshape(_pairwise(rows, flat, lead), factors.shape)
    order = argsort(flat, lead)
    place = take_along_axis(flat, order, lead)
    ordered = gather(rows, order, lead, checked=False)
    before, after = (_running(ordered, place, lead, reverse) for reverse in (False, True))
    found = gather(ops.multiply(before, after), argsort(order, lead), lead, checked=False)
    return reshape(found, factors.shape)


def _pairwise(x: Node, place: Node, axis: int) -> Node:
    """For each element along ``axis`` the product of the others with its place, pair by pair."""
    count = x.shape[axis]
    pairs = (*x.shape[:axis], count, *x.shape[axis:])
    one, other = (
        ops.broadcast_to(reshape(place, (*place.shape[:axis], *sizes)), pairs[: axis + 2])
        for sizes in ((count, 1), (1, count))
    )
    places = [ops.iota(one.shape, axis + k, int64) for k in (0, 1)]
    meets = ops.logical_and(ops.equal(one, other), ops.not_equal(*places))
    mask = to_shape(reshape(meets, (*meets.shape, *(1,) * (len(pairs) - meets.ndim))), pairs)
    factors = to_shape(reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])), pairs)
    return ops.reduce_prod(ops.where(mask, factors, ops.constant(1, x.dtype)), axis + 1)


def _running(x: Node, place: Node, axis: int, reverse: bool) -> Node:
    """The product of the elements before each one along ``axis`` that have its ``place``."""
    one = ops.constant(1, x.dtype)
    same = _beside(place, x, axis, 1, reverse)
    found = ops.where(same, shift(x, axis, 1.0, reverse), one)
    count, step = x.shape[axis], 1
    while isinstance(count, int) and step < count:  # each holds the product of ``step`` elements
        same = _beside(place, x, axis, step, reverse)
        found = ops.multiply(found, ops.where(same, _moved(found, axis, step, 1, reverse), one))
        step *= 2
    return found


def _beside(place: Node, x: Node, axis: int, step: int, reverse: bool) -> Node:
    """Bool of the shape of ``x``: whether the element ``step`` before has the same place."""
    found = ops.equal(place, _moved(place, axis, step, -1, reverse))
    return to_shape(reshape(found, (*found.shape, *(1,) * (x.ndim - found.ndim))), x.shape)


def _moved(x: Node, axis: int, step: int, fill: int, reverse: bool) -> Node:
    """``y[j] = x[j - step]``, ``fill`` where there is none; reversed ``y[j] = x[j + step]``."""
    ends = [step * int(a == axis) for a in range(x.ndim)]
    none = [0] * x.ndim
    low, high = (none, ends) if reverse else (ends, none)
    return ops.slice(ops.pad(x, low, high, ops.constant(fill, x.dtype)), high, x.shape)
