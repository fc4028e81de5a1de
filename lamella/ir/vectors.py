"""What schedules know of a machine's vectors: they cut tiles and blocks by it.

Input: nothing. Output: the record that a target gives and every schedule takes. How sums are
ordered may depend on it, as on the sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

from lamella.dtypes import DType

__all__ = ["VectorUnit"]


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """``registers`` vector registers of ``bytes`` bytes each; ``unsigned_bytes``: bytes multiply
    fast only where those of one factor are unsigned; ``hinted_rows``: rows from which a product
    that streams a large factor asks ahead for the second-level cache.

    >>> from lamella.dtypes import float32
    >>> unit = VectorUnit(32, 16)
    >>> unit.lanes(float32), unit.sums
    (8, 12)
    """

    bytes: int
    registers: int
    unsigned_bytes: bool = False
    hinted_rows: int = 1

    def lanes(self, dtype: DType) -> int:
        """Elements of a vector."""
        return max(1, self.bytes // dtype.itemsize)

    @property
    def sums(self) -> int:
        """Vectors of sums of a register tile; the rest is for the factors."""
        return self.registers * 3 // 4
