"""A lane loop around serial loops, turned inside out: each step of theirs runs along the lanes.

Input: a lane loop whose iterations are independent. Output: the same statements with the lanes
innermost, where no variable has a value of its own in each lane; else nothing. Memory is then
walked row after row instead of vector by vector down the rows, and what all lanes have in common,
as the row that an index names, is computed once for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lamella.ir.index import Substitution
from lamella.ir.loops import Declare, Expr, For, If, Stmt, Store, Var
from lamella.ir.walk import expressions, roots

__all__ = ["inward"]


def inward(loop: For) -> list[Stmt] | None:
    r"""The statements of a lane loop with the lanes inside; None where that cannot be.

    >>> from lamella.ir.loop_text import statement_text
    >>> from lamella.ir.text import parse_kernel
    >>> kernel = parse_kernel('''kernel rows
    ...   in x: float32
    ...   out y: float32
    ... grid g < 1
    ...   lanes l < 64
    ...     serial row < 9
    ...       y[1*l + 64*row] = x[1*l + 64*row]''')
    >>> print("\n".join(statement_text(s) for s in inward(kernel.body.body[0])))
    serial row < 9
      lanes l_1 < 64
        %0 = 1*l_1 + 64*row
        y[%0] = x[%0]
    """
    if not any(isinstance(s, For) for s in loop.body):
        return None  # there is nothing to turn
    return _Inward(loop.var).block(loop.body)


class _Inward:
    def __init__(self, lane: Var) -> None:
        self.lane = lane
        self._count = 0

    def block(self, body: Sequence[Stmt]) -> list[Stmt] | None:
        """Statements with the lanes inside."""
        found: list[Stmt] = []
        beside: list[Store] = []
        for s in body:
            if isinstance(s, Store):
                beside.append(s)
                continue
            found += self._stores(beside)
            beside = []
            if isinstance(s, Declare) and not self._varies(*roots(s)):
                found.append(s)
            elif isinstance(s, For) and s.kind == "serial" and not self._varies(*roots(s)):
                inside = self.block(s.body)
                if inside is None:
                    return None
                found.append(replace(s, body=tuple(inside)))
            else:
                return None
        return found + self._stores(beside)

    def _stores(self, beside: Sequence[Store]) -> list[Stmt]:
        """Stores in a lane loop of their own, behind a mask where all have one that is the same for
        every lane.
        """
        if not beside:
            return []
        self._count += 1
        var = Var(f"{self.lane.name}_{self._count}", self.lane.extent)
        along = Substitution({self.lane: var})
        masks = {s.mask for s in beside}
        mask = masks.pop() if len(masks) == 1 else None
        common = mask is not None and not self._varies(mask)
        inside = [
            Store(
                s.buffer, along(s.index), along(s.value),
                None if s.mask is None or common else along(s.mask), s.atomic,
            )
            for s in beside
        ]  # fmt: skip
        loop = For(var, "lanes", tuple(inside))
        return [If(mask, (loop,))] if mask is not None and common else [loop]

    def _varies(self, *values: Expr) -> bool:
        return self.lane in expressions(values)
