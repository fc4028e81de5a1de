"""Linear maps, lookups, dropout, unit vectors."""

from __future__ import annotations

from typing import Any

import lamella as lm
from lamella.errors import DTypeError, LamellaIndexError, OptionError, ShapeError
from lamella.nn.functional.support import tensor
from lamella.tensor.tensor import Tensor

__all__ = ["dropout", "embedding", "linear", "normalize", "one_hot", "padding_row"]


def linear(x: Any, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.T + bias``: ``(..., in)`` with ``weight (out, in)`` to ``(..., out)``.

    Raises:
        ShapeError: if the last axis of ``x`` is not ``in``.

    >>> linear(lm.ones((2, 3)), lm.ones((4, 3))).shape
    (2, 4)
    """
    x = tensor(x)
    if weight.ndim not in (1, 2) or not x.ndim or x.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"[linear] input of shape {tuple(x.shape)} with a weight of shape "
            f"{tuple(weight.shape)}: the last axis of both is the number of input features and "
            "must agree; reshape the input or build the layer for it"
        )
    y = lm.matmul(x, weight.T)
    return y if bias is None else y + bias


def padding_row(padding_idx: int | None, rows: int) -> int | None:
    """``padding_idx`` counted from the start.

    Raises:
        LamellaIndexError: if there is no such row.

    >>> padding_row(-1, 10)
    9
    """
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise LamellaIndexError(
            f"[embedding] padding_idx={padding_idx} is outside the {rows} rows; choose one of them"
        )
    return padding_idx % rows


def embedding(x: Any, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Rows of ``weight (rows, features)`` at the integers ``x (...)``: ``(..., features)``.

    The row ``padding_idx`` gets no gradient.

    Raises:
        DTypeError: if ``x`` is not an integer tensor.
        LamellaIndexError: when the result is computed, if an index is outside the table.

    >>> embedding(lm.asarray([1, 0]), lm.asarray([[1.0], [2.0]])).tolist()
    [[2.0], [1.0]]
    """
    x = tensor(x)
    if not x.dtype.is_integer:
        raise DTypeError(
            f"[embedding] indices are {x.dtype.name}, but name rows; cast them with "
            ".astype(lm.int64)"
        )
    rows = lm.take(weight, _from_zero(x, weight.shape[0]), axis=0)
    padding_idx = padding_row(padding_idx, weight.shape[0])
    if padding_idx is None:
        return rows
    return lm.where((x == padding_idx)[..., None], rows.detach(), rows)


def _from_zero(x: Tensor, count: int) -> Tensor:
    """Indices of which negative ones are out of range, in place of counting from the end."""
    if x.dtype.kind == "u":
        return x
    x = x.astype(lm.int64)
    return lm.where(x < 0, count, x)


def dropout(x: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """In training, each element is 0 with probability ``p`` and divided by ``1 - p`` otherwise.

    Raises:
        OptionError: if ``p`` is no probability.

    >>> dropout(lm.ones(3), 0.0).tolist()
    [1.0, 1.0, 1.0]
    """
    x = tensor(x)
    if not 0 <= p <= 1:
        raise OptionError(f"[dropout] p={p} is no probability; give one from 0 to 1")
    if not training or p == 0:
        return x
    if p == 1:
        return x * 0.0
    kept = lm.random.uniform(x.shape) >= p
    return lm.where(kept, x * (1 / (1 - p)), 0)


def normalize(x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """``x / max(|x|_p, eps)`` along ``dim``.

    >>> normalize(lm.asarray([[3.0, 4.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    x = tensor(x)
    total = (x * x if p == 2 else abs(x) ** p).sum(dim, keepdims=True)
    norm = lm.sqrt(total) if p == 2 else total ** (1 / p)
    return x / lm.maximum(norm, eps)


def one_hot(x: Any, num_classes: int = -1) -> Tensor:
    """``(..., num_classes)`` int64 with 1 at the class, 0 elsewhere (-1: one more than the
    largest).

    >>> one_hot(lm.asarray([0, 2]), 3).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    x = tensor(x)
    if not x.dtype.is_integer:
        raise DTypeError(
            f"[one_hot] classes are {x.dtype.name}, but are counted; cast them with "
            ".astype(lm.int64)"
        )
    count = int(x.max().item()) + 1 if num_classes < 0 else num_classes
    return (x[..., None] == lm.arange(count, dtype=x.dtype)).astype(lm.int64)
