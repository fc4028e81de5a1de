"""Norms, unit vectors, distances and similarities along an axis.

At points where a norm has no derivative (a zero vector) its derivative is 0, as in PyTorch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.nn.functional.support import check_float, tensor, wide_of
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.tensor import Tensor

__all__ = [
    "cdist",
    "cosine_similarity",
    "normalize",
    "pairwise_distance",
    "pdist",
    "root",
    "vector_norm",
]


def root(total: Tensor, p: float) -> Tensor:
    """``total ** (1 / p)`` with derivative 0 at 0.

    >>> root(lm.asarray([27.0]), 3).tolist()
    [3.0]
    """
    positive = total != 0
    base = lm.where(positive, total, 1)
    return lm.where(positive, lm.sqrt(base) if p == 2 else base ** (1 / p), 0)


def vector_norm(x: Tensor, p: float, dim: int, keepdim: bool = False) -> Tensor:
    """``(sum |x|^p)^(1/p)`` along ``dim``; the largest ``|x|`` for infinite ``p``, the number of
    nonzero elements for 0.

    Raises:
        OptionError: if ``p`` is negative or NaN.

    >>> vector_norm(lm.asarray([3.0, 4.0]), 2, 0).item()
    5.0
    """
    if not p >= 0:
        raise OptionError(f"[norm] p={p} makes no norm; give 0 or more")
    if wide_of(x) is not x:
        return vector_norm(wide_of(x), p, dim, keepdim).astype(x.dtype)
    if p == 0:
        return (x != 0).astype(x.dtype).sum(dim, keepdims=keepdim)
    if math.isinf(p):
        return abs(x).max(dim, keepdims=keepdim)
    if p == 1:
        return abs(x).sum(dim, keepdims=keepdim)
    if p == 2:
        return root((x * x).sum(dim, keepdims=keepdim), 2)
    size = abs(x)
    powers = lm.where(size == 0, 0, lm.where(size == 0, 1, size) ** p)
    return root(powers.sum(dim, keepdims=keepdim), p)


@with_synonyms
def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """``x / max(|x|_p, eps)`` along ``dim``.

    >>> normalize(lm.asarray([[3.0, 4.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    x = tensor(input)
    check_float("normalize", x)
    wide = wide_of(x)
    return (wide / lm.maximum(vector_norm(wide, p, dim, keepdim=True), eps)).astype(x.dtype)


@with_synonyms
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """``x1 · x2 / (max(|x1|, eps) max(|x2|, eps))`` along ``dim``; the shapes broadcast.

    >>> cosine_similarity(lm.asarray([[1.0, 0.0]]), lm.asarray([[2.0, 0.0]])).tolist()
    [1.0]
    """
    x1, x2 = lm.broadcast_arrays(tensor(x1), tensor(x2))
    check_float("cosine_similarity", x1 if x2.dtype.is_floating else x2)
    kind, x1, x2 = (x1 * x2).dtype, wide_of(x1), wide_of(x2)
    norm1, norm2 = (lm.maximum(vector_norm(x, 2, dim), eps) for x in (x1, x2))
    return (lm.sum(x1 * x2, dim) / (norm1 * norm2)).astype(kind)


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """``|x1 - x2 + eps|_p`` of the last axis; the shapes broadcast.

    >>> pairwise_distance(lm.asarray([[3.0, 4.0]]), lm.asarray([[0.0, 0.0]]), eps=0.0).tolist()
    [5.0]
    """
    difference = tensor(x1) - tensor(x2) + eps
    check_float("pairwise_distance", difference)
    return vector_norm(difference, p, -1, keepdim)


def cdist(x1: Any, x2: Any, p: float = 2.0) -> Tensor:
    """The distance ``|x1_i - x2_j|_p`` of every pair of rows: ``(..., P, M)`` and ``(..., R, M)``
    to ``(..., P, R)``.

    Raises:
        ShapeError: if the rows have different lengths.

    >>> cdist(lm.asarray([[0.0], [1.0]]), lm.asarray([[3.0]])).tolist()
    [[3.0], [2.0]]
    """
    x1, x2 = tensor(x1), tensor(x2)
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(
            f"[cdist] shapes {tuple(x1.shape)} and {tuple(x2.shape)}: both are (..., rows, "
            "features) with the same number of features; reshape one of them"
        )
    check_float("cdist", x1)
    return vector_norm(x1[..., :, None, :] - x2[..., None, :, :], p, -1)


def pdist(input: Any, p: float = 2.0) -> Tensor:
    """The distance ``|x_i - x_j|_p`` of the rows ``i < j`` of ``(N, M)``, row by row: ``N (N - 1) /
    2`` numbers.

    Raises:
        ShapeError: if the input has not two axes.

    >>> pdist(lm.asarray([[0.0], [1.0], [3.0]])).tolist()
    [1.0, 3.0, 2.0]
    """
    x = tensor(input)
    if x.ndim != 2:
        raise ShapeError(f"[pdist] shape {tuple(x.shape)} is not (rows, features); reshape it")
    check_float("pdist", x)
    first, second = np.triu_indices(int(x.shape[0]), 1)
    return vector_norm(lm.take(x, first, axis=0) - lm.take(x, second, axis=0), p, -1)
