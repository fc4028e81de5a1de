"""The order in which groups run: as their statements come, but what frees memory runs at once.

Input: groups with their members, and the group of each node. Output: the groups, each after those
it depends on. Without this the gradient of every weight would wait for the end of the backward
pass, and keep the cotangents it is made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from lamella.ir.dim import typical
from lamella.ir.node import Node

if TYPE_CHECKING:
    from lamella.compiler.fusion import Group

__all__ = ["ordered"]


def ordered(groups: Sequence[Group], of: Mapping[Node, Group]) -> list[Group]:
    """``groups`` in the order to run them; ``of`` is the group that computes each node."""
    return _Order(groups, of).run()


class _Order:
    def __init__(self, groups: Sequence[Group], of: Mapping[Node, Group]) -> None:
        self.groups = sorted(groups, key=lambda g: g.members[0].number)
        self.place = {group: i for i, group in enumerate(self.groups)}
        self.reads: list[list[Node]] = []  # what each reads of others
        self.readers: dict[Node, set[int]] = {}
        self.users: list[set[int]] = [set() for _ in self.groups]
        self.missing: list[int] = []  # groups that each still waits for
        for i, group in enumerate(self.groups):
            sources = dict.fromkeys(n for s in group.members for n in s.sources)
            reads = [n for n in sources if n in of and of[n] is not group]
            before = {self.place[of[n]] for n in reads}
            for number in before:
                self.users[number].add(i)
            for node in reads:
                self.readers.setdefault(node, set()).add(i)
            self.reads.append(reads)
            self.missing.append(len(before))

    def run(self) -> list[Group]:
        """The groups."""
        ready = [i for i, count in enumerate(self.missing) if not count]
        heapify(ready)
        done: list[Group] = []
        finished = [False] * len(self.groups)
        freeing: list[int] = []
        while ready or freeing:
            i = heappop(freeing) if freeing else heappop(ready)
            if finished[i]:
                continue
            finished[i] = True
            done.append(self.groups[i])
            touched: set[int] = set()
            for node in self.reads[i]:
                left = self.readers[node]
                left.discard(i)
                if len(left) == 1:
                    touched |= left
            for user in self.users[i]:
                self.missing[user] -= 1
                if not self.missing[user]:
                    heappush(ready, user)
                    touched.add(user)
            for other in touched:
                if not self.missing[other] and not finished[other] and self._frees(other):
                    heappush(freeing, other)
        return done

    def _frees(self, i: int) -> bool:
        """Whether less memory is taken after a group than before it."""
        gained = sum(_nbytes(n) for n in self.reads[i] if self.readers[n] == {i})
        made = [s.node for s in self.groups[i].members]
        return gained > sum(_nbytes(n) for n in made if n in self.readers)


def _nbytes(node: Node) -> int:
    return typical(node.size) * node.dtype.itemsize
