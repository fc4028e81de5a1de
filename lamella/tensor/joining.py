"""Joining, splitting and repeating.

Inputs of a join are promoted to one element type. ``dim`` is a synonym of ``axis``.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lamella import ops
from lamella.dtypes import as_dtype, int64, promote
from lamella.errors import ShapeError
from lamella.ir.dim import Size
from lamella.ir.node import Node
from lamella.tensor.axes import axis_of, shape_of
from lamella.tensor.core import TensorCore, node_of, value_of, wrap
from lamella.tensor.deferring import deferring
from lamella.tensor.host import node_from_array
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import TensorLike, as_node, cast, scalar_node

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "array_split", "cat", "chunk", "concat", "concatenate", "diff", "hstack", "repeat",
    "repeat_interleave", "split", "stack", "tile", "unbind", "unstack", "vstack",
]  # fmt: skip


def promoted(name: str, tensors: Sequence[TensorLike], dtype: object = None) -> list[Node]:
    """The nodes of ``tensors`` in one element type: ``dtype``, or the one that holds all.

    Raises:
        ShapeError: if there are none.
    """
    nodes = [as_node(tensor) for tensor in tensors]
    if not nodes:
        raise ShapeError(f"[{name}] got no tensors, so there is nothing to join; give at least one")
    if dtype is not None:
        return [cast(node, as_dtype(dtype)) for node in nodes]
    common = nodes[0].dtype
    for node in nodes:
        common = promote(common, node.dtype)
    return [cast(node, common) for node in nodes]


@deferring
@with_synonyms
def concat(
    tensors: Sequence[TensorLike], axis: int | None = 0, *, dtype: object = None
) -> Tensor:
    """The tensors one after another along an existing axis (None: all flattened first), cast to
    ``dtype`` if that is given.

    Raises:
        ShapeError: if other axes differ in size.

    >>> concat([[1, 2], [3]]).tolist()
    [1, 2, 3]
    """
    nodes = promoted("concat", tensors, dtype)
    if axis is None:
        nodes, axis = [ops.reshape(n, (-1,) if 0 not in n.shape else (0,)) for n in nodes], 0
    place = axis_of("concat", axis, nodes[0].shape)
    for position, node in enumerate(nodes):
        others = [s for i, s in enumerate(node.shape) if i != place]
        if node.ndim != nodes[0].ndim or others != [
            s for i, s in enumerate(nodes[0].shape) if i != place
        ]:
            raise ShapeError(
                f"[concat] tensor 0 has shape {nodes[0].shape} and tensor {position} {node.shape}: "
                "all axes but "
                f"axis {place} must agree; reshape or pad one of them"
            )
    return wrap(nodes[0] if len(nodes) == 1 else ops.concatenate(nodes, place))


cat = concatenate = concat


@deferring
@with_synonyms
def stack(tensors: Sequence[TensorLike], axis: int = 0, *, dtype: object = None) -> Tensor:
    """The tensors, all of one shape, along a new axis, cast to ``dtype`` if that is given.

    >>> stack([[1, 2], [3, 4]], axis=1).tolist()
    [[1, 3], [2, 4]]
    """
    nodes = promoted("stack", tensors, dtype)
    shape = nodes[0].shape
    for position, node in enumerate(nodes):
        if node.shape != shape:
            raise ShapeError(
                f"[stack] tensor 0 has shape {shape} and tensor {position} {node.shape}; stack "
                "needs equal shapes: "
                "broadcast or pad them first"
            )
    place = axis_of("stack", axis, shape, new=1)
    grown = (*shape[:place], 1, *shape[place:])
    parts = [ops.reshape(node, grown) for node in nodes]
    return wrap(parts[0] if len(parts) == 1 else ops.concatenate(parts, place))


@deferring
def vstack(tensors: Sequence[TensorLike], *, dtype: object = None) -> Tensor:
    """The tensors as rows, or one below the other, cast to ``dtype`` if that is given.

    >>> vstack([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    nodes = promoted("vstack", tensors, dtype)
    rows = [ops.reshape(n, (1, *(n.shape or (1,)))) if n.ndim < 2 else n for n in nodes]
    return concat([wrap(row) for row in rows], 0)


@deferring
def hstack(tensors: Sequence[TensorLike], *, dtype: object = None) -> Tensor:
    """The tensors side by side: along axis 1, or axis 0 of vectors; cast to ``dtype`` if given.

    >>> hstack([[1, 2], [3]]).tolist()
    [1, 2, 3]
    """
    nodes = promoted("hstack", tensors, dtype)
    rows = [ops.reshape(n, (1,)) if n.ndim == 0 else n for n in nodes]
    return concat([wrap(row) for row in rows], 0 if rows[0].ndim == 1 else 1)


# -- splitting -------------------------------------------------------------------------------------
FEW = 16  # pieces up to which where they start is a part of the program


def _cut(node: Node, axis: int, start: int, size: Size, fixed: bool = True) -> Node:
    starts: list[Node | int] = [0] * node.ndim
    starts[axis] = start if fixed else scalar_node(start, int64)
    return ops.slice(node, starts, (*node.shape[:axis], size, *node.shape[axis + 1 :]))


def _pieces(node: Node, axis: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    found, start = [], 0
    for size in sizes:
        found.append(wrap(_cut(node, axis, start, size, len(sizes) <= FEW)))
        start += size
    return tuple(found)


@with_synonyms
def split(x: TensorLike, sizes: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Pieces of ``sizes`` elements along ``axis`` (an int: all of that size, the last perhaps
    smaller).

    This is PyTorch's meaning; NumPy's, a number of sections, is :func:`array_split`.

    Raises:
        ShapeError: if the sizes do not add up.

    >>> [piece.tolist() for piece in split([1, 2, 3, 4, 5], 2)]
    [[1, 2], [3, 4], [5]]
    """
    node = as_node(x)
    place = axis_of("split", axis, node.shape)
    extent = int(node.shape[place])
    if isinstance(sizes, int):
        if sizes <= 0:
            raise ShapeError(f"[split] pieces of {sizes} elements; a piece has at least one")
        full, rest = divmod(extent, sizes)
        wanted = [sizes] * full + [rest] * (rest > 0 or extent == 0)
    else:
        wanted = [int(size) for size in sizes]
        if sum(wanted) != extent or min(wanted, default=0) < 0:
            raise ShapeError(
                f"[split] sizes {wanted} add up to {sum(wanted)}, but axis {place} of {node.shape} "
                f"has {extent}; "
                "make them agree"
            )
    return _pieces(node, place, wanted)


@with_synonyms
def chunk(x: TensorLike, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` equal pieces along ``axis``, the last perhaps smaller (PyTorch's chunk).

    >>> [piece.tolist() for piece in chunk([1, 2, 3, 4, 5], 2)]
    [[1, 2, 3], [4, 5]]
    """
    node = as_node(x)
    extent = int(node.shape[axis_of("chunk", axis, node.shape)])
    if chunks < 1:
        raise ShapeError(f"[chunk] {chunks} pieces; ask for at least one")
    return split(wrap(node), max(1, -(-extent // chunks)), axis=axis)


@with_synonyms
def array_split(x: TensorLike, sections: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """``sections`` nearly equal pieces, or pieces between the given positions (NumPy's
    array_split).

    >>> [piece.tolist() for piece in array_split([1, 2, 3, 4, 5], 2)]
    [[1, 2, 3], [4, 5]]
    """
    node = as_node(x)
    place = axis_of("array_split", axis, node.shape)
    extent = int(node.shape[place])
    if isinstance(sections, int):
        if sections < 1:
            raise ShapeError(f"[array_split] {sections} sections; ask for at least one")
        each, more = divmod(extent, sections)
        return _pieces(node, place, [each + 1] * more + [each] * (sections - more))
    marks = [0, *(slice(mark).indices(extent)[1] for mark in sections), extent]
    found = []
    for start, stop in itertools.pairwise(marks):
        size = max(stop - start, 0)
        found.append(wrap(_cut(node, place, start if size else 0, size, fixed=False)))
    return tuple(found)


@with_synonyms
def unstack(x: TensorLike, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along ``axis``, without it.

    >>> [row.tolist() for row in unstack([[1, 2], [3, 4]])]
    [[1, 2], [3, 4]]
    """
    node = as_node(x)
    place = axis_of("unstack", axis, node.shape)
    rest = node.shape[:place] + node.shape[place + 1 :]
    count = int(node.shape[place])
    cuts = (_cut(node, place, i, 1, count <= FEW) for i in range(count))
    return tuple(wrap(ops.reshape(cut, rest)) for cut in cuts)


unbind = unstack


# -- repeating -------------------------------------------------------------------------------------
@deferring
def tile(x: TensorLike, *repetitions: int | Sequence[int]) -> Tensor:
    """The whole tensor repeated along each axis.

    >>> tile([1, 2], 2).tolist(), tile([1, 2], (2, 1)).tolist()
    ([1, 2, 1, 2], [[1, 2], [1, 2]])
    """
    node = as_node(x)
    times = shape_of("tile", *repetitions)
    shape = (1,) * (len(times) - node.ndim) + node.shape
    times = (1,) * (node.ndim - len(times)) + times
    apart: list[Size] = []
    for count, size in zip(times, shape, strict=True):
        apart += [count, size]
    spaced = ops.reshape(node, tuple(s for size in shape for s in (1, size)))
    total = tuple(count * size for count, size in zip(times, shape, strict=True))
    return wrap(ops.reshape(ops.broadcast_to(spaced, tuple(apart)), total))


@deferring
@with_synonyms
def repeat_interleave(
    x: TensorLike, repeats: int | Sequence[int] | TensorLike, axis: int | None = None
) -> Tensor:
    """Each element repeated ``repeats`` times (one number, or one per element) along ``axis``.

    Without ``axis`` the flattened tensor is taken. As a function this is also ``repeat``
    (array-API); the method ``x.repeat(*sizes)`` is :func:`tile`, as in PyTorch.

    >>> repeat_interleave([1, 2], 2).tolist(), repeat_interleave([1, 2], [0, 3]).tolist()
    ([1, 1, 2, 2], [2, 2, 2])
    """
    node = as_node(x)
    if axis is None:
        node, axis = ops.reshape(node, (-1,) if 0 not in node.shape else (0,)), 0
    place = axis_of("repeat", axis, node.shape)
    size = node.shape[place]
    if isinstance(repeats, int):
        if repeats < 0:
            raise ShapeError(f"[repeat] {repeats} repeats; a count is 0 or more")
        outer, inner = node.shape[:place], node.shape[place + 1 :]
        spaced = ops.reshape(node, (*outer, size, 1, *inner))
        spread = ops.broadcast_to(spaced, (*outer, size, repeats, *inner))
        return wrap(ops.reshape(spread, (*outer, size * repeats, *inner)))
    counts = value_of(repeats, "repeat") if isinstance(repeats, TensorCore) else np.asarray(repeats)
    if counts.size not in (1, size) or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise ShapeError(
            f"[repeat] {counts.size} repeats for axis {place} of {node.shape}; give one whole "
            "number, or one for "
            "each element, none negative"
        )
    if sum(map(int, counts.reshape(-1))) * (int(size) if counts.size == 1 else 1) >= 2**63:
        raise ShapeError("[repeat] the counts add up to more than an axis can have; give less")
    source = np.repeat(
        np.arange(int(size)), counts.reshape(-1) if counts.size != 1 else int(counts.item())
    )
    from lamella.tensor.searching import take_node

    return wrap(take_node(node, node_from_array(source.astype(np.int64)), place))


repeat = repeat_interleave


@deferring
@with_synonyms
def diff(
    x: TensorLike,
    n: int = 1,
    axis: int = -1,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Tensor:
    """The differences ``x[i + 1] - x[i]`` along ``axis``, taken ``n`` times, of ``x`` after
    ``prepend`` and before ``append`` (of any size along ``axis``; a number counts as one element).

    >>> diff([1, 4, 9, 16]).tolist()
    [3, 5, 7]
    """
    node = as_node(x)
    place = axis_of("diff", axis, node.shape)
    if prepend is not None or append is not None:
        edge = tuple(1 if a == place else size for a, size in enumerate(node.shape))
        around = [
            None if part is None else wrap(ops.broadcast_to(end, edge) if not end.shape else end)
            for part, end in ((p, as_node(0 if p is None else p)) for p in (prepend, append))
        ]
        pieces = [around[0], wrap(node), around[1]]
        node = node_of(concat([piece for piece in pieces if piece is not None], place))
    for _ in range(n):
        size = max(int(node.shape[place]) - 1, 0)
        upper = _cut(node, place, 1 if size else 0, size)
        lower = _cut(node, place, 0, size)
        node = (ops.bitwise_xor if node.dtype.kind == "b" else ops.subtract)(upper, lower)
    return wrap(node)
