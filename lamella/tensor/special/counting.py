"""Ratios of gamma functions, series of numbers, and a few distribution functions by their series:
what is composed of the gamma, error and exponential functions.

Errors are stated in units in the last place (ulp) of the result; tests hold them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamella.dtypes import float32
from lamella.errors import OptionError
from lamella.tensor.comparison import floor, round, where
from lamella.tensor.creation import asarray
from lamella.tensor.elementwise import abs, maximum, minimum
from lamella.tensor.gradient import stop_gradient
from lamella.tensor.operands import TensorLike
from lamella.tensor.special.error import ndtr
from lamella.tensor.special.gamma import betaln, gamma, gammasgn, lgamma, zeta
from lamella.tensor.special.incomplete import DOUBLE, quadrature
from lamella.tensor.special.support import in_double
from lamella.tensor.transcendental import exp, sin

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "bernoulli", "euler", "factorial2", "kolmogorov", "loggamma", "owens_t", "perm", "poch",
    "rgamma", "stirling2", "zetac",
]  # fmt: skip


# -- gamma -----------------------------------------------------------------------------------------
def loggamma(z: TensorLike) -> Tensor:
    """The logarithm of the gamma function where that is real: :func:`lgamma` for z > 0, NaN below.

    >>> loggamma(1.0).item()
    0.0
    """
    return in_double("loggamma", lambda x: where(x < 0, math.nan, lgamma(x)), z)


def rgamma(x: TensorLike) -> Tensor:
    """``1 / Γ(x)``, which has no poles: 0 at 0 and at negative whole numbers.

    Error: float32 0.6 ulp, float64 64 ulp above -20. Derivative ``-ψ(x) / Γ(x)``, continued over
    the zeros.

    >>> rgamma([3.0, -1.0]).tolist()
    [0.5, 0.0]
    """

    def value(x: Any) -> Any:
        below = x < 0.5
        low = maximum(where(below, x, 0.0), -1e15)
        whole = round(low)
        odd = floor(whole * 0.5) * 2 != whole
        sine = sin((low - whole) * math.pi)
        found = where(odd, -sine, sine) * (gamma(minimum(1 - low, 171.0)) / math.pi)
        rest = exp(where(low < -170, lgamma(1 - low) - lgamma(171.0), 0.0))
        found = where(low < -170, where(whole == low, 0.0, found * rest), found)
        high = where(below, 1.0, x)
        above = where(high < 170, 1 / gamma(minimum(high, 170.0)), exp(-lgamma(high)))
        return where(below, found + 0.0, where(x == math.inf, 0.0, above))

    return in_double("rgamma", value, x)


_FEW: Final = 12


def _poch(z: Any, m: Any) -> Any:
    few = (floor(m) == m) & (m >= 0) & (m <= _FEW)
    product = z * 0 + 1.0
    for k in range(_FEW):
        product = where(few & (m > k), product * (z + k), product)
    end = z + m
    positive = (z > 0) & (m > 0)
    log_size = where(
        positive,
        lgamma(where(positive, m, 1.0))
        - betaln(where(positive, z, 1.0), where(positive, m, 1.0)),
        lgamma(where(positive, 1.0, end)) - lgamma(where(positive, 1.0, z)),
    )
    found = gammasgn(where(positive, 1.0, end)) * gammasgn(where(positive, 1.0, z)) * exp(log_size)
    pole, start = (end <= 0) & (floor(end) == end), (z <= 0) & (floor(z) == z)
    both = pole & start
    turned = exp(lgamma(where(both, 1 - z, 1.0)) - lgamma(where(both, 1 - end, 1.0)))
    turned = where(floor(m * 0.5) * 2 != m, -turned, turned)
    found = where(both, turned, where(pole, math.inf, where(start, 0.0, found)))
    return where(few, product, where((z == z) & (m == m), found, math.nan))


def poch(z: TensorLike, m: TensorLike) -> Tensor:
    """Pochhammer's rising factorial ``Γ(z + m) / Γ(z)``.

    Error: float32 0.6 ulp below 1e8; float64 8 ulp for whole m up to 12, else 1e-15 (1 + log²)
    relative. Derivatives by both arguments; for whole m up to 12 by ``z`` alone.

    >>> poch(2.0, 3.0).item()
    24.0
    """
    return in_double("poch", _poch, z, m)


def perm(N: TensorLike, k: TensorLike) -> Tensor:
    """The number of ordered choices of ``k`` of ``N``: ``N! / (N - k)!``, 0 unless 0 ≤ k ≤ N.

    >>> perm([5, 3], [2, 4]).tolist()
    [20.0, 0.0]
    """

    def value(n: Any, k: Any) -> Any:
        inside = (k <= n) & (k >= 0) & (n >= 0)
        found = _poch(where(inside, n - k + 1, 1.0), where(inside, k, 0.0))
        whole = (floor(n) == n) & (floor(k) == k) & (found < 1e13)
        found = found + stop_gradient(where(whole, round(found) - found, 0.0))
        return where(inside, found, 0.0)

    return in_double("perm", value, N, k)


def factorial2(n: TensorLike) -> Tensor:
    """The double factorial ``n (n - 2) (n - 4) …`` of whole ``n``, 0 below -1.

    Error: float32 0.6 ulp, float64 16 ulp; exact below 1e13.

    >>> factorial2([5, 6, 0]).tolist()
    [15.0, 48.0, 1.0]
    """

    def value(n: Any) -> Any:
        safe = maximum(n, -1.0)
        odd = floor(safe * 0.5) * 2 != safe
        scale = where(odd, math.sqrt(2 / math.pi), 1.0)
        found = scale * exp((safe * 0.5) * math.log(2)) * gamma(safe * 0.5 + 1)
        found = where(found < 1e13, round(found), found)
        return where(n < -1, 0.0, found)

    return in_double("factorial2", value, n)


def zetac(x: TensorLike) -> Tensor:
    """Riemann's ``zeta(x) - 1`` for x > 1, precise where it is small; NaN below.

    >>> f"{zetac(2.0).item():.6f}"
    '0.644934'
    """
    return in_double("zetac", lambda x: zeta(x, 2.0), x)


# -- series of numbers -----------------------------------------------------------------------------
def _numbers(name: str, n: int) -> int:
    if not isinstance(n, int) or n < 0:
        raise OptionError(f"[{name}] n={n!r:.40} is no whole number from 0 on; give one")
    return n


def bernoulli(n: int) -> Tensor:
    """Bernoulli's numbers ``B₀ … Bₙ`` (B₁ = -½), float32, computed exactly and rounded once.

    Raises:
        OptionError: unless ``n`` is a whole number from 0 on.

    >>> bernoulli(2).tolist()[1]
    -0.5
    """
    found = [Fraction(1)]
    for m in range(1, _numbers("bernoulli", n) + 1):
        if m > 1 and m % 2:
            found.append(Fraction(0))
            continue
        total = sum((math.comb(m + 1, k) * b for k, b in enumerate(found)), Fraction(0))
        found.append(-total / (m + 1))
    return asarray(np.array([float(b) for b in found]), dtype=float32)


def euler(n: int) -> Tensor:
    """Euler's numbers ``E₀ … Eₙ``, float32, computed exactly and rounded once.

    Raises:
        OptionError: unless ``n`` is a whole number from 0 on.

    >>> euler(4).tolist()
    [1.0, 0.0, -1.0, 0.0, 5.0]
    """
    found = [1]
    for m in range(1, _numbers("euler", n) + 1):
        total = 0 if m % 2 else -sum(math.comb(m, k) * found[k] for k in range(0, m, 2))
        found.append(total)
    return asarray(np.array([float(e) for e in found]), dtype=float32)


def stirling2(N: int, K: int) -> int:
    """The number of ways to divide ``N`` things into ``K`` sets that are not empty, exactly.

    Raises:
        OptionError: unless both are whole numbers from 0 on.

    >>> stirling2(4, 2)
    7
    """
    n, k = _numbers("stirling2", N), _numbers("stirling2", K)
    total = sum((-1) ** (k - j) * math.comb(k, j) * j**n for j in range(k + 1))
    return int(total // math.factorial(k))


# -- distributions ---------------------------------------------------------------------------------
def kolmogorov(y: TensorLike) -> Tensor:
    """The upper tail of Kolmogorov's distribution ``2 Σ (-1)^(k-1) exp(-2 k² y²)`` over k ≥ 1; 1
    for y ≤ 0. Below 0.82 by its theta transform.

    Error: float32 0.6 ulp, float64 8 ulp above 0.82, 1e-15 in absolute terms below.

    >>> f"{kolmogorov(1.0).item():.6f}"
    '0.270000'
    """

    def value(y: Any) -> Any:
        high, low = maximum(y, 0.8), maximum(minimum(y, 0.82), 0.04)
        upper = sum(exp(-2.0 * k * k * high * high) * (-1) ** (k - 1) for k in range(1, 6))
        lower = sum(
            exp(-((2 * k - 1) ** 2) * math.pi**2 / 8 / (low * low)) for k in range(1, 6)
        )
        below = 1 - math.sqrt(2 * math.pi) / low * lower
        return where(y > 0.82, 2 * upper, where(y > 0.04, below, where(y == y, 1.0, y)))

    return in_double("kolmogorov", value, y)


def _owens_t(h: Any, a: Any) -> Any:
    """T for h >= 0 and 0 <= a <= 1."""
    points, weights = quadrature(DOUBLE.points, h)
    x = a * points
    square = 1 + x * x
    return a / (2 * math.pi) * (exp(h * h * square * -0.5) / square * weights).sum(0)


def owens_t(x: TensorLike, y: TensorLike) -> Tensor:
    """Owen's T function ``1/2π ∫₀ʸ exp(-x² (1 + t²) / 2) / (1 + t²) dt``.

    Error: float32 0.6 ulp, float64 1e-14 relative, 1e-16 in absolute terms for |y| > 1. By Gauss
    and Legendre's rule of 40 points up to |y| = 1, by Owen's relation beyond. Derivatives by
    both arguments.

    >>> f"{owens_t(0.0, 1.0).item():.6f}"
    '0.125000'
    """

    def value(h: Any, a: Any) -> Any:
        size, slope = minimum(abs(h), 40.0), abs(a)
        far = slope > 1
        inverse = 1 / where(far, slope, 1.0)
        product = minimum(where(far, size * minimum(slope, 1e300), 0.0), 40.0)
        inner = _owens_t(where(far, product, size), where(far, inverse, slope))
        q, r = ndtr(-size), ndtr(-product)
        found = where(far, 0.5 * (q + r) - q * r - inner, inner)
        found = where(a < 0, -found, found)
        return where((h == h) & (a == a), found, math.nan)

    return in_double("owens_t", value, x, y)
