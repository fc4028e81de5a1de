"""The cross-entropy of a linear layer, by blocks of rows: the logits are never whole in memory.

Input: rows, the weight and bias of the layer, classes. Output: the loss. A loop over blocks makes
a block of logits, its losses, and, where derivatives are recorded, its part of every gradient at
once, so that nothing is computed twice (Hsu et al., Liger Kernel, 2024).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import lamella as lm
from lamella.ir.decisions import at_least
from lamella.nn.functional.embedding import checked_classes
from lamella.nn.functional.linear import linear
from lamella.tensor.tensor import Tensor
from lamella.transforms import custom_vjp, scan

__all__ = ["blocked_cross_entropy", "needs_blocks"]

ROOM = 1 << 24  # logits of a block
LEAST = 64  # rows of a block

Operands = tuple[Tensor, ...]  # rows, weight, and perhaps bias


def needs_blocks(rows: Any, classes: Any) -> bool:
    """Whether the logits are more than one block.

    >>> needs_blocks(2048, 50257), needs_blocks(128, 10)
    (True, False)
    """
    return isinstance(classes, int) and at_least(rows, _block_rows(classes) + 1, False)


def _block_rows(classes: int) -> int:
    return max(LEAST, ROOM // max(classes, 1))


def _block(
    given: Operands, target: Tensor, scale: Tensor, smoothing: float, wanted: bool
) -> tuple[Tensor, Operands]:
    """The losses of some rows and, if ``wanted``, the gradients of their sum weighted by
    ``scale``.
    """
    x, weight = given[:2]
    logits = linear(*given)
    wide = logits.astype(lm.float32) if logits.dtype.itemsize == 2 else logits
    classes = weight.shape[0]
    chosen = target[:, None] == lm.arange(classes)
    top = wide.max(-1, keepdims=True)
    powers = lm.exp(wide - top)
    mass = powers.sum(-1, keepdims=True)
    losses = (lm.log(mass) + top)[:, 0] - (1 - smoothing) * lm.where(chosen, wide, 0).sum(-1)
    if smoothing:
        losses = losses - smoothing * wide.mean(-1)
    if not wanted:
        return losses, ()
    spread = smoothing / classes
    change = powers / mass - spread - lm.where(chosen, lm.full_like(wide, 1 - smoothing), 0)
    change = (change * scale[:, None]).astype(x.dtype)
    d_bias = (change.sum(0),) if len(given) == 3 else ()
    return losses, (lm.matmul(change, weight), lm.matmul(change.mT, x), *d_bias)


def _all(
    given: Operands, target: Tensor, scale: Tensor, smoothing: float, wanted: bool
) -> tuple[Tensor, Operands]:
    """The same of all rows: blocks of one size in a loop, then those that are left."""
    x, *shared = given
    rows = int(x.shape[0])
    count = -(-rows // _block_rows(int(shared[0].shape[0])))
    size = rows // count
    whole = size * count

    def step(carry: Operands, row: Any) -> Any:
        part, classes, factors = row
        nothing, *sums = carry
        given = (part + nothing, *shared)
        losses, found = _block(given, classes, factors, smoothing, wanted)
        total = (a + b for a, b in zip(sums, found[1:], strict=True))
        return (nothing, *total), (losses, found[:1])

    # rows depend on the carry by a zero, or the loop's products would be made for all blocks at
    # once, before it
    start = (lm.zeros((), dtype=x.dtype), *(lm.zeros_like(each) for each in shared if wanted))
    blocks = tuple(t[:whole].reshape((count, size, *t.shape[1:])) for t in (x, target, scale))
    (_, *carry), (losses, d_x) = scan(step, start, blocks)
    losses = losses.reshape(-1)
    gradients = (*(each.reshape((whole, x.shape[1])) for each in d_x), *carry)
    if whole == rows:
        return losses, gradients
    left = (x[whole:], *shared)
    last, more = _block(left, target[whole:], scale[whole:], smoothing, wanted)
    losses = lm.concat([losses, last])
    if not wanted:
        return losses, ()
    sums = (a + b for a, b in zip(gradients[1:], more[1:], strict=True))
    return losses, (lm.concat([gradients[0], more[0]]), *sums)


@partial(custom_vjp, nondiff_argnums=(0,))
def _sum(smoothing: float, target: Tensor, scale: Tensor, given: Operands) -> Tensor:
    """The sum of the losses times ``scale``."""
    return (_all(given, target, scale, smoothing, False)[0] * scale).sum()


def _sum_forward(
    smoothing: float, target: Tensor, scale: Tensor, given: Operands
) -> tuple[Tensor, Operands]:
    losses, gradients = _all(given, target, scale, smoothing, True)
    return (losses * scale).sum(), gradients


def _sum_backward(_: float, gradients: Operands, g: Tensor) -> tuple[None, None, Operands]:
    return None, None, tuple((each * g).astype(each.dtype) for each in gradients)


_sum.defvjp(_sum_forward, _sum_backward)


@partial(custom_vjp, nondiff_argnums=(0,))
def _rows(smoothing: float, target: Tensor, given: Operands) -> Tensor:
    """The loss of each row."""
    return _all(given, target, lm.ones(target.shape), smoothing, False)[0]


def _rows_forward(smoothing: float, target: Tensor, given: Operands) -> tuple[Tensor, Any]:
    return _rows(smoothing, target, given), (target, given)


def _rows_backward(smoothing: float, kept: Any, g: Tensor) -> tuple[None, Operands]:
    target, given = kept
    return None, _all(given, target, g, smoothing, True)[1]


_rows.defvjp(_rows_forward, _rows_backward)


def blocked_cross_entropy(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    ignore: int,
    reduction: str,
    smoothing: float,
) -> Tensor:
    """``cross_entropy(linear(x, weight, bias), target)`` of ``x (N, E)``, by blocks of rows.

    A second derivative of a mean or sum goes through the loop that made the first.

    >>> x, weight = lm.zeros((3, 2)), lm.zeros((4, 2))
    >>> loss = blocked_cross_entropy(x, weight, None, lm.asarray([0, 3, 9]), 9, "mean", 0.0)
    >>> round(loss.item(), 4)
    1.3863
    """
    counted = target != ignore
    classes = checked_classes(lm.where(counted, target, 0), weight.shape[0])
    given = (x, weight) if bias is None else (x, weight, bias)
    if reduction == "none":
        return lm.where(counted, _rows(smoothing, classes, given), 0)
    scale = counted.astype(lm.float64 if x.dtype is lm.float64 else lm.float32)
    if reduction == "mean":
        scale = scale / scale.sum()
    return _sum(smoothing, classes, scale, given)
