"""Dropout as modules; they act in training only. The formulas are in
:mod:`lamella.nn.functional.dropout`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from lamella.nn import functional as F
from lamella.nn.functional.support import check_probability
from lamella.nn.module import Configured
from lamella.tensor.tensor import Tensor

__all__ = [
    "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout",
]  # fmt: skip


class _Dropout(Configured):
    function: ClassVar[Callable[..., Tensor]]
    options = ("p", "inplace")

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        check_probability(type(self).__name__, p)
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The input with parts dropped."""
        return type(self).function(input, self.p, self.training, self.inplace)


class Dropout(_Dropout):
    """In training, each element is zero with probability ``p`` and divided by ``1 - p`` otherwise.

    >>> import lamella as lm
    >>> Dropout(0.5).eval()(lm.ones(2)).tolist()
    [1.0, 1.0]
    """

    function = staticmethod(F.dropout)


class Dropout1d(_Dropout):
    """:func:`~lamella.nn.functional.dropout1d`: whole channels of ``(N, C, L)``."""

    function = staticmethod(F.dropout1d)


class Dropout2d(_Dropout):
    """:func:`~lamella.nn.functional.dropout2d`: whole channels of ``(N, C, H, W)``."""

    function = staticmethod(F.dropout2d)


class Dropout3d(_Dropout):
    """:func:`~lamella.nn.functional.dropout3d`: whole channels of ``(N, C, D, H, W)``."""

    function = staticmethod(F.dropout3d)


class AlphaDropout(_Dropout):
    """:func:`~lamella.nn.functional.alpha_dropout`: keeps mean 0 and variance 1."""

    function = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    """:func:`~lamella.nn.functional.feature_alpha_dropout`: whole channels of ``(N, C, *)``."""

    function = staticmethod(F.feature_alpha_dropout)
