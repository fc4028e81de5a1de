"""Index arithmetic: int64 expressions in a normal form, simplified with what is known of their
ranges.

Input: loop variables, constants, sizes and other index expressions. Output: expressions whose
affine part is one ``Linear`` record, so that strides can be read off. A loop variable lies in ``[0,
extent)``, every symbolic size is >= 0; from these bounds divisions and remainders that reshaping
introduces disappear wherever they can be proved redundant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd

from lamella.dtypes import bool_, int64
from lamella.errors import ShapeError
from lamella.ir.dim import Dim, Quotient, Size
from lamella.ir.loops import Apply, Const, Expr, Linear, Load, Var

__all__ = [
    "FALSE", "TRUE", "Substitution", "add", "both", "bounds", "coefficient", "constant",
    "divisor", "floordiv", "linearise", "lt", "minimum", "mod", "mul", "parts", "split_linear",
    "strides", "sub",
]  # fmt: skip

TRUE = Const(True, bool_)
FALSE = Const(False, bool_)
ZERO = Const(0, int64)
Terms = dict[Expr, Size]


def constant(size: Size) -> Expr:
    """A size as an index expression."""
    return Const(size, int64) if isinstance(size, int) else Linear(size, ())


def _as_expr(value: Expr | Size) -> Expr:
    return constant(value) if isinstance(value, (int, Dim)) else value


def parts(value: Expr | Size) -> tuple[Size, Terms]:
    """The constant and the terms (expression -> coefficient) of an index."""
    if isinstance(value, Linear):
        return value.const, {term: c for c, term in value.terms}
    if isinstance(value, Const):
        return int(value.value), {}
    if isinstance(value, (int, Dim)):
        return value, {}
    return 0, {value: 1}


def _text(term: Expr) -> str:
    """Sorts terms: variables by name, quotients and remainders by their text, the rest after them
    as they come.
    """
    if isinstance(term, Var):
        return term.name
    if isinstance(term, Linear):
        return "+".join(f"{c}*{_text(t)}" for c, t in term.terms) + f"+{term.const}"
    if isinstance(term, Const):
        return str(term.value)
    if isinstance(term, Apply) and term.op in ("floordiv", "mod"):
        return f"~{term.op}({_text(term.args[0])},{_text(term.args[1])})"
    return "~~" + (term.op if isinstance(term, Apply) else type(term).__name__)


def _order(item: tuple[Size, Expr]) -> str:
    return _text(item[1])


def _build(const: Size, terms: Terms) -> Expr:
    kept = [(c, term) for term, c in terms.items() if c != 0]
    if not kept:
        return constant(const)
    if len(kept) == 1:
        if const == 0 and kept[0][0] == 1:
            return kept[0][1]
        return Linear(const, (kept[0],))
    kept.sort(key=_order)
    return Linear(const, tuple(kept))


def add(*values: Expr | Size) -> Expr:
    """The sum of index expressions and sizes."""
    const: Size = 0
    terms: Terms = {}
    recombine = False
    for value in values:
        extra, more = parts(value)
        const = const + extra
        for term, c in more.items():
            terms[term] = terms.get(term, 0) + c
            recombine = recombine or (isinstance(term, Apply) and term.op == "mod")
    if recombine:
        const = _recombine(const, terms)
    return _build(const, terms)


def _recombine(const: Size, terms: Terms) -> Size:
    """C * (x // d) * d + c * (x mod d) = c * x, until nothing of the kind is left."""
    again = True
    while again:
        again = False
        for term in [t for t in terms if isinstance(t, Apply) and t.op == "mod"]:
            scale = terms.get(term, 0)
            divisor, rest = parts(term.args[1])
            if scale == 0 or rest or scale * divisor not in terms.values():
                continue
            quotient = floordiv(term.args[0], divisor)
            if quotient in terms and terms[quotient] == scale * divisor:
                del terms[term], terms[quotient]
                extra, more = parts(mul(term.args[0], scale))
                const = const + extra
                for inner, c in more.items():
                    terms[inner] = terms.get(inner, 0) + c
                again = True
    return const


def mul(value: Expr | Size, by: Expr | Size) -> Expr:
    """The product; stays linear when either side is a size."""
    if by == 1:
        return _as_expr(value)
    left_const, left_terms = parts(value)
    right_const, right_terms = parts(by)
    if right_terms and left_terms:
        return Apply("mul", (_as_expr(value), _as_expr(by)), int64)
    if right_terms:
        left_const, left_terms, right_const = right_const, right_terms, left_const
    if right_const == 0:
        return ZERO
    return _build(left_const * right_const, {t: c * right_const for t, c in left_terms.items()})


def sub(value: Expr | Size, other: Expr | Size) -> Expr:
    """The difference."""
    return add(value, mul(other, -1))


def _nonnegative(size: Size) -> bool:
    """Whether it certainly is: symbols are, quotients only where their numerators are."""
    if isinstance(size, int):
        return size >= 0
    quotients = (f for monomial in size.terms for f in monomial if isinstance(f, Quotient))
    return all(c >= 0 for c in size.terms.values()) and all(
        _nonnegative(quotient.numerator) for quotient in quotients
    )


def _nonpositive(size: Size) -> bool:
    return _nonnegative(-size)


Bound = Size | None


def _term_bounds(term: Expr) -> tuple[Bound, Bound]:
    if isinstance(term, Var):
        return 0, (term.extent - 1 if isinstance(term.extent, (int, Dim)) else None)
    if isinstance(term, Apply) and term.op in ("floordiv", "mod"):
        divisor, rest = parts(term.args[1])
        if rest:
            return None, None
        if term.op == "mod":
            return 0, divisor - 1
        low, high = bounds(term.args[0])
        if isinstance(divisor, int) and divisor > 0:
            return (
                low // divisor
                if isinstance(low, int)
                else (0 if low is not None and _nonnegative(low) else None),
                high // divisor if isinstance(high, int) else None,
            )
        return (0 if low is not None and _nonnegative(low) else None), None
    return None, None


def bounds(value: Expr | Size) -> tuple[Bound, Bound]:
    """What is known of the least and greatest value (None: nothing)."""
    const, terms = parts(value)
    low: Bound = const
    high: Bound = const
    for term, c in terms.items():
        term_low, term_high = _term_bounds(term)
        if _nonpositive(c):
            term_low, term_high = term_high, term_low
        elif not _nonnegative(c):
            return None, None
        low = None if low is None or term_low is None else low + c * term_low
        high = None if high is None or term_high is None else high + c * term_high
    return low, high


def _within(value: Expr, size: Size) -> bool:
    """Whether 0 <= value < size is certain."""
    low, high = bounds(value)
    return (
        low is not None and high is not None and _nonnegative(low) and _nonnegative(size - 1 - high)
    )


def _exact(a: Size, b: Size) -> Size | None:
    if isinstance(a, int) and isinstance(b, int):
        return a // b if a % b == 0 else None
    try:
        quotient = a // b
    except ShapeError:
        return None
    return quotient if quotient * b == a else None


def _divide_out(value: Expr | Size, by: Size) -> tuple[Expr, Expr]:
    """Value = whole * by + rest, the terms divisible by ``by`` taken into ``whole``."""
    const, terms = parts(value)
    whole: Terms = {}
    rest: Terms = {}
    for term, c in terms.items():
        quotient = _exact(c, by)
        if quotient is not None:
            whole[term] = quotient
        elif isinstance(c, int) and isinstance(by, int) and not 0 <= c < by and abs(c) > by:
            whole[term], rest[term] = c // by, c % by
        else:
            rest[term] = c
    if isinstance(const, int) and isinstance(by, int):
        whole_const: Size = const // by
    else:
        whole_const = _exact(const, by) or 0
    return _build(whole_const, whole), _build(const - whole_const * by, rest)


def _coarse(value: Expr, by: Size) -> tuple[Expr, Expr, int] | None:
    """Value = coarse * g + fine with 0 <= fine < g, for the greatest such g > 1 that divides
    ``by``.
    """
    const, terms = parts(value)
    if not isinstance(by, int) or not isinstance(const, int):
        return None
    for g in sorted({gcd(c, by) for c in terms.values() if isinstance(c, int)}, reverse=True):
        if g == 1:
            return None
        coarse: Terms = {t: c // g for t, c in terms.items() if isinstance(c, int) and c % g == 0}
        fine = _build(
            const % g, {t: c for t, c in terms.items() if not (isinstance(c, int) and c % g == 0)}
        )
        if _within(fine, g):
            return _build(const // g, coarse), fine, g
    return None


def floordiv(value: Expr | Size, by: Size) -> Expr:
    """``value // by`` rounded down; ``by`` > 0 (a division by a size of 0 belongs to an empty
    loop).
    """
    if by == 1 or by == 0:
        return _as_expr(value) if by == 1 else ZERO
    whole, rest = _divide_out(value, by)
    if _within(rest, by):
        return whole
    found = _coarse(rest, by)
    if found is not None and isinstance(by, int):
        return add(whole, floordiv(found[0], by // found[2]))
    if isinstance(rest, Apply) and rest.op == "floordiv" and isinstance(by, int):
        inner, more = parts(rest.args[1])
        if isinstance(inner, int) and not more:
            return add(whole, floordiv(rest.args[0], inner * by))
    return add(whole, Apply("floordiv", (rest, constant(by)), int64))


def mod(value: Expr | Size, by: Size) -> Expr:
    """``value mod by``, in ``[0, by)``; ``by`` > 0."""
    if by == 1 or by == 0:
        return ZERO
    _, rest = _divide_out(value, by)
    if _within(rest, by):
        return rest
    found = _coarse(rest, by)
    if found is not None and isinstance(by, int):
        coarse, fine, g = found
        return add(mul(mod(coarse, by // g), g), fine)
    return Apply("mod", (rest, constant(by)), int64)


def lt(value: Expr | Size, other: Expr | Size) -> Expr:
    """``value < other`` as a bool expression, decided here where bounds allow."""
    low, high = bounds(sub(value, other))
    if high is not None and _nonnegative(-1 - high):
        return TRUE
    if low is not None and _nonnegative(low):
        return FALSE
    return Apply("lt", (_as_expr(value), _as_expr(other)), bool_)


def both(a: Expr, b: Expr) -> Expr:
    """Logical and."""
    if a == FALSE or b == FALSE:
        return FALSE
    if a == TRUE:
        return b
    return a if b in (TRUE, a) else Apply("and", (a, b), bool_)


def minimum(a: Expr | Size, b: Expr | Size) -> Expr:
    """The lesser of two indices."""
    low, high = bounds(sub(a, b))
    if high is not None and _nonpositive(high):
        return _as_expr(a)
    if low is not None and _nonnegative(low):
        return _as_expr(b)
    return Apply("min", (_as_expr(a), _as_expr(b)), int64)


def divisor(value: Expr | Size) -> int:
    """A number that divides every value of an index; 0 where that is always 0.

    >>> i = Var("i", 3)
    >>> divisor(minimum(4096, add(6400, mul(i, -4096))))
    256
    """
    if isinstance(value, Apply) and value.op in ("min", "max"):
        return gcd(*(divisor(each) for each in value.args))
    const, terms = parts(value)
    if not isinstance(const, int) or value in terms:
        return 1
    return gcd(const, *(c * divisor(t) if isinstance(c, int) else 1 for t, c in terms.items()))


def strides(shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """Elements between neighbours along each axis of a row-major array.

    >>> strides((2, 3, 4))
    (12, 4, 1)
    """
    result: list[Size] = []
    step: Size = 1
    for size in reversed(shape):
        result.append(step)
        step = step * size
    return tuple(reversed(result))


def linearise(index: tuple[Expr, ...], shape: tuple[Size, ...]) -> Expr:
    """The row-major offset of a multi-index."""
    return add(*(mul(i, s) for i, s in zip(index, strides(shape), strict=True)))


def split_linear(offset: Expr | Size, shape: tuple[Size, ...]) -> tuple[Expr, ...]:
    """The multi-index of a row-major offset that lies inside ``shape``."""
    result: list[Expr] = []
    rest: Expr = _as_expr(offset)
    leading = True  # which needs no remainder: the offset is inside the shape
    for size, step in zip(shape, strides(shape), strict=True):
        whole = ZERO if size == 1 else floordiv(rest, step)
        result.append(whole if leading else mod(whole, size))
        leading = leading and size == 1
    return tuple(result)


def coefficient(value: Expr, var: Var) -> Size | None:
    """The factor of ``var`` in an index; None where it depends on ``var`` other than linearly."""
    if not isinstance(value, Linear):
        return 1 if value == var else None if _mentions(value, var) else 0
    found: Size = 0
    for c, term in value.terms:
        if term == var:
            found = c
        elif not isinstance(term, Var) and _mentions(term, var):
            return None
    return found


def _mentions(value: Expr, var: Var) -> bool:
    if isinstance(value, Var):
        return value == var
    if isinstance(value, Linear):
        return any(_mentions(t, var) for _, t in value.terms)
    if isinstance(value, Apply):
        return any(_mentions(a, var) for a in value.args)
    if isinstance(value, Load):
        return _mentions(value.index, var) or (
            value.mask is not None and _mentions(value.mask, var)
        )
    return False


class Substitution:
    """Rewrites expressions: variables by ``variables``, loads by ``load`` (given the load with its
    index rewritten).

    One instance shares its memory between calls, so that common parts stay common.
    """

    def __init__(
        self,
        variables: Mapping[Var, Expr],
        load: Callable[[Load, Load], Expr] = lambda old, new: new,
    ) -> None:
        self.variables = variables
        self.load = load
        self.memo: dict[int, tuple[Expr, Expr]] = {}

    def __call__(self, value: Expr) -> Expr:
        """``value`` rewritten."""
        if isinstance(value, Var):
            return self.variables.get(value, value)
        found = self.memo.get(id(value))
        if found is not None:
            return found[1]
        result = self._rewrite(value)
        self.memo[id(value)] = (value, result)  # the key's object is kept alive with it
        return result

    def _rewrite(self, value: Expr) -> Expr:
        if isinstance(value, Linear):
            return add(value.const, *(mul(self(t), c) for c, t in value.terms))
        if isinstance(value, Load):
            mask = None if value.mask is None else self(value.mask)
            mask = None if mask == TRUE else mask
            return self.load(
                value, Load(value.buffer, self(value.index), value.dtype, mask, value.other)
            )
        if isinstance(value, Apply):
            args = tuple(self(a) for a in value.args)
            if value.op in ("floordiv", "mod") and value.dtype is int64:
                divisor, rest = parts(args[1])
                if not rest:
                    return (floordiv if value.op == "floordiv" else mod)(args[0], divisor)
            return _decided(value.op, args) or Apply(value.op, args, value.dtype)
        return value


def _decided(op: str, args: Sequence[Expr]) -> Expr | None:
    """A condition, or a choice by one, that constants decide; None where nothing is known."""
    if op == "and":
        return both(*args) if TRUE in args or FALSE in args else None
    if op not in ("lt", "select") or not isinstance(args[0], Const):
        return None
    first, second = args[0], args[1]
    if op == "select":
        return second if first.value else args[2]
    if not isinstance(second, Const) or second.dtype is not int64:
        return None
    return TRUE if first.value < second.value else FALSE
