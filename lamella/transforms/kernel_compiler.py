"""Kernels written in Python as loop IR.

Input: a function's syntax tree and what its parameters are. Output: the statements of one grid
iteration. Sizes, numbers of the surrounding program and loops over ``unroll`` are known while
compiling; everything else becomes an expression. An index that cannot be shown to lie inside its
axis is checked when the kernel runs.

Grammar: assignments, ``+=`` and its like, ``for`` over ``grid`` (once, outermost), ``range``,
``lanes`` and ``unroll``, ``if``, and the expressions of ``kernel_expressions``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lamella.dtypes import DType, bool_, int64
from lamella.ir.dim import Dim, Size
from lamella.ir.lanes import meeting
from lamella.ir.loops import (
    Accumulate,
    Alloc,
    Apply,
    Assign,
    Declare,
    Expr,
    For,
    If,
    Load,
    Read,
    Stmt,
    Var,
)  # fmt: skip
from lamella.ir.walk import expressions
from lamella.transforms import kernel_language as words
from lamella.transforms.kernel_expressions import (
    BINARY,
    Array,
    Expressions,
    Memory,
    Scratch,
    Variable,
    natural,
)  # fmt: skip

__all__ = ["Array", "Compiler", "Memory"]

_FOLDS: Final = frozenset({"add", "mul"})  # what += and *= are in lanes
_SHARED: Final = frozenset({"max", "min", "add", "mul"})


class Compiler(Expressions):
    """Translates one function; ``names`` gives its globals, closure and parameters."""

    def __init__(self, tree: ast.FunctionDef, names: Mapping[str, Any], where: str) -> None:
        super().__init__(names, where)
        self.tree = tree
        counts: dict[str, int] = {}
        for node in ast.walk(tree):
            targets: Sequence[ast.expr] = ()
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
                targets = [node.target] * (1 + isinstance(node, ast.AugAssign))
            for name in [n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]:
                if isinstance(name.ctx, ast.Store):
                    counts[name.id] = counts.get(name.id, 0) + 1
        self.mutable = {name for name, count in counts.items() if count > 1}
        self.lane: set[str] = set()  # variables declared outside the lanes loop under way
        self.in_lanes = False
        self.atomic: set[int] = set()  # results that are changed in atomic steps
        self.axes: dict[Var, int] = {}  # of the grid, those with several iterations
        self.tests: list[Expr] = []  # of the branches under way

    def split(self) -> tuple[list[ast.stmt], ast.For]:
        """What precedes the grid loop, and the grid loop."""
        body = [s for s in self.tree.body if not _is_docstring(s)]
        if not body or not isinstance(body[-1], ast.For):
            raise self.fail(self.tree, "the last statement must loop over lm.kernel.grid(...)")
        return body[:-1], body[-1]

    def sizes(self) -> tuple[Size, ...]:
        """The sizes of the grid."""
        before, loop = self.split()
        for statement in before:
            if self.statement(statement):
                raise self.fail(statement, "only sizes and constants may come before the grid")
        call = loop.iter
        if not isinstance(call, ast.Call) or self.value(call.func) is not words.grid:
            raise self.fail(loop, "the outermost loop must run over lm.kernel.grid(...)")
        found = []
        for size in self.arguments(call):
            if isinstance(size, bool) or not isinstance(size, (int, Dim)):
                raise self.fail(call, "the sizes of the grid must be known from shapes")
            found.append(size)
        return tuple(found)

    def body(self, memory: Memory, at: Sequence[Expr]) -> list[Stmt]:
        """The statements of the grid iteration ``at``."""
        self.memory = memory
        _, loop = self.split()
        targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
        if len(targets) != len(at):
            raise self.fail(loop, f"{len(targets)} names for a grid of {len(at)} sizes")
        for axis, (target, value) in enumerate(zip(targets, at, strict=True)):
            self.bind(target, value)
            if isinstance(value, Var) and value.extent not in (0, 1):
                self.axes[value] = axis
        return self.block(loop.body)

    def bind(self, target: ast.expr, value: Any) -> None:
        """Give a name its value."""
        if not isinstance(target, ast.Name):
            raise self.fail(target, "assign to a name or to an element of an array")
        self.names[target.id] = value

    def block(self, body: Sequence[ast.stmt]) -> list[Stmt]:
        """Statements in order."""
        return [made for statement in body for made in self.statement(statement)]

    # -- statements --------------------------------------------------------------------------------
    def statement(self, node: ast.stmt) -> list[Stmt]:
        """One statement."""
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            return self.assign(node.targets[0], self.value(node.value), None)
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            return self.assign(node.target, self.value(node.value), self.value(node.annotation))
        if isinstance(node, ast.AugAssign):
            return self.augmented(node)
        if isinstance(node, ast.For):
            return self.loop(node)
        if isinstance(node, ast.If):
            return self.condition(node)
        if isinstance(node, ast.Pass) or _is_docstring(node):
            return []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return self.effect(node.value)
        raise self.fail(node, f"{type(node).__name__} has no meaning in a kernel")

    def assign(self, target: ast.expr, value: Any, dtype: DType | None) -> list[Stmt]:
        """``target = value``."""
        if isinstance(target, ast.Tuple):
            if not isinstance(value, tuple) or len(value) != len(target.elts):
                raise self.fail(target, f"{len(target.elts)} names for another number of values")
            pairs = zip(target.elts, value, strict=True)
            return [made for one, part in pairs for made in self.assign(one, part, None)]
        if isinstance(target, ast.Subscript):
            array = self.value(target.value)
            if not isinstance(array, Array) or not array.written:
                raise self.fail(target, "only results and scratch memory can be written")
            index = self.index(array, target, target.slice)
            if array.number >= 0:
                self._apart(target, index)
            return [self.memory.store(array, index, self.typed(value, array.dtype))]
        if not isinstance(target, ast.Name):
            raise self.fail(target, "assign to a name or to an element of an array")
        if isinstance(value, Scratch):
            array = Array(self.memory.name(target.id), (value.size,), value.dtype)
            self.names[target.id] = array
            return [Alloc(array.name, array.dtype, value.size, value.space)]  # type: ignore[arg-type]
        known = self.names.get(target.id)
        if target.id in self.mutable and isinstance(known, Variable):
            return self._reassign(known, value)
        if target.id in self.mutable and not isinstance(value, (tuple, Array)):
            typed = self.typed(value, dtype or natural(value))
            made = Variable(self.memory.name(target.id), typed.dtype)
            self.names[target.id] = made
            return [Declare(made.name, made.dtype, typed)]
        if dtype is not None:
            value = self.typed(value, dtype)
        if isinstance(value, Expr) and self._reads_memory(value):
            name = self.memory.name(target.id)
            self.names[target.id] = Read(name, value.dtype)
            return [Declare(name, value.dtype, value)]
        self.names[target.id] = value
        return []

    def _apart(self, target: ast.expr, index: Sequence[Expr]) -> None:
        """Raise if iterations of the grid certainly write the same element."""
        read = list(expressions([*index, *self.tests]))
        if any(isinstance(e, (Load, Read)) for e in read):
            return
        for var, axis in self.axes.items():
            if var not in read:
                raise self.fail(target, f"iterations along axis {axis} of the grid write the same "
                                "element, in any order; use their number in the index, or "
                                "lm.kernel.atomic_add")

    def _reassign(self, variable: Variable, value: Any) -> list[Stmt]:
        typed = self.typed(value, variable.dtype)
        own = Read(variable.name, variable.dtype)
        outside = self.in_lanes and variable.name in self.lane
        if outside and isinstance(typed, Apply) and typed.op in _SHARED and own in typed.args:
            other = typed.args[1 - typed.args.index(own)]
            return [Accumulate((variable.name,), typed.op, (other,))]
        return [Assign(variable.name, typed)]

    def _reads_memory(self, value: Expr) -> bool:
        return any(isinstance(e, (Load, Read)) for e in expressions([value]))

    def augmented(self, node: ast.AugAssign) -> list[Stmt]:
        """``target op= value``."""
        op, plain = BINARY[type(node.op)]
        value = self.value(node.value)
        if isinstance(node.target, ast.Subscript):
            old = self.value(node.target)
            return self.assign(node.target, self.binary(node, op, plain, old, value), None)
        known = self.names.get(node.target.id) if isinstance(node.target, ast.Name) else None
        if not isinstance(known, Variable):
            raise self.fail(node, "the variable has no value yet; assign to it before the loop")
        if self.in_lanes and known.name in self.lane and op in _FOLDS:
            return [Accumulate((known.name,), op, (self.typed(value, known.dtype),))]
        own = Read(known.name, known.dtype)
        return self._reassign(known, self.binary(node, op, plain, own, value))

    def loop(self, node: ast.For) -> list[Stmt]:
        """A loop inside the grid."""
        if not isinstance(node.iter, ast.Call) or node.orelse:
            raise self.fail(node, "loops run over range, lm.kernel.lanes or lm.kernel.unroll")
        kind = words.LOOPS.get(self.value(node.iter.func))
        if kind is None or len(node.iter.args) != 1 or not isinstance(node.target, ast.Name):
            raise self.fail(node, "loops run over range(n), lm.kernel.lanes(n) or .unroll(n)")
        extent = self.value(node.iter.args[0])
        if kind == "unroll" and not isinstance(extent, int):
            raise self.fail(node, "the size of an unrolled loop must be a constant")
        if not isinstance(extent, (int, Dim)):
            extent = self.typed(extent, int64)
        var = self.memory.var(node.target.id, extent)
        outer, self.names[node.target.id] = self.names.get(node.target.id), var
        before = self.lane, self.in_lanes
        if kind == "lanes":
            self.lane = {v.name for v in self.names.values() if isinstance(v, Variable)}
            self.in_lanes = True
        made = For(var, kind, tuple(self.block(node.body)))  # type: ignore[arg-type]
        self.lane, self.in_lanes = before
        self.names[node.target.id] = outer
        if kind == "lanes" and meeting(made) is not None:
            raise self.fail(node, "two lanes may use one element of what the loop writes; use "
                            "range(n), or an index in which every lane has a place of its own")
        return [made]

    def effect(self, node: ast.Call) -> list[Stmt]:
        """A call for its effect: an atomic step."""
        op = words.ATOMIC.get(self.value(node.func))
        if op is None or len(node.args) != 3:
            raise self.fail(node, "the result of this call is not used")
        array = self.value(node.args[0])
        if not isinstance(array, Array) or array.number < 0 or not array.written:
            raise self.fail(node, "atomic steps change results")
        if array.dtype.kind not in "iu" or self.in_lanes:
            raise self.fail(node, "atomic steps change integers, outside of loops over lanes")
        self.atomic.add(array.number)
        index = self.index(array, node, node.args[1])
        value = self.typed(self.value(node.args[2]), array.dtype)
        return [self.memory.atomic(array, index, op, value)]

    def condition(self, node: ast.If) -> list[Stmt]:
        """``if``: decided now where it is known, else a branch."""
        test = self.value(node.test)
        if not isinstance(test, Expr):
            return self.block(node.body if test else node.orelse)
        outside = dict(self.names)
        self.tests.append(test)
        then = tuple(self.block(node.body))
        self.names = dict(outside)
        otherwise = tuple(self.block(node.orelse))
        self.names = outside
        self.tests.pop()
        return [If(self.typed(test, bool_), then, otherwise)]


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
