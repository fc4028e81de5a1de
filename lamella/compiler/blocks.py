"""Shaping loops: merging neighbours that memory sees as one, choosing the loop for lanes, cutting
loops into blocks.

Input: loop variables and the expressions that use them. Output: new variables and what the old ones
are in terms of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lamella.compiler.walk import affine_forms
from lamella.ir.decisions import at_least
from lamella.ir.dim import Dim, Size, ceildiv, product
from lamella.ir.index import add, coefficient, constant, minimum, mul, parts, split_linear
from lamella.ir.loops import Expr, Load, Var
from lamella.ir.walk import expressions

__all__ = ["Frame", "collapse", "crossing", "frame", "lane_cost", "no_dearer"]

LONG = 4096  # elements of a plain elementwise loop in one grid iteration
STRIP = 64  # lanes of an outer loop that run inner loops together
FEW = 3  # iterations that leave most lanes idle
WASTE = 5.5  # what that costs
ROWS = 16  # iterations of a loop along which memory is contiguous across the lanes: a line or two


def collapse(variables: Sequence[Var], roots: Sequence[Expr]) -> list[tuple[Var, ...]]:
    """Neighbouring variables, grouped where every index uses them as one: coefficient of the left =
    that of the right x its extent.
    """
    if not variables:
        return []
    forms = [parts(form)[1] for form in affine_forms(roots)]
    groups: list[list[Var]] = [[variables[0]]]
    for left, right in pairwise(variables):
        extent = right.extent
        joined = isinstance(extent, (int, Dim)) and all(
            terms.get(left, 0) == terms.get(right, 0) * extent
            for terms in forms
            if left in terms or right in terms
        )
        if joined:
            groups[-1].append(right)
        else:
            groups.append([right])
    return [tuple(group) for group in groups]


def merged(groups: Sequence[tuple[Var, ...]]) -> tuple[list[Var], dict[Var, Expr]]:
    """One variable a group, and each old variable in terms of them."""
    fresh: list[Var] = []
    old: dict[Var, Expr] = {}
    for group in groups:
        sizes = tuple(v.size for v in group)
        if len(group) == 1:
            fresh.append(group[0])
            continue
        one = Var(group[0].name, product(sizes))
        fresh.append(one)
        old.update(zip(group, split_linear(one, sizes), strict=True))
    return fresh, old


def lane_cost(var: Var, loads: Sequence[Expr]) -> float:
    """The mean cost of an access when ``var`` runs along lanes: contiguous or constant is 1,
    anything else a gather.
    """
    costs = [1.0 if coefficient(index, var) in (0, 1) else 6.0 for index in loads]
    return sum(costs) / len(costs) if costs else 1.0


def no_dearer(a: Var, cost: float, b: Var, other: float) -> bool:
    """Whether lanes along ``a`` cost no more than along ``b``, for these costs of an access: of
    ``FEW`` iterations or less, each lane costs ``WASTE`` as much. Sizes are only asked for where
    they matter.
    """
    if cost > WASTE * other or WASTE * cost <= other:
        return WASTE * cost <= other
    if cost <= other:
        return at_least(a.size, FEW + 1, True) or not at_least(b.size, FEW + 1, True)
    return at_least(a.size, FEW + 1, True) and not at_least(b.size, FEW + 1, True)


def load_indices(roots: Sequence[Expr]) -> list[Expr]:
    """The indices of all loads below ``roots``."""
    return [e.index for e in expressions(roots) if isinstance(e, Load)]


def crossing(outer: Sequence[Var], lane: Var | None, indices: Sequence[Expr]) -> Var | None:
    """The loop along which an operand is contiguous that the lanes walk across, as in a transpose:
    running it in short strips inside the lanes' block uses every line of memory whole.
    """
    if lane is None:
        return None
    across = [index for index in indices if coefficient(index, lane) not in (0, 1)]
    for v in outer:
        long = not isinstance(v.extent, int) or v.extent >= ROWS
        if v is not lane and long and any(coefficient(index, v) == 1 for index in across):
            return v
    return None


@dataclass(frozen=True, slots=True)
class Frame:
    """The outer loops of a kernel: a grid, perhaps a strip of rows and one of lanes inside it, and
    the outer variables in these terms.
    """

    grid: Var
    row: Var | None
    lane: Var | None
    block: int
    variables: dict[Var, Expr]


def frame(
    outer: Sequence[Var],
    lane: Var | None,
    has_inner: bool,
    row: Var | None = None,
    strip: int = STRIP,
) -> Frame:
    """Cuts the outer loops: all of them into the grid, except that ``row`` and ``lane`` (if any)
    run in blocks inside it, of ``strip`` lanes if there are inner loops.
    """
    others = [v for v in outer if v is not lane and v is not row]
    sizes: list[Size] = [v.size for v in others]
    block = 1
    if row is not None:
        sizes.append(ceildiv(row.size, ROWS))
    if lane is not None:
        most = strip if has_inner or row is not None else LONG
        block = _block(lane.size, product(tuple(sizes)), most)
        sizes.append(ceildiv(lane.size, block))
    grid = Var("g", product(tuple(sizes)))
    at = (
        [constant(0) for _ in sizes] if grid.extent == 1 else list(split_linear(grid, tuple(sizes)))
    )
    variables: dict[Var, Expr] = {}
    lanes = rows = None
    if lane is not None:
        lanes, variables[lane] = _strip("l", lane, at.pop(), block)
    if row is not None:
        rows, variables[row] = _strip("r", row, at.pop(), ROWS)
    variables.update(zip(others, at, strict=True))
    return Frame(grid, rows, lanes, block, variables)


def _strip(name: str, whole: Var, at: Expr, block: int) -> tuple[Var, Expr]:
    """The loop over strip ``at`` of ``block`` iterations of ``whole``; ``whole`` in its terms."""
    start = mul(at, block)
    left = add(whole.size, mul(start, -1))
    even = isinstance(whole.extent, int) and whole.extent % block == 0
    strip = Var(name, block if even else _plain(minimum(block, left)))
    return strip, add(start, strip)


def _plain(extent: Expr) -> Size | Expr:
    const, terms = parts(extent)
    return extent if terms else const


def _block(extent: Size, others: Size, most: int) -> int:
    """Lanes in one grid iteration: the whole loop if there are other iterations enough, else a part
    of it.
    """
    if not isinstance(extent, int):
        return most
    if extent <= most and (
        not isinstance(others, int) or others * extent >= 4 * most or extent <= 512
    ):
        return max(extent, 1)
    if extent * (others if isinstance(others, int) else 1) <= most:
        return extent
    return min(most, max(64, extent))
