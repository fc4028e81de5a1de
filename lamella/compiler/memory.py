"""Where temporaries lie: one arena, offsets by lifetime.

Input: the size of each temporary and the first and last launch that use it. Output: an offset each
and the arena's size. Largest first, each at the lowest offset free for its whole lifetime, so the
result depends on sizes and order alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lamella.ir.dim import Size, typical

if TYPE_CHECKING:
    from lamella.compiler.blueprint import Blueprint

__all__ = ["Temporary", "assign", "peak"]

ALIGN = 64


@dataclass(frozen=True, slots=True)
class Temporary:
    """A buffer that lives from launch ``first`` to launch ``last``, both included."""

    nbytes: Size
    first: int
    last: int


def assign(temporaries: Sequence[Temporary], sizes: Sequence[int]) -> tuple[list[int], int]:
    """Offsets and the arena's size, for ``sizes`` bytes each.

    >>> assign([Temporary(64, 0, 1), Temporary(64, 1, 2), Temporary(64, 2, 3)], [64, 64, 64])
    ([0, 64, 0], 128)
    """
    offsets = [0] * len(temporaries)
    placed: list[int] = []
    for i in sorted(range(len(temporaries)), key=lambda i: -sizes[i]):
        need = -(-max(sizes[i], 1) // ALIGN) * ALIGN
        overlapping = sorted(
            (offsets[j], offsets[j] + -(-max(sizes[j], 1) // ALIGN) * ALIGN)
            for j in placed
            if temporaries[j].first <= temporaries[i].last
            and temporaries[i].first <= temporaries[j].last
        )
        at = 0
        for start, end in overlapping:
            if start - at >= need:
                break
            at = max(at, end)
        offsets[i] = at
        placed.append(i)
    total = max((offsets[i] + -(-max(sizes[i], 1) // ALIGN) * ALIGN for i in placed), default=0)
    return offsets, total


def peak(program: Blueprint, most: int) -> str:
    """What lives at the launch with most memory, the largest ``most`` first, as a table."""
    sizes = [typical(t.nbytes) for t in program.temporaries]
    pairs = list(zip(program.temporaries, sizes, strict=True))

    def alive(step: int) -> int:
        return sum(size for t, size in pairs if t.first <= step <= t.last)

    starts = sorted({t.first for t, _ in pairs})
    at = max(starts, key=alive, default=0)
    there = sorted((p for p in pairs if p[0].first <= at <= p[0].last), key=lambda p: -p[1])
    head = f"{assign(program.temporaries, sizes)[1] / 2**20:,.2f} MiB planned"
    lines = [f"{head}; {len(there)} values of {alive(at) / 2**20:,.2f} MiB live at launch {at}"]
    for t, size in there[:most]:
        step = program.steps[t.first]
        where = ", ".join(getattr(step, "lines", ()))
        what = getattr(step, "label", "") or getattr(step, "op", "")
        when = f"{t.first:5}..{t.last:<5}"
        lines.append(f"{size / 2**20:10,.2f} MiB  {when}  {what}  {where}".rstrip())
    return "\n".join(lines)
