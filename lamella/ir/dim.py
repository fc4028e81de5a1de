"""Symbolic sizes: polynomials over named sizes, with integer coefficients.

A shape is a tuple of ``int`` or :class:`Dim`. A ``Dim`` never equals an ``int``: arithmetic that
cancels to a constant returns a plain ``int`` instead, so ``isinstance(size, Dim)`` says "known only
at run time". Every symbol stands for a size >= 0 bound when a program runs; equality is structural,
so two sizes are equal only if they must always be. Invariant: ``terms`` maps a monomial (sorted
tuple of factors) to a non-zero coefficient. A factor is a symbol's name or a :class:`Quotient` (an
inexact floor division). While a function is traced a size is a number too (see ``ir.asking``),
which answers what a polynomial cannot.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lamella.errors import ShapeError
from lamella.ir.asking import by_user, known_sizes

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


Method = Callable[["Dim", "Size"], "Size"]


def _or_number(
    function: Callable[[Any, Any], Any], swap: bool = False
) -> Callable[[Method], Method]:
    """An operator of a size and an integer or a size; with anything else, it is ``function`` of the
    numbers.
    """

    def decorate(exact: Method) -> Method:
        @functools.wraps(exact)
        def method(self: Dim, other: Size) -> Any:
            if type(other) in _WHOLE:
                return exact(self, other)
            if known_sizes.get() is None and hasattr(other, "__index__"):
                return exact(self, operator.index(other))
            return _mixed(function, other, self) if swap else _mixed(function, self, other)

        return method

    return decorate


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
        if known_sizes.get() is not None and by_user():
            raise self._unknown("to be the key of a dict or set")
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other or (type(other) is Dim and self.terms == other.terms):
            return True
        known = known_sizes.get()
        if known is None or not isinstance(other, (int, float, Dim)):
            return False
        # a size computed from others may be 0 or 1, which have meanings of their own
        special = known.is_strict and other in (0, 1) and not self.is_symbol
        return (by_user() or special) and bool(self.number() == _number_of(other))

    @property
    def __class__(self) -> Any:
        return int if known_sizes.get() is not None and by_user() else Dim

    @__class__.setter
    def __class__(self, kind: Any) -> None:
        raise TypeError("the class of a size cannot be changed")

    def __repr__(self) -> str:
        known = known_sizes.get()
        if known is not None and known.is_strict and by_user():
            raise self._unknown("to be text")
        parts = []
        for monomial, coefficient in sorted(self.terms.items(), key=lambda item: str(item[0])):
            name = "*".join(str(f) for f in monomial)
            if not name:
                parts.append(str(coefficient))
            else:
                parts.append(name if coefficient == 1 else f"{coefficient}*{name}")
        return " + ".join(parts).replace("+ -", "- ")

    @property
    def is_symbol(self) -> bool:
        """Whether it is one of the sizes that others are computed from."""
        return len(self.terms) == 1 and all(
            c == 1 and len(m) == 1 and type(m[0]) is str for m, c in self.terms.items()
        )

    def number(self) -> Any:
        """The number that it is in the call that is traced; what depends on it is noted.

        Raises:
            ShapeError: where nothing is traced that may know.
        """
        known = known_sizes.get()
        if known is None:
            raise self._unknown("to have a value in Python")
        return known.number(self)

    def _unknown(self, wanted: str) -> ShapeError:
        text = Dim.__repr__(self)
        return ShapeError(
            f"[Dim] the size {text} is known only when the program runs, too late {wanted}; "
            "leave that axis out of dynamic=... or write the computation with shapes instead of "
            "numbers"
        )

    # -- sizes of sizes; with other numbers, a size is a number ------------------------------------
    @_or_number(operator.add)
    def __add__(self, other: Size) -> Size:
        return _add(self, other)

    @_or_number(operator.add, swap=True)
    def __radd__(self, other: Size) -> Size:
        return _add(self, other)

    @_or_number(operator.sub)
    def __sub__(self, other: Size) -> Size:
        return _add(self, _scale(other, -1))

    @_or_number(operator.sub, swap=True)
    def __rsub__(self, other: Size) -> Size:
        return _add(other, _scale(self, -1))

    def __neg__(self) -> Size:
        return _scale(self, -1)

    @_or_number(operator.mul)
    def __mul__(self, other: Size) -> Size:
        return _multiply(self, other)

    @_or_number(operator.mul, swap=True)
    def __rmul__(self, other: Size) -> Size:
        return _multiply(self, other)

    @_or_number(operator.floordiv)
    def __floordiv__(self, other: Size) -> Size:
        return _divide(self, other)

    @_or_number(operator.floordiv, swap=True)
    def __rfloordiv__(self, other: Size) -> Size:
        return _divide(other, self)

    @_or_number(operator.mod)
    def __mod__(self, other: Size) -> Size:
        return self - _divide(self, other) * other

    @_or_number(operator.mod, swap=True)
    def __rmod__(self, other: Size) -> Size:
        return other - _divide(other, self) * self

    def __truediv__(self, other: Any) -> Any:
        return _mixed(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _mixed(operator.truediv, other, self)

    def __pow__(self, other: Any) -> Any:
        return _mixed(operator.pow, self, other)

    def __rpow__(self, other: Any) -> Any:
        return _mixed(operator.pow, other, self)

    # -- questions ---------------------------------------------------------------------------------
    def __int__(self) -> int:
        raise self._unknown("to have a value in Python")

    __index__ = __int__

    def __bool__(self) -> bool:
        if known_sizes.get() is None:
            raise self._unknown("to be compared with 0")
        return bool(self.number())

    def _compared(self, function: Callable[[Any, Any], Any], other: Any) -> bool:
        if known_sizes.get() is None:
            raise ShapeError(
                f"[Dim] {self} and {other} cannot be ordered before the program runs; "
                "leave that axis out of dynamic=... to branch on it"
            )
        return bool(function(self.number(), _number_of(other)))

    def __lt__(self, other: Size) -> bool:
        return self._compared(operator.lt, other)

    def __le__(self, other: Size) -> bool:
        return self._compared(operator.le, other)

    def __gt__(self, other: Size) -> bool:
        return self._compared(operator.gt, other)

    def __ge__(self, other: Size) -> bool:
        return self._compared(operator.ge, other)


_WHOLE = frozenset({int, bool, Dim})


def _number_of(value: Any) -> Any:
    return value.number() if type(value) is Dim else value


def _mixed(function: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """``function`` of two numbers of which at least one is a size, but the result may be none."""
    if known_sizes.get() is None:
        return NotImplemented
    return function(_number_of(x), _number_of(y))


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
