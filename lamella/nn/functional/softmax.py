"""Activations along an axis: softmax and what is built on it, and gated halves."""

from __future__ import annotations

from typing import Any

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.support import check_float, tensor
from lamella.tensor.axes import axis_of
from lamella.tensor.deferring import deferring
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.reduction import peak
from lamella.tensor.tensor import Tensor

__all__ = ["glu", "gumbel_softmax", "log_softmax", "softmax", "softmin"]


@with_synonyms
def glu(input: Any, dim: int = -1) -> Tensor:
    """The first half along ``dim`` times the sigmoid of the second half (Dauphin et al., 2016).

    Raises:
        ShapeError: if the axis has an odd size.

    >>> glu(lm.asarray([2.0, 0.0])).tolist()
    [1.0]
    """
    x = tensor(input)
    dim = axis_of("glu", dim, x.shape)
    if x.shape[dim] % 2:
        raise ShapeError(
            f"[glu] axis {dim} of shape {x.shape} has an odd size and no halves; give an even one"
        )
    moved = lm.moveaxis(x, dim, 0)
    half = x.shape[dim] // 2
    return lm.moveaxis(moved[:half] * lm.sigmoid(moved[half:]), 0, dim)


def _shifted(op: str, input: Any, dim: int, dtype: Any) -> Tensor:
    """``input`` minus its maximum, which changes neither softmax nor its derivative."""
    x = tensor(input) if dtype is None else tensor(input).astype(dtype)
    check_float(op, x)
    if x.ndim == 0 and dim in (0, -1):
        return x - x.detach()
    if x.shape[axis_of(op, dim, x.shape)] == 0:
        return x
    return x - peak(x, dim)


@deferring
@with_synonyms
def softmax(input: Any, dim: int = -1, dtype: Any = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``dim``, shifted by the maximum.

    Raises:
        DTypeError: if the input is not floating point and no ``dtype`` is given.

    >>> softmax(lm.asarray([1000.0, 1000.0])).tolist()
    [0.5, 0.5]
    """
    grown = lm.exp(_shifted("softmax", input, dim, dtype))
    if grown.ndim == 0:
        return grown / grown
    return grown * (1 / grown.sum(dim, keepdims=True))  # divides once a row


@deferring
@with_synonyms
def log_softmax(input: Any, dim: int = -1, dtype: Any = None) -> Tensor:
    """``x - log(sum(exp(x)))`` along ``dim``, shifted by the maximum.

    >>> log_softmax(lm.asarray([1000.0, 0.0])).tolist()
    [0.0, -1000.0]
    """
    shifted = _shifted("log_softmax", input, dim, dtype)
    if shifted.ndim == 0:
        return shifted - shifted
    return shifted - lm.log(lm.exp(shifted).sum(dim, keepdims=True))


@with_synonyms
def softmin(input: Any, dim: int = -1, dtype: Any = None) -> Tensor:
    """:func:`softmax` of the negated input.

    >>> softmin(lm.asarray([1000.0, 1000.0])).tolist()
    [0.5, 0.5]
    """
    return softmax(-tensor(input), dim, dtype)


@with_synonyms
def gumbel_softmax(
    logits: Any, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A random choice with a derivative: ``softmax((logits + g) / tau)`` with Gumbel noise ``g``
    (Jang et al., 2016).

    Args:
        logits: unnormalised logarithms of probabilities, any shape.
        tau: the temperature; towards 0 the result becomes one-hot.
        hard: whether the value is one-hot, while the derivative is that of the soft one.
        eps: taken for PyTorch's sake and not used.
        dim: the axis of the choices.

    Raises:
        OptionError: if ``tau`` is not positive.

    >>> gumbel_softmax(lm.zeros(4), hard=True).sum().item()
    1.0
    """
    if tau <= 0:
        raise OptionError(f"[gumbel_softmax] tau={tau} is no temperature; give a positive one")
    logits = tensor(logits)
    check_float("gumbel_softmax", logits)
    noise = lm.random.gumbel(logits.shape).astype(logits.dtype)
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    place = lm.moveaxis(lm.arange(logits.shape[dim])[(..., *[None] * (logits.ndim - 1))], 0, dim)
    chosen = (soft.argmax(dim, keepdims=True) == place).astype(soft.dtype)
    return chosen + (soft - soft.detach())
