"""Special functions of extreme numbers (zeros, subnormal, huge, infinite, next to whole ones)
against SciPy, and against mpmath where SciPy itself is off.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import lamella as lm

S = lm.special
EPS, TINY, LEAST, MOST = 2.0**-52, 2.0**-1022, 5e-324, 1.7976931348623157e308
GRID = [0.0, TINY, LEAST, 1 - EPS / 2, 1 + EPS, 1.0, 2.0, 3.0, 5.0, 10.0, 50.0, 170.0, 0.5, 1.5,
        2.5, 0.1, 0.999, 1e-10, 1e10, 1e-30, 1e30, 1e300, 1e-300, MOST, np.inf, 1e-3, 1e3,
        30.3]  # fmt: skip
SIGNED = np.array([*GRID, *[-x for x in GRID], np.nan])
# SciPy is not precise at these, or gives nan where there is a limit
ELSEWHERE: dict[str, set[float]] = {
    "erfcx": {MOST}, "erfcinv": {LEAST}, "spence": {np.inf, MOST},
    "gammaln": {LEAST, 1 - EPS / 2, 1 + EPS, 0.999, -np.inf, -LEAST},
    "digamma": {-(1 - EPS / 2)},
}  # fmt: skip
ONE = ["i0", "i0e", "i1", "i1e", "exprel", "cosm1", "spence", "erf", "erfc", "erfcx", "erfinv",
       "erfcinv", "ndtr", "ndtri", "log_ndtr", "gamma", "gammaln", "gammasgn", "digamma",
       "entr", "expit", "log_expit", "logit"]  # fmt: skip


def agree(got: Any, want: Any, dtype: str, rtol: float) -> None:
    with np.errstate(over="ignore"):
        want = np.asarray(want).astype(dtype)
    least = float(np.finfo(dtype).smallest_subnormal)
    rtol = 2e-7 if dtype == "float32" else rtol
    np.testing.assert_allclose(got.numpy(), want, rtol=rtol, atol=2 * least)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ONE)
def test_one_argument(name: str, dtype: str) -> None:
    with np.errstate(over="ignore"):
        x = SIGNED[~np.isin(SIGNED, list(ELSEWHERE.get(name, ())))].astype(dtype)
    x = x[~np.isin(x, list(ELSEWHERE.get(name, ())))]
    with np.errstate(all="ignore"):
        want = getattr(scipy.special, name)(x.astype(np.float64))
    agree(getattr(S, name)(x), want, dtype, 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["xlogy", "xlog1py", "gammainc", "gammaincc", "rel_entr"])
def test_two_arguments(name: str, dtype: str) -> None:
    with np.errstate(over="ignore"):
        values = SIGNED.astype(dtype)
    if "gammainc" in name:  # SciPy takes the least numbers for 0, and has no value beyond 1e300
        values = values[~np.isin(np.abs(values), [TINY, LEAST, 1e-300, MOST])]
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        want = getattr(scipy.special, name)(x.astype(np.float64), y.astype(np.float64))
    least = np.finfo(dtype).tiny
    fine = (np.abs(want) > least * 1e3) | (want == 0) | np.isnan(want)
    if name == "xlogy":
        fine &= np.abs(x) < 1e307
    agree(getattr(S, name)(x[fine], y[fine]), want[fine], dtype, 1e-12)


POINTS: list[tuple[str, tuple[float, ...], Any]] = [
    ("gammaincc", (1e-8, 1.0), lambda a, x: mp.gammainc(a, x, regularized=True)),
    ("gammaincc", (1e-30, 1.0), lambda a, x: mp.gammainc(a, x, regularized=True)),
    ("gammainc", (1e9, 1e9 + 1e4), scipy.special.gammainc),
    ("gammaincc", (1e9, 1e9 + 1e6), scipy.special.gammaincc),
    ("gammainc", (1e300, 1e300), lambda a, x: 0.5),
    ("gammainc", (3.0, 1e300), lambda a, x: 1.0),
    ("gammainc", (MOST, 3.0), lambda a, x: 0.0),
    ("gammainc", (LEAST, 0.5), lambda a, x: 1.0),
    ("rel_entr", (10.0, TINY), lambda x, y: x * mp.log(x / y)),
    ("rel_entr", (1e-300, MOST), lambda x, y: x * mp.log(x / y)),
    ("beta", (1.0, -1.0), lambda a, b: -1.0),
    ("beta", (-3.0, 2.0), lambda a, b: 1 / 6),
    ("beta", (-2.0, 1.0), lambda a, b: -0.5),
    ("beta", (-2.0, 3.0), lambda a, b: mp.inf),
    ("beta", (-2.0, 0.5), lambda a, b: mp.inf),
    ("beta", (-0.5, 0.5), lambda a, b: 0.0),
    ("beta", (10.0, -0.5), mp.beta),
    ("beta", (50.0, -30.3), mp.beta),
    ("betaln", (10.0, -2.5), lambda a, b: mp.log(abs(mp.beta(a, b)))),
    ("betaln", (1e10, -100.5), lambda a, b: mp.log(abs(mp.beta(a, b)))),
    ("betaln", (1e30, -30.25), lambda a, b: mp.log(abs(mp.beta(a, b)))),
    ("binom", (1e-30, 1.0), lambda n, k: n),
    ("binom", (TINY, 1.0), lambda n, k: n),
    ("binom", (1e-10, 2.0), mp.binomial),
    ("binom", (1e-10, 50.0), mp.binomial),
    ("binom", (0.25, 30.5), mp.binomial),
    ("binom", (-0.5, 0.5), lambda n, k: 0.0),
    ("binom", (1 - EPS / 2, 1e15), mp.binomial),
    ("binom", (1e300, 1.0), lambda n, k: n),
    ("binom", (-3.0, 2.0), lambda n, k: mp.nan),
    ("binom", (mp.inf, 2.0), lambda n, k: mp.inf),
    ("zeta", (2.0, 1e300), mp.zeta),
    ("zeta", (1.5, MOST), lambda s, q: 2 / mp.sqrt(q)),
    ("zeta", (1 + EPS, 1e300), lambda s, q: 1 / (s - 1) * q ** (1 - s)),
    ("zeta", (1e300, 1.0), lambda s, q: 1.0),
    ("zeta", (1e300, 0.5), lambda s, q: mp.inf),
    ("betainc", (1e-3, 0.0, 0.5), lambda a, b, x: 0.0),
    ("betainc", (0.0, 2.0, 0.5), lambda a, b, x: 1.0),
    ("betainc", (np.inf, 2.0, 0.5), lambda a, b, x: 0.0),
    ("betainc", (2.0, np.inf, 0.5), lambda a, b, x: 1.0),
    ("betainc", (np.inf, 2.0, 1.0), lambda a, b, x: 1.0),
    ("betainc", (0.0, 0.0, 0.5), lambda a, b, x: mp.nan),
    ("gammasgn", (-0.0,), lambda x: -1.0),
]


@pytest.mark.parametrize("point", POINTS, ids=lambda p: f"{p[0]}{p[1]}")
def test_against_exact_values(point: Any) -> None:
    name, arguments, exact = point
    arguments = [float(x) for x in arguments]
    with mp.workdps(60):
        kind = float if isinstance(exact, np.ufunc) else mp.mpf
        want = float(mp.re(exact(*[kind(x) for x in arguments])))
    got = getattr(S, name)(*[lm.tensor(x, dtype="float64") for x in arguments]).item()
    assert got == pytest.approx(want, rel=3e-12, nan_ok=True)


def test_incomplete_beta_is_a_probability() -> None:
    b = np.array([1e-30, 1e-10, 1e-3, 1.0])[:, None]
    x = np.array([0.1, 0.5, 0.9, 1 - EPS / 2])
    got = S.betainc(np.array([[0.1], [2.0], [1e-10], [50.0]])[:, None], b, x).numpy()
    assert ((got >= 0) & (got <= 1)).all()


def test_derivatives_across_the_expansion_for_large_parameters() -> None:
    """By x it is the density, on both sides of 1e8."""
    for a in (0.9e8, 1.1e8, 1e12):
        x = a + np.array([-2.0, 0.0, 2.0]) * np.sqrt(a)
        slope = lm.grad(lambda x, a=a: S.gammainc(a, x).sum())(lm.tensor(x)).numpy()
        with mp.workdps(40):
            want = [
                float(mp.exp((a - 1) * mp.log(v) - v - mp.loggamma(a))) for v in map(mp.mpf, x)
            ]
        np.testing.assert_allclose(slope, want, rtol=1e-7)
