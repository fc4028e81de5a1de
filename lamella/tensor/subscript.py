"""Subscripts: what ``x[...]`` names, worked out once for reading and assigning.

Input: a subscript (ints, slices, None, Ellipsis, integer and boolean arrays, in any mixture) and a
shape.
Output: a :class:`Subscript`: a region (a start, size and stride per axis), the axes that index
arrays choose from, and the shape of the result, all as in NumPy.

Integers and explicit slice starts become run-time arguments, so that ``x[i]`` in a loop compiles
once. What is known when recording is checked when recording: integers, host arrays, masks' shapes.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from lamella.dtypes import bool_, int64
from lamella.errors import DTypeError, LamellaIndexError, ShapeError
from lamella.ir.dim import Dim, Shape, Size, ceildiv
from lamella.ir.node import Node
from lamella.ops.base import Array
from lamella.ops.leaf import SCALAR
from lamella.tensor.core import TensorCore, node_of, value_of
from lamella.tensor.host import node_from_array
from lamella.tensor.manipulation import common_shape
from lamella.tensor.symbolic import is_symbolic, symbolic_node

__all__ = ["Regions", "Subscript", "entries_of", "is_single_mask", "parse", "regions"]

Start = Node | int
Region = tuple[Start, Size, int]


@dataclass(slots=True)
class Subscript:
    """A subscript applied to a shape.

    The region has one entry per axis of the tensor. ``shape`` is the region's, reshaped: integers
    dropped, new axes put in, the axes of index arrays whole; ``axes`` are the places of those in
    it. ``front`` is the place of the broadcast axes of the index arrays in the result.
    """

    starts: list[Start] = field(default_factory=list)
    sizes: list[Size] = field(default_factory=list)
    strides: list[int] = field(default_factory=list)
    flips: list[int] = field(default_factory=list)  # axes reversed before the region is taken …
    back: list[int] = field(default_factory=list)  # … and reversed again after it
    shape: list[Size] = field(default_factory=list)
    axes: list[int] = field(default_factory=list)
    arrays: list[Node] = field(default_factory=list)
    checked: list[bool] = field(
        default_factory=list
    )  # whether to check the array when it is computed
    front: int = 0

    def result_shape(self) -> Shape:
        """The shape of ``x[subscript]``."""
        if not self.arrays:
            return tuple(self.shape)
        inner = common_shape("index", *(array.shape for array in self.arrays))
        rest = [size for axis, size in enumerate(self.shape) if axis not in self.axes]
        return (*rest[: self.front], *inner, *rest[self.front :])


def _start(value: Size) -> Node:
    if type(value) is Dim:
        value = value.number()
    if is_symbolic(value):
        return symbolic_node(value, int64)
    node = Node(SCALAR, (), (), int64)
    node.value = value
    return node


# -- one entry -------------------------------------------------------------------------------------
def _integer(i: int, axis: int, shape: Shape, found: Subscript) -> Region:
    size = shape[axis]
    if isinstance(size, Dim):
        if i < 0:  # the last ones are the first ones from behind
            found.flips.append(axis)
            i = -1 - i
        if is_symbolic(i) and not i < size.number():
            raise LamellaIndexError(f"[index] index {i} is out of range for axis {axis} of {shape}")
        return _start(i), 1, 1
    if not -size <= i < size:
        allowed = f"use {-size} to {size - 1}" if size else "the axis is empty"
        raise LamellaIndexError(
            f"[index] index {i} is out of range for axis {axis} of shape {shape}; {allowed}"
        )
    return _start(i + size if i < 0 else i), 1, 1


def _bound(value: object) -> int | None:
    if value is None:
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise DTypeError(
            f"[index] slice bound {value!r} is no integer; use integers, or 0-d integer tensors"
        ) from None


def _sliced(entry: slice, axis: int, shape: Shape, found: Subscript) -> Region:
    size = shape[axis]
    if type(entry.start) is Dim or type(entry.stop) is Dim:
        return _sliced_by_sizes(entry, axis, size)
    moving = _moving(entry, size) if is_symbolic(entry.start) else None
    if moving is not None:
        return moving
    start, stop, step = _bound(entry.start), _bound(entry.stop), _bound(entry.step)
    if step == 0:
        raise LamellaIndexError("[index] a slice step of 0 goes nowhere; use a step other than 0")
    if isinstance(size, Dim):
        return _sliced_symbolic(start, stop, step or 1, axis, size, found)
    places = range(*slice(start, stop, step).indices(size))
    if len(places) == 0:
        return 0, 0, 1
    return places.start if start is None else _start(places.start), len(places), places.step


def _sliced_by_sizes(entry: slice, axis: int, size: Size) -> Region:
    """A slice with bounds of sizes known only at run time, which lie within the axis."""
    first = 0 if entry.start is None else entry.start
    last = size if entry.stop is None else entry.stop
    if entry.step not in (None, 1) or not 0 <= first <= last <= size:
        raise ShapeError(
            f"[index] slice {entry.start}:{entry.stop}:{entry.step} of axis {axis} of size {size}, "
            "which are known only when the program runs; use bounds within the axis, or leave "
            "these axes out of dynamic=..."
        )
    return 0 if entry.start is None else _start(first), last - first, 1


def _moving(entry: slice, size: Size) -> Region | None:
    """A slice of one length wherever it starts, which another call may say; None for others."""
    first, last = entry.start, size if entry.stop is None else entry.stop
    if entry.step is not None or not isinstance(last, int) or not isinstance(size, int):
        return None
    if not (first >= 0 and first < last and last <= size):
        return None
    return _start(first), operator.index(last - first), 1


def _sliced_symbolic(
    start: int | None, stop: int | None, step: int, axis: int, size: Dim, found: Subscript
) -> Region:
    """A slice of an axis whose size is known only at run time, and assumed to be long enough."""
    if step < 0 and start is None and stop is None:
        found.flips.append(axis)
        return 0, ceildiv(size, -step), -step
    if step > 0 and start is not None and start < 0 and stop is None:
        found.flips.append(axis)
        found.back.append(axis)
        if step == 1:
            return 0, -start, 1
    elif step > 0 and (start is None or start >= 0):
        first = start or 0
        last = size if stop is None else size + stop if stop < 0 else stop
        length = ceildiv(last - first, step)
        if not isinstance(length, int) or length >= 0:
            return 0 if start is None else _start(first), length, step
    raise ShapeError(
        f"[index] slice {start}:{stop}:{step} of axis {axis}, whose size {size} is known only when "
        "the program "
        "runs; use bounds counted from one end, or leave the axis out of dynamic=..."
    )


def _host_index(array: Array, axis: int, shape: Shape) -> tuple[Node, bool]:
    """An integer array from the host, checked and counted from the front here."""
    size = shape[axis]
    found = array.astype(np.int64)
    if isinstance(size, Dim):
        return node_from_array(found), True
    bad = (found < -size) | (found >= size)
    if bad.any():
        raise LamellaIndexError(
            f"[index] index {found[bad].flat[0]} is out of range for axis {axis} of shape {shape}; "
            f"use {-size} to {size - 1}"
        )
    return node_from_array(np.where(found < 0, found + size, found), copy=False), False


# -- normalising -----------------------------------------------------------------------------------
def _classify(entry: Any) -> Any:
    """An entry as int, slice, None, Ellipsis, Array (integers or bools) or integer Tensor."""
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return entry
    if isinstance(entry, bool | np.bool_):
        return np.asarray(entry)
    if type(entry) is Dim:
        return entry.number()
    if isinstance(entry, int | np.integer):
        return entry if is_symbolic(entry) else int(entry)
    if isinstance(entry, TensorCore):
        node = node_of(entry)
        if node.dtype is bool_:
            return value_of(entry, "index by a boolean mask")
        if node.dtype.is_integer:
            return entry
        raise DTypeError(
            f"[index] a {node.dtype.name} tensor is no index; cast it to int64, or compare it to "
            "make a mask"
        )
    array = np.asarray(entry)
    if array.size == 0 and not isinstance(entry, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "biu":
        raise DTypeError(
            f"[index] {type(entry).__name__} {entry!s:.40} is no index; use integers, slices, "
            "None, ..., "
            "integer arrays or boolean masks"
        )
    return int(array) if array.ndim == 0 and array.dtype.kind != "b" else array


def _is_mask(entry: object) -> bool:
    return isinstance(entry, np.ndarray) and entry.dtype.kind == "b"


def _axes_taken(entry: Any) -> int:
    if entry is None or entry is Ellipsis:
        return 0
    return entry.ndim if _is_mask(entry) else 1


def _complete(entries: list[Any], shape: Shape) -> list[Any]:
    """Entries with whole slices for the axes not named; an ellipsis stays in front of its slices.

    It stays because it stands between index arrays even where it covers no axis.
    """
    dots = [i for i, entry in enumerate(entries) if entry is Ellipsis]
    taken = sum(_axes_taken(entry) for entry in entries)
    if len(dots) > 1:
        raise LamellaIndexError(
            "[index] more than one ellipsis (...); its place is ambiguous: use one"
        )
    if taken > len(shape):
        raise LamellaIndexError(
            f"[index] {taken} indices for shape {shape}, which has {len(shape)} axes; use at most "
            "that many"
        )
    place = dots[0] + 1 if dots else len(entries)
    return [*entries[:place], *[slice(None)] * (len(shape) - taken), *entries[place:]]


def _mask_arrays(mask: Array, axis: int, shape: Shape) -> list[Array]:
    """The positions where a mask over axes from ``axis`` on is true, one array an axis."""
    for offset, size in enumerate(mask.shape):
        if shape[axis + offset] != size and size != 0:  # a mask without elements chooses nothing
            raise LamellaIndexError(
                f"[index] a mask of shape {mask.shape} at axis {axis} of shape {shape}: {size} ≠ "
                f"{shape[axis + offset]}; a mask has the sizes of the axes it covers"
            )
    return list(mask.nonzero())


def is_single_mask(subscript: object, shape: Shape) -> bool:
    """Whether a subscript is one mask over the leading axes, of fitting shape (not looked into)."""
    if isinstance(subscript, tuple):
        if len(subscript) != 1:
            return False
        subscript = subscript[0]
    if isinstance(subscript, TensorCore):
        mask_shape: Shape = subscript.shape
        return (
            subscript.dtype is bool_
            and len(mask_shape) > 0
            and shape[: len(mask_shape)] == mask_shape
        )
    if isinstance(subscript, np.ndarray) and subscript.dtype == np.bool_ and subscript.ndim:
        return bool(shape[: subscript.ndim] == subscript.shape)
    return False


# -- the whole -------------------------------------------------------------------------------------
def parse(subscript: object, shape: Shape) -> Subscript:
    """A subscript of a tensor of ``shape``.

    Raises:
        LamellaIndexError: for integers out of range, too many indices, masks that do not fit.
        DTypeError: for something that is no index. ShapeError: for index arrays that do not
            broadcast.

    >>> parse((slice(None), 1), (4, 3)).result_shape()
    (4,)
    """
    found = Subscript()
    # per entry: "a" array, "i" integer, "s" slice, "n" new axis, "." ellipsis
    marks: list[str] = []
    axis = 0
    for entry, _ in entries_of(subscript, shape):
        axis = _add(entry, axis, shape, found, marks)
    _place_front(found, marks)
    return found


def entries_of(subscript: object, shape: Shape) -> list[tuple[Any, int]]:
    """What a subscript says of each axis, and how many axes that takes: an int, a slice, None, an
    ellipsis, an integer tensor or array, a mask.

    >>> entries_of((..., 1), (4, 3))
    [(Ellipsis, 0), (slice(None, None, None), 1), (1, 1)]
    """
    entries = list(subscript) if isinstance(subscript, tuple) else [subscript]
    entries = _complete([_classify(entry) for entry in entries], shape)
    return [(entry, _axes_taken(entry)) for entry in entries]


def _add(entry: Any, axis: int, shape: Shape, found: Subscript, marks: list[str]) -> int:
    """Add one entry at ``axis``; the next entry's axis."""
    if entry is Ellipsis:
        marks.append(".")
        return axis
    if entry is None:
        found.shape.append(1)
        marks.append("n")
        return axis
    if isinstance(entry, int | slice):
        one = isinstance(entry, int)
        region = (_integer if one else _sliced)(entry, axis, shape, found)  # type: ignore[arg-type]
        _add_region(found, region)
        if not one:
            found.shape.append(region[1])
        marks.append("i" if one else "s")
        return axis + 1
    marks.append("a")
    if isinstance(entry, TensorCore):
        _add_array(found, entry.node, True, shape[axis])
        return axis + 1
    if _is_mask(entry) and entry.ndim == 0:  # x[True]: a new axis of size 1, x[False] one of size 0
        found.axes.append(len(found.shape))
        found.shape.append(1)
        found.arrays.append(node_from_array(np.zeros(int(entry), np.int64)))
        found.checked.append(False)
        return axis
    arrays = _mask_arrays(entry, axis, shape) if _is_mask(entry) else [entry]
    for array in arrays:
        _add_array(found, *_host_index(array, axis, shape), shape[axis])
        axis += 1
    return axis


def _add_region(found: Subscript, region: Region) -> None:
    found.starts.append(region[0])
    found.sizes.append(region[1])
    found.strides.append(region[2])


def _add_array(found: Subscript, array: Node, checked: bool, size: Size) -> None:
    _add_region(found, (0, size, 1))
    found.axes.append(len(found.shape))
    found.shape.append(size)
    found.arrays.append(array)
    found.checked.append(checked)


def _place_front(found: Subscript, marks: Sequence[str]) -> None:
    """Where the arrays' axes go: in their place if they (and integers) stand together, else in
    front.
    """
    if not found.arrays:
        return
    if len(found.arrays) > 1:
        common_shape("index", *(array.shape for array in found.arrays))
    advanced = [i for i, mark in enumerate(marks) if mark in "ai"]
    if advanced[-1] - advanced[0] + 1 == len(advanced):
        found.front = sum(mark in "sn" for mark in marks[: advanced[0]])


_BOUNDS: Final = frozenset({int, type(None)})


@dataclass(slots=True)
class Regions:
    """What is the same in all subscripts of a form, its ``pattern``, and what differs: the starts
    that :func:`parse` makes arguments, and tensors of indices, each in order.
    """

    pattern: list[object] = field(default_factory=list)
    starts: list[Node] = field(default_factory=list)
    arrays: list[TensorCore] = field(default_factory=list)

    def parse(self, entries: tuple[Any, ...], shape: Shape, nodes: Sequence[Node],
              starts: Sequence[Node]) -> Subscript:  # fmt: skip
        """The subscript with these ``nodes`` of the arrays, and these starts."""
        found = parse(entries, shape)
        left = iter(starts)
        found.starts = [next(left) if isinstance(s, Node) else s for s in found.starts]
        found.arrays = [*nodes]
        return found


def regions(entries: Sequence[Any], shape: Shape) -> Regions | None:
    """The form of a subscript of integers, slices and tensors of integers; None for any other
    entry, and where an integer or a slice makes parsing raise.

    >>> regions((1, slice(2, None)), (4, 3)).pattern
    [1, (True, 1, 1)]
    """
    found = Regions()
    pattern, starts = found.pattern, found.starts
    axis = 0
    for entry in entries:
        if entry is None:
            pattern.append(None)
            continue
        if entry is Ellipsis:
            pattern.append(entry)
            if pattern.count(entry) > 1:
                return None
            axis += len(shape) - sum(e is not None and e is not Ellipsis for e in entries)
            continue
        size = shape[axis] if 0 <= axis < len(shape) else None
        if type(size) is not int:
            return None
        axis += 1
        if type(entry) is int and -size <= entry < size:
            pattern.append(1)
            starts.append(_start(entry + size if entry < 0 else entry))
        elif type(entry) is slice:
            start, step = entry.start, entry.step
            if not _BOUNDS.issuperset((type(start), type(entry.stop), type(step))) or step == 0:
                return None
            places = range(*entry.indices(size))
            given = start is not None and len(places) > 0
            pattern.append((given, len(places), places.step))
            if given:
                starts.append(_start(places.start))
        elif isinstance(entry, TensorCore) and entry.node.dtype.is_integer:
            pattern.append("indices")
            found.arrays.append(entry)
        else:
            return None
    return found
