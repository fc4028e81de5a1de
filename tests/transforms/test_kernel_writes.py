"""What kernels in Python write: every element, and no two iterations the same one. The reference
is the same function run as plain Python.
"""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella.errors import CompilerError, OptionError
from lamella.ir.lanes import meeting, shared
from lamella.ir.text import parse_kernel
from lamella.ir.verify_loops import verify_kernel

rng = np.random.default_rng(0)


def draw(*shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


@lm.kernel(out=lambda x: x)
def whole_rows(x, y):
    for i in lm.kernel.grid(x.shape[0]):
        for j in lm.kernel.lanes(x.shape[1]):
            y[i, j] = x[i, j] * 2


@lm.kernel(out=lambda x: ((x.shape[1], x.shape[0]), x.dtype))
def transposed(x, y):
    for i, j in lm.kernel.grid(*x.shape):
        y[j, i] = x[i, j]


@lm.kernel(out=lambda x: ((2 * x.shape[0],), x.dtype))
def pairs(x, y):
    for i in lm.kernel.grid(x.shape[0]):
        y[2 * i] = x[i, 0]
        y[2 * i + 1] = x[i, 1]


@lm.kernel(out=lambda x: ((x.shape[0],), x.dtype))
def either(x, y):
    for i in lm.kernel.grid(x.shape[0]):
        y[i] = 0.0
        for j in range(x.shape[1]):
            y[i] += x[i, j]
        if x[i, 0] > 0:
            y[i] = 1.0


@lm.kernel(out=lambda x: x)
def some_rows(x, y):
    for i in lm.kernel.grid(x.shape[0]):
        if x[i, 0] > 0:
            for j in range(x.shape[1]):
                y[i, j] = x[i, j]


@lm.kernel(out=lambda x: ((2 * x.shape[0],), x.dtype))
def first_half(x, y):
    for i in lm.kernel.grid(x.shape[0]):
        y[i] = x[i, 0]


@lm.kernel(out=lambda x: ((x.shape[0],), x.dtype))
def sums_from_nothing(x, y):
    for i in lm.kernel.grid(x.shape[0]):
        for j in range(x.shape[1]):
            y[i] += x[i, j]


@lm.kernel(out=lambda x: [x, ((x.shape[0],), x.dtype)])
def second_alone(x, y, z):
    for i in lm.kernel.grid(x.shape[0]):
        z[i] = x[i, 0]


@lm.kernel(out=lambda x: x)
def nothing(x, y):
    for _ in lm.kernel.grid(x.shape[0]):
        pass


@lm.kernel(out=lambda x: ((3,), x.dtype))
def few_steps(x, y):
    for i in lm.kernel.grid(3):
        for _ in range(x.shape[0]):
            y[i] = 1.0


@lm.kernel(out=lambda x, n: ((6,), x.dtype))
def scattered(x, n, y):
    for i in lm.kernel.grid(n.shape[0]):
        y[n[i]] = x[i, 0]


WHOLE = [whole_rows, transposed, pairs, either]
HOLES = [some_rows, first_half, sums_from_nothing, second_alone, nothing, few_steps]


def _several(value: object) -> tuple:
    return value if isinstance(value, tuple) else (value,)


def _zeroed(f, *given: lm.Tensor) -> int:
    """How many of the kernels of a program fill results with zeros."""
    return len(lm.jit(f).lower(*given).kernels) - 1


@pytest.mark.parametrize("f", WHOLE + HOLES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(3, 4), (5, 2), (0, 4), (3, 1)])
def test_what_is_not_written_is_zero(f, shape: tuple[int, int]) -> None:
    if f is pairs and shape[1] < 2:
        return
    x = draw(*shape)
    for _ in range(3):  # memory that held something else
        lm.full((64,), 7.0).numpy()
        found = f(lm.asarray(x))
        wanted = f.reference(x)
        for a, b in zip(*map(_several, (found, wanted)), strict=True):
            np.testing.assert_array_equal(a.numpy(), b)
    many = lm.vmap(f)(lm.stack([lm.asarray(x), lm.asarray(-x)]))
    alone = [f.reference(v) for v in (x, -x)]
    for i in range(2):
        for a, b in zip(*map(_several, (many, alone[i])), strict=True):
            np.testing.assert_array_equal(a[i].numpy(), b)


def test_zeros_are_stored_only_where_they_may_be_left() -> None:
    x = lm.asarray(draw(3, 4))
    for f in WHOLE:
        assert _zeroed(f, x) == 0, f.__name__
        assert _zeroed(lm.vmap(f), lm.stack([x, x])) == 0, f.__name__
    assert [_zeroed(f, x) for f in (some_rows, first_half, sums_from_nothing)] == [1, 1, 1]
    places = lm.asarray([4, 0, 2])
    assert _zeroed(scattered, x, places) == 1
    assert scattered(x, places).tolist() == scattered.reference(x.numpy(), places.numpy()).tolist()


def test_sizes_that_are_open() -> None:
    for f in (whole_rows, transposed, some_rows):
        compiled = lm.jit(lambda x, f=f: f(x), dynamic={"x": {0: "n"}})
        for n in (1, 3, 8):
            x = draw(n, 4)
            np.testing.assert_array_equal(compiled(lm.asarray(x)).numpy(), f.reference(x))


def test_an_operand_stays_where_a_result_has_holes() -> None:
    """The result takes no memory over that was an operand's: zeros would go over it."""
    x = draw(64, 64)
    for f in (some_rows, whole_rows):
        step = lm.jit(lambda a, f=f: f(a + 1.0) + 1.0)
        np.testing.assert_allclose(
            step(lm.asarray(x)).numpy(), f.reference(x + np.float32(1)) + 1, rtol=1e-6
        )


@lm.kernel(out=lambda x: ((x.shape[0],), x.dtype))
def last_column(x, y):
    for i, j in lm.kernel.grid(*x.shape):
        y[i] = x[i, j]


@lm.kernel(out=lambda x: ((x.shape[0],), x.dtype))
def column_one(x, y):
    for i, j in lm.kernel.grid(*x.shape):
        if j == 1:
            y[i] = x[i, j]


@lm.kernel(out=lambda x: x)
def lanes_meet(x, y):
    for i in lm.kernel.grid(x.shape[0]):
        for j in lm.kernel.lanes(x.shape[1]):
            for k in range(2):
                y[i, k] = x[i, j]


@lm.kernel(out=lambda x: x)
def lanes_read(x, y):
    for i in lm.kernel.grid(x.shape[0]):
        y[i, 0] = x[i, 0]
        for j in lm.kernel.lanes(x.shape[1] - 1):
            y[i, j + 1] = y[i, j] + x[i, j]


@lm.kernel(out=lambda x: ((x.shape[0], 8), x.dtype))
def lanes_apart(x, y):
    for i in lm.kernel.grid(x.shape[0]):
        for j in lm.kernel.lanes(4):
            for k in range(2):
                y[i, 2 * j + k] = x[i, j] + k
        for j in lm.kernel.lanes(4):
            for k in range(2):
                y[i, 4 * k + j] = y[i, 4 * k + j] * 2 + x[i, j]


def test_iterations_write_no_element_together() -> None:
    x = lm.asarray(draw(3, 4))
    refused = {last_column: "axis 1 of the grid", lanes_meet: "lanes", lanes_read: "lanes"}
    for f, why in refused.items():
        with pytest.raises(OptionError, match=why):
            f(x).numpy()
    for f in (column_one, lanes_apart):
        np.testing.assert_array_equal(f(x).numpy(), f.reference(x.numpy()))
    assert last_column(x[:, :1]).tolist() == x[:, 0].tolist()  # there is one iteration


MEETING = """kernel k
  in x: int64
  out y: int64
  sizes n, m
grid i < {m}
  lanes j < 4
    BODY
"""


@pytest.mark.parametrize(
    ("body", "apart"),
    [
        ("y[{n}*i + 1*j] = x[0]", True),
        ("y[i] = x[0]", False),
        ("y[floordiv(j, 2)] = x[0]", False),
        ("y[x[j]] = 1", False),
        ("y[{n}*i + 1*j] = y[{n}*i + 1*j + 1]", False),
        ("y[{n}*i + 1*j] = add(y[{n}*i + 1*j], y[{n}*i + 1*j])", True),
        ("serial k < 3\n      y[4*k + 1*j] = k", True),
        ("serial k < 3\n      y[3*k + 1*j] = k", False),
        ("serial k < 3\n      y[3*j + 1*k] = k", True),
        ("serial k < {n}\n      y[{n}*j + 1*k] = k", True),
        ("serial k < {n}\n      y[2*j + 1*k] = k", False),
        ("y[2*j + 1] = 1\n    y[2*j] = 2", True),
        ("y[2*j + 2] = 1\n    y[2*j] = 2", False),
        ("var v: int64 = j\n    y[1*j + 4*v] = 1", True),
        ("var v: int64 = j\n    y[1*j + 3*v] = 1", False),
    ],
)
def test_which_lanes_keep_apart(body: str, apart: bool) -> None:
    kernel = parse_kernel(MEETING.replace("BODY", body))
    (loop,) = kernel.body.body
    assert (meeting(loop) is None) == apart
    assert shared(loop) is None or not apart


@pytest.mark.parametrize(
    ("body", "fine"),
    [
        ("y[i] = j", False),
        ("y[i if eq(j, 0)] = j", True),
        ("y[i if lt(i, 2)] = j", False),
        ("serial k < 3\n      y[k] = j", False),
        ("var v: int64 = j\n    y[v] = 1", True),
        ("var v: int64 = i\n    y[x[v]] = 1", True),
        ("y[x[i]] = 1", False),
        ("y[floordiv(j, 2)] = 1", True),
    ],
)
def test_lanes_that_store_one_element_are_refused(body: str, fine: bool) -> None:
    kernel = parse_kernel(MEETING.replace("BODY", body))
    if fine:
        verify_kernel(kernel)
        return
    with pytest.raises(CompilerError, match="store one element"):
        verify_kernel(kernel)
