"""What varies from step to step compiles once; memory stays flat; bits do not depend on threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn, optim
from lamella.compiler.blueprint import STREAM
from lamella.config import config
from lamella.errors import LamellaIndexError
from lamella.runtime import evaluate
from lamella.runtime.buffer import memory_in_use
from lamella.runtime.evaluate import compiled_count, forget_programs
from lamella.runtime.launch import SlotValue

F = nn.functional


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    forget_programs()
    yield
    config.threads = 0


def test_an_integer_index_is_an_argument() -> None:
    x = np.random.default_rng(0).standard_normal((1000, 8)).astype(np.float32)
    t, before = lm.asarray(x), compiled_count()
    found = [t[i].sum().item() for i in range(1000)]
    assert compiled_count() - before <= 5
    np.testing.assert_allclose(found, x.astype(np.float64).sum(1), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("optimized")
def test_a_growing_list_compiles_a_handful() -> None:
    x = np.random.default_rng(1).standard_normal((200, 8)).astype(np.float32)
    before, rows = compiled_count(), lm.zeros((0, 8))
    for i in range(200):
        rows = lm.concat([rows, lm.asarray(x[i])[None]])
        total = rows.sum().item()
        np.testing.assert_allclose(total, x[: i + 1].astype(np.float64).sum(), rtol=1e-4, atol=1e-4)
    assert compiled_count() - before <= 5
    np.testing.assert_array_equal(rows.numpy(), x)


@pytest.mark.usefixtures("optimized")
def test_slices_of_every_length_compile_a_handful() -> None:
    x = np.random.default_rng(2).standard_normal((300, 3)).astype(np.float32)
    t, before = lm.asarray(x), compiled_count()
    for i in range(1, 300):
        np.testing.assert_allclose(t[:i].max().item(), x[:i].max())
    assert compiled_count() - before <= 5


@pytest.mark.parametrize("last", [0, 8])
def test_results_may_have_a_size_that_no_kernel_names(last: int) -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((3, 17, 64))
    a = lm.asarray(rows, dtype="float32")
    for first in (3, 8, 21):
        pieces = [rng.standard_normal((3, 64, n)) for n in (first, 100, last)]
        b = lm.concat([lm.asarray(piece, dtype="float32") for piece in pieces], axis=-1)
        wanted = rows @ np.concatenate(pieces, -1)
        np.testing.assert_allclose((a @ b).numpy(), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("optimized")
def test_large_results_of_several_sizes_pass_the_caches() -> None:
    small = [lm.asarray(np.arange(size, dtype=np.int8)) for size in (99, 100, 101)]
    sizes = (STREAM, STREAM + 7, STREAM * 2)
    large = [lm.asarray(np.arange(size).astype(np.int8)) for size in sizes]
    for arrays in (small, large):
        before = compiled_count()
        for x in arrays:
            np.testing.assert_array_equal((x + x).numpy(), 2 * x.numpy())
        assert compiled_count() - before == 2  # of the first size, and of all
    found = [
        source.kernel().buffers[-1].streamed
        for structure in evaluate._structures.values() for _, executable in structure.patterns
        for source in executable.blueprint.sources
    ]  # fmt: skip
    assert found == [False, True]


@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize("function", [lm.sum, lm.argmax, lm.cumsum])
def test_tasks_are_those_of_the_sizes_that_come(function: Any) -> None:
    for size in (400, 600, 60_000):
        x = lm.asarray(np.random.default_rng(size).normal(size=(16, size)).astype(np.float32))
        lm.eval(function(x, axis=1))
    (structure,) = (s for s in evaluate._structures.values() if s.patterns)
    ((_, executable),) = structure.patterns
    grain = executable.plan.launches[0].grain
    assert isinstance(grain, SlotValue)
    few, many = (
        at.extents[grain.slot - executable.plan.slots]
        for at in (executable.bind((600,)), executable.bind((60_000,)))
    )
    assert many == 1 < few


def test_updates_of_any_number_are_applied_in_order_and_checked() -> None:
    rng = np.random.default_rng(0)
    for count in (700, 1500, 3, 511, 512, 513, 1024):  # all but the first run an open program
        x = rng.normal(size=900).astype(np.float32)
        updates, index = rng.normal(size=count).astype(np.float32), rng.integers(-900, 900, count)
        t, u = lm.asarray(x.copy()), lm.asarray(updates)
        added = x.astype(np.float64)
        np.add.at(added, index, updates)
        x[index] = updates
        np.testing.assert_array_equal(t.at[lm.asarray(index)].set(u).numpy(), x)
        found = lm.scatter_add(t, 0, lm.asarray(index) % 900, u).numpy()
        np.testing.assert_allclose(found, added, rtol=1e-4, atol=1e-4)
        index[-1] = 900
        with pytest.raises(LamellaIndexError):
            t.at[lm.asarray(index)].set(u).numpy()


def test_a_python_scalar_is_an_argument() -> None:
    t, before = lm.ones(10), compiled_count()
    for i in range(200):
        assert (t * (i * 0.5) + i).sum().item() == pytest.approx(10 * (i * 0.5 + i))
    assert compiled_count() - before <= 5


def test_a_loop_without_eval_is_bounded() -> None:
    z, before = lm.zeros((64,)), compiled_count()
    for _ in range(5000):
        z = z * 0.5 + 1.0
    assert compiled_count() - before <= 5
    np.testing.assert_allclose(z.numpy(), 2.0)


def _train(steps: int) -> tuple[np.ndarray, int]:
    """Trains eagerly; the parameters, and the bytes held afterwards."""
    lm.manual_seed(0)
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    opt = optim.Adam(model.parameters(), lr=1e-3)
    x = lm.asarray(rng.standard_normal((64, 16)).astype(np.float32))
    y = lm.asarray(rng.integers(0, 4, 64))
    for _ in range(steps):
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    held = memory_in_use()
    return np.concatenate([p.detach().numpy().ravel() for p in model.parameters()]), held


def test_eager_training_keeps_memory_flat() -> None:
    held = [_train(steps)[1] for steps in (5, 60)]
    assert held[1] <= held[0] * 1.05 + 4096


def test_same_bits_for_any_number_of_threads_and_every_run() -> None:
    def run(threads: int) -> bytes:
        lm.set_num_threads(threads)
        forget_programs()
        rng = np.random.default_rng(3)
        a = lm.asarray(rng.standard_normal((257, 300)).astype(np.float32))
        big = lm.asarray(rng.standard_normal(300_001).astype(np.float32))
        index = lm.asarray(rng.integers(0, 50, 4000))
        parts = [
            F.softmax(a @ a.T, -1), big.sum(), (big * big).mean(), a.std(0), lm.logsumexp(a, 1),
            a.cumsum(0), lm.grad(lambda table: (F.embedding(index, table) ** 2).sum())(a[:50]),
        ]  # fmt: skip
        return b"".join(p.numpy().tobytes() for p in parts) + _train(3)[0].tobytes()

    first = run(1)
    for i in range(20):
        assert run(1 + i % 2) == first


def test_every_pass_can_be_left_out() -> None:
    from lamella.compiler.pipeline import PASSES

    reference = _train(3)[0]
    for name, _ in PASSES:
        forget_programs()
        with config(skip_passes=name):
            np.testing.assert_allclose(_train(3)[0], reference, rtol=1e-4, atol=1e-6)


def test_a_statement_nobody_reads_is_dropped() -> None:
    for columns in (2, 3, 1):  # an empty region of three sizes: the scattered value is never read
        x = lm.ones((1, columns))
        region = x[np.array([0]), None, :0, None]
        found = x.at[np.array([0]), None, :0, None].add(lm.ones(region.shape))
        np.testing.assert_array_equal(found.numpy(), np.ones((1, columns)))


def test_pending_operations_do_not_hold_memory_without_bound() -> None:
    block = np.ones(1_000_000, np.float32)
    with config(memory_limit=(memory_in_use() >> 20) + 200):
        total = lm.zeros(())
        for _ in range(120):  # 480 MB in all
            total = total + lm.tensor(block).sum()
    assert total.item() == 120e6
