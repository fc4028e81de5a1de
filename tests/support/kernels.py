"""Hypothesis strategies that draw valid kernels: every kind of statement, all dtypes, exact
operations only.

Every buffer has ``SIZE`` elements and every access lies inside, so a drawn kernel runs; operations
whose results depend on the mathematics library or on the sign of a nan are left out, so any two
ways of running it must agree in every bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lamella.dtypes import ALL, DType, bool_, int64
from lamella.ir.dim import Dim
from lamella.ir.lanes import meeting
from lamella.ir.loops import (
    APPLY_OPS,
    Accumulate,
    Alloc,
    Apply,
    Assign,
    BufferParam,
    Const,
    Declare,
    Expr,
    For,
    If,
    Kernel,
    Linear,
    Load,
    Param,
    Read,
    Stmt,
    Store,
    Var,
    cast,
)
from lamella.ir.verify_exprs import accumulates, apply_kinds, identity

SIZE = 64
SIZES = {"n": 3, "m": 2}
PARAMS = {f"p_{d.name}": (True if d.kind == "b" else 3 if d.kind != "f" else -1.5) for d in ALL}
APPROXIMATE = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
    "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
    "erfc", "pow",
})  # fmt: skip
"""Operations whose last bits depend on who computes them."""
_INEXACT = APPROXIMATE | {
    "bitcast", "word", "signbit", "copysign", "checked_index", "cast", "select", "lt", "le", "eq",
    "ne", "ldexp", "isnan", "isinf", "isfinite",
}  # fmt: skip
OPS = sorted(set(APPLY_OPS) - _INEXACT)
Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Place:
    """What may be named at a point of the kernel."""

    loops: tuple[Var, ...] = ()
    variables: tuple[tuple[str, DType], ...] = ()  # readable
    assignable: tuple[tuple[str, DType], ...] = ()
    scratch: tuple[tuple[str, DType], ...] = ()
    lanes: bool = False
    lane: Var | None = None  # of the loop over lanes


@dataclass
class Maker:
    draw: Draw
    count: int = 0
    outputs: list[DType] = field(default_factory=list)

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def one(self, items: Any) -> Any:
        return self.draw(st.sampled_from(list(items)))

    def chance(self, of: int) -> bool:
        return bool(self.draw(st.integers(1, of)) == 1)

    # -- expressions -----------------------------------------------------------------------------
    def constant(self, dtype: DType) -> Const:
        if dtype.kind == "b":
            return Const(self.draw(st.booleans()), dtype)
        if dtype.kind == "f":
            value = self.one([0.0, -0.0, 1.5, -2.0, 0.1, 1e4, float("inf"), 3.0e-5])
            return Const(float(np.asarray(value).astype(dtype.numpy)), dtype)
        low = 0 if dtype.kind == "u" else -(1 << (dtype.bits - 1))
        high = low + (1 << dtype.bits) - 1
        return Const(self.one([low, high, 0, 1, 2, 5, max(low, -3)]), dtype)

    def index(self, place: Place, depth: int) -> Expr:
        if depth and self.chance(4):
            inner = self.expr(int64, place, depth - 1)
            return Apply("mod", (inner, Const(SIZE, int64)), int64)
        terms: list[tuple[Any, Expr]] = []
        chosen = self.draw(st.lists(st.sampled_from(place.loops), max_size=3, unique=True))
        scales = [1, 2, 4, Dim("n"), Dim("n") * Dim("m") - 1]
        terms += [(self.one(scales), var) for var in chosen]
        const = self.one([0, 1, 7, Dim("m"), 2 * Dim("n") + 1])
        return Linear(const, tuple(sorted(terms, key=lambda term: term[1].name)))

    def leaf(self, dtype: DType, place: Place, depth: int) -> Expr:
        options: list[Expr] = [Param(f"p_{dtype.name}", dtype)]
        options += [Read(name, kind) for name, kind in place.variables if kind is dtype]
        if dtype is int64:
            options += place.loops
        if self.chance(3):
            return self.constant(dtype)
        if self.chance(2):
            buffers = [f"x_{dtype.name}", *[name for name, kind in place.scratch if kind is dtype]]
            buffer, index = self.one(buffers), self.index(place, depth)
            if buffer[0] != "x":
                return Load(buffer, Const(1, int64), dtype)
            mask = self.expr(bool_, place, 0) if self.chance(3) else None
            other = self.constant(dtype) if mask is not None and self.chance(2) else None
            return Load(buffer, index, dtype, mask, other)
        chosen: Expr = self.one(options)
        return chosen

    def expr(self, dtype: DType, place: Place, depth: int) -> Expr:
        if depth <= 0:
            return self.leaf(dtype, place, 0)
        kind = self.draw(st.integers(0, 7))
        if kind == 0:
            return self.leaf(dtype, place, depth)
        if kind == 1:
            return cast(self.expr(self.one(ALL), place, depth - 1), dtype)
        if kind == 2:
            arms = self.expr(dtype, place, depth - 1), self.expr(dtype, place, depth - 1)
            return Apply("select", (self.expr(bool_, place, depth - 1), *arms), dtype)
        if kind == 3:
            shared = self.expr(dtype, place, depth - 1)
            op = self.one([op for op in ("max", "xor", "add") if dtype.kind in apply_kinds(op)])
            return Apply(op, (shared, shared), dtype)
        if dtype.kind == "b" and self.chance(2):
            source = self.one(ALL)
            args = self.expr(source, place, depth - 1), self.expr(source, place, depth - 1)
            return Apply(self.one(["lt", "le", "eq", "ne"]), args, bool_)
        op = self.one([op for op in OPS if dtype.kind in apply_kinds(op)])
        return Apply(
            op, tuple([self.expr(dtype, place, depth - 1) for _ in range(APPLY_OPS[op][0])]), dtype
        )

    # -- statements ------------------------------------------------------------------------------
    def block(self, place: Place, depth: int) -> tuple[Stmt, ...]:
        found: list[Stmt] = []
        for _ in range(self.draw(st.integers(1, 3))):
            stmts, place = self.statement(place, depth)
            found += stmts
        return tuple(found)

    def statement(self, place: Place, depth: int) -> tuple[list[Stmt], Place]:
        kind = self.draw(st.integers(0, 6)) if depth else self.draw(st.integers(0, 2))
        dtype: DType = self.one(ALL)
        if kind == 0:
            name = self.name("v")
            init = self.expr(dtype, place, 2)
            names = (*place.variables, (name, dtype)), (*place.assignable, (name, dtype))
            return [Declare(name, dtype, init)], replace(
                place, variables=names[0], assignable=names[1]
            )
        if kind == 1 and place.assignable:
            name, dtype = self.one(place.assignable)
            return [Assign(name, self.expr(dtype, place, 3))], place
        if kind == 3 and not place.lanes:
            return self.fold(place, depth, dtype)
        if kind == 4:
            return [self.loop(place, depth)], place
        if kind == 5 and not place.lanes:
            condition = self.expr(bool_, place, 1)
            otherwise = self.block(place, depth - 1) if self.chance(2) else ()
            return [If(condition, self.block(place, depth - 1), otherwise)], place
        if kind == 6 and not place.lanes:
            name, value = self.name("s"), self.expr(dtype, place, 2)
            fill = Store(name, Const(1, int64), value)
            alloc = Alloc(name, dtype, 4, self.one(["local", "register", "shared"]))
            return [alloc, fill], replace(place, scratch=(*place.scratch, (name, dtype)))
        mask = self.expr(bool_, place, 1) if self.chance(3) else None
        return [
            Store(f"y_{dtype.name}", self.target(place), self.expr(dtype, place, 3), mask)
        ], place

    def target(self, place: Place) -> Expr:
        """The index of a store: among lanes mostly one that tells them apart."""
        if place.lane is None or self.chance(8):
            return self.index(place, 1)
        outer = self.one([(), ((Dim("n"), place.loops[0]),)])
        return Linear(self.draw(st.integers(0, 3)), ((4, place.lane), *outer))

    def loop(self, place: Place, depth: int) -> For:
        kind = self.one(["serial", "unroll"] if place.lanes else ["serial", "unroll", "lanes"])
        extent = (
            self.draw(st.integers(0, 3))
            if kind == "unroll"
            else self.one([2, 3, Dim("n"), Dim("m") + 1])
        )
        var = Var(self.name("j"), extent)
        inner = replace(place, loops=(*place.loops, var))
        if kind == "lanes":
            inner = replace(inner, lanes=True, lane=var, assignable=())
        made = For(var, kind, self.block(inner, depth - 1))
        return made if kind != "lanes" or meeting(made) is None else replace(made, kind="serial")

    def fold(self, place: Place, depth: int, dtype: DType) -> tuple[list[Stmt], Place]:
        ops = [
            op
            for op in ("add", "mul", "max", "min", "and", "or", "argmax", "argmin")
            if accumulates(op, dtype)
        ]
        op, name, position = self.one(ops), self.name("v"), self.name("v")
        start = identity(op, dtype)
        if start is None:
            raise ValueError(op)
        var = Var(self.name("j"), self.one([3, Dim("n")]))
        inner = replace(place, loops=(*place.loops, var), lanes=True)
        value = self.expr(dtype, inner, 2)
        found: list[Stmt] = [Declare(name, dtype, start)]
        made = ((name, dtype),)
        if op[:3] == "arg":
            found.append(Declare(position, int64, Const(2**63 - 1, int64)))
            made = (*made, (position, int64))
            fold = Accumulate((name, position), op, (value, var))
        else:
            fold = Accumulate((name,), op, (value,))
        found.append(For(var, self.one(["lanes", "serial"]), (fold,)))
        return found, replace(
            place, variables=place.variables + made, assignable=place.assignable + made
        )


@st.composite
def kernels(draw: Draw) -> Kernel:
    """A kernel over ``x_DTYPE`` inputs and ``y_DTYPE`` outputs of ``SIZE`` elements, for ``PARAMS``
    and ``SIZES``.
    """
    maker = Maker(draw)
    grid = Var("i", draw(st.sampled_from([1, 3, Dim("n"), Dim("n") + 1])))
    body = maker.block(Place(loops=(grid,)), 2)
    buffers = [BufferParam(f"x_{d.name}", d, "in") for d in ALL]
    buffers += [BufferParam(f"y_{d.name}", d, "out") for d in ALL]
    params = tuple([Param(f"p_{d.name}", d) for d in ALL])
    return Kernel(
        "k",
        tuple(buffers),
        params,
        ("n", "m"),
        For(grid, "grid", body),
        0,
        draw(st.just(3 * Dim("n"))),
    )


def arrays_for(kernel: Kernel, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Values for its buffers."""
    rng = np.random.default_rng(seed)
    found = {}
    for buffer in kernel.buffers:
        values = rng.uniform(-9, 9, SIZE)
        values = (
            values > 0
            if buffer.dtype.kind == "b"
            else np.abs(values)
            if buffer.dtype.kind == "u"
            else values
        )
        found[buffer.name] = values.astype(buffer.dtype.numpy)
    return found
