"""One kernel as an LLVM function: statements, loops and variables (see ``emit.llvm`` for the form
of the result).

Loops test their condition at the end, behind a guard where they may be empty. Loops and branches
make phis for the variables they assign (``llvm_variables``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lamella.compiler.emit.llvm_builder import (
    Builder,
    Ramp,
    Value,
    int_constant,
    scalar_type,
    vtype,
)
from lamella.compiler.emit.llvm_control import Control
from lamella.compiler.emit.llvm_expr import ExpressionWriter
from lamella.compiler.emit.llvm_lanes import (
    Piece,
    Survey,
    plan,
    survey,
    varying_variables,
)
from lamella.compiler.emit.llvm_memory import Buffer, Memory
from lamella.compiler.emit.llvm_ops import Operations
from lamella.compiler.emit.llvm_transpose import square, transposed
from lamella.compiler.emit.llvm_variables import Variables
from lamella.compiler.emit.llvm_weave import runs
from lamella.compiler.emit.target import Target
from lamella.dtypes import DType, bool_, int64
from lamella.errors import CompilerError
from lamella.ir.loops import (
    Accumulate,
    Alloc,
    Apply,
    Assign,
    BufferParam,
    Declare,
    For,
    If,
    Kernel,
    Prefetch,
    Stmt,
    Store,
)  # fmt: skip
from lamella.ir.walk import loads_of, statements

__all__ = ["FunctionWriter"]


class FunctionWriter:
    """The writer of one function."""

    def __init__(self, kernel: Kernel, target: Target, scratch: int, metadata: list[str]) -> None:
        self.kernel, self.target, self.scratch = kernel, target, scratch
        self.metadata = metadata
        self.b = Builder()
        self.o = Operations(self.b, target)
        self.m = Memory(self.b, self.o)
        self.v = Variables(self.b, self.o)
        self.e = ExpressionWriter(kernel, self.b, self.o, self.m, self.v.read)
        self.c = Control(self.b, self.o, self.m, self.v, self.e)
        self.varying: set[str] = set()
        self._plans: dict[int, tuple[Survey, list[Piece]]] = {}

    # -- the function ------------------------------------------------------------------------------
    def text(self) -> str:
        """The whole definition."""
        self.b.open("entry", holds_pure=True, holds_loads=True)
        self._slots()
        grid = self.kernel.body
        first, last = Value("%begin", int64), Value("%end", int64)
        self.c.loop(first, last, 1, grid, lambda i: self._grid_body(grid, i), nonempty=False)
        lines = self.b.close().lines
        arguments = "ptr noalias readonly %args, i64 %begin, i64 %end"
        head = f"define void @{self.kernel.name}({arguments}) #0 {{\nentry:"
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
            streamed = self._streamed() if param.streamed else ""
            self.m.buffers[param.name] = Buffer(
                pointer, param.dtype, suffix, group=group, streamed=streamed
            )
            slot += 1
        for scalar in kernel.params:
            value = self._slot(
                slot, "i8" if scalar.dtype is bool_ else scalar_type(scalar.dtype), scalar.dtype
            )
            self.e.params[scalar.name] = self._truth(value) if scalar.dtype is bool_ else value
            slot += 1
        for name in kernel.sizes:
            self.e.sizes[name] = self._slot(slot, "i64", int64)
            slot += 1
        self.scratch_pointer = self._slot(slot, "ptr", int64) if self.scratch else None
        self.scratch_used = 0

    def _streamed(self) -> str:
        self.metadata.append(f"!{len(self.metadata)} = !{{i32 1}}")
        return f", !nontemporal !{len(self.metadata) - 1}"

    def _slot(self, index: int, scalar: str, dtype: DType) -> Value:
        address = (
            self.b.pure(f"getelementptr i64, ptr %args, i64 {index}", int64, 0, 0)
            if index
            else Value("%args", int64)
        )
        return self.b.pure(f"load {scalar}, ptr {address.text}, align 8", dtype, 0, 0)

    def _truth(self, byte: Value) -> Value:
        return self.b.pure(f"icmp ne i8 {byte.text}, 0", bool_, 0, 0)

    def _alias_metadata(self, groups: list[str]) -> dict[str, str]:
        """``!alias.scope`` and ``!noalias`` for accesses to each group of buffers; groups never
        overlap each other.
        """
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

    # -- statements --------------------------------------------------------------------------------
    def _block(self, body: tuple[Stmt, ...]) -> None:
        for run in runs(body):
            if len(run) == 1 or not self._weave(run):
                for stmt in run:
                    _EMIT[type(stmt)](self, stmt)
        for stmt in body:
            if isinstance(stmt, Declare):
                self.v.leave(stmt.name)

    def _weave(self, run: Sequence[Store]) -> bool:
        """Store to neighbouring places together, where they leave no gap from lane to lane."""
        if not self.m.lanes or self.m.mask is not None:
            return False
        name, index = run[0].buffer, self.e.affine(run[0].index)
        if index.step != len(run):
            return False
        group = self.m.buffers[name].group
        loads = [load for stmt in run for load in loads_of(stmt.value)]
        if any(self.m.buffers[load.buffer].group == group for load in loads):
            return False  # a value may be made of one that is stored before
        self.m.store_woven(name, index, [self.e.value_under(stmt.value, None) for stmt in run])
        self.e.forget()
        return True

    def _store(self, stmt: Store) -> None:
        index = self.e.affine(stmt.index, stmt.mask)
        value = self.e.value_under(stmt.value, stmt.mask)
        mask = None if stmt.mask is None else self.e.mask(stmt.mask)
        if mask is not None and mask.const is not None:
            if not mask.const:
                return
            mask = None
        if stmt.atomic:
            self.m.atomic(stmt.atomic, stmt.buffer, index, value, mask)
        else:
            value = self._frozen(value) if self._chooses_itself(stmt) else value
            self.m.store(stmt.buffer, index, value, mask)
        self.e.forget()

    def _chooses_itself(self, stmt: Store) -> bool:
        """Whether an element is chosen between itself, as it is, and another value."""
        if not isinstance(stmt.value, Apply) or stmt.value.op not in ("select", "max", "min"):
            return False
        group = self.m.buffers[stmt.buffer].group
        return any(
            load.index == stmt.index and self.m.buffers[load.buffer].group == group
            for load in loads_of(stmt.value)
        )

    def _frozen(self, value: Value) -> Value:
        """A vector as it is: LLVM makes a masked store of such a choice, which takes some
        processors ten times as long as a plain one, but not through ``freeze``.
        """
        if not value.lanes or value.const is not None:
            return value
        text = f"freeze {vtype(scalar_type(value.dtype), value.lanes)} {value.text}"
        return self.b.pure(text, value.dtype, value.lanes, value.place)

    def _prefetch(self, stmt: Prefetch) -> None:
        self.m.prefetch(stmt.buffer, self.e.affine(stmt.index), stmt.level)

    def _declare(self, stmt: Declare) -> None:
        lanes = self.m.lanes if stmt.name in self.varying else 0
        self.v.declare(stmt.name, self.b.splat(self.e.value(stmt.init), lanes))
        self.e.forget()

    def _assign(self, stmt: Assign) -> None:
        self.v.settle({stmt.name})
        old = self.v.values[stmt.name]
        self.v.values[stmt.name] = self.b.splat(self.e.value(stmt.value), old.lanes)
        self.e.forget()

    def _accumulate(self, stmt: Accumulate) -> None:
        lanes = self.m.lanes
        values = [self.e.value(v) for v in stmt.values]
        inside = all(self.v.values[n].lanes for n in stmt.names)
        if not lanes or inside or stmt.names[0] in self.c.lane_declared:
            wide = [
                self.b.splat(v, self.v.values[n].lanes)
                for n, v in zip(stmt.names, values, strict=True)
            ]
            self.v.fold(stmt.names, stmt.op, wide)
        else:
            self.v.need(stmt.names, stmt.op, lanes)
            wide = [self.b.splat(v, lanes) for v in values]
            self.v.fold(tuple(f"{n}@{lanes}" for n in stmt.names), stmt.op, wide, self.m.mask)
        self.e.forget()

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
        register = stmt.space == "register"
        self.m.buffers[stmt.name] = Buffer(
            pointer, stmt.dtype, floor=self.b.depth, group=stmt.name, register=register
        )

    def _for(self, stmt: For) -> None:
        if stmt.kind == "lanes":
            self._lanes(stmt)
        elif stmt.kind == "unroll":
            self._unroll(stmt)
        elif stmt.kind in ("serial", "block"):
            self._serial(stmt)
        else:
            raise CompilerError(f"[llvm] a {stmt.kind} loop inside a kernel")

    # -- loops -------------------------------------------------------------------------------------
    def _extent(self, stmt: For) -> Value:
        value = self.e.extent(stmt.var.extent)
        if isinstance(value, Ramp) or value.lanes:
            raise CompilerError(f"[llvm] the extent of loop {stmt.var.name} varies by lane")
        return value

    def _unroll(self, stmt: For) -> None:
        extent = self._extent(stmt)
        if not isinstance(extent.const, int):
            raise CompilerError(f"[llvm] unroll loop {stmt.var.name} has no constant extent")
        block = None if self.m.lanes else square(stmt, self.target.vector_bytes)
        if block is not None:
            self._square(stmt, *block)
            return
        for i in range(extent.const):
            mark = self.e.mark()
            self.e.bind(stmt.var, int_constant(i))
            self._block(stmt.body)
            self.e.restore(mark)

    def _square(self, stmt: For, lanes: For, store: Store) -> None:
        """A block stored across its lanes."""
        size = self.m.lanes = int(stmt.var.extent)  # type: ignore[arg-type]
        along = Ramp(int_constant(0), 1, size, size, 0)
        rows: list[Value] = []
        for i in range(size):
            mark = self.e.mark()
            self.e.bind(lanes.var, along)
            self.e.bind(stmt.var, int_constant(i))
            rows.append(self.b.splat(self.e.value(store.value), size))
            self.e.restore(mark)
        for k, column in enumerate(transposed(self.b, rows)):
            mark = self.e.mark()
            self.e.bind(lanes.var, int_constant(k))
            self.e.bind(stmt.var, along)
            self.m.store(store.buffer, self.e.affine(store.index), column, None)
            self.e.restore(mark)
        self.m.lanes = 0
        self.e.forget()

    def _serial(self, stmt: For) -> None:
        extent = self._extent(stmt)
        if extent.const == 0:
            return
        self._hoist_partials(stmt)

        def body(i: Value) -> None:
            self.e.bind(stmt.var, i)
            self._block(stmt.body)

        self.c.loop(int_constant(0), extent, 1, stmt, body, nonempty=extent.const is not None)

    def _hoist_partials(self, stmt: For) -> None:
        """Make the partial accumulators of lanes loops inside before the loop, unless it reads the
        variable itself.
        """
        if self.m.lanes:
            return
        read = self.c.effects(stmt)[2]
        set_inside = {s.name for s in statements(stmt.body) if isinstance(s, (Assign, Declare))}
        for inner in statements(stmt.body):
            if isinstance(inner, For) and inner.kind == "lanes":
                found, pieces = self._planned(inner)
                for fold in found.folds:
                    if (
                        not (set(fold.names) & (read | set_inside))
                        and fold.names[0] in self.v.values
                    ):
                        for lanes in sorted({p.lanes for p in pieces if p.lanes}):
                            self.v.need(fold.names, fold.op, lanes)

    def _branch(self, condition: Value, stmt: If) -> None:
        assigned, stored, read = self.c.effects(stmt)
        self.v.settle(read)
        carried = self.c.carried(assigned)
        before, branches = dict(self.v.values), []
        for body in (stmt.then, stmt.otherwise):
            self.v.values = dict(before)
            mark = self.e.mark()
            self.b.open(self.b.fresh("case"), holds_pure=True)
            held = self.m.hold(stored, self.b.depth)
            self.e.forget()
            self._block(body)
            self.v.end(set(before))
            self.m.release(held)
            branches.append((self.b.close(), dict(self.v.values)))
            self.e.restore(mark)
            self.m.written(stored)
        self.v.values = before
        self.c.join(condition, branches, carried)
        self.e.forget()

    # -- lanes -------------------------------------------------------------------------------------
    def _lanes(self, stmt: For) -> None:
        if self.m.lanes:
            raise CompilerError(f"[llvm] lanes loop {stmt.var.name} inside another")
        extent = self._extent(stmt)
        self.varying = varying_variables(stmt)
        self.c.lane_declared = frozenset(
            s.name for s in statements(stmt.body) if isinstance(s, Declare)
        )
        found, pieces = self._planned(stmt)
        folds = found.folds
        whole = int_constant(0)
        for piece in pieces:
            if piece.lanes:
                for fold in folds:
                    self.v.need(fold.names, fold.op, piece.lanes)
            if piece.kind == "once":
                self._once(stmt, piece)
                whole = int_constant(piece.start + piece.active)
            elif piece.kind == "loop":
                start, whole = whole, self._whole(extent, piece.lanes)
                self._lane_loop(stmt, piece, start, whole)
            else:
                self._lane_loop(stmt, piece, whole, extent)
        self.m.lanes, self.m.mask, self.varying, self.c.lane_declared = 0, None, set(), frozenset()

    def _planned(self, stmt: For) -> tuple[Survey, list[Piece]]:
        known = self._plans.get(id(stmt))
        if known is None:
            found = survey(stmt)
            known = self._plans[id(stmt)] = found, plan(stmt, self.target, found)
        return known

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
        self.c.loop(first, stop, piece.lanes or 1, stmt, body, nonempty=known)
        self.m.lanes = 0

    def _once(self, stmt: For, piece: Piece) -> None:
        mark = self.e.mark()
        self.m.lanes = piece.lanes
        self.e.bind(
            stmt.var,
            Ramp(
                int_constant(piece.start),
                1,
                piece.lanes,
                piece.start & -piece.start or piece.lanes,
                0,
            ),
        )
        if piece.active < piece.lanes:
            flags = ", ".join(
                f"i1 {'true' if k < piece.active else 'false'}" for k in range(piece.lanes)
            )
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
    Prefetch: FunctionWriter._prefetch,
    Declare: FunctionWriter._declare,
    Assign: FunctionWriter._assign,
    Accumulate: FunctionWriter._accumulate,
    If: FunctionWriter._if,
    Alloc: FunctionWriter._alloc,
    For: FunctionWriter._for,
}
