"""Which schedule a contraction gets.

Input: a group of kind "tiles", the nodes that other kernels need, and the vectors.
Output: the writer of its kernel. :func:`forced` overrides the choice, for tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Final

from lamella.compiler.contraction_base import ContractionKernel, along
from lamella.compiler.contraction_bytes import WORD
from lamella.compiler.contraction_shapes import Lies, Shape, Thin, choose, thin
from lamella.compiler.contraction_thin import DotKernel, StreamKernel
from lamella.compiler.fusion import Group
from lamella.compiler.tiles import TileKernel
from lamella.ir.index import add, coefficient, mul
from lamella.ir.loops import Apply, Load, Var
from lamella.ir.node import Node
from lamella.ir.vectors import VectorUnit
from lamella.ir.walk import expressions

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


def writer(group: Group, needed: set[Node], unit: VectorUnit) -> Writer:
    """The writer of a contraction's kernel."""
    shape = _forced.get() or _chosen(group, needed, unit)
    if isinstance(shape, Shape):
        return TileKernel(group, needed, unit, shape)
    kind = StreamKernel if shape.kind == "stream" else DotKernel
    return kind(group, needed, unit, shape)


def _chosen(group: Group, needed: set[Node], unit: VectorUnit) -> Shape | Thin:
    for swapped in (False, True):
        facts = ContractionKernel(group, needed, unit, swapped)
        width = _ready(facts)
        if width:
            return choose(unit, facts.dtype, facts.sizes, swapped, _lies(facts), width)
        found = thin(unit, facts.dtype, facts.sizes, facts.order()[1], swapped)
        if found is not None:
            return found
    facts = ContractionKernel(group, needed, unit)
    _, m, n, _ = facts.sizes
    i, j = Var("left_x", m), Var("right_x", n)
    stores = facts.tail(facts.left(i, j), i, j)
    swapped = along(stores, i) and not along(stores, j)
    facts = ContractionKernel(group, needed, unit, swapped)
    return choose(unit, facts.dtype, facts.sizes, swapped, _lies(facts))


def _ready(facts: ContractionKernel) -> int:
    """The columns of the panels in which the right factor lies (see ``loop_factors``), or 0."""
    n, width = facts.sizes[2], facts.right_runs[0]
    if not width or width % facts.lanes or width > facts.unit.sums * facts.lanes:
        return 0
    block, j = Var("right_b", n // width), Var("right_x", width)
    k = Var("right_y", facts.sizes[3])
    value = facts.right(add(mul(block, width), j), k)
    if not isinstance(value, Load) or value.mask is not None:
        return 0
    runs = [coefficient(value.index, v) for v in (j, k)]
    return width if runs == [1, width] else 0


def _lies(facts: ContractionKernel) -> Lies:
    """How the left factor lies. To be read in place it must be memory, contiguous along k; or along
    the rows, unless lines of many steps would meet in one set of a cache.
    """
    (along_rows, along_k), _ = facts.order()
    rows, steps = facts.left_runs
    other = Lies(False, along_k, along_rows, True, rows, steps)
    i, k = Var("left_x", facts.sizes[1]), Var("left_y", facts.sizes[3])
    value, length = facts.left(i, k), 1
    if isinstance(value, Apply) and value.op == "word" and facts.steps == WORD * facts.sizes[3]:
        value, length = value.args[0], WORD
    if not isinstance(value, Load) or value.mask is not None:
        return other
    reads = any(isinstance(e, Load) for e in expressions([value.index]))
    row, step = coefficient(value.index, i), coefficient(value.index, k)
    other = replace(other, deep=along_k and not reads and step == length)
    if reads or not isinstance(row, int) or not isinstance(step, int):
        return other
    size, width = facts.sizes[3], value.dtype.itemsize
    few = isinstance(size, int) and size <= FEW
    plain = step == length or (row == length == 1 and (few or step * width % PAGE != 0))
    apart = row * width % PAGE != 0
    return replace(other, plain=plain, apart=apart, once=facts.rereads())
