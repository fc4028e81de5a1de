"""Schedules made of others."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from lamella.errors import OptionError
from lamella.optim.lr_scheduler.base import LRScheduler
from lamella.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


class _Combined(LRScheduler):
    """Schedules of one optimiser whose rates another one asks for."""

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler]) -> None:
        name = type(self).__name__
        for each in schedulers:
            if not isinstance(each, LRScheduler) or each.optimizer is not optimizer:
                raise OptionError(
                    f"[{name}] {type(each).__name__} is no schedule of this optimiser that steps "
                    "without a metric; give LRSchedulers made for it"
                )
        self.schedulers = list(schedulers)
        super().__init__(optimizer)

    def state_dict(self) -> dict[str, Any]:
        """What :meth:`load_state_dict` needs, of each schedule too."""
        return {**super().state_dict(), "schedulers": [s.state_dict() for s in self.schedulers]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where another combination of the same kinds was."""
        for each, own in zip(self.schedulers, state["schedulers"], strict=True):
            each.load_state_dict(own)
        super().load_state_dict(state)


class SequentialLR(_Combined):
    """One schedule after another: number ``i`` from step ``milestones[i - 1]`` on, beginning at its
    own step 0. Each sets out from the rates that the optimiser had before its first schedule.

    Raises:
        OptionError: for schedules of several optimisers, ones that look at a metric, or another
            number of milestones than one less than schedules.

    >>> import lamella as lm
    >>> opt = lm.optim.SGD([lm.nn.Parameter(lm.ones(1))], lr=1.0)
    >>> from lamella.optim.lr_scheduler import ConstantLR, ExponentialLR
    >>> first, then = ConstantLR(opt, factor=0.5), ExponentialLR(opt, gamma=0.9)
    >>> schedule = SequentialLR(opt, [first, then], milestones=[2])
    >>> for _ in range(3): schedule.step()
    >>> opt.param_groups[0]["lr"]
    0.9
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int]
    ) -> None:
        if len(schedulers) != len(milestones) + 1 or list(milestones) != sorted(milestones):
            raise OptionError(
                f"[SequentialLR] {len(schedulers)} schedules with milestones {list(milestones)}; "
                "give an ascending step for each schedule but the first"
            )
        self.milestones = list(milestones)
        super().__init__(optimizer, schedulers)

    def rate(self, base: float, group: int) -> float:
        """The rate of group number ``group`` now."""
        number = bisect_right(self.milestones, self.last_epoch)
        one = self.schedulers[number]
        one.last_epoch = self.last_epoch - (self.milestones[number - 1] if number else 0)
        return one.rate(base, group)


class ChainedScheduler(_Combined):
    """Several schedules at once: ``base * (rate_1 / base) * (rate_2 / base) * ...``.

    As in PyTorch for schedules that multiply the rate; one that gives a rate of its own
    (:class:`LambdaLR`, a floor ``eta_min``) multiplies by its share of the first rate here.

    Raises:
        OptionError: for no schedule, schedules of several optimisers, or ones that look at a
            metric.

    >>> import lamella as lm
    >>> from lamella.optim.lr_scheduler import ConstantLR, ExponentialLR
    >>> opt = lm.optim.SGD([lm.nn.Parameter(lm.ones(1))], lr=1.0)
    >>> schedule = ChainedScheduler([ConstantLR(opt, factor=0.5), ExponentialLR(opt, gamma=0.9)])
    >>> schedule.step(); opt.param_groups[0]["lr"]
    0.45
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if not schedulers:
            raise OptionError("[ChainedScheduler] no schedules; give at least one")
        super().__init__(optimizer or schedulers[0].optimizer, schedulers)

    def rate(self, base: float, group: int) -> float:
        """The product of what each makes of the rate."""
        found = base
        for each in self.schedulers:
            each.last_epoch = self.last_epoch
            found *= each.rate(base, group) / base if base else 0.0
        return found
