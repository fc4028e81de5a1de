"""Normalisation layers; the formulas are in :mod:`lamella.nn.functional.norm`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.nn import functional as F
from lamella.nn.functional.support import check_rank, tensor
from lamella.nn.module import Configured, Module
from lamella.nn.parameter import Parameter
from lamella.tensor.tensor import Tensor

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "LocalResponseNorm", "RMSNorm",
]  # fmt: skip


def _scale_and_shift(
    module: Module, shape: int | tuple[int, ...], scales: bool, shifts: bool, dtype: Any
) -> None:
    """``weight`` of ones and ``bias`` of zeros, None where there is none."""
    weight = Parameter(lm.ones(shape, dtype=dtype)) if scales else None
    module.register_parameter("weight", weight)
    module.register_parameter("bias", Parameter(lm.zeros(shape, dtype=dtype)) if shifts else None)


class _BatchNorm(Module):
    """Normalise each channel, in training with the batch's statistics, which the running ones
    follow.

    ``momentum`` is the share of the batch in the running statistics; None averages all batches
    equally.
    """

    ranks: ClassVar[tuple[int, ...]]
    layout: ClassVar[str]
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool =
        True,
        track_running_stats: bool = True, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        dtype = dtype or lm.float32
        _scale_and_shift(self, num_features, affine, affine and bias, dtype)
        kept = track_running_stats
        self.register_buffer("running_mean", lm.zeros(num_features, dtype=dtype) if kept else None)
        self.register_buffer("running_var", lm.ones(num_features, dtype=dtype) if kept else None)
        self.register_buffer("num_batches_tracked", lm.zeros((), dtype=lm.int64) if kept else None)

    def forward(self, input: Tensor) -> Tensor:
        """``input`` normalised."""
        input = tensor(input)
        check_rank(type(self).__name__, input, self.ranks, self.layout)
        momentum: Any = self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if momentum is None:
                momentum = 1 / self.num_batches_tracked.astype(input.dtype)
        return F.batch_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self._tracks,
            momentum,
            self.eps,
        )

    @property
    def _tracks(self) -> bool:
        """Whether there are running statistics."""
        return self.running_mean is not None or self.running_var is not None

    def extra_repr(self) -> str:
        """The options, as PyTorch shows them."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _InstanceNorm(_BatchNorm):
    """Normalise each channel of each example, by its own statistics or, in evaluation where they
    are tracked, by the running ones.
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = False, track_running_stats: bool = False, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """``input`` normalised."""
        input = tensor(input)
        check_rank(type(self).__name__, input, self.ranks, self.layout)
        if input.ndim == min(self.ranks):
            return self._normalised(input[None])[0]
        return self._normalised(input)

    def _normalised(self, x: Tensor) -> Tensor:
        if self.affine and x.shape[1] != self.num_features:
            raise ShapeError(
                f"[{type(self).__name__}] {x.shape[1]} channels, but the layer is for "
                f"{self.num_features}; build it for the input's"
            )
        momentum = 0.1 if self.momentum is None else self.momentum
        return F.instance_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self._tracks, momentum, self.eps,
        )  # fmt: skip


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of ``(N, C, L)`` or ``(C, L)``.

    >>> InstanceNorm1d(3)(lm.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    ranks = (2, 3)
    layout = "(N, C, L) or (C, L)"


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of ``(N, C, H, W)`` or ``(C, H, W)``.

    >>> InstanceNorm2d(3)(lm.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    ranks = (3, 4)
    layout = "(N, C, H, W) or (C, H, W)"


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    >>> InstanceNorm3d(3)(lm.ones((2, 3, 2, 2, 2))).shape
    (2, 3, 2, 2, 2)
    """

    ranks = (4, 5)
    layout = "(N, C, D, H, W) or (C, D, H, W)"


class LocalResponseNorm(Configured):
    """:func:`~lamella.nn.functional.local_response_norm`.

    >>> LocalResponseNorm(2)(lm.ones((1, 4, 3))).shape
    (1, 4, 3)
    """

    options = ("size", "alpha", "beta", "k")

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """``input`` divided by its neighbours' size."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of ``(N, C)`` or ``(N, C, L)``.

    >>> BatchNorm1d(3)(lm.ones((2, 3))).shape
    (2, 3)
    """

    ranks = (2, 3)
    layout = "(N, C) or (N, C, L)"


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of ``(N, C, H, W)``.

    >>> BatchNorm2d(3)(lm.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    ranks = (4,)
    layout = "(N, C, H, W)"


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of ``(N, C, D, H, W)``.

    >>> BatchNorm3d(3)(lm.ones((2, 3, 2, 2, 2))).shape
    (2, 3, 2, 2, 2)
    """

    ranks = (5,)
    layout = "(N, C, D, H, W)"


class LayerNorm(Module):
    """Normalise over the last axes, then scale and shift each element.

    >>> LayerNorm(4)(lm.ones((2, 4))).shape
    (2, 4)
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5, elementwise_affine: bool =
        True,
        bias: bool = True, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shifts = elementwise_affine and bias
        _scale_and_shift(
            self, self.normalized_shape, elementwise_affine, shifts, dtype or lm.float32
        )

    def forward(self, input: Tensor) -> Tensor:
        """``input`` normalised."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The options, as PyTorch shows them."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divide by the root mean square of the last axes, then scale each element.

    >>> RMSNorm(4)(lm.ones((2, 4))).shape
    (2, 4)
    """

    weight: Parameter | None

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine:
        bool = True,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = (
            (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        )
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        ones = lm.ones(self.normalized_shape, dtype=dtype or lm.float32)
        self.register_parameter("weight", Parameter(ones) if elementwise_affine else None)

    def forward(self, input: Tensor) -> Tensor:
        """``input`` normalised."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The options, as PyTorch shows them."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(Module):
    """Normalise each group of channels of one example, then scale and shift each channel.

    >>> GroupNorm(2, 4)(lm.ones((1, 4, 3))).shape
    (1, 4, 3)
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise OptionError(
                f"[GroupNorm] num_channels={num_channels} is no multiple of "
                f"num_groups={num_groups}; give a divisor"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        _scale_and_shift(self, num_channels, affine, affine and bias, dtype or lm.float32)

    def forward(self, input: Tensor) -> Tensor:
        """``input`` normalised."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The options, as PyTorch shows them."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
