"""Pooling to a given size: average, maximum, and maximum over windows at random places.

The window of output ``i`` of ``c`` over an axis of ``s`` elements is ``floor(i s / c) …
ceil((i + 1) s / c) - 1``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.pooling import at_indices, max_pool1d, max_pool2d, max_pool3d
from lamella.nn.functional.support import check_rank, per_axis, tensor
from lamella.tensor.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "fractional_max_pool2d", "fractional_max_pool3d",
]  # fmt: skip

Sizes = int | Sequence[int]


def _bounds(size: int, count: int) -> list[tuple[int, int]]:
    """Begin and end of every window."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _averaging(size: int, count: int, dtype: Any) -> Tensor:
    """The matrix ``(size, count)`` whose column ``i`` averages the window of output ``i``."""
    matrix = np.zeros((size, count))
    for i, (low, high) in enumerate(_bounds(size, count)):
        matrix[low:high, i] = 1 / (high - low)
    return lm.asarray(matrix.astype(dtype.numpy))


def _counts(op: str, x: Tensor, rank: int, output_size: Any) -> tuple[int, ...]:
    """The wanted size of each spatial axis (None: the size it has)."""
    check_rank(op, x, (rank + 1, rank + 2), "(N, C, *spatial) or (C, *spatial)")
    one = output_size is None or isinstance(output_size, int)
    wanted = (output_size,) * rank if one else tuple(output_size)
    if len(wanted) != rank:
        raise OptionError(f"[{op}] output_size={output_size!r}; give {rank} sizes, or one for all")
    sizes = [s if w is None else w for s, w in zip(x.shape[-rank:], wanted, strict=True)]
    return per_axis(op, "output_size", sizes, rank, 1)


def _adaptive_avg(rank: int, input: Any, output_size: Any) -> Tensor:
    x = tensor(input)
    counts = _counts(f"adaptive_avg_pool{rank}d", x, rank, output_size)
    if set(counts) == {1}:
        return x.mean(tuple(range(-rank, 0)), keepdims=True)
    for axis, count in enumerate(counts, start=x.ndim - rank):
        size = x.shape[axis]
        if size % count == 0:
            shape = (*x.shape[:axis], count, size // count, *x.shape[axis + 1 :])
            x = x.reshape(shape).mean(axis + 1) if size != count else x
        else:
            matrix = _averaging(size, count, x.dtype)
            x = lm.moveaxis(lm.matmul(lm.moveaxis(x, axis, -1), matrix), -1, axis)
    return x


def adaptive_avg_pool1d(input: Any, output_size: Any) -> Tensor:
    """Average ``(N, C, L)`` to ``output_size`` elements.

    >>> adaptive_avg_pool1d(lm.asarray([[[1.0, 3.0, 2.0, 0.0]]]), 1).tolist()
    [[[1.5]]]
    """
    return _adaptive_avg(1, input, output_size)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Tensor:
    """Average ``(N, C, H, W)`` to the given height and width (None keeps one).

    >>> adaptive_avg_pool2d(lm.ones((1, 2, 7, 5)), (3, 2)).shape
    (1, 2, 3, 2)
    """
    return _adaptive_avg(2, input, output_size)


def adaptive_avg_pool3d(input: Any, output_size: Any) -> Tensor:
    """Average ``(N, C, D, H, W)`` to the given sizes (None keeps one).

    >>> adaptive_avg_pool3d(lm.ones((1, 2, 4, 4, 4)), 2).shape
    (1, 2, 2, 2, 2)
    """
    return _adaptive_avg(3, input, output_size)


def _joined(parts: Sequence[Any], sizes: Sequence[int], library: Any) -> Any:
    """Positions ``(*lead, count, taps)`` per axis as flat ones ``(*lead, *counts, taps^rank)``."""
    rank = len(parts)
    lead = parts[0].shape[:-2]
    flat: Any = 0
    for axis, places in enumerate(parts):
        count, taps = places.shape[-2:]
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = count, taps
        flat = flat + places.reshape((*lead, *shape)) * math.prod(sizes[axis + 1 :])
    counts = [places.shape[-2] for places in parts]
    return library.reshape(flat, (*lead, *counts, math.prod(p.shape[-1] for p in parts)))


def _maxima(x: Tensor, places: Tensor, rank: int, return_indices: bool) -> Any:
    """The maximum over the last axis of positions ``(*out, taps)``, the same in all planes, or
    ``(*lead, *out, taps)``.
    """
    lead, sizes = x.shape[:-rank], places.shape[-rank - 1 :]
    flat = x.reshape((*lead, math.prod(x.shape[-rank:])))
    whole = lm.broadcast_to(places, (*lead, *sizes))
    seen = lm.take_along_axis(flat, whole.reshape((*lead, math.prod(sizes))), -1)
    best = seen.reshape((*lead, *sizes)).detach().argmax(-1, keepdims=True)
    found = at_indices(x, lm.take_along_axis(whole, best, -1)[..., 0], rank)
    return found if return_indices else found[0]


def _adaptive_max(rank: int, input: Any, output_size: Any, return_indices: bool) -> Any:
    x = tensor(input)
    counts = _counts(f"adaptive_max_pool{rank}d", x, rank, output_size)
    sizes = [int(size) for size in x.shape[-rank:]]
    if 0 in sizes:
        raise ShapeError(
            f"[adaptive_max_pool{rank}d] input of shape {tuple(x.shape)} has no elements to choose "
            "from; give spatial axes of 1 or more"
        )
    pairs = list(zip(sizes, counts, strict=True))
    if not return_indices and all(size % count == 0 for size, count in pairs):
        pool = (max_pool1d, max_pool2d, max_pool3d)[rank - 1]
        return pool(x, tuple(size // count for size, count in pairs))
    parts = []
    for size, count in pairs:
        bounds = _bounds(size, count)
        taps = max(high - low for low, high in bounds)
        # A shorter window repeats its last element, which changes no maximum.
        parts.append(
            np.array([[min(low + t, high - 1) for t in range(taps)] for low, high in bounds])
        )
    return _maxima(x, lm.asarray(_joined(parts, sizes, np)), rank, return_indices)


def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of ``output_size`` windows of ``(N, C, L)``.

    Args:
        input: the input.
        output_size: how many windows, one number per axis or one for all; None keeps a size.
        return_indices: whether to return ``(maxima, indices)`` as :func:`max_pool1d` does.

    Raises:
        ShapeError: if axes do not fit or are empty.
        OptionError: for a size out of range.

    >>> adaptive_max_pool1d(lm.asarray([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
    [[[3.0, 2.0]]]
    """
    return _adaptive_max(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of windows of ``(N, C, H, W)``; arguments as in :func:`adaptive_max_pool1d`.

    >>> adaptive_max_pool2d(lm.ones((1, 2, 7, 5)), (3, None)).shape
    (1, 2, 3, 5)
    """
    return _adaptive_max(2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of windows of ``(N, C, D, H, W)``; arguments as in :func:`adaptive_max_pool1d`.

    >>> adaptive_max_pool3d(lm.ones((1, 2, 4, 4, 4)), 2).shape
    (1, 2, 2, 2, 2)
    """
    return _adaptive_max(3, input, output_size, return_indices)


def _random_windows(samples: Tensor, size: int, count: int, taps: int) -> Tensor:
    """Positions ``(N, C, count, taps)`` of windows whose steps vary, from samples ``(N, C)``."""
    step = (size - taps) / (count - 1) if count > 1 else 0.0
    sample = samples[..., None]
    places = (sample + lm.arange(count)) * step
    begins = lm.floor(places) - lm.floor(sample * step)
    begins = lm.where(lm.arange(count) == count - 1, size - taps, begins).astype(lm.int64)
    return begins[..., None] + lm.arange(taps)


def _fractional(
    rank: int, input: Any, kernel_size: Sizes, output_size: Any, output_ratio: Any,
    return_indices: bool, samples: Any,
) -> Any:  # fmt: skip
    op = f"fractional_max_pool{rank}d"
    x = tensor(input)
    check_rank(op, x, (rank + 1, rank + 2), "(N, C, *spatial) or (C, *spatial)")
    if (output_size is None) == (output_ratio is None):
        raise OptionError(f"[{op}] give either output_size or output_ratio")
    sizes = [int(size) for size in x.shape[-rank:]]
    if output_size is None:
        ratios = (output_ratio,) * rank if isinstance(output_ratio, float) else tuple(output_ratio)
        if len(ratios) != rank or not all(0 < ratio < 1 for ratio in ratios):
            raise OptionError(
                f"[{op}] output_ratio={output_ratio!r}; give {rank} numbers between 0 and 1"
            )
        output_size = [int(size * ratio) for size, ratio in zip(sizes, ratios, strict=True)]
    counts = per_axis(op, "output_size", output_size, rank, 1)
    kernel = per_axis(op, "kernel_size", kernel_size, rank, 1)
    if any(o + k - 1 > s for o, k, s in zip(counts, kernel, sizes, strict=True)):
        raise ShapeError(
            f"[{op}] {counts} windows of {kernel} do not fit in an input of shape "
            f"{tuple(x.shape)}; ask for fewer or smaller ones"
        )
    if x.ndim == rank + 1:
        found = _fractional(rank, x[None], kernel, counts, None, return_indices, samples)
        return tuple(each[0] for each in found) if return_indices else found[0]
    drawn = lm.random.uniform((*x.shape[:2], rank)) if samples is None else tensor(samples)
    order = range(rank) if rank == 3 else reversed(range(rank))  # PyTorch's axis of each sample
    parts = [
        _random_windows(drawn[..., which], size, count, taps)
        for which, size, count, taps in zip(order, sizes, counts, kernel, strict=True)
    ]
    return _maxima(x, _joined(parts, sizes, lm), rank, return_indices)


def fractional_max_pool2d(
    input: Any, kernel_size: Sizes, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """The maxima of windows of ``(N, C, H, W)`` at pseudo-random places (Graham, 2014).

    Args:
        input: the input.
        kernel_size: the window's size.
        output_size: how many windows per axis, or
        output_ratio: the output's size as a share of the input's, between 0 and 1.
        return_indices: whether to return ``(maxima, indices)`` as :func:`max_pool2d` does.
        _random_samples: ``(N, C, 2)`` numbers in [0, 1) to use instead of drawing them.

    Raises:
        ShapeError: if the windows do not fit.
        OptionError: unless one of ``output_size`` and ``output_ratio`` is given.

    >>> fractional_max_pool2d(lm.ones((1, 2, 8, 8)), 2, output_ratio=0.7).shape
    (1, 2, 5, 5)
    """
    return _fractional(
        2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


def fractional_max_pool3d(
    input: Any, kernel_size: Sizes, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """:func:`fractional_max_pool2d` of ``(N, C, D, H, W)``, with samples ``(N, C, 3)``.

    >>> fractional_max_pool3d(lm.ones((1, 2, 4, 4, 4)), 2, output_size=3).shape
    (1, 2, 3, 3, 3)
    """
    return _fractional(
        3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )
