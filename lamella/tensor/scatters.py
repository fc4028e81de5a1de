"""PyTorch's functions that put values at places: reductions of what meets at an index, slices and
diagonals replaced. Arguments have PyTorch's names and order; the result is a new tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamella.dtypes import float32
from lamella.errors import DTypeError, OptionError, ShapeError, did_you_mean
from lamella.tensor.axes import axis_of
from lamella.tensor.comparison import where
from lamella.tensor.core import wrap
from lamella.tensor.creation import arange, full_like, zeros_like
from lamella.tensor.elementwise import floor_divide
from lamella.tensor.indexing import At
from lamella.tensor.manipulation import broadcast_to, moveaxis
from lamella.tensor.operands import TensorLike, as_node, new_tensor
from lamella.tensor.padding import pad
from lamella.tensor.reduction import prod

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "diagonal_scatter", "index_put", "index_reduce", "put", "scatter_reduce", "select_scatter",
    "slice_scatter",
]  # fmt: skip

_METHODS: Final = {
    "sum": "add", "mean": "add", "amax": "max", "amin": "min",
}  # fmt: skip


def _neutral(reduce: str, x: Any) -> Any:
    """What changes nothing when it is reduced with something."""
    if reduce in ("sum", "mean"):
        return zeros_like(x)
    kind = x.dtype.kind
    if kind == "b":
        return full_like(x, reduce == "amin")
    limits = np.iinfo(x.dtype.numpy) if kind in "iu" else None
    least, most = (-np.inf, np.inf) if limits is None else (limits.min, limits.max)
    return full_like(x, least if reduce == "amax" else most)


def _products(x: Any, axis: int, index: Any, source: Any) -> Any:
    """``x`` times the product of all of ``source`` whose ``index`` along ``axis`` is the place."""
    places = arange(x.shape[axis]).reshape([-1] + [1] * x.ndim)
    index = moveaxis(where(index < 0, index + x.shape[axis], index), axis, 0)
    factors = where(index == places, moveaxis(source, axis, 0), 1)
    product = moveaxis(prod(factors, axis=1, dtype=x.dtype), 0, axis)
    inside = [(0, size - part) for size, part in zip(x.shape, product.shape, strict=True)]
    return x * pad(product, inside, constant_values=1)


def _reduced(name: str, x: Any, place: Any, source: Any, reduce: str, include_self: bool) -> Any:
    """``x`` with ``source`` reduced into the elements at the index ``place``."""
    if reduce == "prod":  # of bools: all
        reduce = "amin"
    if reduce not in _METHODS:
        hint = did_you_mean(reduce, [*_METHODS, "prod"])
        raise OptionError(f"[{name}] reduce={reduce!r:.40} is no reduction; {hint}")
    if reduce == "mean" and x.dtype.kind == "b":
        raise DTypeError(f"[{name}] a mean of bools is no bool; cast them with .astype(lm.float32)")
    start = x if include_self else At(x)[place].set(_neutral(reduce, At(x)[place].get()))
    found = getattr(At(start)[place], _METHODS[reduce])(source)
    if reduce != "mean":
        return found
    counts = At(full_like(x, int(include_self), dtype=float32))[place].add(1.0)
    if x.dtype.kind in "iu":
        counts = counts.astype(x.dtype)
        divided = floor_divide(found, where(counts > 0, counts, 1))
    else:
        divided = found / where(counts > 0, counts, 1.0).astype(x.dtype)
    return where(counts > 0, divided, x)


def scatter_reduce(
    input: TensorLike,
    dim: int,
    index: TensorLike,
    src: TensorLike,
    reduce: str,
    include_self: bool = True,
) -> Tensor:
    """``input`` with ``src`` reduced into it: along ``dim`` at the positions ``index``, along the
    other axes in place.

    Args:
        input: any shape and numeric dtype.
        dim: the axis that ``index`` speaks of.
        index: integers, of as many axes as ``input``.
        src: at least as large as ``index`` along every axis.
        reduce: sum, prod, mean, amax or amin.
        include_self: whether the element that is there takes part.

    Raises:
        OptionError: for another reduction.
        ShapeError: if the numbers of axes differ.

    >>> scatter_reduce([1.0, 2.0], 0, [0, 0, 1], [5.0, 6.0, 7.0], "sum").tolist()
    [12.0, 9.0]
    """
    x, places, source = new_tensor(input), new_tensor(index), new_tensor(src)
    if not x.ndim == places.ndim == source.ndim:
        raise ShapeError(
            f"[scatter_reduce] input, index and src of shapes {x.shape}, {places.shape}, "
            f"{source.shape} have different numbers of axes; give all the same"
        )
    axis = axis_of("scatter_reduce", dim, x.shape)
    shape = places.shape
    grid: list[Any] = []
    for k, size in enumerate(shape):
        along = arange(size).reshape([-1 if j == k else 1 for j in range(len(shape))])
        grid.append(places if k == axis else broadcast_to(along, shape))
    source = wrap(as_node(source[tuple(slice(0, size) for size in shape)], x.dtype))
    place = tuple(grid)
    if reduce == "prod" and x.dtype.kind != "b":
        start = At(x)[place].add(0) if include_self else At(x)[place].set(1)
        return _products(start, axis, places, source)  # type: ignore[no-any-return]
    return _reduced("scatter_reduce", x, place, source, reduce, include_self)  # type: ignore[no-any-return]


def index_reduce(
    input: TensorLike,
    dim: int,
    index: TensorLike,
    source: TensorLike,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """``input`` with the slices of ``source`` reduced into those at ``index`` along ``dim``.

    ``reduce`` is prod, mean, amax or amin; ``include_self`` says whether the slice that is there
    takes part.

    Raises:
        OptionError: for another reduction.

    >>> index_reduce([1.0, 2.0], 0, [1, 1], [5.0, 6.0], "amax").tolist()
    [1.0, 6.0]
    """
    x = new_tensor(input)
    axis, places = axis_of("index_reduce", dim, x.shape), new_tensor(index)
    place = (slice(None),) * axis + (places,)
    values = wrap(as_node(source, x.dtype))
    if reduce == "prod" and x.dtype.kind != "b":
        start = At(x)[place].add(0) if include_self else At(x)[place].set(1)
        places = places.reshape([-1] + [1] * (x.ndim - axis - 1))
        return _products(start, axis, broadcast_to(places, values.shape), values)  # type: ignore[no-any-return]
    return _reduced("index_reduce", x, place, values, reduce, include_self)  # type: ignore[no-any-return]


def index_put(
    input: TensorLike,
    indices: Sequence[TensorLike | None],
    values: TensorLike,
    accumulate: bool = False,
) -> Tensor:
    """``input`` with ``values`` at ``indices``, one tensor an axis, None for all of an axis; with
    ``accumulate`` added to what is there, repeated places included.

    >>> index_put([1, 2, 3], [[0, 2]], 9).tolist()
    [9, 2, 9]
    """
    x = new_tensor(input)
    place = tuple(slice(None) if i is None else new_tensor(i) for i in indices)
    at = At(x)[place]
    value = wrap(as_node(values, x.dtype))
    return at.add(value) if accumulate else at.set(value)


def put(
    input: TensorLike, index: TensorLike, source: TensorLike, accumulate: bool = False
) -> Tensor:
    """``input`` with ``source`` at the positions ``index`` of its elements in row-major order.

    >>> put([[1, 2], [3, 4]], [0, 3], [7, 9]).tolist()
    [[7, 2], [3, 9]]
    """
    x = new_tensor(input)
    places = new_tensor(index)
    values = wrap(as_node(source, x.dtype)).reshape(places.shape)
    return index_put(x.reshape(-1), [places], values, accumulate).reshape(x.shape)


def select_scatter(input: TensorLike, src: TensorLike, dim: int, index: Any) -> Tensor:
    """``input`` with the slice at ``index`` along ``dim`` replaced by ``src``.

    >>> select_scatter([[1, 2], [3, 4]], [8, 9], 0, 1).tolist()
    [[1, 2], [8, 9]]
    """
    x = new_tensor(input)
    place = (slice(None),) * axis_of("select_scatter", dim, x.shape) + (index,)
    return At(x)[place].set(wrap(as_node(src, x.dtype)))


def slice_scatter(
    input: TensorLike,
    src: TensorLike,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """``input`` with the slices ``start:end:step`` along ``dim`` replaced by ``src``.

    >>> slice_scatter([1, 2, 3], [8, 9], 0, 1).tolist()
    [1, 8, 9]
    """
    x = new_tensor(input)
    place = (slice(None),) * axis_of("slice_scatter", dim, x.shape) + (slice(start, end, step),)
    return At(x)[place].set(wrap(as_node(src, x.dtype)))


def diagonal_scatter(
    input: TensorLike, src: TensorLike, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """``input`` with the diagonal of ``dim1`` and ``dim2`` replaced by ``src``.

    >>> diagonal_scatter([[1, 2], [3, 4]], [8, 9]).tolist()
    [[8, 2], [3, 9]]
    """
    x = new_tensor(input)
    first, second = (axis_of("diagonal_scatter", d, x.shape) for d in (dim1, dim2))
    moved = moveaxis(x, (first, second), (-2, -1))
    rows = max(0, min(moved.shape[-2] + min(offset, 0), moved.shape[-1] - max(offset, 0)))
    along = arange(rows)
    place = (..., along + max(-offset, 0), along + max(offset, 0))
    found = At(moved)[place].set(wrap(as_node(src, x.dtype)))
    return moveaxis(found, (-2, -1), (first, second))
