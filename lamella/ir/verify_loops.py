"""Check that a kernel keeps every rule of the loop IR; run after each compiler pass in tests and
under debug.

Input: a kernel. Output: nothing, or a ``CompilerError`` that names the kernel, the rule and the
statement. The rules, beside the ones stated in ``loops``: names are unique identifiers, not words
of the text form, defined before use and used inside their block; sizes are listed; loops inside
``lanes`` have extents, and ``If`` conditions, that are the same for all lanes; nothing is allocated
inside ``lanes``; a variable declared outside a ``lanes`` or ``block`` loop is not assigned inside
it; register scratch holds at most 2,048 elements and its indices depend on unrolled and lane
variables only; lanes do not all store one element (``lanes`` says what else keeps them apart).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from lamella.dtypes import DType, int64
from lamella.errors import CompilerError
from lamella.ir.dim import Dim, Size, symbols
from lamella.ir.lanes import shared
from lamella.ir.loop_text import statement_text
from lamella.ir.loops import (
    ACCUMULATE_OPS,
    ATOMIC_OPS,
    Accumulate,
    Alloc,
    Assign,
    Barrier,
    Const,
    Declare,
    Expr,
    For,
    If,
    Kernel,
    Linear,
    Load,
    Param,
    Prefetch,
    Read,
    Stmt,
    Store,
    Var,
)  # fmt: skip
from lamella.ir.numbering import Numbering, checked_indices
from lamella.ir.verify_exprs import accumulates, check_apply, check_const, identity
from lamella.ir.walk import expressions, operands, roots, statements

__all__ = ["verify_kernel"]

REGISTER_ELEMENTS: Final = 2048
_NAME: Final = re.compile(r"[A-Za-z_][\w.]*")
_RESERVED: Final = frozenset(
    re.findall(
        r"\w+",
        """
        alias barrier block else faults grid if in inf inout kernel lanes local nan out param
        prefetch prefetch2 register serial shared sizes streamed true false unroll var work
        """,
    )
)
_PLACES: Final = {"grid": 0, "block": 1, "serial": 2, "unroll": 2, "lanes": 2}


def verify_kernel(kernel: Kernel) -> None:
    r"""Return if ``kernel`` keeps every rule of the loop IR.

    Raises:
        CompilerError: naming the broken rule and the statement that breaks it.

    >>> from lamella.ir.text import parse_kernel
    >>> kernel = parse_kernel("kernel k\n  in x: int64\ngrid i < 4\n  x[i] = i")
    >>> verify_kernel(kernel)
    Traceback (most recent call last):
    lamella.errors.CompilerError: [verify] kernel k: x is an input, not stored to, in `x[i] = i`
    """
    _Verifier(kernel).run()


@dataclass(frozen=True)
class _Scope:
    """What is visible at a statement. Tables are copied by blocks, so that names end with them."""

    loops: dict[str, Var]
    variables: dict[str, DType]
    buffers: dict[str, DType]
    within: tuple[For, ...]
    private: frozenset[str] = (
        frozenset()
    )  # variables declared inside the innermost lanes or block loop
    varying: frozenset[str] = frozenset()  # names whose values differ between lanes

    def inner(self, loop: For) -> _Scope:
        private: frozenset[str] = self.private
        if loop.kind in ("lanes", "block", "grid"):
            private = frozenset()
        scope = replace(self.copy(), within=(*self.within, loop), private=private)
        scope.loops[loop.var.name] = loop.var
        return scope

    def copy(self) -> _Scope:
        return replace(
            self, loops=dict(self.loops), variables=dict(self.variables), buffers=dict(self.buffers)
        )

    def inside(self, kind: str) -> bool:
        return any(loop.kind == kind for loop in self.within)


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.taken: set[str] = set()
        self.params = {param.name: param for param in kernel.params}
        self.modes = {buffer.name: buffer.mode for buffer in kernel.buffers}
        self.registers: set[str] = set()
        self.inits: dict[str, Expr] = {}
        self.at: Stmt | None = None

    def fail(self, why: str) -> NoReturn:
        where = f", in `{_line(self.at)}`" if self.at is not None else ""
        raise CompilerError(f"[verify] kernel {self.kernel.name}: {why}{where}")

    def define(self, name: str) -> None:
        if not _NAME.fullmatch(name) or name in _RESERVED:
            self.fail(f"{name!r} is not a name (a word of the text form, or not an identifier)")
        if name in self.taken:
            self.fail(f"{name} is defined twice; names are unique in a kernel")
        self.taken.add(name)

    def run(self) -> None:
        kernel = self.kernel
        buffers = [buffer.name for buffer in kernel.buffers]
        for name in (*buffers, *[param.name for param in kernel.params], *kernel.sizes):
            self.define(name)
        self.aliases()
        self.size(kernel.work)
        if not isinstance(kernel.body, For) or kernel.body.kind != "grid":
            self.fail("the body must be a grid loop")
        visible = {buffer.name: buffer.dtype for buffer in kernel.buffers}
        self.statement(kernel.body, _Scope({}, {}, visible, ()))
        self.at = None
        self.faults()

    def aliases(self) -> None:
        buffers = {buffer.name: buffer for buffer in self.kernel.buffers}
        for buffer in self.kernel.buffers:
            source = buffers.get(buffer.alias) if buffer.alias is not None else None
            if buffer.alias is None:
                continue
            if source is None or source.mode != "in" or buffer.mode != "out":
                self.fail(f"{buffer.name} may share memory with an input only, not {buffer.alias}")
            if source.dtype.itemsize != buffer.dtype.itemsize:
                self.fail(f"{buffer.name} shares memory with {source.name} of another item size")

    def faults(self) -> None:
        found = len(checked_indices(self.kernel))
        if found != self.kernel.faults:
            self.fail(
                f"faults is {self.kernel.faults}, but {found} distinct checked_index are used"
            )
        last = self.kernel.buffers[-1] if self.kernel.buffers else None
        named = (
            last is not None and last.name == "fault" and last.dtype is int64 and last.mode != "in"
        )
        if ("fault" in self.modes) != bool(found) or (found and not named):
            self.fail("kernels with checked_index, and no others, end with `out fault: int64`")

    # -- statements ------------------------------------------------------------------------------
    def block(self, body: tuple[Stmt, ...], scope: _Scope) -> None:
        for stmt in body:
            scope = self.statement(stmt, scope)

    def statement(self, stmt: Stmt, scope: _Scope) -> _Scope:
        """Check ``stmt`` and return the scope of the statements after it."""
        self.at = stmt
        for root in roots(stmt):
            self.expression(root, scope)
        if isinstance(stmt, For):
            self.loop(stmt, scope)
        elif isinstance(stmt, If):
            self.condition(stmt, scope)
        elif isinstance(stmt, Store):
            self.store(stmt, scope)
        elif isinstance(stmt, Declare):
            return self.declare(stmt, scope)
        elif isinstance(stmt, Alloc):
            return self.alloc(stmt, scope)
        elif isinstance(stmt, Assign):
            self.assign(stmt, scope)
        elif isinstance(stmt, Accumulate):
            self.accumulate(stmt, scope)
        elif isinstance(stmt, Barrier):
            if not scope.inside("block") or scope.inside("lanes"):
                self.fail("a barrier stands in a block loop, not in lanes")
        elif isinstance(stmt, Prefetch):
            self.prefetch(stmt, scope)
        else:
            self.fail(f"{stmt!r} is not a statement")
        return scope

    def loop(self, stmt: For, scope: _Scope) -> None:
        extent, kind = stmt.var.extent, stmt.kind
        if isinstance(extent, int | Dim):
            self.size(extent)
            if isinstance(extent, int) and extent < 0:
                self.fail("an extent is not negative")
        elif extent.dtype is not int64:
            self.fail(f"an extent is int64, not {extent.dtype.name}")
        if kind not in _PLACES:
            self.fail(f"{kind!r} is no kind of loop")
        if (kind == "grid") != (not scope.within):
            self.fail("the outermost loop is the grid, and only that")
        if kind == "grid" and not isinstance(extent, int | Dim):
            self.fail("a grid has a plain or symbolic extent")
        if kind == "unroll" and not isinstance(extent, int):
            self.fail("an unrolled loop has a constant extent")
        if kind in ("lanes", "block") and scope.inside("lanes"):
            self.fail(f"no {kind} loop stands inside lanes")
        if not isinstance(extent, int | Dim) and self.varies(extent, scope.varying):
            self.fail("a loop inside lanes runs equally often for all lanes")
        self.define(stmt.var.name)
        inner = scope.inner(stmt)
        if kind == "lanes":
            self.folded(stmt, scope)
            inner = replace(inner, varying=_varying(stmt))
        self.block(stmt.body, inner)
        if kind == "lanes" and all(outer.var.extent != 0 for outer in inner.within):
            self.independent(stmt)

    def condition(self, stmt: If, scope: _Scope) -> None:
        if stmt.condition.dtype.kind != "b":
            self.fail(f"a condition is bool, not {stmt.condition.dtype.name}")
        if self.varies(stmt.condition, scope.varying):
            self.fail("a condition inside lanes is the same for all lanes; use select or a mask")
        self.block(stmt.then, scope.copy())
        self.block(stmt.otherwise, scope.copy())

    def prefetch(self, stmt: Prefetch, scope: _Scope) -> None:
        if stmt.buffer not in scope.buffers or stmt.buffer in self.registers:
            self.fail(f"{stmt.buffer} is no memory here")
        if stmt.index.dtype is not int64:
            self.fail(f"an index is int64, not {stmt.index.dtype.name}")
        if _loads(stmt.index):
            self.fail("a prefetch reads nothing for its index")

    def store(self, stmt: Store, scope: _Scope) -> None:
        dtype = scope.buffers.get(stmt.buffer)
        if dtype is None:
            self.fail(f"{stmt.buffer} is no buffer here")
        if self.modes.get(stmt.buffer) == "in":
            self.fail(f"{stmt.buffer} is an input, not stored to")
        if stmt.buffer == "fault":
            self.fail("only checked_index writes to fault")
        self.access(stmt.buffer, stmt.index, stmt.mask, scope)
        if stmt.value.dtype is not dtype:
            self.fail(f"a {stmt.value.dtype.name} value does not go into a {dtype.name} buffer")
        if stmt.atomic and (
            stmt.atomic not in ATOMIC_OPS or dtype.kind not in "iu"
            or self.modes.get(stmt.buffer) != "inout" or scope.inside("lanes")
        ):
            self.fail("an atomic step is add, max, min, and, or of integers in an inout buffer, "
                      "not in lanes")  # fmt: skip

    def declare(self, stmt: Declare, scope: _Scope) -> _Scope:
        self.define(stmt.name)
        if stmt.init.dtype is not stmt.dtype:
            self.fail(f"{stmt.name} is {stmt.dtype.name}, its first value {stmt.init.dtype.name}")
        self.inits[stmt.name] = stmt.init
        variables = scope.variables | {stmt.name: stmt.dtype}
        return replace(scope, variables=variables, private=scope.private | {stmt.name})

    def alloc(self, stmt: Alloc, scope: _Scope) -> _Scope:
        self.define(stmt.name)
        if stmt.space not in ("register", "local", "shared"):
            self.fail(f"{stmt.space!r} is no memory space")
        if not isinstance(stmt.size, int) or stmt.size < 1:
            self.fail("scratch memory has a constant, positive size")
        if scope.inside("lanes"):
            self.fail("nothing is allocated inside lanes")
        if stmt.space == "shared" and scope.inside("block"):
            self.fail("shared memory is allocated outside the block loop that shares it")
        if stmt.space == "register":
            if stmt.size > REGISTER_ELEMENTS:
                self.fail(f"register scratch holds at most {REGISTER_ELEMENTS} elements")
            self.registers.add(stmt.name)
        return replace(scope, buffers=scope.buffers | {stmt.name: stmt.dtype})

    def assign(self, stmt: Assign, scope: _Scope) -> None:
        dtype = self.variable(stmt.name, scope)
        if stmt.value.dtype is not dtype:
            self.fail(f"{stmt.name} is {dtype.name}, not {stmt.value.dtype.name}")
        if stmt.name not in scope.private and (scope.inside("lanes") or scope.inside("block")):
            self.fail(
                f"{stmt.name} is declared outside the lanes or block loop, so only accumulated"
            )

    def variable(self, name: str, scope: _Scope) -> DType:
        return scope.variables.get(name) or self.fail(f"{name} is no variable here")

    def accumulate(self, stmt: Accumulate, scope: _Scope) -> None:
        pair = stmt.op in ("argmax", "argmin")
        if stmt.op not in ACCUMULATE_OPS:
            self.fail(f"{stmt.op!r} is no way to accumulate ({', '.join(ACCUMULATE_OPS)})")
        if not len(stmt.names) == len(stmt.values) == 1 + pair:
            self.fail(f"{stmt.op} takes {1 + pair} names and as many values")
        for name, value in zip(stmt.names, stmt.values, strict=True):
            dtype = self.variable(name, scope)
            if value.dtype is not dtype:
                self.fail(f"{name} is {dtype.name}, not {value.dtype.name}")
        if not accumulates(stmt.op, stmt.values[0].dtype):
            self.fail(f"{stmt.op} does not accumulate {stmt.values[0].dtype.name}")
        if pair and stmt.values[1].dtype is not int64:
            self.fail(f"{stmt.op} takes an int64 index, not {stmt.values[1].dtype.name}")
        outside = any(name not in scope.private for name in stmt.names)
        if outside and scope.inside("block") and not scope.inside("lanes"):
            self.fail("iterations of a block loop share no variable; use shared memory")

    def folded(self, loop: For, scope: _Scope) -> None:
        """A variable folded by a lanes loop starts as the identity and is used for nothing else
        inside.
        """
        folds: dict[str, str] = {}
        for stmt in statements([loop]):
            if isinstance(stmt, Accumulate):
                for name in stmt.names:
                    if name in scope.variables and folds.setdefault(name, stmt.op) != stmt.op:
                        self.at = stmt
                        self.fail(f"{name} is folded with {folds[name]} and {stmt.op} in one loop")
        for stmt in statements([loop]):
            self.at = stmt
            for expr in expressions(roots(stmt)):
                if isinstance(expr, Read) and expr.name in folds:
                    self.fail(f"{expr.name} is folded by this lanes loop, so it is not read inside")
        self.at = loop
        for name, op in folds.items():
            first, want = self.inits[name], identity(op, scope.variables[name])
            if want is not None and name not in _indices(loop) and first != want:
                self.fail(f"{name} must be declared with the identity of {op}")

    def independent(self, loop: For) -> None:
        met = shared(loop)
        if met is not None:
            self.at = met
            self.fail("all lanes store one element; each needs one of its own")

    # -- expressions -----------------------------------------------------------------------------
    def size(self, size: Size) -> None:
        unknown = symbols(size) - set(self.kernel.sizes)
        if unknown:
            self.fail(f"the size {min(unknown)} is not listed in sizes")

    def varies(self, expr: Expr, varying: frozenset[str]) -> bool:
        return bool(varying) and _varies(expr, varying)

    def expression(self, root: Expr, scope: _Scope) -> None:
        for expr in expressions([root]):
            if isinstance(expr, Var):
                if scope.loops.get(expr.name) != expr:
                    self.fail(f"{expr.name} is not the variable of an enclosing loop")
            elif isinstance(expr, Param):
                if self.params.get(expr.name) != expr:
                    self.fail(f"{expr.name} is no {expr.dtype.name} parameter")
            elif isinstance(expr, Read):
                if self.variable(expr.name, scope) is not expr.dtype:
                    self.fail(f"{expr.name} is read as {expr.dtype.name}")
            elif isinstance(expr, Load):
                self.load(expr, scope)
            elif isinstance(expr, Linear):
                self.linear(expr)
            else:
                problem = check_const(expr) if isinstance(expr, Const) else check_apply(expr)
                if problem:
                    self.fail(problem)

    def linear(self, expr: Linear) -> None:
        for size in (expr.const, *[scale for scale, _ in expr.terms]):
            self.size(size)
        for scale, term in expr.terms:
            if isinstance(term, Linear | Const) or scale == 0:
                self.fail("the terms of a Linear are no constants and have coefficients")
            if term.dtype is not int64:
                self.fail(f"the terms of a Linear are int64, not {term.dtype.name}")
        numbering = Numbering()
        if len({numbering.number(term) for _, term in expr.terms}) < len(expr.terms):
            self.fail("the terms of a Linear are distinct")

    def load(self, expr: Load, scope: _Scope) -> None:
        dtype = scope.buffers.get(expr.buffer)
        if dtype is None:
            self.fail(f"{expr.buffer} is no buffer here")
        if dtype is not expr.dtype:
            self.fail(f"{expr.buffer} holds {dtype.name}, loaded as {expr.dtype.name}")
        if expr.other is not None and (expr.mask is None or expr.other.dtype is not dtype):
            self.fail(f"the other value of a load is {dtype.name} and needs a mask")
        self.access(expr.buffer, expr.index, expr.mask, scope)

    def access(self, buffer: str, index: Expr, mask: Expr | None, scope: _Scope) -> None:
        if index.dtype is not int64:
            self.fail(f"an index is int64, not {index.dtype.name}")
        if mask is not None and mask.dtype.kind != "b":
            self.fail(f"a mask is bool, not {mask.dtype.name}")
        if buffer in self.registers:
            for expr in expressions([index]):
                if isinstance(expr, Load | Read | Param) or not self.constant(expr, scope):
                    self.fail(f"{buffer} is in registers: its indices are constant once unrolled")

    def constant(self, expr: Expr, scope: _Scope) -> bool:
        """Whether unrolling and taking lanes as one leave no more than a constant."""
        if isinstance(expr, Linear):
            return all(
                isinstance(s, int) for s in (expr.const, *[scale for scale, _ in expr.terms])
            )
        if not isinstance(expr, Var):
            return True
        kinds = {loop.var.name: loop.kind for loop in scope.within}
        return kinds.get(expr.name) in ("unroll", "lanes") and isinstance(expr.extent, int)


def _line(stmt: Stmt | None) -> str:
    """A statement's own line of text."""
    if isinstance(stmt, For):
        stmt = replace(stmt, body=())
    elif isinstance(stmt, If):
        stmt = replace(stmt, then=(), otherwise=())
    return statement_text(stmt).replace("\n", "; ") if stmt is not None else ""


def _indices(loop: For) -> set[str]:
    """The variables that hold positions in argmax and argmin: any first value will do."""
    pairs = [s for s in statements([loop]) if isinstance(s, Accumulate) and len(s.names) == 2]
    return {pair.names[1] for pair in pairs}


def _varies(root: Expr, varying: frozenset[str]) -> bool:
    return any(isinstance(e, Var | Read) and e.name in varying for e in expressions([root]))


def _varying(loop: For) -> frozenset[str]:
    """The names whose values differ between lanes: the lane index, and variables given a varying
    value.
    """
    names = frozenset([loop.var.name])
    while True:
        found = set(names)
        for stmt in statements([loop]):
            if isinstance(stmt, Declare | Assign) and _varies(roots(stmt)[0], names):
                found.add(stmt.name)
            elif isinstance(stmt, Accumulate) and any(_varies(v, names) for v in stmt.values):
                found.update(stmt.names)
        if found == names:
            return names
        names = frozenset(found)


def _loads(expr: Expr) -> bool:
    return isinstance(expr, Load) or any(_loads(inner) for inner in operands(expr))
