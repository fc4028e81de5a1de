"""Integrals of exponentials and waves: exponential, sine, cosine and Fresnel's integrals, Dawson's
function and what is made of it.

Errors are stated in units in the last place (ulp) of the result; tests hold them. Methods: power
series near 0 (NIST Digital Library of Mathematical Functions, 6.6, 7.6), beyond Chebyshev series of
the slow factors (6.12, 7.5), made by ``tools/special_series.py``.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamella.dtypes import complex64, complex128
from lamella.tensor.comparison import astype, floor, where
from lamella.tensor.complex import complex, imag, real
from lamella.tensor.core import wrap
from lamella.tensor.elementwise import abs, maximum, minimum
from lamella.tensor.gradient import no_grad, stop_gradient
from lamella.tensor.operands import TensorLike, as_node
from lamella.tensor.special import tables
from lamella.tensor.special.gamma import digamma, lgamma
from lamella.tensor.special.incomplete import DOUBLE, integral
from lamella.tensor.special.support import chebyshev, in_double, polynomial, several
from lamella.tensor.transcendental import cos, exp, expm1, log, log1p, sin

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "dawsn", "erfi", "exp1", "expi", "expn", "fresnel", "shichi", "sici", "voigt_profile", "wofz",
]  # fmt: skip

_EULER: Final = 0.5772156649015329


# -- exponential integrals -------------------------------------------------------------------------
def _series(first: int, step: int, sign: int, count: int) -> list[float]:
    """Coefficients ``sign**j / (k k!)`` of the powers ``k = first + step j``."""
    terms = range(count)
    return [
        sign**j / ((first + step * j) * math.factorial(first + step * j)) for j in terms
    ]


_EIN: Final = _series(1, 1, 1, 48)
_SHI, _CHI = _series(1, 2, 1, 24), _series(2, 2, 1, 24)
_SI, _CI = _series(1, 2, -1, 17), _series(2, 2, -1, 17)


def _exp1(x: Any) -> Any:
    """E1 for x > 0."""
    near = x <= 1
    small, large = where(near, x, 1.0), where(near, 1.0, x)
    low = polynomial(-small, _EIN[:20]) * small - log(small) - _EULER
    t = 1 - 10 / (large + 4)
    return where(near, low, exp(-large) * (chebyshev(t, tables.EXP1) / large))


def _expi(x: Any) -> Any:
    """Ei for x > 0."""
    near = x <= 8
    small, large = where(near, x, 1.0), where(near, 8.0, x)
    low = polynomial(small, _EIN) * small + log(small) + _EULER
    far = exp(large) / large * chebyshev(16 / large - 1, tables.EXPI)
    return where(x == math.inf, math.inf, where(near, low, far))


def exp1(x: TensorLike) -> Tensor:
    """The exponential integral ``E₁(x) = ∫ₓ^∞ exp(-t) / t dt`` for x > 0; inf at 0, NaN below.

    Error: float32 0.6 ulp, float64 8 ulp. Derivative ``-exp(-x) / x``.

    >>> f"{exp1(1.0).item():.6f}"
    '0.219384'
    """

    def value(x: Any) -> Any:
        found = _exp1(where(x > 0, x, 1.0))
        return where(x > 0, found, where(x == 0, math.inf, math.nan))

    return in_double("exp1", value, x)


def expi(x: TensorLike) -> Tensor:
    """The exponential integral ``Ei(x) = ∫₋∞ˣ exp(t) / t dt``, a principal value above 0; -inf
    at 0.

    Error: float32 0.6 ulp; float64 8 ulp, near its zero at 0.3725 2e-16 in absolute terms.
    Derivative ``exp(x) / x``.

    >>> f"{expi(1.0).item():.6f}"
    '1.895118'
    """

    def value(x: Any) -> Any:
        above, below = _expi(where(x > 0, x, 1.0)), -_exp1(where(x < 0, -x, 1.0))
        return where(x > 0, above, where(x < 0, below, where(x == 0, -math.inf, x)))

    return in_double("expi", value, x)


def _expn_small(n: Any, x: Any) -> Any:
    """The series for x <= 1 and whole n >= 1 (8.19.8), whose term of the power n - 1 has the
    logarithm.
    """
    total, term = x * 0, x * 0 + 1
    for k in range(20):
        gap = where(n == k + 1, 1.0, n - (k + 1))
        total = total + where(n == k + 1, 0.0, term / gap)
        term = term * (-x / (k + 1))
    odd = floor(n * 0.5) * 2 == n
    power = exp((n - 1) * log(x) - lgamma(n))
    return total + where(odd, -power, power) * (digamma(n) - log(x))


def _expn_large(n: Any, x: Any) -> Any:
    """``exp(-x) ∫ exp((1 - n) s - x (exp(s) - 1)) ds`` from 0 to where the integrand has fallen."""
    with no_grad():
        end = minimum(DOUBLE.drop / (x + n - 1), log1p(DOUBLE.drop / x))
        for _ in range(3):
            e = expm1(end)
            fall = x * e + (n - 1) * end - DOUBLE.drop
            end = end - fall / (x * (e + 1) + n - 1)
        end = stop_gradient(end)
    return exp(-x) * integral(lambda s: (1 - n) * s - x * expm1(s), end, DOUBLE)


def expn(n: TensorLike, x: TensorLike) -> Tensor:
    """The exponential integral ``Eₙ(x) = ∫₁^∞ exp(-x t) / tⁿ dt`` of whole ``n`` ≥ 0, x ≥ 0.

    NaN elsewhere. Error: float32 0.6 ulp, float64 2e-13 relative. Derivative by ``x``:
    ``-Eₙ₋₁(x)``; ``n`` is constant.

    >>> f"{expn(2, 1.0).item():.6f}"
    '0.148496'
    """

    def value(n: Any, x: Any) -> Any:
        n = stop_gradient(n)
        good = (x > 0) & (n > 0) & (x < math.inf) & (n < math.inf)
        a, y = where(good, n, 1.0), where(good, x, 1.0)
        near = y <= 1
        small = _expn_small(where(near, a, 1.0), where(near, y, 1.0))
        found = where(near, small, _expn_large(where(near, 1.0, a), where(near, 2.0, y)))
        first = exp(-x) / x
        at_zero = where(n > 1, 1 / where(n > 1, n - 1, 1.0), math.inf)
        found = where(n == 0, first, where(x == 0, at_zero, where(x == math.inf, 0.0, found)))
        whole = (floor(n) == n) & (n >= 0) & (x >= 0) & (n < math.inf)
        return where(whole, found, math.nan)

    return in_double("expn", value, n, x)


# -- sine and cosine integrals ---------------------------------------------------------------------
def _sici(x: Any) -> tuple[Any, Any]:
    a = abs(x)
    near = a <= 4
    small, large = where(near, x, 1.0), where(near, 4.0, minimum(a, 1e300))
    square = small * small
    distance = where(x == 0, 1.0, abs(small))
    low = _EULER + log(distance) - square * polynomial(square, _CI)
    inverse = 4 / large
    t = 2 * inverse * inverse - 1
    f = chebyshev(t, tables.SICI_F) / large
    g = chebyshev(t, tables.SICI_G) / large / large
    s, c = sin(large), cos(large)
    far = where(a == math.inf, math.pi / 2, math.pi / 2 - f * c - g * s)
    sine = where(near, small * polynomial(square, _SI), where(x < 0, -far, far))
    cosine = where(a == math.inf, 0.0, where(near, low, f * s - g * c))
    return sine, where(x == 0, -math.inf, cosine)


def sici(x: TensorLike) -> tuple[Tensor, ...]:
    """The sine and cosine integrals ``Si(x) = ∫₀ˣ sin(t) / t dt`` and ``Ci(x) = γ + log|x| + ∫₀ˣ
    (cos(t) - 1) / t dt``.

    Error: float32 0.6 ulp; float64 8 ulp, near the zeros of Ci 1e-15 in absolute terms.
    Derivatives ``sin(x) / x``, ``cos(x) / x``.

    >>> [f"{part.item():.6f}" for part in sici(1.0)]
    ['0.946083', '0.337404']
    """
    return several("sici", _sici, x)


def shichi(x: TensorLike) -> tuple[Tensor, ...]:
    """The hyperbolic sine and cosine integrals ``Shi(x) = ∫₀ˣ sinh(t) / t dt`` and ``Chi(x) = γ +
    log|x| + ∫₀ˣ (cosh(t) - 1) / t dt``.

    Error: float32 0.6 ulp; float64 8 ulp, near the zero of Chi 1e-15 in absolute terms. Derivatives
    ``sinh(x) / x``, ``cosh(x) / x``.

    >>> [f"{part.item():.6f}" for part in shichi(1.0)]
    ['1.057251', '0.837867']
    """

    def value(x: Any) -> tuple[Any, Any]:
        a = abs(x)
        near = a <= 4
        small, large = where(near, x, 1.0), where(near, 4.0, a)
        square = small * small
        up, down = _expi(large), _exp1(large)
        far = (up + down) / 2
        sine = where(near, small * polynomial(square, _SHI), where(x < 0, -far, far))
        low = _EULER + log(where(x == 0, 1.0, abs(small))) + square * polynomial(square, _CHI)
        return sine, where(x == 0, -math.inf, where(near, low, (up - down) / 2))

    return several("shichi", value, x)


def _fresnel(x: Any) -> tuple[Any, Any]:
    a = abs(x)
    near = a <= 1.5
    small, large = where(near, x, 0.5), where(near, 1.5, minimum(a, 1e150))
    w = small * small * (math.pi / 2)
    square = w * w
    terms = range(16)
    sine = [(-1) ** k / (math.factorial(2 * k + 1) * (4 * k + 3)) for k in terms]
    cosine = [(-1) ** k / (math.factorial(2 * k) * (4 * k + 1)) for k in terms]
    low = small * w * polynomial(square, sine), small * polynomial(square, cosine)
    inverse = 1.5 / large
    t = 2 * inverse**4 - 1
    f = chebyshev(t, tables.FRESNEL_F) / (large * math.pi)
    g = chebyshev(t, tables.FRESNEL_G) / (large * math.pi) / (large * math.pi) / large
    turns = large * large * 0.25  # of 2 pi; from 1e8 on they are whole
    phase = (turns - floor(turns)) * (2 * math.pi)
    s, c = sin(phase), cos(phase)
    found = []
    for lo, hi in zip(low, (0.5 - f * c - g * s, 0.5 + f * s - g * c), strict=True):
        hi = where(a == math.inf, 0.5, hi)
        found.append(where(near, lo, where(x < 0, -hi, hi)))
    return found[0], found[1]


def fresnel(x: TensorLike) -> tuple[Tensor, ...]:
    """Fresnel's integrals ``S(x) = ∫₀ˣ sin(πt²/2) dt`` and ``C(x) = ∫₀ˣ cos(πt²/2) dt``.

    Error: float32 0.6 ulp; float64 8 ulp up to 10, beyond 1e-16 x in absolute terms.
    Derivatives ``sin(πx²/2)``, ``cos(πx²/2)``.

    >>> [f"{part.item():.6f}" for part in fresnel(1.0)]
    ['0.438259', '0.779893']
    """
    return several("fresnel", _fresnel, x)


# -- Dawson's function and the error function off the axis ----------------------------------------
def _dawsn(x: Any) -> Any:
    far = abs(x) > 1e8
    y = where(far, 1.0, x)
    square = y * y
    near = y * chebyshev(1 - 8 / (square + 4), tables.DAWSN) / (1 + 2 * square)
    return where(far, 0.5 / where(far, x, 1.0), near)


def dawsn(x: TensorLike) -> Tensor:
    """Dawson's function ``D(x) = exp(-x²) ∫₀ˣ exp(t²) dt``.

    Error: float32 0.6 ulp, float64 8 ulp. Derivative ``1 - 2 x D(x)``.

    >>> f"{dawsn(1.0).item():.6f}"
    '0.538080'
    """
    return in_double("dawsn", _dawsn, x)


def erfi(x: TensorLike) -> Tensor:
    """The imaginary error function ``-i erf(i x) = 2/√π ∫₀ˣ exp(t²) dt``.

    Error: float32 0.6 ulp; float64 (4 + x²) ulp. Derivative ``2/√π exp(x²)``.

    >>> f"{erfi(1.0).item():.6f}"
    '1.650426'
    """

    def value(x: Any) -> Any:
        y = minimum(maximum(x, -27.0), 27.0)  # beyond, infinite
        return 2 / math.sqrt(math.pi) * exp(y * y) * _dawsn(y)

    return in_double("erfi", value, x)


_TERMS: Final = 64


@cache
def _weideman() -> tuple[float, tuple[float, ...]]:
    """The scale and the coefficients, the constant first, from values on a circle."""
    scale = math.sqrt(_TERMS / math.sqrt(2))
    angle = np.arange(1 - 2 * _TERMS, 2 * _TERMS) * math.pi / (2 * _TERMS)
    t = scale * np.tan(angle / 2)
    values = np.concatenate([[0.0], np.exp(-t * t) * (scale**2 + t * t)])
    found = np.real(np.fft.fft(np.fft.fftshift(values))) / (4 * _TERMS)
    return scale, tuple(found[1 : _TERMS + 1].tolist())


def _wofz(z: Any) -> Any:
    """w for complex128 z: Weideman's rational function above the axis, reflection below."""
    scale, coefficients = _weideman()
    below = imag(z) < 0
    up = where(below, -z, z)
    turned = complex(-imag(up), real(up))
    down = scale - turned
    t = (scale + turned) / down
    value = 2 * polynomial(t, coefficients) / (down * down) + 1 / math.sqrt(math.pi) / down
    return where(below, 2 * exp(where(below, -z * z, 0j)) - value, value)


def wofz(z: TensorLike) -> Tensor:
    """Faddeeva's function ``w(z) = exp(-z²) erfc(-i z)``, complex.

    Args:
        z: complex, or real (then complex64 of float32 and less, complex128 of float64).

    Error: 1e-13 relative for complex128 in the upper half-plane, below that of ``exp(-z²)``;
    complex64 is computed as complex128. Derivative ``2i/√π - 2 z w(z)``. Method: Weideman,
    Computation of the complex error function, SIAM Journal on Numerical Analysis 31, 1994.

    >>> f"{wofz(1j).item().real:.6f}"
    '0.427584'
    """
    node = as_node(z)
    double = node.dtype.name in ("float64", "complex128")
    found = _wofz(astype(wrap(node), complex128))
    return found if double else astype(found, complex64)


def voigt_profile(x: TensorLike, sigma: TensorLike, gamma: TensorLike) -> Tensor:
    """Voigt's profile: a normal distribution of width ``sigma`` > 0 and Cauchy's of width ``gamma``
    ≥ 0, convolved: ``Re w((x + i γ) / (σ√2)) / (σ√(2π))``.

    Error: float32 0.6 ulp where it is above 1e-7 of its peak, float64 1e-13 of the peak.
    Derivatives by all arguments.

    >>> f"{voigt_profile(0.0, 1.0, 1.0).item():.6f}"
    '0.208709'
    """

    def value(x: Any, sigma: Any, gamma: Any) -> Any:
        scale = 1 / (sigma * math.sqrt(2))
        return real(_wofz(complex(x * scale, maximum(gamma, 0.0) * scale))) * scale / math.sqrt(
            math.pi
        )

    return in_double("voigt_profile", value, x, sigma, gamma)
