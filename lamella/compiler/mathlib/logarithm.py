"""log, log2, log10, log1p and the inverse hyperbolic functions.

Method: x = m 2**e with m in [sqrt(1/2), sqrt(2)); log m = f + rest with f = m - 1, ``rest`` from a
polynomial (float32) or from the series of atanh(f / (2 + f)) (float64, as in fdlibm). The inverse
hyperbolic functions of float32 are computed in float64. Largest errors
seen, in ulp (float32 / float64): log 1 / 0.75, log2 1.1 / 0.9, log10 1 / 0.85, log1p 1.6 / 1.05,
asinh 0.51 / 1.5, acosh 0.51 / 2, atanh 0.5 / 1.3.
"""

from __future__ import annotations

from typing import Final

from lamella.compiler.mathlib.terms import (
    FLOAT32,
    FLOAT64,
    Format,
    absolute,
    add,
    bits,
    both,
    copysign,
    div,
    eq,
    fma,
    horner,
    lt,
    mul,
    neg,
    numbers,
    real,
    select,
    shl,
    shr,
    sqrt,
    sub,
    two_sum,
)  # fmt: skip
from lamella.ir.loops import Expr

__all__ = ["acosh", "asinh", "atanh", "log", "log10", "log1p", "log2", "split"]

_INF: Final = float("inf")
_NAN: Final = float("nan")
# (log(1+f) - f + f**2/2) / f**3
_LOG32: Final = numbers(
    "0x1.555554p-2 -0x1.0000cep-2 0x1.999f14p-3 -0x1.54d03ep-3 0x1.231ce6p-3 -0x1.0a33eap-3 "
    "0x1.02814ep-3 -0x1.43b246p-4"
)  # fmt: skip
# (2 atanh(s) - 2 s) / s**3 in s**2
_LOG64: Final = numbers(
    "0x1.5555555555555p-1 0x1.9999999999a38p-2 0x1.2492492476ba1p-2 0x1.c71c72017a172p-3 "
    "0x1.745cf8f6c89d1p-3 0x1.3b1c3847617c4p-3 0x1.0fbe4785a7ff9p-3 0x1.0c06cf24ff038p-3"
)  # fmt: skip
Parts = tuple[float, ...]  # two
_LN2: Final[dict[Format, Parts]] = {
    FLOAT32: numbers("0x1.62e430p-1 -0x1.05c610p-29"),
    FLOAT64: numbers("0x1.62e42fefa39efp-1 0x1.abc9e3b39803fp-56"),
}
_LOG2E: Final[dict[Format, Parts]] = {
    FLOAT32: numbers("0x1.715476p+0 0x1.4ae0c0p-26"),
    FLOAT64: numbers("0x1.71547652b82fep+0 0x1.777d0ffda0d24p-56"),
}
_LOG10E: Final[dict[Format, Parts]] = {
    FLOAT32: numbers("0x1.bcb7b2p-2 -0x1.5b235ep-27"),
    FLOAT64: numbers("0x1.bcb7b1526e50ep-2 0x1.95355baaafad3p-57"),
}
_LOG10_2: Final[dict[Format, Parts]] = {
    FLOAT32: numbers("0x1.344136p-2 -0x1.ec10c0p-27"),
    FLOAT64: numbers("0x1.34413509f79ffp-2 -0x1.9dc1da994fd21p-59"),
}
_HALF_ROOT: Final = {FLOAT32: 0x3F3504F3, FLOAT64: 0x3FE6A09E667F3BCD}  # the bits of sqrt(1/2)
_SMALLEST: Final = {FLOAT32: 2.0**-126, FLOAT64: 2.0**-1022}
_LARGE: Final = 2.0**400  # beyond it x**2 overflows, and log1p is log


def split(x: Expr, form: Format) -> tuple[Expr, Expr]:
    """(m, e) with x = m * 2**e, m in [sqrt(1/2), sqrt(2)), for normal x > 0; e is an integer."""
    b = bits(x, form)
    e = shr(sub(b, form.int(_HALF_ROOT[form])), form.mantissa)
    return real(sub(b, shl(e, form.mantissa)), form), e


def to_real(e: Expr, form: Format) -> Expr:
    """A small integer as a number (without a conversion, which is slow for 64 bits on some
    machines).
    """
    return sub(real(add(e, form.int(_magic_bits(form))), form), form.magic)


def _magic_bits(form: Format) -> int:
    return ((form.bias + form.mantissa) << form.mantissa) | (1 << (form.mantissa - 1))


def _rest(f: Expr, form: Format) -> Expr:
    """log(1 + f) - f"""
    if form == FLOAT32:
        return mul(mul(f, f), fma(f, horner(f, _LOG32, form), form.const(-0.5)))
    s = div(f, add(form.const(2.0), f))
    z = mul(s, s)
    half = mul(form.const(0.5), mul(f, f))
    return fma(s, fma(z, horner(z, _LOG64, form), half), neg(half))


def parts(x: Expr, form: Format) -> tuple[Expr, Expr, Expr]:
    """(e, f, rest) with log x = e log 2 + f + rest, for finite x > 0."""
    low = lt(x, form.const(_SMALLEST[form]))
    lift = form.mantissa + 1
    m, e = split(select(low, mul(x, form.const(2.0**lift)), x), form)
    e = add(to_real(e, form), select(low, form.const(-float(lift)), form.const(0.0)))
    f = sub(m, form.const(1.0))
    return e, f, _rest(f, form)


def _edges(x: Expr, value: Expr, form: Format) -> Expr:
    """Log where x is 0, negative, infinite or nan."""
    inside = both(lt(form.const(0.0), x), lt(x, form.const(_INF)))
    at_zero = select(eq(x, form.const(0.0)), form.const(-_INF), form.const(_NAN))
    return select(inside, value, select(eq(x, form.const(_INF)), x, at_zero))


def _sum(e: Expr, two: Parts, f: Expr, rest: Expr, form: Format) -> Expr:
    high, low = two
    return fma(e, form.const(high), add(f, fma(e, form.const(low), rest)))


def log(x: Expr, form: Format) -> Expr:
    """The natural logarithm"""
    e, f, rest = parts(x, form)
    return _edges(x, _sum(e, _LN2[form], f, rest, form), form)


def _in_base(f: Expr, rest: Expr, unit: Parts, form: Format) -> Expr:
    high, low = unit
    return fma(f, form.const(high), fma(rest, form.const(high), mul(f, form.const(low))))


def log2(x: Expr, form: Format) -> Expr:
    """The logarithm to base 2"""
    e, f, rest = parts(x, form)
    return _edges(x, add(e, _in_base(f, rest, _LOG2E[form], form)), form)


def log10(x: Expr, form: Format) -> Expr:
    """The logarithm to base 10"""
    e, f, rest = parts(x, form)
    high, low = _LOG10_2[form]
    small = fma(e, form.const(low), _in_base(f, rest, _LOG10E[form], form))
    return _edges(x, fma(e, form.const(high), small), form)


def log1p(x: Expr, form: Format) -> Expr:
    """log(1 + x): the rounding error c of u = 1 + x joins f, as c / 2**e."""
    one = form.const(1.0)
    u, c = two_sum(one, x)
    m, e = split(u, form)
    shrink = real(sub(form.int(form.bias << form.mantissa), shl(e, form.mantissa)), form)
    f = sub(m, one)
    f = select(lt(u, form.const(2.0**60)), fma(c, shrink, f), f)
    value = _sum(to_real(e, form), _LN2[form], f, _rest(f, form), form)
    edge = _edges(u, copysign(value, x), form)
    return select(eq(x, form.const(_INF)), x, edge)


def asinh(x: Expr, form: Format) -> Expr:
    """log1p(a + a**2 / (1 + sqrt(a**2 + 1))), a = |x|; log a + log 2 where a is large"""
    a = absolute(x)
    large = lt(form.const(_LARGE), a)
    square = mul(a, a)
    root = sqrt(add(square, form.const(1.0)))
    inner = add(a, div(square, add(form.const(1.0), root)))
    u = select(large, a, inner)
    value = add(log1p(u, form), select(large, form.const(_LN2[form][0]), form.const(0.0)))
    return copysign(value, x)


def acosh(x: Expr, form: Format) -> Expr:
    """log1p(t + sqrt(2 t + t**2)), t = x - 1; log x + log 2 where x is large"""
    large = lt(form.const(_LARGE), x)
    t = sub(x, form.const(1.0))
    inner = add(t, sqrt(fma(t, t, add(t, t))))
    u = select(large, x, inner)
    value = add(log1p(u, form), select(large, form.const(_LN2[form][0]), form.const(0.0)))
    return select(lt(x, form.const(1.0)), form.const(_NAN), value)


def atanh(x: Expr, form: Format) -> Expr:
    """log1p(2 a / (1 - a)) / 2, a = |x|"""
    a = absolute(x)
    inner = div(add(a, a), sub(form.const(1.0), a))
    return copysign(mul(form.const(0.5), log1p(inner, form)), x)
