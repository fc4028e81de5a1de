"""Causal attention of 12 heads, 2048 queries and keys, 64 features: forward, and with its gradient;
the time, and the memory that one run takes beyond its operands.

A contestant is called FRAMEWORK_CASE, as in ``torch_forward``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Array, Figure, Task, Work, against, python, race

FRAMEWORKS = ("lamella", "torch", "torch_compile", "jax", "mlx")
FORWARD_ONLY = ("onnxruntime", "openvino", "tinygrad")
CASES = ("forward", "backward")
SHAPE = (1, 12, 2048, 64)
LEAST = 8.0  # MiB, a little more than the result: memory an allocator had kept is not told apart


def data(shape: tuple[int, ...] = SHAPE) -> list[Any]:
    """Queries, keys, values, and the cotangent of the result."""
    draw = np.random.default_rng(0)
    return [draw.normal(size=shape).astype(np.float32) for _ in range(4)]


def lamella(case: str, shape: tuple[int, ...] = SHAPE) -> Task:
    """nn.functional.scaled_dot_product_attention, jitted."""
    import lamella as lm
    from lamella import nn

    q, k, v, g = (lm.asarray(a) for a in data(shape))

    def attend(q: Any, k: Any, v: Any) -> Any:
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    forward = lm.jit(attend)
    gradient = lm.jit(lm.grad(lambda q, k, v: (attend(q, k, v) * g).sum(), argnums=(0, 1, 2)))
    last: list[Any] = []

    def run() -> None:
        last[:] = [forward(q, k, v)] if case == "forward" else gradient(q, k, v)
        lm.eval(*last)

    return Task(run, lambda: last[0].numpy())


def _attend_torch(th: Any, q: Any, k: Any, v: Any) -> Any:
    return th.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def torch(
    case: str,
    shape: tuple[int, ...] = SHAPE,
    compiled: Callable[[Any], Any] = lambda function: function,
) -> Task:
    """PyTorch's flash attention, eager."""
    import torch as th

    q, k, v, g = (th.from_numpy(a) for a in data(shape))
    attend = compiled(lambda q, k, v: _attend_torch(th, q, k, v))
    last: list[Any] = []

    def run() -> None:
        if case == "forward":
            with th.no_grad():
                last[:] = [attend(q, k, v)]
            return
        for x in (q, k, v):
            x.requires_grad_()
            x.grad = None
        attend(q, k, v).backward(g)
        last[:] = [q.grad]

    return Task(run, lambda: last[0].numpy())


def torch_compile(case: str) -> Task:
    """torch.compile of the same."""
    import torch as th

    return torch(case, compiled=th.compile)


def jax(case: str, shape: tuple[int, ...] = SHAPE) -> Task:
    """jax.nn.dot_product_attention, jitted."""
    import jax as j

    q, k, v, g = (j.numpy.asarray(a.swapaxes(1, 2)) for a in data(shape))

    def attend(q: Any, k: Any, v: Any) -> Any:
        return j.nn.dot_product_attention(q, k, v, is_causal=True)

    forward = j.jit(attend)
    gradient = j.jit(j.grad(lambda q, k, v: (attend(q, k, v) * g).sum(), argnums=(0, 1, 2)))
    last: list[Any] = []

    def run() -> None:
        found = forward(q, k, v) if case == "forward" else gradient(q, k, v)
        last[:] = [j.block_until_ready(found)]

    def result() -> Array:
        found = last[0] if case == "forward" else last[0][0]
        return np.asarray(found).swapaxes(1, 2)

    return Task(run, result)


def mlx(case: str) -> Task:
    """MLX's fast attention, compiled."""
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    q, k, v, g = (mx.array(a) for a in data())

    def attend(q: Any, k: Any, v: Any) -> Any:
        scale = SHAPE[-1] ** -0.5
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask="causal")

    gradient = mx.grad(lambda q, k, v: (attend(q, k, v) * g).sum(), argnums=(0, 1, 2))

    def step() -> Any:
        found = attend(q, k, v) if case == "forward" else gradient(q, k, v)
        mx.eval(found)
        return found if case == "forward" else found[0]

    return peers.repeated(step, np.array)


WRITTEN = {
    "torch": lambda th, _, q, k, v: _attend_torch(th, q, k, v),
    "tinygrad": lambda _, __, q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
}


def _task(framework: str, case: str) -> Task:
    if framework in FORWARD_ONLY:
        return peers.task(framework, WRITTEN, data()[:3])
    return globals()[framework](case)  # type: ignore[no-any-return]


__getattr__ = peers.by_case(_task, CASES)


def _resident(name: str) -> float:
    """A line of this process's status, in MiB: VmRSS now, VmHWM the most so far."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def memory(framework: str, case: str) -> float:
    """MiB that one run takes at most, beyond what the process holds before (on Linux)."""
    make = {"lamella": lamella, "torch": torch}[framework]
    small = make(case, (1, 2, 64, 64))
    small.run()
    task = make(case)
    before = _resident("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as command:
        command.write("5")  # the most so far is what is held now
    task.run()
    return _resident("VmHWM") - before


CODE = """
import sys
from benchmarks.workloads.attention import memory
print(memory(sys.argv[1], sys.argv[2]))
"""


def _memory(case: str) -> list[Figure]:
    own = float(python(CODE, "lamella", case))
    try:
        theirs = float(python(CODE, "torch", case))
    except RuntimeError:  # not installed
        return []
    ratio = own / max(theirs, LEAST)
    detail = f"{own:.0f} MiB, theirs {theirs:.0f} MiB"
    name = f"attention/{case}: memory of a run"
    return [Figure(name, "lamella", "torch", ratio, detail, "≤ 1.0", ratio <= 1.0)]


def measure(quick: bool) -> list[Figure]:
    """Lamella's time and memory as ratios to the others'."""
    figures = []
    for case in CASES:
        names = [*FRAMEWORKS, *FORWARD_ONLY] if case == "forward" else FRAMEWORKS
        timings, left_out = race("attention", names, rounds=3 if quick else 9, case=case)
        batch, heads, length, width = SHAPE
        half = 2.0 * batch * heads * length**2 * width  # of both products: the mask leaves half
        work = Work(half if case == "forward" else 3.5 * half)
        limits = dict.fromkeys(names, 1.0)
        figures += against(f"attention/{case}", timings, left_out, limits, work)
        figures += _memory(case)
    return figures
