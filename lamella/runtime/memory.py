"""Where buffers get their memory: size classes with free lists, and the limits of the machine.

Input: sizes in bytes. Output: addresses, aligned to 64 bytes, of uninitialised memory. Sizes round
up to a class (multiples of 64 up to 4 KiB, then eight classes per doubling, so at most 1/8 is
lost). Small blocks are cut from slabs and never leave the process; larger ones are mapped one by
one, kept when freed, and given back, least recently used class first, once more than
``config.memory_cache`` is kept. Invariant: a free list holds only addresses nobody uses; appending
to it and popping from it are single steps of the interpreter, so the common path takes no lock and
a finaliser may run at any point.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Final

from lamella.config import config
from lamella.errors import OutOfMemoryError
from lamella.forks import in_child
from lamella.runtime import os_host

__all__ = [
    "LargeClass", "free_lists", "memory_available", "memory_in_use", "new_block", "readable_size",
    "relief", "size_class", "trim_memory",
]  # fmt: skip

SMALL: Final = 64 * 1024  # the largest block cut from a slab
_SLAB: Final = 1024 * 1024
_HUGE: Final = 2 * 1024 * 1024
_CHECKED: Final = 64 * 1024 * 1024  # from here on, ask the system before taking
_COLOUR: Final = 4096
_RESERVE: Final = 16 * 1024 * 1024  # bytes over the limit that giving memory up may itself need

free_lists: Final[dict[int, list[int]]] = {}  # class size -> free addresses
_mappings: Final[dict[int, tuple[int, int]]] = {}  # address of a large block -> its mapping
_ticks: Final = itertools.count(1)


class _Totals:
    """Bytes taken from the system, bytes of large blocks kept, the rest of the present slab."""

    __slots__ = ("kept", "lock", "mapped", "slab", "slab_end")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.mapped = 0
        self.kept = 0
        self.slab = 0
        self.slab_end = 0


_totals: Final = _Totals()


class LargeClass(list[int]):
    """The free addresses of one class of large blocks."""

    __slots__ = ("size", "used")

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.used = next(_ticks)

    def take(self) -> int:
        """A free address; IndexError if there is none."""
        pointer = self.pop()
        _totals.kept -= self.size
        return pointer

    def release(self, pointer: int) -> None:
        """Take a block back; called by finalisers, so it never waits for the lock."""
        self.append(pointer)
        self.used = next(_ticks)
        _totals.kept += self.size
        if _totals.kept > config.memory_cache << 20 and _totals.lock.acquire(blocking=False):
            try:
                _trim((config.memory_cache << 20) * 3 // 4)
            finally:
                _totals.lock.release()


def size_class(nbytes: int) -> int:
    """The bytes a block for ``nbytes`` really has.

    >>> size_class(0), size_class(65), size_class(4097), size_class(1_000_000)
    (64, 128, 4608, 1048576)
    """
    if nbytes <= 4096:
        return (nbytes + 63) & -64 or 64
    shift = nbytes.bit_length() - 4
    return -(-nbytes >> shift) << shift


def new_block(size: int) -> int:
    """A fresh address for a class whose free list is empty.

    Raises:
        OutOfMemoryError: if the system, its control group or ``config.memory_limit`` has no room.
    """
    try:
        return _new_block(size)
    except OutOfMemoryError:
        if not _relieve():
            raise
    return _new_block(size)


def _new_block(size: int) -> int:
    with _totals.lock:
        if size not in free_lists:
            free_lists[size] = [] if size <= SMALL else LargeClass(size)
        return _cut(size) if size <= SMALL else _map(size)


relief: Final[list[Callable[[], object]]] = []
"""What to do when memory is short: called once each before an allocation gives up."""
_relieving: Final = threading.local()


def _relieve() -> bool:
    """Let whoever keeps memory alive give some up; False where that is going on already."""
    if not relief or getattr(_relieving, "now", False):
        return False
    _relieving.now = True
    try:
        for give_up in relief:
            give_up()
    finally:
        _relieving.now = False
    return True


def _cut(size: int) -> int:
    """The next ``size`` bytes of the slab; what is left of a full slab is given up."""
    if _totals.slab + size > _totals.slab_end:
        base = _take_pages(_SLAB, _SLAB)
        _totals.mapped -= _totals.slab_end - _totals.slab
        _totals.slab, _totals.slab_end = base, base + _SLAB
    pointer = _totals.slab
    _totals.slab += size
    return pointer


def _map(size: int) -> int:
    """A mapping of its own; starts differ so that streams do not share cache sets."""
    huge = bool(config.huge_pages) and size >= 2 * _HUGE
    length = size + _COLOUR
    base = _take_pages(length + (_HUGE if huge else 0), size)
    start = base
    if huge:
        start = (base + _HUGE - 1) & -_HUGE
        os_host.advise_huge(start, length)
        length += _HUGE
    pointer = start + next(_ticks) * 5 % 16 * 256
    _mappings[pointer] = (base, length)
    return pointer


def _take_pages(length: int, nbytes: int) -> int:
    """``length`` bytes of pages, ``nbytes`` of which will be touched and are accounted for.

    Checked first; if need be, all that is kept for reuse is given back.
    """
    limit = config.memory_limit << 20
    if limit and getattr(_relieving, "now", False):
        limit += _RESERVE
    if limit and _totals.mapped + nbytes > limit:
        _trim(0)
        if _totals.mapped + nbytes > limit:
            raise _refusal(nbytes, max(limit - _totals.mapped, 0), "config.memory_limit")
    if nbytes >= _CHECKED:
        available = os_host.available_memory()
        if available is not None and nbytes > available:
            _trim(0)
            available = os_host.available_memory() or 0
            if nbytes > available:
                raise _refusal(nbytes, available, "the system")
    pointer = os_host.map_pages(length)
    if not pointer:
        _trim(0)
        pointer = os_host.map_pages(length)
    if not pointer:
        raise _refusal(nbytes, os_host.available_memory() or 0, "the system")
    _totals.mapped += nbytes
    return pointer


def _refusal(nbytes: int, available: int, who: str) -> OutOfMemoryError:
    return OutOfMemoryError(
        f"[memory] a buffer of {readable_size(nbytes)} does not fit: "
        f"{readable_size(memory_in_use())} are in use and {who} has {readable_size(available)} "
        "left; use smaller batches or dtypes, or drop tensors that are no longer needed"
    )


def _trim(target: int) -> None:
    """Give large blocks back until at most ``target`` bytes are kept. The lock is held."""
    classes = [c for c in list(free_lists.values()) if isinstance(c, LargeClass)]
    _totals.kept = sum(len(c) * c.size for c in classes)  # exact again, whatever threads raced
    for large in sorted(classes, key=lambda c: c.used):
        while large and _totals.kept > target:
            base, length = _mappings.pop(large.pop())
            os_host.unmap_pages(base, length)
            _totals.mapped -= large.size
            _totals.kept -= large.size


def trim_memory() -> int:
    """Give every large block that is kept for reuse back to the system; returns how many bytes.

    >>> trim_memory() >= 0
    True
    """
    with _totals.lock:
        before = _totals.mapped
        _trim(0)
        return before - _totals.mapped


def memory_in_use() -> int:
    """Bytes of blocks that live buffers hold (sizes rounded up to their classes).

    >>> memory_in_use() >= 0
    True
    """
    free = sum(len(blocks) * size for size, blocks in list(free_lists.items()))
    spare = _totals.slab_end - _totals.slab
    return max(_totals.mapped - free - spare, 0)


def memory_available() -> int:
    """Bytes new buffers may take: what is kept for reuse, and what the system still has.

    That is the least of what the machine, the control group and ``config.memory_limit`` have left.

    >>> memory_available() > 0
    True
    """
    found = os_host.available_memory()
    left = 2**62 if found is None else found
    if config.memory_limit:
        left = min(left, max((config.memory_limit << 20) - _totals.mapped, 0))
    return left + max(_totals.kept, 0)


def readable_size(nbytes: int) -> str:
    """A size as people read it.

    >>> readable_size(640), readable_size(5 << 20)
    ('640 B', '5.0 MiB')
    """
    value, unit = float(nbytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{nbytes} B" if unit == "B" else f"{value:.1f} {unit}"


def _after_fork() -> None:
    _totals.lock = threading.Lock()  # another thread may have held it when the process was copied


in_child(_after_fork)
