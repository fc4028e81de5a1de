"""What a backward pass computes again instead of keeping it since the forward pass.

Input: a planned graph. Output: the graph in which values made before the moment of most memory and
read after it are computed again for those readers, from values that are kept. Which ones: a minimum
cut of the graph of statements, whose cost is the bytes that are kept, times what one is worth, and
the time of what is computed twice, in bytes that memory moves meanwhile. Nothing depends on which
nodes belong to a derivative. (Rematerialisation: Chen et al., 2016, arXiv:1604.06174.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lamella.compiler.canonicalise import with_inputs
from lamella.compiler.costs import scalar_operations
from lamella.compiler.cut import FOREVER, Network
from lamella.compiler.fusion import Group
from lamella.compiler.partition import is_external
from lamella.compiler.statements import Program, Statement
from lamella.ir.dim import typical
from lamella.ir.node import Node
from lamella.ops.gathering import RavelIndex

__all__ = ["Planned", "Renewed", "recomputed"]

OPERATIONS: Final = 2  # scalar operations in the time that memory takes to move a byte
DEEP: Final = 4  # groups in a row that are computed again
REPEATABLE: Final = ("map", "fold", "tiles")


@dataclass(frozen=True, slots=True)
class Renewed:
    """A graph by its outputs, and its nodes that compute again what others have computed, with the
    groups that those were in.
    """

    outputs: list[Node]
    copies: Mapping[Node, Group]


@dataclass(slots=True)
class Planned:
    """A graph and the groups it is computed in, in order."""

    graph: Renewed
    order: list[Node]
    program: Program
    groups: list[Group]

    def home(self) -> dict[Node, int]:
        """The group that makes each stored node."""
        return {s.node: i for i, group in enumerate(self.groups) for s in group.members}

    def lives(self, home: Mapping[Node, int]) -> list[int]:
        """The bytes of values between that are alive while each group runs."""
        last = dict(home)
        for i, group in enumerate(self.groups):
            for s in group.members:
                for node in s.sources:
                    last[node] = max(last.get(node, 0), i)
        given = set(self.graph.outputs)
        change = [0] * (len(self.groups) + 1)
        for node, first in home.items():
            if node not in given:
                change[first] += nbytes(node)
                change[last[node] + 1] -= nbytes(node)
        alive, found = 0, []
        for step in change[:-1]:
            alive += step
            found.append(alive)
        return found

    @property
    def peak(self) -> int:
        """The most bytes of values between that are alive at once."""
        return max(self.lives(self.home()), default=0)


def nbytes(node: Node) -> int:
    """What a node's value takes."""
    return typical(node.size) * node.dtype.itemsize


def recomputed(planned: Planned, worth: float) -> Renewed | None:
    """The graph that keeps less; None where nothing is to be gained.

    ``worth``: how many bytes memory may move, or could have moved, for a byte that is not kept.
    """
    home = planned.home()
    lives = planned.lives(home)
    at = max(range(len(lives)), key=lives.__getitem__, default=0)
    early = planned.groups[: at + 1]
    late = [s for group in planned.groups[at + 1 :] for s in group.members]
    twice = _shallow(early, late, planned.graph.outputs, worth)
    if not twice:
        return None
    return _Renewal({s.node for group in early for s in group.members}, twice).renewed(planned)


def _shallow(
    early: Sequence[Group], late: Sequence[Statement], outputs: Sequence[Node], worth: float
) -> set[Node]:
    """The early values that are computed again for late readers, from what is kept not many groups
    before: else much would have to be alive at once again.
    """
    statements = [s for group in early for s in group.members]
    home = {s.node: i for i, group in enumerate(early) for s in group.members}
    kept: set[Node] = set()
    while True:
        twice = _twice(statements, late, {*outputs}, kept, worth)
        depth: dict[Node, int] = {}
        for s in statements:
            if s.node in twice:
                depth[s.node] = max(
                    (depth[n] + (home[n] != home[s.node]) for n in s.sources if n in depth),
                    default=1,
                )
        deep = {node for node, steps in depth.items() if steps == DEEP + 1}
        if not deep:
            return twice
        kept |= deep


def _twice(
    early: Sequence[Statement], late: Sequence[Statement], outputs: set[Node], kept: set[Node],
    worth: float,
) -> set[Node]:  # fmt: skip
    """What a minimum cut computes again; ``kept`` never is."""
    places: dict[Node, tuple[int, int]] = {}
    network = Network()
    stored = {s.node for s in early}
    for s in early:
        made, after = network.place(), network.place()
        places[s.node] = made, after
        network.connect(0, made, FOREVER if s.node in kept else _again(s, stored))
        network.connect(made, after, 0 if s.node in outputs else int(worth * nbytes(s.node)))
        for source in s.sources:
            if source in places:
                network.connect(places[source][1], made, FOREVER)
    for node in dict.fromkeys(n for s in late for n in s.sources):
        if node in places:
            network.connect(places[node][1], 1, FOREVER)
    behind = network.behind_the_cut()
    return {node for node, (made, _) in places.items() if made in behind}


def _again(s: Statement, stored: set[Node]) -> int:
    """The time of a statement, in bytes that memory moves meanwhile."""
    if s.kind not in REPEATABLE:
        return FOREVER
    count = float(scalar_operations(s.node))
    seen: set[Node] = set()
    stack = list(s.node.inputs)
    while stack:
        node = stack.pop()
        if node in seen or node in stored or is_external(node):
            continue
        if isinstance(node.op, RavelIndex) and any(node.op.checked):
            return FOREVER  # see ``early_checks``: one check, before anything is written over
        seen.add(node)
        count += scalar_operations(node)
        stack.extend(node.inputs)
    return int(count / OPERATIONS) + nbytes(s.node)


class _Renewal:
    """The graph in two versions: as early readers know it, and as late ones do."""

    def __init__(self, early: set[Node], twice: set[Node]) -> None:
        self.early = early
        self.twice = twice
        self.copies: dict[Node, Node] = {}
        self.late: dict[Node, Node] = {}

    def renewed(self, planned: Planned) -> Renewed:
        """The outputs, late ones in the late version."""
        origins = self._origins(planned)
        for node in planned.order:
            if node in origins:
                inputs = tuple(self.copies.get(n, n) for n in node.inputs)
                self.copies[node] = Node(node.op, inputs, node.shape, node.dtype)
                self.copies[node].site = node.site
            if node in self.twice:
                self.late[node] = self.copies[node]
            elif is_external(node) or node.op.kind == "leaf" or node in self.early:
                self.late[node] = node
            else:
                self.late[node] = with_inputs(node, tuple(self.late[n] for n in node.inputs))
        found = [node if node in self.early else self.late[node] for node in planned.graph.outputs]
        new = {self.copies[node]: group for node, group in origins.items()}
        return Renewed(found, {**planned.graph.copies, **new})

    def _origins(self, planned: Planned) -> dict[Node, Group]:
        """What is computed again or composed into that, with the group it was in."""
        groups = {s.node: group for group in planned.groups for s in group.members}
        found: dict[Node, Group] = {}
        for node in reversed(planned.order):
            if node in self.twice:
                found[node] = groups[node]
            if node in found:
                for n in node.inputs:
                    if n not in groups and n.op.kind != "leaf" and not is_external(n):
                        found.setdefault(n, found[node])
        return found
