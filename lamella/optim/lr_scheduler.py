"""Learning-rate schedules: call ``step()`` after each optimiser step (or epoch), outside
transformed functions.

Each computes the rate of step ``t`` in closed form from the groups' initial rates and sets
``param_groups[i]["lr"]``, which compiled steps read without a retrace.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from lamella.errors import OptionError, TraceError
from lamella.optim.optimizer import Optimizer
from lamella.tensor.pending import current_trace

__all__ = [
    "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip


_initial: Final[WeakKeyDictionary[Optimizer, list[float]]] = WeakKeyDictionary()
"""The rates of an optimiser's groups before its first schedule: those that all its schedules
start from, for each sets the rates when it is made."""


def _initial_rates(optimizer: Optimizer) -> list[float]:
    rates = _initial.setdefault(optimizer, [])
    rates.extend(float(group["lr"]) for group in optimizer.param_groups[len(rates) :])
    return list(rates)


def _refuse_trace(name: str) -> None:
    if current_trace() is not None:
        raise TraceError(
            f"[{name}] step() was called inside a function being transformed, where it would count "
            "once only; call it after the compiled step"
        )


class LRScheduler:
    """The base: subclasses give the rate at :attr:`last_epoch` for each initial rate."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.base_lrs = _initial_rates(optimizer)
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
        _refuse_trace(type(self).__name__)
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


class SequentialLR(LRScheduler):
    """One schedule after another: number ``i`` from step ``milestones[i - 1]`` on, beginning at its
    own step 0. Each sets out from the rates that the optimiser had before its first schedule.

    Raises:
        OptionError: for schedules of several optimisers, ones that look at a metric, or another
            number of milestones than one less than schedules.

    >>> import lamella as lm
    >>> opt = lm.optim.SGD([lm.nn.Parameter(lm.ones(1))], lr=1.0)
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
        for each in schedulers:
            if not isinstance(each, LRScheduler) or each.optimizer is not optimizer:
                raise OptionError(
                    f"[SequentialLR] {type(each).__name__} is no schedule of this optimiser that "
                    "steps without a metric; give LRSchedulers made for it"
                )
        self.schedulers, self.milestones = list(schedulers), list(milestones)
        super().__init__(optimizer)

    def rate(self, base: float, group: int) -> float:
        """The rate of group number ``group`` now."""
        number = bisect_right(self.milestones, self.last_epoch)
        one = self.schedulers[number]
        one.last_epoch = self.last_epoch - (self.milestones[number - 1] if number else 0)
        return one.rate(base, group)

    def state_dict(self) -> dict[str, Any]:
        """What :meth:`load_state_dict` needs, of each schedule too."""
        return {**super().state_dict(), "schedulers": [s.state_dict() for s in self.schedulers]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where another sequence of the same kind was."""
        for each, own in zip(self.schedulers, state["schedulers"], strict=True):
            each.load_state_dict(own)
        super().load_state_dict(state)


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
        _refuse_trace("ReduceLROnPlateau")
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
