"""From what a user passes to nodes: promotion, Python scalars as run-time arguments, fast
recording.

Input: tensors, arrays, lists, Python numbers. Output: nodes of one element type, or a recorded
tensor. Python scalars are weak (array-API): they take the tensor's type when it can hold their
kind; NumPy scalars count as Python ones. A Python scalar becomes a ``SCALAR`` leaf, so that a
program serves all its values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Union

import numpy as np

from lamella import dtypes, ops
from lamella.dtypes import DType, as_dtype, bool_, default_float, float64, promote, promote_scalar
from lamella.errors import DTypeError, OptionError
from lamella.graph import names as naming
from lamella.ir.dim import Dim, Size
from lamella.ir.node import Node, gradient_mode
from lamella.ops.base import PRIMITIVES, Primitive
from lamella.ops.leaf import SCALAR
from lamella.tensor.core import TensorCore, node_of, record, wrap
from lamella.tensor.host import integer_range, node_from_data, python_dtype
from lamella.tensor.pending import traces
from lamella.tensor.symbolic import is_symbolic, symbolic_node

if TYPE_CHECKING:
    import numpy.typing as npt

    from lamella.tensor.tensor import Tensor

__all__ = [
    "TensorLike", "arithmetic", "as_float", "as_node", "cast", "compare", "compared", "count_node",
    "new_tensor", "pair", "primitive", "scalar_node", "unary",
]  # fmt: skip

Scalar = bool | int | float | complex
TensorLike = Union[TensorCore, "npt.NDArray[Any]", Scalar, Dim, Sequence[Any]]
Builder = Callable[..., Node]

_new: Final = object.__new__
_LIMITS: Final = {d: integer_range(d) for d in dtypes.INTEGERS}
_OF_BOOLS: Final[dict[str, Builder]] = {
    "add": ops.bitwise_or, "maximum": ops.bitwise_or,
    "multiply": ops.bitwise_and, "minimum": ops.bitwise_and,
}  # fmt: skip


def primitive(name: str) -> Primitive:
    """The instance of a primitive without fields, for recording it without its builder's checks."""
    return PRIMITIVES[name]()


def scalar_node(value: Scalar, dtype: DType, name: str = "scalar") -> Node:
    """A Python number as a run-time argument of type ``dtype`` (two, if it is complex).

    Raises:
        OptionError: for an integer outside the range of an integer ``dtype``, infinity or NaN for
            one, or an integer too large for any float.
        DTypeError: for a complex number and a real ``dtype``.
    """
    kind = dtype.kind
    if kind == "c":
        part = dtype.part
        return ops.complex(*(scalar_node(half, part, name) for half in (value.real, value.imag)))
    if isinstance(value, complex):
        raise DTypeError(
            f"[{name}] the complex number {value} does not fit {dtype.name}; cast the tensor with "
            ".astype(lm.complex64), or use value.real"
        )
    if kind == "f":
        if is_symbolic(value):
            return symbolic_node(value, dtype)
        value = value if type(value) is float else _as_float(value, name)
    elif kind == "b":
        value = bool(value)
    else:
        low, high = _LIMITS[dtype]
        value = _as_whole(value, dtype, name)
        if not low <= value <= high:
            raise OptionError(
                f"[{name}] {value} does not fit {dtype.name}, whose range is {low} to {high}; "
                "cast the tensor to a wider type with .astype(...)"
            )
        if is_symbolic(value):
            return symbolic_node(value, dtype)
    node = Node(SCALAR, (), (), dtype)
    node.value = value
    return node


def _float_node(value: float, dtype: DType) -> Node:
    """A Python float as a run-time argument of a floating-point type."""
    node = _new(Node)
    node.op = SCALAR
    node.inputs = node.shape = ()
    node.dtype = dtype
    node.tracked = False
    node.value = value
    node.site = None
    return node


def _as_float(value: float, name: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise OptionError(
            f"[{name}] an integer of {int(value).bit_length()} bits is larger than any "
            "floating-point number; use a smaller one, or float('inf')"
        ) from None


def _as_whole(value: float, dtype: DType, name: str) -> int:
    try:
        return math.trunc(value)
    except (OverflowError, ValueError):
        raise OptionError(
            f"[{name}] {value} is no {dtype.name}, which holds whole numbers only; use a "
            "floating-point tensor, or another number"
        ) from None


def as_node(x: TensorLike, dtype: DType | None = None) -> Node:
    """The node of an operand; arrays and lists are copied, so that changing them later changes
    nothing.

    Args:
        x: a tensor or anything :func:`lamella.tensor` takes.
        dtype: what to cast it to; None keeps its own type.
    """
    if isinstance(x, TensorCore):
        node = node_of(x)
    elif isinstance(x, Scalar):
        return scalar_node(x, dtype or python_dtype(x))
    elif isinstance(x, np.generic):
        return scalar_node(x.item(), dtype or as_dtype(x.dtype))
    elif isinstance(x, Dim):
        return scalar_node(x.number(), dtype or python_dtype(0))
    else:
        node = node_from_data(x)
    return node if dtype is None or node.dtype is dtype else ops.cast(node, dtype)


def new_tensor(x: TensorLike) -> Tensor:
    """A new tensor of the value of ``x``."""
    return wrap(as_node(x))


def cast(node: Node, dtype: DType) -> Node:
    """``node`` as ``dtype``."""
    return node if node.dtype is dtype else ops.cast(node, dtype)


def as_float(node: Node) -> Node:
    """``node`` as a floating-point or complex type: its own, or the default."""
    return node if node.dtype.inexact else ops.cast(node, default_float())


def _number(x: object) -> Scalar | None:
    """``x`` as a Python scalar when it is one (or a NumPy one), else None."""
    if isinstance(x, Scalar):
        return x.item() if isinstance(x, np.generic) else x
    if isinstance(x, Dim):
        return x.number()  # type: ignore[no-any-return]
    if isinstance(x, np.generic):
        value = x.item()
        return value if isinstance(value, Scalar) else None
    return None


def aligned(x: TensorLike, y: TensorLike) -> tuple[TensorLike, TensorLike]:
    """Operands that broadcast by name: where all axes of both have names and one's are among the
    other's, it gets their order, with size 1 for those it lacks.
    """
    if not isinstance(x, TensorCore) or not isinstance(y, TensorCore):
        return x, y
    a, b = naming.names_of(node_of(x)), naming.names_of(node_of(y))
    if a == b or not a or not b or None in a or None in b:
        return x, y
    if set(b) <= set(a):
        return x, wrap(spread(node_of(y), b, a))
    return (wrap(spread(node_of(x), a, b)), y) if set(a) <= set(b) else (x, y)


def spread(node: Node, names: naming.Names, wanted: naming.Names) -> Node:
    """``node`` with its axes in the order of ``wanted``, size 1 for names it lacks."""
    order = [names.index(name) for name in wanted if name in names]
    moved = ops.permute(node, tuple(order))
    sizes = iter(moved.shape)
    shape = tuple(next(sizes) if name in names else 1 for name in wanted)
    return ops.named(ops.reshape(moved, shape), wanted)


def pair(name: str, x: TensorLike, y: TensorLike) -> tuple[Node, Node]:
    """Both operands as nodes of the promoted element type; shapes are left alone.

    Raises:
        DTypeError: for types without a common one.
    """
    left, right = _number(x), _number(y)
    if left is not None and right is not None:
        dtype = promote(python_dtype(left), python_dtype(right))
        return scalar_node(left, dtype, name), scalar_node(right, dtype, name)
    if right is not None:
        a = as_node(x)
        dtype = promote_scalar(a.dtype, right)
        return cast(a, dtype), scalar_node(right, dtype, name)
    if left is not None:
        b = as_node(y)
        dtype = promote_scalar(b.dtype, left)
        return scalar_node(left, dtype, name), cast(b, dtype)
    a, b = as_node(x), as_node(y)
    if a.dtype is not b.dtype:
        dtype = promote(a.dtype, b.dtype)
        a, b = cast(a, dtype), cast(b, dtype)
    return a, b


def fitted(name: str, x: TensorLike, y: TensorLike) -> tuple[Node, Node]:
    """As :func:`pair`, for operands that meet elementwise: named axes are aligned."""
    return pair(name, *aligned(x, y)) if naming.state.active else pair(name, x, y)


def unary(op: Primitive, builder: Builder, x: TensorLike) -> Tensor:
    """Record a floating-point function of one operand; integers are cast to the default float
    first.
    """
    if not traces and isinstance(x, TensorCore):
        source = x.node
        if source.dtype.kind == "f":
            tracked = source.tracked and gradient_mode.enabled
            return record(op, (source,), source.shape, source.dtype, tracked)
    return wrap(builder(as_float(as_node(x))))


def arithmetic(op: Primitive, builder: Builder, x: TensorLike, y: TensorLike) -> Tensor:
    """Record arithmetic on two operands; the fast path is equal shapes and types, or a Python
    number.

    Of bools, sums and products are logical or and and, as in NumPy.
    """
    if naming.state.active:
        x, y = aligned(x, y)
    if not traces and isinstance(x, TensorCore):
        a = x.node
        dtype = a.dtype
        if isinstance(y, TensorCore):
            b = y.node
            if b.dtype is dtype and a.shape == b.shape and dtype.kind not in "bc":
                tracked = a.tracked or b.tracked
                tracked = tracked and gradient_mode.enabled and dtype.kind == "f"
                return record(op, (a, b), a.shape, dtype, tracked)
        elif dtype.kind == "f" and (type(y) is float or type(y) is int):
            b = _float_node(y if type(y) is float else _as_float(y, op.name), dtype)
            return record(op, (a, b), a.shape, dtype, a.tracked and gradient_mode.enabled)
        elif type(y) is int and dtype in _LIMITS:
            return record(op, (a, scalar_node(y, dtype, op.name)), a.shape, dtype)
    a, b = pair(op.name, x, y)
    if a.dtype is bool_ and op.name in _OF_BOOLS:
        builder = _OF_BOOLS[op.name]
    return wrap(builder(a, b))


def compare(op: Primitive, builder: Builder, x: TensorLike, y: TensorLike) -> Tensor:
    """Record a comparison of two operands; the result is bool."""
    if naming.state.active:
        x, y = aligned(x, y)
    if not traces and isinstance(x, TensorCore):
        a = x.node
        if isinstance(y, TensorCore):
            b = y.node
            if b.dtype is a.dtype and a.shape == b.shape and a.dtype.kind != "c":
                return record(op, (a, b), a.shape, bool_)
        elif a.dtype.kind == "f" and (type(y) is float or type(y) is int):
            b = _float_node(y if type(y) is float else _as_float(y, op.name), a.dtype)
            return record(op, (a, b), a.shape, bool_)
    return compared(op.name, builder, x, y)


def compared(name: str, builder: Builder, x: TensorLike, y: TensorLike) -> Tensor:
    """As :func:`compare`, of a comparison that is no primitive."""
    known = _beyond(name, x, y)
    return wrap(builder(*fitted(name, x, y))) if known is None else known


def _beyond(name: str, x: TensorLike, y: TensorLike) -> Tensor | None:
    """The comparison of integers with a Python one that their type cannot hold, which is known."""
    left, right = _number(x), _number(y)
    if (left is None) == (right is None):
        return None
    value = left if right is None else right
    node = as_node(y if right is None else x)
    if value.__class__ is not int or node.dtype not in _LIMITS:
        return None
    low, high = _LIMITS[node.dtype]
    if low <= value <= high:
        return None
    if name in ("equal", "not_equal"):
        truth = name == "not_equal"
    else:
        truth = name.startswith("less") == ((value > high) == (right is not None))
    return wrap(ops.full(truth, node.shape, bool_))


def count_node(sizes: Sequence[Size], dtype: DType) -> Node:
    """The product of sizes as a 0-d node: a run-time argument, or a computed count for symbolic
    sizes.
    """
    total: int = 1
    symbolic: list[Size] = []
    for size in sizes:
        if isinstance(size, Dim):
            symbolic.append(size)
        else:
            total *= size
    node = scalar_node(total, dtype)
    if symbolic:
        exact = float64 if dtype.inexact else dtype
        ones = ops.full(1, tuple(symbolic), exact)
        counted = ops.reduce_sum(ones, tuple(range(len(symbolic))))
        node = ops.multiply(node, cast(counted, dtype))
    return node
