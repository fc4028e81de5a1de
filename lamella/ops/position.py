"""Where along an axis the largest or smallest element is: argmax and argmin, int64.

The first of equal elements; a nan counts as the extreme, as in NumPy. No derivative.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella import ops
from lamella.dtypes import ALL, DType, bool_, int64, uint8
from lamella.ir.loops import Const
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Kind, Sample
from lamella.ops.families import Positions, check_fits, normalize_axes
from lamella.ops.reduce import lowest, remaining, require_elements, wide
from lamella.ops.sampling import special
from lamella.ops.validate import require_ordered

__all__ = ["ArgMax", "ArgMin", "argmax", "argmin"]


@dataclass(frozen=True, slots=True)
class ArgExtremum(Positions):
    """The first position along ``axis`` of an extremum, int64; a nan counts as the extremum."""

    kind: ClassVar[Kind] = "reduction"

    @property
    def axes(self) -> tuple[int, ...]:
        """The axis as every reduction names it."""
        return (self.axis,)

    def check(self, node: Node) -> None:
        """The remaining axes in order, int64."""
        x = node.inputs[0]
        normalize_axes(self.name, self.axis, x.ndim)
        check_fits(node, remaining(x.shape, (self.axis,)), int64)


@dataclass(frozen=True, slots=True)
class ArgMax(ArgExtremum):
    """The first position of the largest element."""

    name: ClassVar[str] = "argmax"

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.argmax``."""
        return np.asarray(np.argmax(wide(arrays[0]), axis=self.axis)).astype(np.int64)

    def fold(self, node: Node) -> tuple[str, Const]:
        """``argmax`` from the lowest value."""
        return "argmax", lowest(node.inputs[0].dtype, -1)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Ties and nans."""
        yield from _positions(argmax)


@dataclass(frozen=True, slots=True)
class ArgMin(ArgExtremum):
    """The first position of the smallest element."""

    name: ClassVar[str] = "argmin"

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.argmin``."""
        return np.asarray(np.argmin(wide(arrays[0]), axis=self.axis)).astype(np.int64)

    def fold(self, node: Node) -> tuple[str, Const]:
        """``argmin`` from the highest value."""
        return "argmin", lowest(node.inputs[0].dtype, 1)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Ties and nans."""
        yield from _positions(argmin)


def _positions(build: Callable[[Node, int], Node]) -> Iterator[Sample]:
    for shape, axis in (((17,), 0), ((2, 3, 5), 1), ((0, 3), 1), ((4, 6), -1)):
        yield Sample((shape,), lambda x, a=axis: build(x, a), ALL, differentiable=False)
    yield Sample(((12, 12),), lambda x: build(x, 1), ALL, draw=special, differentiable=False,
                 note="special values")  # fmt: skip


def _position(op: type[ArgExtremum], x: Node, axis: int) -> Node:
    require_ordered(op.name, x)
    (found,) = normalize_axes(op.name, axis, x.ndim)
    require_elements(op.name, x, axis)
    source = ops.cast(x, uint8) if x.dtype is bool_ else x
    return make(op(found), (source,), remaining(x.shape, (found,)), int64)


def argmax(x: Node, axis: int) -> Node:
    """The first position of the largest element along ``axis``, int64; the first nan wins.

    Raises:
        ShapeError: for an axis out of range or known to be empty.

    >>> from lamella import dtypes, ops
    >>> argmax(ops.iota((2, 3), 0, dtypes.int64), 0).shape
    (3,)
    """
    return _position(ArgMax, x, axis)


def argmin(x: Node, axis: int) -> Node:
    """The first position of the smallest element along ``axis``, int64; the first nan wins.

    Raises:
        ShapeError: for an axis out of range or known to be empty.

    >>> from lamella import dtypes, ops
    >>> argmin(ops.iota((2, 3), 0, dtypes.int64), 0).shape
    (3,)
    """
    return _position(ArgMin, x, axis)
