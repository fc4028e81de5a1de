"""Plans: arguments, order, extents from slots, tasks, times, scalars."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Iterator
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella import dtypes
from lamella.config import config
from lamella.errors import CompilerError
from lamella.runtime.launch import Jump, Launch, Plan, SlotValue, pack_scalar, run
from tests.runtime.kernels import kernels


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    with config(threads=request.param):
        yield request.param


@pytest.mark.parametrize("extent", [0, 1, 7, 64, 1000, 12345])
@pytest.mark.parametrize("grain", [0, 1, 3, 64, 10**6])
def test_every_iteration_runs_exactly_once(threads: int, extent: int, grain: int) -> None:
    data = np.zeros(extent + 1, np.int64)
    plan = Plan([Launch(kernels()("add"), extent, (0, 1), grain)], 2)
    for _ in range(3):
        run(plan, [data.ctypes.data, 5])
    assert (data[:-1] == 15).all()
    assert data[-1] == 0


def test_launches_run_in_order_each_seeing_the_last(threads: int) -> None:
    rows = np.zeros((20, 3000), np.int64)
    rows[0] = np.arange(3000)
    launches = [Launch(kernels()("double_into_next"), 3000, (i, i + 1), 100) for i in range(19)]
    plan = Plan(launches, 20)
    for _ in range(50):
        rows[1:] = 0
        plan.run([rows[i].ctypes.data for i in range(20)])
        assert (rows[19] == np.arange(3000) << 19).all()


def test_arguments_are_the_slots_named_in_the_order_named() -> None:
    out = np.zeros(3, np.int64)
    plan = Plan([Launch(kernels()("arguments"), 9, (2, 0, 1))], 3)
    plan.run([11, 2**63 + 5, out.ctypes.data])
    assert out.view(np.uint64).tolist() == [11, 2**63 + 5, 9]


def test_extent_and_grain_may_come_from_slots(threads: int) -> None:
    data = np.zeros(5000, np.int64)
    plan = Plan([Launch(kernels()("add"), SlotValue(2), (0, 1), SlotValue(3))], 4)
    for extent, grain in ((10, 0), (5000, 100), (0, 1), (77, 5)):
        data[:] = 0
        plan.run([data.ctypes.data, 1, extent, grain])
        assert (data[:extent] == 1).all()
        assert (data[extent:] == 0).all()
    fixed_extent = Plan([Launch(kernels()("add"), 300, (0, 1), SlotValue(3))], 4)
    data[:] = 0
    fixed_extent.run([data.ctypes.data, 1, 999, 10])
    assert data.sum() == 300


@pytest.mark.parametrize("copies", [1, 2, 5, SlotValue(2)])
def test_scratch_memory_is_private_to_each_thread(threads: int, copies: int | SlotValue) -> None:
    areas = threads if isinstance(copies, SlotValue) else copies
    data, scratch = np.zeros(4000, np.int64), np.zeros(16 * areas + 16, np.int64)
    scratch[16 * areas :] = -7
    launch = Launch(kernels()("staged"), 4000, (0, 1), 10, scratch=128, copies=copies)
    plan = Plan([launch], 3)
    for _ in range(20):
        data[:] = 0
        plan.run([data.ctypes.data, scratch.ctypes.data, areas])
        assert (data == np.arange(4000)).all()
    assert (scratch[16 * areas :] == -7).all()
    assert all((scratch[16 * i + 1 : 16 * i + 16] == 0).all() for i in range(areas))


def test_slots_that_are_used_again() -> None:
    data = np.zeros(4, np.int64)
    plan = Plan([Launch(kernels()("add"), 4, (0, 1))], 2)
    slots = plan.new_slots([data.ctypes.data, 3])
    for _ in range(2):
        plan.start(plan.address, ctypes.addressof(slots))
    assert (data == 6).all()
    with pytest.raises(struct.error):
        plan.run([1])


def test_an_empty_plan_and_one_without_arguments() -> None:
    Plan([], 0).run([])
    assert Plan([], 0).launches == ()


def test_bad_launches_are_refused() -> None:
    for launch in (
        Launch(kernels()("add"), 1, (0, 2), name="k"),
        Launch(kernels()("add"), SlotValue(2), (0,), name="k"),
        Launch(kernels()("add"), 1, (-1,), name="k"),
    ):
        with pytest.raises(CompilerError, match="launch k names the slots"):
            Plan([launch], 2)
    with pytest.raises(CompilerError, match="100 bytes of scratch memory, not a multiple of 64"):
        Plan([Launch(kernels()("add"), 1, (0,), scratch=100)], 1)
    with pytest.raises(CompilerError, match="has no function"):
        Plan([Launch(0, 1, ())], 0)


def test_times_add_up_and_stop() -> None:
    data = np.zeros(64, np.int64)
    work = kernels()("work")
    plan = Plan([Launch(work, 64, (0, 1)), Launch(work, 64, (0, 2))], 3)
    words = [data.ctypes.data, 20000, 10]
    plan.run(words)
    assert plan.times() == ()
    plan.record_times()
    seen = [(0.0, 0.0)]
    for _ in range(10):
        plan.run(words)
        seen.append(plan.times())
    assert all(
        a < b for before, after in pairwise(seen) for a, b in zip(before, after, strict=True)
    )
    long, short = (min(b[i] - a[i] for a, b in pairwise(seen)) for i in range(2))
    assert long > 100_000  # 1.3 million dependent multiplications
    assert short < long / 10
    plan.record_times()
    assert plan.times() == (0.0, 0.0)
    plan.record_times(on=False)
    plan.run(words)
    assert plan.times() == ()


@given(st.sampled_from(dtypes.FLOATS), st.floats())
def test_floating_scalars_have_the_bits_numpy_gives(dtype: dtypes.DType, value: float) -> None:
    word = pack_scalar(value, dtype)
    assert 0 <= word < 2**64
    got = np.frombuffer(word.to_bytes(8, "little")[: dtype.itemsize], dtype.numpy)[0]
    with np.errstate(over="ignore"):
        want = dtype.numpy.type(value)
    assert got == want or (math.isnan(float(got)) and math.isnan(float(want)))
    assert math.copysign(1, float(got)) == math.copysign(1, value) or math.isnan(value)


@given(st.sampled_from(dtypes.INTEGERS), st.integers(-(2**70), 2**70))
def test_integer_scalars_wrap(dtype: dtypes.DType, value: int) -> None:
    assert pack_scalar(value, dtype) == value % 2**dtype.bits


def test_scalars_of_other_kinds() -> None:
    assert pack_scalar(True, dtypes.bool_) == 1
    assert pack_scalar(0.5, dtypes.bool_) == 1
    assert pack_scalar(0, dtypes.bool_) == 0
    assert pack_scalar(2, dtypes.float32) == 0x40000000
    assert pack_scalar(True, dtypes.bfloat16) == 0x3F80
    assert pack_scalar(-1e300, dtypes.float32) == 0xFF800000
    assert ml_dtypes.bfloat16(1).tobytes() == b"\x80\x3f"


def test_control_rows() -> None:
    """Each means what ``native_program`` says: here a loop that sums, copies and clears."""
    memory = np.arange(300, dtype=np.uint8)
    target, numbers = np.full(300, 7, np.uint8), np.array([5, 0], np.int64)
    base = numbers.ctypes.data
    slots = [0, 1, 0, 0, base, base + 8, memory.ctypes.data, target.ctypes.data, 131, 3, 0]
    zero, one, k, total, count, result, source, sink, size, scale, spare = range(len(slots))
    rows = [
        Jump("move", (k, zero, total, zero)),
        Jump("load", (spare, count)),
        Jump("less", (k, spare), target=5),  # 2: while k < 5
        Jump("add", (k, one, total, k)),
        Jump("jump", (), target=2),
        Jump("scale", (total, total, scale)),
        Jump("store", (result, total)),
        Jump("copy", (sink, source, size)),
        Jump("copy", (sink, sink, size)),
        Jump("zero", (sink, scale)),
    ]
    plan = Plan(rows, len(slots))
    for _ in range(2):
        numbers[1] = 0
        plan.run(slots)
        assert numbers[1] == 15 * 4
    plan.start(plan.address, plan.new_slots(slots))
    wanted = np.concatenate([np.zeros(3), memory[3:131], np.full(169, 7)])
    assert np.array_equal(target, wanted)


@pytest.mark.parametrize("row", [Jump("leap", ()), Jump("add", (0, 9)), Jump("jump", (), 3)])
def test_control_rows_are_checked(row: Jump) -> None:
    with pytest.raises(CompilerError, match="control row"):
        Plan([row], 2)
