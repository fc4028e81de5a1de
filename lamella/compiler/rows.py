"""Loop nests for groups of elementwise statements and reductions: one pass over the shared outer
loops.

Input: a group of kind "loops" and the nodes that other kernels need. Output: the grid loop of its
kernel. In each outer iteration the members run as a sequence of nests; members with the same inner
extents share one nest, so that a value is used from a register where it is made. A reduction's
result is a variable; a row that a later nest needs is kept in local scratch. Lanes run along the
innermost inner loop, or along an outer loop where memory is contiguous there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from lamella.compiler.ahead import ahead
from lamella.compiler.blocks import (
    ROWS,
    STRIP,
    Frame,
    collapse,
    crossing,
    frame,
    lane_cost,
    load_indices,
    merged,
    no_dearer,
)  # fmt: skip
from lamella.compiler.columns import NARROW, OPS, WIDE, Column, columns
from lamella.compiler.fusion import PARALLEL, Group
from lamella.compiler.mathlib.expand import FUNCTIONS
from lamella.compiler.statements import Statement
from lamella.compiler.walk import operations
from lamella.compiler.windows import in_turn
from lamella.dtypes import DType, int64
from lamella.ir.decisions import at_least
from lamella.ir.dim import Size, ceildiv, product
from lamella.ir.index import Substitution, add, coefficient, linearise, mul
from lamella.ir.loops import (
    Accumulate,
    Alloc,
    Apply,
    Const,
    Declare,
    Expr,
    For,
    Load,
    Read,
    Stmt,
    Store,
    Var,
    cast,
)  # fmt: skip
from lamella.ir.node import Node
from lamella.ir.walk import expressions

__all__ = ["Rows"]

Item = TypeVar("Item")

SCRATCH = 192 * 1024  # bytes of local rows of all lanes, where lanes run along an outer loop
BESIDE = 4  # iterations that are written out inside the lanes
AGAIN = 2  # operations that cost less than a row's stores
KEPT = 512 * 1024  # bytes of local rows in one kernel: what a second-level cache may hold


@dataclass(slots=True)
class Entry:
    """A member placed in a nest: its value there, and where else it is kept."""

    statement: Statement
    inner: tuple[Var, ...]  # its own inner axes in order, as variables of the nest
    value: Expr
    second: Expr | None
    stored: bool  # in its buffer
    scratch: str | None = None  # in a local row
    again: bool = False  # computed again where it is read


@dataclass(slots=True)
class Nest:
    """Inner loops that run one after the other in an outer iteration; no variables: values made
    once per iteration.
    """

    variables: tuple[Var, ...]
    entries: list[Entry] = field(default_factory=list)


class Rows:
    """Writes one group's kernel. ``temporaries``: members that need a buffer though no other kernel
    reads them.
    """

    def __init__(self, group: Group, needed: set[Node]) -> None:
        self.group = group
        self.needed = needed
        self.temporaries: set[Node] = set()
        self.work: Size = 1
        self._outer = tuple(Var(f"o{q}", size) for q, size in enumerate(group.sizes))
        self._nests: list[Nest] = []
        self._place: dict[Node, tuple[int, Entry]] = {}
        self._reread: set[str] = set()  # scratch rows that a later nest reads
        self._scratch: Size = 0  # bytes of rows that are in local scratch, or could be
        self._read_inside = {read.node for s in group.members for read in s.reads}

    def grid(self) -> For:
        """The kernel's grid loop."""
        for statement in self.group.members:
            self._enter(statement)
        return ahead(self._write())

    # -- placing members in nests ------------------------------------------------------------------
    def _inner_of(self, s: Statement, per_axis: Sequence[Item]) -> tuple[Item, ...]:
        taken = self.group.axes[s]
        return tuple(per_axis[axis] for axis in s.wide if axis not in taken)

    def _enter(self, s: Statement) -> None:
        inner = (*self._inner_of(s, s.out), *s.reduce)
        at = self._nest_for(s, inner)
        nest = self._nests[at]
        variables: dict[Var, Expr] = {
            s.out[a]: self._outer[q] for q, a in enumerate(self.group.axes[s])
        }
        variables |= dict(zip(inner, nest.variables, strict=True))
        loads = {read.load: read.index for read in s.reads if read.node in self._place}
        nodes = {read.load: read.node for read in s.reads if read.node in self._place}

        def load(old: Load, new: Load) -> Expr:
            if old not in nodes:
                return new
            return self._inside(nodes[old], tuple(rewrite(i) for i in loads[old]), at, new)

        rewrite = Substitution(variables, load)
        second = None if s.second is None else rewrite(s.second)
        value = Const(0, s.node.dtype) if s.value is None else rewrite(s.value)
        count = len(inner) - len(s.reduce)
        entry = Entry(s, nest.variables[:count], value, second, s.node in self.needed)
        if s.kind == "map" and inner and not entry.stored and s.node in self._read_inside:
            self._keep(entry)
        nest.entries.append(entry)
        self._place[s.node] = (at, entry)

    def _nest_for(self, s: Statement, inner: tuple[Var, ...]) -> int:
        extents = tuple(v.size for v in inner)
        earliest = 0
        for read in s.reads:
            if read.node in self._place:
                at, entry = self._place[read.node]
                in_step = entry.statement.kind == "map" and (
                    self._inner_of(entry.statement, read.index) == inner
                )
                earliest = max(earliest, at if in_step else at + 1)
        for at in range(earliest, len(self._nests)):
            if tuple(v.size for v in self._nests[at].variables) == extents:
                return at
        number = len(self._nests)
        self._nests.append(Nest(tuple(Var(f"i{number}_{d}", e) for d, e in enumerate(extents))))
        return number

    def _keep(self, entry: Entry) -> None:
        """Room for a row that a later nest may read: local scratch, or a buffer where it is large
        or of unknown size; none for what costs no more to compute again.
        """
        if _is_cheap(entry):
            entry.again = True
            return
        size = product(tuple(v.size for v in entry.inner))
        node = entry.statement.node
        room = self._scratch + size * node.dtype.itemsize
        fits = not at_least(room, KEPT + 1, True)
        if fits:
            self._scratch = room
        if fits and isinstance(size, int):
            entry.scratch = f"r{len(self._place)}"
        else:
            entry.stored = True
            self.temporaries.add(node)

    def _inside(self, node: Node, index: tuple[Expr, ...], at: int, new: Load) -> Expr:
        """What a read of a member becomes: a register, a variable, a scratch row, or memory."""
        where, entry = self._place[node]
        s = entry.statement
        if s.kind == "fold":
            return _masked(cast(Read(_folded(s), _carrier(s)), node.dtype), new)
        inner = self._inner_of(s, index)
        if not entry.inner or (where == at and inner == entry.inner):
            return _masked(entry.value, new)
        if entry.again:
            there = Substitution(dict(zip(entry.inner, inner, strict=True)))
            return _masked(there(entry.value), new)
        if entry.scratch is None:
            return new
        self._reread.add(entry.scratch)
        row = linearise(inner, tuple(v.size for v in entry.inner))
        return Load(entry.scratch, row, new.dtype, new.mask, new.other)

    # -- writing -----------------------------------------------------------------------------------
    def _index(self, entry: Entry) -> Expr:
        """Where the member's element lies in its buffer."""
        s = entry.statement
        inner = iter(entry.inner)
        outer = {a: self._outer[q] for q, a in enumerate(self.group.axes[s])}
        index = tuple(
            outer[a] if a in outer else i if isinstance(i, Const) else next(inner)
            for a, i in enumerate(s.index)
        )
        return linearise(index, s.node.shape)

    def _roots(self, nest: Nest) -> list[Expr]:
        found: list[Expr] = []
        for entry in nest.entries:
            found.append(entry.value)
            if entry.second is not None:
                found.append(entry.second)
            if entry.stored or entry.scratch in self._reread:
                found.append(
                    Load(entry.statement.name, self._index(entry), entry.statement.node.dtype)
                )
        return found

    def _write(self) -> For:
        roots = [root for nest in self._nests for root in self._roots(nest)]
        outer, old = merged(collapse(self._outer, roots))
        settled = Substitution(old)
        inner: list[list[Var]] = []
        for nest in self._nests:
            variables, more = merged(collapse(nest.variables, self._roots(nest)))
            old.update(more)
            inner.append(variables)
        roots = [settled(root) for root in roots]
        lane = self._lane(outer, inner, roots)
        if lane is not None and self._are_columns(outer, lane):
            return self._columns(outer, lane, inner[0], Substitution(old))
        plain = lane is not None and not any(inner) and not self.group.folds
        row = crossing(outer, lane, load_indices(roots)) if plain else None
        beside = self._beside(outer, lane, settled) if plain and row is None else None
        shape = frame([v for v in outer if v is not beside], lane, any(inner), row)
        # merged loops first: only in terms of one variable do quotients and remainders meet again
        whole = Substitution(old)
        cut = Substitution(shape.variables, lambda _, new: _strip_row(new, shape))

        body = self._allocs(shape)
        statements: list[Stmt] = []
        for turn in _turns(beside):

            def finish(value: Expr, turn: Substitution = turn) -> Expr:
                return cut(turn(whole(value)))

            for nest, variables in zip(self._nests, inner, strict=True):
                statements += self._nest(nest, variables, shape, finish)
        if shape.lane is not None:
            statements = [For(shape.lane, "lanes", tuple(statements))]
        self.work = self._estimate() * shape.block * (1 if beside is None else beside.size)
        if shape.row is not None:
            statements = [For(shape.row, "serial", tuple(statements))]
            self.work = self.work * ROWS
        return For(shape.grid, "grid", (*body, *statements))

    def _beside(
        self, outer: Sequence[Var], lane: Var | None, settled: Substitution
    ) -> Var | None:
        """The short loop along which results are contiguous where the lanes step over it, as in a
        stack of few: its iterations run side by side, so that a line of memory is written at once.
        """
        entries = [entry for nest in self._nests for entry in nest.entries if entry.stored]
        places = [settled(self._index(entry)) for entry in entries]
        for v in outer:
            if lane is None or v is lane or not isinstance(v.extent, int) or v.extent > BESIDE:
                continue
            steps = [(coefficient(place, v), coefficient(place, lane)) for place in places]
            if all(step == (1, v.extent) for step in steps):
                return v
        return None

    def _are_columns(self, outer: Sequence[Var], lane: Var) -> bool:
        """Whether all this does is to sum over rows, with columns and tasks enough."""
        entries = [entry for nest in self._nests for entry in nest.entries]
        simple = all(e.statement.fold and e.statement.fold[0] in OPS for e in entries)
        if not simple or len(self._nests) > 1 or not at_least(lane.size, NARROW + 1, False):
            return False
        tasks = product(tuple(v.size for v in outer if v is not lane)) * ceildiv(lane.size, WIDE)
        return at_least(tasks, PARALLEL, True)

    def _columns(
        self, outer: Sequence[Var], lane: Var, over: Sequence[Var], settled: Substitution
    ) -> For:
        shape = frame(outer, lane, True, strip=WIDE)
        cut = Substitution(shape.variables)
        found = []
        for entry in self._nests[0].entries:
            s = entry.statement
            identity = s.fold[1] if s.fold is not None else Const(0, s.node.dtype)
            value, index = (cut(settled(e)) for e in (entry.value, self._index(entry)))
            op = s.fold[0] if s.fold is not None else "add"
            found.append(Column(_folded(s), op, identity, value, s.name, index, s.node.dtype))
        self.work = self._estimate() * shape.block
        inside = columns(found, shape.lane or lane, shape.block, over)
        return For(shape.grid, "grid", tuple(inside))

    def _lane(self, outer: list[Var], inner: list[list[Var]], roots: list[Expr]) -> Var | None:
        """The outer loop that lanes run along, or None where they run along the inner loops. Of
        equal costs the outer loop's: its folds need no sum across lanes.
        """
        indices = load_indices(roots)
        best, cost = None, 0.0
        for v in reversed(outer):
            own = lane_cost(v, indices)
            if best is None or not no_dearer(best, cost, v, own):
                best, cost = v, own
        last = [variables[-1] for variables in inner if variables]
        if best is None or not last:
            return best
        inside = [(v, lane_cost(v, [i for i in indices if coefficient(i, v) != 0])) for v in last]
        turns = any(map(in_turn, self.group.members))
        if not turns and not any(no_dearer(best, cost, v, own) for v, own in inside):
            return None
        return None if at_least(self._scratch, SCRATCH // STRIP + 1, False) else best

    def _allocs(self, shape: Frame) -> list[Stmt]:
        result: list[Stmt] = []
        for nest in self._nests:
            for entry in nest.entries:
                if entry.scratch in self._reread and entry.scratch is not None:
                    size = product(tuple(v.size for v in entry.inner))
                    dtype = entry.statement.node.dtype
                    result.append(
                        Alloc(entry.scratch, dtype, max(1, int(size) * shape.block), "local")
                    )
        return result

    def _nest(
        self, nest: Nest, variables: list[Var], shape: Frame, finish: Callable[[Expr], Expr]
    ) -> list[Stmt]:
        before: list[Stmt] = []
        inside: list[Stmt] = []
        after: list[Stmt] = []
        for entry in nest.entries:
            s = entry.statement
            value = finish(entry.value)
            if s.kind == "fold":
                before.extend(_declare(s))
                inside.append(_accumulate(s, value, entry.second and finish(entry.second)))
                value = cast(Read(_folded(s), _carrier(s)), s.node.dtype)
            if entry.stored:
                store = Store(s.name, finish(self._index(entry)), value)
                (after if s.kind == "fold" else inside).append(store)
            if entry.scratch in self._reread and entry.scratch is not None:

                row = linearise(entry.inner, tuple(v.size for v in entry.inner))
                place = _strip_row(Load(entry.scratch, finish(row), s.node.dtype), shape)
                inside.append(Store(entry.scratch, place.index, value))
        if not inside:
            return []
        loops = tuple(inside)
        for depth, var in enumerate(reversed(variables)):
            lanes = depth == 0 and shape.lane is None
            loops = (For(var, "lanes" if lanes else "serial", loops),)
        return [*before, *loops, *after]

    def _estimate(self) -> Size:
        total: Size = 4
        for nest in self._nests:
            count = product(tuple(v.size for v in nest.variables))
            total = total + count * sum(operations([e.value]) for e in nest.entries)
        return total


def _turns(loop: Var | None) -> list[Substitution]:
    """The iterations of a loop that is written out, if there is one."""
    if loop is None:
        return [Substitution({})]
    return [Substitution({loop: Const(i, int64)}) for i in range(int(loop.size))]


def _strip_row(load: Load, shape: Frame) -> Load:
    """A scratch row holds one element a lane where lanes run along an outer loop."""
    if shape.lane is None or not load.buffer.startswith("r"):
        return load
    index = add(mul(load.index, shape.block), shape.lane)
    return Load(load.buffer, index, load.dtype, load.mask, load.other)


def _is_cheap(entry: Entry) -> bool:
    """Whether computing a row's elements again takes one load, like reading them, and at most two
    operations. A row whose elements are all the same is read, which checks the index.
    """
    inner = set(entry.inner)
    varying = [e for e in expressions([entry.value]) if not inner.isdisjoint(expressions([e]))]
    loads = sum(isinstance(e, Load) for e in varying)
    applied = [e for e in varying if isinstance(e, Apply)]
    few = loads <= 1 and len(applied) <= AGAIN
    return bool(varying) and few and not any(e.op in FUNCTIONS for e in applied)


def _masked(value: Expr, like: Load) -> Expr:
    """A value from a register where a masked load would have been."""
    if like.mask is None:
        return value
    other = like.other or Const(False if value.dtype.kind == "b" else 0, value.dtype)
    return Apply("select", (like.mask, value, other), value.dtype)


def _folded(s: Statement) -> str:
    return f"f{s.number}"


def _carrier(s: Statement) -> DType:
    """The type a reduction is carried in; argmax and argmin carry an index."""
    if s.fold is None or s.second is not None:
        return int64
    return s.fold[1].dtype


def _declare(s: Statement) -> list[Stmt]:
    if s.fold is None:
        return []
    identity = s.fold[1]
    if s.second is None:
        return [Declare(_folded(s), identity.dtype, identity)]
    return [
        Declare(f"{_folded(s)}_best", identity.dtype, identity),
        Declare(_folded(s), int64, Const(0, int64)),
    ]


def _accumulate(s: Statement, value: Expr, second: Expr | None) -> Stmt:
    op = s.fold[0] if s.fold is not None else "add"
    if second is None:
        return Accumulate((_folded(s),), op, (value,))
    return Accumulate((f"{_folded(s)}_best", _folded(s)), op, (value, second))
