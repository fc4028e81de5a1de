"""Putting maxima back where they came from: the partial inverse of max pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.embedding import checked_classes
from lamella.nn.functional.support import check_integer, check_rank, per_axis, tensor
from lamella.tensor.tensor import Tensor

__all__ = ["max_unpool1d", "max_unpool2d", "max_unpool3d"]

Sizes = int | Sequence[int]


def _output_size(
    op: str, x: Tensor, rank: int, kernel: Sizes, stride: Sizes | None, padding: Sizes, wanted: Any
) -> tuple[int, ...]:
    """The size of each spatial axis before pooling."""
    window = per_axis(op, "kernel_size", kernel, rank, 1)
    steps = window if stride is None else per_axis(op, "stride", stride, rank, 1)
    ends = per_axis(op, "padding", padding, rank, 0)
    usual = [
        (size - 1) * step - 2 * end + k
        for size, step, end, k in zip(x.shape[-rank:], steps, ends, window, strict=True)
    ]
    if wanted is None:
        return tuple(usual)
    sizes = tuple(wanted)
    sizes = sizes[-rank:] if len(sizes) in (rank + 1, rank + 2) else sizes
    near = len(sizes) == rank and all(
        usual_size - step < size < usual_size + step
        for size, usual_size, step in zip(sizes, usual, steps, strict=True)
    )
    if not near:
        raise OptionError(
            f"[{op}] output_size={wanted!r} cannot be pooled to {tuple(x.shape[-rank:])}; it "
            f"differs from {tuple(usual)} by less than the stride {steps} in each axis"
        )
    return sizes


def _max_unpool(
    rank: int, input: Any, indices: Any, kernel: Sizes, stride: Sizes | None, padding: Sizes,
    output_size: Any,
) -> Tensor:  # fmt: skip
    op = f"max_unpool{rank}d"
    x, places = tensor(input), tensor(indices)
    check_rank(op, x, (rank + 1, rank + 2), "(N, C, *spatial) or (C, *spatial)")
    check_integer(op, places, "indices")
    if tuple(x.shape) != tuple(places.shape):
        raise ShapeError(
            f"[{op}] maxima of shape {tuple(x.shape)} with indices of shape "
            f"{tuple(places.shape)}; give the two that max_pool{rank}d returned"
        )
    sizes = _output_size(op, x, rank, kernel, stride, padding, output_size)
    lead, count = x.shape[:-rank], math.prod(x.shape[-rank:])
    empty = lm.zeros((*lead, math.prod(sizes)), dtype=x.dtype)
    at = checked_classes(places.reshape((*lead, count)), math.prod(sizes))
    filled = lm.put_along_axis(empty, at, x.reshape((*lead, count)), -1)
    return filled.reshape((*lead, *sizes))


def max_unpool1d(
    input: Any, indices: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    output_size: Any = None,
) -> Tensor:  # fmt: skip
    """Maxima ``(N, C, L)`` at their places among zeros (Zeiler et al., 2011).

    Args:
        input: the maxima.
        indices: where they were, from ``max_pool1d(…, return_indices=True)``.
        kernel_size: that pooling's.
        stride: that pooling's (default: its kernel).
        padding: that pooling's.
        output_size: the size before pooling, where several sizes give the same.

    Raises:
        ShapeError: if the shapes differ.
        OptionError: if ``output_size`` is no size that pools to the input's.
        LamellaIndexError: when the result is computed, if an index is outside it.

    >>> x = lm.asarray([[[1.0, 3.0, 2.0, 0.0]]])
    >>> maxima, indices = lm.nn.functional.max_pool1d(x, 2, return_indices=True)
    >>> max_unpool1d(maxima, indices, 2).tolist()
    [[[0.0, 3.0, 2.0, 0.0]]]
    """
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Any, indices: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    output_size: Any = None,
) -> Tensor:  # fmt: skip
    """:func:`max_unpool1d` for ``(N, C, H, W)``.

    >>> max_unpool2d(lm.ones((1, 1, 1, 1)), lm.asarray([[[[3]]]]), 2).tolist()
    [[[[0.0, 0.0], [0.0, 1.0]]]]
    """
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Any, indices: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    output_size: Any = None,
) -> Tensor:  # fmt: skip
    """:func:`max_unpool1d` for ``(N, C, D, H, W)``.

    >>> max_unpool3d(lm.ones((1, 1, 1, 1, 1)), lm.asarray([[[[[7]]]]]), 2).shape
    (1, 1, 2, 2, 2)
    """
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
