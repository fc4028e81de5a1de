"""Bessel functions of real order, of the first and second kind, and the spherical ones.

Method: Schläfli's integral of ``exp(x sinh w - v w)`` (NIST Digital Library of Mathematical
Functions, 10.9.17) along paths on which it falls without waves. For v well below x that is the path
of steepest descent through the saddle point ``i β``, ``cos β = v / x``; otherwise the real axis up
to ``α``, ``cosh α = v / x``, and the path of steepest descent from there, α kept away from 0 near
v = x. Both are known as functions of the angle, and taken by Gauss and Legendre's rule. For x ≤ 5:
the power series, and Temme's for the second kind (On the numerical evaluation of the ordinary
Bessel function of the second kind, 1976). Derivatives, by the order too, are those of the sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamella.errors import OptionError
from lamella.tensor.comparison import floor, round, where
from lamella.tensor.elementwise import abs, maximum
from lamella.tensor.gradient import no_grad, stop_gradient
from lamella.tensor.operands import TensorLike
from lamella.tensor.special.gamma import lgamma
from lamella.tensor.special.incomplete import quadrature
from lamella.tensor.special.modified import iv, kv, second_kind_series
from lamella.tensor.special.support import constants, in_double, repeated
from lamella.tensor.transcendental import (
    acos,
    asinh,
    cos,
    cosh,
    exp,
    log,
    sin,
    sinh,
    sqrt,
)  # fmt: skip

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "bessel_jn", "jn", "jv", "spherical_in", "spherical_jn", "spherical_kn", "spherical_yn", "yn",
    "yv",
]  # fmt: skip

_SMALL: Final = 5.0
_DROP: Final = 38.0  # exp(-38) is 3e-17
_POINTS: Final = 40


def _first(fall: Callable[[Any], Any], end: Any) -> Any:
    """Where ``fall`` has reached 38, from above, or ``end``: by halving."""

    def halve(low: Any, high: Any) -> tuple[Any, Any]:
        middle = (low + high) * 0.5
        reached = fall(middle) > _DROP
        return where(reached, low, middle), where(reached, middle, high)

    with no_grad():
        return stop_gradient(repeated(halve, 12, end * 0, end)[1])


def _sided(fall: Callable[[Any], Any], side: float, angle: Any) -> Any:
    return fall(side * angle)


def _past_sine(a: Any) -> tuple[Any, Any]:
    """``a - sin(a)`` and ``sin(a) - a cos(a)``, by their series near 0."""
    near = abs(a) < 0.3
    low = where(near, a, 0.0)
    square = low * low
    first = second = square * 0
    for k in reversed(range(1, 8)):
        scale = (-1) ** (k + 1) / math.factorial(2 * k + 1)
        first, second = first * square + scale, second * square + 2 * k * scale
    s = sin(a)
    cube = square * low
    return where(near, cube * first, a - s), where(near, cube * second, s - a * cos(a))


# -- v below x -------------------------------------------------------------------------------------
def _descent(beta: Any, angle: Any) -> tuple[Any, Any]:
    """The real part u along the path of steepest descent through ``i β``, and its slope, by the
    angle above β.
    """
    s, c = sin(beta), cos(beta)
    half = sin(angle * 0.5)
    gap, lag = _past_sine(angle)
    height = sin(beta + angle)
    rise = (2 * s * half * half + c * gap) / height  # cosh(u) - 1
    root = sqrt(rise * 0.5)
    u = where(angle < 0, -2.0, 2.0) * asinh(root)
    sine = sin(angle)
    slope = (lag * c * c + sine * s * s + angle * s * c * sine) / (height * height * sinh(u))
    return u, slope


def _wave(v: Any, x: Any) -> tuple[Any, Any]:
    """J and Y where v < x."""
    beta = acos(v / x)
    r = x * sin(beta)

    def fall(angle: Any) -> Any:
        u, _ = _descent(beta, angle)
        half = sin(angle * 0.5)
        return r * sinh(u) * sin(angle) - v * (sinh(u) - u - 2 * sinh(u) * half * half)

    points, weights = quadrature(_POINTS, x)
    across, along = 0.0, 0.0
    for side, reach in ((-1.0, beta), (1.0, math.pi - beta)):
        end = _first(partial(_sided, fall, side), reach * (1 - 1e-9))
        angle = side * end * points
        size = exp(-fall(angle)) * weights
        along = along + end * size.sum(0)
        across = across + end * (size * _descent(beta, angle)[1]).sum(0)
    phase = r - v * beta
    c, s = cos(phase), sin(phase)
    return (along * c + across * s) / math.pi, (along * s - across * c) / math.pi


# -- v above x or near it --------------------------------------------------------------------------
def _turned(v: Any, x: Any, alpha: Any) -> tuple[Any, Any]:
    """J and the part of Y from the path that leaves the real axis at alpha; both over
    ``exp(x sinh(alpha) - v alpha)``.
    """
    base, start = cosh(alpha), sinh(alpha * 0.5)
    lift = 2 * start * start

    def path(angle: Any) -> tuple[Any, Any, Any, Any]:
        gap, lag = _past_sine(angle)
        s = sin(angle)
        t = 2 * asinh(sqrt((lift + base * gap / s) * 0.5))
        return t, sinh(t), s, lag

    def fall(angle: Any) -> Any:
        t, sine, _, _ = path(angle)
        half = sin(angle * 0.5)
        turn = 2 * half * half * x * sine
        return turn - x * (sine - sinh(alpha)) + v * (t - alpha)

    end = _first(fall, alpha * 0 + math.pi * (1 - 1e-9))
    points, weights = quadrature(_POINTS, x)
    angle = end * points
    _, sine, s, lag = path(angle)
    slope = base * lag / (s * s * sine)
    size = exp(-fall(angle)) * weights
    phase = (x * base - v) * angle
    c, z = cos(phase), sin(phase)
    scale = end / math.pi
    return (size * (c + slope * z)).sum(0) * scale, (size * (z - slope * c)).sum(0) * scale


def _straight(v: Any, x: Any, saddle: Any, alpha: Any) -> Any:
    """The integral along the real axis up to alpha, over its integrand at -saddle."""
    r = x * sinh(saddle)
    order = x * cosh(saddle)  # v, or x where v is below

    def fall(s: Any) -> Any:
        half = sinh(s * 0.5)
        return 2 * r * half * half - order * (sinh(s) - s) - (order - v) * s

    left = _first(lambda s: fall(-s), saddle * 0 + 20.0)
    right = _first(fall, saddle + alpha)
    points, weights = quadrature(64, x)
    s = (left + right) * points - left
    return (exp(-fall(s)) * weights).sum(0) * (left + right)


def _high(v: Any, x: Any, second: bool) -> tuple[Any, Any]:
    """J and Y where v is not well below x."""
    ratio = maximum(v / x, 1.0)
    excess = maximum((v - x) / x, 0.0)
    saddle = where(excess > 0, 2 * asinh(sqrt(where(excess > 0, excess, 1.0) * 0.5)), 0.0)
    alpha = maximum(saddle, stop_gradient(0.5 * exp(log(x) * (-1 / 3))))
    j, y = _turned(v, x, alpha)
    start = exp(x * sinh(alpha) - v * alpha)
    if not second:
        return j * start, ratio
    top = exp(v * saddle - x * sinh(saddle))
    return j * start, y * start - _straight(v, x, saddle, alpha) * top / math.pi


# -- small x ---------------------------------------------------------------------------------------
def _series(v: Any, x: Any) -> Any:
    """J for x <= 5 by the power series."""
    total = x * 0 + 1.0
    square = x * x * 0.25
    for k in reversed(range(1, 28)):
        total = 1 - total * square / (k * (v + k))
    return exp(where(v == 0, 0.0, v * log(x * 0.5)) - lgamma(v + 1)) * total


def _second_series(v: Any, x: Any) -> Any:
    """Y for x <= 5 and v <= 6.5 by Temme's series and the recurrence."""
    n = stop_gradient(round(v))
    mu = v - n
    total, following, rest, moment = second_kind_series(x, mu, -1.0, 26)
    turn = mu * (math.pi / 2)
    flat = abs(turn) < 1e-4
    safe = where(flat, 1.0, turn)
    sine = sin(safe)
    lean = math.pi * where(flat, turn * (1 - turn * turn / 3), sine * sine / safe)
    before = -(2 / math.pi) * (total + lean * rest)
    after = -(2 / math.pi) * (following - lean * moment) * (2 / x)
    found = where(n == 0, before, after)
    for k in range(1, 7):
        before, after = after, (mu + k) * (2 / x) * after - before
        found = where(n == k + 1, after, found)
    return found


# -- together --------------------------------------------------------------------------------------
def _both(v: Any, x: Any, second: bool) -> tuple[Any, Any]:
    """J and, if wanted, Y of v >= 0 and x > 0."""
    near = x <= _SMALL
    wave = ~near & (v < x - exp(log(x) * (1 / 3)))
    high = ~near & ~wave
    low = where(near, v, 0.0), where(near, x, 1.0)
    j, y = _wave(where(wave, v, 0.0), where(wave, x, 9.0))
    found = where(near, _series(*low), j)
    if not second:
        up = _high(where(high, v, 9.0), where(high, x, 9.0), False)
        return where(high, up[0], found), found
    steep = high | (near & (v > 6.5))
    up = _high(where(steep, v, 9.0), where(steep, x, 9.0), True)
    few = near & ~steep
    y = where(few, _second_series(where(few, v, 0.0), where(few, x, 1.0)), y)
    return where(high, up[0], found), where(steep, up[1], y)


def _odd(n: Any) -> Any:
    return floor(n * 0.5) * 2 != n


def _turns(v: Any) -> tuple[Any, Any]:
    """The cosine and sine of ``π v``, exact for whole and half orders."""
    n = stop_gradient(round(v))
    rest = (v - n) * math.pi
    sign = where(_odd(n), -1.0, 1.0)
    half = abs(v - n) == 0.5
    return where(half, 0.0, sign * cos(rest)), sign * sin(rest)


def _jv(v: Any, x: Any, positive: bool) -> Any:
    order, a = where(v < 0, -v, v), abs(x)
    inside = (a > 0) & (a < math.inf) & (order < math.inf)
    w, z = where(inside, order, 0.0), where(inside, a, 1.0)
    j, y = _both(w, z, not positive)
    if not positive:
        c, s = _turns(w)
        j = where((v < 0), c * j - where(s == 0, 0.0, s * y), j)
    whole = floor(v) == v
    j = where((x < 0) & whole & _odd(v), -j, j)
    j = where((x < 0) & ~whole, math.nan, j)
    at_zero = where(v == 0, 1.0, where((v > 0) | whole, 0.0, math.nan))
    edge = where(x == 0, at_zero, where(a == math.inf, 0.0, math.nan))
    return where(inside, j, where((v == v) & (x == x), edge, math.nan))


def jv(v: TensorLike, z: TensorLike) -> Tensor:
    """The Bessel function of the first kind of real order ``v``:
    ``Σ (-1)^k (z/2)^(2k + v) / (k! Γ(k + v + 1))`` over k ≥ 0; 0 at inf. NaN for z < 0 unless ``v``
    is whole.

    Error: float32 0.6 ulp, near zeros 1e-13 in absolute terms; float64 1e-12 relative, near zeros
    and for z > 1e3 1e-15 (10 + z) in absolute terms. Derivative by ``z``: ``(J[v-1] - J[v+1]) /
    2``; by ``v`` that of the sums.

    >>> f"{jv(0.5, 1.0).item():.6f}"
    '0.671397'
    """
    positive = isinstance(v, (int, float)) and v >= 0
    return in_double("jv", lambda v, z: _jv(v, z, positive), v, z)


def jn(v: TensorLike, z: TensorLike) -> Tensor:
    """:func:`jv` by its other name.

    >>> f"{jn(1, 1.0).item():.6f}"
    '0.440051'
    """
    return jv(v, z)


def bessel_jn(z: TensorLike, *, v: int, n_iter: int = 50) -> Tensor:
    """:func:`jv` of the orders 0 … ``v`` along a new first axis, by JAX's name; ``n_iter`` says
    nothing here.

    Raises:
        OptionError: unless ``v`` is a whole number from 0 on.

    >>> [f"{y:.4f}" for y in bessel_jn(1.0, v=1).tolist()]
    ['0.7652', '0.4401']
    """
    if isinstance(v, bool) or not isinstance(v, int) or v < 0:
        raise OptionError(f"[bessel_jn] order {v!r:.40} is no whole number from 0 on; give one")

    def value(z: Any) -> Any:
        order = constants(np.arange(v + 1.0).reshape(-1, *(1,) * z.ndim))
        return _jv(order + 0 * z, 0 * order + z, True)

    return in_double("bessel_jn", value, z)


def yv(v: TensorLike, z: TensorLike) -> Tensor:
    """The Bessel function of the second kind of real order ``v``:
    ``(J[v] cos(πv) - J[-v]) / sin(πv)``; -inf at 0, NaN below, 0 at inf. Errors as :func:`jv`.

    >>> f"{yv(0.5, 1.0).item():.6f}"
    '-0.431099'
    """

    def value(v: Any, x: Any) -> Any:
        order = where(v < 0, -v, v)
        inside = (x > 0) & (x < math.inf) & (order < math.inf)
        w = where(inside, order, 0.0)
        j, y = _both(w, where(inside, x, 1.0), True)
        c, s = _turns(w)
        turned = where(s == 0, 0.0, s * j) + where(c == 0, 0.0, c * y)
        found = where(v < 0, turned, y)
        edge = where(x == 0, -math.inf, where((x == math.inf) & (order < math.inf), 0.0, math.nan))
        return where(inside, found, where((v == v) & (x == x), edge, math.nan))

    return in_double("yv", value, v, z)


def yn(n: TensorLike, x: TensorLike) -> Tensor:
    """:func:`yv` of whole orders, by SciPy's name.

    >>> f"{yn(1, 1.0).item():.6f}"
    '-0.781213'
    """
    return yv(n, x)


# -- spherical -------------------------------------------------------------------------------------
def _spherical(
    name: str, function: Callable[..., Any], n: TensorLike, z: TensorLike, at: float
) -> Tensor:
    """``√(π / (2z))`` times a function of order n + 1/2; the value of order 0 at 0."""

    def value(n: Any, x: Any) -> Any:
        a = abs(x)
        safe = where(a > 0, a, 1.0)
        found = function(n + 0.5, safe) * sqrt(0.5 * math.pi / safe)
        first = at if at == 1 else math.copysign(math.inf, at)
        found = where(a > 0, found, where((n == 0) | (at != 1), first, 0.0))
        even = _odd(n) if at == 1 else ~_odd(n)
        found = where((x < 0) & even, -found, found) if name != "spherical_kn" else where(
            x < 0, math.nan, found
        )
        return where((n >= 0) & (x == x), found, math.nan)

    return in_double(name, value, n, z)


def spherical_jn(n: TensorLike, z: TensorLike) -> Tensor:
    """The spherical Bessel function of the first kind of order ``n`` ≥ 0:
    ``√(π / (2z)) J[n + 1/2](z)``.

    >>> f"{spherical_jn(1, 2.0).item():.6f}"
    '0.435398'
    """
    return _spherical("spherical_jn", lambda v, x: _jv(v, x, True), n, z, 1.0)


def spherical_yn(n: TensorLike, z: TensorLike) -> Tensor:
    """The spherical Bessel function of the second kind of order ``n`` ≥ 0:
    ``√(π / (2z)) Y[n + 1/2](z)``.

    >>> f"{spherical_yn(1, 2.0).item():.6f}"
    '-0.350612'
    """
    return _spherical("spherical_yn", yv, n, z, -1.1)


def spherical_in(n: TensorLike, z: TensorLike) -> Tensor:
    """The modified spherical Bessel function of the first kind of order ``n`` ≥ 0:
    ``√(π / (2z)) I[n + 1/2](z)``.

    >>> f"{spherical_in(1, 2.0).item():.6f}"
    '0.974383'
    """
    return _spherical("spherical_in", iv, n, z, 1.0)


def spherical_kn(n: TensorLike, z: TensorLike) -> Tensor:
    """The modified spherical Bessel function of the second kind of order ``n`` ≥ 0:
    ``√(π / (2z)) K[n + 1/2](z)``.

    >>> f"{spherical_kn(1, 2.0).item():.6f}"
    '0.159438'
    """
    return _spherical("spherical_kn", kv, n, z, 1.1)
