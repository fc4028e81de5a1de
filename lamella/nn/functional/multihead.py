"""Multi-head attention between learned projections (Vaswani et al., 2017), as a function of all its
weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.attention import attention_weights, scaled_dot_product_attention
from lamella.nn.functional.dropout import dropout
from lamella.nn.functional.linear import linear
from lamella.nn.functional.support import tensor
from lamella.tensor.tensor import Tensor

__all__ = ["Heads", "attend", "batch_first", "multi_head_attention_forward"]


@dataclass(frozen=True)
class Heads:
    """The weights of an attention over ``E`` features, and into how many heads it divides them.

    ``inputs`` is one matrix ``(3 E, E)`` or three, for query, key and value. ``bias_k`` and
    ``bias_v`` ``(1, 1, E)`` are one more key and value, as are zeros with ``zero``. ``static_k``
    and ``static_v`` ``(N * heads, S, E / heads)`` stand in for the projected ones.
    """

    count: int
    inputs: tuple[Tensor, ...]
    input_bias: Tensor | None
    output: Tensor
    output_bias: Tensor | None
    bias_k: Tensor | None = None
    bias_v: Tensor | None = None
    zero: bool = False
    static_k: Tensor | None = None
    static_v: Tensor | None = None

    def projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Query, key and value ``(N, L, E)`` after their linear maps."""
        size = self.output.shape[1]
        bias = self.input_bias
        if len(self.inputs) == 1 and query is key and key is value:
            joined = linear(query, self.inputs[0], bias)
            return [joined[..., i * size : (i + 1) * size] for i in range(3)]
        weights = self.inputs
        if len(weights) == 1:
            weights = tuple(weights[0][i * size : (i + 1) * size] for i in range(3))
        biases = [None if bias is None else bias[i * size : (i + 1) * size] for i in range(3)]
        return [
            linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)
        ]

    def split(self, x: Tensor) -> Tensor:
        """``(N, L, E)`` to ``(N, heads, L, E / heads)``."""
        return lm.swapaxes(x.reshape((*x.shape[:2], self.count, -1)), 1, 2)

    @property
    def extra(self) -> int:
        """How many keys are added to those given."""
        return (self.bias_k is not None) + self.zero

    def with_extra(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Keys or values ``(N, S, E)`` with those that are added."""
        parts = [x]
        if bias is not None:
            parts.append(lm.broadcast_to(bias, (x.shape[0], 1, x.shape[2])))
        if self.zero:
            parts.append(lm.zeros((x.shape[0], 1, x.shape[2]), dtype=x.dtype))
        return x if len(parts) == 1 else lm.concat(parts, axis=1)


def attend(
    query: Tensor, key: Tensor, value: Tensor, heads: Heads, dropped: float = 0.0,
    padding: Any = None, mask: Any = None, causal: bool = False, need_weights: bool = True,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention of ``(N, L, E)`` to ``(N, S, E)``: the result and the weights ``(N, heads, L, S)``.

    A single sequence ``(L, E)`` is taken too. ``dropped`` is the probability of dropping a weight;
    the masks are as in :func:`multi_head_attention_forward`.
    """
    if query.ndim == 2:
        padding = None if padding is None else tensor(padding)[None]
        one = (query[None], key[None], value[None])
        y, weights = attend(*one, heads, dropped, padding, mask, causal, need_weights)
        return y[0], None if weights is None else weights[0]
    q, k, v = heads.projected(query, key, value)
    q = heads.split(q)
    k, v = (
        heads.split(heads.with_extra(x, bias)) if fixed is None else _fixed(fixed, q, heads)
        for x, bias, fixed in (
            (k, heads.bias_k, heads.static_k), (v, heads.bias_v, heads.static_v),
        )
    )  # fmt: skip
    if causal and (heads.extra or mask is not None or padding is not None):
        rows, columns = q.shape[2], k.shape[2] - heads.extra
        later = lm.arange(columns)[None, :] > lm.arange(rows)[:, None]
        mask = _joined([later] + ([] if mask is None else [tensor(mask)]))
        causal = False
    allowed = _mask(padding, mask, q.shape[0], heads)
    if need_weights:
        weights = attention_weights(q, k, allowed, causal)
        weights = dropout(weights, dropped) if dropped else weights
        y = lm.matmul(weights, v)
    else:
        weights = None
        y = scaled_dot_product_attention(q, k, v, allowed, dropped, causal)
    merged = lm.swapaxes(y, 1, 2).reshape((*query.shape[:2], -1))
    return linear(merged, heads.output, heads.output_bias), weights


def _fixed(x: Tensor, q: Tensor, heads: Heads) -> Tensor:
    """Static keys or values ``(N * heads, S, E / heads)``, with zeros if they are added."""
    x = tensor(x).reshape((*q.shape[:2], -1, x.shape[-1]))
    return lm.pad(x, [(0, 0), (0, 0), (0, 1), (0, 0)]) if heads.zero else x


def _mask(padding: Any, mask: Any, count: int, heads: Heads) -> Tensor | None:
    """Both masks as one that is added, or True where attention is allowed, over ``(N, heads, L,
    S)``.
    """
    parts = []
    if mask is not None:
        mask = tensor(mask)
        if mask.ndim == 3 and mask.shape[0] != count * heads.count:
            raise ShapeError(
                f"[MultiheadAttention] attn_mask of shape {tuple(mask.shape)}: with three axes "
                f"the first is batch times heads, {count * heads.count} here; pass (L, S) for one "
                "mask for all"
            )
        parts.append(mask.reshape((count, -1, *mask.shape[-2:])) if mask.ndim == 3 else mask)
    if padding is not None:
        padding = tensor(padding)
        if padding.ndim != 2 or padding.shape[0] != count:
            raise ShapeError(
                f"[MultiheadAttention] key_padding_mask of shape {tuple(padding.shape)} for a "
                f"batch of {count}: it is (batch, keys); with batch_first inputs are (N, L, E), "
                "otherwise (L, N, E)"
            )
        parts.append(padding[:, None, None, :])
    if not parts:
        return None
    joined = _joined(parts)
    if heads.extra:
        joined = lm.pad(joined, [(0, 0)] * (joined.ndim - 1) + [(0, heads.extra)])
    return joined if joined.dtype.is_floating else ~joined


def _joined(parts: list[Tensor]) -> Tensor:
    """Masks as one: True where one of them is, or their sum."""
    if any(part.dtype.is_floating for part in parts):
        added = [p if p.dtype.is_floating else lm.where(p, float("-inf"), 0.0) for p in parts]
        return added[0] if len(added) == 1 else added[0] + added[1]
    hidden = [part.astype(lm.bool_) for part in parts]
    return hidden[0] if len(hidden) == 1 else hidden[0] | hidden[1]


def multi_head_attention_forward(
    query: Any, key: Any, value: Any, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None,
    bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor,
    out_proj_bias: Tensor | None, training: bool = True, key_padding_mask: Any = None,
    need_weights: bool = True, attn_mask: Any = None, use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None, static_k: Tensor | None = None,
    static_v: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention in heads between linear maps: ``(L, N, E)`` to ``(L, N, E)``, and the weights ``(N,
    L, S)``.

    Args:
        query: ``(L, N, E)`` or ``(L, E)``.
        key: ``(S, N, K)`` and so on.
        value: ``(S, N, V)`` and so on.
        embed_dim_to_check: ``E``.
        num_heads: into how many heads of equal size ``E`` is divided.
        in_proj_weight: ``(3 E, E)``, the linear maps of query, key and value.
        in_proj_bias: ``(3 E,)``.
        bias_k: one more key ``(1, 1, E)``.
        bias_v: one more value ``(1, 1, E)``.
        add_zero_attn: whether to add a key and a value of zeros.
        dropout_p: the probability of dropping a weight.
        out_proj_weight: ``(E, E)``, the linear map of the result.
        out_proj_bias: ``(E,)``.
        training: whether weights are dropped.
        key_padding_mask: ``(N, S)``, True where a key is to be left out (or added to the scores).
        need_weights: whether to return the weights.
        attn_mask: ``(L, S)`` or ``(N * heads, L, S)``, True where attention is not allowed (or
            added to the scores).
        use_separate_proj_weight: whether the next three are used, for ``K`` and ``V`` that differ
            from ``E``.
        q_proj_weight: ``(E, E)``.
        k_proj_weight: ``(E, K)``.
        v_proj_weight: ``(E, V)``.
        static_k: ``(N * heads, S, E / heads)`` in place of the projected keys.
        static_v: the same for values.
        average_attn_weights: whether the weights are averaged over heads.
        is_causal: whether row ``i`` sees keys up to ``i`` only.

    Raises:
        OptionError: if ``E`` does not divide into the heads, or weights are missing.
        ShapeError: if shapes do not belong together.

    >>> x, e = lm.ones((3, 2, 4)), lm.eye(4)
    >>> three, out = lm.concat([e, e, e]), lm.eye(4)
    >>> y, weights = multi_head_attention_forward(
    ...     x, x, x, 4, 2, three, None, None, None, False, 0.0, out, None
    ... )
    >>> y.shape, weights.shape
    ((3, 2, 4), (2, 3, 3))
    """
    query, key, value = tensor(query), tensor(key), tensor(value)
    if query.shape[-1] != embed_dim_to_check:
        raise ShapeError(
            f"[multi_head_attention_forward] a query of shape {tuple(query.shape)} has not "
            f"{embed_dim_to_check} features; build the layer for its last axis"
        )
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    given = separate if use_separate_proj_weight else (in_proj_weight,)
    weights = tuple(each for each in given if each is not None)
    if len(weights) != len(given) or num_heads < 1 or embed_dim_to_check % num_heads:
        raise OptionError(
            f"[multi_head_attention_forward] {embed_dim_to_check} features in {num_heads} heads "
            f"with {len(weights)} of {len(given)} projection weights; give a number of heads that "
            "divides the features, and every weight"
        )
    heads = Heads(
        num_heads, weights, in_proj_bias, out_proj_weight, out_proj_bias, bias_k, bias_v,
        add_zero_attn, static_k, static_v,
    )  # fmt: skip
    inputs = batch_first(query, key, value)
    dropped = dropout_p if training else 0.0
    y, shares = attend(
        *inputs, heads, dropped, key_padding_mask, attn_mask, is_causal, need_weights
    )
    y = y if query.ndim == 2 else lm.swapaxes(y, 0, 1)
    return y, shares.mean(-3) if shares is not None and average_attn_weights else shares


def batch_first(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``(L, N, E)`` as ``(N, L, E)``; tensors that were the same are so afterwards."""
    if query.ndim == 2:
        return query, key, value
    moved = {id(each): lm.swapaxes(each, 0, 1) for each in (query, key, value)}
    return moved[id(query)], moved[id(key)], moved[id(value)]
