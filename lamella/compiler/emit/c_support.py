"""The C99 helper functions that emitted kernels use: one template per operation and family of
types.

Input: an operation and a dtype. Output: the name of a ``static inline`` function;
``Helpers.source`` then holds the definitions of those asked for, and no others. They have no
undefined behaviour: integers wrap through unsigned arithmetic, divisions and shifts are guarded,
conversions saturate. float16 and bfloat16 values are held in ``float`` and rounded after each
operation; in memory they are ``uint16_t``.
"""

from __future__ import annotations

from typing import Final

from lamella.dtypes import DType
from lamella.errors import CompilerError

__all__ = ["Helpers", "storage_type", "value_type"]

_TYPES: Final = {"bool": "bool", "float32": "float", "float64": "double"}
_UNARY: Final = frozenset(["neg", "abs", "sign", "not"])
_TERNARY: Final = frozenset(["fma", "dotbytes", "udotbytes"])

# T is the type, U an unsigned type at least as wide as int and T, BITS the number of bits of T.
_SIGNED: Final = {
    "add": "return (T)((U)a + (U)b);",
    "sub": "return (T)((U)a - (U)b);",
    "mul": "return (T)((U)a * (U)b);",
    "fma": "return (T)((U)a * (U)b + (U)c);",
    "neg": "return (T)(0 - (U)a);",
    "abs": "return a < 0 ? (T)(0 - (U)a) : a;",
    "sign": "return (T)((a > 0) - (a < 0));",
    "not": "return (T)~a;",
    "max": "return a > b ? a : b;",
    "min": "return a < b ? a : b;",
    "floordiv": (
        "if (b == 0) return 0;\n    if (b == -1) return (T)(0 - (U)a);\n"
        "    return (T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));"
    ),
    "mod": (
        "if (b == 0 || b == -1) return 0;\n    const T rest = (T)(a % b);\n"
        "    return rest != 0 && (rest < 0) != (b < 0) ? (T)(rest + b) : rest;"
    ),
    "shl": "return b < 0 || b >= BITS ? 0 : (T)((U)a << b);",
    "shr": (
        "if (b < 0 || b >= BITS) return a < 0 ? -1 : 0;\n"
        "    return a < 0 ? (T)~(~a >> b) : (T)(a >> b);"
    ),
    "pow": (
        "if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;\n"
        "    U power = 1, square = (U)a;\n"
        "    for (; b > 0; b /= 2, square *= square) if (b % 2) power *= square;\n"
        "    return (T)power;"
    ),
}
for _op, _kind in (("dotbytes", "int8_t"), ("udotbytes", "uint8_t")):
    _SIGNED[_op] = (
        "U total = (U)c;\n    for (int at = 0; at < BITS; at += 8)\n"
        f"        total += (U)(({_kind})((U)a >> at) * (int8_t)((U)b >> at));\n"
        "    return (T)total;"
    )
_UNSIGNED: Final = {
    **{op: _SIGNED[op] for op in ("add", "sub", "mul", "fma", "neg", "not", "max", "min")},
    "abs": "return a;",
    "sign": "return a > 0;",
    "floordiv": "return b == 0 ? 0 : (T)(a / b);",
    "mod": "return b == 0 ? 0 : (T)(a % b);",
    "shl": "return b >= BITS ? 0 : (T)((U)a << b);",
    "shr": "return b >= BITS ? 0 : (T)(a >> b);",
    "pow": (
        "U power = 1, square = (U)a;\n"
        "    for (; b > 0; b /= 2, square *= square) if (b % 2) power *= square;\n"
        "    return (T)power;"
    ),
    "mulhi": "return (T)((uint64_t)a * b >> BITS);",
}
_MULHI_64: Final = (
    "const uint64_t low = (uint32_t)a * (uint64_t)(uint32_t)b;\n"
    "    const uint64_t one = (a >> 32) * (uint32_t)b + (low >> 32);\n"
    "    const uint64_t two = (uint32_t)a * (b >> 32) + (uint32_t)one;\n"
    "    return (a >> 32) * (b >> 32) + (one >> 32) + (two >> 32);"
)
# Nothing is below -0.0 but the numbers, so that max(-0.0, 0.0) is 0.0 in any order.
_FLOAT: Final = {
    "max": (
        "if (isnan(a) || isnan(b)) return isnan(a) ? a : b;\n"
        "    if (a == b) return signbit(a) ? b : a;\n    return a > b ? a : b;"
    ),
    "min": (
        "if (isnan(a) || isnan(b)) return isnan(a) ? a : b;\n"
        "    if (a == b) return signbit(a) ? a : b;\n    return a < b ? a : b;"
    ),
    "sign": "return isnan(a) || a == 0 ? a : a > 0 ? (T)1 : (T)-1;",
    # The remainder of the exact quotient, with the divisor's sign; the quotient is then a whole
    # number.
    "mod": (
        "const T rest = (T)fmod(a, b);\n"
        "    if (rest == 0) return (T)copysign(0.0, b);\n"
        "    return (rest < 0) != (b < 0) ? rest + b : rest;"
    ),
    "floordiv": (
        "if (b == 0) return a / b;\n    T rest = (T)fmod(a, b);\n"
        "    T quotient = (a - rest) / b;\n"
        "    if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;\n"
        "    if (quotient == 0) return (T)copysign(0.0, a / b);\n"
        "    const T whole = (T)floor(quotient);\n"
        "    return quotient - whole > (T)0.5 ? whole + 1 : whole;"
    ),
}

_FIXED: Final = {
    # The bits of the float16 nearest to a double (ties to even): the exponent's field and the
    # digits are added, so that digits which round up carry into the exponent.
    "to_float16": """static inline uint16_t lm_to_float16(double a) {
    const uint16_t sign = signbit(a) ? 0x8000u : 0u;
    const double size = fabs(a);
    if (isnan(a)) return (uint16_t)(sign | 0x7e00u);
    if (size >= 65520.0) return (uint16_t)(sign | 0x7c00u);
    if (size == 0) return sign;
    int exponent;
    frexp(size, &exponent);
    if (exponent < -13) exponent = -13;
    const int digits = (int)nearbyint(ldexp(size, 11 - exponent));
    return (uint16_t)(sign | (((exponent + 13) << 10) + digits));
}""",
    "from_float16": """static inline float lm_from_float16(uint16_t bits) {
    const int exponent = (bits >> 10) & 31, digits = bits & 1023;
    const float size = exponent == 31 ? (digits ? NAN : INFINITY)
        : exponent == 0 ? ldexpf((float)digits, -24)
        : ldexpf((float)(digits + 1024), exponent - 25);
    return bits & 0x8000u ? -size : size;
}""",
    "to_bfloat16": """static inline uint16_t lm_to_bfloat16(double a) {
    const uint16_t sign = signbit(a) ? 0x8000u : 0u;
    const double size = fabs(a);
    if (isnan(a)) return (uint16_t)(sign | 0x7fc0u);
    if (size >= 0x1.ffp127) return (uint16_t)(sign | 0x7f80u);
    if (size == 0) return sign;
    int exponent;
    frexp(size, &exponent);
    if (exponent < -125) exponent = -125;
    const int digits = (int)nearbyint(ldexp(size, 8 - exponent));
    return (uint16_t)(sign | (((exponent + 125) << 7) + digits));
}""",
    "from_bfloat16": """static inline float lm_from_bfloat16(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}""",
    "round_float16": """static inline float lm_round_float16(double a) {
    return lm_from_float16(lm_to_float16(a));
}""",
    "round_bfloat16": """static inline float lm_round_bfloat16(double a) {
    return lm_from_bfloat16(lm_to_bfloat16(a));
}""",
    # A double that rounds to a short format as the 64-bit integer itself would: bits lost are kept
    # as a sticky bit.
    "sticky_uint64": """static inline double lm_sticky_uint64(uint64_t a) {
    return a >> 53 ? ldexp((double)(a >> 11 | ((a & 2047u) != 0)), 11) : (double)a;
}""",
    "sticky_int64": """static inline double lm_sticky_int64(int64_t a) {
    return a < 0 ? -lm_sticky_uint64(0 - (uint64_t)a) : lm_sticky_uint64((uint64_t)a);
}""",
    # a * b + c of short formats, whose product a double holds exactly; the error of the sum decides
    # the last bit, so that rounding again to the short format is as if once.
    "fma_sticky": """static inline double lm_fma_sticky(double a, double b, double c) {
    const double product = a * b, sum = product + c;
    if (!isfinite(sum)) return sum;
    const double part = sum - product;
    const double lost = (product - (sum - part)) + (c - part);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (lost == 0 || bits & 1) return sum;
    return nextafter(sum, lost > 0 ? INFINITY : -INFINITY);
}""",
    "checked_index": """static inline int64_t lm_checked_index(int64_t a, int64_t b,
    int64_t *fault, int64_t code) {
    if (a >= 0 && a < b) return a;
    if (a < 0 && a >= -b) return a + b;
    fault[0] = code;
    return 0;
}""",
}
_NEEDS: Final = {
    "round_float16": ("from_float16", "to_float16"),
    "round_bfloat16": ("from_bfloat16", "to_bfloat16"),
    "sticky_int64": ("sticky_uint64",),
}


def storage_type(dtype: DType) -> str:
    """The C type of an element in memory.

    >>> from lamella.dtypes import bfloat16, int8
    >>> storage_type(bfloat16), storage_type(int8)
    ('uint16_t', 'int8_t')
    """
    if dtype.kind == "f" and dtype.bits == 16:
        return "uint16_t"
    return _TYPES.get(dtype.name, f"{dtype.name}_t")


def value_type(dtype: DType) -> str:
    """The C type of a value: that of memory, but ``float`` for float16 and bfloat16."""
    return "float" if dtype.kind == "f" and dtype.bits == 16 else storage_type(dtype)


class Helpers:
    """The helper functions used so far: each ``call`` returns a C call and keeps the function's
    definition.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    @property
    def source(self) -> str:
        """The definitions, those that others need first."""
        return "\n\n".join(self._known.values())

    def fixed(self, name: str, *args: str) -> str:
        """A call of a helper that is not a template."""
        for need in _NEEDS.get(name, ()):
            self.fixed(need)
        self._known.setdefault(name, _FIXED[name])
        return f"lm_{name}({', '.join(args)})"

    def call(self, op: str, dtype: DType, *args: str) -> str:
        """``op`` on values of ``dtype``; float16 and bfloat16 take the float version, to be
        rounded.

        Raises:
            CompilerError: if the operation is not one on this dtype.

        >>> from lamella.dtypes import int32
        >>> Helpers().call("add", int32, "a", "b")
        'lm_add_int32(a, b)'
        """
        bodies = {"i": _SIGNED, "u": _UNSIGNED, "f": _FLOAT}.get(dtype.kind, {})
        if op not in bodies:
            raise CompilerError(f"[emit_c] {op} is not an operation on {dtype.name}")
        body = _MULHI_64 if op == "mulhi" and dtype.bits == 64 else bodies[op]
        kind = value_type(dtype)
        name = f"{op}_{'float32' if kind == 'float' else dtype.name}"
        if dtype.kind == "f" and op in (
            "mod",
            "floordiv",
        ):  # in double, where the quotient is exact enough
            kind, name = "double", f"{op}_float64"
        wide = "uint64_t" if dtype.bits == 64 else "uint32_t"
        names = ["a", "b", "c"][: 1 if op in _UNARY else 3 if op in _TERNARY else 2]
        head = f"static inline {kind} lm_{name}({', '.join([f'{kind} {n}' for n in names])})"
        text = body.replace("(T)", f"({kind})").replace("T ", f"{kind} ")
        text = text.replace("(U)", f"({wide})").replace("U ", f"{wide} ")
        text = text.replace("BITS", str(dtype.bits))
        self._known.setdefault(name, f"{head} {{\n    {text}\n}}")
        return f"lm_{name}({', '.join(args)})"

    def saturate(self, dtype: DType, value: str) -> str:
        """The conversion of a double to an integer type: towards zero, saturating, nan to 0."""
        kind, name = storage_type(dtype), f"saturate_{dtype.name}"
        signed = dtype.kind == "i"
        limit = dtype.name.upper()
        low = f"{limit}_MIN" if signed else "0"
        below = f"a <= -0x1p{dtype.bits - 1}" if signed else "!(a > 0)"
        self._known.setdefault(name, (
            f"static inline {kind} lm_{name}(double a) {{\n"
            f"    if (isnan(a)) return 0;\n    if ({below}) return {low};\n"
            f"    return a >= 0x1p{dtype.bits - signed} ? {limit}_MAX : ({kind})a;\n}}"
        ))  # fmt: skip
        return f"lm_{name}({value})"

    def wins(self, op: str, dtype: DType, *args: str) -> str:
        """Whether (value, index) wins over (best, where) in argmax or argmin: the better, then the
        earlier.
        """
        kind, name = value_type(dtype), f"{op}_{dtype.name}"
        sign = ">" if op == "argmax" else "<"
        nan = (
            "    if (isnan(best)) return isnan(value) && index < where;\n"
            "    if (isnan(value)) return true;\n"
        )
        self._known.setdefault(name, (
            f"static inline bool lm_{name}"
                f"({kind} value, int64_t index, {kind} best, int64_t where) {{\n"
            f"{nan if dtype.kind == 'f' else ''}"
            f"    return value {sign} best || (value == best && index < where);\n}}"
        ))  # fmt: skip
        return f"lm_{name}({', '.join(args)})"

    def bits(self, source: DType, dtype: DType, value: str) -> str:
        """The bits of a value of ``source`` (in its storage type) read as ``dtype``."""
        old, new = storage_type(source), storage_type(dtype)
        name = f"bits_{source.name}_{dtype.name}"
        self._known.setdefault(name, (
            f"static inline {new} lm_{name}({old} a) {{\n"
            f"    {new} bits;\n    memcpy(&bits, &a, sizeof bits);\n    return bits;\n}}"
        ))  # fmt: skip
        return f"lm_{name}({value})"
