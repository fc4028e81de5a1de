"""Pooling as modules; the formulas are in :mod:`lamella.nn.functional`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from lamella.nn import functional as F
from lamella.nn.module import Configured
from lamella.tensor.tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d",
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip

Sizes = int | Sequence[int]


class _Pool(Configured):
    function: ClassVar[Callable[..., Any]]


class _MaxPool(_Pool):
    options = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
        dilation: Sizes = 1, return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        """The maximum of each window, with ``return_indices`` also where it is."""
        return type(self).function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
            self.return_indices,
        )  # fmt: skip


class _AvgPool(_Pool):
    options = ("kernel_size", "stride", "padding")

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """The mean of each window."""
        found: Tensor = type(self).function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad,
        )  # fmt: skip
        return found


class _AvgPoolDivided(_AvgPool):
    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """The mean of each window."""
        found: Tensor = type(self).function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip
        return found


class _LPPool(_Pool):
    options = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """The norm of each window."""
        found: Tensor = type(self).function(
            input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode
        )
        return found


class _AdaptiveAvgPool(_Pool):
    options = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """The input averaged to the output size."""
        found: Tensor = type(self).function(input, self.output_size)
        return found


class _AdaptiveMaxPool(_Pool):
    options = ("output_size",)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """The maxima of as many windows, with ``return_indices`` also where they are."""
        return type(self).function(input, self.output_size, self.return_indices)


class _FractionalMaxPool(_Pool):
    options = ("kernel_size", "output_size", "output_ratio")

    def __init__(
        self, kernel_size: Sizes, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.output_size = output_size
        self.output_ratio = output_ratio
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples, persistent=False)

    def forward(self, input: Tensor) -> Any:
        """The maxima of windows at random places."""
        return type(self).function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            self._random_samples,
        )  # fmt: skip


class _MaxUnpool(_Pool):
    options = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """The maxima at their places among zeros."""
        found: Tensor = type(self).function(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )
        return found


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
    >>> MaxPool2d(2)(lm.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """:func:`~lamella.nn.functional.max_pool3d`.

    >>> import lamella as lm
    >>> MaxPool3d(2)(lm.ones((1, 1, 4, 4, 4))).shape
    (1, 1, 2, 2, 2)
    """

    function = staticmethod(F.max_pool3d)


class AvgPool1d(_AvgPool):
    """:func:`~lamella.nn.functional.avg_pool1d`.

    >>> import lamella as lm
    >>> AvgPool1d(2)(lm.ones((1, 1, 4))).shape
    (1, 1, 2)
    """

    function = staticmethod(F.avg_pool1d)


class AvgPool2d(_AvgPoolDivided):
    """:func:`~lamella.nn.functional.avg_pool2d`.

    >>> import lamella as lm
    >>> AvgPool2d(2)(lm.ones((1, 1, 4, 4))).shape
    (1, 1, 2, 2)
    """

    function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolDivided):
    """:func:`~lamella.nn.functional.avg_pool3d`.

    >>> import lamella as lm
    >>> AvgPool3d(2)(lm.ones((1, 1, 4, 4, 4))).shape
    (1, 1, 2, 2, 2)
    """

    function = staticmethod(F.avg_pool3d)


class LPPool1d(_LPPool):
    """:func:`~lamella.nn.functional.lp_pool1d`."""

    function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    """:func:`~lamella.nn.functional.lp_pool2d`."""

    function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    """:func:`~lamella.nn.functional.lp_pool3d`."""

    function = staticmethod(F.lp_pool3d)


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """:func:`~lamella.nn.functional.adaptive_avg_pool1d`.

    >>> import lamella as lm
    >>> AdaptiveAvgPool1d(1)(lm.ones((1, 1, 4))).shape
    (1, 1, 1)
    """

    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """:func:`~lamella.nn.functional.adaptive_avg_pool2d`.

    >>> import lamella as lm
    >>> AdaptiveAvgPool2d(1)(lm.ones((1, 1, 4, 4))).shape
    (1, 1, 1, 1)
    """

    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """:func:`~lamella.nn.functional.adaptive_avg_pool3d`.

    >>> import lamella as lm
    >>> AdaptiveAvgPool3d(1)(lm.ones((1, 1, 4, 4, 4))).shape
    (1, 1, 1, 1, 1)
    """

    function = staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """:func:`~lamella.nn.functional.adaptive_max_pool1d`.

    >>> import lamella as lm
    >>> AdaptiveMaxPool1d(3)(lm.ones((1, 1, 4))).shape
    (1, 1, 3)
    """

    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """:func:`~lamella.nn.functional.adaptive_max_pool2d`.

    >>> import lamella as lm
    >>> AdaptiveMaxPool2d(3)(lm.ones((1, 1, 4, 4))).shape
    (1, 1, 3, 3)
    """

    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """:func:`~lamella.nn.functional.adaptive_max_pool3d`.

    >>> import lamella as lm
    >>> AdaptiveMaxPool3d(3)(lm.ones((1, 1, 4, 4, 4))).shape
    (1, 1, 3, 3, 3)
    """

    function = staticmethod(F.adaptive_max_pool3d)


class FractionalMaxPool2d(_FractionalMaxPool):
    """:func:`~lamella.nn.functional.fractional_max_pool2d`."""

    function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """:func:`~lamella.nn.functional.fractional_max_pool3d`."""

    function = staticmethod(F.fractional_max_pool3d)


class MaxUnpool1d(_MaxUnpool):
    """:func:`~lamella.nn.functional.max_unpool1d`."""

    function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """:func:`~lamella.nn.functional.max_unpool2d`."""

    function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """:func:`~lamella.nn.functional.max_unpool3d`."""

    function = staticmethod(F.max_unpool3d)
