"""10,000 Runge-Kutta steps of a neural ordinary differential equation: y' = tanh(y A + b) C + d, 4
states, 16 hidden units. What is measured is how little a step of a loop costs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Figure, Task, against, race

STEPS, STATES, HIDDEN, SIZE = 10_000, 4, 16, 1e-3


def data() -> list[Any]:
    """The first state, and the weights."""
    draw = np.random.default_rng(0)
    shapes = ((STATES,), (STATES, HIDDEN), (HIDDEN,), (HIDDEN, STATES), (STATES,))
    return [(0.3 * draw.normal(size=shape)).astype(np.float32) for shape in shapes]


def step(xp: Any, y: Any, weights: list[Any]) -> Any:
    """One step of the classical method of order 4."""
    a, b, c, d = weights

    def f(y: Any) -> Any:
        return xp.tanh(y @ a + b) @ c + d

    k1 = f(y)
    k2 = f(y + k1 * (SIZE / 2))
    k3 = f(y + k2 * (SIZE / 2))
    k4 = f(y + k3 * SIZE)
    return y + (k1 + 2 * k2 + 2 * k3 + k4) * (SIZE / 6)


def numpy() -> Task:
    """A Python loop."""
    y0, *weights = data()
    last: list[Any] = []

    def run() -> None:
        y = y0
        for _ in range(STEPS):
            y = step(np, y, weights)
        last[:] = [y]

    return Task(run, lambda: last[0])


def lamella() -> Task:
    """fori_loop, jitted."""
    import lamella as lm

    y0, *weights = (lm.asarray(a) for a in data())
    solve = lm.jit(lambda y: lm.fori_loop(0, STEPS, lambda i, y: step(lm, y, weights), y))
    last: list[Any] = []

    def run() -> None:
        last[:] = [solve(y0)]
        lm.eval(last[0])

    return Task(run, lambda: last[0].numpy())


def jax() -> Task:
    """lax.fori_loop, jitted."""
    import jax as j

    y0, *weights = (j.numpy.asarray(a) for a in data())
    body = lambda i, y: step(j.numpy, y, weights)  # noqa: E731
    solve = j.jit(lambda y: j.lax.fori_loop(0, STEPS, body, y))
    last: list[Any] = []

    def run() -> None:
        last[:] = [solve(y0).block_until_ready()]

    return Task(run, lambda: np.asarray(last[0]))


def torch() -> Task:
    """A Python loop, eager."""
    import torch as th

    y0, *weights = (th.from_numpy(a) for a in data())
    last: list[Any] = []

    def run() -> None:
        with th.no_grad():
            y = y0
            for _ in range(STEPS):
                y = step(th, y, weights)
        last[:] = [y]

    return Task(run, lambda: last[0].numpy())


def mlx() -> Task:
    """A Python loop over a compiled step."""
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    y0, *weights = (mx.array(a) for a in data())
    compiled = mx.compile(lambda y: step(mx, y, weights))

    def solve() -> Any:
        y = y0
        for number in range(STEPS):
            y = compiled(y)
            if number % 100 == 0:
                mx.eval(y)
        mx.eval(y)
        return y

    return peers.repeated(solve, np.array)


def tinygrad() -> Task:
    """A Python loop over a recorded step."""
    tensor, jit, wait = peers.tinygrad_parts()
    y0, *weights = (tensor(a).realize() for a in data())
    methods = peers.Methods()
    recorded = jit(lambda y: step(methods, y, weights).realize())

    def solve() -> Any:
        y = y0
        for _ in range(STEPS):
            y = recorded(y).clone().realize()
        wait()
        return y

    return peers.repeated(solve, lambda y: y.numpy())


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'."""
    names = ["numpy", "lamella", "jax", *(() if quick else ("torch", "mlx", "tinygrad"))]
    timings, left_out = race("ode", names, rounds=3 if quick else 7, target=0.05)
    title = "neural ODE, 10,000 Runge-Kutta steps"
    return against(title, timings, left_out, dict.fromkeys(names, 1.0))
