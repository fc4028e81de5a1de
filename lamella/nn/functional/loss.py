"""Losses: how far predictions are from targets. ``reduction`` is ``"mean"``, ``"sum"`` or
``"none"``.

The class losses select with a mask instead of a gather, so that they fuse with the softmax and have
no scatter in their derivative; classes outside the range raise IndexError when the loss is
computed.
"""

from __future__ import annotations

from typing import Any

import lamella as lm
from lamella import ops
from lamella.errors import DTypeError, ShapeError
from lamella.nn.functional.activation import log_softmax, softplus
from lamella.nn.functional.support import check_float, choose, record, reduce_loss, tensor
from lamella.tensor.tensor import Tensor

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "huber_loss",
    "kl_div", "l1_loss", "mse_loss", "nll_loss", "smooth_l1_loss",
]  # fmt: skip


def _pair(op: str, x: Any, target: Any) -> tuple[Tensor, Tensor]:
    x, target = tensor(x), tensor(target)
    if tuple(x.shape) != tuple(target.shape):
        raise ShapeError(
            f"[{op}] shapes {tuple(x.shape)} and {tuple(target.shape)} of prediction and target "
            "differ, and broadcasting them would average over pairs that do not belong together; "
            "reshape one of them"
        )
    return x, target


def mse_loss(x: Any, target: Any, reduction: str = "mean") -> Tensor:
    """``(x - target)^2``.

    Raises:
        ShapeError: if the shapes differ (in every loss of two equal shapes).

    >>> mse_loss(lm.asarray([1.0, 3.0]), lm.asarray([0.0, 3.0])).item()
    0.5
    """
    x, target = _pair("mse_loss", x, target)
    difference = x - target
    return reduce_loss("mse_loss", difference * difference, reduction)


def l1_loss(x: Any, target: Any, reduction: str = "mean") -> Tensor:
    """``|x - target|``.

    >>> l1_loss(lm.asarray([1.0, 3.0]), lm.asarray([0.0, 3.0])).item()
    0.5
    """
    x, target = _pair("l1_loss", x, target)
    return reduce_loss("l1_loss", abs(x - target), reduction)


def huber_loss(x: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """``0.5 d^2`` where ``d = |x - target| < delta``, ``delta (d - 0.5 delta)`` elsewhere (Huber,
    1964).

    >>> huber_loss(lm.asarray([3.0]), lm.asarray([0.0])).item()
    2.5
    """
    x, target = _pair("huber_loss", x, target)
    d = abs(x - target)
    return reduce_loss(
        "huber_loss", lm.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta)), reduction
    )


def smooth_l1_loss(x: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """:func:`huber_loss` divided by ``beta`` (the absolute difference for ``beta = 0``).

    >>> smooth_l1_loss(lm.asarray([3.0]), lm.asarray([0.0])).item()
    2.5
    """
    return (
        l1_loss(x, target, reduction)
        if beta == 0
        else huber_loss(x, target, reduction, beta) / beta
    )


def binary_cross_entropy_with_logits(
    x: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Tensor:
    """``-(pos_weight t log s(x) + (1 - t) log(1 - s(x)))`` with the sigmoid ``s``, through
    softplus.

    >>> binary_cross_entropy_with_logits(lm.asarray([1000.0]), lm.asarray([1.0])).item()
    0.0
    """
    x, target = _pair("binary_cross_entropy_with_logits", x, target)
    positive = target if pos_weight is None else target * pos_weight
    losses = positive * softplus(-x) + (1 - target) * softplus(x)
    losses = losses if weight is None else losses * weight
    return reduce_loss("binary_cross_entropy_with_logits", losses, reduction)


def binary_cross_entropy(
    x: Any, target: Any, weight: Any = None, reduction: str = "mean"
) -> Tensor:
    """``-(t log x + (1 - t) log(1 - x))`` of probabilities; logarithms are bounded by -100, as in
    PyTorch.

    >>> binary_cross_entropy(lm.asarray([1.0]), lm.asarray([1.0])).item()
    0.0
    """
    x, target = _pair("binary_cross_entropy", x, target)
    losses = -(
        target * lm.maximum(lm.log(x), -100.0) + (1 - target) * lm.maximum(lm.log1p(-x), -100.0)
    )
    losses = losses if weight is None else losses * weight
    return reduce_loss("binary_cross_entropy", losses, reduction)


def kl_div(x: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """``target (log target - x)`` for log-probabilities ``x``; ``"batchmean"`` is the mathematical
    mean.

    >>> kl_div(lm.asarray([[0.0]]), lm.asarray([[1.0]]), "batchmean").item()
    0.0
    """
    x, target = _pair("kl_div", x, target)
    if log_target:
        losses = lm.exp(target) * (target - x)
    else:
        positive = target > 0
        losses = lm.where(positive, target * (lm.log(lm.where(positive, target, 1)) - x), 0)
    if reduction == "batchmean":
        return losses.sum() / x.shape[0]
    return reduce_loss("kl_div", losses, reduction)


def cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """``-log softmax(x)`` at the target class.

    Args:
        x: logits ``(N, C, *d)`` or ``(C,)``.
        target: classes ``(N, *d)`` or ``()``, integers; or probabilities of the shape of ``x``.
        weight: one factor per class ``(C,)``; the mean is weighted by it.
        ignore_index: a target class that counts for nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        label_smoothing: the share of every target spread evenly over all classes (Szegedy et al.,
            2015).

    Raises:
        ShapeError: if the shapes do not belong together.
        DTypeError: if the classes are not integers.
        LamellaIndexError: when the loss is computed, if a class is outside ``0 … C - 1``.

    >>> round(cross_entropy(lm.zeros((2, 4)), lm.asarray([0, 3])).item(), 4)
    1.3863
    """
    x, target = tensor(x), tensor(target)
    check_float("cross_entropy", x)
    logs = log_softmax(x, 0 if x.ndim == 1 else 1)
    if target.dtype.is_floating and tuple(target.shape) == tuple(x.shape):
        return _soft_targets(logs, target, weight, reduction, label_smoothing)
    return _class_loss(
        "cross_entropy", logs, target, weight, ignore_index, reduction, label_smoothing
    )


def nll_loss(
    x: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """``-x`` at the target class, for log-probabilities; arguments as in :func:`cross_entropy`.

    >>> nll_loss(lm.asarray([[-1.0, -2.0]]), lm.asarray([1])).item()
    2.0
    """
    return _class_loss("nll_loss", tensor(x), tensor(target), weight, ignore_index, reduction, 0.0)


def _soft_targets(
    logs: Tensor, target: Tensor, weight: Any, reduction: str, smoothing: float
) -> Tensor:
    axis = 0 if logs.ndim == 1 else 1
    classes = logs.shape[axis]
    target = target * (1 - smoothing) + smoothing / classes if smoothing else target
    terms = logs * target
    if weight is not None:
        terms = terms * _along(tensor(weight), axis, logs.ndim)
    losses = -terms.sum(axis)
    choose("cross_entropy", "reduction", reduction, ("mean", "sum", "none"))
    if reduction == "mean":
        return losses.sum() / max(losses.size, 1)
    return reduce_loss("cross_entropy", losses, reduction)


def _along(values: Tensor, axis: int, rank: int) -> Tensor:
    return values.reshape((1,) * axis + (-1,) + (1,) * (rank - axis - 1))


def _check_classes(op: str, logs: Tensor, target: Tensor) -> int:
    axis = 0 if logs.ndim == 1 else 1
    if not logs.ndim or tuple(target.shape) != (*logs.shape[:axis], *logs.shape[axis + 1 :]):
        raise ShapeError(
            f"[{op}] scores of shape {tuple(logs.shape)} with targets of shape "
            f"{tuple(target.shape)}: scores are (N, C, ...) and targets (N, ...) classes, or "
            "probabilities of the scores' shape; move or add axes to match"
        )
    if not target.dtype.is_integer:
        raise DTypeError(
            f"[{op}] target classes are {target.dtype.name}; cast them with .astype(lm.int64)"
        )
    return axis


def _checked(target: Tensor, counted: Tensor, classes: Any) -> Tensor:
    """The classes; one outside ``0 … classes - 1`` raises where the loss is computed."""
    safe = lm.where(counted, target, 0).astype(lm.int64)
    outside = lm.where(safe < 0, classes, safe)  # a gather would count negative ones from the end
    return record(ops.gather, lm.arange(classes), outside)


def _class_loss(
    op: str,
    logs: Tensor,
    target: Tensor,
    weight: Any,
    ignore: int,
    reduction: str,
    smoothing: float,
) -> Tensor:
    axis = _check_classes(op, logs, target)
    choose(op, "reduction", reduction, ("mean", "sum", "none"))
    classes = logs.shape[axis]
    counted = target != ignore
    chosen = lm.expand_dims(_checked(target, counted, classes), axis) == _along(
        lm.arange(classes), axis, logs.ndim
    )
    factors = None if weight is None else _along(tensor(weight), axis, logs.ndim)
    losses = -lm.where(chosen, logs if factors is None else logs * factors, 0).sum(axis)
    if smoothing:
        spread = -(logs if factors is None else logs * factors).sum(axis)
        losses = (1 - smoothing) * losses + (smoothing / classes) * spread
    losses = lm.where(counted, losses, 0)
    if reduction != "mean":
        return reduce_loss(op, losses, reduction)
    if factors is None:
        return losses.sum() / counted.astype(losses.dtype).sum()
    return losses.sum() / lm.where(counted, lm.where(chosen, factors, 0).sum(axis), 0).sum()
