"""Value numbering of loop IR expressions, and the one order in which a kernel's expressions are
visited.

Input: a kernel's expressions, which share subexpressions (a DAG) in whatever way they were built.
Output: one number per distinct structure, operands before users; equal structures get equal
numbers. Invariant: numbers depend on structure and visiting order only, never on object identity,
so the text form, the emitters and the fault ordinals agree. ``0.0`` and ``-0.0`` are distinct here
although Python calls them equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from lamella.ir.loops import (
    Accumulate,
    Apply,
    Assign,
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

__all__ = [
    "Numbering", "checked_indices", "children", "expressions", "literal", "operands", "roots",
    "statements",
]  # fmt: skip

Key = tuple[object, ...]


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The expressions that ``expr`` is made of; a load's mask comes before its index.

    >>> from lamella.dtypes import int64
    >>> operands(Apply("neg", (Const(1, int64),), int64))
    (Const(value=1, dtype=lamella.int64),)
    """
    kind = type(expr)
    if kind is Apply:
        return expr.args  # type: ignore[union-attr]
    if kind is Load:
        mask, index = expr.mask, expr.index  # type: ignore[union-attr]
        return (index,) if mask is None else (mask, index)
    if kind is Linear:
        return tuple([term for _, term in expr.terms])  # type: ignore[union-attr]
    return ()


def expressions(given: Iterable[Expr]) -> Iterator[Expr]:
    """Every distinct expression object under those ``given``."""
    stack, seen = list(given), set[int]()
    while stack:
        expr = stack.pop()
        if id(expr) not in seen:
            seen.add(id(expr))
            yield expr
            stack.extend(operands(expr))


def roots(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions a statement itself evaluates, in order (mask, index, value); not those of its
    body.
    """
    if isinstance(stmt, Store):
        if stmt.mask is None:
            return (stmt.index, stmt.value)
        return (stmt.mask, stmt.index, stmt.value)
    if isinstance(stmt, Prefetch):
        return (stmt.index,)
    if isinstance(stmt, Assign):
        return (stmt.value,)
    if isinstance(stmt, Declare):
        return (stmt.init,)
    if isinstance(stmt, Accumulate):
        return stmt.values
    if isinstance(stmt, If):
        return (stmt.condition,)
    if isinstance(stmt, For) and isinstance(stmt.var.extent, _EXPRESSIONS):
        return (stmt.var.extent,)
    return ()


_EXPRESSIONS = (Var, Const, Param, Linear, Load, Read, Apply)


def children(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside a statement."""
    if isinstance(stmt, For):
        return stmt.body
    if isinstance(stmt, If):
        return stmt.then + stmt.otherwise
    return ()


def statements(stmt: Stmt) -> Iterator[Stmt]:
    """A statement and all statements inside it, in program order."""
    yield stmt
    for inner in children(stmt):
        yield from statements(inner)


def literal(const: Const) -> str:
    """The text of a constant, exact: ``3`` (int64), ``true``, ``-0.0:float32``, ``nan:float64``.

    >>> from lamella.dtypes import float32, int64
    >>> literal(Const(-0.0, float32)), literal(Const(3, int64))
    ('-0.0:float32', '3')
    """
    dtype, value = const.dtype, const.value
    if dtype.kind == "f":
        text = "nan" if math.isnan(value) else repr(float(value))
    elif dtype.kind == "b":
        return "true" if value else "false"
    else:
        text = str(int(value))
        if dtype.name == "int64":
            return text
    return f"{text}:{dtype.name}"


class Numbering:
    """Numbers for expressions: ``number(expr)``; ``exprs[n]`` and ``operands[n]`` describe number
    ``n``.
    """

    __slots__ = ("_by_id", "_by_key", "exprs", "operands")

    def __init__(self) -> None:
        self._by_id: dict[int, int] = {}  # only valid while the numbered expressions live
        self._by_key: dict[Key, int] = {}
        self.exprs: list[Expr] = []
        self.operands: list[tuple[int, ...]] = []

    def number(self, root: Expr) -> int:
        """The number of ``root``; its operands are numbered first. Takes any depth without
        recursion.
        """
        by_id = self._by_id
        found = by_id.get(id(root))
        if found is not None:
            return found
        stack = [root]
        while stack:
            expr = stack[-1]
            if id(expr) in by_id:
                stack.pop()
                continue
            parts = operands(expr)
            missing = [part for part in parts if id(part) not in by_id]
            if missing:
                missing.reverse()
                stack.extend(missing)
                continue
            stack.pop()
            by_id[id(expr)] = self._intern(expr, tuple([by_id[id(part)] for part in parts]))
        return by_id[id(root)]

    def _intern(self, expr: Expr, parts: tuple[int, ...]) -> int:
        key = _key(expr, parts)
        number = self._by_key.get(key)
        if number is None:
            number = self._by_key[key] = len(self.exprs)
            self.exprs.append(expr)
            self.operands.append(parts)
        return number


def _key(expr: Expr, parts: tuple[int, ...]) -> Key:
    kind = type(expr)
    if kind is Apply:
        return (expr.op, expr.dtype.name, parts)  # type: ignore[union-attr]
    if kind is Const:
        return (literal(expr),)  # type: ignore[arg-type]
    if kind is Load:
        other = expr.other  # type: ignore[union-attr]
        return (kind, expr.buffer, parts, other and literal(other))  # type: ignore[union-attr]
    if kind is Linear:
        scales = tuple([scale for scale, _ in expr.terms])  # type: ignore[union-attr]
        return (kind, expr.const, scales, parts)  # type: ignore[union-attr]
    return (kind, expr.name)  # type: ignore[union-attr]


def checked_indices(kernel: Kernel) -> list[Apply]:
    """The distinct ``checked_index`` expressions of a kernel, in the order that gives them their
    fault ordinals.

    Statements in program order, each one's expressions as ``roots`` lists them, operands before
    users; equal structures are one check.
    """
    numbering = Numbering()
    for stmt in statements(kernel.body):
        for root in roots(stmt):
            numbering.number(root)
    return [e for e in numbering.exprs if isinstance(e, Apply) and e.op == "checked_index"]
