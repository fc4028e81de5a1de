"""Single functions on 1 k, 100 k and 10 M elements, beside NumPy and PyTorch.

A contestant is called FRAMEWORK_FUNCTION_SIZE, as in ``torch_exp_100k``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import Array, Figure, Task, race_cases

SIZES = {"1k": 1_000, "100k": 100_000, "10M": 10_000_000}
SLOWER = 1.5  # times PyTorch's, from 100 k elements on
FRAMEWORKS = ("numpy", "lamella", "torch")


@dataclass(frozen=True)
class Case:
    """A function for each framework, of ``inputs`` arrays; rows of about a thousand if ``rows``."""

    numpy: Callable[..., Any]
    lamella: str
    torch: str
    inputs: int = 1
    rows: bool = False
    kind: str = "normal"  # of the inputs: normal, positive, unit, whole, bool, permutation


def _rows(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return lambda *args: function(*args, **options)


CASES = {
    "add": Case(np.add, "x + y", "x + y", 2),
    "multiply": Case(np.multiply, "x * y", "x * y", 2),
    "divide": Case(np.divide, "x / y", "x / y", 2, kind="positive"),
    "maximum": Case(np.maximum, "lm.maximum(x, y)", "th.maximum(x, y)", 2),
    "pow": Case(np.power, "lm.pow(x, y)", "th.pow(x, y)", 2, kind="positive"),
    "exp": Case(np.exp, "lm.exp(x)", "th.exp(x)"),
    "log": Case(np.log, "lm.log(x)", "th.log(x)", kind="positive"),
    "tanh": Case(np.tanh, "lm.tanh(x)", "th.tanh(x)"),
    "sin": Case(np.sin, "lm.sin(x)", "th.sin(x)"),
    "sqrt": Case(np.sqrt, "lm.sqrt(x)", "th.sqrt(x)", kind="positive"),
    "floor": Case(np.floor, "lm.floor(x)", "th.floor(x)"),
    "less": Case(np.less, "x < y", "x < y", 2),
    "where": Case(lambda x, y: np.where(x > 0, x, y), "lm.where(x > 0, x, y)",
                  "th.where(x > 0, x, y)", 2),
    "clip": Case(lambda x: np.clip(x, -1, 1), "lm.clip(x, -1, 1)", "th.clamp(x, -1, 1)"),
    "add_int": Case(np.add, "x + y", "x + y", 2, kind="whole"),
    "cast": Case(lambda x: x.astype(np.int32), "x.astype(lm.int32)", "x.to(th.int32)"),
    "sum": Case(np.sum, "lm.sum(x)", "th.sum(x)"),
    "sum_rows": Case(_rows(np.sum, axis=1), "lm.sum(x, axis=1)", "th.sum(x, 1)", rows=True),
    "sum_columns": Case(_rows(np.sum, axis=0), "lm.sum(x, axis=0)", "th.sum(x, 0)", rows=True),
    "max": Case(np.max, "lm.max(x)", "th.max(x)"),
    "max_rows": Case(_rows(np.max, axis=1), "lm.max(x, axis=1)", "th.amax(x, 1)", rows=True),
    "argmax_rows": Case(_rows(np.argmax, axis=1), "lm.argmax(x, axis=1)", "th.argmax(x, 1)",
                        rows=True),
    "mean_rows": Case(_rows(np.mean, axis=1), "lm.mean(x, axis=1)", "th.mean(x, 1)", rows=True),
    "var_rows": Case(_rows(np.var, axis=1), "lm.var(x, axis=1)", "th.var(x, 1, correction=0)",
                     rows=True),
    "any": Case(np.any, "lm.any(x)", "th.any(x)", kind="bool"),
    "cumsum": Case(np.cumsum, "lm.cumsum(x, axis=0)", "th.cumsum(x, 0)", kind="unit"),
    "cumsum_rows": Case(_rows(np.cumsum, axis=1), "lm.cumsum(x, axis=1)", "th.cumsum(x, 1)",
                        rows=True),
    "sort": Case(np.sort, "lm.sort(x)", "th.sort(x)[0]"),
    "sort_rows": Case(_rows(np.sort, axis=1), "lm.sort(x, axis=1)", "th.sort(x, 1)[0]", rows=True),
    "argsort": Case(lambda x: np.argsort(x, kind="stable"), "lm.argsort(x)",
                    "th.argsort(x, stable=True)"),
    "topk_rows": Case(lambda x: -np.sort(-x, axis=1)[:, :10], "lm.topk(x, 10)[0]",
                      "th.topk(x, 10)[0]", rows=True),
    "transpose": Case(lambda x: np.ascontiguousarray(x.T), "lm.matrix_transpose(x)",
                      "x.T.contiguous()", rows=True),
    "flip": Case(lambda x: np.flip(x, 0).copy(), "lm.flip(x, 0)", "th.flip(x, (0,))"),
    "concat": Case(lambda x, y: np.concatenate([x, y]), "lm.concat([x, y])", "th.cat([x, y])", 2),
    "strided": Case(lambda x: x[::2].copy(), "x[::2]", "x[::2].contiguous()"),
    "gather": Case(lambda x: x[INDEX[len(x)]], "lm.take(x, index)", "x[index]"),
    "scatter_add": Case(lambda x: np.bincount(INDEX[len(x)], x, len(x)).astype(np.float32),
                        "lm.scatter_add(x * 0, 0, index, x)",
                        "th.zeros_like(x).scatter_add_(0, index, x)"),
    "take_rows": Case(lambda x: x[::-1].copy(), "lm.take(x, rows, axis=0)", "x[rows]", rows=True),
    "pad": Case(lambda x: np.pad(x, 3), "lm.pad(x, 3)", "th.nn.functional.pad(x, (3, 3))"),
    "softmax_rows": Case(
        lambda x: (e := np.exp(x - x.max(1, keepdims=True))) / e.sum(1, keepdims=True),
        "lm.nn.functional.softmax(x, 1)", "th.softmax(x, 1)", rows=True),
}  # fmt: skip
DRAW = np.random.default_rng(0)
INDEX = {size: DRAW.permutation(size) for size in SIZES.values()}


def data(case: Case, size: int) -> list[Array]:
    """The inputs."""
    draw = np.random.default_rng(size)
    made = []
    for _ in range(case.inputs):
        x = draw.normal(size=size).astype(np.float32)
        if case.kind == "positive":
            x = np.abs(x) + np.float32(0.1)
        elif case.kind == "unit":
            x = (x / size).astype(np.float32)
        elif case.kind == "whole":
            x = draw.integers(-1000, 1000, size).astype(np.int32)
        elif case.kind == "bool":
            x = np.zeros(size, bool)
        made.append(x.reshape(-1, 1000) if case.rows else x)
    return made


def _task(framework: str, name: str, size: int) -> Task:
    case = CASES[name]
    arrays = data(case, size)
    last: list[Any] = []
    if framework == "numpy":

        def run() -> None:
            last[:] = [case.numpy(*arrays)]

        return Task(run, lambda: np.asarray(last[0]))
    names: dict[str, Any] = {}
    if framework == "torch":
        import torch as th

        names |= {"th": th}
        make, text = th.from_numpy, case.torch
    else:
        import lamella as lm

        names |= {"lm": lm}
        make, text = lm.asarray, case.lamella
    names |= {n: make(a) for n, a in zip("xy", arrays, strict=False)}
    if not case.rows:
        names["index"] = make(INDEX[size])
    else:
        names["rows"] = make(np.arange(size // 1000)[::-1].copy())
    function = eval(f"lambda: {text}", names)  # noqa: S307 - the table above
    wait = names["lm"].eval if framework == "lamella" else lambda value: value

    def run() -> None:
        value = function()
        wait(value)
        last[:] = [value]

    return Task(run, lambda: np.asarray(last[0].numpy()))


def __getattr__(name: str) -> Callable[[], Task]:
    framework, _, rest = name.partition("_")
    case, _, size = rest.rpartition("_")
    if framework not in FRAMEWORKS or case not in CASES or size not in SIZES:
        raise AttributeError(name)
    return lambda: _task(framework, case, SIZES[size])


def measure(quick: bool) -> list[Figure]:
    """Each function's time as a ratio to the others', and the geometric means to PyTorch."""
    cases = [f"{name}_{size}" for size in SIZES for name in CASES]
    found = race_cases("ops", FRAMEWORKS, cases, rounds=3 if quick else 7)
    figures: list[Figure] = []
    ratios: dict[str, list[float]] = {size: [] for size in SIZES}
    for case, timings in found.items():
        own = timings.get("lamella")
        if own is None:
            figures.append(Figure(f"ops/{case}", "lamella", "", math.nan, "failed: disagrees", "",
                                  False))  # fmt: skip
            continue
        large = not case.endswith("_1k")
        for name, timing in timings.items():
            if name == "lamella":
                continue
            ratio = own.median / timing.median
            wanted = f"≤ {SLOWER}" if name == "torch" and large else ""
            passed = ratio <= SLOWER if wanted else None
            figures.append(
                Figure(f"ops/{case}", "lamella", name, ratio, f"{own}, {name} {timing}", wanted,
                       passed, own.median, timing.median)
            )  # fmt: skip
            if name == "torch":
                ratios[case.rpartition("_")[2]].append(ratio)
    for size, values in ratios.items():
        if values:
            mean = math.exp(sum(map(math.log, values)) / len(values))
            wanted = "≤ 1" if size != "1k" else ""
            figures.append(Figure(f"ops, {size}: geometric mean", "lamella", "torch", mean,
                                  f"{len(values)} functions", wanted,
                                  mean <= 1 if wanted else None))  # fmt: skip
    return figures
