"""LLVM text for the operations of expressions (``ir.loops.APPLY_OPS``), on scalars and vectors
alike.

Input: an operation's name and its operands as values. Output: a value. Constants are folded, ramps
stay ramps where they can, float16 and bfloat16 are computed in wider formats; the rest is in
``llvm_rules``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lamella.compiler.emit.llvm_builder import (
    Builder,
    Ramp,
    Value,
    constant,
    mangle,
    scalar_type,
    vtype,
)  # fmt: skip
from lamella.compiler.emit.llvm_convert import cast
from lamella.compiler.emit.llvm_rules import OPS, negated
from lamella.compiler.emit.target import Target
from lamella.dtypes import DType, bool_, float32, float64, int64
from lamella.errors import CompilerError

__all__ = ["Operations"]

Scalar = bool | int | float


class Operations:
    """The operations for one function: ``apply(op, args, dtype)``."""

    def __init__(self, builder: Builder, target: Target) -> None:
        self.b: Builder = builder
        self.target: Target = target
        self.contract = " contract" if target.contract else ""

    def apply(self, op: str, args: Sequence[Value | Ramp], dtype: DType) -> Value | Ramp:
        """The value of ``op`` on ``args``."""
        if all(a.const is not None for a in args):
            folded = _fold(op, args, dtype)
            if folded is not None:
                return folded
        quick = self.apply_ramp(op, args)
        if quick is not None:
            return quick
        if op not in OPS:
            raise CompilerError(
                f"[llvm] no instruction for {op!r}; expand_math must come before the emitter"
            )
        lanes, values = self.b.uniform_lanes(*args)
        if op in _FREE:
            return OPS[op](self, values, dtype, lanes)
        last = values[-1].dtype
        if last.kind == "f" and last.bits == 16:
            return self._in_wider(op, values, dtype, lanes)
        return OPS[op](self, values, dtype, lanes)

    def apply_ramp(self, op: str, args: Sequence[Value | Ramp]) -> Value | Ramp | None:
        """The value of ``op`` where a ramp among ``args`` makes it simpler, else None."""
        if op in _ON_RAMPS and any(isinstance(a, Ramp) for a in args):
            return _ON_RAMPS[op](self, op, args)
        return None

    def _in_wider(self, op: str, values: list[Value], dtype: DType, lanes: int) -> Value:
        """16-bit floats in float32, where one operation and a second rounding are as good as one;
        some need float64.
        """
        if op == "rsqrt":
            return self._in_wider(
                "div",
                [self.const(1.0, dtype, lanes), self._in_wider("sqrt", values, dtype, lanes)],
                dtype,
                lanes,
            )
        inner = float64 if op == "fma" else float32
        wide = [cast(self.b, self.target, v, inner) for v in values]
        result = inner if dtype.kind == "f" else dtype
        return cast(self.b, self.target, OPS[op](self, wide, result, lanes), dtype)

    # -- helpers -----------------------------------------------------------------------------------
    def emit(self, text: str, dtype: DType, lanes: int, *values: Value) -> Value:
        """A pure instruction on ``values``."""
        place = 0
        for value in values:
            if value.place > place:
                place = value.place
        return self.b.pure(text, dtype, lanes, place)

    def const(self, value: Scalar, dtype: DType, lanes: int) -> Value:
        """A literal in all lanes."""
        return self.b.splat(constant(value, dtype), lanes)

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        """``icmp`` or ``fcmp`` with a predicate given in full (``"icmp slt"``)."""
        t = vtype(scalar_type(a.dtype), a.lanes)
        return self.emit(f"{predicate} {t} {a.text}, {b.text}", bool_, a.lanes, a, b)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """``a`` where ``condition`` else ``b``, all of one number of lanes."""
        t = vtype(scalar_type(a.dtype), a.lanes)
        m = vtype("i1", condition.lanes)
        text = f"select {m} {condition.text}, {t} {a.text}, {t} {b.text}"
        return self.emit(text, a.dtype, a.lanes, condition, a, b)

    def binary(self, op: str, a: Value, b: Value) -> Value:
        """An instruction with two operands of one type."""
        t = vtype(scalar_type(a.dtype), a.lanes)
        return self.emit(f"{op} {t} {a.text}, {b.text}", a.dtype, a.lanes, a, b)

    def intrinsic(
        self, name: str, *values: Value, extra: tuple[tuple[str, str], ...] = ()
    ) -> Value:
        """``llvm.NAME`` overloaded on the operands' type."""
        first = values[0]
        scalar = scalar_type(first.dtype)
        t = vtype(scalar, first.lanes)
        text = self.b.call(
            f"llvm.{name}.{mangle(scalar, first.lanes)}", t, *[(t, v.text) for v in values], *extra
        )
        return self.emit(text, first.dtype, first.lanes, *values)

    def reinterpret(self, value: Value, dtype: DType) -> Value:
        """The same bits as another dtype of the same size."""
        source, wanted = (vtype(scalar_type(d), value.lanes) for d in (value.dtype, dtype))
        if source == wanted:
            return Value(value.text, dtype, value.lanes, value.place, None)
        return self.emit(f"bitcast {source} {value.text} to {wanted}", dtype, value.lanes, value)


_FREE: Final = frozenset(
    {"select", "cast", "bitcast"}
)  # these take float16 and bfloat16 as they are


# -- what is known before the program runs ---------------------------------------------------------
def _int_floordiv(a: int, b: int) -> int:
    return a // b if b else 0


def _int_mod(a: int, b: int) -> int:
    return a - (a // b) * b if b else 0


_FOLDS: Final[dict[str, Callable[..., Scalar]]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "floordiv": _int_floordiv, "mod": _int_mod, "max": max, "min": min, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
}  # fmt: skip
_LOGIC: Final[dict[str, Callable[..., Scalar]]] = {
    "and": lambda a, b: a and b, "or": lambda a, b: a or b, "xor": lambda a, b: a != b,
    "not": lambda a: not a,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
}  # fmt: skip


def _fold(op: str, args: Sequence[Value | Ramp], dtype: DType) -> Value | None:
    kind = args[0].dtype.kind
    table = _LOGIC if kind == "b" else _FOLDS if kind in "iu" else {}
    if op not in table or any(a.lanes for a in args):
        return None
    return constant(table[op](*[a.const for a in args]), dtype)


# -- ramps -----------------------------------------------------------------------------------------
def _ramp_divided(o: Operations, op: str, args: Sequence[Value | Ramp]) -> Value | Ramp | None:
    """(base + step) // d and mod d, for steps 0, 1, … along the lanes: where no lane crosses a
    multiple of d, uniform, and a ramp again; where d steps at a time do not, a ramp whose numbers
    repeat d times as often.
    """
    ramp, by = args
    if not isinstance(ramp, Ramp) or not isinstance(by, Value) or ramp.stride != 1:
        return None
    steps, d = ramp.lanes // ramp.repeat, by.const
    if not isinstance(d, int) or d <= 0:
        return None
    if op == "floordiv" and d < steps and steps % d == 0 and ramp.align % d == 0:
        base = o.b.spread(o.apply(op, (ramp.base, by), int64))
        align = steps // d if ramp.align % steps == 0 else 1
        return Ramp(base, 1, ramp.lanes, align, base.place, ramp.repeat * d)
    if d % steps or ramp.align % steps:
        return None
    base = o.b.spread(o.apply(op, (ramp.base, by), int64))
    if op == "floordiv":
        return base
    return Ramp(base, 1, ramp.lanes, steps, base.place, ramp.repeat)


def _ramp_compared(o: Operations, op: str, args: Sequence[Value | Ramp]) -> Value | None:
    """A ramp of stride 1 against a uniform bound: clamp the distance, then compare bytes instead of
    int64.
    """
    a, b = args
    if op == "lt" and isinstance(b, Ramp):  # a < ramp is not (ramp <= a)
        return _negated(o, _ramp_compared(o, "le", (b, a)))
    if op == "le" and isinstance(b, Ramp):
        return _negated(o, _ramp_compared(o, "lt", (b, a)))
    if not isinstance(a, Ramp) or a.stride != 1 or isinstance(b, Ramp) or b.lanes or a.lanes > 64:
        return None
    if a.repeat > 1:
        return None
    room = (
        o.binary("sub", b, a.base)
        if b.const is None or a.base.const is None
        else constant(b.const - a.base.const, int64)
    )
    low, high = constant(-1, int64), constant(a.lanes, int64)
    clamped = o.b.spread(o.apply("max", (o.apply("min", (room, high), int64), low), int64))
    byte = Value(clamped.text, int64, 0, clamped.place, clamped.const)
    if clamped.const is None:
        byte = o.emit(f"trunc i64 {clamped.text} to i8", int64, 0, clamped)
    limit = o.b.splat_text(byte, "i8", a.lanes)
    steps = ", ".join(f"i8 {lane}" for lane in range(a.lanes))
    predicate = "slt" if op == "lt" else "sle"
    return o.emit(
        f"icmp {predicate} <{a.lanes} x i8> <{steps}>, {limit.text}", bool_, a.lanes, limit
    )


def _negated(o: Operations, value: Value | None) -> Value | None:
    return None if value is None else negated(o, [value], bool_, value.lanes)


_ON_RAMPS: Final[dict[str, Callable[[Operations, str, Sequence[Value | Ramp]],
Value | Ramp | None]]] = {
    "floordiv": _ramp_divided, "mod": _ramp_divided, "lt": _ramp_compared, "le": _ramp_compared,
}  # fmt: skip
