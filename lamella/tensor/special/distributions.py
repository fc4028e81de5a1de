"""Distribution functions of statistics and their inverses, under SciPy's names: the incomplete
gamma and beta functions with their parameters put in place.

Errors are those of :func:`gammainc`, :func:`betainc` and their inverses; arguments outside the
domain give NaN. ``c`` at the end of a name: the upper tail, precise where it is small.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lamella.tensor.comparison import floor, where
from lamella.tensor.elementwise import minimum
from lamella.tensor.operands import TensorLike
from lamella.tensor.special.incomplete import betainc, gammainc, gammaincc
from lamella.tensor.special.inverse import betaincinv, gammainccinv, gammaincinv
from lamella.tensor.special.support import in_double
from lamella.tensor.transcendental import sqrt

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "bdtr", "bdtrc", "bdtri", "chdtr", "chdtrc", "chdtri", "fdtr", "fdtrc", "fdtri",
    "gdtr", "gdtrc", "gdtrix", "nbdtr", "nbdtrc", "nbdtri", "pdtr", "pdtrc", "stdtr", "stdtrit",
]  # fmt: skip


def _binomial(k: Any, n: Any, p: Any, upper: bool) -> Any:
    k = floor(k)
    good = (k >= 0) & (n >= k) & (p >= 0) & (p <= 1)
    inside = good & (k < n)
    a, b, x = where(inside, k + 1, 1.0), where(inside, n - k, 1.0), where(inside, p, 0.5)
    found = betainc(a, b, x) if upper else betainc(b, a, 1 - x)
    return where(inside, found, where(good, 0.0 if upper else 1.0, math.nan))


def bdtr(k: TensorLike, n: TensorLike, p: TensorLike) -> Tensor:
    """The probability of at most ``k`` successes in ``n`` trials of probability ``p``.

    >>> f"{bdtr(1, 3, 0.5).item():.6f}"
    '0.500000'
    """
    return in_double("bdtr", lambda k, n, p: _binomial(k, n, p, False), k, n, p)


def bdtrc(k: TensorLike, n: TensorLike, p: TensorLike) -> Tensor:
    """The probability of more than ``k`` successes in ``n`` trials of probability ``p``.

    >>> f"{bdtrc(2, 3, 0.5).item():.6f}"
    '0.125000'
    """
    return in_double("bdtrc", lambda k, n, p: _binomial(k, n, p, True), k, n, p)


def bdtri(k: TensorLike, n: TensorLike, y: TensorLike) -> Tensor:
    """The ``p`` of ``bdtr(k, n, p) = y``.

    >>> f"{bdtri(1, 3, 0.5).item():.6f}"
    '0.500000'
    """

    def value(k: Any, n: Any, y: Any) -> Any:
        k = floor(k)
        return 1 - betaincinv(where(n > k, n - k, math.nan), k + 1, y)

    return in_double("bdtri", value, k, n, y)


def nbdtr(k: TensorLike, n: TensorLike, p: TensorLike) -> Tensor:
    """The probability of at most ``k`` failures before ``n`` successes of probability ``p``.

    >>> f"{nbdtr(1, 2, 0.5).item():.6f}"
    '0.500000'
    """
    return in_double("nbdtr", lambda k, n, p: betainc(n, floor(k) + 1, p), k, n, p)


def nbdtrc(k: TensorLike, n: TensorLike, p: TensorLike) -> Tensor:
    """The probability of more than ``k`` failures before ``n`` successes of probability ``p``.

    >>> f"{nbdtrc(1, 2, 0.5).item():.6f}"
    '0.500000'
    """
    return in_double("nbdtrc", lambda k, n, p: betainc(floor(k) + 1, n, 1 - p), k, n, p)


def nbdtri(k: TensorLike, n: TensorLike, y: TensorLike) -> Tensor:
    """The ``p`` of ``nbdtr(k, n, p) = y``.

    >>> f"{nbdtri(1, 2, 0.5).item():.6f}"
    '0.500000'
    """
    return in_double("nbdtri", lambda k, n, y: betaincinv(n, floor(k) + 1, y), k, n, y)


def pdtr(k: TensorLike, m: TensorLike) -> Tensor:
    """The probability that a Poisson number of mean ``m`` is at most ``k``.

    >>> f"{pdtr(1, 2.0).item():.6f}"
    '0.406006'
    """
    return in_double("pdtr", lambda k, m: gammaincc(where(k < 0, math.nan, floor(k) + 1), m), k, m)


def pdtrc(k: TensorLike, m: TensorLike) -> Tensor:
    """The probability that a Poisson number of mean ``m`` is more than ``k``.

    >>> f"{pdtrc(1, 2.0).item():.6f}"
    '0.593994'
    """
    return in_double("pdtrc", lambda k, m: gammainc(where(k < 0, math.nan, floor(k) + 1), m), k, m)


def chdtr(v: TensorLike, x: TensorLike) -> Tensor:
    """The chi-square distribution function of ``v`` degrees of freedom.

    >>> f"{chdtr(2.0, 2.0).item():.6f}"
    '0.632121'
    """
    return in_double("chdtr", lambda v, x: gammainc(v * 0.5, x * 0.5), v, x)


def chdtrc(v: TensorLike, x: TensorLike) -> Tensor:
    """The upper tail of the chi-square distribution of ``v`` degrees of freedom.

    >>> f"{chdtrc(2.0, 2.0).item():.6f}"
    '0.367879'
    """
    return in_double("chdtrc", lambda v, x: gammaincc(v * 0.5, x * 0.5), v, x)


def chdtri(v: TensorLike, p: TensorLike) -> Tensor:
    """The ``x`` of ``chdtrc(v, x) = p``.

    >>> f"{chdtri(2.0, 0.5).item():.6f}"
    '1.386294'
    """
    return in_double("chdtri", lambda v, p: 2 * gammainccinv(v * 0.5, p), v, p)


def gdtr(a: TensorLike, b: TensorLike, x: TensorLike) -> Tensor:
    """The gamma distribution function of rate ``a`` and shape ``b``.

    >>> f"{gdtr(1.0, 1.0, 1.0).item():.6f}"
    '0.632121'
    """
    return in_double("gdtr", lambda a, b, x: gammainc(b, a * x), a, b, x)


def gdtrc(a: TensorLike, b: TensorLike, x: TensorLike) -> Tensor:
    """The upper tail of the gamma distribution of rate ``a`` and shape ``b``.

    >>> f"{gdtrc(1.0, 1.0, 1.0).item():.6f}"
    '0.367879'
    """
    return in_double("gdtrc", lambda a, b, x: gammaincc(b, a * x), a, b, x)


def gdtrix(a: TensorLike, b: TensorLike, p: TensorLike) -> Tensor:
    """The ``x`` of ``gdtr(a, b, x) = p``.

    >>> f"{gdtrix(1.0, 1.0, 0.5).item():.6f}"
    '0.693147'
    """
    return in_double("gdtrix", lambda a, b, p: gammaincinv(b, p) / a, a, b, p)


def fdtr(dfn: TensorLike, dfd: TensorLike, x: TensorLike) -> Tensor:
    """The F distribution function of ``dfn`` and ``dfd`` degrees of freedom.

    >>> f"{fdtr(2.0, 2.0, 1.0).item():.6f}"
    '0.500000'
    """

    def value(n: Any, d: Any, x: Any) -> Any:
        return betainc(n * 0.5, d * 0.5, n * x / (d + n * x))

    return in_double("fdtr", value, dfn, dfd, x)


def fdtrc(dfn: TensorLike, dfd: TensorLike, x: TensorLike) -> Tensor:
    """The upper tail of the F distribution of ``dfn`` and ``dfd`` degrees of freedom.

    >>> f"{fdtrc(2.0, 2.0, 3.0).item():.6f}"
    '0.250000'
    """

    def value(n: Any, d: Any, x: Any) -> Any:
        return betainc(d * 0.5, n * 0.5, d / (d + n * x))

    return in_double("fdtrc", value, dfn, dfd, x)


def fdtri(dfn: TensorLike, dfd: TensorLike, p: TensorLike) -> Tensor:
    """The ``x`` of ``fdtr(dfn, dfd, x) = p``.

    >>> f"{fdtri(2.0, 2.0, 0.5).item():.6f}"
    '1.000000'
    """

    def value(n: Any, d: Any, p: Any) -> Any:
        low = p < 0.5
        part = betaincinv(where(low, n, d) * 0.5, where(low, d, n) * 0.5, minimum(p, 1 - p))
        ratio = part / (1 - part)
        return where(low, ratio, 1 / ratio) * d / n

    return in_double("fdtri", value, dfn, dfd, p)


def stdtr(df: TensorLike, t: TensorLike) -> Tensor:
    """Student's t distribution function of ``df`` degrees of freedom.

    >>> f"{stdtr(1.0, 1.0).item():.6f}"
    '0.750000'
    """

    def value(v: Any, t: Any) -> Any:
        square = t * t
        near = square < v
        x = where(near, square, v) / (v + square)
        tail = 0.5 * betainc(
            where(near, 0.5, v * 0.5), where(near, v * 0.5, 0.5), where(square < math.inf, x, 0.0)
        )
        tail = where(near, 0.5 - tail, tail)
        return where(t > 0, 1 - tail, tail)

    return in_double("stdtr", value, df, t)


def stdtrit(df: TensorLike, p: TensorLike) -> Tensor:
    """The ``t`` of ``stdtr(df, t) = p``.

    >>> f"{stdtrit(1.0, 0.75).item():.6f}"
    '1.000000'
    """

    def value(v: Any, p: Any) -> Any:
        tail = minimum(p, 1 - p)
        far = tail < 0.25
        a, b = where(far, v * 0.5, 0.5), where(far, 0.5, v * 0.5)
        gap = abs(p - 0.5) * 2
        middle = gap == 0
        x = betaincinv(a, b, where(middle, 0.5, where(far, 2 * tail, gap)))
        odds = where(far, (1 - x) / x, x / (1 - x))
        size = where(middle, (p - 0.5) * 2, sqrt(where(middle, 1.0, odds * v)))
        return where(p < 0.5, -size, size)

    return in_double("stdtrit", value, df, p)
