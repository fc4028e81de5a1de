"""The meaning of every operation of loop IR expressions on single values, in plain Python.

Input: an operation of ``APPLY_OPS``, its arguments as Python values and the dtypes. Output: a
Python bool, int or float that the result dtype represents exactly. Arithmetic on floats runs in
double precision and is rounded once to the dtype, which for + - * / and square root gives the
correctly rounded result; ``fma`` is computed exactly. ``floordiv`` and ``mod`` of floats are those
of the exact quotient, as in NumPy. Elementary functions are those of NumPy in double precision.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from lamella.dtypes import DType
from lamella.errors import CompilerError

__all__ = ["Scalar", "better", "cast", "evaluate", "round_to", "wrap"]

Scalar = bool | int | float

# (bits of precision, exponent of the least positive number, least power of two that overflows)
_FORMATS: Final = {
    "float16": (11, -24, 16),
    "bfloat16": (8, -133, 128),
    "float32": (24, -149, 128),
    "float64": (53, -1074, 1024),
}


def wrap(value: int, dtype: DType) -> int:
    """An integer modulo ``2**bits``, in the dtype's range.

    >>> from lamella.dtypes import int8
    >>> wrap(200, int8)
    -56
    """
    value &= (1 << dtype.bits) - 1
    if dtype.kind == "i" and value >> (dtype.bits - 1):
        value -= 1 << dtype.bits
    return value


def _round_exact(value: Fraction, dtype: DType) -> float:
    """A non-zero rational rounded once, to nearest even."""
    precision, least, overflow = _FORMATS[dtype.name]
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    quantum = max(exponent - precision + 1, least)
    digits = round(size / Fraction(2) ** quantum)
    big = digits.bit_length() + quantum > overflow
    rounded = math.inf if big else math.ldexp(digits, quantum)
    return -rounded if value < 0 else rounded


def round_to(value: float, dtype: DType) -> float:
    """A double rounded once to a floating-point dtype, to nearest even.

    >>> from lamella.dtypes import float16
    >>> round_to(0.1, float16), round_to(1e6, float16)
    (0.0999755859375, inf)
    """
    name = dtype.name
    if name == "float64":
        return value
    if name == "float32":
        return ctypes.c_float(value).value
    if value == 0.0 or not math.isfinite(value):
        return value
    return _round_exact(Fraction(value), dtype)


def cast(value: Scalar, source: DType, dtype: DType) -> Scalar:
    """Value conversion, as ``cast`` of ``APPLY_OPS`` states it.

    >>> from lamella.dtypes import float32, uint8
    >>> cast(-3.5, float32, uint8), cast(float("nan"), float32, uint8), cast(300, uint8, float32)
    (0, 0, 300.0)
    """
    if dtype.kind == "b":
        return value != 0
    if dtype.kind == "f":
        if source.kind == "f":
            return round_to(float(value), dtype)
        return _round_exact(Fraction(int(value)), dtype) if value else 0.0
    if source.kind != "f":
        return wrap(int(value), dtype)
    if math.isnan(value):
        return 0
    low = -(1 << (dtype.bits - 1)) if dtype.kind == "i" else 0
    high = low + (1 << dtype.bits) - 1
    if math.isinf(value):
        return high if value > 0 else low
    return min(max(math.trunc(value), low), high)


def better(op: str, value: Scalar, than: Scalar) -> bool:
    """Whether ``value`` strictly wins over ``than`` in ``argmax`` or ``argmin``; a nan wins over
    any number.

    >>> better("argmax", float("nan"), 1.0), better("argmin", 2, 2)
    (True, False)
    """
    if than != than:
        return False
    return value != value or (value > than if op == "argmax" else value < than)


def _larger(a: Scalar, b: Scalar) -> Scalar:
    if a != a or b != b:
        return a if a != a else b
    if a == b == 0:
        return b if math.copysign(1.0, a) < 0 else a
    return max(a, b)


def _smaller(a: Scalar, b: Scalar) -> Scalar:
    if a != a or b != b:
        return a if a != a else b
    if a == b == 0:
        return a if math.copysign(1.0, a) < 0 else b
    return min(a, b)


def _int_pow(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 64)
    return 0 if a not in (1, -1) else a if b % 2 else 1


def _shift_right(a: int, b: int, dtype: DType) -> int:
    return a >> b if 0 <= b < dtype.bits else -int(a < 0)


_INTEGER: Final[dict[str, Callable[..., int]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: a * b + c,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "neg": lambda a: -a,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "max": max,
    "min": min,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
    "pow": _int_pow,
}

_COMPARE: Final[dict[str, Callable[..., bool]]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "signbit": lambda a: math.copysign(1.0, a) < 0,
}


def _divide(a: float, b: float) -> float:
    if b != 0.0:
        return a / b
    return math.nan if a == 0.0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _float_floordiv(a: float, b: float) -> float:
    return a // b if b != 0.0 else _divide(a, b)


def _float_pow(a: float, b: float) -> float:
    """C's pow; NumPy takes a square root for b = 0.5, which is nan at -inf."""
    odd = b % 2 == 1
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and odd else math.inf
    except ValueError:
        if a != 0.0:
            return math.nan
        return math.copysign(math.inf, a) if odd else math.inf


def _sign(a: float) -> float:
    return a if a == 0.0 or a != a else math.copysign(1.0, a)


def _numpy(function: Callable[..., object]) -> Callable[..., float]:
    return lambda *args: float(function(*[np.float64(a) for a in args]))  # type: ignore[arg-type]


_FLOAT: Final[dict[str, Callable[..., float]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide,
    "floordiv": _float_floordiv,
    "mod": lambda a, b: a % b if b != 0.0 else math.nan,
    "neg": lambda a: -a,
    "abs": abs,
    "sign": _sign,
    "max": _larger,
    "min": _smaller,
    "copysign": math.copysign,
    "ldexp": lambda a, b: float(np.ldexp(a, int(b))) if math.isfinite(b) else math.nan,
    "erf": math.erf,
    "erfc": math.erfc,
    "round": _numpy(np.rint),
    "pow": _float_pow,
    "asin": _numpy(np.arcsin),
    "acos": _numpy(np.arccos),
    "atan": _numpy(np.arctan),
    "atan2": _numpy(np.arctan2),
    "asinh": _numpy(np.arcsinh),
    "acosh": _numpy(np.arccosh),
    "atanh": _numpy(np.arctanh),
}
for _name in (
    "floor", "ceil", "trunc", "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
    "sin", "cos", "tan", "sinh", "cosh", "tanh",
):  # fmt: skip
    _FLOAT[_name] = _numpy(getattr(np, _name))


def _float_fma(a: float, b: float, c: float, dtype: DType) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if a == 0.0 or b == 0.0 else 0.0
    return _round_exact(exact, dtype)


def _on_floats(op: str, args: Sequence[float], dtype: DType) -> float:
    if op == "fma":
        return _float_fma(args[0], args[1], args[2], dtype)
    if op == "rsqrt":
        return round_to(_divide(1.0, round_to(_FLOAT["sqrt"](*args), dtype)), dtype)
    return round_to(_FLOAT[op](*args), dtype)


def _dot_bytes(op: str, args: Sequence[int], dtype: DType) -> int:
    """c + the sum of the products of the bytes of a and b."""
    a, b, c = args
    pairs = [((a >> at) & 255, (b >> at) & 255) for at in range(0, dtype.bits, 8)]
    signed = [(x if op == "udotbytes" else (x ^ 128) - 128, (y ^ 128) - 128) for x, y in pairs]
    return wrap(c + sum(x * y for x, y in signed), dtype)


def _on_integers(op: str, args: Sequence[int], dtype: DType) -> int:
    if op == "shl":
        return wrap(args[0] << args[1], dtype) if 0 <= args[1] < dtype.bits else 0
    if op == "shr":
        return _shift_right(args[0], args[1], dtype)
    if op == "word":
        return wrap(sum((byte & 255) << 8 * at for at, byte in enumerate(args)), dtype)
    if op in ("dotbytes", "udotbytes"):
        return _dot_bytes(op, args, dtype)
    if op == "mulhi":
        return args[0] * args[1] >> dtype.bits
    return wrap(_INTEGER[op](*args), dtype)


def _on_bools(op: str, args: Sequence[bool]) -> bool:
    return not args[0] if op == "not" else bool(_INTEGER[op](*args))


def _bitcast(value: Scalar, source: DType, dtype: DType) -> Scalar:
    bits = np.asarray([value]).astype(source.numpy).view(dtype.numpy)[0]
    return float(bits) if dtype.kind == "f" else int(bits)


def evaluate(op: str, args: Sequence[Scalar], dtypes: Sequence[DType], dtype: DType) -> Scalar:
    """``op`` of ``args`` (whose dtypes are ``dtypes``) with a result of ``dtype``.

    ``select`` chooses among values already computed; ``checked_index`` needs a kernel and is not
    here.

    Raises:
        CompilerError: if the operation is not defined for these dtypes.

    >>> from lamella.dtypes import int32
    >>> evaluate("floordiv", [-7, 2], [int32, int32], int32)
    -4
    """
    try:
        if op == "select":
            return args[1] if args[0] else args[2]
        if op == "cast":
            return cast(args[0], dtypes[0], dtype)
        if op == "bitcast":
            return _bitcast(args[0], dtypes[0], dtype)
        if op in _COMPARE:
            return _COMPARE[op](*args)
        if dtype.kind == "f":
            return _on_floats(op, args, dtype)
        return _on_bools(op, args) if dtype.kind == "b" else _on_integers(op, args, dtype)  # type: ignore[arg-type]
    except KeyError:
        given = ", ".join([d.name for d in dtypes])
        raise CompilerError(f"[{op}] has no meaning on ({given}) -> {dtype.name}") from None
