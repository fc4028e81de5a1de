"""Shapes and order: functions that move elements and compute nothing.

Results are values of their own: changing the source later changes none of them. Axes count from the
back when negative; ``dim`` is a synonym of ``axis``. Joining, splitting and repeating are in
``joining``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lamella import ops
from lamella.errors import ShapeError
from lamella.ir.decisions import at_least
from lamella.ir.dim import Dim, Shape, Size, product
from lamella.ir.node import Node
from lamella.tensor.axes import Axes, axes_of, axis_of, shape_of
from lamella.tensor.core import wrap
from lamella.tensor.deferring import deferring
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import TensorLike, as_node

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "broadcast_arrays", "broadcast_shapes", "broadcast_tensors", "broadcast_to", "diag",
    "diagonal", "expand", "expand_dims", "flatten", "flip", "fliplr", "flipud",
    "matrix_transpose", "moveaxis", "permute", "permute_dims", "ravel", "reshape", "roll",
    "squeeze", "swapaxes", "transpose", "tril", "triu", "unflatten", "unsqueeze",
]  # fmt: skip


# -- shape -----------------------------------------------------------------------------------------
def reshape(
    x: TensorLike, shape: Size | Sequence[Size], *sizes: Size, copy: bool | None = None
) -> Tensor:
    """The same elements in row-major order under ``shape``, given as a sequence or as sizes; one
    size may be -1 (worked out).

    ``copy`` is accepted for the array-API's sake: values are never shared visibly.

    Raises:
        ShapeError: if the number of elements differs.

    >>> reshape([1, 2, 3, 4], (2, -1)).shape
    (2, 2)
    """
    return wrap(ops.reshape(as_node(x), shape_of("reshape", shape, *sizes, allow=-1)))


def view(x: TensorLike, *shape: object) -> Tensor:
    """:func:`reshape`, or with an element type the same bits read as that type.

    >>> view([1, 2, 3, 4], 2, 2).shape
    (2, 2)
    """
    from lamella.dtypes import DType

    if len(shape) == 1 and isinstance(shape[0], DType):
        return wrap(ops.bitcast(as_node(x), shape[0]))
    return wrap(ops.reshape(as_node(x), shape_of("view", *shape, allow=-1)))


def ravel(x: TensorLike) -> Tensor:
    """All elements along one axis.

    >>> ravel([[1, 2], [3, 4]]).tolist()
    [1, 2, 3, 4]
    """
    node = as_node(x)
    return wrap(ops.reshape(node, (product(node.shape),)))


def flatten(x: TensorLike, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes ``start_dim`` to ``end_dim`` (inclusive) made into one.

    >>> flatten([[[1, 2]], [[3, 4]]], 1).shape
    (2, 2)
    """
    node = as_node(x)
    if not node.shape:
        return wrap(ops.reshape(node, (1,)))
    first = axis_of("flatten", start_dim, node.shape)
    last = axis_of("flatten", end_dim, node.shape)
    if last < first:
        raise ShapeError(
            f"[flatten] start_dim {start_dim} comes after end_dim {end_dim} in {node.shape}; swap "
            "them"
        )
    middle = product(node.shape[first : last + 1])
    return wrap(ops.reshape(node, (*node.shape[:first], middle, *node.shape[last + 1 :])))


def unflatten(x: TensorLike, dim: int, sizes: Sequence[int]) -> Tensor:
    """Axis ``dim`` split into ``sizes`` (one may be -1).

    >>> unflatten([1, 2, 3, 4], 0, (2, -1)).shape
    (2, 2)
    """
    node = as_node(x)
    axis = axis_of("unflatten", dim, node.shape)
    parts = list(shape_of("unflatten", sizes, allow=-1))
    if -1 in parts:
        rest = product(tuple(size for size in parts if size != -1))
        parts[parts.index(-1)] = node.shape[axis] // rest if rest != 0 else 0
    return wrap(ops.reshape(node, (*node.shape[:axis], *parts, *node.shape[axis + 1 :])))


@with_synonyms
def squeeze(x: TensorLike, axis: Axes = None) -> Tensor:
    """Without the axes of size 1: all, or those named. With one axis of another size, nothing
    changes.

    Raises:
        ShapeError: if several axes are named and one is not of size 1.

    >>> squeeze([[[1], [2]]]).shape, squeeze([[[1], [2]]], 0).shape
    ((2,), (2, 1))
    """
    node = as_node(x)
    axes = axes_of("squeeze", axis, node.shape)
    if isinstance(axis, tuple | list):
        for each in axes:
            if node.shape[each] != 1:
                raise ShapeError(
                    f"[squeeze] axis {each} of {node.shape} has size {node.shape[each]}, not 1; "
                    "leave it out"
                )
    sizes = [s for i, s in enumerate(node.shape) if not (i in axes and s == 1)]
    return wrap(ops.reshape(node, tuple(sizes)))


@with_synonyms
def expand_dims(x: TensorLike, axis: int | Sequence[int] = 0) -> Tensor:
    """With new axes of size 1 at the positions ``axis`` of the result.

    >>> expand_dims([1, 2], -1).shape
    (2, 1)
    """
    node = as_node(x)
    wanted = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    places = [axis_of("expand_dims", a, node.shape, len(wanted)) for a in wanted]
    if len(set(places)) != len(places):
        raise ShapeError(f"[expand_dims] axes {axis} name a place twice; name each once")
    sizes: list[Size] = list(node.shape)
    for place in sorted(places):
        sizes.insert(place, 1)
    return wrap(ops.reshape(node, tuple(sizes)))


unsqueeze = expand_dims


# -- order of axes ---------------------------------------------------------------------------------
def permute(x: TensorLike, axes: int | Sequence[int], *more: int) -> Tensor:
    """Axis ``i`` of the result is axis ``axes[i]`` of ``x``.

    Raises:
        ShapeError: unless each axis is named once.

    >>> permute([[1, 2, 3]], 1, 0).shape
    (3, 1)
    """
    node = as_node(x)
    order = axes if isinstance(axes, Sequence) else (axes, *more)
    found = [axis_of("permute", a, node.shape) for a in order]
    return wrap(ops.permute(node, found))


permute_dims = permute


def swapaxes(x: TensorLike, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged.

    >>> swapaxes([[1, 2, 3]], 0, 1).shape
    (3, 1)
    """
    node = as_node(x)
    first, second = (axis_of("swapaxes", a, node.shape) for a in (axis1, axis2))
    order = list(range(node.ndim))
    order[first], order[second] = second, first
    return wrap(ops.permute(node, order))


def transpose(x: TensorLike, *axes: int | Sequence[int] | None) -> Tensor:
    """Without axes, all in reverse order; with two integers, these two exchanged (PyTorch's
    meaning); with a sequence or more integers, that order (NumPy's).

    >>> transpose([[[1, 2, 3]]]).shape, transpose([[[1, 2, 3]]], 1, 2).shape
    ((3, 1, 1), (1, 3, 1))
    """
    if not axes or axes == (None,):
        node = as_node(x)
        return wrap(ops.permute(node, tuple(range(node.ndim))[::-1]))
    if len(axes) == 2 and isinstance(axes[0], int) and isinstance(axes[1], int):
        return swapaxes(x, axes[0], axes[1])
    return permute(x, *axes)  # type: ignore[arg-type]


def matrix_transpose(x: TensorLike) -> Tensor:
    """The last two axes exchanged.

    Raises:
        ShapeError: for fewer than two axes.

    >>> matrix_transpose([[1, 2, 3]]).shape
    (3, 1)
    """
    node = as_node(x)
    if node.ndim < 2:
        raise ShapeError(
            f"[matrix_transpose] shape {node.shape} has {node.ndim} axes, and a matrix has two; "
            "add one with x[None]"
        )
    return wrap(ops.permute(node, (*range(node.ndim - 2), node.ndim - 1, node.ndim - 2)))


def moveaxis(
    x: TensorLike, source: int | Sequence[int], destination: int | Sequence[int]
) -> Tensor:
    """Axes ``source`` moved to the places ``destination``; the others keep their order.

    >>> moveaxis([[[1, 2, 3]]], -1, 0).shape
    (3, 1, 1)
    """
    node = as_node(x)
    sources, places = (
        [axis_of("moveaxis", a, node.shape) for a in (v if isinstance(v, Sequence) else (v,))]
        for v in (source, destination)
    )
    if (
        len(sources) != len(places)
        or len(set(sources)) != len(sources)
        or len(set(places)) != len(places)
    ):
        raise ShapeError(
            f"[moveaxis] source {source} and destination {destination} do not pair up; "
            "give as many different places as axes"
        )
    order = [axis for axis in range(node.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return wrap(ops.permute(node, order))


# -- broadcasting ----------------------------------------------------------------------------------
def common_shape(name: str, *shapes: Shape) -> Shape:
    """The shape that ``shapes`` broadcast to.

    Raises:
        ShapeError: if they do not.

    >>> common_shape("add", (2, 1), (3,))
    (2, 3)
    """
    result: list[Size] = []
    for shape in shapes:
        result = [*[1] * (len(shape) - len(result)), *result]
        for axis in range(-len(shape), 0):
            if result[axis] == 1:
                result[axis] = shape[axis]
            elif shape[axis] not in (1, result[axis]):
                raise ShapeError(
                    f"[{name}] shapes {' and '.join(map(str, shapes))} do not broadcast: "
                    f"{result[axis]} ≠ "
                    f"{shape[axis]} at axis {axis}, and neither is 1; reshape one of them"
                )
    return tuple(result)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that ``shapes`` broadcast to.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return common_shape("broadcast_shapes", *map(tuple, shapes))  # type: ignore[return-value]


def broadcast_to(x: TensorLike, shape: Size | Sequence[Size], *sizes: Size) -> Tensor:
    """``x`` repeated to ``shape`` (a sequence, or sizes), at no cost.

    Raises:
        ShapeError: if ``shape`` cannot be reached.

    >>> broadcast_to([1, 2], (3, 2)).shape
    (3, 2)
    """
    return wrap(ops.broadcast_to(as_node(x), shape_of("broadcast_to", shape, *sizes)))


def expand(x: TensorLike, *shape: Size | Sequence[Size]) -> Tensor:
    """:func:`broadcast_to`, where -1 keeps a size.

    >>> expand([[1], [2]], -1, 3).shape
    (2, 3)
    """
    node = as_node(x)
    wanted = list(shape_of("expand", *shape, allow=-1))
    offset = len(wanted) - node.ndim
    for axis, size in enumerate(wanted):
        if size == -1 and axis >= offset >= 0:
            wanted[axis] = node.shape[axis - offset]
    return wrap(ops.broadcast_to(node, shape_of("expand", wanted)))


def broadcast_arrays(*tensors: TensorLike) -> list[Tensor]:
    """All tensors broadcast to their common shape.

    >>> [t.shape for t in broadcast_arrays([1, 2], [[1], [2], [3]])]
    [(3, 2), (3, 2)]
    """
    nodes = [as_node(tensor) for tensor in tensors]
    shape = common_shape("broadcast_arrays", *(node.shape for node in nodes))
    return [wrap(ops.broadcast_to(node, shape)) for node in nodes]


broadcast_tensors = broadcast_arrays


# -- order of elements -----------------------------------------------------------------------------
@deferring
@with_synonyms
def flip(x: TensorLike, axis: Axes = None, *more: int) -> Tensor:
    """The order along ``axis`` (None: every axis) reversed; several may also follow each other.

    >>> flip([[1, 2], [3, 4]], 0).tolist(), flip([[1, 2], [3, 4]], 0, 1).tolist()
    ([[3, 4], [1, 2]], [[4, 3], [2, 1]])
    """
    node = as_node(x)
    wanted: Any = (axis, *more) if more else axis
    return wrap(ops.flip(node, axes_of("flip", wanted, node.shape)))


def flipud(x: TensorLike) -> Tensor:
    """The first axis reversed.

    >>> flipud([1, 2]).tolist()
    [2, 1]
    """
    return flip(x, 0)


def fliplr(x: TensorLike) -> Tensor:
    """The second axis reversed.

    >>> fliplr([[1, 2]]).tolist()
    [[2, 1]]
    """
    return flip(x, 1)


@deferring
@with_synonyms
def roll(x: TensorLike, shift: int | Sequence[int], axis: Axes = None) -> Tensor:
    """Elements moved ``shift`` places along ``axis``; those that leave come back at the other end.

    Without ``axis`` the flattened tensor is rolled.

    >>> roll([1, 2, 3, 4], 1).tolist()
    [4, 1, 2, 3]
    """
    node = as_node(x)
    if axis is None:
        if not isinstance(shift, int):
            raise ShapeError("[roll] several shifts need as many axes; give axis=...")
        flat = _roll_node(ops.reshape(node, (product(node.shape),)), shift, 0)
        return wrap(ops.reshape(flat, node.shape))
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    shifts = shift if isinstance(shift, tuple | list) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(f"[roll] {len(shifts)} shifts for {len(axes)} axes; give one for each")
    for each, by in zip(axes, shifts, strict=True):
        node = _roll_node(node, by, axis_of("roll", each, node.shape))
    return wrap(node)


def _roll_node(node: Node, shift: int, axis: int) -> Node:
    size = node.shape[axis]
    if isinstance(size, Dim) and not at_least(size, abs(shift) + 1, False):
        raise ShapeError(
            f"[roll] axis {axis} has the symbolic size {size}, which may be less than the shift of "
            f"{shift}: leave it out of dynamic=..."
        )
    by = (shift if shift >= 0 else size + shift) if isinstance(size, Dim) else shift % (size or 1)
    if by == 0:
        return node
    starts: list[int | Node] = [0] * node.ndim
    first = size - by
    starts[axis] = as_node(first) if isinstance(first, Dim) else first
    tail = ops.slice(node, starts, (*node.shape[:axis], by, *node.shape[axis + 1 :]))
    head = ops.slice(
        node, [0] * node.ndim, (*node.shape[:axis], size - by, *node.shape[axis + 1 :])
    )
    return ops.concatenate([tail, head], axis)


# -- diagonals -------------------------------------------------------------------------------------
def diagonal_node(node: Node, offset: int, axis1: int, axis2: int) -> Node:
    """The diagonal of two axes as the last axis: a strided slice of the two flattened."""
    rest = [axis for axis in range(node.ndim) if axis not in (axis1, axis2)]
    node = ops.permute(node, (*rest, axis1, axis2))
    rows, columns = (int(size) for size in node.shape[-2:])
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    outer = node.shape[:-2]
    flat = ops.reshape(node, (*outer, rows * columns))
    start = 0 if count == 0 else offset if offset >= 0 else -offset * columns
    starts = [*[0] * len(outer), start]
    return ops.slice(flat, starts, (*outer, count), (*[1] * len(outer), columns + 1))


@deferring
def diagonal(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The elements ``x[i, i + offset]`` of two axes, as the last axis of the result.

    >>> diagonal([[1, 2], [3, 4]]).tolist()
    [1, 4]
    """
    node = as_node(x)
    first, second = (axis_of("diagonal", a, node.shape) for a in (axis1, axis2))
    if first == second:
        raise ShapeError(f"[diagonal] axes {axis1} and {axis2} are the same; a diagonal has two")
    return wrap(diagonal_node(node, offset, first, second))


@deferring
def diag(x: TensorLike, k: int = 0) -> Tensor:
    """The diagonal ``k`` of a matrix, or the matrix whose diagonal ``k`` is a vector.

    >>> diag([1, 2]).tolist()
    [[1, 0], [0, 2]]
    """
    node = as_node(x)
    if node.ndim == 2:
        return wrap(diagonal_node(node, k, 0, 1))
    if node.ndim != 1:
        raise ShapeError(
            f"[diag] shape {node.shape} is neither a vector nor a matrix; use diagonal for more "
            "axes"
        )
    if node.shape[0] == 0:
        return wrap(ops.full(0, (abs(k), abs(k)), node.dtype))
    size = node.shape[0]
    spread = ops.reshape(ops.pad(ops.reshape(node, (size, 1)), (0, 0), (0, size)), (-1,))
    square = ops.reshape(ops.slice(spread, (0,), (size * size,)), (size, size))
    before, after = (max(-k, 0), max(k, 0)), (max(k, 0), max(-k, 0))
    return wrap(ops.pad(square, before, after))


def _triangle(name: str, x: TensorLike, k: int, lower: bool) -> Tensor:
    node = as_node(x)
    if node.ndim < 2:
        raise ShapeError(f"[{name}] shape {node.shape} is no matrix; give at least two axes")
    from lamella.dtypes import int64
    from lamella.tensor.operands import scalar_node

    shape = node.shape[-2:]
    column = ops.iota(shape, 1, int64)
    edge = ops.add(ops.iota(shape, 0, int64), scalar_node(k, int64))
    keep = ops.less_equal(column, edge) if lower else ops.greater_equal(column, edge)
    return wrap(ops.where(keep, node, ops.constant(0, node.dtype)))


@deferring
@with_synonyms
def tril(x: TensorLike, k: int = 0) -> Tensor:
    """The last two axes with 0 above diagonal ``k``.

    >>> tril([[1, 2], [3, 4]]).tolist()
    [[1, 0], [3, 4]]
    """
    return _triangle("tril", x, k, lower=True)


@deferring
@with_synonyms
def triu(x: TensorLike, k: int = 0) -> Tensor:
    """The last two axes with 0 below diagonal ``k``.

    >>> triu([[1, 2], [3, 4]]).tolist()
    [[1, 2], [0, 4]]
    """
    return _triangle("triu", x, k, lower=False)
