"""Which sizes of a compiled function's arguments are open: those that have been seen to change.

Input: calls. Output: :class:`OpenSizes`: for a call, the ways to see its shapes (:class:`Opening`)
in which sizes that were others in an earlier call, else alike, are symbols; axes that had the same
size before and have the same size now share one. What a function could not be traced with is closed
for good. Sizes 0 and 1 are never open: they have meanings of their own (an axis that is repeated,
one without elements).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from lamella.errors import ShapeError
from lamella.ir.dim import Dim
from lamella.ir.node import Node, topological
from lamella.ir.subgraph import Subgraph
from lamella.ops.calls import Call as CallOf
from lamella.ops.convolution import Conv
from lamella.ops.matrix_kernel import KernelCall
from lamella.runtime.patterns import Pattern, match, opened
from lamella.transforms.signature import Call, Opening

__all__ = ["OpenSizes", "refuse_schedules"]

MOST: Final = 256  # forms of calls, shapes of one form, and shapes whose opening is known
PATIENCE: Final = 4  # sizes that may be without a program that serves others, before none is open
Axis = tuple[int, int]  # of a tensor by number


@dataclass(slots=True)
class _Form:
    """Calls that differ in sizes and numbers alone."""

    closed: frozenset[Axis] = frozenset()
    patterns: tuple[Pattern, ...] = ()  # that programs were made for, the newest first
    failures: int = 0  # sizes that one of these could not be opened for
    last: dict[tuple[int, ...], Pattern] = field(default_factory=dict)  # by sizes of closed axes

    def fixed(self, shapes: Pattern) -> tuple[int, ...]:
        """The sizes of the closed axes."""
        return tuple([int(shapes[tensor][axis]) for tensor, axis in sorted(self.closed)])


class OpenSizes:
    """The open sizes of one compiled function."""

    def __init__(self) -> None:
        self._forms: dict[object, _Form] = {}
        self._known: dict[object, Sequence[Opening]] = {}  # by exact key
        self._any = False

    def openings(self, call: Call) -> Sequence[Opening]:
        """The ways to see a call with which others have been compiled."""
        if not self._any:
            return ()
        key = call.exact
        found = self._known.get(key)
        if found is None:
            form = self._forms.get(call.without_sizes())
            shapes = call.tensor_shapes()
            patterns = () if form is None else form.patterns
            made = ((pattern, match(pattern, shapes)) for pattern in patterns)
            found = [Opening(p, values) for p, values in made if values is not None]
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[key] = found
        return found

    def proposals(self, call: Call) -> Sequence[Opening]:
        """Ways to see a call that no earlier one was seen in, the most general first: with what has
        changed open, or one symbol of it alone.
        """
        form, shapes = self._form(call), call.tensor_shapes()
        last = form.last.get(form.fixed(shapes))
        _remember(form.last, form.fixed(shapes), shapes)
        if last is None or last == shapes:
            return ()
        pattern = opened(last, shapes)
        names = {pattern[t][a]: (t, a) for t, a in _axes(pattern)}
        fresh = [name for name, (t, a) in names.items() if type(last[t][a]) is int]
        patterns = [pattern]
        if len(fresh) > 1:
            patterns += [_without(pattern, shapes, {*fresh} - {name}) for name in fresh]
        return [Opening(p, match(p, shapes) or {}) for p in patterns]

    def accept(self, call: Call, opening: Opening, tried: Sequence[Opening]) -> None:
        """Remember a way to see calls; of those ``tried`` before it, axes that it has not are
        closed.
        """
        form = self._form(call)
        if opening.pattern in form.patterns:
            return
        own = set(_axes(opening.pattern))
        form.closed |= {axis for each in tried for axis in _axes(each.pattern)} - own
        form.patterns = (opening.pattern, *form.patterns[:MOST])
        _remember(form.last, form.fixed(call.tensor_shapes()), opening.pattern)
        self._any = True
        self._known.clear()

    def refuse(self, call: Call, tried: Sequence[Opening]) -> None:
        """Close the axes that could not be opened, or could be for other sizes but for few."""
        form, shapes = self._form(call), call.tensor_shapes()
        if tried and all(opening.pattern in form.patterns for opening in tried):
            form.failures += 1
            if form.failures <= PATIENCE:
                return
        form.closed |= {axis for each in tried for axis in _axes(each.pattern)}
        form.patterns = tuple(p for p in form.patterns if form.closed.isdisjoint(_axes(p)))
        _remember(form.last, form.fixed(shapes), shapes)
        self._known.clear()

    def _form(self, call: Call) -> _Form:
        key = call.without_sizes()
        if key not in self._forms and len(self._forms) >= MOST:
            self._forms.clear()
            self._known.clear()
        return self._forms.setdefault(key, _Form())


def _axes(pattern: Pattern) -> Iterator[Axis]:
    """The open axes."""
    for tensor, shape in enumerate(pattern):
        for axis, size in enumerate(shape):
            if type(size) is str:
                yield tensor, axis


def _without(pattern: Pattern, shapes: Pattern, names: set[int | str]) -> Pattern:
    """``pattern`` with the sizes of ``shapes`` in place of these symbols."""
    return tuple(
        tuple([have if want in names else want for want, have in zip(wanted, shape, strict=True)])
        for wanted, shape in zip(pattern, shapes, strict=True)
    )


def _remember(last: dict[tuple[int, ...], Pattern], key: tuple[int, ...], shapes: Pattern) -> None:
    if len(last) >= MOST:
        last.clear()
    last[key] = shapes


def refuse_schedules(roots: Sequence[Node]) -> None:
    """Raise if a graph with open sizes has operations whose results depend, to the last bit, on a
    schedule for exact sizes.

    Raises:
        ShapeError: if it has one.
    """

    def visit(graph: Subgraph) -> Subgraph:
        refuse_schedules(graph.outputs)
        return graph

    for node in topological(roots):
        if isinstance(node.op, Conv | KernelCall):
            sizes = (size for source in (node, *node.inputs) for size in source.shape)
            if any(isinstance(size, Dim) for size in sizes):
                raise ShapeError(f"[{node.op.name}] it has a schedule for each of its sizes")
        if isinstance(node.op, CallOf):
            node.op.over_graphs(visit)
