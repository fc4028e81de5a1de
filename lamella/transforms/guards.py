"""What a traced function saw of Python, so that a later call can tell whether it would see the same.

Input: a function. Output: :class:`Environment`: the values that its code, and the user's code it reaches, can read from closures, globals, defaults
and attributes. Tensors are state, so only their identity counts; numbers, text, flags and containers of them count by value, NumPy arrays by content.
Modules and optimisers announce their changes through ``lamella.nn.module.epoch`` and are looked into only when it moves; everything else is
compared by the identity of what it holds at each call, and by value when that differs.
"""
from __future__ import annotations

import sys
import types
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lamella.tensor.core import TensorCore

__all__ = ["Environment"]

Path = str
Check = Callable[[], bool]  # whether something still holds what it held

PLAIN = (bool, int, float, complex, str, bytes, type(None), range, slice)
DEEP = 8  # attributes and items are followed this far
MANY = 1024  # items of one container that are looked at
_PACKAGE = __name__.split(".")[0]


def _is_library(module: str | None) -> bool:
    """Whether code of ``module`` is Lamella's or installed software, not the user's."""
    root = (module or "").split(".")[0]
    if root in (_PACKAGE, "builtins"):
        return True
    if root == "__main__" or root not in sys.modules:
        return False
    place = getattr(sys.modules[root], "__file__", None)
    return place is None or "site-packages" in place or root in sys.stdlib_module_names


def _announces(kind: type) -> bool:
    """Whether objects of this class count their changes in the epoch."""
    if not _is_library(kind.__module__):
        nn = sys.modules.get(f"{_PACKAGE}.nn.module")
        return nn is not None and issubclass(kind, nn.Module)
    return kind.__module__.startswith((f"{_PACKAGE}.nn", f"{_PACKAGE}.optim"))


def _epoch() -> int:
    nn = sys.modules.get(f"{_PACKAGE}.nn.module")
    return 0 if nn is None else int(nn.epoch)


def _code_names(code: types.CodeType, found: set[str]) -> None:
    found.update(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _code_names(constant, found)


def _cell(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


_EMPTY = object()


class Walk:
    """One walk over what a function can reach. ``seen``: path -> comparable value; ``checks``: cheap tests for later."""

    def __init__(self, names: set[str] | None = None) -> None:
        self.seen: dict[Path, object] = {}
        self.checks: list[Check] = []
        self.names: set[str] = set()  # every name that reached code mentions
        self._wanted = names
        self._keep: list[object] = []  # what is compared by identity stays alive, so that an id stays its own
        self._done: set[int] = set()

    def function(self, f: Any, path: Path) -> None:
        """What a function's own code can read."""
        if isinstance(f, types.MethodType):
            self.value(f.__self__, f"{path}.self", 0)
            f = f.__func__
        code = getattr(f, "__code__", None)
        if code is None or id(f) in self._done:
            return
        self._done.add(id(f))
        self._keep.append(f)
        _code_names(code, self.names)
        for name, cell in zip(code.co_freevars, f.__closure__ or (), strict=True):
            value = _cell(cell)
            self.checks.append(lambda cell=cell, value=value: _cell(cell) is value)  # type: ignore[misc]
            self.value(value, name, 0)
        held, names = f.__globals__, set[str]()
        _code_names(code, names)
        for name in sorted(names & held.keys()):
            value = held[name]
            if not isinstance(value, types.ModuleType):
                self.checks.append(lambda name=name, value=value: held.get(name) is value)  # type: ignore[misc]
            self.value(value, name, 0)
        self.value(f.__defaults__, f"{path} defaults", 0)
        self.value(f.__kwdefaults__, f"{path} keyword defaults", 0)

    def value(self, value: object, path: Path, depth: int) -> None:
        """Record one value and what it holds."""
        if isinstance(value, PLAIN):
            self.seen[path] = (type(value).__name__, repr(value))
            return
        self._keep.append(value)
        if isinstance(value, np.ndarray):
            self._array(value, path)
            return
        self.seen[path] = (type(value).__name__, id(value))
        if isinstance(value, (TensorCore, types.ModuleType, type)) or id(value) in self._done or depth > DEEP:
            return
        if isinstance(value, (types.FunctionType, types.MethodType)):
            if not _is_library(value.__module__):
                self.function(value, path)
            return
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(wrapped, types.FunctionType):
            self.function(wrapped, path)
            return
        self._done.add(id(value))
        frozen = getattr(type(value), "jit_guard", None)
        if frozen is not None:
            self.seen[f"{path} settings"] = repr(frozen(value))
        elif isinstance(value, dict):
            self._held(value, value, path, depth)
        elif isinstance(value, (list, tuple, set, frozenset)):
            self._sequence(value, path, depth)
        else:
            self._object(value, path, depth)

    def _array(self, value: np.ndarray[Any, Any], path: Path) -> None:
        def content() -> object:
            return zlib.crc32(np.ascontiguousarray(value).view(np.uint8).reshape(-1)) if value.size else 0

        if value.nbytes > ARRAY:
            self.seen[path] = ("ndarray", id(value))
            return
        before = (id(value), value.shape, value.dtype.str, content())
        self.seen[path] = before
        self.checks.append(lambda: content() == before[3])

    def _sequence(self, value: Any, path: Path, depth: int) -> None:
        items = tuple(value)
        self.seen[f"{path} length"] = len(items)
        if not isinstance(value, (tuple, frozenset)):
            ids = tuple(map(id, items))
            self.checks.append(lambda: tuple(map(id, value)) == ids)
        for i, item in enumerate(items[:MANY]):
            self.value(item, f"{path}[{i}]", depth + 1)

    def _held(self, owner: Any, held: dict[Any, Any], path: Path, depth: int, attributes: bool = False) -> None:
        """The items of a dict, or the attributes of an object."""
        announces = _announces(type(owner))
        if not announces:
            ids = tuple(map(id, held.values()))
            self.checks.append(lambda: tuple(map(id, held.values())) == ids)
        if not attributes:
            self.seen[f"{path} length"] = len(held)
        for key, item in list(held.items())[:MANY]:
            if attributes and not announces and self._wanted is not None and key not in self._wanted:
                continue
            if isinstance(key, PLAIN):
                self.value(item, f"{path}.{key}" if attributes else f"{path}[{key!r}]", depth + 1)
            else:
                self.value(item, f"{path}[#{type(key).__name__}]", depth + 1)

    def _object(self, value: object, path: Path, depth: int) -> None:
        kind = type(value)
        for base in kind.__mro__:
            if not _is_library(base.__module__):
                for name, member in vars(base).items():
                    if isinstance(member, types.FunctionType) and name != "__init__":
                        self.function(member, f"{path}.{name}")
                    elif isinstance(member, PLAIN) and not name.startswith("__"):
                        self.seen[f"{path}.{name} (class)"] = (type(member).__name__, repr(member))
                        self.checks.append(lambda b=base, n=name, m=member: b.__dict__.get(n) is m)  # type: ignore[misc]
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict):
            self._held(value, held, path, depth, attributes=True)


ARRAY = 1 << 20  # bytes of an array whose content is compared; larger ones cannot be baked into a program


def _walk(f: Callable[..., Any]) -> Walk:
    name = getattr(f, "__name__", type(f).__name__)
    first = Walk()
    first.function(f, name)
    second = Walk(first.names)
    second.function(f, name)
    return second


class Environment:
    """The Python values that one trace depended on."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self._f = f
        self._take(_walk(f))

    def _take(self, walk: Walk) -> None:
        self._walk = walk
        self._checks = walk.checks
        self._epoch = _epoch()

    def changed(self) -> str | None:
        """None while a call would see what the trace saw, else a sentence saying what differs."""
        if _epoch() == self._epoch:
            for check in self._checks:
                if not check():
                    break
            else:
                return None
        walk = _walk(self._f)
        if walk.seen == self._walk.seen:
            self._take(walk)
            return None
        return next(_differences(self._walk.seen, walk.seen))


def _differences(before: dict[Path, object], now: dict[Path, object]) -> Iterator[str]:
    for path in sorted(before.keys() | now.keys(), key=lambda p: (p.count("."), p)):
        old, new = before.get(path), now.get(path)
        if old != new:
            yield f"{path} was {_brief(old)} and is {_brief(new)}"


def _brief(value: object) -> str:
    if isinstance(value, tuple) and len(value) == 2:
        return str(value[1]) if isinstance(value[1], str) else f"one {value[0]} (by identity)"
    return "absent" if value is None else str(value)
