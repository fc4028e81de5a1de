"""The schedule of elementwise results that are read across: square blocks transposed in registers.

Input: an elementwise statement. Output: its kernel's grid loop, for one that :func:`across` finds
to read along another axis than it stores. The axes that are contiguous in the result become one
variable ``u``, those contiguous in what is read another, ``j``; both may be several axes, such as
the channels and taps of a kernel. Blocks of ``SQUARE x SQUARE`` are loaded along j and stored along
u (``emit.llvm_transpose``); what is left at the edges is stored element by element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod

from lamella.compiler.convolution_plan import parts_of
from lamella.compiler.statements import Statement
from lamella.compiler.walk import extent_of
from lamella.ir.index import (
    Substitution,
    add,
    coefficient,
    constant,
    floordiv,
    linearise,
    minimum,
    mul,
    split_linear,
    sub,
)  # fmt: skip
from lamella.ir.loops import Const, Expr, For, Stmt, Store, Var
from lamella.ir.vectors import VectorUnit
from lamella.ir.walk import loads_of

__all__ = ["TransposeKernel", "across"]

LEAST = 2048  # elements from which blocks pay
ROWS = 64  # the most that j needs to hold
LONG = 512  # positions along j in a task: several lines of memory one after the other
PART = 32768  # elements of a task
MOST = 9  # squares written out one after the other


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of a result: contiguous in it, contiguous in what is read (in the order of memory
    there), and the others.
    """

    u: tuple[Var, ...]
    j: tuple[Var, ...]
    others: tuple[Var, ...]


class TransposeKernel:
    """Writes the kernel of one statement read across."""

    def __init__(self, statement: Statement, axes: Axes, unit: VectorUnit | None = None) -> None:
        self.statement, self.axes = statement, axes
        self.u, self.j = (prod(int(v.size) for v in vs) for vs in (axes.u, axes.j))
        self.work = 1
        self._u, self._j = Var("u", self.u), Var("j", self.j)
        self._place, self._element = self._in_terms_of(self._u, self._j)
        self.square = min(16, unit.lanes(statement.node.dtype)) if unit else 16

    def _in_terms_of(self, u: Var, j: Var) -> tuple[Expr, Expr]:
        """Where an element is stored, and its value."""
        s = self.statement
        variables: dict[Var, Expr] = {v: v for v in self.axes.others}
        for names, at in ((self.axes.u, u), (self.axes.j, j)):
            sizes = tuple(v.size for v in names)
            variables |= zip(names, split_linear(at, sizes), strict=True)
        index = tuple(variables.get(v, constant(0)) for v in s.out)
        value = Substitution(variables)(s.value or Const(0, s.node.dtype))
        return linearise(index, s.node.shape), value

    def _value(self, u: Expr, j: Expr, others: dict[Var, Expr]) -> tuple[Expr, Expr]:
        """Likewise, at a place. Axes become one variable before that is replaced: only so do
        quotients and remainders meet again.
        """
        at = Substitution({**others, self._u: u, self._j: j})
        return at(self._place), at(self._element)

    def store(self, u: Expr, j: Expr, others: dict[Var, Expr]) -> Store:
        """The store of one element."""
        return Store(self.statement.name, *self._value(u, j, others))

    def grid(self) -> For:
        """The kernel's grid loop: a task is some stretch of u and of j."""
        run = self.square * self._repeats()
        j_task = min(max(1, LONG // run) * run, parts_of(self.j, run) * run)
        u_task = max(self.square, min(parts_of(self.u, self.square) * self.square, PART // j_task))
        u_task -= u_task % self.square
        outer = (int(v.size) for v in self.axes.others)
        sizes = (*outer, parts_of(self.u, u_task), parts_of(self.j, j_task))
        self.work = u_task * j_task
        grid = Var("g", prod(sizes))
        at = [constant(0)] * len(sizes) if grid.extent == 1 else list(split_linear(grid, sizes))
        others = dict(zip(self.axes.others, at, strict=False))
        u = Stretch.of(self.u, u_task, at[-2], self.square)
        j = Stretch.of(self.j, j_task, at[-1], run)
        b, t = Var("b", extent_of(u.blocks)), Var("t", extent_of(j.blocks))
        q, i, k = Var("q", run // self.square), Var("i", self.square), Var("k", self.square)
        store = self.store(
            add(u.first, mul(b, self.square), i),
            add(j.first, mul(t, run), mul(q, self.square), k),
            others,
        )
        square = For(q, "unroll", (For(i, "unroll", (For(k, "lanes", (store,)),)),))
        body: list[Stmt] = [For(b, "serial", (For(t, "serial", (square,)),))]
        return For(grid, "grid", (*body, *self._rest(u, j, others)))

    def _repeats(self) -> int:
        """Squares after which j has the same place in its inner axes, such as taps: written out,
        their places are constants.
        """
        inner = prod(int(v.size) for v in self.axes.j[1:])
        found = inner // gcd(inner, self.square)
        return found if found <= MOST and self.j % (found * self.square) == 0 else 1

    def _rest(self, u: Stretch, j: Stretch, others: dict[Var, Expr]) -> list[Stmt]:
        """Rows beyond the last block along u, and columns beyond the last along j."""
        body: list[Stmt] = []
        more, left = extent_of(sub(u.count, u.done)), extent_of(sub(j.count, j.done))
        if more != 0:
            few, all_j = Var("f", more), Var("r", extent_of(j.count))
            store = self.store(add(u.first, u.done, few), add(j.first, all_j), others)
            body.append(For(few, "serial", (For(all_j, "lanes", (store,)),)))
        if left != 0:
            few, some_u = Var("s", left), Var("x", extent_of(u.done))
            store = self.store(add(u.first, some_u), add(j.first, j.done, few), others)
            body.append(For(few, "serial", (For(some_u, "lanes", (store,)),)))
        return body


@dataclass(frozen=True, slots=True)
class Stretch:
    """A task's part of an axis: where it begins, how long it is, and how much whole blocks take."""

    first: Expr
    count: Expr
    blocks: Expr
    done: Expr

    @classmethod
    def of(cls, whole: int, task: int, number: Expr, block: int) -> Stretch:
        """Part ``number`` of an axis cut into parts of ``task``."""
        first = mul(number, task)
        even = whole % task == 0
        count = constant(task) if even else minimum(task, sub(whole, first))
        blocks = constant(task // block) if even else floordiv(count, block)
        return cls(first, count, blocks, mul(blocks, block))


def across(s: Statement) -> Axes | None:
    """The axes of a statement that is read across; None for all others."""
    known = all(isinstance(size, int) for size in s.node.shape)
    if s.kind != "map" or s.value is None or not known or s.node.dtype.itemsize < 4:
        return None
    if int(s.node.size) < LEAST:
        return None
    axes = _axes(s)
    return axes if axes is not None and _crosses(TransposeKernel(s, axes)) else None


def _axes(s: Statement) -> Axes | None:
    """The axes by the first load that is contiguous along another axis than the result."""
    out = [v for v in s.out if v.extent != 1]
    for load in loads_of(s.value) if s.value is not None else ():
        steps = {v: coefficient(load.index, v) for v in out}
        first = next((v for v in out if steps[v] == 1), None)
        if first is None or first is out[-1]:
            continue
        j = _run(first, steps, out)
        u: list[Var] = []
        for v in reversed(out):
            if v in j:
                break
            u.insert(0, v)
        others = tuple(v for v in out if v not in u and v not in j)
        return Axes(tuple(u), tuple(j), others)
    return None


def _run(first: Var, steps: Mapping[Var, object], out: Sequence[Var]) -> list[Var]:
    """Axes that follow each other in memory, from the innermost outwards, until they are long
    enough; outermost first.
    """
    run, total = [first], int(first.size)
    while total < ROWS:
        following = next((v for v in out[:-1] if steps[v] == total and v not in run), None)
        if following is None:
            break
        run.insert(0, following)
        total *= int(following.size)
    return run


def _crosses(kernel: TransposeKernel) -> bool:
    """Whether all that is read is contiguous or constant along j, something not along u."""
    if kernel.j < 8 or kernel.u < 8:
        return False
    u, j = Var("probe_u", kernel.u), Var("probe_j", kernel.j)
    others = {v: Var(f"probe_{v.name}", v.extent) for v in kernel.axes.others}
    _, value = kernel._value(u, j, dict(others))
    along = [(coefficient(e.index, j), coefficient(e.index, u)) for e in loads_of(value)]
    return all(step in (0, 1) for step, _ in along) and any(
        step == 1 and other not in (0, 1) for step, other in along
    )
