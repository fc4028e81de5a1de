"""Activations. Each is elementwise unless it takes ``dim``; dtype and shape are those of the input.

Formulas are written so that no intermediate overflows where the result is finite.
"""

from __future__ import annotations

import math
from typing import Any

import lamella as lm
from lamella.errors import ShapeError
from lamella.nn.functional.support import check_float, choose, tensor
from lamella.tensor.tensor import Tensor

__all__ = [
    "elu", "gelu", "glu", "hardsigmoid", "hardswish", "leaky_relu", "log_softmax", "logsigmoid",
    "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softmax", "softplus", "tanh",
]  # fmt: skip


def relu(x: Any) -> Tensor:
    """``max(x, 0)``, with derivative 0 at 0; NaN stays NaN.

    >>> relu(lm.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    x = tensor(x)
    return lm.where(x <= 0, 0, x)


def relu6(x: Any) -> Tensor:
    """``min(max(x, 0), 6)``.

    >>> relu6(lm.asarray([-1.0, 9.0])).tolist()
    [0.0, 6.0]
    """
    x = tensor(x)
    return lm.where(x >= 6, 6, relu(x))


def leaky_relu(x: Any, negative_slope: float = 0.01) -> Tensor:
    """``x`` where positive, ``negative_slope * x`` elsewhere.

    >>> leaky_relu(lm.asarray([-1.0, 2.0]), 0.5).tolist()
    [-0.5, 2.0]
    """
    x = tensor(x)
    return lm.where(x > 0, x, x * negative_slope)


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """``x`` where positive, ``alpha * (exp(x) - 1)`` elsewhere (Clevert et al., 2015).

    >>> elu(lm.asarray([2.0])).tolist()
    [2.0]
    """
    x = tensor(x)
    return lm.where(x > 0, x, alpha * lm.expm1(lm.where(x > 0, 0, x)))


def selu(x: Any) -> Tensor:
    """Scaled :func:`elu` that keeps mean 0 and variance 1 (Klambauer et al., 2017).

    >>> selu(lm.asarray([0.0])).tolist()
    [0.0]
    """
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


def sigmoid(x: Any) -> Tensor:
    """``1 / (1 + exp(-x))``.

    >>> sigmoid(lm.asarray([0.0])).tolist()
    [0.5]
    """
    return lm.sigmoid(tensor(x))


def logsigmoid(x: Any) -> Tensor:
    """``log(sigmoid(x)) = -softplus(-x)``.

    >>> logsigmoid(lm.asarray([-1000.0])).tolist()
    [-1000.0]
    """
    return -softplus(-tensor(x))


def tanh(x: Any) -> Tensor:
    """The hyperbolic tangent.

    >>> tanh(lm.asarray([0.0])).tolist()
    [0.0]
    """
    return lm.tanh(tensor(x))


def silu(x: Any) -> Tensor:
    """``x * sigmoid(x)`` (Elfwing et al., 2017).

    >>> silu(lm.asarray([0.0])).tolist()
    [0.0]
    """
    x = tensor(x)
    return x * lm.sigmoid(x)


def mish(x: Any) -> Tensor:
    """``x * tanh(softplus(x))`` (Misra, 2019).

    >>> mish(lm.asarray([0.0])).tolist()
    [0.0]
    """
    x = tensor(x)
    return x * lm.tanh(softplus(x))


def gelu(x: Any, approximate: str = "none") -> Tensor:
    """``x * Phi(x)`` with the normal distribution function (Hendrycks and Gimpel, 2016).

    Args:
        x: any shape.
        approximate: ``"none"`` computes with erf; ``"tanh"`` with
            ``0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))``.

    >>> gelu(lm.asarray([0.0])).tolist()
    [0.0]
    """
    x = tensor(x)
    if choose("gelu", "approximate", approximate, ("none", "tanh")) == "tanh":
        inner = math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x)
        return 0.5 * x * (1 + lm.tanh(inner))
    return 0.5 * x * (1 + lm.erf(x * math.sqrt(0.5)))


def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * x)) / beta``, ``x`` itself where ``beta * x > threshold``.

    >>> softplus(lm.asarray([1000.0])).tolist()
    [1000.0]
    """
    x = tensor(x)
    scaled = x * beta
    large = scaled > threshold
    return lm.where(large, x, lm.log1p(lm.exp(lm.where(large, 0, scaled))) / beta)


def hardsigmoid(x: Any) -> Tensor:
    """``relu6(x + 3) / 6``.

    >>> hardsigmoid(lm.asarray([0.0])).tolist()
    [0.5]
    """
    return relu6(tensor(x) + 3) / 6


def hardswish(x: Any) -> Tensor:
    """``x * relu6(x + 3) / 6`` (Howard et al., 2019).

    >>> hardswish(lm.asarray([3.0])).tolist()
    [3.0]
    """
    x = tensor(x)
    return x * hardsigmoid(x)


def glu(x: Any, dim: int = -1) -> Tensor:
    """The first half along ``dim`` times the sigmoid of the second half.

    Raises:
        ShapeError: if the axis has an odd size.

    >>> glu(lm.asarray([2.0, 0.0])).tolist()
    [1.0]
    """
    x = tensor(x)
    if x.shape[dim] % 2:
        raise ShapeError(
            f"[glu] axis {dim} of shape {x.shape} has an odd size and no halves; give an even one"
        )
    moved = lm.moveaxis(x, dim, 0)
    half = x.shape[dim] // 2
    return lm.moveaxis(moved[:half] * lm.sigmoid(moved[half:]), 0, dim)


def _shifted(op: str, x: Any, dim: int, dtype: Any) -> Tensor:
    """``x`` minus its maximum, which changes neither softmax nor its derivative; -inf rows stay
    defined.
    """
    x = tensor(x)
    x = x if dtype is None else x.astype(dtype)
    check_float(op, x)
    top = x.detach().max(dim, keepdims=True)
    return x - lm.where(lm.isfinite(top), top, 0)


def softmax(x: Any, dim: int = -1, dtype: Any = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``dim``, shifted by the maximum.

    Raises:
        DTypeError: if ``x`` is not floating point and no ``dtype`` is given.

    >>> softmax(lm.asarray([1000.0, 1000.0])).tolist()
    [0.5, 0.5]
    """
    grown = lm.exp(_shifted("softmax", x, dim, dtype))
    return grown / grown.sum(dim, keepdims=True)


def log_softmax(x: Any, dim: int = -1, dtype: Any = None) -> Tensor:
    """``x - log(sum(exp(x)))`` along ``dim``, shifted by the maximum.

    >>> log_softmax(lm.asarray([1000.0, 0.0])).tolist()
    [0.0, -1000.0]
    """
    shifted = _shifted("log_softmax", x, dim, dtype)
    return shifted - lm.log(lm.exp(shifted).sum(dim, keepdims=True))
