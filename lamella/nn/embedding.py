"""Lookups in tables of vectors: Embedding and EmbeddingBag."""

from __future__ import annotations

from typing import Any, Self

import lamella as lm
from lamella.nn import functional as F
from lamella.nn import init
from lamella.nn.functional.support import choose
from lamella.nn.module import Module
from lamella.nn.parameter import Parameter
from lamella.tensor.tensor import Tensor

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """What both share: the table and its options."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None,
        max_norm: float | None, norm_type: float, scale_grad_by_freq: bool, dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = F.padding_row(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.weight = Parameter(
            lm.empty((num_embeddings, embedding_dim), dtype=dtype or lm.float32)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            kept = (lm.arange(self.num_embeddings) != self.padding_idx).astype(self.weight.dtype)
            self.weight.data = self.weight.detach() * kept[:, None]

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, **options: Any
    ) -> Self:
        """A layer with a given table; ``freeze`` leaves it untrained."""
        rows, width = embeddings.shape
        layer = cls(rows, width, padding_idx=padding_idx, **options)
        layer.weight = Parameter(embeddings, requires_grad=not freeze)
        return layer

    def extra_repr(self) -> str:
        """The options that are set, as PyTorch shows them."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        usual = {
            "padding_idx": None, "max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False,
            "mode": "",
        }  # fmt: skip
        for name, value in usual.items():
            if getattr(self, name, value) != value:
                text += f", {name}={getattr(self, name)!r}"
        return text


class Embedding(_Table):
    """Rows of a table by index: integer ``(...)`` to ``(..., embedding_dim)``.

    ``weight`` is ``(num_embeddings, embedding_dim)``, standard normal. The row ``padding_idx``
    starts at zero and is not trained; rows longer than ``max_norm`` are scaled down to it when
    they are looked up. An index outside the table raises IndexError when the result is computed.

    >>> Embedding(10, 4)(lm.asarray([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        """The rows at ``input``."""
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq,
        )  # fmt: skip


class EmbeddingBag(_Table):
    """Sums, means or maxima of rows of a table, without keeping the rows:
    :func:`~lamella.nn.functional.embedding_bag`.

    >>> EmbeddingBag(10, 4)(lm.asarray([1, 2, 3]), lm.asarray([0, 1])).shape
    (2, 4)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
        include_last_offset: bool = False, padding_idx: int | None = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            dtype,
        )  # fmt: skip
        self.mode = choose("EmbeddingBag", "mode", mode, ("sum", "mean", "max"))
        self.include_last_offset = include_last_offset

    def forward(self, input: Tensor, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        """Each bag's rows reduced."""
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip
