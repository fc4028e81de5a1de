"""What Linux and macOS share: pages of memory, the usable CPUs, and a folder private to its owner.

Addresses are plain integers. Functions return 0 or None where the system refuses; callers decide.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

__all__ = ["LIBC", "address_of", "cpu_count", "folder_fault", "map_pages", "unmap_pages"]

LIBC: Final = ctypes.CDLL(None, use_errno=True)

_PROT_READ_WRITE: Final = 3
_MAP_PRIVATE: Final = 2
_MAP_FAILED: Final = 2 ** (8 * ctypes.sizeof(ctypes.c_void_p)) - 1
_MAP_ANONYMOUS: Final = 0x1000 if os.uname().sysname == "Darwin" else 0x20

_mmap = LIBC.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
]  # fmt: skip
_munmap = LIBC.munmap
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def map_pages(nbytes: int) -> int:
    """The address of ``nbytes`` fresh zeroed bytes on a page boundary, or 0 if there are none."""
    pointer = _mmap(None, nbytes, _PROT_READ_WRITE, _MAP_PRIVATE | _MAP_ANONYMOUS, -1, 0)
    return 0 if pointer is None or pointer == _MAP_FAILED else int(pointer)


def unmap_pages(pointer: int, nbytes: int) -> None:
    """Give pages back to the system."""
    _munmap(pointer, nbytes)


def address_of(name: str) -> int:
    """The address of a function of the C library, for generated code to call."""
    return ctypes.cast(getattr(LIBC, name), ctypes.c_void_p).value or 0


def cpu_count() -> int:
    """The CPUs this process may run on, by its affinity where the system has one."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def folder_fault(folder: Path) -> str | None:
    """Why ``folder`` is not safe to load native code from, or None: ours, a real folder, 0700."""
    status = os.lstat(folder)
    if os.path.islink(folder):
        return "it is a symbolic link"
    if not os.path.isdir(folder):
        return "it is not a folder"
    if status.st_uid != os.getuid():
        return f"it belongs to user {status.st_uid}, not {os.getuid()}"
    if status.st_mode & 0o077:
        return f"it is open to others (mode {status.st_mode & 0o777:o}, not 700)"
    return None
