"""The derivative of a depthwise convolution by its kernels: one sum over all pixels for each tap.

Input: a ``conv`` whose kernels are as large as its images and meet in few places, each with
channels of its own, which are the images of a batch. Output: for each place the product of the
shifted image and the kernels, summed over everything but the groups. Sums of parts come first: all
places of a part are one pass over its rows, with the groups along the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as places_of
from math import prod

from lamella import ops
from lamella.ir.node import Node
from lamella.ops.convolution import Conv
from lamella.ops.convolution_last import channels_first, channels_last
from lamella.ops.families import accumulator
from lamella.ops.movement import Permute

__all__ = ["sums_of_places"]

MOST = 64  # places
FEW = 4  # terms of a sum for each place, from which sums that add them one by one pay
PARTS = 16  # sums of their own, that keep every worker busy


def sums_of_places(op: Conv, node: Node, inputs: Sequence[Node]) -> Node | None:
    """y[0, g, p] = Σ x[0, g·N + n, stride·p + w_dilation·k − low] · w[g, n, k] over n and k, a sum
    for each p; None where groups have more than one kernel, or there are few terms.
    """
    x, w = inputs
    groups, each = int(w.shape[0]), int(w.shape[1])
    space, taps = tuple(map(int, x.shape[2:])), tuple(map(int, w.shape[2:]))
    places = tuple(map(int, node.shape[2:]))
    if x.shape[0] != 1 or x.shape[1] != groups * each:
        return None
    if prod(places) > MOST or each * prod(taps) < FEW * prod(places):
        return None
    if any(gap != 1 for gap in op.x_dilation) or any(step < 1 for step in op.w_dilation):
        return None
    wide = accumulator(node.dtype)
    kernels = ops.cast(_images(w), wide)
    images = _images(_reshaped(x, (groups, each, *space)))
    image, starts = _surrounded(op, ops.cast(images, wide), taps, places)
    parted, outer = _parted((each, *taps))
    kernels = ops.reshape(kernels, (*parted, groups))
    sums = []
    for start in places_of(*starts):
        part = ops.slice(image, (0, *start, 0), (each, *taps, groups), (1, *op.w_dilation, 1))
        terms = ops.multiply(ops.reshape(part, kernels.shape), kernels)
        of_parts = ops.reduce_sum(terms, range(outer, len(parted)))
        sums.append(ops.reshape(ops.reduce_sum(of_parts, range(outer)), (1, groups)))
    stored = ops.barrier(ops.concatenate(sums, 0))  # readers by channel would sum by channel
    return channels_first(ops.cast(ops.reshape(stored, (1, *places, groups)), node.dtype))


def _reshaped(x: Node, shape: tuple[int, ...]) -> Node:
    """``x`` in a shape, which what it was reshaped from may have."""
    source = x.inputs[0] if x.op.name == "reshape" and x.value is None else x
    return source if source.shape == shape else ops.reshape(x, shape)


def _images(x: Node) -> Node:
    """(G, N, *S) as (N, *S, G): the node that convolutions of the same images read."""
    swap = (1, 0, *range(2, x.ndim))
    if isinstance(x.op, Permute) and x.value is None and x.op.axes == swap:
        return channels_last(x.inputs[0])
    return channels_last(ops.permute(x, swap))


def _parted(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """The sizes (N, *K), the first of K in as few parts as make ``PARTS`` with N; and how many of
    these axes number the parts.
    """
    each, high = sizes[:2]
    if each >= PARTS:
        return sizes, 1
    parts = next((p for p in range(2, high) if high % p == 0 and each * p >= PARTS), 0)
    if parts:
        return (each, parts, high // parts, *sizes[2:]), 2
    return sizes, min(2, len(sizes) - 1)


def _surrounded(
    op: Conv, image: Node, taps: Sequence[int], places: Sequence[int]
) -> tuple[Node, list[list[int]]]:
    """The image (N, *S, C) with as many zeros around it as the kernels reach over, and where the
    kernels begin on each axis, place by place.
    """
    before, after, starts = [0], [0], []
    for axis, (tap, count) in enumerate(zip(taps, places, strict=True)):
        size = int(image.shape[axis + 1])
        first = [op.stride[axis] * place - op.low[axis] for place in range(count)]
        before.append(max(0, -min(first)))
        after.append(max(0, max(first) + op.w_dilation[axis] * (tap - 1) - (size - 1)))
        starts.append([start + before[-1] for start in first])
    return ops.pad(image, (*before, 0), (*after, 0)), starts
