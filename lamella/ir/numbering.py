"""Value numbering of loop IR expressions.

Input: a kernel's expressions, which share subexpressions (a DAG) in whatever way they were built.
Output: one number per distinct structure, operands before users; equal structures get equal
numbers. Invariant: numbers depend on structure and visiting order only, never on object identity,
so the text form, the emitters and the fault ordinals agree. ``0.0`` and ``-0.0`` are distinct here
although Python calls them equal.
"""

from __future__ import annotations

import math

from lamella.ir.loops import Apply, Const, Expr, Kernel, Linear, Load
from lamella.ir.walk import operands, roots, statements

__all__ = ["Numbering", "checked_indices", "literal"]

Key = tuple[object, ...]


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
    for stmt in statements([kernel.body]):
        for root in roots(stmt):
            numbering.number(root)
    return [e for e in numbering.exprs if isinstance(e, Apply) and e.op == "checked_index"]
