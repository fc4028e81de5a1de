"""The cheapest way to separate two places of a directed graph: a minimum cut.

Input: edges with capacities. Output: the places from which the sink can still be reached when a
maximum flow fills the graph; the edges into that set are the cut with the fewest places behind it.
Method: augmenting along blocking flows of shortest paths (Dinic, 1970).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

__all__ = ["FOREVER", "Network"]

FOREVER = 1 << 62  # the capacity of an edge that is never cut


@dataclass(slots=True)
class Network:
    """Places by number; 0 is the source and 1 the sink.

    >>> net = Network()
    >>> middle = net.place()
    >>> net.connect(0, middle, 3)
    >>> net.connect(middle, 1, 2)
    >>> net.behind_the_cut() == {1}
    True
    """

    edges: list[list[int]] = field(default_factory=lambda: [[], []])  # of each place
    heads: list[int] = field(default_factory=list)
    room: list[int] = field(default_factory=list)  # what an edge can still take; ^1 is its reverse

    def place(self) -> int:
        """A new place."""
        self.edges.append([])
        return len(self.edges) - 1

    def connect(self, tail: int, head: int, capacity: int) -> None:
        """An edge."""
        for start, end, room in ((tail, head, capacity), (head, tail, 0)):
            self.edges[start].append(len(self.heads))
            self.heads.append(end)
            self.room.append(room)

    def behind_the_cut(self) -> set[int]:
        """Fills the graph; the places on the sink's side of the cut."""
        while True:
            level = self._levels()
            if level[0] < 0:
                return {place for place, steps in enumerate(level) if steps >= 0}
            following = [0] * len(self.edges)
            while self._augment(level, following):
                pass

    def _levels(self) -> list[int]:
        """Steps to the sink along edges with room; -1 where there is no way."""
        level = [-1] * len(self.edges)
        level[1] = 0
        queue = deque([1])
        while queue:
            place = queue.popleft()
            for edge in self.edges[place]:
                before = self.heads[edge]
                if level[before] < 0 and self.room[edge ^ 1] > 0:
                    level[before] = level[place] + 1
                    queue.append(before)
        return level

    def _augment(self, level: list[int], following: list[int]) -> int:
        """What one more shortest path carries; ``following`` are edges not yet tried."""
        path: list[int] = []
        place = 0
        while place != 1:
            while following[place] < len(self.edges[place]):
                edge = self.edges[place][following[place]]
                if self.room[edge] > 0 and level[self.heads[edge]] == level[place] - 1:
                    path.append(edge)
                    place = self.heads[edge]
                    break
                following[place] += 1
            else:
                if not path:
                    return 0
                place = self.heads[path.pop() ^ 1]
                following[place] += 1
        most = min(self.room[edge] for edge in path)
        for edge in path:
            self.room[edge] -= most
            self.room[edge ^ 1] += most
        return most
