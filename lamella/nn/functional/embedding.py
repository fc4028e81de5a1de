"""Rows of a table by index: embedding, sums of bags of rows, and one-hot vectors."""

from __future__ import annotations

from typing import Any

import lamella as lm
from lamella import ops
from lamella.errors import DTypeError, LamellaIndexError, OptionError, ShapeError
from lamella.nn.functional.distance import vector_norm
from lamella.nn.functional.support import check_integer, choose, record, tensor
from lamella.nn.functional.support import tensor as as_tensor
from lamella.tensor.tensor import Tensor

__all__ = ["checked_classes", "embedding", "embedding_bag", "one_hot", "padding_row"]


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


def _from_zero(x: Tensor, count: Any) -> Tensor:
    """Indices of which negative ones are out of range, in place of counting from the end."""
    if x.dtype.kind == "u":
        return x
    x = x.astype(lm.int64)
    return lm.where(x < 0, count, x)


def checked_classes(x: Tensor, count: Any) -> Tensor:
    """The classes ``x`` as int64; one outside ``0 … count - 1`` raises where they are computed."""
    return record(ops.gather, lm.arange(count), _from_zero(x, count))


def _limit_norms(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows of ``weight`` at ``index`` down to ``max_norm``, in place."""
    with lm.no_grad():
        rows = lm.take(weight.detach(), index.reshape(-1), axis=0)
        norms = vector_norm(rows, norm_type, -1, keepdim=True)
        scaled = lm.where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows)
        weight.copy_(weight.detach().at[index.reshape(-1)].set(scaled))


def _rows(
    op: str, x: Tensor, weight: Tensor, padding: int | None, max_norm: float | None,
    norm_type: float, by_frequency: bool,
) -> Tensor:  # fmt: skip
    """The rows of ``weight`` at ``x``, whose gradient leaves out the row ``padding``."""
    check_integer(op, x, "indices")
    if weight.ndim != 2:
        raise ShapeError(
            f"[{op}] a weight of shape {tuple(weight.shape)} is no table (rows, features); reshape "
            "it"
        )
    index = _from_zero(x, weight.shape[0])
    if max_norm is not None:
        _limit_norms(weight, index, max_norm, norm_type)
    rows = lm.take(weight, index, axis=0)
    if by_frequency:
        counts = lm.take(_occurrences(index, weight), index, axis=0)[..., None]
        rows = rows.detach() + (rows - rows.detach()) / counts
    if padding is None:
        return rows
    return lm.where((x == padding)[..., None], rows.detach(), rows)


def _occurrences(index: Tensor, weight: Tensor) -> Tensor:
    return lm.zeros(weight.shape[0], dtype=weight.dtype).at[index.reshape(-1)].add(1)


def embedding(
    input: Any, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False,
) -> Tensor:  # fmt: skip
    """Rows of ``weight (rows, features)`` at the integers ``input (...)``: ``(..., features)``.

    Args:
        input: the indices.
        weight: the table.
        padding_idx: a row that gets no gradient.
        max_norm: rows looked up that are longer are first scaled down to this, in place.
        norm_type: which norm that is.
        scale_grad_by_freq: whether a row's gradient is divided by how often it is looked up.

    Raises:
        DTypeError: if ``input`` is not an integer tensor.
        LamellaIndexError: when the result is computed, if an index is outside the table.

    >>> embedding(lm.asarray([1, 0]), lm.asarray([[1.0], [2.0]])).tolist()
    [[2.0], [1.0]]
    """
    x, weight = tensor(input), tensor(weight)
    padding = padding_row(padding_idx, weight.shape[0])
    return _rows("embedding", x, weight, padding, max_norm, norm_type, scale_grad_by_freq)


def embedding_bag(
    input: Any, weight: Tensor, offsets: Any = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
    per_sample_weights: Any = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Sums, means or maxima of bags of rows of ``weight (rows, features)``: ``(bags, features)``.

    Args:
        input: indices, ``(bags, length)``, or ``(n,)`` with ``offsets``.
        weight: the table.
        offsets: ``(bags,)`` ascending, where each bag begins; bags may be empty and then give 0.
        max_norm: as in :func:`embedding`.
        norm_type: as in :func:`embedding`.
        scale_grad_by_freq: as in :func:`embedding` (not with ``mode="max"``).
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        per_sample_weights: a factor for each index, of its shape; ``mode="sum"`` only.
        include_last_offset: whether ``offsets`` has a last entry, the end of the last bag.
        padding_idx: a row that does not count in its bag.

    Raises:
        DTypeError: if ``input`` or ``offsets`` are not integers.
        ShapeError: if the shapes do not belong together.
        OptionError: for options that exclude each other.
        LamellaIndexError: when the result is computed, if an index is outside the table.

    >>> table = lm.asarray([[1.0], [2.0], [4.0]])
    >>> embedding_bag(lm.asarray([0, 1, 2]), table, lm.asarray([0, 1]), mode="sum").tolist()
    [[1.0], [6.0]]
    """
    x, weight = tensor(input), tensor(weight)
    choose("embedding_bag", "mode", mode, ("sum", "mean", "max"))
    _check_bags(x, offsets, mode, per_sample_weights, scale_grad_by_freq)
    padding = padding_row(padding_idx, weight.shape[0])
    rows = _rows("embedding_bag", x, weight, None, max_norm, norm_type, scale_grad_by_freq)
    if per_sample_weights is not None:
        rows = rows * tensor(per_sample_weights).astype(rows.dtype)[..., None]
    counted = lm.ones_like(x, dtype=lm.bool_) if padding is None else x != padding
    if x.ndim == 2:
        return _reduced(rows, counted, mode)
    starts = tensor(offsets)
    check_integer("embedding_bag", starts, "offsets")
    bag = lm.searchsorted(starts.astype(lm.int64), lm.arange(x.shape[0]), right=True) - 1
    return _scattered(rows, counted, bag, starts.shape[0] - bool(include_last_offset), mode)


def _check_bags(x: Tensor, offsets: Any, mode: str, weights: Any, by_frequency: bool) -> None:
    if x.ndim not in (1, 2) or (x.ndim == 2) != (offsets is None):
        raise ShapeError(
            f"[embedding_bag] indices of shape {tuple(x.shape)} "
            f"{'without' if offsets is None else 'with'} offsets: they are (bags, length) without, "
            "or (n,) with offsets that say where bags begin; give one of these"
        )
    if weights is not None and mode != "sum":
        raise OptionError(
            f"[embedding_bag] per_sample_weights with mode={mode!r}; they scale the terms of a "
            "sum: use mode='sum'"
        )
    if weights is not None and tuple(tensor(weights).shape) != tuple(x.shape):
        raise ShapeError(
            f"[embedding_bag] per_sample_weights of shape {tuple(tensor(weights).shape)} for "
            f"indices of shape {tuple(x.shape)}; give one for each index"
        )
    if by_frequency and mode == "max":
        raise OptionError(
            "[embedding_bag] scale_grad_by_freq with mode='max' has no meaning; leave it out"
        )


def _reduced(rows: Tensor, counted: Tensor, mode: str) -> Tensor:
    """``rows (bags, length, features)`` reduced over the counted ones of each bag."""
    chosen = counted[..., None]
    number = counted.sum(1, keepdims=True)
    if mode == "max":
        if rows.shape[1] == 0:
            return rows.sum(1)
        top = lm.where(chosen, rows, float("-inf")).max(1)
        return lm.where(number > 0, top, 0)
    total = lm.where(chosen, rows, 0).sum(1)
    return total if mode == "sum" else total / lm.maximum(number, 1).astype(rows.dtype)


def _scattered(rows: Tensor, counted: Tensor, bag: Tensor, bags: int, mode: str) -> Tensor:
    """``rows (n, features)`` reduced over the counted ones of each of ``bags`` bags."""
    dtype, features = rows.dtype, rows.shape[1]
    inside = counted & (bag >= 0) & (bag < bags)
    bag = lm.where(inside, bag, bags)  # a last bag takes what does not count
    number = lm.zeros((bags + 1, 1), dtype=dtype).at[bag].add(1)[:bags]
    if mode == "max":
        lowest = lm.full((bags + 1, features), float("-inf"), dtype=dtype)
        return lm.where(number > 0, lowest.at[bag].max(rows)[:bags], 0)
    total = lm.zeros((bags + 1, features), dtype=dtype).at[bag].add(rows)[:bags]
    return total if mode == "sum" else total / lm.maximum(number, 1)


def one_hot(tensor: Any, num_classes: int = -1) -> Tensor:
    """``(..., num_classes)`` int64 with 1 at the class, 0 elsewhere (-1: one more than the
    largest).

    Raises:
        DTypeError: if the classes are not integers.
        LamellaIndexError: when the result is computed, if a class is outside ``0 … num_classes -
            1``.

    >>> one_hot(lm.asarray([0, 2]), 3).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    x = as_tensor(tensor)
    if not x.dtype.is_integer:
        raise DTypeError(
            f"[one_hot] classes are {x.dtype.name}, but are counted; cast them with "
            ".astype(lm.int64)"
        )
    count = int(x.max().item()) + 1 if num_classes < 0 else num_classes
    return (checked_classes(x, count)[..., None] == lm.arange(count)).astype(lm.int64)
