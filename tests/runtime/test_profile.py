"""lm.profile: what it counts against what is known of the program, and its files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import lamella as lm
from lamella.compiler.costs import operations
from lamella.config import config
from lamella.errors import OptionError
from lamella.ir.text import parse_kernel
from lamella.runtime.limits import limits

HERE = Path(__file__).name


@pytest.fixture(autouse=True)
def _fused() -> Iterator[None]:
    with config(optimize=1):  # what is counted is what fusion leaves
        yield


def draw(*shape: int) -> lm.Tensor:
    return lm.asarray(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def test_counts_of_a_matrix_product() -> None:
    a, b = draw(96, 256), draw(256, 320)
    product = lm.jit(lambda x, y: x @ y)
    product(a, b)  # compiled before, without lines
    with lm.profile() as p:
        for _ in range(3):
            lm.eval(product(a, b))
    rows = [row for row in p.rows() if row.flops]
    assert len(rows) == 1
    (row,) = rows
    assert row.count == 3
    least = 2 * 96 * 256 * 320 * 3
    assert least <= row.flops <= 1.3 * least  # tiles at the edges are computed whole
    assert row.nbytes == 3 * 4 * (96 * 256 + 256 * 320 + 96 * 320)
    assert row.lines == (f"{HERE}:{test_counts_of_a_matrix_product.__code__.co_firstlineno + 2}",)
    assert 0 < sum(run.seconds for run in p.record.runs) < p.seconds


def test_elementwise_work_open_sizes_and_lines() -> None:
    with lm.profile() as p:
        for size in (1000, 2000, 3000):
            lm.eval(lm.exp(draw(size)) * 2.0 + 1.0)
    assert sum(row.flops for row in p.rows()) == 3 * (1000 + 2000 + 3000)
    assert sum(row.nbytes for row in p.rows()) == 2 * 4 * 6000
    assert {line.partition(":")[0] for row in p.rows() for line in row.lines} == {HERE}
    assert p.record.compilations


def test_the_table_and_the_files(tmp_path: Path) -> None:
    trace, page = tmp_path / "a.json", tmp_path / "a.html"
    with lm.profile(trace) as p:
        lm.sum(draw(300, 300)).item()
    events = json.loads(trace.read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert {"reduce_sum", "make a program"} <= {event["name"] for event in spans}
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in spans)
    text = str(p)
    assert "reduce_sum" in text and "GFLOP/s" in text and "GB/s copied" in text
    with lm.profile(page):
        lm.sum(draw(300, 300)).item()
    assert "<table>" in page.read_text() and "reduce_sum" in page.read_text()


def test_nothing_is_left_behind() -> None:
    with pytest.raises(ZeroDivisionError), lm.profile():
        raise ZeroDivisionError
    assert config.lines == 0
    with lm.profile() as p:
        pass
    assert p.rows() == [] and "0 launches" in str(p)


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"\.json"):
        lm.profile(tmp_path / "trace.txt")
    with lm.profile(), pytest.raises(OptionError, match="nest"), lm.profile():
        pass


def test_operations_of_loops() -> None:
    kernel = parse_kernel("""kernel k
  inout x: float32
  sizes n
grid g < {n}
  var t: float32 = 0.0:float32
  lanes i < 10
    t add= mul(x[10*g + 1*i], 2.0:float32)
  x[g] = fma(t, t, t)""")
    assert operations(kernel, {"n": 7}) == 7 * 22


def test_operations_of_loops_that_end_early() -> None:
    kernel = parse_kernel("""kernel k
  inout x: float32
grid g < 3
  serial i < min(4, -4*g + 10)
    lanes j < 1*i + 1
      x[1*j] = add(x[1*j], x[1*j])""")
    assert operations(kernel) == 2 * (1 + 2 + 3 + 4) + (1 + 2)


def test_operations_of_the_dearer_branch_count() -> None:
    kernel = parse_kernel("""kernel k
  inout x: float32
grid g < 3
  if lt(g, 2)
    serial i < 4
      x[g] = add(x[g], x[g])
  else
    x[g] = add(x[g], x[g])""")
    assert operations(kernel) == 3 * 4


def test_limits_are_plausible() -> None:
    most = limits()
    assert 1e8 < most.flops < 1e14 and 1e8 < most.copy < 1e13 and 1e8 < most.read < 1e13
