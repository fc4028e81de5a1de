"""Buffers and their allocator: sharing, lifetimes, reuse, trimming, limits."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.config import config
from lamella.errors import OutOfMemoryError
from lamella.runtime import memory, os_host
from lamella.runtime.buffer import (
    empty,
    from_numpy,
    memory_in_use,
    view,
)

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _start_clean() -> None:
    gc.collect()
    memory.trim_memory()


@given(st.integers(0, 2**62))
def test_size_classes_waste_at_most_an_eighth(nbytes: int) -> None:
    size = memory.size_class(nbytes)
    assert size >= max(nbytes, 64)
    assert size % 64 == 0
    assert size <= max(nbytes * 9 / 8 + 64, 64)
    assert memory.size_class(size) == size


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 4097, 70_000, 5 * MIB])
def test_buffers_are_aligned_apart_and_hold_their_contents(nbytes: int) -> None:
    held = [empty(nbytes) for _ in range(5)]
    for i, buffer in enumerate(held):
        assert buffer.ptr % 64 == 0
        assert buffer.writable
        buffer.numpy((nbytes,), np.uint8, writable=True)[:] = i
    ranges = sorted((b.ptr, b.ptr + b.nbytes) for b in held)
    assert all(a[1] <= b[0] for a, b in pairwise(ranges))
    for i, buffer in enumerate(held):
        assert (buffer.numpy((nbytes,), np.uint8) == i).all()


@pytest.mark.parametrize("nbytes", [100, 3 * MIB])
def test_freed_memory_is_used_again(nbytes: int) -> None:
    first = empty(nbytes)
    pointer = first.ptr
    del first
    assert empty(nbytes).ptr == pointer


def test_use_is_counted_and_returns_to_where_it_was() -> None:
    before = memory_in_use()
    held = [empty(1000), empty(MIB), empty(40 * MIB)]
    assert memory_in_use() - before == sum(memory.size_class(b.nbytes) for b in held)
    held.clear()
    assert memory_in_use() == before


def test_kept_memory_is_bounded_and_the_least_recently_used_goes_first() -> None:
    with config(memory_cache=32):
        recent = [empty(9 * MIB)]
        recent.clear()
        for size in range(10, 20):
            empty(size * MIB)
            recent.append(empty(9 * MIB))
            recent.clear()
            assert memory._totals.kept <= 32 * MIB
        free = memory.free_lists[memory.size_class(9 * MIB)]
        assert len(free) == 1
        assert not memory.free_lists[memory.size_class(10 * MIB)]
    with config(memory_cache=0):
        empty(9 * MIB)
        assert memory._totals.kept == 0


def test_trim_gives_back_what_is_kept_but_not_what_is_used() -> None:
    held = empty(5 * MIB)
    held.numpy((5,), np.uint8, writable=True)[:] = 7
    empty(6 * MIB)
    assert memory.trim_memory() == memory.size_class(6 * MIB)
    assert memory.trim_memory() == 0
    assert (held.numpy((5,), np.uint8) == 7).all()


def test_an_array_keeps_its_buffer_alive_and_shared() -> None:
    buffer = empty(80)
    buffer.numpy((10,), np.float64, writable=True)[:] = range(10)
    assert buffer.writable
    array = buffer.numpy((2, 5), np.float64)
    assert not buffer.writable
    assert not array.flags.writeable
    assert array.flags.c_contiguous
    alive = weakref.ref(buffer)
    del buffer
    others = [empty(80) for _ in range(3)]
    assert alive() is not None
    assert array.tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    part = array[1]
    del array, others
    assert alive() is not None
    del part
    assert alive() is None


def test_an_array_larger_than_the_buffer_is_refused() -> None:
    with pytest.raises(ValueError, match="takes 12 bytes, but the buffer has 8"):
        empty(8).numpy((3,), np.float32)
    assert empty(0).numpy((0, 3), np.float32).size == 0
    assert empty(4).numpy((), np.float32, writable=True).shape == ()


def test_sharing_a_numpy_array() -> None:
    array = np.arange(6, dtype=np.float32)
    alive = weakref.ref(array)
    buffer = from_numpy(array)
    assert not buffer.writable
    assert buffer.ptr == array.ctypes.data
    array[0] = 9
    assert buffer.numpy((6,), np.float32)[0] == 9
    del array
    assert alive() is not None
    del buffer
    assert alive() is None


def test_arrays_of_every_kind_are_shared_where_they_lie() -> None:
    fixed = np.arange(5)
    fixed.flags.writeable = False
    for array in (
        fixed,
        np.zeros((0, 3)),
        np.array(1.5),
        np.arange(8)[3:],
        np.zeros(3, ml_dtypes.bfloat16),
        np.zeros(3, np.bool_),
    ):
        buffer = from_numpy(array)
        assert (buffer.ptr, buffer.nbytes) == (array.ctypes.data, array.nbytes)


@pytest.mark.parametrize("array", [np.zeros((3, 4)).T, np.zeros(6)[::2], np.zeros(3, ">f4")])
def test_arrays_that_are_no_plain_memory_are_refused(array: np.ndarray) -> None:
    with pytest.raises(ValueError, match="ascontiguousarray"):
        from_numpy(array)


def test_views_share_memory_and_lifetime() -> None:
    whole = empty(256)
    part = view(whole, 64, 128)
    alive = weakref.ref(whole)
    assert part.ptr == whole.ptr + 64
    del whole
    assert alive() is not None
    del part
    assert alive() is None
    for offset, nbytes in ((-1, 2), (200, 57), (0, -1)):
        with pytest.raises(ValueError, match="outside a buffer of 256"):
            view(empty(256), offset, nbytes)


def test_too_much_memory_is_refused_with_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OutOfMemoryError, match=r"1\.0 PiB does not fit"):
        empty(1 << 50)
    monkeypatch.setattr(os_host, "available_memory", lambda: 100 * MIB)
    with pytest.raises(OutOfMemoryError, match=r"192\.0 MiB does not fit.*100\.0 MiB left"):
        empty(192 * MIB)


def test_the_memory_limit_counts_and_frees_what_is_kept_first() -> None:
    memory.trim_memory()
    taken = memory._totals.mapped  # slabs too, whose blocks may be free
    with config(memory_limit=(taken >> 20) + 40):
        for _ in range(5):
            held = empty(20 * MIB)
            del held
            empty(30 * MIB)
        held = [empty(20 * MIB)]
        with pytest.raises(OutOfMemoryError, match=r"config\.memory_limit"):
            empty(30 * MIB)
        held.clear()
        empty(30 * MIB)


def test_threads_and_collections_do_not_share_a_block() -> None:
    sizes = (64, 300, 5000, 100_000, MIB)
    faults: list[int] = []

    def churn(mark: int) -> None:
        for turn in range(300):
            held = [empty(n) for n in sizes]
            cycle: list[object] = [held]
            cycle.append(cycle)  # freed by the collector, at any point
            for buffer in held:
                buffer.numpy((8,), np.int64, writable=True)[:] = mark
            arrays = [buffer.numpy((8,), np.int64, writable=True) for buffer in held]
            faults.extend(turn for array in arrays if (array != mark).any())

    with config(memory_cache=1):
        workers = [threading.Thread(target=churn, args=(i,)) for i in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert not faults


def test_buffers_alive_at_exit_are_no_trouble() -> None:
    script = (
        "import builtins, sys\nfrom lamella.runtime.buffer import empty, from_numpy\n"
        "import numpy as np\n"
        "kept = [empty(10), empty(1 << 21), from_numpy(np.zeros(3))]\n"
        "kept.append(kept)\nbuiltins.kept = kept\nsys.modules['kept'] = kept\nprint(len(kept))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "4\n", "")


def test_a_control_group_bounds_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from lamella.runtime import os_linux

    files = {
        "/proc/self/cgroup": "0::/a/b\n",
        "/proc/meminfo": "MemAvailable: 1000 kB\n",
        "/sys/fs/cgroup/a/b/memory.max": "max\n",
        "/sys/fs/cgroup/a/b/memory.current": "5\n",
        "/sys/fs/cgroup/a/memory.max": "600000\n",
        "/sys/fs/cgroup/a/memory.current": "500000\n",
        "/sys/fs/cgroup/a/memory.stat": "anon 3\ninactive_file 50000\n",
        "/sys/fs/cgroup/a/cpu.max": "150000 100000\n",
    }
    monkeypatch.setattr(os_linux, "_read", lambda path: files.get(path, ""))
    assert os_linux.available_memory() == 150_000
    assert os_linux.cpu_quota() == 1.5
    old = {
        "/proc/self/cgroup": "4:memory:/job\n2:cpu,cpuacct:/job\n",
        "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": "9223372036854771712",
        "/sys/fs/cgroup/memory/job/memory.usage_in_bytes": "7",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": "4000",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes": "1000",
        "/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "-1",
        "/sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000",
    }
    monkeypatch.setattr(os_linux, "_read", lambda path: old.get(path, ""))
    assert os_linux.available_memory() == 3000
    assert os_linux.cpu_quota() is None
