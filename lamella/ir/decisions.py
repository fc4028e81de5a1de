"""Decisions by sizes that are known only at run time.

Input: a comparison of sizes. Output: its truth for the sizes that a program is being compiled for,
which is noted: the program serves all sizes for which every comparison has the same outcome. So a
program with open sizes decides as one of fixed sizes does, and its sums have the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from lamella.ir.asking import known_sizes
from lamella.ir.dim import Dim, Size, bind, symbols

__all__ = [
    "Decision", "Decisions", "at_least", "counted", "deciding", "pinned", "power_within",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Decision:
    """That ``size >= limit``, or that it is not.

    >>> Decision(2 * Dim("n"), 8, True).suits({"n": 4})
    True
    """

    size: Size
    limit: int
    holds: bool

    def suits(self, values: Mapping[str, int]) -> bool:
        """Whether it is the same for these sizes."""
        return (bind(self.size, values) >= self.limit) == self.holds


@dataclass(slots=True)
class Decisions:
    """The sizes of the symbols that a program is compiled for, and what was decided by them."""

    values: Mapping[str, int]
    found: dict[tuple[Size, int], bool] = field(default_factory=dict)

    def knows(self, size: Size) -> bool:
        """Whether every symbol of ``size`` has a value."""
        return symbols(size) <= self.values.keys()

    def at_least(self, size: Size, limit: int) -> bool:
        """``size >= limit``, noted."""
        return self.found.setdefault((size, limit), bind(size, self.values) >= limit)

    def all(self) -> list[Decision]:
        """Everything that was decided."""
        return [Decision(size, limit, holds) for (size, limit), holds in self.found.items()]


_current: Final[ContextVar[Decisions | None]] = ContextVar("decisions", default=None)


@contextmanager
def deciding(values: Mapping[str, int]) -> Iterator[Decisions]:
    """Comparisons inside are decided by these sizes of the symbols."""
    decisions = Decisions(values)
    token = _current.set(decisions)
    try:
        yield decisions
    finally:
        _current.reset(token)


def at_least(size: Size, limit: Size, otherwise: bool) -> bool:
    """``size >= limit``; ``otherwise`` where that is open and nothing is known of the sizes. While
    ``jit`` traces, the trace notes it.

    >>> n = Dim("n"); at_least(5, 4, False), at_least(n, 4, False), at_least(n + 1, n, False)
    (True, False, True)
    >>> with deciding({"n": 7}) as made: at_least(2 * n, 4, False), made.all()
    (True, [Decision(size=2*n, limit=4, holds=True)])
    """
    if isinstance(limit, Dim):
        size, limit = size - limit, 0
    if isinstance(size, int):
        return size >= limit
    decisions, known = _current.get(), known_sizes.get()
    if decisions is not None and decisions.knows(size):
        return decisions.at_least(size, limit)
    if decisions is None and known is not None and known.is_strict:
        return bool(known.number(size) >= limit)
    return otherwise


def counted(size: Size, unit: int, most: int, otherwise: int) -> int:
    """``size // unit``, but at most ``most``; ``otherwise`` where nothing is known of the size.

    >>> with deciding({"n": 70}): counted(Dim("n"), 32, 8, 1)
    2
    """
    if isinstance(size, int):
        return min(size // unit, most)
    decisions = _current.get()
    if decisions is None or not decisions.knows(size):
        return otherwise
    found = min(bind(size, decisions.values) // unit, most)
    decisions.at_least(size, found * unit)
    if found < most:
        decisions.at_least(size, (found + 1) * unit)
    return found


def power_within(size: Size) -> int:
    """The largest power of two that is not above ``size``, which is known to be positive.

    >>> with deciding({"n": 70}): power_within(Dim("n"))
    64
    """
    decisions = None if isinstance(size, int) else _current.get()
    found = 1 << (bind(size, decisions.values if decisions else {}).bit_length() - 1)
    if decisions is not None:
        decisions.at_least(size, found)
        decisions.at_least(size, 2 * found)
    return found


def pinned(size: Size) -> Size:
    """The number that ``size`` is, for a program that serves this size alone; ``size`` itself where
    nothing is known of it.

    >>> with deciding({"n": 7}): pinned(Dim("n") + 1)
    8
    """
    decisions = None if isinstance(size, int) else _current.get()
    if decisions is None or not decisions.knows(size):
        return size
    found = bind(size, decisions.values)
    decisions.at_least(size, found)
    decisions.at_least(size, found + 1)
    return found
