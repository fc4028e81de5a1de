"""Losses as modules; the formulas are in :mod:`lamella.nn.functional.loss`."""

from __future__ import annotations

from typing import Any

from lamella.nn import functional as F
from lamella.nn.functional.support import choose
from lamella.nn.module import Module
from lamella.tensor.tensor import Tensor

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "HuberLoss", "L1Loss", "MSELoss", "NLLLoss",
    "SmoothL1Loss",
]  # fmt: skip


class _Loss(Module):
    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = choose(
            type(self).__name__, "reduction", reduction, ("mean", "sum", "none")
        )


class MSELoss(_Loss):
    """:func:`~lamella.nn.functional.mse_loss`.

    >>> import lamella as lm
    >>> MSELoss()(lm.ones(3), lm.zeros(3)).item()
    1.0
    """

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """The mean squared difference."""
        return F.mse_loss(x, target, self.reduction)


class L1Loss(_Loss):
    """:func:`~lamella.nn.functional.l1_loss`."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """The mean absolute difference."""
        return F.l1_loss(x, target, self.reduction)


class SmoothL1Loss(_Loss):
    """:func:`~lamella.nn.functional.smooth_l1_loss`."""

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """The smooth absolute difference."""
        return F.smooth_l1_loss(x, target, self.reduction, self.beta)


class HuberLoss(_Loss):
    """:func:`~lamella.nn.functional.huber_loss`."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """The Huber loss."""
        return F.huber_loss(x, target, self.reduction, self.delta)


class BCELoss(_Loss):
    """:func:`~lamella.nn.functional.binary_cross_entropy`."""

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """The binary cross-entropy of probabilities."""
        return F.binary_cross_entropy(x, target, self.weight, self.reduction)


class BCEWithLogitsLoss(_Loss):
    """:func:`~lamella.nn.functional.binary_cross_entropy_with_logits`."""

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """The binary cross-entropy of logits."""
        return F.binary_cross_entropy_with_logits(
            x, target, self.weight, self.reduction, self.pos_weight
        )


class NLLLoss(_Loss):
    """:func:`~lamella.nn.functional.nll_loss`."""

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """The negative log-probability of the targets."""
        return F.nll_loss(x, target, self.weight, self.ignore_index, self.reduction)


class CrossEntropyLoss(_Loss):
    """:func:`~lamella.nn.functional.cross_entropy`.

    >>> import lamella as lm
    >>> round(CrossEntropyLoss()(lm.zeros((2, 4)), lm.asarray([0, 3])).item(), 4)
    1.3863
    """

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """The cross-entropy of logits."""
        return F.cross_entropy(
            x, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )
