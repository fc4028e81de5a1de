"""Which schedule a contraction gets.

Input: a group of kind "tiles", the nodes that other kernels need, and the width of a vector.
Output: the writer of its kernel. :func:`forced` overrides the choice, for tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from lamella.compiler.contraction_base import ContractionKernel, along
from lamella.compiler.contraction_shapes import Shape, Thin, choose, thin
from lamella.compiler.contraction_thin import DotKernel, StreamKernel
from lamella.compiler.fusion import Group
from lamella.compiler.tiles import TileKernel
from lamella.compiler.walk import expressions
from lamella.ir.index import coefficient
from lamella.ir.loops import Load, Var
from lamella.ir.node import Node

__all__ = ["forced", "writer"]

PAGE = 4096  # bytes between lines that meet in one set of a first-level cache
FEW = 128  # of them that the caches hold all the same

Writer = TileKernel | StreamKernel | DotKernel

_forced: Final[ContextVar[Shape | Thin | None]] = ContextVar("schedule", default=None)


@contextmanager
def forced(schedule: Shape | Thin) -> Iterator[None]:
    """Every contraction compiled inside has this schedule (programs known already keep theirs)."""
    token = _forced.set(schedule)
    try:
        yield
    finally:
        _forced.reset(token)


def writer(group: Group, needed: set[Node], vector_bytes: int) -> Writer:
    """The writer of a contraction's kernel."""
    shape = _forced.get() or _chosen(group, needed, vector_bytes)
    if isinstance(shape, Shape):
        return TileKernel(group, needed, vector_bytes, shape)
    kind = StreamKernel if shape.kind == "stream" else DotKernel
    return kind(group, needed, vector_bytes, shape)


def _chosen(group: Group, needed: set[Node], vector_bytes: int) -> Shape | Thin:
    for swapped in (False, True):
        facts = ContractionKernel(group, needed, vector_bytes, swapped)
        found = thin(facts.dtype, facts.lanes, facts.sizes, facts.order()[1], swapped)
        if found is not None:
            return found
    facts = ContractionKernel(group, needed, vector_bytes)
    _, m, n, _ = facts.sizes
    i, j = Var("left_x", m), Var("right_x", n)
    stores = facts.tail(facts.left(i, j), i, j)
    swapped = along(stores, i) and not along(stores, j)
    facts = ContractionKernel(group, needed, vector_bytes, swapped)
    (_, along_k), _ = facts.order()
    return choose(vector_bytes, facts.dtype, facts.sizes, swapped, _is_plain(facts), along_k)


def _is_plain(facts: ContractionKernel) -> bool:
    """Whether the left factor is memory, contiguous along k; or along the rows, unless lines of
    many steps would meet in one set of a cache.
    """
    i, k = Var("left_x", facts.sizes[1]), Var("left_y", facts.sizes[3])
    value = facts.left(i, k)
    if not isinstance(value, Load) or value.mask is not None:
        return False
    reads = any(isinstance(e, Load) for e in expressions([value.index]))
    row, step = coefficient(value.index, i), coefficient(value.index, k)
    if reads or not isinstance(row, int) or not isinstance(step, int):
        return False
    size = facts.sizes[3]
    few = isinstance(size, int) and size <= FEW
    return step == 1 or (row == 1 and (few or step * value.dtype.itemsize % PAGE != 0))
