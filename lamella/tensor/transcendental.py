"""Functions of one real variable, applied at every element.

Each takes a tensor (or anything :func:`lamella.asarray` takes) and returns one of the same shape
and floating-point type; integers and bools are cast to float32 first. Derivatives are recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lamella import ops
from lamella.tensor.core import wrap
from lamella.tensor.operands import TensorLike, as_float, as_node, primitive, unary

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp",
    "exp2", "expm1", "log", "log10", "log1p", "log2", "rsqrt", "sigmoid", "sin", "sinh",
    "sqrt", "tan", "tanh",
]  # fmt: skip

_EXP: Final = primitive("exp")
_EXP2: Final = primitive("exp2")
_EXPM1: Final = primitive("expm1")
_LOG: Final = primitive("log")
_LOG2: Final = primitive("log2")
_LOG10: Final = primitive("log10")
_LOG1P: Final = primitive("log1p")
_SQRT: Final = primitive("sqrt")
_RSQRT: Final = primitive("rsqrt")
_SIN: Final = primitive("sin")
_COS: Final = primitive("cos")
_TAN: Final = primitive("tan")
_ASIN: Final = primitive("asin")
_ACOS: Final = primitive("acos")
_ATAN: Final = primitive("atan")
_SINH: Final = primitive("sinh")
_COSH: Final = primitive("cosh")
_TANH: Final = primitive("tanh")
_ASINH: Final = primitive("asinh")
_ACOSH: Final = primitive("acosh")
_ATANH: Final = primitive("atanh")
_ERF: Final = primitive("erf")
_ERFC: Final = primitive("erfc")


def exp(x: TensorLike) -> Tensor:
    """The exponential ``e**x``, elementwise.

    >>> exp(0.0).item()
    1.0
    """
    return unary(_EXP, ops.exp, x)


def exp2(x: TensorLike) -> Tensor:
    """``2**x``, elementwise.

    >>> exp2(3.0).item()
    8.0
    """
    return unary(_EXP2, ops.exp2, x)


def expm1(x: TensorLike) -> Tensor:
    """``e**x - 1``, exact for small ``x``.

    >>> expm1(0.0).item()
    0.0
    """
    return unary(_EXPM1, ops.expm1, x)


def log(x: TensorLike) -> Tensor:
    """The natural logarithm; -inf at 0, nan below.

    >>> log(1.0).item()
    0.0
    """
    return unary(_LOG, ops.log, x)


def log2(x: TensorLike) -> Tensor:
    """The logarithm to base 2.

    >>> log2(8.0).item()
    3.0
    """
    return unary(_LOG2, ops.log2, x)


def log10(x: TensorLike) -> Tensor:
    """The logarithm to base 10.

    >>> log10(1.0).item()
    0.0
    """
    return unary(_LOG10, ops.log10, x)


def log1p(x: TensorLike) -> Tensor:
    """``log(1 + x)``, exact for small ``x``.

    >>> log1p(0.0).item()
    0.0
    """
    return unary(_LOG1P, ops.log1p, x)


def sqrt(x: TensorLike) -> Tensor:
    """The square root; nan below 0.

    >>> sqrt(9.0).item()
    3.0
    """
    return unary(_SQRT, ops.sqrt, x)


def rsqrt(x: TensorLike) -> Tensor:
    """``1 / sqrt(x)``.

    >>> rsqrt(4.0).item()
    0.5
    """
    return unary(_RSQRT, ops.rsqrt, x)


def sin(x: TensorLike) -> Tensor:
    """The sine of ``x`` radians.

    >>> sin(0.0).item()
    0.0
    """
    return unary(_SIN, ops.sin, x)


def cos(x: TensorLike) -> Tensor:
    """The cosine of ``x`` radians.

    >>> cos(0.0).item()
    1.0
    """
    return unary(_COS, ops.cos, x)


def tan(x: TensorLike) -> Tensor:
    """The tangent of ``x`` radians.

    >>> tan(0.0).item()
    0.0
    """
    return unary(_TAN, ops.tan, x)


def asin(x: TensorLike) -> Tensor:
    """The inverse sine, in [-π/2, π/2].

    >>> asin(0.0).item()
    0.0
    """
    return unary(_ASIN, ops.asin, x)


def acos(x: TensorLike) -> Tensor:
    """The inverse cosine, in [0, π].

    >>> acos(1.0).item()
    0.0
    """
    return unary(_ACOS, ops.acos, x)


def atan(x: TensorLike) -> Tensor:
    """The inverse tangent, in [-π/2, π/2].

    >>> atan(0.0).item()
    0.0
    """
    return unary(_ATAN, ops.atan, x)


def sinh(x: TensorLike) -> Tensor:
    """The hyperbolic sine.

    >>> sinh(0.0).item()
    0.0
    """
    return unary(_SINH, ops.sinh, x)


def cosh(x: TensorLike) -> Tensor:
    """The hyperbolic cosine.

    >>> cosh(0.0).item()
    1.0
    """
    return unary(_COSH, ops.cosh, x)


def tanh(x: TensorLike) -> Tensor:
    """The hyperbolic tangent.

    >>> tanh(0.0).item()
    0.0
    """
    return unary(_TANH, ops.tanh, x)


def asinh(x: TensorLike) -> Tensor:
    """The inverse hyperbolic sine.

    >>> asinh(0.0).item()
    0.0
    """
    return unary(_ASINH, ops.asinh, x)


def acosh(x: TensorLike) -> Tensor:
    """The inverse hyperbolic cosine; nan below 1.

    >>> acosh(1.0).item()
    0.0
    """
    return unary(_ACOSH, ops.acosh, x)


def atanh(x: TensorLike) -> Tensor:
    """The inverse hyperbolic tangent; nan outside [-1, 1].

    >>> atanh(0.0).item()
    0.0
    """
    return unary(_ATANH, ops.atanh, x)


def erf(x: TensorLike) -> Tensor:
    """The error function ``2/√π ∫₀ˣ exp(-t²) dt``.

    >>> erf(0.0).item()
    0.0
    """
    return unary(_ERF, ops.erf, x)


def erfc(x: TensorLike) -> Tensor:
    """``1 - erf(x)``, exact for large ``x``.

    >>> erfc(0.0).item()
    1.0
    """
    return unary(_ERFC, ops.erfc, x)


def sigmoid(x: TensorLike) -> Tensor:
    """The logistic function ``1 / (1 + exp(-x))``, stable for any ``x``.

    >>> sigmoid(0.0).item()
    0.5
    """
    return wrap(ops.sigmoid(as_float(as_node(x))))
