"""Locks that outlive ``os.fork``: a child has the calling thread only, and what other threads held
when the process was copied would stay locked in it for ever.

Input: nothing. Output: reentrant locks, which the child finds free unless its own thread holds
them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakSet

__all__ = ["in_child", "new_lock"]

_locks: Final[WeakSet[Any]] = WeakSet()


def new_lock() -> threading.RLock:
    """A reentrant lock (``threading.RLock``).

    >>> with new_lock() as taken:
    ...     taken
    True
    """
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def in_child(action: Callable[[], None]) -> None:
    """Call ``action`` in every child that this process forks, where there are such."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=action)


def _free() -> None:
    for lock in list(_locks):
        if not lock._is_owned():
            lock._at_fork_reinit()


in_child(_free)
