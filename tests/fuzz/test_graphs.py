"""Random graphs compiled and run agree with the interpreter, whatever passes are left out."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pytest

from lamella import ops
from lamella.compiler.pipeline import PASSES
from lamella.config import config
from lamella.dtypes import float64
from lamella.graph.reverse import vjp
from lamella.ir.node import Node
from lamella.runtime.evaluate import evaluate, forget_programs
from tests.support.graphs import Graph, copied, values, wrong

COUNT = int(os.environ.get("FUZZ_GRAPHS", "12"))
FIRST = int(os.environ.get("FUZZ_FIRST", "0"))
SEEDS = range(FIRST, FIRST + COUNT)
SMALL = ((0, 1, 2, 3, 5), (1, 2, 3, 7, 8, 16), (3, 4, 5, 17, 64), (2, 31, 33))
LONG = ((1, 2, 3, 1000), (2, 70001), (3, 4099, 16), (1, 5, 65536), (64, 10, 1030))
SKIPS = tuple(name for name, _ in PASSES)


def check(outputs: Sequence[Node], **settings: str | int) -> None:
    """Compare a fresh copy of the graph, compiled under ``settings``, with the interpreter."""
    expected = values(outputs)
    moved = [values(outputs, seed) for seed in range(1, 7)]
    nodes = copied(outputs)
    with config(verify=1, **settings):
        evaluate(nodes)
    for i, node in enumerate(nodes):
        found = node.value.numpy(node.shape, node.dtype)  # type: ignore[union-attr]
        bad = wrong(outputs[i], found, expected[i], [m[i] for m in moved])
        if bad.any():
            at = tuple(int(a[0]) for a in np.nonzero(bad))
            raise AssertionError(
                f"output {i} ({outputs[i]}): {int(bad.sum())} of {bad.size} differ, first at {at}: "
                f"{found[at]} for {expected[i][at]}"
            )


def small(seed: int) -> list[Node]:
    graph = Graph(seed, SMALL[seed % len(SMALL)], 3000)
    return graph.grow(3 + seed % 22)


def long(seed: int) -> list[Node]:
    graph = Graph(seed, LONG[seed % len(LONG)], 150_000)
    return graph.grow(3 + seed % 12)


@pytest.mark.parametrize("seed", SEEDS)
def test_small_graphs(seed: int) -> None:
    check(small(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_long_axes(seed: int) -> None:
    check(long(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_without_optional_passes(seed: int) -> None:
    check(small(seed + 1000), optimize=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_one_pass(seed: int) -> None:
    make = small if seed % 2 else long
    check(make(seed + 2000), skip_passes=SKIPS[seed % len(SKIPS)])


@pytest.mark.parametrize("seed", SEEDS)
def test_open_sizes(seed: int) -> None:
    with config(verify=1):  # a change of settings forgets programs
        forget_programs()
        for sizes in ((7, 5, 12, 1), (11, 6, 20, 1), (30, 13, 70, 1), (2, 9, 4, 1)):
            graph = Graph(seed + 3000, sizes, 20_000)
            check(graph.grow(3 + seed % 12))


@pytest.mark.parametrize("seed", SEEDS)
def test_gradients(seed: int) -> None:
    graph = Graph(seed + 4000, SMALL[1 + seed % 3], 2000, smooth=True)
    outputs = [n for n in graph.grow(3 + seed % 10) if n.dtype.kind == "f"]
    total = [ops.reduce_sum(ops.cast(n, float64)) for n in outputs]
    wrt = [n for n in graph.leaves if n.dtype.kind == "f" and n.tracked]
    found = vjp(total, [ops.constant(1.0, float64) for _ in total], wrt)
    check([*outputs, *(g for g in found if g is not None)])
