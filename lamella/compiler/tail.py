"""The elementwise statements on a kernel's results, computed from a result before it is stored.

Input: the members of a group, the first of which makes the results, a result and its index. Output:
the stores of those members that are needed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lamella.compiler.statements import Statement
from lamella.ir.index import TRUE, Substitution, linearise
from lamella.ir.loops import Const, Expr, Load, Stmt, Store, cast
from lamella.ir.node import Node
from lamella.ops.base import Index

__all__ = ["stores"]


def stores(
    members: Sequence[Statement], needed: Collection[Node], total: Expr, index: Index,
    mask: Expr = TRUE,
) -> list[Stmt]:  # fmt: skip
    """The members' values at one index, and the stores of those that are needed."""
    first = members[0]
    values: dict[str, Expr] = {first.name: cast(total, first.node.dtype)}
    found: list[Stmt] = []
    for member in members:
        if member is not first:
            values[member.name] = _value(member, index, values)
        if member.node in needed:
            at = linearise(index, member.node.shape)
            under = None if mask == TRUE else mask
            found.append(Store(member.name, at, values[member.name], under))
    return found


def _value(member: Statement, index: Index, values: dict[str, Expr]) -> Expr:
    variables = dict(zip(member.out, index, strict=True))

    def load(_: Load, new: Load) -> Expr:
        return values.get(new.buffer, new)

    value = member.value or Const(0, member.node.dtype)
    return Substitution(variables, load)(value)
