"""Scaled dot-product attention (Vaswani et al., 2017), with PyTorch's arguments."""

from __future__ import annotations

import math
from typing import Any

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.dropout import dropout
from lamella.nn.functional.softmax import softmax
from lamella.nn.functional.support import tensor
from lamella.tensor.tensor import Tensor

__all__ = ["attention_weights", "scaled_dot_product_attention"]


def attention_weights(
    query: Tensor,
    key: Tensor,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """``softmax(query @ key^T * scale + mask)``: ``(..., L, E)`` and ``(..., S, E)`` to ``(..., L,
    S)``.

    A row that a boolean mask hides wholly has no weights: its sum is zero, not NaN.

    >>> attention_weights(lm.ones((2, 4)), lm.ones((2, 4)), is_causal=True).tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = lm.matmul(query * factor, key.mT)
    allowed = None
    if is_causal:
        rows, columns = query.shape[-2], key.shape[-2]
        allowed = lm.arange(rows)[:, None] >= lm.arange(columns)[None, :]
    if attn_mask is not None:
        mask = _fitting_mask(tensor(attn_mask), scores)
        if mask.dtype.is_floating:
            scores = scores + mask.astype(scores.dtype)
        else:
            mask = mask.astype(lm.bool_)
            allowed = mask if allowed is None else allowed & mask
    if allowed is None:
        return softmax(scores, -1)
    weights = softmax(lm.where(allowed, scores, float("-inf")), -1)
    return weights if attn_mask is None else lm.where(allowed, weights, 0)


def _fitting_mask(mask: Tensor, scores: Tensor) -> Tensor:
    """``mask`` if it broadcasts to the scores, which it must not enlarge."""
    pairs = zip(reversed(mask.shape), reversed(scores.shape), strict=False)
    clash = any(isinstance(m, int) and isinstance(s, int) and m not in (1, s) for m, s in pairs)
    if clash or mask.ndim > scores.ndim:
        raise ShapeError(
            f"[attention] a mask of shape {tuple(mask.shape)} for scores of shape "
            f"{tuple(scores.shape)}, which are (..., queries, keys): a mask broadcasts to them; "
            "check the order of its axes"
        )
    return mask


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``softmax(query @ key^T * scale + mask) @ value``.

    Args:
        query: ``(..., L, E)``.
        key: ``(..., S, E)``.
        value: ``(..., S, V)``.
        attn_mask: broadcasts to ``(..., L, S)``: True where a key may be seen, or added to the
            scores.
        dropout_p: the probability of dropping a weight.
        is_causal: whether row ``i`` sees keys up to ``i`` only.
        scale: the factor on the scores (default ``1/sqrt(E)``).
        enable_gqa: whether keys and values may have fewer heads, each serving several of the
            query's.

    Raises:
        ShapeError: if the last axes do not belong together.
        OptionError: if both a mask and ``is_causal`` are given.

    >>> q, k, v = lm.ones((2, 3, 4)), lm.ones((2, 5, 4)), lm.ones((2, 5, 6))
    >>> scaled_dot_product_attention(q, k, v).shape
    (2, 3, 6)
    """
    query, key, value = tensor(query), tensor(key), tensor(value)
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"[scaled_dot_product_attention] query {tuple(query.shape)}, key {tuple(key.shape)} "
            f"and value {tuple(value.shape)}: query and key must agree in the last axis, key and "
            "value in the one before; check the order of axes (..., length, features)"
        )
    if attn_mask is not None and is_causal:
        raise OptionError(
            "[scaled_dot_product_attention] got attn_mask and is_causal=True, which exclude each "
            "other; join them into one mask"
        )
    if enable_gqa and query.shape[-3] != key.shape[-3]:
        key, value = (_repeat_heads(each, query.shape[-3]) for each in (key, value))
    weights = attention_weights(query, key, attn_mask, is_causal, scale)
    return lm.matmul(dropout(weights, dropout_p) if dropout_p else weights, value)


def _repeat_heads(x: Tensor, heads: int) -> Tensor:
    held = x.shape[-3]
    if heads % held:
        raise ShapeError(
            f"[scaled_dot_product_attention] {heads} query heads are no multiple of the {held} of "
            "keys and values; use head counts that divide"
        )
    shape = (*x.shape[:-2], heads // held, *x.shape[-2:])
    return lm.broadcast_to(x[..., None, :, :], shape).reshape((*x.shape[:-3], heads, *x.shape[-2:]))
