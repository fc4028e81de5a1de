"""Pooling over windows of ``(N, C, *spatial)`` (or without ``N``): maximum, average, and average to
a given size.

Where several elements of a window are the maximum they share its gradient equally.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import lamella as lm
from lamella import ops
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.support import check_rank, per_axis, record, tensor
from lamella.tensor.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d",
]  # fmt: skip

Sizes = int | Sequence[int]


class _Windows:
    """Checked sizes of a pooling: kernel, stride, padding and dilation per axis, and what
    ``ceil_mode`` adds.
    """

    def __init__(
        self, op: str, x: Tensor, rank: int, kernel: Sizes, stride: Sizes | None, padding: Sizes,
        dilation: Sizes,
        ceil_mode: bool,
    ) -> None:  # fmt: skip
        check_rank(op, x, (rank + 1, rank + 2), "(N, C, *spatial) or (C, *spatial)")
        self.rank = rank
        self.kernel = per_axis(op, "kernel_size", kernel, rank, 1)
        self.stride = self.kernel if stride is None else per_axis(op, "stride", stride, rank, 1)
        self.padding = per_axis(op, "padding", padding, rank, 0)
        self.dilation = per_axis(op, "dilation", dilation, rank, 1)
        if any(2 * p > k for p, k in zip(self.padding, self.kernel, strict=True)):
            raise OptionError(
                f"[{op}] padding={padding!r} is more than half of kernel_size={kernel!r}, so "
                "windows would hold nothing; use less padding or lm.nn.functional.pad"
            )
        self.extra = [self._extra(op, x, axis) if ceil_mode else 0 for axis in range(rank)]
        self._check(op, x)

    def _reach(self, axis: int) -> int:
        return self.dilation[axis] * (self.kernel[axis] - 1) + 1

    def _extra(self, op: str, x: Tensor, axis: int) -> int:
        """High padding that lets a last partial window in, unless it would begin in the padding."""
        size = x.shape[axis - self.rank]
        low, step = self.padding[axis], self.stride[axis]
        free = size + 2 * low - self._reach(axis)
        last = -(-free // step) * step
        return max(last - free, 0) if last < size + low else 0

    def _check(self, op: str, x: Tensor) -> None:
        for axis in range(self.rank):
            size = x.shape[axis - self.rank]
            if isinstance(size, int) and size + 2 * self.padding[axis] + self.extra[
                axis
            ] < self._reach(axis):
                raise ShapeError(
                    f"[{op}] input of shape {tuple(x.shape)} is smaller than the window "
                    f"{self.kernel} on axis {axis - self.rank}; use a smaller window or more "
                    "padding"
                )

    @property
    def tiles(self) -> bool:
        """Whether the windows lie side by side, so that a reshape shows them."""
        return (
            self.stride == self.kernel
            and not any(self.padding)
            and not any(self.extra)
            and set(self.dilation) == {1}
        )

    def of(self, x: Tensor, fill: float) -> tuple[Tensor, tuple[int, ...]]:
        """The windows as extra axes, and which axes those are."""
        lead, spatial = x.shape[: -self.rank], x.shape[-self.rank :]
        if self.tiles:
            counts = [size // k for size, k in zip(spatial, self.kernel, strict=True)]
            kept = tuple(slice(0, n * k) for n, k in zip(counts, self.kernel, strict=True))
            if any(n * k != size for n, k, size in zip(counts, self.kernel, spatial, strict=True)):
                x = x[(..., *kept)]
            split = [part for n, k in zip(counts, self.kernel, strict=True) for part in (n, k)]
            return x.reshape((*lead, *split)), tuple(
                len(lead) + 2 * axis + 1 for axis in range(self.rank)
            )
        if any(self.padding) or any(self.extra):
            ends = [(p, p + e) for p, e in zip(self.padding, self.extra, strict=True)]
            x = lm.pad(x, [(0, 0)] * len(lead) + ends, constant_values=fill)
        seen = record(
            ops.window, x, sizes=self.kernel, strides=self.stride, dilations=self.dilation
        )
        return seen, tuple(range(-self.rank, 0))


def _max_pool(
    rank: int,
    x: Any,
    kernel: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
) -> Tensor:
    x = tensor(x)
    windows = _Windows(f"max_pool{rank}d", x, rank, kernel, stride, padding, dilation, ceil_mode)
    lowest = float("-inf") if x.dtype.is_floating else lm.iinfo(x.dtype).min
    seen, axes = windows.of(x, lowest)
    return seen.max(axes)


def max_pool1d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes =
    1,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """The maximum of each window of ``(N, C, L)``.

    Args:
        x: the input.
        kernel_size: the window's size.
        stride: the step between windows (default: its size).
        padding: -inf on both ends, at most half a window.
        dilation: the step inside a window.
        ceil_mode: whether to keep a last window that is partly outside.

    Raises:
        ShapeError: if axes do not fit or the window is larger than the input.
        OptionError: for a size out of range.

    >>> max_pool1d(lm.asarray([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
    [[[3.0, 2.0]]]
    """
    return _max_pool(1, x, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes =
    1,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """The maximum of each window of ``(N, C, H, W)``; arguments as in :func:`max_pool1d`.

    >>> max_pool2d(lm.ones((1, 1, 4, 4)), 2).shape
    (1, 1, 2, 2)
    """
    return _max_pool(2, x, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes =
    1,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """The maximum of each window of ``(N, C, D, H, W)``; arguments as in :func:`max_pool1d`.

    >>> max_pool3d(lm.ones((1, 1, 2, 2, 2)), 2).shape
    (1, 1, 1, 1, 1)
    """
    return _max_pool(3, x, kernel_size, stride, padding, dilation, ceil_mode)


def _avg_pool(
    rank: int,
    x: Any,
    kernel: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    ceil_mode: bool,
    count_padding: bool,
) -> Tensor:
    x = tensor(x)
    windows = _Windows(f"avg_pool{rank}d", x, rank, kernel, stride, padding, 1, ceil_mode)
    seen, axes = windows.of(x, 0.0)
    total = seen.sum(axes)
    if not any(windows.extra) and (count_padding or not any(windows.padding)):
        return total / float(np.prod(windows.kernel))
    return total / _counts(windows, x, count_padding)


def _counts(windows: _Windows, x: Tensor, count_padding: bool) -> Tensor:
    """How many elements each window averages: the input's, and the padding's if they count."""
    counts = np.ones((), np.float64)
    for axis, size in enumerate(x.shape[-windows.rank :]):
        low, extra = windows.padding[axis], windows.extra[axis]
        inside = np.full(size + 2 * low + extra, count_padding, np.float64)
        inside[low : low + size] = 1
        inside[size + 2 * low :] = 0
        seen = np.lib.stride_tricks.sliding_window_view(inside, windows.kernel[axis])[
            :: windows.stride[axis]
        ]
        counts = counts[..., None] * seen.sum(-1)
    return lm.asarray(counts.astype(x.dtype.numpy))


def avg_pool1d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool =
    False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of each window of ``(N, C, L)``; arguments as in :func:`max_pool1d`.

    ``count_include_pad`` says whether the padding's zeros count as elements.

    >>> avg_pool1d(lm.asarray([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
    [[[2.0, 1.0]]]
    """
    return _avg_pool(1, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool =
    False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of each window of ``(N, C, H, W)``; arguments as in :func:`avg_pool1d`.

    >>> avg_pool2d(lm.ones((1, 1, 4, 4)), 2).shape
    (1, 1, 2, 2)
    """
    return _avg_pool(2, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool3d(
    x: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool =
    False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of each window of ``(N, C, D, H, W)``; arguments as in :func:`avg_pool1d`.

    >>> avg_pool3d(lm.ones((1, 1, 2, 2, 2)), 2).shape
    (1, 1, 1, 1, 1)
    """
    return _avg_pool(3, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


def _averaging(size: int, count: int, dtype: Any) -> Tensor:
    """The matrix ``(size, count)`` whose column ``i`` averages ``floor(i s / c) … ceil((i + 1) s /
    c) - 1``.
    """
    matrix = np.zeros((size, count))
    for i in range(count):
        low, high = i * size // count, -(-(i + 1) * size // count)
        matrix[low:high, i] = 1 / (high - low)
    return lm.asarray(matrix.astype(dtype.numpy))


def _adaptive(rank: int, x: Any, output_size: Any) -> Tensor:
    op = f"adaptive_avg_pool{rank}d"
    x = tensor(x)
    check_rank(op, x, (rank + 1, rank + 2), "(N, C, *spatial) or (C, *spatial)")
    wanted = (
        (output_size,) * rank
        if output_size is None or isinstance(output_size, int)
        else tuple(output_size)
    )
    spatial = x.shape[-rank:]
    counts = per_axis(
        op,
        "output_size",
        [s if w is None else w for s, w in zip(spatial, wanted, strict=len(wanted) == rank)],
        rank,
        1,
    )
    if set(counts) == {1}:
        return x.mean(tuple(range(-rank, 0)), keepdims=True)
    for axis, count in enumerate(counts, start=x.ndim - rank):
        size = x.shape[axis]
        if size % count == 0:
            shape = (*x.shape[:axis], count, size // count, *x.shape[axis + 1 :])
            x = x.reshape(shape).mean(axis + 1) if size != count else x
        else:
            x = lm.moveaxis(
                lm.matmul(lm.moveaxis(x, axis, -1), _averaging(size, count, x.dtype)), -1, axis
            )
    return x


def adaptive_avg_pool1d(x: Any, output_size: Sizes) -> Tensor:
    """Average ``(N, C, L)`` to ``output_size`` elements.

    >>> adaptive_avg_pool1d(lm.asarray([[[1.0, 3.0, 2.0, 0.0]]]), 1).tolist()
    [[[1.5]]]
    """
    return _adaptive(1, x, output_size)


def adaptive_avg_pool2d(x: Any, output_size: Any) -> Tensor:
    """Average ``(N, C, H, W)`` to the given height and width (None keeps one).

    >>> adaptive_avg_pool2d(lm.ones((1, 2, 7, 5)), (3, 2)).shape
    (1, 2, 3, 2)
    """
    return _adaptive(2, x, output_size)


def adaptive_avg_pool3d(x: Any, output_size: Any) -> Tensor:
    """Average ``(N, C, D, H, W)`` to the given sizes (None keeps one).

    >>> adaptive_avg_pool3d(lm.ones((1, 2, 4, 4, 4)), 2).shape
    (1, 2, 2, 2, 2)
    """
    return _adaptive(3, x, output_size)
