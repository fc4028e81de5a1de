"""A module as a pytree: flattening to its distinct tensors and building a module around new ones.

Invariant: ``unflatten(structure, leaves)`` shares no module object with the one flattened, so a
traced function may rebind tensors of its copy freely; tensors held at several places are one leaf
and stay shared. So do whatever stands for them: a module of numbers or flags made by ``tree.map``
has as many leaves as the module that it was made of.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lamella.tensor.tensor import Tensor

if TYPE_CHECKING:
    from lamella.nn.module import Module

__all__ = ["Structure", "flatten", "unflatten"]

_TENSORS = ("_parameters", "_buffers")
_PRIVATE = {*_TENSORS, "_modules", "_ties"}
Place = tuple[int, str, str]  # module number, table, name


class Structure:
    """Everything of a module that is no tensor. Equal structures compute the same from equal
    tensors.

    ``places`` lists, per module, where each leaf goes: ``(module number, table, name, leaf
    number)``.
    """

    __slots__ = ("children", "classes", "names", "places", "static")

    def __init__(self) -> None:
        self.classes: list[type[Module]] = []
        self.names: tuple[str, ...] = ()  # of the leaves, dotted
        self.static: list[dict[str, Any]] = []
        self.children: list[tuple[int, str, int]] = []  # parent, name, child (-1: None)
        self.places: list[tuple[int, str, str, int]] = []  # leaf -1: None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure):
            return False
        try:
            return (self.classes, self.children, self.places, self.static) == (
                other.classes, other.children, other.places, other.static,
            )  # fmt: skip
        except ValueError:  # an attribute such as a NumPy array has no single truth value
            return False

    def __hash__(self) -> int:
        return hash((tuple(self.classes), tuple(self.children), tuple(self.places)))

    def __repr__(self) -> str:
        return f"<structure of {self.classes[0].__name__}, {len(self.places)} tensors>"


def flatten(module: Module) -> tuple[list[Any], Structure]:
    """The distinct tensors of ``module`` in state-dict order, and the rest."""
    walk = _Walk(module.__dict__.get("_ties", {}))
    walk.visit(module, "")
    walk.structure.names = tuple(walk.names)
    return walk.leaves, walk.structure


class _Walk:
    """Notes modules and tensors as it meets them, each once."""

    def __init__(self, ties: dict[Place, int]) -> None:
        self.ties = ties
        self.structure = Structure()
        self.leaves: list[Any] = []
        self.names: list[str] = []
        self.paths: list[str] = []
        self.known_leaves: dict[object, int] = {}
        self.known_modules: dict[int, int] = {}

    def visit(self, module: Module, path: str) -> int:
        """Note a module with its children; its number."""
        if id(module) in self.known_modules:
            return self.known_modules[id(module)]
        s = self.structure
        number = self.known_modules[id(module)] = len(s.classes)
        s.classes.append(type(module))
        self.paths.append(path)
        static: dict[str, Any] = {}
        s.static.append(static)
        for table in _TENSORS:
            for name, value in module.__dict__[table].items():
                self._place(number, table, name, value)
        for name, value in module.__dict__.items():
            if isinstance(value, Tensor):
                self._place(number, "", name, value)
            elif name not in _PRIVATE:
                static[name] = _copied(value)
        for name, child in module._modules.items():
            at = -1 if child is None else self.visit(child, f"{path}{name}.")
            s.children.append((number, name, at))
        return number

    def _place(self, number: int, table: str, name: str, value: Any) -> None:
        at = -1
        if value is not None:
            key = self._identity((number, table, name), value)
            if key not in self.known_leaves:
                self.known_leaves[key] = len(self.leaves)
                self.leaves.append(value)
                self.names.append(f"{self.paths[number]}{name}")
            at = self.known_leaves[key]
        self.structure.places.append((number, table, name, at))

    def _identity(self, place: Place, value: Any) -> object:
        """The same for places that share a leaf. A number or flag is shared by its place alone:
        Python has only one False.
        """
        if isinstance(value, (Tensor, np.ndarray)):
            return id(value)
        return id(value), self.ties.get(place, place)


def _copied(value: Any) -> Any:
    """A container of settings is the new module's own."""
    return copy.copy(value) if isinstance(value, (dict, set, list)) else value


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Module:
    """A new module of that structure holding ``leaves``, whatever they are."""
    leaves = list(leaves)
    modules: list[Module] = []
    for cls, static in zip(structure.classes, structure.static, strict=True):
        module: Module = object.__new__(cls)
        module.__dict__.update({n: _copied(v) for n, v in static.items()})
        module.__dict__.update(_parameters={}, _buffers={}, _modules={})
        modules.append(module)
    for number, table, name, leaf in structure.places:
        values = modules[number].__dict__
        (values[table] if table else values)[name] = None if leaf < 0 else leaves[leaf]
    for parent, name, child in structure.children:
        modules[parent]._modules[name] = None if child < 0 else modules[child]
    if sum(leaf >= 0 for *_, leaf in structure.places) > len(leaves):
        modules[0].__dict__["_ties"] = {(*place,): leaf for *place, leaf in structure.places}
    return modules[0]
