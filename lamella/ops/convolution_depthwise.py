"""Convolution of every channel with a kernel of its own, channels last, as the compiler runs it.

Input: an image (N, *S, C) and kernels (*K, C). Output: (N, *P, C). The meaning is that of
:class:`lamella.ops.convolution.Conv` with as many groups as channels and axes moved; every
derivative and batching rule is ``Conv``'s. Nobody records it: ``compiler.convolution`` puts it in
the place of ``conv``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from lamella import dtypes
from lamella.dtypes import DType
from lamella.errors import ShapeError
from lamella.ir.dim import Size
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Element, Needs, Sample
from lamella.ops.contraction import Contraction, result_dtype
from lamella.ops.convolution import Conv, padded
from lamella.ops.convolution_last import channels_first, channels_last
from lamella.ops.families import accumulator, check_fits
from lamella.ops.movement import permute, reshape
from lamella.ops.validate import require_same_dtype

__all__ = ["ConvDepthwise", "conv_depthwise", "taps_first"]


@dataclass(frozen=True, slots=True)
class ConvDepthwise(Conv):
    """y[n, p, c] = Σ x[n, s, c] · w[k, c] over stride·p + w_dilation·k − x_dilation·s = low."""

    name = "conv_depthwise"
    kind = "contraction"
    stored: ClassVar[tuple[int, ...]] = (0, 1)

    def check(self, node: Node) -> None:
        """One kernel a channel."""
        x, w = node.inputs
        require_same_dtype(self.name, x, w)
        rank = len(self.stride)
        if not x.ndim == node.ndim == w.ndim + 1 == rank + 2 or x.shape[-1] != w.shape[-1]:
            raise ShapeError(
                f"[conv_depthwise] image {x.shape}, kernels {w.shape} and result {node.shape} for "
                f"{rank} spatial axes: they have 2, 1 and 2 axes more, and equal channels; make "
                "nodes with ops.conv_depthwise"
            )
        dtype = result_dtype(self.name, x.dtype, node.dtype)
        check_fits(node, (x.shape[0], *node.shape[1:-1], x.shape[-1]), dtype)

    def first(self, node: Node, x: Node, w: Node) -> Node:
        """The same convolution with channels first and as many groups as channels."""
        op = Conv(self.stride, self.low, self.x_dilation, self.w_dilation)
        image, kernel = channels_first(x), _plain(w)
        shape = (image.shape[0], image.shape[1], *node.shape[1:-1])
        return make(op, (image, kernel), shape, node.dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``Conv``'s, the axes moved before and after."""
        x, w = arrays
        rank = len(self.stride)
        kernel = w.transpose(rank, *range(rank))[:, None]
        op = Conv(self.stride, self.low, self.x_dilation, self.w_dilation)
        image = x.transpose(0, rank + 1, *range(1, rank + 1))
        first = (shape[0], shape[-1], *shape[1:-1])
        found = op.reference(image, kernel, shape=first, dtype=dtype)
        return found.transpose(0, *range(2, rank + 2), 1)

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """``Conv``'s, the axes moved back."""
        inner = self.first(node, *node.inputs)
        by_image, by_kernel = inner.op.transpose(inner, channels_first(cotangent), needs)
        return (
            None if by_image is None else channels_last(by_image),
            None if by_kernel is None else taps_first(by_kernel),
        )

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """``Conv``'s, the axes moved before and after."""
        x, w = args
        inner = self.first(node, *node.inputs)
        last = node.ndim
        x = permute(x, (0, 1, last, *range(2, last))) if batched[0] else channels_first(x)
        if batched[1]:
            moved = permute(w, (0, w.ndim - 1, *range(1, w.ndim - 1)))
            w = reshape(moved, (*moved.shape[:2], 1, *moved.shape[2:]))
        else:
            w = _plain(w)
        found = inner.op.batch(inner, (x, w), batched, size)
        return permute(found, (0, 1, *range(3, last + 1), 2))

    def contraction(self, node: Node, args: Sequence[Element]) -> Contraction:
        """Batch: channels; n: images and positions; k: taps."""
        x, w = node.inputs
        return Contraction(
            batch=(x.shape[-1],),
            m=(),
            n=(x.shape[0], *node.shape[1:-1]),
            k=w.shape[:-1],
            left=lambda c, m, k: args[1]((*k, c[0])),
            right=lambda c, k, n: padded(
                self,
                args[0],
                (x.shape[1:-1], node.shape[1:-1], w.shape[:-1]),
                (n[1:], k),
                lambda at: (n[0], *at, c[0]),
            ),
            out_index=lambda c, m, n: (*n, c[0]),
            accumulate=accumulator(node.dtype),
        )

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Ranks, strides, padding, dilations of both."""
        for x, w, places, op in _CASES:
            yield Sample(
                (x, w), lambda a, b, c=(op, places): conv_depthwise(c[0], a, b, c[1], a.dtype),
                dtypes.FLOATS,
            )  # fmt: skip


# image, kernels, positions, operation
_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], ConvDepthwise], ...] = (
    ((2, 6, 5), (3, 5), (6,), ConvDepthwise((1,), (1,), (1,), (1,))),
    ((1, 5, 4, 3), (3, 3, 3), (3, 2), ConvDepthwise((2, 2), (1, 1), (1, 1), (1, 1))),
    ((1, 4, 4, 2), (3, 3, 2), (8, 8), ConvDepthwise((1, 1), (1, 1), (2, 2), (1, 1))),
    ((1, 3, 4, 4, 2), (2, 2, 1, 2), (2, 3, 4), ConvDepthwise((1,) * 3, (0,) * 3, (1,) * 3,
     (1,) * 3)),
)  # fmt: skip


def _plain(w: Node) -> Node:
    """(*K, C) as (C, 1, *K)."""
    moved = permute(w, (w.ndim - 1, *range(w.ndim - 1)))
    return reshape(moved, (moved.shape[0], 1, *moved.shape[1:]))


def taps_first(w: Node) -> Node:
    """(C, 1, *K) as (*K, C).

    >>> from lamella import dtypes, ops
    >>> taps_first(ops.iota((8, 1, 3, 5), 0, dtypes.float32)).shape
    (3, 5, 8)
    """
    return permute(reshape(w, (w.shape[0], *w.shape[2:])), (*range(1, w.ndim - 1), 0))


def conv_depthwise(op: Conv, x: Node, w: Node, places: Sequence[Size], dtype: DType) -> Node:
    """The convolution ``op`` of each channel of ``x`` (N, *S, C) with its kernel of ``w`` (*K, C),
    for ``places`` positions.

    >>> from lamella import dtypes, ops
    >>> x, w = ops.iota((1, 8, 3), 0, dtypes.float32), ops.iota((3, 3), 0, dtypes.float32)
    >>> conv_depthwise(Conv((1,), (1,), (1,), (1,)), x, w, (8,), dtypes.float32).shape
    (1, 8, 3)
    """
    last = ConvDepthwise(op.stride, op.low, op.x_dilation, op.w_dilation)
    return make(last, (x, w), (x.shape[0], *places, x.shape[-1]), dtype)
