"""Convolution as the compiler runs it: images with channels last, kernels packed by lanes.

Input: an image (N, *S, C) and kernels (G, B, *K, C / G, L): for each group, blocks of L output
channels side by side, the last block filled up with zeros. Or groups of few channels side by side,
several in a block: (G / several, B, *K, C / G, L). Output: (N, *P, O). The meaning is that
of :class:`lamella.ops.convolution.Conv` with axes moved; every derivative and batching rule is
``Conv``'s. Nobody records it: ``compiler.convolution`` puts it in the place of ``conv``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from lamella import dtypes, ops
from lamella.dtypes import DType
from lamella.errors import ShapeError
from lamella.ir import index as ix
from lamella.ir.dim import Shape, Size
from lamella.ir.loops import Expr
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Element, Needs, Sample
from lamella.ops.contraction import Contraction, result_dtype
from lamella.ops.convolution import Conv, padded
from lamella.ops.families import accumulator, check_fits
from lamella.ops.movement import permute, reshape
from lamella.ops.validate import require_same_dtype

__all__ = ["ConvLast", "channels_first", "channels_last", "conv_last", "pack", "unpack"]


@dataclass(frozen=True, slots=True)
class ConvLast(Conv):
    """y[n, p, o] = Σ x[n, s, c] · w[g, b, k, c, l], o = l + L · b within its group, and
    stride·p + w_dilation·k − x_dilation·s = low, along each axis.
    """

    name = "conv_last"
    kind = "contraction"
    stored: ClassVar[tuple[int, ...]] = (1,)

    def check(self, node: Node) -> None:
        """Channels fit groups, blocks and lanes."""
        x, w = node.inputs
        require_same_dtype(self.name, x, w)
        rank = len(self.stride)
        if x.ndim != rank + 2 or w.ndim != rank + 4 or node.ndim != rank + 2:
            raise ShapeError(
                f"[conv_last] image {x.shape}, kernel {w.shape} and result {node.shape} for {rank} "
                "spatial axes: they have 2, 4 and 2 axes more; make nodes with ops.conv_last"
            )
        groups, blocks, lanes = w.shape[0], w.shape[1], w.shape[-1]
        each = node.shape[-1] // groups
        fits = each * groups == node.shape[-1] and -((-each) // lanes) == blocks
        beside = self.beside(node)
        if not fits or groups * beside * w.shape[-2] != x.shape[-1] or each % beside:
            raise ShapeError(
                f"[conv_last] image {x.shape}, kernel {w.shape} and {node.shape[-1]} channels: "
                "they do not divide into groups and lanes; pack kernels with ops.pack"
            )
        dtype = result_dtype(self.name, x.dtype, node.dtype)
        check_fits(node, (x.shape[0], *node.shape[1:-1], node.shape[-1]), dtype)

    def beside(self, node: Node) -> int:
        """How many groups are packed side by side, as one."""
        x, w = node.inputs
        return max(1, int(x.shape[-1]) // (int(w.shape[0]) * int(w.shape[-2])))

    def first(self, node: Node, x: Node, w: Node) -> Node:
        """The same convolution with channels first and plain kernels."""
        op = Conv(self.stride, self.low, self.x_dilation, self.w_dilation)
        image, kernel = channels_first(x), unpack(w, node.shape[-1])
        shape = (image.shape[0], kernel.shape[0], *node.shape[1:-1])
        return make(op, (image, kernel), shape, node.dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``Conv``'s, the axes moved before and after."""
        x, w = arrays
        groups, rank = w.shape[0], len(self.stride)
        kernel = w.transpose(0, 1, rank + 3, rank + 2, *range(2, rank + 2))
        kernel = kernel.reshape(groups, -1, *kernel.shape[3:])[:, : shape[-1] // groups]
        kernel = kernel.reshape(shape[-1], *kernel.shape[2:])
        op = Conv(self.stride, self.low, self.x_dilation, self.w_dilation)
        image = x.transpose(0, rank + 1, *range(1, rank + 1))
        first = (shape[0], shape[-1], *shape[1:-1])
        found = op.reference(image, kernel, shape=first, dtype=dtype)
        return found.transpose(0, *range(2, rank + 2), 1)

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """``Conv``'s, the axes moved back."""
        x, w = node.inputs
        inner = self.first(node, x, w)
        by_image, by_kernel = inner.op.transpose(inner, channels_first(cotangent), needs)
        return (
            None if by_image is None else channels_last(by_image),
            None if by_kernel is None else pack(by_kernel, w.shape[0], w.shape[-1]),
        )

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """``Conv``'s, the axes moved before and after."""
        x, w = args
        inner = self.first(node, *node.inputs)
        last = node.ndim
        if batched[0]:
            x = permute(x, (0, 1, last, *range(2, last)))
        else:
            x = channels_first(x)
        w = _unpacked(w, node.shape[-1]) if batched[1] else unpack(w, node.shape[-1])
        found = inner.op.batch(inner, (x, w), batched, size)
        return permute(found, (0, 1, *range(3, last + 1), 2))

    def taps(self, w: Node) -> Shape:
        """Of the kernels that were packed, along each axis."""
        return w.shape[2:-2]

    def contraction(self, node: Node, args: Sequence[Element]) -> Contraction:
        """As ``Conv``'s: m are output channels, n images and positions, k channels and taps."""
        x, w = node.inputs
        channels, lanes, beside = w.shape[-2], w.shape[-1], self.beside(node)
        groups = w.shape[0] * beside
        rows = node.shape[-1] // groups

        def packed(group: Expr, row: Expr) -> Expr:
            return ix.add(ix.mul(ix.mod(group, beside), rows), row)

        def channel(group: Expr, inner: Expr, size: Size) -> Expr:
            return ix.add(ix.mul(group, size), inner)

        return Contraction(
            batch=(groups,),
            m=(rows,),
            n=(x.shape[0], *node.shape[1:-1]),
            k=(channels, *self.taps(w)),
            left=lambda g, m, k: args[1]((
                ix.floordiv(g[0], beside), ix.floordiv(packed(g[0], m[0]), lanes), *k[1:], k[0],
                ix.mod(packed(g[0], m[0]), lanes),
            )),  # fmt: skip
            right=lambda g, k, n: padded(
                self,
                args[0],
                (x.shape[1:-1], node.shape[1:-1], self.taps(w)),
                (n[1:], k[1:]),
                lambda at: (n[0], *at, channel(g[0], k[0], channels)),
            ),
            out_index=lambda g, m, n: (*n, channel(g[0], m[0], rows)),
            accumulate=accumulator(node.dtype),
        )

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Ranks, strides, padding, dilations, groups (also side by side), a block not full."""
        for x, w, places, op, lanes, beside in _CASES:
            groups = x[-1] // w[1] // beside

            def build(
                a: Node, b: Node, c: tuple[ConvLast, int, int, tuple[int, ...]] = (
                    op, groups, lanes, places,
                ),
            ) -> Node:  # fmt: skip
                return conv_last(c[0], a, pack(b, c[1], c[2]), c[3], b.shape[0], b.dtype)

            yield Sample((x, w), build, dtypes.FLOATS)


# image, plain kernel, positions, operation, lanes, groups side by side
_CASES: tuple[
    tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], ConvLast, int, int], ...
] = (
    ((2, 6, 3), (5, 3, 3), (4,), ConvLast((1,), (0,), (1,), (1,)), 4, 1),
    ((1, 5, 4, 4), (6, 2, 3, 3), (3, 2), ConvLast((2, 2), (1, 1), (1, 1), (1, 1)), 2, 1),
    ((1, 4, 4, 8), (8, 2, 3, 3), (4, 4), ConvLast((1, 1), (1, 1), (1, 1), (1, 1)), 4, 2),
    ((2, 4, 4, 2), (4, 2, 3, 3), (8, 8), ConvLast((1, 1), (1, 1), (2, 2), (1, 1)), 4, 1),
    ((1, 3, 4, 4, 2), (3, 2, 2, 2, 1), (2, 4, 2), ConvLast((1,) * 3, (0, 1, 1), (1,) * 3,
     (1, 1, 2)), 4, 1),
)  # fmt: skip


def channels_last(x: Node) -> Node:
    """(N, C, *S) as (N, *S, C).

    >>> from lamella import dtypes, ops
    >>> channels_last(ops.iota((1, 3, 8, 9), 0, dtypes.float32)).shape
    (1, 8, 9, 3)
    """
    return permute(x, (0, *range(2, x.ndim), 1))


def channels_first(x: Node) -> Node:
    """(N, *S, C) as (N, C, *S).

    >>> from lamella import dtypes, ops
    >>> channels_first(ops.iota((1, 8, 9, 3), 0, dtypes.float32)).shape
    (1, 3, 8, 9)
    """
    return permute(x, (0, x.ndim - 1, *range(1, x.ndim - 1)))


def pack(w: Node, groups: Size, lanes: Size) -> Node:
    """Kernels (O, C, *K) as (G, B, *K, C, L), blocks of ``lanes`` output channels, filled up with
    zeros.

    >>> from lamella import dtypes, ops
    >>> pack(ops.iota((20, 3, 5, 5), 0, dtypes.float32), 1, 16).shape
    (1, 2, 5, 5, 3, 16)
    """
    each, channels, taps = w.shape[0] // groups, w.shape[1], w.shape[2:]
    blocks = -((-each) // lanes)
    split = reshape(w, (groups, each, channels, *taps))
    high: list[Size] = [0] * split.ndim
    high[1] = blocks * lanes - each
    if high[1] != 0:
        split = ops.pad(split, [0] * split.ndim, high)
    split = reshape(split, (groups, blocks, lanes, channels, *taps))
    return permute(split, (0, 1, *range(4, split.ndim), 3, 2))


def unpack(w: Node, channels: Size) -> Node:
    """The kernels (O, C, *K), O = ``channels``, that ``pack`` packed.

    >>> from lamella import dtypes, ops
    >>> unpack(ops.iota((1, 2, 5, 5, 3, 16), 0, dtypes.float32), 20).shape
    (20, 3, 5, 5)
    """
    groups, blocks, lanes = w.shape[0], w.shape[1], w.shape[-1]
    last = w.ndim - 1
    split = permute(w, (0, 1, last, last - 1, *range(2, last - 1)))
    each = channels // groups
    joined = reshape(split, (groups, blocks * lanes, *split.shape[3:]))
    if each != blocks * lanes:
        shape = (groups, each, *joined.shape[2:])
        joined = ops.slice(joined, (0,) * joined.ndim, shape, (1,) * joined.ndim)
    return reshape(joined, (channels, *joined.shape[2:]))


def _unpacked(w: Node, channels: Size) -> Node:
    """``unpack`` under a leading batch axis: the batch is taken as more groups."""
    size, groups = w.shape[0], w.shape[1]
    joined = reshape(w, (size * groups, *w.shape[2:]))
    found = unpack(joined, size * channels)
    return reshape(found, (size, channels, *found.shape[1:]))


def conv_last(
    op: Conv, x: Node, w: Node, places: Sequence[Size], channels: Size, dtype: DType
) -> Node:
    """The convolution ``op`` of ``x`` (N, *S, C) with packed kernels, for ``places`` positions and
    ``channels`` output channels.

    >>> from lamella import dtypes, ops
    >>> x, w = ops.iota((1, 8, 3), 0, dtypes.float32), ops.iota((4, 3, 3), 0, dtypes.float32)
    >>> op = Conv((1,), (1,), (1,), (1,))
    >>> conv_last(op, x, pack(w, 1, 4), (8,), 4, dtypes.float32).shape
    (1, 8, 4)
    """
    last = ConvLast(op.stride, op.low, op.x_dilation, op.w_dilation)
    return make(last, (x, w), (x.shape[0], *places, channels), dtype)
