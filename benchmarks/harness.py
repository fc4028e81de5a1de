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
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
ROOT = Path(__file__).resolve().parent.parent
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LAMELLA_THREADS")


@dataclass(frozen=True)
class Task:
    """What a contestant repeats (``run``, complete when it returns) and its last result."""

    run: Callable[[], object]
    result: Callable[[], Array]


@dataclass(frozen=True)
class Figure:
    """One measured figure: ``ratio`` of ``subject`` to ``base``; ``wanted`` says how good.

    Where it compares times of a workload, ``own`` and ``other`` are Lamella's and the other
    framework's median in seconds.
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


class SkippedError(Exception):
    """A contestant that cannot run here, with the reason."""


FRAMEWORKS = (
    "numpy", "scipy", "torch", "jax", "onnxruntime", "ort", "openvino", "tinygrad", "mlx",
)  # fmt: skip


def _is_peer(name: str) -> bool:
    """Whether a contestant is another framework, as torch, torch_compile or jax_sq256 are."""
    return any(name == peer or name.startswith(f"{peer}_") for peer in FRAMEWORKS)


class Contestant:
    """One contestant in its own process, asked for results and times over a pipe."""

    def __init__(self, workload: str, name: str, threads: int) -> None:
        environment = {**os.environ, **dict.fromkeys(THREADS, str(threads))}
        command = [sys.executable, "-m", "benchmarks.worker", workload, name]
        self.name = name
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._ready = False

    def __enter__(self) -> Contestant:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, question: str) -> str:
        """Send a line and return the answer.

        Raises:
            SkippedError: when the contestant's framework is not there.
            RuntimeError: when the contestant failed.
        """
        process = self._process
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise RuntimeError(f"{self.name} has no pipe")
        if not self._ready:
            self._ready = True
            self._answer(process.stdout.readline())
        process.stdin.write(question + "\n")
        return self._answer(process.stdout.readline())

    def _answer(self, line: str) -> str:
        word, _, rest = line.strip().partition(" ")
        if word == "skipped":
            raise SkippedError(rest)
        if word != "ok":
            message = self._process.stderr.read() if self._process.stderr else ""
            raise RuntimeError(f"{self.name} failed:\n{message[-3000:]}")
        return rest

    def result(self) -> Array:
        """The value that the contestant computes."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "value.npy"
            self.ask(f"result {path}")
            value: Array = np.load(path)
            return value

    def seconds(self, repeats: int) -> float:
        """The mean time of one run over ``repeats`` runs."""
        return float(self.ask(f"time {repeats}"))


def disagreement(value: Array, wanted: Array, rtol: float) -> float:
    """The largest error relative to the largest wanted value, where it exceeds ``rtol``; else 0."""
    if value.shape != wanted.shape:
        return float("inf")
    scale = float(np.max(np.abs(wanted.astype(np.float64)))) or 1.0
    error = float(np.max(np.abs(value.astype(np.float64) - wanted.astype(np.float64)))) / scale
    return error if not error <= rtol else 0.0


def race(
    workload: str, names: Sequence[str], rounds: int = 9, target: float = 0.2, threads: int = 2,
    rtol: float = 1e-4,
) -> tuple[dict[str, Timing], dict[str, str]]:  # fmt: skip
    """Time the contestants of a workload in turns; returns timings, and the reasons of those left
    out.

    The first contestant is the reference of the agreement check. ``target`` is the time in seconds
    that a contestant has in each round. With ``BENCHMARKS_ALONE`` set, frameworks other than
    Lamella are not started.
    """
    if os.environ.get("BENCHMARKS_ALONE"):
        names = [name for name in names if not _is_peer(name)]
    timings: dict[str, list[float]] = {}
    left_out: dict[str, str] = {}
    running: list[tuple[Contestant, int]] = []
    wanted: Array | None = None
    try:
        for name in names:
            contestant = Contestant(workload, name, threads).__enter__()
            try:
                value = contestant.result()
                wanted = value if wanted is None else wanted
                if error := disagreement(value, wanted, rtol):
                    raise SkippedError(f"its result differs by {error:.1e}, so it was not timed")
                once = contestant.seconds(3)
                running.append((contestant, max(1, min(100_000, round(target / once)))))
            except SkippedError as reason:
                left_out[name] = str(reason)
                contestant.__exit__(None, None, None)
        for number in range(rounds):
            start = number % len(running)
            for contestant, repeats in running[start:] + running[:start]:
                timings.setdefault(contestant.name, []).append(contestant.seconds(repeats))
    finally:
        for contestant, _ in running:
            contestant.__exit__(None, None, None)
    return {name: Timing.of(seconds) for name, seconds in timings.items()}, left_out


def race_cases(
    workload: str, names: Sequence[str], cases: Sequence[str], rounds: int = 5,
    target: float = 0.01, threads: int = 2, rtol: float = 1e-4,
) -> dict[str, dict[str, Timing]]:  # fmt: skip
    """As :func:`race` for many short cases: one process a framework, whose contestants are called
    FRAMEWORK_CASE. Returns the timings of each case; results that disagree are left out.
    """
    if os.environ.get("BENCHMARKS_ALONE"):
        names = [name for name in names if not _is_peer(name)]
    running: list[Contestant] = []
    found: dict[str, dict[str, Timing]] = {}
    try:
        for name in names:
            contestant = Contestant(workload, f"{name}_{cases[0]}", threads).__enter__()
            contestant.name = name
            try:
                contestant.result()
                running.append(contestant)
            except SkippedError:
                contestant.__exit__(None, None, None)
        for case in cases:
            found[case] = _race_case(running, case, rounds, target, rtol)
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
        contestant.ask(f"task {contestant.name}_{case}")
        value = contestant.result()
        wanted = value if wanted is None else wanted
        if not disagreement(value, wanted, rtol):
            once = contestant.seconds(3)
            taking_part.append((contestant, max(1, min(10_000, round(target / once)))))
    seconds: dict[str, list[float]] = {}
    for number in range(rounds):
        start = number % max(len(taking_part), 1)
        for contestant, repeats in taking_part[start:] + taking_part[:start]:
            seconds.setdefault(contestant.name, []).append(contestant.seconds(repeats))
    return {name: Timing.of(times) for name, times in seconds.items()}


def against(
    workload: str, timings: dict[str, Timing], left_out: dict[str, str], limits: dict[str, float]
) -> list[Figure]:
    """Lamella's time as a ratio to each other contestant's; ``limits`` are the ratios wanted."""
    figures = []
    own = timings.get("lamella")
    for name, reason in left_out.items():
        figures.append(Figure(workload, "lamella", name, float("nan"), f"skipped: {reason}"))
    for name, timing in timings.items():
        if own is None or name == "lamella":
            continue
        ratio = own.median / timing.median
        limit = limits.get(name)
        figures.append(
            Figure(
                workload,
                "lamella",
                name,
                ratio,
                f"{own}, {name} {timing}",
                "" if limit is None else f"≤ {limit:.3g}",
                None if limit is None else ratio <= limit,
                own.median,
                timing.median,
            )
        )
    if own is not None and len(timings) == 1:
        figures.append(Figure(workload, "lamella", "", float("nan"), str(own), own=own.median))
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
