"""The pass that replaces elementary functions in a kernel by their expressions over basic
operations.

Input: a kernel. Output: an equal kernel without the operations of ``FUNCTIONS`` (the same object if
it has none). float16 and bfloat16 functions are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from lamella.compiler.mathlib import exponential, gaussian, logarithm, power, trigonometry
from lamella.compiler.mathlib.signs import Signs
from lamella.compiler.mathlib.terms import FLOAT32, FLOAT64, Format
from lamella.dtypes import DType, float32, float64
from lamella.ir.loops import (
    Accumulate,
    Apply,
    Assign,
    BufferParam,
    Declare,
    Expr,
    For,
    If,
    Kernel,
    Linear,
    Load,
    Stmt,
    Store,
    cast,
)
from lamella.ir.walk import operands, roots, statements

__all__ = ["FUNCTIONS", "expand_expr", "expand_math"]

Unary = Callable[[Expr, Format], Expr]
Binary = Callable[[Expr, Expr, Format], Expr]

_UNARY: Final[dict[str, Unary]] = {
    f.__name__: f
    for f in (
        exponential.exp, exponential.exp2, exponential.expm1, exponential.sinh, exponential.cosh,
        exponential.tanh,
        logarithm.log, logarithm.log2, logarithm.log10, logarithm.log1p, trigonometry.sin,
        trigonometry.cos, trigonometry.tan,
        trigonometry.asin, trigonometry.acos, trigonometry.atan, gaussian.erf, gaussian.erfc,
    )
}  # fmt: skip
_IN_FLOAT64: Final[dict[str, Unary]] = {
    f.__name__: f for f in (logarithm.asinh, logarithm.acosh, logarithm.atanh)
}
_BINARY: Final[dict[str, Binary]] = {"atan2": trigonometry.atan2, "pow": power.power}
FUNCTIONS: Final = frozenset(_UNARY) | frozenset(_IN_FLOAT64) | frozenset(_BINARY)
_FORMATS: Final = {"float32": FLOAT32, "float64": FLOAT64}
_SCALING: Final = {name: replace(form, scales=True) for name, form in _FORMATS.items()}


def expand_expr(op: str, args: tuple[Expr, ...], dtype: DType, scales: bool = False) -> Expr:
    """The elementary function ``op`` of ``args``, over basic operations; ``scales``: ``ldexp`` is
    an instruction.

    >>> from lamella.ir.loops import Const
    >>> expand_expr("pow", (Const(3.0, float32), Const(2.0, float32)), float32).op
    'mul'
    """
    if dtype.kind != "f":
        return power.integer_power(args[0], args[1], dtype)
    form = (_SCALING if scales else _FORMATS).get(dtype.name)
    if form is None:
        wide = tuple(cast(a, float32) for a in args)
        return cast(expand_expr(op, wide, float32, scales), dtype)
    if op in _UNARY:
        return _UNARY[op](args[0], form)
    if op in _IN_FLOAT64:
        return cast(_IN_FLOAT64[op](cast(args[0], float64), FLOAT64), dtype)
    return _BINARY[op](args[0], args[1], form)


def falling_exp(x: Expr, dtype: DType, scales: bool) -> Expr:
    """E**x, for an x that is never above zero: the bits of ``exp``, with less to do."""
    form = (_SCALING if scales else _FORMATS).get(dtype.name)
    if form is None:
        return expand_expr("exp", (x,), dtype, scales)
    return exponential.falling_exp(x, form)


def expand_math(kernel: Kernel, scales: bool = False) -> Kernel:
    """``kernel`` with every elementary function written out; ``scales``: ``ldexp`` is an
    instruction.

    >>> from lamella.ir.text import parse_kernel
    >>> kernel = parse_kernel('''kernel roots
    ...   inout x: float32
    ... grid i < 8
    ...   x[i] = sqrt(x[i])''')
    >>> expand_math(kernel) is kernel
    True
    """
    return (
        kernel
        if not _Expander.needed(kernel)
        else replace(kernel, body=_Expander(scales, kernel.buffers).loop(kernel.body))
    )


class _Expander:
    """Rewrites statements; equal objects give one result, so sharing is kept."""

    def __init__(self, scales: bool, buffers: Sequence[BufferParam]) -> None:
        self.scales = scales
        self.signs = Signs(buffers)
        self.done: dict[int, tuple[Expr, Expr]] = {}

    @staticmethod
    def needed(kernel: Kernel) -> bool:
        """Whether the kernel has an elementary function."""
        seen: set[int] = set()
        stack: list[Expr] = []
        for stmt in statements([kernel.body]):
            stack.extend(roots(stmt))
        while stack:
            e = stack.pop()
            if id(e) in seen:
                continue
            seen.add(id(e))
            if isinstance(e, Apply) and e.op in FUNCTIONS:
                return True
            stack.extend(operands(e))
        return False

    def statement(self, stmt: Stmt) -> Stmt:
        """One statement, with all inside it."""
        x = self.expr
        if not isinstance(stmt, For) and self.signs.forget((stmt,)):
            self.done.clear()
        if isinstance(stmt, Store):
            mask = None if stmt.mask is None else x(stmt.mask)
            return Store(stmt.buffer, x(stmt.index), x(stmt.value), mask, stmt.atomic)
        if isinstance(stmt, Declare):
            return Declare(stmt.name, stmt.dtype, x(stmt.init))
        if isinstance(stmt, Assign):
            return Assign(stmt.name, x(stmt.value))
        if isinstance(stmt, Accumulate):
            return Accumulate(stmt.names, stmt.op, tuple(x(v) for v in stmt.values))
        if isinstance(stmt, For):
            return self.loop(stmt)
        if isinstance(stmt, If):
            return self.branches(stmt)
        return stmt

    def branches(self, stmt: If) -> If:
        """A branch: what one side knows, the statements after it do not."""
        with self.signs.aside():
            then, otherwise = self.block(stmt.then), self.block(stmt.otherwise)
        return If(self.expr(stmt.condition), then, otherwise)

    def loop(self, stmt: For) -> For:
        """A loop."""
        if self.signs.enter(stmt):
            self.done.clear()
        body = self.block(stmt.body)
        self.signs.leave(stmt)
        return For(stmt.var, stmt.kind, body)

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Several statements."""
        return tuple(self.statement(s) for s in body)

    def expr(self, expr: Expr) -> Expr:
        """One expression."""
        known = self.done.get(id(expr))
        if known is None:
            known = self.done[id(expr)] = (expr, self._rewritten(expr))
        return known[1]

    def _rewritten(self, expr: Expr) -> Expr:
        if isinstance(expr, Apply):
            args = tuple([self.expr(a) for a in expr.args])
            if expr.op == "exp" and self.signs.never_positive(expr.args[0]):
                return falling_exp(args[0], expr.dtype, self.scales)
            if expr.op in FUNCTIONS:
                return expand_expr(expr.op, args, expr.dtype, self.scales)
            return (
                expr
                if all(a is b for a, b in zip(args, expr.args, strict=True))
                else Apply(expr.op, args, expr.dtype)
            )
        if isinstance(expr, Load):
            index = self.expr(expr.index)
            mask = None if expr.mask is None else self.expr(expr.mask)
            return (
                expr
                if index is expr.index and mask is expr.mask
                else replace(expr, index=index, mask=mask)
            )
        if isinstance(expr, Linear):
            terms = tuple((c, self.expr(term)) for c, term in expr.terms)
            same = all(a[1] is b[1] for a, b in zip(terms, expr.terms, strict=True))
            return expr if same else Linear(expr.const, terms)
        return expr
