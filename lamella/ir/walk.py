"""Walks over loop IR, in the one order in which a kernel's expressions are visited.

Expressions share subexpressions (a DAG); statements form a tree, walked in program order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lamella.ir.dim import Dim
from lamella.ir.loops import (
    Accumulate,
    Apply,
    Assign,
    Declare,
    Expr,
    For,
    If,
    Linear,
    Load,
    Prefetch,
    Stmt,
    Store,
)  # fmt: skip

__all__ = ["expressions", "loads_of", "operands", "roots", "statements"]


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The expressions that ``expr`` is made of; a load's mask comes before its index.

    >>> from lamella.dtypes import int64
    >>> from lamella.ir.loops import Const
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
    """Every expression below those ``given`` once, users before what they use."""
    seen: set[int] = set()
    stack = list(given)[::-1]
    while stack:
        expr = stack.pop()
        if id(expr) not in seen:
            seen.add(id(expr))
            yield expr
            stack.extend(reversed(operands(expr)))


def loads_of(value: Expr) -> list[Load]:
    """The loads an element is made of."""
    return [e for e in expressions([value]) if isinstance(e, Load)]


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
    if isinstance(stmt, For) and not isinstance(stmt.var.extent, int | Dim):
        return (stmt.var.extent,)
    return ()


def statements(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Every statement of ``body`` and inside it, outer before inner."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, For):
            yield from statements(stmt.body)
        elif isinstance(stmt, If):
            yield from statements(stmt.then)
            yield from statements(stmt.otherwise)
