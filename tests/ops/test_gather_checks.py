"""An index outside its axis is an error, also where every element is the same."""

import numpy as np
import pytest

import lamella as lm
from lamella.errors import LamellaIndexError

STORED = lm.tensor(3.0)
ROW = lm.tensor(np.arange(5.0))
BAD, GOOD = lm.asarray([0, 9]), lm.asarray([0, -1])

SOURCES = {
    "broadcast_to": lambda i: lm.broadcast_to(STORED, (5,))[i],
    "full": lambda i: lm.full((5,), 3.0)[i],
    "full of a tensor": lambda i: lm.full((5,), STORED)[i],
    "rows": lambda i: lm.broadcast_to(ROW, (5, 5))[i],
    "arithmetic": lambda i: (lm.broadcast_to(STORED, (5,)) * 2 + 1)[i],
    "grid": lambda i: lm.broadcast_to(STORED, (4, 5))[i, 0],
    "grid, other axis": lambda i: lm.broadcast_to(ROW, (5, 5))[i, i * 0],
    "tile": lambda i: lm.tile(lm.tensor([3.0]), 5)[i],
    "repeat": lambda i: lm.repeat(lm.tensor([3.0]), 5)[i],
    "take": lambda i: lm.take(lm.broadcast_to(STORED, (5,)), i),
    "take_along_axis": lambda i: lm.take_along_axis(lm.broadcast_to(STORED, (5,)), i, 0),
    "summed": lambda i: lm.broadcast_to(STORED, (5,))[i].sum(),
    "size 1": lambda i: lm.tensor([[1.0, 2.0]])[i],
    "one at a time": lambda i: lm.broadcast_to(STORED, (5,))[i[1]],
}


@pytest.mark.parametrize("f", SOURCES.values(), ids=SOURCES)
def test_the_index_of_a_repeated_element_is_checked(f):
    for call in (f, lm.jit(f)):
        with pytest.raises(LamellaIndexError):
            call(BAD).numpy()
        assert np.isfinite(call(GOOD).numpy()).all()


def test_the_derivative_is_checked_too():
    def f(s, i):
        return lm.broadcast_to(s, (5,))[i].sum()

    assert lm.grad(f)(STORED, GOOD).item() == 2.0
    with pytest.raises(LamellaIndexError):
        lm.grad(f)(STORED, BAD).numpy()
