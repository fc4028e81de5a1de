"""Element types: their names, NumPy equivalents and promotion rules.

Input: anything a user may write for a dtype (``lm.float32``, ``"float32"``, ``np.float32``,
``float``). Output: one of the interned :class:`DType` records below, comparable with ``is``.
Promotion follows the array-API standard; an integer with a float gives the float; Python scalars
are weak.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from lamella.errors import DTypeError, did_you_mean

__all__ = [
    "DType", "FloatInfo", "IntegerInfo", "as_dtype", "complex_of", "default_float", "finfo",
    "iinfo", "promote", "promote_scalar",
]  # fmt: skip


_NUMPY_NAME: Final = re.compile(r"[<>=|]?(?!a\d*$)[A-Za-z?]\w*")  # "a" for bytes is deprecated


class DType:
    """One element type. Instances are interned: compare with ``is`` (``==`` also accepts NumPy
    dtypes).

    ``kind`` is one of ``"b"`` (bool), ``"i"``, ``"u"`` (integers), ``"f"`` (floating point),
    ``"c"`` (complex). ``inexact`` says that it is one of the last two, which have derivatives.
    """

    __slots__ = (
        "_hash", "as_data", "as_scalar", "bits", "inexact", "itemsize", "kind", "name", "numpy",
    )  # fmt: skip

    def __init__(self, name: str, kind: str, numpy_type: np.dtype[np.generic]) -> None:
        self.name: Final = name
        self.kind: Final = kind
        self.numpy: Final = numpy_type
        self.itemsize: Final[int] = numpy_type.itemsize
        self.bits: Final[int] = numpy_type.itemsize * 8
        self.inexact: Final = kind in "fc"
        self.as_data: Final = f"data {name}"  # leaves of this type in the keys of programs
        self.as_scalar: Final = f"scalar {name}"
        self._hash: Final = hash(numpy_type)

    def __repr__(self) -> str:
        return f"lamella.{self.name}"

    def __hash__(self) -> int:
        return self._hash  # that of the NumPy dtype, which is equal

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, DType) or other is None:
            return False
        return bool(self.numpy == _numpy_dtype(other))

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return as_dtype, (self.name,)

    @property
    def is_floating(self) -> bool:
        """Whether the type is a real floating-point type."""
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        """Whether the type is complex: a pair of floating-point numbers."""
        return self.kind == "c"

    @property
    def part(self) -> DType:
        """The type of the real and imaginary parts; a real type is its own.

        >>> complex64.part, float64.part
        (lamella.float32, lamella.float64)
        """
        return _PARTS.get(self.name, self)

    @property
    def is_integer(self) -> bool:
        """Whether the type is a signed or unsigned integer (not bool)."""
        return self.kind in "iu"


def _numpy_dtype(value: object) -> np.dtype[np.generic] | None:
    """What NumPy makes of ``value``; None for nothing, and for names that it warns of."""
    if value is None or (isinstance(value, str) and not _NUMPY_NAME.fullmatch(value)):
        return None
    if isinstance(getattr(value, "dtype", None), DType):
        return None  # a tensor is no name of its element type
    try:
        found: np.dtype[np.generic] = np.dtype(value)  # type: ignore[call-overload]
        return found
    except (TypeError, ValueError, SyntaxError):  # as NumPy finds it
        return None


def _bfloat16() -> np.dtype[np.generic]:
    import ml_dtypes

    found: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
    return found


bool_ = DType("bool", "b", np.dtype(np.bool_))
int8 = DType("int8", "i", np.dtype(np.int8))
int16 = DType("int16", "i", np.dtype(np.int16))
int32 = DType("int32", "i", np.dtype(np.int32))
int64 = DType("int64", "i", np.dtype(np.int64))
uint8 = DType("uint8", "u", np.dtype(np.uint8))
uint16 = DType("uint16", "u", np.dtype(np.uint16))
uint32 = DType("uint32", "u", np.dtype(np.uint32))
uint64 = DType("uint64", "u", np.dtype(np.uint64))
float16 = DType("float16", "f", np.dtype(np.float16))
bfloat16 = DType("bfloat16", "f", _bfloat16())
float32 = DType("float32", "f", np.dtype(np.float32))
float64 = DType("float64", "f", np.dtype(np.float64))
complex64 = DType("complex64", "c", np.dtype(np.complex64))
complex128 = DType("complex128", "c", np.dtype(np.complex128))

# ALL are the real types, of which kernels are made; a complex number is a pair of reals.
ALL: Final = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float16, bfloat16, float32, float64,
)  # fmt: skip
INTEGERS: Final = tuple(d for d in ALL if d.is_integer)
FLOATS: Final = tuple(d for d in ALL if d.is_floating)
COMPLEX: Final = (complex64, complex128)

_PARTS: Final = {"complex64": float32, "complex128": float64}
_BY_NAME: Final = {d.name: d for d in (*ALL, *COMPLEX)} | {
    "half": float16, "float": float32, "double": float64, "long": int64, "int": int64,
    "cfloat": complex64, "cdouble": complex128,
}  # fmt: skip
_BY_NUMPY: Final = {d.numpy: d for d in (*ALL, *COMPLEX)}
_BY_PYTHON: Final[dict[type, DType]] = {
    bool: bool_, int: int64, float: float32, complex: complex64,
}  # fmt: skip


def as_dtype(value: object) -> DType:
    """Return the :class:`DType` that ``value`` names.

    Args:
        value: a ``DType``, a name, a NumPy dtype or scalar type, or ``bool`` / ``int`` / ``float``
            / ``complex`` (int64, float32 and complex64 for the last three).

    Raises:
        DTypeError: if it names no supported element type.

    >>> as_dtype("float32"), as_dtype(np.int8)
    (lamella.float32, lamella.int8)
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    if isinstance(value, type) and value in _BY_PYTHON:
        return _BY_PYTHON[value]
    known = _numpy_dtype(value)
    found = None if known is None else _BY_NUMPY.get(known)
    if found is None:
        name = value if isinstance(value, str) else getattr(value, "__name__", str(value))
        raise DTypeError(
            f"[dtype] {value!r:.60} is not a supported element type; "
            f"{did_you_mean(name, [d.name for d in (*ALL, *COMPLEX)])}"
        )
    return found


def default_float() -> DType:
    """The type of floating-point results that no operand decides: float32."""
    return float32


def complex_of(part: DType) -> DType:
    """The complex type whose parts hold numbers of type ``part``.

    >>> complex_of(float16), complex_of(float64)
    (lamella.complex64, lamella.complex128)
    """
    return complex128 if part is float64 or part is complex128 else complex64


_RANK: Final = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def _promote(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if a.inexact and b.inexact and a.kind != b.kind:
        return complex_of(_promote(a.part, b.part))
    if _RANK[a.kind] != _RANK[b.kind]:
        return a if _RANK[a.kind] > _RANK[b.kind] else b
    if a.kind == b.kind:
        if a.bits == b.bits:  # float16 with bfloat16
            return float32
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    if unsigned.bits == 64:
        raise DTypeError(
            f"[promote] {signed.name} with uint64: no integer type holds both; "
            "cast one of them with .astype(...)"
        )
    return _BY_NAME[f"int{unsigned.bits * 2}"]


_PROMOTED: Final[dict[tuple[DType, DType], DType]] = {}


def promote(a: DType, b: DType) -> DType:
    """The element type of a result computed from ``a`` and ``b`` (array-API promotion).

    Raises:
        DTypeError: for a signed integer with uint64, which no type holds.

    >>> promote(int8, uint8), promote(int32, float32), promote(float16, bfloat16)
    (lamella.int16, lamella.float32, lamella.float32)
    """
    found = _PROMOTED.get((a, b))
    if found is None:
        found = _PROMOTED[a, b] = _promote(a, b)
    return found


def promote_scalar(dtype: DType, scalar: bool | int | float | complex) -> DType:
    """The type of a result of a tensor of ``dtype`` with a Python scalar, which is weak.

    >>> promote_scalar(float16, 2.5), promote_scalar(int32, 2.5), promote_scalar(bool_, 1)
    (lamella.float16, lamella.float32, lamella.int64)
    >>> promote_scalar(float64, 1j), promote_scalar(complex64, 2.5)
    (lamella.complex128, lamella.complex64)
    """
    kind: type = scalar.__class__  # of a number that stands for another, that one's
    if kind is float:
        return dtype if dtype.inexact else float32
    if kind is int:
        return int64 if dtype.kind == "b" else dtype
    if kind is complex:
        return dtype if dtype.kind == "c" else complex_of(dtype)
    return dtype


@dataclass(frozen=True, slots=True)
class FloatInfo:
    """Limits of a floating-point type, as Python numbers; of a complex type those of its parts."""

    bits: int
    eps: float  # from 1 to the next larger number
    max: float
    min: float
    smallest_normal: float
    smallest_subnormal: float
    dtype: DType

    @property
    def tiny(self) -> float:
        """NumPy's and PyTorch's name of ``smallest_normal``."""
        return self.smallest_normal


@dataclass(frozen=True, slots=True)
class IntegerInfo:
    """Limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: DType


def _of(value: object) -> DType:
    """The type of a tensor or array, or the one that ``value`` names."""
    return as_dtype(getattr(value, "dtype", value))


def finfo(dtype: object) -> FloatInfo:
    """The limits of a floating-point type, or of a tensor's; of a complex one those of its parts.

    Raises:
        DTypeError: for another type.

    >>> finfo("float32").bits, finfo(float64).eps == 2.0**-52
    (32, True)
    """
    import ml_dtypes

    kind = _of(dtype)
    if not kind.inexact:
        raise DTypeError(f"[finfo] {kind.name} is no floating-point type; use iinfo for integers")
    found = ml_dtypes.finfo(kind.part.numpy)
    return FloatInfo(
        kind.part.bits, float(found.eps), float(found.max), float(found.min),
        float(found.smallest_normal), float(found.smallest_subnormal), kind.part,
    )  # fmt: skip


def iinfo(dtype: object) -> IntegerInfo:
    """The limits of an integer type, or of a tensor's.

    Raises:
        DTypeError: for another type.

    >>> iinfo("int8").max
    127
    """
    kind = _of(dtype)
    if not kind.is_integer:
        raise DTypeError(f"[iinfo] {kind.name} is no integer type; use finfo for floating point")
    least = 0 if kind.kind == "u" else -(2 ** (kind.bits - 1))
    return IntegerInfo(kind.bits, least + 2**kind.bits - 1, least, kind)
