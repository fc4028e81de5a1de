"""Values of the special functions: float32 within 0.6 ulp of SciPy's float64 (of mpmath where SciPy
is not precise), float64 within the bounds that the docstrings state, against mpmath.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import lamella as lm

Array = np.ndarray[Any, Any]
S = lm.special
RNG = np.random.default_rng(0)


def uniform(low: float, high: float, count: int = 150) -> Array:
    return RNG.uniform(low, high, count)


def powers(low: float, high: float, count: int = 60) -> Array:
    return 10.0 ** RNG.uniform(low, high, count)


def log_ndtr(x: Any) -> Any:
    if x > 2:
        return mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2)
    return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)


def erfcinv(p: Any) -> Any:
    if p > 0.01:
        return mp.erfinv(1 - p)
    y = mp.sqrt(-mp.log(p))
    for _ in range(50):
        slope = -2 / mp.sqrt(mp.pi) * mp.exp(-y * y) / mp.erfc(y)
        y -= (mp.log(mp.erfc(y)) - mp.log(p)) / slope
    return y


POSITIVE = np.concatenate([uniform(0, 30), powers(-8, 8), uniform(0.99, 1.01), uniform(1, 3)])
BOTH = np.concatenate([uniform(-30, 30), uniform(-8, 8), powers(-8, 4)])
UNIT = np.concatenate([uniform(0, 1), powers(-30, -1), 1 - powers(-6, -1)])
# name: (exact function, where, bound of float64 in ulp, and in absolute terms)
CASES: dict[str, tuple[Callable[[Any], Any], Array, float, float]] = {
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), uniform(-26, 60), 8, 0),
    "erfinv": (mp.erfinv, np.concatenate([uniform(-1, 1), powers(-12, -1)]), 4, 0),
    "erfcinv": (erfcinv, np.concatenate([uniform(0.001, 1.9), powers(-37, -1)]), 4, 0),
    "ndtr": (lambda x: mp.erfc(-x / mp.sqrt(2)) / 2, uniform(-6, 6), 60, 0),
    "ndtri": (lambda p: -mp.sqrt(2) * erfcinv(2 * p), uniform(0.001, 0.9), 5, 1e-16),
    "log_ndtr": (log_ndtr, uniform(-36, 6), 60, 0),
    "gamma": (mp.gamma, np.concatenate([uniform(0, 34), -uniform(0, 20)]), 12, 0),
    "lgamma": (mp.loggamma, POSITIVE, 8, 0),
    "digamma": (lambda x: mp.psi(0, x), POSITIVE, 4, 2e-15),
    "i0": (lambda x: mp.besseli(0, x), uniform(-80, 80), 6, 0),
    "i1": (lambda x: mp.besseli(1, x), uniform(-80, 80), 6, 0),
    "i0e": (lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), BOTH, 4, 0),
    "i1e": (lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), BOTH, 4, 0),
    "j0": (lambda x: mp.besselj(0, x), BOTH, 4, 1.5e-15),
    "j1": (lambda x: mp.besselj(1, x), BOTH, 4, 1.5e-15),
    "y0": (lambda x: mp.bessely(0, x), abs(BOTH), 6, 1.5e-15),
    "y1": (lambda x: mp.bessely(1, x), abs(BOTH), 6, 1.5e-15),
    "expit": (lambda x: 1 / (1 + mp.exp(-x)), uniform(-100, 100), 4, 0),
    "log_expit": (lambda x: -mp.log1p(mp.exp(-x)), uniform(-80, 80), 2, 0),
    "logit": (lambda x: mp.log(x / (1 - x)), UNIT, 2, 3e-16),
    "entr": (lambda x: -x * mp.log(x), np.concatenate([powers(-30, 3)]), 2, 0),
    "exprel": (lambda x: mp.expm1(x) / x, np.concatenate([uniform(-80, 80), powers(-8, 1)]), 3, 0),
    "cosm1": (lambda x: -2 * mp.sin(x / 2) ** 2, uniform(-9, 9), 4, 0),
    "sinc": (mp.sincpi, np.concatenate([uniform(-9, 9), uniform(-1, 1)]), 6, 0),
    "spence": (lambda z: mp.polylog(2, 1 - z), np.concatenate([uniform(0, 5), powers(-8, 3)]), 4,
               0),
    "lambertw": (mp.lambertw, np.concatenate([uniform(-0.36, 3), powers(-8, 30)]), 8, 0),
}  # fmt: skip


def errors(got: Array, want: list[Any], absolute: float = 0.0) -> Array:
    """The error of each element in ulp of the exact result (0 where below ``absolute``)."""
    found = []
    for value, exact in zip(got, want, strict=True):
        exact = mp.re(exact)
        rounded = got.dtype.type(float(exact))
        if not np.isfinite(rounded):
            found.append(0.0 if value == rounded else np.inf)
            continue
        gap = abs(mp.mpf(float(value)) - exact)
        ulp = max(float(np.spacing(abs(rounded))), float(np.finfo(got.dtype).smallest_subnormal))
        found.append(0.0 if gap <= absolute else float(gap / ulp))
    return np.array(found)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_one_argument(name: str, dtype: str) -> None:
    exact, x, bound, absolute = CASES[name]
    x = x.astype(dtype)
    x = x[x < 1] if name in ("erfinv", "logit") else x
    got = getattr(S, name)(x).numpy()
    assert got.dtype == dtype
    with mp.workdps(50):
        want = [exact(mp.mpf(float(v))) for v in x]
    worst = errors(got, want, absolute if dtype == "float64" else 0.0)
    limit = 0.6 if dtype == "float32" else bound
    assert worst.max() <= limit, f"{worst.max()} at {x[worst.argmax()]}"


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
def test_polygamma(n: int) -> None:
    x = np.concatenate([uniform(0.05, 40, 80), -uniform(0, 6, 60)])
    with mp.workdps(50):
        for dtype, bound in (("float32", 0.6), ("float64", 150)):
            v = x.astype(dtype)
            want = [mp.psi(n, mp.mpf(float(a))) for a in v]
            got = errors(S.polygamma(n, v).numpy(), want, 2e-15 if dtype == "float64" else 0)
            assert got[:80].max() <= min(bound, 9) and got.max() <= bound


def test_lgamma_below_zero() -> None:
    x = -uniform(0, 30, 300)
    with mp.workdps(50):
        want = [mp.loggamma(mp.mpf(float(v))) for v in x.astype(np.float32)]
        assert errors(S.lgamma(x.astype(np.float32)).numpy(), want).max() <= 0.6
        exact = np.array([float(mp.re(mp.loggamma(mp.mpf(float(v))))) for v in x])
    size = np.abs(exact) + np.abs(scipy.special.gammaln(-x))
    assert np.max(np.abs(S.lgamma(x).numpy() - exact) / size) < 2e-15


TWO: dict[str, tuple[Callable[..., Any], Array, Array, float, float]] = {
    "zeta": (mp.zeta, 1 + powers(-2, 1.2), powers(-2, 2), 8, 0),
    "betaln": (lambda a, b: mp.log(mp.beta(a, b)), powers(-3, 4), powers(-3, 4), 20, 1e-15),
    "beta": (mp.beta, powers(-2, 1.4), powers(-2, 1.4), 80, 0),
    "xlogy": (lambda x, y: x * mp.log(y), uniform(-9, 9, 60), powers(-9, 9), 3, 0),
    "xlog1py": (lambda x, y: x * mp.log1p(y), uniform(-9, 9, 60), powers(-9, 9), 3, 0),
    "rel_entr": (lambda x, y: x * mp.log(x / y), powers(-3, 3), powers(-3, 3), 4, 0),
    "gammainc": (lambda a, x: mp.gammainc(a, 0, x, regularized=True), powers(-3, 2), powers(-2, 2),
                 2000, 0),
    "gammaincc": (lambda a, x: mp.gammainc(a, x, regularized=True), powers(-3, 2), powers(-2, 2),
                  2000, 0),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TWO)
def test_two_arguments(name: str, dtype: str) -> None:
    exact, x, y, bound, absolute = TWO[name]
    x, y = x.astype(dtype), y.astype(dtype)
    got = getattr(S, name)(x, y).numpy()
    with mp.workdps(50):
        want = [exact(mp.mpf(float(a)), mp.mpf(float(b))) for a, b in zip(x, y, strict=True)]
    worst = errors(got, want, absolute if dtype == "float64" else 0.0)
    limit = 0.6 if dtype == "float32" else bound
    assert worst.max() <= limit, f"{worst.max()} at {x[worst.argmax()], y[worst.argmax()]}"


@pytest.mark.parametrize(("low", "high"), [(-3, -1), (-1, 1), (1, 3), (3, 5)])
def test_incomplete_functions_against_scipy(low: float, high: float) -> None:
    a, b = powers(low, high, 800), powers(low, high, 800)
    x = np.abs(a * (1 + RNG.normal(size=800) * 3 / np.sqrt(a)))
    tolerance = 3e-12 * max(1.0, 10.0 ** (high - 3))
    p, q = scipy.special.gammainc(a, x), scipy.special.gammaincc(a, x)
    np.testing.assert_allclose(S.gammainc(a, x).numpy(), p, rtol=tolerance, atol=1e-12)
    np.testing.assert_allclose(S.gammaincc(a, x).numpy(), q, rtol=tolerance, atol=1e-12)
    t = np.clip(RNG.beta(a, b), 1e-300, 1 - 1e-16)
    want = scipy.special.betainc(a, b, t)
    np.testing.assert_allclose(S.betainc(a, b, t).numpy(), want, rtol=tolerance * 10, atol=1e-12)


@pytest.mark.parametrize("a", [1e-10, 1e-6, 1e-3])
def test_small_upper_gamma_keeps_its_digits(a: float) -> None:
    x = np.concatenate([uniform(0, 1, 50), powers(-30, -1)])
    want = [float(mp.gammainc(mp.mpf(a), mp.mpf(v), regularized=True)) for v in x]
    np.testing.assert_allclose(S.gammaincc(a, x).numpy(), want, rtol=1e-11)


EDGES = np.array([0.0, -0.0, 1.0, -1.0, 2.0, 0.5, np.inf, -np.inf, np.nan, -2.0, 35.5, 172.0,
                  -190.5, 800.0])  # fmt: skip
OURS = {("lgamma", -np.inf), ("j0", np.inf), ("j0", -np.inf), ("j1", np.inf), ("j1", -np.inf),
        ("y0", np.inf), ("y1", np.inf), ("spence", np.inf)}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("lambertw", "sinc")])
def test_edges_are_scipys(name: str) -> None:
    x = np.array([v for v in EDGES if (name, v) not in OURS])
    got = getattr(S, name)(x).numpy()
    want = getattr(scipy.special, "gammaln" if name == "lgamma" else name)(x)
    absolute = 1e-14 if name[0] in "jy" else 1e-300
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=absolute)


@pytest.mark.parametrize("name", ["erfinv", "i1", "i1e", "j1"])
def test_odd_functions_keep_the_sign_of_zero(name: str) -> None:
    zeros = getattr(S, name)(np.array([0.0, -0.0])).numpy()
    assert np.signbit(zeros).tolist() == [False, True]


@pytest.mark.parametrize("name", ["xlogy", "xlog1py", "rel_entr", "kl_div", "gammainc",
                                  "gammaincc", "comb"])  # fmt: skip
def test_edges_of_two_arguments_are_scipys(name: str) -> None:
    values = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 3.0, np.inf, -np.inf, np.nan])
    if name == "comb":
        values = values[np.isfinite(values)]
    a, b = (v.ravel() for v in np.meshgrid(values, values))
    got, want = getattr(S, name)(a, b).numpy(), getattr(scipy.special, name)(a, b)
    if name == "comb":
        want = np.where((b > a) | (b < 0) | (a < 0), 0, want)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_values_where_we_differ_from_scipy() -> None:
    assert S.lgamma(-np.inf).item() == np.inf  # C99
    assert S.j0(np.inf).item() == S.y1(np.inf).item() == 0.0  # their limits
    assert S.spence(np.inf).item() == -np.inf
    assert S.lambertw(-0.2, -1).item() == pytest.approx(scipy.special.lambertw(-0.2, -1).real)
    assert np.isnan(S.lambertw(-1.0).item()) and np.isnan(S.lambertw(1.0, -1).item())
    assert S.lambertw(0.0, -1).item() == -np.inf and S.lambertw(np.inf).item() == np.inf


def test_counting_functions_are_exact() -> None:
    n, k = np.arange(45.0)[:, None], np.arange(47.0)[None]
    np.testing.assert_array_equal(S.comb(n, k).numpy(), np.round(scipy.special.comb(n, k)))
    x, y = uniform(-6.3, 6, 60), uniform(-3, 3, 60)
    want = scipy.special.binom(x, y)
    np.testing.assert_allclose(S.binom(x, y).numpy(), want, rtol=1e-10, atol=1e-12)
    whole = np.arange(16.0)
    assert S.factorial(whole).tolist() == scipy.special.factorial(whole).tolist()
    np.testing.assert_allclose(S.factorial(uniform(-3, 20)[:0]).numpy(), [])


def test_sinc_is_zero_at_whole_numbers() -> None:
    assert S.sinc(np.arange(1.0, 2000.0)).tolist() == [0.0] * 1999


def test_softmax_and_multigammaln() -> None:
    x = RNG.normal(size=(3, 5)) * 30
    for axis in (None, 0, 1):
        np.testing.assert_allclose(S.softmax(x, axis), scipy.special.softmax(x, axis), rtol=1e-13)
        want = scipy.special.log_softmax(x, axis)
        np.testing.assert_allclose(S.log_softmax(x, axis), want, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(S.logsumexp(x, axis), scipy.special.logsumexp(x, axis))
    a = uniform(3, 9)
    want = [scipy.special.multigammaln(v, 4) for v in a]
    np.testing.assert_allclose(S.multigammaln(a, 4).numpy(), want, rtol=1e-13)
    assert np.isnan(S.multigammaln(1.0, 4).item())


@pytest.mark.parametrize("name", [*CASES, *TWO])
def test_types_and_shapes(name: str) -> None:
    function = getattr(S, name)
    count = 2 if name in TWO else 1
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        x = lm.full((2, 0), 0.5, dtype=dtype)
        assert function(*[x] * count).shape == (2, 0)
        y = function(*[lm.tensor(0.75).astype(dtype)] * count)
        assert y.dtype.name == dtype and y.shape == ()
    assert function(*[lm.tensor([1, 2])] * count).dtype == lm.float32
    if count == 2:
        assert function(lm.ones((3, 1)), lm.ones(4, dtype="float64")).shape == (3, 4)
        assert function(lm.ones((3, 1)), 0.5).dtype == lm.float32


def test_wrong_uses() -> None:
    for act in (lambda: S.polygamma(-1, 1.0), lambda: S.lambertw(1.0, 2),
                lambda: S.multigammaln(1.0, 0), lambda: S.polygamma(1.5, 1.0),
                lambda: S.beta(lm.ones(2), lm.ones(3)), lambda: S.gamma("x")):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=r"^\["):
            act()
