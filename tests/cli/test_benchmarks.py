"""The benchmarks' own machinery: who takes part, who is left out and why, and the tables."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from benchmarks import contestant, harness
from benchmarks.contestant import Contestant, SkippedError
from benchmarks.harness import Figure, Timing, Work, against, race
from benchmarks.summary import Limits, mean, rest_table, summary, summary_table
from lamella.cli.font import glyph


class Scripted:
    """A contestant whose value and time follow from its name."""

    values: ClassVar[dict[str, float]] = {"mlx": 3.0}
    times: ClassVar[dict[str, float]] = {
        "numpy": 4.0,
        "lamella": 2.0,
        "torch": 1.0,
        "tinygrad": 100.0,
    }

    def __init__(self, workload: str, name: str, threads: int, case: str = "") -> None:
        self.name = name

    def __exit__(self, *details: object) -> None: ...

    def result(self) -> np.ndarray:
        if self.name == "jax":
            raise SkippedError("jax is not installed")
        return np.asarray([self.values.get(self.name, 1.0)])

    def seconds(self, repeats: int) -> float:
        return self.times[self.name]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> type[Scripted]:
    monkeypatch.setattr(harness, "Contestant", Scripted)
    monkeypatch.delenv("BENCHMARKS_PEERS", raising=False)
    return Scripted


def test_the_absent_the_wrong_and_the_slow_are_left_out_with_the_reason(
    scripted: type[Scripted],
) -> None:
    names = ["numpy", "lamella", "torch", "jax", "mlx", "tinygrad"]
    timings, left_out = race("any", names, rounds=2)
    assert {name: timing.median for name, timing in timings.items()} == {
        "numpy": 4.0, "lamella": 2.0, "torch": 1.0,
    }  # fmt: skip
    assert left_out == {
        "jax": "jax is not installed",
        "mlx": "its result differs by 2.0e+00, so it was not timed",
        "tinygrad": "too slow: 100 s a run",
    }


def test_lamella_may_not_be_left_out(
    scripted: type[Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scripted, "values", {"lamella": 2.0})
    with pytest.raises(RuntimeError, match="Lamella was not timed: its result differs"):
        race("any", ["numpy", "lamella"], rounds=2)


def test_only_the_wanted_frameworks_start(
    scripted: type[Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHMARKS_PEERS", "torch")
    names = ["numpy", "lamella", "torch", "torch_compile_case", "mlx_case"]
    monkeypatch.setattr(Scripted, "times", dict.fromkeys(names, 1.0))
    assert set(race("any", names, rounds=2)[0]) == set(names) - {"mlx_case"}
    monkeypatch.setenv("BENCHMARKS_PEERS", "")
    assert set(race("any", ["numpy", "lamella", "torch"], rounds=2)[0]) == {"lamella"}


def test_another_framework_that_fails_is_left_out_and_lamella_is_an_error() -> None:
    failed = pytest.raises(SkippedError, match="failed: AttributeError: torch_nothing")
    with Contestant("softmax", "torch_nothing", 1) as process, failed:
        process.result()
    error = pytest.raises(RuntimeError, match="lamella_nothing failed")
    with Contestant("softmax", "lamella_nothing", 1) as process, error:
        process.result()


def test_a_framework_that_never_answers_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contestant, "PATIENCE", 0.01)
    slow = pytest.raises(SkippedError, match="too slow: no answer in 0 s")
    with Contestant("softmax", "torch", 1) as process, slow:
        process.result()


def test_what_a_workload_prints_is_no_answer() -> None:
    with Contestant("chain_latency", "lamella", 1) as process:
        assert process.ask("time 1").strip()
        assert process.result().shape == (100,)


def test_the_chart_can_write_every_workload() -> None:
    signs = "softmax, 4096 × 1024 layernorm(gelu(x·w+b)+x) ResNet-18, 224² torch_compile_last's"
    unknown = glyph("?").tolist()
    assert [s for s in signs if glyph(s).tolist() == unknown] == []


def test_a_summary_has_the_best_other_the_ratio_and_the_share_of_the_limit() -> None:
    times = {"lamella": 0.002, "torch": 0.003, "openvino": 0.001}
    timings = {name: Timing(t, t, t) for name, t in times.items()}
    figures = against("net", timings, {"mlx": "too slow"}, {"torch": 1.0}, Work(flops=1e9))
    figures.append(Figure("import time", "lamella", "import numpy", 1.2, ""))
    (row,) = summary(figures)
    assert (row.best, row.ratio, row.others[1][0]) == ("openvino", 0.5, "torch")
    assert mean([row]) == 0.5
    table = summary_table([row], Limits(flops=1e12, copy=1e10, read=1e10))
    assert "| net | 2 ms | openvino | 1 ms | **0.50** | 50 % |" in table.splitlines()
    assert "| net | 2 ms | 1 ms | 3 ms |" in rest_table([row]).splitlines()
    assert [f.passed for f in figures if f.base == "torch"] == [True]
