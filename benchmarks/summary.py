"""One row a workload: Lamella beside the best of the others, and a chart of it.

Input: the figures of a run. Output: rows, their Markdown table with the geometric mean, a second
table of every contestant, and a PNG. A ratio is the best other framework's median time divided by
Lamella's: above 1 Lamella is ahead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Figure, Work, duration
from lamella.cli.canvas import BLACK, GREY, Canvas

__all__ = ["Limits", "Row", "draw", "rest_table", "summary", "summary_table"]

_AHEAD = (46, 134, 87)
_BEHIND = (200, 80, 60)


@dataclass(frozen=True)
class Limits:
    """What a machine does at most in a second: float32 operations, bytes copied, bytes read."""

    flops: float
    copy: float
    read: float

    def best(self, other: Limits) -> Limits:
        """The higher of two measurements of each: a disturbance only lowers them."""
        pairs = zip(
            (self.flops, self.copy, self.read), (other.flops, other.copy, other.read), strict=True
        )
        return Limits(*map(max, pairs))

    def seconds(self, work: Work) -> float:
        """The least time that work can take."""
        return max(work.flops / self.flops, work.bytes / self.copy)

    def __str__(self) -> str:
        rates = f"{self.copy / 1e9:.1f} GB/s copied, {self.read / 1e9:.1f} GB/s read"
        return f"{self.flops / 1e9:.0f} GFLOP/s of multiply-adds in float32, {rates}"


@dataclass(frozen=True)
class Row:
    """A workload: Lamella's median in seconds, the others' from the fastest on, and what there is
    to do.
    """

    workload: str
    own: float
    others: tuple[tuple[str, float], ...]
    work: Work | None = None

    @property
    def best(self) -> str:
        """The fastest of the others; empty if there is none."""
        return self.others[0][0] if self.others else ""

    @property
    def ratio(self) -> float:
        """The best other time divided by Lamella's."""
        return self.others[0][1] / self.own if self.others else float("nan")


def summary(figures: Sequence[Figure]) -> list[Row]:
    """A row for every workload that was timed, in the order of the run."""
    first: dict[str, Figure] = {}
    others: dict[str, dict[str, float]] = {}
    for figure in figures:
        if math.isnan(figure.own):
            continue
        first.setdefault(figure.workload, figure)
        peers = others.setdefault(figure.workload, {})
        if figure.base:
            peers[figure.base] = figure.other
    return [
        Row(name, figure.own, tuple(sorted(others[name].items(), key=lambda p: p[1])), figure.work)
        for name, figure in first.items()
    ]


def mean(rows: Sequence[Row]) -> float:
    """The geometric mean of the ratios.

    >>> mean([Row("a", 1.0, (("numpy", 2.0),)), Row("b", 2.0, (("numpy", 1.0),))])
    1.0
    """
    ratios = [row.ratio for row in rows if row.others]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")


def _ratio(row: Row) -> str:
    return f"{row.ratio:.2f}" if row.ratio >= 1 else f"**{row.ratio:.2f}**"


def summary_table(rows: Sequence[Row], limits: Limits) -> str:
    """The rows as Markdown, with the share of the machine's limit where the work is known.

    >>> row = Row("a", 2e-3, (("numpy", 3e-3),), Work(flops=1e8))
    >>> print(summary_table([row], Limits(1e11, 1e9, 1e9)).splitlines()[2])
    | a | 2 ms | numpy | 3 ms | 1.50 | 50 % |
    """
    lines = [
        "| workload | Lamella | best other | its time | ratio | of the limit |",
        "| --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for row in rows:
        best, seconds = row.others[0] if row.others else ("", math.nan)
        cells = (
            row.workload,
            duration(row.own),
            best,
            duration(seconds) if best else "",
            _ratio(row) if best else "",
            f"{limits.seconds(row.work) / row.own:.0%}".replace("%", " %") if row.work else "",
        )
        lines.append("| " + " | ".join(cells) + " |")
    if any(row.others for row in rows):
        lines.append(f"| geometric mean | | | | {mean(rows):.2f} | |")
    return "\n".join(lines) + "\n"


def rest_table(rows: Sequence[Row]) -> str:
    """Every contestant's median as Markdown: a column each, those with most workloads first.

    >>> print(rest_table([Row("a", 2e-3, (("numpy", 3e-3),)), Row("b", 1.0, ())]))
    | workload | lamella | numpy |
    | --- | ---: | ---: |
    | a | 2 ms | 3 ms |
    | b | 1 s |  |
    <BLANKLINE>
    """
    count: dict[str, int] = {}
    for row in rows:
        for name, _ in row.others:
            count[name] = count.get(name, 0) + 1
    names = sorted(count, key=lambda name: -count[name])
    lines = ["| workload | lamella | " + " | ".join(names) + " |"] if names else []
    lines += ["| --- | ---: |" + " ---: |" * len(names)] if names else []
    for row in rows if names else ():
        times = dict(row.others)
        cells = [duration(times[name]) if name in times else "" for name in names]
        lines.append(f"| {row.workload} | {duration(row.own)} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def draw(rows: Sequence[Row], path: Path) -> None:
    """A bar for every ratio, on a logarithmic scale from 1/8 to 8, as PNG."""
    shown = [row for row in rows if row.others]
    left, width, step = 330, 480, 22
    canvas = Canvas(70 + step * len(shown), left + width + 190)
    canvas.text(12, 16, "best other framework's time / Lamella's (right of 1: ahead)")
    middle = left + width // 2
    for power in range(-3, 4):
        column = middle + power * width // 6
        canvas.rectangle(46, column, 56 + step * len(shown), column + 1, GREY)
        canvas.text(36, column - 8, f"{2.0**power:g}", scale=1)
    for number, row in enumerate(shown):
        top = 52 + step * number
        end = middle + round(max(-3.0, min(3.0, math.log2(row.ratio))) * width / 6)
        colour = _AHEAD if row.ratio >= 1 else _BEHIND
        canvas.rectangle(top, min(middle, end), top + step - 8, max(middle, end) + 1, colour)
        canvas.text(top + 3, 16, row.workload[:50], scale=1)
        canvas.text(top + 3, left + width + 12, f"{row.ratio:.2f} {row.best}", scale=1)
    canvas.rectangle(46, middle, 56 + step * len(shown), middle + 2, BLACK)
    canvas.save(path)
