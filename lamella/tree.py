"""Trees of values: containers nested in containers, with tensors (or anything else) as leaves.

Input: any Python value. Output: its leaves in a fixed order, and a hashable :class:`Structure` that
builds a like value from other leaves. Containers are list, tuple, named tuple, dict (in the order
of their keys' text), None (no leaves), registered classes, dataclasses decorated with
:func:`dataclass`, and classes with the methods ``tree_flatten() -> (children, extra)`` and
``tree_unflatten(extra, children)`` (a classmethod). Everything else is a leaf.

Invariant: ``unflatten(structure, leaves)`` of ``leaves, structure = flatten(x)`` equals ``x``.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from lamella.errors import OptionError

__all__ = [
    "Structure", "dataclass", "flatten", "leaves", "map", "paths", "register", "structure",
    "unflatten",
]  # fmt: skip

Class = TypeVar("Class", bound=type)
Children = Sequence[object]
Flatten = Callable[[Any], tuple[Children, object]]
Unflatten = Callable[[Any, Children], object]


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """How one class of container is taken apart, put together, and how its children are named."""

    flatten: Flatten
    unflatten: Unflatten
    name: Callable[[object, int], str]


class Structure:
    """The containers of a tree without its leaves. Hashable; equal when a tree has the same
    form.
    """

    __slots__ = ("_hash", "children", "count", "extra", "kind")

    def __init__(
        self, kind: type | None, extra: object, children: tuple[Structure, ...], count: int
    ) -> None:
        self.kind: Final = kind  # None: a leaf
        self.extra: Final = extra
        self.children: Final = children
        self.count: Final = count  # leaves below
        self._hash = 0

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        try:
            return (
                isinstance(other, Structure)
                and self.kind is other.kind
                and self.count == other.count
                and self.extra == other.extra
                and self.children == other.children
            )
        except RecursionError:
            raise _too_deep() from None

    def __hash__(self) -> int:
        if not self._hash:
            self._hash = hash((self.kind, self.extra, self.children)) or 1
        return self._hash

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        try:
            return f"{self.kind.__name__}({', '.join(map_repr(self))})"
        except RecursionError:  # the containers farther in
            return "..."


def map_repr(structure: Structure) -> Iterator[str]:
    """The text of each child of a structure, with its name."""
    for position, child in enumerate(structure.children):
        yield f"{_name(structure, position)}: {child!r}"


LEAF: Final = Structure(None, None, (), 1)


def _indexed(extra: object, position: int) -> str:
    return f"[{position}]"


def _keyed(extra: object, position: int) -> str:
    return f"[{extra[position]!r}]"  # type: ignore[index]


def _attribute(extra: object, position: int) -> str:
    return f".{extra[position]}"  # type: ignore[index]


def _flatten_dict(value: dict[Any, object]) -> tuple[Children, object]:
    try:
        keys = tuple(sorted(value))
    except TypeError:  # keys of several types: their text decides
        keys = tuple(sorted(value, key=lambda key: (type(key).__name__, repr(key))))
    return [value[key] for key in keys], keys


_KINDS: Final[dict[type, Kind]] = {
    list: Kind(lambda v: (v, None), lambda extra, children: list(children), _indexed),
    tuple: Kind(lambda v: (v, None), lambda extra, children: tuple(children), _indexed),
    dict: Kind(
        _flatten_dict, lambda keys, children: dict(zip(keys, children, strict=True)), _keyed
    ),
    type(None): Kind(lambda v: ((), None), lambda extra, children: None, _indexed),
}
_LEAF_TYPES: Final[set[type]] = set()  # classes found not to be containers


def _find_kind(cls: type) -> Kind | None:
    """The kind of a class seen for the first time, remembered for the next time."""
    kind: Kind | None = None
    if hasattr(cls, "tree_flatten") and hasattr(cls, "tree_unflatten"):
        unflatten_class: Unflatten = cls.tree_unflatten
        kind = Kind(lambda value: value.tree_flatten(), unflatten_class, _method_name)
    elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
        fields: tuple[str, ...] = cls._fields
        build: Callable[..., object] = cls
        kind = Kind(lambda v: (v, fields), lambda extra, children: build(*children), _attribute)
    elif issubclass(cls, dict) and cls.__init__ in (dict.__init__, OrderedDict.__init__):
        kind = Kind(
            _flatten_dict, lambda keys, children: cls(zip(keys, children, strict=True)), _keyed
        )
    if kind is None:
        _LEAF_TYPES.add(cls)
    else:
        _KINDS[cls] = kind
    return kind


def _method_name(extra: object, position: int) -> str:
    names = getattr(extra, "names", extra)
    if isinstance(names, tuple) and len(names) > position and isinstance(names[position], str):
        return f".{names[position]}"
    return f"[{position}]"


def _name(structure: Structure, position: int) -> str:
    kind = _KINDS[structure.kind]  # type: ignore[index]
    return kind.name(structure.extra, position)


def _too_deep() -> OptionError:
    """The error for a tree that Python's stack does not reach the leaves of."""
    return OptionError(
        f"[tree] containers nested too deeply for Python's recursion limit of "
        f"{sys.getrecursionlimit()}, or one that holds itself; keep them flatter, or raise the "
        "limit with sys.setrecursionlimit"
    )


def _flatten(
    value: object, found: list[object], is_leaf: Callable[[object], bool] | None
) -> Structure:
    cls = type(value)
    if cls in _LEAF_TYPES:
        found.append(value)
        return LEAF
    kind = _KINDS.get(cls) or _find_kind(cls)
    if kind is None or (is_leaf is not None and is_leaf(value)):
        found.append(value)
        return LEAF
    children, extra = kind.flatten(value)
    start = len(found)
    parts = tuple([_flatten(child, found, is_leaf) for child in children])
    return Structure(cls, extra, parts, len(found) - start)


def flatten(
    value: object, is_leaf: Callable[[object], bool] | None = None
) -> tuple[list[Any], Structure]:
    """The leaves of a tree, in order, and its structure.

    Args:
        value: any value.
        is_leaf: stops at the containers for which it returns true, and takes them as leaves.

    Raises:
        OptionError: for containers nested too deeply, or in themselves.

    >>> flatten({"b": [1, 2], "a": (3, None)})[0]
    [3, 1, 2]
    """
    found: list[object] = []
    try:
        form = _flatten(value, found, is_leaf)
    except RecursionError:
        raise _too_deep() from None
    return found, form


def _build(form: Structure, source: Iterator[object]) -> object:
    if form.kind is None:
        return next(source)
    children = [_build(child, source) for child in form.children]
    return _KINDS[form.kind].unflatten(form.extra, children)


def unflatten(form: Structure, values: Iterable[object]) -> Any:
    """The tree of structure ``form`` whose leaves are ``values``.

    Raises:
        OptionError: if the number of values is not the number of leaves; for a structure nested too
            deeply.

    >>> unflatten(structure({"a": 0, "b": [0, 0]}), [1, 2, 3])
    {'a': 1, 'b': [2, 3]}
    """
    values = list(values)
    if len(values) != form.count:
        raise OptionError(
            f"[tree.unflatten] {len(values)} leaves for a structure of {form.count}: {form}; "
            "pass one value per leaf, in the order of tree.flatten"
        )
    try:
        return _build(form, iter(values))
    except RecursionError:
        raise _too_deep() from None


def leaves(value: object, is_leaf: Callable[[object], bool] | None = None) -> list[Any]:
    """The leaves of a tree, in order.

    >>> leaves([1, (2, {"k": 3})])
    [1, 2, 3]
    """
    return flatten(value, is_leaf)[0]


def structure(value: object, is_leaf: Callable[[object], bool] | None = None) -> Structure:
    """The structure of a tree.

    >>> structure([1, 2]) == structure([3, 4]), structure([1, 2])
    (True, list([0]: *, [1]: *))
    """
    return flatten(value, is_leaf)[1]


def paths(value: object, is_leaf: Callable[[object], bool] | None = None) -> list[str]:
    """A readable path to each leaf, for messages.

    >>> paths({"w": [1, 2], "b": 3})
    ["['b']", "['w'][0]", "['w'][1]"]
    """
    return [path or "value" for path in _paths(structure(value, is_leaf), "")]


def _paths(form: Structure, prefix: str) -> Iterator[str]:
    if form.kind is None:
        yield prefix
    for position, child in enumerate(form.children):
        yield from _paths(child, prefix + _name(form, position))


def map(
    function: Callable[..., object],
    value: object,
    *others: object,
    is_leaf: Callable[[object], bool] | None = None,
) -> Any:
    """A tree like ``value`` whose leaves are ``function`` of the leaves of all the trees.

    Raises:
        OptionError: if the trees have different structures; the message says where they part.

    >>> map(lambda a, b: a + b, {"x": 1, "y": 2}, {"x": 10, "y": 20})
    {'x': 11, 'y': 22}
    """
    first, form = flatten(value, is_leaf)
    columns = [first]
    for position, other in enumerate(others, start=2):
        found, other_form = flatten(other, is_leaf)
        if other_form != form:
            raise OptionError(
                f"[tree.map] tree {position} differs from tree 1 {_difference(form, other_form)}; "
                "all trees need the same containers, keys and lengths"
            )
        columns.append(found)
    return unflatten(form, [function(*row) for row in zip(*columns, strict=True)])


def _difference(a: Structure, b: Structure) -> str:
    """Where two structures first part, in words."""
    path = ""
    while a.kind is b.kind and a.extra == b.extra and len(a.children) == len(b.children):
        parts = enumerate(zip(a.children, b.children, strict=True))
        found = next(((i, pair) for i, pair in parts if pair[0] != pair[1]), None)
        if found is None:
            return "in a container's own data"
        position, pair = found
        path += _name(a, position)
        a, b = pair
    return f"at {path or 'the root'}: {a} and {b}"


def register(
    cls: Class,
    flatten: Flatten,
    unflatten: Unflatten,
) -> Class:
    """Make ``cls`` a container: ``flatten(value) -> (children, extra)``, ``unflatten(extra,
    children)``.

    ``extra`` is hashable and comparable: it is part of the tree's structure. Returns ``cls``.

    >>> class Pair:
    ...     def __init__(self, a, b): self.a, self.b = a, b
    >>> _ = register(Pair, lambda p: ((p.a, p.b), None), lambda extra, c: Pair(*c))
    >>> leaves(Pair(1, [2]))
    [1, 2]
    """
    _LEAF_TYPES.discard(cls)
    _KINDS[cls] = Kind(flatten, unflatten, _method_name)
    return cls


def dataclass(cls: Class) -> Class:
    """Make a dataclass a container of its fields (a decorator, over ``@dataclasses.dataclass``).

    Raises:
        OptionError: if ``cls`` is not a dataclass.

    >>> @dataclass
    ... @dataclasses.dataclass
    ... class Point:
    ...     x: float
    ...     y: float
    >>> map(lambda v: v * 2, Point(1.0, 2.0)).y
    4.0
    """
    if not dataclasses.is_dataclass(cls):
        raise OptionError(
            f"[tree.dataclass] {cls.__name__} is not a dataclass; put @lm.tree.dataclass above "
            "@dataclasses.dataclass"
        )
    names = tuple(field.name for field in dataclasses.fields(cls))
    _LEAF_TYPES.discard(cls)
    _KINDS[cls] = Kind(
        lambda value: ([getattr(value, name) for name in names], names),
        lambda extra, children: _from_fields(cls, names, children),
        _attribute,
    )
    return cls


def _from_fields(cls: type, names: tuple[str, ...], children: Children) -> object:
    made: object = object.__new__(cls)
    for name, child in zip(names, children, strict=True):
        object.__setattr__(made, name, child)
    return made
