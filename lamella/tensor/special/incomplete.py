"""The incomplete gamma and beta functions, differentiable by every argument.

Method: with t = x exp(±s) (gamma) and t = logistic(θ ± s) (beta) the integral from x to the nearer
end is that of exp(h(s)) for s >= 0, where h is concave and falls from 0. It is cut where h = -38
and taken by Gauss and Legendre's rule of 40 points (-22 and 22 for float32). Near s = 0 the
integrand may rise before it falls, which the rule resolves as well. All is composed, so that
derivatives are those of the quadrature.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from lamella import ops
from lamella.dtypes import float64
from lamella.tensor.comparison import where
from lamella.tensor.core import node_of, wrap
from lamella.tensor.elementwise import maximum, minimum
from lamella.tensor.gradient import no_grad, stop_gradient
from lamella.tensor.operands import TensorLike
from lamella.tensor.special.gamma import betaln, lgamma
from lamella.tensor.special.support import constants, in_double, operands
from lamella.tensor.transcendental import erfc, exp, expm1, log, log1p, sqrt

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["betainc", "gammainc", "gammaincc"]

_EULER: Final = 0.5772156649015329
_LARGE: Final = 1e8  # from here the expansion for large a is precise to 1e-15
_ROOT: Final = (  # sqrt(2 (μ - log(1 + μ))) / μ in powers of μ
    1.0, -1 / 3, 7 / 36, -73 / 540, 0.10270061728395062, -0.08233759553203998, 0.06844705320399765,
)  # fmt: skip
_CORRECTION: Final = (  # 1 / μ - 1 / η in powers of μ
    -1 / 3, 1 / 12, -23 / 540, 0.027237654320987653, -0.01947751322751323, 0.01489620076425632,
    -0.011915478640015678,
)  # fmt: skip


class Rule(NamedTuple):
    """How many points, and where the integrand counts as fallen: exp(-38) is 3e-17."""

    points: int
    drop: float


DOUBLE: Final = Rule(40, 38.0)
SINGLE: Final = Rule(22, 22.0)  # to 2e-10, for results of float32 and less


def _rule_of(name: str, *xs: TensorLike) -> Rule:
    return DOUBLE if operands(name, *xs)[0].dtype is float64 else SINGLE


@cache
def _rule(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(count)
    return (points + 1) / 2, weights / 2


@cache
def _series() -> tuple[np.ndarray, np.ndarray]:
    """Terms of ``Σ (-x)ⁿ / ((n + 1)! (a + 1 + n))``, for x < 1."""
    n = np.arange(18.0)
    return n, np.array([(-1) ** k / math.factorial(k + 1) for k in range(18)])


def quadrature(count: int, like: Any) -> tuple[Any, Any]:
    """Points and weights on [0, 1] along a new first axis."""
    points, weights = _rule(count)
    return _leading(points, like), _leading(weights, like)


def integral(h: Any, end: Any, rule: Rule) -> Any:
    """The integral of exp(h(s)) from 0 to ``end``; ``h`` takes s with a first axis
    of points.
    """
    points, weights = quadrature(rule.points, end)
    return end * (exp(h(end * points)) * weights).sum(0)


def _leading(values: np.ndarray, like: Any) -> Any:
    """Constants along a new first axis, so that elements side by side go into one vector."""
    return constants(values.reshape(-1, *(1,) * like.ndim))


# -- gamma -----------------------------------------------------------------------------------------
def _gamma_end(rate: Any, x: Any, lower: Any, drop: float) -> Any:
    """Where the integrand has fallen: bounds, then Newton's steps on a convex function."""
    below = minimum(x, rate)
    s = (below + drop) / rate
    gap = rate - below
    bend = 2 * drop / (gap + sqrt(gap * gap + below * (drop * 4 / 3)))
    low = where(bend < 1, minimum(s, bend), s)
    gap = maximum(x - rate, 0.0)
    bend = 2 * drop / (gap + sqrt(gap * gap + x * (drop * 2)))
    high = minimum(bend, log1p((rate * bend + drop) / x))
    for _ in range(3):
        e = expm1(-low)
        low = low - (rate * low + below * e - drop) / (rate - below * (1 + e))
        e = expm1(high)
        slope = maximum(x * (1 + e) - rate, 1e-300)
        high = high - (x * e - rate * high - drop) / slope
    return where(lower, low, high)


def gamma_parts(
    a: Any, x: Any, rule: Rule = DOUBLE, from_one: bool = False
) -> tuple[Any, Any]:
    """(P, Q) for finite a > 0, x > 0, each precise where it is the smaller one; ``from_one``: a is
    at least 1.
    """
    large = a > _LARGE
    p, q = _gamma_quadrature(where(large, 1.0, a), where(large, 1.0, x), rule, from_one)
    far = where(large, a, _LARGE)
    lower, upper = _gamma_large(far, where(large, x, _LARGE))
    return where(large, lower, p), where(large, upper, q)


def _gamma_large(a: Any, x: Any) -> tuple[Any, Any]:
    """(P, Q) for large a by the uniform expansion (NIST Digital Library of Mathematical Functions,
    8.12.3): a normal distribution in η, ``η² / 2 = μ - log(1 + μ)``, ``μ = (x - a) / a``, and its
    first correction; beyond |μ| = 5e-3 one of them is 0.
    """
    gap = minimum(maximum((x - a) / a, -5e-3), 5e-3)
    eta, correction = gap * 0, gap * 0
    for root, term in zip(reversed(_ROOT), reversed(_CORRECTION), strict=True):
        eta, correction = eta * gap + root, correction * gap + term
    z = eta * gap * sqrt(a / 2)
    rest = exp(-z * z) / sqrt(a * (2 * math.pi)) * correction
    return erfc(-z) / 2 - rest, erfc(z) / 2 + rest


def _gamma_quadrature(a: Any, x: Any, rule: Rule, from_one: bool) -> tuple[Any, Any]:
    """(P, Q) by an integral or, where Q is small because a is, by a series."""
    lower = (x <= a + 1) & ((x < 1) | (a >= 1))  # where P is not nearly 1
    rate = where(lower, a + 1, a)
    with no_grad():
        end = stop_gradient(_gamma_end(rate, x, lower, rule.drop))
    turn = where(lower, -1.0, 1.0)
    area = integral(lambda s: turn * rate * s - x * expm1(turn * s), end, rule)
    term = exp(wrap(ops.log_poisson(node_of(a), node_of(x))))  # x**a exp(-x) / gamma(a + 1)
    p = term * (1 + x * area)
    q = term * a * area
    if from_one:
        return where(lower, p, 1 - q), where(lower, 1 - p, q)
    small = lower & (a < 1)
    q = where(small, _gamma_small(where(small, a, 0.5), where(small, x, 0.5)), q)
    return where(lower & ~(small & (q < 0.5)), p, 1 - q), where(lower & ~small, 1 - p, q)


def _gamma_small(a: Any, x: Any) -> Any:
    """Q for a, x < 1 (Gautschi: A computational procedure for incomplete gamma functions, 1979)."""
    n, scale = _series()
    log_x = log(x)
    powers = exp(log_x * _leading(n, a))
    series = (powers * _leading(scale, a) / (a + _leading(n + 1, a))).sum(0)
    log_gamma = _lgamma1p(a)
    first = (expm1(log_gamma) - expm1(a * log_x)) / a
    return a * exp(-log_gamma) * (first + exp((a + 1) * log_x) * series)


def _incomplete_gamma(a: Any, x: Any, upper: bool, rule: Rule) -> Any:
    inside = (a > 0) & (x > 0) & (a < math.inf) & (x < math.inf)
    parts = gamma_parts(where(inside, a, 1.0), where(inside, x, 1.0), rule)
    at_zero = (x == 0) & (a > 0) | (a == math.inf) & (x >= 0) & (x < math.inf)
    at_one = (a == 0) & (x > 0) | (x == math.inf) & (a >= 0) & (a < math.inf)
    edge = where(at_zero, float(upper), where(at_one, float(not upper), math.nan))
    return where(inside, parts[int(upper)], edge)


def gammainc(a: TensorLike, x: TensorLike) -> Tensor:
    """The regularised lower incomplete gamma function ``P(a, x) = ∫₀ˣ t^(a-1) exp(-t) dt / Γ(a)``.

    For a ≥ 0, x ≥ 0; NaN elsewhere. Error: float32 0.6 ulp; float64 3e-13 relative up to a = 1e3,
    1e-14 sqrt(a) up to 1e8, 1e-12 beyond. Derivatives by both arguments.

    >>> f"{gammainc(1.0, 1.0).item():.6f}"
    '0.632121'
    """
    rule = _rule_of("gammainc", a, x)
    return in_double("gammainc", lambda a, x: _incomplete_gamma(a, x, False, rule), a, x)


def gammaincc(a: TensorLike, x: TensorLike) -> Tensor:
    """The regularised upper incomplete gamma function ``Q(a, x) = 1 - P(a, x)``, precise where it
    is small. For a ≥ 0, x ≥ 0; NaN elsewhere. Errors and derivatives as :func:`gammainc`.

    >>> f"{gammaincc(1.0, 1.0).item():.6f}"
    '0.367879'
    """
    rule = _rule_of("gammaincc", a, x)
    return in_double("gammaincc", lambda a, x: _incomplete_gamma(a, x, True, rule), a, x)


def _lgamma1p(a: Any) -> Any:
    """lgamma(1 + a) for 0 < a < 1, by its series where 1 + a would lose digits of a."""
    near = minimum(a, 1e-3)
    total = near * 0
    for k in reversed(range(2, 8)):
        zeta = sum(n**-k for n in range(1, 400)) + 400.0 ** (1 - k) / (k - 1) + 0.5 * 400.0**-k
        total = (total + (-1) ** k * zeta / k) * near
    return where(a < 1e-3, (total - _EULER) * near, lgamma(a + 1))


# -- beta ------------------------------------------------------------------------------------------
def _beta_end(p: Any, q: Any, z: Any, log_rest: Any, drop: float) -> Any:
    """Where ``p s + (p + q) log(1 - z (1 - exp(-s)))`` is ``drop``: Newton's steps from above."""
    total = p + q
    s = (drop - total * log_rest) / p
    for _ in range(9):
        e = expm1(-s)
        inner = 1 + z * e
        slope = p - total * z * (1 + e) / inner
        s = s - (p * s + total * log1p(z * e) - drop) / maximum(slope, 1e-300)
    return s


def beta_inside(a: Any, b: Any, x: Any, rule: Rule) -> Any:
    """I for a, b > 0, 0 < x < 1."""
    lower = x <= (a + 1) / (a + b + 2)
    p, q = where(lower, a, b), where(lower, b, a)
    z = where(lower, x, 1 - x)
    log_x, log_y = log(x), log1p(-x)
    log_z, log_rest = where(lower, log_x, log_y), where(lower, log_y, log_x)
    with no_grad():
        end = stop_gradient(_beta_end(p + 1, q, z, log_rest, rule.drop))
    rate, total = p + 1, p + q + 1
    area = integral(lambda s: -rate * s - total * log1p(z * expm1(-s)), end, rule)
    term = exp(p * log_z + q * log_rest - betaln(p, q)) / p
    found = minimum(term * (1 + z * (p + q) * area), 1.0)
    return where(lower, found, 1 - found)


def _beta_edge(a: Any, b: Any, x: Any) -> Any:
    """I where x is 0 or 1 or a parameter 0 or infinite: all weight then lies at one end, unless
    both are, for which there is no limit.
    """
    domain = (a >= 0) & (b >= 0) & (x >= 0) & (x <= 1)
    at_zero = (a == 0) | (b == math.inf)
    at_one = (b == 0) | (a == math.inf)
    found = where(at_zero, where(x > 0, 1.0, 0.0), where(at_one, where(x < 1, 0.0, 1.0), x))
    return where(domain & ~(at_zero & at_one), found, math.nan)


def betainc(a: TensorLike, b: TensorLike, x: TensorLike) -> Tensor:
    """The regularised incomplete beta function
    ``I(x; a, b) = ∫₀ˣ t^(a-1) (1 - t)^(b-1) dt / B(a, b)``.

    For a, b ≥ 0, not both 0 or both infinite, 0 ≤ x ≤ 1; NaN elsewhere. Error: float32 0.6 ulp,
    float64 1e-13 relative, both up to a + b = 1e3 (1e-16 (a + b) beyond) and for x below the mean;
    above it 1e-14 in absolute terms. Derivatives by all arguments.

    >>> f"{betainc(2.0, 3.0, 0.5).item():.6f}"
    '0.687500'
    """
    rule = _rule_of("betainc", a, b, x)

    def value(a: Any, b: Any, x: Any) -> Any:
        inside = (a > 0) & (b > 0) & (x > 0) & (x < 1) & (a < math.inf) & (b < math.inf)
        safe_a, safe_b, safe_x = (where(inside, each, 0.5) for each in (a, b, x))
        return where(inside, beta_inside(safe_a, safe_b, safe_x, rule), _beta_edge(a, b, x))

    return in_double("betainc", value, a, b, x)


