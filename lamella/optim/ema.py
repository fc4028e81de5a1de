"""A running average of a model's tensors, which often generalises better than their last values."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import lamella as lm
from lamella.optim.group import ParamGroup

if TYPE_CHECKING:
    from lamella.nn.module import Module

__all__ = ["EMA"]


class EMA:
    """``average = decay * average + (1 - decay) * value`` for every floating-point tensor of a
    model.

    Early on the decay is at most ``(1 + t) / (10 + t)`` at update ``t``, so that the start is soon
    forgotten. Others than floating-point tensors are copied. :attr:`module` is the averaged model,
    in evaluation mode.

    Args:
        model: the model that is trained.
        decay: how much of the average is kept at each update.

    >>> from lamella import nn
    >>> model = nn.Linear(1, 1)
    >>> ema = EMA(model, 0.9); ema.update()
    >>> bool(ema.module.weight.item() == model.weight.item())
    True
    """

    def __init__(self, model: Module, decay: float = 0.999) -> None:
        self._model = model
        self._options = ParamGroup({"decay": decay})
        self._count = lm.zeros((), dtype=lm.float64)
        self.module = copy.deepcopy(model).eval().requires_grad_(False)

    def update(self) -> None:
        """Move the average towards the model's present values."""
        with lm.no_grad():
            self._count.add_(1)
            warm = (1.0 + self._count) / (10.0 + self._count)
            kept = lm.minimum(self._options.number("decay"), warm)
            ours, theirs = ([*m.parameters(), *m.buffers()] for m in (self.module, self._model))
            for average, value in zip(ours, theirs, strict=True):
                if average.dtype.is_floating:
                    step = (1.0 - kept).astype(average.dtype)
                    average.rebind((average + (value.detach() - average) * step).node)
                else:
                    average.rebind(value.detach().node)
