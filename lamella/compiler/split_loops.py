"""Lane loops cut where a condition on the loop's index changes, so that each piece knows it.

Input: a kernel. Output: the same kernel; where elements come from different places by position
(what is joined, padded, rolled or written into), each piece reads one of them, without masks.
Conditions that the index takes no part in become branches around the loops.

A condition ``l < t`` changes once, at ``t``. The piece before it ends, and the one after it begins,
at a multiple of ``GROUP``; a group between keeps the condition. So vectors start where they did,
and stores that may bypass the caches still may. Where all of this is known and no such store is
there, the cut is at ``t`` itself. Only loops of plain stores are cut: no sum changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lamella.dtypes import int64
from lamella.ir.index import (
    FALSE,
    TRUE,
    Substitution,
    add,
    bounds,
    coefficient,
    constant,
    divisor,
    floordiv,
    minimum,
    mul,
    sub,
)  # fmt: skip
from lamella.ir.loops import (
    Apply,
    Const,
    Expr,
    Extent,
    For,
    If,
    Kernel,
    Linear,
    Load,
    Stmt,
    Store,
    Var,
)  # fmt: skip
from lamella.ir.walk import expressions, roots

__all__ = ["split_loops"]

GROUP: Final = 64  # elements: a multiple of most vectors, and of a line of memory
SHORT: Final = 32  # iterations of a loop for which masks cost less than pieces
MOST: Final = 8  # branches and cuts of one loop
WORK: Final = 256  # operations of all pieces together

Known = Mapping[Expr, bool]  # conditions by their key


@dataclass(frozen=True, slots=True)
class Cut:
    """Where conditions change, and for the key of each whether it holds before."""

    at: Expr
    before: dict[Expr, bool]


def split_loops(kernel: Kernel) -> Kernel:
    """The kernel with its lane loops in pieces.

    >>> from lamella.ir.text import kernel_text, parse_kernel
    >>> kernel = parse_kernel('''kernel join
    ...   in x: float32
    ...   out y: float32
    ... grid g < 4
    ...   lanes l < 96
    ...     y[96*g + 1*l] = x[1*l if lt(l, 60)]''')
    >>> print(kernel_text(split_loops(kernel)))
    kernel join
      in x: float32
      out y: float32
      work 1
    grid g < 4
      lanes l_1 < 60
        y[96*g + 1*l_1] = x[l_1]
      lanes l_2 < 36
        y[96*g + 1*l_2 + 60] = 0.0:float32
    """
    exact = not any(buffer.streamed for buffer in kernel.buffers)
    body = tuple(_within(kernel.body.body, _Splitter(exact)))
    return replace(kernel, body=replace(kernel.body, body=body))


def _within(body: Sequence[Stmt], splitter: _Splitter) -> Iterator[Stmt]:
    for s in body:
        if isinstance(s, For) and s.kind == "lanes":
            yield from splitter.loop(s)
        elif isinstance(s, For):
            yield replace(s, body=tuple(_within(s.body, splitter)))
        elif isinstance(s, If):
            then, otherwise = (tuple(_within(b, splitter)) for b in (s.then, s.otherwise))
            yield replace(s, then=then, otherwise=otherwise)
        else:
            yield s


class _Splitter:
    """``exact``: pieces may begin anywhere."""

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self._names = 0

    def loop(self, loop: For) -> list[Stmt]:
        """A lane loop in pieces; itself alone where it is better whole."""
        extent = loop.var.extent
        exprs = _expressions(loop)
        checks = any(isinstance(e, Apply) and e.op == "checked_index" for e in exprs)
        plain = all(isinstance(s, Store) and not s.atomic for s in loop.body)
        if checks or not plain or (isinstance(extent, int) and extent < SHORT):
            return [loop]
        work = sum(isinstance(e, Apply | Load) for e in exprs)
        return self._branches(loop, min(MOST, WORK // max(work, 1)))

    def _branches(self, loop: For, most: int) -> list[Stmt]:
        """Branches for conditions that the index takes no part in, with the pieces of each."""
        condition = _invariant(loop) if most > 1 else None
        if condition is None:
            return self._pieces(loop, most)
        arms = []
        for truth in (True, False):
            var = self._var(loop, loop.var.extent)  # its own: names are unique in a kernel
            known = _known(loop, var, var, _implied(condition, truth))
            arms.append(tuple(self._branches(known, most - 1) if known.body else ()))
        return [If(condition, *arms)]

    def _pieces(self, loop: For, most: int) -> list[Stmt]:
        extent = loop.var.extent
        cuts = _cuts(loop)[: max(most - 1, 0)]
        exact = self.exact and all(isinstance(e, (int, Const)) for e in (extent, *_places(cuts)))
        found: list[Stmt] = []
        start: Expr = constant(0)
        for number, cut in enumerate(cuts):
            end, following = _ends(_clamped(cut.at, extent), start, exact)
            found += self._piece(loop, start, sub(end, start), _before(cuts, number))
            if following != end:
                rest = _at_least(minimum(GROUP, sub(_expr(extent), end)), constant(0))
                found += self._piece(loop, end, rest, {})
            start = following
        if not cuts:
            return [loop]
        rest = _at_least(sub(_expr(extent), start), constant(0))
        return found + self._piece(loop, start, rest, _before(cuts, len(cuts)))

    def _piece(self, loop: For, start: Expr, extent: Expr, known: Known) -> list[Stmt]:
        """The iterations from ``start``, ``extent`` of them; none where that is less than one."""
        if isinstance(extent, Const) and int(extent.value) <= 0:
            return []
        var = self._var(loop, int(extent.value) if isinstance(extent, Const) else extent)
        piece = _known(loop, var, add(start, var), known)
        return [piece] if piece.body else []

    def _var(self, loop: For, extent: Extent) -> Var:
        self._names += 1
        return Var(f"{loop.var.name}_{self._names}", extent)


def _expressions(loop: For) -> list[Expr]:
    return list(expressions(root for s in loop.body for root in roots(s)))


def _expr(extent: Extent) -> Expr:
    return constant(extent) if isinstance(extent, int) or not isinstance(extent, Expr) else extent


def _places(cuts: Sequence[Cut]) -> list[Expr]:
    return [cut.at for cut in cuts]


def _before(cuts: Sequence[Cut], number: int) -> dict[Expr, bool]:
    """What is known of every condition in the piece before a cut."""
    known: dict[Expr, bool] = {}
    for place, cut in enumerate(cuts):
        known |= {key: truth is (place >= number) for key, truth in cut.before.items()}
    return known


def _clamped(at: Expr, extent: Extent) -> Expr:
    """A place as one inside the loop."""
    return _at_least(minimum(at, _expr(extent)), constant(0))


def _at_least(value: Expr, least: Expr) -> Expr:
    """The greater of two indices."""
    low, high = bounds(sub(value, least))
    if isinstance(low, int) and low >= 0:
        return value
    if isinstance(high, int) and high <= 0:
        return least
    return Apply("max", (value, least), int64)


def _ends(at: Expr, start: Expr, exact: bool) -> tuple[Expr, Expr]:
    """Where the piece before a cut ends, and where the next one begins."""
    if exact:
        return at, at
    if divisor(at) % GROUP == 0:
        end = _at_least(at, start)
        return end, end
    groups = floordiv(at, GROUP)
    if start != constant(0):
        groups = _at_least(groups, floordiv(start, GROUP))
    end = mul(groups, GROUP)
    return end, add(end, GROUP)


def _is_index(value: Expr) -> bool:
    """Whether it is computed of loop variables and sizes alone."""
    return all(isinstance(e, (Var, Const, Linear, Apply)) for e in expressions([value]))


def _key(condition: Expr) -> Expr | None:
    """What is positive where a comparison of indices holds; a conjunction of them itself."""
    if not isinstance(condition, Apply) or condition.op not in ("lt", "le", "and"):
        return None
    a, b = condition.args
    if condition.op == "and":
        return None if _key(a) is None or _key(b) is None else condition
    if a.dtype is not int64 or not _is_index(condition):
        return None
    return add(sub(b, a), int(condition.op == "le"))


def _implied(condition: Expr, truth: bool) -> dict[Expr, bool]:
    """What is known where a condition holds, or does not."""
    key = _key(condition)
    if key is None:
        return {}
    found = {key: truth}
    if key != condition:
        found[sub(1, key)] = not truth
    elif truth and isinstance(condition, Apply):
        for part in condition.args:
            found |= _implied(part, truth)
    return found


def _invariant(loop: For) -> Expr | None:
    """A condition on indices that the loop's own takes no part in."""
    for e in _expressions(loop):
        key = _key(e)
        if key is not None and not isinstance(key, Const) and loop.var not in expressions([e]):
            return e
    return None


def _cuts(loop: For) -> list[Cut]:
    """Where conditions change, in order, as far as the order is certain."""
    found: list[Cut] = []
    for e in _expressions(loop):
        key = _key(e)
        if key is None or key is e or key in [k for cut in found for k in cut.before]:
            continue
        step = coefficient(key, loop.var)
        if step == -1:  # rest - l > 0
            _insert(found, add(key, loop.var), key, True)
        elif step == 1:  # l + rest > 0
            _insert(found, sub(1, sub(key, loop.var)), key, False)
    return found


def _insert(cuts: list[Cut], at: Expr, key: Expr, before: bool) -> None:
    for place, cut in enumerate(cuts):
        low, high = bounds(sub(at, cut.at))
        if low == 0 == high:
            cut.before[key] = before
            return
        if isinstance(high, int) and high < 0:
            cuts.insert(place, Cut(at, {key: before}))
            return
        if not isinstance(low, int) or low < 0:
            return  # nobody knows which comes first
    cuts.append(Cut(at, {key: before}))


def _known(loop: For, var: Var, index: Expr, known: Known) -> For:
    """The loop over another variable, with what is known."""
    rewrite = _Knowing(loop.var, index, known)
    body: list[Stmt] = []
    for s in loop.body:
        if isinstance(s, Store):
            mask = None if s.mask is None else rewrite(s.mask)
            if mask != FALSE:
                mask = None if mask == TRUE else mask
                body.append(replace(s, index=rewrite(s.index), value=rewrite(s.value), mask=mask))
    return For(var, "lanes", tuple(body))


class _Knowing(Substitution):
    """Rewrites a loop's variable, and decides the conditions that are known."""

    def __init__(self, var: Var, index: Expr, known: Known) -> None:
        super().__init__({var: index}, _read)
        self.known = known

    def __call__(self, value: Expr) -> Expr:
        """``value`` rewritten."""
        key = _key(value)
        truth = None if key is None else self.known.get(key)
        if truth is None:
            return super().__call__(value)
        return TRUE if truth else FALSE


def _read(_: Load, new: Load) -> Expr:
    """A load, unless its mask never holds."""
    if new.mask != FALSE:
        return new
    return new.other or Const(False if new.dtype.kind == "b" else 0, new.dtype)
