"""The error function's relatives: scaled, inverse, and the logarithm of the normal distribution.

float16, bfloat16 and float32 are computed in float64 and rounded once. Errors of float64 seen
against mpmath, in units in the last place: erfcx 4, erfinv 3, erfcinv 4, log_ndtr 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from lamella.ir.node import Node
from lamella.ops import special_tables as tables
from lamella.ops.arithmetic import divide, like, multiply, subtract
from lamella.ops.comparison import less, where
from lamella.ops.exponential import exp
from lamella.ops.families import unary_builder
from lamella.ops.formula import Formula, Term, polynomial
from lamella.ops.formula import where as choose

__all__ = [
    "Erfcinv", "Erfcx", "Erfinv", "LogNdtr", "erfcinv", "erfcx", "erfinv", "log_ndtr",
]  # fmt: skip

_ROOT_PI: Final = math.sqrt(math.pi)
_NAN: Final = math.nan
_INF: Final = math.inf


def _erfcx_positive(x: Term) -> Term:
    """``exp(x**2) erfc(x)`` for x >= 0."""
    t = 1.0 - 8.0 / (x + 4.0)
    return polynomial(t, tables.ERFCX) / (x + x + 1.0)


def _exp_square(x: Term) -> Term:
    """``exp(x**2)``, with the rounding error of the square made good."""
    square = x.call("fma", x, -0.0)
    error = x.call("fma", x, -square)
    e = square.call("exp")
    return choose(e < _INF, e.call("fma", error, e), e)


def _erfcx(x: Term) -> Term:
    """The scaled complementary error function."""
    value = _erfcx_positive(abs(x))
    below = _exp_square(x.call("max", -27.0)) * 2.0 - value
    return choose(x < 0.0, choose(x < -26.7, _INF, below), value)


@dataclass(frozen=True, slots=True)
class Erfcx(Formula):
    """``exp(a**2) erfc(a)``."""

    name: ClassVar[str] = "erfcx"

    def formula(self, *x: Term) -> Term:
        """A polynomial in 1 - 8 / (a + 4) over 1 + 2 a (Shepherd and Laframboise, 1981)."""
        return _erfcx(x[0])

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``2 x y - 2 / sqrt(pi)``; its asymptotic series from 40 on, where that cancels."""
        x = node.inputs[0]
        plain = subtract(multiply(multiply(x, like(x, 2)), node), like(x, 2 / _ROOT_PI))
        inverse = divide(like(x, 1), multiply(x, x))  # (-1 + 3 / (2 x**2)) / (sqrt(pi) x**2)
        series = subtract(multiply(inverse, like(x, 1.5)), like(x, 1))
        far = multiply(multiply(inverse, series), like(x, 1 / _ROOT_PI))
        return (where(less(like(x, 40), x), far, plain),)


def _erfinv_small(x: Term, single: bool) -> Term:
    """The inverse of erf for |x| <= 1/2."""
    table = tables.ERFINV_SINGLE if single else tables.ERFINV
    return x * polynomial((x * x).call("fma", 8.0, -1.0), table)


def _erfcinv_small(p: Term) -> Term:
    """The inverse of erfc for 0 < p <= 1/2: a start good to 3e-7, then Halley's step."""
    log_p = p.call("log")
    s = (-log_p).call("sqrt")
    low, high = -0.68, 0.76
    t = ((s - 4.0) / (s + 4.0) * 2.0 - (high + low)) / (high - low)
    y = s * polynomial(t, tables.ERFCINV)
    scaled = _erfcx_positive(y)
    gap = (log_p - scaled.call("log") + y * y).call("expm1")  # p / erfc(y) - 1
    step = gap * scaled * (_ROOT_PI / 2)
    return y - step / (step * y + 1.0)


def _erfcinv_single(p: Term, high: float, table: tuple[float, ...]) -> Term:
    """The inverse of erfc for small p, to 1e-10."""
    s = (-p.call("log")).call("sqrt")
    width = high + 0.68
    # ((s - 4) / (s + 4) + 0.68) 2 / width - 1
    t = (2 * 1.68 / width - 1.0) - (16.0 / width) / (s + 4.0)
    return s * polynomial(t, table)


def _erfcinv(p: Term, single: bool = False) -> Term:
    """The inverse of erfc on [0, 2]."""
    small = p.call("min", 2.0 - p)
    bounded = small.call("min", 0.5).call("max", 1e-46 if single else 5e-324)
    if single:
        tail = _erfcinv_single(bounded, 0.46, tables.ERFCINV_SINGLE)
    else:
        tail = _erfcinv_small(bounded)
    value = choose(p < 1.0, tail, -tail)
    value = choose(abs(p - 1.0) <= 0.5, _erfinv_small(1.0 - p, single), value)
    value = choose(small.equals(0.0), choose(p < 1.0, _INF, -_INF), value)
    return choose(small >= 0.0, value, _NAN)


def _erfinv(x: Term, single: bool = False) -> Term:
    """The inverse of erf on [-1, 1]."""
    a = abs(x)
    rest = 1.0 - a
    bounded = rest.call("min", 0.5).call("max", 5e-8 if single else 1e-17)
    if single:
        tail = _erfcinv_single(bounded, 0.02, tables.ERFINV_TAIL)
    else:
        tail = _erfcinv_small(bounded)
    tail = tail.call("copysign", x)
    value = choose(a <= 0.5, _erfinv_small(x, single), tail)
    value = choose(rest.equals(0.0), x * _INF, value)
    return choose(a <= 1.0, value, _NAN)


def _bell(node: Node, scale: float) -> Node:
    """``scale * exp(y**2)``."""
    return multiply(exp(multiply(node, node)), like(node, scale))


@dataclass(frozen=True, slots=True)
class Erfinv(Formula):
    """The inverse of erf."""

    name: ClassVar[str] = "erfinv"
    sample_range: ClassVar[tuple[float, float]] = (-0.9, 0.9)

    def formula(self, *x: Term) -> Term:
        """A polynomial below 1/2, a polynomial and Halley's step above."""
        return _erfinv(x[0])

    def single(self, *x: Term) -> Term:
        """Without Halley's step."""
        return _erfinv(x[0], True)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``sqrt(pi) / 2 exp(y**2)``."""
        return (_bell(node, _ROOT_PI / 2),)


@dataclass(frozen=True, slots=True)
class Erfcinv(Formula):
    """The inverse of erfc."""

    name: ClassVar[str] = "erfcinv"
    sample_range: ClassVar[tuple[float, float]] = (0.1, 1.9)

    def formula(self, *x: Term) -> Term:
        """As erfinv, with full precision for the smallest numbers."""
        return _erfcinv(x[0])

    def single(self, *x: Term) -> Term:
        """Without Halley's step."""
        return _erfcinv(x[0], True)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``-sqrt(pi) / 2 exp(y**2)``."""
        return (_bell(node, -_ROOT_PI / 2),)


@dataclass(frozen=True, slots=True)
class LogNdtr(Formula):
    """The logarithm of the standard normal distribution function."""

    name: ClassVar[str] = "log_ndtr"

    def formula(self, *x: Term) -> Term:
        """``log(erfcx(u) / 2) - u**2`` below -1, ``log1p(-erfc(-u) / 2)`` above, u = -a/sqrt(2)."""
        (a,) = x
        u = a * (-1 / math.sqrt(2))
        low = (_erfcx_positive(abs(u)) * 0.5).call("log") - a * a * 0.5
        high = ((-u).call("erfc") * -0.5).call("log1p")
        return choose(a < -1.0, low, high)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``sqrt(2 / pi) / erfcx(-x / sqrt(2))``."""
        x = node.inputs[0]
        u = multiply(x, like(x, -1 / math.sqrt(2)))
        return (divide(like(x, math.sqrt(2 / math.pi)), erfcx(u)),)


erfcx = unary_builder(Erfcx())
erfinv = unary_builder(Erfinv())
erfcinv = unary_builder(Erfcinv())
log_ndtr = unary_builder(LogNdtr())
