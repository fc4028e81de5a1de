"""Reductions that leave out nan: sums, means, extremes and running sums of the other elements.

Input: tensors or anything :func:`lamella.asarray` takes; ``axis`` as for the plain reductions.
Output: what the plain reduction gives of the elements that are not nan; where all are nan, 0 for
sums, 1 for products, nan for the others. The derivative by an element that was left out is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from lamella import ops
from lamella.dtypes import int64
from lamella.ir.node import Node
from lamella.tensor.axes import Axes, axes_of, kept
from lamella.tensor.core import wrap
from lamella.tensor.deferring import deferring
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import TensorLike, as_float, as_node, cast, scalar_node
from lamella.tensor.reduction import (
    argmax,
    argmin,
    cumprod,
    cumsum,
    max,
    min,
    prod,
    square_modulus,
    sum,
)

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod",
    "nanstd", "nansum", "nanvar",
]  # fmt: skip


def _filled(x: TensorLike, value: float) -> Tensor:
    """``x`` with ``value`` in place of nan."""
    node = as_node(x)
    if not node.dtype.inexact:
        return wrap(node)
    return wrap(ops.where(ops.isnan(node), ops.constant(value, node.dtype), node))


@deferring
@with_synonyms
def nansum(
    x: TensorLike, axis: Axes = None, dtype: object = None, keepdims: bool = False
) -> Tensor:
    """The sum of the elements that are not nan.

    >>> nansum([1.0, float("nan"), 2.0]).item()
    3.0
    """
    return sum(_filled(x, 0.0), axis, dtype, keepdims)


@deferring
@with_synonyms
def nanprod(
    x: TensorLike, axis: Axes = None, dtype: object = None, keepdims: bool = False
) -> Tensor:
    """The product of the elements that are not nan.

    >>> nanprod([3.0, float("nan"), 2.0]).item()
    6.0
    """
    return prod(_filled(x, 1.0), axis, dtype, keepdims)


@deferring
@with_synonyms
def nancumsum(x: TensorLike, axis: int | None = None, dtype: object = None) -> Tensor:
    """The running sum, nan counted as 0.

    >>> nancumsum([1.0, float("nan"), 2.0]).tolist()
    [1.0, 1.0, 3.0]
    """
    return cumsum(_filled(x, 0.0), axis, dtype)


@deferring
@with_synonyms
def nancumprod(x: TensorLike, axis: int | None = None, dtype: object = None) -> Tensor:
    """The running product, nan counted as 1.

    >>> nancumprod([3.0, float("nan"), 2.0]).tolist()
    [3.0, 3.0, 6.0]
    """
    return cumprod(_filled(x, 1.0), axis, dtype)


def _counted(node: Node, axes: tuple[int, ...]) -> Node:
    """How many elements are not nan, the axes kept with size 1, in the dtype of the parts."""
    there = ops.cast(ops.logical_not(ops.isnan(node)), node.dtype.part)
    return ops.reshape(ops.reduce_sum(there, axes), kept(node.shape, axes))


def _by_count(total: Node, count: Node) -> Node:
    if total.dtype.kind != "c":
        return ops.divide(total, count)
    return ops.complex(*(ops.divide(part(total), count) for part in (ops.real, ops.imag)))


def _nanmean(node: Node, axes: tuple[int, ...]) -> Node:
    """The mean, the axes kept with size 1."""
    zero = ops.constant(0.0, node.dtype)
    total = ops.reduce_sum(ops.where(ops.isnan(node), zero, node), axes)
    return _by_count(ops.reshape(total, kept(node.shape, axes)), _counted(node, axes))


def _finish(found: Node, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    rest = tuple(size for axis, size in enumerate(found.shape) if axis not in axes)
    return wrap(found if keepdims else ops.reshape(found, rest))


@deferring
@with_synonyms
def nanmean(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The mean of the elements that are not nan.

    >>> nanmean([1.0, float("nan"), 2.0]).item()
    1.5
    """
    node = as_float(as_node(x))
    axes = axes_of("nanmean", axis, node.shape)
    return _finish(_nanmean(node, axes), axes, keepdims)


def _nanvar(
    name: str, x: TensorLike, axis: Axes, correction: float
) -> tuple[Node, tuple[int, ...]]:
    node = as_float(as_node(x))
    axes = axes_of(name, axis, node.shape)
    away = ops.subtract(node, ops.broadcast_to(_nanmean(node, axes), node.shape))
    square = square_modulus(away) if node.dtype.kind == "c" else ops.square(away)
    zero = ops.constant(0.0, square.dtype)
    total = ops.reduce_sum(ops.where(ops.isnan(node), zero, square), axes)
    count = _counted(node, axes)
    left = ops.subtract(count, scalar_node(correction, count.dtype))
    left = ops.where(ops.less(zero, left), left, ops.constant(math.nan, count.dtype))
    return ops.divide(ops.reshape(total, count.shape), left), axes


@deferring
@with_synonyms
def nanvar(
    x: TensorLike, axis: Axes = None, *, correction: float = 0, keepdims: bool = False
) -> Tensor:
    """The variance of the elements that are not nan (:func:`lamella.var`).

    >>> nanvar([1.0, float("nan"), 3.0]).item()
    1.0
    """
    found, axes = _nanvar("nanvar", x, axis, correction)
    return _finish(found, axes, keepdims)


@deferring
@with_synonyms
def nanstd(
    x: TensorLike, axis: Axes = None, *, correction: float = 0, keepdims: bool = False
) -> Tensor:
    """The standard deviation of the elements that are not nan.

    >>> nanstd([1.0, float("nan"), 3.0]).item()
    1.0
    """
    found, axes = _nanvar("nanstd", x, axis, correction)
    return _finish(ops.sqrt(found), axes, keepdims)


def _extreme(
    name: str,
    pick: Callable[..., Tensor],
    x: TensorLike,
    axis: Axes,
    keepdims: bool,
    fill: float,
) -> Tensor:
    node = as_node(x)
    found = pick(_filled(wrap(node), fill), axis=axis, keepdims=True)
    axes = axes_of(name, axis, node.shape)
    if node.dtype.kind != "f":
        return _finish(as_node(found), axes, keepdims)
    none = ops.reshape(ops.reduce_all(ops.isnan(node), axes), kept(node.shape, axes))
    value = ops.where(none, ops.constant(math.nan, node.dtype), as_node(found))
    return _finish(value, axes, keepdims)


@deferring
@with_synonyms
def nanmax(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest of the elements that are not nan.

    >>> nanmax([1.0, float("nan"), 2.0]).item()
    2.0
    """
    return _extreme("nanmax", max, x, axis, keepdims, -math.inf)


@deferring
@with_synonyms
def nanmin(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The smallest of the elements that are not nan.

    >>> nanmin([1.0, float("nan"), 2.0]).item()
    1.0
    """
    return _extreme("nanmin", min, x, axis, keepdims, math.inf)


def _position(
    pick: Callable[..., Tensor], x: TensorLike, axis: int | None, keepdims: bool, fill: float
) -> Tensor:
    node = as_node(x)
    found = as_node(pick(_filled(wrap(node), fill), axis=axis, keepdims=keepdims))
    if node.dtype.kind != "f":
        return wrap(found)
    axes = axes_of("nanargmax", axis, node.shape)
    none = ops.reshape(ops.reduce_all(ops.isnan(node), axes), found.shape)
    return wrap(ops.where(none, ops.constant(-1, int64), cast(found, int64)))


@with_synonyms
def nanargmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the largest of the elements that are not nan is; -1 where all are nan (NumPy raises).

    >>> nanargmax([1.0, float("nan"), 2.0]).item()
    2
    """
    return _position(argmax, x, axis, keepdims, -math.inf)


@with_synonyms
def nanargmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the smallest of the elements that are not nan is; -1 where all are nan (NumPy raises).

    >>> nanargmin([float("nan"), 1.0, 2.0]).item()
    1
    """
    return _position(argmin, x, axis, keepdims, math.inf)
