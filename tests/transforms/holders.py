"""Places where Python keeps a number, for tests of what changes there."""

from __future__ import annotations

import dataclasses
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, ClassVar

from lamella import nn


class Plain:
    def __init__(self) -> None:
        self.value = 0.5


class Slotted:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.5


@dataclasses.dataclass
class Data:
    value: float = 0.5


@dataclasses.dataclass(frozen=True)
class Outer:
    inner: Data = dataclasses.field(default_factory=Data)


class Settings:
    value: ClassVar[float] = 0.5


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.value = 0.5


def _closure() -> tuple[Callable[[], float], Callable[[float], None]]:
    value = 0.5

    def read() -> float:
        return value

    def write(new: float) -> None:
        nonlocal value
        value = new

    return read, write


def _of_attribute(holder: Any) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return lambda: holder.value, lambda new: setattr(holder, "value", new)


def _of_item(holder: Any, key: Any) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    def write(new: Any) -> None:
        holder[key] = new

    return lambda: holder[key], write


HOLDERS: dict[str, Callable[[], tuple[Callable[[], Any], Callable[[Any], None]]]] = {
    "object": lambda: _of_attribute(Plain()),
    "slots": lambda: _of_attribute(Slotted()),
    "dataclass": lambda: _of_attribute(Data()),
    "nested": lambda: _of_attribute(Outer().inner),
    "class": lambda: _of_attribute(Settings),
    "module": lambda: _of_attribute(Layer()),
    "library": lambda: _of_attribute(nn.Module()),
    "namespace": lambda: _of_attribute(types.SimpleNamespace(value=0.5)),
    "list": lambda: _of_item([0.5, 1.0], 0),
    "deque": lambda: _of_item(deque([0.5, 1.0]), 1),
    "dict": lambda: _of_item({"a": 0.5, "b": [1]}, "a"),
    "ordered": lambda: _of_item(OrderedDict(a=0.5), "a"),
    "default": lambda: _of_item(defaultdict(float, a=0.5), "a"),
    "deep": lambda: _of_item({"a": [{"b": 0.5}]}["a"][0], "b"),
    "closure": _closure,
}
