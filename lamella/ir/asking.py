"""What the code of a function that is traced may ask of a size that is known only at run time.

Input: for the time of a trace, what gives a size as a number (``known_as``). Output: that, for
``Dim`` to pass questions on to, and whether it is a user's code that asks (``by_user``): rules of
Lamella's own compare sizes by their form, and a size that is another is to them one that may
differ, but a person's ``x.shape[0] == 5`` is a question about a number.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

__all__ = ["Known", "by_user", "known_as", "known_sizes"]

_PACKAGE: Final = __name__.split(".")[0]


@dataclass(frozen=True, slots=True)
class Known:
    """What knows the sizes of the call that is traced.

    Args:
        number: a size as a number that notes what is asked of it.
        is_strict: whether nothing may depend on a size unseen: the caller has not said that any
            size will do.
    """

    number: Callable[[Any], Any]
    is_strict: bool


known_sizes: Final[ContextVar[Known | None]] = ContextVar("known_sizes", default=None)


@contextmanager
def known_as(number: Callable[[Any], Any], is_strict: bool) -> Iterator[None]:
    """Inside, sizes answer by the numbers that ``number`` gives for them."""
    token = known_sizes.set(Known(number, is_strict))
    try:
        yield
    finally:
        known_sizes.reset(token)


def by_user() -> bool:
    """Whether the caller's caller is a user's code, itself or through the standard library."""
    frame: FrameType | None = sys._getframe(1).f_back
    while frame is not None:
        root = str(frame.f_globals.get("__name__", _PACKAGE)).partition(".")[0]
        if root == _PACKAGE:
            return False
        if root == "__main__" or root not in sys.stdlib_module_names:
            return True
        frame = frame.f_back
    return False
