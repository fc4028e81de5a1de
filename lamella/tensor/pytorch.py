"""PyTorch's functions that have no name in NumPy or the array-API standard: indexing along an axis,
order, pairs of statistics, arranging. Arguments have PyTorch's names and order.
"""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lamella.dtypes import promote
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.tensor.axes import axis_of
from lamella.tensor.comparison import trunc, where
from lamella.tensor.core import wrap
from lamella.tensor.creation import zeros
from lamella.tensor.deferring import deferring
from lamella.tensor.elementwise import abs, multiply, sign, subtract
from lamella.tensor.indexing import At
from lamella.tensor.joining import array_split, concat, stack
from lamella.tensor.manipulation import expand_dims, moveaxis
from lamella.tensor.norms import vector_norm
from lamella.tensor.operands import TensorLike, as_node, new_tensor
from lamella.tensor.products import with_axes
from lamella.tensor.reduction import max as largest
from lamella.tensor.reduction import mean, std, var
from lamella.tensor.reduction import min as smallest
from lamella.tensor.searching import argsort, searchsorted, take, take_along_axis

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "aminmax", "block_diag", "bucketize", "cartesian_prod", "clamp_max", "clamp_min",
    "combinations", "diag_embed", "dist", "frac", "index_add", "index_copy", "index_fill",
    "index_select", "kthvalue", "masked_fill", "masked_scatter", "masked_select", "msort",
    "narrow", "sgn", "split_with_sizes", "std_mean", "tensor_split", "unique_consecutive",
    "var_mean",
]  # fmt: skip


class MinMax(NamedTuple):
    """The smallest and the largest elements."""

    min: Any
    max: Any


class Chosen(NamedTuple):
    """Elements and their positions along an axis."""

    values: Any
    indices: Any


def _like(value: TensorLike, x: Any) -> Any:
    """``value`` in the element type of ``x``."""
    return wrap(as_node(value, x.dtype))


# -- indexing along an axis ------------------------------------------------------------------------
def _at(name: str, x: Any, dim: int, index: TensorLike) -> At:
    place = axis_of(name, dim, x.shape)
    return At(x)[(slice(None),) * place + (new_tensor(index),)]


@deferring
def index_select(input: TensorLike, dim: int, index: TensorLike) -> Tensor:
    """The slices along ``dim`` at the positions ``index``.

    >>> index_select([[1, 2], [3, 4]], 1, [1]).tolist()
    [[2], [4]]
    """
    return take(input, index, axis=dim)


@deferring
def index_add(
    input: TensorLike, dim: int, index: TensorLike, source: TensorLike, alpha: Any = 1
) -> Tensor:
    """``input`` with ``alpha * source`` added to the slices at ``index``, repeated ones included.

    >>> index_add([0.0, 0.0], 0, [1, 1], [2.0, 3.0]).tolist()
    [0.0, 5.0]
    """
    x = new_tensor(input)
    return _at("index_add", x, dim, index).add(source if alpha == 1 else multiply(source, alpha))


def index_copy(input: TensorLike, dim: int, index: TensorLike, source: TensorLike) -> Tensor:
    """``input`` with the slices at ``index`` replaced by those of ``source``.

    >>> index_copy([1, 2, 3], 0, [0, 2], [7, 9]).tolist()
    [7, 2, 9]
    """
    return _at("index_copy", new_tensor(input), dim, index).set(source)


def index_fill(input: TensorLike, dim: int, index: TensorLike, value: TensorLike) -> Tensor:
    """``input`` with the slices at ``index`` filled with ``value``.

    >>> index_fill([1, 2, 3], 0, [0, 2], -1).tolist()
    [-1, 2, -1]
    """
    return _at("index_fill", new_tensor(input), dim, index).set(value)


def narrow(input: TensorLike, dim: int, start: Any, length: int) -> Tensor:
    """``length`` slices along ``dim`` from ``start`` on.

    Raises:
        ShapeError: if there are fewer.

    >>> narrow([1, 2, 3, 4], 0, 1, 2).tolist()
    [2, 3]
    """
    x = new_tensor(input)
    place = axis_of("narrow", dim, x.shape)
    size = x.shape[place]
    first = start + size if isinstance(start, int) and start < 0 else start
    if length < 0 or (isinstance(first, int) and not 0 <= first <= size - length):
        raise ShapeError(
            f"[narrow] {length} slices from {start} on along an axis of size {size}; give a range "
            "inside it"
        )
    return x[(slice(None),) * place + (slice(first, first + length),)]


@deferring
def masked_fill(input: TensorLike, mask: TensorLike, value: TensorLike) -> Tensor:
    """``value`` where ``mask`` holds, else ``input``.

    >>> masked_fill([1.0, 2.0], [True, False], 9.0).tolist()
    [9.0, 2.0]
    """
    x = new_tensor(input)
    return where(mask, _like(value, x), x)


def masked_select(input: TensorLike, mask: TensorLike) -> Tensor:
    """The elements where ``mask`` holds, which must be known (see :func:`lamella.nonzero`).

    >>> masked_select([1, 2, 3], [True, False, True]).tolist()
    [1, 3]
    """
    x, chosen = new_tensor(input), new_tensor(mask)
    shape = np.broadcast_shapes(x.shape, chosen.shape)
    return x.broadcast_to(shape)[chosen.broadcast_to(shape)]


def masked_scatter(input: TensorLike, mask: TensorLike, source: TensorLike) -> Tensor:
    """``input`` with the elements where ``mask`` holds replaced by those of ``source`` in turn.

    >>> masked_scatter([0, 0, 0], [True, False, True], [7, 9]).tolist()
    [7, 0, 9]
    """
    x, values = new_tensor(input), new_tensor(source).ravel()
    chosen = new_tensor(mask).broadcast_to(x.shape)
    rank = chosen.astype("int64").ravel().cumsum(0) - 1
    place = where(chosen.ravel(), rank, 0).reshape(x.shape)
    return where(chosen, take(values, place, axis=0).astype(x.dtype), x)


# -- order -----------------------------------------------------------------------------------------
@deferring
def kthvalue(input: TensorLike, k: int, dim: int = -1, keepdim: bool = False) -> Chosen:
    """The ``k``-th smallest elements along ``dim``, from 1 on, and their positions.

    Raises:
        OptionError: unless there are ``k``.

    >>> kthvalue([3.0, 1.0, 2.0], 2).values.item()
    2.0
    """
    x = new_tensor(input)
    place = axis_of("kthvalue", dim, x.shape)
    if not 1 <= k <= x.shape[place]:
        raise OptionError(
            f"[kthvalue] k={k} of {x.shape[place]} elements; give a number from 1 to their count"
        )
    index = narrow(argsort(x, axis=place), place, k - 1, 1)
    values = take_along_axis(x, index, axis=place)
    if keepdim:
        return Chosen(values, index)
    return Chosen(values.squeeze(place), index.squeeze(place))


def msort(input: TensorLike) -> Tensor:
    """Sorted along the first axis.

    >>> msort([[2, 1], [1, 2]]).tolist()
    [[1, 1], [2, 2]]
    """
    return new_tensor(input).sort(axis=0)


def bucketize(
    input: TensorLike, boundaries: TensorLike, out_int32: bool = False, right: bool = False
) -> Tensor:
    """Between which of the ascending ``boundaries`` each element lies: the number of those below
    it, with ``right`` of those not above it.

    >>> bucketize([0.5, 1.0, 9.0], [1.0, 2.0]).tolist()
    [0, 0, 2]
    """
    found = searchsorted(boundaries, input, side="right" if right else "left")
    return found.astype("int32") if out_int32 else found


def unique_consecutive(
    input: TensorLike, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    """The flattened elements without those that equal the one before; on request, where each went
    and how often each came.

    >>> unique_consecutive([1, 1, 2, 1]).tolist()
    [1, 2, 1]
    """
    x = new_tensor(input).ravel()
    if not x.shape[0]:
        empty = zeros((0,), dtype="int64")
        found = (x, *[empty] * return_inverse, *[empty] * return_counts)
        return found if len(found) > 1 else x
    new = concat([new_tensor([True]), x[1:] != x[:-1]])
    values, group = x[new], new.astype("int64").cumsum(0) - 1
    results = [values]
    if return_inverse:
        results.append(group.reshape(new_tensor(input).shape))
    if return_counts:
        results.append(zeros(values.shape, dtype="int64").at[group].add(1))
    return tuple(results) if len(results) > 1 else values


# -- statistics ------------------------------------------------------------------------------------
@deferring
def aminmax(input: TensorLike, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """The smallest and the largest elements (``dim=None``: of all).

    >>> [x.item() for x in aminmax([3.0, 1.0, 2.0])]
    [1.0, 3.0]
    """
    return MinMax(smallest(input, dim, keepdims=keepdim), largest(input, dim, keepdims=keepdim))


@deferring
def var_mean(
    input: TensorLike, dim: Any = None, correction: Any = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """The variance, with Bessel's correction by default, and the mean.

    >>> [x.item() for x in var_mean([1.0, 3.0])]
    [2.0, 2.0]
    """
    return (
        var(input, dim, correction=correction, keepdims=keepdim),
        mean(input, dim, keepdims=keepdim),
    )


@deferring
def std_mean(
    input: TensorLike, dim: Any = None, correction: Any = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """The standard deviation, with Bessel's correction by default, and the mean.

    >>> [x.item() for x in std_mean([1.0, 9.0], correction=0)]
    [4.0, 5.0]
    """
    return (
        std(input, dim, correction=correction, keepdims=keepdim),
        mean(input, dim, keepdims=keepdim),
    )


def dist(input: TensorLike, other: TensorLike, p: float = 2.0) -> Tensor:
    """The norm of order ``p`` of all elements of the difference.

    >>> dist([1.0, 2.0], [4.0, 6.0]).item()
    5.0
    """
    return vector_norm(subtract(input, other).ravel(), ord=p)


# -- elements --------------------------------------------------------------------------------------
@deferring
def clamp_min(input: TensorLike, min: TensorLike) -> Tensor:
    """No less than ``min``.

    >>> clamp_min([1.0, 3.0], 2.0).tolist()
    [2.0, 3.0]
    """
    return new_tensor(input).clip(min, None)


@deferring
def clamp_max(input: TensorLike, max: TensorLike) -> Tensor:
    """No more than ``max``.

    >>> clamp_max([1.0, 3.0], 2.0).tolist()
    [1.0, 2.0]
    """
    return new_tensor(input).clip(None, max)


def frac(input: TensorLike) -> Tensor:
    """The part behind the point, with the number's sign.

    Raises:
        DTypeError: for integers.

    >>> frac([1.5, -1.25]).tolist()
    [0.5, -0.25]
    """
    x = new_tensor(input)
    if x.dtype.kind != "f":
        raise DTypeError(f"[frac] {x.dtype.name} has no fractions; pass floating-point numbers")
    return subtract(x, trunc(x))


def sgn(input: TensorLike) -> Tensor:
    """The sign; of complex numbers ``x / |x|``, 0 at 0.

    >>> sgn([-2.0, 0.0]).tolist()
    [-1.0, 0.0]
    """
    x = new_tensor(input)
    if x.dtype.kind != "c":
        return sign(x)
    size = abs(x)
    return where(size == 0, 0, x / where(size == 0, 1, size))


# -- arranging -------------------------------------------------------------------------------------
def split_with_sizes(input: TensorLike, sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of the given sizes along ``dim``.

    >>> [x.tolist() for x in split_with_sizes([1, 2, 3], [1, 2])]
    [[1], [2, 3]]
    """
    return tuple(new_tensor(input).split(list(sizes), dim))


def tensor_split(
    input: TensorLike, indices_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """Nearly equal pieces, or pieces between positions (PyTorch's name of ``array_split``).

    >>> [x.tolist() for x in tensor_split([1, 2, 3], 2)]
    [[1, 2], [3]]
    """
    return array_split(input, indices_or_sections, axis=dim)


def diag_embed(input: TensorLike, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices, in the axes ``dim1`` and ``dim2``, with the last axis on a diagonal.

    >>> diag_embed([[1, 2]]).tolist()
    [[[1, 0], [0, 2]]]
    """
    x = new_tensor(input)
    size = x.shape[-1] + builtins.abs(offset)
    rows = np.arange(size)
    on = new_tensor(rows[:, None] + offset == rows)
    source = rows if offset >= 0 else np.maximum(rows + offset, 0)
    spread = take(x, np.minimum(source, x.shape[-1] - 1), axis=-1)
    made = where(on, expand_dims(spread, -1), _like(0, x))
    return moveaxis(made, (-2, -1), (dim1, dim2))


def block_diag(*tensors: TensorLike) -> Tensor:
    """A matrix with the given ones (numbers and vectors count as rows) along its diagonal.

    >>> block_diag([[1, 2]], 3).tolist()
    [[1, 2, 0], [0, 0, 3]]
    """
    parts = [new_tensor(x) for x in tensors] or [zeros((1, 0))]
    parts = [x.reshape(1, -1) if x.ndim < 2 else x for x in parts]
    kind = parts[0].dtype
    for part in parts[1:]:
        kind = promote(kind, part.dtype)
    width, column, rows = sum(x.shape[1] for x in parts), 0, []
    for part in parts:
        count, own = part.shape
        gaps = [zeros((count, n), dtype=kind) for n in (column, width - column - own)]
        rows.append(concat([gaps[0], part.astype(kind), gaps[1]], axis=1))
        column += own
    return concat(rows)


def cartesian_prod(*tensors: TensorLike) -> Tensor:
    """All combinations of elements of vectors, the last one changing fastest, as rows.

    >>> cartesian_prod([1, 2], [3, 4]).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    vectors = [with_axes("cartesian_prod", x, 1) for x in tensors]
    if len(vectors) == 1:
        return vectors[0]  # type: ignore[no-any-return]
    shape = tuple(x.shape[0] for x in vectors)
    grids = [
        x.reshape([-1 if k == n else 1 for k in range(len(shape))]).broadcast_to(shape).ravel()
        for n, x in enumerate(vectors)
    ]
    return stack(grids, axis=1)


def combinations(input: TensorLike, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of ``r`` elements of a vector, in its order, as rows.

    >>> combinations([1, 2, 3]).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    x = with_axes("combinations", input, 1)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(range(x.shape[0]), r)), np.int64).reshape(-1, r)
    return take(x, rows, axis=0)
