"""Distances and similarities as modules; the formulas are in
:mod:`lamella.nn.functional.distance`.
"""

from __future__ import annotations

from lamella.nn import functional as F
from lamella.nn.module import Configured
from lamella.tensor.tensor import Tensor

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(Configured):
    """:func:`~lamella.nn.functional.cosine_similarity`.

    >>> import lamella as lm
    >>> CosineSimilarity()(lm.asarray([[1.0, 0.0]]), lm.asarray([[2.0, 0.0]])).tolist()
    [1.0]
    """

    options = ("dim", "eps")

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The cosine along ``dim``."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Configured):
    """:func:`~lamella.nn.functional.pairwise_distance`."""

    options = ("norm", "eps", "keepdim")

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The distance over the last axis."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
