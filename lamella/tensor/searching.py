"""Sorting, choosing by position, and what depends on the values themselves (nonzero, unique).

The last kind looks at its argument, because the shape of its result depends on it; the others are
recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, overload

import numpy as np

from lamella import ops
from lamella.dtypes import DType, as_dtype, bool_, int64
from lamella.errors import OptionError, ShapeError, TraceError
from lamella.ir.dim import Shape, product
from lamella.ir.node import Node
from lamella.tensor.axes import axis_of
from lamella.tensor.core import TensorCore, array_of, value_of, wrap
from lamella.tensor.deferring import deferring
from lamella.tensor.host import node_from_array
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import TensorLike, as_node, cast, pair, scalar_node
from lamella.tensor.pending import flush

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "argpartition", "argsort", "argwhere", "flatnonzero", "gather", "lexsort", "nonzero",
    "one_hot", "partition", "put_along_axis", "scatter", "scatter_add", "searchsorted", "sort",
    "take", "take_along_axis", "topk",
]  # fmt: skip


class Sorted(NamedTuple):
    """Values and their positions."""

    values: Tensor
    indices: Tensor


def host(x: TensorLike, name: str, instead: str = "") -> np.ndarray:
    """The value of ``x``, looked at now; ``instead`` is what makes that unnecessary.

    Raises:
        TraceError: inside a function being transformed, where there is no value.
    """
    if isinstance(x, TensorCore):
        try:
            return value_of(x, name)
        except TraceError:
            remedy = f"give {instead} there" if instead else "call it outside"
            raise TraceError(
                f"[{name}] the shape of the result depends on values, which there are none of "
                f"while a function is compiled or batched; {remedy}"
            ) from None
    node = as_node(x)
    flush(node, name)
    return array_of(node)


# -- order -----------------------------------------------------------------------------------------
@deferring
@with_synonyms
def sort(x: TensorLike, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements along ``axis`` in ascending order; nan comes last.

    >>> sort([3, 1, 2]).tolist()
    [1, 2, 3]
    """
    node = as_node(x)
    return wrap(ops.sort(node, axis_of("sort", axis, node.shape), descending, stable))


@deferring
@with_synonyms
def argsort(x: TensorLike, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The positions (int64) that put the elements along ``axis`` in order; equal ones keep theirs.

    >>> argsort([3, 1, 2]).tolist()
    [1, 2, 0]
    """
    node = as_node(x)
    return wrap(ops.argsort(node, axis_of("argsort", axis, node.shape), descending, stable))


@deferring
@with_synonyms
def topk(
    x: TensorLike, k: int, axis: int = -1, largest: bool = True, sorted: bool = True
) -> Sorted:
    """The ``k`` largest (or smallest) elements along ``axis``, in order, and their positions.

    They are in order whether ``sorted`` asks for it or not.

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


@deferring
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


@deferring
@with_synonyms
def take(
    x: TensorLike, indices: TensorLike, axis: int | None = None, *, mode: str = "raise"
) -> Tensor:
    """The slices of ``x`` at ``indices`` along ``axis`` (None: of the flattened tensor).

    Args:
        x: any dtype.
        indices: integers of any shape.
        axis: the axis they speak of.
        mode: what an index out of range is, as in NumPy: an error ("raise"), one modulo the size
            ("wrap"), or the nearest one in ``[0, size)`` ("clip", also of negative indices).

    Raises:
        LamellaIndexError: when computed, for an index out of range.
        OptionError: for another mode.

    >>> take([10, 20, 30], [2, 0]).tolist()
    [30, 10]
    """
    node = as_node(x)
    if axis is None:
        node, axis = ops.reshape(node, (product(node.shape),)), 0
    place, index = axis_of("take", axis, node.shape), as_node(indices)
    if mode == "raise":
        return wrap(take_node(node, index, place, checked=True))
    from lamella.tensor.lenient import brought_inside

    index = brought_inside("take", index, node.shape[place], mode)
    return wrap(take_node(node, index, place))


@deferring
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


def _beginning(x: Node, shape: Shape, place: int | None = None) -> Node:
    """``x`` from the start of each axis but ``place`` as far as ``shape`` goes."""
    if x.ndim != len(shape):
        return x
    ends = tuple(
        count if axis != place and isinstance(size, int) and isinstance(count, int) and count < size
        else size
        for axis, (size, count) in enumerate(zip(x.shape, shape, strict=True))
    )  # fmt: skip
    return x if ends == x.shape else ops.slice(x, (0,) * x.ndim, ends)


@deferring
def gather(x: TensorLike, dim: int, index: TensorLike) -> Tensor:
    """PyTorch's :func:`take_along_axis`: along the other axes, indices that are fewer than the
    elements concern the first of them and are not broadcast.

    >>> gather([[10, 20], [30, 40]], 1, [[1], [0]]).tolist(), gather([[1], [2]], 1, [[0]]).tolist()
    ([[20], [30]], [[1]])
    """
    node, chosen = as_node(x), as_node(index)
    node = _beginning(node, chosen.shape, axis_of("gather", dim, node.shape))
    return take_along_axis(wrap(node), wrap(chosen), axis=dim)


@deferring
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


@deferring
def scatter(
    x: TensorLike, dim: int, index: TensorLike, src: TensorLike | None = None, *,
    value: TensorLike | None = None, reduce: str | None = None,
) -> Tensor:  # fmt: skip
    """PyTorch's :func:`put_along_axis`: along the other axes, indices that are fewer than the
    elements concern the first of them, and so do those of ``src``; nothing is broadcast.

    Args:
        x: any shape.
        dim: the axis of the indices.
        index: integers, as many axes as ``x``.
        src: what to write, by index; or one number.
        value: one number to write everywhere, instead of ``src``.
        reduce: ``"add"``, ``"max"`` or ``"min"`` of what is there and what comes; None replaces.

    Raises:
        OptionError: for another ``reduce``, or unless one of ``src`` and ``value`` is given.

    >>> scatter([[1, 2]], 1, [[1]], [[9]]).tolist(), scatter([[1, 2]], 1, [[1]], value=0).tolist()
    ([[1, 9]], [[1, 0]])
    """
    new = value if src is None else src
    if new is None or (src is not None and value is not None):
        raise OptionError("[scatter] what to write is src or value; give one of them")
    node, chosen = as_node(x), as_node(index)
    part = _beginning(node, chosen.shape, axis_of("scatter", dim, node.shape))
    if not isinstance(new, bool | int | float | complex):
        new = wrap(_beginning(as_node(new, node.dtype), chosen.shape))
    mode = "set" if reduce is None else reduce
    found = put_along_axis(wrap(part), wrap(chosen), new, axis=dim, mode=mode)
    if part is node:
        return found
    return wrap(node).at[tuple(slice(0, size) for size in part.shape)].set(found)


@deferring
def scatter_add(x: TensorLike, dim: int, index: TensorLike, src: TensorLike) -> Tensor:
    """:func:`scatter` that adds, repeated indices included.

    >>> scatter_add([0, 0], 0, [1, 1], [2, 3]).tolist()
    [0, 5]
    """
    return scatter(x, dim, index, src, reduce="add")


# -- by value --------------------------------------------------------------------------------------
def _sized_nonzero(mask: Node, size: int, fill: int) -> Node:
    """The flat positions of the first ``size`` true elements, then ``fill``."""
    flat = ops.reshape(mask, (mask.size,))
    rank = ops.subtract(ops.cumsum(cast(flat, int64), 0), ops.constant(1, int64))
    end = ops.constant(size, int64)
    place = ops.where(flat, ops.minimum(rank, end), end)
    empty = ops.full(fill, (size + 1,), int64)
    found = ops.scatter(empty, place, ops.iota(flat.shape, 0, int64), "set", checked=False)
    return ops.slice(found, (0,), (size,))


def _truth(x: TensorLike) -> Node:
    node = as_node(x)
    return node if node.dtype is bool_ else ops.not_equal(node, ops.constant(0, node.dtype))


@overload
def nonzero(
    x: TensorLike, size: int | None = None, fill_value: int | Sequence[int] = 0, *,
    as_tuple: Literal[True] = True,
) -> tuple[Tensor, ...]: ...  # fmt: skip
@overload
def nonzero(
    x: TensorLike, size: int | None = None, fill_value: int | Sequence[int] = 0, *,
    as_tuple: Literal[False],
) -> Tensor: ...  # fmt: skip
def nonzero(
    x: TensorLike, size: int | None = None, fill_value: int | Sequence[int] = 0, *,
    as_tuple: bool = True,
) -> tuple[Tensor, ...] | Tensor:  # fmt: skip
    """The positions of the nonzero elements, one int64 vector per axis, as NumPy gives them.

    Args:
        x: at least one axis.
        size: how many positions to give, which makes it usable inside ``jit``: the first ``size``,
            then ``fill_value``. Without it the values are looked at.
        fill_value: what follows the last position; one number, or one for each axis.
        as_tuple: False for one matrix instead, as :func:`argwhere`.

    Raises:
        TraceError: inside a compiled function, without ``size``.

    >>> [index.tolist() for index in nonzero([[0, 1], [2, 0]])]
    [[0, 1], [1, 0]]
    >>> nonzero([0, 1, 1], size=3, fill_value=-1)[0].tolist()
    [1, 2, -1]
    """
    if not as_tuple:
        return argwhere(x, size, fill_value)
    if size is None:
        found = np.nonzero(host(x, "nonzero", "size="))
        return tuple(wrap(node_from_array(i.astype(np.int64))) for i in found)
    mask = _truth(x)
    flat = _sized_nonzero(mask, size, -1)
    missing = ops.less(flat, ops.constant(0, int64))
    fills = fill_value if isinstance(fill_value, Sequence) else [fill_value] * mask.ndim
    places: list[Tensor] = []
    rest = ops.where(missing, ops.constant(0, int64), flat)
    for extent, fill in zip(reversed(mask.shape), reversed(fills), strict=True):
        length = ops.constant(max(int(extent), 1), int64)
        place = ops.remainder(rest, length)
        places.append(wrap(ops.where(missing, ops.constant(fill, int64), place)))
        rest = ops.floor_divide(rest, length)
    return tuple(reversed(places))


def argwhere(
    x: TensorLike, size: int | None = None, fill_value: int | Sequence[int] = 0
) -> Tensor:
    """:func:`nonzero` as one matrix: a row for each position, a column for each axis.

    >>> argwhere([[0, 1], [2, 0]]).tolist()
    [[0, 1], [1, 0]]
    """
    node = as_node(x)
    if node.ndim == 0:
        found = flatnonzero(x, size)
        return wrap(ops.full(0, (found.shape[0], 0), int64))
    columns = [as_node(place) for place in nonzero(x, size, fill_value)]
    return wrap(ops.concatenate([ops.reshape(c, (c.shape[0], 1)) for c in columns], 1))


def flatnonzero(x: TensorLike, size: int | None = None, fill_value: int = 0) -> Tensor:
    """The positions of the nonzero elements in the flattened tensor; ``size`` as in
    :func:`nonzero`.

    >>> flatnonzero([[0, 1], [2, 0]]).tolist()
    [1, 2]
    """
    if size is not None:
        return wrap(_sized_nonzero(_truth(x), size, fill_value))
    places = np.flatnonzero(host(x, "flatnonzero", "size="))
    return wrap(node_from_array(places.astype(np.int64)))


def partition(x: TensorLike, kth: int | Sequence[int], axis: int | None = -1) -> Tensor:
    """The elements along ``axis`` with the ``kth`` in its sorted place, smaller ones before it (all
    are sorted here).

    >>> partition([3, 1, 2], 1).tolist()
    [1, 2, 3]
    """
    node, place = _partitioned("partition", x, kth, axis)
    return wrap(ops.sort(node, place))


def argpartition(x: TensorLike, kth: int | Sequence[int], axis: int | None = -1) -> Tensor:
    """The positions (int64) that :func:`partition` the elements along ``axis``.

    >>> argpartition([3, 1, 2], 1).tolist()
    [1, 2, 0]
    """
    node, place = _partitioned("argpartition", x, kth, axis)
    return wrap(ops.argsort(node, place))


def _partitioned(
    name: str, x: TensorLike, kth: int | Sequence[int], axis: int | None
) -> tuple[Node, int]:
    node = as_node(x)
    if axis is None:
        node, axis = ops.reshape(node, (node.size,)), 0
    place = axis_of(name, axis, node.shape)
    for each in kth if isinstance(kth, Sequence) else (kth,):
        axis_of(f"{name}, kth", each, (1,) * int(node.shape[place]))
    return node, place


def lexsort(
    keys: Sequence[TensorLike] | TensorCore | np.ndarray, axis: int = -1
) -> Tensor:
    """The positions that sort by the last key, then by the last but one among equals, and so on.

    >>> lexsort(([1, 2, 3], [0, 1, 0])).tolist()
    [0, 2, 1]
    """
    from lamella.tensor.joining import unstack

    nodes = [as_node(key) for key in (unstack(keys) if isinstance(keys, TensorCore) else keys)]
    if not nodes:
        raise ShapeError("[lexsort] got no keys to sort by; give at least one")
    place = axis_of("lexsort", axis, nodes[0].shape)
    order = ops.argsort(nodes[0], place)
    for node in nodes[1:]:
        again = ops.argsort(ops.take_along_axis(node, order, place), place)
        order = ops.take_along_axis(order, again, place)
    return wrap(order)


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
