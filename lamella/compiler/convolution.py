"""Which convolutions the direct schedule takes, and the form it takes them in.

Input: a ``conv``. Output: a ``conv_last`` between two permutations, with packed kernels, or the sum
of the groups of one; None for convolutions that stay general contractions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod

from lamella import ops
from lamella.compiler.convolution_base import ConvolutionWriter, axes_of
from lamella.compiler.convolution_plan import Axis, beside, flattened, lanes, plan
from lamella.compiler.convolution_tiles import ConvolutionKernel
from lamella.compiler.depthwise import DepthwiseKernel
from lamella.compiler.depthwise_weights import sums_of_places
from lamella.compiler.fusion import Group
from lamella.compiler.statements import Program
from lamella.compiler.winograd import WinogradKernel
from lamella.compiler.winograd_plan import Sizes, fast
from lamella.ir.node import Node
from lamella.ir.vectors import VectorUnit
from lamella.ops.convolution import Conv
from lamella.ops.convolution_depthwise import conv_depthwise, taps_first
from lamella.ops.convolution_last import channels_first, channels_last, conv_last, pack
from lamella.ops.convolution_winograd import TAPS, conv_winograd, transformed
from lamella.ops.families import accumulator

__all__ = ["GROWTH", "direct", "writer"]

FEW = 16  # output channels of one tap that pixels along the lanes compute faster, side by side
GROWTH = 6  # times the size of kernels that transformed ones may have
LEAST = 1 << 15  # multiply-adds below which a schedule of its own does not pay


def direct(
    node: Node, inputs: Sequence[Node], unit: VectorUnit, ordered: bool = False,
    steady: bool = False,
) -> Node | None:  # fmt: skip
    """A ``conv`` of other inputs as a ``conv_last``; None where the direct schedule does not take
    it. ``ordered``: the image is stored with channels last. ``steady``: the kernels stay the same
    from call to call, so that transforming them costs nothing.
    """
    op = node.op
    if not isinstance(op, Conv) or op.name != "conv" or node.dtype.kind != "f":
        return None
    x, w = inputs
    if not all(isinstance(size, int) and size for n in (node, x, w) for size in n.shape):
        return None
    groups = int(x.shape[1]) // int(w.shape[1])
    each, channels = int(w.shape[0]) // groups, int(w.shape[1])
    if prod(map(int, (*node.shape, *w.shape[1:]))) < LEAST:
        return None
    if groups > 1 and each == 1 and (found := sums_of_places(op, node, inputs)) is not None:
        return found
    axes = _axes(op, node, x, w)
    if axes is None:
        return None
    if channels == each == 1 and groups > 1:
        found = conv_depthwise(op, channels_last(x), taps_first(w), node.shape[2:], node.dtype)
        return channels_first(found)
    itemsize = accumulator(node.dtype).itemsize
    if groups == prod(a.places for a in axes) == 1:
        return None
    if groups == 1 and each < FEW and not ordered and flattened(axes, int(x.shape[0])):
        return None
    if steady and (transform := _winograd(op, node, inputs, unit)) is not None:
        return transform
    several = beside(groups, each, channels, unit.bytes // itemsize)
    if several > 1 and (found := _packed(op, node, inputs, axes, unit, several)) is not None:
        return found
    return _packed(op, node, inputs, axes, unit, 1)


def _packed(
    op: Conv, node: Node, inputs: Sequence[Node], axes: Sequence[Axis], unit: VectorUnit,
    several: int,
) -> Node | None:  # fmt: skip
    """The convolution with channels last and kernels packed, ``several`` groups side by side; None
    where what a task would copy of the image is too large.
    """
    x, w = inputs
    itemsize = accumulator(node.dtype).itemsize
    groups, channels = int(x.shape[1]) // int(w.shape[1]) // several, int(w.shape[1])
    each = int(w.shape[0]) // groups
    wide = each if several > 1 else lanes(axes, each, unit, itemsize)
    copied = channels * (wide if several > 1 else 1)
    outer = groups * int(x.shape[0]) * axes[0].each * prod(a.phases for a in axes)
    blocks = -(-each // wide)

    def fits(parts: int) -> bool:
        of_each = copied // parts
        return plan(axes, outer * parts, of_each, blocks, wide, unit, itemsize) is not None

    if not fits(1):
        alone = groups == several == 1
        return _in_parts(op, node, inputs, wide, fits) if alone else None
    packed = pack(w, groups, wide)
    last = conv_last(op, channels_last(x), packed, node.shape[2:], node.shape[1], node.dtype)
    return channels_first(last)


def _in_parts(
    op: Conv, node: Node, inputs: Sequence[Node], wide: int, fits: Callable[[int], bool]
) -> Node | None:
    """The convolution as a sum over parts of the channels, where all together are too large to
    copy, as many images are in the derivative by the kernels: the parts are groups of one
    convolution. As few parts as fit; None where one channel does not.
    """
    x, w = inputs
    each, channels, space = int(w.shape[0]), int(w.shape[1]), w.shape[2:]
    found = (p for p in range(2, channels + 1) if channels % p == 0 and fits(p))
    parts = next(found, None)
    if parts is None or node.dtype.itemsize < 4:
        return None
    split = ops.reshape(w, (each, parts, channels // parts, *space))
    kernels = ops.permute(split, (1, 0, *range(2, split.ndim)))
    kernels = ops.reshape(kernels, (parts * each, channels // parts, *space))
    packed, places = pack(kernels, parts, wide), node.shape[2:]
    last = conv_last(op, channels_last(x), packed, places, parts * each, node.dtype)
    apart = ops.reshape(last, (x.shape[0], *places, parts, each))
    return channels_first(ops.reduce_sum(apart, (apart.ndim - 2,)))


def _winograd(
    op: Conv, node: Node, inputs: Sequence[Node], unit: VectorUnit
) -> Node | None:
    """The convolution by Winograd's transforms; None where direct sums are as quick."""
    x, w = inputs
    plain = op.stride == op.x_dilation == op.w_dilation == (1, 1)
    if not plain or w.shape[2:] != (TAPS, TAPS) or w.shape[1] != x.shape[1]:
        return None
    if node.dtype.itemsize < 4 or w.shape[0] * node.dtype.itemsize < unit.bytes:
        return None
    images, channels, high, wide = map(int, (x.shape[0], x.shape[1], *node.shape[2:]))
    filters, itemsize = int(w.shape[0]), node.dtype.itemsize
    found = fast(Sizes(images, high, wide, channels, filters, itemsize, unit))
    if found is None:
        return None
    u = transformed(w, found.edge, found.lanes)
    if u.size > GROWTH * w.size:
        return None
    image = channels_last(x)
    return channels_first(conv_winograd(op, image, u, node.shape[2:], filters, node.dtype))


def _axes(op: Conv, node: Node, x: Node, w: Node) -> list[Axis] | None:
    """The axes as the schedule takes them; None for steps it does not take."""
    spatial = [tuple(map(int, n.shape[2:])) for n in (x, node, w)]
    axes = axes_of(op, *spatial)
    for a in axes:
        if a.step < 1 or gcd(a.step, a.phases) > 1 or gcd(a.gap, a.phases) > 1:
            return None
    return flattened(axes, int(x.shape[0])) or axes


def writer(
    group: Group, program: Program, needed: set[Node], unit: VectorUnit
) -> ConvolutionWriter | None:
    """The writer of a group's kernel, where its contraction is one that this module made."""
    node = group.members[0].node
    known = all(isinstance(size, int) and size for n in (node, *node.inputs) for size in n.shape)
    if not known or node.dtype.kind != "f":
        return None
    if node.op.name == "conv_last":
        return ConvolutionKernel(group, program, needed, unit)
    if node.op.name == "conv_winograd":
        return WinogradKernel(group, program, needed, unit)
    if node.op.name == "conv_depthwise":
        return DepthwiseKernel(group, program, needed)
    return None
