"""Relatives of Adam: Adamax (Kingma and Ba, 2014), NAdam (Dozat, 2016), RAdam (Liu et al., 2019),
as PyTorch computes them, and Lion (Chen et al., 2023), which takes signs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lamella as lm
from lamella.optim.group import ParamGroup
from lamella.optim.optimizer import (
    Optimizer,
    Parameters,
    check_betas,
    check_numbers,
    decayed,
    decayed_both,
    moved,
)
from lamella.tensor.tensor import Tensor

__all__ = ["Adamax", "Lion", "NAdam", "RAdam"]

Betas = tuple[float, float]


def _options(name: str, betas: Betas, **numbers: float) -> dict[str, Any]:
    """Checked options."""
    return {**check_numbers(name, **numbers), "betas": check_betas(name, betas)}


class Adamax(Optimizer):
    """``m = b1 m + (1 - b1) g;  u = max(b2 u, |g| + eps);  p -= lr / (1 - b1^t) * m / u``.

    Args:
        params: see :class:`~lamella.optim.Optimizer`.
        lr: the learning rate.
        betas: how much of the mean and of the largest gradient is kept.
        eps: added to the gradient's size.
        weight_decay: the factor of the parameter added to its gradient.
        maximize: whether to climb instead.

    Raises:
        OptionError: for an option out of range.

    >>> p = lm.tensor([1.0], requires_grad=True)
    >>> opt = Adamax([p], lr=0.5)
    >>> (p * p).sum().backward(); opt.step(); round(p.item(), 4)
    0.5
    """

    state_names = ("exp_avg", "exp_inf")

    def __init__(
        self, params: Parameters, lr: float = 2e-3, betas: Betas = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        options = _options("Adamax", betas, lr=lr, eps=eps, weight_decay=weight_decay)
        super().__init__(params, {**options, "maximize": maximize})

    def _prepare(self, group: ParamGroup, step: Tensor) -> tuple[Tensor, ...]:
        first, second = group.numbers("betas")
        rate = group.number("lr") / (1.0 - first ** step.astype(lm.float64))
        return rate, 1.0 - first, second, group.number("eps")

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup,
        shared: tuple[Tensor, ...],
    ) -> Tensor:  # fmt: skip
        rate, take, kept, eps = (each.astype(parameter.dtype) for each in shared)
        gradient = decayed(parameter, gradient, group)
        mean, largest = moved(state["exp_avg"], gradient, take), state["exp_inf"]
        largest.rebind(lm.maximum(largest * kept, lm.abs(gradient) + eps).node)
        return parameter - rate * mean / largest


class NAdam(Optimizer):
    """Adam that looks ahead as Nesterov's momentum does.

    With ``mu_t = b1 (1 - 0.96^(t d) / 2)`` and ``M`` the product of all so far, ``p -= lr * ((1 -
    mu_t) / (1 - M) * g + mu_{t+1} / (1 - M mu_{t+1}) * m) / (sqrt(v / (1 - b2^t)) + eps)``.

    Args:
        params: see :class:`~lamella.optim.Optimizer`.
        lr: the learning rate.
        betas: how much of the first and second moment is kept.
        eps: added to the denominator.
        weight_decay: the factor of the parameter added to its gradient.
        momentum_decay: ``d``.
        decoupled_weight_decay: whether to shrink the parameter instead, as AdamW does.
        maximize: whether to climb instead.

    Raises:
        OptionError: for an option out of range.

    >>> p = lm.tensor([1.0], requires_grad=True)
    >>> opt = NAdam([p], lr=0.5)
    >>> (p * p).sum().backward(); opt.step(); p.item() < 1.0
    True
    """

    state_names = ("mu_product", "exp_avg", "exp_avg_sq")

    def __init__(
        self, params: Parameters, lr: float = 2e-3, betas: Betas = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        options = _options(
            "NAdam", betas, lr=lr, eps=eps, weight_decay=weight_decay,
            momentum_decay=momentum_decay,
        )  # fmt: skip
        flags = {"decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize}
        super().__init__(params, {**options, **flags})

    def _fresh(self, name: str, parameter: Tensor, options: Mapping[str, Any]) -> Tensor:
        if name == "mu_product":
            return lm.ones((), dtype=lm.float64)
        return super()._fresh(name, parameter, options)

    def _prepare(self, group: ParamGroup, step: Tensor) -> tuple[Tensor, ...]:
        first, second = group.numbers("betas")
        count = step.astype(lm.float64)
        mu, following = (
            first * (1.0 - 0.5 * 0.96 ** (at * group.number("momentum_decay")))
            for at in (count, count + 1.0)
        )
        return mu, following, 1.0 - first, second, 1.0 - second, 1.0 - second**count

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup,
        shared: tuple[Tensor, ...],
    ) -> Tensor:  # fmt: skip
        dtype, (mu, following, *rest) = parameter.dtype, shared
        take, kept, take_square, corrected = (each.astype(dtype) for each in rest)
        product = state["mu_product"]
        product.rebind((product * mu).node)
        decoupled = bool(group["decoupled_weight_decay"])
        value, gradient = decayed_both(parameter, gradient, group, decoupled)
        mean, square = moved(state["exp_avg"], gradient, take), state["exp_avg_sq"]
        square.rebind((square * kept + gradient * gradient * take_square).node)
        below = lm.sqrt(square / corrected) + group.number("eps").astype(dtype)
        rate = group.number("lr")
        now = rate * (1.0 - mu) / (1.0 - product)
        ahead = rate * following / (1.0 - product * following)
        return value - now.astype(dtype) * gradient / below - ahead.astype(dtype) * mean / below


class RAdam(Optimizer):
    """Adam that takes plain steps ``lr * m̂`` while the variance of ``v`` is not yet defined, and
    scales its steps by a rectification term afterwards.

    Args:
        params: see :class:`~lamella.optim.Optimizer`.
        lr: the learning rate.
        betas: how much of the first and second moment is kept.
        eps: added to the denominator.
        weight_decay: the factor of the parameter added to its gradient.
        decoupled_weight_decay: whether to shrink the parameter instead, as AdamW does.
        maximize: whether to climb instead.

    Raises:
        OptionError: for an option out of range.

    >>> p = lm.tensor([1.0], requires_grad=True)
    >>> opt = RAdam([p], lr=0.25)
    >>> (p * p).sum().backward(); opt.step(); round(p.item(), 4)
    0.5
    """

    state_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self, params: Parameters, lr: float = 1e-3, betas: Betas = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, decoupled_weight_decay: bool = False, *,
        maximize: bool = False,
    ) -> None:  # fmt: skip
        options = _options("RAdam", betas, lr=lr, eps=eps, weight_decay=weight_decay)
        flags = {"decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize}
        super().__init__(params, {**options, **flags})

    def _prepare(self, group: ParamGroup, step: Tensor) -> tuple[Tensor, ...]:
        first, second = group.numbers("betas")
        count = step.astype(lm.float64)
        corrected = 1.0 - second**count
        longest = 2.0 / (1.0 - second) - 1.0
        length = longest - 2.0 * count * second**count / corrected
        defined = length > 5.0
        known = lm.where(defined, length, 6.0)
        scale = lm.sqrt(
            (known - 4.0) * (known - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * known)
        )
        rate = group.number("lr") / (1.0 - first**count)
        return rate, scale * lm.sqrt(corrected), defined, 1.0 - first, second, 1.0 - second

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup,
        shared: tuple[Tensor, ...],
    ) -> Tensor:  # fmt: skip
        dtype, defined = parameter.dtype, shared[2]
        rate, scale, _, take, kept, take_square = (each.astype(dtype) for each in shared)
        decoupled = bool(group["decoupled_weight_decay"])
        value, gradient = decayed_both(parameter, gradient, group, decoupled)
        mean, square = moved(state["exp_avg"], gradient, take), state["exp_avg_sq"]
        square.rebind((square * kept + gradient * gradient * take_square).node)
        below = lm.sqrt(square) + group.number("eps").astype(dtype)
        return value - rate * mean * lm.where(defined, scale / below, lm.ones((), dtype=dtype))


class Lion(Optimizer):
    """``p -= lr * (sign(b1 m + (1 - b1) g) + weight_decay * p);  m = b2 m + (1 - b2) g``.

    Every element moves by the learning rate, so that it is chosen 3 to 10 times smaller than
    AdamW's, and the weight decay as much larger.

    Args:
        params: see :class:`~lamella.optim.Optimizer`.
        lr: the learning rate.
        betas: the share of the mean in the step, and how much of it is kept.
        weight_decay: the share of the parameter that a step of rate 1 takes away.
        maximize: whether to climb instead.

    Raises:
        OptionError: for an option out of range.

    >>> p = lm.tensor([1.0], requires_grad=True)
    >>> opt = Lion([p], lr=0.5)
    >>> (p * p).sum().backward(); opt.step(); p.item()
    0.5
    """

    state_names = ("exp_avg",)

    def __init__(
        self, params: Parameters, lr: float = 1e-4, betas: Betas = (0.9, 0.99),
        weight_decay: float = 0.0, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        options = _options("Lion", betas, lr=lr, weight_decay=weight_decay)
        super().__init__(params, {**options, "maximize": maximize})

    def _prepare(self, group: ParamGroup, step: Tensor) -> tuple[Tensor, ...]:
        first, second = group.numbers("betas")
        return group.number("lr"), 1.0 - first, 1.0 - second, group.number("weight_decay")

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup,
        shared: tuple[Tensor, ...],
    ) -> Tensor:  # fmt: skip
        rate, share, take, decay = (each.astype(parameter.dtype) for each in shared)
        mean = state["exp_avg"]
        step = lm.sign(mean + (gradient - mean) * share)
        moved(mean, gradient, take)
        return parameter * (1.0 - rate * decay) - rate * step
