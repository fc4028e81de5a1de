"""Order statistics: quantiles by every method of NumPy, percentiles, medians, with nan or without.

Input: tensors or anything :func:`lamella.asarray` takes; ``axis`` an int, several, or None for all.
Output: elements of the sorted values, or between two of them. They are gathered, so gradients flow
to the elements chosen. The formulas are R. J. Hyndman and Y. Fan, "Sample quantiles in statistical
packages" (1996), whose nine methods have the names that NumPy gives them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from lamella import ops
from lamella.dtypes import float64, int64
from lamella.errors import OptionError, did_you_mean
from lamella.ir.dim import product
from lamella.ir.node import Node
from lamella.tensor.axes import Axes, axes_of, kept, require_elements
from lamella.tensor.core import TensorCore, wrap
from lamella.tensor.deferring import deferring
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import TensorLike, as_float, as_node, cast, count_node

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile",
]  # fmt: skip

Method = Literal[
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf",
    "hazen", "weibull", "linear", "median_unbiased", "normal_unbiased", "lower", "higher",
    "midpoint", "nearest",
]  # fmt: skip

# The continuous methods' constants α and β: the place of q is n q + α + q (1 - α - β) - 1.
_CONSTANTS: Final[dict[str, tuple[float, float]]] = {
    "interpolated_inverted_cdf": (0.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0),
    "linear": (1.0, 1.0), "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8),
}  # fmt: skip
_STEPS: Final = ("lower", "higher", "midpoint", "nearest")  # of the places of "linear"
_CDF: Final = ("inverted_cdf", "averaged_inverted_cdf", "closest_observation")
_METHODS: Final = (*_CONSTANTS, *_STEPS, *_CDF)


def _number(value: float) -> Node:
    return ops.constant(value, float64)


def _place(q: Node, count: Node, method: str) -> tuple[Node, Node]:
    """The position below quantile ``q`` of ``count`` elements, and the weight of the next one."""
    if method in _CDF:
        return _cdf_place(q, ops.multiply(q, count), method)
    alpha, beta = _CONSTANTS.get(method, (1.0, 1.0))
    shift = ops.add(_number(alpha - 1), ops.multiply(q, _number(1 - alpha - beta)))
    place = ops.add(ops.multiply(q, count), shift)
    if method == "lower":
        return ops.floor(place), _number(0.0)
    if method == "higher":
        return ops.ceil(place), _number(0.0)
    if method == "nearest":
        return ops.round(place), _number(0.0)
    below = ops.floor(place)
    if method == "midpoint":
        whole = ops.equal(below, place)
        return below, ops.where(whole, _number(0.0), _number(0.5))
    return below, ops.subtract(place, below)


def _cdf_place(q: Node, reached: Node, method: str) -> tuple[Node, Node]:
    """The discontinuous methods: where ``q n`` is whole, they differ."""
    one, half = _number(1.0), _number(0.5)
    below = ops.floor(reached)
    whole = ops.equal(below, reached)
    if method == "inverted_cdf":
        return ops.where(whole, ops.subtract(below, one), below), _number(0.0)
    if method == "averaged_inverted_cdf":
        place = ops.where(whole, ops.subtract(below, one), below)
        return place, ops.where(whole, half, _number(0.0))
    place = ops.subtract(ops.subtract(reached, half), one)
    below = ops.floor(place)
    even = ops.equal(ops.remainder(below, _number(2.0)), one)  # an even place counted from 1
    kept_below = ops.logical_and(ops.equal(below, place), even)
    return ops.where(kept_below, below, ops.add(below, one)), _number(0.0)


def _sorted_last(node: Node, axes: tuple[int, ...]) -> Node:
    """The values in order along one last axis made of ``axes``."""
    rest = tuple(axis for axis in range(node.ndim) if axis not in axes)
    lead = tuple(node.shape[axis] for axis in rest)
    count = product(tuple(node.shape[axis] for axis in axes))
    merged = ops.reshape(ops.permute(node, (*rest, *axes)), (*lead, count))
    return ops.sort(merged, merged.ndim - 1)


def _choose(ordered: Node, q: Node, method: str, skip_nan: bool) -> Node:
    """Quantiles ``q`` (a vector) along the last axis of sorted values, at the front."""
    last = ordered.ndim - 1
    unknown = ops.isnan(ordered)
    if skip_nan:
        there = ops.cast(ops.logical_not(unknown), float64)
        count = ops.reshape(ops.reduce_sum(there, (last,)), (*ordered.shape[:-1], 1))
    else:
        count = count_node((ordered.shape[-1],), float64)
    shape = (*ordered.shape[:-1], q.shape[0])
    below, weight = _place(ops.broadcast_to(q, shape), ops.broadcast_to(count, shape), method)
    top = ops.maximum(ops.subtract(count, _number(1.0)), _number(0.0))
    low, high = (
        ops.minimum(ops.maximum(at, _number(0.0)), ops.broadcast_to(top, shape))
        for at in (below, ops.add(below, _number(1.0)))
    )
    weight = ops.where(ops.less(below, _number(0.0)), _number(0.0), weight)
    first, second = (
        ops.take_along_axis(ordered, ops.cast(at, int64), last) for at in (low, high)
    )
    weight = ops.cast(ops.broadcast_to(weight, shape), ordered.dtype)
    rise = ops.multiply(weight, ops.subtract(second, first))
    zero = ops.constant(0.0, ordered.dtype)
    endless = ops.logical_and(ops.isinf(first), ops.not_equal(second, ops.negative(first)))
    kept = ops.logical_or(ops.equal(weight, zero), endless)  # between -inf and a number is -inf
    value = ops.where(kept, first, ops.add(first, rise))
    if not skip_nan:  # nan sorts last: one there, and every quantile is nan
        end = ops.slice(ordered, (*[0] * last, _last(ordered)), (*ordered.shape[:-1], 1))
        end = ops.broadcast_to(end, shape)
        value = ops.where(ops.isnan(end), end, value)
    return ops.permute(value, (last, *range(last)))


def _last(ordered: Node) -> Node:
    count = count_node((ordered.shape[-1],), int64)
    return ops.subtract(count, ops.constant(1, int64))


def _levels(name: str, q: TensorLike) -> Node:
    """The quantiles asked for, checked where they are known."""
    if not isinstance(q, TensorCore):
        levels = np.asarray(q, np.float64)
        if levels.size and not (levels.min() >= 0 and levels.max() <= 1):
            raise OptionError(f"[{name}] q = {q} is not in the range it counts in: 0 to all")
    return as_node(np.asarray(q, np.float64) if not isinstance(q, TensorCore) else q, float64)


def _quantile(
    name: str, x: TensorLike, q: Node, axis: Axes, method: str, keepdims: bool, skip_nan: bool
) -> Tensor:
    node = as_float(as_node(x))
    if method not in _METHODS:
        raise OptionError(f"[{name}] no method {method!r}; {did_you_mean(method, _METHODS)}")
    axes = axes_of(name, axis, node.shape)
    require_elements(name, node.shape, axes, name)
    levels = ops.reshape(q, (q.size,))
    found = _choose(_sorted_last(node, axes), levels, method, skip_nan)
    rest = kept(node.shape, axes) if keepdims else found.shape[1:]
    return wrap(ops.reshape(found, (*q.shape, *rest)))


@deferring
@with_synonyms
def quantile(
    x: TensorLike,
    q: TensorLike,
    axis: Axes = None,
    method: Method = "linear",
    keepdims: bool = False,
) -> Tensor:
    """The values below which the fractions ``q`` of the elements over ``axis`` lie.

    Args:
        x: real numbers; integers are cast to float32. A nan makes the result nan.
        q: a number in [0, 1] or several, whose shape comes first in the result's.
        axis: one axis, several, or None for all.
        method: how to go between two elements, as in ``numpy.quantile``.
        keepdims: leave the axes with size 1.

    Raises:
        OptionError: for a ``q`` outside [0, 1] or an unknown method.
        ShapeError: over nothing.

    >>> quantile([0.0, 1.0, 2.0, 3.0], 0.5).item(), quantile([1.0, 2.0], [0, 1]).tolist()
    (1.5, [1.0, 2.0])
    """
    return _quantile("quantile", x, _levels("quantile", q), axis, method, keepdims, False)


@with_synonyms
def nanquantile(
    x: TensorLike,
    q: TensorLike,
    axis: Axes = None,
    method: Method = "linear",
    keepdims: bool = False,
) -> Tensor:
    """:func:`quantile` of the elements that are not nan; nan where there are none.

    >>> nanquantile([0.0, float("nan"), 2.0], 0.5).item()
    1.0
    """
    return _quantile("nanquantile", x, _levels("nanquantile", q), axis, method, keepdims, True)


def _hundredths(name: str, q: TensorLike) -> Node:
    if isinstance(q, TensorCore):
        return ops.divide(cast(as_node(q), float64), _number(100.0))
    return _levels(name, np.asarray(q, np.float64) / 100)


@deferring
@with_synonyms
def percentile(
    x: TensorLike,
    q: TensorLike,
    axis: Axes = None,
    method: Method = "linear",
    keepdims: bool = False,
) -> Tensor:
    """:func:`quantile` with ``q`` in hundredths.

    >>> percentile([0.0, 1.0, 2.0], 50).item()
    1.0
    """
    return _quantile("percentile", x, _hundredths("percentile", q), axis, method, keepdims, False)


@with_synonyms
def nanpercentile(
    x: TensorLike,
    q: TensorLike,
    axis: Axes = None,
    method: Method = "linear",
    keepdims: bool = False,
) -> Tensor:
    """:func:`percentile` of the elements that are not nan.

    >>> nanpercentile([0.0, float("nan"), 2.0], 50).item()
    1.0
    """
    levels = _hundredths("nanpercentile", q)
    return _quantile("nanpercentile", x, levels, axis, method, keepdims, True)


@deferring
@with_synonyms
def median(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The middle element over ``axis``, or the mean of the two middle ones.

    >>> median([3.0, 1.0, 2.0, 10.0]).item()
    2.5
    """
    return _quantile("median", x, _number(0.5), axis, "linear", keepdims, False)


@deferring
@with_synonyms
def nanmedian(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """:func:`median` of the elements that are not nan.

    >>> nanmedian([3.0, float("nan"), 1.0]).item()
    2.0
    """
    return _quantile("nanmedian", x, _number(0.5), axis, "linear", keepdims, True)
