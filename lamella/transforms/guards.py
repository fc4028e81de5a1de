"""What a traced function saw of Python, so that a later call can tell whether it sees the same.

Input: a function, and the objects among its arguments. Output: :class:`Environment`, which says
what has changed. Modules and optimisers announce their changes through ``lamella.nn.module.epoch``
and are looked into only when it moves; everything else is compared by the identity of what it holds
at each call (see ``reach``), and by value when that differs.
"""
from __future__ import annotations

import random
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from lamella.transforms.reach import Walk, ids_of

__all__ = ["Environment"]

_ROUNDS = 8  # each follows names that the round before has met


def _epoch() -> int:
    nn = sys.modules.get("lamella.nn.module")
    return 0 if nn is None else int(nn.epoch)


class Environment:
    """The Python values that one trace depended on."""

    def __init__(
        self, f: Callable[..., Any], arguments: Sequence[tuple[str, object]] = ()
    ) -> None:
        self._f = f
        self._arguments = arguments
        self._names: set[str] = set()
        self._unwatched: frozenset[types.CodeType] = frozenset()
        self._take(self._walk())
        self.tensors = self._walked.tensors
        self._more: Environment | None = None

    def watch_also(self, functions: Sequence[Callable[..., Any]]) -> None:
        """Watch what functions read that the trace met on its way, such as gradients' hooks."""
        if functions:
            self._more = Environment(functions[0], [("hooks", list(functions))])

    def unwatch(self, functions: Sequence[Callable[..., Any]]) -> None:
        """Forget what the trace saw of functions that run when the program does: callbacks."""
        codes = {f.__code__ for f in functions if isinstance(f, types.FunctionType)}
        if not codes:
            return
        whole, before = self._walk().seen, self._walked.seen
        self._unwatched, self._names = frozenset(codes), set()
        for path, now in self._walk().seen.items():
            if path in before and whole.get(path) != now and whole.get(path) == before[path]:
                before[path] = now
            whole.pop(path, None)
        for path in whole:  # what only the callbacks reach
            before.pop(path, None)
        self._epoch = -1  # so that the next call compares everything

    def _walk(self) -> Walk:
        for _ in range(_ROUNDS):
            walk = Walk(self._names, self._unwatched)
            walk.value(self._f, getattr(self._f, "__name__", type(self._f).__name__), 0)
            walk.arguments(self._arguments)
            if walk.names == self._names:
                break
            self._names = walk.names
        return walk

    def _take(self, walk: Walk) -> None:
        self._walked = walk
        self._epoch = _epoch()

    def _same(self) -> bool:
        """Whether everything certainly is as it was; no work beyond looking and comparing."""
        walk = self._walked
        for get, name, value in walk.lookups:
            if get(name) is not value:
                return False
        for f, defaults, keywords in walk.functions:
            if f.__defaults__ is not defaults or f.__kwdefaults__ is not keywords:
                return False
        try:
            for cell, value in walk.cells:
                if cell.cell_contents is not value:
                    return False
        except ValueError:  # a variable that is unbound
            return False
        try:
            for items, ids in walk.items:
                if ids_of(items()) != ids:
                    return False
        except RuntimeError:  # another thread changes it just now
            return False
        return all(content() == before for content, before in walk.contents)

    def changed(self) -> str | None:
        """None while a call would see what the trace saw, else a sentence saying what differs."""
        if self._more is not None:
            found = self._more.changed()
            if found is not None:
                return found
        if self._epoch == _epoch() and self._same():
            return None
        walk = self._walk()
        if walk.seen == self._walked.seen:
            self._take(walk)
            return None
        return next(_differences(self._walked.seen, walk.seen))

    def random_states(self) -> list[object]:
        """The states of Python's and NumPy's random numbers, and of generators in reach."""
        states: list[object] = [random.getstate(), _legacy(np.random.get_state())]
        for generator in self._walked.generators:
            if isinstance(generator, random.Random):
                states.append(generator.getstate())
            elif isinstance(generator, np.random.Generator):
                states.append(repr(generator.bit_generator.state))
            elif isinstance(generator, np.random.RandomState):
                states.append(_legacy(generator.get_state()))
        return states


def _legacy(state: Any) -> tuple[object, ...]:
    """The state of NumPy's old generator in a form that compares."""
    kind, keys, *rest = state
    return kind, keys.tobytes(), *rest


def _differences(before: dict[str, object], now: dict[str, object]) -> Iterator[str]:
    for path in sorted(before.keys() | now.keys(), key=lambda p: (p.count("."), p)):
        old, new = before.get(path), now.get(path)
        if old != new:
            yield f"{path} was {_brief(old)} and is {_brief(new, old)}"


def _brief(value: object, other: object = None) -> str:
    if value is None:
        return "absent"
    if isinstance(value, tuple) and len(value) == 2:
        kind, content = value
        if isinstance(content, str):
            return content
        again = isinstance(other, tuple) and other[0] == kind
        return f"another {kind}" if again else f"a {kind}"
    return "an array" if other is None else "an array of other content"
