"""Powers, exponentials, logarithms and the error function, elementwise over floating point.

float16 and bfloat16 are computed in float32. Derivatives use the result where that loses no
precision (exp, sqrt, expm1).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella.ir.loops import Const, Expr, apply
from lamella.ir.node import Node
from lamella.ops import complex_parts
from lamella.ops.arithmetic import add, divide, like, multiply, negative, reciprocal, subtract
from lamella.ops.base import Array
from lamella.ops.families import Elementwise, unary_builder

__all__ = [
    "Erf", "Erfc", "Exp", "Exp2", "Expm1", "Log", "Log10", "Log1p", "Log2", "Rsqrt", "Sigmoid",
    "Sqrt", "erf", "erfc", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "rsqrt",
    "sigmoid", "sqrt",
]  # fmt: skip


def _rsqrt(a: Array) -> Array:
    return np.asarray(1 / np.sqrt(a))


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """``function`` of Python floats over an array, in its dtype."""
    return lambda a: np.array([function(float(v)) for v in a.flat], a.dtype).reshape(a.shape)


_erf, _erfc = _each(math.erf), _each(math.erfc)


def _bell(x: Node) -> Node:
    return multiply(exp(negative(multiply(x, x))), like(x, 2 / math.sqrt(math.pi)))


@dataclass(frozen=True, slots=True)
class Sqrt(Elementwise):
    """Square root; derivative inf at 0."""

    name: ClassVar[str] = "sqrt"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.sqrt)
    cost: ClassVar[int] = 6
    compute = staticmethod(np.sqrt)
    sample_range: ClassVar[tuple[float, float]] = (0.2, 4.0)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / (2 y)."""
        return (divide(like(node, 0.5), node),)


@dataclass(frozen=True, slots=True)
class Rsqrt(Elementwise):
    """1 / sqrt(a)."""

    name: ClassVar[str] = "rsqrt"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.rsqrt)
    cost: ClassVar[int] = 8
    compute = staticmethod(_rsqrt)
    sample_range: ClassVar[tuple[float, float]] = (0.2, 4.0)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """-y / (2 x)."""
        x = node.inputs[0]
        return (multiply(like(x, -0.5), divide(node, x)),)


@dataclass(frozen=True, slots=True)
class Exp(Elementwise):
    """``e ** a``."""

    name: ClassVar[str] = "exp"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.exp)
    cost: ClassVar[int] = 14
    compute = staticmethod(np.exp)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """Y."""
        return (node,)


@dataclass(frozen=True, slots=True)
class Exp2(Elementwise):
    """2 ** a."""

    name: ClassVar[str] = "exp2"
    cost: ClassVar[int] = 12
    compute = staticmethod(np.exp2)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """log(2) y."""
        return (multiply(node, like(node, math.log(2))),)


@dataclass(frozen=True, slots=True)
class Expm1(Elementwise):
    """``e ** a - 1`` without cancellation."""

    name: ClassVar[str] = "expm1"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.expm1)
    cost: ClassVar[int] = 20
    compute = staticmethod(np.expm1)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``y + 1``."""
        return (add(node, like(node, 1)),)


@dataclass(frozen=True, slots=True)
class Log(Elementwise):
    """Natural logarithm."""

    name: ClassVar[str] = "log"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.log)
    cost: ClassVar[int] = 18
    compute = staticmethod(np.log)
    sample_range: ClassVar[tuple[float, float]] = (0.2, 4.0)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / x."""
        return (reciprocal(node.inputs[0]),)


@dataclass(frozen=True, slots=True)
class Log2(Elementwise):
    """Logarithm to base 2."""

    name: ClassVar[str] = "log2"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.log2)
    cost: ClassVar[int] = 18
    compute = staticmethod(np.log2)
    sample_range: ClassVar[tuple[float, float]] = (0.2, 4.0)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / (x log(2))."""
        x = node.inputs[0]
        return (reciprocal(multiply(x, like(x, math.log(2)))),)


@dataclass(frozen=True, slots=True)
class Log10(Elementwise):
    """Logarithm to base 10."""

    name: ClassVar[str] = "log10"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.log10)
    cost: ClassVar[int] = 18
    compute = staticmethod(np.log10)
    sample_range: ClassVar[tuple[float, float]] = (0.2, 4.0)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / (x log(10))."""
        x = node.inputs[0]
        return (reciprocal(multiply(x, like(x, math.log(10)))),)


@dataclass(frozen=True, slots=True)
class Log1p(Elementwise):
    """log(1 + a) without cancellation."""

    name: ClassVar[str] = "log1p"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.log1p)
    cost: ClassVar[int] = 22
    compute = staticmethod(np.log1p)
    sample_range: ClassVar[tuple[float, float]] = (-0.6, 2.0)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / (1 + x)."""
        x = node.inputs[0]
        return (reciprocal(add(x, like(x, 1))),)


@dataclass(frozen=True, slots=True)
class Erf(Elementwise):
    """Error function."""

    name: ClassVar[str] = "erf"
    cost: ClassVar[int] = 24
    compute = staticmethod(_erf)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """2 / sqrt(pi) exp(-x**2)."""
        return (_bell(node.inputs[0]),)


@dataclass(frozen=True, slots=True)
class Erfc(Elementwise):
    """1 - erf(a) without cancellation."""

    name: ClassVar[str] = "erfc"
    cost: ClassVar[int] = 30
    compute = staticmethod(_erfc)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """-2 / sqrt(pi) exp(-x**2)."""
        return (negative(_bell(node.inputs[0])),)


@dataclass(frozen=True, slots=True)
class Sigmoid(Elementwise):
    """1 / (1 + exp(-a)), the logistic function; exact limits 0 and 1."""

    name: ClassVar[str] = "sigmoid"
    cost: ClassVar[int] = 20

    @staticmethod
    def compute(a: Array) -> Array:
        """The formula."""
        return np.asarray(1 / (1 + np.exp(-a)))

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``y (1 - y)``."""
        return (multiply(node, subtract(like(node, 1), node)),)

    def expr(self, node: Node, values: Sequence[Expr]) -> Expr:
        """The formula."""
        one = Const(1.0, values[0].dtype)
        return apply("div", one, apply("add", one, apply("exp", apply("neg", values[0]))))


sqrt = unary_builder(Sqrt())
rsqrt = unary_builder(Rsqrt())
exp = unary_builder(Exp())
exp2 = unary_builder(Exp2())
expm1 = unary_builder(Expm1())
log = unary_builder(Log())
log2 = unary_builder(Log2())
log10 = unary_builder(Log10())
log1p = unary_builder(Log1p())
erf = unary_builder(Erf())
erfc = unary_builder(Erfc())
sigmoid = unary_builder(Sigmoid())
