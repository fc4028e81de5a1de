"""Activations of straight pieces. Each is elementwise; dtype and shape are those of the input.

At a corner the derivative is that of the constant piece, as in PyTorch; NaN stays NaN.
"""

from __future__ import annotations

from typing import Any

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.support import in_place, tensor
from lamella.tensor.deferring import deferring
from lamella.tensor.tensor import Tensor

__all__ = [
    "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_", "leaky_relu", "leaky_relu_",
    "prelu", "relu", "relu6", "relu_", "rrelu", "rrelu_", "softshrink", "threshold", "threshold_",
]  # fmt: skip


@deferring
def relu(input: Any, inplace: bool = False) -> Tensor:
    """``max(x, 0)``, with derivative 0 at 0; NaN stays NaN.

    >>> relu(lm.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    x = tensor(input)
    return in_place("relu", input, lm.where(x <= 0, 0, x), inplace)


def relu_(input: Tensor) -> Tensor:
    """:func:`relu` in place.

    >>> x = lm.asarray([-1.0, 2.0])
    >>> relu_(x) is x, x.tolist()
    (True, [0.0, 2.0])
    """
    return relu(input, inplace=True)


@deferring
def hardtanh(
    input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """``x`` between ``min_val`` and ``max_val``, the nearer of them elsewhere.

    Raises:
        OptionError: if ``min_val`` is above ``max_val``.

    >>> hardtanh(lm.asarray([-3.0, 0.5, 3.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    if min_val > max_val:
        raise OptionError(f"[hardtanh] min_val={min_val} is above max_val={max_val}; exchange them")
    x = tensor(input)
    y = lm.where(x >= max_val, max_val, lm.where(x <= min_val, min_val, x))
    return in_place("hardtanh", input, y, inplace)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """:func:`hardtanh` in place.

    >>> hardtanh_(lm.asarray([-3.0, 0.5])).tolist()
    [-1.0, 0.5]
    """
    return hardtanh(input, min_val, max_val, inplace=True)


@deferring
def relu6(input: Any, inplace: bool = False) -> Tensor:
    """``min(max(x, 0), 6)``.

    >>> relu6(lm.asarray([-1.0, 9.0])).tolist()
    [0.0, 6.0]
    """
    x = tensor(input)
    return in_place("relu6", input, lm.where(x >= 6, 6, relu(x)), inplace)


@deferring
def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``x`` where positive, ``negative_slope * x`` elsewhere.

    >>> leaky_relu(lm.asarray([-1.0, 2.0]), 0.5).tolist()
    [-0.5, 2.0]
    """
    x = tensor(input)
    return in_place("leaky_relu", input, lm.where(x > 0, x, x * negative_slope), inplace)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """:func:`leaky_relu` in place.

    >>> leaky_relu_(lm.asarray([-1.0, 2.0]), 0.5).tolist()
    [-0.5, 2.0]
    """
    return leaky_relu(input, negative_slope, inplace=True)


def prelu(input: Any, weight: Any) -> Tensor:
    """``x`` where positive, ``weight * x`` elsewhere, with one slope or one per channel (axis 1)
    (He et al., 2015).

    Raises:
        ShapeError: if ``weight`` is not a number, ``(1,)`` or ``(channels,)``.

    >>> prelu(lm.asarray([[-1.0, -2.0]]), lm.asarray([0.5, 0.25])).tolist()
    [[-0.5, -0.5]]
    """
    x, slope = tensor(input), tensor(weight)
    channels = x.shape[1] if x.ndim > 1 else 1
    if slope.ndim > 1 or (slope.ndim == 1 and slope.shape[0] not in (1, channels)):
        raise ShapeError(
            f"[prelu] a weight of shape {tuple(slope.shape)} for an input of shape "
            f"{tuple(x.shape)}: it has one slope, or one for each of the {channels} channels of "
            "axis 1; give one of these"
        )
    if slope.ndim == 1 and x.ndim != 1:
        slope = slope.reshape(() if x.ndim == 0 else (-1,) + (1,) * (x.ndim - 2))
    return lm.where(x > 0, x, x * slope.astype(x.dtype))


def rrelu(
    input: Any,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """:func:`leaky_relu` with a slope drawn for each element in training, and their mean otherwise
    (Xu et al., 2015).

    Raises:
        OptionError: if ``lower`` is above ``upper``.

    >>> rrelu(lm.asarray([-1.0, 2.0]), 0.25, 0.75).tolist()
    [-0.5, 2.0]
    """
    if lower > upper:
        raise OptionError(f"[rrelu] lower={lower} is above upper={upper}; exchange them")
    x = tensor(input)
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = lm.random.uniform(x.shape, lower, upper).astype(x.dtype)
    return in_place("rrelu", input, lm.where(x > 0, x, x * slope), inplace)


def rrelu_(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> Tensor:
    """:func:`rrelu` in place.

    >>> rrelu_(lm.asarray([-1.0, 2.0]), 0.25, 0.75).tolist()
    [-0.5, 2.0]
    """
    return rrelu(input, lower, upper, training, inplace=True)


@deferring
def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``x`` where above ``threshold``, ``value`` elsewhere.

    >>> threshold(lm.asarray([-1.0, 2.0]), 0.5, 9.0).tolist()
    [9.0, 2.0]
    """
    x = tensor(input)
    return in_place("threshold", input, lm.where(x <= threshold, value, x), inplace)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """:func:`threshold` in place.

    >>> threshold_(lm.asarray([-1.0, 2.0]), 0.5, 9.0).tolist()
    [9.0, 2.0]
    """
    x = tensor(input)
    return in_place("threshold_", input, lm.where(x <= threshold, value, x), True)


@deferring
def hardshrink(input: Any, lambd: float = 0.5) -> Tensor:
    """``x`` outside ``[-lambd, lambd]``, 0 inside.

    >>> hardshrink(lm.asarray([-1.0, 0.25])).tolist()
    [-1.0, 0.0]
    """
    x = tensor(input)
    return lm.where((x >= -lambd) & (x <= lambd), 0, x)


@deferring
def softshrink(input: Any, lambd: float = 0.5) -> Tensor:
    """``x`` moved towards 0 by ``lambd``, and 0 where that would pass it.

    Raises:
        OptionError: if ``lambd`` is negative.

    >>> softshrink(lm.asarray([-1.0, 0.25])).tolist()
    [-0.5, 0.0]
    """
    if lambd < 0:
        raise OptionError(f"[softshrink] lambd={lambd} is negative; give 0 or more")
    x = tensor(input)
    small = (x >= -lambd) & (x <= lambd)
    return lm.where(small, 0, lm.where(x > 0, x - lambd, x + lambd))


@deferring
def hardsigmoid(input: Any, inplace: bool = False) -> Tensor:
    """``relu6(x + 3) / 6``.

    >>> hardsigmoid(lm.asarray([0.0])).tolist()
    [0.5]
    """
    return in_place("hardsigmoid", input, relu6(tensor(input) + 3) / 6, inplace)


@deferring
def hardswish(input: Any, inplace: bool = False) -> Tensor:
    """``x * relu6(x + 3) / 6`` (Howard et al., 2019).

    >>> hardswish(lm.asarray([3.0])).tolist()
    [3.0]
    """
    x = tensor(input)
    return in_place("hardswish", input, x * hardsigmoid(x), inplace)
