"""Sorting, choosing by position, and what depends on the values themselves (nonzero, unique).

The last kind looks at its argument, because the shape of its result depends on it; the others are
recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lamella import ops
from lamella.dtypes import DType, as_dtype, int64
from lamella.errors import OptionError, ShapeError
from lamella.ir.dim import product
from lamella.ir.node import Node
from lamella.tensor.axes import axis_of
from lamella.tensor.core import TensorCore, array_of, value_of, wrap
from lamella.tensor.host import node_from_array
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import TensorLike, as_node, cast, pair, scalar_node
from lamella.tensor.pending import flush

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "argsort", "bincount", "gather", "nonzero", "one_hot", "put_along_axis", "scatter",
    "scatter_add", "searchsorted", "sort", "take", "take_along_axis", "topk", "unique",
    "unique_all", "unique_counts", "unique_inverse", "unique_values",
]  # fmt: skip


class Sorted(NamedTuple):
    """Values and their positions."""

    values: Any
    indices: Any


def _host(x: TensorLike, why: str) -> np.ndarray:
    """The value of ``x``, looked at now."""
    if isinstance(x, TensorCore):
        return value_of(x, why)
    node = as_node(x)
    flush(node, why)
    return array_of(node)


# -- order -----------------------------------------------------------------------------------------
@with_synonyms
def sort(x: TensorLike, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements along ``axis`` in ascending order; nan comes last.

    >>> sort([3, 1, 2]).tolist()
    [1, 2, 3]
    """
    node = as_node(x)
    return wrap(ops.sort(node, axis_of("sort", axis, node.shape), descending, stable))


@with_synonyms
def argsort(x: TensorLike, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The positions (int64) that put the elements along ``axis`` in order; equal ones keep theirs.

    >>> argsort([3, 1, 2]).tolist()
    [1, 2, 0]
    """
    node = as_node(x)
    return wrap(ops.argsort(node, axis_of("argsort", axis, node.shape), descending, stable))


@with_synonyms
def topk(x: TensorLike, k: int, axis: int = -1, largest: bool = True) -> Sorted:
    """The ``k`` largest (or smallest) elements along ``axis``, in order, and their positions.

    Raises:
        ShapeError: if there are fewer than ``k``.

    >>> topk([3, 1, 2], 2).values.tolist()
    [3, 2]
    """
    node = as_node(x)
    place = axis_of("topk", axis, node.shape)
    if not 0 <= k <= int(node.shape[place]):
        raise ShapeError(
            f"[topk] k = {k} of axis {place} of {node.shape}, which has {node.shape[place]} "
            "elements; "
            "choose a smaller k"
        )
    values, indices = ops.topk(node, k, place, largest)
    return Sorted(wrap(values), wrap(indices))


def _before(a: Node, b: Node) -> Node:
    """``a < b``, with nan above every number."""
    less = ops.less(a, b)
    if a.dtype.kind != "f":
        return less
    return ops.bitwise_or(less, ops.bitwise_and(ops.isnan(b), ops.logical_not(ops.isnan(a))))


def _not_after(a: Node, b: Node) -> Node:
    return ops.logical_not(_before(b, a))


@with_synonyms
def searchsorted(
    sorted_sequence: TensorLike,
    values: TensorLike,
    side: Literal["left", "right"] = "left",
    right: bool = False,
    sorter: TensorLike | None = None,
) -> Tensor:
    """Where to put ``values`` in an ascending vector so that it stays ascending: binary search,
    int64.

    ``side`` "left" puts before equal elements, "right" (or ``right=True``) after them; nan counts
    as the largest. ``sorter`` gives the positions that put the sequence in order, as
    :func:`argsort` finds them.

    >>> searchsorted([1, 3, 5], [3, 4]).tolist(), searchsorted([1, 3, 5], 3, side="right").item()
    ([1, 2], 2)
    """
    if side not in ("left", "right"):
        raise OptionError(f"[searchsorted] no side {side!r}; use 'left' or 'right'")
    row, wanted = pair("searchsorted", sorted_sequence, values)
    if row.ndim != 1:
        raise ShapeError(f"[searchsorted] a sorted sequence of shape {row.shape}; give a vector")
    if sorter is not None:
        row = ops.gather(row, as_node(sorter))
    size = int(row.shape[0])
    before = _not_after if right or side == "right" else _before
    place = ops.full(0, wanted.shape, int64)
    step = 1 << size.bit_length() >> 1
    while step and size:
        trial = ops.add(place, ops.constant(step, int64))
        fits = ops.less_equal(trial, ops.constant(size, int64))
        at = ops.minimum(ops.subtract(trial, ops.constant(1, int64)), ops.constant(size - 1, int64))
        passed = before(ops.gather(row, at, checked=False), wanted)
        place = ops.where(ops.bitwise_and(fits, passed), trial, place)
        step >>= 1
    return wrap(place)


# -- by position -----------------------------------------------------------------------------------
def take_node(node: Node, index: Node, axis: int, checked: bool = False) -> Node:
    """Slices of ``node`` at ``index`` along ``axis``, in its place."""
    chosen = ops.gather_nd(node, [index], [axis], [checked])
    inner = index.ndim
    others = list(range(inner, chosen.ndim))
    return ops.permute(chosen, [*others[:axis], *range(inner), *others[axis:]])


@with_synonyms
def take(x: TensorLike, indices: TensorLike, axis: int | None = None) -> Tensor:
    """The slices of ``x`` at ``indices`` along ``axis`` (None: of the flattened tensor).

    Raises:
        LamellaIndexError: when computed, for an index out of range.

    >>> take([10, 20, 30], [2, 0]).tolist()
    [30, 10]
    """
    node = as_node(x)
    if axis is None:
        node, axis = ops.reshape(node, (product(node.shape),)), 0
    return wrap(take_node(node, as_node(indices), axis_of("take", axis, node.shape), checked=True))


@with_synonyms
def take_along_axis(x: TensorLike, indices: TensorLike, axis: int = -1) -> Tensor:
    """``result[i, j] = x[i, indices[i, j]]`` along ``axis`` 1, likewise along others.

    >>> take_along_axis([[10, 20], [30, 40]], [[1], [0]], 1).tolist()
    [[20], [30]]
    """
    node = as_node(x)
    return wrap(
        ops.take_along_axis(node, as_node(indices), axis_of("take_along_axis", axis, node.shape))
    )


def gather(x: TensorLike, dim: int, index: TensorLike) -> Tensor:
    """PyTorch's name and order of arguments for :func:`take_along_axis`.

    >>> gather([[10, 20], [30, 40]], 1, [[1], [0]]).tolist()
    [[20], [30]]
    """
    return take_along_axis(x, index, axis=dim)


@with_synonyms
def put_along_axis(
    x: TensorLike, indices: TensorLike, values: TensorLike, axis: int = -1, mode: str = "set"
) -> Tensor:
    """``x`` with ``values`` put where :func:`take_along_axis` reads; ``mode`` set, add, max or min.

    >>> put_along_axis([[1, 2]], [[1]], [[9]], 1).tolist()
    [[1, 9]]
    """
    node = as_node(x)
    index = as_node(indices)
    if isinstance(values, bool | int | float | complex):
        new = scalar_node(values, node.dtype)
    else:
        new = as_node(values, node.dtype)
    place = axis_of("put_along_axis", axis, node.shape)
    return wrap(ops.put_along_axis(node, index, ops.broadcast_to(new, index.shape), place, mode))


def scatter(x: TensorLike, dim: int, index: TensorLike, src: TensorLike) -> Tensor:
    """PyTorch's name and order of arguments for :func:`put_along_axis`.

    >>> scatter([[1, 2]], 1, [[1]], [[9]]).tolist()
    [[1, 9]]
    """
    return put_along_axis(x, index, src, axis=dim)


def scatter_add(x: TensorLike, dim: int, index: TensorLike, src: TensorLike) -> Tensor:
    """:func:`scatter` that adds, repeated indices included.

    >>> scatter_add([0, 0], 0, [1, 1], [2, 3]).tolist()
    [0, 5]
    """
    return put_along_axis(x, index, src, axis=dim, mode="add")


def bincount(x: TensorLike, weights: TensorLike | None = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, 2 … is in a vector (or the sum of its weights); looks at the values.

    >>> bincount([0, 2, 2]).tolist()
    [1, 0, 2]
    """
    node = as_node(x)
    counts = _host(x, "bincount")
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts.size and counts.min() < 0):
        raise ShapeError("[bincount] takes a vector of integers, none negative; reshape or cast it")
    length = max(int(counts.max()) + 1 if counts.size else 0, minlength)
    new = ops.full(1, node.shape, int64) if weights is None else as_node(weights)
    empty = ops.full(0, (length,), new.dtype)
    return wrap(ops.scatter(empty, cast(node, int64), new, "add", checked=False))


# -- by value --------------------------------------------------------------------------------------
def nonzero(x: TensorLike) -> tuple[Tensor, ...]:
    """The positions of the nonzero elements, one int64 vector per axis; looks at the values.

    >>> [index.tolist() for index in nonzero([[0, 1], [2, 0]])]
    [[0, 1], [1, 0]]
    """
    return tuple(wrap(node_from_array(i.astype(np.int64))) for i in np.nonzero(_host(x, "nonzero")))


@with_synonyms
def unique(
    x: TensorLike,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """The distinct elements (or slices along ``axis``) in ascending order; looks at the values.

    With ``return_inverse`` / ``return_counts`` a tuple that also has the position of each element
    in the result and how often each occurs.

    >>> unique([3, 1, 3]).tolist()
    [1, 3]
    """
    distinct: Any = np.unique
    found = distinct(
        _host(x, "unique"), return_inverse=return_inverse, return_counts=return_counts, axis=axis
    )
    if isinstance(found, tuple):
        return tuple(wrap(node_from_array(part)) for part in found)
    return wrap(node_from_array(found))


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


def _distinct(x: TensorLike) -> UniqueAll:
    """Distinct elements in ascending order, nan last, each nan by itself; looks at the values."""
    array = _host(x, "unique")
    found = np.unique(
        array, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    parts = [np.asarray(found[0]), *(np.asarray(part).astype(np.int64) for part in found[1:])]
    parts[2] = parts[2].reshape(array.shape)
    return UniqueAll(*(wrap(node_from_array(part)) for part in parts))


def unique_all(x: TensorLike) -> UniqueAll:
    """``(values, indices, inverse_indices, counts)`` of the distinct elements; looks at the values.

    Every nan is distinct, as the array-API standard says.

    >>> [part.tolist() for part in unique_all([3, 1, 3])]
    [[1, 3], [1, 0], [1, 0, 1], [1, 2]]
    """
    return _distinct(x)


def unique_inverse(x: TensorLike) -> UniqueInverse:
    """``(values, inverse_indices)`` of the distinct elements; looks at the values.

    >>> [part.tolist() for part in unique_inverse([3, 1, 3])]
    [[1, 3], [1, 0, 1]]
    """
    found = _distinct(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_counts(x: TensorLike) -> UniqueCounts:
    """``(values, counts)`` of the distinct elements; looks at the values.

    >>> [part.tolist() for part in unique_counts([3, 1, 3])]
    [[1, 3], [1, 2]]
    """
    found = _distinct(x)
    return UniqueCounts(found.values, found.counts)


def unique_values(x: TensorLike) -> Tensor:
    """The distinct elements, every nan among them; looks at the values (array-API's name).

    >>> unique_values([3, 1, 3]).tolist()
    [1, 3]
    """
    return _distinct(x).values  # type: ignore[no-any-return]


def one_hot(x: TensorLike, num_classes: int, dtype: object = int64) -> Tensor:
    """A new last axis that is 1 at the position ``x`` names and 0 elsewhere.

    >>> one_hot([1, 0], 3).tolist()
    [[0, 1, 0], [1, 0, 0]]
    """
    node = as_node(x)
    kind: DType = as_dtype(dtype)
    shape = (*node.shape, num_classes)
    column = ops.iota(shape, len(shape) - 1, node.dtype)
    return wrap(cast(ops.equal(column, ops.reshape(node, (*node.shape, 1))), kind))
