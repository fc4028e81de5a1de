"""Walks over loop IR: what a kernel mentions, in order of first mention."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lamella.ir.dim import Dim, Size, symbols
from lamella.ir.index import constant, parts, sub
from lamella.ir.loops import Apply, Expr, For, Linear, Load, Param, Stmt, Store, Var
from lamella.ir.walk import expressions, operands, roots, statements

__all__ = ["Mentions", "affine_forms", "extent_of", "mentions", "operations", "start_of_run"]


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


def affine_forms(given: Iterable[Expr]) -> list[Expr]:
    """The maximal indices (``Linear`` or lone ``Var``) that occur below ``given``: where loop
    variables are used.
    """
    found: list[Expr] = []
    seen: set[int] = set()
    stack = list(given)
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
            stack.extend(operands(e))
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
    read: list[Expr] = []
    for s in statements(body):
        read.extend(roots(s))
        if isinstance(s, For):
            found._size(s.var.extent)
    for e in expressions(read):
        found._expression(e)
    for s in statements(body):
        if isinstance(s, Store):
            found.writes.setdefault(s.buffer, s)
            if s.atomic:
                found.reads.setdefault(s.buffer, Load(s.buffer, s.index, s.value.dtype))
            found.buffers[s.buffer] = None
    return found


def operations(given: Iterable[Expr]) -> int:
    """A rough count of the scalar operations below ``given``."""
    return 1 + sum(isinstance(e, (Apply, Load)) for e in expressions(given))
