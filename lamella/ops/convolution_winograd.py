"""Convolution of 3 x 3 taps in fewer multiplications, as the compiler runs it, channels last.

Input: an image (N, H, W, C) and transformed kernels (1, B, n, n, C, L), packed as those of
``convolution_last``. Output: (N, P, Q, O). The meaning is that of
:class:`lamella.ops.convolution_last.ConvLast` with the kernels that were transformed; every rule
follows from it. Nobody records it: ``compiler.convolution`` puts it in the place of ``conv``.

The method is Toom and Cook's, used by Winograd (1980) and for networks by Lavin and Gray (2015).
Along one axis ``m`` neighbouring sums of three products are the coefficients of a product of
polynomials, which is known from its values at ``n = m + 2`` points, infinity being one. So with
matrices A, B, G that the points give, ``m`` sums are Aᵀ [(G g) ⊙ (Bᵀ d)] of kernel g and image d:
n products in the place of 3 m. Both axes together take n² in the place of 9 m², for m = 4 a
quarter.
The points decide how rounding errors grow. 0, ±1 (m = 2) loses nothing; 0, ±3/4, ±3/2 (m = 4)
about doubles the error of direct sums, 0, ±1, ±2, which is common, takes it four times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Final

import numpy as np

from lamella import dtypes, ops
from lamella.dtypes import DType
from lamella.errors import ShapeError
from lamella.ir import index as ix
from lamella.ir.dim import Shape, Size
from lamella.ir.loops import Apply, Const, Expr
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Element, Needs, Sample
from lamella.ops.contraction import Contraction, contract
from lamella.ops.convolution import Conv
from lamella.ops.convolution_last import ConvLast, channels_first, channels_last, pack, unpack
from lamella.ops.movement import permute, reshape

__all__ = ["TAPS", "ConvWinograd", "Transforms", "conv_winograd", "transformed", "transforms"]

TAPS = 3  # of each axis
POINTS: Final[dict[int, tuple[float, ...]]] = {2: (1.0,), 4: (0.75, 1.5)}
"""Positive points by the edge of a tile; their negatives, 0 and infinity are always taken."""

Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Transforms:
    """The matrices for tiles of ``edge`` results: ``image`` is Bᵀ (n, n), ``kernel`` G (n, 3),
    ``result`` Aᵀ (edge, n) and ``back`` (3, n) a left inverse of G.

    Rows and columns are points: 0, then each with its negative, then infinity.
    """

    edge: int
    image: Rows
    kernel: Rows
    result: Rows
    back: Rows


@cache
def transforms(edge: int) -> Transforms:
    """The matrices for tiles of ``edge`` results along an axis, 2 or 4.

    >>> transforms(2).result
    ((1.0, 1.0, 1.0, 0.0), (0.0, 1.0, -1.0, 1.0))
    """
    points = [0.0, *(sign * p for p in POINTS[edge] for sign in (1.0, -1.0))]
    others = [[q for q in points if q != p] for p in points]
    scale = [prod(p - q for q in rest) for p, rest in zip(points, others, strict=True)]
    finite = zip(points, scale, strict=True)
    kernel = (*(tuple(p**k / s for k in range(TAPS)) for p, s in finite), (0.0, 0.0, 1.0))
    image = (*((*_polynomial(rest), 0.0) for rest in others), _polynomial(points))
    result = tuple((*(p**k for p in points), float(k == edge - 1)) for k in range(edge))
    return Transforms(edge, image, kernel, result, _inverse(points[1], scale))


def _polynomial(roots: Sequence[float]) -> tuple[float, ...]:
    """Coefficients of Π (x − root), lowest first."""
    found = [1.0]
    for root in roots:
        above, same = [0.0, *found], [*found, 0.0]
        found = [a - root * b for a, b in zip(above, same, strict=True)]
    return tuple(found)


def _inverse(point: float, scale: Sequence[float]) -> Rows:
    """Kernels from transformed ones: values at 0, at ± ``point`` and at infinity suffice."""
    zeros = [0.0] * (len(scale) + 1)
    first, middle, last = zeros[:], zeros[:], zeros[:]
    first[0], last[-1] = scale[0], 1.0
    middle[1], middle[2] = scale[1] / (2 * point), -scale[2] / (2 * point)
    return tuple(first), tuple(middle), tuple(last)


@dataclass(frozen=True, slots=True)
class ConvWinograd(ConvLast):
    """y[n, p, o] = Σ x[n, s, c] · w[o, c, k] over p + k − s = low, of u = G w Gᵀ, packed."""

    name = "conv_winograd"
    kind = "contraction"
    stored = (0, 1)

    def check(self, node: Node) -> None:
        """As for ``conv_last``; two axes, no strides or dilations, and square tiles."""
        u = node.inputs[1]
        plain = self.stride == self.x_dilation == self.w_dilation == (1, 1)
        square = u.ndim == 6 and u.shape[0] == 1 and u.shape[2] == u.shape[3]
        if not plain or not square or int(u.shape[2]) - TAPS + 1 not in POINTS:
            raise ShapeError(
                f"[conv_winograd] {self} with kernels {u.shape}: it takes two axes, no strides or "
                "dilations, and kernels of ops.convolution_winograd.transformed; use conv_last"
            )
        ConvLast.check(self, node)

    def first(self, node: Node, x: Node, w: Node) -> Node:
        """The same convolution with channels first and plain kernels."""
        op = Conv(self.stride, self.low, self.x_dilation, self.w_dilation)
        image, kernel = channels_first(x), recovered(w, node.shape[-1])
        shape = (image.shape[0], kernel.shape[0], *node.shape[1:-1])
        return make(op, (image, kernel), shape, node.dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``ConvLast``'s of the recovered kernels."""
        x, u = arrays
        back = np.asarray(_of(u).back, np.float64)
        kernel = np.einsum("gbijcl,ki,mj->gbkmcl", u, back, back)
        return ConvLast.reference(self, x, kernel.astype(u.dtype), shape=shape, dtype=dtype)

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """``Conv``'s, the kernels recovered before and the matrices transposed after."""
        x, u = node.inputs
        inner = self.first(node, x, u)
        by_image, by_kernel = inner.op.transpose(inner, channels_first(cotangent), needs)
        if by_kernel is not None:
            columns = tuple(zip(*transforms(_edge(u)).back, strict=True))
            by_kernel = pack(_between(by_kernel, columns), 1, u.shape[-1])
        return (None if by_image is None else channels_last(by_image), by_kernel)

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """``Conv``'s, the kernels recovered before."""
        x, u = args
        inner = self.first(node, *node.inputs)
        last = node.ndim
        x = permute(x, (0, 1, last, *range(2, last))) if batched[0] else channels_first(x)
        if batched[1]:
            joined = reshape(u, (size * u.shape[1], *u.shape[2:]))
            plain = recovered(joined, size * node.shape[-1])
            w = reshape(plain, (size, node.shape[-1], *plain.shape[1:]))
        else:
            w = recovered(u, node.shape[-1])
        found = inner.op.batch(inner, (x, w), batched, size)
        return permute(found, (0, 1, *range(3, last + 1), 2))

    def taps(self, w: Node) -> Shape:
        """Three along each axis."""
        return TAPS, TAPS

    def contraction(self, node: Node, args: Sequence[Element]) -> Contraction:
        """As ``ConvLast``'s of the recovered kernels; the compiler's schedule computes it in
        transformed form.
        """
        return ConvLast.contraction(self, node, (args[0], _Recovered(args[1])))

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Both sizes of tile; padding, tiles that are not full, a block that is not full."""
        for x, w, low, places, edge in _CASES:

            def build(
                a: Node, b: Node, c: tuple[tuple[int, int], tuple[int, int], int] = (
                    low, places, edge,
                ),
            ) -> Node:  # fmt: skip
                op = Conv((1, 1), c[0], (1, 1), (1, 1))
                return conv_winograd(op, a, transformed(b, c[2], 4), c[1], b.shape[0], b.dtype)

            yield Sample((x, w), build, (dtypes.float32, dtypes.float64), rtol=1e-5)


# image, plain kernel, low, positions, edge
_CASES: tuple[
    tuple[tuple[int, ...], tuple[int, ...], tuple[int, int], tuple[int, int], int], ...
] = (
    ((2, 4, 6, 3), (4, 3, 3, 3), (1, 1), (4, 6), 2),
    ((1, 5, 5, 2), (6, 2, 3, 3), (0, 2), (4, 7), 4),
)  # fmt: skip


class _Recovered:
    """Elements of the plain kernels, packed, from those of transformed ones."""

    def __init__(self, element: Element) -> None:
        self._element = element
        *outer, channels, lanes = element.shape
        self.shape = (*outer[:-2], TAPS, TAPS, channels, lanes)
        self.dtype = element.dtype

    def __call__(self, index: Sequence[Expr]) -> Expr:
        """Σ back[row, i] · back[column, j] · u[…, i, j, …]."""
        group, block, row, column, channel, lane = index
        size = int(self._element.shape[2])
        total: Expr = Const(0.0, self.dtype)
        for i in range(size):
            for j in range(size):
                value = self._element((group, block, *map(ix.constant, (i, j)), channel, lane))
                for tap, point in ((row, i), (column, j)):
                    value = Apply("mul", (value, self._factor(tap, point)), self.dtype)
                total = Apply("add", (total, value), self.dtype)
        return total

    def guarded(self, condition: Expr, index: Sequence[Expr], fill: Expr) -> Expr:
        """The element where ``condition`` holds, else ``fill``."""
        return Apply("select", (condition, self(index), fill), self.dtype)

    def _factor(self, tap: Expr, point: int) -> Expr:
        back = transforms(int(self._element.shape[2]) - TAPS + 1).back
        found: Expr = Const(back[-1][point], self.dtype)
        for number in reversed(range(TAPS - 1)):
            own = Const(back[number][point], self.dtype)
            found = Apply("select", (ix.lt(tap, number + 1), own, found), self.dtype)
        return found


def _edge(u: Node) -> int:
    return int(u.shape[2]) - TAPS + 1


def _of(u: Array) -> Transforms:
    return transforms(u.shape[2] - TAPS + 1)


def _between(w: Node, matrix: Rows) -> Node:
    """M w Mᵀ of the last two axes of w (O, C, K, K), stored with O last, as it is packed."""
    entries = [reshape(ops.constant(v, w.dtype), (1,)) for row in matrix for v in row]
    m = reshape(ops.concatenate(entries, 0), (len(matrix), len(matrix[0])))
    rows = contract(w, m, (0, 1, 2, 3), (4, 2), (4, 3, 1, 0))
    return permute(contract(rows, m, (4, 3, 1, 0), (5, 3), (4, 5, 1, 0)), (3, 2, 0, 1))


def transformed(w: Node, edge: int, lanes: Size) -> Node:
    """Kernels (O, C, 3, 3) as (1, B, n, n, C, L), n = edge + 2: G w Gᵀ of each, packed.

    >>> from lamella import dtypes, ops
    >>> transformed(ops.iota((20, 3, 3, 3), 0, dtypes.float32), 4, 16).shape
    (1, 2, 6, 6, 3, 16)
    """
    return pack(_between(w, transforms(edge).kernel), 1, lanes)


def recovered(u: Node, channels: Size) -> Node:
    """The kernels (O, C, 3, 3), O = ``channels``, that ``transformed`` transformed.

    >>> from lamella import dtypes, ops
    >>> recovered(ops.iota((1, 2, 6, 6, 3, 16), 0, dtypes.float32), 20).shape
    (20, 3, 3, 3)
    """
    return _between(unpack(u, channels), transforms(_edge(u)).back)


def conv_winograd(
    op: Conv, x: Node, u: Node, places: Sequence[Size], channels: Size, dtype: DType
) -> Node:
    """The convolution ``op`` of ``x`` (N, H, W, C) with transformed kernels, for ``places``
    positions and ``channels`` output channels.

    >>> from lamella import dtypes, ops
    >>> x = ops.iota((1, 8, 9, 3), 0, dtypes.float32)
    >>> u = transformed(ops.iota((4, 3, 3, 3), 0, dtypes.float32), 2, 4)
    >>> op = Conv((1, 1), (1, 1), (1, 1), (1, 1))
    >>> conv_winograd(op, x, u, (8, 9), 4, dtypes.float32).shape
    (1, 8, 9, 4)
    """
    fast = ConvWinograd(op.stride, op.low, op.x_dilation, op.w_dilation)
    return make(fast, (x, u), (x.shape[0], *places, channels), dtype)
