"""One line of progress that rewrites itself on a terminal, and plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

__all__ = ["Progress"]

_WIDTH = 24  # characters of the bar
_PAUSE = 0.1  # seconds between two drawings


class Progress:
    """A bar over ``total`` steps with a text beside it.

    >>> import io
    >>> out = io.StringIO()
    >>> bar = Progress(2, "epoch 1/1", out)
    >>> bar.advance("loss 0.5"); bar.advance("loss 0.4"); bar.finish("loss 0.4")
    >>> out.getvalue().strip()
    'epoch 1/1  loss 0.4'
    """

    def __init__(self, total: int, title: str, out: TextIO | None = None) -> None:
        self._total = max(total, 1)
        self._title = title
        self._out = sys.stdout if out is None else out
        self._live = self._out.isatty()
        self._done = 0
        self._drawn = 0.0

    def advance(self, text: str) -> None:
        """One step is done; draws at most ten times a second."""
        self._done += 1
        now = time.monotonic()
        if self._live and now - self._drawn >= _PAUSE:
            self._drawn = now
            filled = _WIDTH * self._done // self._total
            bar = "━" * filled + "╌" * (_WIDTH - filled)
            self._out.write(f"\r\x1b[2K{self._title}  {bar}  {text}")
            self._out.flush()

    def finish(self, text: str) -> None:
        """Leave the last state on a line of its own."""
        start = "\r\x1b[2K" if self._live else ""
        self._out.write(f"{start}{self._title}  {text}\n")
        self._out.flush()
