"""Arithmetic, elementwise: sums, products, quotients, absolute value, maximum, minimum.

Input: nodes of one dtype (no promotion), shapes that broadcast. Output: a node of that dtype.
Integers wrap. Where no derivative exists, that of
``abs`` at 0 is 0, and ``maximum`` and ``minimum`` of equal numbers share it half and half.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella import ops
from lamella.dtypes import ALL, FLOATS, INTEGERS, DType
from lamella.ir.loops import Expr, apply
from lamella.ir.node import Node
from lamella.ops import complex_parts
from lamella.ops.base import Array, Sample
from lamella.ops.families import Elementwise, binary, binary_builder, unary, unary_builder
from lamella.ops.leaf import Constant, constant
from lamella.ops.sampling import unary_samples

__all__ = [
    "Abs", "Add", "Divide", "Maximum", "Minimum", "Multiply", "Negative",
    "Sign", "Subtract", "abs", "add", "div", "divide", "maximum",
    "minimum", "mul", "multiply", "neg", "negative", "reciprocal", "sign",
    "square", "sub", "subtract",
]  # fmt: skip

NUMBERS = (*INTEGERS, *FLOATS)


def like(x: Node, value: float) -> Node:
    """A 0-d constant of ``x``'s dtype."""
    return constant(value, x.dtype)


@dataclass(frozen=True, slots=True)
class Add(Elementwise):
    """``a + b``."""

    name: ClassVar[str] = "add"
    kinds: ClassVar[str] = "iufc"
    partwise: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    compute = staticmethod(np.add)
    arity: ClassVar[int] = 2
    sample_dtypes: ClassVar[tuple[DType, ...]] = NUMBERS

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1, 1."""
        return like(node, 1), like(node, 1)


@dataclass(frozen=True, slots=True)
class Subtract(Elementwise):
    """``a - b``."""

    name: ClassVar[str] = "subtract"
    kinds: ClassVar[str] = "iufc"
    partwise: ClassVar[bool] = True
    loop_op: ClassVar[str] = "sub"
    linear: ClassVar[bool] = True
    compute = staticmethod(np.subtract)
    arity: ClassVar[int] = 2
    sample_dtypes: ClassVar[tuple[DType, ...]] = NUMBERS

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1, -1."""
        return like(node, 1), like(node, -1)


@dataclass(frozen=True, slots=True)
class Multiply(Elementwise):
    """``a * b``."""

    name: ClassVar[str] = "multiply"
    kinds: ClassVar[str] = "iufc"
    split = staticmethod(complex_parts.multiply)
    loop_op: ClassVar[str] = "mul"
    compute = staticmethod(np.multiply)
    arity: ClassVar[int] = 2
    sample_dtypes: ClassVar[tuple[DType, ...]] = NUMBERS

    def partials(self, node: Node) -> Sequence[Node | None]:
        """b, a."""
        return node.inputs[1], node.inputs[0]


@dataclass(frozen=True, slots=True)
class Divide(Elementwise):
    """``a / b``, floating point."""

    name: ClassVar[str] = "divide"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.divide)
    loop_op: ClassVar[str] = "div"
    cost: ClassVar[int] = 4
    compute = staticmethod(np.divide)
    arity: ClassVar[int] = 2
    sample_range: ClassVar[tuple[float, float]] = (0.5, 2.0)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1/b, -(a/b)/b."""
        b = node.inputs[1]
        return divide(like(node, 1), b), negative(divide(node, b))


@dataclass(frozen=True, slots=True)
class Negative(Elementwise):
    """-a; unsigned integers wrap."""

    name: ClassVar[str] = "negative"
    kinds: ClassVar[str] = "iufc"
    partwise: ClassVar[bool] = True
    loop_op: ClassVar[str] = "neg"
    linear: ClassVar[bool] = True
    compute = staticmethod(np.negative)
    sample_dtypes: ClassVar[tuple[DType, ...]] = NUMBERS

    def partials(self, node: Node) -> Sequence[Node | None]:
        """-1."""
        return (like(node, -1),)


@dataclass(frozen=True, slots=True)
class Abs(Elementwise):
    """|a|; derivative 0 at 0."""

    name: ClassVar[str] = "abs"
    kinds: ClassVar[str] = "iuf"
    compute = staticmethod(np.abs)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """sign(a)."""
        return (sign(node.inputs[0]),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """All numbers."""
        yield from unary_samples(abs, NUMBERS)


@dataclass(frozen=True, slots=True)
class Sign(Elementwise):
    """-1, 0 or 1; nan for nan, keeps -0.0."""

    name: ClassVar[str] = "sign"
    kinds: ClassVar[str] = "iuf"
    cost: ClassVar[int] = 3
    differentiable: ClassVar[bool] = False
    sample_dtypes: ClassVar[tuple[DType, ...]] = NUMBERS

    @staticmethod
    def compute(a: Array) -> Array:
        """``np.sign`` that keeps -0.0."""
        return np.where(a == 0, a, np.sign(a))


@dataclass(frozen=True, slots=True)
class Maximum(Elementwise):
    """The larger, nan if either is nan; equal numbers share the derivative half and half."""

    name: ClassVar[str] = "maximum"
    kinds: ClassVar[str] = "biuf"
    compute = staticmethod(np.maximum)
    arity: ClassVar[int] = 2
    sample_dtypes: ClassVar[tuple[DType, ...]] = ALL

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 for the larger, 0 for the smaller, a half each for equals."""
        a, b = node.inputs
        return _chosen(a, b), _chosen(b, a)

    def expr(self, node: Node, values: Sequence[Expr]) -> Expr:
        """``max``; ``or`` for bool."""
        return apply("or" if node.dtype.kind == "b" else "max", *values)


@dataclass(frozen=True, slots=True)
class Minimum(Elementwise):
    """The smaller, nan if either is nan; equal numbers share the derivative half and half."""

    name: ClassVar[str] = "minimum"
    kinds: ClassVar[str] = "biuf"
    compute = staticmethod(np.minimum)
    arity: ClassVar[int] = 2
    sample_dtypes: ClassVar[tuple[DType, ...]] = ALL

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 for the smaller, 0 for the larger, a half each for equals."""
        a, b = node.inputs
        return _chosen(b, a), _chosen(a, b)

    def expr(self, node: Node, values: Sequence[Expr]) -> Expr:
        """``min``; ``and`` for bool."""
        return apply("and" if node.dtype.kind == "b" else "min", *values)


def _chosen(a: Node, b: Node) -> Node:
    """1 where a > b, 0 where a < b, else 1/2."""
    half = ops.where(ops.less(a, b), like(a, 0), like(a, 0.5))
    return ops.where(ops.greater(a, b), like(a, 1), half)


_ADD, _MUL, _ABS, _SIGN = Add(), Multiply(), Abs(), Sign()
subtract = binary_builder(Subtract())
divide = binary_builder(Divide())
negative = unary_builder(Negative())
maximum = binary_builder(Maximum())
minimum = binary_builder(Minimum())


def add(a: Node, b: Node) -> Node:
    """``a + b`` (for bool: or).

    Raises:
        DTypeError: if dtypes differ.
        ShapeError: if shapes do not broadcast.

    >>> from lamella import dtypes, ops
    >>> add(ops.constant(1, dtypes.float64), ops.constant(2, dtypes.float64)).op
    Add()
    """
    return ops.bitwise_or(a, b) if a.dtype.kind == "b" else binary(_ADD, a, b)


def multiply(a: Node, b: Node) -> Node:
    """``a * b`` (for bool: and); a literal 1 or -1 gives the other operand or its negative.

    >>> from lamella import dtypes, ops
    >>> multiply(ops.constant(3, dtypes.float64), ops.constant(1, dtypes.float64)).op
    Constant(value=3.0)
    """
    if a.dtype.kind == "b":
        return ops.bitwise_and(a, b)
    if type(a.op) is Constant and type(b.op) is not Constant:
        a, b = b, a
    if type(b.op) is Constant and a.dtype is b.dtype:
        if b.op.value == 1:
            return a
        if b.op.value == -1:
            return negative(a)
    return binary(_MUL, a, b)


def abs(x: Node) -> Node:
    """|x|; of a complex number its modulus, which is real.

    >>> from lamella import dtypes, ops
    >>> abs(ops.constant(-7, dtypes.int32)).op
    Abs()
    """
    if x.dtype.kind == "c":
        return ops.modulus(x)
    return x if x.dtype.kind == "u" else unary(_ABS, x)


def sign(x: Node) -> Node:
    """-1, 0 or 1; of a complex number x over its modulus, or 0.

    >>> from lamella import dtypes, ops
    >>> sign(ops.constant(-7, dtypes.int32)).op
    Sign()
    """
    if x.dtype.kind == "c":
        return ops.direction(x)
    return unary(_SIGN, x)


def square(x: Node) -> Node:
    """``x * x``.

    >>> from lamella import dtypes, ops
    >>> square(ops.constant(3, dtypes.float64)).op
    Multiply()
    """
    return multiply(x, x)


def reciprocal(x: Node) -> Node:
    """1 / x.

    >>> from lamella import dtypes, ops
    >>> reciprocal(ops.constant(3, dtypes.float64)).op
    Divide()
    """
    return divide(like(x, 1), x)


sub, mul, div, neg = subtract, multiply, divide, negative
