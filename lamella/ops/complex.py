"""Complex numbers and their parts: complex, real, imag, conj, and the modulus.

Input: a complex node, or two real ones. Everything else a complex node can do is in the class of
its operation. ``compiler.split_complex`` replaces all of it by operations on the parts, so kernels
only see real numbers. Derivatives follow the convention in ``ops.base``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella import ops
from lamella.dtypes import ALL, COMPLEX, DType, complex_of, float32, float64
from lamella.errors import DTypeError
from lamella.ir import index as ix
from lamella.ir.dim import Shape, Size
from lamella.ir.loops import Stmt
from lamella.ir.node import Node, make
from lamella.ops import complex_parts
from lamella.ops.base import (
    Array,
    Element,
    Index,
    KernelWriter,
    Kind,
    Needs,
    Parts,
    Primitive,
    Sample,
)
from lamella.ops.families import (
    Elementwise,
    Linear,
    broadcast,
    broadcast_shapes,
    check_fits,
    to_shape,
    unary,
    unbroadcast,
)
from lamella.ops.sampling import SHAPES, special
from lamella.ops.validate import require_same_dtype

__all__ = [
    "Complex", "Conj", "Imag", "Interleave", "Modulus", "Real", "complex", "conj", "direction",
    "imag", "interleave", "modulus", "real",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Complex(Elementwise):
    """``a + ib`` of two real nodes."""

    name: ClassVar[str] = "complex"
    linear: ClassVar[bool] = True

    @staticmethod
    def compute(a: Array, b: Array) -> Array:
        """The parts, assigned."""
        shape = np.broadcast_shapes(a.shape, b.shape)
        result = np.empty(shape, np.complex64 if a.dtype == np.float32 else np.complex128)
        result.real, result.imag = a, b
        return result

    def check(self, node: Node) -> None:
        """Two float32 or two float64 nodes."""
        a, b = node.inputs
        _require_parts(a, b)
        check_fits(node, broadcast_shapes(self.name, a.shape, b.shape), complex_of(a.dtype))

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """Its parts."""
        a, b = node.inputs
        return (
            unbroadcast(real(cotangent), a) if needs[0] else None,
            unbroadcast(imag(cotangent), b) if needs[1] else None,
        )

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """Of the tangents."""
        if tangents[0] is None and tangents[1] is None:
            return None
        zero = ops.constant(0.0, node.dtype.part)
        return to_shape(complex(*(zero if t is None else t for t in tangents)), node.shape)

    def complex_parts(self, node: Node, args: Sequence[Parts]) -> Parts:
        """The inputs."""
        return args[0][0], args[1][0]

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Every shape, 0-d parts, special values."""
        kinds = (float32, float64)
        for shape in SHAPES:
            yield Sample((shape, shape), complex, kinds)
        for shapes in (((), (5,)), ((2, 3), ())):
            yield Sample(shapes, complex, kinds)
        yield Sample(((144,), (144,)), complex, kinds, draw=special, differentiable=False,
                     note="special values")  # fmt: skip


@dataclass(frozen=True, slots=True)
class PartOf(Elementwise):
    """A real function of a complex number."""

    kinds: ClassVar[str] = "c"

    def check(self, node: Node) -> None:
        """The type of the parts."""
        (x,) = node.inputs
        _require_complex(self.name, x)
        check_fits(node, x.shape, x.dtype.part)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: object) -> Node:
        """The same function."""
        return make(self, (args[0],), args[0].shape, node.dtype)


@dataclass(frozen=True, slots=True)
class Real(PartOf):
    """The real part."""

    name: ClassVar[str] = "real"
    linear: ClassVar[bool] = True
    compute = staticmethod(np.real)

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangent as a complex number."""
        return (complex(cotangent, ops.constant(0.0, node.dtype)),)

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """The real part of the tangent."""
        return None if tangents[0] is None else real(tangents[0])

    def complex_parts(self, node: Node, args: Sequence[Parts]) -> Parts:
        """The first."""
        return (args[0][0],)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Every shape, special values."""
        yield from _samples(real)


@dataclass(frozen=True, slots=True)
class Imag(PartOf):
    """The imaginary part."""

    name: ClassVar[str] = "imag"
    linear: ClassVar[bool] = True
    compute = staticmethod(np.imag)

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """i times the cotangent."""
        return (complex(ops.constant(0.0, node.dtype), cotangent),)

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """The imaginary part of the tangent."""
        return None if tangents[0] is None else imag(tangents[0])

    def complex_parts(self, node: Node, args: Sequence[Parts]) -> Parts:
        """The second."""
        return (args[0][1],)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Every shape, special values."""
        yield from _samples(imag)


@dataclass(frozen=True, slots=True)
class Modulus(PartOf):
    """|x| = sqrt(a² + b²), real; derivative 0 at 0."""

    name: ClassVar[str] = "modulus"
    cost: ClassVar[int] = 16
    compute = staticmethod(np.abs)

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangent in the direction of x."""
        towards = direction(node.inputs[0])
        a, b = (ops.multiply(cotangent, part(towards)) for part in (real, imag))
        return (complex(a, b),)

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """The part of the tangent along x."""
        (tangent,) = tangents
        if tangent is None:
            return None
        return real(ops.multiply(conj(direction(node.inputs[0])), tangent))

    def complex_parts(self, node: Node, args: Sequence[Parts]) -> Parts:
        """``hypot``."""
        return (complex_parts.hypot(*args[0]),)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Every shape, special values."""
        yield from _samples(modulus)


@dataclass(frozen=True, slots=True)
class Conj(Elementwise):
    """The complex conjugate ``a - ib``."""

    name: ClassVar[str] = "conj"
    kinds: ClassVar[str] = "c"
    compute = staticmethod(np.conj)

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """Its conjugate."""
        return (conj(cotangent),)

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """The conjugate of the tangent."""
        return None if tangents[0] is None else conj(tangents[0])

    def complex_parts(self, node: Node, args: Sequence[Parts]) -> Parts:
        """The second negated."""
        return args[0][0], ops.negative(args[0][1])

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Every shape, special values."""
        yield from _samples(conj)


@dataclass(frozen=True, slots=True)
class Interleave(Linear):
    """Two real nodes side by side along a new last axis: how complex numbers lie in memory.

    A kernel of its own, so that one pass makes both parts and writes them next to each other.
    """

    name: ClassVar[str] = "interleave"
    kind: ClassVar[Kind] = "kernel"

    def check(self, node: Node) -> None:
        """Two inputs of one shape and dtype, and an axis of 2 more."""
        a, b = node.inputs
        require_same_dtype(self.name, a, b)
        check_fits(b, a.shape, a.dtype)
        check_fits(node, (*a.shape, 2), a.dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.stack``."""
        return np.stack(arrays, -1)

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The halves."""
        lead = node.shape[:-1]
        zeros = (0,) * len(lead)
        halves = (ops.slice(cotangent, (*zeros, k), (*lead, 1)) for k in (0, 1))
        return [ops.reshape(half, lead) for half in halves]

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The same, of both batched."""
        shape = (size, *node.shape[:-1])
        pairs = zip(args, batched, strict=True)
        a, b = (arg if has else to_shape(arg, shape) for arg, has in pairs)
        return interleave(a, b)

    def grid(self, node: Node) -> Shape:
        """The inputs' shape."""
        return node.shape[:-1]

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        """Two stores."""
        return [out.store((*at, ix.constant(k)), args[k](at)) for k in (0, 1)]

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Every shape."""
        for shape in SHAPES:
            yield Sample((shape, shape), interleave, ALL)


def _samples(build: object) -> Iterator[Sample]:
    for shape in SHAPES:
        yield Sample((shape,), build, COMPLEX)  # type: ignore[arg-type]
    yield Sample(((144,),), build, COMPLEX, draw=special,  # type: ignore[arg-type]
                 differentiable=False, note="special values")  # fmt: skip


def _require_parts(a: Node, b: Node) -> None:
    if a.dtype is not b.dtype or a.dtype not in (float32, float64):
        raise DTypeError(
            f"[complex] parts of {a.dtype.name} and {b.dtype.name}: a complex number is a pair of "
            "float32 or of float64; cast them with .astype(...)"
        )


def _require_complex(name: str, x: Node) -> None:
    if x.dtype.kind != "c":
        raise DTypeError(f"[{name}] takes complex numbers, not {x.dtype.name}; use it as it is")


_COMPLEX, _REAL, _IMAG, _CONJ, _MODULUS = Complex(), Real(), Imag(), Conj(), Modulus()
_INTERLEAVE = Interleave()


def complex(a: Node, b: Node) -> Node:
    """``a + ib``: complex64 of two float32 nodes, complex128 of two float64 ones.

    Raises:
        DTypeError: for other dtypes.
        ShapeError: if shapes do not broadcast.

    >>> from lamella import dtypes, ops
    >>> complex(ops.constant(1, dtypes.float64), ops.constant(2, dtypes.float64)).dtype
    lamella.complex128
    """
    _require_parts(a, b)
    args, shape = broadcast("complex", (a, b))
    return make(_COMPLEX, args, shape, complex_of(a.dtype))


def interleave(a: Node, b: Node) -> Node:
    """Shape (*S, 2) of two nodes of shape S.

    Raises:
        DTypeError, ShapeError: if they differ.

    >>> from lamella import dtypes, ops
    >>> interleave(*(ops.constant(v, dtypes.float64) for v in (1, 2))).shape
    (2,)
    """
    node = make(_INTERLEAVE, (a, b), (*a.shape, 2), a.dtype)
    node.op.check(node)
    return node


def _part(op: Primitive, x: Node) -> Node:
    return make(op, (x,), x.shape, x.dtype.part)


def real(x: Node) -> Node:
    """The real part; a real node is its own.

    >>> from lamella import dtypes, ops
    >>> real(ops.constant(1j, dtypes.complex64)).dtype
    lamella.float32
    """
    return _part(_REAL, x) if x.dtype.kind == "c" else x


def imag(x: Node) -> Node:
    """The imaginary part; of a real node zeros.

    >>> from lamella import dtypes, ops
    >>> imag(ops.constant(1j, dtypes.complex64)).dtype
    lamella.float32
    """
    return _part(_IMAG, x) if x.dtype.kind == "c" else ops.full(0, x.shape, x.dtype)


def conj(x: Node) -> Node:
    """The complex conjugate; a real node is its own, and undone by a second one.

    >>> from lamella import dtypes, ops
    >>> conj(conj(ops.constant(1j, dtypes.complex64))).op
    Complex()
    """
    if x.dtype.kind != "c":
        return x
    return x.inputs[0] if x.op is _CONJ and x.value is None else unary(_CONJ, x)


def modulus(x: Node) -> Node:
    """|x| of a complex node, real.

    Raises:
        DTypeError: for a real node.

    >>> from lamella import dtypes, ops
    >>> modulus(ops.constant(1j, dtypes.complex64)).dtype
    lamella.float32
    """
    _require_complex("modulus", x)
    return _part(_MODULUS, x)


def direction(x: Node) -> Node:
    """x / |x| of a complex node, 0 (+0.0) where it is 0.

    >>> from lamella import dtypes, ops
    >>> direction(ops.constant(1j, dtypes.complex64)).dtype
    lamella.complex64
    """
    a, b = real(x), imag(x)
    zero, one = ops.constant(0.0, a.dtype), ops.constant(1.0, a.dtype)
    endless = ops.isinf(x)  # where the infinite parts count alone
    a, b = (
        ops.where(endless, ops.copysign(ops.where(ops.isinf(part), one, zero), part), part)
        for part in (a, b)
    )
    size = modulus(complex(a, b))
    safe = ops.where(ops.equal(size, zero), one, size)
    return complex(*(ops.add(ops.divide(part, safe), zero) for part in (a, b)))
