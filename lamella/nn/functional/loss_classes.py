"""Losses of scores against classes. ``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``.

They select with a mask instead of a gather, so that they fuse with the softmax and have no scatter
in their derivative; classes outside the range raise IndexError when the loss is computed.
"""

from __future__ import annotations

from typing import Any

import lamella as lm
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.nn.functional.activation import log_one_plus_exp
from lamella.nn.functional.embedding import checked_classes
from lamella.nn.functional.linear import linear
from lamella.nn.functional.loss_linear import blocked_cross_entropy, needs_blocks
from lamella.nn.functional.softmax import log_softmax
from lamella.nn.functional.support import check_float, choose, matching, reduce_loss, tensor
from lamella.tensor.tensor import Tensor

__all__ = [
    "cross_entropy", "linear_cross_entropy", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "nll_loss",
]  # fmt: skip


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """``-log softmax(x)`` at the target class.

    Args:
        input: logits ``(N, C, *d)`` or ``(C,)``.
        target: classes ``(N, *d)`` or ``()``, integers; or probabilities of the shape of the
            logits.
        weight: one factor per class ``(C,)``; the mean is weighted by it.
        ignore_index: a target class that counts for nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        label_smoothing: the share of every target spread evenly over all classes (Szegedy et al.,
            2015).

    Raises:
        ShapeError: if the shapes do not belong together.
        DTypeError: if the classes are not integers.
        OptionError: if ``label_smoothing`` is no share.
        LamellaIndexError: when the loss is computed, if a class is outside ``0 … C - 1``.

    >>> round(cross_entropy(lm.zeros((2, 4)), lm.asarray([0, 3])).item(), 4)
    1.3863
    """
    x, target = tensor(input), tensor(target)
    check_float("cross_entropy", x)
    _check_share(label_smoothing)
    logs = log_softmax(x, 0 if x.ndim == 1 else 1)
    if target.dtype.is_floating and tuple(target.shape) == tuple(x.shape):
        return _soft_targets(logs, target, weight, reduction, label_smoothing)
    return _class_loss(
        "cross_entropy", logs, target, weight, ignore_index, reduction, label_smoothing
    )


def nll_loss(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """``-x`` at the target class, for log-probabilities; arguments as in :func:`cross_entropy`.

    >>> nll_loss(lm.asarray([[-1.0, -2.0]]), lm.asarray([1])).item()
    2.0
    """
    return _class_loss(
        "nll_loss", tensor(input), tensor(target), weight, ignore_index, reduction, 0.0
    )


def linear_cross_entropy(
    input: Any, linear_weight: Tensor, target: Any, *, linear_bias: Tensor | None = None,
    weight: Any = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """:func:`cross_entropy` of ``linear(input, linear_weight, linear_bias)``.

    Where there are many logits, they are made, used and forgotten block by block, forward and
    backward in one loop, so that memory holds no more than one block of them (Hsu et al., Liger
    Kernel, 2024). With class weights, probabilities as targets or axes ``*d`` they are all made.

    Args:
        input: ``(N, in)`` or ``(in,)``.
        linear_weight: ``(C, *d, in)``.
        target: as in :func:`cross_entropy`, for logits ``(N, C, *d)``.
        linear_bias: ``(C, *d)``.
        weight: as in :func:`cross_entropy`, like the other options.
        reduction: see there.
        ignore_index: see there (None: -100).
        label_smoothing: see there.

    >>> loss = linear_cross_entropy(lm.zeros((2, 3)), lm.ones((4, 3)), lm.asarray([0, 3]))
    >>> round(loss.item(), 4)
    1.3863
    """
    x, kernel = tensor(input), tensor(linear_weight)
    _check_share(label_smoothing)
    flat = kernel.reshape((-1, kernel.shape[-1]))
    bias = None if linear_bias is None else tensor(linear_bias).reshape(-1)
    target = tensor(target)
    ignored = -100 if ignore_index is None else ignore_index
    if _in_blocks(x, kernel, target) and weight is None:
        op = "linear_cross_entropy"
        choose(op, "reduction", reduction, ("mean", "sum", "none"))
        return blocked_cross_entropy(x, flat, bias, target, ignored, reduction, label_smoothing)
    logits = linear(x, flat, bias).reshape((*x.shape[:-1], *kernel.shape[:-1]))
    return cross_entropy(logits, target, weight, ignored, reduction, label_smoothing)


def _check_share(smoothing: float) -> None:
    if not 0 <= smoothing <= 1:
        raise OptionError(
            f"[cross_entropy] label_smoothing={smoothing} is no share; give one from 0 to 1"
        )


def _in_blocks(x: Tensor, kernel: Tensor, target: Tensor) -> bool:
    """Whether the logits are many, of rows and classes alone."""
    plain = x.ndim == 2 and kernel.ndim == 2 and tuple(target.shape) == (x.shape[0],)
    fits = plain and x.dtype is kernel.dtype and target.dtype.is_integer and x.dtype.is_floating
    return fits and needs_blocks(x.shape[0], kernel.shape[0])


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


def _class_weights(op: str, weight: Any, axis: int, logs: Tensor) -> Tensor | None:
    if weight is None:
        return None
    weight = tensor(weight)
    if tuple(weight.shape) != (logs.shape[axis],):
        raise ShapeError(
            f"[{op}] a weight of shape {tuple(weight.shape)} for {logs.shape[axis]} classes; give "
            "one factor for each class"
        )
    return _along(weight, axis, logs.ndim)


def _chosen(target: Tensor, counted: Tensor, axis: int, logs: Tensor) -> Tensor:
    """A mask of the shape of ``logs``: where its class is the target's (0 for what does not
    count).
    """
    classes = checked_classes(lm.where(counted, target, 0), logs.shape[axis])
    return lm.expand_dims(classes, axis) == _along(lm.arange(logs.shape[axis]), axis, logs.ndim)


def _class_loss(
    op: str, logs: Tensor, target: Tensor, weight: Any, ignore: int, reduction: str,
    smoothing: float,
) -> Tensor:  # fmt: skip
    axis = _check_classes(op, logs, target)
    choose(op, "reduction", reduction, ("mean", "sum", "none"))
    counted = target != ignore
    chosen = _chosen(target, counted, axis, logs)
    factors = _class_weights(op, weight, axis, logs)
    losses = -lm.where(chosen, logs if factors is None else logs * factors, 0).sum(axis)
    if smoothing:
        spread = -(logs if factors is None else logs * factors).sum(axis)
        losses = (1 - smoothing) * losses + (smoothing / logs.shape[axis]) * spread
    losses = lm.where(counted, losses, 0)
    if reduction != "mean":
        return reduce_loss(op, losses, reduction)
    if factors is None:
        return losses.sum() / counted.astype(losses.dtype).sum()
    return losses.sum() / lm.where(counted, lm.where(chosen, factors, 0).sum(axis), 0).sum()


def _hinge(x: Tensor) -> Tensor:
    """``max(x, 0)`` with derivative 0 at 0."""
    return lm.where(x <= 0, 0, x)


def multi_margin_loss(
    input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``sum_{j != t} max(0, margin - x_t + x_j)^p / C`` (Crammer and Singer, 2001).

    Args:
        input: scores ``(N, C)`` or ``(C,)``.
        target: classes ``(N,)`` or ``()``.
        p: 1 or 2.
        margin: how far the target's score is to be above others.
        weight: a factor per class, taken at the target.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ShapeError: if the shapes do not belong together.
        OptionError: for another ``p``.
        LamellaIndexError: when the loss is computed, if a class is outside ``0 … C - 1``.

    >>> multi_margin_loss(lm.asarray([[0.0, 3.0]]), lm.asarray([0])).item()
    2.0
    """
    x, target = tensor(input), tensor(target)
    if x.ndim > 2:
        raise ShapeError(f"[multi_margin_loss] scores of shape {tuple(x.shape)} are not (N, C)")
    if p not in (1, 2):
        raise OptionError(f"[multi_margin_loss] p={p}; give 1 or 2")
    axis = _check_classes("multi_margin_loss", x, target)
    chosen = _chosen(target, lm.ones_like(target, dtype=lm.bool_), axis, x)
    at_target = lm.where(chosen, x, 0).sum(axis, keepdims=True)
    violation = _hinge(margin - at_target + x)
    violation = violation if p == 1 else violation * violation
    factors = _class_weights("multi_margin_loss", weight, axis, x)
    if factors is not None:
        violation = violation * lm.where(chosen, factors, 0).sum(axis, keepdims=True)
    losses = lm.where(chosen, 0, violation).sum(axis) / x.shape[axis]
    return reduce_loss("multi_margin_loss", losses, reduction)


def multilabel_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """``sum max(0, 1 - x_t + x_j) / C`` over the target classes ``t`` and all others ``j``.

    Args:
        input: scores ``(N, C)`` or ``(C,)``.
        target: of the same shape, in each row classes up to the first -1.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ShapeError: if the shapes differ.
        DTypeError: if the classes are not integers.
        LamellaIndexError: when the loss is computed, if a class is outside ``0 … C - 1``.

    >>> x = lm.asarray([[0.25, 0.5, 0.75]])
    >>> multilabel_margin_loss(x, lm.asarray([[2, -1, 0]])).item()
    0.4166666567325592
    """
    x, target = matching("multilabel_margin_loss", input, target)
    if x.ndim not in (1, 2):
        raise ShapeError(
            f"[multilabel_margin_loss] scores of shape {tuple(x.shape)} are not (N, C) or (C,)"
        )
    if not target.dtype.is_integer:
        raise DTypeError(
            f"[multilabel_margin_loss] target classes are {target.dtype.name}; cast them with "
            ".astype(lm.int64)"
        )
    classes = x.shape[-1]
    valid = lm.cumsum((target < 0).astype(lm.int64), axis=-1) == 0
    labels = checked_classes(lm.where(valid, target, 0), classes)
    positive = (valid[..., None] & (labels[..., None] == lm.arange(classes))).any(-2)
    at_labels = lm.take_along_axis(x, labels, -1)
    violation = _hinge(1 - at_labels[..., :, None] + x[..., None, :])
    counted = valid[..., :, None] & ~positive[..., None, :]
    losses = lm.where(counted, violation, 0).sum((-2, -1)) / classes
    return reduce_loss("multilabel_margin_loss", losses, reduction)


def multilabel_soft_margin_loss(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean"
) -> Tensor:
    """The binary cross-entropy of logits ``(N, C)``, averaged over the classes.

    >>> loss = multilabel_soft_margin_loss(lm.asarray([[0.0, 0.0]]), lm.asarray([[1.0, 0.0]]))
    >>> round(loss.item(), 4)
    0.6931
    """
    x, target = matching("multilabel_soft_margin_loss", input, target)
    losses = (1 - target) * x + log_one_plus_exp(-x)
    losses = losses if weight is None else losses * weight
    return reduce_loss("multilabel_soft_margin_loss", losses.sum(-1) / losses.shape[-1], reduction)
