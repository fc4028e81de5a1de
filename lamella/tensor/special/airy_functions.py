"""Airy's functions and their derivatives.

Errors are stated in units in the last place (ulp) of the result; tests hold them. Methods:
Chebyshev series around 0; beyond, an exponential (NIST Digital Library of Mathematical Functions,
9.7.5) or an amplitude and a phase (9.7.9) with series of their slow factors, made by
``tools/special_series.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lamella.tensor.comparison import where
from lamella.tensor.elementwise import maximum, minimum
from lamella.tensor.operands import TensorLike
from lamella.tensor.special import tables
from lamella.tensor.special.support import chebyshev, in_double, several
from lamella.tensor.transcendental import cos, exp, sin, sqrt

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["airy", "airy_ai"]


def _decaying(x: Any, table: tuple[float, ...], power: float) -> Any:
    """Ai or its derivative for x >= 0."""
    root = sqrt(x)
    value = chebyshev(1 - 4 / (root + 2), table) * exp(x * root * (-2 / 3))
    return value * sqrt(1 + root) if power > 0 else value / sqrt(1 + root)


def _growing(
    x: Any, middle: tuple[float, ...], large: tuple[float, ...], derivative: bool
) -> Any:
    """Bi or its derivative for x >= 0."""
    near, far = minimum(x, 8.0), maximum(minimum(x, 1e200), 8.0)
    root = sqrt(far)
    zeta = far * root * (2 / 3)
    first = 2 / 3 * 8**1.5
    value = chebyshev(2 * first / zeta - 1, large) * exp(zeta)
    value = value * sqrt(root) if derivative else value / sqrt(root)
    return where(x < 8, chebyshev(near / 4 - 1, middle) * exp(near * 1.5), value)


def _waves(x: Any) -> tuple[Any, Any, Any, Any]:
    """Ai, Ai', Bi, Bi' at -x for x >= 4."""
    root = sqrt(x)
    zeta = x * root * (2 / 3)
    inverse = (16 / 3) / zeta
    t = 2 * inverse * inverse - 1
    p, q = chebyshev(t, tables.AIRY_P), chebyshev(t, tables.AIRY_Q) / zeta
    r, s = chebyshev(t, tables.AIRY_R), chebyshev(t, tables.AIRY_S) / zeta
    sine, cosine = sin(zeta), cos(zeta)
    c, z = (cosine + sine) * math.sqrt(0.5), (sine - cosine) * math.sqrt(0.5)
    quarter = sqrt(root)
    size, steep = 1 / (math.sqrt(math.pi) * quarter), quarter / math.sqrt(math.pi)
    ai, bi = size * (p * c + q * z), size * (q * c - p * z)
    return ai, steep * (r * z - s * c), bi, steep * (r * c + s * z)


def _airy(x: Any, wanted: str = "all") -> tuple[Any, ...]:
    """The four functions, or Ai alone."""
    up, low = where(x > 0, x, 1.0), where((x <= 0) & (x >= -4), x, 0.0)
    far = where(x < -4, minimum(-x, 1e200), 4.0)
    t = low * 0.5 + 1
    waves = _waves(far)
    above: list[Callable[[], Any]] = [
        lambda: _decaying(minimum(up, 1e200), tables.AI_LARGE, -1)
    ]
    below: list[tuple[float, ...]] = [tables.AI_SMALL]
    if wanted == "all":
        above += [
            lambda: _decaying(minimum(up, 1e200), tables.AIP_LARGE, 1),
            lambda: _growing(up, tables.BI_MIDDLE, tables.BI_LARGE, False),
            lambda: _growing(up, tables.BIP_MIDDLE, tables.BIP_LARGE, True),
        ]
        below += [tables.AIP_SMALL, tables.BI_SMALL, tables.BIP_SMALL]
    found: list[Any] = []
    for make, table, wave in zip(above, below, waves, strict=False):
        end = 0.0 if len(found) % 2 == 0 else math.nan  # at -inf
        value = where(x > 0, make(), where(x < -4, wave, chebyshev(t, table)))
        found.append(where(x == x, where(x == -math.inf, end, value), x))
    return tuple(found)


def airy(z: TensorLike) -> tuple[Tensor, ...]:
    """Airy's functions ``Ai, Ai', Bi, Bi'``, the solutions of ``y'' = x y``.

    Error: float32 0.6 ulp, near zeros below -4 1e-14 in absolute terms; float64 (16 + x^1.5) ulp,
    near zeros 1e-15 (1 + |x|^1.5) in absolute terms.

    >>> [f"{part.item():.5f}" for part in airy(0.0)]
    ['0.35503', '-0.25882', '0.61493', '0.44829']
    """
    return several("airy", _airy, z)


def airy_ai(x: TensorLike) -> Tensor:
    """Airy's function ``Ai(x) = 1/π ∫₀^∞ cos(t³/3 + x t) dt``, as the first of :func:`airy`.

    >>> f"{airy_ai(1.0).item():.6f}"
    '0.135292'
    """
    return in_double("airy_ai", lambda x: _airy(x, "ai")[0], x)
