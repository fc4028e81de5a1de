"""Lane loops are cut where a condition on their index changes; every element stays the same."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import lamella as lm
from lamella.compiler.split_loops import split_loops
from lamella.ir.loop_interp import run_kernel
from lamella.ir.loops import If
from lamella.ir.text import kernel_text, parse_kernel
from lamella.ir.verify_loops import verify_kernel
from lamella.ir.walk import statements

AROUND = [100, 4095, 4160, 10_007]  # lengths around blocks and groups

PIECES = """kernel pieces
  in x: float32
  in y: float32
  out z: float32{streamed}
grid g < {grid}
  lanes l < min(128, -128*g + {size})
    %0 = 128*g + 1*l
    %1 = lt(%0, {a})
    %2 = and(lt({b}, %0), lt(%0, {c}))
    z[%0] = select(%1, x[%0 if %1], select(%2, y[128*g + 1*l + -{b} if %2], -1.0:float32))
"""


@pytest.mark.parametrize(
    ("a", "b", "c"), list(product([1, 64, 299], [3, 127, 192], [193, 256, 300]))
)
def test_pieces_give_what_the_whole_gives(a: int, b: int, c: int):
    size = 300
    text = PIECES.format(grid=3, size=size, a=a, b=b, c=c, streamed="")
    whole = parse_kernel(text)
    pieces = split_loops(whole)
    verify_kernel(pieces)
    assert parse_kernel(kernel_text(pieces)) == pieces
    found = []
    for kernel in (whole, pieces):
        x, y = (np.arange(size, dtype=np.float32) + start for start in (0, 1000))
        arrays = {"x": x, "y": y, "z": np.zeros(size, np.float32)}
        run_kernel(kernel, arrays, {}, {})
        found.append(arrays["z"])
    np.testing.assert_array_equal(*found)


def test_a_piece_has_no_mask():
    text = kernel_text(split_loops(parse_kernel("""kernel join
  in x: float32
  in y: float32
  out z: float32
grid g < 9
  lanes l < 100
    %0 = lt(l, 40)
    z[100*g + 1*l] = select(%0, x[40*g + 1*l if %0], y[60*g + 1*l + -40 if lt(39, l)])""")))
    assert "if" not in text and "select" not in text


def test_what_the_index_takes_no_part_in_becomes_a_branch():
    kernel = split_loops(parse_kernel("""kernel rows
  in x: float32
  in y: float32
  out z: float32
grid g < 9
  lanes l < 100
    %0 = lt(g, 4)
    z[100*g + 1*l] = select(%0, x[100*g + 1*l if %0], y[100*g + 1*l + -400 if lt(3, g)])"""))
    verify_kernel(kernel)
    assert sum(isinstance(s, If) for s in statements((kernel.body,))) == 1
    assert "select" not in kernel_text(kernel)


@pytest.mark.parametrize(
    "body",
    [
        "    f add= x[1*l if lt(l, 50)]\n  z[g] = f",  # a sum would add in another order
        "    z[100*g + 1*l] = x[checked_index(cast<int64>(x[1*l if lt(l, 50)]), 100)]\n  z[g] = f",
    ],
)
def test_others_stay_whole(body: str):
    kernel = parse_kernel(f"""kernel whole
  in x: float32
  out z: float32
  inout fault: int64
  faults 1
grid g < 9
  var f: float32 = 0.0:float32
  lanes l < 100
{body}""")
    assert split_loops(kernel) == kernel


@pytest.mark.parametrize("n", AROUND)
def test_joined_padded_and_rolled_vectors(n: int):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=n).astype(np.float32), rng.integers(0, 99, n)
    for array in (x, y, x > 0):
        a = lm.asarray(array)
        for found, wanted in (
            (lm.concat([a, a[:7], a]), np.concatenate([array, array[:7], array])),
            (lm.pad(a, (5, 70)), np.pad(array, (5, 70))),
            (lm.roll(a, 9), np.roll(array, 9)),
            (lm.tile(a, 3), np.tile(array, 3)),
            (a.at[3 : n // 2].set(a[: n // 2 - 3]),
             np.concatenate([array[:3], array[: n // 2 - 3], array[n // 2 :]])),
        ):  # fmt: skip
            np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize("shape", [(3, 40), (40, 3), (7, 130), (130, 64)])
def test_joined_and_padded_rows(shape: tuple[int, int]):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    a = lm.asarray(x)
    for axis in (0, 1):
        joined = lm.concat([a, a * 2, a], axis)
        np.testing.assert_array_equal(np.asarray(joined), np.concatenate([x, x * 2, x], axis))
        stacked = lm.stack([a, a + 1, a, a, a], axis)
        np.testing.assert_array_equal(np.asarray(stacked), np.stack([x, x + 1, x, x, x], axis))
        np.testing.assert_array_equal(np.asarray(lm.roll(a, 2, axis=axis)), np.roll(x, 2, axis))
    padded = lm.pad(a, ((1, 2), (3, 0)), constant_values=7.0)
    wanted = np.pad(x, ((1, 2), (3, 0)), constant_values=7.0)
    np.testing.assert_array_equal(np.asarray(padded), wanted)


def test_lengths_that_are_known_late():
    joined = lm.jit(lambda a, b: lm.concat([a, b, a * 2]), dynamic={"a": {0: "n"}, "b": {0: "m"}})
    for n, m in ((5, 9), (4000, 100), (100, 9000), (5000, 5000)):
        x, y = np.arange(n, dtype=np.float32), np.arange(m, dtype=np.float32)
        found = joined(lm.asarray(x), lm.asarray(y))
        np.testing.assert_array_equal(np.asarray(found), np.concatenate([x, y, x * 2]))


def test_large_results_bypass_the_caches():
    x = np.random.default_rng(0).normal(size=3_000_001).astype(np.float32)
    found = lm.concat([lm.asarray(x), lm.asarray(x[:7]), lm.asarray(x)])
    np.testing.assert_array_equal(np.asarray(found), np.concatenate([x, x[:7], x]))


@pytest.mark.usefixtures("optimized")
def test_results_are_stored_in_the_shape_they_are_computed_in():
    text = lm.jit(lambda x: lm.tile(x, 2)).lower(lm.zeros(1000)).text(2)
    assert "mod" not in text
    text = lm.jit(lambda x: lm.repeat(lm.matrix_transpose(x), 2)).lower(lm.zeros((80, 60))).text(2)
    assert "mod(l" not in text


def test_a_value_and_itself_in_another_shape_are_one():
    @lm.jit
    def both(x):
        y = x * 2
        return y, y.reshape(-1), y.reshape(4, 3), x.reshape(-1)

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y, flat, other, copy = both(lm.asarray(x))
    np.testing.assert_array_equal(np.asarray(y), x * 2)
    np.testing.assert_array_equal(np.asarray(flat), (x * 2).reshape(-1))
    np.testing.assert_array_equal(np.asarray(other), (x * 2).reshape(4, 3))
    np.testing.assert_array_equal(np.asarray(copy), x.reshape(-1))
    y[0] = 5.0  # the others keep their values
    np.testing.assert_array_equal(np.asarray(flat), (x * 2).reshape(-1))
