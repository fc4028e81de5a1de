"""Which values are never above zero, so that a function of them has less to do.

Input: a kernel's statements, as a pass walks through them, and the expressions it asks about.
Output: yes or no. A value minus the largest of a row that it is part of is such a value: softmax
and its relatives compute the exponential of nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lamella.ir.index import Substitution
from lamella.ir.loops import (
    Accumulate,
    Apply,
    Assign,
    BufferParam,
    Const,
    Declare,
    Expr,
    For,
    Linear,
    Load,
    Read,
    Stmt,
    Store,
    Var,
)  # fmt: skip
from lamella.ir.walk import expressions, operands, statements

__all__ = ["Signs"]


@dataclass(frozen=True, slots=True)
class _Largest:
    """A variable that is at least each of ``values``, for all iterations of ``loops``."""

    name: str
    values: tuple[Expr, ...]
    loops: tuple[Var, ...]


class _Changes:
    """The variables and the memory that statements change."""

    def __init__(self, body: Sequence[Stmt], memory: Mapping[str, str]) -> None:
        self._memory = memory
        self.names: set[str] = set()
        self._stores: list[str] = []
        for stmt in statements(tuple(body)):
            if isinstance(stmt, (Declare, Assign)):
                self.names.add(stmt.name)
            elif isinstance(stmt, Accumulate) and stmt.op != "max":
                self.names.update(stmt.names)
            elif isinstance(stmt, Store):
                self._stores.append(memory.get(stmt.buffer, stmt.buffer))

    def touches(self, value: Expr) -> bool:
        """Whether a value may be another one afterwards."""
        return any(
            (isinstance(e, Load) and self._memory.get(e.buffer, e.buffer) in self._stores)
            or (isinstance(e, Read) and e.name in self.names)
            for e in expressions([value])
        )

    def later_equal(self, value: Expr, body: Sequence[Stmt]) -> tuple[Expr, ...]:
        """What has the value after these statements: itself, or where alone it has been stored."""
        stored = [
            Load(s.buffer, s.index, s.value.dtype)
            for s in body
            if isinstance(s, Store) and s.mask is None and _are_equal(s.value, value)
        ]
        alone = [e for e in stored if self._stores.count(self._memory.get(e.buffer, e.buffer)) == 1]
        return tuple(alone if self.touches(value) else [value, *alone])


def _are_equal(a: Expr, b: Expr) -> bool:
    """Whether two expressions are the same, each pair of parts compared once."""
    seen: set[tuple[int, int]] = set()
    pairs = [(a, b)]
    while pairs:
        x, y = pairs.pop()
        if x is y or (id(x), id(y)) in seen:
            continue
        seen.add((id(x), id(y)))
        if type(x) is not type(y):
            return False
        inside, others = operands(x), operands(y)
        if len(inside) != len(others) or _head(x) != _head(y):
            return False
        pairs.extend(zip(inside, others, strict=True))
    return True


def _head(e: Expr) -> object:
    """What an expression is beside its operands."""
    if isinstance(e, Apply):
        return e.op, e.dtype
    if isinstance(e, Load):
        return e.buffer, e.dtype, e.other
    if isinstance(e, Linear):
        return e.const, tuple(factor for factor, _ in e.terms)
    return e


class Signs:
    """What is known where a walk through a kernel stands: ``enter`` and ``leave`` each loop."""

    def __init__(self, buffers: Sequence[BufferParam]) -> None:
        self._memory = {b.name: b.alias or b.name for b in buffers}  # equal where they may overlap
        self._loops: list[Var] = []
        self._largest: list[_Largest] = []

    def enter(self, loop: For) -> bool:
        """A loop begins; whether less is known from here, as it changes what was compared."""
        self._loops.append(loop.var)
        return self.forget(loop.body)

    def leave(self, loop: For) -> None:
        """A loop has ended."""
        changed = _Changes(loop.body, self._memory)
        for stmt in loop.body:
            if isinstance(stmt, Accumulate) and stmt.op == "max" and len(stmt.names) == 1:
                values = changed.later_equal(stmt.values[0], loop.body)
                if values:
                    self._largest.append(_Largest(stmt.names[0], values, tuple(self._loops)))
        self._loops.pop()

    def forget(self, body: Sequence[Stmt]) -> bool:
        """What the statements change is no longer known; whether that was anything."""
        if not self._largest:
            return False
        changed = _Changes(body, self._memory)
        kept = [
            k for k in self._largest
            if k.name not in changed.names and not any(map(changed.touches, k.values))
        ]  # fmt: skip
        less, self._largest = len(kept) < len(self._largest), kept
        return less

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """A branch, which may not run: what it finds is not known after it."""
        before = len(self._largest)
        yield
        del self._largest[before:]

    def never_positive(self, e: Expr) -> bool:
        """Whether a value is at most zero, or nan."""
        if isinstance(e, Const):
            return not e.value > 0
        if not isinstance(e, Apply):
            return False
        if e.op == "neg":
            return self._never_negative(e.args[0])
        if e.op == "min":
            return any(isinstance(a, Const) and self.never_positive(a) for a in e.args)
        return e.op == "sub" and self._is_at_most(*e.args)

    def _never_negative(self, e: Expr) -> bool:
        if not isinstance(e, Apply):
            return False
        return e.op in ("abs", "exp") or (e.op == "mul" and e.args[0] is e.args[1])

    def _is_at_most(self, value: Expr, largest: Expr) -> bool:
        if not isinstance(largest, Read):
            return False
        for known in self._largest:
            if known.name != largest.name or len(known.loops) != len(self._loops):
                continue
            pairs = list(zip(known.loops, self._loops, strict=True))
            if all(old.extent == new.extent for old, new in pairs):
                here = Substitution({old: new for old, new in pairs if old != new})
                if any(_are_equal(here(each), value) for each in known.values):
                    return True
        return False
