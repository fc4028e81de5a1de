"""Values from the host: NumPy arrays, Python numbers and nested lists as nodes that hold a buffer.

Input: anything array-like. Output: a ``DATA`` node. Memory is shared only when asked for and
possible (C-contiguous, aligned, native byte order); otherwise it is copied to memory of our own.
Element types: a NumPy value keeps its own; Python floats become float32, complex numbers
complex64, integers int64, bools bool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import numpy as np

from lamella.dtypes import ALL, DType, as_dtype, complex64, default_float
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.ir.node import Node
from lamella.ops.base import Array
from lamella.ops.leaf import DATA
from lamella.runtime.buffer import empty, from_numpy
from lamella.tensor import pending

__all__ = [
    "NATIVE", "check_depth", "integer_range", "node_from_array", "node_from_data", "python_dtype",
]  # fmt: skip


Number = bool | int | float | complex
NATIVE: Final = {dtype.numpy: dtype for dtype in ALL}  # in the machine's byte order
DEEPEST: Final = 64  # axes that a NumPy array may have
LARGE: Final = 1 << 20  # bytes from which an array counts as memory that pending operations hold


def node_from_array(array: Array, dtype: DType | None = None, copy: bool = True) -> Node:
    """A node with the value of ``array``.

    Args:
        array: of any supported element type, any layout.
        dtype: the node's element type; None keeps the array's.
        copy: False shares the array's memory where its layout allows.

    Raises:
        DTypeError: for an element type that is not supported (object, strings), and for complex
            numbers as a real ``dtype``.
    """
    own = NATIVE.get(array.dtype) or as_dtype(array.dtype.newbyteorder("="))
    wanted = own if dtype is None else dtype
    if own.kind == "c" and wanted.kind not in "cb":
        raise DTypeError(
            f"[tensor] {own.name} numbers as {wanted.name} would lose their imaginary parts; take "
            "the real ones first (array.real), or leave dtype out"
        )
    same = own is wanted and array.dtype.isnative
    if not copy and same and array.flags.c_contiguous and array.flags.aligned:
        buffer = from_numpy(array)
    else:
        buffer = empty(array.size * wanted.itemsize)
        with np.errstate(over="ignore", invalid="ignore"):
            buffer.numpy(array.shape, wanted.numpy, writable=True)[...] = array
    node = Node(DATA, (), array.shape, wanted)
    node.value = buffer
    if buffer.nbytes > LARGE:
        pending.hold(buffer.nbytes)
    return node


def python_dtype(leaf: object) -> DType:
    """The element type of a Python number.

    >>> python_dtype(True), python_dtype(1), python_dtype(1.5)
    (lamella.bool, lamella.int64, lamella.float32)
    """
    if isinstance(leaf, float):
        return default_float()
    return complex64 if isinstance(leaf, complex) else as_dtype(leaf.__class__)


def integer_range(dtype: DType) -> tuple[int, int]:
    """The least and the largest number of an integer element type.

    >>> from lamella.dtypes import int8
    >>> integer_range(int8)
    (-128, 127)
    """
    if dtype.kind == "u":
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def check_depth(depth: int) -> None:
    """Raise if sequences are nested ``depth`` deep and a tensor cannot have as many axes.

    Raises:
        ShapeError: beyond 64, as many axes as a NumPy array may have.
    """
    if depth > DEEPEST:
        raise ShapeError(
            f"[tensor] sequences nested more than {DEEPEST} deep, or one that holds itself; a "
            f"tensor has at most {DEEPEST} axes: give a flatter list"
        )


def _check_nested(data: object, path: str = "", depth: int = 0) -> tuple[int, ...]:
    """The shape of nested sequences of numbers.

    Raises:
        ShapeError: if the sequences are ragged or too deep. DTypeError: if something in them is no
            number.
    """
    if isinstance(data, Number | np.generic):
        return ()
    if isinstance(data, np.ndarray) or hasattr(data, "__array__"):
        return tuple(np.shape(cast(Any, data)))
    if not isinstance(data, Sequence) or isinstance(data, str | bytes):
        raise DTypeError(
            f"[tensor] {type(data).__name__} {data!r:.40} at data{path} is not a number; a tensor "
            "is made "
            "of bools, integers, floats and complex numbers: give those, or an array of them"
        )
    check_depth(depth + 1)
    shapes = [_check_nested(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(data)]
    for position, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ShapeError(
                f"[tensor] data{path}[0] has shape {shapes[0]} and data{path}[{position}] has "
                f"shape {shape}; "
                "a tensor has no ragged rows: pad them to one length"
            )
    return (len(data), *(shapes[0] if shapes else ()))


def _first_leaf(data: object) -> object:
    depth = 0
    while isinstance(data, Sequence) and not isinstance(data, str | bytes) and len(data):
        check_depth(depth := depth + 1)
        data = data[0]
    return data


def _leaves(data: object) -> Iterator[object]:
    """What nested sequences are made of, in order."""
    if isinstance(data, Sequence):
        for item in data:
            yield from _leaves(item)
    else:
        yield data


def _is_whole(leaf: object) -> bool:
    """Whether a number is an integer or a bool, or an array is of them."""
    kind: str = np.asarray(leaf).dtype.kind if hasattr(leaf, "__array__") else ""
    return kind in "biu" if kind else isinstance(leaf, int)


def _with_large(data: object, dtype: DType | None) -> Array:
    """Numbers of which an integer is beyond 64 bits: floats, where ``dtype`` or another number is.

    Raises:
        DTypeError: if nothing says that they are floats, or one is beyond those too.
    """
    inexact = [leaf for leaf in _leaves(data) if not _is_whole(leaf)]
    if dtype is not None and dtype.inexact:
        inexact.append(np.zeros((), np.complex128 if dtype.kind == "c" else np.float64))
    if not inexact:
        raise DTypeError(
            "[tensor] an integer of more than 64 bits fits no element type; make it a float"
        )
    kinds = {np.asarray(leaf).dtype.kind for leaf in inexact}
    kind = np.complex128 if "c" in kinds else np.float64
    try:
        return np.asarray(data, kind)
    except OverflowError:
        raise DTypeError(
            "[tensor] an integer is larger than any floating-point number; use a smaller one, or "
            "float('inf')"
        ) from None


def _whole_numbers(data: object) -> Array:
    """Integers of which NumPy would make floats, since none of int64 and uint64 holds both types.

    Raises:
        DTypeError: if some are negative and others beyond int64.
    """
    found = np.asarray(data, object)
    low, high = int(min(found.flat)), int(max(found.flat))
    if low < 0 and high > np.iinfo(np.int64).max:
        raise DTypeError(
            f"[tensor] integers from {low} to {high} fit no element type: int64 ends at 2**63 - 1 "
            "and uint64 begins at 0; make one of them a float"
        )
    return found.astype(np.int64 if low < 0 else np.uint64)


def _python_array(data: object, dtype: DType | None) -> tuple[Array, DType]:
    """Nested Python numbers as an array, and the element type of the tensor they make."""
    first = _first_leaf(data)
    if isinstance(first, list | tuple | range):  # an empty one
        return np.zeros(_check_nested(data), np.float32), dtype or default_float()
    try:
        array = np.asarray(data)
    except (ValueError, OverflowError):
        _check_nested(data)
        raise DTypeError(
            "[tensor] the numbers do not fit one element type; give smaller ones, or an array with "
            "a dtype"
        ) from None
    if array.dtype.kind not in "biufc":
        _check_nested(data)
        array = _with_large(data, dtype)
    elif array.dtype.kind == "f" and _is_whole(first) and all(map(_is_whole, _leaves(data))):
        array = _whole_numbers(data) if dtype is None or not dtype.inexact else array
    if dtype is None:
        own = isinstance(first, np.generic | np.ndarray)
        weak = {"f": default_float(), "c": complex64}
        dtype = as_dtype(array.dtype) if own else weak.get(array.dtype.kind, as_dtype(array.dtype))
    return array, dtype


def _check_range(array: Array, dtype: DType) -> None:
    """Raise unless integers fit an integer element type."""
    if dtype.kind not in "iu" or array.dtype.kind not in "iu" or not array.size:
        return
    least, most = integer_range(dtype)
    low, high = int(array.min()), int(array.max())
    if low < least or high > most:
        raise OptionError(
            f"[tensor] {low if low < least else high} does not fit {dtype.name}, whose range "
            "is "
            f"{least} to {most}; choose a wider dtype"
        )


def node_from_data(data: object, dtype: DType | None = None, copy: bool = True) -> Node:
    """A node with the value of an array, a number or nested sequences of numbers.

    Raises:
        ShapeError: for ragged sequences. DTypeError: for anything that is not a number.
        OptionError: for an integer that ``dtype`` cannot hold.

    >>> node_from_data([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if isinstance(data, np.ndarray | np.generic):
        return node_from_array(np.asarray(data), dtype, copy)
    if hasattr(data, "__array__") and not isinstance(data, Sequence):
        return node_from_array(np.asarray(cast(Any, data)), dtype, copy)
    if not isinstance(data, Sequence | Number) or isinstance(data, str | bytes):
        _check_nested(data)
    array, found = _python_array(data, dtype)
    _check_range(array, found)
    return node_from_array(array, found)
