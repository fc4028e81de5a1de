"""Stores to neighbouring places, a few elements apart from lane to lane: woven in registers into
whole vectors instead of scattered one by one.

Input: statements inside a lanes loop, such as the stores of both parts of complex numbers. Output:
those that belong together; and the vectors to store, each made of all values by one shuffle less
than there are values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lamella.compiler.emit.llvm_builder import Builder, Value
from lamella.ir.index import parts, sub
from lamella.ir.loops import Stmt, Store

__all__ = ["runs", "woven"]

MOST = 4  # values


def runs(body: Sequence[Stmt]) -> Iterator[tuple[Stmt] | tuple[Store, ...]]:
    """All statements in order, those together that store to places 0, 1, … of a buffer."""
    found: list[Store] = []
    for stmt in body:
        if found and not (len(found) < MOST and _follows(found[0], stmt, len(found))):
            yield tuple(found)
            found = []
        if isinstance(stmt, Store):
            found.append(stmt)
        else:
            yield (stmt,)
    if found:
        yield tuple(found)


def _follows(first: Store, stmt: Stmt, places: int) -> bool:
    if not isinstance(stmt, Store) or first.buffer != stmt.buffer:
        return False
    if any(s.mask is not None or s.atomic for s in (first, stmt)):
        return False
    return parts(sub(stmt.index, first.index)) == (places, {})


def woven(b: Builder, values: Sequence[Value]) -> list[Value]:
    """The elements of all values in turn, as vectors: element e is that of value e % count."""
    return [_vector(b, values, place) for place in range(len(values))]


def _vector(b: Builder, values: Sequence[Value], place: int) -> Value:
    """Vector number ``place``: the elements of the first two values, then those of each other put
    between.
    """
    count, lanes = len(values), values[0].lanes
    element = [divmod(place * lanes + k, count) for k in range(lanes)]  # lane, value
    found = values[0]
    for number in range(1, count):
        order = [
            lanes + lane if source == number else lane if number == 1 else k
            for k, (lane, source) in enumerate(element)
        ]
        found = b.shuffle(order, found, values[number])
    return found
