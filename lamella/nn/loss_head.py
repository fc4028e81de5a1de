"""Losses with weights of their own: a linear classifier with its loss, and the adaptive softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.nn import functional as F
from lamella.nn.container import ModuleList, Sequential
from lamella.nn.functional.support import choose
from lamella.nn.linear import Linear
from lamella.nn.module import Configured
from lamella.tensor.tensor import Tensor

__all__ = ["AdaptiveLogSoftmaxWithLoss", "ASMoutput", "LinearCrossEntropyLoss"]


class LinearCrossEntropyLoss(Configured):
    """:func:`~lamella.nn.functional.linear_cross_entropy` with trained ``linear.weight`` and
    ``linear.bias``: ``(N, in_features)`` with targets ``(N, *out_features)``.

    >>> LinearCrossEntropyLoss(3, 4)(lm.ones((2, 3)), lm.asarray([0, 3])).shape
    ()
    """

    options = ("num_classes", "out_features", "reduction", "ignore_index", "label_smoothing")

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (),
        bias: bool = False, dtype: Any = None, reduction: str = "mean", weight: Any = None,
        ignore_index: int | None = None, label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        scores = math.prod(self.out_features, start=num_classes)
        self.linear = Linear(in_features, scores, bias, dtype)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = choose(
            "LinearCrossEntropyLoss", "reduction", reduction, ("mean", "sum", "none")
        )
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The cross-entropy of the classifier's logits."""
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input, self.linear.weight.reshape((*shape, -1)), target, weight=self.weight,
            linear_bias=None if bias is None else bias.reshape(shape), reduction=self.reduction,
            ignore_index=self.ignore_index, label_smoothing=self.label_smoothing,
        )  # fmt: skip


class ASMoutput(NamedTuple):
    """What :class:`AdaptiveLogSoftmaxWithLoss` returns: each target's log-probability, and the
    loss.
    """

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Configured):
    """A softmax over many classes of which few are frequent (Grave et al., 2016).

    Classes are ordered by frequency and divided at ``cutoffs``. The most frequent have a score of
    their own in ``head``, the others share one a cluster, and are told apart in it by ``tail``
    from an input projected to ``in_features / div_value^i``.

    >>> layer = AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0)
    >>> layer.log_prob(lm.ones((3, 8))).shape
    (3, 20)
    >>> layer(lm.ones((3, 8)), lm.asarray([0, 5, 19])).loss.shape
    ()
    """

    options = ("in_features", "n_classes", "cutoffs", "div_value")

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        marks = [int(mark) for mark in cutoffs]
        if not marks or marks != sorted(set(marks)) or marks[0] < 1 or marks[-1] > n_classes - 1:
            raise OptionError(
                f"[AdaptiveLogSoftmaxWithLoss] cutoffs={cutoffs!r} are not ascending numbers from "
                f"1 to {n_classes - 1}; give where the clusters of classes begin"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*marks, n_classes]
        self.div_value = div_value
        self.head = Linear(in_features, marks[0] + len(marks), head_bias, dtype)
        self.tail = ModuleList(
            Sequential(
                Linear(in_features, int(in_features // div_value ** (i + 1)), False, dtype),
                Linear(int(in_features // div_value ** (i + 1)), high - low, False, dtype),
            )
            for i, (low, high) in enumerate(zip(marks, self.cutoffs[1:], strict=True))
        )

    def reset_parameters(self) -> None:
        """Draw new values."""
        self.head.reset_parameters()
        for part in self.tail:
            for layer in part.children():
                layer.reset_parameters()

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes: ``(N, in_features)`` to ``(N, n_classes)``."""
        head = F.log_softmax(self.head(input), -1)
        first = self.cutoffs[0]
        parts = [head[..., :first]]
        for i, part in enumerate(self.tail):
            cluster = head[..., first + i, None]
            parts.append(cluster + F.log_softmax(part(input), -1))
        return lm.concat(parts, axis=-1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class: ``(N, in_features)`` to ``(N,)``."""
        return self.log_prob(input).argmax(-1)

    def forward(self, input: Tensor, target: Tensor) -> ASMoutput:
        """The targets' log-probabilities and ``-`` their mean.

        Args:
            input: ``(N, in_features)`` or ``(in_features,)``.
            target: classes ``(N,)`` or ``()``.

        Raises:
            ShapeError: if the shapes do not belong together.
            LamellaIndexError: when computed, if a class is outside ``0 … n_classes - 1``.
        """
        if input.ndim not in (1, 2) or tuple(input.shape[:-1]) != tuple(target.shape):
            raise ShapeError(
                f"[AdaptiveLogSoftmaxWithLoss] input of shape {tuple(input.shape)} with a target "
                f"of shape {tuple(target.shape)}: they are (N, in_features) and (N,), or both "
                "without N"
            )
        output = -F.nll_loss(self.log_prob(input), target, reduction="none")
        return ASMoutput(output, -output.mean())
