"""The drafts of a program's groups, of which those that are equal in structure share one.

Input: groups, the program's names and the nodes that other kernels need. Output: a ``Draft`` for
each, whose kernel may have the names of another group's buffers; ``Draft.names`` says which are
meant. The layers of a network differ in nothing but that, so it takes as long as one of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from lamella.compiler.fusion import Group
from lamella.compiler.kernels import Draft, draft, sites
from lamella.compiler.reuse import in_place, reads_first
from lamella.compiler.statements import Program, Statement
from lamella.ir.node import Node
from lamella.ir.vectors import VectorUnit

__all__ = ["Drafts"]


class Drafts:
    """Makes drafts, each structure once. ``reuse``: results may take over memory of operands."""

    def __init__(
        self, program: Program, needed: set[Node], unit: VectorUnit, reuse: bool
    ) -> None:
        self.program = program
        self.needed = needed
        self.unit = unit
        self.reuse = reuse
        self._known: dict[Hashable, tuple[Draft, Sequence[Node]]] = {}

    def of(self, group: Group) -> Draft:
        """The draft of a group."""
        form = _Form(self.program)
        key = form.of(group, self.needed)
        if key not in self._known:
            self._known[key] = self._new(group), form.nodes
        made, nodes = self._known[key]
        if made.kernel is None:  # a call: the draft is about this very node
            return made if nodes is form.nodes else self._new(group)
        meant = dict(zip(nodes, form.nodes, strict=True))
        return replace(
            made,
            names={self._name(node): self._name(own) for node, own in meant.items()},
            temporaries={meant[node] for node in made.temporaries},
            sites=sites(group) if made.kernel.faults else [],
        )

    def _new(self, group: Group) -> Draft:
        made = draft(group, self.program, self.needed, self.unit)
        if self.reuse and made.kernel is not None:
            made.kernel = reads_first(made.kernel)
            made.in_place = in_place(made.kernel)
        return made

    def _name(self, node: Node) -> str:
        """The name of a buffer or scalar; nothing for what has none."""
        return self.program.names.get(node) or self.program.params.get(node, "")


class _Form:
    """All that a group's draft depends on but names: what its members compute of which buffers, by
    numbers. ``nodes`` are those that have numbers, in order.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes: list[Node] = []
        self._numbers: dict[Node, int] = {}
        self._entries: list[Hashable] = []

    def of(self, group: Group, needed: set[Node]) -> Hashable:
        """The form of a group; equal ones have equal drafts."""
        members = tuple([self._member(s, group.axes[s], s.node in needed) for s in group.members])
        return group.kind, tuple(group.sizes), group.folds, members, tuple(self._entries)

    def _member(self, s: Statement, axes: tuple[int, ...], stored: bool) -> Hashable:
        number = self._number(s.node, inside=True)
        return s.kind, number, axes, stored, tuple([self._number(part) for part in s.parts])

    def _number(self, node: Node, inside: bool = False) -> int:
        """The number of a node, and of what is composed into it; ``inside``: even of a buffer's."""
        known = self._numbers.get(node)
        if known is not None:
            return known
        scalar = node in self.program.params
        if scalar or (node in self.program.names and not inside):
            entry: Hashable = scalar, node.shape, node.dtype
        else:
            inputs = tuple([self._number(source) for source in node.inputs])
            entry = node.op, inputs, node.shape, node.dtype
        self._entries.append(entry)
        self.nodes.append(node)
        number = self._numbers[node] = len(self._numbers)
        return number
