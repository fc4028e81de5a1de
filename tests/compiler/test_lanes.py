"""How lanes loops become vectors: how many registers of each value lie side by side."""

from __future__ import annotations

import pytest

from lamella.compiler.emit.llvm_lanes import Piece, plan, survey
from lamella.compiler.emit.target import named
from lamella.dtypes import float32
from lamella.ir.index import add, divisor, minimum, mul
from lamella.ir.loops import (
    Assign,
    Const,
    Declare,
    Expr,
    For,
    Load,
    Read,
    Stmt,
    Store,
    Var,
    apply,
)  # fmt: skip

pytestmark = pytest.mark.makes_no_program


def sums(lanes: int | Expr, count: int) -> For:
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


def strip(extent: int, block: int) -> Expr:
    """The iterations of a loop's strip of ``block`` or less."""
    return minimum(block, add(extent, mul(Var("g", -(-extent // block)), -block)))


@pytest.mark.parametrize(
    ("extent", "target", "pieces"),
    [
        (6400, "avx2", [Piece("loop", 16)]),
        (6400, "avx512", [Piece("loop", 32)]),
        (6408, "avx2", [Piece("loop", 16), Piece("loop", 8)]),
        (6401, "avx2", [Piece("loop", 16), Piece("serial", 0)]),
        (6408, "avx512", [Piece("loop", 32), Piece("masked", 16)]),
    ],
)
def test_strips_of_whole_vectors_leave_nothing(
    extent: int, target: str, pieces: list[Piece]
) -> None:
    """The last of several strips is shorter; where all are whole vectors, the body stands once."""
    loop = sums(strip(extent, 4096), 1)
    assert plan(loop, named(target), survey(loop)) == pieces


@pytest.mark.parametrize(("extent", "block"), [(6400, 4096), (100, 24), (7, 4), (96, 36), (5, 5)])
def test_divisors_divide(extent: int, block: int) -> None:
    lengths = [min(block, extent - at) for at in range(0, extent, block)]
    assert not any(length % divisor(strip(extent, block)) for length in lengths)
