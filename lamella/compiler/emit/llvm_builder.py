"""Writing one LLVM function as text: values, nested scopes, and common subexpressions.

A scope is a straight piece of control flow (a loop body, a branch) whose text is not in its parent
yet, so an instruction whose operands belong to an outer scope is appended there: loop-invariant
code leaves loops while it is written. Each scope remembers the instructions it has by their text,
so an instruction is written once. Invariants: an instruction of a scope is dominated by everything
in the scopes below it on the stack; pure instructions never go under ``pure_floor``, loads never
under ``load_floor``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from lamella.dtypes import DType, bool_, float32, int64
from lamella.errors import CompilerError

__all__ = [
    "Builder",
    "Ramp",
    "Scope",
    "Value",
    "constant",
    "int_constant",
    "mangle",
    "memory_type",
    "scalar_type",
    "vtype",
]

_SCALAR: Final = {
    "bool": "i1", "int8": "i8", "uint8": "i8", "int16": "i16", "uint16": "i16", "int32": "i32",
    "uint32": "i32", "int64": "i64",
    "uint64": "i64", "float16": "i16", "bfloat16": "i16", "float32": "float", "float64": "double",
}  # fmt: skip
_MANGLED: Final = {"float": "f32", "double": "f64", "half": "f16"}


@dataclass(slots=True, eq=False)
class Value:
    """An operand: its text, ``lanes`` (0: a scalar) and the scope (``place``) it is defined in;
    ``const`` if known now.
    """

    text: str
    dtype: DType
    lanes: int = 0
    place: int = 0
    const: bool | int | float | None = None


@dataclass(slots=True, eq=False)
class Ramp:
    """The int64 vector ``base + stride * (lane // repeat)``, not written out yet; ``base`` is a
    multiple of ``align``.
    """

    base: Value
    stride: int
    lanes: int
    align: int
    place: int
    repeat: int = 1
    dtype: DType = int64
    const: None = None


@dataclass(slots=True)
class Scope:
    """A piece of control flow being written; ``start`` and ``label`` name the blocks of its start
    and end.
    """

    label: str
    start: str
    lines: list[str] = field(default_factory=list)
    cse: dict[str, Value] = field(default_factory=dict)
    pure_floor: int = 0
    load_floor: int = 0


def scalar_type(dtype: DType) -> str:
    """The LLVM type of a value (float16 and bfloat16 are held as their bits).

    >>> scalar_type(bool_), scalar_type(float32)
    ('i1', 'float')
    """
    return _SCALAR[dtype.name]


def memory_type(dtype: DType) -> str:
    """The LLVM type of an element in memory: bool takes a byte.

    >>> memory_type(bool_)
    'i8'
    """
    return "i8" if dtype is bool_ else _SCALAR[dtype.name]


def vtype(scalar: str, lanes: int) -> str:
    """The type of ``lanes`` values of an LLVM type (0: the scalar).

    >>> vtype("float", 8)
    '<8 x float>'
    """
    return f"<{lanes} x {scalar}>" if lanes else scalar


def mangle(scalar: str, lanes: int) -> str:
    """The suffix of overloaded intrinsics.

    >>> mangle("float", 16)
    'v16f32'
    """
    name = _MANGLED.get(scalar, scalar)
    return f"v{lanes}{name}" if lanes else name


def _rounded(value: float, dtype: DType) -> float:
    """A number as ``dtype`` holds it."""
    if dtype.name == "float64":
        return value
    if dtype is float32:
        try:
            return float(struct.unpack("<f", struct.pack("<f", value))[0])
        except OverflowError:
            return value * float("inf")
    import numpy as np

    with np.errstate(over="ignore"):
        return float(np.asarray(value, dtype.numpy))


def _float_text(value: float, dtype: DType) -> str:
    if dtype.bits >= 32:
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    import numpy as np

    return str(int(np.asarray(value, dtype.numpy).view(np.int16)))


def constant(value: bool | int | float, dtype: DType) -> Value:
    """A literal of a dtype.

    >>> from lamella.dtypes import float32
    >>> constant(1.0, float32).text
    '0x3FF0000000000000'
    """
    if dtype.kind == "f":
        rounded = _rounded(float(value), dtype)
        return Value(_float_text(rounded, dtype), dtype, const=rounded)
    if dtype is bool_:
        return Value("true" if value else "false", dtype, const=bool(value))
    wrapped = int(value) & ((1 << dtype.bits) - 1)
    if dtype.kind == "i" and wrapped >> (dtype.bits - 1):
        wrapped -= 1 << dtype.bits
    return Value(str(wrapped), dtype, const=wrapped)


def int_constant(value: int) -> Value:
    """An int64 literal.

    >>> int_constant(3).text
    '3'
    """
    return Value(str(value), int64, const=value)


class Builder:
    """The text of one function under way."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.declares: dict[str, str] = {}
        self.allocas: list[str] = []
        self._count = 0

    # -- scopes ------------------------------------------------------------------------------------
    def fresh(self, prefix: str = "v") -> str:
        """A new local name, without ``%``."""
        self._count += 1
        return f"{prefix}{self._count}"

    @property
    def depth(self) -> int:
        """The place of the innermost scope."""
        return len(self.scopes) - 1

    @property
    def top(self) -> Scope:
        """The innermost scope."""
        return self.scopes[-1]

    def open(self, label: str, *, holds_pure: bool = False, holds_loads: bool = False) -> Scope:
        """Enter a scope that nothing, or only loads, may leave outwards."""
        scope = Scope(label, label)
        if self.scopes:
            scope.pure_floor, scope.load_floor = self.top.pure_floor, self.top.load_floor
        place = len(self.scopes)
        if holds_pure:
            scope.pure_floor = place
        if holds_pure or holds_loads:
            scope.load_floor = place
        self.scopes.append(scope)
        return scope

    def close(self) -> Scope:
        """Leave the innermost scope; the caller puts its text where it belongs."""
        return self.scopes.pop()

    # -- instructions ------------------------------------------------------------------------------
    def pure(self, text: str, dtype: DType, lanes: int, place: int) -> Value:
        """The value of a pure instruction whose operands live at ``place`` or further out."""
        for at in range(place, len(self.scopes)):
            found = self.scopes[at].cse.get(text)
            if found is not None:
                return (
                    found if found.dtype is dtype else Value(found.text, dtype, lanes, found.place)
                )
        return self._append(text, text, dtype, lanes, max(place, self.top.pure_floor))

    def load(self, text: str, key: str, dtype: DType, lanes: int, place: int) -> Value:
        """The value of a load, shared with an equal one of the same ``key`` (which names the
        memory's version).
        """
        place = max(place, self.top.load_floor)
        for at in range(place, len(self.scopes)):
            found = self.scopes[at].cse.get(key)
            if found is not None:
                return found
        return self._append(text, key, dtype, lanes, place)

    def _append(self, text: str, key: str, dtype: DType, lanes: int, place: int) -> Value:
        scope = self.scopes[place]
        self._count += 1
        name = f"%v{self._count}"
        scope.lines.append(f"{name} = {text}")
        scope.cse[key] = value = Value(name, dtype, lanes, place)
        return value

    def effect(self, text: str) -> None:
        """An instruction without a result, at the end of the innermost scope."""
        self.top.lines.append(text)

    def call(self, name: str, result: str, *operands: tuple[str, str]) -> str:
        """The text of a call of an intrinsic, declared once; operands are (type, text)."""
        if name not in self.declares:
            types = ", ".join(t for t, _ in operands)
            self.declares[name] = f"declare {result} @{name}({types})"
        return f"call {result} @{name}({', '.join(f'{t} {x}' for t, x in operands)})"

    # -- lanes -------------------------------------------------------------------------------------
    def splat(self, value: Value | Ramp, lanes: int) -> Value:
        """A value in ``lanes`` lanes (0: it must be a scalar already)."""
        if value.lanes == lanes:
            return self.spread(value)
        if value.lanes or isinstance(value, Ramp):
            raise CompilerError(f"[llvm] a value of {value.lanes} lanes where {lanes} are wanted")
        scalar = scalar_type(value.dtype)
        return self.splat_text(value, scalar, lanes)

    def splat_text(self, value: Value, scalar: str, lanes: int) -> Value:
        """A scalar of an LLVM type in all lanes."""
        if value.const is not None:
            return Value(
                f"splat ({scalar} {value.text})", value.dtype, lanes, value.place, value.const
            )
        wide = vtype(scalar, lanes)
        one = self.pure(
            f"insertelement {wide} poison, {scalar} {value.text}, i64 0",
            value.dtype,
            lanes,
            value.place,
        )
        text = f"shufflevector {wide} {one.text}, {wide} poison, <{lanes} x i32> zeroinitializer"
        return self.pure(text, value.dtype, lanes, value.place)

    def shuffle(self, order: Iterable[int], first: Value, second: Value | None = None) -> Value:
        """The elements of a value, or of two one after the other, at the places in ``order``."""
        t, places = vtype(scalar_type(first.dtype), first.lanes), [f"i32 {k}" for k in order]
        other, place = "poison", first.place
        if second is not None:
            other, place = second.text, max(place, second.place)
        text = f"{t} {first.text}, {t} {other}, <{len(places)} x i32> <{', '.join(places)}>"
        return self.pure(f"shufflevector {text}", first.dtype, len(places), place)

    def spread(self, value: Value | Ramp) -> Value:
        """A ramp written out as a vector; any other value as it is."""
        if isinstance(value, Value):
            return value
        steps = ", ".join(
            f"i64 {value.stride * (lane // value.repeat)}" for lane in range(value.lanes)
        )
        base = self.splat(value.base, value.lanes)
        return self.pure(
            f"add <{value.lanes} x i64> {base.text}, <{steps}>", int64, value.lanes, base.place
        )

    def uniform_lanes(self, *values: Value | Ramp) -> tuple[int, list[Value]]:
        """The operands with one number of lanes."""
        lanes = max(v.lanes for v in values)
        return lanes, [self.splat(v, lanes) for v in values]
