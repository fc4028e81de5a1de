"""The meaning of each operation as LLVM text: ``OPS[name](operations, values, dtype, lanes)``.

Input: operands of one number of lanes and, but for ``select``, ``cast`` and ``bitcast``, of bool,
an integer type, float32 or float64. Output: the value. No operand makes a result undefined; of the
fast-math flags only ``contract`` is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lamella.compiler.emit.llvm_builder import Value, scalar_type, vtype
from lamella.compiler.emit.llvm_convert import cast
from lamella.compiler.emit.llvm_remainder import float_floordiv, float_mod
from lamella.dtypes import DType, bool_, float32, float64, int32, int64, uint32, uint64

if TYPE_CHECKING:
    from lamella.compiler.emit.llvm_ops import Operations

__all__ = ["OPS", "negated"]

Scalar = bool | int | float
Rule = Callable[["Operations", list[Value], DType, int], Value]


# -- arithmetic ------------------------------------------------------------------------------------
def _arithmetic(integer: str, floating: str) -> Rule:
    def rule(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
        if dtype is bool_:
            return o.binary({"add": "or", "mul": "and", "sub": "xor"}[integer], v[0], v[1])
        return o.binary(floating + o.contract if dtype.kind == "f" else integer, v[0], v[1])

    return rule


def _fma(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
    if dtype.kind != "f":
        return o.binary("add", o.binary("mul", v[0], v[1]), v[2])
    if o.target.fma:
        return o.intrinsic("fma", *v)
    return _fma_emulated(o, v, dtype, lanes)


def _fma_emulated(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
    """Without the instruction: float32 in float64 (the product is exact); float64 with the
    product's rounding error added back.
    """
    if dtype is float32:
        a, b, c = (cast(o.b, o.target, x, float64) for x in v)
        total = o.binary("fadd", o.binary("fmul", a, b), c)
        return cast(o.b, o.target, total, float32)
    a, b, c = v
    product = o.binary("fmul", a, b)
    high_a, low_a = _split(o, a, lanes)
    high_b, low_b = _split(o, b, lanes)
    error = o.binary("fsub", o.binary("fmul", high_a, high_b), product)
    error = o.binary(
        "fadd",
        o.binary("fadd", error, o.binary("fmul", high_a, low_b)),
        o.binary("fmul", low_a, high_b),
    )
    error = o.binary("fadd", error, o.binary("fmul", low_a, low_b))
    total = o.binary("fadd", product, c)
    back = o.binary("fsub", total, product)
    rest = o.binary(
        "fadd", o.binary("fsub", product, o.binary("fsub", total, back)), o.binary("fsub", c, back)
    )
    exact = o.binary("fadd", total, o.binary("fadd", rest, error))
    finite = o.compare("fcmp oeq", exact, exact)
    return o.select(finite, exact, total)


def _split(o: Operations, a: Value, lanes: int) -> tuple[Value, Value]:
    """The upper 26 bits of a float64 and the rest (Veltkamp)."""
    scaled = o.binary("fmul", a, o.const(134217729.0, float64, lanes))
    high = o.binary("fsub", scaled, o.binary("fsub", scaled, a))
    return high, o.binary("fsub", a, high)


def _neg(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
    if dtype.kind != "f":
        return o.binary("sub", o.const(0, dtype, lanes), v[0])
    t = vtype(scalar_type(dtype), lanes)
    return o.emit(f"fneg {t} {v[0].text}", dtype, lanes, v[0])


def _abs(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
    if dtype.kind == "f":
        return o.intrinsic("fabs", v[0])
    return v[0] if dtype.kind != "i" else o.intrinsic("abs", v[0], extra=(("i1", "false"),))


def _sign(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
    zero, one = o.const(0, dtype, lanes), o.const(1, dtype, lanes)
    if dtype.kind == "f":
        unsigned = o.intrinsic("copysign", one, v[0])
        return o.select(o.compare("fcmp one", v[0], zero), unsigned, v[0])
    if dtype.kind != "i":
        return v[0] if dtype is bool_ else o.intrinsic("umin", v[0], one)
    return o.intrinsic("smax", o.intrinsic("smin", v[0], one), o.const(-1, dtype, lanes))


def _extreme(integer: str, predicate: str) -> Rule:
    """Max and min. x86's max(a, b) is ``a > b ? a : b``, so one compare keeps a nan in ``b``; the
    second keeps one in ``a``.
    """

    def rule(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
        a, b = v
        if dtype.kind != "f":
            return o.intrinsic(("s" if dtype.kind == "i" else "u") + integer, a, b)
        if b.const is not None:
            a, b = b, a
        best = o.select(o.compare(f"fcmp {predicate}", a, b), a, b)
        if a.const is not None and a.const == a.const:
            return best
        return o.select(o.compare("fcmp uno", a, a), a, best)

    return rule


# -- division --------------------------------------------------------------------------------------
def _power_of_two(value: Scalar | None) -> int | None:
    if isinstance(value, int) and value > 0 and value & (value - 1) == 0:
        return value.bit_length() - 1
    return None


def _nonzero(o: Operations, b: Value, lanes: int) -> tuple[Value | None, Value]:
    """Where a divisor is zero (None: nowhere), and the divisor with 1 there."""
    if b.const:
        return None, b
    zero = o.compare("icmp eq", b, o.const(0, b.dtype, lanes))
    return zero, o.select(zero, o.const(1, b.dtype, lanes), b)


def _guarded(o: Operations, zero: Value | None, value: Value, lanes: int) -> Value:
    return value if zero is None else o.select(zero, o.const(0, value.dtype, lanes), value)


def _signed_division(
    o: Operations, a: Value, b: Value, dtype: DType, lanes: int
) -> tuple[Value | None, Value, Value, Value]:
    """(where b is 0, safe divisor, truncated quotient, whether it is one above the floor)."""
    zero, safe = _nonzero(o, b, lanes)
    if b.const is None or b.const == -1:
        least = o.compare("icmp eq", a, o.const(-(1 << (dtype.bits - 1)), dtype, lanes))
        minus = o.compare("icmp eq", safe, o.const(-1, dtype, lanes))
        safe = o.select(o.binary("and", least, minus), o.const(1, dtype, lanes), safe)
    rest = o.binary("srem", a, safe)
    signs = o.compare("icmp slt", o.binary("xor", rest, safe), o.const(0, dtype, lanes))
    inexact = o.compare("icmp ne", rest, o.const(0, dtype, lanes))
    return zero, safe, rest, o.binary("and", signs, inexact)


def _floordiv(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
    a, b = v
    if dtype.kind == "f":
        return float_floordiv(o, a, b, lanes)
    shift = _power_of_two(b.const)
    if shift is not None:
        return o.binary("ashr" if dtype.kind == "i" else "lshr", a, o.const(shift, dtype, lanes))
    if dtype.kind != "i":
        zero, safe = _nonzero(o, b, lanes)
        return _guarded(o, zero, o.binary("udiv", a, safe), lanes)
    zero, safe, _, above = _signed_division(o, a, b, dtype, lanes)
    quotient = o.binary("sub", o.binary("sdiv", a, safe), _widen(o, above, dtype, lanes))
    return _guarded(o, zero, quotient, lanes)


def _mod(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
    a, b = v
    if dtype.kind == "f":
        return float_mod(o, a, b, lanes)
    if _power_of_two(b.const) is not None:
        return o.binary("and", a, o.const(int(b.const or 0) - 1, dtype, lanes))
    if dtype.kind != "i":
        zero, safe = _nonzero(o, b, lanes)
        return _guarded(o, zero, o.binary("urem", a, safe), lanes)
    zero, safe, rest, above = _signed_division(o, a, b, dtype, lanes)
    rest = o.select(above, o.binary("add", rest, safe), rest)
    return _guarded(o, zero, rest, lanes)


def _widen(o: Operations, flag: Value, dtype: DType, lanes: int) -> Value:
    t = vtype(scalar_type(dtype), lanes)
    return o.emit(f"zext {vtype('i1', lanes)} {flag.text} to {t}", dtype, lanes, flag)


# -- powers of two ---------------------------------------------------------------------------------
def _ldexp(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
    size = lanes * dtype.itemsize
    if o.target.scales and size > o.target.vector_bytes:
        parts = (_ldexp(o, _half(o, v, upper), dtype, lanes // 2) for upper in (False, True))
        return _joined(o, *parts)
    if o.target.scales and size >= 16:
        return _scaled(o, v, dtype, lanes)
    bias, mantissa, integer = (127, 23, int32) if dtype is float32 else (1023, 52, int64)
    a, b = v
    half = (bias + 1) // 2
    negative = o.compare("fcmp olt", b, o.const(0.0, dtype, lanes))
    whole = o.reinterpret(
        o.binary("fadd", b, o.const(1.5 * 2.0**mantissa, dtype, lanes)), integer
    )
    exponents = [o.const(e << mantissa, integer, lanes) for e in (bias + half, bias - half)]
    power = o.binary("shl", whole, o.const(mantissa, integer, lanes))
    power = o.reinterpret(o.binary("add", power, o.select(negative, *exponents)), dtype)
    rest = o.select(negative, *(o.const(2.0**e, dtype, lanes) for e in (-half, half)))
    return o.binary("fmul", o.binary("fmul", a, power), rest)


def _scaled(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
    """By AVX-512's instruction for it."""
    t, bits = vtype(scalar_type(dtype), lanes), 8 * lanes * dtype.itemsize
    name = f"llvm.x86.avx512.mask.scalef.p{'s' if dtype is float32 else 'd'}.{bits}"
    mask = ("i16" if lanes == 16 else "i8", "-1")
    rounding = [("i32", "4")] if bits == 512 else []  # the current mode
    operands = [(t, x.text) for x in (*v, v[0])]
    return o.emit(o.b.call(name, t, *operands, mask, *rounding), dtype, lanes, *v)


# -- bits ------------------------------------------------------------------------------------------
def _bits(op: str) -> Rule:
    return lambda o, v, dtype, lanes: o.binary(op, v[0], v[1])


def negated(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
    """Bitwise complement, or logical for bool."""
    return o.binary("xor", v[0], o.const(True if dtype is bool_ else -1, dtype, lanes))


def _shift(o: Operations, a: Value, b: Value, op: str, lanes: int) -> Value:
    """A shift whose amount may be out of range: the caller's ``op`` on a clamped amount, 0 (or the
    sign) beyond.
    """
    bits = a.dtype.bits
    if b.const is not None and 0 <= b.const < bits:
        return o.binary(op, a, b)
    inside = o.compare("icmp ult", b, o.const(bits, b.dtype, lanes))
    if op == "ashr":
        return o.binary(op, a, o.select(inside, b, o.const(bits - 1, b.dtype, lanes)))
    return o.select(inside, o.binary(op, a, b), o.const(0, a.dtype, lanes))


def _mulhi(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
    narrow, wide = vtype(f"i{dtype.bits}", lanes), vtype(f"i{2 * dtype.bits}", lanes)
    a, b = (o.emit(f"zext {narrow} {x.text} to {wide}", uint64, lanes, x) for x in v)
    product = o.emit(f"mul {wide} {a.text}, {b.text}", uint64, lanes, a, b)
    amount = f"splat (i{2 * dtype.bits} {dtype.bits})" if lanes else str(dtype.bits)
    high = o.emit(f"lshr {wide} {product.text}, {amount}", uint64, lanes, product)
    return o.emit(f"trunc {wide} {high.text} to {narrow}", dtype, lanes, high)


# -- products of bytes -----------------------------------------------------------------------------
def _word(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
    if lanes:
        a, b, c, d = v
        whole = _interleaved(o, _interleaved(o, a, b, 1), _interleaved(o, c, d, 1), 2)
        text = f"bitcast {vtype('i8', 4 * lanes)} {whole.text} to {vtype('i32', lanes)}"
        return o.emit(text, dtype, lanes, whole)
    t = vtype("i8", lanes)
    total: Value | None = None
    for at, byte in enumerate(v):
        part = o.emit(f"zext {t} {byte.text} to {vtype('i32', lanes)}", dtype, lanes, byte)
        part = o.binary("shl", part, o.const(8 * at, dtype, lanes)) if at else part
        total = part if total is None else o.binary("or", total, part)
    return total or o.const(0, dtype, lanes)


def _interleaved(o: Operations, a: Value, b: Value, size: int) -> Value:
    """``size`` lanes of one value and of another in turn."""
    places = range(2 * a.lanes)
    turns = [(at // (2 * size) * size + at % size, at // size % 2) for at in places]
    return o.b.shuffle((at + a.lanes * second for at, second in turns), a, b)


def _dot_bytes(unsigned: bool) -> Rule:
    def rule(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
        native = o.target.vector_bytes // 4
        if dtype is int32 and lanes > native and lanes % 2 == 0:
            low, high = (_half(o, v, upper) for upper in (False, True))
            parts = [rule(o, values, dtype, lanes // 2) for values in (low, high)]
            return _joined(o, *parts)
        found = _dot_instruction(o, v, lanes, unsigned) if dtype is int32 else None
        return found or _dot_written_out(o, v, dtype, lanes, unsigned)

    return rule


def _half(o: Operations, v: list[Value], upper: bool) -> list[Value]:
    """The lower or upper lanes of values."""
    halves = ((x, x.lanes // 2) for x in v)
    return [o.b.shuffle(range(n * upper, n * upper + n), x) for x, n in halves]


def _joined(o: Operations, a: Value, b: Value) -> Value:
    """The lanes of one value, then those of another."""
    return o.b.shuffle(range(2 * a.lanes), a, b)


_PAIRS: Final = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}


def _dot_instruction(o: Operations, v: list[Value], lanes: int, unsigned: bool) -> Value | None:
    """By the machine's instruction for bytes, or (x86) two of those for 16-bit numbers."""
    a, b, c = v
    t = vtype("i32", lanes)
    arm = o.target.triple.startswith(("aarch64", "arm64"))
    if lanes not in _PAIRS or lanes * 4 > o.target.vector_bytes:
        return None
    if o.target.dot == ("unsigned" if unsigned else "signed"):
        name = f"aarch64.neon.sdot.v{lanes}i32.v{4 * lanes}i8"
        name = name if arm else f"x86.avx512.vpdpbusd.{32 * lanes}"
        operands = [(vtype("i8", 4 * lanes), _seen_as(o, x, "i8", 4).text) for x in (a, b)]
        return o.emit(o.b.call(f"llvm.{name}", t, (t, c.text), *operands), int32, lanes, a, b, c)
    if arm:
        return None
    for odd in (True, False):
        halves = [_sixteen(o, x, odd, signed) for x, signed in ((a, not unsigned), (b, True))]
        operands = [(vtype("i16", 2 * lanes), x.text) for x in halves]
        text = o.b.call(f"llvm.x86.{_PAIRS[lanes]}", t, *operands)
        c = o.binary("add", c, o.emit(text, int32, lanes, *halves))
    return c


def _seen_as(o: Operations, x: Value, scalar: str, count: int) -> Value:
    """The bits of int32 lanes as ``count`` times as many narrower ones (int32 still, to us)."""
    source, wanted = vtype("i32", x.lanes), vtype(scalar, x.lanes * count)
    return o.emit(f"bitcast {source} {x.text} to {wanted}", int32, x.lanes, x)


def _sixteen(o: Operations, x: Value, odd: bool, signed: bool) -> Value:
    """Every second byte as a 16-bit number: the odd ones or the even ones."""
    wide, t = _seen_as(o, x, "i16", 2), vtype("i16", 2 * x.lanes)
    shift = "ashr" if signed else "lshr"
    if not odd:
        wide = o.emit(f"shl {t} {wide.text}, splat (i16 8)", int32, x.lanes, wide)
    return o.emit(f"{shift} {t} {wide.text}, splat (i16 8)", int32, x.lanes, wide)


def _dot_written_out(
    o: Operations, v: list[Value], dtype: DType, lanes: int, unsigned: bool
) -> Value:
    a, b, total = v
    for at in range(dtype.itemsize):
        left, right = (
            o.binary(
                shift,
                o.binary("shl", x, o.const(dtype.bits - 8 - 8 * at, dtype, lanes)),
                o.const(dtype.bits - 8, dtype, lanes),
            )
            for x, shift in ((a, "lshr" if unsigned else "ashr"), (b, "ashr"))
        )
        total = o.binary("add", total, o.binary("mul", left, right))
    return total


# -- comparisons and tests -------------------------------------------------------------------------
def _comparison(name: str) -> Rule:
    def rule(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
        kind = v[0].dtype.kind
        if kind == "f":
            return o.compare(f"fcmp {'une' if name == 'ne' else 'o' + name}", v[0], v[1])
        sign = "" if name in ("eq", "ne") else ("s" if kind == "i" else "u")
        return o.compare(f"icmp {sign}{name}", v[0], v[1])

    return rule


def _infinite(predicate: str) -> Rule:
    def rule(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
        limit = o.const(float("inf"), v[0].dtype, lanes)
        return o.compare(f"fcmp {predicate}", o.intrinsic("fabs", v[0]), limit)

    return rule


def _signbit(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
    integer = uint64 if v[0].dtype.bits == 64 else uint32
    bits = o.reinterpret(v[0], int64 if integer is uint64 else uint32)
    t = vtype(scalar_type(bits.dtype), lanes)
    zero = o.const(0, bits.dtype, lanes)
    return o.emit(f"icmp slt {t} {bits.text}, {zero.text}", bool_, lanes, bits)


def _rsqrt(o: Operations, v: list[Value], dtype: DType, lanes: int) -> Value:
    return o.binary("fdiv", o.const(1.0, dtype, lanes), o.intrinsic("sqrt", v[0]))


def _unary(name: str) -> Rule:
    return lambda o, v, dtype, lanes: o.intrinsic(name, v[0])


OPS: Final[dict[str, Rule]] = {
    "add": _arithmetic("add", "fadd"),
    "sub": _arithmetic("sub", "fsub"),
    "mul": _arithmetic("mul", "fmul"),
    "div": lambda o, v, dtype, lanes: o.binary("fdiv", v[0], v[1]),
    "floordiv": _floordiv, "mod": _mod, "fma": _fma, "neg": _neg, "abs": _abs, "sign": _sign,
    "max": _extreme("max", "ogt"), "min": _extreme("min", "olt"),
    "and": _bits("and"), "or": _bits("or"), "xor": _bits("xor"), "not": negated,
    "shl": lambda o, v, dtype, lanes: _shift(o, v[0], v[1], "shl", lanes),
    "shr": lambda o, v, dtype, lanes: _shift(o, v[0], v[1], "ashr" if dtype.kind == "i" else "lshr",
    lanes),
    "lt": _comparison("lt"), "le": _comparison("le"), "eq": _comparison("eq"),
    "ne": _comparison("ne"),
    "select": lambda o, v, dtype, lanes: o.select(v[0], v[1], v[2]),
    "cast": lambda o, v, dtype, lanes: cast(o.b, o.target, v[0], dtype),
    "bitcast": lambda o, v, dtype, lanes: o.reinterpret(v[0], dtype),
    "floor": _unary("floor"), "ceil": _unary("ceil"), "trunc": _unary("trunc"),
    "round": _unary("roundeven"),
    "sqrt": _unary("sqrt"), "rsqrt": _rsqrt, "copysign": lambda o, v, dtype,
    lanes: o.intrinsic("copysign", v[0], v[1]),
    "isnan": lambda o, v, dtype, lanes: o.compare("fcmp uno", v[0], v[0]),
    "isinf": _infinite("oeq"), "isfinite": _infinite("one"), "signbit": _signbit, "mulhi": _mulhi,
    "ldexp": _ldexp,
    "word": _word, "dotbytes": _dot_bytes(unsigned=False), "udotbytes": _dot_bytes(unsigned=True),
}  # fmt: skip
