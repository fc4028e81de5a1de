"""Expressions of loop IR as LLVM values.

Input: expressions, the present meaning of loop variables, and a way to read mutable variables.
Output: values (or ramps: affine in the lane). An expression object is translated once while its
operands keep their meaning: ``mark``/``restore`` bracket the life of a loop variable, ``forget``
drops what depends on memory or mutable variables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lamella.compiler.emit.llvm_builder import (
    Builder,
    Ramp,
    Value,
    constant,
    int_constant,
    scalar_type,
    vtype,
)
from lamella.compiler.emit.llvm_memory import Affine, Memory
from lamella.compiler.emit.llvm_ops import Operations
from lamella.compiler.mathlib import huge_angle, is_huge
from lamella.compiler.walk import start_of_run
from lamella.dtypes import bool_, int32, int64
from lamella.errors import CompilerError
from lamella.ir.dim import Dim, Quotient, Size
from lamella.ir.index import bounds
from lamella.ir.loops import Apply, Const, Expr, Extent, Kernel, Linear, Load, Param, Read, Var
from lamella.ir.numbering import Numbering, checked_indices
from lamella.ir.walk import operands

__all__ = ["ExpressionWriter"]

Mark = int


class ExpressionWriter:
    """Translates the expressions of one function."""

    def __init__(
        self, kernel: Kernel, b: Builder, o: Operations, m: Memory, read: Callable[[str], Value]
    ) -> None:
        self.kernel, self.b, self.o, self.m = kernel, b, o, m
        self.read_variable = read
        self.params: dict[str, Value] = {}
        self.sizes: dict[str, Value] = {}
        self._vars: dict[str, Value | Ramp] = {}
        self._pure: dict[int, tuple[Expr, Value | Ramp]] = {}
        self._log: list[int] = []
        self._impure: dict[int, tuple[Expr, Value | Ramp]] = {}
        self._touched = 0
        self._guards: list[Value] = []  # where what is being translated is needed at all
        self._arms: list[Value] = []  # where its value will be chosen: only index faults care
        self._touching: dict[int, tuple[Expr, bool]] = {}
        self._numbering = Numbering()
        self._ordinals: dict[int, int] = {}
        if kernel.faults:
            self._ordinals = {
                self._numbering.number(e): k for k, e in enumerate(checked_indices(kernel))
            }

    # -- the life of translations ------------------------------------------------------------------
    def bind(self, var: Var, value: Value | Ramp) -> None:
        """Give a loop variable its present meaning."""
        self._vars[var.name] = value

    def mark(self) -> Mark:
        """Before translations that will lose their meaning; give the result to ``restore``."""
        return len(self._log)

    def restore(self, mark: Mark) -> None:
        """Drop the translations made since ``mark``."""
        for key in self._log[mark:]:
            self._pure.pop(key, None)
        del self._log[mark:]
        self._impure.clear()

    def forget(self) -> None:
        """Memory or a variable has changed."""
        self._impure.clear()

    # -- values ------------------------------------------------------------------------------------
    def value(self, expr: Expr) -> Value | Ramp:
        """The value of an expression here."""
        key = id(expr)
        known = self._pure.get(key)
        if known is not None:
            return known[1]
        known = self._impure.get(key)
        if known is not None:
            self._touched += 1
            return known[1]
        touched = self._touched
        value = _WRITE[type(expr)](self, expr)
        if self._touched == touched:
            self._pure[key] = (expr, value)
            self._log.append(key)
        else:
            self._impure[key] = (expr, value)
        return value

    def mask(self, expr: Expr) -> Value:
        """The value of a bool expression, as a scalar or a vector."""
        return self.b.spread(self.value(expr))

    def _var(self, expr: Var) -> Value | Ramp:
        return self._vars[expr.name]

    def _const(self, expr: Const) -> Value:
        return constant(expr.value, expr.dtype)

    def _param(self, expr: Param) -> Value:
        return self.params[expr.name]

    def _read(self, expr: Read) -> Value:
        self._touched += 1
        return self.read_variable(expr.name)

    def _apply(self, expr: Apply) -> Value | Ramp:
        if expr.op == "checked_index":
            return self._checked_index(expr)
        if expr.op == "select":
            condition = self.value(expr.args[0])
            if condition.const is not None and not condition.lanes:
                return self.value(expr.args[1 if condition.const else 2])
            if is_huge(expr.args[0]):
                return self._rare_select(expr, self.b.spread(condition))
            if self.kernel.faults:
                return self._select_with_faults(expr, self.b.spread(condition))
        if expr.op == "word":
            whole = self._whole_word(expr)
            if whole is not None:
                return whole
        args = [self.value(a) for a in expr.args]
        if expr.dtype is int64:
            quick = self._index_apply(expr, args)
            if quick is not None:
                return quick
        return self.o.apply(expr.op, args, expr.dtype)

    def _rare_select(self, expr: Apply, condition: Value) -> Value:
        """A select whose first arm is long and rarely chosen: branch around it.

        In vectors the arm is written once, for one lane, and run for each in turn: as a vector it
        would be most of the code that LLVM has to translate.
        """
        b = self.b
        common = b.spread(self.value(expr.args[2]))
        needed = self.m.any_lane(condition)
        start, out = b.fresh("rare"), b.fresh("join")
        if condition.lanes:
            lines, chosen, last = self._lane_by_lane(expr, condition, common, start)
        else:
            mark, outside = self.mark(), dict(self._impure)  # needed outside: holds after the arm
            b.open(start, holds_pure=True)
            chosen = b.spread(self.value(expr.args[1]))
            scope = b.close()
            self.restore(mark)
            self._impure = outside
            lines, last = [f"{start}:", *scope.lines], scope.label
        name, t = f"%{b.fresh('x')}", vtype(scalar_type(expr.dtype), condition.lanes)
        came_from = b.top.label
        b.top.lines += [
            f"br i1 {needed.text}, label %{start}, label %{out}", *lines, f"br label %{out}",
            f"{out}:",
            f"{name} = phi {t} [ {chosen.text}, %{last} ], [ {common.text}, %{came_from} ]",
        ]  # fmt: skip
        b.top.label = out
        return Value(name, expr.dtype, condition.lanes, b.depth)

    def _lane_by_lane(
        self, expr: Apply, condition: Value, common: Value, start: str
    ) -> tuple[list[str], Value, str]:
        """The rare arm of every lane where ``condition`` holds, ``common`` elsewhere: its text, the
        value, and the block it ends in.
        """
        b, lanes = self.b, condition.lanes
        angle = huge_angle(expr.args[0])
        wide = b.splat(self.value(angle), lanes)
        again, done = b.fresh("lane"), b.fresh("done")
        i, more, total, after = (f"%{b.fresh('l')}" for _ in range(4))
        x, y = vtype(scalar_type(angle.dtype), lanes), scalar_type(expr.dtype)
        vector = vtype(y, lanes)
        outside, self._pure = self._pure, {}
        b.open(again, holds_pure=True)
        element = Value(f"%{b.fresh('l')}", angle.dtype, 0, b.depth)
        b.effect(f"{element.text} = extractelement {x} {wide.text}, i64 {i}")
        self._pure[id(angle)] = angle, element
        rare = b.spread(self.value(expr.args[1]))
        if rare.lanes:
            raise CompilerError("[llvm] the rare arm of a select depends on more than its angle")
        scope = b.close()
        self._pure = outside
        lines = [
            f"{start}:", f"br label %{again}", f"{again}:",
            f"{i} = phi i64 [ 0, %{start} ], [ {more}, %{scope.label} ]",
            f"{total} = phi {vector} [ {common.text}, %{start} ], [ {after}, %{scope.label} ]",
            *scope.lines,
            f"{after} = insertelement {vector} {total}, {y} {rare.text}, i64 {i}",
            f"{more} = add i64 {i}, 1", f"{more}c = icmp ult i64 {more}, {lanes}",
            f"br i1 {more}c, label %{again}, label %{done}", f"{done}:",
        ]  # fmt: skip
        b.open(done, holds_pure=True)
        chosen = self.o.select(condition, Value(after, expr.dtype, lanes, b.depth), common)
        return [*lines, *b.close().lines], chosen, done

    def _select_with_faults(self, expr: Apply, condition: Value) -> Value:
        """A select in whose arms an index is at fault only where the arm is chosen."""
        arms = []
        for arm, chosen in zip(expr.args[1:], (condition, self._negated(condition)), strict=True):
            if not self._touches(arm):
                arms.append(self.value(arm))
                continue
            outside = dict(self._impure)  # needed wherever the select is: holds in its arms too
            self._arms.append(chosen)
            arms.append(self.value(arm))
            self._arms.pop()
            self._impure = outside
        return self.b.spread(self.o.apply("select", (condition, *arms), expr.dtype))

    def _negated(self, condition: Value) -> Value:
        return self.b.spread(self.o.apply("not", (condition,), bool_))

    def _touches(self, expr: Expr) -> bool:
        """Whether an expression loads, or checks an index."""
        known = self._touching.get(id(expr))
        if known is None:
            checks = isinstance(expr, Apply) and expr.op == "checked_index"
            found = isinstance(expr, Load) or checks or any(map(self._touches, operands(expr)))
            known = self._touching[id(expr)] = expr, found
        return known[1]

    def value_under(self, expr: Expr, mask: Expr | None) -> Value:
        """The value of an expression needed only where ``mask`` holds: memory is touched only
        there.
        """
        guarded = self._enter(expr, mask)
        value = self.b.spread(self.value(expr))
        self._leave(guarded)
        return value

    def _enter(self, expr: Expr, mask: Expr | None) -> bool:
        if mask is None or not self._touches(expr):
            return False
        self._guards.append(self.mask(mask))
        self.forget()
        return True

    def _leave(self, guarded: bool) -> None:
        if guarded:
            self._guards.pop()
            self.forget()

    def _load(self, expr: Load) -> Value:
        self._touched += 1
        other = constant(0 if expr.other is None else expr.other.value, expr.dtype)
        mask = None if expr.mask is None else self.mask(expr.mask)
        for guard in () if self.m.buffers[expr.buffer].register else self._guards:
            both = guard if mask is None else self.o.apply("and", (mask, guard), bool_)
            mask = self.b.spread(both)
        if mask is not None and mask.const is not None:
            if not mask.const:
                return other
            mask = None
        value = self.m.load(expr.buffer, self.affine(expr.index, expr.mask), mask, other)
        self._touched += 1
        return value

    def _whole_word(self, expr: Apply) -> Value | None:
        """Four bytes that follow each other in memory, read at once; None if they are not that."""
        first = None if self._guards else start_of_run(expr.args)
        if first is None:
            return None
        self._touched += 1
        return self.m.load_words(first.buffer, self.affine(first.index))

    # -- indices -----------------------------------------------------------------------------------
    def affine(self, expr: Expr, mask: Expr | None = None) -> Affine:
        """An index by its parts; memory in it is touched, and checked, only where ``mask``
        holds.
        """
        guarded = self._enter(expr, mask)
        found = Affine()
        if isinstance(expr, Linear):
            self._add(found, self.size(expr.const), 1)
            for coefficient, term in expr.terms:
                self._add(found, self.value(term), coefficient)
        else:
            self._add(found, self.value(expr), 1)
        self._leave(guarded)
        return found

    def _add(self, total: Affine, value: Value | Ramp, by: Size) -> None:
        """Add ``by * value`` to an index."""
        if isinstance(value, Ramp) and total.stride != 0 and value.repeat != total.repeat:
            value = self.b.spread(value)
        if isinstance(value, Ramp):
            total.repeat = value.repeat
            self._add(total, value.base, by)
            step = self._scaled(value.stride, by)
            if isinstance(total.stride, int) and isinstance(step, int):
                total.stride += step
            else:
                total.stride = self.o.binary("add", _as_value(total.stride), _as_value(step))
        elif value.lanes:
            scaled = self._product(value, by)
            total.varying = (
                scaled if total.varying is None else self.o.binary("add", total.varying, scaled)
            )
        elif isinstance(value.const, int) and isinstance(by, int):
            total.const += value.const * by
        else:
            total.parts.append(self._product(value, by))

    def _scaled(self, stride: int, by: Size) -> int | Value:
        return stride * by if isinstance(by, int) else self._product(int_constant(stride), by)

    def _product(self, value: Value, by: Size) -> Value:
        if by == 1:
            return value
        factor = self.size(by)
        if value.const == 1:
            return factor
        return self.o.binary("mul", value, self.b.splat(factor, value.lanes))

    def _linear(self, expr: Linear) -> Value | Ramp:
        return self.gathered(self.affine(expr))

    def gathered(self, index: Affine) -> Value | Ramp:
        """An index as one value."""
        base: Value | None = None
        for part in sorted(index.parts, key=lambda p: p.place):
            base = part if base is None else self.o.binary("add", base, part)
        if base is None:
            base = int_constant(index.const)
        elif index.const:
            base = self.o.binary("add", base, int_constant(index.const))
        lanes = self.m.lanes
        if isinstance(index.stride, int) and index.varying is None:
            if index.stride == 0:
                return base
            align = self._alignment(index, lanes // index.repeat)
            return Ramp(base, index.stride, lanes, align, base.place, index.repeat)
        total = index.varying
        if isinstance(index.stride, Value) or index.stride:
            steps = self.m.steps(index.stride, index.repeat)
            total = steps if total is None else self.o.binary("add", total, steps)
        if total is None:
            return base
        return self.o.binary("add", total, self.b.splat(base, lanes)) if base.const != 0 else total

    def _alignment(self, index: Affine, steps: int) -> int:
        """What the base of a ramp is certainly a multiple of: its steps if each part is, else 1."""
        whole = index.const % steps == 0 and all(self.multiple(p, steps) for p in index.parts)
        return steps if whole else 1

    def multiple(self, value: Value, of: int) -> bool:
        """Whether a scalar is known to be a multiple of ``of``."""
        if isinstance(value.const, int):
            return value.const % of == 0
        return self.m.multiples.get(value.text, 1) % of == 0

    def _index_apply(self, expr: Apply, args: list[Value | Ramp]) -> Value | Ramp | None:
        """int64 operations that keep ramps, or that fit 32 bits because the operands' bounds are
        known.
        """
        op = expr.op
        if op in ("add", "sub", "mul", "neg") and any(isinstance(a, Ramp) for a in args):
            return self._ramp_arithmetic(op, args)
        if op in ("floordiv", "mod") and max(a.lanes for a in args):
            quick = self.o.apply_ramp(op, args)
            return quick if quick is not None else self._narrow_division(expr, args)
        if op in ("floordiv", "mod") and _nonnegative(expr.args[0]):
            return self._unsigned_division(op, args)
        return None

    def _ramp_arithmetic(self, op: str, args: list[Value | Ramp]) -> Value | Ramp | None:
        total = Affine()
        if op in ("add", "sub"):
            self._add(total, args[0], 1)
            self._add(total, args[1], 1 if op == "add" else -1)
        elif op == "neg":
            self._add(total, args[0], -1)
        else:
            factor, other = (
                (args[0], args[1]) if isinstance(args[0].const, int) else (args[1], args[0])
            )
            if not isinstance(factor.const, int):
                return None
            self._add(total, other, factor.const)
        return self.gathered(total)

    def _unsigned_division(self, op: str, args: list[Value | Ramp]) -> Value | None:
        a, b = args
        if (
            not isinstance(b.const, int)
            or b.const <= 0
            or b.const & (b.const - 1) == 0
            or not isinstance(a, Value)
        ):
            return None
        if a.const is not None or not isinstance(b, Value):
            return None
        return self.o.binary("udiv" if op == "floordiv" else "urem", a, b)

    def _narrow_division(self, expr: Apply, args: list[Value | Ramp]) -> Value | None:
        """Division of int64 lanes that fit 31 bits, as 32-bit lanes: there is no vector instruction
        for 64.
        """
        low, high = bounds(expr.args[0])
        by = args[1].const
        if not isinstance(low, int) or not isinstance(high, int) or low < 0 or high >= 1 << 31:
            return None
        if not isinstance(by, int) or not 0 < by < 1 << 31 or by & (by - 1) == 0:
            return None
        wide = self.b.spread(args[0])
        narrow = self.b.spread(self.o.apply("cast", (wide,), int32))
        divisor = self.b.splat(constant(by, int32), narrow.lanes)
        result = self.o.binary("udiv" if expr.op == "floordiv" else "urem", narrow, divisor)
        return self.b.spread(self.o.apply("cast", (result,), int64))

    # -- sizes -------------------------------------------------------------------------------------
    def size(self, size: Size) -> Value:
        """The value of a symbolic size."""
        if isinstance(size, int):
            return int_constant(size)
        total: Value | None = None
        for monomial, coefficient in size.terms.items():
            product = int_constant(coefficient)
            for factor in monomial:
                product = self._times(product, self._factor(factor))
            total = product if total is None else self.o.binary("add", total, product)
        if total is None:
            raise CompilerError(f"[llvm] the size {size} has no terms")
        return total

    def _times(self, a: Value, b: Value) -> Value:
        return b if a.const == 1 else self.o.binary("mul", a, b)

    def _factor(self, factor: str | Quotient) -> Value:
        if isinstance(factor, str):
            return self.sizes[factor]
        value = self.o.apply(
            "floordiv", (self.size(factor.numerator), int_constant(factor.denominator)), int64
        )
        return self.b.spread(value)

    def extent(self, extent: Extent) -> Value | Ramp:
        """The value of a loop's extent."""
        if isinstance(extent, (int, Dim)):
            return self.size(extent)
        return self.value(extent)

    # -- checked indices ---------------------------------------------------------------------------
    def _checked_index(self, expr: Apply) -> Value:
        """Wrap a negative index; one outside the axis becomes 0 and is reported (without a branch,
        see ``Memory``).
        """
        self._touched += 1
        lanes, (a, size) = self.b.uniform_lanes(*(self.value(x) for x in expr.args))
        zero = self.o.const(0, int64, lanes)
        wrapped = self.o.select(
            self.o.compare("icmp slt", a, zero), self.o.binary("add", a, size), a
        )
        good = self.o.compare("icmp ult", wrapped, size)
        bad = self.b.spread(self.o.apply("not", (good,), bool_))
        inside = [self.m.mask] if self.m.mask is not None else []
        for guard in (*self._guards, *self._arms, *inside):
            both = self.o.apply("and", (bad, guard), bool_)
            bad = self.b.spread(both)
        self.m.report(self.m.any_lane(bad), self._ordinals[self._numbering.number(expr)] + 1)
        return self.o.select(good, wrapped, zero)


def _as_value(stride: int | Value) -> Value:
    return int_constant(stride) if isinstance(stride, int) else stride


def _nonnegative(expr: Expr) -> bool:
    low, _ = bounds(expr)
    if isinstance(low, Dim):
        return all(c >= 0 for c in low.terms.values())
    return low is not None and low >= 0


_WRITE: Final[dict[type, Callable[..., Value | Ramp]]] = {
    Var: ExpressionWriter._var,
    Const: ExpressionWriter._const,
    Param: ExpressionWriter._param,
    Read: ExpressionWriter._read,
    Apply: ExpressionWriter._apply,
    Linear: ExpressionWriter._linear,
    Load: ExpressionWriter._load,
}
