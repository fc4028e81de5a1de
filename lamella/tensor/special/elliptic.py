"""Elliptic integrals: Legendre's complete and incomplete ones, Carlson's symmetric ones, and the
mean they come from. Parameters are m = k², as SciPy's.

Errors are stated in units in the last place (ulp) of the result; tests hold them. Methods: the
arithmetic-geometric mean (NIST Digital Library of Mathematical Functions, 19.8), and Carlson's
duplication (19.26, 19.36: Numerical computation of real or complex elliptic integrals, 1995). The
number of steps is fixed, so that derivatives are those of the steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from lamella.tensor.comparison import round, where
from lamella.tensor.elementwise import abs, maximum, minimum
from lamella.tensor.operands import TensorLike
from lamella.tensor.special.support import in_double
from lamella.tensor.transcendental import cos, sin, sqrt

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "agm", "ellipe", "ellipeinc", "ellipk", "ellipkinc", "ellipkm1", "elliprc", "elliprd",
    "elliprf", "elliprg",
]  # fmt: skip

_HALVINGS: Final = 14  # of the logarithm of the ratio: from 1e-308 to 1
_DUPLICATIONS: Final = 11  # differences shrink by 4 each, from 1e4 times the mean to 2e-3 of it


def _means(a: Any, b: Any) -> tuple[Any, Any]:
    """The arithmetic-geometric mean of a, b > 0, and ``Σ 2ⁿ cₙ²``, ``cₙ₊₁ = (aₙ - bₙ) / 2``."""
    total, weight = a * 0, 1.0
    for _ in range(_HALVINGS):
        half = (a - b) * 0.5
        total = total + weight * half * half
        a, b = a - half, sqrt(a) * sqrt(b)
        weight *= 2
    return a, total


def _agm(a: Any, b: Any) -> Any:
    inside = (a > 0) & (b > 0) & (a < math.inf) & (b < math.inf)
    found = _means(where(inside, a, 1.0), where(inside, b, 1.0))[0]
    zero = (a == 0) & (b >= 0) & (b < math.inf) | (b == 0) & (a >= 0) & (a < math.inf)
    endless = (a == math.inf) & (b > 0) | (b == math.inf) & (a > 0)
    return where(inside, found, where(zero, 0.0, where(endless, math.inf, math.nan)))


def agm(a: TensorLike, b: TensorLike) -> Tensor:
    """The arithmetic-geometric mean: the limit of ``a, b = (a + b) / 2, √(a b)``.

    Of the same sign; NaN otherwise. Error: float32 0.6 ulp, float64 8 ulp. Derivatives by both.

    >>> f"{agm(1.0, 2.0).item():.6f}"
    '1.456791'
    """

    def value(a: Any, b: Any) -> Any:
        turn = where((a < 0) | (b < 0), -1.0, 1.0)
        return turn * _agm(turn * a, turn * b)

    return in_double("agm", value, a, b)


def _ellipkm1(p: Any) -> Any:
    inside = (p > 0) & (p < math.inf)
    found = (math.pi / 2) / _means(sqrt(where(inside, p, 1.0)), p * 0 + 1)[0]
    edge = where(p == 0, math.inf, where(p == math.inf, 0.0, math.nan))
    return where(inside, found, edge)


def ellipkm1(p: TensorLike) -> Tensor:
    """The complete elliptic integral of the first kind around m = 1: ``K(1 - p)``; inf at 0.

    Error: float32 0.6 ulp, float64 8 ulp.

    >>> f"{ellipkm1(0.5).item():.6f}"
    '1.854075'
    """
    return in_double("ellipkm1", _ellipkm1, p)


def ellipk(m: TensorLike) -> Tensor:
    """The complete elliptic integral of the first kind ``K(m) = ∫₀^{π/2} (1 - m sin²t)^-½ dt``; inf
    at 1, NaN above.

    Error: float32 0.6 ulp, float64 8 ulp. Derivative ``(E(m) - (1 - m) K(m)) / (2 m (1 - m))``.

    >>> f"{ellipk(0.5).item():.6f}"
    '1.854075'
    """
    return in_double("ellipk", lambda m: _ellipkm1(1 - m), m)


def _ellipe(m: Any) -> Any:
    """E for m <= 1; that of negative m by the one of m / (m - 1)."""
    inside = (m < 1) & (m > -math.inf)
    negative = inside & (m < 0)
    safe = where(inside, m, 0.0)
    rest = 1 - safe
    part = where(negative, safe / (safe - 1), safe)
    mean, total = _means(part * 0 + 1, sqrt(where(negative, 1 / rest, rest)))
    found = (math.pi / 2) * (1 - 0.5 * part - total) / mean
    found = found * where(negative, sqrt(rest), 1.0)
    return where(inside, found, where(m == 1, 1.0, where(m == -math.inf, math.inf, math.nan)))


def ellipe(m: TensorLike) -> Tensor:
    """The complete elliptic integral of the second kind ``E(m) = ∫₀^{π/2} (1 - m sin²t)^½ dt``; NaN
    above 1.

    Error: float32 0.6 ulp; float64 8 ulp, 1e-14 near 1. Derivative ``(E(m) - K(m)) / (2 m)``.

    >>> f"{ellipe(0.5).item():.6f}"
    '1.350644'
    """
    return in_double("ellipe", _ellipe, m)


# -- Carlson's forms -------------------------------------------------------------------------------
def _series(e2: Any, e3: Any) -> Any:
    """R_F of arguments near 1 by the symmetric functions of their differences, to order 7."""
    return (
        1 - e2 * 0.1 + e3 / 14 + e2 * e2 / 24 - e2 * e3 * (3 / 44) - e2**3 * (5 / 208)
        + e3 * e3 * (3 / 104) + e2 * e2 * e3 / 16
    )  # fmt: skip


def _rf(x: Any, y: Any, z: Any) -> Any:
    """R_F of non-negative arguments, at most one of them 0."""
    for _ in range(_DUPLICATIONS):
        a, b, c = sqrt(x), sqrt(y), sqrt(z)
        lift = a * b + b * c + c * a
        x, y, z = (x + lift) * 0.25, (y + lift) * 0.25, (z + lift) * 0.25
    mean = (x + y + z) / 3
    u, v = 1 - x / mean, 1 - y / mean
    w = -u - v
    return _series(u * v - w * w, u * v * w) / sqrt(mean)


def _rd(x: Any, y: Any, z: Any) -> Any:
    """R_D of non-negative x, y, not both 0, and z > 0."""
    total, weight = x * 0, 1.0
    for _ in range(_DUPLICATIONS):
        a, b, c = sqrt(x), sqrt(y), sqrt(z)
        lift = a * b + b * c + c * a
        total = total + weight / (c * (z + lift))
        x, y, z = (x + lift) * 0.25, (y + lift) * 0.25, (z + lift) * 0.25
        weight *= 0.25
    mean = (x + y + 3 * z) / 5
    u, v = 1 - x / mean, 1 - y / mean
    w = -(u + v) / 3
    e2, e3 = u * v - 6 * w * w, (3 * u * v - 8 * w * w) * w
    e4, e5 = 3 * (u * v - w * w) * w * w, u * v * w**3
    rest = (
        1 - e2 * (3 / 14) + e3 / 6 + e2 * e2 * (9 / 88) - e4 * (3 / 22) - e2 * e3 * (9 / 52)
        + e5 * (3 / 26) - e2**3 / 16 + e3 * e3 * (3 / 40) + e2 * e4 * (3 / 20)
    )  # fmt: skip
    return 3 * total + weight * rest / (mean * sqrt(mean))


def _valid(found: Any, edge: Any, good: Any, endless: Any) -> Any:
    return where(good, where(edge, math.inf, where(endless, 0.0, found)), math.nan)


def _inside(form: Callable[..., Any], edge: Any, x: Any, y: Any, z: Any) -> Any:
    """``form`` of non-negative numbers, inf on its ``edge``."""
    good = (x >= 0) & (y >= 0) & (z >= 0)
    endless = maximum(maximum(x, y), z) == math.inf
    safe = [where(good & ~edge & ~endless, each, 1.0) for each in (x, y, z)]
    return _valid(form(*safe), edge, good, endless)


def elliprf(x: TensorLike, y: TensorLike, z: TensorLike) -> Tensor:
    """Carlson's ``R_F = ½ ∫₀^∞ ((t + x) (t + y) (t + z))^-½ dt`` of non-negative numbers; inf where
    two are 0.

    Error: float32 0.6 ulp; float64 8 ulp for ratios up to 1e12. Derivatives by all arguments.

    >>> f"{elliprf(1.0, 2.0, 3.0).item():.6f}"
    '0.726946'
    """

    def value(x: Any, y: Any, z: Any) -> Any:
        return _inside(_rf, (x + y == 0) | (y + z == 0) | (z + x == 0), x, y, z)

    return in_double("elliprf", value, x, y, z)


def elliprd(x: TensorLike, y: TensorLike, z: TensorLike) -> Tensor:
    """Carlson's ``R_D = 3/2 ∫₀^∞ ((t + x) (t + y))^-½ (t + z)^-3/2 dt`` of x, y ≥ 0, z > 0; inf
    where z or both x and y are 0.

    Error: float32 0.6 ulp; float64 8 ulp for ratios up to 1e12. Derivatives by all arguments.

    >>> f"{elliprd(1.0, 2.0, 3.0).item():.6f}"
    '0.290460'
    """

    def value(x: Any, y: Any, z: Any) -> Any:
        return _inside(_rd, (x + y == 0) | (z == 0), x, y, z)

    return in_double("elliprd", value, x, y, z)


def elliprc(x: TensorLike, y: TensorLike) -> Tensor:
    """Carlson's ``R_C = R_F(x, y, y)`` of x ≥ 0, y > 0; inf at y = 0, for y < 0 its principal
    value ``√(x / (x - y)) R_C(x - y, -y)``.

    Error: float32 0.6 ulp; float64 8 ulp for ratios up to 1e12.

    >>> f"{elliprc(1.0, 2.0).item():.6f}"
    '0.785398'
    """

    def value(x: Any, y: Any) -> Any:
        good, below, endless = (x >= 0) & (y == y), y < 0, maximum(x, abs(y)) == math.inf
        inside = good & (y != 0) & ~endless
        safe = where(inside, x, 1.0), where(inside, y, 1.0)
        a = where(below, safe[0] + abs(safe[1]), safe[0])
        scale = where(below, sqrt(safe[0] / a), 1.0)
        return _valid(scale * _rf(a, abs(safe[1]), abs(safe[1])), y == 0, good, endless)

    return in_double("elliprc", value, x, y)


def elliprg(x: TensorLike, y: TensorLike, z: TensorLike) -> Tensor:
    """Carlson's ``R_G = (z R_F - (x - z) (y - z) R_D / 3 + √(x y / z)) / 2`` of non-negative
    numbers, z between x and y.

    Error: float32 0.6 ulp; float64 16 ulp for ratios up to 1e12.

    >>> f"{elliprg(1.0, 2.0, 3.0).item():.6f}"
    '1.401847'
    """

    def value(x: Any, y: Any, z: Any) -> Any:
        good = (x >= 0) & (y >= 0) & (z >= 0)
        low, high = minimum(minimum(x, y), z), maximum(maximum(x, y), z)
        middle = maximum(minimum(x, y), minimum(maximum(x, y), z))
        inside = good & (middle > 0)
        a, b, c = (where(inside, v, 1.0) for v in (low, high, middle))
        found = (c * _rf(a, b, c) + (c - a) * (b - c) * _rd(a, b, c) / 3 + sqrt(a * b / c)) / 2
        return where(inside, found, where(good, sqrt(high) / 2, math.nan))

    return in_double("elliprg", value, x, y, z)


# -- incomplete integrals --------------------------------------------------------------------------
def _reduced(phi: Any, m: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Half turns, sin, cos² and 1 - m sin² of the rest of the angle, and where all is defined."""
    turns = round(phi / math.pi)
    rest = phi - turns * math.pi
    s, c = sin(rest), cos(rest)
    delta = 1 - m * s * s
    good = (delta >= 0) & ((m <= 1) | (turns == 0)) & (abs(phi) < math.inf)
    return turns, where(good, s, 0.0), where(good, c * c, 1.0), where(good, delta, 1.0), good


def ellipkinc(phi: TensorLike, m: TensorLike) -> Tensor:
    """The incomplete elliptic integral of the first kind ``F(φ, m) = ∫₀^φ (1 - m sin²t)^-½ dt``.

    NaN where m sin²φ > 1. Error: float32 0.6 ulp; float64 16 ulp. Derivatives by both arguments.

    >>> f"{ellipkinc(1.0, 0.5).item():.6f}"
    '1.083217'
    """

    def value(phi: Any, m: Any) -> Any:
        turns, s, square, delta, good = _reduced(phi, m)
        edge = (square == 0) & (delta == 0)
        found = s * _rf(where(edge, 1.0, square), delta, square * 0 + 1)
        whole = where(turns == 0, 0.0, 2 * turns * _ellipkm1(where(turns == 0, 1.0, 1 - m)))
        found = where(good, where(edge, where(s < 0, -math.inf, math.inf), found + whole), math.nan)
        return where((abs(phi) == math.inf) & (m <= 1), phi, found)

    return in_double("ellipkinc", value, phi, m)


def ellipeinc(phi: TensorLike, m: TensorLike) -> Tensor:
    """The incomplete elliptic integral of the second kind ``E(φ, m) = ∫₀^φ (1 - m sin²t)^½ dt``.

    NaN where m sin²φ > 1. Error: float32 0.6 ulp; float64 32 ulp. Derivatives by both arguments.

    >>> f"{ellipeinc(1.0, 0.5).item():.6f}"
    '0.927330'
    """

    def value(phi: Any, m: Any) -> Any:
        turns, s, square, delta, good = _reduced(phi, m)
        edge = (square == 0) & (delta == 0)
        a, b, one = where(edge, 1.0, square), delta, square * 0 + 1
        found = s * _rf(a, b, one) - m * s**3 * _rd(a, b, one) / 3
        whole = where(turns == 0, 0.0, 2 * turns * _ellipe(where(turns == 0, 0.0, m)))
        found = where(good, where(edge, s, found) + whole, math.nan)
        return where((abs(phi) == math.inf) & (m <= 1), phi, found)

    return in_double("ellipeinc", value, phi, m)
