"""Methods of tensors that PyTorch has beside NumPy's, and its functions of the same kind: values,
shapes, element types.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lamella as lm

torch = pytest.importorskip("torch", reason="make parity installs PyTorch")

RNG = np.random.default_rng(0)
A, B, S = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 3)), RNG.normal(size=(3, 3))
V, P, I = RNG.normal(size=4), abs(A) + 0.1, RNG.integers(-9, 9, (3, 4))  # noqa: E741
BB, CC = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 4, 3))
idx, M = np.array([2, 0, 2]), A > 0
Call = tuple[str, Any, tuple[Any, ...], dict[str, Any]]


def call(name: str, x: Any, *args: Any, **options: Any) -> Call:
    return name, x, args, options


METHODS: list[Call] = [
    call("addmm", S, A, B, beta=.5, alpha=2.), call("addmv", S[0], A, V),
    call("addr", A, S[0], V, alpha=.5), call("baddbmm", BB[:, :, :3], BB, CC, beta=.1),
    call("addbmm", S, BB, CC), call("addcmul", A, P, P, value=.5),
    call("addcdiv", A, P, P, value=.5), call("index_select", A, 0, idx),
    call("index_add", A, 0, idx, A, alpha=2.), call("index_copy", A, 1, np.array([3, 0]), A[:, :2]),
    call("index_fill", A, 1, np.array([1, 2]), 9.), call("narrow", A, 1, 1, 2),
    call("narrow", A, 1, -3, 2), call("masked_fill", A, M, 2.), call("masked_select", A, M),
    call("masked_scatter", A, M, P), call("kthvalue", A, 2, dim=0),
    call("kthvalue", A, 1, keepdim=True), call("msort", A),
    call("unique_consecutive", np.array([1, 1, 2, 2, 2, 1])),
    call("unique_consecutive", np.array([1, 1, 2, 2, 2, 1]), return_inverse=True,
         return_counts=True),
    call("aminmax", A, dim=1), call("aminmax", A), call("dist", A, P, 3.), call("clamp_min", A, .1),
    call("clamp_max", A, .1), call("frac", A*9), call("sgn", A), call("sgn", A+1j*A),
    call("split_with_sizes", A, [1, 2], 0), call("tensor_split", A, 3, 1),
    call("tensor_split", A, [1, 3], dim=1), call("diag_embed", A), call("diag_embed", A, 1),
    call("diag_embed", A, -2), call("diag_embed", A, 1, 0, 2), call("softmax", A, dim=0),
    call("log_softmax", A, -1), call("relu", A), call("logit", 1/(1+P)), call("digamma", P),
    call("lgamma", P), call("xlogy", A, P), call("erfinv", A/9), call("i0", A),
    call("igamma", P, P), call("igammac", P, P), call("mvlgamma", P+3, 2), call("det", S),
    call("inverse", S), call("slogdet", S), call("logdet", S@S.T), call("matrix_power", S, 3),
    call("matrix_exp", S), call("pinverse", A), call("cholesky", S@S.T+np.eye(3)),
    call("kron", S, S), call("inner", V, V), call("ger", V, V), call("vdot", V, V),
    call("absolute", A), call("arctan2", A, P), call("fmax", A, P), call("fmin", A, P),
    call("copysign", A, -P), call("hypot", A, P), call("heaviside", A, P),
    call("gcd", I, I[::-1].copy()), call("lcm", I, I[::-1].copy()), call("ldexp", A, I),
    call("logaddexp", A, P), call("logaddexp2", A, P), call("sinc", A), call("deg2rad", A),
    call("rad2deg", A), call("float_power", P, A), call("frexp", A), call("signbit", A),
    call("nextafter", A, P), call("isposinf", A), call("greater", A, P), call("less_equal", A, P),
    call("not_equal", A, P), call("bitwise_and", I, I[::-1].copy()),
    call("bitwise_left_shift", abs(I), abs(I[::-1]).copy()), call("diagflat", V, 1),
    call("fliplr", A), call("flipud", A), call("rot90", A, 1, (0, 1)), call("hsplit", A, 2),
    call("take_along_dim", A, np.abs(I)%3, 0), call("allclose", A, A), call("equal", A, A),
    call("equal", A, P), call("select", A, 1, 2), call("select", A, 0, -1),
    call("unfold", A, 1, 2, 2), call("unfold", BB, 1, 2, 1), call("sum_to_size", A, 1, 4),
    call("sum_to_size", BB, 3, 1), call("stride", BB), call("stride", BB, 1),
    call("new_full", A, (2, 3), 7.), call("new_zeros", A, 2, 3), call("new_empty", A, (0, 2)),
    call("new_tensor", A, [1, 2]), call("short", A*9), call("char", A*9), call("byte", P*9),
    call("is_signed", A), call("is_same_size", A, P), call("adjoint", BB+1j*BB),
    call("cholesky_solve", S, np.linalg.cholesky(S@S.T+np.eye(3))), call("cross", S, S, dim=-1),
]  # fmt: skip
FUNCTIONS: list[Call] = [
    call("std_mean", A, dim=1), call("var_mean", A), call("block_diag", S, A),
    call("cartesian_prod", V, S[0]), call("combinations", V, 3), call("combinations", V, 2, True),
    call("bucketize", A, np.sort(V)), call("bucketize", A, np.sort(V), right=True),
    call("mm", A, B), call("bmm", BB, CC), call("mv", A, V), call("addmm", S, A, B, alpha=2.0),
]  # fmt: skip
IN_PLACE = [
    "acos", "arctan", "ceil", "cos", "cosh", "digamma", "erf", "exp2", "fix", "floor", "frac", "i0",
    "lgamma", "log1p", "neg", "reciprocal", "relu", "round", "rsqrt", "sgn", "sign", "sin", "sinc",
    "square", "trunc", "tril",
]  # fmt: skip


def leaves(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple | list):
        return [leaf for part in value for leaf in leaves(part)]
    return [np.asarray(value.resolve_conj() if hasattr(value, "resolve_conj") else value)]


def agree(found: Any, expected: Any) -> None:
    for ours, theirs in zip(leaves(found), leaves(expected), strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


def converted(make: Any, values: Any) -> list[Any]:
    return [make(v) if isinstance(v, np.ndarray) else v for v in values]


@pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry[0])
@pytest.mark.filterwarnings("ignore")
def test_methods(entry: Call) -> None:
    name, x, args, options = entry
    expected = getattr(torch.tensor(x), name)(*converted(torch.tensor, args), **options)
    agree(getattr(lm.tensor(x), name)(*converted(lm.tensor, args), **options), expected)


@pytest.mark.parametrize("entry", FUNCTIONS, ids=lambda entry: entry[0])
def test_functions(entry: Call) -> None:
    name, x, args, options = entry
    expected = getattr(torch, name)(*converted(torch.tensor, (x, *args)), **options)
    agree(getattr(lm, name)(*converted(lm.tensor, (x, *args)), **options), expected)


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str) -> None:
    theirs, ours = torch.tensor(P / 9), lm.tensor(P / 9)
    getattr(theirs, f"{name}_")()
    other = ours.clone()
    assert getattr(ours, f"{name}_")() is ours
    agree(ours, theirs)
    agree(other, P / 9)


def test_draws_in_place() -> None:
    lm.manual_seed(0)
    x = lm.zeros((20_000,))
    assert abs(x.bernoulli_(0.25).mean().item() - 0.25) < 0.02
    assert abs(x.exponential_(4.0).mean().item() - 0.25) < 0.02
    assert abs(x.cauchy_(3.0).median().item() - 3.0) < 0.1
    assert abs(x.log_normal_(1.0, 0.5).log().mean().item() - 1.0) < 0.02
    assert set(x.random_(2, 5).tolist()) == {2.0, 3.0, 4.0}
    weights = lm.tensor([[0.0, 1.0, 3.0]] * 2)
    drawn = weights.multinomial(5000, replacement=True)
    assert drawn.shape == (2, 5000) and abs((drawn == 2).float().mean().item() - 0.75) < 0.03
    assert sorted(weights[0].multinomial(2).tolist()) == [1, 2]


@pytest.mark.parametrize(
    "act",
    [
        lambda x: x.narrow(0, 2, 2),
        lambda x: x.kthvalue(9),
        lambda x: lm.mm(x, x[0]),
        lambda x: x.long().frac(),
        lambda x: x.addr_(lm.ones(5), lm.ones(4)),
    ],
)
def test_misuse(act: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"^\["):
        act(lm.tensor(A))
