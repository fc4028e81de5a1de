"""pow, of floating-point numbers and of integers.

float64: log2 |a| as an unevaluated sum good to 2**-66, times b, then 2**. float32: the same in
plain float64. Integers: square and multiply. Largest errors seen, in ulp (float32 / float64): 0.5 /
1.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lamella.compiler.mathlib.exponential import _EXP2, exp2, rounding, scale
from lamella.compiler.mathlib.logarithm import log2, split, to_real
from lamella.compiler.mathlib.terms import (
    FLOAT32,
    FLOAT64,
    Format,
    Pair,
    absolute,
    add,
    both,
    div,
    either,
    eq,
    fma,
    greatest,
    horner,
    is_nan,
    least,
    lt,
    mul,
    neg,
    numbers,
    product,
    select,
    shr,
    sub,
    two_sum,
)  # fmt: skip
from lamella.dtypes import DType, bool_, float64
from lamella.ir.loops import Apply, Const, Expr, cast

__all__ = ["integer_power", "power"]

_F: Final = FLOAT64
# 2 atanh(s)/s - 2 - 2/3 s**2, over s**4, in s**2
_SERIES: Final = numbers(
    "0x1.999999999999ap-2 0x1.2492492492522p-2 0x1.c71c71c6ea871p-3 0x1.745d177aad03ep-3 "
    "0x1.3b1395c880b88p-3 0x1.1118c9ee6ddf1p-3 0x1.df7c5bc488f61p-4 0x1.e032e4f5a5cc8p-4"
)  # fmt: skip
_TWO_THIRDS: Final = numbers("0x1.5555555555555p-1 0x1.5555555555555p-55")
_LOG2E: Final = numbers("0x1.71547652b82fep+0 0x1.777d0ffda0d24p-56")
_LN2: Final = numbers("0x1.62e42fefa39efp-1 0x1.abc9e3b39803fp-56")
_INF: Final = float("inf")


def _quick_sum(a: Expr, b: Expr) -> Pair:
    """A + b and its error, for |a| >= |b| (Dekker)."""
    total = add(a, b)
    return total, sub(b, sub(total, a))


def _times(a: Pair, b: Pair) -> Pair:
    """The product of two unevaluated sums."""
    high = product(a[0], b[0])
    low = fma(a[0], b[0], neg(high))
    return high, fma(a[0], b[1], fma(a[1], b[0], low))


def _log2_pair(a: Expr) -> Pair:
    """log2 of a finite a > 0 as an unevaluated sum."""
    small = lt(a, _F.const(2.0**-1022))
    m, e = split(select(small, mul(a, _F.const(2.0**53)), a), _F)
    exponent = add(to_real(e, _F), select(small, _F.const(-53.0), _F.const(0.0)))
    one = _F.const(1.0)
    f, (d, d_low) = sub(m, one), two_sum(m, one)
    s = div(f, d)
    s_low = div(sub(fma(neg(s), d, f), mul(s, d_low)), d)
    z = product(s, s)
    z_low = fma(s, mul(_F.const(2.0), s_low), fma(s, s, neg(z)))
    cubic = _times((_F.const(_TWO_THIRDS[0]), _F.const(_TWO_THIRDS[1])), (z, z_low))
    inner = _quick_sum(_F.const(2.0), cubic[0])
    inner_low = add(add(inner[1], cubic[1]), mul(mul(z, z), horner(z, _SERIES, _F)))
    natural = _times((s, s_low), _quick_sum(inner[0], inner_low))
    binary = _times(_quick_sum(*natural), (_F.const(_LOG2E[0]), _F.const(_LOG2E[1])))
    total, error = two_sum(exponent, binary[0])
    return total, add(error, binary[1])


def _exp2_pair(high: Expr, low: Expr) -> Expr:
    """2**(high + low)"""
    clamped = greatest(_F.const(-1100.0), least(_F.const(1100.0), high))
    low = select(eq(clamped, high), low, _F.const(0.0))
    shifted = add(clamped, rounding(_F))
    r = add(sub(clamped, sub(shifted, rounding(_F))), low)
    rest = fma(
        mul(r, r), horner(r, _EXP2[_F], _F), fma(r, _F.const(_LN2[0]), mul(r, _F.const(_LN2[1])))
    )
    return scale(add(_F.const(1.0), rest), shifted, clamped, _F)


def power(a: Expr, b: Expr, form: Format) -> Expr:
    """A ** b, with the special cases of IEEE 754 pow"""
    if isinstance(b, Const) and b.value in _SHORT:
        return _SHORT[float(b.value)](a, form)
    base, exponent = cast(absolute(a), float64), cast(b, float64)
    finite = greatest(_F.const(-(2.0**66)), least(_F.const(2.0**66), exponent))
    if form == FLOAT32:
        value = exp2(mul(finite, log2(base, _F)), _F)
    else:
        high, low = _log2_pair(base)
        total = product(finite, high)
        value = _exp2_pair(total, fma(finite, low, fma(finite, high, neg(total))))
    return cast(_special(cast(a, float64), exponent, base, value), form.dtype)


def _special(a: Expr, b: Expr, base: Expr, value: Expr) -> Expr:
    """The sign and the special cases, for a value computed from |a|."""
    zero, one, inf, nan = (_F.const(v) for v in (0.0, 1.0, _INF, float("nan")))
    falling = lt(b, zero)
    value = select(eq(base, zero), select(falling, inf, zero), value)
    value = select(eq(base, inf), select(falling, zero, inf), value)
    whole = eq(Apply("floor", (b,), float64), b)
    half = mul(b, _F.const(0.5))
    odd = both(whole, Apply("ne", (Apply("floor", (half,), float64), half), bool_))
    value = select(both(Apply("signbit", (a,), bool_), odd), neg(value), value)
    undefined = both(both(lt(a, zero), lt(base, inf)), Apply("not", (whole,), bool_))
    value = select(either(undefined, either(is_nan(a), is_nan(b))), nan, value)
    return select(either(eq(b, zero), eq(a, one)), one, value)


_SHORT: Final[dict[float, Callable[[Expr, Format], Expr]]] = {
    1.0: lambda a, form: a,
    2.0: lambda a, form: mul(a, a),
    -1.0: lambda a, form: div(form.const(1.0), a),
}


def integer_power(a: Expr, b: Expr, dtype: DType) -> Expr:
    """A ** b modulo 2**bits; a negative exponent gives 0, or the power of 1 or -1"""
    one = Const(1, dtype)
    result: Expr = one
    square = a
    bits_used = _exponent_bits(b, dtype)
    for k in range(bits_used):
        bit = Apply("and", (shr(b, k), one), dtype)
        result = select(eq(bit, one), mul(result, square), result)
        if k + 1 < bits_used:
            square = mul(square, square)
    if dtype.kind != "i" or isinstance(b, Const):
        return result if not isinstance(b, Const) or b.value >= 0 else _inverse(a, b, dtype)
    return select(lt(b, Const(0, dtype)), _inverse(a, b, dtype), result)


def _exponent_bits(b: Expr, dtype: DType) -> int:
    if isinstance(b, Const):
        return max(int(b.value).bit_length(), 1) if b.value >= 0 else 1
    return dtype.bits - (dtype.kind == "i")


def _inverse(a: Expr, b: Expr, dtype: DType) -> Expr:
    """A ** b for b < 0"""
    one, minus = Const(1, dtype), Const(-1, dtype)
    odd = eq(Apply("and", (b, one), dtype), one)
    return select(eq(a, one), one, select(eq(a, minus), select(odd, minus, one), Const(0, dtype)))
