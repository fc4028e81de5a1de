"""Conversions between element types as LLVM text, with the meaning of ``cast`` in
``ir.loops.APPLY_OPS``.

float16 and bfloat16 values are held as int16 bits. bfloat16 converts by integer arithmetic on every
target (hardware instructions flush subnormals); float16 uses the hardware where the target has it.
Conversions from float64 round once: they pass through a float32 rounded to odd, which keeps enough
bits to round correctly afterwards.
"""

from __future__ import annotations

from lamella.compiler.emit.llvm_builder import Builder, Value, constant, mangle, scalar_type, vtype
from lamella.compiler.emit.target import Target
from lamella.dtypes import DType, bfloat16, bool_, float16, float32, float64, int32, uint32

__all__ = ["cast"]


def cast(b: Builder, target: Target, value: Value, dtype: DType) -> Value:
    """``value`` converted to ``dtype``."""
    source = value.dtype
    if source is dtype:
        return value
    if value.const is not None and source.kind == "f" and dtype.kind == "f":
        return b.splat(constant(float(value.const), dtype), value.lanes)
    if value.const is not None and source.kind in "iu" and dtype.kind in "iu":
        return b.splat(constant(value.const, dtype), value.lanes)
    if source.kind == "f" and source.bits == 16:
        wide = _from_half(b, target, value) if source is float16 else _from_bfloat16(b, value)
        return cast(b, target, wide, dtype)
    if dtype.kind == "f" and dtype.bits == 16:
        return _to_16_bits(b, target, value, dtype)
    return _plain(b, value, dtype)


def _emit(b: Builder, op: str, value: Value, dtype: DType) -> Value:
    source, wanted = (vtype(scalar_type(d), value.lanes) for d in (value.dtype, dtype))
    return b.pure(f"{op} {source} {value.text} to {wanted}", dtype, value.lanes, value.place)


def _plain(b: Builder, value: Value, dtype: DType) -> Value:
    """Among bool, integers, float32 and float64."""
    source = value.dtype
    if dtype is bool_:
        zero = b.splat(constant(0, source), value.lanes)
        t = vtype(scalar_type(source), value.lanes)
        predicate = "fcmp une" if source.kind == "f" else "icmp ne"
        return b.pure(f"{predicate} {t} {value.text}, {zero.text}", bool_, value.lanes, value.place)
    if dtype.kind == "f":
        if source.kind == "f":
            return _emit(b, "fpext" if dtype.bits > source.bits else "fptrunc", value, dtype)
        return _emit(b, "sitofp" if source.kind == "i" else "uitofp", value, dtype)
    if source.kind == "f":
        return _saturated(b, value, dtype)
    if dtype.bits == source.bits and source is not bool_:
        return Value(value.text, dtype, value.lanes, value.place)
    if dtype.bits < source.bits:
        return _emit(b, "trunc", value, dtype)
    return _emit(b, "sext" if source.kind == "i" else "zext", value, dtype)


def _saturated(b: Builder, value: Value, dtype: DType) -> Value:
    """The plain conversion where it fits, chosen by comparing with the limits, powers of 2 that
    every float holds; LLVM's own saturating conversion converts one lane at a time.
    """
    signed = dtype.kind == "i"
    if dtype.bits < 32:
        return _plain(b, _emit(b, "fptosi", _within(b, value, dtype), int32), dtype)
    low, high = (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1)) if signed else (0, 2**dtype.bits)
    found = _emit(b, "fptosi" if signed else "fptoui", value, dtype)
    for predicate, bound, instead in (("olt", low, low), ("oge", high, high - 1), ("uno", 0, 0)):
        limit = b.splat(constant(float(bound), value.dtype), value.lanes)
        source = vtype(scalar_type(value.dtype), value.lanes)
        test = f"fcmp {predicate} {source} {value.text}, {limit.text}"
        outside = b.pure(test, bool_, value.lanes, value.place)
        wanted = vtype(scalar_type(dtype), value.lanes)
        other = b.splat(constant(instead, dtype), value.lanes)
        text = f"select {vtype('i1', value.lanes)} {outside.text}, {wanted} {other.text}, "
        found = b.pure(f"{text}{wanted} {found.text}", dtype, value.lanes, value.place)
    return found


def _within(b: Builder, value: Value, dtype: DType) -> Value:
    """The value, 0 for a nan, as near as the integers of a narrow type come: floats hold them."""
    signed, t = dtype.kind == "i", vtype(scalar_type(value.dtype), value.lanes)
    low, high = (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1)) if signed else (0, 2**dtype.bits)
    chosen = value
    bounds = (("ord", 0), ("ogt", low), ("olt", high - 1))
    for predicate, bound in bounds if signed else bounds[1:]:  # there, a nan becomes the least
        limit = b.splat(constant(float(bound), value.dtype), value.lanes)
        test = f"fcmp {predicate} {t} {chosen.text}, {limit.text}"
        inside = b.pure(test, bool_, value.lanes, value.place)
        choice = vtype("i1", value.lanes)
        text = f"select {choice} {inside.text}, {t} {chosen.text}, {t} {limit.text}"
        chosen = b.pure(text, value.dtype, value.lanes, value.place)
    return chosen


# -- 16-bit floats ---------------------------------------------------------------------------------
class _Bits:
    """Arithmetic on int32 vectors, for conversions written as integer code."""

    def __init__(self, b: Builder, lanes: int) -> None:
        self.b, self.lanes, self.t = b, lanes, vtype("i32", lanes)

    def const(self, value: int) -> Value:
        return self.b.splat(constant(value, uint32), self.lanes)

    def op(self, op: str, x: Value, y: Value | int) -> Value:
        y = self.const(y) if isinstance(y, int) else y
        return self.b.pure(
            f"{op} {self.t} {x.text}, {y.text}", uint32, self.lanes, max(x.place, y.place)
        )

    def test(self, predicate: str, x: Value, y: int) -> Value:
        return self.b.pure(
            f"icmp {predicate} {self.t} {x.text}, {self.const(y).text}", bool_, self.lanes, x.place
        )

    def select(self, c: Value, x: Value, y: Value) -> Value:
        text = f"select {vtype('i1', self.lanes)} {c.text}, {self.t} {x.text}, {self.t} {y.text}"
        return self.b.pure(text, uint32, self.lanes, max(c.place, x.place, y.place))

    def floating(self, x: Value) -> Value:
        return self.b.pure(
            f"bitcast {self.t} {x.text} to {vtype('float', self.lanes)}",
            float32,
            self.lanes,
            x.place,
        )

    def integer(self, x: Value) -> Value:
        return self.b.pure(
            f"bitcast {vtype('float', self.lanes)} {x.text} to {self.t}",
            uint32,
            self.lanes,
            x.place,
        )

    def narrow(self, x: Value, dtype: DType) -> Value:
        return self.b.pure(
            f"trunc {self.t} {x.text} to {vtype('i16', self.lanes)}", dtype, self.lanes, x.place
        )

    def widened(self, x: Value) -> Value:
        return self.b.pure(
            f"zext {vtype('i16', self.lanes)} {x.text} to {self.t}", uint32, self.lanes, x.place
        )


def _from_bfloat16(b: Builder, value: Value) -> Value:
    i = _Bits(b, value.lanes)
    return i.floating(i.op("shl", i.widened(value), 16))


def _from_half(b: Builder, target: Target, value: Value) -> Value:
    lanes = value.lanes
    if target.half:
        half = vtype("half", lanes)
        bits = b.pure(
            f"bitcast {vtype('i16', lanes)} {value.text} to {half}", float16, lanes, value.place
        )
        return b.pure(
            f"fpext {half} {bits.text} to {vtype('float', lanes)}", float32, lanes, value.place
        )
    i = _Bits(b, lanes)
    wide = i.widened(value)
    magnitude = i.op("shl", i.op("and", wide, 0x7FFF), 13)
    scale = b.splat(constant(2.0**112, float32), lanes)
    f = i.floating(magnitude)
    scaled = b.pure(f"fmul {vtype('float', lanes)} {f.text}, {scale.text}", float32, lanes, f.place)
    bits = i.integer(scaled)
    special = i.test("uge", magnitude, 0x7C00 << 13)
    bits = i.select(special, i.op("or", magnitude, 0x7F800000), bits)
    return i.floating(i.op("or", bits, i.op("shl", i.op("and", wide, 0x8000), 16)))


def _to_16_bits(b: Builder, target: Target, value: Value, dtype: DType) -> Value:
    if value.dtype is bool_:
        one, zero = (b.splat(constant(x, dtype), value.lanes) for x in (1.0, 0.0))
        t = vtype("i16", value.lanes)
        text = f"select {vtype('i1', value.lanes)} {value.text}, {t} {one.text}, {t} {zero.text}"
        return b.pure(text, dtype, value.lanes, value.place)
    if value.dtype is float64:
        value = _rounded_to_odd(b, value)
    elif value.dtype is not float32:
        value = _plain(b, value, float32)
    if dtype is bfloat16:
        return _to_bfloat16(b, value)
    if target.half:
        half = vtype("half", value.lanes)
        h = b.pure(
            f"fptrunc {vtype('float', value.lanes)} {value.text} to {half}",
            float16,
            value.lanes,
            value.place,
        )
        return b.pure(
            f"bitcast {half} {h.text} to {vtype('i16', value.lanes)}",
            float16,
            value.lanes,
            value.place,
        )
    return _to_half(b, value)


def _rounded_to_odd(b: Builder, value: Value) -> Value:
    """float64 to float32, inexact results with an odd last bit: a later rounding is then as if from
    float64.
    """
    lanes, i = value.lanes, _Bits(b, value.lanes)
    t = vtype("double", lanes)
    near = _plain(b, value, float32)
    back = _plain(b, near, float64)
    sizes = []
    for x in (back, value):
        text = b.call(f"llvm.fabs.{mangle('double', lanes)}", t, (t, x.text))
        sizes.append(b.pure(text, float64, lanes, x.place))
    above = b.pure(f"fcmp ogt {t} {sizes[0].text}, {sizes[1].text}", bool_, lanes, value.place)
    inexact = b.pure(f"fcmp one {t} {back.text}, {value.text}", bool_, lanes, value.place)
    bits = i.integer(near)
    down = i.select(above, i.op("sub", bits, 1), bits)
    return i.floating(i.select(inexact, i.op("or", down, 1), bits))


def _to_bfloat16(b: Builder, value: Value) -> Value:
    i = _Bits(b, value.lanes)
    bits = i.integer(value)
    high = i.op("lshr", bits, 16)
    rounded = i.op("lshr", i.op("add", i.op("add", bits, 0x7FFF), i.op("and", high, 1)), 16)
    t = vtype("float", value.lanes)
    nan = b.pure(f"fcmp uno {t} {value.text}, {value.text}", bool_, value.lanes, value.place)
    return i.narrow(i.select(nan, i.op("or", high, 0x40), rounded), bfloat16)


def _to_half(b: Builder, value: Value) -> Value:
    """Round to nearest even in integer arithmetic; subnormals by adding a constant that shifts
    their bits into place.
    """
    lanes, i = value.lanes, _Bits(b, value.lanes)
    bits = i.integer(value)
    a = i.op("and", bits, 0x7FFFFFFF)
    sign = i.op("lshr", i.op("and", bits, 0x80000000), 16)
    magic = ((127 - 15) + (23 - 10) + 1) << 23
    f, m = i.floating(a), i.floating(i.const(magic))
    shifted = b.pure(f"fadd {vtype('float', lanes)} {f.text}, {m.text}", float32, lanes, f.place)
    small = i.op("sub", i.integer(shifted), magic)
    odd = i.op("and", i.op("lshr", a, 13), 1)
    normal = i.op("lshr", i.op("add", i.op("add", a, 0xC8000FFF), odd), 13)
    finite = i.select(i.test("ult", a, 0x38800000), small, normal)
    nan = i.op("or", i.op("and", i.op("lshr", a, 13), 0x3FF), 0x7E00)
    special = i.select(i.test("ugt", a, 0x7F800000), nan, i.const(0x7C00))
    return i.narrow(
        i.op("or", i.select(i.test("uge", a, 0x47800000), special, finite), sign), float16
    )
