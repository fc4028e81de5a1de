"""Rearranging and resizing as modules; the formulas are in :mod:`lamella.nn.functional`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from lamella.nn import functional as F
from lamella.nn.module import Configured
from lamella.tensor.tensor import Tensor

__all__ = [
    "ChannelShuffle", "Fold", "PixelShuffle", "PixelUnshuffle", "Unfold", "Upsample",
    "UpsamplingBilinear2d", "UpsamplingNearest2d",
]  # fmt: skip

Sizes = int | Sequence[int]


class PixelShuffle(Configured):
    """:func:`~lamella.nn.functional.pixel_shuffle`.

    >>> import lamella as lm
    >>> PixelShuffle(2)(lm.ones((1, 8, 3, 3))).shape
    (1, 2, 6, 6)
    """

    options = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Channels moved to space."""
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Configured):
    """:func:`~lamella.nn.functional.pixel_unshuffle`."""

    options = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Space moved to channels."""
        return F.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(Configured):
    """:func:`~lamella.nn.functional.channel_shuffle`."""

    options = ("groups",)

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """The channels in another order."""
        return F.channel_shuffle(input, self.groups)


class Unfold(Configured):
    """:func:`~lamella.nn.functional.unfold`.

    >>> import lamella as lm
    >>> Unfold(2)(lm.ones((1, 3, 4, 5))).shape
    (1, 12, 12)
    """

    options = ("kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Patches as columns."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(Configured):
    """:func:`~lamella.nn.functional.fold`."""

    options = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Columns put back and summed."""
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )


class Upsample(Configured):
    """:func:`~lamella.nn.functional.interpolate`.

    >>> import lamella as lm
    >>> Upsample(scale_factor=2, mode="bilinear")(lm.ones((1, 1, 2, 3))).shape
    (1, 1, 4, 6)
    """

    options: ClassVar[tuple[str, ...]] = ("size", "scale_factor", "mode")

    def __init__(
        self, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
        align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.size = size
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """The input in another size."""
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners,
            self.recompute_scale_factor,
        )  # fmt: skip


class UpsamplingNearest2d(Upsample):
    """:class:`Upsample` with ``mode="nearest"``."""

    options = ("size", "scale_factor")

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor)


class UpsamplingBilinear2d(Upsample):
    """:class:`Upsample` with ``mode="bilinear"`` and aligned corners."""

    options = ("size", "scale_factor")

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)
