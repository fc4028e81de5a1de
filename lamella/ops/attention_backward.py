"""The derivative of attention: what autodiff sees, and the call with a kernel that computes it.

Input: those of ``Attention``, each row's logarithm of the sum of exponentials, its sum of ``out *
cotangent``, and the cotangent of ``out``. Output: the cotangents of q, k and v. With P the weights:
dv = P^T dout, dS = P (dout v^T - mean), dq = dS k, dk = dS^T q (Dao, FlashAttention-2, 2023).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella import dtypes, ops
from lamella.dtypes import bool_
from lamella.ir.decisions import counted
from lamella.ir.dim import Shape, product
from lamella.ir.loops import Stmt
from lamella.ir.node import Node
from lamella.ops.attention_band import (
    Banded,
    Pieces,
    across,
    check_operands,
    like,
    score_tangent,
    swapped,
    total,
    wide,
    widened,
)
from lamella.ops.attention_reverse import backward
from lamella.ops.attention_setting import block_size, blocks
from lamella.ops.base import Array, Element, Index, KernelWriter, Needs, Sample
from lamella.ops.calls import Result, call
from lamella.ops.families import accumulator, to_shape

__all__ = ["AttentionBackward", "AttentionTiles"]

BUSY = 16  # independent parts of a backward pass that keep every worker busy


def _formula(op: Banded, arrays: Sequence[Array], chunks: int) -> list[Array]:
    """In NumPy and float64; the cotangent of q by chunks of keys."""
    q, k, v = (wide(a) for a in arrays[:3])
    logarithm, mean, d_out = (wide(a) for a in arrays[-3:])
    with np.errstate(invalid="ignore"):
        weights = np.exp(op.scores(arrays[:-3]) - logarithm[..., None])
    change = weights * (d_out @ np.swapaxes(v, -1, -2) - mean[..., None])
    keys = np.broadcast_to(k, (*q.shape[:-2], *k.shape[-2:]))
    step = block_size() * -(-blocks(k.shape[-2]) // chunks)
    starts = range(0, step * chunks, step)
    d_q = [change[..., s : s + step] @ keys[..., s : s + step, :] for s in starts]
    lead = enumerate(zip(q.shape[:-2], k.shape[:-2], strict=True))
    shared = tuple(axis for axis, (a, b) in lead if a != b)
    rest = (
        (np.swapaxes(x, -1, -2) @ y).sum(shared, keepdims=True)
        for x, y in ((change, q), (weights, d_out))
    )
    return [np.stack(d_q, axis=-3), *rest]


@dataclass(frozen=True, slots=True)
class AttentionBackward(Banded):
    """The cotangents of q, k and v, each like its own."""

    name: ClassVar[str] = "attention_backward"

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """The shapes of q, k and v."""
        check_operands(inputs[:-3])
        return tuple((x.shape, x.dtype) for x in inputs[:3])

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The formula, in float64."""
        d_q, d_k, d_v = _formula(self, arrays, 1)
        dtype = node.inputs[0].dtype.numpy
        return tuple(a.astype(dtype) for a in (d_q[..., 0, :, :], d_k, d_v))

    def composed(self, node: Node) -> Sequence[Node]:
        """The tiles' results, those of q added up."""
        q, k = node.inputs[:2]
        d_q, d_k, d_v = call(AttentionTiles(self.before, self.after, _chunks(k)), *node.inputs)
        return ops.cast(ops.reduce_sum(d_q, q.ndim - 2), q.dtype), d_k, d_v

    def vjp_all(
        self, node: Node, cotangents: Sequence[Node | None], needs: Needs
    ) -> Sequence[Node | None]:
        """By matrix products: with a, b, c the cotangents of dq, dk, dv and W = a k^T + q b^T."""
        p = Pieces(self, node.inputs)
        lead = p.q.shape[:-2]
        a, b, c = (
            None if x is None else to_shape(widened(x), (*lead, *x.shape[-2:])) for x in cotangents
        )
        w = total(a and ops.matmul(a, swapped(p.k)), b and ops.matmul(p.q, swapped(b)))
        by_change = w and ops.multiply(w, p.weights)
        by_weight = total(c and ops.matmul(p.d_out, swapped(c)), w and ops.multiply(w, p.gap))
        by_score = by_weight and ops.multiply(p.weights, by_weight)
        found = [
            total(by_score and ops.matmul(by_score, p.k), b and ops.matmul(p.change, b)),
            total(
                by_score and ops.matmul(swapped(by_score), p.q),
                a and ops.matmul(swapped(p.change), a),
            ),
            by_change and ops.matmul(swapped(by_change), p.d_out),
            *([by_score] if len(node.inputs) == 7 else []),
            by_score and _rows(by_score),
            by_change and _rows(by_change),
            total(by_change and ops.matmul(by_change, p.v), c and ops.matmul(p.weights, c)),
        ]
        return [
            None if x is None or not need or source.dtype is bool_ else like(x, source)
            for x, need, source in zip(found, needs, node.inputs, strict=True)
        ]

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """The product rule over dq = dS k, dk = dS^T q, dv = P^T dout."""
        p = Pieces(self, node.inputs)
        shape = p.weights.shape
        given = [None if t is None else widened(t) for t in tangents]
        q, k, v = (
            None if t is None else to_shape(t, (*p.q.shape[:-2], *t.shape[-2:])) for t in given[:3]
        )
        logarithm, mean, d_out = given[-3:]
        moved = score_tangent(node.inputs, (*given[:2], *given[3:-3]), shape)
        moved = total(moved, logarithm and ops.negative(across(logarithm, shape)))
        weights = moved and ops.multiply(p.weights, moved)
        gap = total(
            d_out and ops.matmul(d_out, swapped(p.v)), v and ops.matmul(p.d_out, swapped(v))
        )
        gap = total(gap, mean and ops.negative(across(mean, shape)))
        change = total(
            weights and ops.multiply(weights, p.gap), gap and ops.multiply(p.weights, gap)
        )
        found = (
            total(change and ops.matmul(change, p.k), k and ops.matmul(p.change, k)),
            total(
                change and ops.matmul(swapped(change), p.q),
                q and ops.matmul(swapped(p.change), q),
            ),
            total(
                weights and ops.matmul(swapped(weights), p.d_out),
                d_out and ops.matmul(swapped(p.weights), d_out),
            ),
        )
        return [x and like(x, source) for x, source in zip(found, node.inputs[:3], strict=True)]

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """With and without masks, shared heads."""
        for case in _CASES:
            yield _sample(AttentionBackward(*case[3:]), *case[:3])


def _rows(x: Node) -> Node:
    return ops.negative(ops.reduce_sum(x, x.ndim - 1))


@dataclass(frozen=True, slots=True)
class AttentionTiles(Banded):
    """``AttentionBackward`` as one kernel; the compiler puts it there.

    The cotangent of q is in ``chunks`` parts, each from its own keys: ``(*lead, chunks, L, E)`` in
    the dtype of sums.
    """

    name: ClassVar[str] = "attention_tiles"
    differentiable: ClassVar[bool] = False
    chunks: int = 1

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """The parts of q's, and the shapes of k and v."""
        check_operands(inputs[:-3])
        q, k, v = inputs[:3]
        parts = (*q.shape[:-2], self.chunks, *q.shape[-2:])
        return (parts, accumulator(q.dtype)), (k.shape, k.dtype), (v.shape, v.dtype)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The formula, in float64."""
        found = zip(_formula(self, arrays, self.chunks), self.results(node.inputs), strict=True)
        return tuple(a.astype(dtype.numpy) for a, (_, dtype) in found)

    def grid(self, node: Node) -> Shape:
        """Heads of keys, and chunks."""
        return product(node.inputs[1].shape[:-2]), self.chunks

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        """See ``attention_reverse``."""
        return backward(self.before, self.after, self.chunks, node, args, at, out)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """One chunk and several."""
        for chunks, case in enumerate(_CASES, 1):
            yield _sample(AttentionTiles(*case[3:], chunks), *case[:3])


def _chunks(k: Node) -> int:
    """Chunks of keys that make enough parts of all heads; by the sizes alone."""
    heads = counted(product(k.shape[:-2]), 1, BUSY, BUSY)
    tile = block_size()
    return max(1, counted(k.shape[-2] + tile - 1, tile, -(-BUSY // max(heads, 1)), 1))


_CASES: tuple[tuple[Shape, Shape, Shape | None, int | None, int | None], ...] = (
    ((3, 4), (3, 4), None, None, None),
    ((2, 5, 3), (2, 7, 3), None, None, 0),
    ((2, 2, 3, 5), (2, 1, 4, 5), (1, 1, 3, 4), 2, 1),
)


def _sample(op: Banded, q: Shape, k: Shape, mask: Shape | None) -> Sample:
    masks = () if mask is None else (mask,)
    shapes = (q, k, (*k[:-1], 2), *masks, q[:-1], q[:-1], (*q[:-1], 2))

    def build(*x: Node) -> Node:
        *given, logarithm, mean, d_out = x
        return call(op, *given, widened(logarithm), widened(mean), d_out)[0]

    return Sample(
        shapes, build, dtypes.FLOATS, low=0.5, high=1.0, rtol=1e-2,
        differentiable=op.differentiable,
    )  # fmt: skip
