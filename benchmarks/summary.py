"""One row a workload: Lamella beside the best of the others, and a chart of it.

Input: the figures of a run. Output: rows, their Markdown table with the geometric mean, and a PNG.
A ratio is the best other framework's median time divided by Lamella's: above 1 Lamella is ahead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Figure, duration
from lamella.cli.canvas import BLACK, GREY, Canvas

__all__ = ["Row", "draw", "summary", "summary_table"]

_AHEAD = (46, 134, 87)
_BEHIND = (200, 80, 60)


@dataclass(frozen=True)
class Row:
    """A workload: Lamella's median in seconds, and the others' from the fastest on."""

    workload: str
    own: float
    others: tuple[tuple[str, float], ...]

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
    own: dict[str, float] = {}
    others: dict[str, dict[str, float]] = {}
    for figure in figures:
        if math.isnan(figure.own):
            continue
        own[figure.workload] = figure.own
        peers = others.setdefault(figure.workload, {})
        if figure.base:
            peers[figure.base] = figure.other
    return [
        Row(name, seconds, tuple(sorted(others[name].items(), key=lambda item: item[1])))
        for name, seconds in own.items()
    ]


def mean(rows: Sequence[Row]) -> float:
    """The geometric mean of the ratios.

    >>> mean([Row("a", 1.0, (("numpy", 2.0),)), Row("b", 2.0, (("numpy", 1.0),))])
    1.0
    """
    ratios = [row.ratio for row in rows if row.others]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")


def summary_table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    lines = [
        "| workload | Lamella | best other | ratio | the rest |",
        "| --- | ---: | --- | ---: | --- |",
    ]
    for row in rows:
        if not row.others:
            lines.append(f"| {row.workload} | {duration(row.own)} | | | |")
            continue
        (best, seconds), *rest = row.others
        ratio = f"{row.ratio:.2f}" if row.ratio >= 1 else f"**{row.ratio:.2f}**"
        others = ", ".join(f"{name} {duration(time)}" for name, time in rest)
        lines.append(
            f"| {row.workload} | {duration(row.own)} | {best} {duration(seconds)} | {ratio} "
            f"| {others} |"
        )
    if any(row.others for row in rows):
        lines.append(f"| geometric mean | | | {mean(rows):.2f} | |")
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
