"""PyTorch's top-level functions of this name: values, shapes, element types, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lamella as lm
from tests.parity.test_torch_methods import agree, converted

torch = pytest.importorskip("torch", reason="make parity installs PyTorch")

RNG = np.random.default_rng(0)
A, S, T = RNG.normal(size=(4, 5)), RNG.normal(size=(3, 5)), RNG.normal(size=(3, 4, 5))
I, K, M = RNG.integers(0, 4, (3, 5)), RNG.integers(-5, 5, (4, 5)), RNG.integers(0, 3, (6, 7))  # noqa: E741
PAIR = np.array([0, 2, 2])
X = np.concatenate([RNG.normal(size=(3, 36)) * 100, [[-np.inf], [np.inf], [1.0]]], 1)
REDUCTIONS = ["sum", "prod", "mean", "amax", "amin"]
Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def call(name: str, *args: Any, **options: Any) -> Call:
    return name, args, options


CALLS: list[Call] = [
    *(call("scatter_reduce", A, 0, I, S, r, include_self=s)
      for r in REDUCTIONS for s in (False, True)),
    *(call("index_reduce", A, 1, PAIR, A[:, :3].copy(), r, include_self=s)
      for r in REDUCTIONS[1:] for s in (False, True)),
    call("scatter_reduce", K, 1, I[:, :2].copy(), K, "mean"),
    call("put", A, np.array([[0, 7], [3, 3]]), A[:2, :2].copy(), True),
    call("index_put", A, (PAIR, PAIR), A[0, :3].copy(), accumulate=True),
    call("select_scatter", A, S[0], 0, 1), call("select_scatter", T, T[:, 0].copy(), 1, -1),
    call("slice_scatter", A, A[:2] * 0, 0, 1, None, 2),
    *(call("diagonal_scatter", A, np.zeros_like(np.diagonal(A, k)), k) for k in (-2, 0, 1, 3)),
    call("diagonal_scatter", T, np.zeros((4, 3)), 1, 0, 2),
    call("logcumsumexp", X, 1), call("logcumsumexp", T, 0), call("histc", A, 7),
    call("histc", A, 7, -1, 1), call("renorm", T, 3, 1, 1.5), call("renorm", T, 1, 0, 2.0),
    call("cumulative_trapezoid", T, dim=1, dx=0.5),
    call("cumulative_trapezoid", T, np.abs(T).cumsum(1), dim=1),
    call("nonzero_static", M, size=50), call("nonzero_static", M, size=5, fill_value=9),
    *(call("div", x, y, rounding_mode=m) for x, y in ((K, 3), (K, -3), (A, 0.3))
      for m in (None, "floor", "trunc")),
    call("rsub", A, 2.0, alpha=3), call("chain_matmul", A, A.T.copy(), A),
    call("logdet", A @ A.T), call("t", A), call("adjoint", T), call("numel", A),
    call("is_complex", A), call("is_floating_point", A), call("is_signed", A),
    call("is_same_size", A, S), call("movedim", T, 0, 2), call("swapdims", T, 0, 1),
    call("mul", A, 2.0), call("sub", A, 2.0), call("neg", A), call("eq", K, 2), call("lt", K, 2),
    call("trapz", A), call("softmax", A, 1), call("log_softmax", A, 1), call("relu", A),
    call("mvlgamma", np.abs(A) + 3, 2), call("igamma", np.abs(A), np.abs(A)),
    call("ger", A[0], A[1]),
    call("row_stack", (A, S)), call("cdist", A, S), call("pdist", A), call("inverse", A @ A.T),
    *(call(f"{w}_window", 9, p) for p in (True, False)
      for w in ("hann", "hamming", "blackman", "bartlett", "kaiser")),
]  # fmt: skip


def both(value: Any, make: Any) -> Any:
    return tuple(converted(make, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize("entry", CALLS, ids=lambda entry: entry[0])
@pytest.mark.filterwarnings("ignore")
def test_values(entry: Call) -> None:
    name, args, options = entry
    expected = getattr(torch, name, None) or getattr(torch.Tensor, name)
    theirs = expected(*converted(torch.tensor, [both(a, torch.tensor) for a in args]), **options)
    ours = getattr(lm, name)(*converted(lm.tensor, [both(a, lm.tensor) for a in args]), **options)
    if isinstance(theirs, bool | int):
        assert ours == theirs
    elif "window" in name:
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-6)
    else:
        agree(ours, theirs)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_mode(dim: int) -> None:
    for keepdim in (False, True):
        ours, theirs = lm.mode(M, dim, keepdim), torch.mode(torch.tensor(M), dim, keepdim)
        agree(ours.values, theirs.values)
        agree(ours.indices, theirs.indices)


@pytest.mark.parametrize("name", ["scatter_reduce", "logcumsumexp"])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_derivatives(name: str, reduce: str) -> None:
    rest = (0, I, S, reduce) if name == "scatter_reduce" else (0,)
    theirs = torch.tensor(A, requires_grad=True)
    (getattr(torch, name)(theirs, *converted(torch.tensor, rest)) ** 2).sum().backward()
    ours = lm.grad(lambda x: (getattr(lm, name)(x, *rest) ** 2).sum())(lm.asarray(A))
    agree(ours, theirs.grad)


def test_in_place() -> None:
    for wrap in (False, True):
        ours, theirs = lm.zeros((7, 3)), torch.zeros(7, 3)
        agree(ours.fill_diagonal_(5, wrap), theirs.fill_diagonal_(5, wrap))
    ours, theirs = lm.tensor(A), torch.tensor(A)
    agree(ours.scatter_reduce_(0, lm.tensor(I), lm.tensor(S), "amax"),
          theirs.scatter_reduce_(0, torch.tensor(I), torch.tensor(S), "amax"))  # fmt: skip


def test_draws() -> None:
    lm.manual_seed(0)
    assert lm.rand(2, 3).shape == lm.randn((2, 3)).shape == lm.rand_like(lm.ones((2, 3))).shape
    assert set(lm.randint(2, 5, (99,)).tolist()) == {2, 3, 4} == set(
        lm.randint_like(lm.ones(99), 2, 5).int().tolist()
    )
    assert sorted(lm.randperm(9).tolist()) == list(range(9))
    drawn = lm.normal(lm.full((20_000,), 3.0), 2.0)
    assert abs(drawn.mean().item() - 3) < 0.1 and abs(drawn.std().item() - 2) < 0.1
    assert abs(lm.poisson(lm.full((20_000,), 4.0)).mean().item() - 4) < 0.1
    assert abs(lm.bernoulli(lm.full((20_000,), 0.25)).mean().item() - 0.25) < 0.02
    with pytest.raises(ValueError, match=r"^\[randint\]"):
        lm.randint(3)
