"""What ``vmap`` costs: functions of one example batched by it, beside the same batched by hand.

A contestant is called WAY_FUNCTION, as in ``vmap_conv``; both ways are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import Figure, Task, race

MORE = 1.1  # times the time of what is batched by hand
BATCH = 64


@dataclass(frozen=True)
class Case:
    """A function of one example and of a batch, and the shapes of their arguments: those of an
    example, and those that all share.
    """

    one: Callable[..., Any]
    hand: Callable[..., Any]
    examples: tuple[tuple[int, ...], ...]
    shared: tuple[tuple[int, ...], ...] = ()


def _cases() -> dict[str, Case]:
    import lamella as lm

    F = lm.nn.functional

    def mlp(x: Any, a: Any, b: Any) -> Any:
        return lm.tanh(x @ a) @ b

    def scan(x: Any, w: Any, axis: int) -> Any:
        def step(h: Any, xs: Any) -> tuple[Any, Any]:
            h = lm.tanh(h @ w + xs)
            return h, h

        steps = lm.moveaxis(x, axis, 0)
        return lm.scan(step, steps[0] * 0, steps)[0]

    def solve(a: Any, b: Any) -> Any:
        return lm.linalg.solve(a + 8 * lm.eye(a.shape[-1]), b)

    return {
        "matmul": Case(lambda x, y: x @ y, lambda x, y: x @ y, ((64, 64), (64, 64))),
        "mlp": Case(mlp, mlp, ((256,),), ((256, 512), (512, 10))),
        "conv": Case(
            lambda x, w: F.conv2d(x[None], w, padding=1)[0], lambda x, w: F.conv2d(x, w, padding=1),
            ((16, 32, 32),), ((32, 16, 3, 3),),
        ),
        "softmax": Case(lambda x: F.softmax(x, 0), lambda x: F.softmax(x, 1), ((4096,),)),
        "gather": Case(
            lambda x, y: x[lm.argsort(y)], lambda x, y: lm.take_along_axis(x, lm.argsort(y, 1), 1),
            ((512,), (512,)),
        ),
        "norm": Case(
            lambda x: F.layer_norm(x, (512,)), lambda x: F.layer_norm(x, (512,)), ((16, 512),)
        ),
        "scan": Case(
            lambda x, w: scan(x, w, 0), lambda x, w: scan(x, w, 1), ((50, 64),), ((64, 64),)
        ),
        "gradient": Case(
            lambda x, a, b: lm.grad(lambda x: lm.sum(mlp(x, a, b)))(x),
            lambda x, a, b: lm.grad(lambda x: lm.sum(mlp(x, a, b)))(x), ((256,),),
            ((256, 512), (512, 10)),
        ),
        "solve": Case(solve, solve, ((32, 32), (32, 4))),
    }  # fmt: skip


def _task(way: str, name: str) -> Task:
    import lamella as lm

    case, draw = _cases()[name], np.random.default_rng(0)
    shapes = [(BATCH, *shape) for shape in case.examples] + list(case.shared)
    arguments = [lm.asarray(draw.normal(size=shape).astype(np.float32)) for shape in shapes]
    axes = (0,) * len(case.examples) + (None,) * len(case.shared)
    function = lm.jit(case.hand if way == "hand" else lm.vmap(case.one, axes))
    last: list[Any] = []

    def run() -> None:
        last[:] = [function(*arguments)]
        lm.eval(last[0])

    return Task(run, lambda: last[0].numpy())


def __getattr__(name: str) -> Callable[[], Task]:
    way, _, case = name.partition("_")
    if way not in ("vmap", "hand"):
        raise AttributeError(name)
    return lambda: _task(way, case)


def measure(quick: bool) -> list[Figure]:
    """The time of ``vmap`` as a ratio to batching by hand."""
    figures = []
    for name in _cases():
        names = (f"hand_{name}", f"vmap_{name}")
        timings, left_out = race("vmap", names, rounds=3 if quick else 9, target=0.1)
        detail = ", ".join([*left_out.values(), *(f"{n} {t}" for n, t in timings.items())])
        ratio = float("nan")
        if not left_out:
            ratio = timings[names[1]].median / timings[names[0]].median
        figures.append(
            Figure(f"vmap/{name}", "vmap", "by hand", ratio, detail, f"≤ {MORE}", ratio <= MORE)
        )
    return figures
