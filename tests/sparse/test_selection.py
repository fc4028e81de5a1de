"""Sparse matrices of complex numbers, their rows and columns, and their forms, against SciPy and
dense arithmetic in float64.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import lamella as lm
from lamella.errors import (
    CheckError,
    DTypeError,
    LamellaIndexError,
    OptionError,
    ShapeError,
)

sp = lm.sparse


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def matrix(n: int, m: int, seed: int = 0, density: float = 0.4) -> tuple[Any, sp.CSR]:
    found = scipy.sparse.random(n, m, density, "csr", random_state=seed).astype(complex)
    found.data = draw(found.nnz, seed=seed)
    return found, sp.CSR(found.data, found.indices, found.indptr, (n, m))


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-10, atol=1e-12)


# -- complex numbers -------------------------------------------------------------------------------
@settings(deadline=None, max_examples=20)
@given(st.integers(0, 7), st.integers(0, 7), st.integers(0, 4), st.integers(0, 99))
def test_complex_products(n: int, m: int, k: int, seed: int) -> None:
    reference, a = matrix(n, m, seed)
    real = a.with_data(lm.real(a.data))
    x, v = draw(m, k, seed=1), draw(m, seed=2)
    for right in (x, x.real, v, v.real):
        close(a @ right, reference @ right)
        close(real @ right, reference.real @ right)
    close(draw(k, n) @ a, draw(k, n) @ reference.toarray())
    close(a.T @ draw(n, k), reference.T @ draw(n, k))
    for axis in (None, 0, 1):
        close(a.sum(axis), reference.toarray().sum(axis))


def test_complex_arithmetic() -> None:
    reference, a = matrix(6, 5)
    other, b = matrix(6, 5, 1)
    dense, real = draw(6, 5), b.with_data(lm.real(b.data))
    close((a * 2j + b).to_dense(), (reference * 2j + other).toarray())
    close((a - real).to_dense(), (reference - other.real).toarray())
    close((a / dense).to_dense(), reference.toarray() / dense)
    close((a + b.to_coo()).to_dense(), (reference + other).toarray())
    close(sp.from_dense(reference.toarray()).to_dense(), reference.toarray())
    left, right = draw(6, 3), draw(3, 5)
    mask = reference.toarray() != 0
    close(sp.sampled_matmul(a, left, right).to_dense(), (left @ right) * mask)
    with pytest.raises(DTypeError, match="softmax"):
        a.softmax()


def test_complex_derivatives() -> None:
    reference, a = matrix(6, 5)
    x = lm.asarray(draw(5, 3))
    mask = reference.toarray() != 0
    loss = lambda y: (lm.abs(y) ** 2).sum() + lm.real(y).sum()  # noqa: E731
    found = lm.jit(lm.grad(lambda a, x: loss(a @ x), (0, 1)))(a, x)
    wanted = lm.grad(lambda a, x: loss(a @ x), (0, 1))(lm.asarray(reference.toarray()), x)
    close(found[0].to_dense(), np.where(mask, wanted[0].numpy(), 0))
    close(found[1], wanted[1])
    tangent = a.with_data(draw(a.nnz, seed=3))
    close(lm.jvp(lambda a: a @ x, (a,), (tangent,))[1], (tangent @ x).numpy())
    many = lm.vmap(lambda d: a.with_data(d) @ x)(lm.stack([a.data, a.data * 2j]))
    close(many, np.stack([reference @ x.numpy(), reference @ x.numpy() * 2j]))


# -- rows and columns ------------------------------------------------------------------------------
INDICES = [
    2, -1, np.int64(0), slice(None), slice(1, 4), slice(None, None, -2), slice(3, 3), [3, 0, 0],
    np.array([-1, 1]), [], np.array([True, False, True, False, False, True]),
]  # fmt: skip


def dense(found: Any) -> Any:
    return found.to_dense() if hasattr(found, "to_dense") else found


@pytest.mark.parametrize("rows", INDICES, ids=str)
def test_rows_and_columns(rows: Any) -> None:
    reference, a = matrix(6, 6)
    whole = reference.toarray()
    close(dense(a[rows]), whole[np.asarray(rows, int) if isinstance(rows, list) else rows])
    for columns in INDICES:
        as_array = [
            np.atleast_1d(np.arange(6)[np.asarray(k, int) if isinstance(k, list) else k])
            for k in (rows, columns)
        ]
        wanted = whole[np.ix_(*as_array)]
        single = [isinstance(k, int | np.integer) for k in (rows, columns)]
        wanted = wanted[tuple(0 if one else slice(None) for one in single)]
        close(dense(a[rows, columns]), wanted)


def test_selection_is_differentiable_and_compiles() -> None:
    reference, a = matrix(6, 5)
    f = lambda a: lm.abs(a[[4, 1, 4], 1:] @ lm.ones(4, dtype=lm.complex128)).sum()  # noqa: E731
    g = lambda d: lm.abs(d[lm.asarray([4, 1, 4]), 1:].sum(1)).sum()  # noqa: E731
    wanted = lm.grad(g)(lm.asarray(reference.toarray()))
    for found in (lm.grad(f)(a), lm.jit(lm.grad(f))(a)):
        close(found.to_dense(), np.where(reference.toarray() != 0, wanted.numpy(), 0))
    closed = lm.jit(lambda x: (a[1:3] @ x, a[2], (a.T)[0]))
    x = draw(5)
    for one, two in zip(
        closed(lm.asarray(x)),
        ((reference[1:3] @ x), reference.toarray()[2], reference.toarray()[:, 0]), strict=True,
    ):  # fmt: skip
        close(one, two)
    batch = a.with_data(lm.stack([a.data, a.data * 2]))
    close(batch[1:].to_dense(), np.stack([reference.toarray()[1:], reference.toarray()[1:] * 2]))
    close(batch[3], np.stack([reference.toarray()[3], reference.toarray()[3] * 2]))


def test_indices_that_are_refused() -> None:
    _, a = matrix(4, 3)
    for index in (4, -5, [0, 4], (0, 3), 1.5, [[0]], (0, 0, 0), None, ..., np.ones(3, bool)):
        with pytest.raises(LamellaIndexError, match="sparse"):
            a[index]
    for f in (lambda i: a[i].to_dense(), lambda i: a[[0], i].to_dense()):
        with pytest.raises(OptionError, match="to_dense"):
            lm.jit(f)(lm.asarray([0]))
    with pytest.raises(OptionError, match="to_dense"):
        lm.jit(lambda i, p: sp.CSR(lm.ones(3), i, p, (2, 2))[0])(
            lm.asarray([0, 1, 0]), lm.asarray([0, 2, 3])
        )


# -- forms -----------------------------------------------------------------------------------------
@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 5), st.integers(0, 5),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12),
)  # fmt: skip
def test_entries_at_one_place_are_added(n: int, m: int, places: list[tuple[int, int]]) -> None:
    rows, columns = (
        np.array([p[i] % s for p in places if n and m], int) for i, s in enumerate((n, m))
    )
    data = draw(len(rows))
    reference = scipy.sparse.coo_array((data, (rows, columns)), shape=(n, m))
    a = sp.COO(data, np.stack([rows, columns]), (n, m))
    found = a.coalesce()
    wanted = reference.tocsr()
    wanted.sum_duplicates()
    by_row = wanted.tocoo()
    close(found.data, by_row.data)
    close(found.indices, np.stack([by_row.row, by_row.col]))
    for form in (a, found, a.to_csr(), a.to_csr().to_coo(), a.T.T, found.to_csr().T.T):
        close(form.to_dense(), reference.toarray())
    assert found.coalesce().nnz == found.nnz
    if n and m:
        gradient = lm.grad(lambda d: lm.abs(sp.COO(d, a.indices, (n, m)).coalesce().data).sum())
        sums = reference.toarray()[rows, columns]
        close(gradient(lm.asarray(data)), sums / np.abs(sums))


def test_forms_of_blocks() -> None:
    blocks, indices, indptr = draw(3, 2, 3), np.array([1, 0, 1]), np.array([0, 1, 1, 3])
    reference = scipy.sparse.bsr_array((blocks, indices, indptr), shape=(6, 6))
    a = sp.BSR(blocks, indices, indptr, (6, 6))
    x = draw(6, 4)
    close(a @ x, reference @ x)
    close(a.T.to_dense(), reference.toarray().T)
    close(a.T @ x, reference.T @ x)
    close(a.T.T.to_dense(), reference.toarray())
    close(a.to_csr().to_dense(), reference.toarray())
    close(a[[5, 0], 2:].to_dense(), reference.toarray()[[5, 0], 2:])
    close(a[4], reference.toarray()[4])
    assert a.nnz == 18 and a.dtype is lm.complex128
    empty = sp.BSR(np.zeros((0, 2, 3)), np.zeros(0, int), np.zeros(3, int), (4, 6))
    for found in (empty.to_dense(), empty.to_csr().to_dense(), empty.T.to_dense().T):
        close(found, np.zeros((4, 6)))
    close(empty @ np.ones(6), np.zeros(4))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (3, 4)])
def test_matrices_without_entries(shape: tuple[int, int]) -> None:
    none = np.zeros(0, int)
    for a in (
        sp.CSR(draw(0), none, np.zeros(shape[0] + 1, int), shape),
        sp.COO(draw(0), np.zeros((2, 0), int), shape),
        sp.COO(draw(0), np.zeros((2, 0), int), shape).coalesce().to_csr(),
        sp.from_dense(np.zeros(shape, complex)),
    ):
        zeros = np.zeros(shape)
        close(a.to_dense(), zeros)
        close(a.T.to_dense(), zeros.T)
        close(a @ draw(shape[1], 2), zeros @ np.zeros((shape[1], 2)))
        close(a[::2].to_dense(), zeros[::2])
        close(a[[]].to_dense(), zeros[:0])
        assert a.nnz == 0


def test_places_that_do_not_exist() -> None:
    for places in ([[2], [0]], [[-1], [0]], [[0], [3]], [[0], [-1]]):
        with pytest.raises(LamellaIndexError, match="count from 0"):
            sp.COO([1.0], places, (2, 3))
        with pytest.raises(CheckError, match="outside"):
            lm.jit(lambda i: sp.COO([1.0], i, (2, 3)).to_dense())(lm.asarray(places)).numpy()
    for shape in ((2,), 2, (2, 2, 2), (2, -1), (2.0, 2)):
        with pytest.raises(ShapeError, match="rows, columns"):
            sp.COO([1.0], [[0], [0]], shape)
        with pytest.raises(ShapeError, match="rows, columns"):
            sp.BSR(np.ones((1, 1, 1)), [0], [0, 1, 1], shape)
    _, a = matrix(3, 3)
    for other in (a, a.to_coo()):
        with pytest.raises(OptionError, match="to_dense"):
            a @ other
    with pytest.raises(OptionError, match="to_csr"):
        lm.jit(lambda i: sp.COO([1.0], i, (2, 3)).coalesce().data)(lm.asarray([[0], [1]]))
