"""Losses of pairs and triplets: which is larger, closer, or more alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.distance import pairwise_distance
from lamella.nn.functional.support import reduce_loss, tensor
from lamella.tensor.tensor import Tensor

__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]  # fmt: skip


def _hinge(x: Tensor) -> Tensor:
    """``max(x, 0)`` with derivative 1 at 0."""
    return lm.where(x < 0, 0, x)


def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """``max(0, -t (x1 - x2) + margin)``: for ``t = 1`` the first is to be larger, for -1 the
    second.

    Raises:
        ShapeError: if the numbers of axes differ.

    >>> margin_ranking_loss(lm.asarray([1.0]), lm.asarray([3.0]), lm.asarray([1.0])).item()
    2.0
    """
    x1, x2, t = tensor(input1), tensor(input2), tensor(target)
    if not x1.ndim == x2.ndim == t.ndim:
        raise ShapeError(
            f"[margin_ranking_loss] shapes {tuple(x1.shape)}, {tuple(x2.shape)} and "
            f"{tuple(t.shape)} have different numbers of axes; reshape them"
        )
    return reduce_loss("margin_ranking_loss", _hinge(-t * (x1 - x2) + margin), reduction)


def hinge_embedding_loss(
    input: Any, target: Any, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """The distance ``x`` where ``t = 1``, ``max(0, margin - x)`` where ``t = -1``.

    >>> hinge_embedding_loss(lm.asarray([0.5, 0.25]), lm.asarray([1, -1])).item()
    0.625
    """
    x, t = tensor(input), tensor(target)
    losses = lm.where(t == 1, 0, _hinge(margin - x)) + lm.where(t == -1, 0, x)
    return reduce_loss("hinge_embedding_loss", losses, reduction)


def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """``1 - cos(x1, x2)`` where ``t = 1``, ``max(0, cos(x1, x2) - margin)`` where ``t = -1``.

    Args:
        input1: ``(N, D)`` or ``(D,)``.
        input2: of the same shape.
        target: ``(N,)`` or ``()``.
        margin: the cosine that unlike pairs may have.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ShapeError: if the shapes do not belong together.

    >>> x, t = lm.asarray([[1.0, 0.0]]), lm.asarray([1])
    >>> cosine_embedding_loss(x, lm.asarray([[0.0, 1.0]]), t).item()
    1.0
    """
    x1, x2, t = tensor(input1), tensor(input2), tensor(target)
    if x1.ndim not in (1, 2) or x1.ndim != x2.ndim or t.ndim != x1.ndim - 1:
        raise ShapeError(
            f"[cosine_embedding_loss] inputs of shapes {tuple(x1.shape)} and {tuple(x2.shape)} "
            f"with a target of shape {tuple(t.shape)}: they are (N, D), (N, D) and (N,), or all "
            "without N; reshape them"
        )
    squares = [(x * x).sum(-1) + 1e-12 for x in (x1, x2)]
    cosine = (x1 * x2).sum(-1) / lm.sqrt(squares[0] * squares[1])
    losses = lm.where(t == 1, 1 - cosine, lm.where(t == -1, _hinge(cosine - margin), 0))
    return reduce_loss("cosine_embedding_loss", losses, reduction)


def triplet_margin_loss(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``max(0, d(a, p) - d(a, n) + margin)`` with :func:`pairwise_distance` (Balntas et al., 2016).

    Args:
        anchor: ``(N, D)`` or ``(D,)``.
        positive: what is to be near the anchor.
        negative: what is to be far from it.
        margin: how much farther.
        p: which norm.
        eps: added to differences.
        swap: whether the negative's distance from the positive counts if it is smaller.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Raises:
        ShapeError: if the numbers of axes differ.
        OptionError: if ``margin`` is not positive.

    >>> a, n = lm.asarray([[0.0, 0.0]]), lm.asarray([[3.0, 4.0]])
    >>> triplet_margin_loss(a, a, n, margin=6.0, eps=0.0).item()
    1.0
    """

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(x, y, p, eps)

    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=distance, margin=margin, swap=swap,
        reduction=reduction,
    )  # fmt: skip


def triplet_margin_with_distance_loss(
    anchor: Any, positive: Any, negative: Any, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """:func:`triplet_margin_loss` with any distance (default: :func:`pairwise_distance`).

    >>> a, n = lm.asarray([[0.0]]), lm.asarray([[3.0]])
    >>> def distance(x, y):
    ...     return abs(x - y).sum(-1)
    >>> triplet_margin_with_distance_loss(a, a, n, distance_function=distance, margin=4.0).item()
    1.0
    """
    a, p, n = tensor(anchor), tensor(positive), tensor(negative)
    if not a.ndim == p.ndim == n.ndim:
        raise ShapeError(
            f"[triplet_margin_loss] anchor, positive and negative of shapes {tuple(a.shape)}, "
            f"{tuple(p.shape)} and {tuple(n.shape)} have different numbers of axes; reshape them"
        )
    if margin <= 0:
        raise OptionError(f"[triplet_margin_loss] margin={margin} is not positive; give more")
    distance = pairwise_distance if distance_function is None else distance_function
    far = distance(a, n)
    if swap:
        far = lm.minimum(far, distance(p, n))
    return reduce_loss("triplet_margin_loss", _hinge(distance(a, p) - far + margin), reduction)
