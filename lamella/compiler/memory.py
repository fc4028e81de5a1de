"""Where temporaries lie: one arena, offsets by lifetime.

Input: the size of each temporary and the first and last launch that use it. Output: an offset each
and the arena's size. Largest first, each at the lowest offset free for its whole lifetime, so the
result depends on sizes and order alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamella.ir.dim import Size

__all__ = ["Temporary", "assign"]

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
