"""Whether the iterations of a lanes loop are independent, so that they may run side by side.

Input: a lanes loop. Output: a statement by which two lanes could meet in memory: one that stores an
element which another lane stores or loads; None if they certainly do not (``meeting``), or if that
is not certain (``shared``). Lanes keep apart in a buffer where the lane can be read off the index:
with c the lane's coefficient, (index - base) // c mod n is the lane at every access, for one base
and one n, the number of lanes or what everything else in the index is a multiple of. They share an
element where its index is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from lamella.ir import index as ix
from lamella.ir.dim import Dim, Size
from lamella.ir.loops import (
    Accumulate,
    Apply,
    Assign,
    Declare,
    Expr,
    For,
    Load,
    Read,
    Stmt,
    Store,
    Var,
)  # fmt: skip
from lamella.ir.walk import expressions, roots, statements

__all__ = ["meeting", "shared"]

Access = tuple[Stmt, Expr]  # a statement, and the index at which it stores or loads


def shared(loop: For) -> Stmt | None:
    """The statement by which all lanes of ``loop`` store one element, if there is one."""
    if loop.var.extent in (0, 1):
        return None
    inside = [s for s in statements([loop]) if s is not loop]
    stored = {s.buffer for s in inside if isinstance(s, Store)}
    own = _assigned(inside) | {loop.var.name}
    for s in inside:
        if isinstance(s, Store) and not any(_differs(e, own, stored) for e in _where(s)):
            return s
    return None


def _where(s: Store) -> tuple[Expr, ...]:
    return (s.index,) if s.mask is None else (s.index, s.mask)


def meeting(loop: For) -> Stmt | None:
    r"""The statement by which lanes of ``loop`` may meet, if there is one.

    >>> from lamella.ir.text import parse_kernel
    >>> text = "kernel k\n  out x: int64\ngrid i < 4\n  lanes j < 8\n    x[{}] = j"
    >>> [meeting(parse_kernel(text.format(at)).body.body[0]) is None for at in ("8*i + 1*j", "i")]
    [True, False]
    """
    if loop.var.extent in (0, 1):
        return None
    inside = [s for s in statements([loop]) if s is not loop]
    stored = {s.buffer for s in inside if isinstance(s, Store)}
    accesses: dict[str, list[Access]] = {}
    for s in inside:
        if isinstance(s, Store):
            accesses.setdefault(s.buffer, []).append((s, s.index))
        for expr in expressions(roots(s)):
            if isinstance(expr, Load) and expr.buffer in stored:
                accesses.setdefault(expr.buffer, []).append((s, expr.index))
    own = _assigned(inside) | {s.var.name for s in inside if isinstance(s, For)} | {loop.var.name}
    for found in accesses.values():
        at = _ambiguous(loop.var, found, own, stored)
        if at is not None:
            return at
    return None


def _assigned(inside: Sequence[Stmt]) -> set[str]:
    """Variables that may differ between lanes."""
    found: set[str] = set()
    for s in inside:
        if isinstance(s, Declare | Assign):
            found.add(s.name)
        elif isinstance(s, Accumulate):
            found.update(s.names)
    return found


def _ambiguous(
    lane: Var, accesses: Sequence[Access], own: set[str], stored: set[str]
) -> Stmt | None:
    """The first access whose index does not tell the lane."""
    scale = ix.coefficient(accesses[0][1], lane)
    const, terms = ix.parts(accesses[0][1])
    base = ix.constant(const)
    for term, factor in terms.items():
        if not _differs(term, own, stored):
            base = ix.add(base, ix.mul(term, factor))
    consts = [ix.parts(at)[0] for _, at in accesses]
    if all(isinstance(value, int) for value in consts):
        base = ix.add(base, min(consts) - const)
    if scale is None or scale == 0:
        return accesses[0][0]
    offsets = [(s, ix.floordiv(ix.sub(at, base), scale)) for s, at in accesses]
    unclear = [s for s, offset in offsets if offset != lane]
    if unclear and isinstance(lane.extent, int | Dim):
        unclear = [s for s, offset in offsets if ix.mod(offset, lane.extent) != lane]
    return unclear[0] if unclear and not _in_steps(lane, [o for _, o in offsets]) else None


def _in_steps(lane: Var, offsets: Sequence[Expr]) -> bool:
    """Whether everything but the lane is a multiple of a number that no lane reaches."""
    others: list[Size] = []
    for const, terms in map(ix.parts, offsets):
        if terms.get(lane) != 1:
            return False
        others += (const, *(factor for term, factor in terms.items() if term != lane))
    step = gcd(*(factor for factor in others if isinstance(factor, int)))
    most = _most(lane.extent)
    return all(isinstance(n, int) for n in others) and most is not None and most <= step


def _most(extent: Expr | Size) -> int | None:
    """How many lanes there are at most, if that is known."""
    several = extent.args if isinstance(extent, Apply) and extent.op == "min" else (extent,)
    ends = [ix.bounds(end)[1] for end in several]
    return min((end for end in ends if isinstance(end, int)), default=None)


def _differs(term: Expr, own: set[str], stored: set[str]) -> bool:
    """Whether a term of an index may differ between lanes or steps inside their loop."""
    return any(
        e.name in own if isinstance(e, Var | Read) else isinstance(e, Load) and e.buffer in stored
        for e in expressions([term])
    )
