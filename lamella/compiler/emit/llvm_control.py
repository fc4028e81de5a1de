"""Loops and branches as LLVM text: blocks, phis, and what stays inside them.

Input: a way to write the body. Output: text in the innermost scope. A loop tests its condition at
the end, behind a guard where it may be empty, so that what is moved out of it runs only if the loop
does. Every variable a loop or branch assigns gets a phi.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lamella.compiler.emit.llvm_builder import Builder, Scope, Value, scalar_type, vtype
from lamella.compiler.emit.llvm_expr import ExpressionWriter
from lamella.compiler.emit.llvm_memory import Memory
from lamella.compiler.emit.llvm_ops import Operations
from lamella.compiler.emit.llvm_variables import Variables
from lamella.dtypes import int64
from lamella.ir.loops import Accumulate, Assign, Expr, For, If, Read, Store
from lamella.ir.walk import expressions, roots

__all__ = ["Control"]

Body = Callable[[Value], None]


class Control:
    """Writes the loops and branches of one function."""

    def __init__(
        self, b: Builder, o: Operations, m: Memory, v: Variables, e: ExpressionWriter
    ) -> None:
        self.b, self.o, self.m, self.v, self.e = b, o, m, v, e
        self.lane_declared: frozenset[str] = frozenset()  # variables of the lanes loop under way
        self._known: dict[int, tuple[set[str], set[str], set[str]]] = {}

    def effects(self, stmt: For | If) -> tuple[set[str], set[str], set[str]]:
        """Variables a statement assigns, buffers it stores to, variables it reads."""
        found = self._known.get(id(stmt))
        if found is None:
            assigned: set[str] = set()
            stored: set[str] = set()
            read: set[str] = set()
            all_three = assigned, stored, read
            exprs: list[Expr] = []
            for inner in stmt.body if isinstance(stmt, For) else stmt.then + stmt.otherwise:
                exprs += roots(inner)
                if isinstance(inner, For | If):
                    for mine, theirs in zip(all_three, self.effects(inner), strict=True):
                        mine |= theirs
                elif isinstance(inner, Assign):
                    assigned.add(inner.name)
                elif isinstance(inner, Accumulate):
                    assigned.update(inner.names)
                elif isinstance(inner, Store):
                    stored.add(inner.buffer)
            read.update(e.name for e in expressions(exprs) if isinstance(e, Read))
            found = self._known[id(stmt)] = all_three
        return found

    def carried(self, assigned: set[str]) -> list[str]:
        """The names that a loop or branch assigning these variables carries; in a lanes loop, only
        what it touches. A variable that is folded together with another settles with it.
        """
        partials = self.v.partials
        wide = assigned.union(*(partials[n][0] for n in assigned & partials.keys()))
        names = [n for n in self.v.values if n.partition("@")[0] in wide]
        lanes = self.m.lanes
        if not lanes:
            return names
        folded = {
            n
            for n in self.v.partials
            if f"{n}@{lanes}" in self.v.values and n not in self.lane_declared
        }
        return [n for n in names if n.endswith(f"@{lanes}") or ("@" not in n and n not in folded)]

    def loop(
        self,
        first: Value,
        stop: Value,
        step: int,
        stmt: For,
        body: Callable[[Value], None],
        *,
        nonempty: bool,
    ) -> None:
        """A loop of ``body`` from ``first`` below ``stop``; the condition stands at the end,
        guarded before if need be.
        """
        assigned, stored, read = self.effects(stmt)
        self.v.settle(read)
        carried = self.carried(assigned)
        before = {n: self.v.values[n] for n in carried}
        condition = None if nonempty else self.o.compare("icmp slt", first, stop)
        mark = self.e.mark()
        if condition is not None:
            self.b.open(self.b.fresh("some"), holds_loads=True)
        self._loop_body(first, stop, step, carried, stored, body)
        if condition is not None:
            guard = self.b.close()
            self.join(condition, [(guard, dict(self.v.values)), (None, before)], carried)
        self.e.restore(mark)
        self.m.written(stored)
        self.e.forget()

    def _loop_body(
        self,
        first: Value,
        stop: Value,
        step: int,
        carried: list[str],
        stored: set[str],
        body: Callable[[Value], None],
    ) -> None:
        """The loop proper, run at least once."""
        head = self.b.fresh("loop")
        index = Value("%" + self.b.fresh("i"), int64, 0, self.b.depth + 1)
        start = {n: self.v.values[n] for n in carried}
        self.b.open(head)
        place = self.b.depth
        for n in carried:
            self.v.values[n] = Value("%" + self.b.fresh("x"), start[n].dtype, start[n].lanes, place)
        phis = {n: self.v.values[n] for n in carried}
        held = self.m.hold(stored, place)
        self.m.written(stored)
        self.e.forget()
        known = set(self.v.values)
        body(index)
        self.v.end(known)
        self.m.release(held)
        scope, parent = self.b.close(), self.b.top
        following, more, out = (self.b.fresh(p) for p in ("i", "c", "out"))
        lines = parent.lines
        lines += [f"br label %{head}", f"{head}:"]
        labels = parent.label, scope.label
        lines.append(_phi(index.text, "i64", (first.text, f"%{following}"), labels))
        for n in carried:
            t = vtype(scalar_type(start[n].dtype), start[n].lanes)
            lines.append(_phi(phis[n].text, t, (start[n].text, self.v.values[n].text), labels))
        lines += scope.lines
        lines.append(f"%{following} = add nsw i64 {index.text}, {step}")
        lines.append(f"%{more} = icmp slt i64 %{following}, {stop.text}")
        lines += [f"br i1 %{more}, label %{head}, label %{out}", f"{out}:"]
        parent.label = out
        self._leave(carried)

    def _leave(self, carried: list[str]) -> None:
        """After a scope: what it assigned is the outer one's now; what it declared is gone."""
        for name in carried:
            value = self.v.values[name]
            if value.place > self.b.depth:
                self.v.values[name] = Value(
                    value.text, value.dtype, value.lanes, self.b.depth, value.const
                )
        self.v.values = {n: v for n, v in self.v.values.items() if v.place <= self.b.depth}

    def join(
        self,
        condition: Value,
        branches: Sequence[tuple[Scope | None, dict[str, Value]]],
        carried: list[str],
    ) -> None:
        """Put one or two branches (None: straight on) behind a condition and merge the variables
        they assign.
        """
        parent, out = self.b.top, self.b.fresh("join")
        starts = [scope.start if scope else out for scope, _ in branches]
        lines = parent.lines
        came_from = parent.label
        lines.append(f"br i1 {condition.text}, label %{starts[0]}, label %{starts[1]}")
        for (scope, _), start in zip(branches, starts, strict=True):
            if scope is not None:
                lines += [f"{start}:", *scope.lines, f"br label %{out}"]
        lines.append(f"{out}:")
        labels = [scope.label if scope else came_from for scope, _ in branches]
        for name in carried:
            values = [variables[name] for _, variables in branches]
            phi = "%" + self.b.fresh("x")
            t = vtype(scalar_type(values[0].dtype), values[0].lanes)
            pairs = ", ".join(
                f"[ {v.text}, %{label} ]" for v, label in zip(values, labels, strict=True)
            )
            lines.append(f"{phi} = phi {t} {pairs}")
            self.v.values[name] = Value(phi, values[0].dtype, values[0].lanes, self.b.depth)
        parent.label = out


def _phi(name: str, t: str, values: tuple[str, str], labels: tuple[str, str]) -> str:
    pairs = ", ".join(f"[ {v}, %{label} ]" for v, label in zip(values, labels, strict=True))
    return f"{name} = phi {t} {pairs}"
