"""Convolution of rank 1 to 3, with strides, padding, dilations and groups; transposed convolution.

One identity carries the whole family. With an image x (positions s), a kernel w (taps k) and a
result y (positions o), each axis multiplies exactly the triples with

    stride · o + w_dilation · k − x_dilation · s = low.

It is linear in each of the three, so the derivative by x or w is the same primitive with the roles
exchanged, and so on to any order; strides and dilations may be negative there. Sizes, the amount of
padding after the image and the number of groups all follow from the shapes: positions outside the
image read zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from lamella import dtypes, ops
from lamella.dtypes import DType
from lamella.errors import ShapeError
from lamella.ir import index as ix
from lamella.ir.dim import Shape, Size
from lamella.ir.loops import Expr
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Element, Index, Needs, Sample
from lamella.ops.contraction import Contraction, exact, result_dtype
from lamella.ops.families import Multilinear, accumulator, check_fits
from lamella.ops.movement import permute, reshape
from lamella.ops.validate import require_same_dtype, zero

__all__ = ["Conv", "conv", "conv_transpose"]

Ints = Sequence[int]
Pairs = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Conv(Multilinear):
    """y[n, o, p] = Σ x[n, c, s] · w[o, c, k] over stride·p + w_dilation·k − x_dilation·s = low.

    Inputs x (N, C, *S) and w (O, C / groups, *K); result (N, O, *P). ``x_dilation`` is positive.
    """

    stride: tuple[int, ...]
    low: tuple[int, ...]
    x_dilation: tuple[int, ...]
    w_dilation: tuple[int, ...]

    name = "conv"
    kind = "contraction"

    def check(self, node: Node) -> None:
        """Channels divide into groups; batch and output channels follow; spatial sizes are free."""
        x, w = node.inputs
        require_same_dtype(self.name, x, w)
        rank = len(self.stride)
        if not x.ndim == w.ndim == node.ndim == rank + 2:
            raise ShapeError(
                f"[conv] image {x.shape}, kernel {w.shape} and result {node.shape} for {rank} "
                "spatial axes: each has two axes more; reshape them"
            )
        groups = _groups(x, w)
        if 0 not in node.shape and (
            x.shape[1] != groups * w.shape[1] or w.shape[0] != w.shape[0] // groups * groups
        ):
            raise ShapeError(
                f"[conv] image {x.shape} and kernel {w.shape}: channels {x.shape[1]} and "
                f"{w.shape[0]} do not divide into groups of {w.shape[1]}; choose other groups"
            )
        dtype = result_dtype(self.name, x.dtype, node.dtype)
        check_fits(node, (x.shape[0], w.shape[0], *node.shape[2:]), dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """The image gathered for every (position, tap), then an einsum, as for contract."""
        if 0 in shape:
            return np.zeros(shape, dtype.numpy)
        x, w = (exact(array, dtype) for array in arrays)
        groups = x.shape[1] // w.shape[1] if w.shape[1] else 1
        rank = len(self.stride)
        for axis in range(rank):
            x = self._taps(x, axis, shape[2 + axis], w.shape[2 + axis])
        x = x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
        w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
        places, taps = list(range(4, 4 + rank)), list(range(4 + rank, 4 + 2 * rank))
        pairs = [label for pair in zip(places, taps, strict=True) for label in pair]
        total = np.einsum(
            x, [0, 1, 3, *pairs], w, [1, 2, 3, *taps], [0, 1, 2, *places], optimize=True
        )
        return np.asarray(total).reshape(shape).astype(dtype.numpy)

    def _taps(self, x: Array, axis: int, places: int, taps: int) -> Array:
        """Spatial axis ``axis`` of x replaced by two: result position and tap."""
        at = 2 + 2 * axis
        o, k = np.arange(places)[:, None], np.arange(taps)
        wide = o * self.stride[axis] + k * self.w_dilation[axis] - self.low[axis]
        s, rest = np.divmod(wide, self.x_dilation[axis])
        inside = (rest == 0) & (s >= 0) & (s < x.shape[at])
        blank = np.zeros((*x.shape[:at], 1, *x.shape[at + 1 :]), x.dtype)
        return np.take(np.concatenate([x, blank], at), np.where(inside, s, x.shape[at]), at)

    # -- derivatives and batching: the roles exchanged ---------------------------------------------
    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """By x the cotangent is the image; by w the kernel, with batch and channels exchanged."""
        x, w = (ops.cast(source, cotangent.dtype) for source in node.inputs)
        dtype = node.inputs[0].dtype
        return (
            ops.cast(self._by_image(x, w, cotangent), dtype) if needs[0] else None,
            ops.cast(self._by_kernel(x, w, cotangent), dtype) if needs[1] else None,
        )

    def _by_image(self, x: Node, w: Node, cotangent: Node) -> Node:
        kernel = _exchange_channels(w, _groups(x, w))
        # the equation times −1: x_dilation·s − w_dilation·k − stride·o = −low
        return _solve(
            cotangent,
            kernel,
            x.shape[2:],
            self.x_dilation,
            _minus(self.w_dilation),
            self.stride,
            _minus(self.low),
        )

    def _by_kernel(self, x: Node, w: Node, cotangent: Node) -> Node:
        """One of the image and the cotangent is the new image, the other slides over it: that
        which has the larger gaps, so that fewer of the products are by the zeros between.
        """
        groups, swap = _groups(x, w), (1, 0, *range(2, x.ndim))
        o, k, s = self.w_dilation, self.stride, self.x_dilation
        if prod(s) > prod(k):
            image = _images_by_group(cotangent, groups)
            found = _solve(image, permute(x, swap), w.shape[2:], o, _minus(s), _minus(k), self.low)
            each = w.shape[0] // groups
            split = reshape(found, (each, groups, *w.shape[1:]))
            return reshape(permute(split, (1, 0, *range(2, split.ndim))), w.shape)
        image = _images_by_group(x, groups)
        found = _solve(image, permute(cotangent, swap), w.shape[2:], o, k, s, self.low)
        return permute(found, swap)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """Images batched: more images. Kernels: more output channels. Both: more groups."""
        x, w = args
        outer, space = node.shape[:2], node.shape[2:]
        tail = tuple(range(4, 4 + len(space)))
        if not batched[1]:
            image = reshape(x, (size * x.shape[1], *x.shape[2:]))
            return reshape(self._like(image, w, space, node.dtype), (size, *node.shape))
        if batched[0]:
            image = permute(x, (1, 0, *range(2, x.ndim)))
            image = reshape(image, (outer[0], size * x.shape[2], *x.shape[3:]))
            kernel = reshape(w, (size * w.shape[1], *w.shape[2:]))
            found = self._like(image, kernel, space, node.dtype)
            split = reshape(found, (outer[0], size, outer[1], *space))
            return permute(split, (1, 0, *range(2, split.ndim)))
        groups = _groups(x, node.inputs[1])
        each = outer[1] // groups
        kernel = permute(
            reshape(w, (size, groups, each, *w.shape[2:])), (1, 0, *range(2, w.ndim + 1))
        )
        kernel = reshape(kernel, (groups * size * each, *w.shape[2:]))
        found = self._like(x, kernel, space, node.dtype)
        split = reshape(found, (outer[0], groups, size, each, *space))
        return reshape(permute(split, (2, 0, 1, 3, *tail)), (size, *node.shape))

    def _like(self, x: Node, w: Node, space: Shape, dtype: DType) -> Node:
        return make(self, (x, w), (x.shape[0], w.shape[0], *space), dtype)

    # -- lowering ----------------------------------------------------------------------------------
    def contraction(self, node: Node, args: Sequence[Element]) -> Contraction:
        """Batch: groups; m: output channels; n: images and positions; k: channels and taps."""
        x, w = node.inputs
        groups = _groups(x, w)
        rows, channels = w.shape[0] // groups, w.shape[1]

        def channel(group: Expr, inner: Expr, size: Size) -> Expr:
            return ix.add(ix.mul(group, size), inner)

        return Contraction(
            batch=(groups,),
            m=(rows,),
            n=(x.shape[0], *node.shape[2:]),
            k=(channels, *w.shape[2:]),
            left=lambda g, m, k: args[1]((channel(g[0], m[0], rows), *k)),
            right=lambda g, k, n: padded(
                self,
                args[0],
                (x.shape[2:], node.shape[2:], w.shape[2:]),
                (n[1:], k[1:]),
                lambda at: (n[0], channel(g[0], k[0], channels), *at),
            ),
            out_index=lambda g, m, n: (n[0], channel(g[0], m[0], rows), *n[1:]),
            accumulate=accumulator(node.dtype),
        )

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Ranks 1 to 3; strides, uneven and negative padding, dilations, groups, empty images."""
        numbers = dtypes.INTEGERS + dtypes.FLOATS
        for x, w, stride, padding, xd, wd, groups in _CASES:
            yield Sample(
                (x, w),
                lambda a, b, c=(stride, padding, xd, wd, groups): conv(a, b, *c),
                numbers if x[-1] in (5, 6) else dtypes.FLOATS,
            )
        yield Sample(
            ((2, 8, 5), (3, 8, 3)),
            lambda a, b: conv(a, b, (1,), ((1, 1),), dtype=dtypes.int32),
            (dtypes.int8,),
        )


# image, kernel, stride, padding, x_dilation, w_dilation, groups
_CASES: tuple[
    tuple[tuple[int, ...], tuple[int, ...], Ints, Pairs, Ints, Ints, int], ...
] = (
    ((2, 3, 6), (4, 3, 3), (1,), ((0, 0),), (1,), (1,), 1),
    ((1, 4, 7), (6, 2, 3), (2,), ((1, 2),), (1,), (1,), 2),
    ((2, 2, 6), (2, 1, 2), (1,), ((3, -1),), (2,), (2,), 2),
    ((2, 3, 5, 6), (2, 3, 3, 2), (2, 1), ((1, 1), (0, 1)), (1, 1), (1, 2), 1),
    ((1, 4, 4, 4), (4, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 4),
    ((1, 2, 3, 4, 4), (2, 2, 2, 3, 1), (1, 2, 3), ((0, 1), (1, 1), (0, 0)), (1,) * 3, (1,) * 3, 1),
    ((0, 2, 4), (3, 2, 2), (1,), ((0, 0),), (1,), (1,), 1),
    ((2, 0, 4), (3, 0, 2), (1,), ((0, 0),), (1,), (1,), 1),
    ((2, 2, 0), (3, 2, 2), (1,), ((1, 2),), (1,), (1,), 1),
)  # fmt: skip


def padded(
    op: Conv,
    image: Element,
    sizes: tuple[Shape, Shape, Shape],
    at: tuple[Index, Index],
    index: Callable[[Index], Index],
) -> Expr:
    """The image's element for a position and tap, zero outside it; ``sizes`` are those of the
    image, the positions and the taps, ``at`` is a position and a tap, ``index`` adds the channel.

    A test that the shapes prove true is left out.
    """
    inside: Expr = ix.TRUE
    found: list[Expr] = []
    for axis, (size, places, taps) in enumerate(zip(*sizes, strict=True)):
        step, tap, gap = op.stride[axis], op.w_dilation[axis], op.x_dilation[axis]
        low = op.low[axis]
        wide = ix.add(ix.mul(at[0][axis], step), ix.mul(at[1][axis], tap), -low)
        last = (size - 1) * gap
        reach = [(step, places), (tap, taps)]
        least, most = _reach(reach, -1) - low, _reach(reach, 1) - low
        if not (isinstance(least, int) and least >= 0):
            inside = ix.both(inside, ix.lt(-1, wide))
        if not (isinstance(last - most, int) and last - most >= 0):
            inside = ix.both(inside, ix.lt(wide, last + 1))
        if gap > 1:
            inside = ix.both(inside, ix.lt(ix.mod(wide, gap), 1))
        found.append(ix.floordiv(wide, gap))
    if inside == ix.TRUE:
        return image(index(tuple(found)))
    return image.guarded(inside, index(tuple(found)), zero(image.dtype))


def _reach(terms: Sequence[tuple[int, Size]], sign: int) -> Size:
    """The least (sign -1) or greatest (1) sum of coefficient * index, indices below their sizes."""
    total: Size = 0
    for coefficient, size in terms:
        if coefficient * sign > 0:
            total = total + (size - 1) * coefficient
    return total


def _groups(x: Node, w: Node) -> Size:
    """How many groups the channels fall into; 1 where there are no channels at all."""
    return 1 if 0 in (x.shape[1], w.shape[1]) else x.shape[1] // w.shape[1]


def _exchange_channels(w: Node, groups: Size) -> Node:
    """(groups · O', C', *K) as (groups · C', O', *K)."""
    each, channels, space = w.shape[0] // groups, w.shape[1], w.shape[2:]
    split = reshape(w, (groups, each, channels, *space))
    swapped = permute(split, (0, 2, 1, *range(3, split.ndim)))
    return reshape(swapped, (groups * channels, each, *space))


def _images_by_group(x: Node, groups: Size) -> Node:
    """(N, groups · C, *S) as (C, groups · N, *S): images as channels."""
    each, space = x.shape[1] // groups, x.shape[2:]
    if each == 1:
        images = permute(x, (1, 0, *range(2, x.ndim)))
        return reshape(images, (1, groups * x.shape[0], *space))
    split = permute(
        reshape(x, (x.shape[0], groups, each, *space)), (2, 1, 0, *range(3, 1 + x.ndim))
    )
    return reshape(split, (each, groups * x.shape[0], *space))


def _minus(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(-number for number in numbers)


def _solve(
    image: Node,
    kernel: Node,
    space: Shape,
    o: tuple[int, ...],
    k: tuple[int, ...],
    s: tuple[int, ...],
    low: tuple[int, ...],
) -> Node:
    """The convolution with sizes ``space`` over o · place + k · tap − s · position = low."""
    signs = tuple(-1 if gap < 0 else 1 for gap in s)  # both sides of the equation times −1

    def signed(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(v * sign for v, sign in zip(values, signs, strict=True))

    op = Conv(signed(o), signed(low), signed(s), signed(k))
    shape = (image.shape[0], kernel.shape[0], *space)
    return make(op, (image, kernel), shape, image.dtype)


def _check_options(op: str, rank: int, groups: int, **options: Sequence[object]) -> None:
    if not 1 <= rank <= 3:
        raise ShapeError(
            f"[{op}] {rank} spatial axes, but images have 1 to 3 beside batch and channels; "
            "reshape the image to (N, C, *space)"
        )
    for name, values in options.items():
        if len(values) != rank:
            raise ShapeError(
                f"[{op}] {name} {tuple(values)} for {rank} spatial axes: each needs one; "
                "repeat it for every axis"
            )
        if name != "padding" and name != "output_padding" and any(v < 1 for v in values):  # type: ignore[operator]
            raise ShapeError(f"[{op}] {name} {tuple(values)} is below 1; use 1 for none")
    if groups < 1:
        raise ShapeError(f"[{op}] groups {groups} is below 1; use 1 for a plain convolution")


def conv(
    x: Node,
    w: Node,
    stride: Ints,
    padding: Pairs,
    x_dilation: Ints | None = None,
    w_dilation: Ints | None = None,
    groups: int = 1,
    dtype: DType | None = None,
) -> Node:
    """Cross-correlation of images with kernels, as PyTorch's ``convN``.

    y[n, o, p] = Σ x̃[n, c, stride·p + w_dilation·k − padding] · w[o, c, k], x̃ being x with
    ``x_dilation − 1`` zeros between neighbours and zeros around it.

    Args:
        x: images (N, C, *S), 1 to 3 spatial axes.
        w: kernels (O, C / groups, *K), of the dtype of ``x``.
        stride: one a spatial axis, as are the next.
        padding: (before, after) an axis; negative crops.
        x_dilation: distance between neighbours of the image; default 1.
        w_dilation: distance between taps of the kernel; default 1.
        groups: channels and kernels fall into so many independent groups.
        dtype: as for ``contract``.

    Raises:
        ShapeError: when shapes or options do not fit, or the kernel is larger than the padded
            image. DTypeError: for bool, differing dtypes, or a narrower ``dtype``.

    >>> from lamella import dtypes, ops
    >>> x, w = ops.iota((1, 3, 8, 8), 0, dtypes.float32), ops.iota((4, 3, 3, 3), 0, dtypes.float32)
    >>> conv(x, w, (2, 2), ((1, 1), (1, 1))).shape
    (1, 4, 4, 4)
    """
    rank = x.ndim - 2
    gaps, taps = tuple(x_dilation or (1,) * rank), tuple(w_dilation or (1,) * rank)
    _check_options(
        "conv", rank, groups, stride=stride, padding=padding, x_dilation=gaps, w_dilation=taps
    )
    require_same_dtype("conv", x, w)
    wanted = result_dtype("conv", x.dtype, dtype)
    if w.ndim != x.ndim or x.shape[1] != w.shape[1] * groups:
        raise ShapeError(
            f"[conv] image {x.shape} and kernel {w.shape} with {groups} groups: the kernel is "
            f"(out channels, {x.shape[1]} // {groups}, *sizes); change the groups or the channels"
        )
    if w.shape[0] != w.shape[0] // groups * groups:
        raise ShapeError(
            f"[conv] kernel {w.shape} with {groups} groups: {w.shape[0]} output channels do not "
            "divide into them; use a multiple"
        )
    space: list[Size] = []
    for axis in range(rank):
        size, reach = _spread(x.shape[2 + axis], gaps[axis]), _spread(w.shape[2 + axis], taps[axis])
        left = size + sum(padding[axis]) - reach
        if isinstance(left, int) and left < 0:
            raise ShapeError(
                f"[conv] image {x.shape} and kernel {w.shape}: at spatial axis {axis} the kernel "
                f"reaches over {reach} positions but the padded image has "
                f"{size + sum(padding[axis])}; pad more or use a smaller kernel"
            )
        space.append(left // stride[axis] + 1)
    op = Conv(tuple(stride), tuple(p[0] for p in padding), gaps, taps)
    return make(op, (x, w), (x.shape[0], w.shape[0], *space), wanted)


def _spread(size: Size, gap: int) -> Size:
    return size if size == 0 else (size - 1) * gap + 1


def conv_transpose(
    x: Node,
    w: Node,
    stride: Ints,
    padding: Pairs,
    output_padding: Ints | None = None,
    dilation: Ints | None = None,
    groups: int = 1,
) -> Node:
    """The transpose of ``conv`` by its image, as PyTorch's ``conv_transposeN``.

    Args:
        x: images (N, C, *S).
        w: kernels (C, O / groups, *K).
        stride: distance at which the images' elements are put in the result.
        padding: (before, after) cropped from the result.
        output_padding: positions added after the result; default 0.
        dilation: distance between taps; default 1.
        groups: channels fall into so many independent groups.

    Returns:
        (N, O, *P) with P = (S − 1)·stride − before − after + dilation·(K − 1) + output_padding + 1.

    Raises:
        ShapeError: when shapes or options do not fit.
        DTypeError: when the dtypes differ.

    >>> from lamella import dtypes, ops
    >>> x, w = ops.iota((1, 3, 8), 0, dtypes.float32), ops.iota((3, 4, 3), 0, dtypes.float32)
    >>> conv_transpose(x, w, (2,), ((1, 1),), (1,)).shape
    (1, 4, 16)
    """
    rank = x.ndim - 2
    extra, taps = tuple(output_padding or (0,) * rank), tuple(dilation or (1,) * rank)
    _check_options(
        "conv_transpose", rank, groups,
        stride=stride, padding=padding, output_padding=extra, dilation=taps,
    )  # fmt: skip
    require_same_dtype("conv_transpose", x, w)
    result_dtype("conv_transpose", x.dtype, None)
    if w.ndim != x.ndim or w.shape[0] != x.shape[1] or x.shape[1] != x.shape[1] // groups * groups:
        raise ShapeError(
            f"[conv_transpose] image {x.shape} and kernel {w.shape} with {groups} groups: the "
            f"kernel is ({x.shape[1]}, out channels // groups, *sizes), the groups dividing "
            f"{x.shape[1]}; change the groups or the channels"
        )
    space: list[Size] = []
    for axis in range(rank):
        size, tap = x.shape[2 + axis], w.shape[2 + axis]
        reach = (size - 1) * stride[axis] + taps[axis] * (tap - 1) + extra[axis] + 1
        left = reach - sum(padding[axis])
        if isinstance(left, int) and left < 0:
            raise ShapeError(
                f"[conv_transpose] image {x.shape} and kernel {w.shape}: padding {padding[axis]} "
                f"at spatial axis {axis} crops more than the {reach} positions there are; pad less"
            )
        space.append(left)
    kernel = _exchange_channels(w, groups)
    low = tuple(-p[0] for p in padding)
    return _solve(x, kernel, tuple(space), (1,) * rank, _minus(taps), tuple(stride), low)
