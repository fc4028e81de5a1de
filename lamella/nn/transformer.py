"""The Transformer (Vaswani et al., 2017) as PyTorch builds it: encoder and decoder layers, stacks
of them, and both together.

Masks are as in :class:`~lamella.nn.MultiheadAttention`: True where attention is not allowed, or
added to the scores.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import lamella as lm
from lamella.errors import ShapeError
from lamella.nn import functional as F
from lamella.nn import init
from lamella.nn.attention import MultiheadAttention
from lamella.nn.container import ModuleList
from lamella.nn.dropout import Dropout
from lamella.nn.functional.support import choose
from lamella.nn.linear import Linear
from lamella.nn.module import Module
from lamella.nn.norm import LayerNorm
from lamella.tensor.tensor import Tensor

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip

Activation = str | Callable[[Tensor], Tensor]


class _Layer(Module):
    """What both layers share: the feed-forward block, the norms, and where they stand."""

    def _build(
        self, d_model: int, nhead: int, dim_feedforward: int, dropout: float,
        activation: Activation, eps: float, batch_first: bool, norm_first: bool, bias: bool,
        dtype: Any, attentions: tuple[str, ...],
    ) -> None:  # fmt: skip
        if isinstance(activation, str):
            choose(type(self).__name__, "activation", activation, ("relu", "gelu"))
            activation = F.relu if activation == "relu" else F.gelu
        for name in attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype
            )
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype)
        self.norm_first = norm_first
        for number in range(1, len(attentions) + 2):
            self.add_module(f"norm{number}", LayerNorm(d_model, eps, bias=bias, dtype=dtype))
        for number in range(1, len(attentions) + 2):
            self.add_module(f"dropout{number}", Dropout(dropout))
        self.activation = activation

    def _around(self, number: int, x: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
        """``x`` plus the block with dropout, normalised before the block or after the sum."""
        norm: LayerNorm = self._modules[f"norm{number}"]
        dropout: Dropout = self._modules[f"dropout{number}"]
        if self.norm_first:
            return x + dropout(block(norm(x)))
        return norm(x + dropout(block(x)))

    def _feed(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


def _attend(
    attention: MultiheadAttention, x: Tensor, memory: Tensor, mask: Any, padding: Any, causal: bool
) -> Tensor:
    """Attention of ``x`` to ``memory``; a mask that is given says what is causal."""
    y, _ = attention(
        x, memory, memory, key_padding_mask=padding, need_weights=False, attn_mask=mask,
        is_causal=causal and mask is None,
    )  # fmt: skip
    return y


class TransformerEncoderLayer(_Layer):
    """Self-attention and two linear maps, each with dropout, a sum and a norm.

    >>> layer = TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> layer(lm.ones((2, 5, 8))).shape
    (2, 5, 8)
    """

    self_attn: MultiheadAttention

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._build(
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, dtype, ("self_attn",),
        )  # fmt: skip

    def forward(
        self, src: Tensor, src_mask: Any = None, src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """``src`` after the layer.

        Args:
            src: ``(S, N, E)``, with ``batch_first`` ``(N, S, E)``, or ``(S, E)``.
            src_mask: ``(S, S)``.
            src_key_padding_mask: ``(N, S)``.
            is_causal: whether a position sees only those up to it (where no mask is given).
        """

        def attend(x: Tensor) -> Tensor:
            return _attend(self.self_attn, x, x, src_mask, src_key_padding_mask, is_causal)

        return self._around(2, self._around(1, src, attend), self._feed)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's result and two linear maps, each with dropout, a
    sum and a norm.

    >>> layer = TransformerDecoderLayer(8, 2, 16, batch_first=True)
    >>> layer(lm.ones((2, 5, 8)), lm.ones((2, 7, 8))).shape
    (2, 5, 8)
    """

    self_attn: MultiheadAttention
    multihead_attn: MultiheadAttention

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._build(
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, dtype, ("self_attn", "multihead_attn"),
        )  # fmt: skip

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Any = None, memory_mask: Any = None,
        tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """``tgt`` after the layer, which also sees ``memory``.

        Args:
            tgt: ``(T, N, E)``, with ``batch_first`` ``(N, T, E)``, or ``(T, E)``.
            memory: ``(S, N, E)`` and so on.
            tgt_mask: ``(T, T)``.
            memory_mask: ``(T, S)``.
            tgt_key_padding_mask: ``(N, T)``.
            memory_key_padding_mask: ``(N, S)``.
            tgt_is_causal: whether a position sees only those up to it (where no mask is given).
            memory_is_causal: the same for ``memory``.
        """

        def itself(x: Tensor) -> Tensor:
            return _attend(self.self_attn, x, x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def other(x: Tensor) -> Tensor:
            return _attend(
                self.multihead_attn, x, memory, memory_mask, memory_key_padding_mask,
                memory_is_causal,
            )  # fmt: skip

        x = self._around(2, self._around(1, tgt, itself), other)
        return self._around(3, x, self._feed)


class TransformerEncoder(Module):
    """``num_layers`` copies of an encoder layer, and a norm after them if one is given.

    >>> layer = TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> TransformerEncoder(layer, 2)(lm.ones((2, 5, 8))).shape
    (2, 5, 8)
    """

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.add_module("norm", norm)

    def forward(
        self, src: Tensor, mask: Any = None, src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Tensor:  # fmt: skip
        """``src`` after all layers; arguments as those of a layer."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        norm = self._modules["norm"]
        return src if norm is None else norm(src)


class TransformerDecoder(Module):
    """``num_layers`` copies of a decoder layer, and a norm after them if one is given.

    >>> layer = TransformerDecoderLayer(8, 2, 16, batch_first=True)
    >>> TransformerDecoder(layer, 2)(lm.ones((2, 5, 8)), lm.ones((2, 7, 8))).shape
    (2, 5, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.add_module("norm", norm)

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Any = None, memory_mask: Any = None,
        tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """``tgt`` after all layers; arguments as those of a layer."""
        for layer in self.layers:
            tgt = layer(
                tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                bool(tgt_is_causal), memory_is_causal,
            )  # fmt: skip
        norm = self._modules["norm"]
        return tgt if norm is None else norm(tgt)


class Transformer(Module):
    """An encoder and a decoder that sees its result; weights drawn by Glorot's rule.

    >>> model = Transformer(8, 2, 1, 1, 16, batch_first=True)
    >>> model(lm.ones((2, 7, 8)), lm.ones((2, 5, 8))).shape
    (2, 5, 8)
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6,
        num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, custom_encoder: Module | None = None,
        custom_decoder: Module | None = None, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        common: Any = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, dtype,
        )  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*common), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*common), num_decoder_layers, norm()
        )
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values for every matrix."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    @staticmethod
    def generate_square_subsequent_mask(size: int, dtype: Any = None) -> Tensor:
        """A causal mask ``(size, size)``: 0 up to the diagonal, -inf above it.

        >>> Transformer.generate_square_subsequent_mask(2).tolist()
        [[0.0, -inf], [0.0, 0.0]]
        """
        places = lm.arange(size)
        mask = lm.where(places[None, :] > places[:, None], float("-inf"), 0.0)
        return mask.astype(dtype or lm.float32)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Any = None, tgt_mask: Any = None,
        memory_mask: Any = None, src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """The decoder's result for ``tgt``, given the encoder's for ``src``; masks as in their
        layers.

        Raises:
            ShapeError: if batch or features differ.
        """
        if src.ndim != tgt.ndim or src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ShapeError(
                f"[Transformer] src of shape {tuple(src.shape)} and tgt of shape "
                f"{tuple(tgt.shape)}: both have as many axes and the last is d_model="
                f"{self.d_model}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        result: Tensor = self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            tgt_is_causal, memory_is_causal,
        )  # fmt: skip
        return result
