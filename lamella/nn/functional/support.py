"""What the functions here share: conversion of arguments, recording of primitives, sizes per axis,
checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import lamella as lm
from lamella.errors import DTypeError, OptionError, ShapeError, did_you_mean
from lamella.ir.node import Node
from lamella.tensor.core import node_of, wrap
from lamella.tensor.tensor import Tensor

__all__ = ["check_float", "check_rank", "choose", "per_axis", "record", "reduce_loss", "tensor"]


def tensor(value: Any) -> Tensor:
    """``value`` as a tensor; a tensor is returned as it is.

    Arrays are copied, as operators copy theirs: results are computed later, and an array that is
    filled again for the next batch must not change them.
    """
    return value if isinstance(value, Tensor) else lm.asarray(value, copy=True)


def record(builder: Callable[..., Node], *inputs: Tensor, **fields: Any) -> Tensor:
    """The result of a primitive's builder applied to tensors."""
    return wrap(builder(*(node_of(each) for each in inputs), **fields))


def per_axis(
    op: str, name: str, value: int | Sequence[int], rank: int, least: int
) -> tuple[int, ...]:
    """One whole number per spatial axis, each at least ``least``.

    Raises:
        OptionError: if ``value`` is something else.

    >>> per_axis("conv2d", "stride", 2, 2, 1)
    (2, 2)
    """
    values = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(values) != rank or any(
        not isinstance(v, int) or isinstance(v, bool) or v < least for v in values
    ):
        raise OptionError(
            f"[{op}] {name}={value!r} is not a whole number >= {least} or {rank} of them; give one "
            "per spatial axis"
        )
    return values


def choose(op: str, name: str, value: str, known: Sequence[str]) -> str:
    """``value`` if it is among ``known``.

    Raises:
        OptionError: if it is not.
    """
    if value not in known:
        raise OptionError(f"[{op}] {name}={value!r} is unknown; {did_you_mean(str(value), known)}")
    return value


def check_rank(op: str, x: Tensor, ranks: Sequence[int], layout: str) -> None:
    """Raise ShapeError unless ``x`` has one of the numbers of axes."""
    if x.ndim not in ranks:
        raise ShapeError(
            f"[{op}] got shape {tuple(x.shape)} with {x.ndim} axes, but the input is {layout}; add "
            "or remove axes with unsqueeze, reshape or indexing"
        )


def check_float(op: str, x: Tensor) -> None:
    """Raise DTypeError unless ``x`` is floating point."""
    if not x.dtype.is_floating:
        raise DTypeError(
            f"[{op}] got {x.dtype.name}, but computes in floating point; cast it with "
            ".astype(lm.float32)"
        )


def reduce_loss(op: str, losses: Tensor, reduction: str) -> Tensor:
    """The mean, the sum or all of the losses."""
    choose(op, "reduction", reduction, ("mean", "sum", "none"))
    if reduction == "mean":
        return losses.mean()
    return losses.sum() if reduction == "sum" else losses
