"""Stochastic gradient descent with momentum, Nesterov's form and weight decay, as PyTorch computes
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lamella as lm
from lamella.errors import OptionError
from lamella.optim.group import ParamGroup
from lamella.optim.optimizer import Optimizer, Parameters, check_numbers
from lamella.tensor.tensor import Tensor

__all__ = ["SGD"]


class SGD(Optimizer):
    """``g += wd * p;  m = momentum * m + (1 - dampening) * g;  p -= lr * m`` (Sutskever et al.,
    2013).

    With Nesterov ``p -= lr * (g + momentum * m)``. The first step takes ``m = g``, whatever the
    dampening.

    Args:
        params: see :class:`~lamella.optim.Optimizer`.
        lr: the learning rate.
        momentum: the share of the last direction that is kept.
        dampening: the share of the gradient that is left out of the direction.
        weight_decay: the factor of the parameter added to its gradient.
        nesterov: whether to look ahead; needs momentum and no dampening.
        maximize: whether to climb instead.

    Raises:
        OptionError: for an option out of range.

    >>> p = lm.tensor([1.0], requires_grad=True)
    >>> opt = SGD([p], lr=0.5)
    >>> (p * p).sum().backward(); opt.step(); p.tolist()
    [0.0]
    """

    def __init__(
        self, params: Parameters, lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0,
        weight_decay: float = 0.0, nesterov: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        check_numbers("SGD", lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum == 0 or dampening != 0):
            raise OptionError(
                f"[SGD] nesterov=True with momentum={momentum} and dampening={dampening}: it is "
                "defined for momentum > 0 and dampening = 0; change them"
            )
        super().__init__(
            params,
            {
                "lr": lr, "momentum": momentum, "dampening": dampening,
                "weight_decay": weight_decay, "nesterov": nesterov, "maximize": maximize,
            },
        )  # fmt: skip

    def _kept(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (
            ("momentum_buffer",) if options.get("momentum", self.defaults["momentum"]) != 0 else ()
        )

    def _prepare(self, group: ParamGroup, step: Tensor) -> Any:
        kept = 1.0 - group.number("dampening")
        return lm.where(step == 1, 1.0, kept) if group["dampening"] != 0 else None

    def _update(
        self,
        parameter: Tensor,
        gradient: Tensor,
        state: dict[str, Tensor],
        group: ParamGroup,
        shared: Any,
    ) -> Tensor:
        dtype = parameter.dtype
        if group["weight_decay"] != 0:
            gradient = gradient + parameter * group.number("weight_decay").astype(dtype)
        if group["momentum"] != 0:
            momentum = group.number("momentum").astype(dtype)
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = lm.zeros(parameter.shape, dtype=dtype)
            new = gradient if shared is None else gradient * shared.astype(dtype)
            buffer.rebind((buffer.astype(dtype) * momentum + new).node)
            gradient = gradient + momentum * buffer if group["nesterov"] else buffer
        return parameter - gradient * group.number("lr").astype(dtype)
