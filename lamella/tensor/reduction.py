"""Reductions over axes, and running sums, products and extremes along one.

Every function takes ``axis`` (an int, several, or None for all; ``dim`` is a synonym) and, where
the axis goes away, ``keepdims`` (``keepdim``), which leaves it with size 1. float16 and bfloat16
accumulate in float32. Sums run in a fixed order, so that results do not depend on the number of
threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lamella import ops
from lamella.dtypes import DType, as_dtype, bool_, float32, int64, uint64
from lamella.errors import OptionError, ShapeError
from lamella.ir.dim import Shape
from lamella.ir.node import Node
from lamella.tensor.axes import Axes, axes_of, axis_of, kept, require_elements
from lamella.tensor.core import TensorCore, wrap
from lamella.tensor.deferring import deferring
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.manipulation import diagonal_node
from lamella.tensor.operands import (
    TensorLike,
    as_float,
    as_node,
    cast,
    count_node,
    pair,
    scalar_node,
)  # fmt: skip

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "cummax", "cummin",
    "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "logsumexp", "max", "mean",
    "min", "prod", "std", "sum", "trace", "var",
]  # fmt: skip


def _shaped(node: Node, shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Node:
    return ops.reshape(node, kept(shape, axes)) if keepdims else node


def sum_dtype(dtype: DType, wanted: object) -> DType:
    """What sums and products of ``dtype`` are: integers at least 64 bits wide."""
    if wanted is not None:
        return as_dtype(wanted)
    return dtype if dtype.inexact else uint64 if dtype.kind == "u" else int64


@deferring
@with_synonyms
def sum(x: TensorLike, axis: Axes = None, dtype: object = None, keepdims: bool = False) -> Tensor:
    """The sum over ``axis``; of integers and bools as int64 (uint64 of unsigned ones).

    >>> sum([[1, 2], [3, 4]], axis=0).tolist()
    [4, 6]
    """
    node = as_node(x)
    axes = axes_of("sum", axis, node.shape)
    total = ops.reduce_sum(cast(node, sum_dtype(node.dtype, dtype)), axes)
    return wrap(_shaped(total, node.shape, axes, keepdims))


@deferring
@with_synonyms
def prod(x: TensorLike, axis: Axes = None, dtype: object = None, keepdims: bool = False) -> Tensor:
    """The product over ``axis``; of integers and bools as int64 (uint64 of unsigned ones).

    >>> prod([[1, 2], [3, 4]]).item()
    24
    """
    node = as_node(x)
    axes = axes_of("prod", axis, node.shape)
    total = ops.reduce_prod(cast(node, sum_dtype(node.dtype, dtype)), axes)
    return wrap(_shaped(total, node.shape, axes, keepdims))


def mean_node(node: Node, axes: tuple[int, ...], keepdims: bool = False) -> Node:
    """The mean of a floating-point or complex node, accumulated in at least float32."""
    narrow = node.dtype.bits < 32
    wide = cast(node, float32) if narrow else node
    total = ops.reduce_sum(wide, axes)
    count = count_node([node.shape[axis] for axis in axes], wide.dtype.part)
    if wide.dtype.kind == "c":
        mean = ops.complex(ops.divide(ops.real(total), count), ops.divide(ops.imag(total), count))
    else:
        mean = cast(ops.divide(total, count), node.dtype)
    return _shaped(mean, node.shape, axes, keepdims)


@deferring
@with_synonyms
def mean(x: TensorLike, axis: Axes = None, dtype: object = None, keepdims: bool = False) -> Tensor:
    """The mean ``sum(x) / n`` over ``axis``; of integers as float32, of nothing nan.

    >>> mean([[1.0, 2.0], [3.0, 4.0]], axis=1).tolist()
    [1.5, 3.5]
    """
    node = as_node(x)
    node = as_float(node) if dtype is None else cast(node, as_dtype(dtype))
    return wrap(mean_node(node, axes_of("mean", axis, node.shape), keepdims))


def _variance(
    name: str, x: TensorLike, axis: Axes, correction: float, keepdims: bool,
    finish: Callable[[Node], Node] = lambda variance: variance,
) -> Node:  # fmt: skip
    """The variance, then ``finish``, in at least float32."""
    node = as_float(as_node(x))
    axes = axes_of(name, axis, node.shape)
    wide = cast(node, float32) if node.dtype.bits < 32 else node
    away = ops.subtract(wide, mean_node(wide, axes, keepdims=True))
    away = ops.square(away) if wide.dtype.kind == "f" else square_modulus(away)
    kind = away.dtype
    count = count_node([node.shape[axis] for axis in axes], kind)
    if correction:
        count = ops.subtract(count, scalar_node(correction, kind))
        count = ops.maximum(count, ops.constant(0.0, kind))
    found = finish(ops.divide(ops.reduce_sum(away, axes), count))
    return _shaped(cast(found, node.dtype.part), node.shape, axes, keepdims)


def square_modulus(node: Node) -> Node:
    """``|x|²`` of a complex node, real."""
    return ops.add(ops.square(ops.real(node)), ops.square(ops.imag(node)))


@deferring
@with_synonyms
def var(
    x: TensorLike, axis: Axes = None, *, correction: float = 0, keepdims: bool = False
) -> Tensor:
    """The variance ``sum((x - mean)²) / (n - correction)`` over ``axis``, in two passes.

    ``correction`` is 0 by default, as in the array-API standard; ``unbiased=True`` or
    ``correction=1`` is PyTorch's default.

    >>> var([1.0, 2.0, 3.0, 4.0]).item()
    1.25
    """
    return wrap(_variance("var", x, axis, correction, keepdims))


@deferring
@with_synonyms
def std(
    x: TensorLike, axis: Axes = None, *, correction: float = 0, keepdims: bool = False
) -> Tensor:
    """The standard deviation, the square root of :func:`var`; where it is 0 its derivative is 0.

    >>> std([1.0, 3.0]).item()
    1.0
    """
    return wrap(_variance("std", x, axis, correction, keepdims, root))


def root(x: Node) -> Node:
    """The square root of a real node, with derivative 0 where it is 0."""
    zero = ops.equal(x, ops.constant(0.0, x.dtype))
    return ops.where(zero, x, ops.sqrt(ops.where(zero, ops.constant(1.0, x.dtype), x)))


def _extreme(
    name: str, builder: Callable[..., Node], x: TensorLike, axis: Axes | Tensor, keepdims: bool
) -> Tensor:
    node = as_node(x)
    if isinstance(axis, TensorCore):
        if keepdims:
            raise OptionError(f"[{name}] two tensors reduce no axis; leave keepdims out")
        a, b = pair(name, x, axis)
        return wrap(ops.maximum(a, b) if name == "max" else ops.minimum(a, b))
    axes = axes_of(name, axis, node.shape)
    require_elements(name, node.shape, axes, name)
    return wrap(_shaped(builder(node, axes), node.shape, axes, keepdims))


@deferring
def peak(x: TensorLike, axis: Axes = None) -> Tensor:
    """The largest element over ``axis``, kept as axes of size 1, without a derivative: what is
    taken out of exponents. Unlike :func:`max`, nothing where an axis turns out to be empty.
    """
    node = ops.stop_gradient(as_node(x))
    axes = axes_of("max", axis, node.shape)
    return wrap(_shaped(ops.reduce_max(node, axes), node.shape, axes, True))


@deferring
@with_synonyms
def max(x: TensorLike, axis: Axes | Tensor = None, keepdims: bool = False) -> Tensor:
    """The largest element over ``axis``; nan wins. Equal largest elements share the gradient.

    The values only, as in the array-API standard; :func:`argmax` gives the positions. With a
    tensor instead of axes it is :func:`maximum`, as in PyTorch.

    Raises:
        ShapeError: over nothing.

    >>> max([[1, 5], [3, 2]], axis=0).tolist()
    [3, 5]
    """
    return _extreme("max", ops.reduce_max, x, axis, keepdims)


@deferring
@with_synonyms
def min(x: TensorLike, axis: Axes | Tensor = None, keepdims: bool = False) -> Tensor:
    """The smallest element over ``axis``; nan wins. Equal smallest elements share the gradient.

    With a tensor instead of axes it is :func:`minimum`, as in PyTorch.

    Raises:
        ShapeError: over nothing.

    >>> min([[1, 5], [3, 2]], axis=0).tolist()
    [1, 2]
    """
    return _extreme("min", ops.reduce_min, x, axis, keepdims)


amax, amin = max, min


def _truth(x: TensorLike) -> Node:
    node = as_node(x)
    return node if node.dtype is bool_ else ops.not_equal(node, ops.constant(0, node.dtype))


@deferring
@with_synonyms
def any(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether an element over ``axis`` is nonzero.

    >>> any([[0, 1], [0, 0]], axis=1).tolist()
    [True, False]
    """
    node = _truth(x)
    axes = axes_of("any", axis, node.shape)
    return wrap(_shaped(ops.reduce_any(node, axes), node.shape, axes, keepdims))


@deferring
@with_synonyms
def all(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether every element over ``axis`` is nonzero.

    >>> all([[1, 1], [0, 1]], axis=1).tolist()
    [True, False]
    """
    node = _truth(x)
    axes = axes_of("all", axis, node.shape)
    return wrap(_shaped(ops.reduce_all(node, axes), node.shape, axes, keepdims))


@deferring
@with_synonyms
def count_nonzero(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The number of nonzero elements over ``axis``, as int64.

    >>> count_nonzero([1, 0, 2]).item()
    2
    """
    node = cast(_truth(x), int64)
    axes = axes_of("count_nonzero", axis, node.shape)
    return wrap(_shaped(ops.reduce_sum(node, axes), node.shape, axes, keepdims))


def _position(
    name: str, builder: Callable[..., Node], x: TensorLike, axis: int | None, keepdims: bool
) -> Tensor:
    node = as_node(x)
    shape = node.shape
    if axis is None:
        node, axes = ops.reshape(node, (-1,) if 0 not in shape else (0,)), tuple(range(len(shape)))
        position = 0
    else:
        position = axis_of(name, axis, shape)
        axes = (position,)
    require_elements(name, shape, axes, "position")
    return wrap(_shaped(builder(node, position), shape, axes, keepdims))


@deferring
@with_synonyms
def argmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the first largest element along ``axis`` (None: in the flattened tensor),
    int64.

    >>> argmax([[1, 5], [7, 2]], axis=1).tolist()
    [1, 0]
    """
    return _position("argmax", ops.argmax, x, axis, keepdims)


@deferring
@with_synonyms
def argmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the first smallest element along ``axis`` (None: in the flattened tensor),
    int64.

    >>> argmin([[1, 5], [7, 2]], axis=1).tolist()
    [0, 1]
    """
    return _position("argmin", ops.argmin, x, axis, keepdims)


@deferring
@with_synonyms
def logsumexp(x: TensorLike, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """``log(sum(exp(x)))`` over ``axis``, without overflow: the largest element is taken out first;
    -inf over an axis without elements.

    >>> import math
    >>> logsumexp([1000.0, 1000.0]).item() - 1000.0 - math.log(2) < 1e-4
    True
    """
    node = as_float(as_node(x))
    axes = axes_of("logsumexp", axis, node.shape)
    zero = ops.constant(0.0, node.dtype)
    if 0 in [node.shape[axis] for axis in axes]:
        return wrap(_shaped(ops.log(ops.reduce_sum(node, axes)), node.shape, axes, keepdims))
    top = ops.stop_gradient(ops.reshape(ops.reduce_max(node, axes), kept(node.shape, axes)))
    top = ops.where(ops.isfinite(top), top, zero)
    total = ops.reduce_sum(ops.exp(ops.subtract(node, top)), axes)
    return wrap(_shaped(
        ops.add(ops.log(total), ops.reshape(top, total.shape)), node.shape, axes, keepdims
    ))  # fmt: skip


# -- running ---------------------------------------------------------------------------------------
def _running(name: str, builder: Callable[..., Node], node: Node, axis: int | None) -> Tensor:
    if axis is None:
        node, axis = ops.reshape(node, (-1,) if 0 not in node.shape else (0,)), 0
    return wrap(builder(node, axis_of(name, axis, node.shape)))


@deferring
@with_synonyms
def cumsum(x: TensorLike, axis: int | None = None, dtype: object = None) -> Tensor:
    """The running sum along ``axis`` (None: of the flattened tensor).

    >>> cumsum([1, 2, 3]).tolist()
    [1, 3, 6]
    """
    node = as_node(x)
    return _running("cumsum", ops.cumsum, cast(node, sum_dtype(node.dtype, dtype)), axis)


@deferring
@with_synonyms
def cumprod(x: TensorLike, axis: int | None = None, dtype: object = None) -> Tensor:
    """The running product along ``axis`` (None: of the flattened tensor).

    >>> cumprod([1, 2, 3]).tolist()
    [1, 2, 6]
    """
    node = as_node(x)
    return _running("cumprod", ops.cumprod, cast(node, sum_dtype(node.dtype, dtype)), axis)


@deferring
@with_synonyms
def cummax(x: TensorLike, axis: int | None = None) -> Tensor:
    """The largest element so far along ``axis``.

    >>> cummax([1, 3, 2]).tolist()
    [1, 3, 3]
    """
    return _running("cummax", ops.cummax, as_node(x), axis)


@deferring
@with_synonyms
def cummin(x: TensorLike, axis: int | None = None) -> Tensor:
    """The smallest element so far along ``axis``.

    >>> cummin([3, 1, 2]).tolist()
    [3, 1, 1]
    """
    return _running("cummin", ops.cummin, as_node(x), axis)


@with_synonyms
def cumulative_sum(
    x: TensorLike, axis: int | None = None, dtype: object = None, include_initial: bool = False
) -> Tensor:
    """The running sum along ``axis`` (array-API's name); ``include_initial`` puts a 0 before it.

    >>> cumulative_sum([1, 2, 3], include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _cumulative(cumsum(x, axis, dtype), axis, 0, include_initial)


@with_synonyms
def cumulative_prod(
    x: TensorLike, axis: int | None = None, dtype: object = None, include_initial: bool = False
) -> Tensor:
    """The running product along ``axis`` (array-API's name); ``include_initial`` puts a 1 before
    it.

    >>> cumulative_prod([1, 2, 3]).tolist()
    [1, 2, 6]
    """
    return _cumulative(cumprod(x, axis, dtype), axis, 1, include_initial)


def _cumulative(running: Tensor, axis: int | None, first: int, include: bool) -> Tensor:
    if not include:
        return running
    node = running.node
    place = axis_of("cumulative", 0 if axis is None else axis, node.shape)
    low = [1 if each == place else 0 for each in range(node.ndim)]
    return wrap(ops.pad(node, low, [0] * node.ndim, ops.constant(first, node.dtype)))


@deferring
def trace(
    x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: object = None
) -> Tensor:
    """The sum of the elements ``x[i, i + offset]`` of two axes, the first two by default.

    Integers are summed as int64 (unsigned ones as uint64) unless ``dtype`` says otherwise.

    Raises:
        ShapeError: for axes that ``x`` has not, or one axis given twice.

    >>> trace([[1, 2], [3, 4]]).item()
    5
    """
    node = as_node(x)
    if node.ndim < 2:
        raise ShapeError(f"[trace] shape {node.shape} is no matrix; give at least two axes")
    first, second = (axis_of("trace", a, node.shape) for a in (axis1, axis2))
    if first == second:
        raise ShapeError(f"[trace] axes {axis1} and {axis2} are the same; a diagonal has two")
    found = diagonal_node(cast(node, sum_dtype(node.dtype, dtype)), offset, first, second)
    return wrap(ops.reduce_sum(found, (found.ndim - 1,)))
