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
from lamella.dtypes import DType, bool_, float32, float64
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
    # of what is new first: the test for nans is then no part of the chain from value to value
    pair = (new[0], old[0]) if op in ("max", "min") else (old[0], new[0])
    result = o.apply(op, pair, old[0].dtype)
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
    if op in ("max", "min") and values[0].dtype in (float32, float64) and not lanes:
        return [_extreme_lane(o, op, values[0])]
    while values[0].lanes > max(lanes, 2):
        half = values[0].lanes // 2
        low, high = ([_half(o, v, start, half) for v in values] for start in (0, half))
        values = fold_into(o, op, low, high)
    if lanes:
        return values
    first, second = ([_lane(o, v, k) for v in values] for k in (0, 1))
    return fold_into(o, op, first, second)


def _extreme_lane(o: Operations, op: str, value: Value) -> Value:
    """The largest or smallest lane; whether one is a nan is asked once for all."""
    t = vtype("i1", value.lanes)
    nan = o.compare("fcmp uno", value, value)
    text = o.b.call(f"llvm.vector.reduce.or.v{value.lanes}i1", "i1", (t, nan.text))
    found = o.emit(text, bool_, 0, nan)
    predicate = "fcmp ogt" if op == "max" else "fcmp olt"
    while value.lanes > 2:
        half = value.lanes // 2
        low, high = (_half(o, value, start, half) for start in (0, half))
        value = o.select(o.compare(predicate, low, high), low, high)
    first, second = (_lane(o, value, k) for k in (0, 1))
    best = o.select(o.compare(predicate, first, second), first, second)
    return o.select(found, o.const(float("nan"), best.dtype, 0), best)


def _half(o: Operations, value: Value, start: int, count: int) -> Value:
    if value.lanes != 2 * count:
        raise CompilerError(
            f"[llvm] a reduction over {value.lanes} lanes, which is no power of two"
        )
    if value.const is not None:
        return o.b.splat(constant(value.const, value.dtype), count)
    return o.b.shuffle(range(start, start + count), value)


def _lane(o: Operations, value: Value, lane: int) -> Value:
    if value.const is not None:
        return constant(value.const, value.dtype)
    t = vtype(scalar_type(value.dtype), value.lanes)
    return o.emit(f"extractelement {t} {value.text}, i64 {lane}", value.dtype, 0, value)
