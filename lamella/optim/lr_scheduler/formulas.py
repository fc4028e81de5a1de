"""Rates that follow from the number of steps by a formula."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

from lamella.errors import OptionError
from lamella.optim.lr_scheduler.base import LRScheduler
from lamella.optim.optimizer import Optimizer

__all__ = [
    "ConstantLR", "CosineAnnealingLR", "ExponentialLR", "LambdaLR", "LinearLR", "MultiStepLR",
    "MultiplicativeLR", "PolynomialLR", "StepLR",
]  # fmt: skip

Factor = Callable[[int], float]


def _one_each(name: str, given: Factor | Sequence[Factor], count: int) -> list[Factor]:
    """A function for each of ``count`` groups."""
    found = [given] * count if callable(given) else list(given)
    if len(found) != count:
        raise OptionError(f"[{name}] {len(found)} functions for {count} groups; give one each")
    return found


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


class MultiStepLR(LRScheduler):
    """``base * gamma^k`` with ``k`` the number of ``milestones`` that are not after ``t``.

    >>> import lamella as lm
    >>> from lamella import optim
    >>> opt = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = MultiStepLR(opt, [1, 5], gamma=0.5); schedule.step(); opt.param_groups[0]["lr"]
    0.5
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1
    ) -> None:
        self.milestones = sorted(milestones)
        self.gamma = gamma
        super().__init__(optimizer)

    def rate(self, base: float, group: int) -> float:
        """A staircase of uneven steps."""
        return float(base * self.gamma ** bisect_right(self.milestones, self.last_epoch))


class ExponentialLR(LRScheduler):
    """``base * gamma^t``.

    >>> import lamella as lm
    >>> from lamella import optim
    >>> opt = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = ExponentialLR(opt, gamma=0.5); schedule.step(); opt.param_groups[0]["lr"]
    0.5
    """

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        self.gamma = gamma
        super().__init__(optimizer)

    def rate(self, base: float, group: int) -> float:
        """A decay by the same factor at each step."""
        return float(base * self.gamma**self.last_epoch)


class ConstantLR(LRScheduler):
    """``factor * base`` for ``total_iters`` steps, then ``base``.

    >>> import lamella as lm
    >>> from lamella import optim
    >>> opt = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = ConstantLR(opt, factor=0.5, total_iters=1); opt.param_groups[0]["lr"]
    0.5
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5
    ) -> None:
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer)

    def rate(self, base: float, group: int) -> float:
        """One step up."""
        return base * (self.factor if self.last_epoch < self.total_iters else 1.0)


class PolynomialLR(LRScheduler):
    """``base * (1 - t / total_iters)^power``, and 0 from ``total_iters`` on.

    >>> import lamella as lm
    >>> from lamella import optim
    >>> opt = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = PolynomialLR(opt, 2, power=2.0); schedule.step(); opt.param_groups[0]["lr"]
    0.25
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer)

    def rate(self, base: float, group: int) -> float:
        """A power of what is left."""
        left = 1.0 - min(self.last_epoch / self.total_iters, 1.0)
        return float(base * left**self.power)


class LambdaLR(LRScheduler):
    """``base * f(t)``, with one function or one per group.

    >>> import lamella as lm
    >>> from lamella import optim
    >>> opt = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = LambdaLR(opt, lambda t: 1 / (1 + t)); schedule.step(); opt.param_groups[0]["lr"]
    0.5
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor]) -> None:
        self.lr_lambdas = _one_each("LambdaLR", lr_lambda, len(optimizer.param_groups))
        super().__init__(optimizer)

    def rate(self, base: float, group: int) -> float:
        """The function's factor."""
        return base * self.lr_lambdas[group](self.last_epoch)


class MultiplicativeLR(LRScheduler):
    """``base * f(1) * f(2) * ... * f(t)``, with one function or one per group.

    >>> import lamella as lm
    >>> from lamella import optim
    >>> opt = optim.SGD([lm.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> schedule = MultiplicativeLR(opt, lambda t: 1 / (1 + t)); schedule.step(); schedule.step()
    >>> round(opt.param_groups[0]["lr"], 6)
    0.166667
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor]) -> None:
        self.lr_lambdas = _one_each("MultiplicativeLR", lr_lambda, len(optimizer.param_groups))
        self._done = [(0, 1.0)] * len(self.lr_lambdas)  # steps, and the product of their factors
        super().__init__(optimizer)

    def rate(self, base: float, group: int) -> float:
        """The product of the function's factors so far."""
        steps, found = self._done[group]
        if steps > self.last_epoch:
            steps, found = 0, 1.0
        for step in range(steps + 1, self.last_epoch + 1):
            found *= self.lr_lambdas[group](step)
        self._done[group] = self.last_epoch, found
        return base * found


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
