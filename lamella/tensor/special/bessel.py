"""Bessel functions of orders 0 and 1.

Errors are stated in units in the last place (ulp) of the result; tests hold them. Methods: up to 8
polynomials, beyond Hankel's form (NIST Digital Library of Mathematical Functions, 10.17, 10.40).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lamella import ops
from lamella.tensor.elementwise import abs
from lamella.tensor.operands import TensorLike
from lamella.tensor.special.support import applied, in_double
from lamella.tensor.transcendental import exp

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["i0", "i0e", "i1", "i1e", "j0", "j1", "y0", "y1"]


def i0(x: TensorLike) -> Tensor:
    """The modified Bessel function of the first kind, order 0: ``(1/π) ∫₀^π exp(x cos t) dt``.

    Error: float32 0.6 ulp; float64 6 ulp. Overflows beyond |x| = 91.9 (float32), 709 (float64).

    >>> i0(0.0).item()
    1.0
    """

    def value(a: Any) -> Any:
        return exp(abs(a)) * i0e(a)

    return in_double("i0", value, x)


def i1(x: TensorLike) -> Tensor:
    """The modified Bessel function of the first kind, order 1, the derivative of :func:`i0`.

    Error: float32 0.6 ulp; float64 6 ulp.

    >>> i1(0.0).item()
    0.0
    """

    def value(a: Any) -> Any:
        return exp(abs(a)) * i1e(a)

    return in_double("i1", value, x)


def i0e(x: TensorLike) -> Tensor:
    """``exp(-|x|) i0(x)``, which does not overflow.

    Error: float32 0.6 ulp, float64 4 ulp. Derivative ``i1e(x) - sign(x) y``.

    >>> i0e(0.0).item()
    1.0
    """
    return applied("i0e", ops.i0e, x)


def i1e(x: TensorLike) -> Tensor:
    """``exp(-|x|) i1(x)``, which does not overflow.

    Error: float32 0.6 ulp, float64 4 ulp. Derivative ``i0e(x) - y (sign(x) + 1 / x)``.

    >>> i1e(0.0).item()
    0.0
    """
    return applied("i1e", ops.i1e, x)


def j0(x: TensorLike) -> Tensor:
    """The Bessel function of the first kind, order 0: ``(1/π) ∫₀^π cos(x sin t) dt``; 0 at ±inf.

    Error: float32 0.6 ulp up to |x| = 1e4, near its farther zeros 1e-16 in absolute terms; float64
    1.5e-15 in absolute terms. Derivative ``-j1(x)``.

    >>> j0(0.0).item()
    1.0
    """
    return applied("j0", ops.j0, x)


def j1(x: TensorLike) -> Tensor:
    """The Bessel function of the first kind, order 1; 0 at ±inf.

    Error: as :func:`j0`, and relative near 0. Derivative ``j0(x) - j1(x) / x``.

    >>> j1(0.0).item()
    0.0
    """
    return applied("j1", ops.j1, x)


def y0(x: TensorLike) -> Tensor:
    """The Bessel function of the second kind, order 0: -inf at 0, NaN below, 0 at inf.

    Error: as :func:`j0`. Derivative ``-y1(x)``.

    >>> y0(0.0).item()
    -inf
    """
    return applied("y0", ops.y0, x)


def y1(x: TensorLike) -> Tensor:
    """The Bessel function of the second kind, order 1: -inf at 0, NaN below, 0 at inf.

    Error: as :func:`j0`, and relative near 0. Derivative ``y0(x) - y1(x) / x``.

    >>> y1(0.0).item()
    -inf
    """
    return applied("y1", ops.y1, x)
