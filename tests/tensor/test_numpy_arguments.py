"""Arguments of NumPy's and JAX's functions, compared with them."""

import numpy as np
import pytest

import lamella as lm
from lamella.errors import DTypeError, LamellaIndexError, OptionError, ShapeError

X = np.arange(12.0).reshape(3, 4)
V = np.arange(3.0)
OUT = np.array([0, 7, -1, -9])


@pytest.mark.parametrize(
    "options",
    [
        {}, {"axis": 1}, {"axis": -1}, {"endpoint": False}, {"retstep": True},
        {"retstep": True, "endpoint": False, "axis": 1},
    ],
)  # fmt: skip
@pytest.mark.parametrize("ends", [(0.5, 3), ([0, 1], [5, 9]), ([0, 1], [[2], [3], [7]])])
@pytest.mark.parametrize("num", [0, 1, 2, 5])
def test_linspace(ends, num, options):
    if "axis" in options and np.ndim(ends[0]) == 0:
        options = {**options, "axis": 0}
    want = np.linspace(*ends, num, **options)
    for call in (lm.linspace, lm.jit(lambda a, b, n, **o: lm.linspace(a, b, n, **o))):
        inside = [lm.asarray(end) for end in ends] if call is not lm.linspace else ends
        found = call(*inside, num, dtype=lm.float64, **options)
        if options.get("retstep"):
            np.testing.assert_allclose(found[1].numpy(), np.broadcast_to(want[1], found[1].shape))
            np.testing.assert_allclose(found[0].numpy(), want[0], rtol=1e-15)
        else:
            np.testing.assert_allclose(found.numpy(), want, rtol=1e-15)


def test_linspace_refuses_complex_ends():
    for ends in ((1j, 2), (0, np.array([1j]))):
        with pytest.raises(DTypeError, match="ends are real"):
            lm.linspace(*ends)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_meshgrid_sparse(indexing, count):
    axes = [np.arange(2.0), np.arange(3.0), np.arange(4.0)][:count]
    found = lm.meshgrid(*axes, indexing=indexing, sparse=True)
    want = np.meshgrid(*axes, indexing=indexing, sparse=True)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_take_modes(mode, axis):
    index = np.array([[0, 1], [2, -1]]) if mode == "raise" else np.array([[0, 99], [5, -7]])
    found = lm.take(X, index, axis=axis, mode=mode)
    np.testing.assert_array_equal(found.numpy(), np.take(X, index, axis, mode=mode))
    compiled = lm.jit(lambda x, i: lm.take(x, i, axis=axis, mode=mode))
    np.testing.assert_array_equal(compiled(X, index).numpy(), found.numpy())


def test_take_faults():
    with pytest.raises(OptionError, match="did you mean 'raise'"):
        lm.take(V, [0], mode="rise")
    with pytest.raises(LamellaIndexError):
        lm.take(np.zeros(0), [0], mode="clip")
    with pytest.raises(LamellaIndexError):
        lm.take(V, lm.asarray([3])).numpy()
    with pytest.raises(DTypeError):
        lm.take(V, [0.5], mode="wrap")


@pytest.mark.parametrize(
    ("a", "b", "options"),
    [
        ((3, 2), (2, 3), {"axisa": 0}), ((3, 2), (2, 3), {"axisa": 0, "axisc": 0}),
        ((4, 3), (3, 4), {"axisb": 0, "axisc": 0}), ((3, 5), (3, 5), {"axis": 0}),
        ((2, 3), (3,), {}),
    ],
)  # fmt: skip
def test_cross_axes(a, b, options):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=a), rng.normal(size=b)
    np.testing.assert_allclose(lm.cross(x, y, **options).numpy(), np.cross(x, y, **options))


def test_cross_names_itself():
    for x, y in ((np.ones((2, 3)), np.ones((4, 3))), (np.ones(2), np.ones(2))):
        with pytest.raises(ShapeError, match=r"^\[cross\]"):
            lm.cross(x, y)


# -- x.at ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("x", "place", "mode", "fill", "want"),
    [
        (V, OUT, "fill", None, [0, np.nan, 2, np.nan]),
        (V, OUT, "drop", 9, [0, 9, 2, 9]),
        (V, OUT, "clip", None, [0, 2, 2, 0]),
        (V, 7, "fill", 3, 3),
        (X, (slice(None), np.array([0, 9])), "fill", -1, [[0, -1], [4, -1], [8, -1]]),
        (X, (np.array([[0], [5]]), np.array([0, 9])), "fill", -1, [[0, -1], [-1, -1]]),
        (X, (5, np.array([0, 1])), "fill", 0, [0, 0]),
        (X, (..., 7), "clip", None, [3, 7, 11]),
        (X, (OUT, slice(1, 3)), "fill", 0, [[1, 2], [0, 0], [9, 10], [0, 0]]),
        (np.arange(3, dtype=np.int8), 9, "fill", None, -128),
        (np.arange(3, dtype=np.uint8), 9, "fill", None, 255),
        (V > 0, 9, "fill", None, True),
    ],
)
def test_get_outside(x, place, mode, fill, want):
    """The values are those of ``jax.numpy``'s ``x.at[place].get(mode=mode, fill_value=fill)``."""
    tensor = lm.asarray(x)
    np.testing.assert_array_equal(tensor.at[place].get(mode=mode, fill_value=fill).numpy(), want)
    compiled = lm.jit(lambda x: x.at[place].get(mode=mode, fill_value=fill))
    np.testing.assert_array_equal(compiled(tensor).numpy(), want)


def test_get_inside_is_checked():
    index = lm.asarray(OUT)
    for mode in (None, "promise_in_bounds"):
        with pytest.raises(LamellaIndexError):
            lm.asarray(V).at[index].get(mode=mode).numpy()
    with pytest.raises(OptionError, match="did you mean 'fill'"):
        lm.asarray(V).at[index].get(mode="fil")


def test_the_derivative_of_what_is_not_there_is_zero():
    index = lm.asarray(OUT)
    found = lm.grad(lambda v: v.at[index].get(mode="fill", fill_value=0).sum())(lm.asarray(V))
    assert found.tolist() == [1.0, 0.0, 1.0]


def test_apply():
    x = lm.asarray(X)
    want = X.copy()
    want[[0, 2], 1] = np.sqrt(want[[0, 2], 1])
    place = (np.array([0, 2]), 1)
    np.testing.assert_allclose(x.at[place].apply(lm.sqrt).numpy(), want)
    np.testing.assert_allclose(lm.jit(lambda x: x.at[place].apply(lm.sqrt))(x).numpy(), want)
    gradient = lm.grad(lambda x: x.at[1:].apply(lambda v: v * v).sum())(x)
    np.testing.assert_allclose(gradient.numpy(), np.where(np.arange(3)[:, None] > 0, 2 * X, 1))


@pytest.mark.parametrize(
    ("count", "error"), [(7, ShapeError), (0, OptionError), ("a", DTypeError), (1.5, DTypeError)]
)
def test_multinomial_names_itself(count, error):
    with pytest.raises(error, match=r"^\[multinomial\]"):
        lm.multinomial(lm.asarray(V), count)


# -- arguments that a table of signatures showed to be missing -------------------------------------
@pytest.mark.parametrize("name", ["concat", "concatenate", "stack", "vstack", "hstack"])
def test_joining_to_an_element_type(name):
    parts = [np.array([1, 2], np.int8), np.array([3.0, 4.0])]
    call = getattr(lm, name)
    np.testing.assert_array_equal(
        call(parts, dtype="float16").numpy(), getattr(np, name)(parts, dtype="float16")
    )
    assert call(parts, dtype="float16").dtype is lm.float16
    assert lm.jit(lambda a, b: call([a, b], dtype=lm.int32))(*parts).dtype is lm.int32
    with pytest.raises(DTypeError, match="did you mean"):
        call(parts, dtype="flaot16")


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like"])
def test_like_of_another_shape(name):
    found = getattr(lm, name)(np.zeros(3, np.int16), shape=(2, 2))
    assert found.shape == (2, 2) and found.dtype is lm.int16
    assert getattr(lm, name)(np.zeros(3, np.int16)).shape == (3,)
    assert lm.full_like(np.zeros(3), 7, shape=2).tolist() == [7.0, 7.0]


def test_equal_nan():
    a, b = np.array([1.0, np.nan]), np.array([1.0, 2.0])
    for x, y in ((a, a), (a, b), (b, b), (b, b[:1])):
        for equal_nan in (False, True):
            want = np.array_equal(x, y, equal_nan=equal_nan)
            assert lm.array_equal(x, y, equal_nan=equal_nan) is bool(want)
    assert lm.array_equal([1, 2], [1, 2], equal_nan=True)


def test_angle_in_degrees():
    z = np.array([1j, -1.0, 1 + 1j])
    np.testing.assert_allclose(lm.angle(z, deg=True).numpy(), np.angle(z, deg=True))


def test_logarithmic_ranges():
    for options in ({"endpoint": False}, {"endpoint": True}):
        for name, ends in (("logspace", (0, 2)), ("geomspace", (1, 64))):
            found = getattr(lm, name)(*ends, 4, dtype="float64", **options)
            np.testing.assert_allclose(found.numpy(), getattr(np, name)(*ends, 4, **options))
    found = lm.logspace([0, 1], [1, 3], 3, dtype="float64", axis=1)
    np.testing.assert_allclose(found.numpy(), np.logspace([0, 1], [1, 3], 3, axis=1))


F = lm.nn.functional
SYNONYMS = [
    (lm.clip, (X,), {"a_min": 2, "a_max": 5}, {"min": 2, "max": 5}),
    (lm.tri, (2,), {"M": 3}, {"m": 3}),
    (lm.eye, (2,), {"M": 3}, {"m": 3}),
    (lm.percentile, (X, 40), {"interpolation": "lower"}, {"method": "lower"}),
    (lm.linspace, (0, 1), {"steps": 3}, {"num": 3}),
    (lm.linalg.pinv, (X,), {"rcond": 0.5}, {"rtol": 0.5}),
    (lm.searchsorted, (V,), {"v": 1.5}, {"values": 1.5}),
    (lm.nan_to_num, ([np.nan, 1.0],), {"copy": False}, {}),
    (lm.sum, (), {"a": X, "axis": 0}, {"x": X, "axis": 0}),
    (F.softmax, (X,), {"axis": 0}, {"dim": 0}),
    (F.log_softmax, (X,), {"axis": 0}, {"dim": 0}),
    (F.softmin, (X,), {"axis": 0}, {"dim": 0}),
    (F.glu, (X,), {"axis": 1}, {"dim": 1}),
    (F.normalize, (X,), {"axis": 0}, {"dim": 0}),
    (F.cosine_similarity, (X, X + 1), {"axis": 0}, {"dim": 0}),
]


@pytest.mark.parametrize("number", range(len(SYNONYMS)))
def test_synonyms(number):
    function, args, theirs, ours = SYNONYMS[number]
    for _ in range(3):  # the later ones are recorded as one node
        np.testing.assert_array_equal(function(*args, **theirs), function(*args, **ours))


def test_einsum_takes_optimize_and_chooses_itself():
    np.testing.assert_allclose(lm.einsum("ij,kj->ik", X, X, optimize="greedy"), X @ X.T)


@pytest.mark.parametrize("function", ["cov", "corrcoef"])
def test_dtype_of_covariances(function):
    whole = np.array([[1, 5, 2, 9], [3, 3, 8, 1]])
    found = getattr(lm, function)(whole, dtype=lm.float64)
    assert found.dtype is lm.float64
    np.testing.assert_allclose(found, getattr(np, function)(whole, dtype=np.float64), rtol=1e-14)
    half = getattr(lm, function)(whole, dtype="float16")
    np.testing.assert_allclose(half, getattr(np, function)(whole), rtol=2e-3)
    with pytest.raises(DTypeError, match=rf"^\[{function}\] dtype=int64 holds no fractions"):
        getattr(lm, function)(whole, dtype=lm.int64)


@pytest.mark.parametrize(("name", "reference"), [("max", np.maximum), ("min", np.minimum)])
def test_extremes_of_two_tensors_are_elementwise(name, reference):
    y = lm.asarray([2.5, 1.0, np.nan, 30.0])
    for _ in range(3):
        np.testing.assert_array_equal(getattr(lm, name)(lm.asarray(X), y), reference(X, y.numpy()))
        np.testing.assert_array_equal(getattr(lm.asarray(X), name)(y), reference(X, y.numpy()))
    with pytest.raises(ShapeError, match=rf"^\[{name}\]"):
        getattr(lm, name)(lm.asarray(X), lm.ones(3))
