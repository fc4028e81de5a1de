"""A layer of a graph network: relu(A (x W)), 20,000 nodes, 400,000 edges, 128 wide, float32."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Array, Figure, Task, Work, against, race

NODES, EDGES, WIDE = 20_000, 400_000, 128


def data() -> tuple[Any, Array, Array]:
    """The adjacency matrix (SciPy's CSR), features and weights."""
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    places = rng.integers(0, NODES, EDGES), rng.integers(0, NODES, EDGES)
    a = sp.csr_matrix((np.full(EDGES, 0.05, np.float32), places), shape=(NODES, NODES))
    a.sum_duplicates()
    x = rng.normal(size=(NODES, WIDE)).astype(np.float32)
    return a, x, (rng.normal(size=(WIDE, WIDE)) / np.sqrt(WIDE)).astype(np.float32)


def scipy() -> Task:
    """SciPy and NumPy."""
    a, x, w = data()
    last: list[Array] = []

    def run() -> None:
        last[:] = [np.maximum(a @ (x @ w), 0)]

    return Task(run, lambda: last[0])


def lamella() -> Task:
    """lm.sparse.CSR, jitted."""
    import lamella as lm
    from lamella import nn

    a, x, w = data()
    matrix = lm.sparse.CSR(a.data, a.indices, a.indptr, a.shape)
    features, weights = lm.asarray(x), lm.asarray(w)
    layer = lm.jit(lambda x, w: nn.functional.relu(matrix @ (x @ w)))
    last: list[Any] = []

    def run() -> None:
        last[:] = [layer(features, weights)]

    return Task(run, lambda: last[0].numpy())


def _torch(compiled: Callable[[Any], Any]) -> Task:
    import torch as th

    warnings.filterwarnings("ignore", "Sparse")
    a, x, w = data()
    matrix = th.sparse_csr_tensor(
        th.from_numpy(a.indptr), th.from_numpy(a.indices), th.from_numpy(a.data), a.shape
    )
    features, weights = th.from_numpy(x), th.from_numpy(w)
    layer = compiled(lambda x, w: th.relu(matrix @ (x @ w)))
    return peers.repeated(lambda: layer(features, weights), lambda y: y.numpy())


def torch() -> Task:
    """PyTorch's torch.sparse_csr_tensor."""
    return _torch(lambda function: function)


def torch_compile() -> Task:
    """The same, compiled."""
    import torch as th

    return _torch(th.compile)


def jax() -> Task:
    """JAX's sparse matrices, jitted."""
    import jax as j
    from jax.experimental.sparse import BCSR

    a, x, w = data()
    matrix = BCSR.from_scipy_sparse(a)
    features, weights = j.numpy.asarray(x), j.numpy.asarray(w)
    layer = j.jit(lambda m, x, w: j.nn.relu(m @ (x @ w)))
    return peers.repeated(lambda: layer(matrix, features, weights).block_until_ready(), np.asarray)


def mlx() -> Task:
    """MLX: rows taken by the columns' numbers, added at the rows'."""
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    a, x, w = data()
    coo = a.tocoo()
    rows, columns, values = (mx.array(part) for part in (coo.row, coo.col, coo.data))
    features, weights = mx.array(x), mx.array(w)

    def layer(x: Any, w: Any) -> Any:
        messages = values[:, None] * (x @ w)[columns]
        return mx.maximum(mx.zeros((NODES, WIDE)).at[rows].add(messages), 0)

    def step() -> Any:
        y = layer(features, weights)
        mx.eval(y)
        return y

    return peers.repeated(step, np.array)


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'."""
    names = ["scipy", "lamella", "torch", "torch_compile", "jax", "mlx"]
    timings, left_out = race("spmm", names, rounds=3 if quick else 9)
    title = f"graph layer, {NODES} nodes, {EDGES} edges, {WIDE} wide"
    work = Work(flops=2.0 * WIDE * (EDGES + NODES * WIDE))
    return against(title, timings, left_out, dict.fromkeys(names, 1.0), work)
