"""Which dtypes each operation of the loop IR takes.

Input: an ``Apply`` or a ``Const``, or an accumulation. Output: "" if it is well formed, else what
is wrong.
"""

from __future__ import annotations

import math
from typing import Final

from lamella.dtypes import DType, int8, int32, int64
from lamella.ir.loop_text import BOOL_RESULTS
from lamella.ir.loops import APPLY_OPS, Apply, Const

__all__ = ["accumulates", "apply_kinds", "check_apply", "check_const", "identity"]

# The kinds of arguments ("b" bool, "i" signed, "u" unsigned, "f" floating point); all other
# operations take floats.
_KINDS: Final = {
    "biuf": "lt le eq ne max min",
    "iuf": "add sub mul floordiv mod fma neg abs sign pow",
    "biu": "and or xor not",
    "iu": "shl shr",
    "u": "mulhi",
    "i": "word dotbytes udotbytes",
}
_BY_OP: Final = {op: kinds for kinds, ops in _KINDS.items() for op in ops.split()}
_ACCUMULATE: Final = {"add": "iuf", "mul": "iuf", "and": "biu", "or": "biu"}


def apply_kinds(op: str) -> str:
    """The kinds of dtypes that the (last) arguments of ``op`` may have.

    >>> apply_kinds("shl"), apply_kinds("exp"), apply_kinds("cast")
    ('iu', 'f', 'biuf')
    """
    if op in ("select", "cast"):
        return "biuf"
    if op == "bitcast":
        return "iuf"
    return "i" if op == "checked_index" else _BY_OP.get(op, "f")


def check_apply(expr: Apply) -> str:
    """What is wrong with an application, apart from its arguments."""
    op, given = expr.op, [arg.dtype for arg in expr.args]
    if op not in APPLY_OPS:
        return f"{op!r} is no operation of loop IR"
    if len(given) != APPLY_OPS[op][0]:
        return f"{op} takes {APPLY_OPS[op][0]} arguments, not {len(given)}"
    shown = f"{op}({', '.join([dtype.name for dtype in given])}) -> {expr.dtype.name}"
    if op == "select":
        if given[0].kind != "b":
            return f"{shown}: the condition is bool"
        given = given[1:]
    if any(dtype is not given[0] for dtype in given):
        return f"{shown}: the arguments have one dtype"
    if given[0].kind not in apply_kinds(op) or (op == "checked_index" and given[0] is not int64):
        return f"{shown}: not an operation on {given[0].name}"
    if op == "cast":
        return ""
    if op == "word":
        return "" if (given[0], expr.dtype) == (int8, int32) else f"{shown}: int8 make int32"
    if op == "bitcast":
        right = expr.dtype.itemsize == given[0].itemsize and expr.dtype.kind in "iuf"
    elif op in BOOL_RESULTS:
        right = expr.dtype.kind == "b"
    else:
        right = expr.dtype is given[0]
    return "" if right else f"{shown}: the result has another dtype"


def check_const(const: Const) -> str:
    """What is wrong with a literal.

    >>> from lamella.dtypes import uint8
    >>> check_const(Const(300, uint8))
    '300 is not a value of uint8'
    """
    value, dtype = const.value, const.dtype
    if dtype.kind == "f":
        fits = isinstance(value, int | float)
    elif isinstance(value, float):
        fits = False
    elif dtype.kind == "b":
        fits = value in (0, 1)
    else:
        low = -(1 << (dtype.bits - 1)) if dtype.kind == "i" else 0
        fits = low <= value < low + (1 << dtype.bits)
    return "" if fits else f"{value!r} is not a value of {dtype.name}"


def accumulates(op: str, dtype: DType) -> bool:
    """Whether values of ``dtype`` are folded by ``op``."""
    return dtype.kind in _ACCUMULATE.get(op, "biuf")


def identity(op: str, dtype: DType) -> Const | None:
    """The value that ``op`` folds without effect (the value's part of it for ``argmax`` and
    ``argmin``).

    >>> from lamella.dtypes import float32
    >>> identity("max", float32)
    Const(value=-inf, dtype=lamella.float32)
    """
    if op in ("add", "or"):
        return Const(0, dtype)
    if op == "mul":
        return Const(1, dtype)
    if op == "and":
        return Const(
            True if dtype.kind == "b" else -1 if dtype.kind == "i" else (1 << dtype.bits) - 1, dtype
        )
    greatest = op in ("min", "argmin")
    if dtype.kind == "f":
        return Const(math.inf if greatest else -math.inf, dtype)
    if dtype.kind == "b":
        return Const(greatest, dtype)
    low = -(1 << (dtype.bits - 1)) if dtype.kind == "i" else 0
    return Const(low + (1 << dtype.bits) - 1 if greatest else low, dtype)
