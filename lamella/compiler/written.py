"""Which results of a kernel hold what it stored, at every element and whenever it reads one.

Input: the statements of one grid iteration over plain variables, and a result's buffer and number
of elements. Output: True where that is certain. An index is a number in mixed radix: its variables
reach every element where each factor is the product of the sizes below it. Other results begin as
zero.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence

from lamella.ir.dim import Dim, Size
from lamella.ir.index import parts
from lamella.ir.loops import Expr, For, If, Load, Stmt, Store, Var
from lamella.ir.walk import expressions, roots

__all__ = ["certain"]

Index = tuple[Expr, tuple[Var, ...]]  # where a store goes, and the loops inside the grid around it


def certain(body: Sequence[Stmt], grid: Sequence[Var], buffer: str, size: Size) -> bool:
    """Whether every element of ``buffer``, which has ``size`` of them, is stored, and none is read
    before that.
    """
    found = _Stores(buffer)
    always = found.block(body, (), frozenset())
    together: dict[frozenset[tuple[Expr, Size]], list[Index]] = {}
    for index, loops in always:
        _, terms = parts(index)
        together.setdefault(frozenset(terms.items()), []).append((index, loops))
    return not found.early and any(_covers(same, grid, size) for same in together.values())


class _Stores:
    """Goes through statements in order."""

    def __init__(self, buffer: str) -> None:
        self.buffer = buffer
        self.early = False  # something reads an element that may not have been stored

    def block(
        self, body: Iterable[Stmt], loops: tuple[Var, ...], before: frozenset[Expr]
    ) -> set[Index]:
        """The stores that are sure to happen, after those ``before``."""
        always: set[Index] = set()
        for s in body:
            stored = before.union(index for index, _ in always)
            self._reads(roots(s), stored)
            if isinstance(s, Store) and s.buffer == self.buffer:
                if s.mask is None and not s.atomic:
                    always.add((s.index, loops))
                self.early = self.early or bool(s.atomic)
            elif isinstance(s, For):
                inside = self.block(s.body, (*loops, s.var), stored)
                always |= {(i, own) for i, own in inside if s.var in parts(i)[1] or _runs((s.var,))}
            elif isinstance(s, If):
                sides = [self.block(side, loops, stored) for side in (s.then, s.otherwise)]
                always |= sides[0] & sides[1]
        return always

    def _reads(self, roots: Iterable[Expr], stored: frozenset[Expr]) -> None:
        for e in expressions(roots):
            if isinstance(e, Load) and e.buffer == self.buffer and e.index not in stored:
                self.early = True


def _runs(loops: Iterable[Var]) -> bool:
    """Whether loops certainly run at least once."""
    return all(isinstance(var.extent, int) and var.extent > 0 for var in loops)


def _covers(same: Sequence[Index], grid: Sequence[Var], size: Size) -> bool:
    """Whether indices that differ by constants reach all of ``size`` elements."""
    _, terms = parts(same[0][0])
    known = {*grid, *(v for _, loops in same for v in loops)}
    if not _runs(var for var in grid if var not in terms):
        return False
    digits: list[tuple[Size, Size]] = []
    for term, factor in terms.items():
        if not isinstance(term, Var) or term not in known:
            return False
        if not isinstance(term.extent, int | Dim):
            return False
        digits.append((factor, term.extent))
    constants = {parts(index)[0] for index, _ in same}
    many = len(constants)
    step = next((q for q in constants if {q * k for k in range(many)} == constants), None)
    if step is None:
        return False
    return _reaches([*digits, (step, many)], size)


def _reaches(digits: Sequence[tuple[Size, Size]], size: Size) -> bool:
    """Whether the sums of a number below each extent times its factor are 0 to ``size`` - 1."""
    wide = [(factor, extent) for factor, extent in digits if extent != 1]
    left = dict(wide)
    below: Size = 1
    if len(left) < len(wide):
        return False
    while below in left:
        below = below * left.pop(below)
    return not left and below == size
