"""Symbolic sizes: polynomials over named sizes, with integer coefficients.

A shape is a tuple of ``int`` or :class:`Dim`. A ``Dim`` never equals an ``int``: arithmetic that
cancels to a constant returns a plain ``int`` instead, so ``isinstance(size, Dim)`` says "known only
at run time". Every symbol stands for a size >= 0 bound when a program runs; equality is structural,
so two sizes are equal only if they must always be. Invariant: ``terms`` maps a monomial (sorted
tuple of factors) to a non-zero coefficient. A factor is a symbol's name or a :class:`Quotient` (an
inexact floor division).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lamella.errors import ShapeError

__all__ = [
    "Dim",
    "Quotient",
    "Shape",
    "Size",
    "bind",
    "ceildiv",
    "product",
    "symbols",
    "typical",
    "unify",
]


@dataclass(frozen=True, order=True)
class Quotient:
    """``floor(numerator / denominator)`` where the division is not exact; ``denominator`` > 0."""

    text: str
    numerator: Dim
    denominator: int

    def __repr__(self) -> str:
        return self.text


Factor = str | Quotient
Monomial = tuple[Factor, ...]


class Dim:
    """A size known only at run time: ``Dim("n")``, ``2 * n + 1``, ``n * m``, ``(n - 3) // 2``."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: str | Mapping[Monomial, int]) -> None:
        found = {(terms,): 1} if isinstance(terms, str) else dict(terms)
        self.terms: dict[Monomial, int] = found  # type: ignore[assignment]
        self._hash = hash(frozenset(found.items()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Dim) and self.terms == other.terms)

    def __repr__(self) -> str:
        parts = []
        for monomial, coefficient in sorted(self.terms.items(), key=lambda item: str(item[0])):
            name = "*".join(str(f) for f in monomial)
            if not name:
                parts.append(str(coefficient))
            else:
                parts.append(name if coefficient == 1 else f"{coefficient}*{name}")
        return " + ".join(parts).replace("+ -", "- ")

    def __add__(self, other: Size) -> Size:
        return _add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Size) -> Size:
        return _add(self, _scale(other, -1))

    def __rsub__(self, other: Size) -> Size:
        return _add(other, _scale(self, -1))

    def __neg__(self) -> Size:
        return _scale(self, -1)

    def __mul__(self, other: Size) -> Size:
        return _multiply(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Size) -> Size:
        return _divide(self, other)

    def __rfloordiv__(self, other: Size) -> Size:
        return _divide(other, self)

    def __mod__(self, other: Size) -> Size:
        return self - _divide(self, other) * other

    def __rmod__(self, other: Size) -> Size:
        return other - _divide(other, self) * self

    def __int__(self) -> int:
        raise ShapeError(
            f"[Dim] the size {self} is known only when the program runs, so it has no Python "
            "value here; "
            "leave that axis out of dynamic=... or write the computation with shapes instead of "
            "numbers"
        )

    __index__ = __int__

    def __bool__(self) -> bool:
        raise ShapeError(
            f"[Dim] whether the size {self} is zero is known only when the program runs; "
            "leave that axis out of dynamic=... to branch on it"
        )

    def _no_order(self, other: Size) -> bool:
        raise ShapeError(
            f"[Dim] {self} and {other} cannot be ordered before the program runs; "
            "leave that axis out of dynamic=... to branch on it"
        )

    __lt__ = __le__ = __gt__ = __ge__ = _no_order


Size = int | Dim
Shape = tuple[Size, ...]


def _terms(size: Size) -> dict[Monomial, int]:
    return size.terms if isinstance(size, Dim) else ({(): size} if size else {})


def _make(terms: dict[Monomial, int]) -> Size:
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    return kept[()] if kept.keys() == {()} else Dim(kept)


def _add(a: Size, b: Size) -> Size:
    terms = dict(_terms(a))
    for monomial, coefficient in _terms(b).items():
        terms[monomial] = terms.get(monomial, 0) + coefficient
    return _make(terms)


def _scale(a: Size, by: int) -> Size:
    return _make({m: c * by for m, c in _terms(a).items()})


def _multiply(a: Size, b: Size) -> Size:
    terms: dict[Monomial, int] = {}
    for ma, ca in _terms(a).items():
        for mb, cb in _terms(b).items():
            monomial = tuple(sorted(ma + mb, key=str))
            terms[monomial] = terms.get(monomial, 0) + ca * cb
    return _make(terms)


def _cancel(monomial: Monomial, by: Monomial) -> Monomial | None:
    left = list(monomial)
    for factor in by:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


def _divide(a: Size, b: Size) -> Size:
    """Exact when every term divides (by one monomial); else a :class:`Quotient` (integer divisors
    only).
    """
    if a == b:
        return 1
    divisor = _terms(b)
    if len(divisor) == 1:
        ((by, scale),) = divisor.items()
        whole: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, coefficient in _terms(a).items():
            kept = _cancel(monomial, by)
            if kept is not None and coefficient % scale == 0:
                whole[kept] = coefficient // scale
            else:
                rest[monomial] = coefficient
        if not rest:
            return _make(whole)
        if by == () and scale > 0:
            remainder = _make(rest)
            if isinstance(remainder, int):
                return _make(whole) + remainder // scale
            quotient = Quotient(f"(({remainder})//{scale})", remainder, scale)
            return _add(_make(whole), Dim({(quotient,): 1}))
    raise ShapeError(
        f"[Dim] {a} // {b} has no exact form before the program runs; leave one of these axes out "
        "of dynamic=..."
    )


def ceildiv(a: Size, b: int) -> Size:
    """``a / b`` rounded up, for symbolic or plain sizes.

    >>> ceildiv(7, 2)
    4
    """
    return -((-a) // b)


def product(sizes: Shape) -> Size:
    """The number of elements of a shape.

    >>> product((2, 3)), product((Dim("n"), 3))
    (6, 3*n)
    """
    total: Size = 1
    for size in sizes:
        total = total * size
    return total


def symbols(size: Size) -> set[str]:
    """The names a size depends on.

    >>> sorted(symbols(Dim("n") * Dim("m") + 1))
    ['m', 'n']
    """
    names: set[str] = set()
    for monomial in _terms(size):
        for factor in monomial:
            names |= {factor} if isinstance(factor, str) else symbols(factor.numerator)
    return names


def bind(size: Size, values: Mapping[str, int]) -> int:
    """The plain size under ``values`` (a number per symbol).

    >>> bind(2 * Dim("n") + 1, {"n": 4})
    9
    """
    if isinstance(size, int):
        return size
    total = 0
    for monomial, coefficient in size.terms.items():
        for factor in monomial:
            if isinstance(factor, str):
                coefficient *= values[factor]
            else:
                coefficient *= bind(factor.numerator, values) // factor.denominator
        total += coefficient
    return total


def unify(pattern: Shape, shape: tuple[int, ...], values: dict[str, int]) -> bool:
    """Match plain sizes against a pattern of sizes, adding what each lone symbol must be to
    ``values``.

    >>> found = {}; unify((Dim("n"), 3), (5, 3), found), found
    (True, {'n': 5})
    """
    if len(pattern) != len(shape):
        return False
    for want, have in zip(pattern, shape, strict=True):
        if isinstance(want, Dim) and len(want.terms) == 1 and want.terms.get((str(want),)) == 1:
            if values.setdefault(str(want), have) != have:
                return False
        elif bind(want, values) != have:
            return False
    return True


def typical(size: Size) -> int:
    """A number for a size known only later, good enough to estimate work by: every symbol counts as
    256.

    >>> typical(2 * Dim("n"))
    512
    """
    if isinstance(size, int):
        return size
    return sum(c * 256 ** len(monomial) for monomial, c in size.terms.items())
