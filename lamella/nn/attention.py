"""Multi-head attention (Vaswani et al., 2017) with PyTorch's parameter names and arguments."""

from __future__ import annotations

from typing import Any

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.nn import functional as F
from lamella.nn import init
from lamella.nn.functional.attention import attention_weights
from lamella.nn.functional.support import tensor
from lamella.nn.linear import Linear
from lamella.nn.module import Module
from lamella.nn.parameter import Parameter
from lamella.tensor.tensor import Tensor

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention in ``num_heads`` heads of size ``embed_dim / num_heads``, between learned
    projections.

    Parameters are ``in_proj_weight (3 E, E)`` (or ``q_proj_weight``, ``k_proj_weight``,
    ``v_proj_weight`` when ``kdim`` or ``vdim`` differ from E), ``in_proj_bias (3 E,)``,
    ``out_proj.weight`` and ``out_proj.bias``.

    >>> attention = MultiheadAttention(8, 2, batch_first=True)
    >>> y, weights = attention(lm.ones((1, 3, 8)), lm.ones((1, 5, 8)), lm.ones((1, 5, 8)))
    >>> y.shape, weights.shape
    ((1, 3, 8), (1, 3, 5))
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, kdim: int |
        None = None,
        vdim: int | None = None, batch_first: bool = False, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads:
            raise OptionError(
                f"[MultiheadAttention] embed_dim={embed_dim} is no multiple of "
                f"num_heads={num_heads}; give a divisor"
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self._same = self.kdim == self.vdim == embed_dim
        dtype = dtype or lm.float32
        sizes = {"in": None, "q": embed_dim, "k": self.kdim, "v": self.vdim}
        for name, size in sizes.items():
            used = self._same == (name == "in")
            shape = (3 * embed_dim, embed_dim) if size is None else (embed_dim, size)
            value = Parameter(init.xavier_uniform_(lm.empty(shape, dtype=dtype))) if used else None
            self.register_parameter(f"{name}_proj_weight", value)
        self.register_parameter(
            "in_proj_bias", Parameter(lm.zeros(3 * embed_dim, dtype=dtype)) if bias else None
        )
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, dtype=dtype)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)

    def forward(
        self, query: Any, key: Any, value: Any, key_padding_mask: Any = None, need_weights: bool =
        True,
        attn_mask: Any = None, average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """The attended values and, if wanted, the weights.

        Args:
            query: ``(L, N, E)``, with ``batch_first`` ``(N, L, E)``, or ``(L, E)``.
            key: ``(S, N, kdim)`` and so on.
            value: ``(S, N, vdim)`` and so on.
            key_padding_mask: ``(N, S)``, True where a key is to be left out (or added to the
                scores).
            need_weights: whether to return the weights.
            attn_mask: ``(L, S)`` or ``(N * heads, L, S)``, True where attention is not allowed (or
                added).
            average_attn_weights: whether the weights are averaged over heads.
            is_causal: whether row ``i`` sees keys up to ``i`` only.

        Returns:
            the result, of the query's layout, and weights ``(N, L, S)``, ``(N, heads, L, S)`` or
            None.
        """
        query, key, value = tensor(query), tensor(key), tensor(value)
        if query.ndim == 2:
            single = [each[None] for each in (query, key, value)]
            padding = None if key_padding_mask is None else tensor(key_padding_mask)[None]
            y, weights = self._attend(*single, padding, need_weights, attn_mask, is_causal)
            y = y[0]
            weights = None if weights is None else weights[0]
        else:
            if not self.batch_first:
                query, key, value = (lm.swapaxes(each, 0, 1) for each in (query, key, value))
            y, weights = self._attend(
                query, key, value, key_padding_mask, need_weights, attn_mask, is_causal
            )
            y = y if self.batch_first else lm.swapaxes(y, 0, 1)
        if weights is not None and average_attn_weights:
            weights = weights.mean(-3)
        return y, weights

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        padding: Any,
        need_weights: bool,
        mask: Any,
        causal: bool,
    ) -> tuple[Tensor, Tensor | None]:
        q, k, v = (self._heads(each) for each in self._project(query, key, value))
        joined = self._mask(padding, mask, q.shape[0])
        dropped = self.dropout if self.training else 0.0
        if need_weights:
            weights = attention_weights(q, k, joined, causal)
            y = lm.matmul(F.dropout(weights, dropped) if dropped else weights, v)
        else:
            weights = None
            if joined is not None and causal:
                y = lm.matmul(F.dropout(attention_weights(q, k, joined, True), dropped), v)
            else:
                y = F.scaled_dot_product_attention(q, k, v, joined, dropped, causal)
        merged = lm.swapaxes(y, 1, 2).reshape((*query.shape[:2], self.embed_dim))
        return self.out_proj(merged), weights

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        size = self.embed_dim
        bias = self.in_proj_bias
        if self._same and query is key and key is value:
            joined = F.linear(query, self.in_proj_weight, bias)
            return [joined[..., i * size : (i + 1) * size] for i in range(3)]
        if self._same:
            weights = [self.in_proj_weight[i * size : (i + 1) * size] for i in range(3)]
        else:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        biases = [None if bias is None else bias[i * size : (i + 1) * size] for i in range(3)]
        return [
            F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)
        ]

    def _heads(self, x: Tensor) -> Tensor:
        """``(N, L, E)`` to ``(N, heads, L, E / heads)``."""
        return lm.swapaxes(x.reshape((*x.shape[:2], self.num_heads, self.head_dim)), 1, 2)

    def _mask(self, padding: Any, mask: Any, count: int) -> Tensor | None:
        """Both masks as one that is added, or True where attention is allowed, over ``(N, heads, L,
        S)``.
        """
        parts = []
        if mask is not None:
            mask = tensor(mask)
            if mask.ndim == 3 and mask.shape[0] != count * self.num_heads:
                raise ShapeError(
                    f"[MultiheadAttention] attn_mask of shape {tuple(mask.shape)}: with three axes "
                    f"the first is batch times heads, {count * self.num_heads} here; pass (L, S) "
                    "for one mask for all"
                )
            parts.append(mask.reshape((count, -1, *mask.shape[-2:])) if mask.ndim == 3 else mask)
        if padding is not None:
            padding = tensor(padding)
            if padding.ndim != 2 or padding.shape[0] != count:
                raise ShapeError(
                    f"[MultiheadAttention] key_padding_mask of shape {tuple(padding.shape)} for a "
                    f"batch of {count}: it is (batch, keys); with batch_first={self.batch_first} "
                    f"inputs are {'(N, L, E)' if self.batch_first else '(L, N, E)'}"
                )
            parts.append(padding[:, None, None, :])
        if not parts:
            return None
        if all(not part.dtype.is_floating for part in parts):
            allowed = [~part.astype(lm.bool_) for part in parts]
            return allowed[0] if len(allowed) == 1 else allowed[0] & allowed[1]
        added = [p if p.dtype.is_floating else lm.where(p, float("-inf"), 0.0) for p in parts]
        return added[0] if len(added) == 1 else added[0] + added[1]
