"""Matrix products: square ones, few rows against a large matrix, one with bias and gelu, the layers
of a small network, and transposed, odd and small ones.

A contestant is called FRAMEWORK_CASE, as in ``torch_sq256``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.harness import Array, Figure, Task, against, race

FRAMEWORKS = ("numpy", "lamella", "torch", "jax", "onnxruntime")


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


def _repeat(step: Callable[[], Any], value: Callable[[Any], Array]) -> Task:
    last: list[Any] = []

    def run() -> None:
        last[:] = [step()]

    return Task(run, lambda: value(last[0]))


def numpy(case: Case) -> Task:
    """NumPy; gelu by SciPy's erf."""
    a, b, bias = data(case)
    a, b = _views(case, a, b)
    if not case.fused:
        return _repeat(lambda: a @ b, lambda y: y)
    from scipy.special import erf

    def step() -> Any:
        x = a @ b + bias
        return x * 0.5 * (1 + erf(x * np.float32(0.5**0.5)))

    return _repeat(step, lambda y: y)


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

    return _repeat(step, lambda y: y.numpy())


def torch(case: Case) -> Task:
    """PyTorch, eager."""
    import torch as th
    from torch.nn import functional

    a, b, bias = (th.from_numpy(part) for part in data(case))
    a, b = _views(case, a, b)
    if case.fused:
        return _repeat(lambda: functional.gelu(th.addmm(bias, a, b)), lambda y: y.numpy())
    return _repeat(lambda: a @ b, lambda y: y.numpy())


def jax(case: Case) -> Task:
    """JAX, jitted."""
    import jax as j
    import jax.numpy as jnp

    parts = tuple(jnp.asarray(part) for part in data(case))

    @j.jit
    def product(a: Any, b: Any, bias: Any) -> Any:
        a, b = _views(case, a, b)
        return j.nn.gelu(a @ b + bias, approximate=False) if case.fused else a @ b

    return _repeat(lambda: product(*parts).block_until_ready(), np.asarray)


def onnxruntime(case: Case) -> Task:
    """ONNX Runtime: Gemm with both operands as inputs; gelu where it has it."""
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper

    if case.fused:
        raise ImportError("gelu behind a product, which", name="gelu behind a product")
    a, b, _ = data(case)
    trans = {"transA": int(case.order[0] == "t"), "transB": int(case.order[1] == "t")}
    shapes = {"a": a.shape, "b": b.shape, "y": (case.m, case.n)}
    kinds = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["a", "b"], ["y"], **trans)], "gemm", kinds[:2], kinds[2:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return _repeat(lambda: session.run(None, {"a": a, "b": b})[0], lambda y: y)


def __getattr__(name: str) -> Callable[[], Task]:
    framework, _, case = name.partition("_")
    if framework not in FRAMEWORKS or case not in CASES:
        raise AttributeError(name)
    return lambda: globals()[framework](CASES[case])  # type: ignore[no-any-return]


def _figures(name: str, rounds: int) -> list[Figure]:
    case = CASES[name]
    names = [f"{framework}_{name}" for framework in FRAMEWORKS]
    timings, left_out = race("gemm", names, rounds=rounds, target=0.1)
    mine = {n.partition("_")[0]: t for n, t in timings.items()}
    missing = {n.partition("_")[0]: reason for n, reason in left_out.items()}
    rate = 2e-9 * case.m * case.n * case.k / mine["lamella"].median
    found = against(f"gemm/{name}", mine, missing, dict.fromkeys(FRAMEWORKS, 1.0))
    return [replace(f, detail=f"{rate:.0f} GFLOP/s; {f.detail}") for f in found]


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others', for every case (for a few if ``quick``)."""
    names = ("sq512", "row1", "fused", "mlp") if quick else tuple(CASES)
    return [figure for name in names for figure in _figures(name, 3 if quick else 9)]
