"""Spherical harmonics and associated Legendre functions of whole degree and order.

Degrees and orders are whole numbers or arrays of such, whose values are looked at: the largest
decides how often the recurrence runs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from lamella.dtypes import complex64, complex128, float64
from lamella.errors import OptionError
from lamella.tensor.comparison import astype, where
from lamella.tensor.complex import complex
from lamella.tensor.elementwise import abs
from lamella.tensor.operands import TensorLike
from lamella.tensor.special.orthogonal import orders
from lamella.tensor.special.support import constants, in_double, operands
from lamella.tensor.transcendental import cos, sin, sqrt

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["lpmv", "sph_harm_y"]

Array = np.ndarray[Any, Any]


def _normalised(n: Array, m: Array, x: Any, y: Any) -> Any:
    """``√((2n + 1) (n - m)! / (4π (n + m)!)) P(m, n)`` at x = cos θ, y = sin θ, for m >= 0, with
    the factor (-1)^m; by the recurrence over the degree, from degree m on.
    """
    n, m = np.broadcast_arrays(n, m)
    order, reach = constants(m), constants(n - m)
    start = x * 0 + math.sqrt(1 / (4 * math.pi))
    for k in range(1, int(m.max(initial=0)) + 1):
        start = where(order >= k, -start * y * math.sqrt((2 * k + 1) / (2 * k)), start)
    before, last = start * 0, start
    found = where(reach == 0, last, 0.0)
    scale = 0.0
    for j in range(1, int((n - m).max(initial=0)) + 1):
        degree = m + j
        factor = np.sqrt((4.0 * degree**2 - 1) / (degree**2 - m**2))
        inverse = constants(np.divide(1.0, scale) if j > 1 else np.zeros_like(factor))
        before, last = last, constants(factor) * (x * last - inverse * before)
        scale = factor
        found = where(reach == j, last, found)
    return where(reach < 0, 0.0, found)


def _whole(name: str, n: TensorLike, m: TensorLike) -> tuple[Array, Array]:
    degree, _ = orders(name, n)
    order, _ = orders(name, m)
    if degree.min(initial=0) < 0:
        raise OptionError(f"[{name}] degree {degree!r:.40} is negative; give 0, 1, …")
    return degree, order


def sph_harm_y(n: TensorLike, m: TensorLike, theta: TensorLike, phi: TensorLike) -> Tensor:
    """The spherical harmonic of degree ``n`` and order ``m`` at the polar angle ``theta`` and the
    azimuth ``phi``: ``√((2n + 1) (n - m)! / (4π (n + m)!)) P(m, n; cos θ) exp(i m φ)``, complex;
    0 for m beyond ±n.

    Args:
        n: whole numbers from 0 on.
        m: whole numbers.
        theta: from 0 to π.
        phi: any angle.

    Error: complex64 1e-7, complex128 1e-14 n in absolute terms. Derivatives by the angles.

    Raises:
        OptionError: for a negative degree.
        DTypeError: if degrees or orders are not whole.

    >>> f"{sph_harm_y(0, 0, 0.5, 0.5).item().real:.6f}"
    '0.282095'
    """
    degree, order = _whole("sph_harm_y", n, m)
    kind = operands("sph_harm_y", theta, phi)[0].dtype

    def value(theta: Any, phi: Any) -> Any:
        size = _normalised(degree, np.abs(order), cos(theta), sin(theta))
        turn = constants(np.where((order < 0) & (order % 2 != 0), -1.0, 1.0))
        angle = constants(order) * phi
        return complex(size * turn * cos(angle), size * turn * sin(angle))

    angles = (astype(x, float64) for x in _tensors(theta, phi))
    return astype(value(*angles), complex128 if kind is float64 else complex64)


def _tensors(*xs: TensorLike) -> list[Any]:
    from lamella.tensor.core import wrap

    return [wrap(node) for node in operands("sph_harm_y", *xs)]


def lpmv(m: TensorLike, v: TensorLike, x: TensorLike) -> Tensor:
    """The associated Legendre function of whole order ``m`` ≥ 0 and degree ``v`` on [-1, 1], with
    the factor (-1)^m; 0 for m > v, NaN outside.

    Raises:
        OptionError: for a negative order or degree.

    >>> f"{lpmv(1, 1, 0.6).item():.6f}"
    '-0.800000'
    """
    degree, order = _whole("lpmv", v, m)
    if order.min(initial=0) < 0:
        raise OptionError(f"[lpmv] order {order!r:.40} is negative; give 0, 1, …")
    logs = np.vectorize(lambda n, k: math.lgamma(n + k + 1) - math.lgamma(max(n - k, 0) + 1))
    scale = np.sqrt(4 * math.pi / (2 * degree + 1)) * np.exp(logs(degree, order) / 2)

    def value(x: Any) -> Any:
        inside = abs(x) <= 1
        safe = where(inside, x, 0.0)
        rest = (1 - safe) * (1 + safe)
        edge = rest == 0
        sine = where(edge, 0.0, sqrt(where(edge, 1.0, rest)))
        found = _normalised(degree, order, safe, sine) * constants(scale)
        return where(inside, found, math.nan)

    return in_double("lpmv", value, x)
