"""Rearranging: channels to space and back, shuffled channels, patches to columns and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import lamella as lm
from lamella import ops
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.support import check_rank, per_axis, record, tensor
from lamella.tensor.tensor import Tensor

__all__ = [
    "channel_shuffle", "fold", "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle",
    "unfold",
]  # fmt: skip

Sizes = int | Sequence[int]


def _factor(op: str, name: str, value: int) -> int:
    if not isinstance(value, int) or value < 1:
        raise OptionError(f"[{op}] {name}={value!r} is no whole number >= 1; give one")
    return value


def pixel_shuffle(input: Any, upscale_factor: int) -> Tensor:
    """``(*, C r^2, H, W)`` to ``(*, C, H r, W r)`` (Shi et al., 2016).

    Raises:
        ShapeError: if the channels are no multiple of ``r^2``.

    >>> pixel_shuffle(lm.asarray([[[1.0]], [[2.0]], [[3.0]], [[4.0]]]), 2).tolist()
    [[[1.0, 2.0], [3.0, 4.0]]]
    """
    x, r = tensor(input), _factor("pixel_shuffle", "upscale_factor", upscale_factor)
    if x.ndim < 3 or x.shape[-3] % (r * r):
        raise ShapeError(
            f"[pixel_shuffle] input of shape {tuple(x.shape)} is not (..., C * {r * r}, H, W); "
            "use as many channels as the factor's square divides"
        )
    *lead, channels, height, width = x.shape
    split = x.reshape((*lead, channels // (r * r), r, r, height, width))
    moved = lm.moveaxis(split, (-4, -3), (-3, -1))
    return moved.reshape((*lead, channels // (r * r), height * r, width * r))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Tensor:
    """``(*, C, H r, W r)`` to ``(*, C r^2, H, W)``, the inverse of :func:`pixel_shuffle`.

    Raises:
        ShapeError: if height or width is no multiple of ``r``.

    >>> pixel_unshuffle(lm.asarray([[[1.0, 2.0], [3.0, 4.0]]]), 2).tolist()
    [[[1.0]], [[2.0]], [[3.0]], [[4.0]]]
    """
    x, r = tensor(input), _factor("pixel_unshuffle", "downscale_factor", downscale_factor)
    if x.ndim < 3 or x.shape[-2] % r or x.shape[-1] % r:
        raise ShapeError(
            f"[pixel_unshuffle] input of shape {tuple(x.shape)} is not (..., C, H * {r}, W * {r}); "
            "crop or pad it to multiples of the factor"
        )
    *lead, channels, height, width = x.shape
    split = x.reshape((*lead, channels, height // r, r, width // r, r))
    moved = lm.moveaxis(split, (-3, -1), (-4, -3))
    return moved.reshape((*lead, channels * r * r, height // r, width // r))


def channel_shuffle(input: Any, groups: int) -> Tensor:
    """The channels of ``(N, C, *)``, read as ``(groups, C / groups)``, in the transposed order
    (Zhang et al., 2018).

    Raises:
        ShapeError: if ``groups`` does not divide the channels.

    >>> channel_shuffle(lm.asarray([[[1], [2], [3], [4]]]), 2).tolist()
    [[[1], [3], [2], [4]]]
    """
    x, groups = tensor(input), _factor("channel_shuffle", "groups", groups)
    if x.ndim < 3 or x.shape[1] % groups:
        raise ShapeError(
            f"[channel_shuffle] input of shape {tuple(x.shape)} is not (N, C, ...) with C a "
            f"multiple of groups={groups}; give a divisor"
        )
    split = x.reshape((x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    return lm.swapaxes(split, 1, 2).reshape(x.shape)


native_channel_shuffle = channel_shuffle


def _windows(
    op: str, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> tuple[tuple[int, ...], ...]:
    return (
        per_axis(op, "kernel_size", kernel_size, 2, 1),
        per_axis(op, "dilation", dilation, 2, 1),
        per_axis(op, "padding", padding, 2, 0),
        per_axis(op, "stride", stride, 2, 1),
    )


def unfold(
    input: Any, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """Patches of ``(N, C, H, W)`` as columns: ``(N, C * kernel height * kernel width, patches)``.

    Args:
        input: images, or one without ``N``.
        kernel_size: the patch's size.
        dilation: the step inside a patch.
        padding: zeros at both ends of each axis.
        stride: the step between patches.

    Raises:
        ShapeError: if axes do not fit or a patch is larger than the image.
        OptionError: for a size out of range.

    >>> unfold(lm.ones((1, 3, 4, 5)), (2, 3)).shape
    (1, 18, 9)
    """
    x = tensor(input)
    check_rank("unfold", x, (3, 4), "(N, C, H, W) or (C, H, W)")
    kernel, steps, ends, strides = _windows("unfold", kernel_size, dilation, padding, stride)
    if x.ndim == 3:
        return unfold(x[None], kernel, steps, ends, strides)[0]
    x = lm.pad(x, [(0, 0), (0, 0), *((end, end) for end in ends)])
    seen = record(ops.window, x, sizes=kernel, strides=strides, dilations=steps)
    batch, channels, rows, columns = seen.shape[:4]
    moved = lm.permute(seen, 0, 1, 4, 5, 2, 3)
    return moved.reshape((batch, channels * math.prod(kernel), rows * columns))


def fold(
    input: Any, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:  # fmt: skip
    """Columns put back as patches and summed where they overlap: the transpose of :func:`unfold`.

    Args:
        input: ``(N, C * kernel height * kernel width, patches)``, or without ``N``.
        output_size: height and width of the result ``(N, C, H, W)``.
        kernel_size: as in :func:`unfold`, like the other options.
        dilation: see there.
        padding: see there.
        stride: see there.

    Raises:
        ShapeError: if the columns are not those of such patches.
        OptionError: for a size out of range.

    >>> fold(lm.ones((1, 4, 2)), (2, 3), 2).tolist()
    [[[[1.0, 2.0, 1.0], [1.0, 2.0, 1.0]]]]
    """
    x = tensor(input)
    check_rank("fold", x, (2, 3), "(N, C * kernel elements, patches) or without N")
    kernel, steps, ends, strides = _windows("fold", kernel_size, dilation, padding, stride)
    sizes = per_axis("fold", "output_size", output_size, 2, 1)
    if x.ndim == 2:
        return fold(x[None], sizes, kernel, steps, ends, strides)[0]
    space = [size + 2 * end for size, end in zip(sizes, ends, strict=True)]
    places = [
        (size - step * (k - 1) - 1) // stride + 1
        for size, step, k, stride in zip(space, steps, kernel, strides, strict=True)
    ]
    if x.shape[1] % math.prod(kernel) or x.shape[2] != math.prod(places) or min(places) < 1:
        raise ShapeError(
            f"[fold] columns of shape {tuple(x.shape)} for output_size={sizes} and "
            f"kernel_size={kernel}: they are (N, C * {math.prod(kernel)}, {places[0]} * "
            f"{places[1]}); check the options against those of unfold"
        )
    channels = x.shape[1] // math.prod(kernel)
    patches = lm.permute(x.reshape((x.shape[0], channels, *kernel, *places)), 0, 1, 4, 5, 2, 3)
    whole = record(ops.fold, patches, space=space, strides=strides, dilations=steps)
    return whole[:, :, ends[0] : ends[0] + sizes[0], ends[1] : ends[1] + sizes[1]]
