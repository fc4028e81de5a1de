"""Attention in memory proportional to the length: softmax(q k^T + mask) v, and its derivative.

Input: ``q (*lead, L, E)``, ``k (*heads, S, E)``, ``v (*heads, S, V)`` of one floating dtype, where
each axis of ``heads`` is that of ``lead`` or 1 (shared by all), and perhaps a mask whose axes are
those of ``(*lead, L, S)`` or 1: bool (True: visible) or of q's dtype, added to the scores. Key j
is visible to query i where ``i - before <= j <= i + after``. Output: ``(*lead, L, V)`` and the
logarithm of the sum of exponentials of each row, from which the derivative makes the weights again
tile by tile (Dao, FlashAttention-2, 2023; online softmax: Milakov and Gimelshein, 2018). A row that
sees nothing gives zeros; its logarithm is +inf, so that its weights are zeros too. Derivatives of
the derivative compose matrix products and do have the weights in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella import dtypes, ops
from lamella.dtypes import bool_
from lamella.ir.dim import Shape, product
from lamella.ir.loops import Stmt
from lamella.ir.node import Node
from lamella.ops.attention_backward import AttentionBackward
from lamella.ops.attention_band import (
    Banded,
    Pieces,
    across,
    check_operands,
    like,
    score_tangent,
    weights_of,
    wide,
    widened,
)
from lamella.ops.attention_forward import forward
from lamella.ops.attention_setting import blocks
from lamella.ops.base import Array, Element, Index, KernelWriter, Needs, Sample
from lamella.ops.calls import Result, call, part
from lamella.ops.families import accumulator

__all__ = ["Attention", "attention"]


@dataclass(frozen=True, slots=True)
class Attention(Banded):
    """Results: the attended values, and the logarithm of each row's sum of exponentials."""

    name: ClassVar[str] = "attention"

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """``(*lead, L, V)``, and ``(*lead, L)`` in the dtype of sums."""
        check_operands(inputs)
        q, _, v = inputs[:3]
        rows = q.shape[:-1]
        return ((*rows, v.shape[-1]), q.dtype), (rows, accumulator(q.dtype))

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The formula, in float64."""
        scores = self.scores(arrays)
        top = scores.max(axis=-1, initial=-np.inf, keepdims=True)
        top = np.where(np.isneginf(top), 0.0, top)
        with np.errstate(all="ignore"):
            weights = np.exp(scores - top)
            mass = weights.sum(-1)
            logarithm = np.where(mass == 0, np.inf, np.log(mass) + top[..., 0])
            values = (weights @ wide(arrays[2])) / np.where(mass == 0, 1.0, mass)[..., None]
        found = zip((values, logarithm), self.results(node.inputs), strict=True)
        return tuple(a.astype(dtype.numpy) for a, (_, dtype) in found)

    def vjp_all(
        self, node: Node, cotangents: Sequence[Node | None], needs: Needs
    ) -> Sequence[Node | None]:
        """One call for q, k and v; the mask's comes from the weights in memory."""
        out, logarithm = part(node, 0), part(node, 1)
        d_out = cotangents[0] or ops.full(0.0, out.shape, out.dtype)
        mean = ops.reduce_sum(ops.multiply(widened(d_out), widened(out)), out.ndim - 1)
        if cotangents[1] is not None:
            mean = ops.subtract(mean, cotangents[1])
        backward = AttentionBackward(self.before, self.after)
        found: list[Node | None] = [
            *call(backward, *node.inputs, logarithm, mean, d_out),
            *[None for _ in node.inputs[3:]],
        ]
        if len(node.inputs) == 4 and needs[3] and node.inputs[3].dtype is not bool_:
            p = Pieces(self, (*node.inputs, logarithm, mean, d_out))
            found[3] = like(p.change, node.inputs[3])
        return found

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """With t the tangent of the scores: P (t - sum(P t)) v + P dv, and sum(P t)."""
        dq, dk, dv = tangents[:3]
        v = widened(node.inputs[2])
        weights = weights_of(self, node.inputs, part(node, 1))
        moved = score_tangent(node.inputs, (dq, dk, *tangents[3:]), weights.shape)
        dtype = node.inputs[0].dtype
        found = None if dv is None else ops.matmul(weights, widened(dv))
        if moved is None:
            return found and ops.cast(found, dtype), None
        mean = ops.reduce_sum(ops.multiply(weights, moved), weights.ndim - 1)
        change = ops.multiply(weights, ops.subtract(moved, across(mean, weights.shape)))
        both = ops.matmul(change, v)
        return ops.cast(both if found is None else ops.add(found, both), dtype), mean

    def grid(self, node: Node) -> Shape:
        """Heads, and blocks of queries."""
        q = node.inputs[0]
        return product(q.shape[:-2]), blocks(q.shape[-2])

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        """See ``attention_forward``."""
        return forward(self.before, self.after, node, args, at, out)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Masks of both kinds, bands, shared heads, odd and empty sizes."""
        cases: tuple[tuple[Shape, Shape, int, Shape | None, int | None, int | None], ...] = (
            ((3, 4), (3, 4), 4, None, None, None),
            ((2, 5, 3), (2, 7, 3), 2, None, None, 0),
            ((2, 2, 3, 5), (2, 1, 4, 5), 3, (1, 1, 3, 4), None, None),
            ((1, 9, 4), (1, 9, 4), 4, (1, 1, 9), 2, 1),
            ((2, 0, 3), (2, 4, 3), 2, None, None, None),
        )
        for q, k, width, mask, before, after in cases:
            shapes = (q, k, (*k[:-1], width), *(() if mask is None else (mask,)))
            yield Sample(
                shapes,
                lambda *x, op=Attention(before, after): call(op, *x)[0],
                dtypes.FLOATS, low=-1.0, high=1.0, rtol=1e-2,
            )  # fmt: skip


def attention(
    q: Node,
    k: Node,
    v: Node,
    mask: Node | None = None,
    before: int | None = None,
    after: int | None = None,
) -> tuple[Node, Node]:
    """softmax(q k^T + mask) v and the logarithm of each row's sum of exponentials; see the module.

    Args:
        q: ``(*lead, L, E)``, already scaled.
        k: ``(*heads, S, E)``, each axis of ``heads`` that of ``lead`` or 1.
        v: ``(*heads, S, V)``.
        mask: bool or of the dtype of ``q``, each axis that of ``(*lead, L, S)`` or 1.
        before: how many keys before its own place a query sees; None: all.
        after: how many keys after its own place it sees (0: causal); None: all.

    Raises:
        ShapeError: when the shapes do not fit.
        DTypeError: unless q, k and v have one floating-point dtype and the mask that or bool.

    >>> from lamella import dtypes, ops
    >>> q, k = (ops.iota((2, n, 4), 0, dtypes.float32) for n in (3, 5))
    >>> [x.shape for x in attention(q, k, k)]
    [(2, 3, 4), (2, 3)]
    """
    inputs = (q, k, v) if mask is None else (q, k, v, mask)
    values, logarithm = call(Attention(before, after), *inputs)
    return values, logarithm
