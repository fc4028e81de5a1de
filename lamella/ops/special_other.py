"""Spence's function, Lambert's W, relative exponentials and the Poisson distribution.

float16, bfloat16 and float32 are computed in float64 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from lamella.dtypes import FLOATS
from lamella.errors import OptionError
from lamella.ir.node import Node
from lamella.ops import special_tables as tables
from lamella.ops.arithmetic import add, divide, like, multiply, negative, subtract
from lamella.ops.base import Sample
from lamella.ops.comparison import equal, where
from lamella.ops.exponential import exp, log
from lamella.ops.families import binary_builder, unary, unary_builder
from lamella.ops.formula import Formula, Term, constant_term, polynomial
from lamella.ops.formula import where as choose
from lamella.ops.sampling import unary_samples
from lamella.ops.special_gamma import lgamma_term, polygamma, stirling_rest

__all__ = [
    "Exprel", "LambertW", "LogPoisson", "Spence", "exprel", "lambertw", "log_poisson", "spence",
]  # fmt: skip

_INF: Final = math.inf
_NAN: Final = math.nan
_BERNOULLI: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
# Li2 in u = -log(1 - w): u - u**2 / 4 + sum of B_2k u**(2k + 1) / (2k + 1)!
_DILOGARITHM: Final = tuple(b / math.factorial(2 * k + 3) for k, b in enumerate(_BERNOULLI))
_ZETA2: Final = math.pi**2 / 6


def _dilogarithm(u: Term) -> Term:
    square = u * u
    return u + square * (u * polynomial(square, _DILOGARITHM) - 0.25)


def _spence(z: Term) -> Term:
    """Li2(1 - z) for z >= 0: 1 - z, its reciprocal or 1 - (1 - z) is between -1 and 1/2."""
    log = z.call("log")
    below, above = z < 0.5, z > 2.0
    # z < 1/2: zeta(2) - log(z) log(1 - z) - Li2(z); z > 2: -Li2(1 / (1 - z)) - …
    minus = (-z).call("log1p")
    inverse = (1.0 / (z - 1.0)).call("log1p")  # -log(1 - w) is -this for w = 1 / (1 - z)
    u = choose(below, -minus, choose(above, -inverse, -log))
    li = _dilogarithm(u)
    low = _ZETA2 - choose(z.equals(0.0), 0.0, log * minus) - li
    outside = (z - 1.0).call("log")
    high = -li - _ZETA2 - outside * outside * 0.5
    value = choose(below, low, choose(above, high, li)) + 0.0  # no -0.0 at 1
    return choose(z < 0.0, _NAN, choose(z.equals(_INF), -_INF, value))


@dataclass(frozen=True, slots=True)
class Spence(Formula):
    """Spence's function, the dilogarithm of 1 - a."""

    name: ClassVar[str] = "spence"
    sample_range: ClassVar[tuple[float, float]] = (0.1, 4.0)

    def formula(self, *x: Term) -> Term:
        """Euler's reflection and inversion, then the series in -log."""
        return _spence(x[0])

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``log(x) / (1 - x)``; -1 at 1."""
        x = node.inputs[0]
        one = like(x, 1)
        same = equal(x, one)
        safe = where(same, like(x, 2), x)
        return (where(same, negative(one), divide(log(safe), subtract(one, safe))),)


_BRANCH: Final = -math.exp(-1.0)
_BRANCH_LOW: Final = 1.2428753672788363e-17  # -1/e less its float64
# W near -1/e in p = ±sqrt(2 (e x + 1)): -1 + p - p**2 / 3 + 11 p**3 / 72 - …
_PUISEUX: Final = (-1.0, 1.0, -1 / 3, 11 / 72, -43 / 540, 769 / 17280, -221 / 8505)


def _lambert(x: Term, lower: bool) -> Term:
    """W of x >= -1/e: a start, then Newton's steps on w + log w = log x or w exp(w) = x."""
    gap = (x - _BRANCH - _BRANCH_LOW).call("max", 0.0) * (2 * math.e)
    p = gap.call("sqrt")
    near = polynomial(-p if lower else p, _PUISEUX)
    size = abs(x).call("log")
    if lower:
        far = size - (-size).call("max", 1.0).call("log")
        w = choose(x < -0.25, near, far)
    else:
        far = size - size.call("max", 1.0).call("log")
        w = choose(x < 0.3, near, choose(x > 3.0, far, x.call("max", 0.0).call("log1p") * 0.7))
    for _ in range(4):
        e = (-w).call("exp")
        residue = w - x * e
        w1 = w + 1.0
        w1 = choose(abs(w1) < 1e-300, 1e-300, w1)
        halley = w1 - (w + 2.0) * residue / (w1 + w1)
        w = w - residue / halley
    w = choose(p < 1e-3, near, w)
    w = choose(gap.equals(0.0), choose(x < _BRANCH, _NAN, -1.0), w)
    if lower:
        w = choose(x.equals(0.0), -_INF, choose(x > 0.0, _NAN, w))
    else:
        w = choose(x.equals(_INF), _INF, choose(abs(x) < 1e-18, x, w))
    return choose(x.call("isnan"), x, w)


@dataclass(frozen=True, slots=True)
class LambertW(Formula):
    """The real branch ``branch`` (0 or -1) of the inverse of ``w exp(w)``."""

    name: ClassVar[str] = "lambertw"
    cost: ClassVar[int] = 200
    branch: int = 0

    def formula(self, *x: Term) -> Term:
        """A start, then Halley's steps (Corless et al., 1996)."""
        return _lambert(x[0], self.branch == -1)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``exp(-y) / (1 + y)``."""
        return (divide(exp(negative(node)), add(node, like(node, 1))),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Both branches."""
        yield from unary_samples(lambertw, FLOATS, -0.3, 9.0, rtol=2e-12)
        yield Sample(((9,),), lambda x: lambertw(x, -1), FLOATS, None, -0.3, -0.02, rtol=2e-11)


def _exprel(n: int, x: Term) -> Term:
    """The sum of x**k / (k + n)! over k >= 0."""
    small = x.call("max", -1.0).call("min", 1.0)
    near = polynomial(small, [1 / math.factorial(k + n) for k in range(19)])
    value = x.call("expm1") / x
    for k in range(1, n):
        value = (value - 1 / math.factorial(k)) / x
    value = choose(abs(x) <= 1.0, near, value)
    value = choose(x.equals(_INF), _INF, choose(x.equals(-_INF), 0.0, value))
    return choose(x > 709.0 + 6.0 * n, constant_term(x, _INF), value) if n == 1 else value


@dataclass(frozen=True, slots=True)
class Exprel(Formula):
    """The relative exponential of order n: ``exp(a)`` without its first n terms, over a**n."""

    name: ClassVar[str] = "exprel"
    order: int = 1

    def formula(self, *x: Term) -> Term:
        """Taylor's series up to 1, the definition beyond."""
        return _exprel(self.order, x[0])

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``y - n`` times the next order."""
        n = self.order
        following = exprel(node.inputs[0], n + 1)
        return (subtract(node, multiply(following, like(node, n))),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Two orders."""
        yield from unary_samples(exprel, FLOATS, rtol=2e-12)
        yield Sample(((9,),), lambda x: exprel(x, 2), FLOATS, None, -3, 3, rtol=2e-12)


def _log_poisson(a: Term, x: Term) -> Term:
    """``a log x - x - lgamma(a + 1)``; for large a around x = a, where those terms cancel."""
    low = a.call("min", 10.0)
    rest = low - 1.0  # exact below 2, as lgamma(1 + a) = a (a - 1) poly(a - 1) needs
    small = low * rest * polynomial(rest, tables.LGAMMA)
    power = choose(low.equals(0.0), 0.0, low * x.call("log"))
    near = power - x - choose(low < 2.0, small, lgamma_term(low + 1.0))
    high = a.call("max", 10.0)
    gap = (x - high) / high
    ratio = x / high
    ratio = choose(ratio < 0.5, ratio.call("log"), gap.call("log1p"))
    far = -high * (gap - ratio) - (high * (2 * math.pi)).call("log") * 0.5
    value = choose(a < 10.0, near, far - stirling_rest(high))
    return choose(x.equals(_INF), -_INF, choose((a < 0.0) | (x < 0.0), _NAN, value))


@dataclass(frozen=True, slots=True)
class LogPoisson(Formula):
    """The logarithm of ``b**a exp(-b) / gamma(a + 1)``, a Poisson distribution of mean b at a."""

    name: ClassVar[str] = "log_poisson"
    cost: ClassVar[int] = 200
    arity: ClassVar[int] = 2
    sample_range: ClassVar[tuple[float, float]] = (0.5, 19.0)

    def formula(self, *x: Term) -> Term:
        """The definition; beyond 10, Stirling's series and the distance of b from a."""
        return _log_poisson(*x)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``log x - digamma(a + 1)`` and ``a / x - 1``."""
        a, x = node.inputs
        one = like(a, 1)
        by_a = subtract(log(x), polygamma(0, add(a, one)))
        return by_a, subtract(divide(a, x), one)


spence = unary_builder(Spence())
log_poisson = binary_builder(LogPoisson())


def lambertw(x: Node, branch: int = 0) -> Node:
    """The real branch 0 or -1 of the inverse of ``w exp(w)``.

    Raises:
        OptionError: for another branch.
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> lambertw(ops.constant(0.5, dtypes.float32)).op
    LambertW(branch=0)
    """
    if branch not in (0, -1):
        raise OptionError(f"[lambertw] branch {branch} has no real values; use 0 or -1")
    return unary(LambertW(branch), x)


def exprel(x: Node, order: int = 1) -> Node:
    """The sum of ``x**k / (k + order)!`` over k >= 0; of order 1, ``(exp(x) - 1) / x``.

    Raises:
        OptionError: unless the order is positive.
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> exprel(ops.constant(0.5, dtypes.float32)).op
    Exprel(order=1)
    """
    if order < 1:
        raise OptionError(f"[exprel] order {order} is not positive; use 1 or more")
    return unary(Exprel(order), x)
