"""Panels: blocks of a factor copied into local scratch in the order the register tile reads them.

Input: a factor's element as a function of (position across the panel, k). Output: statements that
fill a panel, and the panel's elements for the register tile. A panel holds ``across`` x ``depth``
elements, k fastest (``by_rows``) or the position across fastest, zeros where the factor has no
element: beyond its edge, and up to the next multiple of ``UNROLL`` in k. Each copy runs along the
axis in which memory is contiguous; where the panel's order is the other one, square blocks are
transposed in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lamella.compiler.contraction_register import UNROLL, zero
from lamella.dtypes import DType
from lamella.ir.dim import Size
from lamella.ir.index import add, coefficient, constant, floordiv, lt, mul, parts
from lamella.ir.loops import Alloc, Apply, Expr, For, If, Load, LoopKind, Prefetch, Stmt, Store, Var
from lamella.ir.walk import expressions

__all__ = ["LINE", "Element", "Panel", "contiguous"]

LINE = 64  # bytes of a line of a cache

Element = Callable[[Expr, Expr], Expr]
"""(across, k) -> the element, which the factor has"""

Extent = Size | Expr


def contiguous(element: Element, probe: tuple[Var, Var]) -> tuple[bool, bool]:
    """Whether memory is contiguous along the panel's position across, and along k, of which a step
    may be a word of four bytes.
    """
    found = list(expressions([element(*probe)]))
    indices = [e.index for e in found if isinstance(e, Load)]
    step = 4 if any(isinstance(e, Apply) and e.op == "word" for e in found) else 1
    across, k = (
        bool(indices) and all(coefficient(e, v) in (0, by) for e in indices)
        for v, by in zip(probe, (1, step), strict=True)
    )
    return across, k


@dataclass(frozen=True, slots=True)
class Panel:
    """``count`` panels in scratch ``name``; ``depth`` is a multiple of ``UNROLL``; ``block``: the
    most rows of a block that is transposed in registers.
    """

    name: str
    dtype: DType
    across: int
    depth: int
    count: int
    by_rows: bool
    block: int

    @property
    def _stride(self) -> int:
        """Elements from one row to the next: no multiple of 1 KiB, lest rows meet in one set of a
        cache.
        """
        return self.depth + 16 if self.depth % 256 == 0 else self.depth

    @property
    def _each(self) -> int:
        return self.across * (self._stride if self.by_rows else self.depth)

    def alloc(self) -> Alloc:
        """The scratch."""
        return Alloc(self.name, self.dtype, self.count * self._each, "local")

    def _place(self, panel: Expr | Size, across: Expr, k: Expr) -> Expr:
        if self.by_rows:
            return add(mul(panel, self._each), mul(across, self._stride), k)
        return add(mul(panel, self._each), mul(k, self.across), across)

    def load(self, panel: Expr | Size, across: Expr, k: Expr) -> Expr:
        """The element at (across, k) of a panel."""
        return Load(self.name, self._place(panel, across, k), self.dtype)

    def soon(self, panel: Expr | Size, k: Expr) -> list[Stmt]:
        """Hints for ``UNROLL`` steps of a panel whose order is that of k."""
        line = LINE // self.dtype.itemsize
        places = range(0, self.across * UNROLL, line)
        return [
            Prefetch(self.name, add(self._place(panel, constant(0), k), place)) for place in places
        ]

    # -- filling -----------------------------------------------------------------------------------
    def fill(
        self, panel: Expr | Size, valid: Extent, count: Extent, element: Element, run: int = 0
    ) -> list[Stmt]:
        """Statements that fill a panel with ``count`` steps of k at the ``valid`` first positions
        across; ``run`` of them at a time, if given, of which ``count`` is a multiple.
        """
        whole = _Copy(self, panel, count, element)
        if run and self.depth > run and self.depth % run == 0:
            turn = Var(f"{self.name}_run", _plain(floordiv(count, run)))
            start = mul(turn, run)
            part = _Copy(self, panel, run, lambda across, k: element(across, add(start, k)), start)
            body: list[Stmt] = [For(turn, "serial", tuple(self._parts(part, valid)))]
        else:
            body = self._parts(whole, valid)
        return [*body, *whole.pad()]

    def fill_all(self, count: Extent, element: Element) -> list[Stmt]:
        """Statements that fill all panels, which are full, with ``count`` steps of k: a step of
        every panel before the next, as memory that is contiguous across them lies.
        """
        panel, across = Var(f"{self.name}_n", self.count), Var(f"{self.name}_b", self.across)
        k, padded = Var(f"{self.name}_c", count), Var(f"{self.name}_m", self.count)
        value = element(add(mul(panel, self.across), across), k)
        store = Store(self.name, self._place(panel, across, k), value)
        step = For(panel, "unroll", (For(across, "lanes", (store,)),))
        pad = _Copy(self, padded, count, element).pad("w")
        zeros = [For(padded, "serial", tuple(pad))] if pad else []
        return [For(k, "serial", (step,)), *zeros]

    def _parts(self, copy: _Copy, valid: Extent) -> list[Stmt]:
        const, terms = parts(valid)
        if not terms and isinstance(const, int):
            return copy.part(const, "")
        full = lt(self.across - 1, valid)
        return [If(full, tuple(copy.part(self.across, "")), tuple(copy.part(valid, "e")))]


class _Copy:
    """The copies that fill one panel, from step ``start`` of its k on."""

    def __init__(
        self, to: Panel, panel: Expr | Size, count: Extent, element: Element, start: Expr | int = 0
    ) -> None:
        self.to, self.panel, self.count, self.element = to, panel, count, element
        self.start = start

    def _var(self, tag: str, extent: Extent) -> Var:
        return Var(f"{self.to.name}_{tag}", extent)

    def _store(self, across: Expr, k: Expr, value: Expr | None = None) -> Stmt:
        place = self.to._place(self.panel, across, add(self.start, k))
        return Store(self.to.name, place, self.element(across, k) if value is None else value)

    def part(self, valid: Extent, tag: str) -> list[Stmt]:
        """The copy of the first ``valid`` positions, zeros in the rest."""
        probe = (self._var("x", 7919), self._var("y", 7919))
        across_first, k_first = contiguous(self.element, probe)
        if self.to.by_rows:
            body = self._loops(self._var("a" + tag, valid), self._var("k" + tag, self.count), True)
        elif k_first and not across_first:
            body = self._transposed(valid, tag)
        else:
            body = self._loops(self._var("a" + tag, valid), self._var("k" + tag, self.count), False)
        return [*body, *self._zeros(valid, tag)]

    def _loops(self, across: Var, k: Var, along_k: bool) -> list[Stmt]:
        outer, inner = (across, k) if along_k else (k, across)
        return [For(outer, "serial", (For(inner, "lanes", (self._store(across, k),)),))]

    def _transposed(self, valid: Extent, tag: str) -> list[Stmt]:
        """Square blocks as long as they fit, then single elements."""
        done, number = 0, 0
        body: list[Stmt] = []
        while isinstance(valid, int) and valid - done >= 4:
            size = min(self.to.block, 1 << ((valid - done).bit_length() - 1))
            blocks = (valid - done) // size
            body += self._squares(done, blocks, size, f"{tag}{number}")
            done, number = done + blocks * size, number + 1
        if not isinstance(valid, int) or done < valid:
            more = valid if not done else add(valid, -done)
            across, k = self._var("s" + tag, _plain(more)), self._var("t" + tag, self.count)
            store = self._store(add(across, done), k)
            body.append(For(across, "serial", (For(k, "serial", (store,)),)))
        return body

    def _squares(self, first: int, blocks: int, size: int, tag: str) -> list[Stmt]:
        """``blocks`` groups of ``size`` positions, all steps of k."""
        turns = _plain(floordiv(self.count, size))
        group, turn = self._var("g" + tag, blocks), self._var("h" + tag, turns)
        i, k = self._var("i" + tag, size), self._var("j" + tag, size)
        across = add(mul(group, size), i, first)
        store = self._store(across, add(mul(turn, size), k))
        square = For(i, "unroll", (For(k, "lanes", (store,)),))
        body: list[Stmt] = []
        if turns != 0:
            body.append(For(group, "serial", (For(turn, "serial", (square,)),)))
        rest = _plain(add(self.count, mul(turns, -size)))
        if rest != 0:
            few, k = self._var("f" + tag, blocks * size), self._var("r" + tag, rest)
            store = self._store(add(few, first), add(mul(turns, size), k))
            body.append(For(k, "serial", (For(few, "lanes", (store,)),)))
        return body

    def _zeros(self, valid: Extent, tag: str) -> list[Stmt]:
        rest = _plain(add(self.to.across, mul(valid, -1)))
        if rest == 0:
            return []
        across, k = self._var("o" + tag, rest), self._var("z" + tag, self.count)
        store = self._store(add(valid, across), k, zero(self.to.dtype))
        outer, inner = (across, k) if self.to.by_rows else (k, across)
        return [For(outer, "serial", (For(inner, "lanes", (store,)),))]

    def pad(self, tag: str = "") -> list[Stmt]:
        """Zeros up to the next multiple of ``UNROLL``."""
        up = mul(floordiv(add(self.count, UNROLL - 1), UNROLL), UNROLL)
        missing = _plain(add(up, mul(self.count, -1)))
        if missing == 0:
            return []
        across, k = self._var("p" + tag, self.to.across), self._var("q" + tag, missing)
        store = self._store(across, add(self.count, k), zero(self.to.dtype))
        kind: LoopKind = "serial" if self.to.by_rows else "lanes"
        return [For(k, "serial", (For(across, kind, (store,)),))]


def _plain(extent: Extent) -> Extent:
    """An extent that is no expression, if it can be."""
    const, terms = parts(extent)
    return extent if terms else const
