"""Windows: WaitOnAddress sleep for generated code; the interface that os_linux describes."""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path
from typing import Any, Final

__all__ = [
    "CLOCK_NANOSECONDS", "NATIVE_IR", "advise_huge", "available_memory", "cache_root", "cpu_quota",
    "cpu_count", "folder_fault", "machine_identity", "map_pages", "native_addresses", "unmap_pages",
]  # fmt: skip

_load: Any = getattr(ctypes, "WinDLL", None)
_KERNEL: Final = _load("kernelbase", use_last_error=True)
_KERNEL.VirtualAlloc.restype = ctypes.c_void_p
_KERNEL.VirtualAlloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_uint32]
_KERNEL.VirtualFree.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32]
_COMMIT_RESERVE: Final = 0x3000
_RELEASE: Final = 0x8000
_PAGE_READ_WRITE: Final = 4


def _clock_period() -> float:
    frequency = ctypes.c_int64()
    _KERNEL.QueryPerformanceFrequency(ctypes.byref(frequency))
    return 1e9 / frequency.value


CLOCK_NANOSECONDS: Final = _clock_period()

NATIVE_IR: Final = """
define internal void @os_wait(ptr %env, ptr %word, i32 %seen) noinline {
  %c = alloca i32, align 4
  store i32 %seen, ptr %c
  %f = load ptr, ptr %env
  %r = call i32 %f(ptr %word, ptr %c, i64 4, i32 -1)
  ret void
}
define internal void @os_wake(ptr %env, ptr %word, i32 %count) noinline {
  %p = getelementptr i64, ptr %env, i64 1
  %f = load ptr, ptr %p
  call void %f(ptr %word)
  ret void
}
define internal i64 @os_clock(ptr %env) noinline {
  %t = alloca i64, align 8
  %p = getelementptr i64, ptr %env, i64 2
  %f = load ptr, ptr %p
  %r = call i32 %f(ptr %t)
  %v = load i64, ptr %t
  ret i64 %v
}
"""


def native_addresses() -> tuple[int, int, int, int]:
    """The system functions that ``NATIVE_IR`` calls: wait, wake, the clock; and yield."""
    names = ("WaitOnAddress", "WakeByAddressAll", "QueryPerformanceCounter", "SwitchToThread")
    a, b, c, d = (
        ctypes.cast(getattr(_KERNEL, name), ctypes.c_void_p).value or 0 for name in names
    )
    return a, b, c, d


def map_pages(nbytes: int) -> int:
    """The address of ``nbytes`` fresh zeroed bytes on a page boundary, or 0 if there are none."""
    return _KERNEL.VirtualAlloc(None, nbytes, _COMMIT_RESERVE, _PAGE_READ_WRITE) or 0


def unmap_pages(pointer: int, nbytes: int) -> None:
    """Give a whole mapping back to the system."""
    _KERNEL.VirtualFree(pointer, 0, _RELEASE)


def advise_huge(pointer: int, nbytes: int) -> None:
    """Nothing to ask: large pages need a privilege."""


def cache_root() -> Path:
    """The user's folder for caches."""
    local = os.environ.get("LOCALAPPDATA", "")
    return Path(local) if local else Path.home() / "AppData" / "Local"


def machine_identity() -> tuple[str, ...]:
    """What compiled code may depend on: the system, the CPU's model and its optional features."""
    features = "".join(str(int(_KERNEL.IsProcessorFeaturePresent(i) != 0)) for i in range(64))
    return "windows", platform.machine(), platform.processor(), features


def available_memory() -> int | None:
    """Bytes of physical memory that are free, or None if the system does not say."""
    status = (ctypes.c_uint64 * 8)()
    ctypes.cast(status, ctypes.POINTER(ctypes.c_uint32))[0] = 64
    if not _KERNEL.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return int(status[2])


def cpu_count() -> int:
    """The CPUs of the machine."""
    return os.cpu_count() or 1


def cpu_quota() -> float | None:
    """Job objects' quotas are not read."""
    return None


def folder_fault(folder: Path) -> str | None:
    """Why ``folder`` is not safe to load native code from; the profile's own rights guard it."""
    return None if folder.is_dir() and not folder.is_symlink() else "it is not a folder"
