"""Division with a whole quotient, elementwise: floor_divide and remainder, as NumPy defines them.

Integers: 0 where the divisor is 0. Floats: of the exact quotient, which division alone may round
up to a whole number; so the sign of the exact remainder ``fma(-q, b, a)`` corrects the quotient.
That is exact for quotients below 2**24 (float64: 2**53), for the remainder below its square.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella.dtypes import FLOATS, INTEGERS, DType, bool_
from lamella.ir.loops import Const, Expr, apply
from lamella.ir.node import Node
from lamella.ops.arithmetic import like, negative
from lamella.ops.base import Array, Sample
from lamella.ops.families import Elementwise, binary
from lamella.ops.sampling import binary_samples

__all__ = ["FloorDivide", "Remainder", "floor_divide", "remainder"]

NUMBERS = (*INTEGERS, *FLOATS)


def _test(op: str, *args: Expr) -> Expr:
    return apply(op, *args, dtype=bool_)


def _select(condition: Expr, a: Expr, b: Expr) -> Expr:
    return apply("select", condition, a, b, dtype=a.dtype)


def _unlike(a: Expr, b: Expr) -> Expr:
    """Whether the signs differ and ``a`` is not 0."""
    zero = Const(0.0, a.dtype)
    differ = _test("xor", _test("lt", a, zero), _test("lt", b, zero))
    return _test("and", _test("ne", a, zero), differ)


def _step(a: Expr, b: Expr, rounding: str) -> tuple[Expr, Expr]:
    """The rounded quotient as an integer, and the remainder it leaves."""
    quotient = apply(rounding, apply("div", a, b))
    return quotient, apply("fma", apply("neg", quotient), b, a)


def _bounded_by_infinity(a: Expr, b: Expr) -> Expr:
    return _test("and", _test("isinf", b), _test("isfinite", a))


@dataclass(frozen=True, slots=True)
class FloorDivide(Elementwise):
    """``floor(a / b)`` of the exact quotient; integers: 0 where b is 0."""

    name: ClassVar[str] = "floor_divide"
    kinds: ClassVar[str] = "iuf"
    cost: ClassVar[int] = 12
    differentiable: ClassVar[bool] = False
    compute = staticmethod(np.floor_divide)

    def expr(self, node: Node, values: Sequence[Expr]) -> Expr:
        """``floordiv`` for integers; for floats the corrected quotient."""
        a, b = values
        if node.dtype.kind != "f":
            return apply("floordiv", a, b)
        one, zero = Const(1.0, a.dtype), Const(0.0, a.dtype)
        quotient, rest = _step(a, b, "floor")  # never too low: rounding is monotonic
        exact = _select(_unlike(rest, b), apply("sub", quotient, one), quotient)
        at_infinity = _select(_unlike(a, b), Const(-1.0, a.dtype), apply("div", a, b))
        found = _select(_bounded_by_infinity(a, b), at_infinity, exact)
        undefined = _test("and", _test("isinf", a), _test("ne", b, zero))
        return _select(undefined, Const(float("nan"), a.dtype), found)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """All numbers, zero divisors included."""
        yield from binary_samples(floor_divide, NUMBERS, differentiable=False)


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
        """``mod`` for integers; for floats two steps of division and a last correction."""
        a, b = values
        if node.dtype.kind != "f":
            return apply("mod", a, b)
        rest = _step(_step(a, b, "trunc")[1], b, "trunc")[1]  # truncated, a small a stays exact
        rest = _select(_unlike(rest, b), apply("add", rest, b), rest)
        at_infinity = _select(_unlike(a, b), b, a)
        found = _select(_bounded_by_infinity(a, b), at_infinity, rest)
        zero = Const(0.0, a.dtype)
        return _select(_test("eq", found, zero), apply("copysign", zero, b), found)

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


_FLOORDIVIDE, _REMAINDER = FloorDivide(), Remainder()


def floor_divide(a: Node, b: Node) -> Node:
    """floor(a / b); integers: 0 where b is 0.

    >>> from lamella import dtypes, ops
    >>> floor_divide(ops.constant(7, dtypes.int32), ops.constant(2, dtypes.int32)).op
    FloorDivide()
    """
    return binary(_FLOORDIVIDE, a, b)


def remainder(a: Node, b: Node) -> Node:
    """``a - floor(a / b) * b``; integers: 0 where b is 0.

    >>> from lamella import dtypes, ops
    >>> remainder(ops.constant(7, dtypes.int32), ops.constant(2, dtypes.int32)).op
    Remainder()
    """
    return binary(_REMAINDER, a, b)
