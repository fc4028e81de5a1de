"""Bases from which most rules follow: elementwise functions, linear and multilinear operations.

- :class:`Elementwise`: give ``loop_op`` (or ``expr``), ``compute`` and ``partials``; type rule,
  reference, derivatives, batching, lowering and samples follow, and :func:`unary_builder` or
  :func:`binary_builder` makes the function that builds its nodes.
- :class:`Linear`: give ``transpose``; vjp is it, jvp is the operation on the tangents.
- :class:`Movement`: a Linear that only moves elements (kind "movement").
- :class:`Multilinear`: linear in each floating input by itself (contraction, convolution).

float16 and bfloat16 arithmetic is defined as float32 arithmetic rounded at the end.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, TypeVar

import numpy as np

from lamella import ops
from lamella.dtypes import FLOATS, DType, bfloat16, bool_, float16, float32
from lamella.errors import AxisError, DTypeError, ShapeError
from lamella.ir.dim import Shape, Size
from lamella.ir.loops import Expr, apply, cast
from lamella.ir.node import Node, make
from lamella.ops.base import (
    Array,
    Element,
    Index,
    Kind,
    Needs,
    Parts,
    Primitive,
    Sample,
    each_part,
)  # fmt: skip
from lamella.ops.sampling import binary_samples, unary_samples

__all__ = [
    "Elementwise", "Linear", "Movement", "Multilinear", "Positions", "accumulator",
    "batch_argument", "binary", "binary_builder", "broadcast", "broadcast_shapes", "check_fits",
    "normalize_axes", "to_shape", "unary", "unary_builder", "unbroadcast", "widen",
]  # fmt: skip

_KIND_NAMES = {
    "b": "bool", "i": "signed integers", "u": "unsigned integers", "f": "floating point",
    "c": "complex",
}  # fmt: skip


# -- shared by type rules --------------------------------------------------------------------------
@lru_cache(maxsize=4096)  # recording must be quick
def broadcast_shapes(name: str, *shapes: Shape) -> Shape:
    """The NumPy broadcast of ``shapes``; a symbolic size only meets itself or 1.

    Raises:
        ShapeError: naming operation ``name`` when two sizes differ and neither is 1.

    >>> broadcast_shapes("add", (2, 1), (3,))
    (2, 3)
    """
    result: list[Size] = [1] * max((len(shape) for shape in shapes), default=0)
    for shape in shapes:
        for axis, size in enumerate(shape, len(result) - len(shape)):
            if result[axis] == 1:
                result[axis] = size
            elif size != 1 and size != result[axis]:
                raise ShapeError(
                    f"[{name}] shapes {' and '.join(str(s) for s in shapes)} do not broadcast: "
                    f"{result[axis]} and {size} meet at axis {axis - len(result)}, neither is 1; "
                    "reshape an operand or insert an axis of size 1"
                )
    return tuple(result)


def normalize_axes(name: str, axes: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Axes as distinct non-negative numbers, in the order given (None: all).

    Raises:
        ShapeError: for an axis out of range or named twice.

    >>> normalize_axes("sum", (-1, 0), 3)
    (2, 0)
    """
    if axes is None:
        return tuple(range(ndim))
    wanted = (axes,) if isinstance(axes, int) else tuple(axes)
    for axis in wanted:
        if not -ndim <= axis < ndim:
            allowed = f"use {-ndim} to {ndim - 1}" if ndim else "a 0-d value has no axes"
            raise AxisError(
                f"[{name}] axis {axis} is out of range for a value of {ndim} axes; {allowed}"
            )
    found = tuple(axis % ndim for axis in wanted)
    if len(set(found)) != len(found):
        raise ShapeError(f"[{name}] axes {wanted} name an axis twice; name each axis once")
    return found


def check_fits(node: Node, shape: Shape, dtype: DType) -> None:
    """Raise unless ``node`` has this shape and dtype (used by ``check`` rules).

    Raises:
        ShapeError, DTypeError: when it has not.
    """
    if node.shape != shape:
        raise ShapeError(
            f"[{node.op.name}] the node says shape {node.shape} but its inputs give {shape}; "
            "make nodes through the builders in lamella.ops"
        )
    if node.dtype is not dtype:
        raise DTypeError(
            f"[{node.op.name}] the node says {node.dtype.name} but its inputs give {dtype.name}; "
            "make nodes through the builders in lamella.ops"
        )


def accumulator(dtype: DType) -> DType:
    """The type sums and products of ``dtype`` are accumulated in.

    >>> accumulator(float16), accumulator(bool_)
    (lamella.float32, lamella.bool)
    """
    return float32 if dtype is float16 or dtype is bfloat16 else dtype


def widen(value: Expr) -> Expr:
    """``value`` as the type its arithmetic is done in: float32 for float16 and bfloat16."""
    return cast(value, accumulator(value.dtype))


def to_shape(x: Node, shape: Shape) -> Node:
    """``x`` broadcast to exactly ``shape``."""
    return x if x.shape == shape else ops.broadcast_to(x, shape)


# -- elementwise ---------------------------------------------------------------------------------
def _arguments(op: Elementwise, args: Sequence[Node]) -> DType:
    """The common dtype of the arguments, checked."""
    dtype = args[0].dtype
    for arg in args:
        if arg.dtype is not dtype:
            raise DTypeError(
                f"[{op.name}] operands are {' and '.join(a.dtype.name for a in args)}: a graph "
                "operation takes one dtype; cast one operand with .astype(...)"
            )
    if dtype.kind not in op.kinds:
        allowed = ", ".join(_KIND_NAMES[k] for k in op.kinds)
        raise DTypeError(
            f"[{op.name}] does not take {dtype.name}, it is defined for {allowed}; "
            "cast the operand with .astype(...)"
        )
    return dtype


def unary(op: Elementwise, x: Node) -> Node:
    """Apply ``op`` to ``x``.

    Raises:
        DTypeError: if the operation does not take the dtype.
    """
    dtype = x.dtype
    if dtype.kind not in op.kinds:
        _arguments(op, (x,))
    return make(op, (x,), x.shape, bool_ if op.predicate else dtype)


def binary(op: Elementwise, a: Node, b: Node) -> Node:
    """Apply ``op`` to ``a`` and ``b`` of one dtype, broadcasting shapes (0-d arguments stay 0-d).

    Raises:
        DTypeError: if dtypes differ or the operation does not take them.
        ShapeError: if shapes do not broadcast.
    """
    dtype, shape = a.dtype, a.shape
    if dtype is not b.dtype or dtype.kind not in op.kinds:
        _arguments(op, (a, b))
    if shape != b.shape:
        if not shape:
            shape = b.shape
        elif b.shape:
            shape = broadcast_shapes(op.name, shape, b.shape)
            a, b = to_shape(a, shape), to_shape(b, shape)
    return make(op, (a, b), shape, bool_ if op.predicate else dtype)


def unary_builder(op: Elementwise) -> Callable[[Node], Node]:
    """The function that makes nodes of ``op``, of one argument, as :func:`unary` does.

    >>> unary_builder(ops.sin(ops.constant(0.5, float32)).op).__name__
    'sin'
    """

    def build(x: Node) -> Node:
        return unary(op, x)

    return _described(build, op)


def binary_builder(op: Elementwise) -> Callable[[Node, Node], Node]:
    """The function that makes nodes of ``op``, of two arguments, as :func:`binary` does."""

    def build(a: Node, b: Node) -> Node:
        return binary(op, a, b)

    return _described(build, op)


_Builder = TypeVar("_Builder", bound=Callable[..., Node])


def _described(build: _Builder, op: Elementwise) -> _Builder:
    """``build`` under the name of the operation, with its description."""
    build.__name__ = build.__qualname__ = op.name
    build.__module__, build.__doc__ = type(op).__module__, type(op).__doc__
    return build


def broadcast(name: str, args: Sequence[Node]) -> tuple[tuple[Node, ...], Shape]:
    """Arguments of an elementwise operation made to fit: the common shape, or 0-d."""
    shape = broadcast_shapes(name, *(arg.shape for arg in args))
    return tuple(arg if not arg.shape else to_shape(arg, shape) for arg in args), shape


def _scaled(tangent: Node, partial: Node) -> Node:
    """``tangent * partial``, as one division where the partial is a reciprocal."""
    if partial.op.name == "divide" and getattr(partial.inputs[0].op, "value", None) == 1:
        return ops.divide(tangent, partial.inputs[1])
    return ops.multiply(tangent, partial)


@dataclass(frozen=True, slots=True)
class Elementwise(Primitive):
    """A scalar function applied at every index.

    ``loop_op`` names the loop IR operation that is its meaning, by default ``name`` (or override
    ``expr``); ``compute`` is the NumPy function; ``kinds`` the dtype kinds taken; ``predicate``:
    the result is bool. Samples are drawn from ``sample_range`` in each of ``sample_dtypes``.
    Where "c" is among the kinds, ``split`` gives the parts of the result from those of the
    arguments (see ``ops.complex_parts``), unless ``partwise``: applied to each part by itself.
    """

    kind: ClassVar[Kind] = "elementwise"
    kinds: ClassVar[str] = "f"
    predicate: ClassVar[bool] = False
    widens: ClassVar[bool] = True  # float16 and bfloat16 are computed in float32
    loop_op: ClassVar[str] = ""
    arity: ClassVar[int] = 1
    sample_dtypes: ClassVar[tuple[DType, ...]] = FLOATS
    sample_range: ClassVar[tuple[float, float]] = (-2.0, 2.0)
    sample_rtol: ClassVar[float | None] = None
    compute: ClassVar[Callable[..., Array]]
    partwise: ClassVar[bool] = False
    split: ClassVar[Callable[..., Parts] | None] = None

    def check(self, node: Node) -> None:
        """Inputs of one dtype, each of the node's shape or 0-d."""
        dtype = _arguments(self, node.inputs)
        shape = broadcast_shapes(self.name, *(arg.shape for arg in node.inputs))
        for arg in node.inputs:
            if arg.shape and arg.shape != shape:
                raise ShapeError(f"[{self.name}] input {arg.shape} is neither {shape} nor 0-d; "
                                 "broadcast it with ops.broadcast_to")  # fmt: skip
        check_fits(node, shape, bool_ if self.predicate else dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``compute``; float16 and bfloat16 in float32, rounded at the end."""
        narrow = [self.widens and _narrow(a) for a in arrays]
        wide = [a.astype(np.float32) if n else a for a, n in zip(arrays, narrow, strict=True)]
        with np.errstate(all="ignore"):
            value = np.asarray(self.compute(*wide)).astype(dtype.numpy)
        return np.broadcast_to(value, shape)

    def complex_parts(self, node: Node, args: Sequence[Parts]) -> Parts:
        """Each part by itself, or ``split``."""
        if self.partwise:
            return each_part(node, args)
        split = type(self).split
        return Primitive.complex_parts(self, node, args) if split is None else split(*args)

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """``cotangent * conj(partial)``, summed to 0-d for a 0-d input of a larger result."""
        partials = self.partials(node)
        found: list[Node | None] = []
        for source, partial, need in zip(node.inputs, partials, needs, strict=True):
            if not need or partial is None:
                found.append(None)
                continue
            found.append(unbroadcast(_scaled(cotangent, ops.conj(partial)), source))
        return found

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """The sum of ``tangent * partial``."""
        total: Node | None = None
        for tangent, partial in zip(tangents, self.partials(node), strict=True):
            if tangent is not None and partial is not None:
                term = _scaled(tangent, partial)
                total = term if total is None else ops.add(total, term)
        return None if total is None else to_shape(total, node.shape)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The same function; unbatched arguments broadcast (0-d ones stay 0-d)."""
        shape = (size, *node.shape)
        fitted = tuple(
            batch_argument(arg, has, shape) for arg, has in zip(args, batched, strict=True)
        )
        return make(self, fitted, shape, node.dtype)

    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """``expr`` of the arguments' elements."""
        values = [arg(index if arg.shape else ()) for arg in args]
        if self.widens:
            values = [widen(value) for value in values]
        return cast(self.expr(node, values), node.dtype)

    def expr(self, node: Node, values: Sequence[Expr]) -> Expr:
        """The scalar function as a loop IR expression (default: ``loop_op``)."""
        return apply(self.loop_op or self.name, *values, dtype=bool_ if self.predicate else None)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Every shape with numbers of ``sample_range``, then special values."""
        low, high = cls.sample_range
        build, samples = (
            (unary_builder(cls()), unary_samples) if cls.arity == 1
            else (binary_builder(cls()), binary_samples)
        )  # fmt: skip
        yield from samples(
            build, cls.sample_dtypes, low, high, rtol=cls.sample_rtol,
            differentiable=cls.differentiable,
        )  # fmt: skip


def _narrow(array: Array) -> bool:
    return array.dtype == np.float16 or array.dtype == bfloat16.numpy


def unbroadcast(cotangent: Node, source: Node) -> Node:
    """A cotangent of the result's shape as one for ``source``, which may be 0-d."""
    if source.shape:
        return to_shape(cotangent, source.shape)
    return ops.reduce_sum(cotangent, None) if cotangent.shape else cotangent


def batch_argument(arg: Node, batched: bool, shape: Shape) -> Node:
    """An elementwise argument for a result whose batched shape is ``shape``."""
    if not batched:
        return arg if not arg.shape else to_shape(arg, shape)
    if arg.ndim < len(shape):  # 0-d before batching
        arg = ops.reshape(arg, (shape[0], *(1,) * (len(shape) - 1)))
    return to_shape(arg, shape)


# -- linear ---------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Positions(Primitive):
    """Positions along an axis of the only input, as those of its largest elements; int64."""

    differentiable: ClassVar[bool] = False
    axis: int

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The same axis, one further on."""
        op = replace(self, axis=self.axis + 1)
        return make(op, (args[0],), (size, *node.shape), node.dtype)


@dataclass(frozen=True, slots=True)
class Linear(Primitive):
    """Linear in all floating inputs together; other inputs (indices, masks) are parameters.

    Give ``transpose``. A None tangent becomes zeros when another input has one.
    """

    linear: ClassVar[bool] = True

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The transpose."""
        return self.transpose(node, cotangent, needs)

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """The operation itself on the tangents."""
        if all(tangent is None for tangent in tangents):
            return None
        inputs = [
            source if not source.dtype.inexact
            else ops.full(0.0, source.shape, source.dtype) if tangent is None
            else tangent
            for source, tangent in zip(node.inputs, tangents, strict=True)
        ]  # fmt: skip
        return self.apply(node, inputs)

    def complex_parts(self, node: Node, args: Sequence[Parts]) -> Parts:
        """The operation on each part."""
        return each_part(node, args)

    def apply(self, node: Node, inputs: Sequence[Node]) -> Node:
        """The operation of ``node`` on other inputs of the same shapes and dtypes."""
        return make(self, tuple(inputs), node.shape, node.dtype)


@dataclass(frozen=True, slots=True)
class Movement(Linear):
    """A linear operation whose result only moves, repeats or fills elements."""

    kind: ClassVar[Kind] = "movement"


@dataclass(frozen=True, slots=True)
class Multilinear(Primitive):
    """Linear in each floating input by itself, such as a contraction. Give ``transpose``."""

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The transpose by each input, the others (conjugated) fixed."""
        if node.dtype.kind == "c":
            inputs = tuple(ops.conj(source) for source in node.inputs)
            node = Node(self, inputs, node.shape, node.dtype)
        return self.transpose(node, cotangent, needs)

    def complex_parts(self, node: Node, args: Sequence[Parts]) -> Parts:
        """(a + ib)(c + id) = (ac - bd) + i(ad + bc)."""
        (a, b), (c, d) = args
        part = node.dtype.part

        def times(x: Node, y: Node) -> Node:
            return make(self, (x, y), node.shape, part)

        real = ops.subtract(times(a, c), times(b, d))
        return real, ops.add(times(a, d), times(b, c))

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """The product rule: one application per input with a tangent."""
        total: Node | None = None
        for position, tangent in enumerate(tangents):
            if tangent is None:
                continue
            inputs = (*node.inputs[:position], tangent, *node.inputs[position + 1 :])
            term = make(self, inputs, node.shape, node.dtype)
            total = term if total is None else ops.add(total, term)
        return total
