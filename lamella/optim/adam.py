"""Adam (Kingma and Ba, 2014) and AdamW (Loshchilov and Hutter, 2017), as PyTorch computes them."""

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
    decayed_both,
    moved,
)
from lamella.tensor.tensor import Tensor

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """``m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g²;  p -= lr * m̂ / (sqrt(v̂) + eps)``.

    ``m̂ = m / (1 - b1^t)`` and ``v̂ = v / (1 - b2^t)`` undo the start at zero; they are computed in
    float64 from a step count that is a tensor.

    Args:
        params: see :class:`~lamella.optim.Optimizer`.
        lr: the learning rate.
        betas: how much of the first and second moment is kept.
        eps: added to the denominator.
        weight_decay: the factor of the parameter added to its gradient.
        amsgrad: whether to divide by the largest second moment so far (Reddi et al., 2018).
        maximize: whether to climb instead.

    Raises:
        OptionError: for an option out of range.

    >>> p = lm.tensor([1.0], requires_grad=True)
    >>> opt = Adam([p], lr=0.5)
    >>> (p * p).sum().backward(); opt.step(); round(p.item(), 4)
    0.5
    """

    _decoupled = False
    _decay = 0.0

    def __init__(
        self, params: Parameters, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps:
        float = 1e-8,
        weight_decay: float | None = None, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        weight_decay = self._decay if weight_decay is None else weight_decay
        options = check_numbers(name, lr=lr, eps=eps, weight_decay=weight_decay)
        options["betas"] = check_betas(name, betas)
        super().__init__(params, {**options, "amsgrad": amsgrad, "maximize": maximize})

    def _kept(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        largest = options.get("amsgrad", self.defaults["amsgrad"])
        return ("exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if largest else []))

    def _prepare(self, group: ParamGroup, step: Tensor) -> tuple[Tensor, ...]:
        """Step size and root of the corrections, then what each moment keeps and takes.

        All are float64, since ``1 - beta`` in float32 would already be wrong in the fifth digit.
        """
        count = step.astype(lm.float64)
        first, second = group.numbers("betas")
        return (
            group.number("lr") / (1.0 - first**count),
            lm.sqrt(1.0 - second**count),
            1.0 - first,
            second,
            1.0 - second,
        )

    def _update(
        self,
        parameter: Tensor,
        gradient: Tensor,
        state: dict[str, Tensor],
        group: ParamGroup,
        shared: tuple[Tensor, ...],
    ) -> Tensor:
        dtype = parameter.dtype
        step_size, root, take, keep_square, take_square = (each.astype(dtype) for each in shared)
        value, gradient = decayed_both(parameter, gradient, group, self._decoupled)
        mean, square = moved(state["exp_avg"], gradient, take), state["exp_avg_sq"]
        square.rebind((square * keep_square + gradient * gradient * take_square).node)
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"]
            largest.rebind(lm.maximum(largest, square).node)
            square = largest
        return value - step_size * mean / (
            lm.sqrt(square) / root + group.number("eps").astype(dtype)
        )


class AdamW(Adam):
    """:class:`Adam` whose weight decay shrinks the parameter itself: ``p *= 1 - lr * weight_decay``
    before each step.

    The arguments are those of :class:`Adam`; ``weight_decay`` is 0.01 by default.

    >>> p = lm.tensor([1.0], requires_grad=True)
    >>> opt = AdamW([p], lr=0.5, weight_decay=0.0)
    >>> (p * p).sum().backward(); opt.step(); round(p.item(), 4)
    0.5
    """

    _decoupled = True
    _decay = 0.01
