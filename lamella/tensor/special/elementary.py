"""Exponentials, sines and the dilogarithm, where the plain formula would cancel.

Errors are stated in units in the last place (ulp) of the result; tests hold them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lamella import ops
from lamella.tensor.comparison import floor, round, where
from lamella.tensor.elementwise import abs
from lamella.tensor.operands import TensorLike
from lamella.tensor.special.support import applied, in_double
from lamella.tensor.transcendental import exp2, expm1, log1p, sin

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["cosm1", "exp2", "expm1", "exprel", "lambertw", "log1p", "sinc", "spence"]


def exprel(x: TensorLike) -> Tensor:
    """``(exp(x) - 1) / x``, 1 at 0.

    Error: float32 0.6 ulp, float64 3 ulp. Derivatives of any order by those of the relative
    exponentials of higher order.

    >>> exprel(0.0).item()
    1.0
    """
    return applied("exprel", ops.exprel, x)


def cosm1(x: TensorLike) -> Tensor:
    """``cos(x) - 1 = -2 sin²(x / 2)``, precise for small ``x``.

    Error: float32 0.6 ulp, float64 4 ulp. Derivative ``-sin(x)``.

    >>> cosm1(0.0).item()
    -0.0
    """

    def value(x: Any) -> Any:
        half = sin(x * 0.5)
        return half * half * -2.0

    return in_double("cosm1", value, x)


def sinc(x: TensorLike) -> Tensor:
    """``sin(πx) / (πx)``, 1 at 0 and exactly 0 at other whole numbers.

    Error: float32 0.6 ulp, float64 6 ulp. Near 0 by its series, so that derivatives of any order
    are right there.

    >>> sinc([0.0, 0.5, 2.0]).tolist()[::2]
    [1.0, 0.0]
    """

    def value(x: Any) -> Any:
        small = abs(x) < 0.5
        square = where(small, x * math.pi, 0.0) ** 2
        series = square * 0
        for k in reversed(range(11)):
            series = series * square + (-1) ** k / math.factorial(2 * k + 1)
        whole = round(x)
        sine = sin((x - whole) * math.pi)
        odd = floor(whole * 0.5) * 2 != whole
        far = where(odd, -sine, sine) / where(small, 1.0, x * math.pi)
        return where(small, series, far)

    return in_double("sinc", value, x)


def spence(z: TensorLike) -> Tensor:
    """Spence's function ``∫₁ᶻ log(t) / (1 - t) dt = Li₂(1 - z)``; NaN below 0.

    Error: float32 0.6 ulp, float64 4 ulp. Derivative ``log(z) / (1 - z)``. Method: Euler's
    reflection and inversion, then the series in Bernoulli numbers of -log(1 - w).

    >>> spence(1.0).item()
    0.0
    """
    return applied("spence", ops.spence, z)


def lambertw(z: TensorLike, k: int = 0) -> Tensor:
    """A real branch of Lambert's W, the solution of ``w exp(w) = z``: ``k`` 0 gives w ≥ -1 for
    z ≥ -1/e, ``k`` -1 gives w ≤ -1 for -1/e ≤ z < 0; NaN elsewhere (SciPy's is complex).

    Error: float32 0.6 ulp; float64 8 ulp, but 1e-14 within 1e-3 of -1/e. Derivative
    ``exp(-w) / (1 + w)``. Method: a start and Halley's steps (Corless, Gonnet, Hare, Jeffrey,
    Knuth: On the Lambert W function, 1996).

    Raises:
        OptionError: for another ``k``, whose values are complex.

    >>> lambertw(0.0).item()
    0.0
    """
    return applied("lambertw", lambda node: ops.lambertw(node, k), z)
