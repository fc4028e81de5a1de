"""Functions of complex numbers as functions of their real and imaginary parts.

Input: for each argument its parts (``Parts``), nodes of one real dtype, shapes equal or 0-d.
Output: the parts of the result. The compiler replaces complex operations by these, so no kernel
knows complex numbers. Special values (infinities, nan, signed zeros) follow C99, Annex G, as NumPy
does; no intermediate result overflows where the result does not, but for powers.

Sources: division, R. L. Smith (1962); the inverse functions, W. Kahan, "Branch cuts for complex
elementary functions" (1987), with logarithms in place of overflow for large arguments.
"""

from __future__ import annotations

import math

from lamella import ops
from lamella.dtypes import float32
from lamella.ir.node import Node
from lamella.ops.base import Parts

__all__: list[str] = []


def _number(x: Node, value: float) -> Node:
    """A literal of the dtype of ``x``."""
    return ops.constant(value, x.dtype)


def _large(x: Node) -> float:
    """A quarter of the largest number: sums of two such do not overflow."""
    return 8e37 if x.dtype is float32 else 4e307


def _is_zero(x: Node) -> Node:
    return ops.equal(x, _number(x, 0.0))


def _keep_zero(x: Node, value: Node) -> Node:
    """``value``, or ``x`` itself where it is a zero."""
    return ops.where(_is_zero(x), x, value)


def _scaled(x: Node, factor: float) -> Node:
    return ops.multiply(x, _number(x, factor))


def hypot(a: Node, b: Node) -> Node:
    """sqrt(a² + b²) without overflow: the larger times sqrt(1 + (smaller / larger)²)."""
    a, b = ops.abs(a), ops.abs(b)
    large, small = ops.maximum(a, b), ops.minimum(a, b)
    one = _number(a, 1.0)
    ratio = ops.divide(small, ops.where(_is_zero(large), one, large))
    size = ops.multiply(large, ops.sqrt(ops.add(ops.multiply(ratio, ratio), one)))
    infinite = ops.logical_or(ops.isinf(a), ops.isinf(b))
    return ops.where(infinite, _number(a, math.inf), size)


# -- arithmetic ------------------------------------------------------------------------------------
def multiply(x: Parts, y: Parts) -> Parts:
    """(ac - bd) + i(ad + bc)."""
    (a, b), (c, d) = x, y
    real = ops.subtract(ops.multiply(a, c), ops.multiply(b, d))
    return real, ops.add(ops.multiply(a, d), ops.multiply(b, c))


def divide(x: Parts, y: Parts) -> Parts:
    """Smith's formula: divided through by the larger part of the divisor."""
    (a, b), (c, d) = x, y
    swap = ops.less(ops.abs(c), ops.abs(d))
    large, small = ops.where(swap, d, c), ops.where(swap, c, d)
    zero = ops.logical_and(_is_zero(c), _is_zero(d))  # then a / 0 and b / 0
    ratio = ops.divide(small, large)
    first, second = ops.where(swap, b, a), ops.where(swap, a, b)
    whole = ops.where(zero, ops.abs(large), ops.add(large, ops.multiply(small, ratio)))
    real = ops.where(zero, a, ops.add(first, ops.multiply(second, ratio)))
    turned = ops.where(zero, b, ops.subtract(second, ops.multiply(first, ratio)))
    imaginary = ops.where(swap, ops.negative(turned), turned)
    return ops.divide(real, whole), ops.divide(imaginary, whole)


def equal(x: Parts, y: Parts) -> Parts:
    """Both parts are equal."""
    return (ops.logical_and(ops.equal(x[0], y[0]), ops.equal(x[1], y[1])),)


def not_equal(x: Parts, y: Parts) -> Parts:
    """One part differs."""
    return (ops.logical_or(ops.not_equal(x[0], y[0]), ops.not_equal(x[1], y[1])),)


def isnan(x: Parts) -> Parts:
    """One part is nan."""
    return (ops.logical_or(*map(ops.isnan, x)),)


def isinf(x: Parts) -> Parts:
    """One part is infinite."""
    return (ops.logical_or(*map(ops.isinf, x)),)


def isfinite(x: Parts) -> Parts:
    """Both parts are finite."""
    return (ops.logical_and(*map(ops.isfinite, x)),)


# -- powers, exponentials, logarithms --------------------------------------------------------------
def sqrt(x: Parts) -> Parts:
    """With t = √((|a| + |x|) / 2): t + ib/2t to the right of 0, |b|/2t ± it to the left."""
    a, b = x
    size = ops.maximum(ops.abs(a), ops.abs(b))
    up = 2.0 ** (40 if a.dtype is float32 else 400)
    great = ops.less(_number(a, _large(a)), size)
    small = ops.less(size, _number(a, 1 / (up * up)))
    one = _number(a, 1.0)
    scale = ops.where(great, _number(a, 1 / 16), ops.where(small, _number(a, up), one))
    back = ops.where(great, _number(a, 4.0), ops.where(small, _number(a, up**-0.5), one))
    p, q = ops.multiply(ops.abs(a), scale), ops.multiply(ops.abs(b), scale)
    t = ops.sqrt(_scaled(ops.add(p, hypot(p, q)), 0.5))
    other = ops.divide(q, _scaled(ops.where(_is_zero(t), one, t), 2.0))
    t, other = ops.multiply(t, back), ops.multiply(other, back)
    left = ops.signbit(a)
    real = ops.where(left, other, t)
    imaginary = ops.copysign(ops.where(left, t, other), b)
    endless = ops.isinf(b)
    return ops.where(endless, ops.abs(b), real), ops.where(endless, b, imaginary)


def rsqrt(x: Parts) -> Parts:
    """1 / sqrt(x)."""
    one, zero = _number(x[0], 1.0), _number(x[0], 0.0)
    return divide((one, zero), sqrt(x))


def exp(x: Parts) -> Parts:
    """The modulus e^a at the angle b; a large e^a is multiplied on in two steps."""
    a, b = x
    great = ops.less(_number(a, 80.0 if a.dtype is float32 else 700.0), a)
    size = ops.exp(ops.subtract(a, ops.where(great, _number(a, 8.0), _number(a, 0.0))))
    rest = ops.where(great, _number(a, math.exp(8.0)), _number(a, 1.0))
    real = ops.multiply(ops.multiply(size, ops.cos(b)), rest)
    imaginary = ops.multiply(ops.multiply(size, ops.sin(b)), rest)
    wild = ops.logical_not(ops.isfinite(b))
    vanishes = ops.logical_and(wild, ops.equal(a, _number(a, -math.inf)))
    real = ops.where(ops.logical_and(wild, ops.equal(a, _number(a, math.inf))), a, real)
    zero = _number(a, 0.0)
    return ops.where(vanishes, zero, real), _keep_zero(b, ops.where(vanishes, zero, imaginary))


def expm1(x: Parts) -> Parts:
    """The real part is (e^a - 1) cos b - 2 sin²(b/2), without cancellation."""
    a, b = x
    half = ops.sin(_scaled(b, 0.5))
    near = ops.subtract(
        ops.multiply(ops.expm1(a), ops.cos(b)), _scaled(ops.multiply(half, half), 2.0)
    )
    near = ops.add(near, _number(a, 0.0))  # no -0.0
    real, imaginary = exp(x)
    plain = ops.logical_or(ops.less(_number(a, 1.0), a), ops.logical_not(ops.isfinite(b)))
    return ops.where(plain, ops.subtract(real, _number(a, 1.0)), near), imaginary


def _log_modulus(a: Node, b: Node) -> Node:
    """log |a + ib|; near 1 by log1p of |x|² - 1, written without cancellation."""
    p, q = ops.abs(a), ops.abs(b)
    large, small = ops.maximum(p, q), ops.minimum(p, q)
    one = _number(a, 1.0)
    above = ops.multiply(ops.subtract(large, one), ops.add(large, one))
    near = ops.logical_and(
        ops.less(_number(a, 0.5), large), ops.less(large, _number(a, math.sqrt(3.0)))
    )
    excess = ops.add(above, ops.multiply(small, small))
    by_excess = _scaled(ops.log1p(ops.where(near, excess, _number(a, 0.0))), 0.5)
    great = ops.less(_number(a, _large(a)), large)
    size = hypot(*(ops.where(great, _scaled(part, 0.25), part) for part in (a, b)))
    by_size = ops.add(
        ops.log(size), ops.where(great, _number(a, math.log(4.0)), _number(a, 0.0))
    )
    return ops.where(near, by_excess, by_size)


def log(x: Parts) -> Parts:
    """The logarithm of the modulus, and the angle."""
    a, b = x
    return _log_modulus(a, b), ops.atan2(b, a)


def log2(x: Parts) -> Parts:
    """log x / log 2."""
    return tuple(_scaled(part, 1 / math.log(2.0)) for part in log(x))


def log10(x: Parts) -> Parts:
    """log x / log 10."""
    return tuple(_scaled(part, 1 / math.log(10.0)) for part in log(x))


def log1p(x: Parts) -> Parts:
    """log |1 + x| + i arg(1 + x); for small x by log1p of |1 + x|² - 1 = a (2 + a) + b²."""
    a, b = x
    moved = ops.add(a, _number(a, 1.0))
    size = ops.maximum(ops.abs(a), ops.abs(b))
    near = ops.less(size, _number(a, 0.25))
    excess = ops.add(ops.multiply(a, ops.add(a, _number(a, 2.0))), ops.multiply(b, b))
    by_excess = _scaled(ops.log1p(ops.where(near, excess, _number(a, 0.0))), 0.5)
    real = ops.where(near, by_excess, _log_modulus(moved, b))
    return real, ops.atan2(b, moved)


def pow(x: Parts, y: Parts) -> Parts:
    """exp(y log x); x⁰ = 1, and 0 to a power with a positive real part is 0."""
    (a, b), (c, d) = x, y
    real, imaginary = exp(multiply(y, log(x)))
    zero, one = _number(a, 0.0), _number(a, 1.0)
    constant = ops.logical_and(_is_zero(c), _is_zero(d))
    nothing = ops.logical_and(_is_zero(a), _is_zero(b))
    nothing = ops.logical_and(nothing, ops.less(zero, c))
    real = ops.where(constant, one, ops.where(nothing, zero, real))
    return real, ops.where(ops.logical_or(constant, nothing), zero, imaginary)


# -- trigonometric and hyperbolic ------------------------------------------------------------------
def _turned(x: Parts) -> Parts:
    """ix."""
    return ops.negative(x[1]), x[0]


def _turned_back(x: Parts) -> Parts:
    """-ix."""
    return x[1], ops.negative(x[0])


def _wild(a: Node, b: Node) -> Node:
    """``a`` is infinite or 0 and ``b`` is not finite: the part with sin or cos of ``b`` stays."""
    extreme = ops.logical_or(ops.isinf(a), _is_zero(a))
    return ops.logical_and(extreme, ops.logical_not(ops.isfinite(b)))


def sinh(x: Parts) -> Parts:
    """sinh a cos b + i cosh a sin b."""
    a, b = x
    real = ops.where(_wild(a, b), a, ops.multiply(ops.sinh(a), ops.cos(b)))
    imaginary = ops.multiply(ops.cosh(a), ops.sin(b))
    return real, _keep_zero(b, imaginary)


def cosh(x: Parts) -> Parts:
    """cosh a cos b + i sinh a sin b."""
    a, b = x
    endless = ops.logical_and(_wild(a, b), ops.isinf(a))
    real = ops.where(endless, ops.abs(a), ops.multiply(ops.cosh(a), ops.cos(b)))
    imaginary = ops.multiply(ops.sinh(a), ops.sin(b))
    sign = ops.multiply(ops.copysign(_number(a, 1.0), a), ops.copysign(_number(a, 0.0), b))
    flat = ops.logical_or(_is_zero(a), _is_zero(b))
    return real, ops.where(ops.logical_and(flat, ops.isnan(imaginary)), sign, imaginary)


def tanh(x: Parts) -> Parts:
    """Kahan's: with t = tan b, s = sinh a, β = 1 + t²: (β s sqrt(1 + s²) + it) / (1 + β s²)."""
    a, b = x
    one = _number(a, 1.0)
    limit = 9.0 if a.dtype is float32 else 20.0
    far = ops.less(_number(a, limit), ops.abs(a))
    near = ops.where(far, _number(a, 0.0), a)
    t, s = ops.tan(b), ops.sinh(near)
    beta = ops.add(one, ops.multiply(t, t))
    square = ops.multiply(s, s)
    whole = ops.add(one, ops.multiply(beta, square))
    root = ops.multiply(ops.sqrt(ops.add(one, square)), s)
    real = ops.divide(ops.multiply(beta, root), whole)
    decay = ops.exp(_scaled(ops.abs(a), -2.0))
    slight = ops.multiply(_scaled(ops.multiply(ops.sin(b), ops.cos(b)), 4.0), decay)
    slight = ops.where(_wild(a, b), _number(a, 0.0), slight)
    imaginary = ops.where(far, slight, ops.divide(t, whole))
    end = ops.copysign(one, a)
    end = ops.where(ops.isinf(a), end, ops.add(end, _scaled(t, 0.0)))  # nan where b is not finite
    real = ops.where(far, end, real)
    return _keep_zero(a, real), _keep_zero(b, imaginary)


def sin(x: Parts) -> Parts:
    """-i sinh(ix)."""
    return _turned_back(sinh(_turned(x)))


def cos(x: Parts) -> Parts:
    """cosh(ix)."""
    return cosh(_turned(x))


def tan(x: Parts) -> Parts:
    """-i tanh(ix)."""
    return _turned_back(tanh(_turned(x)))


# -- inverse functions -----------------------------------------------------------------------------
def _is_far(x: Parts) -> Node:
    limit = _number(x[0], _large(x[0]))
    return ops.logical_or(*(ops.less(limit, ops.abs(part)) for part in x))


def _far_log(x: Parts) -> Node:
    """log |2x| of a large x."""
    half = hypot(*(_scaled(part, 0.25) for part in x))
    return ops.add(ops.log(half), _number(x[0], math.log(8.0)))


def _from_one(x: Parts) -> tuple[Parts, Parts]:
    """sqrt(1 - x) and sqrt(1 + x)."""
    a, b = x
    one = _number(a, 1.0)
    return sqrt((ops.subtract(one, a), ops.negative(b))), sqrt((ops.add(one, a), b))


def _cross(x: Parts, y: Parts) -> Node:
    """The imaginary part of conj(y) x."""
    return ops.subtract(ops.multiply(y[0], x[1]), ops.multiply(y[1], x[0]))


def acos(x: Parts) -> Parts:
    """2 atan2(Re √(1-x), Re √(1+x)) + i asinh(Im(conj(√(1+x)) √(1-x)))."""
    a, b = x
    minus, plus = _from_one(x)
    far = _is_far(x)
    real = _scaled(ops.atan2(minus[0], plus[0]), 2.0)
    imaginary = ops.asinh(_cross(minus, plus))
    real = ops.where(far, ops.atan2(ops.abs(b), a), real)
    real = ops.where(_is_zero(a), _number(a, math.pi / 2), real)  # also of 0 + i nan
    return real, ops.where(far, ops.copysign(_far_log(x), ops.negative(b)), imaginary)


def asinh(x: Parts) -> Parts:
    """By √(1+ix) and √(1-ix), as :func:`acos`."""
    a, b = x
    one = _number(a, 1.0)
    plus = sqrt((ops.add(one, b), ops.negative(a)))
    minus = sqrt((ops.subtract(one, b), a))
    far = _is_far(x)
    real = ops.asinh(
        ops.subtract(ops.multiply(plus[0], minus[1]), ops.multiply(minus[0], plus[1]))
    )
    product = ops.subtract(ops.multiply(plus[0], minus[0]), ops.multiply(plus[1], minus[1]))
    imaginary = ops.where(far, ops.atan2(b, ops.abs(a)), ops.atan2(b, product))
    return ops.where(far, ops.copysign(_far_log(x), a), real), _keep_zero(b, imaginary)


def asin(x: Parts) -> Parts:
    """-i asinh(ix)."""
    return _turned_back(asinh(_turned(x)))


def acosh(x: Parts) -> Parts:
    """asinh(Re(conj(√(x-1)) √(x+1))) + 2i atan2(Im √(x-1), Re √(x+1))."""
    a, b = x
    one = _number(a, 1.0)
    minus, plus = sqrt((ops.subtract(a, one), b)), sqrt((ops.add(a, one), b))
    far = _is_far(x)
    real = ops.asinh(
        ops.add(ops.multiply(minus[0], plus[0]), ops.multiply(minus[1], plus[1]))
    )
    imaginary = _scaled(ops.atan2(minus[1], plus[0]), 2.0)
    imaginary = ops.where(far, ops.atan2(b, a), imaginary)
    quarter = ops.copysign(_number(a, math.pi / 2), b)
    return ops.where(far, _far_log(x), real), ops.where(_is_zero(a), quarter, imaginary)


def atanh(x: Parts) -> Parts:
    """log1p(4a / ((1-a)² + b²)) / 4 + i atan2(2b, (1-a)(1+a) - b²) / 2, for a ≥ 0; odd."""
    a, b = ops.abs(x[0]), ops.where(ops.signbit(x[0]), ops.negative(x[1]), x[1])
    one = _number(a, 1.0)
    away, size = ops.subtract(one, a), ops.abs(b)
    square = ops.add(ops.multiply(away, away), ops.multiply(b, b))
    real = _scaled(ops.log1p(ops.divide(_scaled(a, 4.0), square)), 0.25)
    angle = ops.subtract(ops.multiply(away, ops.add(one, a)), ops.multiply(b, b))
    imaginary = _scaled(ops.atan2(_scaled(b, 2.0), angle), 0.5)
    tiny = _number(a, 1e-18 if a.dtype is float32 else 1e-150)
    pole = ops.logical_and(_is_zero(away), ops.less(size, tiny))
    beside = ops.subtract(_number(a, 0.5 * math.log(2.0)), _scaled(ops.log(size), 0.5))
    real = ops.where(pole, beside, real)
    half_pi = _number(a, math.pi / 2)
    at_pole = ops.where(_is_zero(b), b, ops.copysign(_number(a, math.pi / 4), b))
    imaginary = ops.where(pole, at_pole, imaginary)
    far = _is_distant(a, b)
    modulus = hypot(_scaled(a, 0.5), _scaled(b, 0.5))
    slight = ops.divide(ops.divide(_scaled(a, 0.25), modulus), modulus)
    slight = ops.where(ops.isinf(modulus), _number(a, 0.0), slight)
    real = _keep_zero(a, ops.where(far, slight, real))
    unknown = ops.logical_or(ops.isnan(b), ops.logical_and(ops.isnan(a), ops.isfinite(b)))
    turn = ops.where(unknown, _number(a, math.nan), ops.copysign(half_pi, b))
    imaginary = ops.where(far, turn, imaginary)
    flip = ops.signbit(x[0])
    return (
        ops.where(flip, ops.negative(real), real),
        ops.where(flip, ops.negative(imaginary), imaginary),
    )


def _is_distant(a: Node, b: Node) -> Node:
    """So far that squares may overflow."""
    limit = _number(a, 1e18 if a.dtype is float32 else 1e150)
    return ops.logical_or(ops.less(limit, a), ops.less(limit, ops.abs(b)))


def atan(x: Parts) -> Parts:
    """-i atanh(ix)."""
    return _turned_back(atanh(_turned(x)))
