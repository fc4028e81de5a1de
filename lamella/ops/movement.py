"""Movement: reshape, permute, broadcast_to and flip, which only say where an element comes from.

Input: a node. Output: a node whose element at an index is one element of the input; nothing is
computed, so the compiler composes these with whatever reads them. All are linear, and each one's
transpose is written with the others and ``reduce_sum``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lamella import dtypes, ops
from lamella.dtypes import DType
from lamella.errors import ShapeError
from lamella.ir import index as ix
from lamella.ir.dim import Shape, Size, product
from lamella.ir.loops import Expr
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Element, Index, Needs, Sample
from lamella.ops.families import Movement, broadcast_shapes, check_fits, normalize_axes

__all__ = [
    "BroadcastTo",
    "Flip",
    "Permute",
    "Reshape",
    "broadcast_to",
    "flip",
    "permute",
    "reshape",
    "zeros",
]


def _cuts(shape: Shape) -> dict[Size, int]:
    """Product of the leading sizes -> how many sizes, the most where several agree."""
    found: dict[Size, int] = {1: 0}
    total: Size = 1
    for count, size in enumerate(shape, 1):
        total = total * size
        found[total] = count
    return found


def reshape_index(index: Index, result: Shape, source: Shape) -> Index:
    """The index in ``source`` of the element at ``index`` of ``result``, of equal row-major offset.

    Both shapes are cut where their leading products agree, so axes left alone keep their index.
    """
    if 0 in source:  # no element exists, so nothing will be read
        return tuple(ix.constant(0) for _ in source)
    cuts = _cuts(result)
    found: list[Expr] = []
    start_result = start_source = 0
    for total, end_source in _cuts(source).items():
        end_result = cuts.get(total)
        if end_result is None or end_result < start_result:
            continue
        offset = ix.linearise(index[start_result:end_result], result[start_result:end_result])
        found.extend(ix.split_linear(offset, source[start_source:end_source]))
        start_result, start_source = end_result, end_source
    if start_source < len(source):  # the ends agree too, though symbols may not show it
        offset = ix.linearise(index[start_result:], result[start_result:])
        found.extend(ix.split_linear(offset, source[start_source:]))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Reshape(Movement):
    """The same elements in row-major order under another shape."""

    name = "reshape"

    def check(self, node: Node) -> None:
        """As many elements, of the same dtype."""
        if product(node.inputs[0].shape) != product(node.shape):
            check_fits(node, node.inputs[0].shape, node.dtype)
        check_fits(node, node.shape, node.inputs[0].dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.reshape``."""
        return arrays[0].reshape(shape)

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """Reshaped back."""
        return (reshape(cotangent, node.inputs[0].shape),)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The batch axis stays apart."""
        return reshape(args[0], (size, *node.shape))

    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """The element at the same row-major offset."""
        return args[0](reshape_index(index, node.shape, node.inputs[0].shape))

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Splits, merges, both, sizes 1 and 0."""
        cases: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
            ((), (1, 1)), ((6,), (2, 3)), ((2, 3, 4), (4, 6)), ((4, 6), (3, 2, 4)),
            ((0, 3), (3, 0, 2)), ((2, 1, 3, 5), (2, 15)), ((1,), ()),
        )  # fmt: skip
        for source, target in cases:
            yield Sample((source,), lambda x, t=target: reshape(x, t), dtypes.ALL)


def reshape(x: Node, shape: Sequence[Size]) -> Node:
    """``x`` with the same elements, in row-major order, under ``shape``, where one size may be -1.

    Raises:
        ShapeError: when the numbers of elements differ.

    >>> from lamella import dtypes, ops
    >>> reshape(ops.iota((6,), 0, dtypes.int64), (2, -1)).shape
    (2, 3)
    """
    wanted = tuple(shape)
    if -1 in wanted:
        wanted = _work_out(x, wanted)
    if wanted == x.shape:
        return x
    if product(wanted) != product(x.shape):
        raise ShapeError(
            f"[reshape] shape {x.shape} to {wanted}: {product(x.shape)} ≠ {product(wanted)} "
            "elements, and reshaping keeps them all; choose sizes with the same product"
        )
    return make(_RESHAPE, (x,), wanted, x.dtype)


_RESHAPE = Reshape()


def _work_out(x: Node, wanted: Shape) -> Shape:
    rest = product(tuple(size for size in wanted if size != -1))
    total = product(x.shape)
    found = total // rest if rest != 0 else 0
    if wanted.count(-1) > 1 or rest == 0 or found * rest != total:
        raise ShapeError(
            f"[reshape] shape {x.shape} to {wanted}: one size -1 must make up {total} elements "
            "exactly; give the sizes as numbers"
        )
    return tuple(found if size == -1 else size for size in wanted)


@dataclass(frozen=True, slots=True)
class Permute(Movement):
    """Axis ``i`` of the result is axis ``axes[i]`` of the input."""

    axes: tuple[int, ...]

    name = "permute"

    def check(self, node: Node) -> None:
        """The input's sizes in the new order."""
        (x,) = node.inputs
        normalize_axes(self.name, self.axes, x.ndim)
        check_fits(node, tuple(x.shape[a] for a in self.axes), x.dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.transpose``."""
        return arrays[0].transpose(self.axes)

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The inverse permutation."""
        return (permute(cotangent, _inverse(self.axes)),)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The batch axis stays first."""
        return permute(args[0], (0, *(a + 1 for a in self.axes)))

    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """The index in the old order."""
        return args[0](tuple(index[i] for i in _inverse(self.axes)))

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """One to three axes."""
        cases = (((3,), (0,)), ((2, 3), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((3, 0, 2), (1, 2, 0)))
        for shape, axes in cases:
            yield Sample((shape,), lambda x, a=axes: permute(x, a), dtypes.ALL)


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axes.index(a) for a in range(len(axes)))


def permute(x: Node, axes: Sequence[int]) -> Node:
    """``x`` with its axes reordered: axis ``axes[k]`` of ``x`` becomes axis k.

    Raises:
        ShapeError: unless ``axes`` names each axis once.

    >>> from lamella import dtypes, ops
    >>> permute(ops.iota((2, 3), 0, dtypes.int64), (1, 0)).shape
    (3, 2)
    """
    op = _permutation(tuple(axes), x.ndim)
    if op is None:
        return x
    shape = x.shape
    return make(op, (x,), tuple([shape[axis] for axis in op.axes]), x.dtype)


@lru_cache(maxsize=1024)
def _permutation(axes: tuple[int, ...], ndim: int) -> Permute | None:
    """The primitive for these axes; None where they are in order already."""
    normalize_axes("permute", axes, ndim)
    if len(axes) != ndim:
        raise ShapeError(
            f"[permute] {len(axes)} axes {axes} for a tensor of {ndim} axes: every axis needs a "
            "place; name each one"
        )
    order = tuple(axis % ndim for axis in axes)
    return None if order == tuple(range(ndim)) else Permute(order)


@dataclass(frozen=True, slots=True)
class BroadcastTo(Movement):
    """The input repeated along new leading axes and along its axes of size 1."""

    name = "broadcast_to"

    def check(self, node: Node) -> None:
        """The input's shape broadcasts to the node's."""
        (x,) = node.inputs
        check_fits(node, broadcast_shapes(self.name, x.shape, node.shape), x.dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.broadcast_to``."""
        return np.broadcast_to(arrays[0], shape)

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The sum over the repeated axes."""
        (x,) = node.inputs
        grown = node.ndim - x.ndim
        axes = tuple(range(grown)) + tuple(
            a for a in range(grown, node.ndim) if x.shape[a - grown] != node.shape[a]
        )
        return (reshape(ops.reduce_sum(cotangent, axes), x.shape),)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """Size-1 axes go between the batch axis and the rest."""
        inner = node.inputs[0].shape
        aligned = (size, *(1,) * (node.ndim - len(inner)), *inner)
        return broadcast_to(reshape(args[0], aligned), (size, *node.shape))

    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """Index 0 along axes of size 1; new axes dropped."""
        inner = node.inputs[0].shape
        kept = index[len(index) - len(inner) :]
        return args[0](
            tuple(ix.constant(0) if s == 1 else i for i, s in zip(kept, inner, strict=True))
        )

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """0-d, new axes, stretched axes, zero sizes."""
        cases: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
            ((), ()), ((), (2, 3)), ((3,), (2, 3)), ((2, 1, 4), (2, 3, 4)), ((1, 3), (4, 2, 3)),
            ((1,), (0,)), ((0, 1), (0, 3)),
        )  # fmt: skip
        for source, target in cases:
            yield Sample((source,), lambda x, t=target: broadcast_to(x, t), dtypes.ALL)


def broadcast_to(x: Node, shape: Sequence[Size]) -> Node:
    """``x`` repeated to ``shape`` under NumPy's rules (aligned right, size 1 stretches).

    Raises:
        ShapeError: when ``shape`` cannot be reached.

    >>> from lamella import dtypes, ops
    >>> broadcast_to(ops.iota((3,), 0, dtypes.int64), (2, 3)).shape
    (2, 3)
    """
    wanted = tuple(shape)
    if wanted == x.shape:
        return x
    offset = len(wanted) - x.ndim
    if offset < 0 or any(s not in (1, wanted[a + offset]) for a, s in enumerate(x.shape)):
        raise ShapeError(
            f"[broadcast_to] shape {x.shape} to {wanted}: from the right, each size must be 1 or "
            "the one wanted; reshape it first"
        )
    return make(_BROADCAST_TO, (x,), wanted, x.dtype)


_BROADCAST_TO = BroadcastTo()


def zeros(shape: Sequence[Size], dtype: DType) -> Node:
    """Zeros of any shape, symbolic sizes included: one literal, broadcast.

    >>> from lamella import dtypes
    >>> zeros((2, 3), dtypes.float32).shape
    (2, 3)
    """
    return broadcast_to(ops.constant(0, dtype), shape)


@dataclass(frozen=True, slots=True)
class Flip(Movement):
    """The input with the order along ``axes`` reversed."""

    axes: tuple[int, ...]

    name = "flip"

    def check(self, node: Node) -> None:
        """The input's shape."""
        normalize_axes(self.name, self.axes, node.inputs[0].ndim)
        check_fits(node, node.inputs[0].shape, node.inputs[0].dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.flip``."""
        return np.flip(arrays[0], self.axes)

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """Itself."""
        return (flip(cotangent, self.axes),)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """Axes shift by one."""
        return flip(args[0], tuple(a + 1 for a in self.axes))

    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """Index n - 1 - i along ``axes``."""
        return args[0](
            tuple(
                ix.sub(node.shape[a] - 1, i) if a in self.axes else i for a, i in enumerate(index)
            )
        )

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """One and two axes, zero sizes."""
        for shape, axes in (((5,), (0,)), ((2, 3, 4), (0, 2)), ((3, 0), (0,)), ((1, 3), (1,))):
            yield Sample((shape,), lambda x, a=axes: flip(x, a), dtypes.ALL)


def flip(x: Node, axes: Sequence[int]) -> Node:
    """``x`` reversed along ``axes``: result[i] = x[n - 1 - i] there.

    Raises:
        ShapeError: for an axis outside ``x`` or named twice.

    >>> from lamella import dtypes, ops
    >>> flip(ops.iota((3,), 0, dtypes.int64), (0,)).shape
    (3,)
    """
    found = tuple(a for a in normalize_axes("flip", axes, x.ndim) if x.shape[a] != 1)
    return make(Flip(found), (x,), x.shape, x.dtype) if found else x
