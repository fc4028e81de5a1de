"""Matrix products: square ones, few rows against a large matrix, one with bias and gelu, the layers
of a small network, and transposed, odd and small ones.

A contestant is called FRAMEWORK_CASE, as in ``torch_sq256``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Figure, Task, Work, against, race

FRAMEWORKS = ("numpy", "lamella", *peers.ALL)


@dataclass(frozen=True)
class Case:
    """a (m, k) times b (k, n); ``order`` says how they lie in memory, t for transposed; with
    ``fused``, gelu(a·b + bias).
    """

    m: int
    n: int
    k: int
    order: str = "nn"
    fused: bool = False


CASES = {
    "sq256": Case(256, 256, 256),
    "sq512": Case(512, 512, 512),
    "sq1024": Case(1024, 1024, 1024),
    "sq2048": Case(2048, 2048, 2048),
    "row1": Case(1, 4096, 4096),
    "rows8": Case(8, 4096, 4096),
    "row1t": Case(1, 4096, 4096, "nt"),
    "rows8t": Case(8, 4096, 4096, "nt"),
    "fused": Case(512, 3072, 768, fused=True),
    "mlp": Case(128, 512, 784, "nt"),
    "mlp_dw": Case(784, 512, 128, "tn"),
    "mlp_dx": Case(128, 784, 512),
    "tn512": Case(512, 512, 512, "tn"),
    "nt512": Case(512, 512, 512, "nt"),
    "prime": Case(509, 521, 503),
    "thin": Case(4096, 8, 4096),
    "deep": Case(16, 16, 65536),
    "small": Case(64, 64, 64),
}

QUICK = ("sq256", "sq512", "sq1024", "sq2048", "row1", "rows8", "fused", "mlp")


def data(case: Case) -> tuple[Any, Any, Any]:
    """a and b as they lie in memory, and the bias."""
    draw = np.random.default_rng(0)
    a, b = draw.normal(size=(case.m, case.k)), draw.normal(size=(case.k, case.n))
    parts = (a.T if case.order[0] == "t" else a, b.T if case.order[1] == "t" else b)
    bias = draw.normal(size=case.n)
    first, second = (np.ascontiguousarray(p, dtype=np.float32) for p in parts)
    return first, second, bias.astype(np.float32)


def _views(case: Case, a: Any, b: Any) -> tuple[Any, Any]:
    return a.T if case.order[0] == "t" else a, b.T if case.order[1] == "t" else b


def numpy(case: Case) -> Task:
    """NumPy; gelu by SciPy's erf."""
    a, b, bias = data(case)
    a, b = _views(case, a, b)
    if not case.fused:
        return peers.repeated(lambda: a @ b, lambda y: y)
    from scipy.special import erf

    def step() -> Any:
        x = a @ b + bias
        return x * 0.5 * (1 + erf(x * np.float32(0.5**0.5)))

    return peers.repeated(step, lambda y: y)


def lamella(case: Case) -> Task:
    """Lamella, jitted."""
    import lamella as lm
    from lamella import nn

    parts = tuple(lm.asarray(part) for part in data(case))

    @lm.jit
    def product(a: Any, b: Any, bias: Any) -> Any:
        a, b = _views(case, a, b)
        return nn.functional.gelu(a @ b + bias) if case.fused else a @ b

    def step() -> Any:
        y = product(*parts)
        lm.eval(y)
        return y

    return peers.repeated(step, lambda y: y.numpy())


def _written(case: Case) -> dict[str, Callable[..., Any]]:
    """The product, and gelu behind it, in each framework's spelling."""

    def product(a: Any, b: Any, bias: Any) -> Any:
        a, b = _views(case, a, b)
        return a @ b + bias if case.fused else a @ b

    def by_erf(erf: Callable[[Any], Any], x: Any) -> Any:
        return x * (1 + erf(x * 0.5**0.5)) / 2

    def torch(th: Any, _: Any, a: Any, b: Any, bias: Any) -> Any:
        if case.fused:
            return th.nn.functional.gelu(th.addmm(bias, *_views(case, a, b)))
        return product(a, b, bias)

    def jax(jax: Any, _: Any, *parts: Any) -> Any:
        return jax.nn.gelu(product(*parts), approximate=False) if case.fused else product(*parts)

    def mlx(mx: Any, _: Any, *parts: Any) -> Any:
        return by_erf(mx.erf, product(*parts)) if case.fused else product(*parts)

    def tinygrad(methods: Any, _: Any, *parts: Any) -> Any:
        return by_erf(methods.erf, product(*parts)) if case.fused else product(*parts)

    return {"torch": torch, "jax": jax, "mlx": mlx, "tinygrad": tinygrad}


def _task(framework: str, name: str) -> Task:
    case = CASES[name]
    if framework in ("numpy", "lamella"):
        return numpy(case) if framework == "numpy" else lamella(case)
    return peers.task(framework, _written(case), data(case))


__getattr__ = peers.by_case(_task, CASES)


def _figures(name: str, rounds: int) -> list[Figure]:
    case = CASES[name]
    timings, left_out = race("gemm", FRAMEWORKS, rounds=rounds, target=0.1, case=name)
    flops = 2.0 * case.m * case.n * case.k
    work = Work(flops, 4.0 * (case.m * case.k + case.k * case.n + case.m * case.n))
    found = against(f"gemm/{name}", timings, left_out, dict.fromkeys(FRAMEWORKS, 1.0), work)
    rate = 1e-9 * flops / timings["lamella"].median
    return [replace(f, detail=f"{rate:.0f} GFLOP/s; {f.detail}") for f in found]


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others', for every case, or for those of QUICK."""
    names = QUICK if quick else tuple(CASES)
    return [figure for name in names for figure in _figures(name, 3 if quick else 9)]
