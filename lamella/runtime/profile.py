"""``lm.profile``: where the time of a piece of code went, kernel by kernel.

Input: what ran inside the ``with`` block (``profiling.Record``). Output: a table by kernel, a trace
for Chrome's and Perfetto's viewers (``.json``), or a page to read (``.html``).
"""

from __future__ import annotations

import html
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from lamella.config import config
from lamella.errors import OptionError
from lamella.files import replaced
from lamella.runtime import profiling
from lamella.runtime.limits import Limits, limits

__all__ = ["Row", "profile"]

_SUFFIXES: Final = (".json", ".html")


@dataclass(slots=True)
class Row:
    """The launches of one kernel for the same operations: totals in seconds, floating-point
    operations and bytes (of the arrays read and written), and the lines that recorded them.
    """

    name: str
    label: str
    lines: tuple[str, ...]
    count: int = 0
    seconds: float = 0.0
    flops: float = 0.0
    nbytes: float = 0.0

    def share(self, most: Limits) -> float:
        """The least time the machine could need, as a share of the time taken."""
        least = max(self.flops / most.flops, self.nbytes / most.copy)
        return least / self.seconds if self.seconds else 0.0


class profile:  # noqa: N801 - used as a function is
    """Times every kernel that runs inside the ``with`` block.

    Args:
        path: a file to write when the block ends: ``.json`` is a trace for ``chrome://tracing`` and
            Perfetto, ``.html`` a page to read; None writes nothing.

    ``print(p)`` shows a table: each kernel with the lines of the program that recorded its
    operations, launches, time, GFLOP/s, GB/s, and the share of what the machine could do at most
    (by its multiply-adds or its memory, whichever binds; data that stays in caches can exceed the
    latter). Programs are made again inside the block, with those lines noted: the last line says
    how long that took, and the first launches of each find its memory cold. Run what is profiled
    once inside the block and call :meth:`restart` to see neither.

    Raises:
        OptionError: for another kind of file, or if a profile is active already.

    >>> import lamella as lm
    >>> with lm.profile() as p:
    ...     _ = lm.sum(lm.exp(lm.ones((64, 64)))).item()
    >>> any("reduce_sum" in row.label for row in p.rows())
    True
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._path = None if path is None else Path(path)
        if self._path is not None and self._path.suffix not in _SUFFIXES:
            raise OptionError(
                f"[profile] {self._path.name} is neither .json (a trace) nor .html (a page); "
                "name a file with one of these endings"
            )
        self.record = profiling.Record()
        self.seconds = 0.0

    def __enter__(self) -> profile:
        if not profiling.begin(self.record):
            raise OptionError("[profile] a profile is active already; profiles do not nest")
        self._lines = config.lines
        config.lines = 1
        self._start = time.perf_counter()
        return self

    def restart(self) -> None:
        """Forget what ran so far: the block begins here, with programs made and memory warm.

        >>> import lamella as lm
        >>> with lm.profile() as p:
        ...     for _ in range(2):
        ...         p.restart()
        ...         _ = lm.sum(lm.exp(lm.ones((64, 64)))).item()
        >>> sum(row.count for row in p.rows()) > 0, len(p.record.compilations)
        (True, 0)
        """
        self.record.clear()
        self._start = time.perf_counter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.seconds = time.perf_counter() - self._start
        profiling.end()
        config.lines = self._lines
        if self._path is not None:
            text = self.trace() if self._path.suffix == ".json" else self.page()
            with replaced(self._path) as file:
                file.write(text.encode())

    def rows(self) -> list[Row]:
        """One row per kernel and what it computes, the most expensive first."""
        found: dict[tuple[str, str, tuple[str, ...]], Row] = {}
        counted: dict[tuple[str, tuple[tuple[str, int], ...]], int] = {}
        for run in self.record.runs:
            lines = tuple(dict.fromkeys(map(_short, run.step.lines)))
            key = (run.source, run.step.label, lines)
            row = found.setdefault(key, Row(run.source, run.step.label, lines))
            sized = (run.source, tuple(run.sizes.items()))
            if sized not in counted:
                counted[sized] = run.operations()
            row.count += run.count
            row.seconds += run.seconds
            row.flops += counted[sized] * run.count
            row.nbytes += run.value(run.step.nbytes) * run.count
        return sorted(found.values(), key=lambda row: -row.seconds)

    def _cells(self) -> list[tuple[str, ...]]:
        rows = self.rows()
        total = sum(row.seconds for row in rows) or 1.0
        most = limits()
        return [
            (
                row.name[:9], row.label, ", ".join(row.lines), f"{row.count}",
                f"{row.seconds * 1e3:.3f}", f"{100 * row.seconds / total:.1f}",
                f"{row.flops / row.seconds / 1e9:.1f}" if row.seconds else "",
                f"{row.nbytes / row.seconds / 1e9:.1f}" if row.seconds else "",
                f"{100 * row.share(most):.0f}",
            )
            for row in rows
        ]  # fmt: skip

    def _summary(self) -> str:
        inside = sum(run.seconds for run in self.record.runs)
        made = sum(one.seconds for one in self.record.compilations)
        most = limits()
        return (
            f"{self.seconds * 1e3:.2f} ms in all: {inside * 1e3:.2f} ms in "
            f"{sum(run.count for run in self.record.runs)} launches, {made * 1e3:.2f} ms making "
            f"{len(self.record.compilations)} programs; the machine's limits are "
            f"{most.flops / 1e9:.0f} GFLOP/s, {most.copy / 1e9:.1f} GB/s copied, "
            f"{most.read / 1e9:.1f} GB/s read"
        )

    def __str__(self) -> str:
        cells = [_HEAD, *(tuple(_cut(c, 44) for c in row) for row in self._cells())]
        widths = [max(len(row[i]) for row in cells) for i in range(len(_HEAD))]
        lines = []
        for row in cells:
            texts = [
                c.ljust(w) if i < 3 else c.rjust(w)
                for i, (c, w) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(texts).rstrip())
        return "\n".join([*lines, self._summary()])

    def trace(self) -> str:
        """The launches and compilations in Chrome's trace event format (JSON)."""
        events: list[dict[str, object]] = []
        for run in self.record.runs:
            details = {"lines": run.step.lines, "bytes": run.value(run.step.nbytes)}
            events.append(self._event(run.step.label, run.start, run.seconds, 1, details))
        for one in self.record.compilations:
            what = {"program": one.what}
            events.append(self._event("make a program", one.start, one.seconds, 2, what))
        for number, name in ((1, "kernels"), (2, "compiler")):
            events.append({
                "name": "thread_name", "ph": "M", "pid": 1, "tid": number, "args": {"name": name}
            })  # fmt: skip
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})

    def _event(
        self, name: str, start: float, seconds: float, thread: int, details: Mapping[str, object]
    ) -> dict[str, object]:
        return {
            "name": name, "ph": "X", "ts": (start - self._start) * 1e6, "dur": seconds * 1e6,
            "pid": 1, "tid": thread, "args": details,
        }  # fmt: skip

    def page(self) -> str:
        """The table as a page of HTML that needs nothing else."""
        head = "".join(f"<th>{html.escape(text)}</th>" for text in _HEAD)
        body = []
        for row in self._cells():
            bar = f'<td style="--share:{row[5]}%" class="bar">{html.escape(row[5])}</td>'
            cells = [f"<td>{html.escape(text)}</td>" for text in row]
            cells[5] = bar
            body.append(f"<tr>{''.join(cells)}</tr>")
        return _PAGE.format(
            summary=html.escape(self._summary()), head=head, body="\n".join(body)
        )


_HEAD: Final = (
    "kernel", "operations", "lines", "launches", "ms", "% of time", "GFLOP/s", "GB/s", "% of limit",
)  # fmt: skip
_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Lamella profile</title>
<style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2rem; color: #222; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #ddd; }}
th:nth-child(-n+3), td:nth-child(-n+3) {{ text-align: left; font-family: monospace; }}
td.bar {{ background: linear-gradient(90deg, #bcd8f5 var(--share), transparent var(--share)); }}
</style>
<h1>Lamella profile</h1>
<p>{summary}</p>
<table><thead><tr>{head}</tr></thead><tbody>
{body}
</tbody></table></html>
"""


def _short(line: str) -> str:
    """A place in the program without the folders of its file."""
    path, _, number = line.rpartition(":")
    return f"{Path(path).name}:{number}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"

