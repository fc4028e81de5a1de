"""Convolution layers, rank 1 to 3, and their transposes; the formulas are in
:mod:`lamella.nn.functional.conv`.

``weight`` is ``(out, in / groups, *kernel)``, for the transposed ones ``(in, out / groups,
*kernel)``; it and ``bias`` are drawn uniform in ``±1/sqrt(fan_in)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import lamella as lm
from lamella.errors import OptionError
from lamella.nn import functional as F
from lamella.nn import init
from lamella.nn.functional.support import choose, per_axis
from lamella.nn.module import Module
from lamella.nn.parameter import Parameter
from lamella.tensor.tensor import Tensor

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

Sizes = int | Sequence[int]


class _Convolution(Module):
    """What plain and transposed convolutions share: checked options, parameters, text."""

    rank: ClassVar[int]
    transposed: ClassVar[bool] = False
    bias: Parameter | None
    output_padding: tuple[int, ...] = ()

    def _build(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes, padding: str |
        Sizes,
        dilation: Sizes, groups: int, bias: bool, dtype: Any,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise OptionError(
                f"[{name}] groups={groups} does not divide both in_channels={in_channels} and "
                f"out_channels={out_channels}; give a common divisor"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = per_axis(name, "kernel_size", kernel_size, self.rank, 1)
        self.stride = per_axis(name, "stride", stride, self.rank, 1)
        self.padding: str | tuple[int, ...]
        if isinstance(padding, str):
            self.padding = choose(name, "padding", padding, ("same", "valid"))
        else:
            self.padding = per_axis(name, "padding", padding, self.rank, 0)
        self.dilation = per_axis(name, "dilation", dilation, self.rank, 1)
        self.groups = groups
        lead = (
            (in_channels, out_channels // groups)
            if self.transposed
            else (out_channels, in_channels // groups)
        )
        dtype = dtype or lm.float32
        self.weight = Parameter(lm.empty((*lead, *self.kernel_size), dtype=dtype))
        self.register_parameter(
            "bias", Parameter(lm.empty(out_channels, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(max(init.fans(self.weight)[0], 1))
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """The options that differ from the defaults, as PyTorch shows them."""
        text = f"{self.in_channels}, {self.out_channels}"
        text += f", kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * self.rank:
            text += (
                f", padding={self.padding!r}"
                if isinstance(self.padding, str)
                else f", padding={self.padding}"
            )
        if self.dilation != (1,) * self.rank:
            text += f", dilation={self.dilation}"
        if any(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text if self.bias is not None else text + ", bias=False"


class _Conv(_Convolution):
    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
        padding: str | Sizes = 0, dilation: Sizes = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.padding_mode = choose(
            type(self).__name__, "padding_mode", padding_mode,
            ("zeros", "reflect", "replicate", "circular"),
        )  # fmt: skip
        self._build(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype
        )

    def forward(self, input: Tensor) -> Tensor:
        """The convolution of ``input``."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._ends(), self.padding_mode), (0,) * self.rank
        return type(self).function(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _ends(self) -> list[int]:
        """What is padded at the ends of each axis, the last axis first."""
        if self.padding == "same":
            reach = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            pairs = [(total // 2, total - total // 2) for total in reach]
        elif isinstance(self.padding, str):
            pairs = [(0, 0)] * self.rank
        else:
            pairs = [(size, size) for size in self.padding]
        return [size for pair in reversed(pairs) for size in pair]

    def extra_repr(self) -> str:
        """The options that differ from the defaults, as PyTorch shows them."""
        mode = "" if self.padding_mode == "zeros" else f", padding_mode={self.padding_mode}"
        return super().extra_repr() + mode


class Conv1d(_Conv):
    """:func:`~lamella.nn.functional.conv1d` with trained filters.

    >>> Conv1d(2, 4, 3, padding=1)(lm.ones((1, 2, 8))).shape
    (1, 4, 8)
    """

    rank = 1
    function = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """:func:`~lamella.nn.functional.conv2d` with trained filters.

    >>> Conv2d(2, 4, 3, stride=2)(lm.ones((1, 2, 7, 7))).shape
    (1, 4, 3, 3)
    """

    rank = 2
    function = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """:func:`~lamella.nn.functional.conv3d` with trained filters.

    >>> Conv3d(1, 2, 2)(lm.ones((1, 1, 3, 3, 3))).shape
    (1, 2, 2, 2, 2)
    """

    rank = 3
    function = staticmethod(F.conv3d)


class _ConvTranspose(_Convolution):
    transposed = True
    function: ClassVar[Callable[..., Tensor]]
    padding: tuple[int, ...]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
        padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, bias: bool = True,
        dilation: Sizes = 1, padding_mode: str = "zeros", dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        choose(type(self).__name__, "padding_mode", padding_mode, ("zeros",))
        self.output_padding = per_axis(
            type(self).__name__, "output_padding", output_padding, self.rank, 0
        )
        self._build(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """The transposed convolution of ``input``; ``output_size`` chooses among the sizes that the
        stride makes possible.
        """
        extra = self.output_padding if output_size is None else self._extra(input, output_size)
        return type(self).function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    def _extra(self, input: Tensor, output_size: Sequence[int]) -> list[int]:
        """The output padding that gives ``output_size``."""
        wanted = tuple(output_size)[-self.rank :]
        least = [
            (size - 1) * step - 2 * end + dilation * (k - 1) + 1
            for size, step, end, dilation, k in zip(
                input.shape[-self.rank :], self.stride, self.padding, self.dilation,
                self.kernel_size, strict=True,
            )
        ]  # fmt: skip
        if len(output_size) not in (self.rank, self.rank + 2) or not all(
            low <= size < low + step
            for low, size, step in zip(least, wanted, self.stride, strict=True)
        ):
            raise OptionError(
                f"[{type(self).__name__}] output_size={tuple(output_size)} for an input of shape "
                f"{tuple(input.shape)}: it is at least {tuple(least)} and less than the stride "
                f"{self.stride} more"
            )
        return [size - low for size, low in zip(wanted, least, strict=True)]


class ConvTranspose1d(_ConvTranspose):
    """:func:`~lamella.nn.functional.conv_transpose1d` with trained filters.

    >>> ConvTranspose1d(2, 4, 2, stride=2)(lm.ones((1, 2, 8))).shape
    (1, 4, 16)
    """

    rank = 1
    function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """:func:`~lamella.nn.functional.conv_transpose2d` with trained filters.

    >>> ConvTranspose2d(2, 4, 2, stride=2)(lm.ones((1, 2, 3, 3))).shape
    (1, 4, 6, 6)
    """

    rank = 2
    function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """:func:`~lamella.nn.functional.conv_transpose3d` with trained filters.

    >>> ConvTranspose3d(1, 2, 2)(lm.ones((1, 1, 2, 2, 2))).shape
    (1, 2, 3, 3, 3)
    """

    rank = 3
    function = staticmethod(F.conv_transpose3d)
