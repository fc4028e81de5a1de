"""Sparse matrices against SciPy and dense arithmetic in float64."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import lamella as lm
from lamella.errors import CheckError, DTypeError, LamellaIndexError, OptionError, ShapeError

sp = lm.sparse


def draw(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def random_csr(n, m, density=0.3, seed=0):
    found = scipy.sparse.random(n, m, density, "csr", random_state=seed)
    return found, sp.CSR(found.data, found.indices, found.indptr, (n, m))


def close(found, wanted):
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-10, atol=1e-12)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 5), st.integers(0, 99))
def test_products(n, m, k, seed):
    reference, a = random_csr(n, m, seed=seed)
    x, y, v = draw((m, k)), draw((k, n)), draw((m,))
    close(a @ x, reference @ x)
    close(a @ v, reference @ v)
    close(y @ a, y @ reference.toarray())
    close(a.T @ draw((n, k)), reference.T @ draw((n, k)))
    close(a.to_dense(), reference.toarray())
    close(a.T.to_dense(), reference.toarray().T)
    for axis in (None, 0, 1, -1):
        close(a.sum(axis), reference.toarray().sum(axis))


def test_arithmetic():
    reference, a = random_csr(6, 5)
    dense = draw((6, 5))
    close((a * 2 - a / 4).to_dense(), reference.toarray() * 1.75)
    close((a * dense).to_dense(), reference.toarray() * dense)
    close((a * dense[0]).to_dense(), reference.toarray() * dense[0])
    close((a / (dense**2 + 1)).to_dense(), reference.toarray() / (dense**2 + 1))
    close((a * a).to_dense(), reference.toarray() ** 2)
    other, b = random_csr(6, 5, seed=1)
    close((a + b).to_dense(), (reference + other).toarray())
    close((a - b) @ dense.T[:, :2], (reference - other) @ dense.T[:, :2])
    with pytest.raises(OptionError):
        a * b
    with pytest.raises(OptionError):
        a + 1
    close(sp.from_dense(dense * (dense > 0)).to_dense(), dense * (dense > 0))


def test_softmax_and_sampled_products():
    reference, a = random_csr(7, 5)
    dense = np.where(reference.toarray() != 0, reference.toarray(), -np.inf)
    with np.errstate(invalid="ignore"):
        power = np.exp(dense - dense.max(1, keepdims=True))
        wanted = np.nan_to_num(power / power.sum(1, keepdims=True))
    close(a.softmax().to_dense(), wanted)
    left, right = draw((7, 3)), draw((3, 5))
    mask = (reference.toarray() != 0) * 1.0
    close(sp.sampled_matmul(a, left, right).to_dense(), (left @ right) * mask)
    with pytest.raises(ShapeError):
        sp.sampled_matmul(a, left, right.T)


def test_coordinates_in_any_order_and_repeated():
    rows, columns, data = np.array([2, 0, 2, 2]), np.array([1, 3, 0, 1]), draw((4,))
    reference = scipy.sparse.coo_array((data, (rows, columns)), shape=(3, 4))
    a = sp.COO(data, np.stack([rows, columns]), (3, 4))
    close(a.to_dense(), reference.toarray())
    close(a @ draw((4, 2)), reference @ draw((4, 2)))
    close(a.T.to_dense(), reference.toarray().T)
    assert a.nnz == 4 and a.shape == (3, 4) and "COO" in repr(a)
    assert sp.COO([], np.zeros((2, 0), int), (2, 2)).to_dense().tolist() == [[0, 0], [0, 0]]


def test_blocks():
    blocks, indices, indptr = draw((3, 2, 3)), np.array([1, 0, 1]), np.array([0, 1, 1, 3])
    reference = scipy.sparse.bsr_array((blocks, indices, indptr), shape=(6, 6))
    a = sp.BSR(blocks, indices, indptr, (6, 6))
    close(a.to_dense(), reference.toarray())
    close(a @ draw((6, 4)), reference @ draw((6, 4)))
    close(a @ draw((6,)), reference @ draw((6,)))
    x = draw((6, 4))
    found = lm.jit(lm.grad(lambda a: ((a @ x) ** 2).sum()))(a)
    dense = 2 * (reference @ x) @ x.T
    wanted = [dense[2 * row : 2 * row + 2, 3 * column : 3 * column + 3]
              for row, column in ((0, 1), (2, 0), (2, 1))]  # fmt: skip
    close(found.data, wanted)
    with pytest.raises(ShapeError):
        sp.BSR(blocks, indices, indptr, (7, 6))


def test_gradients():
    reference, a = random_csr(6, 5)
    x, target = draw((5, 3)), draw((6, 3), 1)

    def loss(a, x):
        return ((lm.sin(a @ x) - target) ** 2).sum()

    def dense_loss(d, x):
        return ((lm.sin(d @ x) - target) ** 2).sum()

    of_a, of_x = lm.jit(lm.grad(loss, (0, 1)))(a, lm.asarray(x))
    wanted_a, wanted_x = lm.grad(dense_loss, (0, 1))(lm.asarray(reference.toarray()), lm.asarray(x))
    close(of_x, wanted_x)
    mask = reference.toarray() != 0
    close(of_a.to_dense(), np.where(mask, wanted_a.numpy(), 0))
    second = lm.grad(lambda a: (lm.grad(loss)(a, x).data ** 2).sum())(a)
    wanted = lm.grad(lambda d: ((lm.grad(dense_loss)(d, x) * mask) ** 2).sum())(
        lm.asarray(reference.toarray())
    )
    close(second.to_dense(), np.where(mask, wanted.numpy(), 0))
    _, tangent = lm.jvp(lambda a: a.softmax() @ lm.asarray(x), (a,), (a * 0.5,))
    step = 1e-6
    moved = [(a * (1 + s * 0.5 * step)).softmax() @ lm.asarray(x) for s in (1, -1)]
    np.testing.assert_allclose(
        tangent.numpy(), (moved[0] - moved[1]).numpy() / (2 * step), rtol=1e-6, atol=1e-7
    )
    a.data.requires_grad = True
    loss(a, lm.asarray(x)).backward()
    close(a.data.grad, of_a.data)


def test_vmap_over_values_matrices_and_patterns():
    _, a = random_csr(4, 5)
    x, values = draw((3, 5, 2)), draw((3, a.nnz))
    close(lm.vmap(lambda x: a @ x)(x), np.stack([np.asarray(a @ one) for one in x]))
    many = lm.vmap(lambda d, x: a.with_data(d) @ x)
    wanted = np.stack([np.asarray(a.with_data(d) @ one) for d, one in zip(values, x, strict=True)])
    close(many(values, x), wanted)
    close(a.with_data(values) @ lm.asarray(x), wanted)
    close(lm.jit(lm.vmap(lambda a, x: a @ x))(a.with_data(values), lm.asarray(x)), wanted)
    gradient = lm.vmap(lm.grad(lambda d, x: ((a.with_data(d) @ x) ** 2).sum()))(
        lm.asarray(values), lm.asarray(x)
    )
    one = lm.grad(lambda d: ((a.with_data(d) @ x[1]) ** 2).sum())(lm.asarray(values[1]))
    close(gradient[1], one)


def test_a_step_of_a_graph_network():
    _, a = random_csr(20, 20, 0.2)
    weight, x = lm.asarray(draw((4, 3))), draw((20, 4))

    @lm.jit
    def step(a, x):
        gradient = lm.grad(lambda w: (lm.tanh(a @ (x @ w)) ** 2).sum())(weight)
        weight.sub_(0.01 * gradient)
        return (lm.tanh(a @ (x @ weight)) ** 2).sum()

    losses = [step(a, x).item() for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    assert step.programs == 1


def test_matrices_built_inside_compiled_functions():
    reference, a = random_csr(6, 5)
    f = lm.jit(lambda d, i, p, x: sp.CSR(d, i, p, (6, 5)) @ x)
    x = lm.asarray(draw((5, 2)))
    given = (a.data, lm.asarray(reference.indices), lm.asarray(reference.indptr))
    close(f(*given, x), reference @ draw((5, 2)))
    gradient = lm.jit(lm.grad(lambda x: (sp.CSR(*given, (6, 5)) @ x).sum()))(x)
    close(gradient, reference.T @ np.ones((6, 2)))
    with pytest.raises(CheckError, match="do not exist"):
        f(given[0], given[1] + 5, given[2], x)


def test_what_is_refused():
    good = ([1.0, 2.0], [0, 1], [0, 1, 2], (2, 2))
    sp.CSR(*good)
    for place, wrong, error in (
        (0, [1.0], ShapeError), (1, [0, 2], LamellaIndexError), (1, [0, -1], LamellaIndexError),
        (1, [0.0, 1.0], DTypeError), (1, [[0, 1]], ShapeError), (2, [0, 2], ShapeError),
        (2, [0, 2, 1], LamellaIndexError), (2, [1, 1, 2], LamellaIndexError),
        (2, [0, 3, 2], LamellaIndexError), (3, (2,), ShapeError), (3, (2, -1), ShapeError),
    ):  # fmt: skip
        given = list(good)
        given[place] = wrong
        with pytest.raises(error):
            sp.CSR(*given)
    with pytest.raises(LamellaIndexError):
        sp.COO([1.0], [[2], [0]], (2, 2)).to_csr()
    with pytest.raises(ShapeError):
        sp.CSR(*good) @ lm.ones((3, 2))
    with pytest.raises(ShapeError):
        sp.from_dense(lm.ones(3))


def test_not_a_number_stays_where_it_is():
    a = sp.CSR([np.nan, 1.0], [0, 1], [0, 1, 2], (2, 2))
    found = (a @ lm.asarray([[1.0], [np.inf]])).numpy()
    assert np.isnan(found[0]) and found[1] == np.inf


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_narrow_types(dtype):
    reference, a = random_csr(30, 40)
    x = draw((40, 16))
    found = a.with_data(a.data.astype(dtype)) @ lm.asarray(x).astype(dtype)
    assert found.dtype.name == dtype
    np.testing.assert_allclose(found.astype("float64").numpy(), reference @ x, rtol=0.05, atol=0.05)


def test_differences_with_other_forms():
    a = random_csr(4, 5)[1]
    b = sp.COO([1.0, 2.0], [[0, 3], [1, 4]], (4, 5))
    close((a - b).to_dense(), a.to_dense().numpy() - b.to_dense().numpy())
    close((a - a).to_dense(), np.zeros((4, 5)))


def test_complex_products_of_any_width():
    values = np.asarray([1.0 + 2j, 2.0, 3.0j], np.complex64)
    a = sp.COO(values, [[1, 0, 1], [0, 1, 0]], (2, 2)).to_csr()
    product = lm.jit(lambda x: a @ x, dynamic={"x": {1: "n"}})
    for width in (3, 5):
        x = (draw((2, width)) + 1j * draw((2, width), 1)).astype(np.complex64)
        np.testing.assert_allclose(product(x).numpy(), a.to_dense().numpy() @ x, rtol=1e-5)


@pytest.mark.parametrize("make", [lambda a: a, lambda a: a.to_coo(), lambda a: blocks(a)])
def test_operators_between_tensors_and_every_form(make):
    reference, a = random_csr(6, 4, seed=3)
    form, whole = make(a), reference.toarray()
    x, y = draw((5, 6)), draw((6, 4))
    for wrapped in (np.asarray, lm.asarray):
        close(wrapped(x) @ form, x @ whole)
        close(wrapped(x[0]) @ form, x[0] @ whole)
        close((wrapped(y) * form).to_dense(), y * whole)
        close((form * wrapped(y)).to_dense(), y * whole)
        close((form / wrapped(y)).to_dense(), whole / y)
    close((lm.asarray(2.5) * form).to_dense(), 2.5 * whole)
    close((form - 3 * form).to_dense(), -2 * whole)
    close((form + -form / 2).to_dense(), whole / 2)
    close(form.sum(0), whole.sum(0))
    parameter = lm.nn.Parameter(lm.asarray(x))
    close(lm.jit(lambda f: parameter @ f)(form).detach(), x @ whole)
    with pytest.raises(TypeError):
        lm.asarray(x) % form


def blocks(a):
    return sp.BSR(a.to_dense().reshape((6, 4, 1)).reshape((24, 1, 1)), np.tile(np.arange(4), 6),
                  np.arange(7) * 4, (6, 4))  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "bool"])
@pytest.mark.parametrize("seed", range(3))
def test_integers_and_bools(dtype, seed):
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, 5, 40), rng.integers(0, 400, 40)
    data = rng.integers(0, 2 if dtype == "bool" else 100, 40).astype(dtype)
    whole = np.zeros((5, 400), dtype)
    (np.logical_or if dtype == "bool" else np.add).at(whole, (rows, columns), data)
    a = sp.COO(data, np.stack([rows, columns]), (5, 400))
    x = rng.integers(0, 2, (2, 400, 3)).astype(dtype)
    np.testing.assert_array_equal(a.to_dense(), whole)
    np.testing.assert_array_equal(a.coalesce().to_dense(), whole)
    np.testing.assert_array_equal(a @ x, whole @ x)
    np.testing.assert_array_equal(a @ x[0, :, 0], whole @ x[0, :, 0])
    np.testing.assert_array_equal(x[0].T @ a.T, x[0].T @ whole.T)
    np.testing.assert_array_equal(lm.vmap(lambda v: a @ v)(lm.asarray(x)), whole @ x)
    wide = scipy.sparse.coo_matrix((data.astype("int64"), (rows, columns)), (5, 400)).toarray()
    for axis in (None, 0, 1):  # in 64 bits, as the sums of dense tensors
        np.testing.assert_array_equal(a.sum(axis), wide.sum(axis))
        assert a.sum(axis).dtype is lm.sum(lm.asarray(whole)).dtype


def test_softmax_of_integers():
    a = sp.CSR([1, 2, 3], [0, 2, 1], [0, 2, 3], (2, 3))
    found = a.softmax()
    assert found.dtype is lm.float32
    e = np.exp([1.0, 2.0])
    np.testing.assert_allclose(found.data, [*(e / e.sum()), 1.0], rtol=1e-6)
