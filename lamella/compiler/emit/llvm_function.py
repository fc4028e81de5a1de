"""One kernel as an LLVM function: statements, loops and variables (see ``emit.llvm`` for the form of the result).

Mutable variables are kept in SSA form: ``variables`` maps a name to its present value, loops and branches make phis for those they
assign. A variable folded by a lanes loop has partial accumulators beside it, ``name@lanes``, combined when it is next read.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lamella.compiler.emit.llvm_builder import Builder, Ramp, Scope, Value, constant, int_constant, scalar_type, vtype
from lamella.compiler.emit.llvm_expr import ExpressionWriter
from lamella.compiler.emit.llvm_fold import fold_into, fold_lanes, identity
from lamella.compiler.emit.llvm_lanes import Piece, plan, statements, stmt_exprs, survey, varying_variables
from lamella.compiler.emit.llvm_memory import Affine, Buffer, Memory
from lamella.compiler.emit.llvm_ops import Operations
from lamella.compiler.emit.target import Target
from lamella.dtypes import DType, bool_, int64
from lamella.errors import CompilerError
from lamella.ir.loops import (
    Accumulate, Alloc, Assign, BufferParam, Declare, Expr, For, If, Kernel, Stmt, Store,
)  # fmt: skip

__all__ = ["FunctionWriter"]

Names = tuple[str, ...]


class FunctionWriter:
    """The writer of one function."""

    def __init__(self, kernel: Kernel, target: Target, scratch: int, metadata: list[str]) -> None:
        self.kernel, self.target, self.scratch = kernel, target, scratch
        self.metadata = metadata
        self.b = Builder()
        self.o = Operations(self.b, target)
        self.m = Memory(self.b, self.o)
        self.e = ExpressionWriter(kernel, self.b, self.o, self.m, self.read)
        self.variables: dict[str, Value] = {}
        self.partials: dict[str, tuple[Names, str, set[int]]] = {}  # first name -> (names, op, lanes of the partials)
        self.varying: set[str] = set()
        self.effects: dict[int, tuple[set[str], set[str], set[str]]] = {}

    # -- the function --------------------------------------------------------------------------------------------------
    def text(self) -> str:
        """The whole definition."""
        self.b.open("entry", holds_pure=True, holds_loads=True)
        self._slots()
        grid = self.kernel.body
        first, last = Value("%begin", int64), Value("%end", int64)
        self._loop(first, last, 1, grid, lambda i: self._grid_body(grid, i), nonempty=False)
        lines = self.b.close().lines
        head = f"define void @{self.kernel.name}(ptr noalias readonly %args, i64 %begin, i64 %end) #0 {{\nentry:"
        return "\n".join([head, *self.b.allocas, *lines, "ret void", "}"])

    def _grid_body(self, grid: For, index: Value) -> None:
        self.e.bind(grid.var, index)
        self._block(grid.body)

    def _slots(self) -> None:
        """Read every argument; register the buffers with what may overlap what."""
        kernel = self.kernel
        groups = _overlaps(kernel.buffers)
        metadata = self._alias_metadata(sorted(set(groups.values())))
        written = {groups[b.name] for b in kernel.buffers if b.mode != "in"}
        slot = 0
        for param in kernel.buffers:
            group = groups[param.name]
            suffix = metadata[group] + ("" if group in written else ", !invariant.load !{}")
            pointer = self._slot(slot, "ptr", int64)
            self.m.buffers[param.name] = Buffer(pointer, param.dtype, suffix, group=group)
            slot += 1
        for scalar in kernel.params:
            value = self._slot(slot, "i8" if scalar.dtype is bool_ else scalar_type(scalar.dtype), scalar.dtype)
            self.e.params[scalar.name] = self._truth(value) if scalar.dtype is bool_ else value
            slot += 1
        for name in kernel.sizes:
            self.e.sizes[name] = self._slot(slot, "i64", int64)
            slot += 1
        self.scratch_pointer = self._slot(slot, "ptr", int64) if self.scratch else None
        self.scratch_used = 0

    def _slot(self, index: int, scalar: str, dtype: DType) -> Value:
        address = self.b.pure(f"getelementptr i64, ptr %args, i64 {index}", int64, 0, 0) if index else Value("%args", int64)
        return self.b.pure(f"load {scalar}, ptr {address.text}, align 8", dtype, 0, 0)

    def _truth(self, byte: Value) -> Value:
        return self.b.pure(f"icmp ne i8 {byte.text}, 0", bool_, 0, 0)

    def _alias_metadata(self, groups: list[str]) -> dict[str, str]:
        """``!alias.scope`` and ``!noalias`` for accesses to each group of buffers; groups never overlap each other."""
        if len(groups) < 2:
            return dict.fromkeys(groups, "")
        start = len(self.metadata)
        self.metadata.append(f"!{start} = distinct !{{}}")
        scopes = range(start + 1, start + 1 + len(groups))
        self.metadata.extend(f"!{s} = distinct !{{!{s}, !{start}}}" for s in scopes)
        found = {}
        for group, own in zip(groups, scopes, strict=True):
            at = len(self.metadata)
            others = ", ".join(f"!{s}" for s in scopes if s != own)
            self.metadata += [f"!{at} = !{{!{own}}}", f"!{at + 1} = !{{{others}}}"]
            found[group] = f", !alias.scope !{at}, !noalias !{at + 1}"
        return found

    # -- statements ----------------------------------------------------------------------------------------------------
    def _block(self, body: tuple[Stmt, ...]) -> None:
        for stmt in body:
            _EMIT[type(stmt)](self, stmt)

    def _store(self, stmt: Store) -> None:
        index = self.e.affine(stmt.index, stmt.mask)
        value = self.b.spread(self.e.value(stmt.value))
        mask = None if stmt.mask is None else self.e.mask(stmt.mask)
        if mask is not None and mask.const is not None:
            if not mask.const:
                return
            mask = None
        self.m.store(stmt.buffer, index, value, mask)
        self.e.forget()

    def _declare(self, stmt: Declare) -> None:
        lanes = self.m.lanes if stmt.name in self.varying else 0
        self.variables[stmt.name] = self.b.splat(self.e.value(stmt.init), lanes)
        if stmt.name in self.partials:
            for width in self.partials.pop(stmt.name)[2]:
                del self.variables[f"{stmt.name}@{width}"]
        self.e.forget()

    def _assign(self, stmt: Assign) -> None:
        self._settle({stmt.name})
        old = self.variables[stmt.name]
        self.variables[stmt.name] = self.b.splat(self.e.value(stmt.value), old.lanes)
        self.e.forget()

    def _accumulate(self, stmt: Accumulate) -> None:
        lanes = self.m.lanes
        values = [self.e.value(v) for v in stmt.values]
        inside = all(self.variables[n].lanes for n in stmt.names)
        if not lanes or inside or stmt.names[0] in self.lane_declared:
            wide = [self.b.splat(v, self.variables[n].lanes) for n, v in zip(stmt.names, values, strict=True)]
            self._fold(stmt.names, stmt.op, wide)
        else:
            self._need_partials(stmt.names, stmt.op, lanes)
            wide = [self.b.splat(v, lanes) for v in values]
            self._fold(tuple(f"{n}@{lanes}" for n in stmt.names), stmt.op, wide, self.m.mask)
        self.e.forget()

    def _fold(self, names: Names, op: str, values: list[Value], mask: Value | None = None) -> None:
        old = [self.variables[n] for n in names]
        new = fold_into(self.o, op, old, values)
        for name, before, after in zip(names, old, new, strict=True):
            self.variables[name] = after if mask is None else self.o.select(mask, after, before)

    def _if(self, stmt: If) -> None:
        condition = self.e.value(stmt.condition)
        if condition.const is not None:
            self._block(stmt.then if condition.const else stmt.otherwise)
            return
        if condition.lanes or isinstance(condition, Ramp):
            raise CompilerError("[llvm] the condition of an If varies by lane; use masks there")
        self._branch(condition, stmt)

    def _alloc(self, stmt: Alloc) -> None:
        element = scalar_type(stmt.dtype) if stmt.dtype is not bool_ else "i8"
        if stmt.space != "register" and self.scratch_pointer is not None:
            text = f"getelementptr i8, ptr {self.scratch_pointer.text}, i64 {self.scratch_used}"
            pointer = self.b.pure(text, int64, 0, 0)
            self.scratch_used += -(-stmt.size * stmt.dtype.itemsize // 64) * 64
        else:
            name = f"%{self.b.fresh('mem')}"
            self.b.allocas.append(f"{name} = alloca [{stmt.size} x {element}], align 64")
            pointer = Value(name, int64)
        self.m.buffers[stmt.name] = Buffer(pointer, stmt.dtype, floor=self.b.depth, group=stmt.name)

    def _for(self, stmt: For) -> None:
        if stmt.kind == "lanes":
            self._lanes(stmt)
        elif stmt.kind == "unroll":
            self._unroll(stmt)
        elif stmt.kind in ("serial", "block"):
            self._serial(stmt)
        else:
            raise CompilerError(f"[llvm] a {stmt.kind} loop inside a kernel")

    # -- variables -----------------------------------------------------------------------------------------------------
    def read(self, name: str) -> Value:
        """The present value of a variable."""
        self._settle({name})
        return self.variables[name]

    def _need_partials(self, names: Names, op: str, lanes: int) -> None:
        if f"{names[0]}@{lanes}" in self.variables:
            return
        self._reset_partials(names, op, lanes)
        for name in names:
            self.partials.setdefault(name, (names, op, set()))[2].add(lanes)

    def _reset_partials(self, names: Names, op: str, lanes: int) -> None:
        for name, start in zip(names, identity(op, [self.variables[n].dtype for n in names]), strict=True):
            self.variables[f"{name}@{lanes}"] = self.b.splat(start, lanes)

    def _settle(self, read: set[str]) -> None:
        """Combine the partial accumulators of these variables into them, the widest first, and start them again."""
        for name in sorted(read & self.partials.keys()):
            names, op, widths = self.partials[name]
            self._combine(names, op, sorted(widths, reverse=True))

    def _combine(self, names: Names, op: str, widths: list[int]) -> None:
        """Fold each partial accumulator down to the width of the next, and the last into the variable."""
        total: list[Value] | None = None
        for lanes in widths:
            parts = [self.variables[f"{n}@{lanes}"] for n in names]
            if parts[0].const is not None:
                continue
            if total is not None:
                parts = fold_into(self.o, op, parts, fold_lanes(self.o, op, total, lanes))
            total = parts
            self._reset_partials(names, op, lanes)
        if total is not None:
            self._fold(names, op, fold_lanes(self.o, op, total, 0))

    def _end_partials(self, known: set[str]) -> None:
        """Combine the partials made since ``known`` (the variables then) was taken: they end with their block."""
        for name in sorted(self.partials):
            names, op, widths = self.partials.get(name, ((), "", set()))
            fresh = [w for w in sorted(widths, reverse=True) if f"{name}@{w}" not in known]
            self._combine(names, op, fresh)
            for lanes in fresh:
                self._drop_partials(names, lanes)

    def _drop_partials(self, names: Names, lanes: int) -> None:
        for name in names:
            del self.variables[f"{name}@{lanes}"]
            widths = self.partials[name][2]
            widths.discard(lanes)
            if not widths:
                del self.partials[name]

    def _effects(self, stmt: For | If) -> tuple[set[str], set[str], set[str]]:
        """The variables a statement assigns, the buffers it stores to, and the variables it reads."""
        found = self.effects.get(id(stmt))
        if found is None:
            body = stmt.body if isinstance(stmt, For) else stmt.then + stmt.otherwise
            assigned: set[str] = set()
            stored: set[str] = set()
            exprs: list[Expr] = []
            for inner in statements(body):
                exprs += stmt_exprs(inner)
                if isinstance(inner, Assign):
                    assigned.add(inner.name)
                elif isinstance(inner, Accumulate):
                    assigned.update(inner.names)
                elif isinstance(inner, Store):
                    stored.add(inner.buffer)
            found = self.effects[id(stmt)] = (assigned, stored, {r.name for r in self.e.reads(exprs)})
        return found

    def _carried(self, assigned: set[str]) -> list[str]:
        """The names that a loop or branch assigning these variables carries; in a lanes loop, only what it touches."""
        names = [n for n in self.variables if n.partition("@")[0] in assigned]
        lanes = self.m.lanes
        if not lanes:
            return names
        folded = {n for n in self.partials if f"{n}@{lanes}" in self.variables and n not in self.lane_declared}
        return [n for n in names if n.endswith(f"@{lanes}") or ("@" not in n and n not in folded)]

    # -- loops ---------------------------------------------------------------------------------------------------------
    def _extent(self, stmt: For) -> Value:
        value = self.e.extent(stmt.var.extent)
        if isinstance(value, Ramp) or value.lanes:
            raise CompilerError(f"[llvm] the extent of loop {stmt.var.name} varies by lane")
        return value

    def _unroll(self, stmt: For) -> None:
        extent = self._extent(stmt)
        if not isinstance(extent.const, int):
            raise CompilerError(f"[llvm] unroll loop {stmt.var.name} has no constant extent")
        for i in range(extent.const):
            mark = self.e.mark()
            self.e.bind(stmt.var, int_constant(i))
            self._block(stmt.body)
            self.e.restore(mark)

    def _serial(self, stmt: For) -> None:
        extent = self._extent(stmt)
        if extent.const == 0:
            return
        self._hoist_partials(stmt)

        def body(i: Value) -> None:
            self.e.bind(stmt.var, i)
            self._block(stmt.body)

        self._loop(int_constant(0), extent, 1, stmt, body, nonempty=extent.const is not None)

    def _hoist_partials(self, stmt: For) -> None:
        """Make the partial accumulators of lanes loops inside before the loop, unless it reads the variable itself."""
        if self.m.lanes:
            return
        read = self._effects(stmt)[2]
        set_inside = {s.name for s in statements(stmt.body) if isinstance(s, (Assign, Declare))}
        for inner in statements(stmt.body):
            if isinstance(inner, For) and inner.kind == "lanes":
                for fold in survey(inner).folds:
                    if not (set(fold.names) & (read | set_inside)) and fold.names[0] in self.variables:
                        for lanes in sorted({p.lanes for p in plan(inner, self.target) if p.lanes}):
                            self._need_partials(fold.names, fold.op, lanes)

    def _loop(
        self, first: Value, stop: Value, step: int, stmt: For, body: Callable[[Value], None], *, nonempty: bool
    ) -> None:
        """A loop of ``body`` from ``first`` below ``stop``; the condition stands at the end, guarded before if need be."""
        assigned, stored, read = self._effects(stmt)
        self._settle(read)
        carried = self._carried(assigned)
        before = {n: self.variables[n] for n in carried}
        condition = None if nonempty else self.o.compare("icmp slt", first, stop)
        mark = self.e.mark()
        if condition is not None:
            self.b.open(self.b.fresh("some"), holds_loads=True)
        self._loop_body(first, stop, step, carried, stored, body)
        if condition is not None:
            guard = self.b.close()
            self._join(condition, [(guard, dict(self.variables)), (None, before)], carried)
        self.e.restore(mark)
        self.m.written(stored)
        self.e.forget()

    def _loop_body(
        self, first: Value, stop: Value, step: int, carried: list[str], stored: set[str], body: Callable[[Value], None]
    ) -> None:
        """The loop proper, run at least once."""
        head, index = self.b.fresh("loop"), Value("%" + self.b.fresh("i"), int64, 0, self.b.depth + 1)
        start = {n: self.variables[n] for n in carried}
        self.b.open(head)
        place = self.b.depth
        for n in carried:
            self.variables[n] = Value("%" + self.b.fresh("x"), start[n].dtype, start[n].lanes, place)
        phis = {n: self.variables[n] for n in carried}
        held = self.m.hold(stored, place)
        self.m.written(stored)
        self.e.forget()
        known = set(self.variables)
        body(index)
        self._end_partials(known)
        self.m.release(held)
        scope, parent = self.b.close(), self.b.top
        following, more, out = (self.b.fresh(p) for p in ("i", "c", "out"))
        lines = parent.lines
        lines += [f"br label %{head}", f"{head}:"]
        lines.append(f"{index.text} = phi i64 [ {first.text}, %{parent.label} ], [ %{following}, %{scope.label} ]")
        for n in carried:
            old, new, t = start[n], self.variables[n], vtype(scalar_type(start[n].dtype), start[n].lanes)
            lines.append(f"{phis[n].text} = phi {t} [ {old.text}, %{parent.label} ], [ {new.text}, %{scope.label} ]")
        lines += scope.lines
        lines.append(f"%{following} = add nsw i64 {index.text}, {step}")
        lines.append(f"%{more} = icmp slt i64 %{following}, {stop.text}")
        lines += [f"br i1 %{more}, label %{head}, label %{out}", f"{out}:"]
        parent.label = out
        self._leave(carried)

    def _leave(self, carried: list[str]) -> None:
        """After a scope: what it assigned belongs to the scope around it; what it declared is gone."""
        for name in carried:
            value = self.variables[name]
            if value.place > self.b.depth:
                self.variables[name] = Value(value.text, value.dtype, value.lanes, self.b.depth, value.const)
        self.variables = {n: v for n, v in self.variables.items() if v.place <= self.b.depth}

    def _branch(self, condition: Value, stmt: If) -> None:
        assigned, stored, read = self._effects(stmt)
        self._settle(read)
        carried = self._carried(assigned)
        before, branches = dict(self.variables), []
        for body in (stmt.then, stmt.otherwise):
            self.variables = dict(before)
            mark = self.e.mark()
            self.b.open(self.b.fresh("case"), holds_pure=True)
            held = self.m.hold(stored, self.b.depth)
            self.e.forget()
            self._block(body)
            self._end_partials(set(before))
            self.m.release(held)
            branches.append((self.b.close(), dict(self.variables)))
            self.e.restore(mark)
            self.m.written(stored)
        self.variables = before
        self._join(condition, branches, carried)
        self.e.forget()

    def _join(
        self, condition: Value, branches: list[tuple[Scope | None, dict[str, Value]]], carried: list[str]
    ) -> None:
        """Put one or two branches (None: straight on) behind a condition and merge the variables they assign."""
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
            pairs = ", ".join(f"[ {v.text}, %{label} ]" for v, label in zip(values, labels, strict=True))
            lines.append(f"{phi} = phi {t} {pairs}")
            self.variables[name] = Value(phi, values[0].dtype, values[0].lanes, self.b.depth)
        parent.label = out

    # -- lanes ---------------------------------------------------------------------------------------------------------
    lane_declared: frozenset[str] = frozenset()

    def _lanes(self, stmt: For) -> None:
        if self.m.lanes:
            raise CompilerError(f"[llvm] lanes loop {stmt.var.name} inside another")
        extent = self._extent(stmt)
        self.varying = varying_variables(stmt)
        self.lane_declared = frozenset(s.name for s in statements(stmt.body) if isinstance(s, Declare))
        folds, pieces = survey(stmt).folds, plan(stmt, self.target)
        whole = int_constant(0)
        for piece in pieces:
            if piece.lanes:
                for fold in folds:
                    self._need_partials(fold.names, fold.op, piece.lanes)
            if piece.kind == "once":
                self._once(stmt, piece)
                whole = int_constant(piece.start + piece.active)
            elif piece.kind == "loop":
                whole = self._whole(extent, piece.lanes)
                self._lane_loop(stmt, piece, int_constant(0), whole)
            else:
                self._lane_loop(stmt, piece, whole, extent)
        self.m.lanes, self.m.mask, self.varying, self.lane_declared = 0, None, set(), frozenset()

    def _whole(self, extent: Value, lanes: int) -> Value:
        """The extent rounded down to whole groups (``lanes`` is a power of two)."""
        if isinstance(extent.const, int):
            return int_constant(extent.const - extent.const % lanes)
        return self.o.binary("and", extent, int_constant(-lanes))

    def _lane_loop(self, stmt: For, piece: Piece, first: Value, stop: Value) -> None:
        if first.const is not None and stop.const is not None and first.const >= stop.const:
            return
        self.m.lanes = piece.lanes

        def body(i: Value) -> None:
            if not piece.lanes:
                self.e.bind(stmt.var, i)
            else:
                self.m.multiples[i.text] = piece.lanes
                self.e.bind(stmt.var, Ramp(i, 1, piece.lanes, piece.lanes, i.place))
            if piece.kind == "masked":
                ramp = Ramp(i, 1, piece.lanes, piece.lanes, i.place)
                self.m.mask = self.b.spread(self.o.apply("lt", (ramp, stop), bool_))
            self._block(stmt.body)
            self.m.mask = None

        known = first.const is not None and stop.const is not None
        self._loop(first, stop, piece.lanes or 1, stmt, body, nonempty=known)
        self.m.lanes = 0

    def _once(self, stmt: For, piece: Piece) -> None:
        mark = self.e.mark()
        self.m.lanes = piece.lanes
        self.e.bind(stmt.var, Ramp(int_constant(piece.start), 1, piece.lanes, piece.start & -piece.start or piece.lanes, 0))
        if piece.active < piece.lanes:
            flags = ", ".join(f"i1 {'true' if k < piece.active else 'false'}" for k in range(piece.lanes))
            self.m.mask = Value(f"<{flags}>", bool_, piece.lanes)
        self._block(stmt.body)
        self.m.lanes, self.m.mask = 0, None
        self.e.restore(mark)


def _overlaps(buffers: tuple[BufferParam, ...]) -> dict[str, str]:
    """A group per buffer; buffers that may overlap share theirs."""
    groups = {b.name: b.name for b in buffers}
    for b in buffers:
        if b.alias is not None and b.alias in groups:
            old, new = groups[b.name], groups[b.alias]
            groups = {n: new if g == old else g for n, g in groups.items()}
    return groups


_EMIT: Final[dict[type, Callable[..., None]]] = {
    Store: FunctionWriter._store,
    Declare: FunctionWriter._declare,
    Assign: FunctionWriter._assign,
    Accumulate: FunctionWriter._accumulate,
    If: FunctionWriter._if,
    Alloc: FunctionWriter._alloc,
    For: FunctionWriter._for,
}
