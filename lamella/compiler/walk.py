"""Walks over loop IR: what a kernel mentions, in order of first mention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lamella.ir.dim import Dim, Size, symbols
from lamella.ir.index import constant, parts, sub
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
    Param,
    Prefetch,
    Stmt,
    Store,
    Var,
)  # fmt: skip

__all__ = [
    "Mentions", "affine_forms", "children", "expressions", "extent_of", "loads_of", "mentions",
    "operations", "statement_roots", "statements",
]  # fmt: skip


def statements(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Every statement, outer before inner."""
    for s in body:
        yield s
        if isinstance(s, For):
            yield from statements(s.body)
        elif isinstance(s, If):
            yield from statements(s.then)
            yield from statements(s.otherwise)


def statement_roots(s: Stmt) -> tuple[Expr, ...]:
    """The expressions a statement itself contains, not those of statements inside it."""
    if isinstance(s, Store):
        return (s.index, s.value) if s.mask is None else (s.index, s.value, s.mask)
    if isinstance(s, Prefetch):
        return (s.index,)
    if isinstance(s, Declare):
        return (s.init,)
    if isinstance(s, Assign):
        return (s.value,)
    if isinstance(s, Accumulate):
        return s.values
    if isinstance(s, If):
        return (s.condition,)
    if isinstance(s, For) and not isinstance(s.var.extent, (int, Dim)):
        return (s.var.extent,)
    return ()


def children(e: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions."""
    if isinstance(e, Linear):
        return tuple(term for _, term in e.terms)
    if isinstance(e, Load):
        return (e.index,) if e.mask is None else (e.index, e.mask)
    return e.args if isinstance(e, Apply) else ()


def expressions(roots: Iterable[Expr]) -> Iterator[Expr]:
    """Every expression below ``roots`` once, users before what they use."""
    seen: set[int] = set()
    stack = list(reversed(list(roots)))
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        yield e
        stack.extend(reversed(children(e)))


def loads_of(value: Expr) -> list[Load]:
    """The loads an element is made of."""
    return [e for e in expressions([value]) if isinstance(e, Load)]


def start_of_run(values: Sequence[Expr]) -> Load | None:
    """The first of plain loads of elements that follow each other; None if they are not that."""
    first = values[0]
    for at, e in enumerate(values):
        if not isinstance(e, Load) or not isinstance(first, Load):
            return None
        if e.buffer != first.buffer or e.mask is not None:
            return None
        if sub(e.index, first.index) != constant(at):
            return None
    return first if isinstance(first, Load) else None


def extent_of(value: Expr | Size) -> Size | Expr:
    """An index as a loop's extent: a size where it is one."""
    const, terms = parts(value)
    return const if not terms else value


def affine_forms(roots: Iterable[Expr]) -> list[Expr]:
    """The maximal indices (``Linear`` or lone ``Var``) that occur below ``roots``: where loop
    variables are used.
    """
    found: list[Expr] = []
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if isinstance(e, Linear):
            found.append(e)
            stack.extend(term for _, term in e.terms if not isinstance(term, Var))
        elif isinstance(e, Var):
            found.append(e)
        else:
            stack.extend(children(e))
    return found


class Mentions:
    """Names in order of first mention: buffers read and written, parameters, size symbols."""

    def __init__(self) -> None:
        self.reads: dict[str, Load] = {}
        self.writes: dict[str, Store] = {}
        self.buffers: dict[str, None] = {}
        self.params: dict[str, Param] = {}
        self.sizes: dict[str, None] = {}
        self.faults = 0

    def _size(self, size: object) -> None:
        if isinstance(size, Dim):
            for name in sorted(symbols(size)):
                self.sizes[name] = None

    def _expression(self, e: Expr) -> None:
        if isinstance(e, Load):
            self.reads.setdefault(e.buffer, e)
            self.buffers[e.buffer] = None
        elif isinstance(e, Param):
            self.params[e.name] = e
        elif isinstance(e, Linear):
            self._size(e.const)
            for c, _ in e.terms:
                self._size(c)
        elif isinstance(e, Apply) and e.op == "checked_index":
            self.faults += 1


def mentions(body: Iterable[Stmt]) -> Mentions:
    """What ``body`` mentions."""
    found = Mentions()
    roots: list[Expr] = []
    for s in statements(body):
        roots.extend(statement_roots(s))
        if isinstance(s, For):
            found._size(s.var.extent)
    for e in expressions(roots):
        found._expression(e)
    for s in statements(body):
        if isinstance(s, Store):
            found.writes.setdefault(s.buffer, s)
            if s.atomic:
                found.reads.setdefault(s.buffer, Load(s.buffer, s.index, s.value.dtype))
            found.buffers[s.buffer] = None
    return found


def operations(roots: Iterable[Expr]) -> int:
    """A rough count of the scalar operations below ``roots``."""
    return 1 + sum(isinstance(e, (Apply, Load)) for e in expressions(roots))
