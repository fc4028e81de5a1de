"""Reductions along axes: sum, prod, max, min, any, all. Reduced axes vanish.

Input: a node and its axes (None: all; no axes: the node itself). float16 and bfloat16 sums and
products accumulate in float32; integers wrap. Derivatives: equal maxima share it equally; that of
``prod`` uses exclusive products, so zeros do no harm.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from lamella import ops
from lamella.dtypes import FLOATS, INTEGERS, DType, bool_
from lamella.errors import DTypeError, ShapeError
from lamella.ir.dim import Shape, Size, product
from lamella.ir.loops import Const
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Kind, Needs, Primitive, Sample
from lamella.ops.families import Linear, accumulator, check_fits, normalize_axes
from lamella.ops.leaf import constant
from lamella.ops.sampling import special

__all__ = [
    "ReduceAll", "ReduceAny", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "expand",
    "reduce_all", "reduce_any", "reduce_max", "reduce_min", "reduce_prod", "reduce_sum",
]  # fmt: skip

NUMBERS = (*INTEGERS, *FLOATS)
Axes = int | Sequence[int] | None


def remaining(shape: Shape, axes: Sequence[int]) -> Shape:
    """The shape without ``axes``."""
    return tuple([size for axis, size in enumerate(shape) if axis not in axes])


def expand(x: Node, axes: Sequence[int], shape: Shape) -> Node:
    """A reduced value put back at every position of the reduced axes of ``shape``.

    >>> from lamella import dtypes, ops
    >>> expand(ops.constant(1.0, dtypes.float64), (0,), (4,)).shape
    (4,)
    """
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return ops.broadcast_to(ops.reshape(x, kept), shape)


def wide(array: Array) -> Array:
    """float16 and bfloat16 as float32."""
    return array if array.dtype.kind in "biu" or array.dtype.itemsize > 2 else array.astype("f4")


def lowest(dtype: DType, sign: int) -> Const:
    """The identity of max (``sign`` -1) or min (+1) in ``dtype``."""
    if dtype.kind == "f":
        return Const(sign * float("inf"), accumulator(dtype))
    limits = np.iinfo(dtype.name)
    return Const(int(limits.min if sign < 0 else limits.max), dtype)


@dataclass(frozen=True, slots=True)
class Reduction(Primitive):
    """A fold along ``axes`` (ascending, not negative)."""

    kind: ClassVar[Kind] = "reduction"
    kinds: ClassVar[str] = "iuf"
    axes: tuple[int, ...]

    def check(self, node: Node) -> None:
        """The remaining axes in order."""
        x = node.inputs[0]
        normalize_axes(self.name, self.axes, x.ndim)
        if x.dtype.kind not in self.kinds:
            raise DTypeError(f"[{self.name}] does not take {x.dtype.name}; cast it first")
        check_fits(node, remaining(x.shape, self.axes), x.dtype)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The same axes, one further on."""
        op = replace(self, axes=tuple(axis + 1 for axis in self.axes))
        return make(op, (args[0],), (size, *node.shape), node.dtype)


@dataclass(frozen=True, slots=True)
class ReduceSum(Linear, Reduction):
    """The sum."""

    name: ClassVar[str] = "reduce_sum"
    kind: ClassVar[Kind] = "reduction"
    kinds: ClassVar[str] = "iufc"

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.sum``."""
        with np.errstate(all="ignore"):
            x = wide(arrays[0])
            return np.asarray(np.sum(x, axis=self.axes, dtype=x.dtype)).astype(dtype.numpy)

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangent at every position."""
        return (expand(cotangent, self.axes, node.inputs[0].shape),)

    def fold(self, node: Node) -> tuple[str, Const]:
        """``add`` from 0."""
        dtype = accumulator(node.dtype)
        return "add", Const(0.0 if dtype.kind == "f" else 0, dtype)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Axes in every place, empty ones, special values."""
        yield from _reductions(reduce_sum, NUMBERS, empty=True)


@dataclass(frozen=True, slots=True)
class ReduceProd(Reduction):
    """The product."""

    name: ClassVar[str] = "reduce_prod"

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.prod``."""
        with np.errstate(all="ignore"):
            x = wide(arrays[0])
            return np.asarray(np.prod(x, axis=self.axes, dtype=x.dtype)).astype(dtype.numpy)

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangent times the product of all other elements."""
        x = node.inputs[0]
        return (ops.multiply(expand(cotangent, self.axes, x.shape), _others(x, self.axes)),)

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """The sum of each tangent times the product of all other elements."""
        (tangent,) = tangents
        if tangent is None:
            return None
        return reduce_sum(ops.multiply(tangent, _others(node.inputs[0], self.axes)), self.axes)

    def fold(self, node: Node) -> tuple[str, Const]:
        """``mul`` from 1."""
        dtype = accumulator(node.dtype)
        return "mul", Const(1.0 if dtype.kind == "f" else 1, dtype)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """As for sum, and one or two zeros among the factors."""
        yield from _reductions(reduce_prod, NUMBERS, empty=True)

        def zeros(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, _: int) -> Array:
            x = rng.uniform(0.5, 1.5, shape)
            x[0, 1] = x[1, 0] = x[1, 2] = 0.0
            return np.asarray(x)

        yield Sample(((3, 4),), lambda x: reduce_prod(x, 1), FLOATS, draw=zeros, note="zeros")


def _others(x: Node, axes: tuple[int, ...]) -> Node:
    """At each position the product along ``axes`` of all the other elements; safe with zeros."""
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    order = (*kept, *axes)
    moved = ops.permute(x, order)
    count = product(tuple(x.shape[axis] for axis in axes))
    flat = ops.reshape(moved, (*(x.shape[axis] for axis in kept), count))
    last = flat.ndim - 1
    before = ops.cumprod(ops.shift(flat, last, 1.0), last)
    after = ops.cumprod(ops.shift(flat, last, 1.0, reverse=True), last, reverse=True)
    found = ops.reshape(ops.multiply(before, after), moved.shape)
    return ops.permute(found, tuple(order.index(axis) for axis in range(x.ndim)))


@dataclass(frozen=True, slots=True)
class Extremum(Reduction):
    """The largest or smallest element; equal ones share the derivative equally."""

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangent shared among the positions that hold the result."""
        x = node.inputs[0]
        held, count = _holders(node, self.axes)
        share = expand(ops.divide(cotangent, count), self.axes, x.shape)
        return (ops.where(held, share, constant(0, x.dtype)),)

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """The mean of the tangents at the positions that hold the result."""
        (tangent,) = tangents
        if tangent is None:
            return None
        held, count = _holders(node, self.axes)
        kept = ops.where(held, tangent, constant(0, node.dtype))
        return ops.divide(reduce_sum(kept, self.axes), count)


def _holders(node: Node, axes: tuple[int, ...]) -> tuple[Node, Node]:
    x = node.inputs[0]
    held = ops.equal(x, expand(node, axes, x.shape))
    return held, reduce_sum(ops.cast(held, x.dtype), axes)


@dataclass(frozen=True, slots=True)
class ReduceMax(Extremum):
    """The largest element; nan if there is one."""

    name: ClassVar[str] = "reduce_max"

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.max``."""
        return np.asarray(np.max(wide(arrays[0]), axis=self.axes)).astype(dtype.numpy)

    def fold(self, node: Node) -> tuple[str, Const]:
        """``max`` from the lowest value."""
        return "max", lowest(node.dtype, -1)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Axes in every place, ties, special values."""
        yield from _reductions(reduce_max, NUMBERS)


@dataclass(frozen=True, slots=True)
class ReduceMin(Extremum):
    """The smallest element; nan if there is one."""

    name: ClassVar[str] = "reduce_min"

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.min``."""
        return np.asarray(np.min(wide(arrays[0]), axis=self.axes)).astype(dtype.numpy)

    def fold(self, node: Node) -> tuple[str, Const]:
        """``min`` from the highest value."""
        return "min", lowest(node.dtype, 1)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Axes in every place, ties, special values."""
        yield from _reductions(reduce_min, NUMBERS)


@dataclass(frozen=True, slots=True)
class ReduceAny(Reduction):
    """Whether any element holds (bool)."""

    name: ClassVar[str] = "reduce_any"
    kinds: ClassVar[str] = "b"
    differentiable: ClassVar[bool] = False

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.any``."""
        return np.asarray(np.any(arrays[0], axis=self.axes))

    def fold(self, node: Node) -> tuple[str, Const]:
        """``or`` from false."""
        return "or", Const(False, bool_)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Bool."""
        yield from _reductions(reduce_any, (bool_,), empty=True)


@dataclass(frozen=True, slots=True)
class ReduceAll(Reduction):
    """Whether all elements hold (bool)."""

    name: ClassVar[str] = "reduce_all"
    kinds: ClassVar[str] = "b"
    differentiable: ClassVar[bool] = False

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.all``."""
        return np.asarray(np.all(arrays[0], axis=self.axes))

    def fold(self, node: Node) -> tuple[str, Const]:
        """``and`` from true."""
        return "and", Const(True, bool_)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Bool."""
        yield from _reductions(reduce_all, (bool_,), empty=True)


def _reductions(
    build: Callable[[Node, Axes], Node], dtypes: Sequence[DType], empty: bool = False
) -> Iterator[Sample]:
    cases: list[tuple[tuple[int, ...], Axes]] = [
        ((17,), 0), ((2, 3, 5), 2), ((2, 3, 5), 0), ((2, 3, 5), 1), ((2, 3, 5), (0, 2)),
        ((2, 3, 5), None), ((4, 1), 1), ((0, 3), 1), ((), None),
    ]  # fmt: skip
    cases += [((0, 3), 0), ((0,), None)] if empty else []
    for shape, axes in cases:
        yield Sample((shape,), lambda x, a=axes: build(x, a), tuple(dtypes), draw=_distinct)
    yield Sample(((12, 12),), lambda x: build(x, 1), tuple(dtypes), draw=special, rtol=1e-2,
                 differentiable=False, note="special values")  # fmt: skip


def _distinct(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, position: int
) -> Array:
    """Numbers far apart, so that which one is the extreme does not hang on a rounding."""
    count = int(np.prod(shape, dtype=int))
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    values = np.arange(count) - (0 if dtype.kind == "u" else count // 2)
    return np.asarray(rng.permutation(values).reshape(shape) * (0.125 if dtype.kind == "f" else 1))


def _reduce(op: type[Reduction], x: Node, axes: Axes) -> Node:
    if x.dtype.kind not in op.kinds:
        raise DTypeError(
            f"[{op.name}] does not take {x.dtype.name}; cast it with .astype(...) first, for "
            "example to int64"
        )
    fold = _fold(op, axes if axes is None or isinstance(axes, int) else tuple(axes), len(x.shape))
    if not fold.axes:
        return x
    return make(fold, (x,), remaining(x.shape, fold.axes), x.dtype)


@lru_cache(maxsize=1024)
def _fold(op: type[Reduction], axes: Axes, ndim: int) -> Reduction:
    """The operation along ``axes``, checked; made once, since recording must be quick."""
    return op(tuple(sorted(normalize_axes(op.name, axes, ndim))))


def require_elements(name: str, x: Node, axes: Axes) -> None:
    """Raise ShapeError if an axis to reduce is known to be empty."""
    for axis in normalize_axes(name, axes, x.ndim):
        if x.shape[axis] == 0:
            raise ShapeError(
                f"[{name}] axis {axis} of shape {x.shape} is empty, so there is no element to "
                "return; reduce another axis or concatenate an initial value"
            )


def reduce_sum(x: Node, axes: Axes = None) -> Node:
    """The sum along ``axes``, in the dtype of ``x`` (not bool).

    Raises:
        DTypeError: for bool.
        ShapeError: for an axis out of range or repeated.

    >>> from lamella import dtypes, ops
    >>> reduce_sum(ops.iota((2, 3), 0, dtypes.int64), 1).shape
    (2,)
    """
    return _reduce(ReduceSum, x, axes)


def reduce_prod(x: Node, axes: Axes = None) -> Node:
    """The product along ``axes``; errors as :func:`reduce_sum`.

    >>> from lamella import dtypes, ops
    >>> reduce_prod(ops.iota((2, 3), 0, dtypes.int64), (0, 1)).shape
    ()
    """
    return _complex_prod(x, axes) if x.dtype.kind == "c" else _reduce(ReduceProd, x, axes)


def _complex_prod(x: Node, axes: Axes) -> Node:
    """The product of complex numbers, halving until one is left: no loop carries two parts."""
    over = tuple(sorted(normalize_axes("reduce_prod", axes, x.ndim)))
    kept = tuple(axis for axis in range(x.ndim) if axis not in over)
    count = product(tuple(x.shape[axis] for axis in over))
    if not isinstance(count, int):
        raise ShapeError(
            f"[reduce_prod] axes {over} of complex numbers have the symbolic size {count}; leave "
            "them out of dynamic=..."
        )
    shape = tuple(x.shape[axis] for axis in kept)
    x = ops.reshape(ops.permute(x, (*kept, *over)), (*shape, count))
    if count == 0:
        return ops.full(1, shape, x.dtype)
    while count != 1:
        half, odd = divmod(count, 2)
        if odd:
            x = ops.pad(x, [0] * x.ndim, [0] * len(shape) + [1], 1)
        pairs = ops.reshape(x, (*shape, half + odd, 2))
        first, second = (
            ops.slice(pairs, [0] * len(shape) + [0, k], (*shape, half + odd, 1)) for k in (0, 1)
        )
        count = half + odd
        x = ops.reshape(ops.multiply(first, second), (*shape, count))
    return ops.reshape(x, shape)


def reduce_max(x: Node, axes: Axes = None) -> Node:
    """The largest element along ``axes``; nan if there is one. For bool: any.

    Raises:
        ShapeError: also for an axis known to be empty.

    >>> from lamella import dtypes, ops
    >>> reduce_max(ops.iota((2, 3), 0, dtypes.int64), 0).shape
    (3,)
    """
    require_elements("reduce_max", x, axes)
    return reduce_any(x, axes) if x.dtype is bool_ else _reduce(ReduceMax, x, axes)


def reduce_min(x: Node, axes: Axes = None) -> Node:
    """The smallest element along ``axes``; nan if there is one. For bool: all.

    Raises:
        ShapeError: also for an axis known to be empty.

    >>> from lamella import dtypes, ops
    >>> reduce_min(ops.iota((2, 3), 0, dtypes.int64), 0).shape
    (3,)
    """
    require_elements("reduce_min", x, axes)
    return reduce_all(x, axes) if x.dtype is bool_ else _reduce(ReduceMin, x, axes)


def reduce_any(x: Node, axes: Axes = None) -> Node:
    """Whether any element along ``axes`` is not 0 -> bool.

    >>> from lamella import dtypes, ops
    >>> reduce_any(ops.iota((2, 3), 0, dtypes.int64), 0).dtype
    lamella.bool
    """
    return _reduce(ReduceAny, ops.cast(x, bool_), axes)


def reduce_all(x: Node, axes: Axes = None) -> Node:
    """Whether no element along ``axes`` is 0 -> bool.

    >>> from lamella import dtypes, ops
    >>> reduce_all(ops.iota((2, 3), 0, dtypes.int64), 0).dtype
    lamella.bool
    """
    return _reduce(ReduceAll, ops.cast(x, bool_), axes)
