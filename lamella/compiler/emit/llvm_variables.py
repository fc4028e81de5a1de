"""The mutable variables of a kernel in SSA form, with the partial accumulators of lanes loops.

``values`` maps a name to its present value; loops and branches (``llvm_function``) make phis for
those they assign. A variable folded by a lanes loop has a vector of partial results beside it,
``name@lanes``, which starts at the identity and is combined, in a fixed order, when the variable is
next read. Several loops may add to it before that.
"""

from __future__ import annotations

from lamella.compiler.emit.llvm_builder import Builder, Value
from lamella.compiler.emit.llvm_fold import fold_into, fold_lanes, identity
from lamella.compiler.emit.llvm_ops import Operations

__all__ = ["Names", "Variables"]

Names = tuple[str, ...]


class Variables:
    """The variables of one function."""

    def __init__(self, b: Builder, o: Operations) -> None:
        self.b, self.o = b, o
        self.values: dict[str, Value] = {}
        self.partials: dict[
            str, tuple[Names, str, set[int]]
        ] = {}  # (names, op, lanes of the partials) by name

    def declare(self, name: str, value: Value) -> None:
        """A new variable, or one of a new turn of the loop around it."""
        self.values[name] = value
        if name in self.partials:
            for lanes in self.partials.pop(name)[2]:
                del self.values[f"{name}@{lanes}"]

    def leave(self, name: str) -> None:
        """The block that declared a variable ends: another turn of a loop declares it anew."""
        self.values.pop(name, None)
        names, _, widths = self.partials.pop(name, ((), "", set()))
        for each in (name, *names):
            for lanes in widths:
                self.values.pop(f"{each}@{lanes}", None)

    def fold(self, names: Names, op: str, values: list[Value], mask: Value | None = None) -> None:
        """Fold values into variables, where ``mask`` holds."""
        old = [self.values[n] for n in names]
        new = fold_into(self.o, op, old, values)
        for name, before, after in zip(names, old, new, strict=True):
            self.values[name] = after if mask is None else self.o.select(mask, after, before)

    def read(self, name: str) -> Value:
        """The present value of a variable."""
        self.settle({name})
        return self.values[name]

    def need(self, names: Names, op: str, lanes: int) -> None:
        """Have partial accumulators of ``lanes`` lanes for these variables."""
        if f"{names[0]}@{lanes}" in self.values:
            return
        self._restart(names, op, lanes)
        for name in names:
            self.partials.setdefault(name, (names, op, set()))[2].add(lanes)

    def _restart(self, names: Names, op: str, lanes: int) -> None:
        for name, start in zip(
            names, identity(op, [self.values[n].dtype for n in names]), strict=True
        ):
            self.values[f"{name}@{lanes}"] = self.b.splat(start, lanes)

    def settle(self, read: set[str]) -> None:
        """Combine the partial accumulators of these variables into them, the widest first, and
        start them again.
        """
        for name in sorted(read & self.partials.keys()):
            names, op, widths = self.partials[name]
            self._combine(names, op, sorted(widths, reverse=True))

    def _combine(self, names: Names, op: str, widths: list[int]) -> None:
        """Fold each partial accumulator down to the width of the next, and the last into the
        variable.
        """
        total: list[Value] | None = None
        for lanes in widths:
            parts = [self.values[f"{n}@{lanes}"] for n in names]
            if parts[0].const is not None:
                continue
            if total is not None:
                parts = fold_into(self.o, op, parts, fold_lanes(self.o, op, total, lanes))
            total = parts
            self._restart(names, op, lanes)
        if total is not None:
            self.fold(names, op, fold_lanes(self.o, op, total, 0))

    def end(self, known: set[str]) -> None:
        """Combine the partials made since ``known`` (the variables then) was taken: they end with
        their block.
        """
        for name in sorted(self.partials):
            names, op, widths = self.partials.get(name, ((), "", set()))
            fresh = [w for w in sorted(widths, reverse=True) if f"{name}@{w}" not in known]
            self._combine(names, op, fresh)
            for lanes in fresh:
                self._drop(names, lanes)

    def _drop(self, names: Names, lanes: int) -> None:
        for name in names:
            del self.values[f"{name}@{lanes}"]
            widths = self.partials[name][2]
            widths.discard(lanes)
            if not widths:
                del self.partials[name]
