"""Rates that rise and fall, once or again and again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from lamella.errors import OptionError
from lamella.optim.lr_scheduler.base import LRScheduler
from lamella.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


def _rates(name: str, option: str, given: float | Sequence[float], count: int) -> list[float]:
    """A rate for each of ``count`` groups."""
    found = [given] * count if isinstance(given, (int, float)) else list(given)
    if len(found) != count:
        raise OptionError(f"[{name}] {option}: {len(found)} for {count} groups; give one each")
    return [float(rate) for rate in found]


class CosineAnnealingWarmRestarts(LRScheduler):
    """:class:`CosineAnnealingLR` that begins anew after ``T_0`` steps, then after ``T_mult`` times
    as many, and so on (Loshchilov and Hutter, 2016).

    >>> import lamella as lm
    >>> from lamella import optim
    >>> opt = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = CosineAnnealingWarmRestarts(opt, T_0=1)
    >>> schedule.step(); opt.param_groups[0]["lr"]
    1.0
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0
    ) -> None:
        if T_0 < 1 or T_mult < 1:
            raise OptionError(
                f"[CosineAnnealingWarmRestarts] T_0={T_0} and T_mult={T_mult}: both count steps "
                "or times; give whole numbers >= 1"
            )
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer)

    def rate(self, base: float, group: int) -> float:
        """Half a cosine of the present length."""
        done, length = self.last_epoch, self.T_0
        while done >= length:
            done, length = done - length, length * self.T_mult
            if self.T_mult == 1:
                done %= length
        part = (1 + math.cos(math.pi * done / length)) / 2
        return self.eta_min + (base - self.eta_min) * part


class CyclicLR(LRScheduler):
    """Up from ``base_lr`` to ``max_lr`` and down again, over and over (Smith, 2017).

    ``base_lr + (max_lr - base_lr) * height * scale``: ``height`` rises from 0 to 1 within
    ``step_size_up`` steps and falls within ``step_size_down``, by default as many. ``scale`` is 1
    for mode ``"triangular"``, ``1 / 2^(c - 1)`` in cycle ``c = 1, 2, ...`` for ``"triangular2"``,
    ``gamma^t`` for ``"exp_range"``, or ``scale_fn`` of ``c`` or ``t`` (``scale_mode`` ``"cycle"``
    or ``"iterations"``). Unlike PyTorch's, it leaves momentum alone.

    Raises:
        OptionError: for an unknown mode, fewer than one step, or rates that are not one per group.

    >>> import lamella as lm
    >>> from lamella import optim
    >>> opt = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = CyclicLR(opt, base_lr=0.0, max_lr=1.0, step_size_up=2)
    >>> schedule.step(); opt.param_groups[0]["lr"]
    0.5
    """

    def __init__(
        self, optimizer: Optimizer, base_lr: float | Sequence[float],
        max_lr: float | Sequence[float], step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[int], float] | None = None, scale_mode: str = "cycle",
    ) -> None:  # fmt: skip
        down = step_size_up if step_size_down is None else step_size_down
        scales = {
            "triangular": lambda c: 1.0, "triangular2": lambda c: 0.5 ** (c - 1),
            "exp_range": lambda t: gamma**t,
        }  # fmt: skip
        if mode not in scales or scale_mode not in ("cycle", "iterations"):
            raise OptionError(
                f"[CyclicLR] mode={mode!r}, scale_mode={scale_mode!r}: use 'triangular', "
                "'triangular2' or 'exp_range', and 'cycle' or 'iterations'"
            )
        if step_size_up < 1 or down < 0:
            raise OptionError(
                f"[CyclicLR] step_size_up={step_size_up}, step_size_down={down}: a cycle goes up "
                "for at least one step; give whole numbers"
            )
        count = len(optimizer.param_groups)
        self.lows = _rates("CyclicLR", "base_lr", base_lr, count)
        self.max_lrs = _rates("CyclicLR", "max_lr", max_lr, count)
        self.step_size_up, self.step_size_down = step_size_up, down
        self._scale = scale_fn or scales[mode]
        self._by_cycle = mode != "exp_range" if scale_fn is None else scale_mode == "cycle"
        super().__init__(optimizer)

    def rate(self, base: float, group: int) -> float:
        """A side of a triangle."""
        cycles, done = divmod(self.last_epoch, self.step_size_up + self.step_size_down)
        if done <= self.step_size_up:
            height = done / self.step_size_up
        else:
            height = 1 - (done - self.step_size_up) / self.step_size_down
        scale = self._scale(cycles + 1 if self._by_cycle else self.last_epoch)
        low = self.lows[group]
        return low + (self.max_lrs[group] - low) * height * scale


class OneCycleLR(LRScheduler):
    """Up to ``max_lr`` over the share ``pct_start`` of the steps, then down to nearly zero (Smith
    and Topin, 2017).

    It starts at ``max_lr / div_factor`` and ends at ``max_lr / div_factor / final_div_factor``.
    Unlike PyTorch's, it leaves momentum alone.

    Raises:
        OptionError: after more steps than ``total_steps``, for an unknown ``anneal_strategy``, or
            for rates that are not one per group.

    >>> import lamella as lm
    >>> from lamella import optim
    >>> opt = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = OneCycleLR(opt, max_lr=1.0, total_steps=10); round(opt.param_groups[0]["lr"], 6)
    0.04
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: float | Sequence[float], total_steps: int, pct_start:
        float = 0.3,
        anneal_strategy: str = "cos", div_factor: float = 25.0, final_div_factor: float = 1e4,
    ) -> None:  # fmt: skip
        if anneal_strategy not in ("cos", "linear"):
            raise OptionError(
                f"[OneCycleLR] anneal_strategy={anneal_strategy!r} is unknown; use 'cos' or "
                "'linear'"
            )
        count = len(optimizer.param_groups)
        self.max_lrs = _rates("OneCycleLR", "max_lr", max_lr, count)
        self.total_steps = total_steps
        self.pct_start = pct_start
        self.anneal_strategy = anneal_strategy
        self.div_factor, self.final_div_factor = div_factor, final_div_factor
        super().__init__(optimizer)

    def rate(self, base: float, group: int) -> float:
        """Up, then down."""
        if self.last_epoch > self.total_steps:
            raise OptionError(
                f"[OneCycleLR] step {self.last_epoch} of {self.total_steps}: the cycle is over; "
                "raise total_steps"
            )
        top = self.max_lrs[group]
        first = top / self.div_factor
        peak = self.pct_start * self.total_steps - 1
        last = self.total_steps - 1
        if self.last_epoch <= peak:
            return self._between(first, top, self.last_epoch / peak if peak > 0 else 1.0)
        return self._between(
            top, first / self.final_div_factor, (self.last_epoch - peak) / max(last - peak, 1)
        )

    def _between(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "cos":
            return end + (start - end) / 2 * (1 + math.cos(math.pi * min(share, 1.0)))
        return start + (end - start) * min(share, 1.0)
