"""Smooth activations. Each is elementwise; dtype and shape are those of the input.

Formulas are written so that no intermediate overflows where the result is finite. ``inplace=True``
makes the input stand for the result, as in PyTorch. Activations of straight pieces are in
``piecewise``, those along an axis in ``softmax``.
"""

from __future__ import annotations

import math
from typing import Any

import lamella as lm
from lamella.errors import OptionError
from lamella.nn.functional.support import choose, in_place, tensor
from lamella.tensor.deferring import deferring
from lamella.tensor.tensor import Tensor

__all__ = [
    "celu", "celu_", "elu", "elu_", "gelu", "log_one_plus_exp", "logsigmoid", "mish", "selu",
    "selu_", "sigmoid", "silu", "softplus", "softsign", "tanh", "tanhshrink",
]  # fmt: skip


def log_one_plus_exp(x: Tensor) -> Tensor:
    """``log(1 + exp(x))`` without overflow, with the derivative ``sigmoid(x)`` everywhere.

    >>> log_one_plus_exp(lm.asarray([1000.0])).tolist()
    [1000.0]
    """
    large = x > 0
    return lm.log1p(lm.exp(lm.where(large, -x, x))) + lm.where(large, x, 0)


@deferring
def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where positive, ``alpha * (exp(x) - 1)`` elsewhere (Clevert et al., 2015).

    >>> elu(lm.asarray([2.0])).tolist()
    [2.0]
    """
    x = tensor(input)
    y = lm.where(x > 0, x, alpha * lm.expm1(lm.where(x > 0, 0, x)))
    return in_place("elu", input, y, inplace)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """:func:`elu` in place.

    >>> elu_(lm.asarray([2.0])).tolist()
    [2.0]
    """
    return elu(input, alpha, inplace=True)


@deferring
def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere (Barron, 2017).

    Raises:
        OptionError: if ``alpha`` is 0.

    >>> celu(lm.asarray([2.0]), 0.5).tolist()
    [2.0]
    """
    if alpha == 0:
        raise OptionError("[celu] alpha=0 divides by zero; give another, or use relu")
    x = tensor(input)
    y = lm.where(x > 0, x, alpha * lm.expm1(lm.where(x > 0, 0, x) / alpha))
    return in_place("celu", input, y, inplace)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """:func:`celu` in place.

    >>> celu_(lm.asarray([2.0])).tolist()
    [2.0]
    """
    return celu(input, alpha, inplace=True)


@deferring
def selu(input: Any, inplace: bool = False) -> Tensor:
    """Scaled :func:`elu` that keeps mean 0 and variance 1 (Klambauer et al., 2017).

    >>> selu(lm.asarray([0.0])).tolist()
    [0.0]
    """
    y = 1.0507009873554805 * elu(input, 1.6732632423543772)
    return in_place("selu", input, y, inplace)


def selu_(input: Tensor) -> Tensor:
    """:func:`selu` in place.

    >>> selu_(lm.asarray([0.0])).tolist()
    [0.0]
    """
    return selu(input, inplace=True)


def sigmoid(input: Any) -> Tensor:
    """``1 / (1 + exp(-x))``.

    >>> sigmoid(lm.asarray([0.0])).tolist()
    [0.5]
    """
    return lm.sigmoid(tensor(input))


@deferring
def logsigmoid(input: Any) -> Tensor:
    """``log(sigmoid(x)) = -softplus(-x)``.

    >>> logsigmoid(lm.asarray([-1000.0])).tolist()
    [-1000.0]
    """
    return -log_one_plus_exp(-tensor(input))


def tanh(input: Any) -> Tensor:
    """The hyperbolic tangent.

    >>> tanh(lm.asarray([0.0])).tolist()
    [0.0]
    """
    return lm.tanh(tensor(input))


@deferring
def tanhshrink(input: Any) -> Tensor:
    """``x - tanh(x)``.

    >>> tanhshrink(lm.asarray([0.0])).tolist()
    [0.0]
    """
    x = tensor(input)
    return x - lm.tanh(x)


@deferring
def softsign(input: Any) -> Tensor:
    """``x / (1 + |x|)``.

    >>> softsign(lm.asarray([-1.0, 3.0])).tolist()
    [-0.5, 0.75]
    """
    x = tensor(input)
    return x / (1 + abs(x))


@deferring
def silu(input: Any, inplace: bool = False) -> Tensor:
    """``x * sigmoid(x)`` (Elfwing et al., 2017).

    >>> silu(lm.asarray([0.0])).tolist()
    [0.0]
    """
    x = tensor(input)
    return in_place("silu", input, x * lm.sigmoid(x), inplace)


@deferring
def mish(input: Any, inplace: bool = False) -> Tensor:
    """``x * tanh(softplus(x))`` (Misra, 2019), as ``x * (t^2 + 2t) / (t^2 + 2t + 2)`` with ``t =
    exp(x)``: one function instead of three. Where ``x`` is positive, in powers of ``exp(-x)``.

    >>> mish(lm.asarray([0.0])).tolist()
    [0.0]
    """
    x = tensor(input)
    large = x > 0
    t = lm.exp(lm.where(large, -x, x))
    above = lm.where(large, 1 + 2 * t, t * (t + 2))
    below = above + lm.where(large, 2 * t * t, 2)
    return in_place("mish", input, x * above / below, inplace)


@deferring
def gelu(input: Any, approximate: str = "none") -> Tensor:
    """``x * Phi(x)`` with the normal distribution function (Hendrycks and Gimpel, 2016).

    Args:
        input: any shape.
        approximate: ``"none"`` computes with erf; ``"tanh"`` with
            ``0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))``.

    >>> gelu(lm.asarray([0.0])).tolist()
    [0.0]
    """
    x = tensor(input)
    if choose("gelu", "approximate", approximate, ("none", "tanh")) == "tanh":
        inner = math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x)
        return 0.5 * x * (1 + lm.tanh(inner))
    return 0.5 * x * (1 + lm.erf(x * math.sqrt(0.5)))


@deferring
def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * x)) / beta``, ``x`` itself where ``beta * x > threshold``.

    >>> softplus(lm.asarray([1000.0])).tolist()
    [1000.0]
    """
    x = tensor(input)
    scaled = x * beta
    large = scaled > threshold
    return lm.where(large, x, log_one_plus_exp(scaled) / beta)
