"""Activations as modules; the formulas are in :mod:`lamella.nn.functional`.

``inplace=True`` makes the input stand for the result, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

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


class _Activation(Configured):
    """``function`` of the input and of the options, in their order."""

    function: ClassVar[Callable[..., Tensor]]

    def forward(self, input: Tensor) -> Tensor:
        """The function of each element, or along an axis."""
        return type(self).function(input, *(getattr(self, name) for name in self.options))


class _InPlace(_Activation):
    """An activation that may make its input stand for the result."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The function of each element."""
        options = (getattr(self, name) for name in self.options)
        return type(self).function(input, *options, inplace=self.inplace)


class ReLU(_InPlace):
    """``max(x, 0)``: :func:`~lamella.nn.functional.relu`.

    >>> import lamella as lm
    >>> ReLU()(lm.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    function = staticmethod(F.relu)


class ReLU6(_InPlace):
    """``min(max(x, 0), 6)``: :func:`~lamella.nn.functional.relu6`."""

    function = staticmethod(F.relu6)


class SELU(_InPlace):
    """A scaled ELU: :func:`~lamella.nn.functional.selu`."""

    function = staticmethod(F.selu)


class SiLU(_InPlace):
    """``x * sigmoid(x)``: :func:`~lamella.nn.functional.silu`."""

    function = staticmethod(F.silu)


class Mish(_InPlace):
    """``x * tanh(softplus(x))``: :func:`~lamella.nn.functional.mish`."""

    function = staticmethod(F.mish)


class Hardswish(_InPlace):
    """``x * relu6(x + 3) / 6``: :func:`~lamella.nn.functional.hardswish`."""

    function = staticmethod(F.hardswish)


class Hardsigmoid(_InPlace):
    """``relu6(x + 3) / 6``: :func:`~lamella.nn.functional.hardsigmoid`."""

    function = staticmethod(F.hardsigmoid)


class Sigmoid(_Activation):
    """``1 / (1 + exp(-x))``: :func:`~lamella.nn.functional.sigmoid`."""

    function = staticmethod(F.sigmoid)


class LogSigmoid(_Activation):
    """``log(sigmoid(x))``: :func:`~lamella.nn.functional.logsigmoid`."""

    function = staticmethod(F.logsigmoid)


class Tanh(_Activation):
    """The hyperbolic tangent: :func:`~lamella.nn.functional.tanh`."""

    function = staticmethod(F.tanh)


class Tanhshrink(_Activation):
    """``x - tanh(x)``: :func:`~lamella.nn.functional.tanhshrink`."""

    function = staticmethod(F.tanhshrink)


class Softsign(_Activation):
    """``x / (1 + |x|)``: :func:`~lamella.nn.functional.softsign`."""

    function = staticmethod(F.softsign)


class ELU(_InPlace):
    """``x`` or ``alpha * (exp(x) - 1)``: :func:`~lamella.nn.functional.elu`."""

    function = staticmethod(F.elu)
    options = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha


class CELU(_InPlace):
    """``x`` or ``alpha * (exp(x / alpha) - 1)``: :func:`~lamella.nn.functional.celu`."""

    function = staticmethod(F.celu)
    options = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha


class LeakyReLU(_InPlace):
    """``x`` or ``negative_slope * x``: :func:`~lamella.nn.functional.leaky_relu`."""

    function = staticmethod(F.leaky_relu)
    options = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope


class Hardtanh(_InPlace):
    """``x`` between the limits: :func:`~lamella.nn.functional.hardtanh`."""

    function = staticmethod(F.hardtanh)
    options = ("min_val", "max_val")

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.min_val = min_val
        self.max_val = max_val


class Threshold(_InPlace):
    """``x`` above the threshold, ``value`` elsewhere: :func:`~lamella.nn.functional.threshold`."""

    function = staticmethod(F.threshold)
    options = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value


class Hardshrink(_Activation):
    """``x`` outside ``[-lambd, lambd]``, 0 inside: :func:`~lamella.nn.functional.hardshrink`."""

    function = staticmethod(F.hardshrink)
    options = ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd


class Softshrink(_Activation):
    """``x`` moved towards 0 by ``lambd``: :func:`~lamella.nn.functional.softshrink`."""

    function = staticmethod(F.softshrink)
    options = ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd


class GELU(_Activation):
    """``x * Phi(x)``: :func:`~lamella.nn.functional.gelu`."""

    function = staticmethod(F.gelu)
    options = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate


class Softplus(_Activation):
    """``log(1 + exp(beta * x)) / beta``: :func:`~lamella.nn.functional.softplus`."""

    function = staticmethod(F.softplus)
    options = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold


class _Along(_Activation):
    """An activation along an axis."""

    options = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim


class GLU(_Along):
    """The first half times the sigmoid of the second: :func:`~lamella.nn.functional.glu`."""

    function = staticmethod(F.glu)


class Softmax(_Along):
    """``exp(x) / sum(exp(x))``: :func:`~lamella.nn.functional.softmax`."""

    function = staticmethod(F.softmax)


class LogSoftmax(_Along):
    """``x - log(sum(exp(x)))``: :func:`~lamella.nn.functional.log_softmax`."""

    function = staticmethod(F.log_softmax)


class Softmin(_Along):
    """``exp(-x) / sum(exp(-x))``: :func:`~lamella.nn.functional.softmin`."""

    function = staticmethod(F.softmin)


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
