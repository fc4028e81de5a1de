"""What the functions here share: conversion of arguments, recording of primitives, sizes per axis,
checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import lamella as lm
from lamella.errors import DTypeError, OptionError, ShapeError, did_you_mean
from lamella.ir.node import Node
from lamella.tensor.core import node_of, wrap
from lamella.tensor.tensor import Tensor

__all__ = [
    "check_float", "check_integer", "check_probability", "check_rank", "choose", "in_place",
    "matching", "per_axis", "record", "reduce_loss", "tensor", "wide_of",
]  # fmt: skip


def tensor(value: Any) -> Tensor:
    """``value`` as a tensor; a tensor is returned as it is.

    Arrays are copied, as operators copy theirs: results are computed later, and an array that is
    filled again for the next batch must not change them.
    """
    return value if isinstance(value, Tensor) else lm.asarray(value, copy=True)


def in_place(op: str, input: Any, result: Tensor, wanted: bool) -> Tensor:
    """``result``; if ``wanted``, ``input`` stands for it from now on, and is returned.

    Raises:
        OptionError: if ``input`` is no tensor.
        GradientError: for a leaf that requires a gradient, outside ``no_grad``.
    """
    if not wanted:
        return result
    if not isinstance(input, Tensor):
        raise OptionError(
            f"[{op}] inplace=True with a {type(input).__name__}, which cannot become the result; "
            "pass a tensor, or leave inplace out"
        )
    input.rebind(node_of(result))
    return input


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
    given: tuple[object, ...] = tuple(value) if isinstance(value, Sequence) else (value,) * rank
    values = tuple(int(v) for v in given if isinstance(v, (int, np.integer)))
    whole = len(values) == len(given) == rank and not any(isinstance(v, bool) for v in given)
    if not whole or any(v < least for v in values):
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


def check_integer(op: str, x: Tensor, what: str) -> None:
    """Raise DTypeError unless ``x`` holds integers."""
    if not x.dtype.is_integer:
        raise DTypeError(
            f"[{op}] {what} are {x.dtype.name}, but must be integers; cast them with "
            ".astype(lm.int64)"
        )


def wide_of(x: Tensor) -> Tensor:
    """Floats of 16 bits as float32, whose range has their squares and sums; others as they are."""
    return x.astype(lm.float32) if x.dtype.is_floating and x.dtype.bits < 32 else x


def check_probability(op: str, p: float) -> None:
    """Raise OptionError unless ``0 <= p <= 1``."""
    if not 0 <= p <= 1:
        raise OptionError(f"[{op}] p={p} is no probability; give one from 0 to 1")


def matching(op: str, *inputs: Any) -> tuple[Tensor, ...]:
    """The inputs as tensors of one shape.

    Raises:
        ShapeError: if the shapes differ.
    """
    tensors = tuple(map(tensor, inputs))
    if len({tuple(each.shape) for each in tensors}) > 1:
        shapes = " and ".join(str(tuple(each.shape)) for each in tensors)
        raise ShapeError(
            f"[{op}] shapes {shapes} of prediction and target differ, and broadcasting them would "
            "average over pairs that do not belong together; reshape one of them"
        )
    return tensors


def reduce_loss(op: str, losses: Tensor, reduction: str) -> Tensor:
    """The mean, the sum or all of the losses."""
    choose(op, "reduction", reduction, ("mean", "sum", "none"))
    if reduction == "mean":
        return losses.mean()
    return losses.sum() if reduction == "sum" else losses
