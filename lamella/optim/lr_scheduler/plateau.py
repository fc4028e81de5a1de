"""A rate that follows a measure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lamella.errors import OptionError
from lamella.optim.lr_scheduler.base import refuse_trace
from lamella.optim.optimizer import Optimizer

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau:
    """Multiplies the rates by ``factor`` when a measure has not improved for more than ``patience``
    steps.

    Args:
        optimizer: whose groups' rates are set.
        mode: ``"min"`` if smaller is better, else ``"max"``.
        factor: below 1.
        patience: how many steps without improvement are let pass.
        threshold: the least improvement that counts.
        threshold_mode: ``"rel"``, a share of the best so far, or ``"abs"``.
        cooldown: steps after a reduction in which nothing is counted.
        min_lr: the least rate.
        eps: a smaller reduction is not made.

    Raises:
        OptionError: for an unknown mode, or a factor that does not reduce.

    >>> import lamella as lm
    >>> from lamella import optim
    >>> opt = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = ReduceLROnPlateau(opt, factor=0.5, patience=0)
    >>> for loss in (3.0, 2.0, 2.0):
    ...     schedule.step(loss)
    >>> opt.param_groups[0]["lr"]
    0.5
    """

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0,
        min_lr: float = 0.0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs") or not factor < 1:
            raise OptionError(
                f"[ReduceLROnPlateau] mode={mode!r}, threshold_mode={threshold_mode!r}, "
                f"factor={factor}: use 'min' or 'max', 'rel' or 'abs', and a factor below 1"
            )
        self.optimizer = optimizer
        self.mode, self.factor, self.patience, self.eps = mode, factor, patience, eps
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.min_lr = cooldown, min_lr
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = 0
        self.cooldown_counter = 0

    def step(self, metrics: Any) -> None:
        """Take note of a measure, a number or a 0-d tensor, and reduce the rates if it is time.

        Raises:
            TraceError: inside a transformed function.
        """
        refuse_trace("ReduceLROnPlateau")
        found = float(metrics)
        better = self._is_better(found)
        self.best = found if better else self.best
        self.num_bad_epochs = 0 if better else self.num_bad_epochs + 1
        if self.cooldown_counter > 0:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown_counter - 1, 0
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            for group in self.optimizer.param_groups:
                lower = max(float(group["lr"]) * self.factor, self.min_lr)
                if float(group["lr"]) - lower > self.eps:
                    group["lr"] = lower

    def _is_better(self, found: float) -> bool:
        sign = 1.0 if self.mode == "min" else -1.0
        if self.threshold_mode == "abs" or math.isinf(self.best):
            margin = self.threshold
        else:
            margin = self.threshold * self.best
        return sign * found < sign * self.best - margin

    def get_last_lr(self) -> list[float]:
        """The rates in use, one per group."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """What :meth:`load_state_dict` needs."""
        names = ("best", "num_bad_epochs", "cooldown_counter")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where another schedule of the same kind was; the optimiser has the rates."""
        self.best = float(state["best"])
        self.num_bad_epochs = int(state["num_bad_epochs"])
        self.cooldown_counter = int(state["cooldown_counter"])
