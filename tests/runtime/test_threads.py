"""The pool: stress, sleep, forks, several callers, the GIL, signals and exit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import lamella as lm
from lamella.config import config
from lamella.errors import CompilerError, OptionError
from lamella.runtime import evaluate, os_host, threads
from lamella.runtime.launch import Launch, Plan
from lamella.runtime.native import compile_ir_text, load_object
from lamella.runtime.native_ir import runtime_ir
from tests.runtime.kernels import kernels


@pytest.fixture(autouse=True)
def _three_threads() -> Iterator[None]:
    with config(threads=3):
        yield


def work_plan(extent: int, grain: int) -> Plan:
    return Plan([Launch(kernels()("work"), extent, (0, 1), grain)], 2)


def add_plan(extent: int, grain: int, launches: int = 1) -> Plan:
    return Plan([Launch(kernels()("add"), extent, (0, 1), grain)] * launches, 2)


@pytest.mark.parametrize("spin", [0, 1, 200])
def test_many_small_programs_lose_and_repeat_nothing(spin: int) -> None:
    data = np.zeros(24, np.int64)
    plan = add_plan(24, 1, launches=10)
    with config(spin=spin):
        for _ in range(2000):
            plan.run([data.ctypes.data, 1])
    assert (data == 20_000).all()


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    results = []
    for count in (1, 2, 3, 7):
        threads.set_num_threads(count)
        data = np.zeros(1000, np.int64)
        work_plan(1000, 1).run([data.ctypes.data, 50])
        results.append(data.tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("cpus", [1, 4])
def test_programs_made_with_one_thread_have_scratch_for_every_cpu(
    cpus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "usable_cpus", lambda: cpus)
    a, b = (lm.asarray(np.ones((2048, 2048), np.float32)) for _ in range(2))
    with config(threads=1, cache=False):
        evaluate.forget_programs()
        lm.eval(a @ b)
    found = [program for program, *_ in evaluate._exact.values()]
    (program,) = [each for each in found if each._scratch]
    (launch,) = [each for each in program.plan.launches if getattr(each, "scratch", 0)]
    assert launch.copies == cpus and program._scratch == cpus * launch.scratch
    evaluate.forget_programs()


def test_workers_take_part_and_only_as_many_as_asked() -> None:
    data = np.zeros(600, np.int64)
    where = Launch(kernels()("where"), 600, (0, 1), 1)
    wait = Launch(kernels()("work"), 600, (2, 3), 1)
    other = np.zeros(600, np.int64)
    plan = Plan([wait, where] * 20, 4)
    words = [data.ctypes.data, 0, other.ctypes.data, 2000]
    stacks: set[int] = set()
    deadline = time.monotonic() + 30
    while len(stacks) < 3 and time.monotonic() < deadline:
        plan.run(words)
        stacks |= {int(address) >> 20 for address in data}  # stacks are megabytes apart
    assert [w.name for w in threads.pool.workers] == ["lamella-worker-0", "lamella-worker-1"]
    assert len(stacks) == 3
    threads.set_num_threads(1)
    plan.run(words)
    assert len({int(address) >> 20 for address in data}) == 1


def test_every_thread_has_neighbouring_iterations() -> None:
    """So that its caches hold what it meets again at the next launch."""
    data, other = np.zeros(600, np.int64), np.zeros(600, np.int64)
    wait = Launch(kernels()("work"), 600, (2, 3), 1)
    where = Launch(kernels()("where"), 600, (0, 1), 1)
    plan = Plan([wait, where], 4)
    first: list[int] = []  # of the iterations that are not the caller's, where some are not
    deadline = time.monotonic() + 30
    with config(threads=2):
        while len(first) < 9 and time.monotonic() < deadline:
            plan.run([data.ctypes.data, 0, other.ctypes.data, 500])
            first += [int(i) + 1 for i in np.flatnonzero(np.diff(data >> 20))[:1]]
    if len(first) < 9:
        pytest.skip("the worker got no time to take part")
    assert sorted(first)[4] == 300


_SINK = np.zeros(64, np.int64)


def test_idle_workers_sleep_and_wake() -> None:
    data = np.zeros(64, np.int64)
    plan = add_plan(64, 1)
    for _ in range(5):
        plan.run([data.ctypes.data, 1])
        time.sleep(0.02)  # long past the time they spin
        before = time.process_time()
        time.sleep(0.2)
        assert time.process_time() - before < 0.01
    assert (data == 5).all()


def test_several_callers_at_once_do_not_wait_for_each_other() -> None:
    failures: list[int] = []

    def caller(mark: int) -> None:
        data = np.zeros(500, np.int64)
        plan = add_plan(500, 5, launches=4)
        for turn in range(1, 300):
            plan.run([data.ctypes.data, mark])
            if (data != 4 * mark * turn).any():
                failures.append(turn)

    callers = [threading.Thread(target=caller, args=(i,)) for i in range(1, 6)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert not failures


def test_one_plan_is_reentrant() -> None:
    plan = add_plan(2000, 10, launches=3)
    arrays = [np.zeros(2000, np.int64) for _ in range(4)]

    def caller(data: np.ndarray) -> None:
        for _ in range(200):
            plan.run([data.ctypes.data, 1])

    callers = [threading.Thread(target=caller, args=(a,)) for a in arrays]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(timeout=60)
    assert all((data == 600).all() for data in arrays)


def test_the_number_of_threads_may_change_while_programs_run() -> None:
    data = np.zeros(300, np.int64)
    plan, runs, stop = add_plan(300, 1), 0, threading.Event()

    def change() -> None:
        count = 0
        while not stop.is_set():
            threads.set_num_threads(1 + count % 4)
            count += 1
            time.sleep(0.001)

    changer = threading.Thread(target=change)
    changer.start()
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        plan.run([data.ctypes.data, 1])
        runs += 1
    stop.set()
    changer.join()
    assert (data == runs).all()


def test_the_gil_is_free_while_a_program_runs() -> None:
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.002)

    ticker = threading.Thread(target=tick)
    ticker.start()
    start = time.monotonic()
    work_plan(2, 0).run([_SINK.ctypes.data, 150_000_000])
    end = time.monotonic()
    done.set()
    ticker.join()
    assert end - start > 0.1
    assert sum(start < t < end for t in ticks) >= 10


def test_counts_of_threads() -> None:
    threads.set_num_threads(2)
    assert threads.num_threads() == 2
    for bad in (0, -1, 1.5, "2", True):
        with pytest.raises(OptionError, match="number of threads"):
            threads.set_num_threads(bad)  # type: ignore[arg-type]
    with config(threads=0):
        assert 1 <= threads.num_threads() <= os_host.cpu_count()


def test_a_control_group_quota_bounds_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os_host, "cpu_count", lambda: 16)
    monkeypatch.setattr(os_host, "cpu_quota", lambda: 2.5)
    with config(threads=0):
        assert threads.num_threads() == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_works_and_so_does_its_parent() -> None:
    data = np.zeros(300, np.int64)
    plan = add_plan(300, 1, launches=5)
    plan.run([data.ctypes.data, 1])
    for _ in range(3):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for _ in range(200):
                    plan.run([data.ctypes.data, 1])
                helped = len(threads.pool.workers) == 2
                code = 0 if helped and (data == data[0]).all() and data[0] > 1000 else 2
            finally:
                os._exit(code)
        deadline = time.monotonic() + 30
        pid, status = 0, 0
        while not pid and time.monotonic() < deadline:
            plan.run([data.ctypes.data, 1])
            pid, status = os.waitpid(child, os.WNOHANG)
        assert pid == child, "the child hangs"
        assert os.waitstatus_to_exitcode(status) == 0
    assert (data == data[0]).all()


def run_script(body: str, **extra: str) -> subprocess.CompletedProcess[str]:
    prelude = (
        "import os, sys, threading, time, signal\nimport numpy as np\n"
        "from lamella.runtime import threads\nfrom lamella.runtime.launch import Launch, Plan\n"
        "from tests.runtime.kernels import kernels\n"
    )
    environment = {**os.environ, "LAMELLA_THREADS": "3", **extra}
    return subprocess.run(
        [sys.executable, "-c", prelude + body], env=environment, timeout=120, text=True,
        capture_output=True, check=False,
    )  # fmt: skip


def test_exit_is_clean_with_workers_asleep_spinning_or_at_work() -> None:
    for spin in ("0", "1000000"):
        done = run_script(
            "d = np.zeros(99, np.int64)\n"
            "Plan([Launch(kernels()('add'), 99, (0, 1), 1)], 2).run([d.ctypes.data, 1])\n"
            "print(d.sum())\n",
            LAMELLA_SPIN=spin,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "99\n", "")
    done = run_script(
        "d = np.zeros(99, np.int64)\n"
        "p = Plan([Launch(kernels()('work'), 99, (0, 1), 1)], 2)\n"
        "t = threading.Thread(target=p.run, args=([d.ctypes.data, 10**8],), daemon=True)\n"
        "t.start(); time.sleep(0.3); print('bye')\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "bye\n", "")


def test_an_interrupt_during_a_program_is_raised_when_it_returns() -> None:
    done = run_script(
        "d = np.zeros(40, np.int64)\n"
        "p = Plan([Launch(kernels()('work'), 40, (0, 1), 1)] * 5, 2)\n"
        "p.run([d.ctypes.data, 10])\n"
        "threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "start = time.monotonic()\n"
        "try:\n"
        "    while True:\n"
        "        p.run([d.ctypes.data, 500_000])\n"
        "except KeyboardInterrupt:\n"
        "    late = time.monotonic() - start\n"
        "p.run([d.ctypes.data, 10])\n"
        "print('interrupted', late < 5)\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted True\n", "")


def test_an_uncaught_interrupt_ends_the_process() -> None:
    done = run_script(
        "d = np.zeros(40, np.int64)\n"
        "p = Plan([Launch(kernels()('work'), 40, (0, 1), 1)], 2)\n"
        "threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "while True:\n"
        "    p.run([d.ctypes.data, 500_000])\n"
    )
    assert done.returncode == -signal.SIGINT
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")


def test_the_environment_sets_the_number_of_threads() -> None:
    assert run_script("print(threads.num_threads())", LAMELLA_THREADS="5").stdout == "5\n"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_the_runtime_is_valid_llvm_for_every_machine(machine: str) -> None:
    import llvmlite.binding as llvm

    llvm.parse_assembly(runtime_ir(machine)).verify()


@pytest.mark.parametrize("system", ["os_linux", "os_macos"])
def test_the_system_layers_define_the_same_functions(system: str) -> None:
    import importlib

    import llvmlite.binding as llvm

    text = importlib.import_module(f"lamella.runtime.{system}").NATIVE_IR
    module = llvm.parse_assembly(text)
    module.verify()
    assert {f.name for f in module.functions} == {"os_wait", "os_wake", "os_clock"}


def test_generated_code_that_llvm_refuses_is_an_internal_error() -> None:
    with pytest.raises(CompilerError, match="refused generated code"):
        compile_ir_text("define void @f( {")
    with pytest.raises(CompilerError, match="not an object file"):
        load_object(b"not an object file")
    with pytest.raises(CompilerError, match="lacks the function 'g'"):
        load_object(compile_ir_text("define void @f() {\n ret void\n}"))("g")
