"""Identities that checkpoints use: a name by which policies choose a value, and ``again``, beyond
which values are computed a second time.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from lamella.dtypes import ALL
from lamella.ir.dim import Size
from lamella.ir.node import Node, make
from lamella.ops.base import Needs, Sample
from lamella.ops.leaf import Mark

__all__ = ["Again", "Label", "again", "label"]


@dataclass(frozen=True, slots=True)
class Label(Mark):
    """The input, known as ``text``."""

    name: ClassVar[str] = "label"
    text: str

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The batched input under the same name."""
        return label(args[0], self.text)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """All dtypes."""
        yield Sample(((2, 3),), lambda x: label(x, "x"), ALL)


def label(x: Node, text: str) -> Node:
    """``x``, known as ``text``.

    >>> from lamella import dtypes, ops
    >>> label(ops.placeholder((2,), dtypes.float64), "h").op
    Label(text='h')
    """
    return make(Label(text), (x,), x.shape, x.dtype)


@dataclass(frozen=True, slots=True)
class Again(Mark):
    """The input, under another identity: what is computed from it is not merged with what is
    computed from the input itself, nor fused into it.
    """

    name: ClassVar[str] = "again"

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """The batched input, again."""
        return again(args[0])

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """All dtypes."""
        yield Sample(((2, 3),), again, ALL)


def again(x: Node) -> Node:
    """``x``, to compute from it a second time.

    >>> from lamella import dtypes, ops
    >>> again(ops.placeholder((2,), dtypes.float64)).op
    Again()
    """
    return make(Again(), (x,), x.shape, x.dtype)
