"""The bits of a result do not depend on which sizes came before: a program for exact sizes and one
with open sizes fold in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from lamella.config import config
from lamella.ir.decisions import Decision, at_least, counted, deciding, pinned
from lamella.ir.dim import Dim
from lamella.runtime.evaluate import compiled_count, forget_programs

F = nn.functional
Shape = tuple[int, ...]
Function = Callable[..., Any]

# shapes that come before, of few and of many elements; then those that are compared
SEEN: tuple[Shape, ...] = ((11,), (13,), (70_001,), (80_001,))
SIZES = (2, 12, 31, 100, 257, 1023, 65_535, 65_536, 65_537, 100_000, 262_144)
SEEN_ROWS: tuple[Shape, ...] = ((11, 13), (19, 21), (300, 500), (301, 501))
ROWS: tuple[Shape, ...] = (
    (2, 2), (3, 5), (2, 1000), (17, 10), (64, 5), (300, 100), (9, 7003), (70_000, 3), (3, 70_000),
    (900, 1000), (2048, 64),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    forget_programs()
    yield
    config.threads = 0


def draw(shape: Shape, dtype: str) -> np.ndarray[Any, Any]:
    """Numbers of both signs."""
    x = np.random.default_rng(sum(shape)).standard_normal(shape)
    return x.astype(np.float32) if dtype == "bfloat16" else x.astype(dtype)


def run(function: Function, shape: Shape, dtype: str) -> Any:
    """The function of an array of this shape."""
    return function(lm.asarray(draw(shape, dtype)).astype(dtype)).numpy()


def same(function: Function, seen: Sequence[Shape], shapes: Sequence[Shape], dtype: str) -> None:
    """Whether every result has the same bits alone and after other sizes."""
    alone = []
    for shape in shapes:
        forget_programs()
        alone.append(run(function, shape, dtype))
    forget_programs()
    for shape in seen:
        run(function, shape, dtype)
    before = compiled_count()
    again = [run(function, shape, dtype) for shape in shapes]
    pairs = zip(shapes, alone, again, strict=True)
    assert not [shape for shape, a, b in pairs if a.tobytes() != b.tobytes()]
    if config.optimize:
        assert compiled_count() - before <= 10


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("function", [lm.sum, lambda x: F.softmax(x, 0)], ids=["sum", "softmax"])
def test_other_types(function: Function, dtype: str) -> None:
    same(function, SEEN, [(n,) for n in SIZES], dtype)


@pytest.mark.parametrize(
    "function",
    [lm.sum, lm.var, lambda x: lm.prod(1 + x / 4096), lambda x: F.softmax(x, 0),
     lambda x: lm.sum(lm.exp(x) * x + 1), lm.max, lm.linalg.norm, lambda x: lm.logsumexp(x, 0),
     lambda x: lm.cumsum(x, 0), lambda x: lm.any(x > 4), lambda x: lm.dot(x, x)],
    ids=["sum", "var", "prod", "softmax", "fused", "max", "norm", "logsumexp", "cumsum", "any",
         "dot"],
)  # fmt: skip
def test_vectors(function: Function) -> None:
    same(function, SEEN, [(n,) for n in SIZES], "float32")


@pytest.mark.parametrize(
    "function",
    [lambda x: lm.sum(x, 1), lambda x: lm.sum(x, 0), lm.sum, lambda x: F.softmax(x, -1),
     lambda x: F.softmax(x, 0), lambda x: F.layer_norm(x, x.shape[1:]),
     lambda x: F.cross_entropy(x, lm.zeros((x.shape[0],), dtype="int32")),
     lambda x: lm.cumsum(x, 1)],
    ids=["rows", "columns", "all", "softmax", "softmax0", "layer_norm", "loss", "cumsum"],
)  # fmt: skip
def test_rows_and_columns(function: Function) -> None:
    same(function, SEEN_ROWS, ROWS, "float32")


@pytest.mark.parametrize(
    "function",
    [lambda x: x[:96].T @ x[:96], lambda x: x @ x[:64].T, lambda x: x @ x[0], lambda x: x[0] @ x.T,
     lambda x: x.T[:8] @ x],
    ids=["gram", "outer", "matrix_vector", "vector_matrix", "few_rows"],
)  # fmt: skip
def test_products(function: Function) -> None:
    rows = [shape for shape in ROWS if max(shape) < 20_000]
    same(function, SEEN_ROWS, rows, "float32")


@pytest.mark.parametrize("shape", [(300, 200, 400), (8, 700, 300), (16, 16, 9000)])
def test_products_on_any_number_of_threads(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(3)
    a, b = (lm.asarray(rng.normal(size=s).astype(np.float32)) for s in ((m, k), (k, n)))
    found = []
    for threads in (1, 2, 3):
        with config(threads=threads):
            found.append((a @ b).numpy().tobytes())
    assert len(set(found)) == 1


def test_the_sums_are_right() -> None:
    for shape in ((100_000,), (131_071,), (65_537,), (1_000_003,)):
        x = draw(shape, "float32")
        assert abs(lm.sum(lm.asarray(x)).item() - x.astype(np.float64).sum()) < 1e-2
        factors = 1 + x / np.float32(4096)
        wanted = np.prod(factors.astype(np.float64))
        np.testing.assert_allclose(lm.prod(lm.asarray(factors)).item(), wanted, rtol=2e-3)
        assert lm.max(lm.asarray(x)).item() == x.max()
        assert lm.any(lm.asarray(x) > x.max() - 1e-6).item()


def test_of_any_number_of_threads() -> None:
    found = set()
    for threads in (1, 2, 3):
        config.threads = threads
        forget_programs()
        for n in (11, 70_001, 80_001):
            run(lm.sum, (n,), "float32")
        found.add(run(lm.sum, (100_003,), "float32").tobytes())
    assert len(found) == 1


def test_a_program_on_disk_serves_the_sizes_that_it_was_decided_for() -> None:
    for sizes in ((8200, 8300), (9500, 10_000)):  # of as many bits; the latter are divided
        forget_programs()
        found = [run(lm.sum, (n, 7), "float32") for n in sizes]
    forget_programs()
    assert run(lm.sum, (10_000, 7), "float32").tobytes() == found[-1].tobytes()


def test_what_is_decided_by_an_open_size_is_noted() -> None:
    n = Dim("n")
    with deciding({"n": 70}) as made:
        assert at_least(n * 2, 128, False) and not at_least(n, 71, True)
        assert at_least(n + 1, n, False) and counted(n, 32, 8, 1) == 2
    assert made.all() == [
        Decision(n * 2, 128, True), Decision(n, 71, False),
        Decision(n, 64, True), Decision(n, 96, False),
    ]  # fmt: skip
    assert [all(d.suits({"n": size}) for d in made.all()) for size in (63, 64, 70, 71)] == [
        False, True, True, False,
    ]  # fmt: skip


def test_nothing_is_decided_where_no_size_is_known() -> None:
    n = Dim("n")
    assert at_least(n, 4, True) and not at_least(n, 4, False)
    assert counted(n, 4, 8, 3) == 3 and pinned(n) is n and pinned(5) == 5
    with deciding({"m": 7}) as made:
        assert not at_least(n, 4, False) and pinned(Dim("m") + 1) == 8
    assert [d.suits({"m": size}) for size in (6, 7, 8) for d in made.all()] == [
        False, True, True, True, True, False,
    ]  # fmt: skip
