"""Leaves of the graph, and the identities that control differentiation.

Leaves have no inputs: ``DATA`` (a buffer), ``SCALAR`` (a Python number that is an argument of the
program, never part of its key), :class:`Constant` (a number baked into the program), :class:`Iota`
(indices) and :class:`Placeholder` (an input of a traced function). ``stop_gradient`` cuts
derivatives; ``mark`` gives a value a fresh identity by which to differentiate.
"""
from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from lamella import ops
from lamella.dtypes import ALL, FLOATS, INTEGERS, DType, bool_, float64, int64
from lamella.errors import DTypeError, MissingRuleError, OptionError, ShapeError
from lamella.ir.dim import Shape, Size
from lamella.ir.loops import Const, Expr, cast
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Element, Index, Kind, Needs, Primitive, Sample
from lamella.ops.families import Elementwise, to_shape

__all__ = [
    "DATA", "SCALAR", "Constant", "Data", "Iota", "Mark", "Named", "Placeholder", "Scalar",
    "StopGradient", "constant", "data", "full", "iota", "mark", "named", "placeholder", "scalar",
    "stop_gradient",
]  # fmt: skip

Number = bool | int | float | complex
_new: Final = object.__new__


@dataclass(frozen=True, slots=True)
class Leaf(Primitive):
    """No inputs; nothing to differentiate or batch."""

    kind: ClassVar[Kind] = "leaf"

    def check(self, node: Node) -> None:
        """No inputs."""
        if node.inputs:
            raise ShapeError(f"[{self.name}] is a leaf, it takes no inputs")

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """No inputs, no cotangents."""
        return ()

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """Zero."""
        return None

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """Itself, repeated."""
        return to_shape(node, (size, *node.shape))


@dataclass(frozen=True, slots=True)
class Data(Leaf):
    """A value in memory: ``node.value`` is its buffer."""

    name: ClassVar[str] = "data"


@dataclass(frozen=True, slots=True)
class Scalar(Leaf):
    """A Python number (0-d) given to the program when it runs: ``node.value``."""

    name: ClassVar[str] = "scalar"

    def check(self, node: Node) -> None:
        """0-d."""
        if node.inputs or node.shape:
            raise ShapeError(f"[scalar] must be 0-d, not {node.shape}; use ops.scalar")


@dataclass(frozen=True, slots=True)
class Placeholder(Leaf):
    """An input of a function being traced; the node's identity says which."""

    name: ClassVar[str] = "placeholder"

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """None: the interpreter must be given a value for each placeholder."""
        raise MissingRuleError(self.name, "interpretation without a value", "inputs={node: array}")


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Leaf):
    """A 0-d literal that is part of the program's structure."""

    name: ClassVar[str] = "constant"
    value: bool | int | float

    # 0.0 and -0.0 are different constants, nan equals itself.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash(repr(self.value))

    def check(self, node: Node) -> None:
        """0-d."""
        if node.inputs or node.shape:
            raise ShapeError(f"[constant] must be 0-d without inputs, not {node.shape}; "
                             "broadcast it with ops.full")  # fmt: skip

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """The literal."""
        return np.asarray(self.value).astype(dtype.numpy)

    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """The literal."""
        return Const(self.value, node.dtype)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """One literal per kind."""
        yield Sample((), lambda: constant(True, bool_), (bool_,))
        yield Sample((), lambda: constant(-7, int64), (int64,))
        yield Sample((), lambda: constant(-0.0, float64), (float64,))


@dataclass(frozen=True, slots=True)
class Iota(Leaf):
    """The index along ``axis`` at every position."""

    name: ClassVar[str] = "iota"
    axis: int

    def check(self, node: Node) -> None:
        """``axis`` is one of the shape's; not bool."""
        if node.inputs or not 0 <= self.axis < node.ndim:
            raise ShapeError(f"[iota] axis {self.axis} is none of {node.shape}; use ops.iota")
        if node.dtype.kind == "b":
            raise DTypeError("[iota] counts in integers or floats, not bool; choose another dtype")

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.arange`` along the axis."""
        count = np.arange(shape[self.axis]).reshape([-1] + [1] * (len(shape) - self.axis - 1))
        return np.broadcast_to(count.astype(dtype.numpy), shape)

    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """The index itself."""
        return cast(index[self.axis], node.dtype)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Each axis of a 2-d shape."""
        for dtype in (*INTEGERS, *FLOATS):
            yield Sample((), lambda d=dtype: iota((2, 5), 1, d), (dtype,))
        yield Sample((), lambda: iota((3, 2), 0, float64), (float64,))
        yield Sample((), lambda: iota((0,), 0, float64), (float64,))


DATA = Data()
SCALAR = Scalar()


@dataclass(frozen=True, slots=True)
class Identity(Elementwise):
    """The value itself; what else an identity means is said by its class."""

    kinds: ClassVar[str] = "biufc"
    partwise: ClassVar[bool] = True
    widens: ClassVar[bool] = False
    compute = staticmethod(np.asarray)

    def expr(self, node: Node, values: Sequence[Expr]) -> Expr:
        """The value."""
        return values[0]

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangent."""
        return (cotangent,)

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """The tangent."""
        return tangents[0]


@dataclass(frozen=True, slots=True)
class StopGradient(Identity):
    """The identity, with derivative zero."""

    name: ClassVar[str] = "stop_gradient"
    cost: ClassVar[int] = 0
    differentiable: ClassVar[bool] = False

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """Again untracked."""
        return stop_gradient(args[0])

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """All dtypes."""
        yield Sample(((2, 3),), stop_gradient, ALL, differentiable=False)


@dataclass(frozen=True, slots=True)
class Mark(Identity):
    """The identity with a fresh node: what a transformation differentiates by."""

    name: ClassVar[str] = "mark"
    cost: ClassVar[int] = 0

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The argument: nothing is differentiated by a mark after batching."""
        return args[0]

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """All dtypes."""
        yield Sample(((2, 3),), mark, ALL)


@dataclass(frozen=True, slots=True)
class Named(Mark):
    """The identity that gives axes names; see ``graph.names``."""

    name: ClassVar[str] = "named"
    names: tuple[str | None, ...]

    def check(self, node: Node) -> None:
        """One name or None for each axis."""
        Mark.check(self, node)
        if len(self.names) != node.ndim:
            raise ShapeError(
                f"[named] {len(self.names)} names for {node.ndim} axes of {node.shape}; give one "
                "for each, None where there is none"
            )

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangent, its axes called the same."""
        return (named(cotangent, self.names),)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The new axis has no name."""
        return named(args[0], (None, *self.names))

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """All dtypes."""
        yield Sample(((2, 3),), lambda x: named(x, ("a", None)), ALL)


def named(x: Node, names: tuple[str | None, ...]) -> Node:
    """``x`` with names for its axes."""
    return make(Named(names), (x,), x.shape, x.dtype)


def data(value: object, shape: Shape, dtype: DType, tracked: bool = False) -> Node:
    """A leaf that holds ``value``, a Buffer (or a NumPy array, for the interpreter).

    >>> from lamella import dtypes, ops
    >>> ops.data(np.ones(2), (2,), dtypes.float64)
    <Data(): float64[2]>
    """
    node = _new(Node)
    node.op = DATA  # nodes of results are made often, and this takes half the time of Node(...)
    node.inputs = ()
    node.shape = shape
    node.dtype = dtype
    node.tracked = tracked
    node.value = value
    node.site = None
    return node


def scalar(value: Number, dtype: DType) -> Node:
    """A 0-d run-time argument: programs are shared between its values. A complex one is made of
    two.

    >>> from lamella import dtypes, ops
    >>> ops.scalar(0.5, dtypes.float64).value
    0.5
    """
    if dtype.kind == "c":
        return ops.complex(scalar(value.real, dtype.part), scalar(value.imag, dtype.part))
    node = Node(SCALAR, (), (), dtype)
    node.value = value
    return node


def _round32(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float(np.copysign(np.inf, value))


def constant(value: Number, dtype: DType) -> Node:
    """A 0-d literal baked into the program, rounded to ``dtype``; a complex one is made of two.

    Raises:
        OptionError: for an integer dtype that cannot hold ``value``.

    >>> from lamella import dtypes, ops
    >>> ops.constant(2, dtypes.float64).op
    Constant(value=2.0)
    """
    literal: bool | int | float
    if dtype.kind == "c":
        return ops.complex(constant(value.real, dtype.part), constant(value.imag, dtype.part))
    if isinstance(value, complex):
        raise DTypeError(
            f"[constant] {dtype.name} cannot hold the complex number {value}; use complex64"
        )
    if dtype.kind == "f":
        literal = float(value)
        if dtype.bits == 32:
            literal = _round32(literal)
        elif dtype.bits < 32:
            with np.errstate(over="ignore"):
                literal = float(np.asarray(literal).astype(dtype.numpy))
    elif dtype.kind == "b":
        literal = bool(value)
    else:
        literal = int(value)
        limits = np.iinfo(dtype.name)
        if literal != value or not limits.min <= literal <= limits.max:
            raise OptionError(f"[constant] {dtype.name} cannot hold {value!r}, its range is "
                              f"{limits.min} to {limits.max}; choose another dtype")  # fmt: skip
    return Node(Constant(literal), (), (), dtype)


def full(value: Number | Node, shape: Shape, dtype: DType | None = None) -> Node:
    """``value`` at every position: a number (as a constant of ``dtype``) or a 0-d node.

    >>> from lamella import dtypes, ops
    >>> ops.full(1, (2, 3), dtypes.float64).shape
    (2, 3)
    """
    if isinstance(value, Node):
        return to_shape(value, shape)
    if dtype is None:
        raise OptionError("[full] a Python number needs a dtype; pass dtype=...")
    return to_shape(constant(value, dtype), shape)


def iota(shape: Shape, axis: int, dtype: DType) -> Node:
    """The index along ``axis`` at every position of ``shape``.

    Raises:
        ShapeError: if the shape has no such axis.
        DTypeError: for bool.

    >>> from lamella import dtypes, ops
    >>> ops.iota((2, 3), 1, dtypes.float64)
    <Iota(axis=1): float64[2, 3]>
    """
    if dtype.kind == "c":
        return ops.cast(iota(shape, axis, dtype.part), dtype)
    node = Node(Iota(axis + len(shape) if axis < 0 else axis), (), shape, dtype)
    node.op.check(node)
    return node


def placeholder(shape: Shape, dtype: DType, tracked: bool = False) -> Node:
    """An input of a traced function.

    >>> from lamella import dtypes, ops
    >>> ops.placeholder((2,), dtypes.float64)
    <Placeholder(): float64[2]>
    """
    return Node(Placeholder(), (), shape, dtype, tracked)


_STOP = StopGradient()
_MARK = Mark()


def stop_gradient(x: Node) -> Node:
    """``x`` with derivative zero; the result is not tracked.

    >>> from lamella import dtypes, ops
    >>> stop_gradient(ops.data(None, (2,), dtypes.float64, tracked=True)).tracked
    False
    """
    return Node(_STOP, (x,), x.shape, x.dtype)


def mark(x: Node) -> Node:
    """``x`` under a fresh identity, tracked if it is floating point or complex.

    >>> from lamella import dtypes, ops
    >>> mark(ops.data(None, (2,), dtypes.float64)).tracked
    True
    """
    return Node(_MARK, (x,), x.shape, x.dtype, x.dtype.inexact)
