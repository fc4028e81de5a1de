"""Functions of sampled curves: interpolation, convolution, integrals, slopes, phases.

Input: tensors or anything :func:`lamella.asarray` takes, samples along an axis. Output: tensors;
all are recorded and differentiable.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from lamella import ops
from lamella.dtypes import int64, promote
from lamella.errors import OptionError, ShapeError
from lamella.ir.dim import Dim
from lamella.ir.node import Node
from lamella.tensor.axes import Axes, axes_of, axis_of
from lamella.tensor.core import wrap
from lamella.tensor.deferring import deferring
from lamella.tensor.joining import diff
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import TensorLike, as_float, as_node, cast, pair, scalar_node
from lamella.tensor.searching import searchsorted

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "convolve", "correlate", "ediff1d", "gradient", "interp", "trapezoid", "unwrap",
]  # fmt: skip

ConvolveMode = Literal["full", "same", "valid"]


def _part(node: Node, axis: int, start: int, size: int) -> Node:
    """``size`` elements along ``axis`` from ``start``."""
    starts = [start if a == axis else 0 for a in range(node.ndim)]
    return ops.slice(node, starts, (*node.shape[:axis], size, *node.shape[axis + 1 :]))


# -- interpolation ---------------------------------------------------------------------------------
@deferring
def interp(
    x: TensorLike,
    xp: TensorLike,
    fp: TensorLike,
    left: float | None = None,
    right: float | None = None,
    period: float | None = None,
) -> Tensor:
    """The polygon through the points (``xp``, ``fp``) at ``x``.

    Args:
        x: where to evaluate.
        xp: a vector of abscissae in ascending order (in any order with ``period``).
        fp: their ordinates, real or complex.
        left: the value before the first point; its ordinate by default.
        right: the value after the last point; its ordinate by default.
        period: abscissae are taken modulo this.

    Raises:
        ShapeError: unless ``xp`` and ``fp`` are vectors of one size, not empty.
        OptionError: for a period of 0.

    >>> interp([0.5, 9.0], [0.0, 1.0], [10.0, 20.0]).tolist()
    [15.0, 20.0]
    """
    at, knots = (as_float(node) for node in pair("interp", x, xp))
    values = as_float(as_node(fp))
    if knots.ndim != 1 or values.shape != knots.shape or knots.shape[0] == 0:
        raise ShapeError(
            f"[interp] points of shapes {knots.shape} and {values.shape}; give two vectors of one "
            "size, not empty"
        )
    if period is not None:
        at, knots, values = _periodic(at, knots, values, period)
        left = right = None
    count = int(knots.shape[0])
    place = as_node(searchsorted(wrap(knots), wrap(at), side="right"))
    below = ops.minimum(
        ops.maximum(ops.subtract(place, _whole(1)), _whole(0)), _whole(max(count - 2, 0))
    )
    above = ops.minimum(ops.add(below, _whole(1)), _whole(count - 1))
    x0, x1 = (ops.gather(knots, i, checked=False) for i in (below, above))
    y0, y1 = (ops.gather(values, i, checked=False) for i in (below, above))
    width = ops.subtract(x1, x0)
    one = ops.constant(1.0, width.dtype)
    flat = ops.equal(width, ops.constant(0.0, width.dtype))
    share = ops.divide(ops.subtract(at, x0), ops.where(flat, one, width))
    y0, y1 = (cast(y, promote(values.dtype, share.dtype)) for y in (y0, y1))
    line = ops.add(y0, ops.multiply(cast(share, y0.dtype), ops.subtract(y1, y0)))
    return wrap(_ends(line, at, knots, values, left, right))


def _whole(value: int) -> Node:
    return ops.constant(value, int64)


def _ends(
    line: Node, at: Node, knots: Node, values: Node, left: float | None, right: float | None
) -> Node:
    """The line inside, the end values outside."""
    count = int(knots.shape[0])
    for place, given in ((0, left), (count - 1, right)):
        edge = ops.reshape(ops.slice(knots, (place,), (1,)), ())
        value = ops.reshape(ops.slice(values, (place,), (1,)), ())
        end = value if given is None else scalar_node(given, line.dtype, "interp")
        if given is None:
            outside = ops.less_equal(at, edge) if place == 0 else ops.less_equal(edge, at)
        else:
            outside = ops.less(at, edge) if place == 0 else ops.less(edge, at)
        line = ops.where(outside, cast(end, line.dtype), line)
    return line


def _periodic(at: Node, knots: Node, values: Node, period: float) -> tuple[Node, Node, Node]:
    """Everything moved into one period, with a knot more on each side."""
    if period == 0:
        raise OptionError("[interp] a period of 0 repeats nothing; give another")
    length = scalar_node(abs(period), at.dtype, "interp")
    at, knots = ops.remainder(at, length), ops.remainder(knots, length)
    order = ops.argsort(knots, 0)
    knots, values = (ops.gather(node, order, checked=False) for node in (knots, values))
    count = int(knots.shape[0])
    first, last = (ops.slice(knots, (i,), (1,)) for i in (0, count - 1))
    knots = ops.concatenate([ops.subtract(last, length), knots, ops.add(first, length)], 0)
    ends = [ops.slice(values, (i,), (1,)) for i in (count - 1, 0)]
    return at, knots, ops.concatenate([ends[0], values, ends[1]], 0)


# -- convolution -----------------------------------------------------------------------------------
@deferring
def convolve(x: TensorLike, y: TensorLike, mode: ConvolveMode = "full") -> Tensor:
    """``result[n] = sum(x[m] y[n - m])`` of two vectors.

    ``mode`` "full" gives every overlap, "valid" the complete ones, "same" as many as the longer
    vector has elements, from the middle.

    Raises:
        ShapeError: unless both are vectors, not empty.
        OptionError: for an unknown mode.

    >>> convolve([1, 2, 3], [0, 1]).tolist(), convolve([1, 2, 3], [0, 1], "valid").tolist()
    ([0, 1, 2, 3], [1, 2])
    """
    a, b = _vectors("convolve", x, y)
    return wrap(_convolved(a, b, mode))


@deferring
def correlate(x: TensorLike, y: TensorLike, mode: ConvolveMode = "valid") -> Tensor:
    """``result[k] = sum(x[n + k] conj(y[n]))`` of two vectors; modes as for :func:`convolve`.

    >>> correlate([1, 2, 3], [0, 1, 2], "full").tolist()
    [2, 5, 8, 3, 0]
    """
    a, b = _vectors("correlate", x, y)
    return wrap(_convolved(a, ops.conj(ops.flip(b, (0,))), mode, swapped_same=True))


def _vectors(name: str, x: TensorLike, y: TensorLike) -> tuple[Node, Node]:
    a, b = pair(name, x, y)
    if a.dtype.kind == "b":
        a, b = cast(a, int64), cast(b, int64)
    if a.ndim != 1 or b.ndim != 1 or 0 in (a.shape[0], b.shape[0]):
        raise ShapeError(f"[{name}] shapes {a.shape} and {b.shape}; give two vectors, not empty")
    return a, b


def _convolved(a: Node, b: Node, mode: str, swapped_same: bool = False) -> Node:
    n, m = int(a.shape[0]), int(b.shape[0])
    large, small = max(n, m), min(n, m)
    if mode not in ("full", "same", "valid"):
        raise OptionError(f"[convolve] no mode {mode!r}; use 'full', 'same' or 'valid'")
    image, kernel = (a, b) if n >= m else (b, a)
    row = ops.reshape(image, (1, 1, large))
    taps = ops.reshape(ops.flip(kernel, (0,)), (1, 1, small))
    full = ops.conv(row, taps, (1,), ((small - 1, small - 1),))
    found = ops.reshape(full, (large + small - 1,))
    if mode == "full":
        return found
    size = large if mode == "same" else large - small + 1
    start = (small - 1) // 2 if mode == "same" else small - 1
    if swapped_same and mode == "same" and m > n:
        start = small // 2  # NumPy correlates the shorter with the longer and turns it round
    return ops.slice(found, (start,), (size,))


# -- calculus --------------------------------------------------------------------------------------
@deferring
@with_synonyms
def trapezoid(
    y: TensorLike, x: TensorLike | None = None, dx: float = 1.0, axis: int = -1
) -> Tensor:
    """The integral of samples along ``axis`` by the trapezoidal rule.

    Args:
        y: the samples.
        x: where they were taken: a vector, or of the shape of ``y``; by default ``dx`` apart.
        dx: their distance without ``x``.
        axis: along which they lie.

    >>> trapezoid([1.0, 2.0, 3.0]).item(), trapezoid([1.0, 3.0], x=[0.0, 2.0]).item()
    (4.0, 4.0)
    """
    node = as_float(as_node(y))
    place = axis_of("trapezoid", axis, node.shape)
    size = max(int(node.shape[place]) - 1, 0)
    if x is None:
        width = scalar_node(dx, node.dtype, "trapezoid")
    else:
        at = as_node(x)
        width = as_node(diff(wrap(at), axis=place if at.ndim > 1 else 0))
        if width.ndim == 1:
            shape = tuple(width.shape[0] if a == place else 1 for a in range(node.ndim))
            width = ops.reshape(width, shape)
    low = _part(node, place, 0, size)
    high = _part(node, place, 1 if size else 0, size)
    middle, width = pair("trapezoid", wrap(ops.add(low, high)), wrap(width))
    half = ops.constant(0.5, middle.dtype)
    return wrap(ops.reduce_sum(ops.multiply(ops.multiply(middle, width), half), (place,)))


def ediff1d(
    x: TensorLike, to_end: TensorLike | None = None, to_begin: TensorLike | None = None
) -> Tensor:
    """The differences of neighbours in the flattened tensor, between what is given for the ends.

    >>> ediff1d([1, 4, 9], to_begin=0).tolist()
    [0, 3, 5]
    """
    node = as_node(x)
    flat = as_node(diff(wrap(ops.reshape(node, (node.size,)))))
    begin, end = (
        None if part is None else as_node(part, node.dtype) for part in (to_begin, to_end)
    )
    pieces = [begin, flat, end]
    return wrap(
        ops.concatenate([ops.reshape(p, (p.size,)) for p in pieces if p is not None], 0)
    )


def unwrap(
    x: TensorLike, discont: float | None = None, axis: int = -1, period: float = 2 * math.pi
) -> Tensor:
    """Phases along ``axis`` without jumps: where neighbours differ by more than ``discont`` (by
    default, and at least, half the period), multiples of ``period`` are added.

    >>> unwrap([0, 3, 6, 1], period=6).tolist()
    [0, 3, 6, 7]
    """
    node = as_node(x)
    whole = not node.dtype.inexact and isinstance(period, int)
    node = node if whole else as_float(node)
    dtype = node.dtype
    length = scalar_node(period, dtype, "unwrap")
    if whole:
        half, tie = scalar_node(period // 2, dtype), period % 2 == 0
    else:
        half, tie = scalar_node(period / 2, dtype), True
    place = axis_of("unwrap", axis, node.shape)
    step = as_node(diff(wrap(node), axis=place))
    low = ops.negative(half)
    turned = ops.add(ops.remainder(ops.subtract(step, low), length), low)
    if tie:
        zero = ops.constant(0, dtype)
        at_low = ops.bitwise_and(ops.equal(turned, low), ops.less(zero, step))
        turned = ops.where(at_low, half, turned)
    limit = half if discont is None else scalar_node(max(discont, period / 2), dtype)
    small = ops.less(ops.abs(step), limit)
    change = ops.where(small, ops.constant(0, dtype), ops.subtract(turned, step))
    before = [1 if a == place else 0 for a in range(node.ndim)]
    added = ops.pad(ops.cumsum(change, place), before, [0] * node.ndim)
    return wrap(ops.add(node, added) if node.shape[place] != 0 else node)


@deferring
def gradient(
    f: TensorLike, *spacing: float | TensorLike, axis: Axes = None, edge_order: int = 1
) -> Tensor | list[Tensor]:
    """The slope of samples along each axis: central differences inside, one-sided at the ends.

    Args:
        f: the samples.
        spacing: their distance, one for all axes or one for each; or their places as vectors.
        axis: along which axes; None for all.
        edge_order: 1 or 2, the order of accuracy at the ends.

    Returns:
        A tensor for one axis (or one-dimensional ``f``), else a list of them.

    Raises:
        ShapeError: for too few samples, or as many spacings as fit no axes.

    >>> gradient([1.0, 4.0, 9.0]).tolist()
    [3.0, 4.0, 5.0]
    """
    node = as_float(as_node(f))
    axes = [axis] if isinstance(axis, int) else list(axes_of("gradient", axis, node.shape))
    places = [axis_of("gradient", a, node.shape) for a in axes]
    if edge_order not in (1, 2):
        raise OptionError(f"[gradient] edge_order {edge_order}; use 1 or 2")
    if len(spacing) not in (0, 1, len(places)):
        raise ShapeError(
            f"[gradient] {len(spacing)} spacings for {len(places)} axes; give one, or one for each"
        )
    every = list(spacing or (1.0,)) * (len(places) if len(spacing) <= 1 else 1)
    found = [
        wrap(_slope(node, place, distance, edge_order))
        for place, distance in zip(places, every, strict=True)
    ]
    return found[0] if len(found) == 1 else found


def _slope(node: Node, axis: int, spacing: float | TensorLike, edge_order: int) -> Node:
    size = node.shape[axis]
    if isinstance(size, Dim) or size < edge_order + 1:
        raise ShapeError(
            f"[gradient] {size} samples along axis {axis} of {node.shape}; edge order {edge_order} "
            f"needs {edge_order + 1}"
        )
    gaps = _gaps(node, axis, spacing, size)
    even = isinstance(spacing, int | float) or as_node(spacing).ndim == 0
    inside = (_inside_even if even else _inside)(node, axis, gaps, size)
    ends = [_end(node, axis, gaps, size, edge_order, last) for last in (False, True)]
    return ops.concatenate([ends[0], inside, ends[1]], axis)


def _gaps(node: Node, axis: int, spacing: float | TensorLike, size: int) -> Node:
    """The distances of neighbours along ``axis``, size - 1 of them, other axes of size 1."""
    shape = tuple(size - 1 if a == axis else 1 for a in range(node.ndim))
    if isinstance(spacing, int | float):
        return ops.broadcast_to(scalar_node(spacing, node.dtype.part, "gradient"), shape)
    at = cast(as_node(spacing), node.dtype.part)
    if at.ndim == 0:
        return ops.broadcast_to(at, shape)
    if at.shape != (size,):
        raise ShapeError(f"[gradient] places of shape {at.shape} for {size} samples; give as many")
    return ops.reshape(as_node(diff(wrap(at))), shape)


def _times(weight: Node, values: Node) -> Node:
    return ops.multiply(cast(ops.broadcast_to(weight, values.shape), values.dtype), values)


def _inside(node: Node, axis: int, gaps: Node, size: int) -> Node:
    """(h₀² f₂ + (h₁² - h₀²) f₁ - h₁² f₀) / (h₀ h₁ (h₀ + h₁)) with gaps h₀, h₁ on both sides."""
    inner = size - 2
    before, after = (_part(gaps, axis, i, inner) for i in (0, 1))
    f0, f1, f2 = (_part(node, axis, i, inner) for i in (0, 1, 2))
    total = ops.add(before, after)
    a = ops.divide(ops.negative(after), ops.multiply(before, total))
    b = ops.divide(ops.subtract(after, before), ops.multiply(before, after))
    c = ops.divide(before, ops.multiply(after, total))
    return ops.add(ops.add(_times(a, f0), _times(b, f1)), _times(c, f2))


def _inside_even(node: Node, axis: int, gaps: Node, size: int) -> Node:
    """(f₂ - f₀) / 2h, in which the middle, which may be nan, has no part."""
    f0, f2 = (_part(node, axis, i, size - 2) for i in (0, 2))
    twice = ops.multiply(ops.constant(2.0, gaps.dtype), _part(gaps, axis, 0, size - 2))
    return ops.divide(
        ops.subtract(f2, f0), cast(ops.broadcast_to(twice, f0.shape), node.dtype)
    )


def _end(node: Node, axis: int, gaps: Node, size: int, order: int, last: bool) -> Node:
    """The one-sided slope at an end."""
    if order == 1:
        start = size - 2 if last else 0
        rise = ops.subtract(_part(node, axis, start + 1, 1), _part(node, axis, start, 1))
        return _times(ops.divide(ops.constant(1.0, gaps.dtype), _part(gaps, axis, start, 1)), rise)
    start = size - 3 if last else 0
    near, far = (1, 0) if last else (0, 1)
    h0, h1 = (_part(gaps, axis, start + i, 1) for i in (near, far))
    f0, f1, f2 = (_part(node, axis, start + i, 1) for i in ((2, 1, 0) if last else (0, 1, 2)))
    total = ops.add(h0, h1)
    a = ops.negative(ops.divide(ops.add(total, h0), ops.multiply(h0, total)))
    b = ops.divide(total, ops.multiply(h0, h1))
    c = ops.negative(ops.divide(h0, ops.multiply(h1, total)))
    found = ops.add(ops.add(_times(a, f0), _times(b, f1)), _times(c, f2))
    return ops.negative(found) if last else found
