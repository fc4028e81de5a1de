"""Arithmetic, applied at every element.

Operands are tensors or anything :func:`lamella.asarray` takes; shapes broadcast as in NumPy,
element types promote as in the array-API standard, and Python numbers take the tensor's type.
Errors: ShapeError when shapes do not broadcast, DTypeError when an element type does not fit the
function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lamella import ops
from lamella.dtypes import int16, int32, int64
from lamella.errors import OptionError, did_you_mean
from lamella.ir.node import Node
from lamella.ops import complex_parts
from lamella.tensor.core import TensorCore, wrap
from lamella.tensor.deferring import deferring
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import (
    TensorLike,
    arithmetic,
    as_float,
    as_node,
    cast,
    fitted,
    primitive,
)  # fmt: skip

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "abs", "add", "atan2", "clamp", "clip", "copysign", "divide", "floor_divide", "fmod", "hypot",
    "lerp", "logaddexp", "maximum", "minimum", "multiply", "negative", "nextafter", "positive",
    "pow", "reciprocal", "remainder", "sign", "square", "subtract",
]  # fmt: skip

_ADD: Final = primitive("add")
_SUBTRACT: Final = primitive("subtract")
_MULTIPLY: Final = primitive("multiply")
_DIVIDE: Final = primitive("divide")
_MAXIMUM: Final = primitive("maximum")
_MINIMUM: Final = primitive("minimum")
_FLOOR_DIVIDE: Final = primitive("floor_divide")
_REMAINDER: Final = primitive("remainder")


# -- arithmetic ------------------------------------------------------------------------------------
def add(x: TensorLike, y: TensorLike, *, alpha: TensorLike | None = None) -> Tensor:
    """``x + y``, or ``x + alpha * y``; of two bools, logical or.

    >>> add([1, 2], 3).tolist(), add([1, 2], 3, alpha=2).tolist()
    ([4, 5], [7, 8])
    """
    return arithmetic(_ADD, ops.add, x, y if alpha is None else multiply(y, alpha))


def subtract(x: TensorLike, y: TensorLike, *, alpha: TensorLike | None = None) -> Tensor:
    """``x - y``, or ``x - alpha * y``. DTypeError for two bools.

    >>> subtract([1, 2], 3).tolist(), subtract([1, 2], 3, alpha=2).tolist()
    ([-2, -1], [-5, -4])
    """
    return arithmetic(_SUBTRACT, ops.subtract, x, y if alpha is None else multiply(y, alpha))


def multiply(x: TensorLike, y: TensorLike) -> Tensor:
    """``x * y``; of two bools, logical and.

    >>> multiply([1, 2], 3).tolist()
    [3, 6]
    """
    return arithmetic(_MULTIPLY, ops.multiply, x, y)


def divide(x: TensorLike, y: TensorLike, *, rounding_mode: str | None = None) -> Tensor:
    """``x / y`` in floating point; integers are cast to float32 first. x/0 is inf or nan.

    With ``rounding_mode="floor"`` it is :func:`floor_divide`; with ``"trunc"`` the quotient is
    rounded towards 0, and integers stay integers.

    Raises:
        OptionError: for another mode.

    >>> divide([1, 2], 4).tolist(), divide([7, -7], 4, rounding_mode="trunc").tolist()
    ([0.25, 0.5], [1, -1])
    """
    if rounding_mode is not None:
        if rounding_mode not in ("floor", "trunc"):
            raise OptionError(
                f"[divide] rounding_mode={rounding_mode!r} is unknown; "
                f"{did_you_mean(str(rounding_mode), ('floor', 'trunc'))}"
            )
        return floor_divide(x, y) if rounding_mode == "floor" else _truncated_quotient(x, y)
    if isinstance(x, TensorCore) and x.node.dtype.inexact:
        return arithmetic(_DIVIDE, ops.divide, x, y)
    a, b = fitted("divide", x, y)
    return wrap(ops.divide(as_float(a), as_float(b)))


def _truncated_quotient(x: TensorLike, y: TensorLike) -> Tensor:
    a, b = fitted("divide", x, y)
    if not a.dtype.is_integer:
        return wrap(ops.trunc(ops.divide(as_float(a), as_float(b))))
    return floor_divide(subtract(wrap(a), fmod(wrap(a), wrap(b))), wrap(b))


@deferring
def floor_divide(x: TensorLike, y: TensorLike) -> Tensor:
    """``x // y``, rounded towards minus infinity. An integer divided by 0 gives 0.

    >>> floor_divide([7, -7], 2).tolist()
    [3, -4]
    """
    return arithmetic(_FLOOR_DIVIDE, ops.floor_divide, x, y)


@deferring
def remainder(x: TensorLike, y: TensorLike) -> Tensor:
    """``x % y``, with the sign of ``y``: ``x - floor(x / y) * y``.

    >>> remainder([7, -7], 3).tolist()
    [1, 2]
    """
    return arithmetic(_REMAINDER, ops.remainder, x, y)


def fmod(x: TensorLike, y: TensorLike) -> Tensor:
    """The remainder with the sign of ``x``, as C's fmod.

    >>> fmod([7, -7], 3).tolist()
    [1, -1]
    """
    a, b = fitted("fmod", x, y)
    if a.dtype.kind == "u":
        return wrap(ops.remainder(a, b))
    if a.dtype.is_integer:  # whose least number has no absolute value
        zero = ops.constant(0, a.dtype)
        rest = ops.remainder(a, b)
        unlike = ops.not_equal(ops.less(rest, zero), ops.less(a, zero))
        over = ops.bitwise_and(ops.not_equal(rest, zero), unlike)
        return wrap(ops.where(over, ops.subtract(rest, b), rest))
    below = ops.signbit(a)
    size = ops.remainder(ops.where(below, ops.negative(a), a), ops.abs(b))
    return wrap(ops.where(below, ops.negative(size), size))


_POWERS: Final[dict[float, Callable[[Node], Node]]] = {
    1: lambda x: x,
    2: ops.square,
    3: lambda x: ops.multiply(ops.square(x), x),
    4: lambda x: ops.square(ops.square(x)),
}
_FLOAT_POWERS: Final[dict[float, Callable[[Node], Node]]] = {
    0.5: ops.sqrt,
    -0.5: ops.rsqrt,
    -1.0: ops.reciprocal,
}


@deferring
def pow(x: TensorLike, y: TensorLike) -> Tensor:
    """``x ** y``. Small Python exponents (1 to 4, ±0.5, -1) are multiplied out, exactly and fast.

    Raises:
        OptionError: for an integer tensor with a negative Python exponent.

    >>> pow([1, 2, 3], 2).tolist()
    [1, 4, 9]
    """
    if isinstance(y, int | float) and not isinstance(y, bool):
        base = as_node(x)
        if base.dtype.inexact and y in _FLOAT_POWERS:
            return wrap(_FLOAT_POWERS[y](base))
        if y in _POWERS and (base.dtype.inexact or isinstance(y, int)):
            return wrap(_POWERS[int(y)](cast(base, int64) if base.dtype.kind == "b" else base))
        if not base.dtype.inexact and isinstance(y, int) and y < 0:
            raise OptionError(
                f"[pow] {base.dtype.name} to the power {y}: an integer has no negative integer "
                "power; "
                "cast the base with .astype(lm.float32)"
            )
    a, b = fitted("pow", x, y)
    if a.dtype.kind == "b":
        a, b = cast(a, int64), cast(b, int64)
    return wrap(ops.pow(a, b))


def negative(x: TensorLike) -> Tensor:
    """``-x``.

    >>> negative([1, -2]).tolist()
    [-1, 2]
    """
    return wrap(ops.negative(as_node(x)))


def positive(x: TensorLike) -> Tensor:
    """``+x``: the same values.

    >>> positive([1, -2]).tolist()
    [1, -2]
    """
    return wrap(as_node(x))


def abs(x: TensorLike) -> Tensor:
    """The absolute value, of complex numbers the modulus (real); its derivative at 0 is 0.

    >>> abs([1, -2]).tolist()
    [1, 2]
    """
    node = as_node(x)
    return wrap(node if node.dtype.kind in "bu" else ops.abs(node))


@deferring
def sign(x: TensorLike) -> Tensor:
    """-1, 0 (+0.0) or 1, as ``x`` is below, at or above 0; nan stays nan. Of a complex number
    ``x / |x|``, or 0.

    >>> sign([3, -2, 0]).tolist()
    [1, -1, 0]
    """
    node = as_node(x)
    found = ops.sign(node)
    if node.dtype.kind == "f":  # the primitive keeps -0.0
        found = ops.add(found, ops.constant(0.0, node.dtype))
    return wrap(found)


def square(x: TensorLike) -> Tensor:
    """``x * x``.

    >>> square([1, -2]).tolist()
    [1, 4]
    """
    return wrap(ops.square(as_node(x)))


def reciprocal(x: TensorLike) -> Tensor:
    """``1 / x`` in floating point.

    >>> reciprocal([2, 4]).tolist()
    [0.5, 0.25]
    """
    return wrap(ops.reciprocal(as_float(as_node(x))))


def maximum(x: TensorLike, y: TensorLike) -> Tensor:
    """The larger of ``x`` and ``y``; nan wins. Where they are equal each gets half the gradient.

    >>> maximum([1, 5], 3).tolist()
    [3, 5]
    """
    return arithmetic(_MAXIMUM, ops.maximum, x, y)


def minimum(x: TensorLike, y: TensorLike) -> Tensor:
    """The smaller of ``x`` and ``y``; nan wins. Where they are equal each gets half the gradient.

    >>> minimum([1, 5], 3).tolist()
    [1, 3]
    """
    return arithmetic(_MINIMUM, ops.minimum, x, y)


@deferring
@with_synonyms
def clip(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """``minimum(maximum(x, min), max)``; None leaves a side open.

    ``a_min`` and ``a_max`` are synonyms. A floating-point ``x`` keeps its element type; integers
    are promoted with the limits. The derivative by ``x`` is 1 within the limits and at them, as
    PyTorch's.

    >>> clip([1, 5, 9], 2, 6).tolist(), clip([1, 2, 3], 1.5).tolist()
    ([2, 5, 6], [1.5, 2.0, 3.0])
    """
    node = as_node(x)
    own = node.dtype
    if min is not None:
        node, low = fitted("clip", wrap(node), min)
        node = ops.where(ops.less_equal(low, node), node, ops.maximum(node, low))
    if max is not None:
        node, high = fitted("clip", wrap(node), max)
        node = ops.where(ops.less_equal(node, high), node, ops.minimum(node, high))
    return wrap(cast(node, own) if own.kind == "f" else node)


clamp = clip


def atan2(x: TensorLike, y: TensorLike) -> Tensor:
    """The angle of the point (``y``, ``x``), in [-π, π]: first argument the ordinate.

    >>> atan2(0.0, 1.0).item()
    0.0
    """
    a, b = fitted("atan2", x, y)
    return wrap(ops.atan2(as_float(a), as_float(b)))


def copysign(x: TensorLike, y: TensorLike) -> Tensor:
    """The size of ``x`` with the sign of ``y``.

    >>> copysign([1.0, 2.0], -1.0).tolist()
    [-1.0, -2.0]
    """
    a, b = fitted("copysign", x, y)
    return wrap(ops.copysign(as_float(a), as_float(b)))


def hypot(x: TensorLike, y: TensorLike) -> Tensor:
    """``sqrt(x² + y²)`` without overflow: the larger times ``sqrt(1 + (smaller/larger)²)``.

    >>> hypot(3.0, 4.0).item()
    5.0
    """
    a, b = fitted("hypot", x, y)
    return wrap(complex_parts.hypot(as_float(a), as_float(b)))


def nextafter(x: TensorLike, y: TensorLike) -> Tensor:
    """The floating-point number next to ``x`` in the direction of ``y``; ``y`` where they are
    equal.

    >>> nextafter(1.0, 2.0).item() - 1.0
    1.1920928955078125e-07
    """
    a, b = fitted("nextafter", x, y)
    a, b = as_float(a), as_float(b)
    whole = {16: int16, 32: int32, 64: int64}[a.dtype.bits]
    one, zero = ops.constant(1, whole), ops.constant(0.0, a.dtype)
    bits = ops.bitcast(a, whole)  # sign and magnitude: one more is one further from 0
    outwards = ops.equal(ops.less(a, b), ops.less(zero, a))
    moved = ops.bitcast(ops.where(outwards, ops.add(bits, one), ops.subtract(bits, one)), a.dtype)
    least = ops.copysign(ops.bitcast(one, a.dtype), b)
    moved = ops.where(ops.equal(a, zero), least, moved)
    unknown = ops.bitwise_or(ops.isnan(a), ops.isnan(b))
    return wrap(ops.where(unknown, ops.add(a, b), ops.where(ops.equal(a, b), b, moved)))


@deferring
def logaddexp(x: TensorLike, y: TensorLike) -> Tensor:
    """``log(exp(x) + exp(y))`` without overflow.

    >>> logaddexp(1000.0, -1000.0).item()
    1000.0
    """
    a, b = fitted("logaddexp", x, y)
    a, b = as_float(a), as_float(b)
    gap = ops.negative(ops.abs(ops.subtract(a, b)))
    large = ops.maximum(a, b)
    equal = ops.equal(a, b)  # also of two equal infinities, whose gap is nan
    gap = ops.where(equal, ops.constant(0.0, a.dtype), gap)
    return wrap(ops.add(large, ops.log1p(ops.exp(gap))))


@deferring
def lerp(x: TensorLike, y: TensorLike, weight: TensorLike) -> Tensor:
    """``x + weight * (y - x)``: from ``x`` at weight 0 to ``y`` at 1.

    >>> lerp(1.0, 3.0, 0.5).item()
    2.0
    """
    a, b = fitted("lerp", x, y)
    a, b = as_float(a), as_float(b)
    return wrap(ops.add(a, ops.multiply(as_node(weight, a.dtype), ops.subtract(b, a))))
