"""Sizes known only at run time: bounds that hold for all, programs that stay in their buffers."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella.ir import index as ix
from lamella.ir.dim import Dim
from lamella.ir.loops import Var
from lamella.ops.movement import reshape_index

N = Dim("n")


@pytest.mark.parametrize("blocks", [-((-N) // 4096), (N + 4095) // 4096])
def test_a_short_last_block_is_not_taken_for_a_whole_one(blocks: Dim) -> None:
    left = ix.add(N, ix.mul(Var("g", blocks), -4096))
    assert ix.minimum(4096, left) != ix.constant(4096)


@pytest.mark.parametrize(
    ("result", "source"),
    [
        ((Dim("m"),), (N, 2)),
        ((N, 2), (Dim("m"),)),
        ((Dim("m"), 3), (N, 2)),
        ((4, Dim("m")), (4, N)),
    ],
)
def test_reshape_has_an_index_per_axis_where_sizes_are_unrelated(result, source) -> None:
    index = tuple(Var(f"i{axis}", size) for axis, size in enumerate(result))
    assert len(reshape_index(index, result, source)) == len(source)


def test_lengths_that_change_share_a_program_and_stay_in_bounds() -> None:
    table = lm.arange(10)
    table.tolist()
    for length in (4, 2, 1, 0, 7, 5000):
        chosen = np.arange(length) % 10
        assert table[lm.asarray(chosen)].tolist() == chosen.tolist()


def test_repeats_of_changing_lengths() -> None:
    for length in (2, 3, 5, 1, 0):
        for count in (2, 3, 1):
            values = np.arange(length)
            found = lm.repeat_interleave(lm.asarray(values), count)
            assert found.tolist() == np.repeat(values, count).tolist()
