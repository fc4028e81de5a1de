"""What ran, and how long it took: the record that ``lm.profile`` keeps while it is active.

Input: every run of a program, with its plan and blueprint. Output: :class:`Run` records, one per
launch, and :class:`Compilation` records; where ``config.debug`` is 2 or more and no profile is
active, a line on standard error for each launch instead. Launches of a program follow one another,
so the start of each is the end of the one before. One program is recorded at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lamella.compiler.blueprint import Blueprint, Control, Step
from lamella.config import config
from lamella.ir.dim import Size, bind
from lamella.runtime.report import report

if TYPE_CHECKING:
    from lamella.runtime.launch import Passage, Plan

__all__ = ["Compilation", "Record", "Run", "active", "begin", "end"]


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

    def operations(self) -> int:
        """Floating-point operations of one launch, as far as they are known."""
        from lamella.compiler.costs import operations

        source = self.blueprint.sources[self.step.kernel]
        return 0 if source.call is not None else operations(source.kernel(), self.sizes)


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


class _Printed(Record):
    """Says of each launch at once how long it took, and keeps nothing."""

    def compiled(self, what: str, start: float, end: float) -> None:
        """Nothing: that a program was made is said where it is made."""

    def run(
        self, plan: Plan, blueprint: Blueprint, words: Sequence[int], symbols: Sequence[int],
        passage: Passage | None,
    ) -> None:  # fmt: skip
        """Run ``plan`` and print a line for each launch."""
        try:
            super().run(plan, blueprint, words, symbols, passage)
        finally:
            with self._lock:
                runs, self.runs = self.runs, []
            for run in runs:
                report(2, _line(run))


def _line(run: Run) -> str:
    times = f" {run.count} times" if run.count > 1 else ""
    text = f"kernel {run.source[:9]} {run.step.label}{times}: {run.seconds * 1e3:.4f} ms"
    if not run.seconds:
        return text
    rates = [run.operations() * run.count, run.value(run.step.nbytes) * run.count]
    flops, nbytes = (amount / run.seconds * 1e-9 for amount in rates)
    return f"{text}, {flops:.1f} GFLOP/s, {nbytes:.1f} GB/s"


def _unprofiled() -> Record | None:
    return _Printed() if config.debug >= 2 else None


def begin(record: Record) -> bool:
    """Have ``record`` note what runs from here on; false if another one does already."""
    global active
    if not (active is None or isinstance(active, _Printed)):
        return False
    active = record
    return True


def end() -> None:
    """Nothing is noted any more, but printed where that is asked for."""
    global active
    active = _unprofiled()


def _debug_changed() -> None:
    if active is None or isinstance(active, _Printed):
        end()


active: Record | None = _unprofiled()
config.watch("debug", _debug_changed)
