"""Measuring contestants in turns, and the figures that come out.

Input: a workload module with contestants (functions ``lamella``, ``numpy``, ``torch`` … that return
a :class:`Task`). Output: :class:`Figure` records. Invariants: each contestant has a process of its
own, so that thread pools and allocators do not meet; in every round each contestant runs once for
about the same time, in an order that rotates; nothing is timed before its result agrees with the
first contestant's.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.contestant import ROOT, Array, Contestant, SkippedError, Task, wanted_peers

__all__ = [
    "ROOT", "Array", "Figure", "Task", "Timing", "Work", "against", "duration", "python", "race",
    "race_cases", "table", "within",
]  # fmt: skip

SLOW = 20.0  # seconds of a run; a contestant that takes longer is not timed further


@dataclass(frozen=True)
class Work:
    """What a run must do at least: floating-point operations (a multiply-add is two), and bytes to
    and from memory.
    """

    flops: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True)
class Figure:
    """One measured figure: ``ratio`` of ``subject`` to ``base``; ``wanted`` says how good.

    Where it compares times of a workload, ``own`` and ``other`` are Lamella's and the other
    framework's median in seconds, and ``work`` is what there is to do.
    """

    workload: str
    subject: str
    base: str
    ratio: float
    detail: str
    wanted: str = ""
    passed: bool | None = None
    own: float = float("nan")
    other: float = float("nan")
    work: Work | None = None


@dataclass(frozen=True)
class Timing:
    """Seconds for one run: the median of the rounds and their quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timing:
        """The timing of a list of rounds (at least two)."""
        low, median, high = statistics.quantiles(seconds, n=4)
        return cls(median, low, high)

    def __str__(self) -> str:
        return f"{duration(self.median)} ({duration(self.low)} to {duration(self.high)})"


def duration(seconds: float) -> str:
    """A time with three significant digits and its unit.

    >>> duration(0.0000123), duration(2.5)
    ('12.3 µs', '2.5 s')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def disagreement(value: Array, wanted: Array, rtol: float) -> float:
    """The largest error relative to the largest wanted value, where it exceeds ``rtol``; else 0."""
    if value.shape != wanted.shape:
        return float("inf")
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    scale = float(np.max(np.abs(wanted.astype(wide)))) or 1.0
    error = float(np.max(np.abs(value.astype(wide) - wanted.astype(wide)))) / scale
    return error if not error <= rtol else 0.0


def race(
    workload: str, names: Sequence[str], rounds: int = 9, target: float = 0.2, threads: int = 2,
    rtol: float = 1e-4, case: str = "",
) -> tuple[dict[str, Timing], dict[str, str]]:  # fmt: skip
    """Time the contestants of a workload in turns; returns timings, and the reasons of those left
    out.

    The first contestant is the reference of the agreement check. ``target`` is the time in seconds
    that a contestant has in each round. With a ``case`` the workload's contestants are called
    NAME_CASE. Frameworks that BENCHMARKS_PEERS does not list are not started, where it is set.
    """
    left_out: dict[str, str] = {}
    running: list[tuple[Contestant, int]] = []
    wanted: Array | None = None
    try:
        for name in wanted_peers(list(names)):
            contestant = Contestant(workload, name, threads, case)
            try:
                value = contestant.result()
                wanted = value if wanted is None else wanted
                repeats = _repeats(contestant, value, wanted, rtol, target)
                running.append((contestant, repeats))
            except SkippedError as reason:
                contestant.__exit__(None, None, None)
                if name == "lamella":
                    raise RuntimeError(f"Lamella was not timed: {reason}") from reason
                left_out[name] = str(reason)
            except BaseException:
                contestant.__exit__(None, None, None)
                raise
        seconds = _rounds(running, rounds)
    finally:
        for contestant, _ in running:
            contestant.__exit__(None, None, None)
    return {name: Timing.of(times) for name, times in seconds.items()}, left_out


def _repeats(
    contestant: Contestant, value: Array, wanted: Array, rtol: float, target: float
) -> int:
    """How often a contestant runs in a round, if it agrees and is fast enough to be timed."""
    if error := disagreement(value, wanted, rtol):
        raise SkippedError(f"its result differs by {error:.1e}, so it was not timed")
    once = contestant.seconds(1)
    if once > SLOW:
        raise SkippedError(f"too slow: {duration(once)} a run")
    if once < target:
        once = contestant.seconds(3)
    return max(1, min(100_000, round(target / once)))


def _rounds(running: Sequence[tuple[Contestant, int]], rounds: int) -> dict[str, list[float]]:
    """The seconds of each contestant in each round, in turns that rotate."""
    seconds: dict[str, list[float]] = {}
    for number in range(rounds):
        start = number % max(len(running), 1)
        for contestant, repeats in [*running[start:], *running[:start]]:
            seconds.setdefault(contestant.name, []).append(contestant.seconds(repeats))
    return seconds


def race_cases(
    workload: str, names: Sequence[str], cases: Sequence[str], rounds: int = 5,
    target: float = 0.01, threads: int = 2, rtol: Mapping[str, float] | None = None,
) -> dict[str, dict[str, Timing]]:  # fmt: skip
    """As :func:`race` for many short cases: one process a framework, whose contestants are called
    FRAMEWORK_CASE. Returns the timings of each case; results that disagree are left out (by more
    than 1e-4 of the largest, or what ``rtol`` says of a case).
    """
    running: list[Contestant] = []
    found: dict[str, dict[str, Timing]] = {}
    try:
        for name in wanted_peers(list(names)):
            contestant = Contestant(workload, name, threads, cases[0])
            try:
                contestant.result()
                running.append(contestant)
            except SkippedError:
                contestant.__exit__(None, None, None)
        for case in cases:
            found[case] = _race_case(running, case, rounds, target, (rtol or {}).get(case, 1e-4))
    finally:
        for contestant in running:
            contestant.__exit__(None, None, None)
    return found


def _race_case(
    running: Sequence[Contestant], case: str, rounds: int, target: float, rtol: float
) -> dict[str, Timing]:
    wanted: Array | None = None
    taking_part: list[tuple[Contestant, int]] = []
    for contestant in running:
        try:
            contestant.ask(f"task {contestant.name}_{case}")
            value = contestant.result()
            wanted = value if wanted is None else wanted
            taking_part.append((contestant, _repeats(contestant, value, wanted, rtol, target)))
        except SkippedError:
            continue
    seconds = _rounds(taking_part, rounds)
    return {name: Timing.of(times) for name, times in seconds.items()}


def against(
    workload: str, timings: dict[str, Timing], left_out: dict[str, str],
    limits: dict[str, float], work: Work | None = None,
) -> list[Figure]:  # fmt: skip
    """Lamella's time as a ratio to each other contestant's; ``limits`` are the ratios wanted."""
    own = timings.get("lamella")
    figures = [
        Figure(workload, "lamella", name, float("nan"), f"left out: {reason}")
        for name, reason in left_out.items()
    ]
    for name, timing in timings.items():
        if own is None or name == "lamella":
            continue
        ratio, limit = own.median / timing.median, limits.get(name)
        wanted, passed = ("", None) if limit is None else (f"≤ {limit:.3g}", ratio <= limit)
        detail = f"{own}, {name} {timing}"
        times = own.median, timing.median
        figures.append(
            Figure(workload, "lamella", name, ratio, detail, wanted, passed, *times, work)
        )
    if own is not None and len(timings) == 1:
        nan = float("nan")
        figures.append(Figure(workload, "lamella", "", nan, str(own), own=own.median, work=work))
    return figures


def within(workload: str, base: str, value: float, limit: float, detail: str) -> Figure:
    """A figure that is a value as a ratio to the limit it must keep."""
    ratio = value / limit
    return Figure(workload, "lamella", base, ratio, detail, "≤ 1", ratio <= 1.0)


def python(code: str, *arguments: str, **environment: str) -> str:
    """Run code in a fresh interpreter and return what it prints.

    Raises:
        RuntimeError: when it fails, with its error output.
    """
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, **environment}, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the measured program failed:\n{done.stderr[-3000:]}")
    return done.stdout


def table(figures: Sequence[Figure]) -> str:
    """The figures as a Markdown table."""
    lines = [
        "| workload | ratio | to | wanted | | detail |",
        "| --- | ---: | --- | --- | --- | --- |",
    ]
    marks = {True: "yes", False: "**no**", None: ""}
    for figure in figures:
        ratio = "" if figure.ratio != figure.ratio else f"{figure.ratio:.3g}"
        cells = (
            figure.workload,
            ratio,
            figure.base,
            figure.wanted,
            marks[figure.passed],
            figure.detail,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
