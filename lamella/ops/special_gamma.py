"""The gamma function's family: gamma, its logarithm and that function's derivatives, beta.

float16, bfloat16 and float32 are computed in float64 and rounded once. Stirling's series (NIST
Digital Library of Mathematical Functions, 5.11) is used from 10 on, recurrences lead there or to
[1, 3], reflection formulas below 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from lamella import ops
from lamella.dtypes import FLOATS, float64
from lamella.errors import OptionError
from lamella.ir.node import Node
from lamella.ops import special_tables as tables
from lamella.ops.arithmetic import add, multiply, subtract
from lamella.ops.base import Sample
from lamella.ops.families import binary_builder, unary, unary_builder
from lamella.ops.formula import Formula, Term, constant_term, polynomial, where
from lamella.ops.sampling import unary_samples

__all__ = [
    "BERNOULLI", "Betaln", "Gamma", "Lgamma", "Polygamma", "betaln", "gamma", "lgamma",
    "polygamma",
]  # fmt: skip

_NAN: Final = math.nan
_INF: Final = math.inf
_PI: Final = math.pi
BERNOULLI: Final = (  # B2, B4, …
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330, 854513 / 138,
)  # fmt: skip
_STIRLING: Final = tuple(b / ((2 * k + 1) * (2 * k + 2)) for k, b in enumerate(BERNOULLI))[:9]
_TINY: Final = 1e-30  # gamma(x) = 1 / x below it, in every precision
_FROM: Final = 10.0  # Stirling's series holds to double precision from here


def stirling_rest(x: Term, terms: int = 9) -> Term:
    """``lgamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2)`` for x >= 10."""
    inverse = 1.0 / x
    return inverse * polynomial(inverse * inverse, _STIRLING[:terms])


def _sin_pi(x: Term) -> Term:
    """``sin(pi x)`` up to its sign, exactly reduced."""
    return ((x - x.call("round")) * _PI).call("sin")


def _whole(x: Term) -> Term:
    return x.call("floor").equals(x)


def _odd(x: Term) -> Term:
    """Whether floor(x) is odd."""
    whole = x.call("floor")
    return ~(whole - (whole * 0.5).call("floor") * 2.0).equals(0.0)


def _lgamma_positive(x: Term, single: bool) -> Term:
    """lgamma of x >= 0: by steps to [1, 3] below 10, else by Stirling's series; one logarithm."""
    low, near = x < 1.0, x < _FROM
    y = where(low, x + 1.0, x.call("min", _FROM))
    product = constant_term(x, 1.0)
    for _ in range(7):
        above = y >= 3.0
        y = where(above, y - 1.0, y)
        product = where(above, product * y, product)
    log = where(near, where(low, x, product), x).call("log")
    base = where(low, x, y - 1.0) * where(low, x - 1.0, y - 2.0)  # where y - 2 is not exact
    base = base * polynomial(y - 2.0, tables.LGAMMA_SINGLE if single else tables.LGAMMA)
    big = x.call("max", _FROM)
    rest = stirling_rest(big, 5 if single else 9) + (0.5 * math.log(2 * _PI) - 0.5)
    far = (big - 0.5) * (log - 1.0) + where(big < 1e300, rest, 0.0)
    value = where(near, base + where(low, -log, log), far)
    return where(x < _INF, value, _INF)


def lgamma_term(x: Term, single: bool = False) -> Term:
    """log |gamma(x)|."""
    a = abs(x)
    value = _lgamma_positive(a, single)
    tiny = a < _TINY  # where a sin(pi a) underflows, gamma(-a) = -pi / sin(pi a)
    sine = abs(where(tiny, 1.0, a) * _sin_pi(a))
    mirrored = math.log(_PI) - sine.call("log") - where(tiny, 0.0, value)
    value = where(x < 0.0, mirrored, value)
    value = where((x <= 0.0) & _whole(x), _INF, value)
    return where(x.call("isnan"), x, value)


@dataclass(frozen=True, slots=True)
class Lgamma(Formula):
    """log |gamma(a)|."""

    name: ClassVar[str] = "lgamma"
    cost: ClassVar[int] = 150

    def formula(self, *x: Term) -> Term:
        """Steps to [1, 3], Stirling's series from 10, reflection below 0."""
        return lgamma_term(x[0])

    def single(self, *x: Term) -> Term:
        """With fewer terms."""
        return lgamma_term(x[0], True)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """digamma(x)."""
        return (polygamma(0, node.inputs[0]),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Positive and negative numbers."""
        yield from unary_samples(lgamma, FLOATS, 0.3, 12.0, rtol=2e-12)
        yield from unary_samples(lgamma, FLOATS, -1.8, -1.2, rtol=2e-12)


def _gamma_positive(x: Term) -> Term:
    """Gamma of x > 0: Stirling's series at x or x + 10, the power in halves so as not to
    overflow early.
    """
    low = x < _FROM
    product = x
    for k in range(1, 10):
        product = product * (x + float(k))
    y = where(low, x + 10.0, x).call("min", 172.0)
    half = y.call("pow", (y - 0.5) * 0.5) * (y * -0.5).call("exp")
    scale = math.sqrt(2 * _PI) * stirling_rest(y).call("exp")
    lost = where(low, x - (y - 10.0), 0.0)  # by the addition; gamma' = gamma log y (1 - …)
    scale = scale + scale * (lost * (y.call("log") - 0.5 / y))
    return half * scale * half / where(low, product, 1.0)


def _gamma(x: Term) -> Term:
    """The gamma function."""
    a = abs(x)
    value = _gamma_positive(a)
    sine = _sin_pi(a) * a  # gamma(-a) = -pi / (a sin(pi a) gamma(a))
    sine = where(_odd(a.call("round")), -sine, sine)
    mirrored = -_PI / sine / value
    value = where(x < 0.0, mirrored, value)
    value = where((x < 0.0) & _whole(x), _NAN, value)
    value = where(a < _TINY, 1.0 / x, value)
    value = where(x > 171.7, _INF, value)
    return where((x < -184.0) & ~_whole(x), constant_term(x, 0.0).call("copysign", sine), value)


@dataclass(frozen=True, slots=True)
class Gamma(Formula):
    """The gamma function."""

    name: ClassVar[str] = "gamma"
    cost: ClassVar[int] = 120

    def formula(self, *x: Term) -> Term:
        """Stirling's series at a or a + 10, reflection below 0."""
        return _gamma(x[0])

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``y digamma(x)``."""
        return (multiply(node, polygamma(0, node.inputs[0])),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Positive and negative numbers."""
        yield from unary_samples(gamma, FLOATS, 0.3, 4.0, rtol=2e-12)
        yield from unary_samples(gamma, FLOATS, -1.8, -1.2, rtol=2e-12)


def _cotangent_derivative(order: int) -> list[float]:
    """The n-th derivative of cot as a polynomial in c = cot: P' times -(1 + c**2), repeated."""
    found = [0.0, 1.0]
    for _ in range(order):
        slope = [k * a for k, a in enumerate(found)][1:]
        found = [0.0] * (len(slope) + 2)
        for k, a in enumerate(slope):
            found[k] -= a
            found[k + 2] -= a
    return found


def _polygamma_positive(n: int, x: Term) -> Term:
    """(-1)**(n + 1) polygamma(n, x) for x > 0: the first terms of the sum, then the asymptotic
    series at y >= 10 + n.
    """
    steps = 10 + n
    low = x < float(steps)
    y = where(low, x + float(steps), x)
    inverse = 1.0 / y
    square = inverse * inverse
    # B_2k (2k + n - 1)! / (2k)! y**-2k, from k = 1 on
    series = [
        b * math.prod(range(2 * k + 3, 2 * k + 2 + n)) / (1.0 if n else 2 * k + 2)
        for k, b in enumerate(BERNOULLI[:10])
    ]
    rest = square * polynomial(square, series)
    if n == 0:
        return y.call("log") * -1.0 + inverse * 0.5 + rest + where(low, _reciprocals(x, steps), 0.0)
    tail = inverse.power(n) * (rest + math.factorial(n - 1) + inverse * (math.factorial(n) / 2))
    first = x.power(-n - 1)
    for k in range(1, steps):
        first = first + (x + float(k)).power(-n - 1)
    return where(low, first * math.factorial(n), 0.0) + tail


def _reciprocals(x: Term, count: int) -> Term:
    """1 / x + 1 / (x + 1) + …, as one quotient of the numbers below 10."""
    x = x.call("min", float(count))
    above, below = constant_term(x, 1.0), x
    for k in range(1, count):
        above = above * (x + float(k)) + below
        below = below * (x + float(k))
    return above / below


def _polygamma(n: int, x: Term) -> Term:
    """The (n + 1)-th derivative of lgamma."""
    a = where(x < 0.0, 1.0 - x, x)
    value = _polygamma_positive(n, a)
    c = 1.0 / ((x - x.call("round")) * _PI).call("tan")
    mirror = polynomial(c, _cotangent_derivative(n)) * (_PI ** (n + 1))
    sign = 1.0 if n % 2 else -1.0
    # (-1)**n polygamma(n, 1 - x) - polygamma(n, x) = pi d**n cot(pi x)
    plain = value * sign
    value = where(x < 0.0, -value - mirror, plain)
    pole = (x <= 0.0) & _whole(x)
    at_pole = where(x.equals(0.0), -(1.0 / x), _NAN) if n == 0 else constant_term(x, sign * _INF)
    value = where(pole, at_pole, value)
    value = where(x.equals(_INF), _INF if n == 0 else 0.0, value)
    value = where(x.equals(-_INF), _NAN, value)
    return where(x.call("isnan"), x, value)


@dataclass(frozen=True, slots=True)
class Polygamma(Formula):
    """The derivative of order ``order`` + 1 of lgamma: digamma for 0, trigamma for 1."""

    name: ClassVar[str] = "polygamma"
    cost: ClassVar[int] = 120
    order: int = 0

    def formula(self, *x: Term) -> Term:
        """Recurrence, asymptotic series, reflection."""
        return _polygamma(self.order, x[0])

    def partials(self, node: Node) -> Sequence[Node | None]:
        """The next order."""
        return (polygamma(self.order + 1, node.inputs[0]),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Orders 0 to 2."""
        for n in range(3):
            yield from unary_samples(lambda x, n=n: polygamma(n, x), FLOATS, 0.6, 9.0, rtol=2e-12)
        yield Sample(((7,),), lambda x: polygamma(1, x), FLOATS, None, -1.8, -1.2, rtol=2e-12)


def _betaln(a: Term, b: Term) -> Term:
    """log |beta(a, b)|, inf at the poles; with a whole number a <= 0 and a whole b < 1 - a, whose
    poles cancel, |beta(a, b)| = beta(1 - a - b, b).
    """
    low, high = a.call("min", b), a.call("max", b)
    pole = (low <= 0.0) & _whole(low) & (low > -_INF)
    mirrored = 1.0 - low - high
    cancel = pole & _whole(high) & (high > 0.0) & (mirrored > 0.0)
    low = where(cancel, mirrored, low)
    # beta(-x, b) = pi / (sin(pi x) b beta(1 + x, b - x)) up to its sign
    turned = (low < 0.0) & (high >= _FROM) & (low + high > 0.0)
    first, second = where(turned, 1.0 - low, low), where(turned, low + high, high)
    value = _betaln_regular(first.call("min", second), first.call("max", second))
    sine = abs(_sin_pi(where(turned, low, 0.5)))
    scale = math.log(_PI) - sine.call("log") - where(turned, high, 1.0).call("log")
    value = where(turned, scale - value, value)
    pole = pole | ((high <= 0.0) & _whole(high) & (high > -_INF))
    value = where(pole & ~cancel, _INF, value)
    return where(a.call("isnan") | b.call("isnan"), a + b, value)


def _betaln_regular(small: Term, big: Term) -> Term:
    """log |beta|, small <= big, away from poles; for a large one by the difference of Stirling's
    forms of lgamma.
    """
    near = lgamma_term(small) + (lgamma_term(big) - lgamma_term(small + big))
    y = big.call("max", _FROM)
    ratio = (small / y).call("max", -0.5)
    far = lgamma_term(small) + (stirling_rest(y) - stirling_rest((small + y).call("max", _FROM)))
    far = far + (small - (y - 0.5) * ratio.call("log1p"))
    far = far - small * (small + y).call("log")
    both = _both_large(small, y)
    apart = (big >= _FROM) & (small >= 0.0)
    value = where(small >= _FROM, both, where(apart, far, near))
    return where(big.equals(_INF), where(small > 0.0, -_INF, _NAN), value)


def _both_large(a: Term, b: Term) -> Term:
    """log beta(a, b), 10 <= a <= b."""
    a = a.call("max", _FROM)
    rest = stirling_rest(a) + (stirling_rest(b) - stirling_rest(a + b))
    ratio = a / b
    logs = (a - 0.5) * (ratio / (ratio + 1.0)).call("log") - b * ratio.call("log1p")
    return logs + rest + (0.5 * math.log(2 * _PI) - 0.5 * b.call("log"))


@dataclass(frozen=True, slots=True)
class Betaln(Formula):
    """log |beta(a, b)|."""

    name: ClassVar[str] = "betaln"
    cost: ClassVar[int] = 500
    arity: ClassVar[int] = 2
    sample_range: ClassVar[tuple[float, float]] = (0.5, 14.0)
    sample_rtol: ClassVar[float | None] = 1e-11

    def formula(self, *x: Term) -> Term:
        """lgamma(a) + lgamma(b) - lgamma(a + b), rearranged where it cancels."""
        return _betaln(*x)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``digamma(a) - digamma(a + b)`` and likewise by b, in float64."""
        a, b = (ops.cast(x, float64) for x in node.inputs)
        total = polygamma(0, add(a, b))
        return [ops.cast(subtract(polygamma(0, x), total), node.dtype) for x in (a, b)]


lgamma = unary_builder(Lgamma())
gamma = unary_builder(Gamma())
betaln = binary_builder(Betaln())


def polygamma(order: int, x: Node) -> Node:
    """The derivative of order ``order`` + 1 of lgamma.

    Raises:
        OptionError: unless 0 <= order <= 100.
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> polygamma(1, ops.constant(0.5, dtypes.float32)).op
    Polygamma(order=1)
    """
    if not 0 <= order <= 100:
        raise OptionError(f"[polygamma] order {order} is not from 0 to 100; use such an order")
    return unary(Polygamma(order), x)
