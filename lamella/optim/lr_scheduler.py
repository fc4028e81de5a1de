"""Learning-rate schedules: call ``step()`` after each optimiser step (or epoch), outside
transformed functions.

Each computes the rate of step ``t`` in closed form from the groups' initial rates and sets
``param_groups[i]["lr"]``, which compiled steps read without a retrace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lamella.errors import OptionError, TraceError
from lamella.optim.optimizer import Optimizer
from lamella.tensor.pending import current_trace

__all__ = ["CosineAnnealingLR", "LRScheduler", "LambdaLR", "LinearLR", "OneCycleLR", "StepLR"]


class LRScheduler:
    """The base: subclasses give the rate at :attr:`last_epoch` for each initial rate."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.base_lrs = [float(group["lr"]) for group in optimizer.param_groups]
        self.last_epoch = 0
        self._set()

    def rate(self, base: float, group: int) -> float:
        """The rate of group number ``group`` now."""
        raise NotImplementedError

    def step(self) -> None:
        """Go on by one and set the rates.

        Raises:
            TraceError: inside a transformed function, which would freeze the count.
        """
        if current_trace() is not None:
            raise TraceError(
                f"[{type(self).__name__}] step() was called inside a function being transformed, "
                "where it would count once only; call it after the compiled step"
            )
        self.last_epoch += 1
        self._set()

    def _set(self) -> None:
        for number, (group, base) in enumerate(
            zip(self.optimizer.param_groups, self.base_lrs, strict=True)
        ):
            group["lr"] = self.rate(base, number)

    def get_last_lr(self) -> list[float]:
        """The rates in use, one per group."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """What :meth:`load_state_dict` needs."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where another schedule of the same kind was."""
        self.last_epoch = int(state["last_epoch"])
        self.base_lrs = [float(rate) for rate in state["base_lrs"]]
        self._set()


class StepLR(LRScheduler):
    """``base * gamma^floor(t / step_size)``.

    >>> import lamella as lm
    >>> from lamella import optim
    >>> opt = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = StepLR(opt, step_size=1, gamma=0.5); schedule.step(); opt.param_groups[0]["lr"]
    0.5
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer)

    def rate(self, base: float, group: int) -> float:
        """A staircase."""
        return base * self.gamma ** (self.last_epoch // self.step_size)


class LambdaLR(LRScheduler):
    """``base * f(t)``, with one function or one per group.

    >>> import lamella as lm
    >>> from lamella import optim
    >>> opt = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = LambdaLR(opt, lambda t: 1 / (1 + t)); schedule.step(); opt.param_groups[0]["lr"]
    0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
    ) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * count if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != count:
            raise OptionError(
                f"[LambdaLR] {len(self.lr_lambdas)} functions for {count} groups; give one each"
            )
        super().__init__(optimizer)

    def rate(self, base: float, group: int) -> float:
        """The function's factor."""
        return base * self.lr_lambdas[group](self.last_epoch)


class LinearLR(LRScheduler):
    """From ``start_factor * base`` to ``end_factor * base`` over ``total_iters`` steps, then
    constant.

    >>> import lamella as lm
    >>> from lamella import optim
    >>> opt = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = LinearLR(opt, start_factor=0.5, total_iters=2); schedule.step()
    >>> opt.param_groups[0]["lr"]
    0.75
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
    ) -> None:
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer)

    def rate(self, base: float, group: int) -> float:
        """A ramp."""
        done = min(self.last_epoch / max(self.total_iters, 1), 1.0)
        return base * (self.start_factor + (self.end_factor - self.start_factor) * done)


class CosineAnnealingLR(LRScheduler):
    """``eta_min + (base - eta_min) * (1 + cos(pi t / T_max)) / 2`` (Loshchilov and Hutter, 2016).

    >>> import lamella as lm
    >>> from lamella import optim
    >>> opt = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = CosineAnnealingLR(opt, T_max=2); schedule.step(); opt.param_groups[0]["lr"]
    0.5
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer)

    def rate(self, base: float, group: int) -> float:
        """Half a cosine."""
        part = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return self.eta_min + (base - self.eta_min) * part


class OneCycleLR(LRScheduler):
    """Up to ``max_lr`` over the share ``pct_start`` of the steps, then down to nearly zero (Smith
    and Topin, 2017).

    It starts at ``max_lr / div_factor`` and ends at ``max_lr / div_factor / final_div_factor``.
    Unlike PyTorch's, it leaves momentum alone.

    Raises:
        OptionError: after more steps than ``total_steps``, or for an unknown ``anneal_strategy``.

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
        self.max_lrs = [float(max_lr)] * count if isinstance(max_lr, (int, float)) else list(max_lr)
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
