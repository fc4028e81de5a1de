"""Which convolutions the direct schedule takes, and the form it takes them in.

Input: a ``conv``. Output: a ``conv_last`` between two permutations, with packed kernels; None for
convolutions that stay general contractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from lamella.compiler.convolution_base import ConvolutionWriter, axes_of
from lamella.compiler.convolution_plan import Axis, flattened, lanes, plan
from lamella.compiler.convolution_tiles import ConvolutionKernel
from lamella.compiler.depthwise import DepthwiseKernel
from lamella.compiler.fusion import Group
from lamella.compiler.statements import Program
from lamella.ir.node import Node
from lamella.ops.convolution import Conv
from lamella.ops.convolution_depthwise import conv_depthwise, taps_first
from lamella.ops.convolution_last import channels_first, channels_last, conv_last, pack
from lamella.ops.families import accumulator

__all__ = ["direct", "writer"]

FEW = 16  # output channels that pixels along the lanes compute faster, if they lie side by side
LEAST = 1 << 15  # multiply-adds below which a schedule of its own does not pay


def direct(
    node: Node, inputs: Sequence[Node], vector_bytes: int, ordered: bool = False
) -> Node | None:
    """A ``conv`` of other inputs as a ``conv_last``; None where the direct schedule does not take
    it. ``ordered``: the image is stored with channels last.
    """
    op = node.op
    if not isinstance(op, Conv) or op.name != "conv" or node.dtype.kind != "f":
        return None
    x, w = inputs
    if not all(isinstance(size, int) and size for n in (node, x, w) for size in n.shape):
        return None
    groups = int(x.shape[1]) // int(w.shape[1])
    each, channels = int(w.shape[0]) // groups, int(w.shape[1])
    axes = _axes(op, node, x, w)
    if axes is None or prod(map(int, node.shape)) * channels * prod(a.taps for a in axes) < LEAST:
        return None
    if channels == each == 1 and groups > 1:
        found = conv_depthwise(op, channels_last(x), taps_first(w), node.shape[2:], node.dtype)
        return channels_first(found)
    itemsize = accumulator(node.dtype).itemsize
    if groups == 1 and (each == 1 or (4 <= each < FEW and not ordered)):
        return None
    wide = lanes(axes, each, vector_bytes, itemsize)
    outer = groups * int(x.shape[0]) * axes[0].each * prod(a.phases for a in axes)
    blocks = -(-each // wide)
    if plan(axes, outer, channels, blocks, wide, vector_bytes, itemsize) is None:
        return None
    packed = pack(w, groups, wide)
    last = conv_last(op, channels_last(x), packed, node.shape[2:], node.shape[1], node.dtype)
    return channels_first(last)


def _axes(op: Conv, node: Node, x: Node, w: Node) -> list[Axis] | None:
    """The axes as the schedule takes them; None for steps it does not take."""
    spatial = [tuple(map(int, n.shape[2:])) for n in (x, node, w)]
    axes = axes_of(op, *spatial)
    for a in axes:
        if a.step < 1 or gcd(a.step, a.phases) > 1 or gcd(a.gap, a.phases) > 1:
            return None
    return flattened(axes, int(x.shape[0])) or axes



def writer(
    group: Group, program: Program, needed: set[Node], vector_bytes: int
) -> ConvolutionWriter | None:
    """The writer of a group's kernel, where its contraction is one that this module made."""
    node = group.members[0].node
    known = all(isinstance(size, int) and size for n in (node, *node.inputs) for size in n.shape)
    if not known or node.dtype.kind != "f":
        return None
    if node.op.name == "conv_last":
        return ConvolutionKernel(group, program, needed, vector_bytes)
    if node.op.name == "conv_depthwise":
        return DepthwiseKernel(group, program, needed)
    return None
