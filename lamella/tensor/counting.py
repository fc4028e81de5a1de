"""Counting values into bins, and statistics of pairs: histograms, digitize, averages, covariance.

Input: tensors or anything :func:`lamella.asarray` takes. Output: tensors; the number of bins is
known when the call is recorded, so histograms work inside ``jit``. Gradients flow to weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from lamella import ops
from lamella.dtypes import as_dtype, bool_, float32, float64, int64
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.ir.dim import product
from lamella.ir.node import Node
from lamella.tensor.axes import Axes, axes_of, kept
from lamella.tensor.comparison import where
from lamella.tensor.core import wrap
from lamella.tensor.deferring import deferring
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import (
    TensorLike,
    as_float,
    as_node,
    cast,
    count_node,
    pair,
    scalar_node,
)
from lamella.tensor.reduction import max as max_of
from lamella.tensor.reduction import mean, sum_dtype
from lamella.tensor.reduction import min as min_of
from lamella.tensor.searching import host, searchsorted

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "average", "bincount", "corrcoef", "cov", "digitize", "histogram", "histogram2d",
    "histogram_bin_edges", "histogramdd", "ptp",
]  # fmt: skip

Bins = int | str | TensorLike
Range = tuple[float, float] | None


# -- bins ------------------------------------------------------------------------------------------
@deferring
def bincount(
    x: TensorLike,
    weights: TensorLike | None = None,
    minlength: int = 0,
    length: int | None = None,
) -> Tensor:
    """How often each of 0, 1, 2 … is in a vector, or the sum of its weights.

    Args:
        x: a vector of integers, none negative.
        weights: one for each element.
        minlength: the least number of counts.
        length: the number of counts; larger elements are left out. Without it the values are
            looked at, which no compiled function can do.

    Raises:
        ShapeError: unless ``x`` is a vector of integers, and ``weights`` are as many.
        OptionError: for a negative ``minlength``.

    >>> bincount([0, 2, 2]).tolist(), bincount([0, 2, 2], length=2).tolist()
    ([1, 0, 2], [1, 0])
    """
    node = as_node(x)
    if node.ndim != 1 or not node.dtype.is_integer:
        raise ShapeError("[bincount] takes a vector of integers, none negative; reshape or cast it")
    if minlength < 0:
        raise OptionError(f"[bincount] minlength={minlength}; give 0 or more")
    if length is None:
        counts = host(x, "bincount", "length=")
        if counts.size and counts.min() < 0:
            raise ShapeError("[bincount] an element is negative; counts start at 0: shift them")
        length = max(int(counts.max()) + 1 if counts.size else 0, minlength)
    new = ops.full(1, node.shape, int64) if weights is None else as_node(weights)
    if new.shape != node.shape:
        raise ShapeError(f"[bincount] {new.shape} weights for {node.shape} elements; give as many")
    return wrap(_tally(cast(node, int64), new, length))


def _tally(place: Node, weights: Node, length: int) -> Node:
    """The sum of weights at each place below ``length``; others are left out."""
    end = ops.constant(length, int64)
    inside = ops.bitwise_and(
        ops.less_equal(ops.constant(0, int64), place), ops.less(place, end)
    )
    at = ops.where(inside, place, end)
    empty = ops.full(0, (length + 1,), weights.dtype)
    found = ops.scatter(empty, at, weights, "add", checked=False)
    return ops.slice(found, (0,), (length,))


@deferring
def digitize(x: TensorLike, bins: TensorLike, right: bool = False) -> Tensor:
    """The number of the bin each element falls into: ``bins[i - 1] <= x < bins[i]`` gives ``i``,
    of descending edges ``bins[i - 1] > x >= bins[i]``.

    Args:
        x: real numbers.
        bins: a vector of edges in ascending or descending order.
        right: bins contain their right edge instead of the left.

    >>> digitize([0.5, 1.0, 3.0], [1.0, 2.0]).tolist()
    [0, 1, 2]
    """
    edges = wrap(as_node(bins))
    side: Literal["left", "right"] = "left" if right else "right"
    if edges.ndim != 1 or edges.shape[0] < 2:
        return searchsorted(edges, x, side=side)
    falling = edges[0] > edges[-1]
    found = searchsorted(where(falling, edges.flip(0), edges), x, side=side)
    return where(falling, edges.shape[0] - found, found)


def _work(x: TensorLike) -> Node:
    """The values as they are compared with edges: integers exactly enough in float64."""
    node = as_node(x)
    return node if node.dtype.kind == "f" else cast(node, float64)


def _edges(values: Node, bins: Bins, limits: Range) -> Node:
    """The edges of ``bins`` equal bins, or those given, in the dtype of the values."""
    if isinstance(bins, str):
        given = host(wrap(values), "histogram", "bins=<number>")
        return as_node(np.histogram_bin_edges(given, bins, limits), values.dtype)
    if not isinstance(bins, int | np.integer):
        listed = np.asarray(bins, np.float64) if isinstance(bins, Sequence) else None
        edges = as_node(bins if listed is None else listed, values.dtype)
        if edges.ndim != 1 or edges.shape[0] == 0:
            raise ShapeError(f"[histogram] edges of shape {edges.shape}; give a vector of them")
        if listed is not None and (listed[1:] < listed[:-1]).any():
            raise OptionError("[histogram] edges are not in ascending order; sort them")
        return edges
    if bins < 1:
        raise OptionError(f"[histogram] {bins} bins; there must be at least one")
    dtype = values.dtype
    if limits is not None:
        if not limits[0] <= limits[1]:
            raise OptionError(f"[histogram] range {limits}; the first must not exceed the second")
        low, high = (scalar_node(value, dtype, "histogram") for value in map(float, limits))
    elif values.size == 0:
        low, high = ops.constant(0.0, dtype), ops.constant(1.0, dtype)
    else:
        low, high = (as_node(pick(wrap(values))) for pick in (min_of, max_of))
    same, half = ops.equal(low, high), ops.constant(0.5, dtype)
    low = ops.where(same, ops.subtract(low, half), low)
    high = ops.where(same, ops.add(high, half), high)
    return _spaced(low, high, int(bins))


def _spaced(low: Node, high: Node, bins: int) -> Node:
    """``bins + 1`` evenly spaced numbers, the last exactly ``high``."""
    shape = (bins + 1,)
    place = ops.iota(shape, 0, low.dtype)
    rise = ops.divide(ops.subtract(high, low), ops.constant(bins, low.dtype))
    found = ops.add(ops.multiply(place, rise), low)
    return ops.where(ops.equal(place, ops.constant(bins, low.dtype)), high, found)


def _bin(values: Node, edges: Node) -> Node:
    """The bin of each value, counted from 0; what lies outside is in none (-1 or past the last)."""
    found = as_node(searchsorted(wrap(edges), wrap(values), side="right"))
    bins = int(edges.shape[0]) - 1
    last = ops.slice(edges, (bins,), (1,))
    at_end = ops.equal(values, ops.broadcast_to(last, values.shape))  # the last bin is closed
    one = ops.constant(1, int64)
    found = ops.where(at_end, ops.constant(bins, int64), found)
    return ops.subtract(found, one)


def histogram_bin_edges(x: TensorLike, bins: Bins = 10, range: Range = None) -> Tensor:
    """The edges that :func:`histogram` uses.

    >>> histogram_bin_edges([0.0, 4.0], 2).tolist()
    [0.0, 2.0, 4.0]
    """
    values = _work(x)
    return wrap(as_result(_edges(ops.reshape(values, (values.size,)), bins, range), x))


def as_result(node: Node, x: TensorLike) -> Node:
    """Edges computed in float64 for integers, as the float type that integers become."""
    return node if as_node(x).dtype.kind == "f" else cast(node, as_float(as_node(x)).dtype)


@deferring
def histogram(
    x: TensorLike,
    bins: Bins = 10,
    range: Range = None,
    density: bool = False,
    weights: TensorLike | None = None,
) -> tuple[Tensor, Tensor]:
    """How many elements fall into each bin, and the edges of the bins.

    Args:
        x: real numbers; nan falls into no bin.
        bins: how many of equal width; or their edges, ascending; or one of NumPy's rules by name
            ("auto", "fd", "sturges" …), which looks at the values.
        range: the first and the last edge; the extreme elements by default.
        density: divide by the sum and the widths, so that the integral is 1.
        weights: one for each element, counted instead of 1.

    Raises:
        OptionError, ShapeError: for bins or a range that make no sense.

    >>> [part.tolist() for part in histogram([1.0, 2.0, 2.0, 5.0], bins=2)]
    [[3, 1], [1.0, 3.0, 5.0]]
    """
    values = _work(x)
    flat = ops.reshape(values, (values.size,))
    edges = _edges(flat, bins, range)
    counts = _tally(_bin(flat, edges), _weights(weights, values), int(edges.shape[0]) - 1)
    if density:
        widths = ops.subtract(
            ops.slice(edges, (1,), counts.shape), ops.slice(edges, (0,), counts.shape)
        )
        counts = cast(counts, widths.dtype)
        total = ops.reduce_sum(counts, (0,))
        counts = as_result(ops.divide(ops.divide(counts, widths), total), x)
    return wrap(counts), wrap(as_result(edges, x))


def _weights(weights: TensorLike | None, values: Node) -> Node:
    if weights is None:
        return ops.full(1, (values.size,), int64)
    node = as_node(weights)
    if node.shape != values.shape:
        raise ShapeError(
            f"[histogram] weights of shape {node.shape} for values of shape {values.shape}; give "
            "one for each"
        )
    return ops.reshape(cast(node, sum_dtype(node.dtype, None)), (values.size,))


def histogramdd(
    x: TensorLike,
    bins: int | Sequence[Bins] = 10,
    range: Sequence[Range] | None = None,
    density: bool = False,
    weights: TensorLike | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """:func:`histogram` of points: ``x`` (n, d) has a row for each, the counts have d axes.

    >>> counts, edges = histogramdd([[0.0, 0.0], [1.0, 1.0]], bins=2)
    >>> counts.tolist(), len(edges)
    ([[1, 0], [0, 1]], 2)
    """
    points = _work(x)
    if points.ndim != 2:
        raise ShapeError(f"[histogramdd] points of shape {points.shape}; give (points, dimensions)")
    dims = int(points.shape[1])
    each = [bins] * dims if isinstance(bins, int) else list(bins)
    limits = [None] * dims if range is None else list(range)
    if len(each) != dims or len(limits) != dims:
        raise ShapeError(f"[histogramdd] {len(each)} bins for {dims} dimensions; give as many")
    place, edges = _bins(points, each, limits)
    sizes = tuple(int(edge.shape[0]) - 1 for edge in edges)
    counts = _tally(place, _weights(weights, place), int(product(sizes)))
    counts = ops.reshape(counts, sizes)
    if density:
        counts = _density(counts, edges)
    return wrap(counts), [wrap(as_result(edge, x)) for edge in edges]


def _bins(
    points: Node, bins: Sequence[Bins], limits: Sequence[Range]
) -> tuple[Node, list[Node]]:
    """The flat number of the bin of every point, past the last where it is in none, and all
    edges.
    """
    count = points.shape[0]
    place, inside = ops.full(0, (count,), int64), ops.full(True, (count,), bool_)
    total, edges = 1, []
    for axis, (number, limit) in enumerate(zip(bins, limits, strict=True)):
        column = ops.reshape(ops.slice(points, (0, axis), (count, 1)), (count,))
        edges.append(_edges(column, number, limit))
        size = int(edges[-1].shape[0]) - 1
        at, end = _bin(column, edges[-1]), ops.constant(size, int64)
        there = ops.bitwise_and(ops.less_equal(ops.constant(0, int64), at), ops.less(at, end))
        inside = ops.bitwise_and(inside, there)
        place, total = ops.add(ops.multiply(place, end), at), total * size
    return ops.where(inside, place, ops.constant(total, int64)), edges


def _density(counts: Node, edges: Sequence[Node]) -> Node:
    """Counts divided by their sum and the volumes of the bins."""
    found = cast(counts, edges[0].dtype)
    found = ops.divide(found, ops.reduce_sum(found))
    for axis, edge in enumerate(edges):
        size = counts.shape[axis]
        width = ops.subtract(ops.slice(edge, (1,), (size,)), ops.slice(edge, (0,), (size,)))
        shape = tuple(size if a == axis else 1 for a in range(counts.ndim))
        found = ops.divide(found, ops.broadcast_to(ops.reshape(width, shape), counts.shape))
    return found


def histogram2d(
    x: TensorLike,
    y: TensorLike,
    bins: int | Sequence[Bins] = 10,
    range: Sequence[Range] | None = None,
    density: bool = False,
    weights: TensorLike | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`histogram` of the points (x, y): counts and the edges of both axes.

    >>> histogram2d([0.0, 1.0], [0.0, 1.0], bins=2)[0].tolist()
    [[1, 0], [0, 1]]
    """
    a, b = (ops.reshape(node, (node.size, 1)) for node in pair("histogram2d", x, y))
    points = wrap(ops.concatenate([a, b], 1))
    counts, (first, second) = histogramdd(points, bins, range, density, weights)
    return counts, first, second


# -- averages and pairs ----------------------------------------------------------------------------
@with_synonyms
def ptp(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The range of values, the largest minus the smallest.

    >>> ptp([3, 9, 5]).item()
    6
    """
    high, low = (pick(x, axis=axis, keepdims=keepdims) for pick in (max_of, min_of))
    return wrap(ops.subtract(as_node(high), as_node(low)))


@deferring
@with_synonyms
def average(
    x: TensorLike,
    axis: Axes = None,
    weights: TensorLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The mean ``sum(w x) / sum(w)``; with ``returned`` also the sum of the weights.

    Args:
        x: the values.
        axis: over which axes; None for all.
        weights: of the shape of ``x``, or a vector along one ``axis``.
        returned: give ``(average, sum of weights)``.
        keepdims: leave the axes with size 1.

    Raises:
        ShapeError: for weights of another shape.

    >>> average([1.0, 3.0], weights=[3.0, 1.0]).item()
    1.5
    """
    values = as_float(as_node(x))
    axes = axes_of("average", axis, values.shape)
    if weights is None:
        found = mean(wrap(values), axis=axis, keepdims=keepdims)
        count = count_node([values.shape[a] for a in axes], values.dtype)
        return (found, wrap(ops.broadcast_to(count, found.shape))) if returned else found
    values, weight = pair("average", wrap(values), weights)
    if weight.shape != values.shape:
        if weight.ndim != 1 or len(axes) != 1 or weight.shape[0] != values.shape[axes[0]]:
            raise ShapeError(
                f"[average] weights of shape {weight.shape} for values of shape {values.shape} "
                f"over axis {axis}; give one for each value, or a vector along one axis"
            )
        ones = tuple(weight.shape[0] if a == axes[0] else 1 for a in range(values.ndim))
        weight = ops.broadcast_to(ops.reshape(weight, ones), values.shape)
    total = ops.reduce_sum(weight, axes)
    found_node = ops.divide(ops.reduce_sum(ops.multiply(values, weight), axes), total)
    if keepdims:
        shape = kept(values.shape, axes)
        found_node, total = ops.reshape(found_node, shape), ops.reshape(total, shape)
    return (wrap(found_node), wrap(total)) if returned else wrap(found_node)


def _observed(m: TensorLike, y: TensorLike | None, rowvar: bool) -> Node:
    """Variables as rows."""
    rows = []
    for each in (m,) if y is None else (m, y):
        node = as_float(as_node(each))
        if node.ndim > 2:
            raise ShapeError(f"[cov] shape {node.shape}; give a vector or a matrix")
        node = ops.reshape(node, (1, node.size)) if node.ndim < 2 else node
        rows.append(node if rowvar or node.shape[0] == 1 else ops.permute(node, (1, 0)))
    if len(rows) == 1:
        return rows[0]
    a, b = pair("cov", wrap(rows[0]), wrap(rows[1]))
    return ops.concatenate([a, b], 0)


@deferring
@with_synonyms
def cov(
    x: TensorLike,
    y: TensorLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    correction: float | None = None,
    fweights: TensorLike | None = None,
    aweights: TensorLike | None = None,
    dtype: object = None,
) -> Tensor:
    """The covariance matrix ``sum(w (x - mean)(x - mean)ᴴ) / (sum(w) - correction)``.

    Args:
        x: variables as rows (columns with ``rowvar=False``), observations along the other axis.
        y: more variables.
        rowvar: which axis has the variables.
        bias: divide by the number of observations; ``correction`` says it exactly.
        correction: taken from that number; default 1, or 0 with ``bias``. ``ddof`` is a synonym.
        fweights: how often each observation was made (integers).
        aweights: how much each observation counts.
        dtype: what it is computed in and the result has; default that of ``x``, as a float.

    >>> cov([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    rows = _observed(x, y, rowvar)
    kind = rows.dtype if dtype is None else as_dtype(dtype)
    if not kind.inexact:
        raise DTypeError(f"[cov] dtype={kind.name} holds no fractions; give a floating-point one")
    rows = cast(rows, float32 if kind.bits < 32 else kind)
    less = (0.0 if bias else 1.0) if correction is None else float(correction)
    weight = _observation_weights(rows, fweights, aweights)
    total = ops.reduce_sum(weight, (0,))
    across = ops.broadcast_to(cast(weight, rows.dtype), rows.shape)
    mean_row = ops.divide(
        ops.reduce_sum(ops.multiply(rows, across), (1,)), cast(total, rows.dtype)
    )
    away = ops.subtract(rows, ops.broadcast_to(ops.reshape(mean_row, (-1, 1)), rows.shape))
    left = ops.subtract(total, _less(less, weight, aweights))
    product_of = ops.matmul(ops.multiply(away, across), ops.permute(ops.conj(away), (1, 0)))
    found = cast(ops.divide(product_of, cast(left, rows.dtype)), kind)
    return wrap(ops.reshape(found, () if found.shape == (1, 1) else found.shape))


def _observation_weights(
    rows: Node, fweights: TensorLike | None, aweights: TensorLike | None
) -> Node:
    """One weight for each observation."""
    count, part = rows.shape[1], rows.dtype.part
    found = ops.full(1.0, (count,), part)
    for weights in (fweights, aweights):
        if weights is not None:
            node = as_node(weights, part)
            if node.shape != (count,):
                raise ShapeError(f"[cov] weights of shape {node.shape} for {count} observations")
            found = ops.multiply(found, node)
    return found


def _less(less: float, weight: Node, aweights: TensorLike | None) -> Node:
    """What is taken from the sum of weights: of reliability weights their weighted mean."""
    number = scalar_node(less, weight.dtype)
    if aweights is None:
        return number
    by_mean = ops.multiply(weight, as_node(aweights, weight.dtype))
    ratio = ops.divide(ops.reduce_sum(by_mean, (0,)), ops.reduce_sum(weight, (0,)))
    return ops.multiply(number, ratio)


@deferring
def corrcoef(
    x: TensorLike, y: TensorLike | None = None, rowvar: bool = True, dtype: object = None
) -> Tensor:
    """The correlation coefficients ``c[i, j] / sqrt(c[i, i] c[j, j])`` of :func:`cov`.

    >>> corrcoef([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    node = as_node(cov(x, y, rowvar, dtype=dtype))
    if node.ndim == 0:
        return wrap(ops.divide(node, node))
    size = node.shape[0]
    spread = ops.sqrt(ops.real(ops.diagonal(node)))
    column = ops.broadcast_to(ops.reshape(spread, (size, 1)), node.shape)
    row = ops.broadcast_to(ops.reshape(spread, (1, size)), node.shape)
    scale = cast(ops.multiply(column, row), node.dtype)
    found = ops.divide(node, scale)
    if found.dtype.kind == "c":
        return wrap(found)
    one = ops.constant(1.0, found.dtype)
    return wrap(ops.minimum(ops.maximum(found, ops.negative(one)), one))


