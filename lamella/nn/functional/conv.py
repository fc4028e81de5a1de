"""Convolutions and transposed convolutions of rank 1 to 3 over ``(N, C, *spatial)``.

An input without the batch axis is taken too, as in PyTorch. What is computed is cross-correlation,
as everywhere in deep learning: ``y[n, o, i] = sum_c,k x[n, c, i * stride + k * dilation - padding]
* w[o, c, k]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lamella as lm  # noqa: F401  (the examples use it)
from lamella import ops
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.support import check_rank, choose, per_axis, record, tensor
from lamella.tensor.tensor import Tensor

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
]  # fmt: skip

Sizes = int | Sequence[int]
_LAYOUTS = {1: "(N, C, L)", 2: "(N, C, H, W)", 3: "(N, C, D, H, W)"}


def _padding(
    op: str,
    padding: str | Sizes,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> list[tuple[int, int]]:
    if isinstance(padding, str):
        if choose(op, "padding", padding, ("same", "valid")) == "valid":
            return [(0, 0)] * len(kernel)
        if any(step != 1 for step in stride):
            raise OptionError(
                f"[{op}] padding='same' with stride {tuple(stride)} has no one meaning; give "
                "numbers"
            )
        reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return [(r // 2, r - r // 2) for r in reach]
    return [(p, p) for p in per_axis(op, "padding", padding, len(kernel), 0)]


def _check_channels(
    op: str, x: Tensor, expected: Any, weight: Tensor, groups: int, filters: int
) -> None:
    if not isinstance(groups, int) or groups < 1 or filters % groups:
        raise OptionError(
            f"[{op}] groups={groups!r} does not divide the {filters} channels; give a divisor"
        )
    if x.shape[1] != expected:
        raise ShapeError(
            f"[{op}] input of shape {tuple(x.shape)} has {x.shape[1]} channels, but the weight of "
            f"shape {tuple(weight.shape)} with groups={groups} takes {expected}; build the layer "
            "for the input's channels"
        )


def _biased(y: Tensor, bias: Tensor | None) -> Tensor:
    return y if bias is None else y + bias.reshape((-1,) + (1,) * (y.ndim - 2))


def _conv(
    rank: int, x: Any, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: str | Sizes,
    dilation: Sizes,
    groups: int,
) -> Tensor:  # fmt: skip
    op = f"conv{rank}d"
    x, weight = tensor(x), tensor(weight)
    check_rank(op, x, (rank + 1, rank + 2), f"{_LAYOUTS[rank]} or without N")
    check_rank(
        op,
        weight,
        (rank + 2,),
        f"a weight (out, in / groups, {'kernel, ' * rank})".replace(", )", ")"),
    )
    if x.ndim == rank + 1:
        return _conv(rank, x[None], weight, bias, stride, padding, dilation, groups)[0]
    kernel = weight.shape[2:]
    strides = per_axis(op, "stride", stride, rank, 1)
    dilations = per_axis(op, "dilation", dilation, rank, 1)
    _check_channels(op, x, weight.shape[1] * groups, weight, groups, weight.shape[0])
    y = record(
        ops.conv, x, weight.astype(x.dtype), stride=strides, groups=groups, w_dilation=dilations,
        padding=_padding(op, padding, kernel, strides, dilations),
    )  # fmt: skip
    return _biased(y, bias)


def conv1d(
    input: Any, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
    padding: str | Sizes = 0, dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Convolve ``(N, C, L)`` with ``weight (O, C / groups, K)`` to ``(N, O, L')``.

    Args:
        input: the images.
        weight: the filters.
        bias: ``(O,)``, added to each channel.
        stride: the step between windows.
        padding: zeros at both ends of each axis, or ``"same"`` / ``"valid"``.
        dilation: the step inside a window.
        groups: into how many independent parts the channels divide.

    Raises:
        ShapeError: if axes or channels do not fit.
        OptionError: for an option out of range.

    >>> conv1d(lm.ones((1, 1, 4)), lm.ones((1, 1, 2))).tolist()
    [[[2.0, 2.0, 2.0]]]
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Any, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
    padding: str | Sizes = 0, dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Convolve ``(N, C, H, W)`` with ``weight (O, C / groups, KH, KW)``; arguments as in
    :func:`conv1d`.

    >>> conv2d(lm.ones((1, 1, 3, 3)), lm.ones((1, 1, 2, 2))).shape
    (1, 1, 2, 2)
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Any, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1,
    padding: str | Sizes = 0, dilation: Sizes = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Convolve ``(N, C, D, H, W)`` with ``weight (O, C / groups, KD, KH, KW)``; arguments as in
    :func:`conv1d`.

    >>> conv3d(lm.ones((1, 1, 3, 3, 3)), lm.ones((2, 1, 3, 3, 3))).shape
    (1, 2, 1, 1, 1)
    """
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def _conv_transpose(
    rank: int, x: Any, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes,
    output_padding: Sizes,
    groups: int, dilation: Sizes,
) -> Tensor:  # fmt: skip
    op = f"conv_transpose{rank}d"
    x, weight = tensor(x), tensor(weight)
    check_rank(op, x, (rank + 1, rank + 2), f"{_LAYOUTS[rank]} or without N")
    check_rank(
        op,
        weight,
        (rank + 2,),
        f"a weight (in, out / groups, {'kernel, ' * rank})".replace(", )", ")"),
    )
    if x.ndim == rank + 1:
        return _conv_transpose(
            rank, x[None], weight, bias, stride, padding, output_padding, groups, dilation
        )[0]
    _check_channels(op, x, weight.shape[0], weight, groups, weight.shape[0])
    y = record(
        ops.conv_transpose, x, weight.astype(x.dtype), groups=groups,
        stride=per_axis(op, "stride", stride, rank, 1),
        padding=[(p, p) for p in per_axis(op, "padding", padding, rank, 0)],
        output_padding=per_axis(op, "output_padding", output_padding, rank, 0),
        dilation=per_axis(op, "dilation", dilation, rank, 1),
    )  # fmt: skip
    return _biased(y, bias)


def conv_transpose1d(
    input: Any, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """The transpose of :func:`conv1d` as a linear map: ``(N, C, L)`` with ``weight (C, O / groups,
    K)``.

    The result has length ``(L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding +
    1``.

    >>> conv_transpose1d(lm.ones((1, 1, 2)), lm.ones((1, 1, 2))).tolist()
    [[[1.0, 2.0, 1.0]]]
    """
    return _conv_transpose(
        1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    input: Any, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """The transpose of :func:`conv2d`; arguments as in :func:`conv_transpose1d`.

    >>> conv_transpose2d(lm.ones((1, 1, 2, 2)), lm.ones((1, 3, 2, 2)), stride=2).shape
    (1, 3, 4, 4)
    """
    return _conv_transpose(
        2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    input: Any, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Tensor:  # fmt: skip
    """The transpose of :func:`conv3d`; arguments as in :func:`conv_transpose1d`.

    >>> conv_transpose3d(lm.ones((1, 1, 1, 1, 1)), lm.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 2, 2, 2)
    """
    return _conv_transpose(
        3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )
