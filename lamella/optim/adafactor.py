"""Adafactor (Shazeer and Stern, 2018), as PyTorch computes it: second moments of matrices kept as a
row and a column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import lamella as lm
from lamella.errors import OptionError
from lamella.optim.group import ParamGroup
from lamella.optim.optimizer import Optimizer, Parameters, check_number, check_numbers
from lamella.tensor.tensor import Tensor

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Steps of the size of the parameter, divided by an estimate of the root of the second moment.

    With ``b = t^beta2_decay`` a matrix keeps the averages ``r`` and ``c`` of its squared gradient
    over columns and rows, whose product over the mean of ``r`` estimates the second moment; other
    parameters keep it whole. ``u = g / sqrt(v)`` is shortened to a root mean square of ``d``, and
    ``p -= max(eps2, rms(p)) * min(lr, 1 / sqrt(t)) * u``.

    Args:
        params: see :class:`~lamella.optim.Optimizer`.
        lr: the largest relative step.
        beta2_decay: the power of the step count that new squares count with.
        eps: the least root of the second moment (None: the element type's precision), and the least
            size that a parameter counts as.
        d: the largest root mean square of the update.
        weight_decay: the share of the parameter that a step of rate 1 takes away.
        maximize: whether to climb instead.

    Raises:
        OptionError: for an option out of range.

    >>> p = lm.tensor([1.0], requires_grad=True)
    >>> opt = Adafactor([p], lr=0.5)
    >>> (p * p).sum().backward(); opt.step(); round(p.item(), 4)
    0.5
    """

    def __init__(
        self, params: Parameters, lr: float = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0,
        *, maximize: bool = False,
    ) -> None:  # fmt: skip
        options = check_numbers("Adafactor", lr=lr, weight_decay=weight_decay)
        check_number("Adafactor", "d", d, low=1.0)
        check_number("Adafactor", "beta2_decay", beta2_decay, low=-math.inf, most=0.0)
        if not isinstance(eps, (tuple, list)) or len(eps) != 2:
            raise OptionError(f"[Adafactor] eps={eps!r} are not two numbers; give two")
        for each in eps:
            check_number("Adafactor", "eps", 0.0 if each is None else each)
        more = {"beta2_decay": beta2_decay, "eps": tuple(eps), "d": d, "maximize": maximize}
        super().__init__(params, {**options, **more})

    def _names_of(self, parameter: Tensor, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("row_var", "col_var") if parameter.ndim > 1 else ("variance",)

    def _fresh(self, name: str, parameter: Tensor, options: Mapping[str, Any]) -> Tensor:
        shape = list(parameter.shape)
        if name != "variance":
            shape[-1 if name == "row_var" else -2] = 1
        return lm.zeros(tuple(shape), dtype=parameter.dtype)

    def _prepare(self, group: ParamGroup, step: Tensor) -> tuple[Tensor, ...]:
        count = step.astype(lm.float64)
        rate = lm.minimum(group.number("lr"), 1.0 / lm.sqrt(count))
        return count ** group.number("beta2_decay"), rate

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], group: ParamGroup,
        shared: tuple[Tensor, ...],
    ) -> Tensor:  # fmt: skip
        dtype, (share, rate) = parameter.dtype, shared
        least, small = (_number(each, dtype) for each in _eps(group, dtype))
        size = lm.maximum(small, _rms(parameter)) * rate.astype(dtype)
        if group["weight_decay"] != 0:
            kept = 1.0 - group.number("lr") * group.number("weight_decay")
            parameter = parameter * kept.astype(dtype)
        moment = _second_moment(gradient, state, share.astype(dtype), least)
        update = gradient * lm.rsqrt(lm.maximum(moment, least * least))
        longest = lm.maximum(1.0, _rms(update) / group.number("d").astype(dtype))
        return parameter - size / longest * update


def _eps(group: ParamGroup, dtype: Any) -> tuple[Any, Any]:
    if group["eps"][0] is None:
        return lm.finfo(dtype).eps, group["eps"][1]
    least, small = group.numbers("eps")
    return least, small


def _number(value: Any, dtype: Any) -> Tensor:
    return lm.asarray(value, dtype=dtype)


def _rms(x: Tensor) -> Tensor:
    return lm.sqrt((x * x).mean())


def _second_moment(
    gradient: Tensor, state: dict[str, Tensor], share: Tensor, least: Tensor
) -> Tensor:
    """The estimate after this gradient, whose parts are kept."""
    square = gradient * gradient
    if "variance" in state:
        whole = state["variance"]
        whole.rebind((whole + (square - whole) * share).node)
        return whole
    row, column = state["row_var"], state["col_var"]
    row.rebind((row + (square.mean(-1, keepdims=True) - row) * share).node)
    column.rebind((column + (square.mean(-2, keepdims=True) - column) * share).node)
    return row * column / lm.maximum(row.mean(-2, keepdims=True), least)
