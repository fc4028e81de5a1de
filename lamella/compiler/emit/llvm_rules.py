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
from lamella.dtypes import DType, bool_, float32, float64, int64, uint32, uint64

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
        return _float_division(o, a, b, lanes)[0]
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
        return _float_division(o, a, b, lanes)[1]
    if _power_of_two(b.const) is not None:
        return o.binary("and", a, o.const(int(b.const or 0) - 1, dtype, lanes))
    if dtype.kind != "i":
        zero, safe = _nonzero(o, b, lanes)
        return _guarded(o, zero, o.binary("urem", a, safe), lanes)
    zero, safe, rest, above = _signed_division(o, a, b, dtype, lanes)
    rest = o.select(above, o.binary("add", rest, safe), rest)
    return _guarded(o, zero, rest, lanes)


def _float_division(o: Operations, a: Value, b: Value, lanes: int) -> tuple[Value, Value]:
    """(a // b, a mod b) in float64, exact for quotients below 2**53, with the special cases of
    Python.
    """
    zero, one, inf, nan = (
        o.const(x, a.dtype, lanes) for x in (0.0, 1.0, float("inf"), float("nan"))
    )
    ratio = o.binary("fdiv", a, b)
    quotient = o.intrinsic("trunc", ratio)
    rest = _fma(o, [_neg(o, [quotient], a.dtype, lanes), b, a], a.dtype, lanes)
    rest = o.select(o.compare("fcmp oeq", o.intrinsic("fabs", b), inf), a, rest)
    # the ratio may have been rounded up to the next whole number: the rest then has not the sign of
    # a
    over = o.compare("fcmp olt", o.binary("fmul", o.intrinsic("copysign", one, rest), a), zero)
    over = o.binary("and", over, o.compare("fcmp one", rest, zero))
    back = o.binary("fadd", rest, o.intrinsic("copysign", b, a))
    rest = o.select(over, back, rest)
    quotient = o.select(
        over, o.binary("fsub", quotient, o.intrinsic("copysign", one, ratio)), quotient
    )
    unlike = o.compare("fcmp olt", o.binary("fmul", o.intrinsic("copysign", one, rest), b), zero)
    unlike = o.binary("and", unlike, o.compare("fcmp one", rest, zero))
    floor = o.select(unlike, o.binary("fsub", quotient, one), quotient)
    mod = o.select(unlike, o.binary("fadd", rest, b), rest)
    mod = o.select(o.compare("fcmp oeq", rest, zero), o.intrinsic("copysign", zero, b), mod)
    floor = o.select(
        o.compare("fcmp oeq", floor, zero), o.intrinsic("copysign", zero, ratio), floor
    )
    finite = o.compare("fcmp one", o.intrinsic("fabs", a), inf)
    floor, mod = o.select(finite, floor, nan), o.select(finite, mod, nan)
    by_zero = o.compare("fcmp oeq", b, zero)
    return o.select(by_zero, ratio, floor), o.select(by_zero, nan, mod)


def _widen(o: Operations, flag: Value, dtype: DType, lanes: int) -> Value:
    t = vtype(scalar_type(dtype), lanes)
    return o.emit(f"zext {vtype('i1', lanes)} {flag.text} to {t}", dtype, lanes, flag)


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
}  # fmt: skip
