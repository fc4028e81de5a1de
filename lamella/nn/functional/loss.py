"""Losses of predictions against targets of the same shape.

``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``. Losses of classes are in ``loss_classes``, of
pairs and triplets in ``loss_pairs``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.activation import log_one_plus_exp
from lamella.nn.functional.support import choose, matching, reduce_loss, tensor
from lamella.tensor.tensor import Tensor

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "gaussian_nll_loss", "huber_loss",
    "kl_div", "l1_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss",
    "soft_margin_loss",
]  # fmt: skip


def _weighted(op: str, losses: Tensor, weight: Any, reduction: str) -> Tensor:
    """The losses times a weight of their shape; the mean is divided by the sum of weights."""
    if weight is None:
        return reduce_loss(op, losses, reduction)
    weights = tensor(weight)
    if tuple(weights.shape) != tuple(losses.shape):
        raise ShapeError(
            f"[{op}] a weight of shape {tuple(weights.shape)} for losses of shape "
            f"{tuple(losses.shape)}; give one weight for each"
        )
    choose(op, "reduction", reduction, ("mean", "sum", "none"))
    if reduction == "mean":
        return (losses * weights).sum() / weights.sum()
    return reduce_loss(op, losses * weights, reduction)


def mse_loss(input: Any, target: Any, reduction: str = "mean", weight: Any = None) -> Tensor:
    """``weight * (x - target)^2``; the mean is weighted.

    Raises:
        ShapeError: if the shapes differ (in every loss of two equal shapes).

    >>> mse_loss(lm.asarray([1.0, 3.0]), lm.asarray([0.0, 3.0])).item()
    0.5
    """
    x, target = matching("mse_loss", input, target)
    difference = x - target
    return _weighted("mse_loss", difference * difference, weight, reduction)


def l1_loss(input: Any, target: Any, reduction: str = "mean", weight: Any = None) -> Tensor:
    """``weight * |x - target|``; the mean is weighted.

    >>> l1_loss(lm.asarray([1.0, 3.0]), lm.asarray([0.0, 3.0])).item()
    0.5
    """
    x, target = matching("l1_loss", input, target)
    return _weighted("l1_loss", abs(x - target), weight, reduction)


def huber_loss(
    input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Tensor:
    """``0.5 d^2`` where ``d = |x - target| < delta``, ``delta (d - 0.5 delta)`` elsewhere (Huber,
    1964).

    A ``weight`` of the input's shape multiplies the losses; the mean is the plain one of that.

    Raises:
        OptionError: if ``delta`` is not positive.

    >>> huber_loss(lm.asarray([3.0]), lm.asarray([0.0])).item()
    2.5
    """
    if delta <= 0:
        raise OptionError(f"[huber_loss] delta={delta} is not positive; give a positive one")
    x, target = matching("huber_loss", input, target)
    d = abs(x - target)
    losses = lm.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta))
    if weight is not None:
        losses = losses * matching("huber_loss", x, weight)[1]
    return reduce_loss("huber_loss", losses, reduction)


def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """:func:`huber_loss` divided by ``beta`` (the absolute difference for ``beta = 0``).

    Raises:
        OptionError: if ``beta`` is negative.

    >>> smooth_l1_loss(lm.asarray([3.0]), lm.asarray([0.0])).item()
    2.5
    """
    if beta < 0:
        raise OptionError(f"[smooth_l1_loss] beta={beta} is negative; give 0 or more")
    x, target = matching("smooth_l1_loss", input, target)
    return (
        l1_loss(x, target, reduction)
        if beta == 0
        else huber_loss(x, target, reduction, beta) / beta
    )


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Tensor:
    """``-(pos_weight t log s(x) + (1 - t) log(1 - s(x)))`` with the sigmoid ``s``.

    ``weight`` and ``pos_weight`` broadcast to the input.

    >>> binary_cross_entropy_with_logits(lm.asarray([1000.0]), lm.asarray([1.0])).item()
    0.0
    """
    x, target = matching("binary_cross_entropy_with_logits", input, target)
    large = x > 0
    tail = lm.log1p(lm.exp(lm.where(large, -x, x)))  # of both softplus(x) and softplus(-x)
    missed, false = target * lm.where(large, 0, -x), (1 - target) * lm.where(large, x, 0)
    if pos_weight is None:
        losses = missed + false + tail
    else:
        factor = tensor(pos_weight)
        losses = factor * missed + false + (1 + (factor - 1) * target) * tail
    losses = losses if weight is None else losses * weight
    return reduce_loss("binary_cross_entropy_with_logits", losses, reduction)


def _bounded(log: Callable[[Tensor], Tensor], x: Tensor, pole: float) -> Tensor:
    """``log(x)``, at least -100; within 1e-12 of its pole the derivative is 1e12 and not infinite,
    so that the gradient through a saturated sigmoid is 0 and not NaN.
    """
    near = max(1e-12, lm.finfo(x.dtype).smallest_normal)
    small, still = x - pole < near, x.detach()
    steep = lm.maximum(log(still), -100.0) + (x - still) / near
    return lm.where(small, steep, log(lm.where(small, pole + 1, x)))


def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean"
) -> Tensor:
    """``-(t log x + (1 - t) log(1 - x))`` of probabilities; logarithms are bounded by -100, as in
    PyTorch, and their derivatives by 1e12. Outside ``[0, 1]`` the result is NaN.

    >>> binary_cross_entropy(lm.asarray([1.0]), lm.asarray([1.0])).item()
    0.0
    """
    x, target = matching("binary_cross_entropy", input, target)
    losses = -(target * _bounded(lm.log, x, 0) + (1 - target) * _bounded(lm.log1p, -x, -1))
    losses = losses if weight is None else losses * weight
    return reduce_loss("binary_cross_entropy", losses, reduction)


def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """``target (log target - x)`` for log-probabilities ``x``; ``"batchmean"`` is the mathematical
    mean. With ``log_target`` the target is a logarithm too.

    >>> kl_div(lm.asarray([[0.0]]), lm.asarray([[1.0]]), "batchmean").item()
    0.0
    """
    x, target = matching("kl_div", input, target)
    choose("kl_div", "reduction", reduction, ("mean", "sum", "none", "batchmean"))
    if log_target:
        losses = lm.exp(target) * (target - x)
    else:
        counts = target != 0
        losses = lm.where(counts, target * (lm.log(lm.where(counts, target, 1)) - x), 0)
    if reduction == "batchmean":
        return lm.sum(losses) / (x.shape[0] if x.ndim else 1)
    return reduce_loss("kl_div", losses, reduction)


def poisson_nll_loss(
    input: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``exp(x) - t x``, the negative log-likelihood of counts ``t`` with the Poisson rate
    ``exp(x)``.

    Args:
        input: the logarithm of the rate, or the rate without ``log_input``.
        target: the counts.
        log_input: whether the input is a logarithm; otherwise ``x - t log(x + eps)``.
        full: whether to add Stirling's approximation of ``log t!`` where ``t > 1``.
        eps: keeps the logarithm finite.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    >>> poisson_nll_loss(lm.asarray([0.0]), lm.asarray([3.0])).item()
    1.0
    """
    x, target = matching("poisson_nll_loss", input, target)
    losses = lm.exp(x) - target * x if log_input else x - target * lm.log(x + eps)
    if full:
        many = target > 1
        t = lm.where(many, target, 1)
        stirling = t * lm.log(t) - t + 0.5 * lm.log(2 * math.pi * t)
        losses = losses + lm.where(many, stirling, 0)
    return reduce_loss("poisson_nll_loss", losses, reduction)


def _variances(var: Any, x: Tensor) -> Tensor:
    """``var`` as a tensor that broadcasts to ``x``: of its shape, or with one axis 1 or missing."""
    if isinstance(var, float | int):
        if var < 0:
            raise OptionError(f"[gaussian_nll_loss] var={var} is negative; give 0 or more")
        return lm.full_like(x, var)
    variances = tensor(var)
    shape, wanted = tuple(variances.shape), tuple(x.shape)
    if shape != wanted and shape == wanted[:-1]:
        return variances[..., None]
    different = [v for v, w in zip(shape, wanted, strict=False) if v != w]
    if len(shape) != len(wanted) or different not in ([], [1]):
        raise ShapeError(
            f"[gaussian_nll_loss] var of shape {shape} for an input of shape {wanted}: it is of "
            "that shape, without its last axis, or with one axis of size 1; reshape it"
        )
    return variances


def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``0.5 (log v + (x - t)^2 / v)``, the negative log-likelihood with variance ``v = max(var,
    eps)`` (Nix and Weigend, 1994).

    Args:
        input: the mean.
        target: what is observed.
        var: the variance, a number or a tensor; a negative element gives NaN.
        full: whether to add the constant ``0.5 log 2 pi``.
        eps: the least variance; the bound does not count in the derivative.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ShapeError: if ``var`` does not fit.
        OptionError: for a negative number, or ``eps`` not positive.

    >>> gaussian_nll_loss(lm.asarray([1.0]), lm.asarray([3.0]), lm.asarray([1.0])).item()
    2.0
    """
    if eps <= 0:
        raise OptionError(f"[gaussian_nll_loss] eps={eps} is not positive; give a positive one")
    x, target = matching("gaussian_nll_loss", input, target)
    v = _variances(var, x)
    held = v.detach()
    raised = lm.where(held < 0, float("nan"), lm.maximum(held, eps)) - held
    v = v + raised
    difference = x - target
    losses = 0.5 * (lm.log(v) + difference * difference / v)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduce_loss("gaussian_nll_loss", losses, reduction)


def soft_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """``log(1 + exp(-t x))`` for targets 1 and -1.

    >>> soft_margin_loss(lm.asarray([1000.0]), lm.asarray([1.0])).item()
    0.0
    """
    x, target = matching("soft_margin_loss", input, target)
    return reduce_loss("soft_margin_loss", log_one_plus_exp(-target * x), reduction)
