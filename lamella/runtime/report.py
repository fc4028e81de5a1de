"""What ``LAMELLA_DEBUG`` makes visible, and what people are told while they wait: lines on standard
error.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from lamella.config import config

__all__ = ["Progress", "report"]

_PATIENCE: Final = 2.0  # seconds after which waiting is explained


def report(level: int, text: str) -> None:
    """Write ``text`` where debugging is at least at ``level`` (see ``lamella.config``)."""
    if config.debug >= level:
        sys.stderr.write(f"[lamella] {text}\n")


class Progress:
    """One line about work that takes more than two seconds: rewritten in place on a terminal,
    written once elsewhere.
    """

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._start = time.monotonic()
        self._shown = False

    def show(self, done: int) -> None:
        """Say how far the work is, if it is time to."""
        seconds = time.monotonic() - self._start
        terminal = sys.stderr is not None and sys.stderr.isatty()
        if seconds < _PATIENCE or sys.stderr is None or (self._shown and not terminal):
            return
        self._shown = True
        text = f"[lamella] {self._what}: {done} of {self._total}, {seconds:.0f} s"
        sys.stderr.write(f"\r{text}" if terminal else f"{text}\n")
        sys.stderr.flush()

    def end(self) -> None:
        """The work is done: the line on a terminal makes way."""
        if self._shown and sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
