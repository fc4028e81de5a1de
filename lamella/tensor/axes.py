"""Axes and shapes as users give them: checked, counted from the front.

Input: an ``axis`` or ``shape`` argument. Output: plain tuples, or an error in the documented form
that names the operation, the axis and the shape.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import cast

from lamella.errors import AxisError, DTypeError, ShapeError
from lamella.ir.dim import Dim, Shape, Size
from lamella.tensor.core import TensorCore
from lamella.tensor.pending import current_trace

__all__ = ["Axes", "axis_of", "axes_of", "kept", "require_elements", "shape_of"]

Axes = int | Sequence[int] | None


def axis_of(name: str, axis: int, shape: Shape, new: int = 0) -> int:
    """``axis`` counted from the front of ``shape`` with ``new`` axes added.

    Raises:
        AxisError: if there is no such axis.

    >>> axis_of("sum", -1, (2, 3))
    1
    """
    ndim = len(shape) + new
    try:
        found = operator.index(axis)
    except TypeError:
        raise DTypeError(
            f"[{name}] axis {axis!r} is not an integer; give an axis from {-ndim} to {ndim - 1}"
        ) from None
    if not -ndim <= found < ndim:
        allowed = f"use {-ndim} to {ndim - 1}" if ndim else "a 0-d tensor has none"
        raise AxisError(
            f"[{name}] axis {found} is out of range for shape {shape}, which has {len(shape)} "
            f"axes; {allowed}"
        )
    return found + ndim if found < 0 else found


def axes_of(name: str, axis: Axes, shape: Shape) -> tuple[int, ...]:
    """The axes of a reduction, in order (None: all).

    Raises:
        ShapeError: for an axis out of range or named twice.

    >>> axes_of("sum", (-1, 0), (2, 3, 4))
    (0, 2)
    """
    if axis is None:
        return tuple(range(len(shape)))
    wanted = axis if isinstance(axis, tuple | list) else (cast(int, axis),)
    found = sorted(axis_of(name, each, shape) for each in wanted)
    if len(set(found)) != len(found):
        raise ShapeError(f"[{name}] axes {axis} name an axis of {shape} twice; name each once")
    return tuple(found)


def kept(shape: Shape, axes: Sequence[int]) -> Shape:
    """``shape`` with size 1 at ``axes``.

    >>> kept((2, 3, 4), (1,))
    (2, 1, 4)
    """
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape))


def _size_of(name: str, size: object, allow: int) -> Size:
    if type(size) is int and size >= allow:
        return size
    if isinstance(size, Dim):
        return size
    try:
        found = int(operator.index(size))  # type: ignore[arg-type]
    except TypeError:
        raise DTypeError(
            f"[{name}] {size!r} is not a size; a shape is made of whole numbers, as in (2, 3)"
        ) from None
    if found < allow:
        raise ShapeError(f"[{name}] size {found} is negative; sizes are 0 or more")
    return found


def require_elements(name: str, shape: Shape, axes: Sequence[int], wanted: str) -> None:
    """Raise if ``axes`` of ``shape`` hold no elements, so that there is no ``wanted``: here, or
    where their sizes are known only then, when a compiled function runs.

    Raises:
        ShapeError: here, for a size of 0.
    """
    sizes = [shape[axis] for axis in axes]
    if 0 in sizes:
        raise ShapeError(
            f"[{name}] shape {shape} over axes {tuple(axes)} has no elements, and so no {wanted}; "
            "use axes that are not empty"
        )
    trace = current_trace()
    if trace is not None and any(isinstance(size, Dim) for size in sizes):
        trace.expect(shape, lambda found: require_elements(name, found, axes, wanted))


def shape_of(name: str, *shape: object, allow: int = 0) -> Shape:
    """A shape given as one sequence or as several sizes; sizes below ``allow`` are refused.

    Raises:
        ShapeError: for a negative size. DTypeError: for something that is no size.

    >>> shape_of("zeros", (2, 3)), shape_of("zeros", 2, 3), shape_of("zeros", 4)
    ((2, 3), (2, 3), (4,))
    """
    sizes: Sequence[object] = shape
    if len(shape) == 1 and (type(shape[0]) is tuple or isinstance(shape[0], Sequence)):
        sizes = shape[0]
    elif len(shape) == 1 and isinstance(shape[0], TensorCore) and shape[0].ndim:
        sizes = list(shape[0])  # type: ignore[call-overload]
    return tuple(_size_of(name, size, allow) for size in sizes)
