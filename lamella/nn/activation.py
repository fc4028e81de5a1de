"""Activations as modules; the formulas are in :mod:`lamella.nn.functional`.

``inplace=True`` makes the input stand for the result, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

import lamella as lm
from lamella.errors import ShapeError
from lamella.nn import functional as F
from lamella.nn.module import Configured
from lamella.nn.parameter import Parameter
from lamella.tensor.tensor import Tensor

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU",
    "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign",
    "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


class _InPlace(Configured):
    """An activation without parameters that may make its input stand for the result."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class ReLU(_InPlace):
    """:func:`~lamella.nn.functional.relu`.

    >>> import lamella as lm
    >>> ReLU()(lm.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """``max(x, 0)``."""
        return F.relu(input, inplace=self.inplace)


class ReLU6(_InPlace):
    """:func:`~lamella.nn.functional.relu6`."""

    def forward(self, input: Tensor) -> Tensor:
        """``min(max(x, 0), 6)``."""
        return F.relu6(input, inplace=self.inplace)


class SELU(_InPlace):
    """:func:`~lamella.nn.functional.selu`."""

    def forward(self, input: Tensor) -> Tensor:
        """Scaled ELU."""
        return F.selu(input, inplace=self.inplace)


class SiLU(_InPlace):
    """:func:`~lamella.nn.functional.silu`."""

    def forward(self, input: Tensor) -> Tensor:
        """``x * sigmoid(x)``."""
        return F.silu(input, inplace=self.inplace)


class Mish(_InPlace):
    """:func:`~lamella.nn.functional.mish`."""

    def forward(self, input: Tensor) -> Tensor:
        """``x * tanh(softplus(x))``."""
        return F.mish(input, inplace=self.inplace)


class Hardswish(_InPlace):
    """:func:`~lamella.nn.functional.hardswish`."""

    def forward(self, input: Tensor) -> Tensor:
        """``x * relu6(x + 3) / 6``."""
        return F.hardswish(input, inplace=self.inplace)


class Hardsigmoid(_InPlace):
    """:func:`~lamella.nn.functional.hardsigmoid`."""

    def forward(self, input: Tensor) -> Tensor:
        """``relu6(x + 3) / 6``."""
        return F.hardsigmoid(input, inplace=self.inplace)


class Sigmoid(Configured):
    """:func:`~lamella.nn.functional.sigmoid`."""

    def forward(self, input: Tensor) -> Tensor:
        """``1 / (1 + exp(-x))``."""
        return F.sigmoid(input)


class LogSigmoid(Configured):
    """:func:`~lamella.nn.functional.logsigmoid`."""

    def forward(self, input: Tensor) -> Tensor:
        """``log(sigmoid(x))``."""
        return F.logsigmoid(input)


class Tanh(Configured):
    """:func:`~lamella.nn.functional.tanh`."""

    def forward(self, input: Tensor) -> Tensor:
        """The hyperbolic tangent."""
        return F.tanh(input)


class Tanhshrink(Configured):
    """:func:`~lamella.nn.functional.tanhshrink`."""

    def forward(self, input: Tensor) -> Tensor:
        """``x - tanh(x)``."""
        return F.tanhshrink(input)


class Softsign(Configured):
    """:func:`~lamella.nn.functional.softsign`."""

    def forward(self, input: Tensor) -> Tensor:
        """``x / (1 + |x|)``."""
        return F.softsign(input)


class ELU(Configured):
    """:func:`~lamella.nn.functional.elu`."""

    options = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """``x`` or ``alpha * (exp(x) - 1)``."""
        return F.elu(input, self.alpha, inplace=self.inplace)


class CELU(Configured):
    """:func:`~lamella.nn.functional.celu`."""

    options = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """``x`` or ``alpha * (exp(x / alpha) - 1)``."""
        return F.celu(input, self.alpha, inplace=self.inplace)


class LeakyReLU(Configured):
    """:func:`~lamella.nn.functional.leaky_relu`."""

    options = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """``x`` or ``negative_slope * x``."""
        return F.leaky_relu(input, self.negative_slope, inplace=self.inplace)


class Hardtanh(Configured):
    """:func:`~lamella.nn.functional.hardtanh`."""

    options = ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """``x`` between the limits."""
        return F.hardtanh(input, self.min_val, self.max_val, inplace=self.inplace)


class Threshold(Configured):
    """:func:`~lamella.nn.functional.threshold`."""

    options = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """``x`` above the threshold, ``value`` elsewhere."""
        return F.threshold(input, self.threshold, self.value, inplace=self.inplace)


class Hardshrink(Configured):
    """:func:`~lamella.nn.functional.hardshrink`."""

    options = ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """``x`` outside ``[-lambd, lambd]``, 0 inside."""
        return F.hardshrink(input, self.lambd)


class Softshrink(Configured):
    """:func:`~lamella.nn.functional.softshrink`."""

    options = ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """``x`` moved towards 0 by ``lambd``."""
        return F.softshrink(input, self.lambd)


class GELU(Configured):
    """:func:`~lamella.nn.functional.gelu`."""

    options = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """``x * Phi(x)``."""
        return F.gelu(input, self.approximate)


class Softplus(Configured):
    """:func:`~lamella.nn.functional.softplus`."""

    options = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """``log(1 + exp(beta * x)) / beta``."""
        return F.softplus(input, self.beta, self.threshold)


class GLU(Configured):
    """:func:`~lamella.nn.functional.glu`."""

    options = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """The first half times the sigmoid of the second."""
        return F.glu(input, self.dim)


class Softmax(Configured):
    """:func:`~lamella.nn.functional.softmax`."""

    options = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """``exp(x) / sum(exp(x))``."""
        return F.softmax(input, self.dim)


class LogSoftmax(Configured):
    """:func:`~lamella.nn.functional.log_softmax`."""

    options = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """``x - log(sum(exp(x)))``."""
        return F.log_softmax(input, self.dim)


class Softmin(Configured):
    """:func:`~lamella.nn.functional.softmin`."""

    options = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """``exp(-x) / sum(exp(-x))``."""
        return F.softmin(input, self.dim)


class RReLU(Configured):
    """:func:`~lamella.nn.functional.rrelu`, with random slopes in training."""

    options = ("lower", "upper")

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """``x`` or a drawn slope times ``x``."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class PReLU(Configured):
    """:func:`~lamella.nn.functional.prelu` with trained slopes: ``weight (num_parameters,)``, one
    for all channels or one for each.

    >>> import lamella as lm
    >>> PReLU()(lm.asarray([[-4.0, 2.0]])).tolist()
    [[-1.0, 2.0]]
    """

    options = ("num_parameters",)

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(lm.full(num_parameters, init, dtype=dtype or lm.float32))

    def reset_parameters(self) -> None:
        """Set every slope to its first value."""
        self.weight.data.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        """``x`` or ``weight * x``."""
        return F.prelu(input, self.weight)


class Softmax2d(Configured):
    """:func:`~lamella.nn.functional.softmax` over the channels of ``(N, C, H, W)`` or ``(C, H,
    W)``.
    """

    def forward(self, input: Tensor) -> Tensor:
        """``exp(x) / sum(exp(x))`` over the channels."""
        if input.ndim not in (3, 4):
            raise ShapeError(
                f"[Softmax2d] input of shape {tuple(input.shape)} is not (N, C, H, W) or (C, H, W)"
            )
        return F.softmax(input, -3)
