"""exp, exp2, expm1 and the hyperbolic functions.

Method: x = n log 2 + r with |r| <= (log 2) / 2, n taken from the low bits of a sum with 1.5 *
2**mantissa; e**r by a polynomial; 2**n by the instruction for that, or by adding to the exponent
field in two steps, so that subnormal results round correctly: the bits are the same. Polynomials
here and in the other files are interpolants at Chebyshev nodes computed with mpmath. Largest errors
seen, in ulp (float32 / float64): exp 0.96 / 1, exp2 1.1 / 1.1, expm1 1.45 / 1.6, sinh 2 / 2, cosh
1.45 / 1.25, tanh 1.5 / 1.95.
"""

from __future__ import annotations

import math
from typing import Final

from lamella.compiler.mathlib.terms import (
    FLOAT32,
    FLOAT64,
    Format,
    absolute,
    add,
    bits,
    copysign,
    div,
    estrin,
    fma,
    greatest,
    horner,
    least,
    lt,
    mul,
    numbers,
    real,
    select,
    shl,
    shr,
    sub,
)  # fmt: skip
from lamella.ir.loops import Apply, Const, Expr

__all__ = [
    "cosh", "exp", "exp2", "expm1", "falling_exp", "near_exp", "rounding", "scaled_exp", "sinh",
    "tanh",
]  # fmt: skip

# (e**r - 1 - r) / r**2 on |r| <= (log 2) / 2, absolute error for exp, relative for expm1
_EXP: Final = {
    FLOAT32: numbers("0x1p-1 0x1.5554dcp-3 0x1.555518p-5 0x1.120be8p-7 0x1.6d12acp-10"),
    FLOAT64: numbers(
        "0x1.0000000000001p-1 0x1.5555555555556p-3 0x1.5555555553d34p-5 0x1.1111111110933p-7 "
        "0x1.6c16c1789e1a5p-10 0x1.a01a01a80d78ap-13 0x1.a019b8c65274fp-16 0x1.71de0cbe2df6bp-19 "
        "0x1.2891d98b82edap-22 0x1.af3aa9a3b181ap-26"
    ),
}  # fmt: skip
_EXPM1: Final = {
    FLOAT32: numbers(
        "0x1p-1 0x1.555556p-3 0x1.5554e8p-5 0x1.1110e0p-7 0x1.6d43b8p-10 0x1.a126d8p-13"
    ),
    FLOAT64: numbers(
        "0x1p-1 0x1.5555555555555p-3 0x1.5555555555557p-5 0x1.1111111111111p-7 "
        "0x1.6c16c16c15a48p-10 0x1.a01a01a01969bp-13 0x1.a01a01a9f72adp-16 0x1.71de3a5aaefb9p-19 "
        "0x1.27e4d3f50d87fp-22 0x1.ae642c5c1fa33p-26 0x1.1f7f6aa421dd8p-29 0x1.61bff1c64f494p-33"
    ),
}  # fmt: skip
# (2**r - 1 - r log 2) / r**2 on |r| <= 1/2
_EXP2: Final = {
    FLOAT32: numbers("0x1.ebfbe0p-3 0x1.c6afecp-5 0x1.3b2a78p-7 0x1.5ec960p-10 0x1.43f206p-13"),
    FLOAT64: numbers(
        "0x1.ebfbdff82c590p-3 0x1.c6b08d704a0c1p-5 0x1.3b2ab6fba381ap-7 0x1.5d87fe78a57f2p-10 "
        "0x1.430913039207fp-13 0x1.ffcbfc6509c29p-17 0x1.62bfe401164a7p-20 0x1.b524ff12a8c81p-24 "
        "0x1.e5ead05c0f3ecp-28 0x1.e9ceb25a798ccp-32"
    ),
}  # fmt: skip
# (tanh(x)/x - 1)/x**2 in x**2 on |x| <= 0.55
_TANH: Final = numbers("-0x1.555554p-2 0x1.110fe4p-3 -0x1.b99e96p-5 0x1.5d0d7ep-6 -0x1.b09aep-8")
_LOG2E: Final = math.log2(math.e)
_LN2: Final = {  # log 2 in two parts of the format
    FLOAT32: numbers("0x1.62e430p-1 -0x1.05c610p-29"),
    FLOAT64: numbers("0x1.62e42fefa39efp-1 0x1.abc9e3b39803fp-56"),
}
_EXP_RANGE: Final = {FLOAT32: (-104.0, 89.0), FLOAT64: (-746.0, 710.0)}
_EXP2_RANGE: Final = {FLOAT32: (-151.0, 129.0), FLOAT64: (-1076.0, 1025.0)}
_EXPM1_LOW: Final = {FLOAT32: -30.0, FLOAT64: -60.0}
_SINH_HIGH: Final = {FLOAT32: 89.5, FLOAT64: 710.6}
_TANH_HIGH: Final = {FLOAT32: 20.0, FLOAT64: 42.0}


def _clamped(x: Expr, low: float, high: float, form: Format) -> Expr:
    return greatest(form.const(low), least(form.const(high), x))


def _reduced(x: Expr, form: Format, magic: Const) -> tuple[Expr, Expr]:
    """(r, n + magic)."""
    shifted = fma(x, form.const(_LOG2E), magic)
    n = sub(shifted, magic)
    high, low = _LN2[form]
    r = fma(n, form.const(-low), fma(n, form.const(-high), x))
    return r, shifted


def _half(form: Format) -> int:
    return (form.bias + 1) // 2


def rounding(form: Format) -> Const:
    """What added to a number leaves n in the low bits, as ``scale`` wants it: with half the range
    of exponents on top, where the exponent's field is added to.
    """
    return form.magic if form.scales else form.const(float(form.magic.value) + _half(form))


def scale(value: Expr, shifted: Expr, x: Expr, form: Format, shift: int = 0) -> Expr:
    """Value * 2**(n + shift) for value in [1/2, 2] and ``shifted`` = n + ``rounding``; n has the
    sign of ``x``.

    Without the instruction: value * 2**(n + a) * 2**(shift - a), where the first product is an
    ordinary number: a = half + 1 for x below 0, else 1 - half. So the sign bit, moved to the
    exponent's highest, makes the one factor of the other sign from the other.
    """
    if form.scales:
        n = sub(shifted, form.const(float(form.magic.value) - shift))
        return Apply("ldexp", (value, n), form.dtype)
    top = (form.bias + 1) << form.mantissa
    word = form.unsigned
    n, sign = (Apply("bitcast", (e,), word) for e in (shifted, x))
    sign = Apply("and", (shr(sign, 1), Const(top, word)), word)
    near = mul(value, real(add(shl(n, form.mantissa), sign), form))
    rest = Const((form.bias + shift + _half(form) - 1) << form.mantissa, word)
    return mul(near, real(sub(rest, sign), form))


def scaled_exp(x: Expr, form: Format, shift: int = 0) -> Expr:
    """e**x * 2**shift"""
    low, high = _EXP_RANGE[form]
    x = _clamped(x, low, high + 1 if shift < 0 else high, form)
    r, shifted = _reduced(x, form, rounding(form))
    return scale(horner(r, (1.0, 1.0, *_EXP[form]), form), shifted, x, form, shift)


def exp(x: Expr, form: Format) -> Expr:
    """e**x"""
    return scaled_exp(x, form)


def falling_exp(x: Expr, form: Format) -> Expr:
    """e**x for x <= 0 or nan: the bits of ``exp``. Only one end of the range needs care, and n is
    moved up into the range of ordinary numbers as it is rounded.
    """
    x = greatest(form.const(_EXP_RANGE[form][0]), x)
    up = _half(form) + 1
    lifted = form.const(float(form.magic.value) + form.bias + up)
    r, shifted = _reduced(x, form, rounding(form) if form.scales else lifted)
    value = horner(r, (1.0, 1.0, *_EXP[form]), form)
    if form.scales:
        return scale(value, shifted, x, form)
    near = mul(value, real(shl(bits(shifted, form), form.mantissa), form))
    return mul(near, form.const(2.0**-up))


def near_exp(x: Expr, form: Format) -> Expr:
    """e**x for x between -80 and 80, or nan: to 1.5 ulp, with few steps after each other."""
    r, shifted = _reduced(x, form, form.magic)
    n = add(shl(bits(shifted, form), form.mantissa), form.int(form.bias << form.mantissa))
    value = add(form.const(1.0), fma(mul(r, r), estrin(r, _EXP[form], form), r))
    return mul(value, real(n, form))


def exp2(x: Expr, form: Format) -> Expr:
    """2**x"""
    x = _clamped(x, *_EXP2_RANGE[form], form)
    shifted = add(x, rounding(form))
    r = sub(x, sub(shifted, rounding(form)))
    rest = fma(mul(r, r), horner(r, _EXP2[form], form), mul(r, form.const(_LN2[form][0])))
    return scale(add(form.const(1.0), rest), shifted, x, form)


def _expm1_part(x: Expr, form: Format, shift: int) -> Expr:
    """(e**x - 1) * 2**-shift, for x not below the range."""
    r, shifted = _reduced(x, form, form.magic)
    n = bits(shifted, form)
    q = fma(mul(r, r), horner(r, _EXPM1[form], form), r)
    s = real(add(shl(n, form.mantissa), form.int((form.bias - shift) << form.mantissa)), form)
    return fma(s, q, sub(s, form.const(2.0**-shift)))


def expm1(x: Expr, form: Format) -> Expr:
    """e**x - 1"""
    half = _expm1_part(_clamped(x, _EXPM1_LOW[form], _EXP_RANGE[form][1], form), form, 1)
    return copysign(add(half, half), x)


def sinh(x: Expr, form: Format) -> Expr:
    """(e**x - e**-x) / 2, from t = (e**|x| - 1) / 4: 2 (t + t / (4 t + 1))"""
    t = _expm1_part(least(form.const(_SINH_HIGH[form]), absolute(x)), form, 2)
    rest = div(t, fma(t, form.const(4.0), form.const(1.0)))
    total = add(t, rest)
    return copysign(add(total, total), x)


def cosh(x: Expr, form: Format) -> Expr:
    """(e**x + e**-x) / 2, from E = e**|x| / 2: E + 1 / (4 E)"""
    e = scaled_exp(absolute(x), form, -1)
    return add(e, div(form.const(0.25), e))


def tanh(x: Expr, form: Format) -> Expr:
    """With h = (e**(2|x|) - 1) / 2: h / (h + 1); a polynomial near 0 for float32, whose bound is
    tighter
    """
    a = absolute(x)
    h = _expm1_part(least(form.const(_TANH_HIGH[form]), add(a, a)), form, 1)
    value = div(h, add(h, form.const(1.0)))
    if form == FLOAT32:
        z = mul(a, a)
        value = select(lt(a, form.const(0.55)), fma(mul(a, z), horner(z, _TANH, form), a), value)
    return copysign(value, x)
