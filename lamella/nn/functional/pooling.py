"""Pooling over windows of ``(N, C, *spatial)`` (or without ``N``): maximum, average, power mean.

Where several elements of a window are the maximum the first has its gradient, as in PyTorch: the
maximum is then read at its position, so that a derivative writes one element a window. Without
gradients (``lm.no_grad``) it is a reduction, which is faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import lamella as lm
from lamella import ops
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.distance import root
from lamella.nn.functional.support import check_rank, per_axis, record, tensor
from lamella.tensor.core import node_of, wrap
from lamella.tensor.tensor import Tensor

__all__ = [
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d",
    "max_pool2d", "max_pool3d",
]  # fmt: skip

Sizes = int | Sequence[int]
_FEW_TAPS = 32


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
        if self.tiles and all(isinstance(size, int) for size in spatial):
            counts = [size // k for size, k in zip(spatial, self.kernel, strict=True)]
            kept = tuple(slice(0, n * k) for n, k in zip(counts, self.kernel, strict=True))
            if any(n * k != size for n, k, size in zip(counts, self.kernel, spatial, strict=True)):
                x = x[(..., *kept)]
            split = [part for n, k in zip(counts, self.kernel, strict=True) for part in (n, k)]
            return x.reshape((*lead, *split)), tuple(
                len(lead) + 2 * axis + 1 for axis in range(self.rank)
            )
        if any(self.padding) or any(self.extra):
            x = self._padded(x, fill)
        seen = record(
            ops.window, x, sizes=self.kernel, strides=self.stride, dilations=self.dilation
        )
        return seen, tuple(range(-self.rank, 0))


    def _padded(self, x: Tensor, fill: float) -> Tensor:
        """The input with a constant around it, which the compiler knows and leaves out of loops."""
        node = node_of(x)
        none = (0,) * (x.ndim - self.rank)
        high = (p + e for p, e in zip(self.padding, self.extra, strict=True))
        value = ops.constant(fill, x.dtype)
        return wrap(ops.pad(node, (*none, *self.padding), (*none, *high), value))


def _max_pool(
    rank: int, input: Any, kernel: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes,
    ceil_mode: bool, return_indices: bool,
) -> Any:  # fmt: skip
    x = tensor(input)
    windows = _Windows(f"max_pool{rank}d", x, rank, kernel, stride, padding, dilation, ceil_mode)
    lowest = float("-inf") if x.dtype.is_floating else lm.iinfo(x.dtype).min
    differentiated = lm.is_grad_enabled() and x.dtype.is_floating
    fixed = all(isinstance(size, int) for size in x.shape[-rank:])
    if not return_indices and not (differentiated and fixed):
        seen, axes = windows.of(x, lowest)
        if not differentiated:
            return seen.max(axes)
        return _first_of(lm.moveaxis(seen, axes, tuple(range(-rank, 0))), rank)
    seen, axes = windows.of(x.detach(), lowest)
    taps = lm.moveaxis(seen, axes, tuple(range(-rank, 0)))
    found = at_indices(x, _first_maxima(windows, x, taps, lowest), rank)
    return found if return_indices else found[0]


def _first_of(seen: Tensor, rank: int) -> Tensor:
    """The maxima of windows over the last ``rank`` axes; the derivative is that of the first."""
    flat = seen.reshape((*seen.shape[:-rank], math.prod(seen.shape[-rank:])))
    best = flat.detach().argmax(-1, keepdims=True)
    return lm.take_along_axis(flat, best, -1)[..., 0]


def _first_maxima(windows: _Windows, x: Tensor, taps: Tensor, lowest: float) -> Tensor:
    """The position of the first maximum of each window ``(*, *kernel)`` in the flattened spatial
    axes of ``x``; NaN is the largest. A window of nothing but ``lowest`` has its first element.
    """
    rank = windows.rank
    afters = [math.prod(x.shape[x.ndim - rank + axis + 1 :]) for axis in range(rank)]
    begin: Any = 0
    inside: Any = 0
    for axis, after in enumerate(afters):
        step = windows.dilation[axis]
        places = lm.arange(taps.shape[axis - 2 * rank]).reshape((-1,) + (1,) * (rank - 1 - axis))
        start = places * windows.stride[axis] - windows.padding[axis]
        begin = begin + start * after
        missed = lm.maximum(-start, 0)
        inside = inside + (missed if step == 1 else -(-missed // step) * step) * after
    offsets = [
        sum(i * d * after for i, d, after in zip(place, windows.dilation, afters, strict=True))
        for place in np.ndindex(*windows.kernel)
    ]
    top, offset = _first_maximum(taps, windows.kernel, offsets)
    if any(windows.padding):
        offset = lm.where(top == lowest, inside, offset)
    return begin + offset  # type: ignore[no-any-return]


def _first_maximum(
    taps: Tensor, kernel: Sequence[int], offsets: Sequence[Any]
) -> tuple[Tensor, Tensor]:
    """The maximum over the taps ``(*, *kernel)``, and the offset of the first tap that has it.

    A comparison a tap, side by side for many windows, as long as there are few taps.
    """
    if len(offsets) > _FEW_TAPS:
        flat = taps.reshape((*taps.shape[: -len(kernel)], len(offsets)))
        return flat.max(-1), lm.take(lm.asarray(np.array(offsets)), flat.argmax(-1))
    top = taps[(..., *(0,) * len(kernel))]
    chosen = lm.zeros(top.shape, dtype=lm.int64)
    for place, offset in zip(np.ndindex(*kernel), offsets, strict=True):
        tap = taps[(..., *place)]
        larger = (tap > top) | lm.isnan(tap) if tap.dtype.is_floating else tap > top
        top, chosen = lm.where(larger, tap, top), lm.where(larger, offset, chosen)
    return top, chosen


def at_indices(x: Tensor, indices: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The elements of ``x (*, *spatial)`` at positions ``(*, *out)`` in its flattened spatial axes,
    and these positions.
    """
    lead = x.shape[:-rank]
    flat = x.reshape((*lead, math.prod(x.shape[-rank:])))
    found = lm.take_along_axis(flat, indices.reshape((*lead, math.prod(indices.shape[-rank:]))), -1)
    return found.reshape(indices.shape), indices


def max_pool1d(
    input: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The maximum of each window of ``(N, C, L)``.

    Args:
        input: the input.
        kernel_size: the window's size.
        stride: the step between windows (default: its size).
        padding: -inf on both ends, at most half a window.
        dilation: the step inside a window.
        ceil_mode: whether to keep a last window that is partly outside.
        return_indices: whether to return ``(maxima, indices)``, where an index is the position of
            the maximum in the flattened spatial axes (see ``max_unpool``).

    Raises:
        ShapeError: if axes do not fit or the window is larger than the input.
        OptionError: for a size out of range.

    >>> max_pool1d(lm.asarray([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
    [[[3.0, 2.0]]]
    """
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The maximum of each window of ``(N, C, H, W)``; arguments as in :func:`max_pool1d`.

    >>> max_pool2d(lm.ones((1, 1, 4, 4)), 2).shape
    (1, 1, 2, 2)
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The maximum of each window of ``(N, C, D, H, W)``; arguments as in :func:`max_pool1d`.

    >>> max_pool3d(lm.ones((1, 1, 2, 2, 2)), 2).shape
    (1, 1, 1, 1, 1)
    """
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _avg_pool(
    rank: int, input: Any, kernel: Sizes, stride: Sizes | None, padding: Sizes, ceil_mode: bool,
    count_padding: bool, divisor: int | None = None,
) -> Tensor:  # fmt: skip
    op = f"avg_pool{rank}d"
    x = tensor(input)
    windows = _Windows(op, x, rank, kernel, stride, padding, 1, ceil_mode)
    if divisor == 0:
        raise OptionError(f"[{op}] divisor_override=0 divides by zero; give another or None")
    seen, axes = windows.of(x, 0.0)
    total = seen.sum(axes)
    if divisor is not None:
        return total / float(divisor)
    if not any(windows.extra) and (count_padding or not any(windows.padding)):
        return total / float(math.prod(windows.kernel))
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
    input: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of each window of ``(N, C, L)``; arguments as in :func:`max_pool1d`.

    ``count_include_pad`` says whether the padding's zeros count as elements.

    >>> avg_pool1d(lm.asarray([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
    [[[2.0, 1.0]]]
    """
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window of ``(N, C, H, W)``; arguments as in :func:`avg_pool1d`.

    ``divisor_override`` divides the sums instead of the number of elements.

    >>> avg_pool2d(lm.ones((1, 1, 4, 4)), 2).shape
    (1, 1, 2, 2)
    """
    return _avg_pool(
        2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input: Any, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window of ``(N, C, D, H, W)``; arguments as in :func:`avg_pool2d`.

    >>> avg_pool3d(lm.ones((1, 1, 2, 2, 2)), 2).shape
    (1, 1, 1, 1, 1)
    """
    return _avg_pool(
        3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _lp_pool(
    rank: int, input: Any, p: float, kernel: Sizes, stride: Sizes | None, ceil_mode: bool
) -> Tensor:
    op = f"lp_pool{rank}d"
    if not 0 < p < math.inf:
        raise OptionError(f"[{op}] norm_type={p} is no power to take; give a positive number")
    x = tensor(input)
    powers = x * x if p == 2 else x**p
    means = _avg_pool(rank, powers, kernel, stride, 0, ceil_mode, True)
    return root(means * float(math.prod(per_axis(op, "kernel_size", kernel, rank, 1))), p)


def lp_pool1d(
    input: Any, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """``(sum x^p)^(1/p)`` over each window of ``(N, C, L)``, with derivative 0 where it is 0.

    As in PyTorch, a window that ``ceil_mode`` keeps partly outside is scaled up to a whole one.

    >>> lp_pool1d(lm.asarray([[[3.0, 4.0]]]), 2, 2).tolist()
    [[[5.0]]]
    """
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Any, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """:func:`lp_pool1d` over windows of ``(N, C, H, W)``.

    >>> lp_pool2d(lm.ones((1, 1, 2, 2)), 2, 2).tolist()
    [[[[2.0]]]]
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Any, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """:func:`lp_pool1d` over windows of ``(N, C, D, H, W)``.

    >>> lp_pool3d(lm.ones((1, 1, 2, 2, 2)), 1, 2).tolist()
    [[[[[8.0]]]]]
    """
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)
