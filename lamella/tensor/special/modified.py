"""Modified Bessel functions: of the second kind of orders 0 and 1, and both kinds of any order.

Errors are stated in units in the last place (ulp) of the result; tests hold them. Methods for any
order v: with ``r = √(v² + x²)``, ``t = asinh(v / x)`` and the paths of integration moved through
their saddle points (NIST Digital Library of Mathematical Functions, 10.32),

    K(x) = ½ exp(v t - r) ∫ exp(-r (cosh s - 1) - v (sinh s - s)) ds over all s
    I(x) = exp(r - v t) / π ∫ exp(-r (1 - cos θ)) cos(v (θ - sin θ)) dθ from 0 to π for large r,

both by the trapezoidal rule, which converges geometrically. Derivatives, by the order too, are
those of the sums. For small r, I is its power series; for small x, K is Temme's series (On the
numerical evaluation of the modified Bessel function of the third kind, 1975).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamella.dtypes import float64
from lamella.tensor.comparison import floor, round, where
from lamella.tensor.elementwise import abs, maximum, minimum
from lamella.tensor.gradient import no_grad, stop_gradient
from lamella.tensor.operands import TensorLike
from lamella.tensor.special import tables
from lamella.tensor.special.bessel import i0e, i1e
from lamella.tensor.special.gamma import gamma, lgamma
from lamella.tensor.special.support import chebyshev, constants, in_double, operands, polynomial
from lamella.tensor.transcendental import asin, asinh, cos, cosh, exp, expm1, log, sin, sinh, sqrt

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["iv", "ive", "k0", "k0e", "k1", "k1e", "kn", "kv", "kve"]


# -- orders 0 and 1 --------------------------------------------------------------------------------
def _second(x: Any, order: int, scaled: bool) -> Any:
    """K for x >= 0: a logarithm, a pole and a series up to 2, an exponential and one beyond."""
    near = x <= 2
    small, large = where(near & (x > 0), x, 1.0), where(near, 2.0, x)
    t, growth, log_half = small * small * 0.5 - 1, exp(small), log(small * 0.5)
    if order:
        low = log_half * growth * i1e(small) + 1 / small + small * chebyshev(t, tables.K1_SMALL)
    else:
        low = chebyshev(t, tables.K0_SMALL) - log_half * growth * i0e(small)
    far = chebyshev(4 / large - 1, tables.K1_LARGE if order else tables.K0_LARGE) / sqrt(large)
    found = where(near, low * growth, far) if scaled else where(near, low, far * exp(-large))
    return where(x > 0, found, where(x == 0, math.inf, math.nan))


def k0(x: TensorLike) -> Tensor:
    """The modified Bessel function of the second kind, order 0: ``∫₀^∞ exp(-x cosh t) dt``; inf at
    0, NaN below.

    Error: float32 0.6 ulp, float64 8 ulp. Derivative ``-k1(x)``.

    >>> f"{k0(1.0).item():.6f}"
    '0.421024'
    """
    return in_double("k0", lambda x: _second(x, 0, False), x)


def k0e(x: TensorLike) -> Tensor:
    """``exp(x) k0(x)``, which does not underflow.

    Error: float32 0.6 ulp, float64 8 ulp.

    >>> f"{k0e(1.0).item():.6f}"
    '1.144463'
    """
    return in_double("k0e", lambda x: _second(x, 0, True), x)


def k1(x: TensorLike) -> Tensor:
    """The modified Bessel function of the second kind, order 1; inf at 0, NaN below.

    Error: float32 0.6 ulp, float64 8 ulp. Derivative ``-k0(x) - k1(x) / x``.

    >>> f"{k1(1.0).item():.6f}"
    '0.601907'
    """
    return in_double("k1", lambda x: _second(x, 1, False), x)


def k1e(x: TensorLike) -> Tensor:
    """``exp(x) k1(x)``, which does not underflow.

    Error: float32 0.6 ulp, float64 8 ulp.

    >>> f"{k1e(1.0).item():.6f}"
    '1.636153'
    """
    return in_double("k1e", lambda x: _second(x, 1, True), x)


# -- any order, second kind ------------------------------------------------------------------------
_DROP: Final = 38.0  # exp(-38) is 3e-17
_TINY: Final = 0.1  # below, K is a series


def _leading(values: np.ndarray, like: Any) -> Any:
    return constants(values.reshape(-1, *(1,) * like.ndim))


def second_kind_series(
    x: Any, mu: Any, sign: float, terms: int
) -> tuple[Any, Any, Any, Any]:
    """Temme's sums for small x and -1/2 <= mu <= 1/2, of coefficients times powers k of
    ``sign x²/4`` (1 for K, -1 for Y): of f, of p - k f (for the next order), of q and of k q.
    """
    even = polynomial(mu * mu, tables.RGAMMA[0::2])
    odd = -polynomial(mu * mu, tables.RGAMMA[1::2])
    log_x = -log(x * 0.5)
    sigma = mu * log_x
    turn = mu * math.pi
    flat = abs(turn) < 1e-4
    safe = where(flat, 1.0, turn)
    ratio = where(flat, 1 + turn * turn / 6, safe / sin(safe))
    level = abs(sigma) < 1e-4
    rise = where(level, 1 + sigma * sigma / 6, sinh(sigma) / where(level, 1.0, sigma))
    f = ratio * (cosh(sigma) * odd + rise * log_x * even)
    p, q = 0.5 * exp(sigma) * gamma(1 + mu), 0.5 * exp(-sigma) * gamma(1 - mu)
    weight = x * 0 + 1.0
    total, following, rest, moment = f, p, q, q * 0
    for k in range(1, terms):
        f = (k * f + p + q) / (k * k - mu * mu)
        p, q = p / (k - mu), q / (k + mu)
        weight = weight * (x * x * (0.25 * sign / k))
        total, following = total + weight * f, following + weight * (p - k * f)
        rest, moment = rest + weight * q, moment + k * weight * q
    return total, following, rest, moment


def _kv_small(v: Any, x: Any) -> Any:
    """K for x <= 0.1: Temme's series and the recurrence to order 6.5, beyond the finite series."""
    high = v > 6.5
    low = where(high, 0.0, v)
    n = stop_gradient(round(low))
    mu = low - n
    before, after, _, _ = second_kind_series(x, mu, 1.0, 7)
    after = after * (2 / x)
    found = where(n == 0, before, after)
    for k in range(1, 7):
        before, after = after, before + (mu + k) * (2 / x) * after
        found = where(n == k + 1, after, found)
    v = where(high, v, 8.0)
    total = x * 0 + 1.0
    for k in reversed(range(1, 6)):
        total = 1 + total * (x * x * 0.25) / (k * (k - v))
    return where(high, 0.5 * exp(lgamma(v) - v * log(x * 0.5)) * total, found)


def _fallen(slope: Any, curve: Any, sign: int) -> Any:
    """Where ``slope (cosh s - 1) + sign curve (sinh s - s)``, or on the left ``slope (cosh s - 1) +
    curve (s - 1 + exp(-s))``, is 38: Newton's steps from above.
    """
    s = minimum(asinh(_DROP / slope + 1) + 1, sqrt(2 * _DROP / (slope + 1e-300)) + 1e-3)
    s = s if sign > 0 else minimum(s, (_DROP / maximum(curve, 1e-3)) + 1)
    for _ in range(6):
        e = expm1(s)
        rise = e * e / (2 * (1 + e))  # cosh(s) - 1
        tilt = rise + e / (1 + e)  # sinh(s)
        if sign > 0:
            value, change = slope * rise + curve * (tilt - s), slope * tilt + curve * rise
        else:
            back = e / (1 + e)  # 1 - exp(-s)
            value, change = slope * rise + curve * (s - back), slope * tilt + curve * back
        s = s - (value - _DROP) / change
    return s


def _kve_large(v: Any, x: Any, points: int) -> Any:
    """``exp(x) K`` by the trapezoidal rule."""
    r = sqrt(v * v + x * x)
    less = x * (x / (r + v))  # r - v
    with no_grad():
        right = stop_gradient(_fallen(r, v, 1))
        left = stop_gradient(_fallen(less, v, -1))
    step = (left + right) / points
    s = _leading(np.arange(points + 1.0), x) * step - left
    e = expm1(s)
    rise = e * e / (2 * (1 + e))
    ahead = r * rise + v * (rise + e / (1 + e) - s)
    behind = less * rise - v * (s - e)  # the same, without its cancellation for s < 0
    area = exp(-where(s > 0, ahead, behind)).sum(0) * step
    return 0.5 * exp(v * asinh(v / x) - v * (v / (r + x))) * area


def _kve(v: Any, x: Any, points: int) -> Any:
    """``exp(x) K`` of any v and x > 0."""
    v = where(v < 0, -v, v)
    near = x < _TINY
    tiny = where(near, x, _TINY)
    small = _kv_small(where(near, v, 1.0), tiny) * exp(tiny)
    return where(near, small, _kve_large(where(near, 1.0, v), where(near, 1.0, x), points))


def _points(name: str, v: TensorLike, x: TensorLike) -> int:
    return 52 if operands(name, v, x)[0].dtype is float64 else 34


def _kv(name: str, v: TensorLike, x: TensorLike, scaled: bool) -> Tensor:
    points = _points(name, v, x)

    def value(v: Any, x: Any) -> Any:
        inside = (x > 0) & (x < math.inf) & (abs(v) < math.inf)
        safe = where(inside, x, 1.0)
        found = _kve(where(inside, v, 0.0), safe, points)
        found = found if scaled else found * exp(-safe)
        edge = where((x == 0) | (abs(v) == math.inf) & (x > 0), math.inf, math.nan)
        edge = where((x == math.inf) & (abs(v) < math.inf), 0.0, edge)
        return where(inside, found, where((v == v) & (x == x), edge, math.nan))

    return in_double(name, value, v, x)


def kv(v: TensorLike, z: TensorLike) -> Tensor:
    """The modified Bessel function of the second kind of real order ``v``:
    ``∫₀^∞ exp(-z cosh t) cosh(v t) dt`` for z > 0; inf at 0, NaN below.

    Error: float32 0.6 ulp; float64 (1e-14 + 1e-16 |log y|) relative. Derivative by ``z``:
    ``-(K[v-1] + K[v+1]) / 2``; by ``v`` that of the integral.

    >>> f"{kv(0.5, 1.0).item():.6f}"
    '0.461069'
    """
    return _kv("kv", v, z, False)


def kve(v: TensorLike, z: TensorLike) -> Tensor:
    """``exp(z) kv(v, z)``, which does not underflow. Errors and derivatives as :func:`kv`.

    >>> f"{kve(0.5, 1.0).item():.6f}"
    '1.253314'
    """
    return _kv("kve", v, z, True)


def kn(n: TensorLike, x: TensorLike) -> Tensor:
    """:func:`kv` of whole orders, by SciPy's name.

    >>> f"{kn(2, 1.0).item():.6f}"
    '1.624839'
    """
    return _kv("kn", n, x, False)


# -- any order, first kind -------------------------------------------------------------------------
_FAR: Final = 20.0  # from this r on, what the integral leaves out is exp(-40) of it


def _ive_small(v: Any, x: Any) -> Any:
    """``exp(-x) I`` by the power series, v >= 0."""
    total = x * 0 + 1.0
    square = x * x * 0.25
    for k in reversed(range(1, 46)):
        total = 1 + total * square / (k * (v + k))
    power = where(v == 0, 0.0, v * log(x * 0.5))
    return exp(power - lgamma(v + 1) - x) * total


def _ive_large(v: Any, x: Any, points: int) -> Any:
    """``exp(-x) I`` by the trapezoidal rule for r >= 20, v >= 0."""
    r = sqrt(v * v + x * x)
    with no_grad():
        half = stop_gradient(asin(sqrt(_DROP / (2 * r))))
    step = half * (2 / points)
    angle = _leading(np.arange(points + 1.0), x) * step
    weight = _leading(np.array([0.5] + [1.0] * points), x)
    s = sin(angle * 0.5)
    waves = exp(-2 * r * s * s) * cos(v * (angle - sin(angle))) * weight
    return exp(v * (v / (r + x)) - v * asinh(v / x)) * waves.sum(0) * (step / math.pi)


def _ive(v: Any, x: Any) -> Any:
    """``exp(-x) I`` of v >= 0 and x > 0."""
    near = v * v + x * x < _FAR * _FAR
    small = _ive_small(where(near, v, 0.0), where(near, x, 1.0))
    return where(near, small, _ive_large(where(near, 0.0, v), where(near, _FAR, x), 24))


def _iv(name: str, v: TensorLike, x: TensorLike, scaled: bool) -> Tensor:
    points = _points(name, v, x)
    known = isinstance(v, (int, float)) and v >= 0

    def value(v: Any, x: Any) -> Any:
        a, order = abs(x), where(v < 0, -v, v)
        inside = (a > 0) & (a < math.inf) & (order < math.inf)
        y, w = where(inside, a, 1.0), where(inside, order, 0.0)
        found = _ive(w, y)
        if not known:
            turn = sin((order - 2 * floor(order * 0.5)) * math.pi)
            turn = where(floor(order) == order, 0.0, turn)
            other = turn * exp(-2 * y) * _kve(w, y, points)
            found = where((v < 0) & (turn != 0), found + (2 / math.pi) * other, found)
        found = found if scaled else found * exp(y)
        whole = floor(v) == v
        found = where((x < 0) & whole & (floor(v * 0.5) * 2 != v), -found, found)
        found = where((x < 0) & ~whole, math.nan, found)
        return where(inside, found, _edge(v, x, scaled))

    return in_double(name, value, v, x)


def _edge(v: Any, x: Any, scaled: bool) -> Any:
    """I at 0 and at infinite arguments or orders."""
    whole = floor(v) == v
    at_zero = where(v == 0, 1.0, where((v > 0) | whole, 0.0, math.inf))
    odd = where(floor(v * 0.5) * 2 != v, -1.0, 1.0)
    far = 0.0 if scaled else where(x > 0, math.inf, where(whole, odd * math.inf, math.nan))
    found = where(x == 0, at_zero, far)
    found = where(abs(v) == math.inf, where(v > 0, 0.0, math.nan), found)
    return where((v == v) & (x == x), found, math.nan)


def iv(v: TensorLike, z: TensorLike) -> Tensor:
    """The modified Bessel function of the first kind of real order ``v``:
    ``Σ (z/2)^(2k + v) / (k! Γ(k + v + 1))`` over k ≥ 0. NaN for z < 0 unless ``v`` is whole.

    Error: float32 0.6 ulp; float64 (2e-14 + 1e-16 |log y|) relative. Derivative by ``z``:
    ``(I[v-1] + I[v+1]) / 2``; by ``v`` that of the sums.

    >>> f"{iv(0.5, 1.0).item():.6f}"
    '0.937675'
    """
    return _iv("iv", v, z, False)


def ive(v: TensorLike, z: TensorLike) -> Tensor:
    """``exp(-|z|) iv(v, z)``, which does not overflow. Errors and derivatives as :func:`iv`.

    >>> f"{ive(0.5, 1.0).item():.6f}"
    '0.344951'
    """
    return _iv("ive", v, z, True)
