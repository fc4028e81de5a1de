"""Connectionist temporal classification (Graves et al., 2006): the loss of sequences without an
alignment.

The forward variables of all targets are advanced together, one step per frame (a scan), in
logarithms;
what cannot happen has a large negative number instead of -inf, so that derivatives stay defined.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import lamella as lm
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.nn.functional.embedding import checked_classes
from lamella.nn.functional.support import check_float, choose, tensor
from lamella.tensor.tensor import Tensor

__all__ = ["ctc_loss"]

_NEVER = -1e30  # the logarithm of what cannot happen


def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """``-log`` of the probability that frames of classes spell the target, over all alignments.

    Args:
        log_probs: logarithms of probabilities ``(T, N, C)``, or ``(T, C)`` for one sequence.
        targets: classes ``(N, S)``, or all targets one after another in one axis.
        input_lengths: how many frames count, ``(N,)`` at most ``T``.
        target_lengths: how many classes count, ``(N,)``; numbers whose values are known when
            the targets are in one axis.
        blank: the class that spells nothing.
        reduction: ``"mean"`` (of each loss divided by its target's length), ``"sum"`` or
            ``"none"``.
        zero_infinity: whether a loss that is infinite, because the frames are too few, counts 0.

    Raises:
        ShapeError: if the shapes or lengths do not belong together.
        DTypeError: if targets or lengths are not integers.
        OptionError: if ``blank`` is no class.
        LamellaIndexError: when the loss is computed, if a class is outside ``0 … C - 1``.

    >>> logs = lm.log(lm.full((2, 1, 2), 0.5))  # of the four paths "-1", "1-", "11" spell 1
    >>> loss = ctc_loss(logs, lm.asarray([[1]]), lm.asarray([2]), lm.asarray([1]))
    >>> round(loss.item(), 4)  # -log(3/4)
    0.2877
    """
    x = tensor(log_probs)
    check_float("ctc_loss", x)
    choose("ctc_loss", "reduction", reduction, ("mean", "sum", "none"))
    if x.ndim == 2:
        single = tensor(targets).reshape((1, -1))
        steps, counts = (tensor(each).reshape(1) for each in (input_lengths, target_lengths))
        losses = ctc_loss(x[:, None], single, steps, counts, blank, reduction, zero_infinity)
        return losses[0] if reduction == "none" else losses
    frames, lengths = _lengths(x, input_lengths), _lengths(x, target_lengths)
    labels = _labels(x, tensor(targets), lengths)
    if not 0 <= blank < x.shape[-1]:
        raise OptionError(f"[ctc_loss] blank={blank} is none of the {x.shape[-1]} classes")
    _check_lengths(x, labels, frames, lengths)
    wide = x.astype(lm.float32) if x.dtype.bits < 32 else x
    losses = _losses(wide, labels, frames, lengths, blank)
    never = losses > -0.5 * _NEVER
    losses = lm.where(never, 0 if zero_infinity else float("inf"), losses).astype(x.dtype)
    if reduction == "mean":
        return (losses / lm.maximum(lengths, 1).astype(x.dtype)).mean()
    return losses.sum() if reduction == "sum" else losses


def _lengths(x: Tensor, lengths: Any) -> Tensor:
    counts = tensor(lengths)
    if not counts.dtype.is_integer:
        raise DTypeError(
            f"[ctc_loss] lengths are {counts.dtype.name}, but count; cast them with "
            ".astype(lm.int64)"
        )
    if x.ndim != 3 or tuple(counts.shape) != (x.shape[1],):
        raise ShapeError(
            f"[ctc_loss] log_probs of shape {tuple(x.shape)} with lengths of shape "
            f"{tuple(counts.shape)}: they are (T, N, C) and (N,); move axes or give a length for "
            "each sequence"
        )
    return counts.astype(lm.int64)


def _labels(x: Tensor, targets: Tensor, lengths: Tensor) -> Tensor:
    """The targets as ``(N, S)``."""
    if not targets.dtype.is_integer:
        raise DTypeError(
            f"[ctc_loss] targets are {targets.dtype.name}; cast them with .astype(lm.int64)"
        )
    if targets.ndim == 2 and targets.shape[0] == x.shape[1]:
        return targets.astype(lm.int64)
    if targets.ndim != 1:
        raise ShapeError(
            f"[ctc_loss] targets of shape {tuple(targets.shape)} for {x.shape[1]} sequences: they "
            "are (N, S), or joined in one axis"
        )
    counts = lengths.numpy()
    if (counts < 0).any() or counts.sum() != targets.shape[0]:
        raise ShapeError(
            f"[ctc_loss] {targets.shape[0]} target classes in one axis, but target_lengths add up "
            f"to {counts.sum()}; make them agree"
        )
    ends = np.cumsum(counts)[:, None]
    at = np.minimum(ends - counts[:, None] + np.arange(max(counts.max(initial=0), 0)), ends - 1)
    return lm.take(targets.astype(lm.int64), np.maximum(at, 0), axis=0)


def _check_lengths(x: Tensor, labels: Tensor, frames: Tensor, lengths: Tensor) -> None:
    """Lengths whose values are at hand are checked now; others are bounded where they are used."""
    if x.shape[0] == 0:
        raise ShapeError(f"[ctc_loss] log_probs of shape {tuple(x.shape)} have no frames")
    for name, given, most in (
        ("input_lengths", frames, x.shape[0]),
        ("target_lengths", lengths, labels.shape[1]),
    ):
        value = given.node.value
        known = None if value is None else given.numpy()
        if known is not None and known.size and (known.min() < 0 or known.max() > most):
            raise ShapeError(
                f"[ctc_loss] {name} from {known.min()} to {known.max()}, but there are {most}; "
                "give numbers from 0 to that"
            )


def _join(*parts: Tensor) -> Tensor:
    """The logarithm of the sum of exponentials of tensors."""
    top = parts[0].detach()
    for part in parts[1:]:
        top = lm.maximum(top, part.detach())
    total = lm.exp(parts[0] - top)
    for part in parts[1:]:
        total = total + lm.exp(part - top)
    return top + lm.log(total)


def _losses(x: Tensor, labels: Tensor, frames: Tensor, lengths: Tensor, blank: int) -> Tensor:
    """One loss per sequence; about ``-_NEVER`` where the target cannot be spelled."""
    count, size = labels.shape
    places = lm.arange(2 * size + 1)
    used = lm.arange(size) < lengths[:, None]
    labels = checked_classes(lm.where(used, labels, blank), x.shape[-1])
    spread = lm.full((count, size + 1), blank, dtype=lm.int64)
    path = lm.stack([spread[:, :size], labels], axis=2).reshape((count, 2 * size))
    path = lm.concat([path, spread[:, :1]], axis=1)  # blanks around every class
    seen = lm.take_along_axis(x, lm.broadcast_to(path, (x.shape[0], *path.shape)), -1)
    seen = lm.maximum(seen, _NEVER)
    before = lm.pad(path, [(0, 0), (2, 0)], constant_values=-1)[:, : 2 * size + 1]
    skips = lm.where((path != blank) & (path != before), 0.0, _NEVER).astype(x.dtype)
    alpha = lm.where(places < 2, seen[0], _NEVER)

    def frame(alpha: Tensor, entry: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        t, probability = entry
        one, two = (
            lm.pad(alpha, [(0, 0), (n, 0)], constant_values=_NEVER)[:, : 2 * size + 1]
            for n in (1, 2)
        )
        step = lm.maximum(_join(alpha, one, two + skips) + probability, _NEVER)
        return lm.where((t < frames)[:, None], step, alpha), None

    if x.shape[0] > 1:
        alpha, _ = lm.scan(frame, alpha, (lm.arange(1, x.shape[0]), seen[1:]))
    last = 2 * lengths[:, None]
    ends = (places == last) | (places == last - 1)
    alpha = lm.where(ends, alpha, _NEVER)
    top = alpha.detach().max(1, keepdims=True)
    found = top[:, 0] + lm.log(lm.exp(alpha - top).sum(1))
    found = lm.where(frames > 0, found, lm.where(lengths == 0, 0.0, _NEVER))
    return -found
