"""Rounding and signs of floating-point numbers, elementwise.

Rounding has derivative zero; ``round`` takes halves to the even neighbour.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella.dtypes import FLOATS
from lamella.ir.node import Node
from lamella.ops.arithmetic import like, multiply
from lamella.ops.base import Sample
from lamella.ops.families import Elementwise, binary_builder, unary
from lamella.ops.leaf import constant
from lamella.ops.sampling import binary_samples

__all__ = [
    "Ceil", "CopySign", "Floor", "Round", "Trunc", "ceil", "copysign", "floor", "round", "trunc",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rounding(Elementwise):
    """To an integer of the same dtype: no derivative."""

    differentiable: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Floor(Rounding):
    """Round down."""

    name: ClassVar[str] = "floor"
    compute = staticmethod(np.floor)


@dataclass(frozen=True, slots=True)
class Ceil(Rounding):
    """Round up."""

    name: ClassVar[str] = "ceil"
    compute = staticmethod(np.ceil)


@dataclass(frozen=True, slots=True)
class Trunc(Rounding):
    """Round towards zero."""

    name: ClassVar[str] = "trunc"
    compute = staticmethod(np.trunc)


@dataclass(frozen=True, slots=True)
class Round(Rounding):
    """Round to nearest, halves to even."""

    name: ClassVar[str] = "round"
    compute = staticmethod(np.rint)


@dataclass(frozen=True, slots=True)
class CopySign(Elementwise):
    """|a| with the sign of b; no derivative by b."""

    name: ClassVar[str] = "copysign"
    compute = staticmethod(np.copysign)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 where the signs agree, else -1."""
        a, b = node.inputs
        one = like(node, 1)
        return multiply(copysign(one, a), copysign(one, b)), None

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Both away from 0, and special values."""
        yield from binary_samples(copysign, FLOATS, low=0.5, high=2.0)
        yield Sample(((7,), (7,)), lambda a, b: copysign(a, copysign(b, constant(-1, b.dtype))),
                     FLOATS, low=0.5)  # fmt: skip


_FLOOR, _CEIL, _TRUNC, _ROUND = Floor(), Ceil(), Trunc(), Round()
copysign = binary_builder(CopySign())


def floor(x: Node) -> Node:
    """The greatest integer <= x; ``x`` itself for integers.

    >>> from lamella import dtypes, ops
    >>> floor(ops.constant(1.5, dtypes.float32)).op
    Floor()
    """
    return x if x.dtype.is_integer else unary(_FLOOR, x)


def ceil(x: Node) -> Node:
    """The least integer >= x; ``x`` itself for integers.

    >>> from lamella import dtypes, ops
    >>> ceil(ops.constant(1.5, dtypes.float32)).op
    Ceil()
    """
    return x if x.dtype.is_integer else unary(_CEIL, x)


def trunc(x: Node) -> Node:
    """X without its fraction; ``x`` itself for integers.

    >>> from lamella import dtypes, ops
    >>> trunc(ops.constant(1.5, dtypes.float32)).op
    Trunc()
    """
    return x if x.dtype.is_integer else unary(_TRUNC, x)


def round(x: Node) -> Node:
    """The nearest integer, halves to even; ``x`` itself for integers.

    >>> from lamella import dtypes, ops
    >>> round(ops.constant(1.5, dtypes.float32)).op
    Round()
    """
    return x if x.dtype.is_integer else unary(_ROUND, x)
