"""Creation, movement, joining, searching and linear algebra against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lamella as lm
from lamella.errors import OptionError, ShapeError

RNG = np.random.default_rng(3)
X = RNG.normal(size=(2, 3, 4))
M = RNG.normal(size=(3, 5))
WHOLE = RNG.integers(0, 6, size=(3, 5))


def close(found: Any, want: Any, rtol: float = 1e-12) -> None:
    value = found.numpy()
    assert value.shape == np.shape(want)
    np.testing.assert_allclose(value, want, rtol=rtol, atol=1e-13)


MOVES: list[tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = [
    (lambda t: t.reshape(6, -1), lambda x: x.reshape(6, -1)),
    (lambda t: t.view((4, 6)), lambda x: x.reshape(4, 6)),
    (lambda t: lm.reshape(t, (24,)), np.ravel),
    (lambda t: t.flatten(1), lambda x: x.reshape(2, 12)),
    (lambda t: t.flatten(), np.ravel),
    (lambda t: t.unflatten(2, (2, -1)), lambda x: x.reshape(2, 3, 2, 2)),
    (lambda t: t.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1)),
    (lambda t: t.permute((1, 2, 0)), lambda x: x.transpose(1, 2, 0)),
    (lambda t: t.transpose(1, 2), lambda x: x.swapaxes(1, 2)),
    (lambda t: t.T, lambda x: x.T),
    (lambda t: t.mT, lambda x: x.swapaxes(1, 2)),
    (lambda t: lm.transpose(t, (2, 1, 0)), lambda x: x.T),
    (lambda t: lm.moveaxis(t, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
    (lambda t: lm.moveaxis(t, (0, 1), (2, 0)), lambda x: np.moveaxis(x, (0, 1), (2, 0))),
    (lambda t: t.unsqueeze(1), lambda x: x[:, None]),
    (lambda t: lm.expand_dims(t, (0, -1)), lambda x: x[None, ..., None]),
    (lambda t: t[:, None].squeeze(), lambda x: x),
    (lambda t: t[:, None].squeeze(1), lambda x: x),
    (lambda t: t.squeeze(0), lambda x: x),
    (lambda t: t[:, :1].expand(-1, 5, -1), lambda x: np.broadcast_to(x[:, :1], (2, 5, 4))),
    (lambda t: lm.broadcast_to(t, (5, 2, 3, 4)), lambda x: np.broadcast_to(x, (5, 2, 3, 4))),
    (lambda t: t.flip(0), lambda x: np.flip(x, 0)),
    (lambda t: lm.flip(t), np.flip),
    (lambda t: t.flip((0, 2)), lambda x: np.flip(x, (0, 2))),
    (lambda t: lm.roll(t, 1, 2), lambda x: np.roll(x, 1, 2)),
    (lambda t: lm.roll(t, -3), lambda x: np.roll(x, -3)),
    (lambda t: lm.roll(t, (1, 2), (0, 1)), lambda x: np.roll(x, (1, 2), (0, 1))),
    (lambda t: lm.tile(t, 2), lambda x: np.tile(x, 2)),
    (lambda t: t.repeat(2, 1, 1, 3), lambda x: np.tile(x, (2, 1, 1, 3))),
    (lambda t: lm.repeat(t, 2, axis=1), lambda x: np.repeat(x, 2, axis=1)),
    (lambda t: lm.repeat(t, 3), lambda x: np.repeat(x, 3)),
    (lambda t: lm.repeat(t, [1, 0, 2], axis=1), lambda x: np.repeat(x, [1, 0, 2], axis=1)),
    (lambda t: lm.tril(t), np.tril),
    (lambda t: lm.triu(t, 1), lambda x: np.triu(x, 1)),
    (lambda t: lm.tril(t, -1), lambda x: np.tril(x, -1)),
    (lambda t: lm.diagonal(t, 0, 1, 2), lambda x: np.diagonal(x, 0, 1, 2)),
    (lambda t: lm.diagonal(t, -1), lambda x: np.diagonal(x, -1)),
    (lambda t: lm.diagonal(t, 1, 2, 0), lambda x: np.diagonal(x, 1, 2, 0)),
    (lambda t: lm.diagonal(t, 9), lambda x: np.diagonal(x, 9)),
    (lambda t: lm.pad(t, 1), lambda x: np.pad(x, 1)),
    (
        lambda t: lm.pad(t, ((0, 1), (2, 0), (1, 1)), constant_values=7.0),
        lambda x: np.pad(x, ((0, 1), (2, 0), (1, 1)), constant_values=7.0),
    ),
    (lambda t: lm.pad(t, 1, mode="reflect"), lambda x: np.pad(x, 1, mode="reflect")),
    (lambda t: lm.pad(t, 2, mode="wrap"), lambda x: np.pad(x, 2, mode="wrap")),
    (lambda t: lm.pad(t, 2, mode="edge"), lambda x: np.pad(x, 2, mode="edge")),
    (lambda t: lm.diff(t), np.diff),
    (lambda t: lm.diff(t, 2, axis=1), lambda x: np.diff(x, 2, axis=1)),
    (lambda t: lm.concat([t, t[:1]]), lambda x: np.concatenate([x, x[:1]])),
    (lambda t: lm.concat([t, t], axis=-1), lambda x: np.concatenate([x, x], -1)),
    (lambda t: lm.concat([t, t], axis=None), lambda x: np.concatenate([x, x], None)),
    (lambda t: lm.cat([t, t], dim=1), lambda x: np.concatenate([x, x], 1)),
    (lambda t: lm.stack([t, t], 1), lambda x: np.stack([x, x], 1)),
    (lambda t: lm.stack([t, t], axis=-1), lambda x: np.stack([x, x], -1)),
    (lambda t: lm.vstack([t[0], t[1]]), lambda x: np.vstack([x[0], x[1]])),
    (lambda t: lm.hstack([t, t]), lambda x: np.hstack([x, x])),
    (lambda t: lm.hstack([t[0, 0], t[1, 0]]), lambda x: np.hstack([x[0, 0], x[1, 0]])),
    (lambda t: lm.vstack([t[0, 0], t[1, 0]]), lambda x: np.vstack([x[0, 0], x[1, 0]])),
    (lambda t: lm.take(t, [1, 0, 1], axis=1), lambda x: np.take(x, [1, 0, 1], axis=1)),
    (lambda t: lm.take(t, [[5, 7]]), lambda x: np.take(x, [[5, 7]])),
    (lambda t: lm.sort(t, 1), lambda x: np.sort(x, 1)),
    (lambda t: t.sort(dim=0, descending=True), lambda x: -np.sort(-x, 0)),
    (lambda t: lm.argsort(t, 2), lambda x: np.argsort(x, 2)),
    (lambda t: lm.topk(t, 2).values, lambda x: -np.sort(-x, -1)[..., :2]),
    (lambda t: lm.topk(t, 2, axis=1, largest=False).indices, lambda x: np.argsort(x, 1)[:, :2]),
    (lambda t: lm.trace(t), lambda x: np.trace(x)),
    (lambda t: lm.trace(t, 1, -1, 1), lambda x: np.trace(x, 1, -1, 1)),
    (lambda t: lm.linalg.trace(t), lambda x: np.linalg.trace(x)),
    (lambda t: t.masked_fill(t > 0, -1.0), lambda x: np.where(x > 0, -1.0, x)),
    (lambda t: lm.fliplr(lm.flipud(t)), lambda x: np.fliplr(np.flipud(x))),
]


@pytest.mark.parametrize("position", range(len(MOVES)))
def test_moves(position: int) -> None:
    ours, theirs = MOVES[position]
    close(ours(lm.asarray(X)), theirs(X))


def test_pieces() -> None:
    t = lm.asarray(M)
    for ours, theirs in [
        (t.split(2, 1), np.split(M, [2, 4], 1)),
        (lm.split(t, [1, 4], dim=1), np.split(M, [1], 1)),
        (t.chunk(2, 1), np.split(M, [3], 1)),
        (lm.array_split(t, 3, 1), np.array_split(M, 3, 1)),
        (lm.array_split(t, [1, 1, 4], 1), np.array_split(M, [1, 1, 4], 1)),
        (lm.unstack(t), list(M)),
        (t.unbind(1), list(M.T)),
        (tuple(t), list(M)),
    ]:
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            close(a, b)


def test_diag_both_ways() -> None:
    for k in (-2, 0, 1):
        close(lm.diag(lm.asarray(M[0]), k), np.diag(M[0], k))
        close(lm.diag(lm.asarray(M), k), np.diag(M, k))


# -- creation --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "args",
    [(5,), (2, 9), (2, 9, 3), (9, 2, -2), (0,), (5, 2), (0.0, 1.0, 0.1), (1.5,), (1, 2, 0.25)],
)
def test_arange(args: tuple[Any, ...]) -> None:
    want = np.arange(*args)
    close(lm.arange(*args, dtype=want.dtype), want)
    assert lm.arange(*args).dtype == (lm.int64 if want.dtype == np.int64 else lm.float32)


@given(st.floats(-9, 9), st.floats(-9, 9), st.integers(0, 9), st.booleans())
def test_linspace(start: float, stop: float, num: int, endpoint: bool) -> None:
    close(
        lm.linspace(start, stop, num, endpoint, dtype="float64"),
        np.linspace(start, stop, num, endpoint),
        1e-9,
    )


def test_filled() -> None:
    close(lm.zeros(2, 3), np.zeros((2, 3)))
    close(lm.ones((2,), dtype="int8"), np.ones(2))
    close(lm.full((2, 2), 7), np.full((2, 2), 7))
    assert lm.full((2,), True).dtype == lm.bool_ and lm.full((2,), 1.5).dtype == lm.float32
    close(lm.full((2, 3), lm.tensor([1, 2, 3])), np.full((2, 3), [1, 2, 3]))
    close(lm.eye(3, 4, 1), np.eye(3, 4, 1))
    close(lm.zeros_like(lm.asarray(M)), np.zeros_like(M))
    close(lm.full_like(lm.asarray(M), 2), np.full_like(M, 2))
    close(lm.logspace(0, 3, 4, dtype="float64"), np.logspace(0, 3, 4))
    assert lm.ones_like(lm.asarray(M), dtype="int32").dtype == lm.int32 and lm.zeros(
        size=(2, 2)
    ).shape == (2, 2)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(indexing: Any) -> None:
    axes = [np.arange(2.0), np.arange(3.0), np.arange(4.0)]
    for count in (1, 2, 3):
        for a, b in zip(
            lm.meshgrid(*axes[:count], indexing=indexing),
            np.meshgrid(*axes[:count], indexing=indexing),
            strict=True,
        ):
            close(a, b)


def test_types_of_python_data() -> None:
    assert (
        lm.tensor([1.5]).dtype == lm.float32
        and lm.tensor([1, 2]).dtype == lm.int64
        and lm.tensor(True).dtype == lm.bool_
    )
    assert (
        lm.tensor(np.zeros(2)).dtype == lm.float64
        and lm.tensor([np.float64(1.0)]).dtype == lm.float64
    )
    assert lm.tensor([]).shape == (0,) and lm.tensor([[], []]).shape == (2, 0)
    assert lm.tensor([[1, 2.5]]).tolist() == [[1.0, 2.5]]
    assert lm.tensor([lm.tensor(1), lm.tensor(2)]).tolist() == [1, 2]
    assert lm.tensor([1, 2], dtype="bfloat16").tolist() == [1.0, 2.0]


def test_sharing_and_copying_numpy() -> None:
    a = np.zeros(3)
    shared, copied = lm.asarray(a), lm.tensor(a)
    a[0] = 5
    assert shared.tolist() == [5.0, 0.0, 0.0] and copied.tolist() == [0.0, 0.0, 0.0]
    assert lm.asarray(a, copy=True).numpy().ctypes.data != a.ctypes.data
    for odd in (a[::2], a.astype(">f8"), np.asfortranarray(np.ones((2, 3)))):
        np.testing.assert_array_equal(lm.asarray(odd).numpy(), odd)


# -- searching -------------------------------------------------------------------------------------
def test_looking_at_values() -> None:
    t = lm.asarray(WHOLE)
    for a, b in zip(lm.nonzero(t), np.nonzero(WHOLE), strict=True):
        close(a, b)
    for a, b in zip(lm.where(t > 2), np.where(WHOLE > 2), strict=True):
        close(a, b)
    close(lm.unique(t), np.unique(WHOLE))
    for a, b in zip(
        lm.unique(t, return_inverse=True, return_counts=True),
        np.unique(WHOLE, return_inverse=True, return_counts=True),
        strict=True,
    ):
        close(a, b)
    close(lm.bincount(t.ravel(), minlength=9), np.bincount(WHOLE.ravel(), minlength=9))
    close(lm.bincount(t.ravel(), weights=M.ravel()), np.bincount(WHOLE.ravel(), weights=M.ravel()))


@given(
    st.lists(st.integers(-5, 5), max_size=9),
    st.lists(st.integers(-6, 6), max_size=5),
    st.sampled_from(["left", "right"]),
)
def test_searchsorted(row: list[int], values: list[int], side: Any) -> None:
    row = sorted(row)
    found = lm.searchsorted(lm.tensor(row, dtype="int64"), lm.tensor(values, dtype="int64"), side)
    close(found, np.searchsorted(np.array(row, int), np.array(values, int), side))


def test_along_axis() -> None:
    index = np.argsort(M, axis=1)[:, :2]
    close(lm.take_along_axis(lm.asarray(M), lm.asarray(index), 1), np.take_along_axis(M, index, 1))
    close(lm.asarray(M).gather(1, lm.asarray(index)), np.take_along_axis(M, index, 1))
    want = M.copy()
    np.put_along_axis(want, index, 9.0, 1)
    close(lm.put_along_axis(lm.asarray(M), lm.asarray(index), 9.0, 1), want)
    close(
        lm.asarray(M).scatter_add(1, lm.asarray(index), lm.ones(3, 2)),
        M + (np.arange(5) == index[..., None]).sum(1),
    )
    close(lm.one_hot(lm.asarray(WHOLE), 6), np.eye(6)[WHOLE])


# -- products --------------------------------------------------------------------------------------
A, B, V = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 4, 5)), RNG.normal(size=4)

PRODUCTS: list[tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]] = [
    (lm.matmul, np.matmul, (A, B)),
    (lm.matmul, np.matmul, (A, V)),
    (lm.matmul, np.matmul, (V, B)),
    (lm.matmul, np.matmul, (V, V)),
    (lm.dot, np.dot, (A, V)),
    (lm.dot, np.dot, (A[0], B[0])),
    (lm.dot, np.dot, (A, B)),
    (lm.inner, np.inner, (A, V)),
    (lm.inner, np.inner, (A, A)),
    (lm.outer, np.outer, (A, V)),
    (lm.kron, np.kron, (A[0], B[0])),
    (lm.kron, np.kron, (V, B)),
    (lm.vecdot, lambda a, b: (a * b).sum(-1), (A, V)),
    (lambda a, b: lm.tensordot(a, b, 1), lambda a, b: np.tensordot(a, b, 1), (A, B[0])),
    (
        lambda a, b: lm.tensordot(a, b, axes=([0, 2], [0, 1])),
        lambda a, b: np.tensordot(a, b, axes=([0, 2], [0, 1])),
        (A, B),
    ),
    (lambda a, b: lm.tensordot(a, b, 0), lambda a, b: np.tensordot(a, b, 0), (A, V)),
    (lm.cross, np.cross, (RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3)))),
    (lambda a, b: a @ b, lambda a, b: a @ b, (WHOLE, WHOLE.T)),
]


@pytest.mark.parametrize("position", range(len(PRODUCTS)))
def test_products(position: int) -> None:
    ours, theirs, args = PRODUCTS[position]
    close(ours(*map(lm.asarray, args)), theirs(*args))


EINSUMS = [
    ("ij,jk->ik", [(3, 4), (4, 5)]),
    ("ij,jk", [(3, 4), (4, 5)]),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    ("ii->i", [(3, 3)]),
    ("ii", [(3, 3)]),
    ("ij->ji", [(3, 4)]),
    ("ij->", [(3, 4)]),
    ("ij->j", [(3, 4)]),
    ("i,j->ij", [(3,), (4,)]),
    ("i,i->i", [(3,), (3,)]),
    ("i,i->", [(3,), (3,)]),
    ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
    ("...i,...i", [(2, 3), (3,)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ("abc,cd,be->ade", [(2, 3, 4), (4, 5), (3, 2)]),
    ("ijj->i", [(2, 3, 3)]),
    ("iij,jk->ik", [(3, 3, 2), (2, 4)]),
    ("a,b,c->cab", [(2,), (3,), (4,)]),
    ("ij,ij->ij", [(2, 3), (2, 3)]),
    ("i...->...", [(2, 3, 4)]),
    ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
    ("ij,kl->", [(2, 3), (4, 5)]),
    ("b...,b...->b...", [(1, 3), (2, 1)]),
]


@pytest.mark.parametrize(("equation", "shapes"), EINSUMS, ids=[e for e, _ in EINSUMS])
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [RNG.normal(size=shape) for shape in shapes]
    close(lm.einsum(equation, *map(lm.asarray, arrays)), np.einsum(equation, *arrays))


@pytest.mark.parametrize(
    ("equation", "shape"), [("ii->i", (2, 3)), ("ii", (3, 1)), ("jij->i", (1, 2, 3))]
)
def test_einsum_diagonals_of_axes_that_differ(equation: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="collapsing"):
        np.einsum(equation, np.ones(shape))
    with pytest.raises(ShapeError, match=r"\[einsum\] axis '[ij]'.*sizes"):
        lm.einsum(equation, lm.ones(shape))


@pytest.mark.parametrize("wanted", [None, [2, 0], []])
def test_einsum_by_lists_of_numbers(wanted: list[int] | None) -> None:
    a, b = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 4))
    more = () if wanted is None else (wanted,)
    want = np.einsum(a, [0, 1], b, [1, 2], *more)
    for _ in range(3):  # recorded as written, studied, and from a template
        close(lm.einsum(lm.asarray(a), [0, 1], lm.asarray(b), [1, 2], *more), want)
    close(lm.einsum(b, [..., 30], [...]), b.sum(1))


@pytest.mark.parametrize("axes", [["a"], [52], [-1], 3, None])
def test_einsum_by_lists_of_something_else(axes: Any) -> None:
    with pytest.raises(OptionError, match="einsum"):
        lm.einsum(lm.ones(2), axes)


@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, np.inf, -np.inf, "fro"])
def test_norms(order: Any) -> None:
    if order != "fro":
        for axis in (0, 1):
            close(lm.norm(lm.asarray(M), order, axis), np.linalg.norm(M, order, axis))
    close(
        lm.norm(lm.asarray(M), order, keepdims=True),
        np.linalg.norm(M.ravel(), None if order == "fro" else order).reshape(1, 1),
    )
    if order in ("fro", 1, np.inf, -np.inf):
        close(lm.linalg.matrix_norm(lm.asarray(M), ord=order), np.linalg.norm(M, order))


def test_powers_of_matrices() -> None:
    square = RNG.normal(size=(3, 3))
    for n in (0, 1, 5):
        close(lm.linalg.matrix_power(lm.asarray(square), n), np.linalg.matrix_power(square, n))
