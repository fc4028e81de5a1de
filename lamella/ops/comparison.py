"""Comparison, selection and tests of floats, elementwise. Results are bool, except of ``where``.

Input: nodes of one dtype, shapes that broadcast. Comparisons follow IEEE 754.
``where`` passes no derivative to the branch not chosen, so a nan or inf there does no harm.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella.dtypes import ALL, DType, bool_
from lamella.errors import DTypeError
from lamella.ir.loops import Expr, apply
from lamella.ir.node import Node, make
from lamella.ops import complex_parts
from lamella.ops.base import Array, Needs, Sample
from lamella.ops.families import (
    Elementwise,
    binary_builder,
    broadcast,
    broadcast_shapes,
    check_fits,
    to_shape,
    unary_builder,
    unbroadcast,
)  # fmt: skip
from lamella.ops.leaf import constant
from lamella.ops.sampling import SHAPES, special

__all__ = [
    "Equal", "IsFinite", "IsInf", "IsNan", "Less", "LessEqual", "NotEqual", "SignBit", "Where",
    "equal", "greater", "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal",
    "not_equal", "signbit", "where",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comparison(Elementwise):
    """A relation of two values of one dtype."""

    kinds: ClassVar[str] = "biuf"
    predicate: ClassVar[bool] = True
    differentiable: ClassVar[bool] = False
    arity: ClassVar[int] = 2
    sample_dtypes: ClassVar[tuple[DType, ...]] = ALL


@dataclass(frozen=True, slots=True)
class Equal(Comparison):
    """``a == b``."""

    name: ClassVar[str] = "equal"
    kinds: ClassVar[str] = "biufc"
    split = staticmethod(complex_parts.equal)
    loop_op: ClassVar[str] = "eq"
    compute = staticmethod(np.equal)


@dataclass(frozen=True, slots=True)
class NotEqual(Comparison):
    """``a != b``, true for nan."""

    name: ClassVar[str] = "not_equal"
    kinds: ClassVar[str] = "biufc"
    split = staticmethod(complex_parts.not_equal)
    loop_op: ClassVar[str] = "ne"
    compute = staticmethod(np.not_equal)


@dataclass(frozen=True, slots=True)
class Less(Comparison):
    """``a < b``."""

    name: ClassVar[str] = "less"
    loop_op: ClassVar[str] = "lt"
    compute = staticmethod(np.less)


@dataclass(frozen=True, slots=True)
class LessEqual(Comparison):
    """``a <= b``."""

    name: ClassVar[str] = "less_equal"
    loop_op: ClassVar[str] = "le"
    compute = staticmethod(np.less_equal)


@dataclass(frozen=True, slots=True)
class FloatTest(Elementwise):
    """A property of a floating-point number."""

    predicate: ClassVar[bool] = True
    differentiable: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class IsNan(FloatTest):
    """Whether a is nan."""

    name: ClassVar[str] = "isnan"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.isnan)
    compute = staticmethod(np.isnan)


@dataclass(frozen=True, slots=True)
class IsInf(FloatTest):
    """Whether a is infinite."""

    name: ClassVar[str] = "isinf"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.isinf)
    compute = staticmethod(np.isinf)


@dataclass(frozen=True, slots=True)
class IsFinite(FloatTest):
    """Whether a is neither infinite nor nan."""

    name: ClassVar[str] = "isfinite"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.isfinite)
    compute = staticmethod(np.isfinite)


@dataclass(frozen=True, slots=True)
class SignBit(FloatTest):
    """Whether a's sign bit is set (true for -0.0)."""

    name: ClassVar[str] = "signbit"
    compute = staticmethod(np.signbit)


@dataclass(frozen=True, slots=True)
class Where(Elementwise):
    """b where a (bool) holds, else c."""

    name: ClassVar[str] = "where"
    kinds: ClassVar[str] = "biufc"
    partwise: ClassVar[bool] = True
    widens: ClassVar[bool] = False
    loop_op: ClassVar[str] = "select"
    @staticmethod
    def compute(condition: Array, a: Array, b: Array) -> Array:
        """``np.where``."""
        return np.where(condition, a, b)

    def check(self, node: Node) -> None:
        """A bool condition and two values of one dtype."""
        _where_types(*node.inputs)
        check_fits(node, broadcast_shapes(self.name, *(i.shape for i in node.inputs)),
               node.inputs[1].dtype)  # fmt: skip

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangent where the input was chosen, else 0."""
        condition, a, b = node.inputs
        zero = constant(0, node.dtype)
        by_a = where(condition, cotangent, zero) if needs[1] else None
        by_b = where(condition, zero, cotangent) if needs[2] else None
        return (
            None,
            None if by_a is None else unbroadcast(by_a, a),
            None if by_b is None else unbroadcast(by_b, b),
        )

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """The tangent of the input chosen."""
        _, a, b = tangents
        if a is None and b is None:
            return None
        zero = constant(0, node.dtype)
        chosen = where(node.inputs[0], zero if a is None else a, zero if b is None else b)
        return to_shape(chosen, node.shape)

    def expr(self, node: Node, values: Sequence[Expr]) -> Expr:
        """``select``."""
        return apply("select", *values, dtype=node.dtype)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Each operand 0-d in turn, and nan in the branch not chosen."""
        kinds = (bool_, None, None)
        for shape in SHAPES:
            yield Sample((shape,) * 3, where, ALL, kinds)
        for shapes in (((), (5,), (5,)), ((5,), (), (5,)), ((5,), (5,), ()), ((2, 1), (3,), ())):
            yield Sample(shapes, where, ALL, kinds)
        yield Sample(((24,),) * 3, where, ALL, kinds, draw=special, differentiable=False,
                     note="special values")  # fmt: skip


def _where_types(condition: Node, a: Node, b: Node) -> None:
    if condition.dtype is not bool_:
        raise DTypeError(
            f"[where] the condition is {condition.dtype.name}, not bool; compare it, for example "
            "x != 0"
        )
    if a.dtype is not b.dtype:
        raise DTypeError(
            f"[where] the branches are {a.dtype.name} and {b.dtype.name}: a graph operation takes "
            "one dtype; cast one with .astype(...)"
        )


equal = binary_builder(Equal())
not_equal = binary_builder(NotEqual())
less = binary_builder(Less())
less_equal = binary_builder(LessEqual())
isnan = unary_builder(IsNan())
isinf = unary_builder(IsInf())
isfinite = unary_builder(IsFinite())
signbit = unary_builder(SignBit())
_WHERE = Where()


def greater(a: Node, b: Node) -> Node:
    """``a > b`` -> bool, as b < a.

    >>> from lamella import dtypes, ops
    >>> greater(ops.constant(1.0, dtypes.float16), ops.constant(2.0, dtypes.float16)).op
    Less()
    """
    return less(b, a)


def greater_equal(a: Node, b: Node) -> Node:
    """``a >= b`` -> bool, as b <= a.

    >>> from lamella import dtypes, ops
    >>> greater_equal(ops.constant(1.0, dtypes.float16), ops.constant(2.0, dtypes.float16)).op
    LessEqual()
    """
    return less_equal(b, a)


def where(condition: Node, a: Node, b: Node) -> Node:
    """A where ``condition`` (bool) holds, else b.

    Raises:
        DTypeError: if the condition is not bool or the dtypes of a and b differ.
        ShapeError: if shapes do not broadcast.

    >>> from lamella import dtypes, ops
    >>> one = ops.constant(1.0, dtypes.float16)
    >>> where(equal(one, one), one, one).op
    Where()
    """
    _where_types(condition, a, b)
    args, shape = (condition, a, b), a.shape
    if condition.shape != shape or b.shape != shape:
        args, shape = broadcast("where", args)  # type: ignore[assignment]
    return make(_WHERE, args, shape, a.dtype)
