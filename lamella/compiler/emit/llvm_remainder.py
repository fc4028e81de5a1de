"""``a // b`` and ``a mod b`` of floats as LLVM text, of the exact quotient, as Python has them.

A quotient below 2**p, p the digits of the type, is found by one division and a fused multiply-add,
which leaves the remainder, rounded once. Where a lane's is larger, a branch goes to long division:
the digits of ``a`` as an integer are shifted left by as much as 64 bits hold, and what the digits
of ``b`` leave of them is kept, until the difference of the exponents is used up; all of it is
exact. A quotient beyond 2**p is ``a`` without the remainder, over ``b``, as in NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lamella.compiler.emit.llvm_builder import Value, scalar_type, vtype
from lamella.dtypes import bool_, float32, float64, int32, int64, uint64

if TYPE_CHECKING:
    from lamella.compiler.emit.llvm_ops import Operations

__all__ = ["float_floordiv", "float_mod"]

DIGITS: Final = {float32: 24, float64: 53}
SPLITS: Final = 2.0**990  # a product's halves overflow beyond, where there is no fused multiply-add


def float_floordiv(o: Operations, a: Value, b: Value, lanes: int) -> Value:
    """``floor(a / b)``; ``a / b`` for b = 0, nan for an infinite a."""
    ratio = o.binary("fdiv", a, b)
    quotient = o.intrinsic("floor", ratio)  # never too low, for rounding is monotonic
    rest = _rest(o, quotient, a, b)
    rest = o.select(o.compare("fcmp oeq", _size(o, b), _infinity(o, b)), a, rest)
    lower = o.binary("fsub", quotient, o.const(1.0, a.dtype, lanes))
    quotient = o.select(_unlike(o, rest, b), lower, quotient)
    quotient = _Division(o, a, b, lanes).where(_is_far(o, ratio, a, b), quotient, of_rest=False)
    endless = o.compare("fcmp oeq", _size(o, a), _infinity(o, a))
    undefined = o.binary("and", endless, _not_zero(o, b))
    return o.select(undefined, o.const(float("nan"), a.dtype, lanes), quotient)


def float_mod(o: Operations, a: Value, b: Value, lanes: int) -> Value:
    """``a - floor(a / b) * b`` with the sign of b; nan for b = 0 and for an infinite a."""
    ratio = o.binary("fdiv", a, b)
    rest = _rest(o, o.intrinsic("floor", ratio), a, b)
    rest = o.select(o.compare("fcmp olt", _size(o, a), _size(o, b)), a, rest)
    rest = o.select(_unlike(o, rest, b), o.binary("fadd", rest, b), rest)
    rest = _Division(o, a, b, lanes).where(_is_far(o, ratio, a, b), rest, of_rest=True)
    return o.intrinsic("copysign", rest, b)


def _rest(o: Operations, quotient: Value, a: Value, b: Value) -> Value:
    """``a - quotient * b``, rounded once."""
    t = vtype(scalar_type(a.dtype), a.lanes)
    minus = o.emit(f"fneg {t} {quotient.text}", a.dtype, a.lanes, quotient)
    return o.b.spread(o.apply("fma", (minus, b, a), a.dtype))


def _size(o: Operations, a: Value) -> Value:
    return o.intrinsic("fabs", a)


def _infinity(o: Operations, a: Value) -> Value:
    return o.const(float("inf"), a.dtype, a.lanes)


def _not_zero(o: Operations, b: Value) -> Value:
    return o.compare("fcmp une", b, o.const(0.0, b.dtype, b.lanes))


def _unlike(o: Operations, rest: Value, b: Value) -> Value:
    """Whether the signs differ and ``rest`` is neither 0 nor nan."""
    whole = int32 if b.dtype is float32 else int64
    bits = o.binary("xor", o.reinterpret(rest, whole), o.reinterpret(b, whole))
    differ = o.compare("icmp slt", bits, o.const(0, whole, b.lanes))
    zero = o.const(0.0, b.dtype, b.lanes)
    return o.binary("and", differ, o.compare("fcmp one", rest, zero))


def _is_far(o: Operations, ratio: Value, a: Value, b: Value) -> Value:
    """Where the multiply-add is not exact."""
    large = o.const(2.0 ** DIGITS[a.dtype], a.dtype, a.lanes)
    far = o.compare("fcmp oge", _size(o, ratio), large)
    if a.dtype is float64 and not o.target.fma:
        splits = o.compare("fcmp oge", _size(o, a), o.const(SPLITS, a.dtype, a.lanes))
        defined = o.compare("fcmp ord", ratio, ratio)
        far = o.binary("or", far, o.binary("and", splits, defined))
    return o.binary("and", far, _not_zero(o, b))


class _Division:
    """Long division of ``a`` by ``b``, behind a branch."""

    def __init__(self, o: Operations, a: Value, b: Value, lanes: int) -> None:
        self.o, self.a, self.b, self.lanes = o, a, b, lanes
        self.digits = DIGITS[a.dtype]
        self.step = 64 - self.digits

    def where(self, far: Value, common: Value, of_rest: bool) -> Value:
        """The remainder, or the quotient, where ``far`` holds; ``common`` elsewhere."""
        b = self.o.b
        start, done, out = (b.fresh(name) for name in ("far", "divided", "join"))
        needed, came_from = self._any(far), b.top.label
        b.open(start, holds_pure=True)
        self._decode()
        left, lines = self._loop(done)
        b.open(done, holds_pure=True)
        rest = self._encode(left)
        found = self._floored(rest, of_rest)
        finite = self.o.compare("fcmp olt", _size(self.o, self.a), _infinity(self.o, self.a))
        found = self.o.select(self.o.binary("and", far, finite), found, common)
        tail, head = b.close(), b.close()
        name, t = f"%{b.fresh('x')}", vtype(scalar_type(self.a.dtype), self.lanes)
        b.top.lines += [
            f"br i1 {needed.text}, label %{start}, label %{out}",
            f"{start}:", *head.lines, *lines, f"{done}:", *tail.lines, f"br label %{out}",
            f"{out}:",
            f"{name} = phi {t} [ {found.text}, %{done} ], [ {common.text}, %{came_from} ]",
        ]  # fmt: skip
        b.top.label = out
        return Value(name, self.a.dtype, self.lanes, b.depth)

    def _floored(self, rest: Value, of_rest: bool) -> Value:
        """The result of a remainder that has the sign of ``a``."""
        o, unlike = self.o, _unlike(self.o, rest, self.b)
        if of_rest:
            return o.select(unlike, o.binary("fadd", rest, self.b), rest)
        whole = o.intrinsic("rint", o.binary("fdiv", o.binary("fsub", self.a, rest), self.b))
        whole = o.intrinsic("copysign", whole, o.binary("fdiv", self.a, self.b))  # of a zero
        lower = o.binary("fsub", whole, o.const(1.0, self.a.dtype, self.lanes))
        return o.select(unlike, lower, whole)

    def _any(self, mask: Value) -> Value:
        """Whether a mask holds in any lane."""
        if not self.lanes:
            return mask
        t = vtype("i1", self.lanes)
        text = self.o.b.call(f"llvm.vector.reduce.or.v{self.lanes}i1", "i1", (t, mask.text))
        return self.o.b.pure(text, bool_, 0, mask.place)

    def _whole(self, value: int) -> Value:
        return self.o.const(value, uint64, self.lanes)

    def _decode(self) -> None:
        """The digits of both as integers, the exponent of ``b``, and by how much that of ``a`` is
        larger.
        """
        self.top, high = self._parts(self.a)
        digits, self.exponent = self._parts(self.b)
        self.divisor = self.o.intrinsic("umax", digits, self._whole(1))  # b = 0: another result
        self.is_less = self.o.compare("icmp ult", high, self.exponent)
        above = self.o.intrinsic("umax", high, self.exponent)
        self.excess = self.o.binary("sub", above, self.exponent)

    def _parts(self, x: Value) -> tuple[Value, Value]:
        """The digits and the exponent's field of a float; numbers too small for a leading 1 have
        field 1.
        """
        o, stored = self.o, self.digits - 1
        narrow, wide = (vtype(f"i{n}", self.lanes) for n in (x.dtype.bits, 64))
        bits = o.reinterpret(o.intrinsic("fabs", x), int32 if x.dtype is float32 else int64)
        if narrow == wide:
            bits = o.reinterpret(bits, uint64)
        else:
            bits = o.emit(f"zext {narrow} {bits.text} to {wide}", uint64, self.lanes, bits)
        field = o.binary("lshr", bits, self._whole(stored))
        digits = o.binary("and", bits, self._whole((1 << stored) - 1))
        leading = o.binary("or", digits, self._whole(1 << stored))
        ordinary = o.compare("icmp ne", field, self._whole(0))
        return o.select(ordinary, leading, digits), o.intrinsic("umax", field, self._whole(1))

    def _loop(self, done: str) -> tuple[Value, list[str]]:
        """The digits that are left, and the text of the loop."""
        o, b, t = self.o, self.o.b, vtype("i64", self.lanes)
        again, before = b.fresh("digits"), b.top.label
        b.effect(f"br label %{again}")
        b.open(again, holds_pure=True)
        rest, excess = (Value(f"%{b.fresh('l')}", uint64, self.lanes, b.depth) for _ in range(2))
        shift = o.intrinsic("umin", excess, self._whole(self.step))
        left = o.binary("urem", o.binary("shl", rest, shift), self.divisor)
        less = o.binary("sub", excess, shift)
        more = self._any(o.compare("icmp ne", less, self._whole(0)))
        scope = b.close()
        phis = [
            f"{into.text} = phi {t} [ {first.text}, %{before} ], [ {later.text}, %{again} ]"
            for into, first, later in ((rest, self.top, left), (excess, self.excess, less))
        ]
        end = f"br i1 {more.text}, label %{again}, label %{done}"
        return left, [f"{again}:", *phis, *scope.lines, end]

    def _encode(self, left: Value) -> Value:
        """The float of these digits, with the exponent of ``b`` and the sign of ``a``."""
        o, dtype, stored = self.o, self.a.dtype, self.digits - 1
        scalar = scalar_type(dtype)
        wide, t = vtype("i64", self.lanes), vtype(scalar, self.lanes)
        digits = o.emit(f"uitofp {wide} {left.text} to {t}", dtype, self.lanes, left)
        unit = o.binary("shl", self.exponent, self._whole(stored))
        if dtype is float32:
            narrow = vtype("i32", self.lanes)
            unit = o.emit(f"trunc {wide} {unit.text} to {narrow}", int32, self.lanes, unit)
        scale = o.reinterpret(unit, dtype)  # 2**(exponent - bias), an ordinary number
        small = o.const(2.0**-stored, dtype, self.lanes)
        size = o.binary("fmul", o.binary("fmul", digits, small), scale)
        return o.select(self.is_less, self.a, o.intrinsic("copysign", size, self.a))
