"""Accumulation as LLVM text: identities, folding a value in, and combining the lanes of partial
accumulators.

The lanes of a vector are combined by halves (lane i with lane i + n/2, and so on), always in this
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lamella.compiler.emit.llvm_builder import Value, constant, scalar_type, vtype
from lamella.compiler.emit.llvm_ops import Operations
from lamella.dtypes import DType, bool_
from lamella.errors import CompilerError

__all__ = ["fold_into", "fold_lanes", "identity"]

Scalar = bool | int | float


def _limit(dtype: DType, *, greatest: bool) -> Scalar:
    if dtype.kind == "f":
        return float("inf") if greatest else float("-inf")
    if dtype.kind == "b":
        return greatest
    if dtype.kind == "u":
        return (1 << dtype.bits) - 1 if greatest else 0
    return (1 << (dtype.bits - 1)) - 1 if greatest else -(1 << (dtype.bits - 1))


_IDENTITY: Final = {"add": 0, "mul": 1, "or": 0, "and": -1}


def identity(op: str, dtypes: Sequence[DType]) -> list[Value]:
    """The values that change nothing when folded in, one per variable of the accumulation.

    >>> from lamella.dtypes import int8
    >>> identity("max", [int8])[0].const
    -128
    """
    first = dtypes[0]
    if op in _IDENTITY:
        return [constant(_IDENTITY[op], first)]
    extreme = constant(_limit(first, greatest=op in ("min", "argmin")), first)
    return [extreme, *(constant(_limit(d, greatest=True), d) for d in dtypes[1:])]


def fold_into(o: Operations, op: str, old: Sequence[Value], new: Sequence[Value]) -> list[Value]:
    """The variables ``old`` with the values ``new`` folded in."""
    if op in ("argmax", "argmin"):
        return _fold_pair(o, op, old, new)
    result = o.apply(op, (old[0], new[0]), old[0].dtype)
    return [o.b.spread(result)]


def _fold_pair(o: Operations, op: str, old: Sequence[Value], new: Sequence[Value]) -> list[Value]:
    """(value, index): the better value, then the lower index; a nan is better than any number."""
    (best, at), (value, index) = old, new
    ahead, behind = (best, value) if op == "argmax" else (value, best)
    better = _test(o, "lt", ahead, behind)
    tie = _test(o, "eq", best, value)
    if value.dtype.kind == "f":
        new_nan, old_nan = _test(o, "isnan", value), _test(o, "isnan", best)
        better = _both(
            o, "or", better, _both(o, "and", new_nan, o.b.spread(o.apply("not", (old_nan,), bool_)))
        )
        tie = _both(o, "or", tie, _both(o, "and", new_nan, old_nan))
    take = _both(o, "or", better, _both(o, "and", tie, _test(o, "lt", index, at)))
    return [o.select(take, value, best), o.select(take, index, at)]


def _test(o: Operations, op: str, *values: Value) -> Value:
    return o.b.spread(o.apply(op, values, bool_))


def _both(o: Operations, op: str, a: Value, b: Value) -> Value:
    return o.b.spread(o.apply(op, (a, b), bool_))


def fold_lanes(o: Operations, op: str, parts: Sequence[Value], lanes: int) -> list[Value]:
    """Partial accumulators folded by halves down to ``lanes`` lanes (0: to scalars)."""
    values = list(parts)
    while values[0].lanes > max(lanes, 2):
        half = values[0].lanes // 2
        low, high = ([_half(o, v, start, half) for v in values] for start in (0, half))
        values = fold_into(o, op, low, high)
    if lanes:
        return values
    first, second = ([_lane(o, v, k) for v in values] for k in (0, 1))
    return fold_into(o, op, first, second)


def _half(o: Operations, value: Value, start: int, count: int) -> Value:
    if value.lanes != 2 * count:
        raise CompilerError(
            f"[llvm] a reduction over {value.lanes} lanes, which is no power of two"
        )
    if value.const is not None:
        return o.b.splat(constant(value.const, value.dtype), count)
    t = vtype(scalar_type(value.dtype), value.lanes)
    order = ", ".join(f"i32 {start + k}" for k in range(count))
    text = f"shufflevector {t} {value.text}, {t} poison, <{count} x i32> <{order}>"
    return o.emit(text, value.dtype, count, value)


def _lane(o: Operations, value: Value, lane: int) -> Value:
    if value.const is not None:
        return constant(value.const, value.dtype)
    t = vtype(scalar_type(value.dtype), value.lanes)
    return o.emit(f"extractelement {t} {value.text}, i64 {lane}", value.dtype, 0, value)
