"""What ``LAMELLA_DEBUG`` makes visible, and what people are told while they wait: lines on standard
error.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lamella.config import config

if TYPE_CHECKING:
    from lamella.compiler.blueprint import Source
    from lamella.compiler.emit.target import Target

__all__ = ["Progress", "report", "report_kernels"]

_PATIENCE: Final = 2.0  # seconds after which waiting is explained


def report(level: int, text: str) -> None:
    """Write ``text`` where debugging is at least at ``level`` (see ``lamella.config``)."""
    if config.debug >= level:
        sys.stderr.write(f"[lamella] {text}\n")


def report_kernels(sources: Sequence[Source], where: Target) -> None:
    """What a program that is new to this process consists of: the loop IR of its kernels from
    level 3 on, their LLVM IR from level 4 on, their assembly from level 5 on.
    """
    if config.debug < 3:
        return
    from lamella.compiler import codegen
    from lamella.compiler.emit.llvm import emit_module
    from lamella.ir.text import kernel_text

    kernels = [source.kernel() for source in sources if source.call is None]
    for kernel in kernels:
        report(3, f"loop IR\n{kernel_text(kernel)}")
    if kernels and config.debug >= 4:
        report(4, f"LLVM IR\n{emit_module(kernels, where)}")
    if kernels and config.debug >= 5:
        report(5, f"assembly\n{codegen.assembly(kernels, where)}")


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
