"""Products with concatenations: the pass that makes them products with the pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import lamella as lm
from lamella import ops
from lamella.compiler.contraction_pieces import PIECES, ROWS, split_concatenations
from lamella.config import config
from lamella.dtypes import DType, bfloat16, float32
from lamella.ir.node import Node, topological
from lamella.ops.joining import Concatenate

pytestmark = pytest.mark.usefixtures("optimized")


def products(outputs: Sequence[Node]) -> int:
    """How many products there are, none of which reads a concatenation."""
    found = [node for node in topological(outputs) if node.op.name == "contract"]
    assert not any(isinstance(source.op, Concatenate) for x in found for source in x.inputs)
    return len(found)


def graph(
    rows: int, sizes: Sequence[int], label: int, dtype: DType = float32
) -> tuple[Node, list[Node]]:
    """A batch of products of rows with pieces side by side along batch, k or columns."""
    shapes = [[4, 96, 64] for _ in sizes]
    for shape, size in zip(shapes, sizes, strict=True):
        shape[label] = size
    pieces = [ops.placeholder(tuple(shape), dtype) for shape in shapes]
    joined = ops.concatenate(pieces, label)
    a = ops.placeholder((joined.shape[0], rows, joined.shape[1]), dtype)
    return ops.contract(a, joined, (0, 1, 2), (0, 2, 3), (0, 1, 3)), [a, *pieces]


@pytest.mark.parametrize("label", [0, 1, 2])
@pytest.mark.parametrize("rows", [1, ROWS])
def test_a_few_rows_meet_each_piece(label: int, rows: int) -> None:
    out, _ = graph(rows, (96, 1, 30), label)
    assert products(split_concatenations([out])) == 3


def test_what_stays_whole() -> None:
    many, _ = graph(ROWS + 1, (96, 1), 1)
    small, _ = graph(1, (3, 1), 1)
    split, _ = graph(1, (30,) * (PIECES + 1), 1)
    for out in (many, small, split):
        assert split_concatenations([out]) == [out]
    stored, _ = graph(1, (96, 1), 1)
    assert split_concatenations([stored, stored.inputs[1]])[0] is stored


@pytest.mark.parametrize("dtype", [float32, bfloat16])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_values(dtype: DType, axis: int, turned: bool, threads: int) -> None:
    """Against float64 within the rounding bound, with one rounding to a half precision."""
    draw = np.random.default_rng(axis)
    shapes = [(150, 120), (150, 120)]
    shapes[1] = (7, 120) if axis == 0 else (150, 7)
    pieces = [lm.asarray(draw.normal(size=shape), dtype=dtype) for shape in shapes]
    whole = np.concatenate([p.astype(lm.float32).numpy() for p in pieces], axis).astype(np.float64)
    whole = whole.T if turned else whole
    x = lm.asarray(draw.normal(size=(3, whole.shape[0])), dtype=dtype)

    def product(x: lm.Tensor, *pieces: lm.Tensor) -> lm.Tensor:
        joined = lm.concat(pieces, axis)
        return x @ (joined.T if turned else joined)

    with config(threads=threads):
        found = lm.jit(product)(x, *pieces).astype(lm.float32).numpy()
    rows = x.astype(lm.float32).numpy().astype(np.float64)
    wanted, size = rows @ whole, np.abs(rows) @ np.abs(whole)
    rounding = 2.0**-8 if dtype is bfloat16 else 0.0
    bound = (whole.shape[0] + 3) * 2.0**-24 * size + rounding * np.abs(wanted) * 1.01
    assert np.all(np.abs(found - wanted) <= bound)


def test_the_bits_of_a_cache_whose_length_changes() -> None:
    """The program with an open size adds in the order of one made for the size alone."""
    draw = np.random.default_rng(5)

    def step(weights: lm.Tensor, cache: lm.Tensor, new: lm.Tensor) -> lm.Tensor:
        return weights @ lm.concat([cache, new], 1)

    open_, new = lm.jit(step), lm.asarray(draw.normal(size=(4, 1, 64)), dtype=lm.float32)
    for length in (80, 90, 100):
        cache = lm.asarray(draw.normal(size=(4, length, 64)), dtype=lm.float32)
        weights = lm.asarray(draw.normal(size=(4, 1, length + 1)), dtype=lm.float32)
        found = open_(weights, cache, new).numpy()
        assert found.tobytes() == lm.jit(step)(weights, cache, new).numpy().tobytes()
