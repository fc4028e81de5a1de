"""Linear and bilinear maps of the last axis."""

from __future__ import annotations

from typing import Any

import lamella as lm
from lamella.errors import ShapeError
from lamella.nn.functional.support import tensor
from lamella.tensor.tensor import Tensor

__all__ = ["bilinear", "linear"]


def linear(input: Any, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.T + bias``: ``(..., in)`` with ``weight (out, in)`` to ``(..., out)``.

    Raises:
        ShapeError: if the last axis of the input is not ``in``.

    >>> linear(lm.ones((2, 3)), lm.ones((4, 3))).shape
    (2, 4)
    """
    x = tensor(input)
    if weight.ndim not in (1, 2) or not x.ndim or x.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"[linear] input of shape {tuple(x.shape)} with a weight of shape "
            f"{tuple(weight.shape)}: the last axis of both is the number of input features and "
            "must agree; reshape the input or build the layer for it"
        )
    y = lm.matmul(x, weight.T)
    return y if bias is None else y + bias


def bilinear(input1: Any, input2: Any, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x1^T A_k x2 + b_k`` for each output ``k``: ``(..., in1)`` and ``(..., in2)`` to ``(...,
    out)``.

    Args:
        input1: ``(..., in1)``.
        input2: ``(..., in2)`` with the same other axes.
        weight: ``(out, in1, in2)``.
        bias: ``(out,)``.

    Raises:
        ShapeError: if the shapes do not belong together.

    >>> bilinear(lm.ones((2, 3)), lm.ones((2, 4)), lm.ones((5, 3, 4))).shape
    (2, 5)
    """
    x1, x2, weight = tensor(input1), tensor(input2), tensor(weight)
    fits = weight.ndim == 3 and x1.ndim and x2.ndim and x1.shape[:-1] == x2.shape[:-1]
    if not fits or (x1.shape[-1], x2.shape[-1]) != tuple(weight.shape[1:]):
        raise ShapeError(
            f"[bilinear] inputs of shapes {tuple(x1.shape)} and {tuple(x2.shape)} with a weight of "
            f"shape {tuple(weight.shape)}: they are (..., in1), (..., in2) with equal first axes, "
            "and (out, in1, in2); reshape the inputs or build the layer for them"
        )
    out, first, second = weight.shape
    flat = lm.permute(weight, 1, 0, 2).reshape((first, out * second))
    mapped = lm.matmul(x1, flat).reshape((*x1.shape[:-1], out, second))
    y = lm.matmul(mapped, x2[..., None])[..., 0]
    return y if bias is None else y + bias
