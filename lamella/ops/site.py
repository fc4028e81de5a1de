"""Where in the user's program an operation was recorded.

Output: ``"file.py:12"``, kept in ``Node.site`` by the few operations that may fail when they run
(an index outside its axis), so that the exception can name the line.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lamella.config import config
from lamella.ir.node import recording

__all__ = ["user_site"]

_PACKAGE = str(Path(__file__).resolve().parent.parent)


def user_site() -> str | None:
    """The file and line of the innermost frame outside Lamella; None when there is no such frame.

    >>> user_site().rsplit(":", 1)[1]
    '1'
    """
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _lines_changed() -> None:
    recording.line = user_site if config.lines or config.debug_nans else None


config.watch("lines", _lines_changed)
config.watch("debug_nans", _lines_changed)
_lines_changed()
