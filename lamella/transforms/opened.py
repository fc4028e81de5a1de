"""Which numbers of a compiled function's world are left open: those that have been seen to change.

Input: what has changed since the last trace, and calls. Output: :class:`Opened`: the paths of
numbers outside, and the places of numbers among arguments, whose values the next trace does not
know. A number with which a trace could do nothing is closed again, for good.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from lamella.transforms.numbers import Source
from lamella.transforms.signature import Call

__all__ = ["Opened"]

MOST: Final = 256  # forms of calls whose numbers are remembered


class Opened:
    """The open numbers of one compiled function."""

    def __init__(self) -> None:
        self.paths: frozenset[str] = frozenset()
        self.arguments: frozenset[tuple[object, int]] = frozenset()
        self._closed: frozenset[object] = frozenset()
        self._seen: dict[object, dict[int, int | float]] = {}

    def learn(self, paths: Collection[str]) -> None:
        """Open the numbers at these paths."""
        self.paths |= frozenset(paths) - self._closed

    def open(self, call: Call) -> bool:
        """Open the numbers of a call that were others in an earlier one, and else alike; whether
        there are any.
        """
        form, numbers = call.without_numbers(), call.candidates()
        before = self._seen.get(form)
        if len(self._seen) >= MOST:
            self._seen.clear()
        self._seen[form] = numbers
        if before is None:
            return False
        changed = [i for i, number in numbers.items() if repr(number) != repr(before[i])]
        found = call.positions(changed) - self.arguments - self._closed
        self.arguments |= found
        call.open(self.arguments)
        return bool(found)

    def close(self, sources: Collection[Source], call: Call) -> None:
        """Never open these numbers, of which some are arguments of the call, again."""
        paths = {source for source in sources if isinstance(source, str)}
        places = call.positions(source for source in sources if isinstance(source, int))
        self._closed |= paths | places
        self.paths -= paths
        self.arguments -= places
        call.open(self.arguments)

    def state(self) -> tuple[Any, ...]:
        """What is open and closed, for :meth:`reset`."""
        return self.paths, self.arguments, self._closed

    def reset(self, state: tuple[Any, ...], call: Call) -> None:
        """Open and close what was."""
        self.paths, self.arguments, self._closed = state
        call.open(self.arguments)
