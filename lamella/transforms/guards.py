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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from lamella import tree
from lamella.ir.dim import Dim, bind
from lamella.transforms.impure import watch_calls
from lamella.transforms.places import Place
from lamella.transforms.reach import Walk

__all__ = ["Environment"]

_ROUNDS = 8  # each follows names that the round before has met


def _epoch() -> int:
    nn = sys.modules.get("lamella.nn.module")
    return 0 if nn is None else int(nn.epoch)


class Environment:
    """The Python values that one trace depended on."""

    def __init__(
        self, f: Callable[..., Any], arguments: Sequence[tuple[str, object]] = (),
        opened: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self._f = f
        self._opened = opened  # the paths of numbers that may have any value
        self._arguments = [(path, value, _is_itself(value)) for path, value in arguments]
        self._names: set[str] = set()
        self._unwatched: frozenset[types.CodeType] = frozenset()
        self._more: Environment | None = None
        self._take(self._walk())
        self.tensors = self._walked.tensors

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
            walk = Walk(self._names, self._unwatched, self._opened)
            walk.value(self._f, getattr(self._f, "__name__", type(self._f).__name__), 0)
            walk.arguments(self._arguments)
            if walk.names == self._names:
                break
            self._names = walk.names
        return walk

    def _take(self, walk: Walk) -> None:
        self._walked = walk
        self._unchanged: Callable[[], bool] | None = None  # written at the first comparison
        self._epoch = _epoch()

    def same(self) -> bool:
        """Whether everything certainly is as it was; no work beyond looking and comparing."""
        if self._epoch != _epoch() or (self._more is not None and not self._more.same()):
            return False
        try:
            if self._unchanged is None:
                self._unchanged = _comparison(self._walked)
            return self._unchanged()
        except (LookupError, AttributeError):  # something is gone
            return False
        except ValueError:  # a variable that is unbound
            return False
        except RuntimeError:  # a container that another thread changes just now
            return False

    def changed(self) -> str | None:
        """None while a call would see what the trace saw, else a sentence saying what differs."""
        if self._more is not None:
            found = self._more.changed()
            if found is not None:
                return found
        if self.same():
            return None
        walk = self._walk()
        if walk.seen == self._walked.seen:
            self._take(walk)
            return None
        return next(_differences(self._walked.seen, walk.seen))

    @property
    def places(self) -> dict[str, tuple[Place, object]]:
        """Where plain values were at the last look, by path, and which."""
        return self._walked.places

    def may_set(self, place: Place) -> bool:
        """Whether the function's code may set what is in a place."""
        return self._walked.may_set(place)

    @property
    def opened(self) -> list[str]:
        """The paths of the numbers that may have any value."""
        known = self._walked.places
        return sorted(p for p in self._opened if p in known and type(known[p][1]) in (int, float))

    @property
    def asks_types(self) -> bool:
        """Whether code may ask for the very type of a number, which a stand-in does not have."""
        return "type" in self._walked.names

    def varied(self) -> set[str]:
        """The paths of numbers that have other values of the same type now."""
        now, before = self._walk().seen, self._walked.seen
        return {
            path for path in self._walked.places
            if now.get(path) != (old := before.get(path)) and _is_number(now.get(path), old)
        }  # fmt: skip

    def held(self) -> set[int]:
        """The ids of the tensors that a call would reach now."""
        return self._walk().held

    def watch_calls(self) -> AbstractContextManager[None]:
        """Inside, calls that a program could not repeat faithfully are refused."""
        return watch_calls(self._walked.names, self._walked.iterators)

    def settle(self, sizes: Mapping[str, int]) -> bool:
        """Put numbers where a trace has left sizes of its own; whether it had."""
        found = self._walk().sized
        for place, value in found:
            place.write(_bound(value, sizes))
        return bool(found)

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


def _comparison(walk: Walk) -> Callable[[], bool]:
    """A function that compares what was seen, written for it: an expression without loops."""
    names: dict[str, Any] = {
        "map": map, "id": id, "len": len, "type": type, "getattr": getattr, "vars": vars,
        "repr": repr,
    }  # fmt: skip
    checks: list[str] = []

    def check(form: str, *values: object) -> None:
        found = [f"v{len(names) + i}" for i in range(len(values))]
        names.update(zip(found, values, strict=True))
        checks.append(form.format(*found))

    for attributes, size in walk.sizes:
        check("len({0}) == {1}", attributes, size)
    for held, name, value in walk.lookups:
        if type(value) is float:  # one that has been computed again
            check("({0}[{1}] is {2} or repr({0}[{1}]) == {3})", held, name, value, repr(value))
        else:
            check("{0}[{1}] is {2}", held, name, value)
    for f, defaults, keywords in walk.functions:
        check("{0}.__defaults__ is {1} and {0}.__kwdefaults__ is {2}", f, defaults, keywords)
    for cell, value in walk.cells:
        check("{0}.cell_contents is {1}", cell, value)
    for place, kind in walk.typed:
        check(f"type({place.form.value}) is {{2}}", place.holder, place.key, kind)
    for items, ids in walk.items:
        check("(*map(id, {0}()),) == {1}", items, ids)
    for content, before in walk.contents:
        check("{0}() == {1}", content, before)
    text = f"lambda: {' and '.join(checks) or True}"
    return eval(text, names)  # type: ignore[no-any-return]  # noqa: S307


def _is_itself(argument: object) -> bool:
    """Whether calls with an equal argument pass the same object: it is no tree, and compared by
    identity.
    """
    if type(argument).__eq__ is not object.__eq__:
        return False
    return next(iter(tree.leaves(argument)), None) is argument


def _is_number(now: object, before: object) -> bool:
    """Whether what was seen at two times are numbers of one type."""
    if not isinstance(now, tuple) or not isinstance(before, tuple):
        return False
    return now[0] == before[0] and now[0] in ("int", "float")


def _bound(value: Any, sizes: Mapping[str, int]) -> Any:
    if type(value) is tuple:
        return tuple([_bound(item, sizes) for item in value])
    return bind(value, sizes) if type(value) is Dim else value


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
