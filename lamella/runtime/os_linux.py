"""Linux: futex sleep for generated code, huge pages, and the limits of the control group.

The same interface as os_macos and os_windows; ``os_host`` picks one. ``NATIVE_IR`` defines, for
generated code, ``@os_wait(ptr %env, ptr %word, i32 %seen)`` (sleep while the word still reads
``seen``; may return early), ``@os_wake(ptr %env, ptr %word, i32 %count)`` (wake up to count
sleepers) and ``i64 @os_clock(ptr %env)`` in units of ``CLOCK_NANOSECONDS``. ``native_addresses()``
fills ``env``; the fourth, ``int f()``, lets another thread have the core.
"""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path
from typing import Final

from lamella.runtime.os_posix import (
    LIBC,
    address_of,
    cpu_count,
    folder_fault,
    map_pages,
    unmap_pages,
)  # fmt: skip

__all__ = [
    "CLOCK_NANOSECONDS", "NATIVE_IR", "advise_huge", "available_memory", "cache_root", "cpu_quota",
    "cpu_count", "folder_fault", "machine_identity", "map_pages", "native_addresses",
    "protect_code", "unmap_pages",
]  # fmt: skip

CLOCK_NANOSECONDS: Final = 1.0
_SYS_FUTEX: Final = {"x86_64": 202, "i686": 240, "armv7l": 240}.get(platform.machine(), 98)
_MADV_HUGEPAGE: Final = 14

# FUTEX_WAIT_PRIVATE is 128 and FUTEX_WAKE_PRIVATE 129; CLOCK_MONOTONIC is 1.
NATIVE_IR: Final = f"""
define internal void @os_wait(ptr %env, ptr %word, i32 %seen) noinline {{
  %f = load ptr, ptr %env
  %r = call i64 (i64, ...) %f(i64 {_SYS_FUTEX}, ptr %word, i64 128, i32 %seen, ptr null,
                              ptr null, i64 0)
  ret void
}}
define internal void @os_wake(ptr %env, ptr %word, i32 %count) noinline {{
  %f = load ptr, ptr %env
  %r = call i64 (i64, ...) %f(i64 {_SYS_FUTEX}, ptr %word, i64 129, i32 %count, ptr null,
                              ptr null, i64 0)
  ret void
}}
define internal i64 @os_clock(ptr %env) noinline {{
  %t = alloca [2 x i64], align 16
  %p = getelementptr i64, ptr %env, i64 1
  %f = load ptr, ptr %p
  %r = call i32 %f(i32 1, ptr %t)
  %s = load i64, ptr %t
  %q = getelementptr i64, ptr %t, i64 1
  %n = load i64, ptr %q
  %m = mul i64 %s, 1000000000
  %v = add i64 %m, %n
  ret i64 %v
}}
"""


def native_addresses() -> tuple[int, int, int, int]:
    """The C functions that ``NATIVE_IR`` calls: syscall, clock_gettime, none; and yield."""
    return address_of("syscall"), address_of("clock_gettime"), 0, address_of("sched_yield")


_madvise = LIBC.madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def advise_huge(pointer: int, nbytes: int) -> None:
    """Ask for huge pages behind a mapping; the system may decline."""
    _madvise(pointer, nbytes, _MADV_HUGEPAGE)


_mprotect = LIBC.mprotect
_mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def protect_code(pointer: int, nbytes: int) -> bool:
    """Make whole pages readable and executable, not writable; False where that is forbidden."""
    return bool(_mprotect(pointer, nbytes, 5) == 0)


def cache_root() -> Path:
    """The user's folder for caches (XDG)."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    return Path(root) if os.path.isabs(root) else Path.home() / ".cache"


def machine_identity() -> tuple[str, ...]:
    """What compiled code may depend on: the system, and the CPU's model and features."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            first = file.read(8192).partition("\n\n")[0]
    except OSError:
        first = platform.processor()
    names = ("model name", "flags", "Features", "CPU implementer", "CPU part", "isa", "uarch")
    lines = sorted(line for line in first.splitlines() if line.startswith(names))
    return "linux", platform.machine(), *lines


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _groups(controller: str) -> list[str]:
    """Folders of this process's control group and its ancestors: v2, or v1's ``controller``."""
    folders = []
    for line in _read("/proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if names and controller not in names.split(","):
            continue
        root = f"/sys/fs/cgroup/{controller}" if names else "/sys/fs/cgroup"
        parts = [part for part in path.split("/") if part]
        folders += ["/".join([root, *parts[:i]]) for i in range(len(parts), -1, -1)]
    return folders


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdigit() else None


def _group_memory(folder: str) -> int | None:
    """Bytes the control group still allows, page cache it would give up included."""
    limit = _number(_read(f"{folder}/memory.max"))
    used = _number(_read(f"{folder}/memory.current"))
    if limit is None:
        limit = _number(_read(f"{folder}/memory.limit_in_bytes"))
        used = _number(_read(f"{folder}/memory.usage_in_bytes"))
    if limit is None or used is None or limit >= 2**60:
        return None
    for line in _read(f"{folder}/memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file") and value.isdigit():
            used -= int(value)
            break
    return max(limit - used, 0)


def available_memory() -> int | None:
    """Bytes this process may still take: the system's estimate, or less by a control group."""
    found = [value for folder in _groups("memory") if (value := _group_memory(folder)) is not None]
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            found.append(int(line.split()[1]) * 1024)
            break
    return min(found, default=None)


def cpu_quota() -> float | None:
    """CPUs' worth of time a control group allows, or None."""
    found = []
    for folder in _groups("cpu"):
        quota, _, period = _read(f"{folder}/cpu.max").strip().partition(" ")
        if not quota:
            quota = _read(f"{folder}/cpu.cfs_quota_us").strip()
            period = _read(f"{folder}/cpu.cfs_period_us").strip()
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            found.append(int(quota) / int(period))
    return min(found, default=None)
