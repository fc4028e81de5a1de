"""One call's arguments as ``jit`` sees them: tensors in order, and a key for everything else.

Input: positional and keyword arguments. Output: :class:`Call`. Calls with equal keys differ in the
values of tensors alone. NumPy arrays are tensors that share their memory for the call, NumPy's
scalars are Python numbers.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lamella import tree
from lamella.errors import OptionError
from lamella.graph import names as naming
from lamella.ir.dim import Dim, Shape
from lamella.ir.node import gradient_mode
from lamella.runtime.patterns import Pattern
from lamella.tensor.core import TensorCore, describe, wrap
from lamella.tensor.host import node_from_array
from lamella.transforms.reach import PLAIN

__all__ = ["Axes", "Call", "Opening", "arrays_to_tensors", "check_budget"]

Axes = Mapping[int, str]
_FLAT = (TensorCore, np.ndarray, int, float, str)  # certainly leaves, so that args are the leaves
_BUILTIN = (list, tuple, dict, type(None))


@dataclass(frozen=True, slots=True)
class Opening:
    """A way to see a call: the shapes of its tensors with symbols, and the sizes of those."""

    pattern: Pattern
    values: dict[str, int]


class Call:
    """Arguments of one call.

    ``shared`` are the numbers of tensors that are arrays of the caller's; ``shapes`` has symbolic
    shapes by id of the tensor, and ``sizes`` the values of their symbols, which the caller has
    named, or else an ``opening`` of their own; ``exact`` is the key without that. Of numbers that
    are ``opened``, by structure and number of the leaf, only the type is part of the key;
    ``values`` is for what the program to run makes of them.
    """

    __slots__ = (
        "_exchanged", "_marked", "_structure", "args", "exact", "key", "leaves", "numbers",
        "opening", "options", "shapes", "shared", "sizes", "tensors", "values",
    )  # fmt: skip

    def __init__(
        self, args: tuple[Any, ...], options: dict[str, Any], dynamic: Mapping[str | int, Axes],
        opened: Collection[tuple[object, int]] = (),
    ) -> None:  # fmt: skip
        self.args, self.options = args, options
        structure: object = len(args)
        leaves: list[Any] = list(args)
        if options or not _is_flat(args):
            leaves, structure = tree.flatten((args, options))
        tensors: list[Any] = []
        shared: list[int] = []
        self._exchanged = False  # whether a leaf is another object than in the arguments
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, TensorCore):
                tensors.append(leaf)
            elif isinstance(leaf, np.generic):
                leaves[i] = leaf.item()  # computes as Python's numbers do, also outside jit
                self._exchanged = True
            elif isinstance(leaf, np.ndarray):
                shared.append(len(tensors))
                self._exchanged = True
                leaves[i] = leaf = _tensor_of(leaf)
                tensors.append(leaf)
        self.tensors: list[TensorCore] = tensors
        self.shared, self.leaves, self._structure = shared, leaves, structure
        self.values: Any = None
        self.numbers: list[int] = []  # the leaves that are opened numbers
        self.shapes: dict[int, Shape] = {}
        self.sizes: dict[str, int] = {}
        self.opening: Opening | None = None
        self._marked = leaves
        if dynamic:
            self._open(dynamic)
        if opened:
            self.open(opened)
        else:
            self.exact = self.key = self._key(leaves, structure)

    def open(self, opened: Collection[tuple[object, int]]) -> None:
        """Leave the values of these numbers out of the key."""
        candidates = self.candidates() if opened else {}
        self.numbers = [i for i in candidates if (self._structure, i) in opened]
        marked = list(self.leaves)
        for i in self.numbers:
            marked[i] = type(marked[i])
        self._marked, opening = marked, self.opening
        self.open_sizes(None)
        self.exact = self.key = self._key(marked, self._structure)
        self.open_sizes(opening)

    def open_sizes(self, opening: Opening | None) -> None:
        """See the call in another way; None: with its exact sizes."""
        if opening is None:
            if self.opening is not None:
                self.shapes, self.sizes, self.opening, self.key = {}, {}, None, self.exact
            return
        self.opening, self.sizes = opening, opening.values
        self.shapes = {
            id(tensor): tuple([Dim(size) if isinstance(size, str) else size for size in shape])
            for tensor, shape in zip(self.tensors, opening.pattern, strict=True)
        }
        self.key = self._key(self._marked, self._structure)

    def tensor_shapes(self) -> Pattern:
        """The shapes of the tensors, in order."""
        return tuple([tensor.node.shape for tensor in self.tensors])  # type: ignore[misc]

    def without_sizes(self) -> tuple[object, ...]:
        """The key of calls that differ in no more than sizes (but 0 and 1) and numbers."""
        masked = {id(t): tuple([min(s, 2) for s in t.node.shape]) for t in self.tensors}
        marked = [type(leaf) if type(leaf) in (int, float) else leaf for leaf in self.leaves]
        return self._key(marked, self._structure, masked)

    def candidates(self) -> dict[int, int | float]:
        """The numbers among the leaves, that could be opened."""
        return {i: leaf for i, leaf in enumerate(self.leaves) if type(leaf) in (int, float)}

    def positions(self, numbers: Iterable[int]) -> set[tuple[object, int]]:
        """What :meth:`open` takes to open these leaves."""
        return {(self._structure, i) for i in numbers}

    def without_numbers(self) -> tuple[object, ...]:
        """The key of calls that differ in no more than the values of numbers."""
        marked = [type(leaf) if type(leaf) in (int, float) else leaf for leaf in self.leaves]
        return self._key(marked, self._structure)

    def _key(
        self, leaves: Sequence[Any], structure: object,
        shapes: Mapping[int, Shape] | None = None,
    ) -> tuple[object, ...]:  # fmt: skip
        key: list[object] = [structure, gradient_mode.enabled]
        shapes = self.shapes if shapes is None else shapes
        for leaf in leaves:
            if isinstance(leaf, TensorCore):
                node, kept = leaf.node, leaf._leaf
                key.append(shapes.get(id(leaf), node.shape) if shapes else node.shape)
                key.append(node.dtype.name)
                key.append(node.tracked + (kept is not None and kept.required))
                if naming.state.active:
                    key.append(naming.names_of(node))
            else:
                key.append(_static(leaf))
        count = len(self.tensors)
        if count > 1 and len(set(map(id, self.tensors))) < count:
            first = {id(t): i for i, t in reversed(list(enumerate(self.tensors)))}
            key.append(tuple([first[id(t)] for t in self.tensors]))
        return tuple(key)

    def traced_arguments(
        self, others: Mapping[int, object] | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with tensors in place of arrays, Python's numbers in place of NumPy's, and
        ``others`` in place of the leaves of those numbers; all else is the caller's own object.
        """
        if not self._exchanged and not others:
            return self.args, self.options
        leaves = list(self.leaves)
        for i, other in (others or {}).items():
            leaves[i] = other
        place = iter(leaves)

        def exchange(value: Any) -> Any:
            old, structure = tree.flatten(value)
            new = [next(place) for _ in old]
            same = all(a is b for a, b in zip(old, new, strict=True))
            return value if same else tree.unflatten(structure, new)

        args = tuple([exchange(value) for value in self.args])
        options = {name: exchange(self.options[name]) for name in sorted(self.options)}
        return args, options

    def objects(self) -> list[tuple[str, object]]:
        """Modules and other objects among the arguments, whose attributes can be read, by path."""
        value = (self.args, self.options)

        def whole(part: object) -> bool:
            return not isinstance(part, _BUILTIN)

        found = zip(tree.paths(value, whole), tree.leaves(value, whole), strict=True)
        skip = (TensorCore, np.ndarray, np.generic, *PLAIN)
        return [(_named(path), leaf) for path, leaf in found if not isinstance(leaf, skip)]

    def described(self) -> dict[str, str]:
        """Every leaf in words, by path."""
        paths = tree.paths((self.args, self.options))
        found = {_named(p): self._brief(leaf) for p, leaf in zip(paths, self.leaves, strict=True)}
        found["gradient mode"] = "on" if gradient_mode.enabled else "off"
        repeated = len(self.tensors) - len(set(map(id, self.tensors)))
        found["number of tensors passed twice"] = str(repeated)
        return found

    def _brief(self, leaf: object) -> str:
        if not isinstance(leaf, TensorCore):
            return repr(leaf)
        named = None if self.opening is not None else self.shapes.get(id(leaf))
        text = describe(named or leaf.node.shape, leaf.node.dtype)
        return f"{text} that requires a gradient" if leaf.node.tracked else text

    # -- dynamic sizes -----------------------------------------------------------------------------
    def _open(self, dynamic: Mapping[str | int, Axes]) -> None:
        """Gives named axes their symbols."""
        args, options = self.traced_arguments()
        for name, axes in dynamic.items():
            if isinstance(name, int):
                value = args[name] if name < len(args) else None
            else:
                value = options.get(name)
            for leaf in tree.leaves(value):
                if isinstance(leaf, TensorCore) and id(leaf) not in self.shapes:
                    self.shapes[id(leaf)] = self._shape(leaf, name, axes)

    def _shape(self, tensor: TensorCore, name: object, axes: Axes) -> Shape:
        shape: list[int | Dim] = list(tensor.node.shape)
        for axis, symbol in axes.items():
            if not -len(shape) <= axis < len(shape):
                raise OptionError(
                    f"[jit] dynamic={{{name!r}: {dict(axes)}}}: axis {axis} is not one of shape "
                    f"{tuple(shape)}; name an axis the argument has"
                )
            size = tensor.node.shape[axis]
            sizes = self.sizes
            if not isinstance(size, int) or sizes.get(symbol, size) != size:
                raise OptionError(
                    f"[jit] the dynamic size {symbol!r} is {sizes[symbol]} in one place and "
                    f"{size} in another; give axes that may differ different names"
                )
            self.sizes = {**sizes, symbol: size}
            shape[axis] = Dim(symbol)
        return tuple(shape)


def _is_flat(args: tuple[Any, ...]) -> bool:
    return not [value for value in args if not isinstance(value, _FLAT)]


def _tensor_of(array: Any) -> TensorCore:
    return wrap(node_from_array(np.asarray(array), None, copy=False))


def _named(path: str) -> str:
    """A path into ``(args, options)`` in the caller's words."""
    if path.startswith("[0]"):
        return f"argument {path[3:]}"
    return f"argument {path[3:]}".replace("['", "", 1).replace("']", "", 1)


def _static(leaf: object) -> object:
    """An argument that is no tensor: part of the key, by value."""
    try:
        hash(leaf)
    except TypeError:
        raise OptionError(
            f"[jit] an argument holds a {type(leaf).__name__}, which can be neither traced nor "
            "compared; pass tensors, arrays, numbers, text, or containers of them (register a "
            "class with lm.tree.register)"
        ) from None
    return type(leaf), repr(leaf) if isinstance(leaf, float | complex) else leaf


def arrays_to_tensors(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Any]:
    """The arguments as a compiled call has them, for a call that is part of another function."""
    arrays = (np.ndarray, np.generic)
    if not any(isinstance(leaf, arrays) for leaf in tree.leaves((args, options))):
        return args, options

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, np.generic):
            return leaf.item()
        # a copy: it is computed with later, when the array may hold something else
        return _tensor_of(np.array(leaf)) if isinstance(leaf, np.ndarray) else leaf

    found_args, found_options = tree.map(convert, (args, options))
    return found_args, found_options


def check_budget(name: str, budget: object) -> None:
    """That a memory budget is None or a number of bytes.

    Raises:
        OptionError: if it is something else.
    """
    if budget is None or (type(budget) is int and budget >= 0):
        return
    raise OptionError(f"[{name}] memory_budget={budget!r:.40}; give bytes, an integer at least 0")
