"""Pooling as modules; the formulas are in :mod:`lamella.nn.functional.pooling`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from lamella.nn import functional as F
from lamella.nn.module import Module
from lamella.tensor.tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AvgPool1d", "AvgPool2d",
    "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d",
]  # fmt: skip

Sizes = int | Sequence[int]


class _MaxPool(Module):
    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes =
        1,
        ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        """The maximum of each window."""
        return type(self).function(
            x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
        )

    def extra_repr(self) -> str:
        """The options, as PyTorch shows them."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """:func:`~lamella.nn.functional.max_pool1d`.

    >>> import lamella as lm
    >>> MaxPool1d(2)(lm.ones((1, 1, 4))).shape
    (1, 1, 2)
    """

    function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """:func:`~lamella.nn.functional.max_pool2d`.

    >>> import lamella as lm
    >>> MaxPool2d(3, stride=2, padding=1)(lm.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """:func:`~lamella.nn.functional.max_pool3d`.

    >>> import lamella as lm
    >>> MaxPool3d(2)(lm.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 1, 1, 1)
    """

    function = staticmethod(F.max_pool3d)


class _AvgPool(Module):
    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool =
        False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        """The mean of each window."""
        return type(self).function(
            x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )

    def extra_repr(self) -> str:
        """The options, as PyTorch shows them."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """:func:`~lamella.nn.functional.avg_pool1d`.

    >>> import lamella as lm
    >>> AvgPool1d(2)(lm.ones((1, 1, 4))).shape
    (1, 1, 2)
    """

    function = staticmethod(F.avg_pool1d)


class AvgPool2d(_AvgPool):
    """:func:`~lamella.nn.functional.avg_pool2d`.

    >>> import lamella as lm
    >>> AvgPool2d(2)(lm.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """:func:`~lamella.nn.functional.avg_pool3d`.

    >>> import lamella as lm
    >>> AvgPool3d(2)(lm.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 1, 1, 1)
    """

    function = staticmethod(F.avg_pool3d)


class _AdaptiveAvgPool(Module):
    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, x: Tensor) -> Tensor:
        """``x`` averaged to the output size."""
        return type(self).function(x, self.output_size)

    def extra_repr(self) -> str:
        """The options, as PyTorch shows them."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """:func:`~lamella.nn.functional.adaptive_avg_pool1d`.

    >>> import lamella as lm
    >>> AdaptiveAvgPool1d(1)(lm.ones((1, 2, 5))).shape
    (1, 2, 1)
    """

    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """:func:`~lamella.nn.functional.adaptive_avg_pool2d`.

    >>> import lamella as lm
    >>> AdaptiveAvgPool2d((1, 2))(lm.ones((1, 2, 5, 4))).shape
    (1, 2, 1, 2)
    """

    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """:func:`~lamella.nn.functional.adaptive_avg_pool3d`.

    >>> import lamella as lm
    >>> AdaptiveAvgPool3d(1)(lm.ones((1, 2, 2, 2, 2))).shape
    (1, 2, 1, 1, 1)
    """

    function = staticmethod(F.adaptive_avg_pool3d)
