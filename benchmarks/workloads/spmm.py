"""A layer of a graph network: relu(A (x W)), 20,000 nodes, 400,000 edges, 128 wide, float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import Array, Figure, Task, against, race

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


def torch() -> Task:
    """PyTorch's torch.sparse_csr_tensor."""
    import warnings

    import torch as th

    warnings.filterwarnings("ignore", "Sparse")
    a, x, w = data()
    matrix = th.sparse_csr_tensor(
        th.from_numpy(a.indptr), th.from_numpy(a.indices), th.from_numpy(a.data), a.shape
    )
    features, weights = th.from_numpy(x), th.from_numpy(w)
    last: list[Any] = []

    def run() -> None:
        last[:] = [th.relu(matrix @ (features @ weights))]

    return Task(run, lambda: last[0].numpy())


def measure(quick: bool) -> list[Figure]:
    """Lamella's time as a ratio to the others'."""
    timings, left_out = race("spmm", ["scipy", "lamella", "torch"], rounds=3 if quick else 9)
    name = f"graph layer, {NODES} nodes, {EDGES} edges, {WIDE} wide"
    return against(name, timings, left_out, {"torch": 1.0, "scipy": 1.0})
