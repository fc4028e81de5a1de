"""A module as a pytree: flattening to its distinct tensors and building a module around new ones.

Invariant: ``unflatten(structure, leaves)`` shares no module object with the one flattened, so a
traced function may rebind tensors of its copy freely; tensors held at several places are one leaf
and stay shared.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lamella.tensor.tensor import Tensor

if TYPE_CHECKING:
    from lamella.nn.module import Module

__all__ = ["Structure", "flatten", "unflatten"]

_TENSORS = ("_parameters", "_buffers")
_PRIVATE = {*_TENSORS, "_modules"}


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
    structure = Structure()
    leaves: list[Any] = []
    known_leaves: dict[int, int] = {}
    known_modules: dict[int, int] = {}

    names: list[str] = []

    def place(number: int, table: str, name: str, value: Any) -> None:
        if value is None:
            structure.places.append((number, table, name, -1))
            return
        if id(value) not in known_leaves:
            known_leaves[id(value)] = len(leaves)
            leaves.append(value)
            names.append(f"{paths[number]}{name}")
        structure.places.append((number, table, name, known_leaves[id(value)]))

    paths: list[str] = []

    def visit(module: Module, path: str) -> int:
        if id(module) in known_modules:
            return known_modules[id(module)]
        number = known_modules[id(module)] = len(structure.classes)
        structure.classes.append(type(module))
        paths.append(path)
        static: dict[str, Any] = {}
        structure.static.append(static)
        for table in _TENSORS:
            for name, value in module.__dict__[table].items():
                place(number, table, name, value)
        for name, value in module.__dict__.items():
            if isinstance(value, Tensor):
                place(number, "", name, value)
            elif name not in _PRIVATE:
                static[name] = copy.copy(value) if isinstance(value, (dict, set, list)) else value
        for name, child in module._modules.items():
            structure.children.append(
                (number, name, -1 if child is None else visit(child, f"{path}{name}."))
            )
        return number

    visit(module, "")
    structure.names = tuple(names)
    return leaves, structure


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Module:
    """A new module of that structure holding ``leaves``, whatever they are."""
    leaves = list(leaves)
    modules: list[Any] = []
    for cls, static in zip(structure.classes, structure.static, strict=True):
        module = object.__new__(cls)
        module.__dict__.update(
            {n: copy.copy(v) if isinstance(v, (dict, set, list)) else v for n, v in static.items()}
        )
        module.__dict__.update(_parameters={}, _buffers={}, _modules={})
        modules.append(module)
    for number, table, name, leaf in structure.places:
        values = modules[number].__dict__
        (values[table] if table else values)[name] = None if leaf < 0 else leaves[leaf]
    for parent, name, child in structure.children:
        modules[parent]._modules[name] = None if child < 0 else modules[child]
    return modules[0]
