"""sin, cos, tan and their inverses.

Method: x = n pi/2 + r with |r| <= pi/4, computed in float64 with pi/2 in three parts (so that r
keeps full relative accuracy for |x| up to ``HUGE``), beyond that by multiplying the integer
mantissa with the bits of 2/pi that matter (Payne and Hanek). The latter is the unchosen arm of a
``select`` on ``is_huge`` nearly always, so emitters may branch around it. float32 functions of
angles are computed in float64. Largest errors
seen, in ulp (float32 / float64): sin, cos 0.5 / 0.75, tan 0.5 / 1.8, asin 1.55 / 1.5, acos 1.1 / 1,
atan 1.8 / 1.15, atan2 0.5 / 1.5.
"""

from __future__ import annotations

from typing import Final

from lamella.compiler.mathlib.terms import (
    FLOAT32,
    FLOAT64,
    Format,
    Pair,
    absolute,
    add,
    bits,
    both,
    copysign,
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
    real,
    select,
    shl,
    shr,
    sqrt,
    sub,
    two_sum,
)  # fmt: skip
from lamella.dtypes import bool_, float32, float64, int64, uint64
from lamella.ir.loops import Apply, Const, Expr, cast

__all__ = ["acos", "asin", "atan", "atan2", "cos", "huge_angle", "is_huge", "sin", "tan"]

_h = float.fromhex
_HUGE: Final = Const(2.0**40, float64)  # known by identity, see is_huge
_TWO_OVER_PI: Final = int(  # the first 1280 binary digits of 2/pi
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921cfe1deb1cb129a73ee88235f52ebb"
    "4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7"
    "ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d", 16
)  # fmt: skip
_PIO2: Final = numbers("0x1.921fb54442d18p+0 0x1.1a62633145c07p-54 -0x1.f1976b7ed8fbcp-110")
_2_PI: Final = _h("0x1.45f306dc9c883p-1")
# (sin(r)/r - 1)/r**2 and (cos r - 1 + r**2/2)/r**4 in r**2: full float64, and enough for float32
_SIN: Final = numbers(
    "-0x1.5555555555555p-3 0x1.1111111111110p-7 -0x1.a01a01a0198dep-13 0x1.71de3a5455b9ap-19 "
    "-0x1.ae64540000f80p-26 0x1.6121703ee54b3p-33 -0x1.ab0f25d20837dp-41"
)  # fmt: skip
_COS: Final = numbers(
    "0x1.5555555555555p-5 -0x1.6c16c16c16944p-10 0x1.a01a019f4671dp-16 -0x1.27e4fa0d37269p-22 "
    "0x1.1eeb5de1e2947p-29 -0x1.9075bb6680fc7p-37"
)  # fmt: skip
_SIN_LOW: Final = numbers(
    "-0x1.5555555454057p-3 0x1.11110dd6f24a8p-7 -0x1.a0138702eef6bp-13 0x1.6db3872f41a8cp-19"
)
_COS_LOW: Final = numbers(
    "0x1.55555554ff76fp-5 -0x1.6c16bf44b9155p-10 0x1.a015aebf2cff8p-16 -0x1.251d4aa53e28dp-22"
)
# (atan(t)/t - 1)/t**2 on |t| <= tan(pi/8); (asin(t)/t - 1)/t**2 on |t| <= 1/2
_ATAN: Final = {
    FLOAT32: numbers("-0x1.555554p-2 0x1.99971ap-3 -0x1.241d1ep-3 0x1.b7cdc4p-4 -0x1.076a54p-4"),
    FLOAT64: numbers(
        "-0x1.5555555555555p-2 0x1.999999999994cp-3 -0x1.249249248d0a0p-3 0x1.c71c71c2ac30bp-4 "
        "-0x1.745d164cd526ep-4 0x1.3b1390ed63679p-4 -0x1.110e65a8de4c1p-4 0x1.e197010eb3d81p-5 "
        "-0x1.ac640ea2f8159p-5 0x1.74779e7a1fbbdp-5 -0x1.1a2e2bdd3f70dp-5 0x1.089294482ad31p-6"
    ),
}  # fmt: skip
_ASIN: Final = {
    FLOAT32: numbers(
        "0x1.555554p-3 0x1.333432p-4 0x1.6d5b8ep-5 0x1.fd921ap-6 0x1.18e1f6p-6 0x1.14138cp-5"
    ),
    FLOAT64: numbers(
        "0x1.5555555555556p-3 0x1.3333333332ec4p-4 0x1.6db6db6e3292ep-5 0x1.f1c71c1d4a9ffp-6 "
        "0x1.6e8bb1d894ad2p-6 0x1.1c4d343fa3724p-6 0x1.c9cf375a32ce3p-7 0x1.78246f310047fp-7 "
        "0x1.524ea8be5e618p-7 0x1.653a8f38a100ap-8 0x1.1d661566dd6dap-6 -0x1.e7a24fef993d8p-7 "
        "0x1.d78189a82eb9bp-6"
    ),
}  # fmt: skip
_PI_2: Final = {FLOAT32: numbers("0x1.921fb6p+0 -0x1.777a5cp-25"), FLOAT64: _PIO2[:2]}
_TAN_PI_8: Final = 0.41421356237309503
_F: Final = FLOAT64


def is_huge(condition: Expr) -> bool:
    """Whether a condition tests for angles beyond the ordinary reduction: what it guards is long
    and rarely needed.
    """
    return isinstance(condition, Apply) and condition.op == "lt" and condition.args[0] is _HUGE


def huge_angle(condition: Expr) -> Expr:
    """The angle that such a condition tests; what it guards depends on nothing else."""
    if not isinstance(condition, Apply) or not isinstance(condition.args[1], Apply):
        raise TypeError("the condition tests no angle")
    return condition.args[1].args[0]


# -- reduction -------------------------------------------------------------------------------------
def _quadrant(x: Expr) -> tuple[Expr, Expr]:
    """(n as a number, n in the low bits of an integer)."""
    shifted = fma(x, _F.const(_2_PI), _F.magic)
    return sub(shifted, _F.magic), bits(shifted, _F)


def _reduced_short(x: Expr) -> tuple[Pair, Expr]:
    """((r, None), n) for float32 angles: one float64 holds r."""
    n, quadrant = _quadrant(x)
    r = fma(n, _F.const(-_PIO2[1]), fma(n, _F.const(-_PIO2[0]), x))
    return (r, _F.const(0.0)), quadrant


def _reduced(x: Expr) -> tuple[Pair, Expr]:
    """((r, correction), n) for float64 angles."""
    n, quadrant = _quadrant(x)
    first, second, third = (_F.const(p) for p in _PIO2)
    near = product(n, first)
    t, te = two_sum(sub(x, near), neg(fma(n, first, neg(near))))
    w = product(n, second)
    y, ye = two_sum(t, neg(w))
    correction = sub(add(ye, te), fma(n, third, fma(n, second, neg(w))))
    return (y, correction), quadrant


def _window(start: Expr, last: int) -> list[Expr]:
    """Three 64-bit words of 0.(64 zeros)(2/pi) from bit ``start`` on, ``start`` being at most
    ``last``.
    """
    words = [0] + [(_TWO_OVER_PI >> (1280 - 64 * (k + 1))) & (2**64 - 1) for k in range(20)]
    found: list[Expr] = [Const(w, uint64) for w in words[: last // 64 + 5]]
    position = shr(start, 6)
    for step in (16, 8, 4, 2, 1):
        if step <= last // 64:
            moved = Apply(
                "ne",
                (Apply("and", (position, Const(step, uint64)), uint64), Const(0, uint64)),
                bool_,
            )
            kept = min(step + 3, len(found))
            found = [
                select(moved, found[k + step], found[k]) if k + step < len(found) else found[k]
                for k in range(kept)
            ]
    shift = Apply("and", (start, Const(63, uint64)), uint64)
    back = sub(Const(64, uint64), shift)
    return [
        Apply(
            "or",
            (Apply("shl", (found[k], shift), uint64), Apply("shr", (found[k + 1], back), uint64)),
            uint64,
        )
        for k in range(3)
    ]


def _reduced_huge(x: Expr) -> tuple[Pair, Expr]:
    """((r, correction), n) by exact integer arithmetic; |x| = M * 2**E times 192 bits of 2/pi,
    modulo 4.
    """
    raw = Apply("bitcast", (absolute(x),), uint64)
    exponent = shr(raw, 52)
    mantissa = Apply(
        "or", (Apply("and", (raw, Const(2**52 - 1, uint64)), uint64), Const(2**52, uint64)), uint64
    )
    w0, w1, w2 = _window(sub(exponent, Const(1075 - 62, uint64)), 1088)
    mid_low = mul(mantissa, w1)
    mid = add(mid_low, _high_half(mantissa, w2))
    carry = cast(lt(mid, mid_low), uint64)
    high = add(add(mul(mantissa, w0), _high_half(mantissa, w1)), carry)
    n = shr(add(high, Const(2**61, uint64)), 62)
    rest = Apply("bitcast", (sub(high, shl(n, 62)),), int64)
    y, correction = _times_half_pi(rest, mid)
    negative = lt(x, _F.const(0.0))
    pair = select(negative, neg(y), y), select(negative, neg(correction), correction)
    return pair, _turned(negative, n)


def _turned(negative: Expr, n: Expr) -> Expr:
    """The quadrant of x from that of |x|."""
    quadrant = Apply("bitcast", (n,), int64)
    return select(negative, sub(Const(0, int64), quadrant), quadrant)


def _high_half(a: Expr, b: Expr) -> Expr:
    """The high 64 bits of a product of 64-bit integers, from 32-bit halves: vectors have no such
    instruction.
    """
    mask = Const(2**32 - 1, uint64)
    a_low, b_low = Apply("and", (a, mask), uint64), Apply("and", (b, mask), uint64)
    a_high, b_high = shr(a, 32), shr(b, 32)
    cross = add(mul(a_high, b_low), shr(mul(a_low, b_low), 32))
    other = add(mul(a_low, b_high), Apply("and", (cross, mask), uint64))
    return add(mul(a_high, b_high), add(shr(cross, 32), shr(other, 32)))


def _reduced_huge_short(x: Expr) -> tuple[Pair, Expr]:
    """As ``_reduced_huge`` for float32 angles held in float64: M has 24 bits and E is at most 104,
    so 96 bits of 2/pi do.
    """
    raw = Apply("bitcast", (absolute(x),), uint64)
    mantissa = Apply(
        "or",
        (Apply("and", (shr(raw, 29), Const(2**23 - 1, uint64)), uint64), Const(2**23, uint64)),
        uint64,
    )
    start = sub(shr(raw, 52), Const(1075 - 29 + 2, uint64))
    found: list[Expr] = [
        Const((_TWO_OVER_PI >> (1280 - 32 * k - 64)) & (2**64 - 1), uint64) for k in range(6)
    ]
    for step in (2, 1):
        moved = Apply(
            "ne", (Apply("and", (start, Const(32 * step, uint64)), uint64), Const(0, uint64)), bool_
        )
        found = [select(moved, found[k + step], found[k]) for k in range(step + 2)]
    back = sub(Const(32, uint64), Apply("and", (start, Const(31, uint64)), uint64))
    mask = Const(2**32 - 1, uint64)
    w = [Apply("and", (Apply("shr", (f, back), uint64), mask), uint64) for f in found]
    total = add(
        add(shl(mul(mantissa, w[0]), 32), mul(mantissa, w[1])), shr(mul(mantissa, w[2]), 32)
    )
    n = shr(add(total, Const(2**61, uint64)), 62)
    rest = cast(Apply("bitcast", (sub(total, shl(n, 62)),), int64), float64)
    negative = lt(x, _F.const(0.0))
    r = mul(rest, select(negative, _F.const(-_PIO2[0] * 2.0**-62), _F.const(_PIO2[0] * 2.0**-62)))
    return (r, _F.const(0.0)), _turned(negative, n)


def _times_half_pi(high: Expr, low: Expr) -> Pair:
    """(high * 2**64 + low) * 2**-126 * pi/2 for a signed and an unsigned integer."""
    mask = Const(2**32 - 1, int64)
    signed_low = Apply("bitcast", (shr(low, 1),), int64)  # its last bit is far below the result's
    pieces = [
        mul(cast(shr(high, 32), float64), _F.const(2.0**-30)),
        mul(cast(Apply("and", (high, mask), int64), float64), _F.const(2.0**-62)),
        mul(cast(shr(signed_low, 31), float64), _F.const(2.0**-94)),
        mul(
            cast(Apply("and", (signed_low, Const(2**31 - 1, int64)), int64), float64),
            _F.const(2.0**-125),
        ),
    ]
    s, e1 = two_sum(pieces[0], pieces[1])
    s, e2 = two_sum(s, pieces[2])
    rest = add(add(e1, e2), pieces[3])
    y = product(s, _F.const(_PIO2[0]))
    error = fma(s, _F.const(_PIO2[0]), neg(y))
    return y, fma(rest, _F.const(_PIO2[0]), fma(s, _F.const(_PIO2[1]), error))


# -- sine and cosine -------------------------------------------------------------------------------
def _sine(r: Pair, *, low: bool) -> Expr:
    y, correction = r
    z = mul(y, y)
    if low:
        return fma(mul(z, y), horner(z, _SIN_LOW, _F), y)
    half = mul(_F.const(0.5), correction)
    cubic = mul(z, y)
    tail = fma(cubic, horner(z, _SIN, _F), fma(neg(z), half, correction))
    return add(y, tail)


def _cosine(r: Pair, *, low: bool) -> Expr:
    y, correction = r
    z = mul(y, y)
    one = _F.const(1.0)
    if low:
        return fma(mul(z, z), horner(z, _COS_LOW, _F), fma(z, _F.const(-0.5), one))
    half = product(z, _F.const(0.5))
    w = sub(one, half)
    lost = sub(sub(one, w), half)
    return add(w, add(lost, fma(mul(z, z), horner(z, _COS, _F), neg(mul(y, correction)))))


def _choose(r: Pair, quadrant: Expr, *, low: bool) -> tuple[Expr, Expr]:
    """(sin x, cos x) from r and n."""
    sine, cosine = _sine(r, low=low), _cosine(r, low=low)
    odd = Apply("ne", (Apply("and", (quadrant, Const(1, int64)), int64), Const(0, int64)), bool_)
    return _signed(select(odd, cosine, sine), quadrant), _signed(
        select(odd, sine, cosine), add(quadrant, Const(1, int64))
    )


def _signed(value: Expr, quadrant: Expr) -> Expr:
    """value, or -value where bit 1 of ``quadrant`` is set."""
    sign = shl(shr(quadrant, 1), 63)
    return real(Apply("xor", (bits(value, _F), sign), int64), _F)


def _angle(x: Expr, form: Format, which: int) -> Expr:
    """Sin (0), cos (1) or tan (2) in float64."""
    wide = cast(x, float64)
    if form == FLOAT32:
        return _pick(_choose(*_reduced_any(wide), low=True), which)
    ordinary = _pick(_choose(*_reduced(wide), low=False), which)
    rare = _pick(_choose(*_reduced_huge(wide), low=False), which)
    return select(lt(_HUGE, absolute(wide)), add(rare, sub(wide, wide)), ordinary)


def _reduced_any(x: Expr) -> tuple[Pair, Expr]:
    """((r, None), n) for float32 angles of any size.

    What is rare gives one number, so that little has to be written twice: r, whose two lowest bits
    (a relative error of 2**-50) are n modulo 4; nan for infinities.
    """
    (short, none), n = _reduced_short(x)
    (r, _), turns = _reduced_huge_short(x)
    three = Const(3, int64)
    cleared = Apply("and", (bits(r, _F), Const(-4, int64)), int64)
    packed = real(Apply("or", (cleared, Apply("and", (turns, three), int64)), int64), _F)
    either_way = select(lt(_HUGE, absolute(x)), add(packed, sub(x, x)), short)
    beyond = lt(_F.const(_HUGE.value), absolute(x))  # no rare arm of its own
    return (either_way, none), select(beyond, Apply("and", (bits(either_way, _F), three), int64), n)


def _pick(pair: tuple[Expr, Expr], which: int) -> Expr:
    return pair[which] if which < 2 else div(pair[0], pair[1])


def sin(x: Expr, form: Format) -> Expr:
    """The sine of an angle in radians"""
    return _with_zero(x, cast(_angle(x, form, 0), form.dtype))


def cos(x: Expr, form: Format) -> Expr:
    """The cosine of an angle in radians"""
    return cast(_angle(x, form, 1), form.dtype)


def tan(x: Expr, form: Format) -> Expr:
    """Sin x / cos x"""
    return _with_zero(x, cast(_angle(x, form, 2), form.dtype))


def _with_zero(x: Expr, value: Expr) -> Expr:
    """``value``, but x itself where x is a zero (whose sign counts)."""
    return select(eq(x, Const(0.0, x.dtype)), x, value)


# -- inverses --------------------------------------------------------------------------------------
def _atan_small(t: Expr, form: Format) -> Expr:
    """atan(t) - t for |t| <= tan(pi/8)"""
    z = mul(t, t)
    return mul(mul(t, z), horner(z, _ATAN[form], form))


def atan(x: Expr, form: Format) -> Expr:
    """Atan t + k pi/4 with t = x, (x - 1) / (x + 1) or -1 / x, for x >= 0"""
    a, one = absolute(x), form.const(1.0)
    above, far = lt(form.const(_TAN_PI_8), a), lt(form.const(2.0 + _TAN_PI_8), a)
    top = select(far, form.const(-1.0), select(above, sub(a, one), a))
    bottom = select(far, a, select(above, add(a, one), one))
    t = div(top, bottom)
    high, low = _PI_2[form]
    base = select(far, form.const(high), select(above, form.const(high / 2), form.const(0.0)))
    extra = select(far, form.const(low), select(above, form.const(low / 2), form.const(0.0)))
    return copysign(add(base, add(t, add(_atan_small(t, form), extra))), x)


def atan2(y: Expr, x: Expr, form: Format) -> Expr:
    """The angle of the point (x, y)"""
    if form == FLOAT32:
        wide = _atan2(cast(y, float64), cast(x, float64))
        return cast(wide, float32)
    return _atan2(y, x)


def _atan2(y: Expr, x: Expr) -> Expr:
    a, b = absolute(y), absolute(x)
    inf, one, zero = _F.const(float("inf")), _F.const(1.0), _F.const(0.0)
    infinite = both(eq(a, inf), eq(b, inf))
    high = select(infinite, one, greatest(a, b))
    low = select(infinite, one, least(a, b))
    shrink = select(lt(_F.const(2.0**1000), high), _F.const(2.0**-60), one)
    grow = select(lt(high, _F.const(2.0**-900)), _F.const(2.0**60), shrink)
    high, low = mul(high, grow), mul(low, grow)
    high = select(eq(high, zero), one, high)
    above = lt(mul(_F.const(_TAN_PI_8), high), low)
    t = div(select(above, sub(low, high), low), select(above, add(low, high), high))
    first, second = _PIO2[:2]
    base = select(above, _F.const(first / 2), zero)
    extra = select(above, _F.const(second / 2), zero)
    # angle = base + t + small; reflected at pi/4 (a > b) and at pi/2 (x < 0), each keeping the low
    # part of pi
    rest = add(_atan_small(t, _F), extra)
    steep, left = lt(b, a), Apply("signbit", (x,), bool_)
    base, t, rest = _reflected(steep, (base, t, rest), first, second)
    base, t, rest = _reflected(left, (base, t, rest), 2 * first, 2 * second)
    value = copysign(add(base, add(t, rest)), y)
    return select(either(is_nan(x), is_nan(y)), add(x, y), value)


def _reflected(
    where: Expr, angle: tuple[Expr, Expr, Expr], high: float, low: float
) -> tuple[Expr, Expr, Expr]:
    base, t, rest = angle
    return (
        select(where, sub(_F.const(high), base), base),
        select(where, neg(t), t),
        select(where, sub(_F.const(low), rest), rest),
    )


def _asin_series(z: Expr, s: Expr, form: Format) -> Expr:
    """asin(s) - s, where z = s**2 <= 1/4"""
    return mul(mul(s, z), horner(z, _ASIN[form], form))


def _asin_parts(x: Expr, form: Format) -> tuple[Expr, Expr, Expr]:
    """(|x| > 1/2, s, asin(s) - s) with s = |x|, or sqrt((1 - |x|) / 2) and its rounding error where
    |x| > 1/2
    """
    a = absolute(x)
    outer = lt(form.const(0.5), a)
    z = select(outer, mul(form.const(0.5), sub(form.const(1.0), a)), mul(a, a))
    s = select(outer, sqrt(z), a)
    lost = div(fma(neg(s), s, z), add(s, s))
    lost = select(both(outer, lt(form.const(0.0), z)), lost, form.const(0.0))
    return outer, s, add(_asin_series(z, s, form), lost)


def asin(x: Expr, form: Format) -> Expr:
    """Asin a for a <= 1/2, else pi/2 - 2 asin sqrt((1 - a) / 2)"""
    outer, s, rest = _asin_parts(x, form)
    high, low = _PI_2[form]
    two = form.const(2.0)
    far = sub(fma(s, form.const(-2.0), form.const(high)), fma(two, rest, form.const(-low)))
    return copysign(select(outer, far, add(s, rest)), x)


def acos(x: Expr, form: Format) -> Expr:
    """pi/2 - asin x for |x| <= 1/2; 2 asin sqrt((1 - x) / 2) beyond; its reflection for x < -1/2"""
    outer, s, rest = _asin_parts(x, form)
    high, low = _PI_2[form]
    two, minus = form.const(2.0), form.const(-2.0)
    double = mul(two, add(s, rest))
    left = sub(fma(s, minus, form.const(2.0 * high)), fma(two, rest, form.const(-2.0 * low)))
    inner = sub(form.const(high), add(copysign(s, x), sub(copysign(rest, x), form.const(low))))
    return select(outer, select(lt(x, form.const(0.0)), left, double), inner)
