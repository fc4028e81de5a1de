"""Elementary functions and transformations of data that SciPy and PyTorch count among the special
ones: Box and Cox's, Huber's, powers, angles in degrees, the softplus, the inverse of log_ndtr.

Errors are stated in units in the last place (ulp) of the result; tests hold them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lamella.tensor.comparison import floor, round, where
from lamella.tensor.elementwise import abs, logaddexp, maximum, minimum, pow
from lamella.tensor.gradient import no_grad, stop_gradient
from lamella.tensor.numeric import cbrt
from lamella.tensor.operands import TensorLike
from lamella.tensor.special.error import erfcx, log_ndtr, ndtri
from lamella.tensor.special.support import in_double
from lamella.tensor.transcendental import cos, exp, expm1, log, log1p, log2, sin, sqrt

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "boxcox", "boxcox1p", "cbrt", "cosdg", "cotdg", "diric", "exp10", "huber", "inv_boxcox",
    "inv_boxcox1p", "log2", "ndtri_exp", "powm1", "pseudo_huber", "radian", "round", "sindg",
    "softplus", "spherical_bessel_j0", "tandg",
]  # fmt: skip


# -- transformations of data -----------------------------------------------------------------------
def _grown(rate: Any, y: Any) -> Any:
    """``(exp(rate y) - 1) / rate``, y at rate 0 and near it by the series."""
    z = rate * y
    flat = abs(z) < 1e-5
    near = y * (1 + z * (0.5 + z / 6))
    return where(flat, near, expm1(where(flat, 1.0, z)) / where(flat, 1.0, rate))


def _shrunk(rate: Any, y: Any) -> Any:
    """``log(1 + rate y) / rate``, y at rate 0 and near it by the series."""
    z = rate * y
    flat = abs(z) < 1e-5
    near = y * (1 - z * (0.5 - z / 3))
    return where(flat, near, log1p(where(flat, 1.0, z)) / where(flat, 1.0, rate))


def boxcox(x: TensorLike, lmbda: TensorLike) -> Tensor:
    """Box and Cox's transformation ``(x^λ - 1) / λ``, ``log x`` at λ = 0; NaN below 0.

    Error: float32 0.6 ulp, float64 16 ulp. Derivatives by both arguments.

    >>> boxcox(4.0, 0.5).item()
    2.0
    """

    def value(x: Any, rate: Any) -> Any:
        found = _grown(rate, log(where(x > 0, x, 1.0)))
        at_zero = where(rate > 0, -1 / where(rate > 0, rate, 1.0), rate - math.inf)
        return where(x > 0, found, where(x == 0, at_zero, math.nan))

    return in_double("boxcox", value, x, lmbda)


def boxcox1p(x: TensorLike, lmbda: TensorLike) -> Tensor:
    """``boxcox(1 + x, λ)``, precise for small ``x``.

    >>> boxcox1p(3.0, 0.5).item()
    2.0
    """

    def value(x: Any, rate: Any) -> Any:
        found = _grown(rate, log1p(where(x > -1, x, 0.0)))
        at_zero = where(rate > 0, -1 / where(rate > 0, rate, 1.0), rate - math.inf)
        return where(x > -1, found, where(x == -1, at_zero, math.nan))

    return in_double("boxcox1p", value, x, lmbda)


def inv_boxcox(y: TensorLike, lmbda: TensorLike) -> Tensor:
    """The inverse of :func:`boxcox`: ``(λ y + 1)^(1/λ)``, ``exp y`` at λ = 0.

    >>> f"{inv_boxcox(2.0, 0.5).item():.6f}"
    '4.000000'
    """
    return in_double("inv_boxcox", lambda y, rate: exp(_shrunk(rate, y)), y, lmbda)


def inv_boxcox1p(y: TensorLike, lmbda: TensorLike) -> Tensor:
    """The inverse of :func:`boxcox1p`, precise for small ``y``.

    >>> f"{inv_boxcox1p(2.0, 0.5).item():.6f}"
    '3.000000'
    """
    return in_double("inv_boxcox1p", lambda y, rate: expm1(_shrunk(rate, y)), y, lmbda)


def huber(delta: TensorLike, r: TensorLike) -> Tensor:
    """Huber's function: ``r²/2`` up to ``δ``, beyond ``δ (|r| - δ/2)``; inf for δ < 0.

    >>> huber(1.0, [0.5, 3.0]).tolist()
    [0.125, 2.5]
    """

    def value(delta: Any, r: Any) -> Any:
        size = abs(r)
        found = where(size <= delta, 0.5 * r * r, delta * (size - 0.5 * delta))
        return where(delta < 0, math.inf, found)

    return in_double("huber", value, delta, r)


def pseudo_huber(delta: TensorLike, r: TensorLike) -> Tensor:
    """The smooth ``δ² (√(1 + (r/δ)²) - 1)``; 0 for δ = 0, inf below.

    >>> f"{pseudo_huber(1.0, 1.0).item():.6f}"
    '0.414214'
    """

    def value(delta: Any, r: Any) -> Any:
        safe = where(delta > 0, delta, 1.0)
        square = (r / safe) * (r / safe)
        found = safe * safe * (square / (sqrt(1 + square) + 1))
        found = where(delta == delta, found, math.nan)
        found = where((delta == 0) | (r == 0), 0.0, found)
        return where(delta < 0, math.inf, found)

    return in_double("pseudo_huber", value, delta, r)


def softplus(x: TensorLike) -> Tensor:
    """``log(1 + exp(x))`` without overflow.

    Error: float32 0.6 ulp, float64 2 ulp. Derivative the logistic function.

    >>> f"{softplus(0.0).item():.6f}"
    '0.693147'
    """
    return in_double("softplus", lambda x: logaddexp(x, 0.0), x)


# -- powers ----------------------------------------------------------------------------------------
def exp10(x: TensorLike) -> Tensor:
    """``10**x``.

    Error: float32 0.6 ulp; float64 (2 + |x|) ulp. Derivative ``log(10) y``.

    >>> exp10(2.0).item()
    100.0
    """

    def value(x: Any) -> Any:
        whole = round(minimum(maximum(x, -400.0), 400.0))
        tens = pow(10.0, where(whole > 300, whole - 50, where(whole < -300, whole + 50, whole)))
        tens = tens * where(whole > 300, 1e50, where(whole < -300, 1e-50, 1.0))
        rest = (minimum(maximum(x, -400.0), 400.0) - whole) * math.log(10)
        return where(x == x, stop_gradient(tens) * exp(rest), x)

    return in_double("exp10", value, x)


def powm1(x: TensorLike, y: TensorLike) -> Tensor:
    """``x**y - 1``, precise where the power is near 1.

    Error: float32 0.6 ulp, float64 8 ulp for x > 0.

    >>> f"{powm1(2.0, 0.5).item():.6f}"
    '0.414214'
    """

    def value(x: Any, y: Any) -> Any:
        inside = (x > 0) & (abs(y * log(where(x > 0, x, 1.0))) < 1)
        near = expm1(where(inside, y, 1.0) * log(where(inside, x, 1.0)))
        return where(inside, near, pow(where(inside, 2.0, x), where(inside, 1.0, y)) - 1)

    return in_double("powm1", value, x, y)


# -- angles ----------------------------------------------------------------------------------------
def _turned(x: Any) -> tuple[Any, Any]:
    """Quarter turns and the rest, in radians, of an angle in degrees, both exact."""
    quarters = round(x / 90)
    return quarters - 4 * floor(quarters * 0.25), (x - quarters * 90) * (math.pi / 180)


def _sindg(x: Any) -> Any:
    n, rest = _turned(x)
    s, c = sin(rest), cos(rest)
    return where(n == 0, s, where(n == 1, c, where(n == 2, -s, -c)))


def _cosdg(x: Any) -> Any:
    n, rest = _turned(x)
    s, c = sin(rest), cos(rest)
    return where(n == 0, c, where(n == 1, -s, where(n == 2, -c, s)))


def sindg(x: TensorLike) -> Tensor:
    """The sine of an angle in degrees, exact at quarter turns.

    >>> sindg([90.0, 180.0]).tolist()
    [1.0, -0.0]
    """
    return in_double("sindg", _sindg, x)


def cosdg(x: TensorLike) -> Tensor:
    """The cosine of an angle in degrees, exact at quarter turns.

    >>> cosdg([0.0, 90.0]).tolist()
    [1.0, -0.0]
    """
    return in_double("cosdg", _cosdg, x)


def tandg(x: TensorLike) -> Tensor:
    """The tangent of an angle in degrees; infinite at odd quarter turns.

    >>> f"{tandg(45.0).item():.6f}"
    '1.000000'
    """
    return in_double("tandg", lambda x: _sindg(x) / _cosdg(x), x)


def cotdg(x: TensorLike) -> Tensor:
    """The cotangent of an angle in degrees; infinite at half turns.

    >>> f"{cotdg(45.0).item():.6f}"
    '1.000000'
    """
    return in_double("cotdg", lambda x: _cosdg(x) / _sindg(x), x)


def radian(d: TensorLike, m: TensorLike, s: TensorLike) -> Tensor:
    """Degrees, minutes and seconds as radians.

    >>> f"{radian(90.0, 0.0, 0.0).item():.6f}"
    '1.570796'
    """

    def value(d: Any, m: Any, s: Any) -> Any:
        return (d + m / 60 + s / 3600) * (math.pi / 180)

    return in_double("radian", value, d, m, s)


def diric(x: TensorLike, n: int) -> Tensor:
    """Dirichlet's function ``sin(n x / 2) / (n sin(x / 2))``, ±1 at multiples of 2π; NaN for n < 1.

    >>> f"{diric(0.0, 3).item():.6f}"
    '1.000000'
    """

    def value(x: Any, n: Any) -> Any:
        half = x * 0.5
        turns = round(half / math.pi)
        flat = abs(half - turns * math.pi) < 1e-8
        odd = (floor((n - 1) * 0.5) * 2 != n - 1) & (floor(turns * 0.5) * 2 != turns)
        below = where(flat, 1.0, n * sin(where(flat, 1.0, half)))
        found = where(flat, where(odd, -1.0, 1.0), sin(n * half) / below)
        return where((n >= 1) & (floor(n) == n), found, math.nan)

    return in_double("diric", value, x, n)


# -- others ----------------------------------------------------------------------------------------
def spherical_bessel_j0(x: TensorLike) -> Tensor:
    """``sin(x) / x``, 1 at 0: the spherical Bessel function of the first kind, order 0.

    Error: float32 0.6 ulp, float64 4 ulp.

    >>> spherical_bessel_j0(0.0).item()
    1.0
    """

    def value(x: Any) -> Any:
        near = abs(x) < 1e-2
        square = where(near, x * x, 0.0)
        series = 1 - square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72)))
        found = where(near, series, sin(x) / where(near, 1.0, x))
        return where(abs(x) == math.inf, 0.0, found)

    return in_double("spherical_bessel_j0", value, x)


def ndtri_exp(y: TensorLike) -> Tensor:
    """The inverse of :func:`log_ndtr`: ``ndtri(exp(y))`` without underflow; -inf at -inf, inf at 0,
    NaN above.

    Error: float32 0.6 ulp, float64 1e-14 relative. Derivative ``√(π/2) erfcx(-x/√2)``. Method: a
    start of the tail's asymptotic form, and Newton's steps.

    >>> f"{ndtri_exp(-1.0).item():.6f}"
    '-0.337475'
    """

    def value(y: Any) -> Any:
        low = (y < -2) & (y > -math.inf)
        far = where(low, y, -3.0)
        with no_grad():
            x = -sqrt(-2 * far - log(2 * math.pi * maximum(-2 * far - 1.5, 1.0)))
            for _ in range(4):
                x = x - (log_ndtr(x) - far) * _slope(x)
            x = stop_gradient(x)
        for _ in range(2):
            x = x - (log_ndtr(x) - far) * _slope(x)
        near = where(low | (y >= 0), -1.0, y)
        high = where(near > -0.5, -ndtri(-expm1(near)), ndtri(exp(near)))
        found = where(low, x, high)
        found = where(y == 0, math.inf, where(y == -math.inf, -math.inf, found))
        return where(y <= 0, found, math.nan)

    return in_double("ndtri_exp", value, y)


def _slope(x: Any) -> Any:
    """The derivative of the inverse of log_ndtr, at its value."""
    return erfcx(x * (-1 / math.sqrt(2))) * math.sqrt(math.pi / 2)
