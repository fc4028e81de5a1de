"""Powers, exponentials, logarithms and the error function, elementwise over floating point.

float16 and bfloat16 are computed in float32. Derivatives use the result where that loses no
precision (exp, sqrt, expm1).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella.dtypes import FLOATS
from lamella.ir.loops import Const, Expr, apply
from lamella.ir.node import Node
from lamella.ops import complex_parts
from lamella.ops.arithmetic import add, divide, like, multiply, negative, reciprocal, subtract
from lamella.ops.base import Array, Sample
from lamella.ops.families import Elementwise, unary
from lamella.ops.sampling import unary_samples

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
    loop_op: ClassVar[str] = "sqrt"
    cost: ClassVar[int] = 6
    compute = staticmethod(np.sqrt)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / (2 y)."""
        return (divide(like(node, 0.5), node),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Away from 0."""
        yield from unary_samples(sqrt, FLOATS, low=0.2, high=4.0)


@dataclass(frozen=True, slots=True)
class Rsqrt(Elementwise):
    """1 / sqrt(a)."""

    name: ClassVar[str] = "rsqrt"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.rsqrt)
    loop_op: ClassVar[str] = "rsqrt"
    cost: ClassVar[int] = 8
    compute = staticmethod(_rsqrt)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """-y / (2 x)."""
        x = node.inputs[0]
        return (multiply(like(x, -0.5), divide(node, x)),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Away from 0."""
        yield from unary_samples(rsqrt, FLOATS, low=0.2, high=4.0)


@dataclass(frozen=True, slots=True)
class Exp(Elementwise):
    """``e ** a``."""

    name: ClassVar[str] = "exp"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.exp)
    loop_op: ClassVar[str] = "exp"
    cost: ClassVar[int] = 14
    compute = staticmethod(np.exp)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """Y."""
        return (node,)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Floats."""
        yield from unary_samples(exp, FLOATS)


@dataclass(frozen=True, slots=True)
class Exp2(Elementwise):
    """2 ** a."""

    name: ClassVar[str] = "exp2"
    loop_op: ClassVar[str] = "exp2"
    cost: ClassVar[int] = 12
    compute = staticmethod(np.exp2)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """log(2) y."""
        return (multiply(node, like(node, math.log(2))),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Floats."""
        yield from unary_samples(exp2, FLOATS)


@dataclass(frozen=True, slots=True)
class Expm1(Elementwise):
    """``e ** a - 1`` without cancellation."""

    name: ClassVar[str] = "expm1"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.expm1)
    loop_op: ClassVar[str] = "expm1"
    cost: ClassVar[int] = 20
    compute = staticmethod(np.expm1)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """``y + 1``."""
        return (add(node, like(node, 1)),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Floats."""
        yield from unary_samples(expm1, FLOATS)


@dataclass(frozen=True, slots=True)
class Log(Elementwise):
    """Natural logarithm."""

    name: ClassVar[str] = "log"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.log)
    loop_op: ClassVar[str] = "log"
    cost: ClassVar[int] = 18
    compute = staticmethod(np.log)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / x."""
        return (reciprocal(node.inputs[0]),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Positive."""
        yield from unary_samples(log, FLOATS, low=0.2, high=4.0)


@dataclass(frozen=True, slots=True)
class Log2(Elementwise):
    """Logarithm to base 2."""

    name: ClassVar[str] = "log2"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.log2)
    loop_op: ClassVar[str] = "log2"
    cost: ClassVar[int] = 18
    compute = staticmethod(np.log2)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / (x log(2))."""
        x = node.inputs[0]
        return (reciprocal(multiply(x, like(x, math.log(2)))),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Positive."""
        yield from unary_samples(log2, FLOATS, low=0.2, high=4.0)


@dataclass(frozen=True, slots=True)
class Log10(Elementwise):
    """Logarithm to base 10."""

    name: ClassVar[str] = "log10"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.log10)
    loop_op: ClassVar[str] = "log10"
    cost: ClassVar[int] = 18
    compute = staticmethod(np.log10)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / (x log(10))."""
        x = node.inputs[0]
        return (reciprocal(multiply(x, like(x, math.log(10)))),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Positive."""
        yield from unary_samples(log10, FLOATS, low=0.2, high=4.0)


@dataclass(frozen=True, slots=True)
class Log1p(Elementwise):
    """log(1 + a) without cancellation."""

    name: ClassVar[str] = "log1p"
    kinds: ClassVar[str] = "fc"
    split = staticmethod(complex_parts.log1p)
    loop_op: ClassVar[str] = "log1p"
    cost: ClassVar[int] = 22
    compute = staticmethod(np.log1p)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """1 / (1 + x)."""
        x = node.inputs[0]
        return (reciprocal(add(x, like(x, 1))),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Above -1."""
        yield from unary_samples(log1p, FLOATS, low=-0.6, high=2.0)


@dataclass(frozen=True, slots=True)
class Erf(Elementwise):
    """Error function."""

    name: ClassVar[str] = "erf"
    loop_op: ClassVar[str] = "erf"
    cost: ClassVar[int] = 24
    compute = staticmethod(_erf)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """2 / sqrt(pi) exp(-x**2)."""
        return (_bell(node.inputs[0]),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Floats."""
        yield from unary_samples(erf, FLOATS)


@dataclass(frozen=True, slots=True)
class Erfc(Elementwise):
    """1 - erf(a) without cancellation."""

    name: ClassVar[str] = "erfc"
    loop_op: ClassVar[str] = "erfc"
    cost: ClassVar[int] = 30
    compute = staticmethod(_erfc)

    def partials(self, node: Node) -> Sequence[Node | None]:
        """-2 / sqrt(pi) exp(-x**2)."""
        return (negative(_bell(node.inputs[0])),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Floats."""
        yield from unary_samples(erfc, FLOATS)


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

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Floats."""
        yield from unary_samples(sigmoid, FLOATS)


_SQRT, _RSQRT, _EXP, _EXP2, _EXPM1 = Sqrt(), Rsqrt(), Exp(), Exp2(), Expm1()
_LOG, _LOG2, _LOG10, _LOG1P, _ERF = Log(), Log2(), Log10(), Log1p(), Erf()
_ERFC, _SIGMOID = Erfc(), Sigmoid()


def sqrt(x: Node) -> Node:
    """Square root; derivative inf at 0.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> sqrt(ops.constant(0.5, dtypes.float32)).op
    Sqrt()
    """
    return unary(_SQRT, x)


def rsqrt(x: Node) -> Node:
    """1 / sqrt(a).

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> rsqrt(ops.constant(0.5, dtypes.float32)).op
    Rsqrt()
    """
    return unary(_RSQRT, x)


def exp(x: Node) -> Node:
    """``e ** a``.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> exp(ops.constant(0.5, dtypes.float32)).op
    Exp()
    """
    return unary(_EXP, x)


def exp2(x: Node) -> Node:
    """2 ** a.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> exp2(ops.constant(0.5, dtypes.float32)).op
    Exp2()
    """
    return unary(_EXP2, x)


def expm1(x: Node) -> Node:
    """``e ** a - 1`` without cancellation.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> expm1(ops.constant(0.5, dtypes.float32)).op
    Expm1()
    """
    return unary(_EXPM1, x)


def log(x: Node) -> Node:
    """Natural logarithm.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> log(ops.constant(0.5, dtypes.float32)).op
    Log()
    """
    return unary(_LOG, x)


def log2(x: Node) -> Node:
    """Logarithm to base 2.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> log2(ops.constant(0.5, dtypes.float32)).op
    Log2()
    """
    return unary(_LOG2, x)


def log10(x: Node) -> Node:
    """Logarithm to base 10.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> log10(ops.constant(0.5, dtypes.float32)).op
    Log10()
    """
    return unary(_LOG10, x)


def log1p(x: Node) -> Node:
    """log(1 + a) without cancellation.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> log1p(ops.constant(0.5, dtypes.float32)).op
    Log1p()
    """
    return unary(_LOG1P, x)


def erf(x: Node) -> Node:
    """Error function.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> erf(ops.constant(0.5, dtypes.float32)).op
    Erf()
    """
    return unary(_ERF, x)


def erfc(x: Node) -> Node:
    """1 - erf(a) without cancellation.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> erfc(ops.constant(0.5, dtypes.float32)).op
    Erfc()
    """
    return unary(_ERFC, x)


def sigmoid(x: Node) -> Node:
    """1 / (1 + exp(-x)), the logistic function.

    Raises:
        DTypeError: unless ``x`` is floating point.

    >>> from lamella import dtypes, ops
    >>> sigmoid(ops.constant(0.5, dtypes.float32)).op
    Sigmoid()
    """
    return unary(_SIGMOID, x)
