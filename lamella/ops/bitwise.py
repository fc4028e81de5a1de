"""Bitwise and logical functions and shifts, elementwise, of integers and bool.

For bool the bitwise functions are logical ones; ``logical_*`` take any dtype and test ``x != 0``
first. Shifts by a negative count or by the width and more give 0 (``>>`` of a negative: -1).
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella.dtypes import INTEGERS, DType, bool_
from lamella.ir.node import Node
from lamella.ops.base import Array
from lamella.ops.convert import cast
from lamella.ops.families import Elementwise, binary_builder, unary_builder

__all__ = [
    "BitwiseAnd", "BitwiseInvert", "BitwiseOr", "BitwiseXor", "ShiftLeft", "ShiftRight",
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "logical_and", "logical_not", "logical_or", "logical_xor",
]  # fmt: skip

WHOLE = (bool_, *INTEGERS)


@dataclass(frozen=True, slots=True)
class Bitwise(Elementwise):
    """A function of bits: no derivative."""

    kinds: ClassVar[str] = "biu"
    differentiable: ClassVar[bool] = False
    arity: ClassVar[int] = 2
    sample_dtypes: ClassVar[tuple[DType, ...]] = WHOLE


@dataclass(frozen=True, slots=True)
class BitwiseAnd(Bitwise):
    """``a & b``."""

    name: ClassVar[str] = "bitwise_and"
    loop_op: ClassVar[str] = "and"
    compute = staticmethod(np.bitwise_and)


@dataclass(frozen=True, slots=True)
class BitwiseOr(Bitwise):
    """``a | b``."""

    name: ClassVar[str] = "bitwise_or"
    loop_op: ClassVar[str] = "or"
    compute = staticmethod(np.bitwise_or)


@dataclass(frozen=True, slots=True)
class BitwiseXor(Bitwise):
    """``a ^ b``."""

    name: ClassVar[str] = "bitwise_xor"
    loop_op: ClassVar[str] = "xor"
    compute = staticmethod(np.bitwise_xor)


@dataclass(frozen=True, slots=True)
class BitwiseInvert(Bitwise):
    """~a, for bool not a."""

    name: ClassVar[str] = "bitwise_invert"
    arity: ClassVar[int] = 1
    loop_op: ClassVar[str] = "not"
    compute = staticmethod(np.invert)


def _count(a: Array, b: Array) -> tuple[Array, Array]:
    """Whether the count is inside the width, and a count that is."""
    inside = (b >= 0) & (b < a.dtype.itemsize * 8)
    return inside, np.where(inside, b, b.dtype.type(0))


@dataclass(frozen=True, slots=True)
class ShiftLeft(Bitwise):
    """``a << b``; 0 for b outside the width."""

    name: ClassVar[str] = "bitwise_left_shift"
    kinds: ClassVar[str] = "iu"
    loop_op: ClassVar[str] = "shl"
    sample_dtypes: ClassVar[tuple[DType, ...]] = INTEGERS

    @staticmethod
    def compute(a: Array, b: Array) -> Array:
        """``np.left_shift``, total."""
        inside, count = _count(a, b)
        return np.where(inside, np.left_shift(a, count), a.dtype.type(0))


@dataclass(frozen=True, slots=True)
class ShiftRight(Bitwise):
    """``a >> b``, arithmetic for signed; for b outside the width 0, or -1 for negative a."""

    name: ClassVar[str] = "bitwise_right_shift"
    kinds: ClassVar[str] = "iu"
    loop_op: ClassVar[str] = "shr"
    sample_dtypes: ClassVar[tuple[DType, ...]] = INTEGERS

    @staticmethod
    def compute(a: Array, b: Array) -> Array:
        """``np.right_shift``, total."""
        inside, count = _count(a, b)
        return np.where(inside, np.right_shift(a, count), np.where(a < 0, ~(a & 0), a & 0))


bitwise_and = binary_builder(BitwiseAnd())
bitwise_or = binary_builder(BitwiseOr())
bitwise_xor = binary_builder(BitwiseXor())
bitwise_invert = unary_builder(BitwiseInvert())
bitwise_left_shift = binary_builder(ShiftLeft())
bitwise_right_shift = binary_builder(ShiftRight())


def logical_and(a: Node, b: Node) -> Node:
    """``a != 0 and b != 0`` -> bool.

    >>> from lamella import dtypes, ops
    >>> logical_and(ops.constant(6, dtypes.int64), ops.constant(3, dtypes.int64)).dtype
    lamella.bool
    """
    return bitwise_and(cast(a, bool_), cast(b, bool_))


def logical_or(a: Node, b: Node) -> Node:
    """``a != 0 or b != 0`` -> bool.

    >>> from lamella import dtypes, ops
    >>> logical_or(ops.constant(6, dtypes.int64), ops.constant(3, dtypes.int64)).dtype
    lamella.bool
    """
    return bitwise_or(cast(a, bool_), cast(b, bool_))


def logical_xor(a: Node, b: Node) -> Node:
    """Whether exactly one of a and b is not 0 -> bool.

    >>> from lamella import dtypes, ops
    >>> logical_xor(ops.constant(6, dtypes.int64), ops.constant(3, dtypes.int64)).dtype
    lamella.bool
    """
    return bitwise_xor(cast(a, bool_), cast(b, bool_))


def logical_not(x: Node) -> Node:
    """``x == 0`` -> bool.

    >>> from lamella import dtypes, ops
    >>> logical_not(ops.constant(6, dtypes.int64)).dtype
    lamella.bool
    """
    return bitwise_invert(cast(x, bool_))
