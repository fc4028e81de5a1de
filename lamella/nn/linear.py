"""Linear and bilinear maps, and the small layers around them: Flatten, Unflatten, Identity."""

from __future__ import annotations

import math
from typing import Any

import lamella as lm
from lamella.nn import functional as F
from lamella.nn import init
from lamella.nn.module import Module
from lamella.nn.parameter import Parameter
from lamella.tensor.tensor import Tensor

__all__ = ["Bilinear", "Flatten", "Identity", "Linear", "Unflatten"]


class Identity(Module):
    """Its input; any arguments are taken and ignored.

    >>> Identity()(3)
    3
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """The input."""
        return input


class Linear(Module):
    """``y = x @ weight.T + bias`` over the last axis: ``(..., in_features)`` to ``(...,
    out_features)``.

    ``weight`` is ``(out_features, in_features)``, drawn uniform in ``±1/sqrt(in_features)``, as is
    ``bias``.

    >>> Linear(3, 2)(lm.ones((4, 3))).shape
    (4, 2)
    """

    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(lm.empty((out_features, in_features), dtype=dtype or lm.float32))
        self.register_parameter(
            "bias", Parameter(lm.empty(out_features, dtype=dtype or lm.float32)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(max(self.in_features, 1))
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """``input @ weight.T + bias``."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The options, as PyTorch shows them."""
        text = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{text}, bias={self.bias is not None}"


class Bilinear(Module):
    """``y_k = x1^T weight_k x2 + bias_k``: ``(..., in1_features)`` and ``(..., in2_features)`` to
    ``(..., out_features)``.

    ``weight`` is ``(out_features, in1_features, in2_features)``, drawn uniform in
    ``±1/sqrt(in1_features)``, as is ``bias``.

    >>> Bilinear(3, 4, 2)(lm.ones((5, 3)), lm.ones((5, 4))).shape
    (5, 2)
    """

    bias: Parameter | None

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape, dtype = (out_features, in1_features, in2_features), dtype or lm.float32
        self.weight = Parameter(lm.empty(shape, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(lm.empty(out_features, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        bound = 1 / math.sqrt(max(self.in1_features, 1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """``x1^T weight x2 + bias``."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The options, as PyTorch shows them."""
        sizes = f"in1_features={self.in1_features}, in2_features={self.in2_features}"
        return f"{sizes}, out_features={self.out_features}, bias={self.bias is not None}"


class Flatten(Module):
    """Join the axes from ``start_dim`` to ``end_dim`` into one.

    >>> Flatten()(lm.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """The input with joined axes."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The options."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split the axis ``dim`` into axes of the given sizes.

    >>> Unflatten(1, (2, 3))(lm.ones((4, 6))).shape
    (4, 2, 3)
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        super().__init__()
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        """The input with the axis split."""
        dim = self.dim % input.ndim
        shape = (*input.shape[:dim], *self.unflattened_size, *input.shape[dim + 1 :])
        return input.reshape(shape)

    def extra_repr(self) -> str:
        """The options."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
