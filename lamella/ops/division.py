"""Division with a whole quotient, elementwise: floor_divide and remainder, as NumPy defines them.

Integers: 0 where the divisor is 0. Floats: of the exact quotient, whatever its size, so that the
remainder is exact before its sign is made the divisor's.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella.dtypes import FLOATS, INTEGERS, DType
from lamella.ir.loops import Expr, apply
from lamella.ir.node import Node
from lamella.ops.arithmetic import like, negative
from lamella.ops.base import Array, Sample
from lamella.ops.families import Elementwise, binary_builder
from lamella.ops.sampling import binary_samples

__all__ = ["FloorDivide", "Remainder", "floor_divide", "remainder"]

NUMBERS = (*INTEGERS, *FLOATS)


@dataclass(frozen=True, slots=True)
class FloorDivide(Elementwise):
    """``floor(a / b)`` of the exact quotient; integers: 0 where b is 0."""

    name: ClassVar[str] = "floor_divide"
    kinds: ClassVar[str] = "iuf"
    cost: ClassVar[int] = 12
    differentiable: ClassVar[bool] = False
    compute = staticmethod(np.floor_divide)
    arity: ClassVar[int] = 2
    sample_dtypes: ClassVar[tuple[DType, ...]] = NUMBERS

    def expr(self, node: Node, values: Sequence[Expr]) -> Expr:
        """``floordiv``."""
        return apply("floordiv", *values)


@dataclass(frozen=True, slots=True)
class Remainder(Elementwise):
    """``a - floor(a / b) * b`` of the exact quotient, the sign of b; integers: 0 where b is 0."""

    name: ClassVar[str] = "remainder"
    kinds: ClassVar[str] = "iuf"
    cost: ClassVar[int] = 16
    compute = staticmethod(np.remainder)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1, -floor(a/b)."""
        return like(node, 1), negative(floor_divide(*node.inputs))

    def expr(self, node: Node, values: Sequence[Expr]) -> Expr:
        """``mod``."""
        return apply("mod", *values)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """All numbers, both signs; for derivatives away from the jumps."""
        yield from binary_samples(remainder, NUMBERS, differentiable=False)
        for shapes in (((17,), (17,)), ((), (5,)), ((2, 3), ())):
            yield Sample(shapes, remainder, FLOATS, draw=_apart, rtol=2e-2)


def _apart(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, position: int
) -> Array:
    """Dividends and divisors whose quotient stays between two integers."""
    signs = rng.choice([-1.0, 1.0], shape)
    return np.asarray(signs * rng.uniform(*((3.7, 3.9), (1.1, 1.2))[position], shape))


floor_divide = binary_builder(FloorDivide())
remainder = binary_builder(Remainder())
