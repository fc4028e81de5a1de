"""Comparison, logic, bits, rounding, conversion and choice, applied at every element.

Operands are tensors or anything :func:`lamella.asarray` takes; shapes broadcast as in NumPy and
element types promote as in the array-API standard. Comparisons and logic give bool. Errors:
ShapeError when shapes do not broadcast, DTypeError when an element type does not fit the function.
"""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Final, overload

from lamella import ops
from lamella.dtypes import as_dtype, bool_, finfo, int64
from lamella.errors import DTypeError, OptionError
from lamella.graph import names as naming
from lamella.ir.node import Node
from lamella.ops.base import Primitive
from lamella.tensor.core import TensorCore, check_device, wrap
from lamella.tensor.deferring import deferring
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import (
    Builder,
    TensorLike,
    as_float,
    as_node,
    cast,
    compare,
    compared,
    fitted,
    primitive,
    scalar_node,
)  # fmt: skip
from lamella.tensor.pending import traces

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "astype", "bitcast", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_not",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "equal", "floor", "greater",
    "greater_equal", "isclose", "isfinite", "isinf", "isnan", "less", "less_equal", "logical_and",
    "logical_not", "logical_or", "logical_xor", "nan_to_num", "not_equal", "round", "signbit",
    "trunc", "where",
]  # fmt: skip

_EQUAL: Final = primitive("equal")
_NOT_EQUAL: Final = primitive("not_equal")
_LESS: Final = primitive("less")
_LESS_EQUAL: Final = primitive("less_equal")
_AND: Final = primitive("bitwise_and")
_OR: Final = primitive("bitwise_or")
_XOR: Final = primitive("bitwise_xor")


# -- comparison ------------------------------------------------------------------------------------
def equal(x: TensorLike, y: TensorLike) -> Tensor:
    """``x == y``, elementwise, as bool. nan equals nothing.

    >>> equal([1, 2], 2).tolist()
    [False, True]
    """
    return compare(_EQUAL, ops.equal, x, y)


def not_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """``x != y``, elementwise, as bool.

    >>> not_equal([1, 2], 2).tolist()
    [True, False]
    """
    return compare(_NOT_EQUAL, ops.not_equal, x, y)


def less(x: TensorLike, y: TensorLike) -> Tensor:
    """``x < y``, elementwise, as bool.

    >>> less([1, 2], 2).tolist()
    [True, False]
    """
    return compare(_LESS, ops.less, x, y)


def less_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """``x <= y``, elementwise, as bool.

    >>> less_equal([1, 3], 2).tolist()
    [True, False]
    """
    return compare(_LESS_EQUAL, ops.less_equal, x, y)


def greater(x: TensorLike, y: TensorLike) -> Tensor:
    """``x > y``, elementwise, as bool.

    >>> greater([1, 3], 2).tolist()
    [False, True]
    """
    return compared("greater", ops.greater, x, y)


def greater_equal(x: TensorLike, y: TensorLike) -> Tensor:
    """``x >= y``, elementwise, as bool.

    >>> greater_equal([1, 2], 2).tolist()
    [False, True]
    """
    return compared("greater_equal", ops.greater_equal, x, y)


def isnan(x: TensorLike) -> Tensor:
    """Whether each element is not a number.

    >>> isnan([1.0, math.nan]).tolist()
    [False, True]
    """
    return wrap(ops.isnan(as_float(as_node(x))))


def isinf(x: TensorLike) -> Tensor:
    """Whether each element is infinite.

    >>> isinf([1.0, -math.inf]).tolist()
    [False, True]
    """
    return wrap(ops.isinf(as_float(as_node(x))))


def isfinite(x: TensorLike) -> Tensor:
    """Whether each element is a finite number.

    >>> isfinite([1.0, math.nan]).tolist()
    [True, False]
    """
    return wrap(ops.isfinite(as_float(as_node(x))))


def signbit(x: TensorLike) -> Tensor:
    """Whether the sign bit is set (true for -0.0).

    >>> signbit([-0.0, 0.0]).tolist()
    [True, False]
    """
    return wrap(ops.signbit(as_float(as_node(x))))


# -- logic -----------------------------------------------------------------------------------------
def _truth(x: TensorLike) -> Node:
    node = as_node(x)
    return node if node.dtype is bool_ else ops.not_equal(node, ops.constant(0, node.dtype))


def logical_and(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether both are nonzero.

    >>> logical_and([1, 0], [2, 3]).tolist()
    [True, False]
    """
    return wrap(ops.bitwise_and(_truth(x), _truth(y)))


def logical_or(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether one or both are nonzero.

    >>> logical_or([1, 0], [0, 0]).tolist()
    [True, False]
    """
    return wrap(ops.bitwise_or(_truth(x), _truth(y)))


def logical_xor(x: TensorLike, y: TensorLike) -> Tensor:
    """Whether exactly one is nonzero.

    >>> logical_xor([1, 1], [0, 2]).tolist()
    [True, False]
    """
    return wrap(ops.bitwise_xor(_truth(x), _truth(y)))


def logical_not(x: TensorLike) -> Tensor:
    """Whether each element is zero.

    >>> logical_not([1, 0]).tolist()
    [False, True]
    """
    return wrap(ops.bitwise_invert(_truth(x)))


# -- bits ------------------------------------------------------------------------------------------
def _whole(name: str, x: TensorLike, y: TensorLike) -> tuple[Node, Node]:
    a, b = fitted(name, x, y)
    if a.dtype.inexact:
        raise DTypeError(
            f"[{name}] operands promote to {a.dtype.name}, which has no bits to work on; "
            "cast to an integer type with .astype(...)"
        )
    return a, b


def _bits(op: Primitive, builder: Builder, x: TensorLike, y: TensorLike) -> Tensor:
    """Record an operation on bits; the fast path is equal shapes and types."""
    if not (traces or naming.state.active) and isinstance(x, TensorCore):
        a = x.node
        if isinstance(y, TensorCore) and not a.dtype.inexact:
            b = y.node
            if a.dtype is b.dtype and a.shape == b.shape:
                return wrap(Node(op, (a, b), a.shape, a.dtype))
    return wrap(builder(*_whole(op.name, x, y)))


def bitwise_and(x: TensorLike, y: TensorLike) -> Tensor:
    """``x & y`` of integers or bools.

    >>> bitwise_and([6, 5], 3).tolist()
    [2, 1]
    """
    return _bits(_AND, ops.bitwise_and, x, y)


def bitwise_or(x: TensorLike, y: TensorLike) -> Tensor:
    """``x | y`` of integers or bools.

    >>> bitwise_or([6, 5], 3).tolist()
    [7, 7]
    """
    return _bits(_OR, ops.bitwise_or, x, y)


def bitwise_xor(x: TensorLike, y: TensorLike) -> Tensor:
    """``x ^ y`` of integers or bools.

    >>> bitwise_xor([6, 5], 3).tolist()
    [5, 6]
    """
    return _bits(_XOR, ops.bitwise_xor, x, y)


def bitwise_invert(x: TensorLike) -> Tensor:
    """``~x``: all bits flipped, or logical not of bools.

    >>> bitwise_invert([0, -1]).tolist()
    [-1, 0]
    """
    return wrap(ops.bitwise_invert(as_node(x)))


bitwise_not = bitwise_invert


def bitwise_left_shift(x: TensorLike, y: TensorLike) -> Tensor:
    """``x << y`` of integers; a shift by the width or more gives 0.

    >>> bitwise_left_shift([1, 3], 2).tolist()
    [4, 12]
    """
    return wrap(ops.bitwise_left_shift(*_whole("bitwise_left_shift", x, y)))


def bitwise_right_shift(x: TensorLike, y: TensorLike) -> Tensor:
    """``x >> y`` of integers, keeping the sign.

    >>> bitwise_right_shift([12, -4], 2).tolist()
    [3, -1]
    """
    return wrap(ops.bitwise_right_shift(*_whole("bitwise_right_shift", x, y)))


# -- rounding and conversion -----------------------------------------------------------------------
def floor(x: TensorLike) -> Tensor:
    """The largest whole number not above ``x``, in the same element type.

    >>> floor([1.5, -1.5]).tolist()
    [1.0, -2.0]
    """
    node = as_node(x)
    return wrap(ops.floor(node) if node.dtype.inexact else node)


def ceil(x: TensorLike) -> Tensor:
    """The smallest whole number not below ``x``, in the same element type.

    >>> ceil([1.5, -1.5]).tolist()
    [2.0, -1.0]
    """
    node = as_node(x)
    return wrap(ops.ceil(node) if node.dtype.inexact else node)


def trunc(x: TensorLike) -> Tensor:
    """``x`` without its fraction.

    >>> trunc([1.5, -1.5]).tolist()
    [1.0, -1.0]
    """
    node = as_node(x)
    return wrap(ops.trunc(node) if node.dtype.inexact else node)


def _rounded_whole(node: Node, zeros: int) -> Node:
    """Integers to the nearest multiple of ``10**zeros``, halves to an even multiple."""
    if zeros <= 0 or node.dtype.kind == "b":
        return node
    step = 10**zeros
    if step > 2**63 - 1:
        return ops.full(0, node.shape, node.dtype)
    wide = cast(node, node.dtype if node.dtype.bits == 64 else int64)
    size, one = ops.constant(step, wide.dtype), ops.constant(1, wide.dtype)
    below = ops.floor_divide(wide, size)
    rest = ops.subtract(wide, ops.multiply(below, size))
    half = ops.constant(step // 2, wide.dtype)
    odd = ops.equal(ops.bitwise_and(below, one), one)
    up = ops.bitwise_or(ops.less(half, rest), ops.bitwise_and(ops.equal(rest, half), odd))
    return cast(ops.multiply(ops.add(below, cast(up, wide.dtype)), size), node.dtype)


@deferring
def round(x: TensorLike, decimals: int = 0) -> Tensor:
    """The nearest number of ``decimals`` places; halves go to the even one. Of complex numbers
    both parts are rounded, integers to tens, hundreds, … by negative ``decimals``.

    >>> round([0.5, 1.5, 2.7]).tolist()
    [0.0, 2.0, 3.0]
    >>> round([15, 25, -14], -1).tolist()
    [20, 20, -10]
    """
    node = as_node(x)
    if not node.dtype.inexact:
        return wrap(_rounded_whole(node, -decimals))
    if node.dtype.kind == "c":
        parts = (round(wrap(part(node)), decimals) for part in (ops.real, ops.imag))
        return wrap(ops.complex(*map(as_node, parts)))
    if decimals == 0:
        return wrap(ops.round(node))
    scale = scalar_node(10.0 ** builtins.abs(decimals), node.dtype)
    first, last = (ops.multiply, ops.divide) if decimals > 0 else (ops.divide, ops.multiply)
    return wrap(last(ops.round(first(node, scale)), scale))


def astype(x: TensorLike, dtype: object, copy: bool = True, device: object = None) -> Tensor:
    """``x`` as another element type. Floats to integers lose their fraction; to bool: ``x != 0``.

    ``copy`` is accepted for the array-API's sake: values are never shared visibly.

    Raises:
        DTypeError: from a complex type to a real one, as the standard says; use :func:`real`.

    >>> astype([1.7, -1.7], "int32").tolist()
    [1, -1]
    """
    check_device(device)
    node, wanted = as_node(x), as_dtype(dtype)
    if node.dtype.kind == "c" and wanted.kind not in "cb":
        raise DTypeError(
            f"[astype] {node.dtype.name} to {wanted.name} would lose the imaginary parts; take "
            "lm.real(x) or lm.abs(x) first"
        )
    return wrap(cast(node, wanted))


def bitcast(x: TensorLike, dtype: object) -> Tensor:
    """The same bits read as another element type of the same width.

    Raises:
        DTypeError: if the widths differ.

    >>> bitcast(1.0, "int32").item()
    1065353216
    """
    return wrap(ops.bitcast(as_node(x), as_dtype(dtype)))


# -- choice ----------------------------------------------------------------------------------------
@overload
def where(condition: TensorLike, x: None = None, y: None = None) -> tuple[Tensor, ...]: ...
@overload
def where(condition: TensorLike, x: TensorLike, y: TensorLike) -> Tensor: ...
@deferring
@with_synonyms
def where(
    condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None
) -> Tensor | tuple[Tensor, ...]:
    """``x`` where ``condition`` holds, else ``y``; with one argument, ``nonzero(condition)``.

    The cotangent of the branch that is not taken is exactly 0, even where that branch is nan.

    >>> where([True, False], 1.0, [2.0, 3.0]).tolist()
    [1.0, 3.0]
    """
    if x is None and y is None:
        from lamella.tensor.searching import nonzero

        return nonzero(condition)
    if x is None or y is None:
        raise OptionError("[where] x and y come together; give both, or neither for the indices")
    a, b = fitted("where", x, y)
    return wrap(ops.where(_truth(condition), a, b))


@deferring
def nan_to_num(
    x: TensorLike, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None,
    *, copy: bool = True,
) -> Tensor:  # fmt: skip
    """``x`` with nan replaced by ``nan`` and infinities by the given or the largest finite numbers.

    ``copy`` is NumPy's, and changes nothing: the result never shares memory visibly.

    >>> nan_to_num([math.nan, 1.0]).tolist()
    [0.0, 1.0]
    """
    node = as_node(x)
    if node.dtype.kind == "c":
        parts = (nan_to_num(wrap(p(node)), nan, posinf, neginf) for p in (ops.real, ops.imag))
        return wrap(ops.complex(*map(as_node, parts)))
    if node.dtype.kind != "f":
        return wrap(node)
    largest = finfo(node.dtype).max
    infinity = ops.constant(math.inf, node.dtype)
    for found, value in (
        (ops.isnan(node), nan),
        (ops.equal(node, infinity), largest if posinf is None else posinf),
        (ops.equal(node, ops.negative(infinity)), -largest if neginf is None else neginf),
    ):
        node = ops.where(found, scalar_node(value, node.dtype), node)
    return wrap(node)


@deferring
def isclose(
    x: TensorLike, y: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """``|x - y| <= atol + rtol * |y|``, elementwise; equal infinities are close.

    >>> isclose([1.0, 2.0], [1.0, 2.1]).tolist()
    [True, False]
    """
    a, b = fitted("isclose", x, y)
    a, b = as_float(a), as_float(b)
    part = b.dtype.part
    allowed = ops.add(ops.multiply(ops.abs(b), scalar_node(rtol, part)), scalar_node(atol, part))
    near = ops.less_equal(ops.abs(ops.subtract(a, b)), allowed)
    near = ops.bitwise_and(near, ops.isfinite(b))  # inf <= inf would call everything close to inf
    near = ops.bitwise_or(near, ops.equal(a, b))
    if equal_nan:
        near = ops.bitwise_or(near, ops.bitwise_and(ops.isnan(a), ops.isnan(b)))
    return wrap(near)
