"""Running sums, products and extremes along an axis, and first-order linear recurrences.

Input: nodes, an axis, ``reverse`` to run from the end. Output: the same shape. The recurrence
``h[j] = a[j] * h[j-1] + b[j]`` is the derivative of ``cumprod``, so zeros do no harm, and is
closed under differentiation. float16 and bfloat16 are accumulated in float32 and
rounded at each store.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lamella import ops
from lamella.dtypes import FLOATS, INTEGERS, DType, bool_, int64, uint8
from lamella.errors import DTypeError, ShapeError
from lamella.ir import index as ix
from lamella.ir.dim import Shape, Size
from lamella.ir.loops import Assign, Const, Declare, Expr, For, Read, Stmt, Var, apply, cast
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Element, Index, KernelWriter, Kind, Needs, Primitive, Sample
from lamella.ops.families import (
    Linear,
    accumulator,
    batch_argument,
    check_fits,
    normalize_axes,
    to_shape,
    widen,
)
from lamella.ops.leaf import constant
from lamella.ops.reduce import lowest, remaining
from lamella.ops.sampling import special
from lamella.ops.validate import require_ordered

__all__ = [
    "CumArgMax", "CumArgMin", "CumProd", "CumSum", "LinearRecurrence", "cumargmax", "cumargmin",
    "cummax", "cummin", "cumprod", "cumsum", "linear_recurrence", "shift",
]  # fmt: skip

NUMBERS = (*INTEGERS, *FLOATS)


@dataclass(frozen=True, slots=True)
class Running(Primitive):
    """A serial walk along ``axis``, independent over the other axes: a kernel is declarations and
    one loop.
    """

    kind: ClassVar[Kind] = "kernel"
    axis: int
    reverse: bool

    def check(self, node: Node) -> None:
        """The input's shape and dtype."""
        for source in node.inputs:
            normalize_axes(self.name, self.axis, source.ndim)
            check_fits(node, source.shape, source.dtype)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The same axis, one further on."""
        shape = (size, *node.shape)
        fitted = tuple(batch_argument(a, b, shape) for a, b in zip(args, batched, strict=True))
        return make(replace(self, axis=self.axis + 1), fitted, shape, node.dtype)

    def grid(self, node: Node) -> Shape:
        """All axes but the one walked along."""
        return remaining(node.shape, (self.axis,))

    def step(self, node: Node, at: Index, out: KernelWriter) -> tuple[Var, Index]:
        """The loop along the axis, and the index it is at."""
        extent = node.shape[self.axis]
        var = out.var("j", extent)
        place = ix.sub(ix.sub(extent, 1), var) if self.reverse else var
        return var, (*at[: self.axis], place, *at[self.axis :])

    def along(self, array: Array) -> Array:
        """A view with the walked axis first, in the order of the walk."""
        moved = np.moveaxis(array, self.axis, 0)
        return moved[::-1] if self.reverse else moved


@dataclass(frozen=True, slots=True)
class Accumulating(Running):
    """A walk that folds one input with ``loop_op``."""

    loop_op: ClassVar[str] = ""
    first: ClassVar[int] = 0
    ufunc: ClassVar[np.ufunc]

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``ufunc.accumulate``."""
        wide = arrays[0].astype(accumulator(dtype).numpy)
        with np.errstate(all="ignore"):
            found = self.ufunc.accumulate(self.along(wide), axis=0, dtype=wide.dtype)
        return np.moveaxis(found[::-1] if self.reverse else found, 0, self.axis).astype(dtype.numpy)

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        """Total = total op x[j]; store."""
        dtype = accumulator(node.dtype)
        total = out.temporary("total")
        var, index = self.step(node, at, out)
        folded = apply(self.loop_op, Read(total, dtype), widen(args[0](index)))
        start = Const(float(self.first) if dtype.kind == "f" else self.first, dtype)
        store = out.store(index, cast(Read(total, dtype), node.dtype))
        return [Declare(total, dtype, start), For(var, "serial", (Assign(total, folded), store))]


@dataclass(frozen=True, slots=True)
class CumSum(Linear, Accumulating):
    """The sum of the elements up to each position."""

    name: ClassVar[str] = "cumsum"
    kind: ClassVar[Kind] = "kernel"
    loop_op: ClassVar[str] = "add"
    ufunc: ClassVar[np.ufunc] = np.add

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The running sum from the other end."""
        return (cumsum(cotangent, self.axis, not self.reverse),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Each axis, both ways."""
        yield from _walks(cumsum, NUMBERS)


@dataclass(frozen=True, slots=True)
class CumProd(Accumulating):
    """The product of the elements up to each position."""

    name: ClassVar[str] = "cumprod"
    loop_op: ClassVar[str] = "mul"
    first: ClassVar[int] = 1
    ufunc: ClassVar[np.ufunc] = np.multiply

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """before[i] * s[i] with s[i] = ct[i] + x[i+1] s[i+1]."""
        x = node.inputs[0]
        following = shift(x, self.axis, 0.0, reverse=not self.reverse)
        later = linear_recurrence(following, cotangent, self.axis, not self.reverse)
        return (ops.multiply(self._before(x), later),)

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """t[j] = x[j] t[j-1] + before[j] dx[j]."""
        (tangent,) = tangents
        if tangent is None:
            return None
        x = node.inputs[0]
        drive = ops.multiply(self._before(x), tangent)
        return linear_recurrence(x, drive, self.axis, self.reverse)

    def _before(self, x: Node) -> Node:
        return cumprod(shift(x, self.axis, 1.0, self.reverse), self.axis, self.reverse)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Each axis, both ways, and zeros among the factors."""
        yield from _walks(cumprod, NUMBERS)

        def zeros(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, _: int) -> Array:
            x = rng.uniform(0.5, 1.5, shape)
            x[0, 1] = x[1, 0] = x[1, 2] = 0.0
            return np.asarray(x)

        yield Sample(((3, 4),), lambda x: cumprod(x, 1), FLOATS, draw=zeros, note="zeros")


@dataclass(frozen=True, slots=True)
class LinearRecurrence(Running):
    """h[j] = a[j] * h[j-1] + b[j], from h = 0."""

    name: ClassVar[str] = "linear_recurrence"

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """The formula."""
        a, b = (self.along(array.astype(accumulator(dtype).numpy)) for array in arrays)
        result = np.empty(shape, accumulator(dtype).numpy)
        view, h = self.along(result), np.zeros(b.shape[1:], result.dtype)
        for j in range(b.shape[0]):
            h = a[j] * h + b[j]
            view[j] = h
        return result.astype(dtype.numpy)

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """g[j] = ct[j] + a[j+1] g[j+1] by b; g[j] h[j-1] by a."""
        following = shift(node.inputs[0], self.axis, 0.0, reverse=not self.reverse)
        g = linear_recurrence(following, cotangent, self.axis, not self.reverse)
        by_a = ops.multiply(g, shift(node, self.axis, 0.0, self.reverse)) if needs[0] else None
        return by_a, g

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """t[j] = a[j] t[j-1] + (da[j] h[j-1] + db[j])."""
        by_a, drive = tangents
        if by_a is not None:
            term = ops.multiply(by_a, shift(node, self.axis, 0.0, self.reverse))
            drive = term if drive is None else ops.add(term, drive)
        if drive is None:
            return None
        return linear_recurrence(node.inputs[0], drive, self.axis, self.reverse)

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        """``h = a[j] * h + b[j]``; store."""
        dtype = accumulator(node.dtype)
        h = out.temporary("h")
        var, index = self.step(node, at, out)
        carried = apply("mul", widen(args[0](index)), Read(h, dtype))
        found = apply("add", carried, widen(args[1](index)))
        store = out.store(index, cast(Read(h, dtype), node.dtype))
        body = (Assign(h, found), store)
        return [Declare(h, dtype, Const(0.0, dtype)), For(var, "serial", body)]

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Each axis, both ways."""
        for shape, axis, reverse in (((17,), 0, False), ((2, 3, 5), 1, True), ((0, 3), 0, False)):
            yield Sample(
                (shape, shape), lambda a, b, x=axis, r=reverse: linear_recurrence(a, b, x, r),
                FLOATS, low=-1.0, high=1.0,
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class CumArg(Running):
    """The position of the extreme among the elements up to each position, int64.

    The first one met wins among equals; a nan counts as the extreme.
    """

    loop_op: ClassVar[str] = ""  # "v is better than best"
    differentiable: ClassVar[bool] = False

    def check(self, node: Node) -> None:
        """The input's shape, int64."""
        normalize_axes(self.name, self.axis, node.inputs[0].ndim)
        check_fits(node, node.inputs[0].shape, int64)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """A walk."""
        x = self.along(arrays[0].astype("f4") if arrays[0].dtype.itemsize == 2
                       and arrays[0].dtype.kind not in "iu" else arrays[0])  # fmt: skip
        result = np.zeros(shape, np.int64)
        view, length = self.along(result), shape[self.axis]
        for j in range(length):
            place = length - 1 - j if self.reverse else j
            if j == 0:
                best, where = x[0], np.full(x.shape[1:], place)
            else:
                beats = x[j] > best if self.loop_op == "gt" else x[j] < best
                better = beats | ((x[j] != x[j]) & (best == best))
                best, where = np.where(better, x[j], best), np.where(better, place, where)
            view[j] = where
        return result

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        """Keep the best value and its place; store the place."""
        var, index = self.step(node, at, out)
        dtype = accumulator(args[0].dtype)
        best, place = out.temporary("best"), out.temporary("place")
        start = lowest(dtype, -1 if self.loop_op == "gt" else 1)
        first = ix.sub(node.shape[self.axis], 1) if self.reverse else ix.constant(0)
        value, held = widen(args[0](index)), Read(best, dtype)
        better = _better(self.loop_op, value, held)
        here = index[self.axis]
        body = (
            Assign(place, apply("select", better, here, Read(place, int64), dtype=int64)),
            Assign(best, apply("select", better, value, held, dtype=dtype)),
            out.store(index, Read(place, int64)),
        )
        return [
            Declare(best, dtype, start),
            Declare(place, int64, first),
            For(var, "serial", body),
        ]


def _better(relation: str, value: Expr, held: Expr) -> Expr:
    pair = (held, value) if relation == "gt" else (value, held)
    beats = apply("lt", *pair, dtype=bool_)
    if value.dtype.kind != "f":
        return beats
    number = apply("not", apply("isnan", held, dtype=bool_))
    arrived = apply("and", apply("isnan", value, dtype=bool_), number)
    return apply("or", beats, arrived)


@dataclass(frozen=True, slots=True)
class CumArgMax(CumArg):
    """The position of the largest element so far."""

    name: ClassVar[str] = "cumargmax"
    loop_op: ClassVar[str] = "gt"

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Each axis, both ways."""
        yield from _walks(cumargmax, NUMBERS, differentiable=False)


@dataclass(frozen=True, slots=True)
class CumArgMin(CumArg):
    """The position of the smallest element so far."""

    name: ClassVar[str] = "cumargmin"
    loop_op: ClassVar[str] = "lt"

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Each axis, both ways."""
        yield from _walks(cumargmin, NUMBERS, differentiable=False)


def _walks(
    build: Callable[[Node, int, bool], Node], dtypes: Sequence[DType], differentiable: bool = True
) -> Iterator[Sample]:
    for shape, axis in (((17,), 0), ((2, 3, 5), 1), ((3, 4), 0), ((0, 3), 0), ((0, 3), 1)):
        for reverse in (False, True):
            yield Sample(
                (shape,), lambda x, a=axis, r=reverse: build(x, a, r), tuple(dtypes), low=-1.5,
                high=1.5, differentiable=differentiable, rtol=1e-2 if dtypes == FLOATS else None,
            )  # fmt: skip
    yield Sample(((12, 12),), lambda x: build(x, 1, False), tuple(dtypes), draw=special,
                 differentiable=False, note="special values")  # fmt: skip


def _along(name: str, x: Node, axis: int) -> int:
    if x.dtype.kind == "b":
        raise DTypeError(f"[{name}] does not take bool; cast it with .astype(...), as to int64")
    (found,) = normalize_axes(name, axis, x.ndim)
    return found


def shift(x: Node, axis: int, fill: float, reverse: bool = False) -> Node:
    """``y[j] = x[j-1]`` with ``y[0] = fill``; reversed ``y[j] = x[j+1]``.

    >>> from lamella import dtypes, ops
    >>> shift(ops.iota((3,), 0, dtypes.int64), 0, 0).shape
    (3,)
    """
    ends = [int(a == axis) for a in range(x.ndim)]
    none = [0] * x.ndim
    low, high = (none, ends) if reverse else (ends, none)
    padded = ops.pad(x, low, high, constant(fill, x.dtype))
    return ops.slice(padded, high, x.shape)


def cumsum(x: Node, axis: int, reverse: bool = False) -> Node:
    """The sum of the elements up to each position along ``axis``.

    Raises:
        DTypeError: for bool.
        ShapeError: for an axis out of range.

    >>> from lamella import dtypes, ops
    >>> cumsum(ops.iota((3,), 0, dtypes.int64), 0).op
    CumSum(axis=0, reverse=False)
    """
    return make(CumSum(_along("cumsum", x, axis), reverse), (x,), x.shape, x.dtype)


def cumprod(x: Node, axis: int, reverse: bool = False) -> Node:
    """The product of the elements up to each position along ``axis``; errors as ``cumsum``.

    >>> from lamella import dtypes, ops
    >>> cumprod(ops.iota((3,), 0, dtypes.int64), 0).op
    CumProd(axis=0, reverse=False)
    """
    along = _along("cumprod", x, axis)
    if x.dtype.kind == "c":
        return _complex_cumprod(x, along, reverse)
    return make(CumProd(along, reverse), (x,), x.shape, x.dtype)


def _complex_cumprod(x: Node, axis: int, reverse: bool) -> Node:
    """Products of 2, 4, 8 … neighbours, each of two before: no loop carries two parts."""
    size, step = x.shape[axis], 1
    if not isinstance(size, int):
        raise ShapeError(
            f"[cumprod] axis {axis} of complex numbers has the symbolic size {size}; leave it out "
            "of dynamic=..."
        )
    while step < size:
        ends = [step if a == axis else 0 for a in range(x.ndim)]
        none = [0] * x.ndim
        low, high = (none, ends) if reverse else (ends, none)
        moved = ops.slice(ops.pad(x, low, high, constant(1, x.dtype)), high, x.shape)
        x = ops.multiply(moved, x)
        step *= 2
    return x


def linear_recurrence(a: Node, b: Node, axis: int, reverse: bool = False) -> Node:
    """``h[j] = a[j] * h[j-1] + b[j]`` along ``axis``, from h = 0; floating point.

    ``a`` broadcasts to the shape of ``b``.

    Raises:
        DTypeError: unless both have one floating-point dtype.

    >>> from lamella import dtypes, ops
    >>> x = ops.iota((3,), 0, dtypes.float64)
    >>> linear_recurrence(x, x, 0).shape
    (3,)
    """
    if a.dtype is not b.dtype or a.dtype.kind != "f":
        raise DTypeError(
            f"[linear_recurrence] operands are {a.dtype.name} and {b.dtype.name}, but one "
            "floating-point dtype is needed; cast them"
        )
    if a.ndim > b.ndim:
        raise ShapeError(
            f"[linear_recurrence] the factor has shape {a.shape}, more axes than {b.shape}; "
            "broadcast b first"
        )
    op = LinearRecurrence(_along("linear_recurrence", b, axis), reverse)
    return make(op, (to_shape(a, b.shape), b), b.shape, b.dtype)


def _cumulative_position(op: type[CumArg], x: Node, axis: int, reverse: bool) -> Node:
    require_ordered(op.name, x)
    source = ops.cast(x, uint8) if x.dtype is bool_ else x
    return make(op(_along(op.name, source, axis), reverse), (source,), x.shape, int64)


def cumargmax(x: Node, axis: int, reverse: bool = False) -> Node:
    """The position of the largest element so far, int64: the first met among equals; nan wins.

    >>> from lamella import dtypes, ops
    >>> cumargmax(ops.iota((3,), 0, dtypes.int64), 0).dtype
    lamella.int64
    """
    return _cumulative_position(CumArgMax, x, axis, reverse)


def cumargmin(x: Node, axis: int, reverse: bool = False) -> Node:
    """The position of the smallest element so far, int64: the first met among equals; nan wins.

    >>> from lamella import dtypes, ops
    >>> cumargmin(ops.iota((3,), 0, dtypes.int64), 0).dtype
    lamella.int64
    """
    return _cumulative_position(CumArgMin, x, axis, reverse)


def cummax(x: Node, axis: int, reverse: bool = False) -> Node:
    """The largest element so far along ``axis``; its derivative goes to the first met.

    >>> from lamella import dtypes, ops
    >>> cummax(ops.iota((3,), 0, dtypes.int64), 0).shape
    (3,)
    """
    return ops.take_along_axis(x, cumargmax(x, axis, reverse), axis)


def cummin(x: Node, axis: int, reverse: bool = False) -> Node:
    """The smallest element so far along ``axis``; its derivative goes to the first met.

    >>> from lamella import dtypes, ops
    >>> cummin(ops.iota((3,), 0, dtypes.int64), 0).shape
    (3,)
    """
    return ops.take_along_axis(x, cumargmin(x, axis, reverse), axis)
