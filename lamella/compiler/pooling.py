"""The schedule of folds over windows (pooling): along rows first, then along the last axis.

Input: a group whose first member is a fold over windows, followed by elementwise statements on its
result. Output: its kernel's grid loop. For each row of places the windows' rows are folded into a
row of scratch, which has the fold's identity where the image is padded; the results are folds of
neighbours in it. A window of 5 × 5 takes 10 steps instead of 25, lanes run along contiguous memory,
and no load has a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from lamella.compiler.convolution_base import maximum
from lamella.compiler.convolution_plan import parts_of
from lamella.compiler.fusion import Group
from lamella.compiler.statements import Statement
from lamella.compiler.tail import stores
from lamella.compiler.walk import extent_of
from lamella.compiler.windows import Axis, Windows, windows
from lamella.ir.dim import Size, product
from lamella.ir.index import (
    TRUE,
    Substitution,
    add,
    both,
    coefficient,
    constant,
    linearise,
    lt,
    minimum,
    mul,
    split_linear,
    sub,
)  # fmt: skip
from lamella.ir.loops import (
    Accumulate,
    Alloc,
    Const,
    Declare,
    Expr,
    For,
    If,
    Load,
    LoopKind,
    Read,
    Stmt,
    Store,
    Var,
)  # fmt: skip
from lamella.ir.node import Node
from lamella.ir.walk import expressions, roots, statements

__all__ = ["ROOM", "TASKS", "WRITTEN", "PoolingKernel", "folded", "in_any_order", "pooling"]

TASKS = 16
APART = 4  # taps that places are apart, along the lanes
SMALL = 16384  # positions that one worker goes over
ROOM = 256 * 1024  # bytes of a row of scratch
WRITTEN = 32  # taps of the rows of a window that are written out
ROW = "row"  # the name of the scratch
Body = Callable[[Expr, dict[Var, Expr]], tuple[Stmt, ...]]


def pooling(group: Group, needed: set[Node]) -> PoolingKernel | None:
    """The writer of a group that this schedule takes; None for all others."""
    first = group.members[0]
    if first.fold is None or not in_any_order(*first.fold):
        return None
    found = folded(group)
    if found is None:
        return None
    size = found.last.positions * found.width * first.fold[1].dtype.itemsize
    pays = size <= ROOM and _pays(found)
    return PoolingKernel(group, found, needed) if pays else None


def folded(group: Group) -> Windows | None:
    """The windows that a group's first member folds, where all others follow it in place."""
    if group.kind != "loops" or not all(_in_place(m, group) for m in group.members[1:]):
        return None
    return windows(group.members[0])


def in_any_order(op: str, identity: Const) -> bool:
    """Whether a fold has the same bits in every order, as that of a program with open sizes."""
    return op in ("max", "min", "and", "or") or identity.dtype.kind != "f"


def _pays(found: Windows) -> bool:
    """Whether rows of scratch help: windows overlap, reach over rows or out of the image; lanes
    find neighbours in them; and there are tasks enough.
    """
    last, rows = found.last, found.rows
    if (not rows and last.unpadded and last.step >= last.taps) or (
        found.width == 1 and last.step > APART
    ):
        return False
    tasks = product(tuple(v.size for v in found.outer)) * prod(axis.places for axis in rows)
    if not isinstance(tasks, int):
        return True
    return tasks >= TASKS or last.positions * found.width * tasks <= SMALL


def _in_place(member: Statement, group: Group) -> bool:
    """Whether a member is an elementwise statement on results at the same place."""
    inside = {m.node for m in group.members}
    same = member.kind == "map" and member.node.shape == group.members[0].node.shape
    return same and all(r.index == member.index for r in member.reads if r.node in inside)


class PoolingKernel:
    """Writes the kernel of one fold over windows with its tail."""

    def __init__(self, group: Group, found: Windows, needed: set[Node]) -> None:
        self.group, self.windows, self.needed = group, found, needed
        self.first = group.members[0]
        if self.first.fold is None:
            raise TypeError(f"{self.first.node.op.name} is no fold")
        self.op, self.identity = self.first.fold
        self.work: Size = 1

    def grid(self) -> For:
        """The kernel's grid loop: a task is some rows of places."""
        found = self.windows
        outer = [*found.outer, *(axis.place for axis in found.rows[:-1])]
        sizes = [v.size for v in outer]
        rows = found.rows[-1].places if found.rows else 1
        many = product(tuple(sizes))
        strip = max(1, min(rows, many * rows // TASKS)) if isinstance(many, int) else rows
        taps = prod(axis.taps for axis in found.rows) + found.last.taps
        self.work = strip * found.last.positions * found.width * taps // 4 + 1
        sizes.append(parts_of(rows, strip))
        grid = Var("g", product(tuple(sizes)))
        at = [constant(0)] * len(sizes) if grid.extent == 1 else split_linear(grid, tuple(sizes))
        where: dict[Var, Expr] = dict(zip(outer, at, strict=False))
        start = mul(at[-1], strip)
        row = Var("y", extent_of(minimum(strip, sub(rows, start))))
        if found.rows:
            where[found.rows[-1].place] = add(start, row)
        scratch = Alloc(ROW, self.identity.dtype, found.last.positions * found.width, "local")
        body = For(row, "serial", (*self._rows(where), *self._results(where)))
        return For(grid, "grid", (scratch, *self._around(), body))

    # -- the row of scratch ------------------------------------------------------------------------
    def _around(self) -> list[Stmt]:
        """The identity where the last axis is padded."""
        last, width = self.windows.last, self.windows.width
        body: list[Stmt] = []
        for name, first, end in (("b", 0, last.low), ("e", last.high, last.positions)):
            if first < end:
                lane = Var(f"p{name}", (end - first) * width)
                store = Store(ROW, add(lane, first * width), self.identity)
                body.append(For(lane, "lanes", (store,)))
        return body

    def _rows(self, where: dict[Var, Expr]) -> list[Stmt]:
        """The windows' rows folded: all taps written out where they are inside the image."""
        rows = self.windows.rows
        few = prod(axis.taps for axis in rows) <= WRITTEN
        inside: Expr = TRUE
        for axis in rows:
            if not axis.unpadded:
                at = mul(where[axis.place], axis.step)
                inside = both(inside, lt(axis.low - 1, at))
                inside = both(inside, lt(at, axis.high - axis.taps + 1))
        whole = [(constant(0), constant(axis.taps)) for axis in rows]
        kind: LoopKind = "unroll" if few else "serial"
        plain = self._folded(where, whole, kind, "i")
        if inside == TRUE:
            return plain
        part = [self._met(axis, where[axis.place]) for axis in rows]
        return [If(inside, tuple(plain), tuple(self._folded(where, part, "serial", "o")))]

    def _met(self, axis: Axis, place: Expr) -> tuple[Expr, Expr]:
        """The first tap that meets the image, and after the last one."""
        at = mul(place, axis.step)
        first = maximum(sub(axis.low, at), constant(0))
        return first, minimum(axis.taps, sub(axis.high, at))

    def _folded(
        self, where: dict[Var, Expr], taps: Sequence[tuple[Expr, Expr]], kind: LoopKind, name: str
    ) -> list[Stmt]:
        """A pass over positions of the last axis, which folds the taps of the other axes."""
        last, width = self.windows.last, self.windows.width
        loops: list[Var] = []
        at = dict(where)
        for number, (axis, (first, end)) in enumerate(zip(self.windows.rows, taps, strict=True)):
            extent = extent_of(maximum(sub(end, first), constant(0)))
            loops.append(Var(f"k{name}{number}", extent))
            at[axis.tap] = add(first, loops[-1])
        at[last.place] = constant(0)

        def body(position: Expr, inner: dict[Var, Expr]) -> tuple[Stmt, ...]:
            place = Substitution({**at, last.tap: add(position, last.low), **inner})
            fold: Stmt = Accumulate((f"f{name}",), self.op, (place(self.windows.value),))
            for loop in reversed(loops):
                fold = For(loop, kind, (fold,))
            to = add(mul(add(position, last.low), width), self.lane_of(inner))
            read = Read(f"f{name}", self.identity.dtype)
            return (Declare(read.name, read.dtype, self.identity), fold, Store(ROW, to, read))

        return [self.along(last.high - last.low, f"x{name}", body)]

    # -- the results -------------------------------------------------------------------------------
    def _results(self, where: dict[Var, Expr]) -> list[Stmt]:
        last, width = self.windows.last, self.windows.width
        tap = Var("k", last.taps)

        def body(place: Expr, inner: dict[Var, Expr]) -> tuple[Stmt, ...]:
            at = add(mul(place, last.step * width), mul(tap, width), self.lane_of(inner))
            read = Read("f", self.identity.dtype)
            fold = Accumulate(("f",), self.op, (Load(ROW, at, read.dtype),))
            stores = self.stored(read, {**where, last.place: place, **inner})
            loop = For(tap, "unroll", (fold,))
            return (Declare("f", read.dtype, self.identity), loop, *stores)

        return [self.along(last.places, "r", body)]

    def lane_of(self, inner: dict[Var, Expr]) -> Expr:
        """An element's number among those of a position."""
        sizes = tuple(v.size for v in self.windows.inner)
        return linearise(tuple(inner[v] for v in self.windows.inner), sizes)

    def stored(self, total: Expr, where: dict[Var, Expr]) -> list[Stmt]:
        """The stores of a result, and of what is computed from it."""
        index = tuple(where.get(v, constant(0)) for v in self.first.out)
        return stores(self.group.members, self.needed, total, index)

    def along(self, count: int, name: str, body: Body) -> For:
        """The body for ``count`` positions and all inner axes, with lanes along both if memory has
        them one after the other.
        """
        inner, width = self.windows.inner, self.windows.width
        sizes = tuple(v.size for v in inner)
        lane = Var(name, count * width)
        position, *rest = split_linear(lane, (count, *sizes))
        flat = For(lane, "lanes", body(position, dict(zip(inner, rest, strict=True))))
        if not inner or _follows(flat):
            return flat
        outer, lane = Var(f"{name}p", count), Var(name, width)
        rest = list(split_linear(lane, sizes))
        lanes = For(lane, "lanes", body(outer, dict(zip(inner, rest, strict=True))))
        return For(outer, "serial", (lanes,))


def _follows(loop: For) -> bool:
    """Whether everything that a loop reads or stores follows each other, or stays the same."""
    given = [e for s in statements(loop.body) for e in roots(s)]
    indices = [e.index for e in expressions(given) if isinstance(e, Load)]
    indices += [s.index for s in statements(loop.body) if isinstance(s, Store)]
    return all(coefficient(index, loop.var) in (0, 1) for index in indices)
