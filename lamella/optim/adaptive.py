"""Optimisers that divide by running averages of squared gradients, as PyTorch computes them:
RMSprop (Hinton, 2012), Adagrad (Duchi et al., 2011), Adadelta (Zeiler, 2012).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lamella as lm
from lamella.optim.group import ParamGroup
from lamella.optim.optimizer import (
    Optimizer,
    Parameters,
    check_number,
    check_numbers,
    decayed,
    moved,
)
from lamella.tensor.tensor import Tensor

__all__ = ["Adadelta", "Adagrad", "RMSprop"]


class RMSprop(Optimizer):
    """``v = alpha v + (1 - alpha) g²;  p -= lr * g / (sqrt(v) + eps)``.

    Args:
        params: see :class:`~lamella.optim.Optimizer`.
        lr: the learning rate.
        alpha: how much of the average of squares is kept.
        eps: added to the denominator.
        weight_decay: the factor of the parameter added to its gradient.
        momentum: the share of the last direction that is kept.
        centered: whether to divide by the standard deviation: ``v`` less the square of the average.
        maximize: whether to climb instead.

    Raises:
        OptionError: for an option out of range.

    >>> p = lm.tensor([1.0], requires_grad=True)
    >>> opt = RMSprop([p], lr=0.1, alpha=0.75)
    >>> (p * p).sum().backward(); opt.step(); round(p.item(), 4)
    0.8
    """

    def __init__(
        self, params: Parameters, lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: float = 0.0, momentum: float = 0.0, centered: bool = False, *,
        maximize: bool = False,
    ) -> None:  # fmt: skip
        options = check_numbers(
            "RMSprop", lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum
        )
        super().__init__(params, {**options, "centered": centered, "maximize": maximize})

    def _kept(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        found = {**self.defaults, **options}
        return (
            "square_avg",
            *(["momentum_buffer"] if found["momentum"] != 0 else []),
            *(["grad_avg"] if found["centered"] else []),
        )

    def _prepare(self, group: ParamGroup, step: Tensor) -> tuple[Tensor, ...]:
        alpha = group.number("alpha")
        return alpha, 1.0 - alpha, group.number("lr"), group.number("eps")

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup,
        shared: tuple[Tensor, ...],
    ) -> Tensor:  # fmt: skip
        alpha, take, rate, eps = (each.astype(parameter.dtype) for each in shared)
        gradient = decayed(parameter, gradient, group)
        square = state["square_avg"]
        square.rebind((square * alpha + gradient * gradient * take).node)
        spread: Tensor = square
        if group["centered"]:
            mean = moved(state["grad_avg"], gradient, take)
            spread = square - mean * mean
        step = gradient / (lm.sqrt(spread) + eps)
        if group["momentum"] != 0:
            buffer = self._held(state, "momentum_buffer", parameter)
            momentum = group.number("momentum").astype(parameter.dtype)
            buffer.rebind((buffer * momentum + step).node)
            step = buffer
        return parameter - rate * step


class Adagrad(Optimizer):
    """``s += g²;  p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)``.

    Args:
        params: see :class:`~lamella.optim.Optimizer`.
        lr: the learning rate.
        lr_decay: how fast it falls with the steps ``t``.
        weight_decay: the factor of the parameter added to its gradient.
        initial_accumulator_value: what the sum of squares begins with.
        eps: added to the denominator.
        maximize: whether to climb instead.

    Raises:
        OptionError: for an option out of range.

    >>> p = lm.tensor([1.0], requires_grad=True)
    >>> opt = Adagrad([p], lr=0.5)
    >>> (p * p).sum().backward(); opt.step(); round(p.item(), 4)
    0.5
    """

    state_names = ("sum",)

    def __init__(
        self, params: Parameters, lr: float = 1e-2, lr_decay: float = 0.0,
        weight_decay: float = 0.0, initial_accumulator_value: float = 0.0, eps: float = 1e-10, *,
        maximize: bool = False,
    ) -> None:  # fmt: skip
        options = check_numbers(
            "Adagrad", lr=lr, lr_decay=lr_decay, weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value, eps=eps,
        )  # fmt: skip
        super().__init__(params, {**options, "maximize": maximize})

    def _fresh(self, name: str, parameter: Tensor, options: Mapping[str, Any]) -> Tensor:
        start = {**self.defaults, **options}["initial_accumulator_value"]
        return lm.full(parameter.shape, start, dtype=parameter.dtype)

    def _prepare(self, group: ParamGroup, step: Tensor) -> tuple[Tensor, ...]:
        before = step.astype(lm.float64) - 1.0
        return group.number("lr") / (1.0 + before * group.number("lr_decay")), group.number("eps")

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup,
        shared: tuple[Tensor, ...],
    ) -> Tensor:  # fmt: skip
        rate, eps = (each.astype(parameter.dtype) for each in shared)
        gradient = decayed(parameter, gradient, group)
        total = state["sum"]
        total.rebind((total + gradient * gradient).node)
        return parameter - rate * gradient / (lm.sqrt(total) + eps)


class Adadelta(Optimizer):
    """``v = rho v + (1 - rho) g²;  d = sqrt(u + eps) / sqrt(v + eps) * g;  p -= lr * d``, then
    ``u = rho u + (1 - rho) d²``.

    Args:
        params: see :class:`~lamella.optim.Optimizer`.
        lr: the factor of each step.
        rho: how much of the averages is kept.
        eps: added under both roots.
        weight_decay: the factor of the parameter added to its gradient.
        maximize: whether to climb instead.

    Raises:
        OptionError: for an option out of range.

    >>> p = lm.tensor([1.0], requires_grad=True)
    >>> opt = Adadelta([p], eps=1.0, rho=0.75)
    >>> (p * p).sum().backward(); opt.step(); round(p.item(), 4)
    -0.4142
    """

    state_names = ("square_avg", "acc_delta")

    def __init__(
        self, params: Parameters, lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6,
        weight_decay: float = 0.0, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        options = check_numbers("Adadelta", lr=lr, eps=eps, weight_decay=weight_decay)
        check_number("Adadelta", "rho", rho, most=1.0)
        super().__init__(params, {**options, "rho": rho, "maximize": maximize})

    def _prepare(self, group: ParamGroup, step: Tensor) -> tuple[Tensor, ...]:
        rho = group.number("rho")
        return rho, 1.0 - rho, group.number("lr"), group.number("eps")

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup,
        shared: tuple[Tensor, ...],
    ) -> Tensor:  # fmt: skip
        rho, take, rate, eps = (each.astype(parameter.dtype) for each in shared)
        gradient = decayed(parameter, gradient, group)
        square, moved = state["square_avg"], state["acc_delta"]
        square.rebind((square * rho + gradient * gradient * take).node)
        step = lm.sqrt(moved + eps) / lm.sqrt(square + eps) * gradient
        moved.rebind((moved * rho + step * step * take).node)
        return parameter - rate * step
