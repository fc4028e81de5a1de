"""What code can read of Python: a walk over everything a function reaches.

Input: a function, and objects among its arguments. Output: :class:`Walk`: for every path (closure
variables, globals, defaults, attributes, items) a comparable value, and cheap tests that tell later
whether a path may have changed. Numbers, text, flags and containers of them count by value, NumPy
arrays by content (large ones by a sample), tensors and functions by identity. Of an object or a
user's module only what code mentions by name is followed; ``getattr`` in the code makes that
everything.

Numbers at the paths in ``opened`` may have any value of their type. ``places`` are those of plain
values that can be set.

Invariant: what is compared by identity is kept alive, so that an id stays its own.
"""
from __future__ import annotations

import dataclasses
import functools
import random
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from lamella.ir.dim import Dim
from lamella.tensor.core import TensorCore
from lamella.transforms.codes import ITEMS, code_names, global_names, read_by, stored
from lamella.transforms.places import SETTABLE, Form, Place

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
_NONE: frozenset[types.CodeType] = frozenset()
_NUMBERS = frozenset({int, float})  # that may be opened; flags may not


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


def _has_silent_numbers(kind: type) -> bool:
    """Whether ``Module.__setattr__`` does not announce a number that becomes another."""
    nn = sys.modules.get(f"{_PACKAGE}.nn.module")
    return nn is not None and issubclass(kind, nn.Module) and bool(nn.is_own(kind))


def _function_of(member: object) -> object:
    """The function behind a member of a class, or the member."""
    if isinstance(member, (staticmethod, classmethod)):
        return member.__func__
    if isinstance(member, property):
        return member.fget
    if isinstance(member, functools.cached_property):
        return member.func
    return member


def holds_size(value: object) -> bool:
    """Whether a value is a size known only at run time, or a tuple with one."""
    if type(value) is tuple:
        return any(map(holds_size, value))
    return type(value) is Dim


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

    def __init__(
        self, names: set[str], unwatched: frozenset[types.CodeType] = _NONE,
        opened: frozenset[Path] = frozenset(),
    ) -> None:  # fmt: skip
        self.names = set(names)
        self._opened = opened
        self.places: dict[Path, tuple[Place, object]] = {}  # with what is there
        self.typed: list[tuple[Place, type]] = []  # those of opened numbers
        self.stored: set[str] = set()  # what code may set
        self._by_identity = True  # what is walked is the same object at every call
        self._unwatched = unwatched  # code that is not looked into
        self.seen: dict[Path, object] = {}
        self.lookups: list[tuple[Mapping[str, object], str, object]] = []
        self.sizes: list[tuple[Sized, int]] = []
        self.cells: list[tuple[types.CellType, object]] = []
        self.functions: list[tuple[types.FunctionType, object, object]] = []
        self.items: list[tuple[Callable[[], Iterable[object]], tuple[int, ...]]] = []
        self.contents: list[tuple[Callable[[], object], object]] = []
        self.tensors: set[int] = set()  # those the function reaches other than by its arguments
        self.held: set[int] = set()  # those that objects among its arguments hold, too
        self.generators: list[object] = []  # of random numbers
        self.iterators: list[tuple[Path, object]] = []
        self.sized: list[tuple[Place, object]] = []  # what has sizes that are known at run time
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
        read = read_by(code, self._unwatched)
        for name, cell in zip(code.co_freevars, f.__closure__ or (), strict=True):
            value = cell_value(cell)
            if name not in read or getattr(type(value), "is_cache", False):
                continue
            place = Place(Form.CELL, cell, None, name)
            if not self._open(place, value, name):
                self.cells.append((cell, value))
            self.value(value, name, 0, place=place)
        if is_library(f.__module__):
            return
        names: set[str] = set()
        code_names(code, names, self._unwatched)
        self.names |= names
        self.stored |= stored(code)
        self._named(f.__globals__, global_names(code, self._unwatched), "")
        self.functions.append((f, f.__defaults__, f.__kwdefaults__))
        self.value(f.__defaults__, f"{path} defaults", 0)
        self.value(f.__kwdefaults__, f"{path} keyword defaults", 0)

    def _named(self, held: dict[str, object], names: set[str], prefix: Path) -> None:
        """The globals of a function, or the contents of a user's module, that code mentions."""
        for name in sorted(names & held.keys()):
            self._entry(held, name, prefix + name, 0)

    def _entry(self, held: dict[str, object], name: str, path: Path, depth: int) -> None:
        """What a namespace has under a name."""
        value, place = held[name], Place(Form.ITEM, held, name, name)
        if not self._open(place, value, path):
            self.lookups.append((held, name, value))
        self.value(value, path, depth, place=place)

    def _open(self, place: Place, value: object, path: Path) -> bool:
        """Whether there is a number that may have any value, whose type is then watched."""
        if path not in self._opened or type(value) not in _NUMBERS or not self._by_identity:
            return False
        self.typed.append((place, type(value)))
        return True

    def arguments(self, values: Iterable[tuple[Path, object, bool]]) -> None:
        """Objects among the arguments: their tensors are the call's, the rest is watched. The flag
        says that a call passes the very same object.
        """
        self._in_arguments = True
        for path, value, self._by_identity in values:
            self.value(value, path, 0)
        self._in_arguments, self._by_identity = False, True

    def may_set(self, place: Place) -> bool:
        """Whether code that was walked may set what is there."""
        return "*" in self.stored or place.name in self.stored

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

    def value(
        self, value: object, path: Path, depth: int, watched: bool = True,
        place: Place | None = None,
    ) -> None:  # fmt: skip
        """Record one value and what it holds; ``watched``: its changes are not announced."""
        if place is not None and holds_size(value):
            self.sized.append((place, value))
        if isinstance(value, PLAIN):
            self.seen[path] = (type(value).__name__, repr(value))
            if place is not None and self._by_identity:
                self.places[path] = place, value
                if path in self._opened and type(value) in _NUMBERS:
                    self.seen[path] = (type(value).__name__, "any")
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
            self._dict(value, path, depth, watched, guard is None)
            return
        items = tuple(value)
        if isinstance(value, (set, frozenset)):
            items = tuple(sorted(items, key=repr))
        places = self._places(value, range(len(items)), watched)
        if watched and not isinstance(value, (tuple, frozenset)):
            paths = [f"{path}[{i}]" for i in range(len(items))]
            if not self._items(value, paths, places, items):
                self.items.append((value.__iter__, ids_of(value)))
        for i, item in enumerate(items):
            self.value(item, f"{path}[{i}]", depth + 1, watched, places[i])

    def _dict(self, value: Any, path: Path, depth: int, watched: bool, by_value: bool) -> None:
        keys = list(value)
        paths = [f"{path}[{repr(k) if isinstance(k, PLAIN) else f'#{i}'}]"
                 for i, k in enumerate(keys)]  # fmt: skip
        places = self._places(value, keys, watched)
        items = list(value.values())
        if watched:
            if not self._items(value, paths, places, items):
                self.items.append((value.values, ids_of(items)))
            self.items.append((value.keys, ids_of(value)))
        for i, (key, item) in enumerate(zip(keys, items, strict=True)):
            if not isinstance(key, PLAIN):
                self.value(key, f"{path}.keys[{i}]", depth + 1, watched)
            if by_value or not isinstance(item, PLAIN):
                self.value(item, paths[i], depth + 1, watched, places[i])

    def _places(
        self, value: Any, keys: Iterable[object], watched: bool
    ) -> list[Place | None]:
        """The places in a container that can be set."""
        settable = type(value) in SETTABLE
        return [
            Place(Form.ITEM, value, key, ITEMS, not watched)
            if settable and isinstance(key, PLAIN) else None for key in keys
        ]  # fmt: skip

    def _items(
        self, value: Any, paths: Sequence[Path], places: Sequence[Place | None],
        items: Sequence[object],
    ) -> bool:  # fmt: skip
        """Watch the items of a container one by one where some are numbers that may have any value;
        False if there are none.
        """
        if self._opened.isdisjoint(paths):
            return False
        opened = {i for i, (path, place, item) in enumerate(zip(paths, places, items, strict=True))
                  if place is not None and self._open(place, item, path)}  # fmt: skip
        kept = [i for i in range(len(items)) if i not in opened]

        def others() -> list[object]:
            now = list(value.values() if isinstance(value, dict) else value)
            return [now[i] for i in kept] if len(now) == len(items) else []

        self.items.append((others, ids_of(items[i] for i in kept)))
        self.sizes.append((value, len(items)))
        return True

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
        elif isinstance(value, Iterator) and is_library(kind.__module__):
            self.iterators.append((path, value))
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
            places: dict[str, Place] = {}
            for name, member in members.items():
                if isinstance(member, PLAIN) and type(base) is type:
                    places[name] = Place(Form.CLASS, base, name, name)
                    if self._open(places[name], member, f"{base.__name__}.{name}"):
                        continue
                self.lookups.append((held, name, member))
            for name, member in members.items():
                found = _function_of(member)
                if isinstance(found, types.FunctionType) and name == "__init__":
                    continue
                if not isinstance(found, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                    self.value(found, f"{base.__name__}.{name}", 1, place=places.get(name))

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
            self._announced(held, kind, path, depth)
            return
        everything = self._by_any_name(kind)
        self.sizes.append((held, len(held)))
        for name in [name for name in held if everything or name in self.names]:
            self._entry(held, name, f"{path}.{name}", depth + 1)

    def _announced(self, held: dict[str, object], kind: type, path: Path, depth: int) -> None:
        """The attributes of a module or an optimiser, which announces their changes; only numbers
        of a user's module become others without a word.
        """
        library = is_library(kind.__module__)
        silent = _has_silent_numbers(kind)
        for name, item in list(held.items()):
            if silent and type(item) in _NUMBERS:
                self._entry(held, name, f"{path}.{name}", depth + 1)
                continue
            own = not library and name not in _TABLES
            place = Place(Form.ITEM, held, name, name, announced=True)
            self.value(item, f"{path}.{name}", depth + 1, watched=own, place=place)

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

        now = dict(zip(names, items(), strict=True))
        places = {name: Place(Form.SLOT, value, name, name) for name in names}
        opened = {n for n in names if self._open(places[n], now[n], f"{path}.{n}")}
        names = tuple(name for name in names if name not in opened)
        self.items.append((items, ids_of(items())))
        for name, item in now.items():
            self.value(item, f"{path}.{name}", depth + 1, place=places[name])
