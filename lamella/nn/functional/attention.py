"""Scaled dot-product attention (Vaswani et al., 2017), with PyTorch's arguments."""

from __future__ import annotations

import math
from typing import Any

import lamella as lm
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.ir.decisions import at_least
from lamella.ir.node import Node
from lamella.nn.functional.dropout import dropout
from lamella.nn.functional.softmax import softmax
from lamella.nn.functional.support import record, tensor
from lamella.ops.attention import attention
from lamella.tensor.tensor import Tensor

__all__ = ["attention_weights", "scaled_dot_product_attention"]

FEW = 8  # queries below which a product with the keys as it is costs less than tiles


def attention_weights(
    query: Tensor,
    key: Tensor,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    band: tuple[int | None, int | None] = (None, None),
) -> Tensor:
    """``softmax(query @ key^T * scale + mask)``: ``(..., L, E)`` and ``(..., S, E)`` to ``(..., L,
    S)``.

    A row that a mask hides wholly has no weights: its sum is zero, not NaN. ``band``: how many keys
    before and after its own place a row sees.

    >>> attention_weights(lm.ones((2, 4)), lm.ones((2, 4)), is_causal=True).tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    factor = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
    scores = lm.matmul(query * factor, key.mT)
    allowed = _allowed(query.shape[-2], key.shape[-2], band[0], 0 if is_causal else band[1])
    if attn_mask is not None:
        mask = tensor(attn_mask)
        _fitting_mask(mask, scores.shape)
        if mask.dtype.is_floating:
            scores = scores + mask.astype(scores.dtype)
            shown = scores != float("-inf")
        else:
            shown = mask.astype(lm.bool_)
        allowed = shown if allowed is None else allowed & shown
    if allowed is None:
        return softmax(scores, -1)
    hidden_rows = attn_mask is not None or band != (None, None)
    weights = softmax(lm.where(allowed, scores, float("-inf")), -1)
    return lm.where(allowed, weights, 0) if hidden_rows else weights


def _allowed(rows: Any, columns: Any, before: int | None, after: int | None) -> Tensor | None:
    gap = lm.arange(columns)[None, :] - lm.arange(rows)[:, None]
    low = None if before is None else gap >= -before
    high = None if after is None else gap <= after
    return high if low is None else low if high is None else low & high


def _fitting_mask(mask: Tensor, scores: tuple[Any, ...]) -> None:
    """Raise unless ``mask`` broadcasts to the scores, which it must not enlarge."""
    pairs = zip(reversed(mask.shape), reversed(scores), strict=False)
    clash = any(isinstance(m, int) and isinstance(s, int) and m not in (1, s) for m, s in pairs)
    if clash or mask.ndim > len(scores):
        raise ShapeError(
            f"[attention] a mask of shape {tuple(mask.shape)} for scores of shape "
            f"{tuple(scores)}, which are (..., queries, keys): a mask broadcasts to them; "
            "check the order of its axes"
        )


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    window: tuple[int | None, int | None] | None = None,
) -> Tensor:
    """``softmax(query @ key^T * scale + mask) @ value``, without the weights in memory.

    The result and its gradient take memory in proportion to the lengths, not to their product, in
    one kernel each (Dao, FlashAttention-2, 2023); few queries, dropout and the gradient of a mask
    take the weights as a matrix. A row that may see no key gives zeros.

    Args:
        query: ``(..., L, E)``.
        key: ``(..., S, E)``.
        value: ``(..., S, V)``; leading axes of all three broadcast.
        attn_mask: broadcasts to ``(..., L, S)``: True where a key may be seen, or added to the
            scores.
        dropout_p: the probability of dropping a weight.
        is_causal: whether row ``i`` sees keys up to ``i`` only.
        scale: the factor on the scores (default ``1/sqrt(E)``).
        enable_gqa: whether keys and values may have fewer heads, each serving several of the
            query's.
        window: how many keys before and after its own place a row sees (None: all on that side);
            ``(w - 1, 0)`` is a sliding window of ``w`` keys. Not in PyTorch's function.

    Raises:
        ShapeError: if the last axes do not belong together.
        DTypeError: if the three have different dtypes or are not floating point.
        OptionError: if both a mask and ``is_causal`` are given, or ``window`` is not two counts.

    >>> q, k, v = lm.ones((2, 3, 4)), lm.ones((2, 5, 4)), lm.ones((2, 5, 6))
    >>> scaled_dot_product_attention(q, k, v).shape
    (2, 3, 6)
    """
    query, key, value = tensor(query), tensor(key), tensor(value)
    _check(query, key, value)
    if attn_mask is not None and is_causal:
        raise OptionError(
            "[scaled_dot_product_attention] got attn_mask and is_causal=True, which exclude each "
            "other; join them into one mask"
        )
    before, after = _band(window, is_causal)
    factor = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
    grouped = enable_gqa and query.shape[-3] != key.shape[-3]
    if grouped:
        _check_heads(query.shape[-3], key.shape[-3])
    if dropout_p or _are_few(query.shape[-2], key.shape[-2]):
        if grouped:
            key, value = (_repeat_heads(each, query.shape[-3]) for each in (key, value))
        weights = attention_weights(query, key, attn_mask, is_causal, factor, (before, after))
        return lm.matmul(dropout(weights, dropout_p) if dropout_p else weights, value)
    mask = None if attn_mask is None else _as_mask(attn_mask, query, key, grouped)
    if grouped:
        query, key, value, mask = _by_group(query, key, value, mask)
    y = _attend(query * factor, key, value, mask, before, after)
    return y.reshape((*y.shape[:-4], -1, *y.shape[-2:])) if grouped else y


def _are_few(rows: Any, keys: Any) -> bool:
    return not at_least(rows, FEW, True) and keys != 0


def _check(query: Tensor, key: Tensor, value: Tensor) -> None:
    for name, each in (("query", query), ("key", key), ("value", value)):
        if each.ndim < 2:
            raise ShapeError(
                f"[scaled_dot_product_attention] {name} of shape {tuple(each.shape)}: it has at "
                "least the axes (length, features); add axes with unsqueeze or reshape"
            )
        if each.dtype is not query.dtype or not each.dtype.is_floating:
            raise DTypeError(
                f"[scaled_dot_product_attention] query, key and value are {query.dtype.name}, "
                f"{key.dtype.name} and {value.dtype.name}: they have one floating-point dtype; "
                "cast them with .astype(...)"
            )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"[scaled_dot_product_attention] query {tuple(query.shape)}, key {tuple(key.shape)} "
            f"and value {tuple(value.shape)}: query and key must agree in the last axis, key and "
            "value in the one before; check the order of axes (..., length, features)"
        )


def _band(window: Any, is_causal: bool) -> tuple[int | None, int | None]:
    """How many keys before and after its own place a row sees."""
    if window is None:
        return None, 0 if is_causal else None
    sides = tuple(window) if isinstance(window, (tuple, list)) else (window,)
    fits = len(sides) == 2 and all(
        n is None or (isinstance(n, int) and not isinstance(n, bool) and n >= 0) for n in sides
    )
    if not fits:
        raise OptionError(
            f"[scaled_dot_product_attention] window={window!r} is not two numbers of keys before "
            "and after a row's own place; write (w - 1, 0) for the last w keys, None for no limit"
        )
    before, after = sides
    return before, 0 if is_causal else after


def _as_mask(mask: Any, query: Tensor, key: Tensor, grouped: bool) -> Tensor:
    """A mask as the call takes it: bool, or of the query's dtype, with all axes."""
    found = tensor(mask)
    heads = () if grouped else key.shape[:-2]
    lead = lm.broadcast_shapes(query.shape[:-2], heads)
    scores = (*lead, query.shape[-2], key.shape[-2])
    _fitting_mask(found, scores)
    found = found.astype(query.dtype if found.dtype.is_floating else lm.bool_)
    return found.reshape((*(1,) * (len(scores) - found.ndim), *found.shape))


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    before: int | None,
    after: int | None,
) -> Tensor:
    """The call, after leading axes are made to fit."""
    heads = lm.broadcast_shapes(key.shape[:-2], value.shape[:-2])
    lead = lm.broadcast_shapes(query.shape[:-2], heads)
    heads = (*(1,) * (len(lead) - len(heads)), *heads)
    given = [lm.broadcast_to(query, (*lead, *query.shape[-2:]))]
    given += [lm.broadcast_to(x, (*heads, *x.shape[-2:])) for x in (key, value)]
    if mask is not None:
        given.append(mask.reshape((*(1,) * (len(lead) + 2 - mask.ndim), *mask.shape)))

    def result(q: Node, k: Node, v: Node, mask: Node | None = None) -> Node:
        return attention(q, k, v, mask, before, after)[0]

    return record(result, *given)


def _check_heads(heads: int, held: int) -> None:
    if heads % held:
        raise ShapeError(
            f"[scaled_dot_product_attention] {heads} query heads are no multiple of the {held} of "
            "keys and values; use head counts that divide"
        )


def _repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Each head several times, one after the other."""
    shape = (*x.shape[:-2], heads // x.shape[-3], *x.shape[-2:])
    return lm.broadcast_to(x[..., None, :, :], shape).reshape((*x.shape[:-3], heads, *x.shape[-2:]))


def _by_group(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Heads of the query as (heads of the keys, heads that share one)."""
    held = key.shape[-3]

    def split(x: Tensor) -> Tensor:
        shape = (held, -1) if x.shape[-3] > 1 else (1, 1)
        return x.reshape((*x.shape[:-3], *shape, *x.shape[-2:]))

    return (
        split(query),
        key[..., None, :, :],
        value[..., None, :, :],
        (None if mask is None else split(mask)),
    )
