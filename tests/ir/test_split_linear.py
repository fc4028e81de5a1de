"""Multi-indices of row-major offsets: right everywhere inside, and no dearer than need be."""

from __future__ import annotations

import numpy as np
import pytest

from lamella.ir.index import Substitution, add, constant, mul, parts, split_linear
from lamella.ir.loops import Var

pytestmark = pytest.mark.makes_no_program


@pytest.mark.parametrize("shape", [(1, 7, 5), (3, 1, 4), (1, 1, 6), (2, 3, 1), (1,), (4, 1, 1)])
def test_every_offset_inside(shape: tuple[int, ...]) -> None:
    offset = Var("o", int(np.prod(shape)))
    index = split_linear(offset, shape)
    for at in range(int(np.prod(shape))):
        found = tuple(parts(Substitution({offset: constant(at)})(e))[0] for e in index)
        assert found == tuple(np.unravel_index(at, shape))


def test_axes_of_one_need_no_remainder() -> None:
    q, a = Var("q", 313), Var("a", 32)  # the last panel goes beyond the end
    offset = add(mul(q, 32), a)
    first, y, x = split_linear(offset, (1, 100, 100))
    assert add(mul(first, 10_000), mul(y, 100), x) == offset
