"""A GRU of 256 units over 256 steps, batch 16: forward, and with the gradient of its parameters.

A contestant is called FRAMEWORK_CASE, as in ``torch_forward``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Figure, Task, Work, against, race

FRAMEWORKS = (
    "lamella", "torch", "torch_compile", "jax", "onnxruntime", "openvino", "mlx",
)  # fmt: skip
CASES = ("forward", "backward")
STEPS, BATCH, UNITS = 256, 16, 256
NAMES = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")


def data() -> tuple[Any, dict[str, Any]]:
    """The sequences, and the parameters in PyTorch's layout."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(STEPS, BATCH, UNITS)).astype(np.float32)
    shapes = ((3 * UNITS, UNITS), (3 * UNITS, UNITS), (3 * UNITS,), (3 * UNITS,))
    weights = [draw.uniform(-1, 1, shape).astype(np.float32) / 16 for shape in shapes]
    return x, dict(zip(NAMES, weights, strict=True))


def lamella(case: str) -> Task:
    """nn.GRU, jitted."""
    import lamella as lm
    from lamella import nn

    x_np, weights = data()
    x = lm.asarray(x_np)
    model = nn.GRU(UNITS, UNITS)
    model.load_state_dict(weights)
    if case == "forward":
        model.requires_grad_(False)
    loss = lambda model, x: (model(x)[0] ** 2).sum()  # noqa: E731
    forward = lm.jit(lambda x: model(x)[0])
    gradient = lm.jit(lm.grad(loss))
    last: list[Any] = []

    def run() -> None:
        last[:] = [forward(x)] if case == "forward" else gradient(model, x).parameters()
        lm.eval(*last)

    return Task(run, lambda: last[0 if case == "forward" else 1].numpy())


def torch(case: str, compiled: Callable[[Any], Any] = lambda model: model) -> Task:
    """torch.nn.GRU, eager: one fused operation."""
    import torch as th

    x_np, weights = data()
    x = th.from_numpy(x_np)
    model = th.nn.GRU(UNITS, UNITS)
    model.load_state_dict({name: th.from_numpy(w) for name, w in weights.items()})
    forward = compiled(model)
    last: list[Any] = []

    def run() -> None:
        if case == "forward":
            with th.no_grad():
                last[:] = [forward(x)[0]]
            return
        model.zero_grad()
        (forward(x)[0] ** 2).sum().backward()
        last[:] = [model.weight_hh_l0.grad]

    return Task(run, lambda: last[0].numpy())


def jax(case: str) -> Task:
    """lax.scan over the steps, the input's product before it, jitted."""
    import jax as j

    jnp = j.numpy
    x_np, weights = data()
    x, values = jnp.asarray(x_np), [jnp.asarray(weights[name]) for name in NAMES]

    def forward(values: Any, x: Any) -> Any:
        w_ih, w_hh, b_ih, b_hh = values

        def step(h: Any, gates: Any) -> Any:
            r_x, z_x, n_x = jnp.split(gates, 3, axis=-1)
            r_h, z_h, n_h = jnp.split(h @ w_hh.T + b_hh, 3, axis=-1)
            r, z = j.nn.sigmoid(r_x + r_h), j.nn.sigmoid(z_x + z_h)
            h = (1 - z) * jnp.tanh(n_x + r * n_h) + z * h
            return h, h

        return j.lax.scan(step, jnp.zeros((BATCH, UNITS), x.dtype), x @ w_ih.T + b_ih)[1]

    run_forward = j.jit(forward)
    gradient = j.jit(j.grad(lambda values, x: (forward(values, x) ** 2).sum()))
    last: list[Any] = []

    def run() -> None:
        made = run_forward(values, x) if case == "forward" else gradient(values, x)[1]
        last[:] = [made.block_until_ready()]

    return Task(run, lambda: np.asarray(last[0]))


def torch_compile(case: str) -> Task:
    """torch.compile of the same."""
    import torch as th

    return torch(case, th.compile)


def exported(framework: str) -> Task:
    """ONNX Runtime or OpenVINO on PyTorch's export, which is ONNX's own GRU."""
    import torch as th

    x, weights = data()
    model = th.nn.GRU(UNITS, UNITS)
    model.load_state_dict({name: th.from_numpy(w) for name, w in weights.items()})

    class Sequences(th.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            return self.model(x)[0]

    file = peers.exported(Sequences(), [x])
    return peers.repeated(peers.session(framework, file, [x]), np.array)


def mlx(case: str) -> Task:
    """MLX: a Python loop over the steps, the input's product before it."""
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    x_np, weights = data()
    x, values = mx.array(x_np), [mx.array(weights[name]) for name in NAMES]

    def forward(values: Any, x: Any) -> Any:
        w_ih, w_hh, b_ih, b_hh = values
        gates, h, found = x @ w_ih.T + b_ih, mx.zeros((BATCH, UNITS)), []
        for number in range(STEPS):
            r_x, z_x, n_x = mx.split(gates[number], 3, axis=-1)
            r_h, z_h, n_h = mx.split(h @ w_hh.T + b_hh, 3, axis=-1)
            r, z = mx.sigmoid(r_x + r_h), mx.sigmoid(z_x + z_h)
            h = (1 - z) * mx.tanh(n_x + r * n_h) + z * h
            found.append(h)
        return mx.stack(found)

    gradient = mx.grad(lambda values, x: (forward(values, x) ** 2).sum())

    def step() -> Any:
        y = forward(values, x) if case == "forward" else gradient(values, x)
        mx.eval(y)
        return y if case == "forward" else y[1]

    return peers.repeated(step, np.array)


def _task(framework: str, case: str) -> Task:
    if framework in ("onnxruntime", "openvino"):
        return exported(framework)
    return globals()[framework](case)  # type: ignore[no-any-return]


__getattr__ = peers.by_case(_task, CASES)


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'."""
    figures: list[Figure] = []
    for case in CASES:
        names = [n for n in FRAMEWORKS if case == "forward" or n not in ("onnxruntime", "openvino")]
        timings, left_out = race("gru", names, rounds=3 if quick else 7, rtol=1e-3, case=case)
        flops = 2.0 * STEPS * BATCH * 6 * UNITS**2 * (1 if case == "forward" else 3)
        title, limits = f"GRU 256 over 256 steps, {case}", dict.fromkeys(names, 1.0)
        figures += against(title, timings, left_out, limits, Work(flops))
    return figures
