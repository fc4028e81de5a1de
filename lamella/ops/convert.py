"""Conversion of element types: ``cast`` keeps the value, ``bitcast`` keeps the bits.

The target dtype is the node's. Float to integer truncates and saturates (nan gives 0), to bool is
``x != 0``, to float rounds to nearest even. Of a complex number a real type keeps the real part.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella import ops
from lamella.dtypes import ALL, FLOATS, DType, float32
from lamella.errors import DTypeError
from lamella.ir import loops
from lamella.ir.loops import Expr
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Needs, Parts, Sample
from lamella.ops.families import Elementwise, check_fits
from lamella.ops.sampling import SHAPES, special

__all__ = ["Bitcast", "Cast", "bitcast", "cast"]


@dataclass(frozen=True, slots=True)
class Cast(Elementwise):
    """The same value in another element type."""

    name: ClassVar[str] = "cast"
    kinds: ClassVar[str] = "biufc"
    widens: ClassVar[bool] = False

    def check(self, node: Node) -> None:
        """Any dtypes."""
        check_fits(node, node.inputs[0].shape, node.dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """Saturating conversion."""
        return convert(arrays[0], dtype)

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangent cast back."""
        return (cast(cotangent, node.inputs[0].dtype),)

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """The tangent cast; none for a result that has no derivative."""
        (tangent,) = tangents
        if tangent is None or not node.dtype.inexact:
            return None
        return cast(tangent, node.dtype)

    def complex_parts(self, node: Node, args: Sequence[Parts]) -> Parts:
        """Each part cast; a real number has the imaginary part 0, and of a complex one the real
        part is kept (for bool: whether either is not 0).
        """
        (parts,) = args
        if node.dtype.kind == "c":
            real, *imaginary = (cast(part, node.dtype.part) for part in parts)
            return real, imaginary[0] if imaginary else ops.zeros(node.shape, node.dtype.part)
        if node.dtype.kind == "b":
            return (ops.logical_or(*(cast(part, node.dtype) for part in parts)),)
        return (cast(parts[0], node.dtype),)

    def expr(self, node: Node, values: Sequence[Expr]) -> Expr:
        """``cast``."""
        return loops.cast(values[0], node.dtype)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Every pair of dtypes, at ordinary and special values."""
        for target in ALL:
            for draw in (None, special):
                yield Sample(
                    ((24,),), lambda x, t=target: cast(x, t), ALL, low=0.0, draw=draw,
                    differentiable=draw is None and target.kind == "f", note=f"to {target.name}",
                )  # fmt: skip
        for shape in SHAPES:
            yield Sample((shape,), lambda x: cast(x, float32), FLOATS)


def convert(array: Array, dtype: DType) -> Array:
    """``array`` as ``dtype`` under Lamella's rules, in NumPy.

    >>> from lamella import dtypes
    >>> convert(np.array([300.0, np.nan, -1.7]), dtypes.int8)
    array([127,   0,  -1], dtype=int8)
    """
    if dtype.kind == "b":
        return np.asarray(array != 0)
    if array.dtype.kind == "c" and dtype.kind != "c":
        array = array.real
    floating = array.dtype.kind not in "biu"
    with np.errstate(all="ignore"):
        if not floating or dtype.inexact:
            return np.asarray(array).astype(dtype.numpy)
        wide = np.trunc(array.astype(np.float64))
        limits = np.iinfo(dtype.name)
        found = wide.astype(dtype.numpy)
        found = np.where(wide >= float(limits.max), dtype.numpy.type(limits.max), found)
        found = np.where(wide <= float(limits.min), dtype.numpy.type(limits.min), found)
        return np.where(np.isnan(wide), dtype.numpy.type(0), found).astype(dtype.numpy)


@dataclass(frozen=True, slots=True)
class Bitcast(Elementwise):
    """The same bits as another element type of the same size."""

    name: ClassVar[str] = "bitcast"
    kinds: ClassVar[str] = "iuf"
    widens: ClassVar[bool] = False
    differentiable: ClassVar[bool] = False

    def check(self, node: Node) -> None:
        """Dtypes of one size, not bool."""
        _same_bits(node.inputs[0].dtype, node.dtype)
        check_fits(node, node.inputs[0].shape, node.dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``ndarray.view``."""
        return np.ascontiguousarray(arrays[0]).reshape(shape).view(dtype.numpy)

    def expr(self, node: Node, values: Sequence[Expr]) -> Expr:
        """``bitcast``."""
        return loops.apply("bitcast", *values, dtype=node.dtype)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Every pair of dtypes of one size."""
        for target in ALL[1:]:
            same = tuple(d for d in ALL[1:] if d.bits == target.bits)
            yield Sample(((3, 4),), lambda x, t=target: bitcast(x, t), same, differentiable=False)


def _same_bits(source: DType, target: DType) -> None:
    if source.bits != target.bits or "b" in (source.kind, target.kind):
        raise DTypeError(
            f"[bitcast] {source.name} has {source.bits} bits and {target.name} {target.bits}: the "
            "sizes must agree and bool takes no part; use cast to convert the value"
        )


_CAST = Cast()
_BITCAST = Bitcast()


def cast(x: Node, dtype: DType) -> Node:
    """``x`` converted to ``dtype``; ``x`` itself if it has that dtype.

    >>> from lamella import dtypes, ops
    >>> cast(ops.constant(2.5, dtypes.float32), dtypes.int32).dtype
    lamella.int32
    """
    return x if x.dtype is dtype else make(_CAST, (x,), x.shape, dtype)


def bitcast(x: Node, dtype: DType) -> Node:
    """The bits of ``x`` as ``dtype``.

    Raises:
        DTypeError: unless both have the same size and neither is bool.

    >>> from lamella import dtypes, ops
    >>> bitcast(ops.constant(1.0, dtypes.float32), dtypes.int32).dtype
    lamella.int32
    """
    _same_bits(x.dtype, dtype)
    return x if x.dtype is dtype else make(_BITCAST, (x,), x.shape, dtype)
