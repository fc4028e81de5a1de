"""Trigonometric and hyperbolic functions and their inverses, elementwise over floating point.

Angles are in radians. float16 and bfloat16 are computed in float32. Near the ends of a domain
derivatives use (1 - x) (1 + x), which keeps the precision that 1 - x**2 loses.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella.dtypes import FLOATS
from lamella.ir.node import Node
from lamella.ops import complex_parts
from lamella.ops.arithmetic import add, divide, like, multiply, negative, reciprocal, subtract
from lamella.ops.base import Sample
from lamella.ops.exponential import rsqrt
from lamella.ops.families import Elementwise, binary, unary
from lamella.ops.sampling import binary_samples, unary_samples

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
    loop_op: ClassVar[str] = "sin"
    cost: ClassVar[int] = 20
    compute = staticmethod(np.sin)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """cos(x)."""
        return (cos(node.inputs[0]),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Floats."""
        yield from unary_samples(sin, FLOATS)


@dataclass(frozen=True, slots=True)
class Cos(Elementwise):
    """Cosine of radians."""

    name: ClassVar[str] = "cos"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.cos)
    loop_op: ClassVar[str] = "cos"
    cost: ClassVar[int] = 20
    compute = staticmethod(np.cos)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """-sin(x)."""
        return (negative(sin(node.inputs[0])),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Floats."""
        yield from unary_samples(cos, FLOATS)


@dataclass(frozen=True, slots=True)
class Tan(Elementwise):
    """Tangent of radians."""

    name: ClassVar[str] = "tan"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.tan)
    loop_op: ClassVar[str] = "tan"
    cost: ClassVar[int] = 28
    compute = staticmethod(np.tan)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 + y**2."""
        return (add(multiply(node, node), like(node, 1)),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Away from the poles."""
        yield from unary_samples(tan, FLOATS, low=-1.2, high=1.2)


@dataclass(frozen=True, slots=True)
class Asin(Elementwise):
    """Inverse sine."""

    name: ClassVar[str] = "asin"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.asin)
    loop_op: ClassVar[str] = "asin"
    cost: ClassVar[int] = 24
    compute = staticmethod(np.arcsin)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / sqrt((1 - x) (1 + x))."""
        return (rsqrt(_one_minus_square(node.inputs[0])),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Inside the domain."""
        yield from unary_samples(asin, FLOATS, low=-0.8, high=0.8)


@dataclass(frozen=True, slots=True)
class Acos(Elementwise):
    """Inverse cosine."""

    name: ClassVar[str] = "acos"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.acos)
    loop_op: ClassVar[str] = "acos"
    cost: ClassVar[int] = 24
    compute = staticmethod(np.arccos)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """-1 / sqrt((1 - x) (1 + x))."""
        return (negative(rsqrt(_one_minus_square(node.inputs[0]))),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Inside the domain."""
        yield from unary_samples(acos, FLOATS, low=-0.8, high=0.8)


@dataclass(frozen=True, slots=True)
class Atan(Elementwise):
    """Inverse tangent."""

    name: ClassVar[str] = "atan"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.atan)
    loop_op: ClassVar[str] = "atan"
    cost: ClassVar[int] = 22
    compute = staticmethod(np.arctan)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / (1 + x**2)."""
        x = node.inputs[0]
        return (reciprocal(add(multiply(x, x), like(x, 1))),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Floats."""
        yield from unary_samples(atan, FLOATS)


@dataclass(frozen=True, slots=True)
class Sinh(Elementwise):
    """Hyperbolic sine."""

    name: ClassVar[str] = "sinh"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.sinh)
    loop_op: ClassVar[str] = "sinh"
    cost: ClassVar[int] = 24
    compute = staticmethod(np.sinh)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """cosh(x)."""
        return (cosh(node.inputs[0]),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Floats."""
        yield from unary_samples(sinh, FLOATS)


@dataclass(frozen=True, slots=True)
class Cosh(Elementwise):
    """Hyperbolic cosine."""

    name: ClassVar[str] = "cosh"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.cosh)
    loop_op: ClassVar[str] = "cosh"
    cost: ClassVar[int] = 22
    compute = staticmethod(np.cosh)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """sinh(x)."""
        return (sinh(node.inputs[0]),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Floats."""
        yield from unary_samples(cosh, FLOATS)


@dataclass(frozen=True, slots=True)
class Tanh(Elementwise):
    """Hyperbolic tangent."""

    name: ClassVar[str] = "tanh"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.tanh)
    loop_op: ClassVar[str] = "tanh"
    cost: ClassVar[int] = 20
    compute = staticmethod(np.tanh)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 - y**2."""
        return (subtract(like(node, 1), multiply(node, node)),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Floats."""
        yield from unary_samples(tanh, FLOATS)


@dataclass(frozen=True, slots=True)
class Asinh(Elementwise):
    """Inverse hyperbolic sine."""

    name: ClassVar[str] = "asinh"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.asinh)
    loop_op: ClassVar[str] = "asinh"
    cost: ClassVar[int] = 28
    compute = staticmethod(np.arcsinh)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / sqrt(x**2 + 1)."""
        x = node.inputs[0]
        return (rsqrt(add(multiply(x, x), like(x, 1))),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Floats."""
        yield from unary_samples(asinh, FLOATS)


@dataclass(frozen=True, slots=True)
class Acosh(Elementwise):
    """Inverse hyperbolic cosine."""

    name: ClassVar[str] = "acosh"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.acosh)
    loop_op: ClassVar[str] = "acosh"
    cost: ClassVar[int] = 26
    compute = staticmethod(np.arccosh)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / sqrt((x - 1) (x + 1)), of complex numbers root by root."""
        x = node.inputs[0]
        if x.dtype.kind == "c":
            one = like(x, 1)
            return (multiply(rsqrt(subtract(x, one)), rsqrt(add(x, one))),)
        return (rsqrt(negative(_one_minus_square(x))),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Inside the domain."""
        yield from unary_samples(acosh, FLOATS, low=1.5, high=4.0)


@dataclass(frozen=True, slots=True)
class Atanh(Elementwise):
    """Inverse hyperbolic tangent."""

    name: ClassVar[str] = "atanh"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.atanh)
    loop_op: ClassVar[str] = "atanh"
    cost: ClassVar[int] = 24
    compute = staticmethod(np.arctanh)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / ((1 - x) (1 + x))."""
        return (reciprocal(_one_minus_square(node.inputs[0])),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Inside the domain."""
        yield from unary_samples(atanh, FLOATS, low=-0.8, high=0.8)


@dataclass(frozen=True, slots=True)
class Atan2(Elementwise):
    """The angle of the point (b, a), in (-pi, pi]."""

    name: ClassVar[str] = "atan2"
    loop_op: ClassVar[str] = "atan2"
    cost: ClassVar[int] = 30
    compute = staticmethod(np.arctan2)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``b / (a**2 + b**2)``, -a / (a**2 + b**2)."""
        a, b = node.inputs
        square = add(multiply(a, a), multiply(b, b))
        return divide(b, square), negative(divide(a, square))

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """One quadrant and special values."""
        yield from binary_samples(atan2, FLOATS, low=0.3, high=2.0)


_SIN, _COS, _TAN, _ASIN, _ACOS = Sin(), Cos(), Tan(), Asin(), Acos()
_ATAN, _SINH, _COSH, _TANH, _ASINH = Atan(), Sinh(), Cosh(), Tanh(), Asinh()
_ACOSH, _ATANH, _ATAN2 = Acosh(), Atanh(), Atan2()


def sin(x: Node) -> Node:
    """Sine of radians.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> sin(ops.constant(0.5, dtypes.float32)).op
    Sin()
    """
    return unary(_SIN, x)


def cos(x: Node) -> Node:
    """Cosine of radians.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> cos(ops.constant(0.5, dtypes.float32)).op
    Cos()
    """
    return unary(_COS, x)


def tan(x: Node) -> Node:
    """Tangent of radians.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> tan(ops.constant(0.5, dtypes.float32)).op
    Tan()
    """
    return unary(_TAN, x)


def asin(x: Node) -> Node:
    """Inverse sine.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> asin(ops.constant(0.5, dtypes.float32)).op
    Asin()
    """
    return unary(_ASIN, x)


def acos(x: Node) -> Node:
    """Inverse cosine.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> acos(ops.constant(0.5, dtypes.float32)).op
    Acos()
    """
    return unary(_ACOS, x)


def atan(x: Node) -> Node:
    """Inverse tangent.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> atan(ops.constant(0.5, dtypes.float32)).op
    Atan()
    """
    return unary(_ATAN, x)


def sinh(x: Node) -> Node:
    """Hyperbolic sine.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> sinh(ops.constant(0.5, dtypes.float32)).op
    Sinh()
    """
    return unary(_SINH, x)


def cosh(x: Node) -> Node:
    """Hyperbolic cosine.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> cosh(ops.constant(0.5, dtypes.float32)).op
    Cosh()
    """
    return unary(_COSH, x)


def tanh(x: Node) -> Node:
    """Hyperbolic tangent.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> tanh(ops.constant(0.5, dtypes.float32)).op
    Tanh()
    """
    return unary(_TANH, x)


def asinh(x: Node) -> Node:
    """Inverse hyperbolic sine.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> asinh(ops.constant(0.5, dtypes.float32)).op
    Asinh()
    """
    return unary(_ASINH, x)


def acosh(x: Node) -> Node:
    """Inverse hyperbolic cosine.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> acosh(ops.constant(0.5, dtypes.float32)).op
    Acosh()
    """
    return unary(_ACOSH, x)


def atanh(x: Node) -> Node:
    """Inverse hyperbolic tangent.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> atanh(ops.constant(0.5, dtypes.float32)).op
    Atanh()
    """
    return unary(_ATANH, x)


def atan2(a: Node, b: Node) -> Node:
    """The angle of the point (b, a), in (-pi, pi].

    Raises:
        DTypeError: unless ``a`` and ``b`` are of one floating-point dtype.

    >>> from lamella import dtypes, ops
    >>> atan2(ops.constant(0.5, dtypes.float32), ops.constant(2.0, dtypes.float32)).op
    Atan2()
    """
    return binary(_ATAN2, a, b)
