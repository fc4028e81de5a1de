"""Calls of functions that stay one node until somebody looks inside.

Input: a :class:`Template`, the graph that a function records for inputs of certain shapes and
dtypes, and such inputs. Output: a node that has the shape and dtype of the result. It becomes the
template's graph as soon as its primitive or its inputs are asked for, so that nobody can tell it
from one recorded at once; a program that is known for the template runs without asking.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lamella.dtypes import DType
from lamella.ir.dim import Shape
from lamella.ir.node import Node
from lamella.ops.base import Primitive
from lamella.ops.calls import Part, adopt, part
from lamella.ops.leaf import DATA

__all__ = ["Deferred", "DeferredCall", "Step", "Template", "call_at", "deferred"]


@dataclass(frozen=True, slots=True)
class Step:
    """A node of a template. ``sources`` are numbers: first the inputs, then the steps in order."""

    op: Primitive
    sources: tuple[int, ...]
    shape: Shape
    dtype: DType
    value: object = None  # of a leaf
    sited: bool = False  # may fail, so it has the line of the call
    known: Node | None = field(default=None, compare=False)  # a node that all calls share


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """What a function records; ``roots`` are the numbers of its results."""

    inputs: int
    steps: tuple[Step, ...]
    roots: tuple[int, ...]

    @property
    def is_deferrable(self) -> bool:
        """Whether the results of a call can be made before its graph: they are its own."""
        if min(self.roots) < self.inputs or len({*self.roots}) < len(self.roots):
            return False
        roots = [self.steps[number - self.inputs] for number in self.roots]
        return all(root.known is None and root.value is None for root in roots)

    def record(
        self, given: Sequence[Node], site: str | None, results: dict[int, Deferred]
    ) -> list[Node]:
        """The graph on the inputs ``given``: these, and a node for each step. ``results`` become
        the nodes of those numbers.
        """
        nodes = [*given]
        for number, step in enumerate(self.steps, self.inputs):
            sources = tuple([nodes[source] for source in step.sources])
            result = results.get(number)
            if result is not None:
                result.become(step.op, sources, site if step.sited else None)
                if type(step.op) is Part:
                    adopt(result)
                nodes.append(result)
            elif step.known is not None:
                nodes.append(step.known)
            elif type(step.op) is Part:
                nodes.append(part(sources[0], step.op.index))
            else:
                node = Node(step.op, sources, step.shape, step.dtype)
                node.value = step.value
                if step.sited:
                    node.site = site
                nodes.append(node)
        return nodes


class DeferredCall:
    """A template, the inputs of a call, its line where it may fail, and its results."""

    __slots__ = ("given", "results", "site", "template")

    def __init__(self, template: Template, given: Sequence[Node], site: str | None) -> None:
        self.template: Final = template
        self.given: Final = given
        self.site: Final = site
        # in the order of the template's roots, if there are several
        self.results: Sequence[weakref.ref[Deferred]] = ()

    def look_inside(self, asked: Deferred) -> None:
        """Make plain nodes of a result and of the others that somebody holds."""
        roots = self.template.roots
        found = {roots[0]: asked} if not self.results else {}
        for number, result in zip(roots, self.results, strict=False):
            node = result()
            if type(node) is Deferred and node.call is self:
                found[number] = node
        self.template.record(self.given, self.site, found)


_op: Final[Any] = Node.__dict__["op"]  # the places in a node, whatever its class
_inputs: Final[Any] = Node.__dict__["inputs"]
_site: Final[Any] = Node.__dict__["site"]
call_at: Final[Any] = _site.__get__  # of a deferred node its call, of others never one


class Deferred(Node):
    """A node whose primitive and inputs are recorded when they are asked for; then it is a plain
    :class:`Node`. Until then its :class:`DeferredCall` is kept in the place of the site.
    """

    __slots__ = ()

    @property
    def call(self) -> DeferredCall | None:
        """None if another thread has just looked inside."""
        call = _site.__get__(self)
        return call if type(call) is DeferredCall else None

    def look_inside(self) -> None:
        """Become a plain node."""
        call = self.call
        if call is not None:
            call.look_inside(self)

    def become(self, op: Primitive, inputs: tuple[Node, ...], site: str | None) -> None:
        """Become this plain node."""
        _op.__set__(self, op)
        _inputs.__set__(self, inputs)
        _site.__set__(self, site)
        self.__class__ = Node  # type: ignore[assignment]

    def settle(self, value: object) -> None:
        """Become a leaf with this value."""
        self.value = value
        _set_op(self, DATA)
        _set_inputs(self, ())
        _put(self, None)
        self.__class__ = Node  # type: ignore[assignment]


def _asked_for(place: Any) -> Any:
    """A property of :class:`Deferred` that looks inside first."""

    def get(node: Deferred) -> Any:
        node.look_inside()
        return place.__get__(node)

    def put(node: Deferred, value: Any) -> None:
        node.look_inside()
        place.__set__(node, value)

    return property(get, put)


for _place in (_op, _inputs, _site):
    setattr(Deferred, _place.__name__, _asked_for(_place))

_new: Final = object.__new__
_put: Final = _site.__set__
_set_op: Final = _op.__set__
_set_inputs: Final = _inputs.__set__


def deferred(template: Template, given: Sequence[Node], site: str | None) -> list[Deferred]:
    """The results of a call, if the template ``is_deferrable``."""
    call = DeferredCall(template, given, site)
    found: list[Deferred] = []
    for number in template.roots:
        root = template.steps[number - template.inputs]
        node = _new(Deferred)
        node.shape = root.shape
        node.dtype = root.dtype
        node.tracked = False
        node.value = None
        _put(node, call)
        found.append(node)
    if len(found) > 1:
        call.results = [weakref.ref(node) for node in found]
    return found
