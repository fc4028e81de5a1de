"""Functions beyond the array-API standard agree with NumPy's of the same name, in float64.

The table has a function's name and arguments for both sides; keyword options are the same on both.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lamella as lm
from lamella.config import config
from lamella.errors import DTypeError, LamellaError, OptionError, ShapeError, TraceError

RNG = np.random.default_rng(7)
V = RNG.normal(size=23)
W = RNG.uniform(0.1, 2.0, 23)
M = RNG.normal(size=(4, 5))
T = RNG.normal(size=(3, 4, 5))
N = np.array([[1.0, np.nan, 3.0, -2.0], [np.nan] * 4, [0.5, 2.0, np.inf, np.nan]])
I = RNG.integers(0, 9, (4, 6))  # noqa: E741
J = RNG.integers(0, 9, 7)
Z = V[:6] + 1j * V[6:12]

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def call(name: str, *args: Any, **options: Any) -> Call:
    return name, args, options


METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf",
    "hazen", "weibull", "linear", "median_unbiased", "normal_unbiased", "lower", "higher",
    "midpoint", "nearest",
)  # fmt: skip
LEVELS = [0, 0.1, 0.25, 1 / 3, 0.5, 0.77, 1]
TABLE: list[Call] = [
    *(call(f, T, LEVELS, axis=(0, 2), method=m) for m in METHODS for f in ("quantile",)),
    *(call("nanquantile", N[:2], LEVELS, axis=1, method=m) for m in METHODS),
    *(call("quantile", V[:9], LEVELS, method=m) for m in METHODS),
    call("quantile", N, 0.5, axis=0), call("quantile", I, 0.3, axis=0, keepdims=True),
    call("percentile", M, [10, 50], axis=1), call("nanpercentile", N, 30, axis=0),
    call("median", T, axis=(1, 2)), call("median", I), call("nanmedian", N, axis=1),
    call("median", N, axis=0, keepdims=True),
    *(call(f, [-np.inf, *more]) for f in ("median", "nanmedian") for more in (
        [-np.inf], [1.0], [np.inf], [np.inf, -np.inf, -np.inf], [np.inf, 1.0, np.inf],
    )),
    *(call(f, N, axis=a) for a in (None, 0, 1) for f in (
        "nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nancumsum",
        "nancumprod",
    )),
    call("nanmean", N, axis=1, keepdims=True), call("nansum", I, axis=0), call("nanmax", I, axis=1),
    call("nanargmax", N[[0, 2]], axis=1), call("nanargmin", N[[0, 2]]),
    call("nanmean", Z), call("nanvar", Z),
    call("bincount", J), call("bincount", J, minlength=20), call("bincount", J, J * 0.5),
    call("digitize", V, [-1.0, 0.0, 0.5]), call("digitize", J, [2, 4, 6], right=True),
    call("digitize", V, [0.5, 0.0, -1.0]), call("digitize", J, [6, 4, 4, 2], right=True),
    call("digitize", J, [4]), call("digitize", J, [6, 4, 2]), call("digitize", J, [3, 3]),
    call("histogram", V), call("histogram", V, 7, range=(-1.0, 1.0)), call("histogram", J, 3),
    call("histogram", V, 5, weights=W, density=True), call("histogram", M, [-1.0, 0.0, 0.2, 2.0]),
    call("histogram", V, "sturges"), call("histogram", np.zeros(0)), call("histogram", np.ones(3)),
    call("histogram_bin_edges", V, 4),
    call("histogram2d", V, W, bins=(3, 4)), call("histogram2d", V, W, bins=3, density=True),
    call("histogramdd", T.reshape(-1, 3), bins=(2, 3, 4)),
    call("histogramdd", T.reshape(-1, 3), bins=2, range=[(-1, 1)] * 3, weights=np.arange(20.0)),
    call("average", M), call("average", M, axis=1, weights=W[:5]),
    call("average", M, weights=M * M, returned=True), call("average", M, axis=0, keepdims=True),
    call("cov", M), call("cov", M, rowvar=False), call("cov", V, W), call("cov", M, bias=True),
    call("cov", M, aweights=W[:5]), call("cov", M, fweights=[1, 2, 1, 3, 1]), call("cov", V),
    call("cov", Z, Z[::-1]), call("corrcoef", M), call("corrcoef", V, W), call("corrcoef", V),
    call("ptp", M), call("ptp", I, axis=1),
    call("isin", I, [1, 5, 8]), call("isin", I, [3], invert=True), call("isin", V, []),
    call("isin", N, [np.nan, 2.0]),
    call("union1d", I, J), call("intersect1d", I, J), call("setdiff1d", I, J[:2]),
    call("setxor1d", J, [1, 99]), call("intersect1d", J, [1, 2, 3, 4], return_indices=True),
    call("unique", I, return_index=True, return_inverse=True, return_counts=True),
    call("unique", N), call("unique", I, axis=0), call("argwhere", I > 4),
    call("flatnonzero", I > 4), call("nonzero", T > 0),
    *(call("pad", M, ((1, 2), (3, 0)), mode=m) for m in (
        "edge", "reflect", "symmetric", "wrap", "maximum", "mean", "median", "minimum",
        "linear_ramp",
    )),
    *(call("pad", V[:4], (11, 9), mode=m, reflect_type=r)
      for m in ("reflect", "symmetric") for r in ("even", "odd")),
    call("pad", V[:1], 2, mode="reflect", reflect_type="odd"),
    call("pad", M, 1, constant_values=((1, 2), (3, 4))), call("pad", I, (2, 1), constant_values=7),
    call("pad", M, 2, mode="linear_ramp", end_values=((1, 2), (3, 4))),
    call("pad", M, 2, mode="mean", stat_length=2), call("pad", I, 2, mode="mean", stat_length=3),
    call("pad", M, 2, mode="median", stat_length=((1, 2), (3, 4))),
    call("pad", I, 3, mode="linear_ramp", end_values=-4), call("pad", T, 0, mode="wrap"),
    call("interp", V, np.sort(W), V), call("interp", V, np.sort(W), V, left=-7.0, right=9.0),
    call("interp", V, W[:5], V[:5], period=1.5), call("interp", V, np.sort(W[:6]), Z),
    call("interp", V, [0.5], [2.0]), call("interp", M, [0.0, 1.0], [1.0, 3.0]),
    *(call(f, a, b, m) for f in ("convolve", "correlate") for m in ("full", "same", "valid")
      for a, b in ((V, W[:4]), (W[:4], V), (V[:5], W[:5]), (V, W[:1]), (Z, V[:3]), (W[:3], V[:6]))),
    call("convolve", J, [1, 2, 1]), call("correlate", Z, Z, "full"),
    call("trapezoid", V), call("trapezoid", M, axis=0, dx=0.5), call("trapezoid", V, W),
    call("trapezoid", M, M * M, axis=0), call("trapezoid", T, W[:4], axis=1),
    call("ediff1d", M), call("ediff1d", J, to_end=[1, 2], to_begin=-9),
    call("unwrap", V * 9), call("unwrap", T * 20, axis=1), call("unwrap", V * 9, discont=5.0),
    call("unwrap", I * 7, period=12), call("unwrap", I * 7, period=5, axis=0),
    call("gradient", V), call("gradient", V, 0.5), call("gradient", V, np.cumsum(W)),
    call("gradient", T), call("gradient", T, 2.0, axis=(0, 2)), call("gradient", M, axis=0),
    call("gradient", V, edge_order=2), call("gradient", V, np.cumsum(W), edge_order=2),
    call("gradient", T, 0.5, W[:4].cumsum(), 2.0), call("gradient", Z), call("gradient", V[:2]),
    call("gradient", N), call("gradient", N[0], 0.3),
    *(call("rot90", T, k, axes=a) for k in (-1, 0, 1, 2, 3) for a in ((0, 1), (2, 0))),
    call("append", M, [1.0, 2.0]), call("append", M, M[:2], axis=0),
    call("atleast_1d", 1.0, V), call("atleast_2d", V, T), call("atleast_3d", 2.0, V, M),
    call("dstack", [M, 2 * M]), call("dstack", [V, W]), call("column_stack", [V, W]),
    call("column_stack", [M, M[:, 0]]), call("block", [[M, M], [M * 2, M]]), call("block", [V, W]),
    call("block", [[np.eye(2), np.zeros((2, 3))], [np.ones((1, 2)), np.ones((1, 3))]]),
    call("hsplit", M[:, :4], 2), call("vsplit", M, [1, 3]), call("dsplit", T, [2]),
    call("hsplit", V[:4], 2), call("resize", V[:5], (3, 4)), call("resize", M, (2, 2)),
    call("delete", V, [0, -1, 4]), call("delete", M, 1, axis=1), call("delete", V, slice(2, 9, 3)),
    call("delete", V, V > 0), call("insert", V, 3, 9.0), call("insert", V, [1, 5, 5], [7, 8, 9]),
    call("insert", M, 2, 5.0, axis=1), call("insert", M, [0, 4], M[:2], axis=0),
    call("insert", M, 1, M[:, 0], axis=1), call("insert", V, -1, [1.0, 2.0]),
    call("trim_zeros", np.array([0, 0, 1, 0, 2, 0])), call("trim_zeros", np.array([0.0, 1.0]), "b"),
    call("compress", [True, False, True, True], M, axis=0), call("compress", V > 0, V),
    call("extract", M > 0, M), call("select", [M > 1, M > 0], [M, M * 2], 9.0),
    call("choose", J % 3, [J, J * 2, J * 3]), call("choose", J, [J, J * 2], mode="wrap"),
    call("choose", J, [J, J * 2], mode="clip"),
    call("tri", 3), call("tri", 3, 5, -1), call("tri", 4, 2, 1, dtype="int64"),
    call("identity", 3), call("tril_indices", 4), call("tril_indices", 3, 1, 5),
    call("triu_indices", 4, -1), call("tril_indices_from", M), call("triu_indices_from", M, 1),
    call("diag_indices", 3, 3), call("diagflat", I[:1, :3], -1), call("vander", V[:4]),
    call("vander", J, 3, increasing=True), call("vander", V[:3], 0),
    call("geomspace", 1.0, 256.0, 9),
    call("indices", (2, 3)), call("indices", (2, 3), sparse=True),
    call("unravel_index", J, (3, 4)), call("ravel_multi_index", (J % 3, J % 4), (3, 4)),
    call("ravel_multi_index", (J, J), (3, 4), mode="wrap"),
    call("ravel_multi_index", (J, J), (3, 4), mode="clip"),
    *(call(f, V) for f in ("deg2rad", "rad2deg", "sinc", "cbrt", "fix", "modf", "isposinf",
                           "isneginf", "isreal", "absolute", "arctan", "arcsinh", "around")),
    call("isreal", Z), call("iscomplex", Z), call("cbrt", [0.0, -0.0, np.inf, -np.inf, np.nan, 27]),
    call("modf", [np.inf, -np.inf, np.nan, -0.0]), call("heaviside", N, 0.5),
    call("divmod", V, W), call("divmod", I, 3), call("float_power", V * V, W), call("power", W, V),
    call("logaddexp2", V, V[::-1]), call("ldexp", V, J[0]), call("ldexp", V[:7], J - 4),
    call("ldexp", np.ones(2), [-1070, 1023]), call("gcd", I, I[::-1]), call("lcm", I, I[::-1]),
    call("gcd", -12, [18, 7]), call("gcd", [2**62, 3 * 5**20], [2**40, 5**15]),
    call("bitwise_count", I), call("bitwise_count", [-1, -8, 2**40]), call("arctan2", V, W),
    call("fmax", N, N[::-1]), call("fmin", N, N[::-1]), call("fmin", I, 3), call("spacing", V),
    call("spacing", N), call("frexp", V * 1e3), call("polyval", V[:4], M),
    call("frexp", np.array([0.0, -0.0, np.inf, np.nan, 1e-310, 5e-324, -8.0, 1.7e308])),
    call("array_equiv", M, M[0]), call("array_equiv", [1, 1], [1]), call("ndim", T),
    call("shape", T), call("size", T, 1), call("size", M), call("iscomplexobj", Z),
    call("isrealobj", M), call("diag_indices_from", M[:, :4]), call("ix_", [0, 2], [1, 3]),
    call("ix_", [True, False, True], [1]), call("vdot", Z, Z[::-1]), call("vdot", M, M),
    *(call("round", x, k) for x in (I * 7, (I * 31) // 2, J * 50 + 25, np.arange(-50, 50, 5),
                                    np.arange(0, 250, 5, np.uint8)) for k in (-1, -2, -3, 1)),
    call("round", np.array([2**62, -(2**62), 5 * 10**17]), -18),
    call("matvec", T, V[:5]), call("matvec", T, T[:, 0]), call("vecmat", Z[:4], M * 1j),
    call("vecmat", T[:, :, 0], T), call("fabs", V), call("rint", V * 3),
    call("lexsort", (I[0], I[1] // 4)), call("lexsort", (I, I // 4), axis=0),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _compiled() -> Iterator[None]:
    with config(backend="llvm"):
        yield


def leaves(value: Any) -> list[np.ndarray]:
    """The arrays of a result, which may be a tuple or a list of results."""
    if isinstance(value, tuple | list):
        return [leaf for part in value for leaf in leaves(part)]
    return [np.asarray(value)]


def agree(found: Any, expected: Any, rtol: float = 1e-10) -> None:
    ours, theirs = leaves(found), leaves(expected)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        exact = b.dtype.kind in "biu" and a.dtype.kind in "biu"
        np.testing.assert_allclose(a, b, rtol=0 if exact else rtol, atol=0 if exact else rtol)


@pytest.mark.parametrize(
    "entry", TABLE, ids=[f"{i}-{name}" for i, (name, _, _) in enumerate(TABLE)]
)
def test_agrees_with_numpy(entry: Call) -> None:
    name, args, options = entry
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        expected = getattr(np, name)(*args, **options)
    first = args[0] if not isinstance(args[0], list) else 0
    single = np.asarray(first).dtype.kind in "iu"  # integers become float32
    agree(getattr(lm, name)(*args, **options), expected, 1e-5 if single else 1e-10)


@settings(max_examples=30)
@given(st.lists(st.integers(-3, 3), max_size=12), st.integers(0, 5))
def test_sizes_given_in_advance(values: list[int], size: int) -> None:
    x = np.array(values, np.float64)
    flat = np.flatnonzero(x)[:size]
    found = lm.flatnonzero(x, size=size, fill_value=-7).numpy()
    assert found.tolist() == [*flat.tolist(), *[-7] * (size - len(flat))]
    distinct, index, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    ours = lm.unique(x, True, True, True, size=size, fill_value=99.0)
    kept = min(size, len(distinct))
    assert ours[0].tolist() == [*distinct[:kept].tolist(), *[99.0] * (size - kept)]
    assert ours[1].tolist()[:kept] == index[:kept].tolist()
    assert ours[2].tolist() == inverse.tolist()
    assert ours[3].tolist() == [*counts[:kept].tolist(), *[0] * (size - kept)]


def test_sizes_make_results_usable_when_compiled() -> None:
    x = np.array([[0.0, 2.0, np.nan], [2.0, 0.0, 5.0]])
    places = lm.jit(lambda x: lm.nonzero(x, size=5, fill_value=(-1, -2)))(lm.asarray(x))
    expected = np.nonzero(x)
    for place, want, fill in zip(places, expected, (-1, -2), strict=True):
        assert place.tolist() == [*want.tolist(), *[fill] * (5 - len(want))]
    rows = lm.jit(lambda x: lm.argwhere(x > 1, size=2))(lm.asarray(x))
    assert rows.tolist() == np.argwhere(x > 1)[:2].tolist()
    assert lm.jit(lambda x: lm.unique(x, size=4))(lm.asarray(x)).tolist()[:3] == [0.0, 2.0, 5.0]
    assert lm.jit(lambda j: lm.bincount(j, length=9))(lm.asarray(J)).tolist() == (
        np.bincount(J, minlength=9).tolist()
    )
    many = lm.vmap(lambda row: lm.flatnonzero(row, size=3, fill_value=-1))(lm.asarray(x))
    assert many.tolist() == [[1, 2, -1], [0, 2, -1]]
    agree(lm.jit(lambda x: lm.histogram(x, 4))(lm.asarray(V)), np.histogram(V, 4))
    for function in (lm.nonzero, lm.unique, lm.flatnonzero, lm.argwhere):
        with pytest.raises(TraceError, match=r"size="):
            lm.jit(function)(lm.asarray(x))
    with pytest.raises(TraceError, match="length="):
        lm.jit(lm.bincount)(lm.asarray(J))
    with pytest.raises(TraceError, match="depends on values"):
        lm.jit(lambda a: lm.setdiff1d(a, a))(lm.asarray(J))


def numeric(f: Callable[[np.ndarray], float], x: np.ndarray, h: float = 1e-6) -> np.ndarray:
    """The gradient of ``f`` by central differences."""
    found = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = h
        found[i] = (f(x + step) - f(x - step)) / (2 * h)
    return found


DERIVATIVES: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("quantile", lambda m, x: m.quantile(x, [0.3, 0.8], axis=1)),
    ("median", lambda m, x: m.median(x)),
    ("nanmean", lambda m, x: m.nanmean(x, axis=0)),
    ("nanstd", lambda m, x: m.nanstd(x)),
    ("nanmax", lambda m, x: m.nanmax(x, axis=1)),
    ("average", lambda m, x: m.average(x, weights=x * x)),
    ("cov", lambda m, x: m.cov(x)),
    ("corrcoef", lambda m, x: m.corrcoef(x)),
    ("ptp", lambda m, x: m.ptp(x, axis=0)),
    ("pad odd", lambda m, x: m.pad(x, 6, mode="reflect", reflect_type="odd")),
    ("pad mean", lambda m, x: m.pad(x, 2, mode="mean")),
    ("pad ramp", lambda m, x: m.pad(x, 2, mode="linear_ramp")),
    ("interp ordinates", lambda m, x: m.interp(np.array([0.5, 2.2, 7.0]), np.arange(5.0), x[0])),
    ("interp places", lambda m, x: m.interp(x, np.arange(-3.0, 4.0), np.arange(7.0) ** 2)),
    ("convolve", lambda m, x: m.convolve(x[0], x[1], "same")),
    ("trapezoid", lambda m, x: m.trapezoid(x, x * x)),
    ("gradient", lambda m, x: m.gradient(x, axis=1)),
    ("unwrap", lambda m, x: m.unwrap(x)),
    ("rot90", lambda m, x: m.rot90(x) * np.arange(20.0).reshape(5, 4)),
    ("insert", lambda m, x: m.insert(x, 1, x[0], axis=0)),
    ("vander", lambda m, x: m.vander(x[0])),
    ("sinc", lambda m, x: m.sinc(x)),
    ("cbrt", lambda m, x: m.cbrt(x)),
]


@pytest.mark.parametrize(("name", "function"), DERIVATIVES, ids=[n for n, _ in DERIVATIVES])
def test_gradients(name: str, function: Callable[[Any, Any], Any]) -> None:
    found = lm.grad(lambda x: lm.sum(lm.square(function(lm, x))))(lm.asarray(M))
    expected = numeric(lambda x: float(np.sum(np.square(function(np, x)))), M)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (lambda: lm.quantile(V, 1.5), OptionError),
        (lambda: lm.quantile(V, 0.5, method="linar"), OptionError),
        (lambda: lm.median(np.zeros((0, 2)), axis=0), ShapeError),
        (lambda: lm.histogram(V, 0), OptionError),
        (lambda: lm.histogram(V, 3, range=(1.0, 0.0)), OptionError),
        (lambda: lm.histogram(V, weights=W[:3]), ShapeError),
        (lambda: lm.histogramdd(V), ShapeError),
        (lambda: lm.bincount([-1]), ShapeError),
        (lambda: lm.bincount([1.5]), ShapeError),
        (lambda: lm.average(M, weights=W), ShapeError),
        (lambda: lm.cov(T), ShapeError),
        (lambda: lm.cov(M, aweights=W), ShapeError),
        (lambda: lm.unique(I, axis=0, size=3), OptionError),
        (lambda: lm.partition(V, 99), ShapeError),
        (lambda: lm.lexsort([]), ShapeError),
        (lambda: lm.pad(V, -1), ShapeError),
        (lambda: lm.pad(V, 1, mode="mirror"), OptionError),
        (lambda: lm.pad(M, ((1, 2), (3, 4), (5, 6))), ShapeError),
        (lambda: lm.pad(np.zeros(0), 1, mode="edge"), ShapeError),
        (lambda: lm.pad(V, 1, mode="mean", stat_length=0), OptionError),
        (lambda: lm.interp(1.0, [], []), ShapeError),
        (lambda: lm.interp(1.0, [1.0, 2.0], [1.0]), ShapeError),
        (lambda: lm.convolve([], [1.0]), ShapeError),
        (lambda: lm.convolve([1.0], [1.0], "whole"), OptionError),
        (lambda: lm.gradient([1.0]), ShapeError),
        (lambda: lm.gradient(T, 1.0, 2.0), ShapeError),
        (lambda: lm.rot90(M, axes=(1, 1)), ShapeError),
        (lambda: lm.block([[1.0], 2.0]), ShapeError),
        (lambda: lm.hsplit(M, 2), ShapeError),
        (lambda: lm.delete(V, 99), ShapeError),
        (lambda: lm.select([M > 0], []), OptionError),
        (lambda: lm.choose([0], [[1]], mode="wrapp"), OptionError),
        (lambda: lm.vander(M), ShapeError),
        (lambda: lm.tril_indices_from(V), ShapeError),
        (lambda: lm.gcd(1.5, 2), DTypeError),
        (lambda: lm.ldexp(1.0, 0.5), DTypeError),
        (lambda: lm.ravel_multi_index(([0],), (2, 3)), ShapeError),
        (lambda: lm.piecewise([1.0], [[True]], []), OptionError),
    ],
)
def test_misuse(act: Callable[[], Any], kind: type[LamellaError]) -> None:
    with pytest.raises(kind, match=r"^\["):
        act()


def test_partition_keeps_its_promise() -> None:
    for k in (0, 3, 22):
        found = lm.partition(V, k).numpy()
        assert found[k] == np.sort(V)[k] and (found[:k] <= found[k]).all()
        assert V[lm.argpartition(V, k).numpy()][k] == np.sort(V)[k]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("position", [6, -7])
def test_positions_outside_are_refused(position: int, compiled: bool) -> None:
    wrap = lm.jit if compiled else (lambda f: f)
    given = lm.asarray([0, position])
    with pytest.raises(IndexError):
        lm.eval(*wrap(lambda i: lm.unravel_index(i, (2, 3)))(given))
    with pytest.raises(IndexError):
        lm.eval(wrap(lambda i: lm.ravel_multi_index((i, i), (6, 9)))(given))
    assert [int(i) for i in lm.unravel_index(-1, (2, 3))] == [1, 2]
