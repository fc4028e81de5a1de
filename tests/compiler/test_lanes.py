"""How lanes loops become vectors: how many registers of each value lie side by side."""

from __future__ import annotations

import pytest

from lamella.compiler.emit.llvm_lanes import Piece, plan, survey
from lamella.compiler.emit.target import named
from lamella.dtypes import float32
from lamella.ir.loops import Assign, Const, Declare, For, Load, Read, Stmt, Store, Var, apply


def sums(lanes: int, count: int) -> For:
    """``y[j] = x[j] + 0`` in a variable, ``count`` times."""
    j = Var("j", lanes)
    body: list[Stmt] = []
    for n in range(count):
        total = apply("add", Read(f"s{n}", float32), Load("x", j, float32))
        body += [Declare(f"s{n}", float32, Const(0.0, float32)), Assign(f"s{n}", total)]
        body.append(Store(f"y{n}", j, Read(f"s{n}", float32)))
    return For(j, "lanes", tuple(body))


@pytest.mark.parametrize(
    ("lanes", "count", "pieces"),
    [
        (64, 2, [Piece("once", 64, 0, 64)]),
        (64, 5, [Piece("once", 64, 0, 64)]),
        (64, 8, [Piece("loop", 32)]),
        (64, 9, [Piece("loop", 16)]),
        (32, 8, [Piece("once", 32, 0, 32)]),
        (16, 20, [Piece("once", 16, 0, 16)]),
    ],
)
def test_variables_of_short_loops_fit_registers(
    lanes: int, count: int, pieces: list[Piece]
) -> None:
    """A loop of 64 lanes is written out as four registers of each variable only where they are few:
    of eight, they would be all that AVX-512 has.
    """
    loop = sums(lanes, count)
    assert plan(loop, named("avx512"), survey(loop)) == pieces
