"""More functions of one or two numbers, applied at every element, and NumPy's other names.

Input: tensors or anything :func:`lamella.asarray` takes; shapes broadcast, element types promote.
Output: tensors of the common shape. Compositions, so derivatives follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from lamella import ops
from lamella.dtypes import DType, as_dtype, bool_, float32, int32, int64, uint8
from lamella.errors import DTypeError, ShapeError
from lamella.ir.node import Node
from lamella.tensor import comparison as _compare
from lamella.tensor import complex as _complex
from lamella.tensor import elementwise as _arith
from lamella.tensor import transcendental as _real
from lamella.tensor.core import wrap
from lamella.tensor.elementwise import divide, floor_divide, nextafter, remainder
from lamella.tensor.operands import TensorLike, as_float, as_node, cast, pair

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "around",
    "bitwise_count", "cbrt", "conjugate", "deg2rad", "degrees", "divmod", "fabs", "fix",
    "float_power", "fmax", "fmin", "frexp", "gcd", "heaviside", "invert", "iscomplex", "isneginf",
    "isposinf", "isreal", "lcm", "ldexp", "left_shift", "logaddexp2", "mod", "modf", "polyval",
    "power", "rad2deg", "radians", "right_shift", "rint", "sinc", "spacing", "true_divide",
]  # fmt: skip


def _like(node: Node, value: float) -> Node:
    return ops.constant(value, node.dtype)


def deg2rad(x: TensorLike) -> Tensor:
    """``x * π / 180``.

    >>> deg2rad(180.0).item() == radians(180.0).item()
    True
    """
    node = as_float(as_node(x))
    return wrap(ops.multiply(node, _like(node, math.pi / 180)))


def rad2deg(x: TensorLike) -> Tensor:
    """``x * 180 / π``.

    >>> rad2deg(0.0).item()
    0.0
    """
    node = as_float(as_node(x))
    return wrap(ops.multiply(node, _like(node, 180 / math.pi)))


radians, degrees = deg2rad, rad2deg


def sinc(x: TensorLike) -> Tensor:
    """``sin(πx) / πx``, 1 at 0.

    >>> sinc(0.0).item()
    1.0
    """
    node = as_float(as_node(x))
    angle = ops.multiply(node, _like(node, math.pi))
    zero = ops.equal(angle, _like(node, 0))
    # cos has the value and the first derivatives of sinc at 0
    safe = ops.where(zero, _like(node, 1), angle)
    return wrap(ops.where(zero, ops.cos(angle), ops.divide(ops.sin(safe), safe)))


def cbrt(x: TensorLike) -> Tensor:
    """The real cube root; a Newton step follows the power, which is rounded more coarsely.

    >>> cbrt([8.0, -27.0]).tolist()
    [2.0, -3.0]
    """
    node = as_float(as_node(x))
    size = ops.abs(node)
    usual = ops.bitwise_and(ops.less(_like(node, 0), size), ops.isfinite(size))
    safe = ops.where(usual, size, _like(node, 1))
    root = ops.pow(safe, _like(node, 1 / 3))
    excess = ops.subtract(root, ops.divide(safe, ops.multiply(root, root)))
    root = ops.subtract(root, ops.multiply(excess, _like(node, 1 / 3)))
    return wrap(ops.where(usual, ops.copysign(root, node), node))


def heaviside(x: TensorLike, y: TensorLike) -> Tensor:
    """0 below 0, 1 above, ``y`` at 0; nan stays nan.

    >>> heaviside([-1.0, 0.0, 2.0], 0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    a, b = (as_float(node) for node in pair("heaviside", x, y))
    above = ops.where(ops.less(_like(a, 0), a), _like(a, 1), _like(a, 0))
    found = ops.where(ops.equal(a, _like(a, 0)), b, above)
    return wrap(ops.where(ops.isnan(a), a, found))


def fix(x: TensorLike) -> Tensor:
    """Rounded towards 0 (NumPy's name of ``trunc``).

    >>> fix([1.7, -1.7]).tolist()
    [1.0, -1.0]
    """
    node = as_node(x)
    return wrap(ops.trunc(node) if node.dtype.kind == "f" else node)


def modf(x: TensorLike) -> tuple[Tensor, Tensor]:
    """``(fraction, whole)``, both with the sign of ``x``.

    >>> [part.tolist() for part in modf([1.5, -2.25])]
    [[0.5, -0.25], [1.0, -2.0]]
    """
    node = as_float(as_node(x))
    whole = ops.trunc(node)
    rest = ops.where(ops.isinf(node), _like(node, 0), ops.subtract(node, whole))
    return wrap(ops.copysign(rest, node)), wrap(whole)


def divmod(x: TensorLike, y: TensorLike) -> tuple[Tensor, Tensor]:
    """``(x // y, x % y)``.

    >>> [part.tolist() for part in divmod([7, -7], 3)]
    [[2, -3], [1, 2]]
    """
    return floor_divide(x, y), remainder(x, y)


def float_power(x: TensorLike, y: TensorLike) -> Tensor:
    """``x ** y`` in floating point, of integers too.

    >>> float_power([2, 4], -1).tolist()
    [0.5, 0.25]
    """
    a, b = pair("float_power", x, y)
    return wrap(ops.pow(as_float(a), as_float(b)))


def logaddexp2(x: TensorLike, y: TensorLike) -> Tensor:
    """``log2(2**x + 2**y)`` without overflow.

    >>> logaddexp2(3.0, 3.0).item()
    4.0
    """
    from lamella.tensor.elementwise import logaddexp

    a, b = (as_float(node) for node in pair("logaddexp2", x, y))
    log2 = _like(a, math.log(2))
    total = as_node(logaddexp(wrap(ops.multiply(a, log2)), wrap(ops.multiply(b, log2))))
    return divide(wrap(total), wrap(log2))


def ldexp(x: TensorLike, y: TensorLike) -> Tensor:
    """``x * 2**y`` with whole ``y``, in two exact steps.

    >>> ldexp([1.0, 3.0], [4, -1]).tolist()
    [16.0, 1.5]
    """
    node, power = as_float(as_node(x)), as_node(y)
    if power.dtype.kind not in "iub":
        raise DTypeError(f"[ldexp] exponents of {power.dtype.name} are no whole numbers; cast them")
    power = cast(power, int64)
    half = ops.floor_divide(power, ops.constant(2, int64))
    for part in (half, ops.subtract(power, half)):
        node = ops.multiply(node, ops.exp2(cast(part, node.dtype)))
    return wrap(node)


def fmax(x: TensorLike, y: TensorLike) -> Tensor:
    """The larger of ``x`` and ``y``; a number wins over nan.

    >>> fmax([1.0, math.nan], [2.0, 3.0]).tolist()
    [2.0, 3.0]
    """
    return _but_nan(*pair("fmax", x, y), ops.maximum)


def fmin(x: TensorLike, y: TensorLike) -> Tensor:
    """The smaller of ``x`` and ``y``; a number wins over nan.

    >>> fmin([1.0, math.nan], [2.0, 3.0]).tolist()
    [1.0, 3.0]
    """
    return _but_nan(*pair("fmin", x, y), ops.minimum)


def _but_nan(a: Node, b: Node, pick: Callable[[Node, Node], Node]) -> Tensor:
    found = pick(a, b)
    if a.dtype.kind != "f":
        return wrap(found)
    return wrap(ops.where(ops.isnan(a), b, ops.where(ops.isnan(b), a, found)))


def spacing(x: TensorLike) -> Tensor:
    """The distance to the next number away from 0, with the sign of ``x``.

    >>> spacing(1.0).item()
    1.1920928955078125e-07
    """
    node = as_float(as_node(x))
    size = ops.abs(node)
    gap = ops.subtract(as_node(nextafter(wrap(size), math.inf)), size)
    return wrap(ops.copysign(ops.where(ops.isfinite(size), gap, _like(node, math.nan)), node))


def frexp(x: TensorLike) -> tuple[Tensor, Tensor]:
    """``(m, e)`` with ``x = m * 2**e`` and ``0.5 <= |m| < 1``; ``e`` is int32.

    >>> [part.tolist() for part in frexp([8.0, -0.75])]
    [[0.5, -0.75], [4, 0]]
    """
    node = as_float(as_node(x))
    own = node.dtype
    node = node if own.bits >= 32 else cast(node, float32)
    whole, width, bias = (int32, 23, 126) if node.dtype is float32 else (int64, 52, 1022)
    limit = _like(node, 2.0 ** (1 - bias))
    small = ops.less(ops.abs(node), limit)  # subnormal: scaled up first
    scaled = ops.where(small, ops.multiply(node, _like(node, 2.0**60)), node)
    bits = ops.bitwise_right_shift(ops.bitcast(ops.abs(scaled), whole), ops.constant(width, whole))
    power = ops.subtract(bits, ops.constant(bias, whole))
    plain = ops.bitwise_and(ops.isfinite(node), ops.not_equal(node, _like(node, 0)))
    power = ops.where(plain, power, ops.constant(0, whole))
    mantissa = as_node(ldexp(wrap(scaled), wrap(ops.negative(power))))
    shift = ops.where(small, ops.constant(60, whole), ops.constant(0, whole))
    exponent = ops.where(plain, ops.subtract(power, shift), power)
    return wrap(cast(ops.where(plain, mantissa, node), own)), wrap(cast(exponent, int32))


def polyval(p: TensorLike, x: TensorLike) -> Tensor:
    """``p[0] x**(n-1) + … + p[n-1]`` by Horner's rule, highest power first.

    >>> polyval([1.0, 0.0, 2.0], [1.0, 3.0]).tolist()
    [3.0, 11.0]
    """
    coefficients, at = pair("polyval", p, x)
    if coefficients.ndim != 1:
        raise ShapeError(f"[polyval] coefficients of shape {coefficients.shape}; give a vector")
    total = ops.full(0, at.shape, at.dtype)
    for place in range(int(coefficients.shape[0])):
        term = ops.reshape(ops.slice(coefficients, (place,), (1,)), ())
        total = ops.add(ops.multiply(total, at), term)
    return wrap(total)


# -- NumPy's other names ---------------------------------------------------------------------------
absolute, power, mod, true_divide = _arith.abs, _arith.pow, _arith.remainder, _arith.divide
arccos, arcsin, arctan, arctan2 = _real.acos, _real.asin, _real.atan, _arith.atan2
arccosh, arcsinh, arctanh = _real.acosh, _real.asinh, _real.atanh
invert, left_shift = _compare.bitwise_invert, _compare.bitwise_left_shift
right_shift, around, conjugate = _compare.bitwise_right_shift, _compare.round, _complex.conj
fabs, rint = _arith.abs, _compare.round


# -- tests -----------------------------------------------------------------------------------------
def isposinf(x: TensorLike) -> Tensor:
    """Whether each element is plus infinity.

    >>> isposinf([math.inf, -math.inf]).tolist()
    [True, False]
    """
    node = as_float(as_node(x))
    return wrap(ops.equal(node, _like(node, math.inf)))


def isneginf(x: TensorLike) -> Tensor:
    """Whether each element is minus infinity.

    >>> isneginf([math.inf, -math.inf]).tolist()
    [False, True]
    """
    node = as_float(as_node(x))
    return wrap(ops.equal(node, _like(node, -math.inf)))


def isreal(x: TensorLike) -> Tensor:
    """Whether each element's imaginary part is 0.

    >>> isreal([1j, 2.0]).tolist()
    [False, True]
    """
    node = ops.imag(as_node(x))
    return wrap(ops.equal(node, ops.constant(0, node.dtype)))


def iscomplex(x: TensorLike) -> Tensor:
    """Whether each element's imaginary part is not 0.

    >>> iscomplex([1j, 2.0]).tolist()
    [True, False]
    """
    return wrap(ops.logical_not(as_node(isreal(x))))


# -- integers --------------------------------------------------------------------------------------
def _sizes(name: str, x: TensorLike, y: TensorLike) -> tuple[Node, Node, DType]:
    """The absolute values, unsigned so that the least number has one too, and the result's type."""
    a, b = pair(name, x, y)
    if not a.dtype.is_integer:
        raise DTypeError(f"[{name}] operands promote to {a.dtype.name}; it is defined of integers")
    unsigned = as_dtype(f"uint{a.dtype.bits}")
    return cast(ops.abs(a), unsigned), cast(ops.abs(b), unsigned), a.dtype


def gcd(x: TensorLike, y: TensorLike) -> Tensor:
    """The greatest common divisor of integers, by Euclid's algorithm (as many steps as the type
    may need).

    >>> gcd([12, 0], [18, 5]).tolist()
    [6, 5]
    """
    a, b, dtype = _sizes("gcd", x, y)
    shape = ops.add(a, b).shape
    a, b = ops.broadcast_to(a, shape), ops.broadcast_to(b, shape)
    zero = ops.constant(0, a.dtype)
    steps = int(a.dtype.bits * 1.45) + 2  # numbers below φ**n take at most n divisions
    for _ in range(steps):
        done = ops.equal(b, zero)
        a, b = ops.where(done, a, b), ops.where(done, zero, ops.remainder(a, b))
    return wrap(cast(a, dtype))


def lcm(x: TensorLike, y: TensorLike) -> Tensor:
    """The least common multiple of integers; 0 where one is 0.

    >>> lcm([4, 0], 6).tolist()
    [12, 0]
    """
    a, b, dtype = _sizes("lcm", x, y)
    divisor = as_node(gcd(wrap(a), wrap(b)))
    safe = ops.maximum(divisor, ops.constant(1, divisor.dtype))
    return wrap(cast(ops.multiply(ops.floor_divide(a, safe), b), dtype))





def bitwise_count(x: TensorLike) -> Tensor:
    """The number of ones in the absolute value's bits, as uint8.

    >>> bitwise_count([7, -8]).tolist()
    [3, 1]
    """
    node = as_node(x)
    if node.dtype is bool_:
        return wrap(cast(node, uint8))
    if not node.dtype.is_integer:
        raise DTypeError(f"[bitwise_count] {node.dtype.name} has no bits to count; cast it")
    wide = as_dtype(f"uint{node.dtype.bits}")
    left = ops.bitcast(ops.abs(node), wide)
    total = ops.full(0, node.shape, wide)
    one = ops.constant(1, wide)
    for _ in range(node.dtype.bits):
        total = ops.add(total, ops.bitwise_and(left, one))
        left = ops.bitwise_right_shift(left, one)
    return wrap(cast(total, uint8))
