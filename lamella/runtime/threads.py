"""The thread pool: Python daemon threads that stay inside a generated native loop.

Input: how many threads to use. Output: :data:`POOL`, the address of the record that native code
shares (see ``native_ir``). The pool is one per process, starts with the first program that can use
it, and shares one launch at a time; a Python thread that finds it busy runs its launch alone, so
programs of several threads never wait for each other. After a fork the child starts its own workers
when it needs them.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import threading
import time
from typing import Final

from lamella.config import config
from lamella.errors import OptionError
from lamella.forks import in_child
from lamella.runtime import os_host
from lamella.runtime.native import native
from lamella.runtime.native_ir import (
    POOL_ENV,
    POOL_PYTHON,
    POOL_SPIN,
    POOL_STOP,
    POOL_WORDS,
    POOL_WORKERS,
)  # fmt: skip

__all__ = [
    "POOL", "num_threads", "set_num_threads", "start_pool", "stop_pool", "usable_cpus",
]  # fmt: skip

_memory: Final = (ctypes.c_int64 * (POOL_WORDS + 16))()
POOL: Final[int] = (ctypes.addressof(_memory) + 127) & -128
_words: Final = (ctypes.c_int64 * POOL_WORDS).from_address(POOL)


_PYTHON: Final = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals")


class _Pool:
    """The workers that are running, and whether the pool is as the settings want it."""

    __slots__ = ("lock", "ready", "workers")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.ready = False
        self.workers: list[threading.Thread] = []


pool: Final = _Pool()


def num_threads() -> int:
    """How many threads run a program, the calling one included.

    ``config.threads``, or every CPU this process may use: its affinity, at most its control
    group's quota.

    >>> num_threads() >= 1
    True
    """
    return config.threads or usable_cpus()


def usable_cpus() -> int:
    """Every CPU this process may use: its affinity, at most its control group's quota."""
    quota = os_host.cpu_quota()
    usable = os_host.cpu_count()
    return max(1, usable if quota is None else min(usable, math.ceil(quota)))


def set_num_threads(count: int) -> None:
    """Use ``count`` threads from the next program on. Results do not depend on it, bit for bit.

    Raises:
        OptionError: if ``count`` is not a positive whole number.

    >>> before = config.threads
    >>> set_num_threads(1); num_threads()
    1
    >>> config.threads = before
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise OptionError(
            f"[set_num_threads] {count!r} is not a number of threads; "
            "pass a whole number from 1 up, or set config.threads = 0 for every usable CPU"
        )
    config.threads = count


def start_pool() -> None:
    """Make the pool what the settings ask for; cheap when it is already (``pool.ready``)."""
    with pool.lock:
        if pool.ready:
            return
        wanted = num_threads() - 1
        _words[POOL_SPIN] = _spin_count(config.spin) if wanted else 0
        for i, address in enumerate(os_host.native_addresses()):
            _words[POOL_ENV + i] = address
        for i, name in enumerate(_PYTHON):
            function = getattr(ctypes.pythonapi, name)
            _words[POOL_PYTHON + i] = ctypes.cast(function, ctypes.c_void_p).value or 0
        if wanted and len(pool.workers) != wanted:  # for one thread they may as well stay asleep
            _stop_workers()
            _words[POOL_STOP] = 0
            run = native().worker
            for i in range(wanted):
                thread = threading.Thread(
                    target=run, args=(POOL, i + 1), name=f"lamella-worker-{i}", daemon=True
                )
                thread.start()
                pool.workers.append(thread)
        _words[POOL_WORKERS] = wanted
        pool.ready = True


def stop_pool(patience: float | None = None) -> None:
    """End every worker; the next program that needs them starts new ones.

    Waits for each until it has finished its task, at most ``patience`` seconds if given.
    """
    with pool.lock:
        pool.ready = False
        _stop_workers(patience)


def _stop_workers(patience: float | None = None) -> None:
    """Workers finish the task they are at; callers at work meanwhile do the rest themselves."""
    _words[POOL_WORKERS] = 0
    if pool.workers:
        native().stop(POOL)
        for thread in pool.workers:
            thread.join(patience)
        pool.workers.clear()


def _spin_count(microseconds: int) -> int:
    """How many pauses last that long here."""
    if not microseconds:
        return 0
    spin = native().spin
    best = math.inf
    for _ in range(3):
        start = time.perf_counter_ns()
        spin(1000)
        best = min(best, time.perf_counter_ns() - start)
    return max(1, int(microseconds * 1000 * 1000 / max(best, 1)))


def _settings_changed() -> None:
    pool.ready = False


def _after_fork() -> None:
    """The child has the caller's thread only: forget the workers and whatever they were at."""
    pool.lock = threading.RLock()
    pool.ready = False
    pool.workers = []
    ctypes.memset(POOL, 0, 8 * POOL_WORDS)


config.watch("threads", _settings_changed)
config.watch("spin", _settings_changed)
atexit.register(stop_pool, 1.0)
in_child(_after_fork)
