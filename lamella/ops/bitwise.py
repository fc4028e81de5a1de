"""Bitwise and logical functions and shifts, elementwise, of integers and bool.

For bool the bitwise functions are logical ones; ``logical_*`` take any dtype and test ``x != 0``
first. Shifts by a negative count or by the width and more give 0 (``>>`` of a negative: -1).
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella.dtypes import INTEGERS, bool_
from lamella.ir.node import Node
from lamella.ops.base import Array, Sample
from lamella.ops.convert import cast
from lamella.ops.families import Elementwise, binary, unary
from lamella.ops.sampling import binary_samples, unary_samples

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


@dataclass(frozen=True, slots=True)
class BitwiseAnd(Bitwise):
    """``a & b``."""

    name: ClassVar[str] = "bitwise_and"
    loop_op: ClassVar[str] = "and"
    compute = staticmethod(np.bitwise_and)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Bool and integers."""
        yield from binary_samples(bitwise_and, WHOLE, differentiable=False)


@dataclass(frozen=True, slots=True)
class BitwiseOr(Bitwise):
    """``a | b``."""

    name: ClassVar[str] = "bitwise_or"
    loop_op: ClassVar[str] = "or"
    compute = staticmethod(np.bitwise_or)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Bool and integers."""
        yield from binary_samples(bitwise_or, WHOLE, differentiable=False)


@dataclass(frozen=True, slots=True)
class BitwiseXor(Bitwise):
    """``a ^ b``."""

    name: ClassVar[str] = "bitwise_xor"
    loop_op: ClassVar[str] = "xor"
    compute = staticmethod(np.bitwise_xor)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Bool and integers."""
        yield from binary_samples(bitwise_xor, WHOLE, differentiable=False)


@dataclass(frozen=True, slots=True)
class BitwiseInvert(Bitwise):
    """~a."""

    name: ClassVar[str] = "bitwise_invert"
    loop_op: ClassVar[str] = "not"
    compute = staticmethod(np.invert)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Bool and integers."""
        yield from unary_samples(bitwise_invert, WHOLE, differentiable=False)


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

    @staticmethod
    def compute(a: Array, b: Array) -> Array:
        """``np.left_shift``, total."""
        inside, count = _count(a, b)
        return np.where(inside, np.left_shift(a, count), a.dtype.type(0))

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Integers, all counts."""
        yield from binary_samples(bitwise_left_shift, INTEGERS, differentiable=False)


@dataclass(frozen=True, slots=True)
class ShiftRight(Bitwise):
    """``a >> b``, arithmetic for signed; for b outside the width 0, or -1 for negative a."""

    name: ClassVar[str] = "bitwise_right_shift"
    kinds: ClassVar[str] = "iu"
    loop_op: ClassVar[str] = "shr"

    @staticmethod
    def compute(a: Array, b: Array) -> Array:
        """``np.right_shift``, total."""
        inside, count = _count(a, b)
        return np.where(inside, np.right_shift(a, count), np.where(a < 0, ~(a & 0), a & 0))

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Integers, all counts."""
        yield from binary_samples(bitwise_right_shift, INTEGERS, differentiable=False)


_AND, _OR, _XOR, _NOT = BitwiseAnd(), BitwiseOr(), BitwiseXor(), BitwiseInvert()
_SHL, _SHR = ShiftLeft(), ShiftRight()


def bitwise_and(a: Node, b: Node) -> Node:
    """``a & b``.

    >>> from lamella import dtypes, ops
    >>> bitwise_and(ops.constant(6, dtypes.int64), ops.constant(3, dtypes.int64)).op
    BitwiseAnd()
    """
    return binary(_AND, a, b)


def bitwise_or(a: Node, b: Node) -> Node:
    """``a | b``.

    >>> from lamella import dtypes, ops
    >>> bitwise_or(ops.constant(6, dtypes.int64), ops.constant(3, dtypes.int64)).op
    BitwiseOr()
    """
    return binary(_OR, a, b)


def bitwise_xor(a: Node, b: Node) -> Node:
    """``a ^ b``.

    >>> from lamella import dtypes, ops
    >>> bitwise_xor(ops.constant(6, dtypes.int64), ops.constant(3, dtypes.int64)).op
    BitwiseXor()
    """
    return binary(_XOR, a, b)


def bitwise_invert(x: Node) -> Node:
    """~x, for bool not x.

    >>> from lamella import dtypes, ops
    >>> bitwise_invert(ops.constant(6, dtypes.int64)).op
    BitwiseInvert()
    """
    return unary(_NOT, x)


def bitwise_left_shift(a: Node, b: Node) -> Node:
    """``a << b``; 0 for b outside the width.

    >>> from lamella import dtypes, ops
    >>> bitwise_left_shift(ops.constant(6, dtypes.int64), ops.constant(3, dtypes.int64)).op
    ShiftLeft()
    """
    return binary(_SHL, a, b)


def bitwise_right_shift(a: Node, b: Node) -> Node:
    """``a >> b``; for b outside the width 0, or -1 for negative a.

    >>> from lamella import dtypes, ops
    >>> bitwise_right_shift(ops.constant(6, dtypes.int64), ops.constant(3, dtypes.int64)).op
    ShiftRight()
    """
    return binary(_SHR, a, b)


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
