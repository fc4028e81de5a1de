"""Hurwitz's zeta function and its derivatives by the first argument, by Euler and Maclaurin's sum
(NIST Digital Library of Mathematical Functions, 25.11.5).

A derivative of order n is n! times a coefficient of the sum as a polynomial in the step of s: the
terms of the remainder are lists of such coefficients, up to order n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from lamella.dtypes import FLOATS
from lamella.ir.node import Node
from lamella.ops.arithmetic import add, like, multiply, negative, subtract
from lamella.ops.base import Sample
from lamella.ops.families import binary
from lamella.ops.formula import Formula, Term, constant_term, where
from lamella.ops.sampling import binary_samples
from lamella.ops.special_gamma import BERNOULLI

__all__ = ["Zeta", "zeta"]

_NAN: Final = math.nan
_INF: Final = math.inf
_COUNT: Final = 12  # terms of the sum before the remainder

Jet = list[Term]  # coefficients of the powers of the step of s


def _product(a: Jet, b: Jet) -> Jet:
    """The product of two polynomials, up to the order of the first."""
    return [
        sum((a[i] * b[n - i] for i in range(n) if n - i < len(b)), a[n] * b[0])
        for n in range(len(a))
    ]


def _remainder(order: int, s: Term, y: Term) -> Term:
    """What the sum from ``y`` on is, its coefficient ``order``; 0 for large s, all of which is."""
    s = s.call("min", 1e6)
    power = [y.call("pow", 1.0 - s)]
    quotient = [1.0 / (s - 1.0)]
    for k in range(order):
        power.append(power[-1] * (y.call("log") * (-1.0 / (k + 1))))
        quotient.append(-quotient[-1] / (s - 1.0))
    tail = _product(power, [quotient[0] + 0.5 / y, *quotient[1:]])
    factor = _product([term / y / y for term in power], [s, constant_term(s, 1.0)])
    for k, b in enumerate(BERNOULLI[:10], 1):  # s (s + 1) … (s + 2k - 2) y**(-s - 2k + 1)
        scale = b / math.factorial(2 * k)
        tail = [a + c * scale for a, c in zip(tail, factor, strict=True)]
        first, second = s + (2.0 * k - 1.0), s + 2.0 * k
        step = [first / y * (second / y), (first / y + second / y) / y, 1.0 / y / y]
        factor = _product(factor, step)
    return tail[order]


def _zeta(order: int, s: Term, q: Term) -> Term:
    """The sum of (-log(q + k))**order (q + k)**-s over k >= 0 for s > 1, q > 0."""
    total = _remainder(order, s, q + float(_COUNT)) * float(math.factorial(order))
    for k in reversed(range(_COUNT)):
        term = (q + float(k)).call("pow", -s)
        total = total + (term * (-(q + float(k)).call("log")).power(order) if order else term)
    if order:
        value = where(q > 0.0, total, _NAN)
        value = where(s.equals(_INF), where(q < 1.0, _NAN, 0.0), value)
    else:
        value = where(q.equals(0.0), _INF, total)
        value = where(q < 0.0, where(q.call("floor").equals(q), _INF, _NAN), value)
        at_infinity = where(q < 1.0, _INF, where(q.equals(1.0), 1.0, 0.0))
        value = where(s.equals(_INF), at_infinity, value)
    value = where(q.equals(_INF), 0.0, value)
    value = where(s > 1.0, value, where(s.equals(1.0), _NAN if order else _INF, _NAN))
    return where(s.call("isnan") | q.call("isnan"), s + q, value)


@dataclass(frozen=True, slots=True)
class Zeta(Formula):
    """Hurwitz's zeta function of (s, q), its derivative of order ``order`` by s."""

    name: ClassVar[str] = "zeta"
    cost: ClassVar[int] = 400
    order: int = 0

    def formula(self, *x: Term) -> Term:
        """Twelve terms of the sum, then Euler and Maclaurin's remainder."""
        return _zeta(self.order, *x)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """The next order by s; by q ``-s zeta(s + 1, q)`` and that function's derivatives by s."""
        s, q = node.inputs
        after, n = add(s, like(s, 1)), self.order
        by_q = multiply(negative(s), zeta(after, q, n))
        if n:
            by_q = subtract(by_q, multiply(like(s, n), zeta(after, q, n - 1)))
        return zeta(s, q, n + 1), by_q

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Two orders."""
        yield from binary_samples(zeta, FLOATS, 1.5, 4.0, rtol=2e-12)
        yield Sample(
            ((7,), (7,)), lambda s, q: zeta(s, q, 1), FLOATS, None, 1.5, 4.0, rtol=2e-11
        )


def zeta(s: Node, q: Node, order: int = 0) -> Node:
    """Hurwitz's zeta function, the sum of (q + k)**-s over k >= 0, or its derivative of ``order``
    by s.

    Raises:
        DTypeError: unless both are of one floating-point type.
        ShapeError: if shapes do not broadcast.

    >>> from lamella import dtypes, ops
    >>> zeta(ops.constant(2.0, dtypes.float32), ops.constant(1.0, dtypes.float32)).op
    Zeta(order=0)
    """
    return binary(Zeta(order), s, q)
