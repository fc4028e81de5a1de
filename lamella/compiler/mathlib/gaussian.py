"""erf and erfc.

erf: a polynomial near 0; beyond, 1 - exp(-q(x)) with q = -log erfc (float32) or 1 - erfc (float64).
erfc: exp(-x**2) times a polynomial in t = (x - 4) / (x + 4) divided by 1 + 2 x, as in Shepherd and
Laframboise (1981); in float64 for float32 too. Largest errors seen, in ulp (float32 / float64): erf
1.35 / 0.9, erfc 0.52 / 4.4.
"""

from __future__ import annotations

from typing import Final

from lamella.compiler.mathlib.exponential import exp, near_exp
from lamella.compiler.mathlib.terms import (
    FLOAT32,
    FLOAT64,
    Format,
    absolute,
    add,
    copysign,
    div,
    estrin,
    fma,
    horner,
    least,
    lt,
    mul,
    neg,
    numbers,
    product,
    select,
    sub,
)  # fmt: skip
from lamella.dtypes import float64
from lamella.ir.loops import Expr, cast

__all__ = ["erf", "erfc"]

# erf(x)/x - 1 in x**2, on |x| <= 0.95 (float32) and 1 (float64)
_ERF: Final = {
    FLOAT32: numbers(
        "0x1.06eba8p-3 -0x1.812742p-2 0x1.ce2ddap-4 -0x1.b80a72p-6 0x1.549f5ep-8 -0x1.a8d37ep-11 "
        "0x1.581b9ap-14"
    ),
    FLOAT64: numbers(
        "0x1.06eba8214db69p-3 -0x1.812746b0379e7p-2 0x1.ce2f21a042bdep-4 -0x1.b82ce312889bap-6 "
        "0x1.565bcd0e6502dp-8 -0x1.c02db3feeb579p-11 0x1.f9a326c233145p-14 -0x1.f4d2561aeafc0p-17 "
        "0x1.b9e6509b98553p-20 -0x1.5f6d925a0b07cp-23 0x1.fc43564981ae1p-27 -0x1.4e607b41767c9p-30 "
        "0x1.7f072187e2f91p-34 -0x1.29b9f1b1842a2p-38"
    ),
}  # fmt: skip
# -log erfc(x) on [0.92, 4], weighted by erfc
_TAIL: Final = numbers(
    "-0x1.5001dep-12 0x1.215740p+0 0x1.437d32p-1 0x1.c2f26ep-4 -0x1.b10bbap-6 0x1.382f88p-8 "
    "-0x1.3963c6p-11 0x1.835e50p-15 -0x1.b93140p-20"
)  # fmt: skip
# exp(x**2) erfc(x) (1 + 2 x) in t = (x - 4) / (x + 4): for float64, and enough for float32
_ERFC: Final = numbers(
    "0x1.3ba5916e9fd7fp+0 -0x1.1df1ad154a29cp-3 0x1.f7f5df66fd951p-7 0x1.16ecefcfa6077p-4 "
    "-0x1.9ddb23c3e98a6p-4 0x1.7fee004df6263p-4 -0x1.0fb06dfe46987p-4 0x1.3079edfa1033fp-5 "
    "-0x1.0962388367b2fp-6 0x1.49c671893963fp-8 -0x1.8d4a9dc0d22f3p-11 -0x1.a1de7c6e9ac9cp-13 "
    "0x1.3be0b393ee921p-13 -0x1.996ad056e530bp-16 -0x1.78a43458cca4bp-17 0x1.7fb88e391a9fep-18 "
    "0x1.4392983419eddp-22 -0x1.c05fc977974eap-21 0x1.0d535fce28f99p-24 0x1.ef6c0c38d1a2bp-24 "
    "-0x1.09198a32cd9a9p-27 -0x1.d5bb4c6d5b92dp-27 -0x1.f47207b168acdp-30"
)  # fmt: skip
_ERFC_LOW: Final = numbers(
    "0x1.3ba5916fe47e0p+0 -0x1.1df1afd69caa2p-3 0x1.f7f5622bab157p-7 0x1.16edff1c5addep-4 "
    "-0x1.9dd8a8e08d833p-4 0x1.7fe0ab2fa1ed2p-4 -0x1.0fd495eefd96bp-4 0x1.30da54b4979abp-5 "
    "-0x1.062ddc52966d6p-6 0x1.4dbcbcfc15db3p-8 -0x1.208702de32a46p-10 -0x1.4ba7a5277d5d6p-11"
)  # fmt: skip
_SMALL: Final = {FLOAT32: 0.93, FLOAT64: 1.0}


def erf(x: Expr, form: Format) -> Expr:
    """The error function"""
    a = absolute(x)
    z = mul(a, a)
    near = fma(a, horner(z, _ERF[form], form), a)
    one = form.const(1.0)
    if form == FLOAT32:
        far = sub(one, near_exp(neg(estrin(least(form.const(4.0), a), _TAIL, form)), form))
    else:
        far = sub(one, _erfc_positive(a, _ERFC))
    return copysign(select(lt(a, form.const(_SMALL[form])), near, far), x)


def _erfc_positive(a: Expr, coefficients: tuple[float, ...]) -> Expr:
    """Erfc of a >= 0, in float64"""
    form = FLOAT64
    a = least(form.const(28.0), a)
    t = div(sub(a, form.const(4.0)), add(a, form.const(4.0)))
    scaled = div(horner(t, coefficients, form), fma(a, form.const(2.0), form.const(1.0)))
    square = product(a, a)
    error = fma(a, a, neg(square))
    e = exp(neg(square), form)
    return mul(fma(neg(error), scaled, scaled), e)


def erfc(x: Expr, form: Format) -> Expr:
    """1 - erf(x), without cancellation"""
    wide = cast(x, float64)
    value = _erfc_positive(absolute(wide), _ERFC_LOW if form == FLOAT32 else _ERFC)
    two = FLOAT64.const(2.0)
    return cast(select(lt(wide, FLOAT64.const(0.0)), sub(two, value), value), form.dtype)
