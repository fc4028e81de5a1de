"""What ``LAMELLA_DEBUG`` makes visible: lines on standard error, each from one level up."""

from __future__ import annotations

import sys

from lamella.config import config

__all__ = ["report"]


def report(level: int, text: str) -> None:
    """Write ``text`` where debugging is at least at ``level`` (see ``lamella.config``)."""
    if config.debug >= level:
        sys.stderr.write(f"[lamella] {text}\n")
