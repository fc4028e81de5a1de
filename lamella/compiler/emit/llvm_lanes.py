"""How a lanes loop becomes vectors: its pieces, the variables that vary, and partial accumulators.

Input: a ``For`` of kind "lanes". Output: a list of :class:`Piece`, each a loop or one straight run
of a number of lanes. The plan depends on the loop and the target only, so every emission of a
kernel adds in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from lamella.compiler.emit.target import Target
from lamella.dtypes import DType, bool_, int64, uint64
from lamella.ir.index import divisor
from lamella.ir.loops import (
    Accumulate,
    Alloc,
    Apply,
    Assign,
    Const,
    Declare,
    Expr,
    For,
    Load,
    Param,
    Read,
    Stmt,
    Store,
    Var,
)  # fmt: skip
from lamella.ir.walk import operands, roots, statements

__all__ = [
    "Piece",
    "Survey",
    "allocations",
    "plan",
    "survey",
    "varying_variables",
]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a lanes loop.

    ``kind``: "loop" runs over whole groups of ``lanes`` up to the last; "masked" runs over the rest
    in groups whose last is under a mask;
    "serial" runs over the rest one by one; "once" is the group at ``start``, of which ``active``
    lanes are inside.
    """

    kind: Literal["loop", "masked", "serial", "once"]
    lanes: int
    start: int = 0
    active: int = 0


@dataclass(slots=True)
class Survey:
    """What is in a lanes loop: element types in memory, number of operations, accumulations that
    leave the loop, the number of its variables, and of operations without those of indices and
    masks, which open sizes need more of, and those that only read bits otherwise.
    """

    dtypes: list[DType]
    operations: int
    folds: list[Accumulate]
    variables: int = 0
    values: int = 0


def survey(loop: For) -> Survey:
    """Walk a lanes loop once."""
    found = Survey([], 0, [])
    declared: set[str] = set()
    seen: set[int] = set()
    for stmt in statements(loop.body):
        if isinstance(stmt, Declare):
            declared.add(stmt.name)
            found.variables += 1
            found.dtypes.append(stmt.dtype)
        elif isinstance(stmt, Store):
            found.dtypes.append(stmt.value.dtype)
        elif isinstance(stmt, Accumulate):
            found.dtypes.append(stmt.values[0].dtype)
            found.operations += 1
            found.values += 1
            if stmt.names[0] not in declared:
                found.folds.append(stmt)
        for expr in roots(stmt):
            _count(expr, found, seen)
    return found


def _count(expr: Expr, found: Survey, seen: set[int]) -> None:
    stack = [expr]
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if isinstance(e, Apply):
            found.operations += 1
            computed = e.op not in ("select", "bitcast")
            found.values += computed and e.dtype not in (bool_, int64, uint64)
        elif isinstance(e, Load):
            found.dtypes.append(e.dtype)
        stack.extend(operands(e))


def _width(found: Survey, target: Target) -> int:
    """Lanes in one register of the loop's widest ordinary type (16-bit floats count as 32)."""
    sizes = [4 if d.kind == "f" and d.itemsize == 2 else d.itemsize for d in found.dtypes]
    if not sizes:
        return target.vector_bytes // 4
    size = 8 if min(sizes) == 8 else min(max(sizes), 4)
    return max(target.vector_bytes // size, 2)


def _unroll(found: Survey) -> int:
    """Registers side by side: four partial sums hide the latency of an addition; two of what has no
    variables share the constants they load, as long as they need not be spilled.
    """
    if found.folds:
        return 4 if found.values <= 12 else 2 if found.values <= 24 else 1
    most = SHORT if found.variables else MEDIUM
    return 2 if found.operations <= most else 1


# operations up to which a body is written for two registers side by side: with variables, without
SHORT: Final = 8
MEDIUM: Final = 50
# operations from which a mask in every group costs less than compiling the body a second time
LONG: Final = 10
# operations from which several registers of each value side by side would be spilled
VERY_LONG: Final = 64


def _fits(side: int, found: Survey, target: Target) -> bool:
    """Whether ``side`` registers of each value side by side need not be spilled."""
    return found.operations < VERY_LONG and side * found.variables < target.unit.sums


def plan(loop: For, target: Target, found: Survey) -> list[Piece]:
    """The pieces of a lanes loop, in order; ``found`` is what ``survey`` says of it."""
    width = _width(found, target)
    extent = loop.var.extent
    if found.folds:
        return _folded(extent if isinstance(extent, int) else None, found, width, target)
    if not isinstance(extent, int):
        lanes = width * _unroll(found)
        if divisor(extent) % width == 0:
            sizes = (lanes,) if divisor(extent) % lanes == 0 else (lanes, width)
            return [Piece("loop", n) for n in sizes]
        rest = Piece("masked", width) if target.masked else Piece("serial", 0)
        if target.masked and found.operations > LONG:
            return [rest]
        return [Piece("loop", lanes), rest]
    if extent <= 0:
        return []
    if extent <= width or (extent <= 4 * width and _fits(-(-extent // width), found, target)):
        return _straight(extent, width, target)
    lanes = width * _unroll(found)
    while lanes > width and extent % lanes and extent % (lanes // 2) == 0:
        lanes //= 2
    if extent % width and target.masked and found.operations > LONG:
        return [Piece("masked", width)]
    whole = extent - extent % lanes
    pieces = [Piece("loop", lanes)] if whole else []
    return pieces + _rest(whole, extent, width, target)


def _folded(extent: int | None, found: Survey, width: int, target: Target) -> list[Piece]:
    """The pieces of a loop that folds: whole groups of several registers, then of one, then half a
    register and single elements, or one under a mask. Of an open extent (None) they are loops, of a
    known one those of them that it needs, so that both fold in the same order.
    """
    lanes = width * _unroll(found)
    half = width // 2 if width >= 8 else 0
    if extent is None:
        if target.masked:
            return [Piece("loop", lanes), Piece("masked", width)]
        sizes = [n for n in dict.fromkeys((lanes, width, half)) if n]
        return [*(Piece("loop", n) for n in sizes), Piece("serial", 0)]
    start = extent - extent % lanes
    pieces = [Piece("loop", lanes)] if start else []
    while extent - start >= width:
        pieces.append(Piece("once", width, start, width))
        start += width
    left = extent - start
    if target.masked:
        few = width if pieces else 1 << (left - 1).bit_length()
        return [*pieces, Piece("once", max(few, 2), start, left)] if left else pieces
    if half and left >= half:
        pieces.append(Piece("once", half, start, half))
        start += half
    return [*pieces, Piece("serial", 0)] if start < extent else pieces


def _straight(extent: int, width: int, target: Target) -> list[Piece]:
    """A short loop of known extent, written out: one vector when the extent is a power of two or
    masks are cheap.
    """
    if extent == 1:
        return [Piece("serial", 0)]
    power = 1 << (extent.bit_length() - 1)
    if extent == power:
        return [Piece("once", extent, 0, extent)]
    if extent < width:
        return (
            [Piece("once", 2 * power, 0, extent)]
            if target.masked
            else _rest(0, extent, width, target)
        )
    return [Piece("once", power, 0, power), *_rest(power, extent, width, target)]


def _rest(start: int, extent: int, width: int, target: Target) -> list[Piece]:
    """What is left from ``start``: exact vectors of half sizes, then one under a mask or single
    elements.
    """
    pieces = []
    while extent - start >= width:
        pieces.append(Piece("once", width, start, width))
        start += width
    left = extent - start
    if not left:
        return pieces
    power = 1 << (left.bit_length() - 1)
    if left == power and left > 1:
        pieces.append(Piece("once", left, start, left))
    elif target.masked:
        pieces.append(Piece("once", max(2 * power, 2), start, left))
    else:
        if power >= 4:
            pieces.append(Piece("once", power, start, power))
            start += power
        pieces.append(Piece("serial", 0, start))
    return pieces


def varying_variables(loop: For) -> set[str]:
    """The variables declared in a lanes loop whose value may differ from lane to lane."""
    varying: set[str] = set()
    while True:
        memo: dict[int, bool] = {}
        more = set(varying)
        for stmt in statements(loop.body):
            names: tuple[str, ...] = ()
            if isinstance(stmt, (Declare, Assign)):
                names = (stmt.name,)
            elif isinstance(stmt, Accumulate):
                names = stmt.names
            if names and any(_varies(e, loop.var, varying, memo) for e in roots(stmt)):
                more.update(names)
        if more == varying:
            return varying
        varying = more


def _varies(expr: Expr, var: Var, varying: set[str], memo: dict[int, bool]) -> bool:
    known = memo.get(id(expr))
    if known is None:
        if isinstance(expr, Var):
            known = expr.name == var.name
        elif isinstance(expr, Read):
            known = expr.name in varying
        elif isinstance(expr, (Const, Param)):
            known = False
        else:
            known = any(_varies(e, var, varying, memo) for e in operands(expr))
        memo[id(expr)] = known
    return known


def allocations(body: tuple[Stmt, ...]) -> list[Alloc]:
    """The scratch memory declared anywhere in a body."""
    return [stmt for stmt in statements(body) if isinstance(stmt, Alloc)]
