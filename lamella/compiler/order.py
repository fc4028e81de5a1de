"""The order in which groups run: as their statements come, but what frees memory runs at once, what
may overwrite an input waits for those that read it, and what computes values again runs right
before the first that needs it.

Input: groups with their members, and the group of each node. Output: the groups, each after those
it depends on. Without this the gradient of every weight would wait for the end of the backward
pass, and keep the cotangents it is made of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from lamella.ir.dim import typical
from lamella.ir.node import Node

if TYPE_CHECKING:
    from lamella.compiler.fusion import Group

__all__ = ["ordered"]


def ordered(
    groups: Sequence[Group], of: Mapping[Node, Group],
    outputs: Collection[Node] = (), offered: Mapping[Node, Node] | None = None,
) -> list[Group]:  # fmt: skip
    """``groups`` in the order to run them; ``of`` is the group that computes each node.

    ``outputs`` have memory from the beginning; ``offered`` are those that may be given the memory
    of an input, with the input.
    """
    return _Order(groups, of, outputs, offered or {}).run()


class _Order:
    def __init__(
        self, groups: Sequence[Group], of: Mapping[Node, Group],
        outputs: Collection[Node], offered: Mapping[Node, Node],
    ) -> None:  # fmt: skip
        self.groups = sorted(groups, key=lambda g: g.members[0].number)
        self.outputs = frozenset(outputs)
        self.reads: list[list[Node]] = []  # what each reads of others
        self.readers: dict[Node, set[int]] = {}
        self.users: list[set[int]] = [set() for _ in self.groups]
        self.sources: list[set[int]] = []  # groups that each reads
        self.missing: list[int] = []  # groups that each still waits for
        place = {group: i for i, group in enumerate(self.groups)}
        takers: dict[Node, set[int]] = {}  # of offered inputs
        for i, group in enumerate(self.groups):
            sources = dict.fromkeys(n for s in group.members for n in s.sources)
            reads = [n for n in sources if n in of and of[n] is not group]
            before = {place[of[n]] for n in reads}
            for node in reads:
                self.readers.setdefault(node, set()).add(i)
            for node in sources:
                takers.setdefault(node, set()).add(i)
            self.reads.append(reads)
            self.sources.append(before)
            self.missing.append(len(before))
        self._wait(of, place, offered, takers)
        self._put_off()

    def _wait(
        self, of: Mapping[Node, Group], place: Mapping[Group, int],
        offered: Mapping[Node, Node], takers: Mapping[Node, set[int]],
    ) -> None:  # fmt: skip
        """What may overwrite an input waits for the others that read it, unless all others wait."""
        self.before: list[set[int]] = [set() for _ in self.groups]
        self.after: list[set[int]] = [set() for _ in self.groups]
        for output, source in offered.items():
            if output in of:
                i = place[of[output]]
                for other in takers.get(source, set()) - {i}:
                    self.before[i].add(other)
                    self.after[other].add(i)

    def _put_off(self) -> None:
        """What only computes again is no step of its own: it runs with the first that needs it, and
        that waits for what both need.
        """
        self.lazy = [
            all(s.origin is not None and s.node not in self.outputs for s in group.members)
            for group in self.groups
        ]
        for i in range(len(self.groups)):
            if not self.lazy[i]:
                needed = {n for n in self._with_lazy(i) if not self.lazy[n]} - {i}
                self.missing[i] = len(needed)
                for number in needed:
                    self.users[number].add(i)

    def _with_lazy(self, i: int) -> list[int]:
        """A group, after those that compute again for it, and what all of them read."""
        found: dict[int, None] = {}
        stack = [(i, False)]
        while stack:
            number, entered = stack.pop()
            if entered:
                found[number] = None
            elif number not in found:
                stack.append((number, True))
                if number == i or self.lazy[number]:
                    stack.extend((n, False) for n in sorted(self.sources[number], reverse=True))
        return list(found)

    def run(self) -> list[Group]:
        """The groups."""
        starts = [i for i, n in enumerate(self.missing) if not n and not self.lazy[i]]
        self.ready = [i for i in starts if not self.before[i]]
        self.held = [i for i in starts if self.before[i]]
        heapify(self.ready)
        heapify(self.held)
        self.finished = [False] * len(self.groups)
        self.freeing: list[int] = []
        done: list[Group] = []
        while self.ready or self.freeing or self.held:
            first = heappop(self.freeing or self.ready or self.held)
            for i in () if self.finished[first] else self._with_lazy(first):
                if not self.finished[i]:
                    self.finished[i] = True
                    done.append(self.groups[i])
                    self._finish(i)
        return done

    def _finish(self, i: int) -> None:
        """What can run now that a group has."""
        touched: set[int] = set()
        for node in self.reads[i]:
            left = self.readers[node]
            left.discard(i)
            if len(left) == 1:
                touched |= left
        for user in self.users[i]:
            self.missing[user] -= 1
            if not self.missing[user]:
                heappush(self.held if self.before[user] else self.ready, user)
                touched.add(user)
        for user in self.after[i]:
            self.before[user].discard(i)
            if not self.before[user] and not self.missing[user]:
                heappush(self.ready, user)
                touched.add(user)
        for other in touched:
            waits = self.missing[other] or self.before[other] or self.lazy[other]
            if not waits and not self.finished[other] and self._frees(other):
                heappush(self.freeing, other)

    def _frees(self, i: int) -> bool:
        """Whether less memory is taken after a group than before it."""
        gained = sum(_nbytes(n) for n in self.reads[i] if self.readers[n] == {i})
        made = [s.node for s in self.groups[i].members]
        return gained > sum(_nbytes(n) for n in made if n in self.readers and n not in self.outputs)


def _nbytes(node: Node) -> int:
    return typical(node.size) * node.dtype.itemsize
