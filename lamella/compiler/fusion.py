"""Groups of statements that share outer loops and become one kernel each.

Input: statements in order. Output: groups in an order that respects every dependence. The rule: a
statement may join the group of a statement it reads if, for each outer loop, the read's index along
that loop is one plain variable of its own; then whatever it reads has been computed earlier in the
same iteration. So softmax, norms, losses and their derivatives become one pass over rows, and an
elementwise tail becomes part of the contraction that feeds it. Joining never makes a cycle: groups
keep the set of groups they depend on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lamella.compiler.across import across
from lamella.compiler.order import ordered
from lamella.compiler.statements import Statement
from lamella.ir.decisions import at_least
from lamella.ir.dim import Size, product
from lamella.ir.index import coefficient
from lamella.ir.loops import Expr, Var
from lamella.ir.node import Node

__all__ = ["Group", "fuse"]

PARALLEL = 16  # independent outer iterations that keep every worker busy
SMALL = 16384  # elements below which one worker does it all anyway
WHOLE = 4096  # elements below which a group may be a single iteration
ALONE = ("tiles", "kernel", "call")  # statements that begin a group of their own
CLOSED = ("kernel", "call", "across")  # groups that no other statement joins
ACROSS = 64  # elements apart from each other that are better read in another kernel
MOST = 24  # statements in one kernel: compile time grows with them


@dataclass(slots=True, eq=False)
class Group:
    """Statements in order; ``axes[s][q]`` is the axis of statement ``s`` that runs along outer loop
    ``q``.
    """

    number: int
    kind: str  # "loops", "tiles", "kernel" or "call"
    sizes: list[Size]
    members: list[Statement] = field(default_factory=list)
    axes: dict[Statement, tuple[int, ...]] = field(default_factory=dict)
    needs: int = 0  # bit set of the groups it depends on, directly or not
    folds: bool = False
    late: bool = False  # it computes again what was computed before, and so belongs after that
    origin: object = None  # the group whose statements those it began with compute again


class Fusion:
    """The greedy grouping: statements in order, each into the first group of its sources that takes
    it.
    """

    def __init__(
        self, statements: Sequence[Statement], outputs: Collection[Node] = (),
        offered: Mapping[Node, Node] | None = None,
    ) -> None:  # fmt: skip
        self.statements = statements
        self.outputs = outputs
        self.offered = offered
        self.groups: dict[int, Group] = {}
        self.of: dict[Node, Group] = {}
        # groups so far; merged ones are gone, but their numbers are never used again
        self._made = 0

    def run(self) -> list[Group]:
        """All groups, in dependence order."""
        for statement in self.statements:
            self._place(statement)
        return self._ordered()

    def _place(self, s: Statement) -> None:
        if s.kind in ALONE:
            self._new(s, s.kind, [])
            return
        if s.kind == "part":
            self._add(self.of[s.sources[0]], s, ())
            return
        if across(s) is not None:
            self._new(s, "across", s.wide)
            return
        candidates = list(dict.fromkeys(self.of[n] for n in s.sources if n in self.of))
        for group in sorted(candidates, key=lambda g: -g.number):
            if len(group.members) >= MOST or group.kind in CLOSED or self._cycle(group, s):
                continue
            if (s.late and not group.late) or _apart(s, group):
                continue
            plan = self._fit(group, s)
            if plan is not None:
                self._join(group, s, *plan)
                self._absorb(group, s, candidates)
                return
        beside = self._beside(s)
        if beside is None:
            self._new(s, "loops", s.wide)
        else:
            self._add(beside, s, tuple(s.wide))

    def _beside(self, s: Statement) -> Group | None:
        """A group with the loops of ``s`` that reads something ``s`` reads at the same places."""
        mine: dict[Node, set[object]] = {}
        for r in s.reads:
            places = _places(r.index, s, s.wide)
            if places is not None:
                mine.setdefault(r.node, set()).add(places)
        inside = {self.of[n] for n in s.sources if n in self.of}
        sizes = [s.node.shape[a] for a in s.wide]
        for group in reversed(self.groups.values()):
            if group.kind != "loops" or group.sizes != sizes or len(group.members) >= MOST:
                continue
            if not sizes or group.folds != (s.kind == "fold") or group.late != s.late:
                continue
            if group in inside or self._cycle(group, s) or _apart(s, group):
                continue
            if any(
                r.node in mine and _places(r.index, m, group.axes[m]) in mine[r.node]
                for m in group.members
                for r in m.reads
            ):
                return group
        return None

    def _new(self, s: Statement, kind: str, axes: list[int]) -> Group:
        sizes = [s.node.shape[a] for a in axes]
        group = Group(self._made, kind, sizes, late=s.late, origin=s.origin)
        self._made += 1
        self.groups[group.number] = group
        self._add(group, s, tuple(axes))
        return group

    def _add(self, group: Group, s: Statement, axes: tuple[int, ...]) -> None:
        group.members.append(s)
        group.axes[s] = axes
        group.folds = group.folds or s.kind == "fold"
        self.of[s.node] = group
        extra = 0
        for source in s.sources:
            other = self.of.get(source)
            if other is not None and other is not group:
                extra |= other.needs | 1 << other.number
        self._depend(group, extra)

    def _depend(self, group: Group, extra: int) -> None:
        if extra & ~group.needs:
            group.needs |= extra
            for other in self.groups.values():
                if other.needs >> group.number & 1:
                    other.needs |= extra

    def _cycle(self, group: Group, s: Statement) -> bool:
        """Whether something ``s`` reads, outside the group, depends on the group."""
        for source in s.sources:
            other = self.of.get(source)
            if other is not None and other is not group and other.needs >> group.number & 1:
                return True
        return False

    # -- does it fit -------------------------------------------------------------------------------
    def _fit(self, group: Group, s: Statement) -> tuple[list[int], tuple[int, ...]] | None:
        """The outer loops to keep (positions) and the axes of ``s`` that run along them; None if it
        must not join.
        """
        if group.kind == "tiles":
            same = s.kind == "map" and self._reads_in_place(group, s)
            return ([], ()) if same else None
        found = self._mapping(group, s)
        if found is None:
            return None
        keep = [q for q, axis in enumerate(found) if axis is not None]
        axes = tuple(axis for axis in found if axis is not None)
        if _strides(s, axes):
            return None
        if s.kind == "fold":
            return self._fit_fold(group, s, keep, axes)
        whole = bool(found) and len(keep) == len(found)
        # few rows would keep most workers from a large statement
        if whole and (
            len(axes) == len(s.wide)
            or _many(group.sizes)
            or (group.folds and _is_small(group, s, SMALL))
        ):
            return keep, axes
        return self._fit_whole(group, s)

    def _fit_fold(
        self, group: Group, s: Statement, keep: list[int], axes: tuple[int, ...]
    ) -> tuple[list[int], tuple[int, ...]] | None:
        if keep and sorted(axes) == s.wide:
            sizes = [group.sizes[q] for q in keep]
            shrinks = len(keep) < len(group.sizes)
            if not (shrinks and group.folds) and (_many(sizes) or _is_small(group, s, SMALL)):
                return keep, axes
        return self._fit_whole(group, s)

    def _fit_whole(self, group: Group, s: Statement) -> tuple[list[int], tuple[int, ...]] | None:
        """Into a group that is, or can become, a single iteration because all it does is small."""
        if s.kind == "fold" and s.wide:
            return None
        if not group.sizes:
            return ([], ()) if _is_small(None, s, WHOLE) else None
        if group.folds:
            return None
        return ([], ()) if _is_small(group, s, WHOLE) else None

    def _mapping(self, group: Group, s: Statement) -> list[int | None] | None:
        """For each outer loop of the group, the axis of ``s`` that every read of a member uses
        there.
        """
        found: list[int | None] = [None] * len(group.sizes)
        decided = [False] * len(group.sizes)
        for read in s.reads:
            if self.of.get(read.node) is not group:
                continue
            member = next(m for m in group.members if m.node is read.node)
            for q, axis in enumerate(group.axes[member]):
                index = read.index[axis]
                mine = s.out.index(index) if isinstance(index, Var) and index in s.out else None
                if mine is not None and s.node.shape[mine] != group.sizes[q]:
                    mine = None
                if decided[q] and found[q] != mine:
                    mine = None
                found[q], decided[q] = mine, True
        used = [axis for axis in found if axis is not None]
        return found if len(set(used)) == len(used) else None

    def _reads_in_place(self, group: Group, s: Statement) -> bool:
        return s.node.shape == group.members[0].node.shape and all(
            read.index == s.index for read in s.reads if self.of.get(read.node) is group
        )

    # -- joining -----------------------------------------------------------------------------------
    def _join(self, group: Group, s: Statement, keep: list[int], axes: tuple[int, ...]) -> None:
        if group.kind == "loops" and len(keep) < len(group.sizes):
            group.sizes = [group.sizes[q] for q in keep]
            group.axes = {m: tuple(a[q] for q in keep) for m, a in group.axes.items()}
        self._add(group, s, axes)

    def _absorb(self, group: Group, s: Statement, candidates: Sequence[Group]) -> None:
        """Groups of the other sources of ``s`` that run the same outer loops become one with its
        group.
        """
        for other in candidates:
            if other is group or other.kind != "loops" or group.kind != "loops":
                continue
            if other.sizes != group.sizes or len(other.members) + len(group.members) > MOST:
                continue
            if other.late != group.late or other.origin is not group.origin:
                continue
            mapping = self._mapping(other, s)
            if mapping is None or tuple(mapping) != group.axes[s] or self._between(group, other):
                continue
            self._merge(group, other)

    def _between(self, a: Group, b: Group) -> bool:
        """Whether a third group lies between the two, or they could not be one iteration."""
        for first, second in ((a, b), (b, a)):
            for member in second.members:
                for source in member.sources:
                    via = self.of.get(source)
                    if via is first and self._mapping(first, member) != list(second.axes[member]):
                        return True
                    if via is not None and via not in (a, b) and via.needs >> first.number & 1:
                        return True
        return False

    def _merge(self, group: Group, other: Group) -> None:
        del self.groups[other.number]
        for member in other.members:
            self.of[member.node] = group
        group.axes |= other.axes
        group.members = sorted(group.members + other.members, key=lambda m: m.number)
        group.folds = group.folds or other.folds
        mine, theirs = 1 << group.number, 1 << other.number
        needs = (group.needs | other.needs) & ~mine & ~theirs
        group.needs = needs
        for third in self.groups.values():
            if third is not group and third.needs & (mine | theirs):
                third.needs = third.needs & ~theirs | mine | needs

    def _ordered(self) -> list[Group]:
        """Groups, each after those it depends on."""
        return ordered(list(self.groups.values()), self.of, self.outputs, self.offered)


def _apart(s: Statement, group: Group) -> bool:
    """Whether a statement that computes again must not join: what was in several groups is needed
    at several times.
    """
    return s.origin is not None and s.origin is not group.origin


def _places(
    index: Sequence[Expr], s: Statement, axes: Sequence[int]
) -> tuple[tuple[tuple[int, Size], ...], ...] | None:
    """For each outer loop, where in an index its variable stands, and its steps there; None where
    it nowhere does.
    """
    steps = [[(p, coefficient(i, s.out[a])) for p, i in enumerate(index)] for a in axes]
    found = tuple(tuple((p, c) for p, c in loop if c is not None and c != 0) for loop in steps)
    return found if all(found) else None


def _strides(s: Statement, axes: tuple[int, ...]) -> bool:
    """Whether these outer loops leave a long inner one across memory: the last axis is one of them,
    such as channels of sums, and many elements are apart from each other.
    """
    inner = product(tuple(s.node.shape[a] for a in s.wide if a not in axes))
    last = bool(s.wide) and s.wide[-1] in axes
    return s.kind == "map" and last and at_least(inner, ACROSS, False)


def _many(sizes: Sequence[Size]) -> bool:
    return bool(sizes) and at_least(product(tuple(sizes)), PARALLEL, True)


def _elements(s: Statement) -> Size:
    return product(tuple(v.size for v in (*s.out, *s.reduce)))


def _is_small(group: Group | None, s: Statement, limit: int) -> bool:
    members = (*(group.members if group else ()), s)
    total = sum((_elements(member) for member in members), start=0)
    return not at_least(total, limit + 1, True)


def fuse(
    statements: Sequence[Statement], enabled: bool = True, outputs: Collection[Node] = (),
    offered: Mapping[Node, Node] | None = None,
) -> list[Group]:  # fmt: skip
    """The groups of ``statements``, in order; each statement alone where fusion is off.

    ``offered``: outputs that may be given the memory of an input, with the input.
    """
    fusion = Fusion(statements, outputs, offered)
    if enabled:
        return fusion.run()
    for s in statements:
        if s.kind in ALONE or s.kind == "part":
            fusion._place(s)
        else:
            fusion._new(s, "loops", s.wide)
    return fusion._ordered()
