"""Trigonometric and hyperbolic functions and their inverses, elementwise over floating point.

Angles are in radians. float16 and bfloat16 are computed in float32. Near the ends of a domain
derivatives use (1 - x) (1 + x), which keeps the precision that 1 - x**2 loses.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella.ir.node import Node
from lamella.ops import complex_parts
from lamella.ops.arithmetic import add, divide, like, multiply, negative, reciprocal, subtract
from lamella.ops.exponential import rsqrt
from lamella.ops.families import Elementwise, binary_builder, unary_builder

__all__ = [
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "Cos", "Cosh", "Sin", "Sinh", "Tan",
    "Tanh", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "sin",
    "sinh", "tan", "tanh",
]  # fmt: skip


def _one_minus_square(x: Node) -> Node:
    one = like(x, 1)
    return multiply(subtract(one, x), add(one, x))


@dataclass(frozen=True, slots=True)
class Sin(Elementwise):
    """Sine of radians."""

    name: ClassVar[str] = "sin"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.sin)
    cost: ClassVar[int] = 20
    compute = staticmethod(np.sin)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """cos(x)."""
        return (cos(node.inputs[0]),)


@dataclass(frozen=True, slots=True)
class Cos(Elementwise):
    """Cosine of radians."""

    name: ClassVar[str] = "cos"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.cos)
    cost: ClassVar[int] = 20
    compute = staticmethod(np.cos)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """-sin(x)."""
        return (negative(sin(node.inputs[0])),)


@dataclass(frozen=True, slots=True)
class Tan(Elementwise):
    """Tangent of radians."""

    name: ClassVar[str] = "tan"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.tan)
    cost: ClassVar[int] = 28
    compute = staticmethod(np.tan)
    sample_range: ClassVar[tuple[float, float]] = (-1.2, 1.2)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 + y**2."""
        return (add(multiply(node, node), like(node, 1)),)


@dataclass(frozen=True, slots=True)
class Asin(Elementwise):
    """Inverse sine."""

    name: ClassVar[str] = "asin"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.asin)
    cost: ClassVar[int] = 24
    compute = staticmethod(np.arcsin)
    sample_range: ClassVar[tuple[float, float]] = (-0.8, 0.8)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / sqrt((1 - x) (1 + x))."""
        return (rsqrt(_one_minus_square(node.inputs[0])),)


@dataclass(frozen=True, slots=True)
class Acos(Elementwise):
    """Inverse cosine."""

    name: ClassVar[str] = "acos"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.acos)
    cost: ClassVar[int] = 24
    compute = staticmethod(np.arccos)
    sample_range: ClassVar[tuple[float, float]] = (-0.8, 0.8)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """-1 / sqrt((1 - x) (1 + x))."""
        return (negative(rsqrt(_one_minus_square(node.inputs[0]))),)


@dataclass(frozen=True, slots=True)
class Atan(Elementwise):
    """Inverse tangent."""

    name: ClassVar[str] = "atan"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.atan)
    cost: ClassVar[int] = 22
    compute = staticmethod(np.arctan)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / (1 + x**2)."""
        x = node.inputs[0]
        return (reciprocal(add(multiply(x, x), like(x, 1))),)


@dataclass(frozen=True, slots=True)
class Sinh(Elementwise):
    """Hyperbolic sine."""

    name: ClassVar[str] = "sinh"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.sinh)
    cost: ClassVar[int] = 24
    compute = staticmethod(np.sinh)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """cosh(x)."""
        return (cosh(node.inputs[0]),)


@dataclass(frozen=True, slots=True)
class Cosh(Elementwise):
    """Hyperbolic cosine."""

    name: ClassVar[str] = "cosh"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.cosh)
    cost: ClassVar[int] = 22
    compute = staticmethod(np.cosh)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """sinh(x)."""
        return (sinh(node.inputs[0]),)


@dataclass(frozen=True, slots=True)
class Tanh(Elementwise):
    """Hyperbolic tangent."""

    name: ClassVar[str] = "tanh"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.tanh)
    cost: ClassVar[int] = 20
    compute = staticmethod(np.tanh)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 - y**2."""
        return (subtract(like(node, 1), multiply(node, node)),)


@dataclass(frozen=True, slots=True)
class Asinh(Elementwise):
    """Inverse hyperbolic sine."""

    name: ClassVar[str] = "asinh"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.asinh)
    cost: ClassVar[int] = 28
    compute = staticmethod(np.arcsinh)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / sqrt(x**2 + 1)."""
        x = node.inputs[0]
        return (rsqrt(add(multiply(x, x), like(x, 1))),)


@dataclass(frozen=True, slots=True)
class Acosh(Elementwise):
    """Inverse hyperbolic cosine."""

    name: ClassVar[str] = "acosh"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.acosh)
    cost: ClassVar[int] = 26
    compute = staticmethod(np.arccosh)
    sample_range: ClassVar[tuple[float, float]] = (1.5, 4.0)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / sqrt((x - 1) (x + 1)), of complex numbers root by root."""
        x = node.inputs[0]
        if x.dtype.kind == "c":
            one = like(x, 1)
            return (multiply(rsqrt(subtract(x, one)), rsqrt(add(x, one))),)
        return (rsqrt(negative(_one_minus_square(x))),)


@dataclass(frozen=True, slots=True)
class Atanh(Elementwise):
    """Inverse hyperbolic tangent."""

    name: ClassVar[str] = "atanh"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.atanh)
    cost: ClassVar[int] = 24
    compute = staticmethod(np.arctanh)
    sample_range: ClassVar[tuple[float, float]] = (-0.8, 0.8)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / ((1 - x) (1 + x))."""
        return (reciprocal(_one_minus_square(node.inputs[0])),)


@dataclass(frozen=True, slots=True)
class Atan2(Elementwise):
    """The angle of the point (b, a), in (-pi, pi]."""

    name: ClassVar[str] = "atan2"
    cost: ClassVar[int] = 30
    compute = staticmethod(np.arctan2)
    arity: ClassVar[int] = 2
    sample_range: ClassVar[tuple[float, float]] = (0.3, 2.0)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``b / (a**2 + b**2)``, -a / (a**2 + b**2)."""
        a, b = node.inputs
        square = add(multiply(a, a), multiply(b, b))
        return divide(b, square), negative(divide(a, square))


sin = unary_builder(Sin())
cos = unary_builder(Cos())
tan = unary_builder(Tan())
asin = unary_builder(Asin())
acos = unary_builder(Acos())
atan = unary_builder(Atan())
sinh = unary_builder(Sinh())
cosh = unary_builder(Cosh())
tanh = unary_builder(Tanh())
asinh = unary_builder(Asinh())
acosh = unary_builder(Acosh())
atanh = unary_builder(Atanh())
atan2 = binary_builder(Atan2())
