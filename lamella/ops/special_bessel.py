"""Bessel functions of orders 0 and 1: of the first and second kind, and modified (scaled).

float16, bfloat16 and float32 are computed in float64 and rounded once. Up to 8:
polynomials; beyond: Hankel's form, an amplitude and a phase (NIST Digital Library of Mathematical
Functions, 10.17 and 10.40). Near the zeros of j and y the error is a few 1e-16 in absolute terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from lamella.ir.node import Node
from lamella.ops import special_tables as tables
from lamella.ops.arithmetic import divide, like, multiply, negative, sign, subtract
from lamella.ops.comparison import equal, where
from lamella.ops.families import unary_builder
from lamella.ops.formula import Formula, Term, polynomial
from lamella.ops.formula import where as choose

__all__ = [
    "BesselI0e", "BesselI1e", "BesselJ0", "BesselJ1", "BesselY0", "BesselY1", "i0e", "i1e", "j0",
    "j1", "y0", "y1",
]  # fmt: skip

_INF: Final = math.inf
_NAN: Final = math.nan
_EDGE: Final = 8.0


def _near(x: Term) -> Term:
    """The variable of the polynomials up to 8."""
    x = x.call("min", _EDGE)
    return (x * x).call("fma", 1 / 32, -1.0)


def _far(x: Term, order: int, second: bool) -> Term:
    """Hankel's form beyond 8: ``sqrt(2 / (pi x)) (P cos - Q sin)`` of x - (2 n + 1) pi / 4."""
    x = x.call("max", _EDGE)
    inverse = _EDGE / x
    t = (inverse * inverse).call("fma", 2.0, -1.0)
    p = polynomial(t, tables.P1 if order else tables.P0)
    q = inverse * polynomial(t, tables.Q1 if order else tables.Q0)
    sine, cosine = x.call("sin"), x.call("cos")
    c, s = cosine + sine, sine - cosine  # sqrt(2) times those of x - pi / 4
    if order:
        c, s = s, -c
    wave = p * s + q * c if second else p * c - q * s
    value = wave / (x * math.pi).call("sqrt")
    return choose(x.equals(_INF), 0.0, value)


def _j(x: Term, order: int) -> Term:
    a = abs(x)
    near = polynomial(_near(a), tables.J1 if order else tables.J0)
    value = choose(a > _EDGE, _far(a, order, False), near * a if order else near)
    return choose(x < 0.0, -value, choose(x.equals(0.0), x, value)) if order else value


def _y(x: Term, order: int) -> Term:
    small = x.call("min", _EDGE)
    near, log = _near(x), small.call("log") * (2 / math.pi)
    if order:
        j = small * polynomial(near, tables.J1)
        value = log * j - (2 / math.pi) / small + small * polynomial(near, tables.Y1)
    else:
        value = log * polynomial(near, tables.J0) + polynomial(near, tables.Y0)
    value = choose(x > _EDGE, _far(x, order, True), value)
    value = choose(x.equals(0.0), -_INF, value)
    return choose(x < 0.0, _NAN, value)


def _i(x: Term, order: int) -> Term:
    """``exp(-|x|) I(x)``."""
    a = abs(x)
    low = tables.I1_SMALL if order else tables.I0_SMALL
    high = tables.I1_LARGE if order else tables.I0_LARGE
    near = polynomial(a.call("min", _EDGE) * 0.25 - 1.0, low)
    large = a.call("max", _EDGE)
    far = polynomial(16.0 / large - 1.0, high) / large.call("sqrt")
    value = choose(a > _EDGE, far, near * a if order else near)
    return value.call("copysign", x) if order else value


@dataclass(frozen=True, slots=True)
class BesselJ0(Formula):
    """The Bessel function of the first kind, order 0."""

    name: ClassVar[str] = "j0"
    sample_range: ClassVar[tuple[float, float]] = (-12.0, 12.0)

    def formula(self, *x: Term) -> Term:
        """A polynomial in the square up to 8, then Hankel's form."""
        return _j(x[0], 0)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``-j1(x)``."""
        return (negative(j1(node.inputs[0])),)


@dataclass(frozen=True, slots=True)
class BesselJ1(Formula):
    """The Bessel function of the first kind, order 1."""

    name: ClassVar[str] = "j1"
    sample_range: ClassVar[tuple[float, float]] = (-12.0, 12.0)

    def formula(self, *x: Term) -> Term:
        """A polynomial in the square up to 8, then Hankel's form."""
        return _j(x[0], 1)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``j0(x) - j1(x) / x``; 1/2 at 0."""
        x = node.inputs[0]
        return (_slope(x, node, j0, 0.5),)


@dataclass(frozen=True, slots=True)
class BesselY0(Formula):
    """The Bessel function of the second kind, order 0."""

    name: ClassVar[str] = "y0"
    sample_range: ClassVar[tuple[float, float]] = (0.5, 12.0)

    def formula(self, *x: Term) -> Term:
        """``2 / pi log(a) j0(a)`` and a polynomial up to 8, then Hankel's form."""
        return _y(x[0], 0)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``-y1(x)``."""
        return (negative(y1(node.inputs[0])),)


@dataclass(frozen=True, slots=True)
class BesselY1(Formula):
    """The Bessel function of the second kind, order 1."""

    name: ClassVar[str] = "y1"
    sample_range: ClassVar[tuple[float, float]] = (0.5, 12.0)

    def formula(self, *x: Term) -> Term:
        """``2 / pi (log(a) j1(a) - 1 / a)`` and a polynomial up to 8, then Hankel's form."""
        return _y(x[0], 1)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``y0(x) - y1(x) / x``."""
        x = node.inputs[0]
        return (subtract(y0(x), divide(node, x)),)


@dataclass(frozen=True, slots=True)
class BesselI0e(Formula):
    """``exp(-|a|)`` times the modified Bessel function of order 0."""

    name: ClassVar[str] = "i0e"
    sample_range: ClassVar[tuple[float, float]] = (0.5, 12.0)

    def formula(self, *x: Term) -> Term:
        """A polynomial up to 8, then one in 8 / a over sqrt(a)."""
        return _i(x[0], 0)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``i1e(x) - sign(x) y``."""
        x = node.inputs[0]
        return (subtract(i1e(x), multiply(sign(x), node)),)


@dataclass(frozen=True, slots=True)
class BesselI1e(Formula):
    """``exp(-|a|)`` times the modified Bessel function of order 1."""

    name: ClassVar[str] = "i1e"
    sample_range: ClassVar[tuple[float, float]] = (0.5, 12.0)

    def formula(self, *x: Term) -> Term:
        """A polynomial up to 8, then one in 8 / a over sqrt(a)."""
        return _i(x[0], 1)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``i0e(x) - y (sign(x) + 1 / x)``; 1/2 at 0."""
        x = node.inputs[0]
        return (subtract(_slope(x, node, i0e, 0.5), multiply(sign(x), node)),)


def _slope(x: Node, y: Node, order_0: Callable[[Node], Node], at_zero: float) -> Node:
    """``order_0(x) - y / x``, and its limit at 0."""
    zero = equal(x, like(x, 0))
    safe = where(zero, like(x, 1), x)
    return where(zero, like(x, at_zero), subtract(order_0(x), divide(y, safe)))


j0 = unary_builder(BesselJ0())
j1 = unary_builder(BesselJ1())
y0 = unary_builder(BesselY0())
y1 = unary_builder(BesselY1())
i0e = unary_builder(BesselI0e())
i1e = unary_builder(BesselI1e())
