"""What a fold over windows is: places and taps that meet in positions, and what lies around.

Input: a fold, such as a maximum over the windows of a padded image. Output: its :class:`Windows`,
if its value depends on a place and a tap only through the position ``step · place + tap``, and what
lies outside the image does not change the fold. Positions outside are then left out of loops, so
that nothing inside needs a mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from lamella.compiler.statements import Statement
from lamella.compiler.walk import affine_forms
from lamella.ir.decisions import at_least
from lamella.ir.index import TRUE, both, coefficient, parts
from lamella.ir.loops import Apply, Const, Expr, Load, Var
from lamella.ir.walk import loads_of

__all__ = ["Axis", "Windows", "in_turn", "windows"]

TAPS = 16  # of the innermost axis, at most: they are written out
MOST = 1024  # taps of a window
NEAR = 2  # taps that places are apart, where lanes along the places find neighbours


@dataclass(frozen=True, slots=True)
class Axis:
    """Places and taps along one axis; positions from ``low`` to ``high`` (exclusive) count."""

    place: Var
    tap: Var
    step: int
    low: int
    high: int

    @property
    def places(self) -> int:
        """How many there are."""
        return int(self.place.size)

    @property
    def taps(self) -> int:
        """How many there are."""
        return int(self.tap.size)

    @property
    def positions(self) -> int:
        """How many there are, those that do not count among them."""
        return (self.places - 1) * self.step + self.taps

    @property
    def unpadded(self) -> bool:
        """Whether every position counts."""
        return self.low == 0 and self.high == self.positions


@dataclass(frozen=True, slots=True)
class Windows:
    """A fold over windows: axes of rows from the outermost inwards, the axis that is folded last,
    the axes outside and inside them, and the value at positions that count.
    """

    rows: tuple[Axis, ...]
    last: Axis
    outer: tuple[Var, ...]
    inner: tuple[Var, ...]
    value: Expr

    @property
    def width(self) -> int:
        """Elements of a position of the last axis: those of the inner axes."""
        return prod(int(v.size) for v in self.inner)


def windows(s: Statement) -> Windows | None:
    """The windows that a statement folds; None for any other."""
    if s.kind != "fold" or s.second is not None or s.value is None or s.fold is None:
        return None
    if not s.reduce or not all(isinstance(v.extent, int) for v in s.reduce):
        return None
    out = [v for v in s.out if v.extent != 1]
    if 0 in s.node.shape or not 1 < prod(int(v.size) for v in s.reduce) <= MOST:
        return None
    inside, condition = _guarded(s.value, s.fold[1])
    paired = _paired(out, s.reduce, s.value)
    if paired is None:
        return None
    known: list[Expr] = []
    conditions = list(_conjuncts(condition))
    axes = [_bounded(*pair, conditions, known) for pair in paired]
    if len(known) < len(conditions) or any(axis.low >= axis.high for axis in axes):
        return None
    return _ordered(out, axes, _without(inside, known))


def in_turn(s: Statement) -> bool:
    """Whether a fold takes the last taps of overlapping windows one after the other, whatever the
    schedule and whether sizes are open: lanes run along places, not along taps.
    """
    if s.kind != "fold" or s.second is not None or s.value is None or not s.reduce:
        return False
    tap = s.reduce[-1]
    if not isinstance(tap.extent, int) or tap.extent == 1:
        return False
    forms = [parts(form)[1] for form in affine_forms([s.value])]
    for place in s.out:
        met = [terms for terms in forms if place in terms or tap in terms]
        steps = {_ratio(terms.get(place, 0), terms.get(tap, 0)) for terms in met}
        step = steps.pop() if len(steps) == 1 else None
        if step is not None and step <= NEAR and step < tap.extent:
            return at_least(place.size, 2, True)
    return False


def _ordered(out: Sequence[Var], axes: Sequence[Axis], value: Expr) -> Windows | None:
    """The axes in the order of memory, if lanes find elements that follow each other there."""
    *rows, last = sorted(axes, key=lambda axis: out.index(axis.place))
    at = out.index(last.place)
    places = [axis.place for axis in axes]
    inner = tuple(out[at + 1 :])
    outer = tuple(v for v in out[:at] if v not in places)
    if not all(isinstance(v.extent, int) for v in (*places, *inner)):
        return None
    lane = inner[-1] if inner else last.tap
    steps = [coefficient(load.index, lane) for load in loads_of(value)]
    if last.taps > TAPS or 1 not in steps or any(step not in (0, 1) for step in steps):
        return None
    return Windows(tuple(rows), last, outer, inner, value)


def _guarded(value: Expr, identity: Const) -> tuple[Expr, Expr]:
    """The value where a condition holds, and that condition: elsewhere the fold stays as it is."""
    if isinstance(value, Apply) and value.op == "cast":
        inside, condition = _guarded(value.args[0], identity)
        return Apply("cast", (inside,), value.dtype), condition
    if isinstance(value, Apply) and value.op == "select":
        condition, inside, fill = value.args
        if isinstance(fill, Const) and fill.value == identity.value:
            return inside, condition
    if isinstance(value, Load) and value.mask is not None and _gives(value, identity):
        return Load(value.buffer, value.index, value.dtype), value.mask
    return value, TRUE


def _gives(load: Load, identity: Const) -> bool:
    """Whether a masked load gives the identity where it does not read."""
    return (0 if load.other is None else load.other.value) == identity.value


def _conjuncts(condition: Expr) -> list[Expr]:
    if isinstance(condition, Apply) and condition.op == "and":
        return [part for arg in condition.args for part in _conjuncts(arg)]
    return [] if condition == TRUE else [condition]


def _paired(
    out: Sequence[Var], taps: Sequence[Var], value: Expr
) -> list[tuple[Var, Var, int]] | None:
    """For each tap the place it meets, and how far apart places are; None where one meets none."""
    forms = [parts(form)[1] for form in affine_forms([value])]
    found: list[tuple[Var, Var, int]] = []
    for tap in taps:
        steps = {}
        for place in [v for v in out if isinstance(v.extent, int)]:
            ratios = {
                _ratio(terms.get(place, 0), terms.get(tap, 0))
                for terms in forms
                if place in terms or tap in terms
            }
            step = ratios.pop() if len(ratios) == 1 else None
            if step is not None and all(place is not other for other, _, _ in found):
                steps[place] = step
        if not steps:
            return None
        place = min(steps, key=lambda v: steps[v])
        if steps[place] > 2 * int(tap.size):
            return None
        found.append((place, tap, steps[place]))
    return found


def _ratio(place: object, tap: object) -> int | None:
    """How many taps a place is."""
    if not isinstance(place, int) or not isinstance(tap, int) or tap == 0:
        return None
    return place // tap if place % tap == 0 and place // tap >= 1 else None


def _bounded(
    place: Var, tap: Var, step: int, conditions: Sequence[Expr], known: list[Expr]
) -> Axis:
    """The axis with the range in which the conditions on its positions hold, which are ``known``
    from now on.
    """
    whole = Axis(place, tap, step, 0, 0)
    low, high = 0, whole.positions
    for condition in conditions:
        if not isinstance(condition, Apply) or condition.op != "lt":
            continue
        small, large = condition.args
        const, terms = parts(large if isinstance(small, Const) else small)
        if terms != {place: step, tap: 1} or not isinstance(const, int):
            continue
        if isinstance(small, Const):
            low = max(low, int(small.value) + 1 - const)
        elif isinstance(large, Const):
            high = min(high, int(large.value) - const)
        else:
            continue
        known.append(condition)
    return Axis(place, tap, step, low, high)


def _without(value: Expr, known: Sequence[Expr]) -> Expr:
    """The value with conditions that hold left out."""
    memo: dict[int, Expr] = {}

    def rewrite(e: Expr) -> Expr:
        found = memo.get(id(e))
        if found is None:
            found = memo[id(e)] = _rewritten(e)
        return found

    def _rewritten(e: Expr) -> Expr:
        if isinstance(e, Load):
            mask = None if e.mask is None else rewrite(e.mask)
            return Load(
                e.buffer, rewrite(e.index), e.dtype, None if mask == TRUE else mask, e.other
            )
        if not isinstance(e, Apply):
            return e
        if e in known:
            return TRUE
        args = tuple(map(rewrite, e.args))
        if e.op == "and":
            return both(*args)
        if e.op == "select" and args[0] == TRUE:
            return args[1]
        return Apply(e.op, args, e.dtype)

    return rewrite(value)
