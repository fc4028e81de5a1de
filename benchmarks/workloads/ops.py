"""Single functions on 1 k, 100 k and 10 M elements, beside NumPy and PyTorch.

A contestant is called FRAMEWORK_FUNCTION_SIZE, as in ``torch_exp_100k``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.functions import CASES, SIZES, data
from benchmarks.harness import Array, Figure, Task, race_cases

SLOWER = 1.5  # times PyTorch's, from 100 k elements on
FRAMEWORKS = ("numpy", "lamella", "torch")


def _names(framework: str) -> tuple[dict[str, Any], Callable[[Array], Any]]:
    """The modules an expression uses, and what makes a framework's array."""
    if framework == "torch":
        import torch as th

        return {"th": th, "F": th.nn.functional}, th.from_numpy
    if framework == "lamella":
        import lamella as lm

        return {"lm": lm, "F": lm.nn.functional}, lm.asarray
    import scipy.special

    return {"np": np, "sp": scipy.special}, np.asarray


def _task(framework: str, name: str, size: int) -> Task:
    case = CASES[name]
    arrays = data(case, size)
    names, make = _names(framework)
    names |= {n: make(a) for n, a in zip("xyz", arrays, strict=False)}
    index = np.random.default_rng(0).permutation(len(arrays[0]))
    names |= {"index": make(index), "n": size}
    function = eval(f"lambda: {getattr(case, framework)}", names)  # noqa: S307 - of the table
    wait = names["lm"].eval if framework == "lamella" else lambda value: value
    last: list[Any] = []

    def run() -> None:
        value = function()
        wait(value)
        last[:] = [value]

    return Task(run, lambda: np.asarray(last[0]))


def __getattr__(name: str) -> Callable[[], Task]:
    framework, _, rest = name.partition("_")
    case, _, size = rest.rpartition("_")
    if framework not in FRAMEWORKS or case not in CASES or size not in SIZES:
        raise AttributeError(name)
    return lambda: _task(framework, case, SIZES[size])


def measure(quick: bool) -> list[Figure]:
    """Each function's time as a ratio to the others', and the geometric means to PyTorch."""
    cases = [f"{name}_{size}" for size in SIZES for name in CASES if size in CASES[name].sizes]
    tolerances = {case: CASES[case.rpartition("_")[0]].rtol for case in cases}
    found = race_cases("ops", FRAMEWORKS, cases, rounds=3 if quick else 7, rtol=tolerances)
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
