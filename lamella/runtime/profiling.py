"""What ran, and how long it took: the record that ``lm.profile`` keeps while it is active.

Input: every run of a program, with its plan and blueprint. Output: :class:`Run` records, one per
launch, and :class:`Compilation` records. Launches of a program follow one another, so the start of
each is the end of the one before. One program is recorded at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lamella.compiler.blueprint import Blueprint, Control, Step
from lamella.ir.dim import Size, bind

if TYPE_CHECKING:
    from lamella.runtime.launch import Passage, Plan

__all__ = ["Compilation", "Record", "Run", "active"]


@dataclass(frozen=True, slots=True)
class Run:
    """One launch: when it began (seconds of ``time.perf_counter``), how long it took, its step."""

    start: float
    seconds: float
    step: Step
    source: str
    sizes: dict[str, int]
    blueprint: Blueprint
    count: int = 1  # more than once in a loop, where the time is that of all iterations

    def value(self, size: Size) -> int:
        """A size of the step as a number."""
        return bind(size, self.sizes)


@dataclass(frozen=True, slots=True)
class Compilation:
    """One program made or loaded."""

    what: str
    start: float
    seconds: float


@dataclass(slots=True)
class Record:
    """Everything that ran while this was active."""

    runs: list[Run] = field(default_factory=list)
    compilations: list[Compilation] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self.runs.clear()
            self.compilations.clear()

    def compiled(self, what: str, start: float, end: float) -> None:
        """Note that a program was made."""
        self.compilations.append(Compilation(what, start, end - start))

    def run(
        self, plan: Plan, blueprint: Blueprint, words: Sequence[int], symbols: Sequence[int],
        passage: Passage | None,
    ) -> None:  # fmt: skip
        """Run ``plan`` and note the time of each launch."""
        sizes = dict(zip(blueprint.symbols, symbols, strict=True))
        with self._lock:
            plan.record_times()
            start = time.perf_counter()
            try:
                plan.run(words, passage)
            finally:
                times, counts = plan.times(), plan.counts()
                plan.record_times(False)
            for step, nanoseconds, count in zip(blueprint.steps, times, counts, strict=True):
                if isinstance(step, Control) or not count:
                    continue
                name = blueprint.sources[step.kernel].name
                seconds = nanoseconds * 1e-9
                self.runs.append(Run(start, seconds, step, name, sizes, blueprint, count))
                start += nanoseconds * 1e-9


active: Record | None = None
