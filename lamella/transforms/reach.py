"""What code can read of Python: a walk over everything a function reaches.

Input: a function, and objects among its arguments. Output: :class:`Walk`: for every path (closure
variables, globals, defaults, attributes, items) a comparable value, and cheap tests that tell later
whether a path may have changed. Numbers, text, flags and containers of them count by value, NumPy
arrays by content (large ones by a sample), tensors and functions by identity. Of an object or a
user's module only what code mentions by name is followed; ``getattr`` in the code makes that
everything.

Invariant: what is compared by identity is kept alive, so that an id stays its own.
"""
from __future__ import annotations

import dataclasses
import dis
import functools
import random
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from lamella.tensor.core import TensorCore

__all__ = ["PLAIN", "Walk", "cell_value", "ids_of"]

Path = str
PLAIN = (bool, int, float, complex, str, bytes, type(None), range, slice, type(...))
DEEP = 64  # attributes and items are followed this far
ARRAY = 1 << 18  # bytes of the largest array whose whole content is compared at each call
SAMPLE = 1 << 14  # bytes that are compared of a larger one
_CONTAINERS = (list, tuple, set, frozenset, deque)
_NAMESPACES = {"types", "argparse"}  # modules whose objects are plain bags of settings
_DYNAMIC = {"getattr", "vars", "__dict__", "attrgetter"}
_TABLES = {"_parameters", "_buffers", "_modules", "_not_saved", "_hooks", "_pre_hooks"}
_PACKAGE = __name__.split(".")[0]
_EMPTY = object()
_GLOBAL = {  # LOAD_NAME is in bodies of classes, LOAD_FROM_DICT_OR_GLOBALS since Python 3.12
    "LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "STORE_GLOBAL", "DELETE_GLOBAL",
}  # fmt: skip
_NONE: frozenset[types.CodeType] = frozenset()


def is_library(module: str | None) -> bool:
    """Whether code of ``module`` is Lamella's or installed software, not the user's."""
    root = (module or "").split(".")[0]
    if root in (_PACKAGE, "builtins"):
        return True
    if root == "__main__" or root not in sys.modules:
        return False
    found = sys.modules[root]
    places = [getattr(found, "__file__", None) or "", *getattr(found, "__path__", ())]
    installed = any("site-packages" in place or "dist-packages" in place for place in places)
    return installed or root in sys.stdlib_module_names


def cell_value(cell: types.CellType) -> object:
    """What a closure variable holds; a fixed object if it is unbound."""
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def ids_of(values: Iterable[object]) -> tuple[int, ...]:
    """The identities of ``values``."""
    return tuple(map(id, values))


def _announces(kind: type) -> bool:
    """Whether objects of this class count their changes in ``lamella.nn.module.epoch``."""
    if kind.__module__.startswith((f"{_PACKAGE}.nn", f"{_PACKAGE}.optim")):
        return True
    nn = sys.modules.get(f"{_PACKAGE}.nn.module")
    return nn is not None and issubclass(kind, nn.Module)


def _code_names(
    code: types.CodeType, found: set[str], unwatched: frozenset[types.CodeType]
) -> None:
    found.update(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType) and constant not in unwatched:
            _code_names(constant, found, unwatched)


@functools.lru_cache(maxsize=4096)
def _of_globals(code: types.CodeType) -> frozenset[str]:
    """The names that instructions of ``code`` look up among globals, or write there; its names of
    attributes are not among them.
    """
    used = (i.argval for i in dis.get_instructions(code) if i.opname in _GLOBAL)
    return frozenset(used)


def _global_names(code: types.CodeType, unwatched: frozenset[types.CodeType]) -> set[str]:
    """The globals that code mentions, or functions inside it that are watched."""
    found = set(_of_globals(code))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType) and constant not in unwatched:
            found |= _global_names(constant, unwatched)
    return found


def _read_by(code: types.CodeType, unwatched: frozenset[types.CodeType]) -> set[str]:
    """The closure variables that code reads itself, or in functions inside it that are watched."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    if not unwatched.intersection(inner):
        return set(code.co_freevars)
    found = {i.argval for i in dis.get_instructions(code) if i.opname.endswith("DEREF")}
    for each in inner:
        if each not in unwatched:
            found |= _read_by(each, unwatched)
    return found


def _function_of(member: object) -> object:
    """The function behind a member of a class, or the member."""
    if isinstance(member, (staticmethod, classmethod)):
        return member.__func__
    if isinstance(member, property):
        return member.fget
    if isinstance(member, functools.cached_property):
        return member.func
    return member


def _sample(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """All of an array, or evenly spaced elements of a large one."""
    if array.nbytes <= ARRAY:
        return array
    left = array.nbytes // SAMPLE
    steps = []
    for size in array.shape:
        step = max(1, min(size, left))
        steps.append(slice(None, None, step))
        left = -(-left // step)
    return array[tuple(steps)]


class Walk:
    """One walk. ``seen``: path -> comparable value; the other fields are cheap tests for later.

    ``names`` are those that reached code mentions; a walk that begins with too few of them is
    repeated with those it found (see ``guards``).
    """

    def __init__(self, names: set[str], unwatched: frozenset[types.CodeType] = _NONE) -> None:
        self.names = set(names)
        self._unwatched = unwatched  # code that is not looked into
        self.seen: dict[Path, object] = {}
        self.lookups: list[tuple[Mapping[str, object], str, object]] = []
        self.sizes: list[tuple[dict[str, object], int]] = []
        self.cells: list[tuple[types.CellType, object]] = []
        self.functions: list[tuple[types.FunctionType, object, object]] = []
        self.items: list[tuple[Callable[[], Iterable[object]], tuple[int, ...]]] = []
        self.contents: list[tuple[Callable[[], object], object]] = []
        self.tensors: set[int] = set()  # those the function reaches other than by its arguments
        self.held: set[int] = set()  # those that objects among its arguments hold, too
        self.generators: list[object] = []  # of random numbers
        self._in_arguments = False
        self._keep: list[object] = []
        self._done: dict[int, Path] = {}

    # -- functions ---------------------------------------------------------------------------------
    def function(self, f: types.FunctionType, path: Path) -> None:
        """What a function's own code can read."""
        if self._again(f, path):
            return
        code = f.__code__
        if code in self._unwatched:
            return
        read = _read_by(code, self._unwatched)
        for name, cell in zip(code.co_freevars, f.__closure__ or (), strict=True):
            value = cell_value(cell)
            if name not in read or getattr(type(value), "is_cache", False):
                continue
            self.cells.append((cell, value))
            self.value(value, name, 0)
        if is_library(f.__module__):
            return
        names: set[str] = set()
        _code_names(code, names, self._unwatched)
        self.names |= names
        self._named(f.__globals__, _global_names(code, self._unwatched), "")
        self.functions.append((f, f.__defaults__, f.__kwdefaults__))
        self.value(f.__defaults__, f"{path} defaults", 0)
        self.value(f.__kwdefaults__, f"{path} keyword defaults", 0)

    def _named(self, held: dict[str, object], names: set[str], prefix: Path) -> None:
        """The globals of a function, or the contents of a user's module, that code mentions."""
        for name in sorted(names & held.keys()):
            value = held[name]
            self.lookups.append((held, name, value))
            self.value(value, prefix + name, 0)

    def arguments(self, values: Iterable[tuple[Path, object]]) -> None:
        """Objects among the arguments: their tensors are the call's, the rest is watched."""
        self._in_arguments = True
        for path, value in values:
            self.value(value, path, 0)
        self._in_arguments = False

    # -- values ------------------------------------------------------------------------------------
    def _again(self, value: object, path: Path) -> bool:
        """Whether ``value`` was met before; then it is the same as there."""
        first = self._done.get(id(value))
        if first is None:
            self._done[id(value)] = path
            self._keep.append(value)
            return False
        if first != path:
            self.seen[path] = ("same", first)
        return True

    def value(self, value: object, path: Path, depth: int, watched: bool = True) -> None:
        """Record one value and what it holds; ``watched``: its changes are not announced."""
        if isinstance(value, PLAIN):
            self.seen[path] = (type(value).__name__, repr(value))
        elif isinstance(value, TensorCore):
            self._keep.append(value)
            self.seen[path] = (type(value).__name__, id(value))
            self.held.add(id(value))
            if not self._in_arguments:
                self.tensors.add(id(value))
        elif isinstance(value, np.ndarray):
            self._array(value, path)
        elif self._again(value, path) or depth > DEEP:
            return
        elif isinstance(value, (dict, *_CONTAINERS)):
            self._container(value, path, depth, watched)
        else:
            self.seen[path] = (type(value).__name__, id(value))
            self._object(value, path, depth)

    def _array(self, value: np.ndarray[Any, Any], path: Path) -> None:
        self._keep.append(value)
        if value.dtype.hasobject:
            self.seen[path] = ("ndarray", id(value))
            return

        def content() -> object:
            return value.shape, value.dtype.str, _sample(value).tobytes()

        self.seen[path] = content()
        self.contents.append((content, self.seen[path]))

    def _container(self, value: Any, path: Path, depth: int, watched: bool) -> None:
        size: object = len(value)
        if isinstance(value, dict):
            size = ", ".join([repr(k) if isinstance(k, PLAIN) else "#" for k in value])
        self.seen[f"{path} size"] = (type(value).__name__, size)
        guard = getattr(type(value), "jit_guard", None)
        if guard is not None:
            self.seen[f"{path} settings"] = repr(guard(value))
            watched = False
        if isinstance(value, dict):
            if watched:
                self.items += [(value.values, ids_of(value.values())), (value.keys, ids_of(value))]
            for i, (key, item) in enumerate(list(value.items())):
                name = repr(key) if isinstance(key, PLAIN) else f"#{i}"
                if not isinstance(key, PLAIN):
                    self.value(key, f"{path}.keys[{i}]", depth + 1, watched)
                if guard is None or not isinstance(item, PLAIN):
                    self.value(item, f"{path}[{name}]", depth + 1, watched)
            return
        items = tuple(value)
        if watched and not isinstance(value, (tuple, frozenset)):
            self.items.append((value.__iter__, ids_of(items)))
        if isinstance(value, (set, frozenset)):
            items = tuple(sorted(items, key=repr))
        for i, item in enumerate(items):
            self.value(item, f"{path}[{i}]", depth + 1, watched)

    def _object(self, value: Any, path: Path, depth: int) -> None:
        kind = type(value)
        if isinstance(value, types.FunctionType):
            del self._done[id(value)]
            self.function(value, path)
        elif isinstance(value, (types.MethodType, types.BuiltinMethodType)):
            self._method(value, path, depth)
        elif isinstance(value, types.ModuleType):
            if not is_library(value.__name__):
                self._named(vars(value), self.names, f"{value.__name__}.")
        elif isinstance(value, type):
            del self._done[id(value)]
            self._class(value, path)
        elif isinstance(value, functools.partial):
            parts = (value.func, value.args, value.keywords)
            for name, part in zip(("func", "args", "keywords"), parts, strict=True):
                self.value(part, f"{path}.{name}", depth + 1)
        elif isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
            self.generators.append(value)
        else:
            self._class(kind, f"{path}.")
            self._attributes(value, path, depth)

    def _method(self, value: Any, path: Path, depth: int) -> None:
        owner = value.__self__
        if owner is not None and not isinstance(owner, types.ModuleType):
            self.value(owner, f"{path}.self", depth + 1)
        if isinstance(value, types.MethodType):
            self.value(value.__func__, path, depth + 1)

    def _class(self, kind: type, path: Path) -> None:
        """Methods and plain attributes of a class of the user's, and of its bases."""
        for base in kind.__mro__:
            if is_library(base.__module__) or self._again(base, f"{path}{base.__name__}"):
                continue
            members = {
                name: member for name, member in vars(base).items()
                if not name.startswith("__") or callable(member)
            }  # fmt: skip
            held = vars(base)
            self.lookups += [(held, name, member) for name, member in members.items()]
            for name, member in members.items():
                found = _function_of(member)
                if isinstance(found, types.FunctionType) and name == "__init__":
                    continue
                if not isinstance(found, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                    self.value(found, f"{base.__name__}.{name}", 1)

    def _attributes(self, value: object, path: Path, depth: int) -> None:
        held = getattr(value, "__dict__", None)
        if not isinstance(held, dict):
            self._slots(value, path, depth)
            return
        wrapped = held.get("__wrapped__")
        if wrapped is not None:
            self.value(wrapped, f"{path}.__wrapped__", depth + 1)
            return
        kind = type(value)
        if _announces(kind):
            library = is_library(kind.__module__)
            for name, item in list(held.items()):
                own = not library and name not in _TABLES
                self.value(item, f"{path}.{name}", depth + 1, watched=own)
            return
        everything = self._by_any_name(kind)
        names = tuple(name for name in held if everything or name in self.names)
        self.sizes.append((held, len(held)))
        self.lookups += [(held, name, held[name]) for name in names]
        for name in names:
            self.value(held[name], f"{path}.{name}", depth + 1)

    def _by_any_name(self, kind: type) -> bool:
        """Whether code may read attributes that it does not mention by name."""
        if is_library(kind.__module__) and kind.__module__ not in _NAMESPACES:
            return False
        return bool(_DYNAMIC & self.names) or dataclasses.is_dataclass(kind)

    def _slots(self, value: object, path: Path, depth: int) -> None:
        """Attributes of an object without a ``__dict__``."""
        kind = type(value)
        if is_library(kind.__module__):
            return
        everything = self._by_any_name(kind)
        names = tuple(
            name for base in kind.__mro__ for name, member in vars(base).items()
            if isinstance(member, types.MemberDescriptorType)
            and (everything or name in self.names)
        )  # fmt: skip

        def items() -> list[object]:
            return [getattr(value, name, _EMPTY) for name in names]

        self.items.append((items, ids_of(items())))
        for name, item in zip(names, items(), strict=True):
            self.value(item, f"{path}.{name}", depth + 1)
