"""What learning-rate schedules share: the rates they start from, steps and state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from lamella.errors import TraceError
from lamella.optim.optimizer import Optimizer
from lamella.tensor.pending import current_trace

__all__ = ["LRScheduler", "refuse_trace"]


_initial: Final[WeakKeyDictionary[Optimizer, list[float]]] = WeakKeyDictionary()
"""The rates of an optimiser's groups before its first schedule: those that all its schedules
start from, for each sets the rates when it is made."""


def _initial_rates(optimizer: Optimizer) -> list[float]:
    rates = _initial.setdefault(optimizer, [])
    rates.extend(float(group["lr"]) for group in optimizer.param_groups[len(rates) :])
    return list(rates)


def refuse_trace(name: str) -> None:
    """Raise inside a transformed function, where a step would count once only."""
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
        refuse_trace(type(self).__name__)
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
