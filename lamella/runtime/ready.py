"""Deferred calls on values: their programs, found without looking inside.

Input: the pending results of one deferred call on inputs that have values, or on results of such
calls. Output: their values, where the program has run before. Everything else goes the long way,
which offers the programs that it finds. Invariant: a program kept here is the one that the long way
would find; both forget at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lamella.config import config
from lamella.graph.deferred import Deferred, DeferredCall, Template
from lamella.ir.node import Node
from lamella.ops.leaf import SCALAR
from lamella.runtime import buffer as memory
from lamella.runtime import profiling
from lamella.runtime.buffer import Buffer
from lamella.runtime.program import Binding, Executable
from lamella.runtime.repeated import settings

__all__ = ["call_at_once", "call_of", "forget", "offer_call"]


@dataclass(frozen=True, slots=True)
class _Known:
    """The program of some results of a template, bound to its sizes: for each input the number of
    one of the call's or the node that all calls share; its scalars likewise, or their ``words``
    where all calls have the same.
    """

    program: Executable
    at: Binding
    sources: tuple[int | Node, ...]
    scalars: tuple[int | Node, ...]
    words: Sequence[int]

    def pack(self, given: Sequence[Node]) -> Sequence[int]:
        """The words of the scalars of a call on ``given``."""
        nodes = [source if isinstance(source, Node) else given[source] for source in self.scalars]
        return self.program.pack_scalars([node.value for node in nodes])


_templates: Final[dict[object, _Known]] = {}
_DEPTH: Final = 3  # of calls on the results of calls whose program is found at once

# What deferred calls are given, what says which calls they are and which of that is the same, and
# their templates.
Found = tuple[Sequence[Node], object, Sequence[Template]]


def _places(nodes: Sequence[Node]) -> tuple[int, ...]:
    """For each node the place where it is first: a program takes it once, but reads it there."""
    return tuple(map(nodes.index, nodes))


def call_of(nodes: Sequence[Node]) -> Found | None:
    """The deferred call whose results ``nodes`` are; None where they are anything else."""
    node = nodes[0]
    call = node.call if type(node) is Deferred else None
    if call is None:
        return None
    templates = [call.template]
    key: object = call.template
    results, given = call.results, call.given
    for source in given:
        if type(source) is Deferred:
            given = []
            key = _nested(call, given, templates, _DEPTH)
            break
    if len(given) > 1 and len({*given}) < len(given):
        key = key, _places(given)
    if not results:
        return (given, key, templates) if len(nodes) == 1 else None
    if any(type(node) is not Deferred or node.call is not call for node in nodes):
        return None
    found = {result(): number for number, result in enumerate(results)}
    return given, (key, *[found[node] for node in nodes]), templates  # type: ignore[index]


def _nested(
    call: DeferredCall, given: list[Node], templates: list[Template], depth: int
) -> tuple[object, ...]:
    """What says which calls a call is of; ``given`` is what these are given."""
    parts: list[object] = [call.template]
    for source in call.given:
        inner = source.call if depth and type(source) is Deferred else None
        if inner is None or inner.results:
            given.append(source)
            parts.append(None)
        else:
            templates.append(inner.template)
            parts.append(_nested(inner, given, templates, depth - 1))
    return tuple(parts)


def call_at_once(nodes: Sequence[Node], found: Found) -> bool:
    """Compute results of a call, where the program is known; whether it did.

    Raises:
        MemoryError: if there is no room for the results.
        LamellaIndexError: for an index out of range.
    """
    given, key, _ = found
    known = _templates.get(key)
    if known is None or not settings.plain or profiling.active is not None:
        return False
    at = known.at
    words: list[int] = []
    for source in known.sources:
        value: Any = (given[source] if isinstance(source, int) else source).value
        if value is None:
            return False
        words.append(value.ptr)
    made: list[Buffer] = []
    for nbytes in at.nbytes:
        buffer = memory.empty(nbytes)
        made.append(buffer)
        words.append(buffer.ptr)
    words += known.pack(given) if known.scalars else known.words
    known.program.run_on_frame(words, at)
    for node, buffer in zip(nodes, made, strict=True):
        node.settle(buffer)  # type: ignore[attr-defined]
    return True


def offer_call(found: Found, program: Executable, at: Binding, order: Iterable[Node]) -> bool:
    """Keep the ``program`` for what :func:`call_of` has found; ``order`` has the nodes of its
    inputs and scalars, in order. Before it runs. Whether it is that of the call alone.
    """
    sources_given, key, templates = found
    given = {node: number for number, node in enumerate(sources_given)}
    if program.same or not program.has_frames:
        return False
    if any(node.value is None for node in given):  # the program is that of a larger graph
        return False
    leaves = [node for node in order if node.value is not None]
    shared = {step.known for template in templates for step in template.steps}
    sources = tuple([given.get(leaf, leaf) for leaf in leaves if leaf.op is not SCALAR])
    if any(isinstance(source, Node) and source not in shared for source in sources):
        return False
    scalars = tuple([given.get(leaf, leaf) for leaf in leaves if leaf.op is SCALAR])
    if len(_templates) >= config.programs:
        _templates.clear()
    if any(isinstance(source, int) for source in scalars):
        _templates[key] = _Known(program, at, sources, scalars, ())
        return True
    words = program.pack_scalars([leaf.value for leaf in leaves if leaf.op is SCALAR])
    _templates[key] = _Known(program, at, sources, (), words if scalars else ())
    return True


def forget() -> None:
    """Drop every program kept here."""
    _templates.clear()
