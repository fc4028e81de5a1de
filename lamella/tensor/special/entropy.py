"""Logarithms of products, entropies, the logistic function and softmax.

Errors are stated in units in the last place (ulp) of the result; tests hold them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from lamella.tensor.comparison import isfinite, where
from lamella.tensor.core import wrap
from lamella.tensor.elementwise import abs, minimum
from lamella.tensor.gradient import stop_gradient
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import TensorLike
from lamella.tensor.reduction import logsumexp, peak
from lamella.tensor.special.support import in_double, operands
from lamella.tensor.transcendental import exp, log, log1p

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "entr", "expit", "kl_div", "log_expit", "log_softmax", "logit", "logsumexp", "rel_entr",
    "softmax", "xlog1py", "xlogy",
]  # fmt: skip

_TINY = float(np.finfo(np.float64).tiny)


def xlogy(x: TensorLike, y: TensorLike) -> Tensor:
    """``x log(y)``, and 0 where x = 0 unless y is NaN.

    Error: float32 0.6 ulp, float64 2 ulp. Derivatives ``log y`` (0 where x = 0 and y ≤ 0) and
    ``x / y``.

    >>> xlogy([0.0, 2.0], [0.0, 1.0]).tolist()
    [0.0, 0.0]
    """

    def value(x: Any, y: Any) -> Any:
        none = (x == 0) & ((y <= 0) | (y == math.inf))
        return where(none, 0.0, x * log(where(none, 1.0, y)))

    return in_double("xlogy", value, x, y)


def xlog1py(x: TensorLike, y: TensorLike) -> Tensor:
    """``x log(1 + y)``, and 0 where x = 0 unless y is NaN.

    Error: float32 0.6 ulp, float64 2 ulp. Derivatives ``log(1 + y)`` and ``x / (1 + y)``.

    >>> xlog1py([0.0, 2.0], [-1.0, 0.0]).tolist()
    [0.0, 0.0]
    """

    def value(x: Any, y: Any) -> Any:
        none = (x == 0) & ((y <= -1) | (y == math.inf))
        return where(none, 0.0, x * log1p(where(none, 0.0, y)))

    return in_double("xlog1py", value, x, y)


def entr(x: TensorLike) -> Tensor:
    """The entropy ``-x log(x)``: 0 at 0, -inf below.

    Error: float32 0.6 ulp, float64 2 ulp. Derivative ``-log x - 1``; at 0 that of the least
    normal number, at negative numbers 0.

    >>> entr([0.0, 1.0, -1.0]).tolist()
    [0.0, 0.0, -inf]
    """

    def value(x: Any) -> Any:
        inside = where(x == 0, _TINY, where(x < 0, 1.0, x))
        return where(x < 0, -math.inf, 0.0 - x * log(inside))

    return in_double("entr", value, x)


def rel_entr(x: TensorLike, y: TensorLike) -> Tensor:
    """``x log(x / y)``: 0 where x = 0 ≤ y, inf outside x ≥ 0, y > 0.

    Error: float32 0.6 ulp, float64 4 ulp.

    >>> rel_entr([0.0, 1.0, 1.0], [1.0, 1.0, 0.0]).tolist()
    [0.0, 0.0, inf]
    """

    def value(x: Any, y: Any) -> Any:
        inside, edge = (x > 0) & (y > 0), (x == 0) & (y >= 0)
        a, b = where(inside, x, 1.0), where(inside, y, 1.0)
        near = (a < 2 * b) & (b < 2 * a)  # where a - b is exact
        quotient = a / b
        normal = (quotient >= _TINY) & (quotient < math.inf)
        apart = where(normal, log(where(normal, quotient, 1.0)), log(a) - log(b))
        ratio = where(near, log1p(where(near, a - b, 0.0) / b), apart)
        found = where(inside, a * ratio, where(edge, 0.0, math.inf))
        return where((x == x) & (y == y), found, math.nan)

    return in_double("rel_entr", value, x, y)


def kl_div(x: TensorLike, y: TensorLike) -> Tensor:
    """``x log(x / y) - x + y``: y where x = 0 ≤ y, inf outside x ≥ 0, y > 0.

    Error: float32 4 ulp; close to x = y, where it is (x - y)² / 2y, 3e-16 x in absolute terms.

    >>> kl_div([0.0, 1.0], [1.0, 1.0]).tolist()
    [1.0, 0.0]
    """

    def value(x: Any, y: Any) -> Any:
        outside = (x < 0) | (y < 0) | ((x > 0) & (y == 0))
        gap = where(outside, 0.0, y - x)
        return rel_entr(x, y) + gap

    return in_double("kl_div", value, x, y)


def expit(x: TensorLike) -> Tensor:
    """The logistic function ``1 / (1 + exp(-x))``, also where it is below the normal numbers.

    Error: float32 0.6 ulp, float64 4 ulp. Derivative ``y (1 - y)``.

    >>> expit(0.0).item()
    0.5
    """

    def value(x: Any) -> Any:
        shrunk = exp(-abs(x))
        small = shrunk / (1 + shrunk)  # expit(-|x|); the sum is exact where it matters
        exact = where(x < 0, small, 1 / (1 + shrunk))
        smooth = x.sigmoid()
        return smooth + stop_gradient(where(x == x, exact - smooth, 0.0))

    return in_double("expit", value, x)


def log_expit(x: TensorLike) -> Tensor:
    """``log(expit(x)) = min(x, 0) - log(1 + exp(-|x|))``, precise for any ``x``.

    Error: float32 0.6 ulp, float64 2 ulp.

    >>> log_expit(-1000.0).item()
    -1000.0
    """

    def value(x: Any) -> Any:
        return minimum(x, 0.0) - log1p(exp(-abs(x)))

    return in_double("log_expit", value, x)


def logit(x: TensorLike) -> Tensor:
    """``log(x / (1 - x))``, the inverse of :func:`expit`: ∓inf at 0 and 1, NaN outside [0, 1].

    Error: float32 0.6 ulp; float64 2 ulp, but 2e-16 in absolute terms near 1/2.

    >>> logit(0.5).item()
    0.0
    """
    return in_double("logit", lambda x: log(x) - log1p(-x), x)


def _shifted(x: Tensor, axis: Any) -> Tensor:
    if 0 in x.shape:
        return x
    top = peak(x, axis)
    return x - where(isfinite(top), top, 0.0)


def _floating(name: str, x: TensorLike, dtype: object) -> Any:
    value: Any = wrap(operands(name, x)[0])
    return value if dtype is None else value.astype(dtype)


@with_synonyms
def softmax(x: TensorLike, axis: Any = None, dtype: object = None) -> Tensor:
    """``exp(x) / Σ exp(x)`` over ``axis`` (None: all), without overflow; computed in ``dtype``.

    >>> softmax([1000.0, 1000.0]).tolist()
    [0.5, 0.5]
    """
    value = _floating("softmax", x, dtype)
    if 0 not in value.shape:
        value = value - peak(value, axis)
    grown = exp(value)
    return grown / grown.sum(axis, keepdims=True)


@with_synonyms
def log_softmax(x: TensorLike, axis: Any = None, dtype: object = None) -> Tensor:
    """``log(softmax(x))`` over ``axis`` (None: all), precise where softmax is nearly 0.

    >>> log_softmax([1000.0, 0.0]).tolist()
    [0.0, -1000.0]
    """
    moved = _shifted(_floating("log_softmax", x, dtype), axis)
    return moved - log(exp(moved).sum(axis, keepdims=True))
