"""Activations as modules; the formulas are in :mod:`lamella.nn.functional.activation`."""

from __future__ import annotations

from typing import Any

from lamella.nn import functional as F
from lamella.nn.module import Module
from lamella.tensor.tensor import Tensor

__all__ = [
    "ELU", "GELU", "SELU", "Hardsigmoid", "Hardswish", "LeakyReLU", "LogSoftmax", "Mish", "ReLU",
    "ReLU6", "SiLU", "Sigmoid", "Softmax", "Softplus", "Tanh",
]  # fmt: skip


class _Activation(Module):
    """An elementwise function without options (``inplace`` is taken for PyTorch's sake and changes
    nothing).
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()


class ReLU(_Activation):
    """:func:`~lamella.nn.functional.relu`.

    >>> import lamella as lm
    >>> ReLU()(lm.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """``max(x, 0)``."""
        return F.relu(x)


class ReLU6(_Activation):
    """:func:`~lamella.nn.functional.relu6`."""

    def forward(self, x: Tensor) -> Tensor:
        """``min(max(x, 0), 6)``."""
        return F.relu6(x)


class SELU(_Activation):
    """:func:`~lamella.nn.functional.selu`."""

    def forward(self, x: Tensor) -> Tensor:
        """Scaled ELU."""
        return F.selu(x)


class SiLU(_Activation):
    """:func:`~lamella.nn.functional.silu`."""

    def forward(self, x: Tensor) -> Tensor:
        """``x * sigmoid(x)``."""
        return F.silu(x)


class Mish(_Activation):
    """:func:`~lamella.nn.functional.mish`."""

    def forward(self, x: Tensor) -> Tensor:
        """``x * tanh(softplus(x))``."""
        return F.mish(x)


class Hardswish(_Activation):
    """:func:`~lamella.nn.functional.hardswish`."""

    def forward(self, x: Tensor) -> Tensor:
        """``x * relu6(x + 3) / 6``."""
        return F.hardswish(x)


class Hardsigmoid(_Activation):
    """:func:`~lamella.nn.functional.hardsigmoid`."""

    def forward(self, x: Tensor) -> Tensor:
        """``relu6(x + 3) / 6``."""
        return F.hardsigmoid(x)


class Sigmoid(_Activation):
    """:func:`~lamella.nn.functional.sigmoid`."""

    def forward(self, x: Tensor) -> Tensor:
        """``1 / (1 + exp(-x))``."""
        return F.sigmoid(x)


class Tanh(_Activation):
    """:func:`~lamella.nn.functional.tanh`."""

    def forward(self, x: Tensor) -> Tensor:
        """The hyperbolic tangent."""
        return F.tanh(x)


class ELU(Module):
    """:func:`~lamella.nn.functional.elu`."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        """``x`` or ``alpha * (exp(x) - 1)``."""
        return F.elu(x, self.alpha)

    def extra_repr(self) -> str:
        """The options."""
        return f"alpha={self.alpha}"


class LeakyReLU(Module):
    """:func:`~lamella.nn.functional.leaky_relu`."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        """``x`` or ``negative_slope * x``."""
        return F.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        """The options."""
        return f"negative_slope={self.negative_slope}"


class GELU(Module):
    """:func:`~lamella.nn.functional.gelu`."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        """``x * Phi(x)``."""
        return F.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        """The options."""
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """:func:`~lamella.nn.functional.softplus`."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, x: Tensor) -> Tensor:
        """``log(1 + exp(beta * x)) / beta``."""
        return F.softplus(x, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """The options."""
        return f"beta={self.beta}, threshold={self.threshold}"


class _AlongAxis(Module):
    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """The options."""
        return f"dim={self.dim}"


class Softmax(_AlongAxis):
    """:func:`~lamella.nn.functional.softmax` along ``dim``."""

    def forward(self, x: Any) -> Tensor:
        """``exp(x) / sum(exp(x))``."""
        return F.softmax(x, self.dim)


class LogSoftmax(_AlongAxis):
    """:func:`~lamella.nn.functional.log_softmax` along ``dim``."""

    def forward(self, x: Any) -> Tensor:
        """``x - log(sum(exp(x)))``."""
        return F.log_softmax(x, self.dim)
