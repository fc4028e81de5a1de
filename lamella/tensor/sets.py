"""Distinct elements and sets: unique, membership, union, intersection, differences.

How many elements a result has depends on the values, so these look at their arguments; ``unique``
and ``union1d`` take ``size=``, with which they are recorded like everything else and work inside
``jit``. Elements are in ascending order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from lamella import ops
from lamella.dtypes import bool_, int64
from lamella.errors import OptionError
from lamella.ir.node import Node
from lamella.ops.base import Array
from lamella.tensor.core import wrap
from lamella.tensor.counting import bincount
from lamella.tensor.host import node_from_array
from lamella.tensor.joining import concat
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import TensorLike, as_node, pair, scalar_node
from lamella.tensor.searching import host, searchsorted, sort

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all",
    "unique_counts", "unique_inverse", "unique_values",
]  # fmt: skip

_MANY: Final = 1 << 14  # elements from which a program is quicker than NumPy


class UniqueAll(NamedTuple):
    """The distinct elements, where each first occurs, where each element is, and how often."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """The distinct elements, and the position among them of each element."""

    values: Any
    inverse_indices: Any


class UniqueCounts(NamedTuple):
    """The distinct elements, and how often each occurs."""

    values: Any
    counts: Any


def _distinct(
    x: TensorLike, index: bool = False, inverse: bool = False, counts: bool = False
) -> list[Tensor]:
    """Distinct elements, nan last and each by itself, and what else is wanted of ``unique_all``;
    looks at the values.
    """
    array = host(x, "unique", "lm.unique(x, size=)")
    distinct: Any = np.unique
    found = distinct(array, index, inverse, counts, equal_nan=False)
    values, *others = found if isinstance(found, tuple) else (found,)
    parts = [np.asarray(part).astype(np.int64) for part in others]
    if inverse:
        parts[index] = parts[index].reshape(array.shape)
    return [wrap(node_from_array(part)) for part in (values, *parts)]


def unique_all(x: TensorLike) -> UniqueAll:
    """``(values, indices, inverse_indices, counts)`` of the distinct elements; looks at the values.

    Every nan is distinct, as the array-API standard says.

    >>> [part.tolist() for part in unique_all([3, 1, 3])]
    [[1, 3], [1, 0], [1, 0, 1], [1, 2]]
    """
    return UniqueAll(*_distinct(x, True, True, True))


def unique_inverse(x: TensorLike) -> UniqueInverse:
    """``(values, inverse_indices)`` of the distinct elements; looks at the values.

    >>> [part.tolist() for part in unique_inverse([3, 1, 3])]
    [[1, 3], [1, 0, 1]]
    """
    return UniqueInverse(*_distinct(x, inverse=True))


def unique_counts(x: TensorLike) -> UniqueCounts:
    """``(values, counts)`` of the distinct elements; looks at the values.

    >>> [part.tolist() for part in unique_counts([3, 1, 3])]
    [[1, 3], [1, 2]]
    """
    return UniqueCounts(*_distinct(x, counts=True))


def unique_values(x: TensorLike) -> Tensor:
    """The distinct elements, every nan among them; looks at the values (array-API's name).

    >>> unique_values([3, 1, 3]).tolist()
    [1, 3]
    """
    return _distinct(x)[0]


@with_synonyms
def unique(
    x: TensorLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    size: int | None = None,
    fill_value: TensorLike | None = None,
) -> Any:
    """The distinct elements (or slices along ``axis``) in ascending order; nans count as one.

    Args:
        x: the elements.
        return_index: also where each first occurs.
        return_inverse: also the position of each element in the result.
        return_counts: also how often each occurs.
        axis: compare whole slices along this axis; not with ``size``.
        size: the number of elements of the result, which makes it usable inside ``jit``: the first
            ``size`` distinct ones, then ``fill_value``. Without it the values are looked at.
        fill_value: the smallest element by default; its index and its count are 0.

    Returns:
        The elements, or a tuple of them and what else was asked for, in that order.

    Raises:
        TraceError: inside a compiled function, without ``size``.
        OptionError: for ``size`` with ``axis``.

    >>> unique([3, 1, 3]).tolist(), unique([3, 1, 3], size=3, fill_value=0).tolist()
    ([1, 3], [1, 3, 0])
    """
    wanted = (return_index, return_inverse, return_counts)
    if size is not None:
        if axis is not None:
            raise OptionError("[unique] size= counts elements, not slices along an axis; omit axis")
        parts = _sized(as_node(x), size, fill_value)
        chosen = [parts[0], *(part for part, want in zip(parts[1:], wanted, strict=True) if want)]
        return wrap(chosen[0]) if len(chosen) == 1 else tuple(map(wrap, chosen))
    if axis is None and not any(wanted):
        return wrap(node_from_array(_ascending(host(x, "unique", "size="))))
    distinct: Any = np.unique
    found = distinct(host(x, "unique", "size="), *wanted, axis=axis)
    if isinstance(found, tuple):
        return tuple(wrap(node_from_array(part)) for part in found)
    return wrap(node_from_array(found))


def _ascending(array: Array) -> Array:
    """The distinct elements in ascending order, nans as one. Whole numbers in a range no longer
    than they are many are counted, others are sorted.
    """
    if array.size < _MANY or array.dtype.kind not in "iuf" or array.dtype == np.uint64:
        return np.unique(array)
    flat = wrap(node_from_array(array.reshape(-1), copy=False))
    if array.dtype.kind in "iu":
        low, high = int(array.min()), int(array.max())
        if high - low < array.size:
            length = 1 << (high - low).bit_length()  # a power of two, so that programs are few
            seen = bincount(flat.astype(int64) - low, length=length)
            return (np.flatnonzero(seen.numpy()) + low).astype(array.dtype)
    ordered = sort(flat).numpy()
    nans = int(np.isnan(ordered).sum()) if array.dtype.kind == "f" else 0
    ordered = ordered[: ordered.size - max(nans - 1, 0)]
    first = np.append(True, ordered[1:] != ordered[:-1])
    distinct: Array = ordered[first]
    return distinct


def _sized(x: Node, size: int, fill: TensorLike | None) -> tuple[Node, Node, Node, Node]:
    """The first ``size`` distinct elements, where each first is, where each element is, counts."""
    flat = ops.reshape(x, (x.size,))
    count = flat.shape[0]
    if count == 0:
        rest = ops.full(0, (size,), int64)
        value = scalar_node(0, x.dtype) if fill is None else as_node(fill, x.dtype)
        return ops.broadcast_to(value, (size,)), rest, ops.full(0, x.shape, int64), rest
    order = ops.argsort(flat, 0)
    ordered = ops.gather(flat, order, checked=False)
    rank = ops.subtract(ops.cumsum(ops.cast(_starts(ordered), int64), 0), _whole(1))
    place = ops.minimum(rank, _whole(size))
    ones = ops.full(1, (count,), int64)
    counts = ops.scatter(ops.full(0, (size + 1,), int64), place, ones, "add", checked=False)
    first = ops.full(int(count), (size + 1,), int64)
    first = ops.scatter(first, place, order, "min", checked=False)
    counts, first = (ops.slice(node, (0,), (size,)) for node in (counts, first))
    there = ops.less(_whole(0), counts)
    first = ops.where(there, first, _whole(0))
    least = ops.slice(ordered, (0,), (1,)) if fill is None else as_node(fill, x.dtype)
    values = ops.gather(flat, first, checked=False)
    values = ops.where(there, values, ops.broadcast_to(least, (size,)))
    inverse = ops.scatter(ops.full(0, (count,), int64), order, rank, "set", checked=False)
    return values, first, ops.reshape(inverse, x.shape), counts


def _starts(ordered: Node) -> Node:
    """Where a sorted vector has another element than before; nans are one element."""
    shape = ordered.shape
    before = ops.slice(ops.pad(ordered, (1,), (0,)), (0,), shape)
    differs = ops.not_equal(ordered, before)
    if ordered.dtype.kind == "f":
        both = ops.bitwise_and(ops.isnan(ordered), ops.isnan(before))
        differs = ops.bitwise_and(differs, ops.logical_not(both))
    return ops.bitwise_or(differs, ops.equal(ops.iota(shape, 0, int64), _whole(0)))


def _whole(value: int) -> Node:
    return ops.constant(value, int64)


# -- sets ------------------------------------------------------------------------------------------
def isin(
    x: TensorLike, elements: TensorLike, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each element of ``x`` is among ``elements``, as bool; by binary search.

    ``assume_unique`` is accepted for NumPy's sake; ``invert`` gives the opposite. nan equals
    nothing.

    >>> isin([1, 2, 5], [5, 1]).tolist()
    [True, False, True]
    """
    a, b = pair("isin", x, elements)
    flat = ops.reshape(b, (b.size,))
    if flat.shape[0] == 0:
        return wrap(ops.full(invert, a.shape, bool_))
    ordered = ops.sort(flat, 0)
    place = as_node(searchsorted(wrap(ordered), wrap(a)))
    last = ops.constant(int(flat.shape[0]) - 1, int64)
    found = ops.equal(ops.gather(ordered, ops.minimum(place, last), checked=False), a)
    return wrap(ops.logical_not(found) if invert else found)


def union1d(
    x: TensorLike, y: TensorLike, size: int | None = None, fill_value: TensorLike | None = None
) -> Tensor:
    """The distinct elements of both; ``size`` and ``fill_value`` as in :func:`unique`.

    >>> union1d([3, 1], [2, 3]).tolist()
    [1, 2, 3]
    """
    both = concat([x, y], None)
    return unique(both, size=size, fill_value=fill_value)  # type: ignore[no-any-return]


def _by_numpy(name: str, x: TensorLike, y: TensorLike, **options: bool) -> Any:
    a, b = pair(name, x, y)
    function: Any = getattr(np, name)
    return function(host(wrap(a), name), host(wrap(b), name), **options)


def intersect1d(
    x: TensorLike, y: TensorLike, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The distinct elements that are in both; with ``return_indices`` also where, in each.

    >>> intersect1d([3, 1, 2], [2, 3]).tolist()
    [2, 3]
    """
    found = _by_numpy(
        "intersect1d", x, y, assume_unique=assume_unique, return_indices=return_indices
    )
    if isinstance(found, tuple):
        return tuple(wrap(node_from_array(part)) for part in found)
    return wrap(node_from_array(found))


def setdiff1d(x: TensorLike, y: TensorLike, assume_unique: bool = False) -> Tensor:
    """The distinct elements of ``x`` that are not in ``y``.

    >>> setdiff1d([3, 1, 2], [2, 3]).tolist()
    [1]
    """
    return wrap(node_from_array(_by_numpy("setdiff1d", x, y, assume_unique=assume_unique)))


def setxor1d(x: TensorLike, y: TensorLike, assume_unique: bool = False) -> Tensor:
    """The distinct elements that are in one of both only.

    >>> setxor1d([3, 1, 2], [2, 4]).tolist()
    [1, 3, 4]
    """
    return wrap(node_from_array(_by_numpy("setxor1d", x, y, assume_unique=assume_unique)))
