"""The factors of a transform's length, and the arithmetic of one transform of few elements.

Input: pairs of expressions, real and imaginary part. Output: pairs. Twos are taken three at a time;
odd factors use that elements as far from the first as from the end share their products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from lamella.dtypes import DType
from lamella.ir.loops import Const, Expr, apply

__all__ = ["GREATEST", "Butterfly", "Pair", "factors", "turns"]

Pair = tuple[Expr, Expr]
GREATEST = 13  # the greatest prime factor that is written out


@lru_cache(maxsize=1024)
def factors(n: int) -> tuple[int, ...]:
    """The factors of ``n`` in the order of the passes; none for 1.

    Raises:
        ValueError: where a prime factor is greater than 13.

    >>> factors(96), factors(1000), factors(13), factors(1)
    ((3, 8, 4), (5, 5, 5, 8), (13,), ())
    """
    found: list[int] = []
    left = n
    for prime in (13, 11, 7, 5, 3):
        while left % prime == 0:
            found.append(prime)
            left //= prime
    twos = left.bit_length() - 1
    if 1 << twos != left:
        raise ValueError(f"{n} has a prime factor above {GREATEST}")
    eights, rest = divmod(twos, 3)
    if rest == 1 and eights:  # 4 * 4 instead of 8 * 2
        return (*found, *(8,) * (eights - 1), 4, 4)
    return (*found, *(8,) * eights, *((1 << rest,) if rest else ()))


def turns(numerator: np.ndarray, n: int) -> np.ndarray:
    """``exp(2πi numerator / n)``, exact at quarter turns.

    >>> turns(np.arange(4), 4).tolist()
    [(1+0j), 1j, (-1+0j), -1j]
    """
    quarter, rest = np.divmod(4 * (numerator % n), n)
    angle = np.pi / 2 * rest / n
    c, s = np.cos(angle), np.sin(angle)
    real, imag = np.choose(quarter, [c, -s, -c, s]), np.choose(quarter, [s, c, -s, -c])
    return (real + 0.0) + 1j * (imag + 0.0)


class Butterfly:
    """Writes transforms of a few elements; ``named`` gives an expression a name of its own."""

    def __init__(self, dtype: DType, sign: int, named: Callable[[Expr], Expr]) -> None:
        self.dtype, self.sign, self._named = dtype, sign, named

    def transform(self, x: Sequence[Pair]) -> list[Pair]:
        """The transform of ``x``, of 2, 4, 8 or an odd number of elements."""
        written = {2: self._two, 4: self._four, 8: self._eight}
        return written.get(len(x), self._odd)(x)

    def times(self, x: Pair, y: Pair) -> Pair:
        """``x y``."""
        (a, b), (c, d) = x, y
        real = self._op("sub", apply("mul", a, c), apply("mul", b, d))
        return real, self._op("add", apply("mul", a, d), apply("mul", b, c))

    def _op(self, op: str, a: Expr, b: Expr) -> Expr:
        return self._named(apply(op, a, b))

    def _add(self, x: Pair, y: Pair) -> Pair:
        return self._op("add", x[0], y[0]), self._op("add", x[1], y[1])

    def _sub(self, x: Pair, y: Pair) -> Pair:
        return self._op("sub", x[0], y[0]), self._op("sub", x[1], y[1])

    def _with_turned(self, x: Pair, y: Pair) -> tuple[Pair, Pair]:
        """``x + i sign y`` and ``x - i sign y``."""
        low, high = (
            (self._op(first, x[0], y[1]), self._op(second, x[1], y[0]))
            for first, second in (("sub", "add"), ("add", "sub"))
        )
        return (low, high) if self.sign > 0 else (high, low)

    def _scaled(self, x: Expr, by: float) -> Expr:
        return self._named(apply("mul", x, Const(by, self.dtype)))

    def _two(self, x: Sequence[Pair]) -> list[Pair]:
        return [self._add(x[0], x[1]), self._sub(x[0], x[1])]

    def _four(self, x: Sequence[Pair]) -> list[Pair]:
        even, odd = self._two([x[0], x[2]]), self._two([x[1], x[3]])
        second, fourth = self._with_turned(even[1], odd[1])
        return [self._add(even[0], odd[0]), second, self._sub(even[0], odd[0]), fourth]

    def _eight(self, x: Sequence[Pair]) -> list[Pair]:
        """Of the even and the odd elements; odd result k turned by k eighths."""
        even, odd = self._four(x[0::2]), self._four(x[1::2])
        (a, b), (c, d) = odd[1], odd[3]
        half, forth = math.sqrt(0.5), self.sign > 0
        less, more = self._op("sub", *((a, b) if forth else (b, a))), self._op("add", a, b)
        gap, total = self._op("sub", c, d), self._op("add", c, d)
        first = (less, more) if forth else (more, less)
        third = (total, gap) if forth else (gap, total)
        ends = (-half, half) if forth else (-half, -half)
        odd[1] = (self._scaled(first[0], half), self._scaled(first[1], half))
        odd[3] = (self._scaled(third[0], ends[0]), self._scaled(third[1], ends[1]))
        pairs = [(self._add(p, q), self._sub(p, q)) for p, q in zip(even, odd, strict=True)]
        pairs[2] = self._with_turned(even[2], odd[2])
        return [low for low, _ in pairs] + [high for _, high in pairs]

    def _odd(self, x: Sequence[Pair]) -> list[Pair]:
        """``x[0] + Σ (x[k] + x[r-k]) cos ± i (x[k] - x[r-k]) sin`` over k up to half of r."""
        r, half = len(x), len(x) // 2
        sums = [self._add(x[k], x[r - k]) for k in range(1, half + 1)]
        gaps = [self._sub(x[k], x[r - k]) for k in range(1, half + 1)]
        found: dict[int, Pair] = {0: x[0]}
        for total in sums:
            found[0] = self._add(found[0], total)
        for j in range(1, half + 1):
            angles = [2 * math.pi * (j * k % r) / r for k in range(1, half + 1)]
            re, im = x[0]
            for total, angle in zip(sums, angles, strict=True):
                re, im = (
                    self._plus(a, b, math.cos(angle)) for a, b in zip((re, im), total, strict=True)
                )
            turned = [self._weighted([gap[part] for gap in gaps], angles) for part in (0, 1)]
            found[j], found[r - j] = self._with_turned((re, im), (turned[0], turned[1]))
        return [found[j] for j in range(r)]

    def _plus(self, x: Expr, y: Expr, weight: float) -> Expr:
        return self._op("add", x, apply("mul", y, Const(weight, self.dtype)))

    def _weighted(self, values: Sequence[Expr], angles: Sequence[float]) -> Expr:
        total = self._scaled(values[0], math.sin(angles[0]))
        for value, angle in zip(values[1:], angles[1:], strict=True):
            total = self._plus(total, value, math.sin(angle))
        return total
