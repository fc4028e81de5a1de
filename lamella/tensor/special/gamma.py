"""The gamma function's family: factorials, beta functions, polygamma and zeta.

Errors are stated in units in the last place (ulp) of the result; tests hold them.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Final

from lamella import ops
from lamella.errors import DTypeError, OptionError
from lamella.tensor.comparison import floor, round, signbit, where
from lamella.tensor.elementwise import abs, maximum
from lamella.tensor.gradient import stop_gradient
from lamella.tensor.operands import TensorLike
from lamella.tensor.special.support import applied, binary, in_double
from lamella.tensor.transcendental import exp, sin

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "beta", "betaln", "binom", "comb", "digamma", "factorial", "gamma", "gammaln", "gammasgn",
    "lgamma", "multigammaln", "polygamma", "psi", "zeta",
]  # fmt: skip


def gamma(x: TensorLike) -> Tensor:
    """The gamma function ``Γ(x)``: ±inf at ±0, NaN at negative whole numbers.

    Error: float32 0.6 ulp, float64 12 ulp. Derivative ``Γ(x) ψ(x)``. Method: Stirling's series
    (NIST Digital Library of Mathematical Functions, 5.11) at x or x + 10, reflection below 0.

    >>> gamma(5.0).item()
    24.0
    """
    return applied("gamma", ops.gamma, x)


def lgamma(x: TensorLike) -> Tensor:
    """``log |Γ(x)|``: inf at 0, at negative whole numbers and at -inf (as in C; SciPy's is -inf).

    Error: float32 0.6 ulp; float64 8 ulp for x > 0, 8e-16 |y| + 1e-15 |log Γ(-x)| below, where it
    has zeros. Derivative ``ψ(x)``.

    >>> lgamma(1.0).item()
    0.0
    """
    return applied("lgamma", ops.lgamma, x)


def gammaln(x: TensorLike) -> Tensor:
    """:func:`lgamma` by SciPy's name.

    >>> gammaln(2.0).item()
    0.0
    """
    return applied("gammaln", ops.lgamma, x)


def gammasgn(x: TensorLike) -> Tensor:
    """The sign of ``Γ(x)``: 1, -1, or NaN at negative whole numbers; that of the zero at zeros.

    >>> gammasgn([-0.5, 0.5]).tolist()
    [-1.0, 1.0]
    """

    def sign(a: Any) -> Any:
        whole = floor(a)
        negative = (a < 0) & _odd(whole) | (a == 0) & signbit(a)
        found = where(negative, -1.0, where(a == a, 1.0, a))
        pole = (a < 0) & (whole == a)
        return where(pole, math.nan, found)

    return in_double("gammasgn", sign, x)


def digamma(x: TensorLike) -> Tensor:
    """The digamma function ``ψ(x) = d/dx log Γ(x)``: ∓inf at ±0, NaN at negative whole numbers.

    Error: float32 0.6 ulp; float64 4 ulp, but 2e-15 in absolute terms near its zeros. Derivative
    ``polygamma(1, x)``. Method: recurrence to 10, asymptotic series, reflection below 0.

    >>> f"{digamma(1.0).item():.6f}"
    '-0.577216'
    """
    return applied("digamma", lambda node: ops.polygamma(0, node), x)


def psi(x: TensorLike) -> Tensor:
    """:func:`digamma` by its other name.

    >>> f"{psi(1.0).item():.6f}"
    '-0.577216'
    """
    return digamma(x)


def polygamma(n: int, x: TensorLike) -> Tensor:
    """The ``n``-th derivative of :func:`digamma`.

    Error: float32 0.6 ulp; float64 8 ulp for x > 0. Derivative ``polygamma(n + 1, x)``.

    Raises:
        OptionError: unless ``n`` is a whole number from 0 to 100.

    >>> f"{polygamma(1, 1.0).item():.5f}"
    '1.64493'
    """
    try:
        order = operator.index(n)
    except TypeError:
        raise DTypeError(
            f"[polygamma] order {n!r:.40} is no Python integer, but the order is part of the "
            "program; pass an int, and one call per order"
        ) from None
    return applied("polygamma", lambda node: ops.polygamma(order, node), x)


def zeta(x: TensorLike, q: TensorLike = 1.0) -> Tensor:
    """Hurwitz's zeta function ``Σ (q + k)^-x`` over k ≥ 0; Riemann's without ``q``.

    For x > 1 and q > 0; inf at x = 1, inf at q = 0, -1, …, NaN elsewhere. Error: float32 0.6 ulp,
    float64 8 ulp. Derivative by ``q``: ``-x zeta(x + 1, q)``; by ``x``:
    ``-Σ log(q + k) (q + k)^-x``. Method: Euler and Maclaurin's sum (NIST Digital Library of
    Mathematical Functions, 25.11.5).

    >>> f"{zeta(2.0).item():.5f}"
    '1.64493'
    """
    return binary("zeta", ops.zeta, x, q)


def betaln(a: TensorLike, b: TensorLike) -> Tensor:
    """``log |B(a, b)|``, precise also where a and b are of very different size.

    Error: float32 0.6 ulp; float64 16 ulp, or 1e-15 where it crosses 0. Derivative by ``a``:
    ``ψ(a) - ψ(a + b)``.

    >>> betaln(1.0, 1.0).item()
    0.0
    """
    return binary("betaln", ops.betaln, a, b)


def _sign_of_beta(a: Any, b: Any) -> Any:
    """1 at poles and zeros; at poles that cancel that of (-1)^b, b the positive one."""
    plain = (a >= 0) & (b >= 0) | (gammasgn(a + b) != gammasgn(a + b))
    signs = where(plain, 1.0, gammasgn(a) * gammasgn(b) * gammasgn(a + b))
    poles = _pole(a) | _pole(b)
    high = maximum(a, b)
    cancel = poles & (floor(high) == high) & (high > 0) & (a + b < 1)
    signs = where(poles, where(cancel & _odd(high), -1.0, 1.0), signs)
    return where((a == a) & (b == b), signs, math.nan)


def _odd(whole: Any) -> Any:
    return floor(whole * 0.5) * 2 != whole


def _pole(a: Any) -> Any:
    """Whether gamma has a pole at ``a``."""
    return (a <= 0) & (floor(a) == a)


def beta(a: TensorLike, b: TensorLike) -> Tensor:
    """The beta function ``Γ(a) Γ(b) / Γ(a + b)``.

    Error: float32 0.6 ulp; float64 (16 + |log B|) ulp.

    >>> f"{beta(2.0, 3.0).item():.6f}"
    '0.083333'
    """

    def value(x: Any, y: Any) -> Any:
        return _sign_of_beta(x, y) * exp(betaln(x, y))

    return in_double("beta", value, a, b)


def _rounded(value: Any, whole: Any) -> Any:
    """``value``, made a whole number where it must be one, with its own derivative."""
    near = whole & (abs(value) < 1e13)
    return value + stop_gradient(where(near, round(value) - value, 0.0))


def binom(n: TensorLike, k: TensorLike) -> Tensor:
    """The binomial coefficient ``Γ(n + 1) / (Γ(k + 1) Γ(n - k + 1))`` of real numbers.

    NaN for negative whole ``n``. Whole numbers below 1e13 are exact. Error otherwise: float32 0.6
    ulp; float64 1e-13 relative, below n = -1 more for large k.

    >>> binom(5.0, 2.0).item()
    10.0
    """

    def value(n: Any, k: Any) -> Any:
        whole = floor(k) == k
        few = whole & (k >= 0) & (k <= _FEW)
        found = where(few, _falling(n, where(few, k, 0.0)), _binom(n, k))
        found = where(whole & (k < 0) & (n >= 0), 0.0, found)
        endless = where(k > 0, math.inf, where(k == 0, 1.0, 0.0))
        found = where(n == math.inf, endless, found)
        found = where((n < 0) & (floor(n) == n) | (n != n) | (k != k), math.nan, found)
        return _rounded(found, (floor(n) == n) & whole)

    return in_double("binom", value, n, k)


_FEW: Final = 12  # up to this k the product of the definition


def _falling(n: Any, k: Any) -> Any:
    """``n (n - 1) … (n - k + 1) / k!`` for whole k from 0 to 12."""
    found = n * 0 + 1.0
    for j in range(_FEW):
        found = where(j < k, found * ((n - j) / (j + 1)), found)
    return found


def _binom(n: Any, k: Any) -> Any:
    """By beta functions; for k > n, where one of their arguments would be negative, with
    ``1 / Γ(-x) = -Γ(x + 1) sin(πx) / π``, the sine's argument reduced before it is subtracted.
    """
    beyond = (k > n + 0.5) & (n > -1)
    a, b = where(beyond, k - n, n - k + 1), where(beyond, n + 1, k + 1)
    root = exp(where(beyond, 0.5, -0.5) * betaln(a, b))
    sign = where(beyond, 1.0, _sign_of_beta(a, b))
    rest = (k - round(k)) - (n - round(n))
    sine = sin((rest - round(rest)) * math.pi)
    sine = where(_odd(round(k)) ^ _odd(round(n)) ^ _odd(round(rest)), -sine, sine)
    return sign * (root * where(beyond, sine / math.pi, 1 / (n + 1)) * root)


def comb(N: TensorLike, k: TensorLike) -> Tensor:
    """The number of ways to choose ``k`` of ``N``: :func:`binom`, 0 unless 0 ≤ k ≤ N.

    >>> comb([5, 3], [2, 4]).tolist()
    [10.0, 0.0]
    """

    def value(n: Any, k: Any) -> Any:
        inside = (k <= n) & (k >= 0) & (n >= 0)
        return where(inside, binom(where(inside, n, 1.0), where(inside, k, 0.0)), 0.0)

    return in_double("comb", value, N, k)


def factorial(n: TensorLike) -> Tensor:
    """``n! = Γ(n + 1)``, 0 below 0; exact for whole numbers up to 15.

    Error otherwise: float32 0.6 ulp, float64 12 ulp.

    >>> factorial([0, 4]).tolist()
    [1.0, 24.0]
    """

    def value(n: Any) -> Any:
        found = gamma(where(n < 0, 0.0, n) + 1)
        return where(n < 0, 0.0, _rounded(found, floor(n) == n))

    return in_double("factorial", value, n)


def multigammaln(a: TensorLike, d: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension ``d``:
    ``d (d - 1) / 4 log π + Σ lgamma(a - j / 2)`` over 0 ≤ j < d; NaN unless ``a > (d - 1) / 2``.

    Raises:
        OptionError: unless ``d`` is a positive integer.

    >>> multigammaln(1.0, 1).item()
    0.0
    """
    if not isinstance(d, int) or d < 1:
        raise OptionError(f"[multigammaln] dimension {d!r} is no positive integer; use 1, 2, …")

    def value(a: Any) -> Any:
        total = a * 0 + d * (d - 1) / 4 * math.log(math.pi)
        for j in range(d):
            total = total + lgamma(a - j / 2)
        return where(a > (d - 1) / 2, total, math.nan)

    return in_double("multigammaln", value, a)
