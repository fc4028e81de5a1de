"""Multi-head attention (Vaswani et al., 2017) with PyTorch's parameter names and arguments."""

from __future__ import annotations

from typing import Any

import lamella as lm
from lamella.errors import OptionError
from lamella.nn import init
from lamella.nn.functional.multihead import Heads, attend, batch_first
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
    ``out_proj.weight`` and ``out_proj.bias``, and with ``add_bias_kv`` one more key and value,
    ``bias_k`` and ``bias_v`` ``(1, 1, E)``; ``add_zero_attn`` adds a key and a value of zeros.

    >>> attention = MultiheadAttention(8, 2, batch_first=True)
    >>> y, weights = attention(lm.ones((1, 3, 8)), lm.ones((1, 5, 8)), lm.ones((1, 5, 8)))
    >>> y.shape, weights.shape
    ((1, 3, 8), (1, 3, 5))
    """

    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
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
        self.add_zero_attn = add_zero_attn
        dtype = dtype or lm.float32
        self._projections(bias, dtype)
        for name in ("bias_k", "bias_v"):
            extra = lm.empty((1, 1, embed_dim), dtype=dtype)
            self.register_parameter(
                name, Parameter(init.xavier_normal_(extra)) if add_bias_kv else None
            )

    def _projections(self, bias: bool, dtype: Any) -> None:
        """Register the weights of the linear maps before and after."""
        size = self.embed_dim
        shapes = {
            "in": (3 * size, size), "q": (size, size), "k": (size, self.kdim),
            "v": (size, self.vdim),
        }  # fmt: skip
        for name, shape in shapes.items():
            used = self._same == (name == "in")
            value = Parameter(init.xavier_uniform_(lm.empty(shape, dtype=dtype))) if used else None
            self.register_parameter(f"{name}_proj_weight", value)
        self.register_parameter(
            "in_proj_bias", Parameter(lm.zeros(3 * size, dtype=dtype)) if bias else None
        )
        self.out_proj = Linear(size, size, bias=bias, dtype=dtype)
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
        if not self.batch_first:
            query, key, value = batch_first(query, key, value)
        y, weights = attend(
            query, key, value, self._heads(), self.dropout if self.training else 0.0,
            key_padding_mask, attn_mask, is_causal, need_weights,
        )  # fmt: skip
        if not self.batch_first and query.ndim == 3:
            y = lm.swapaxes(y, 0, 1)
        if weights is not None and average_attn_weights:
            weights = weights.mean(-3)
        return y, weights

    def _heads(self) -> Heads:
        names = ("in",) if self._same else ("q", "k", "v")
        weights = tuple(getattr(self, f"{name}_proj_weight") for name in names)
        return Heads(
            self.num_heads, weights, self.in_proj_bias, self.out_proj.weight, self.out_proj.bias,
            self.bias_k, self.bias_v, self.add_zero_attn,
        )  # fmt: skip
