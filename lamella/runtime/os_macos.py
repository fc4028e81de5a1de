"""macOS: ulock sleep for generated code; the same interface as os_linux, which describes it."""

from __future__ import annotations

import ctypes
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
    "cpu_count", "folder_fault", "machine_identity", "map_pages", "native_addresses", "unmap_pages",
]  # fmt: skip

CLOCK_NANOSECONDS: Final = 1.0

# UL_COMPARE_AND_WAIT is 1, ULF_WAKE_ALL 0x100 (257 together), CLOCK_UPTIME_RAW 8.
NATIVE_IR: Final = """
define internal void @os_wait(ptr %env, ptr %word, i32 %seen) noinline {
  %f = load ptr, ptr %env
  %v = zext i32 %seen to i64
  %r = call i32 %f(i32 1, ptr %word, i64 %v, i32 0)
  ret void
}
define internal void @os_wake(ptr %env, ptr %word, i32 %count) noinline {
  %p = getelementptr i64, ptr %env, i64 1
  %f = load ptr, ptr %p
  %r = call i32 %f(i32 257, ptr %word, i64 0)
  ret void
}
define internal i64 @os_clock(ptr %env) noinline {
  %p = getelementptr i64, ptr %env, i64 2
  %f = load ptr, ptr %p
  %r = call i64 %f(i32 8)
  ret i64 %r
}
"""


def native_addresses() -> tuple[int, int, int, int]:
    """The C functions that ``NATIVE_IR`` calls: ulock wait, ulock wake, the clock; and yield."""
    return (
        address_of("__ulock_wait"),
        address_of("__ulock_wake"),
        address_of("clock_gettime_nsec_np"),
        address_of("sched_yield"),
    )


def advise_huge(pointer: int, nbytes: int) -> None:
    """Nothing to ask: the system chooses page sizes by itself."""


def cache_root() -> Path:
    """The user's folder for caches."""
    return Path.home() / "Library" / "Caches"


def machine_identity() -> tuple[str, ...]:
    """What compiled code may depend on: the system and the CPU's model."""
    name, size = ctypes.create_string_buffer(256), ctypes.c_size_t(256)
    LIBC.sysctlbyname(b"machdep.cpu.brand_string", name, ctypes.byref(size), None, 0)
    return "macos", platform.machine(), name.value.decode()


def available_memory() -> int | None:
    """Bytes of physical memory, the only bound the system states cheaply; None if it does not."""
    value, size = ctypes.c_uint64(), ctypes.c_size_t(8)
    failed = LIBC.sysctlbyname(b"hw.memsize", ctypes.byref(value), ctypes.byref(size), None, 0)
    return None if failed else value.value


def cpu_quota() -> float | None:
    """No quota exists."""
    return None
