"""Short names for building expressions, and what a floating-point format is to the functions
written with them.

``product`` is a multiplication that no emitter may contract into a following addition: sums that
recover a rounding error need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from lamella.dtypes import DType, bool_, float32, float64, int32, int64, uint32, uint64
from lamella.ir.loops import Apply, Const, Expr

__all__ = [
    "FLOAT32", "FLOAT64", "Format", "Pair", "absolute", "add", "bits", "both", "copysign", "div",
    "either", "eq", "estrin", "fma",
    "greatest", "horner", "is_nan", "least", "le", "lt", "mul", "neg", "numbers", "product", "real",
    "select", "shl", "shr", "sqrt", "sub", "two_sum",
]  # fmt: skip

Pair = tuple[Expr, Expr]  # an unevaluated sum: the value and a far smaller correction


def numbers(text: str) -> tuple[float, ...]:
    """Coefficients, written in hexadecimal so that they are exact.

    >>> numbers("0x1.8p+0 -0x1p-1")
    (1.5, -0.5)
    """
    return tuple(float.fromhex(each) for each in text.split())


@dataclass(frozen=True, slots=True)
class Format:
    """A floating-point format: ``mantissa`` stored bits, exponent ``bias``, and the integer of its
    size. ``scales``: a product by a power of two is one instruction, whatever the power.
    """

    dtype: DType
    integer: DType
    unsigned: DType
    mantissa: int
    bias: int
    scales: bool = field(default=False, compare=False)

    def const(self, value: float) -> Const:
        """A number of this format."""
        return Const(value, self.dtype)

    def int(self, value: int) -> Const:
        """An integer of this format's size."""
        return Const(value, self.integer)

    @property
    def magic(self) -> Const:
        """1.5 * 2**mantissa: adding it rounds to an integer, which stands in the low bits of the
        sum.
        """
        return self.const(1.5 * 2.0**self.mantissa)

    def power(self, exponent: Expr) -> Expr:
        """2**exponent for an integer exponent of normal numbers."""
        return real(shl(add(exponent, self.int(self.bias)), self.mantissa), self)


FLOAT32: Final = Format(float32, int32, uint32, 23, 127)
FLOAT64: Final = Format(float64, int64, uint64, 52, 1023)


def _same(op: str, *args: Expr) -> Expr:
    return Apply(op, args, args[0].dtype)


def add(a: Expr, b: Expr) -> Expr:
    """A + b"""
    return _same("add", a, b)


def sub(a: Expr, b: Expr) -> Expr:
    """A - b"""
    return _same("sub", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    """A * b"""
    return _same("mul", a, b)


def div(a: Expr, b: Expr) -> Expr:
    """A / b"""
    return _same("div", a, b)


def fma(a: Expr, b: Expr, c: Expr) -> Expr:
    """A * b + c, rounded once"""
    return _same("fma", a, b, c)


def neg(a: Expr) -> Expr:
    """-a"""
    return _same("neg", a)


def absolute(a: Expr) -> Expr:
    """|a|"""
    return _same("abs", a)


def sqrt(a: Expr) -> Expr:
    """The square root of a"""
    return _same("sqrt", a)


def greatest(a: Expr, b: Expr) -> Expr:
    """The larger; nan if either is"""
    return _same("max", a, b)


def least(a: Expr, b: Expr) -> Expr:
    """The smaller; nan if either is"""
    return _same("min", a, b)


def copysign(a: Expr, b: Expr) -> Expr:
    """|a| with the sign of b"""
    return _same("copysign", a, b)


def shl(a: Expr, by: int) -> Expr:
    """A << by"""
    return _same("shl", a, Const(by, a.dtype))


def shr(a: Expr, by: int) -> Expr:
    """A >> by"""
    return _same("shr", a, Const(by, a.dtype))


def lt(a: Expr, b: Expr) -> Expr:
    """A < b"""
    return Apply("lt", (a, b), bool_)


def le(a: Expr, b: Expr) -> Expr:
    """A <= b"""
    return Apply("le", (a, b), bool_)


def eq(a: Expr, b: Expr) -> Expr:
    """A == b"""
    return Apply("eq", (a, b), bool_)


def is_nan(a: Expr) -> Expr:
    """Whether a is nan"""
    return Apply("isnan", (a,), bool_)


def both(a: Expr, b: Expr) -> Expr:
    """Both conditions"""
    return Apply("and", (a, b), bool_)


def either(a: Expr, b: Expr) -> Expr:
    """Either condition"""
    return Apply("or", (a, b), bool_)


def select(condition: Expr, a: Expr, b: Expr) -> Expr:
    """A where the condition holds, else b"""
    return Apply("select", (condition, a, b), a.dtype)


def bits(a: Expr, form: Format) -> Expr:
    """The bits of a number, as a signed integer"""
    return Apply("bitcast", (a,), form.integer)


def real(a: Expr, form: Format) -> Expr:
    """The number with these bits"""
    return Apply("bitcast", (a,), form.dtype)


def horner(x: Expr, coefficients: Sequence[float], form: Format) -> Expr:
    """c0 + c1 x + c2 x**2 + ..., from the last term inwards."""
    total: Expr = form.const(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = fma(total, x, form.const(c))
    return total


def estrin(x: Expr, coefficients: Sequence[float], form: Format) -> Expr:
    """c0 + c1 x + c2 x**2 + ..., by halves (Estrin, 1960): a few more products than Horner's rule,
    but a third of the steps that wait for each other.
    """
    terms: list[Expr] = [form.const(c) for c in coefficients]
    while len(terms) > 1:
        last = terms[len(terms) & ~1 :]
        terms = [fma(b, x, a) for a, b in zip(terms[::2], terms[1::2], strict=False)] + last
        x = mul(x, x)
    return terms[0]


def product(a: Expr, b: Expr) -> Expr:
    """A * b, rounded: as a fused a * b - 0, which stays apart from other operations."""
    return fma(a, b, Const(-0.0, a.dtype))


def two_sum(a: Expr, b: Expr) -> Pair:
    """A + b and its rounding error, exactly (Knuth)."""
    total = add(a, b)
    back = sub(total, a)
    return total, add(sub(a, sub(total, back)), sub(b, back))
