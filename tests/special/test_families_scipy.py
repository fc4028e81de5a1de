"""Polynomials, distribution functions, inverses against SciPy in float64; edges; derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import lamella as lm
from lamella.errors import LamellaError
from tests.special.test_families import CASES
from tests.special.test_values import powers, uniform

Array = np.ndarray[Any, Any]
S = lm.special
RNG = np.random.default_rng(5)
N = RNG.integers(0, 20, 60)
I, P, Q = uniform(-1, 1, 60), uniform(0.01, 0.99, 60), powers(-1, 2)  # noqa: E741
A, B = uniform(-0.5, 3, 60), uniform(0.2, 5, 60)
K = RNG.integers(0, 8, 60)
SAME: dict[str, tuple[tuple[Any, ...], float]] = {
    **{f"eval_{f}": ((N, I), 1e-12) for f in (
        "legendre", "chebyt", "chebyu", "chebyc", "chebys", "hermite", "hermitenorm", "laguerre",
        "sh_legendre", "sh_chebyt", "sh_chebyu",
    )},
    "eval_genlaguerre": ((N, A, I), 1e-11), "eval_gegenbauer": ((N, B, I), 1e-11),
    "eval_jacobi": ((N, A, B, I), 1e-10), "eval_sh_jacobi": ((N, A + 4, B, P), 1e-9),
    "bdtr": ((K, K + 3, P), 1e-12), "bdtrc": ((K, K + 3, P), 1e-12),
    "bdtri": ((K, K + 3, P), 1e-10), "nbdtr": ((K, K + 2, P), 1e-12),
    "nbdtrc": ((K, K + 2, P), 1e-12), "nbdtri": ((K, K + 2, P), 1e-10), "pdtr": ((K, Q), 1e-12),
    "pdtrc": ((K, Q), 1e-12), "chdtr": ((B, Q), 1e-12), "chdtrc": ((B, Q), 1e-11),
    "chdtri": ((B, P), 1e-11), "gdtr": ((B, B, Q), 1e-11), "gdtrc": ((B, B, Q), 1e-9),
    "gdtrix": ((B, B, P), 1e-11), "fdtr": ((B, B + 1, Q), 1e-11), "fdtrc": ((B, B + 1, Q), 1e-10),
    "fdtri": ((B, B + 1, P), 1e-9), "stdtr": ((B, 9 * I), 1e-11), "stdtrit": ((B, P), 1e-9),
    "gammaincinv": ((Q, P), 1e-11), "gammainccinv": ((Q, P**4), 1e-11),
    "betaincinv": ((B, Q, P), 1e-10), "betainccinv": ((B, Q, P), 1e-9),
    "owens_t": ((4 * I, uniform(-4, 4, 60)), 1e-12), "ndtri_exp": ((-Q,), 1e-11),
    "voigt_profile": ((9 * I, B, A + 0.6), 1e-12), "perm": ((K + 4, K), 1e-12),
    "boxcox1p": ((B, A), 1e-12), "inv_boxcox": ((B, A + 0.6), 1e-12),
    "inv_boxcox1p": ((B, A + 0.6), 1e-12), "huber": ((B, 9 * I), 1e-14),
    "pseudo_huber": ((B, 9 * I), 1e-13), "sindg": ((900 * I,), 1e-12), "cosdg": ((900 * I,), 1e-12),
    "tandg": ((900 * I,), 1e-11), "cotdg": ((900 * I,), 1e-11), "radian": ((B, B, B), 1e-14),
    "diric": ((9 * I, 5), 1e-11), "zetac": ((B + 1.1,), 1e-12), "loggamma": ((B,), 1e-12),
    "factorial2": ((K,), 1e-15), "kn": ((K, B), 1e-12), "wofz": ((A + 1j * I,), 1e-12),
    "cbrt": ((A,), 1e-14), "jn": ((K, 9 * I), 1e-11), "yn": ((K, B), 1e-11),
    "spherical_yn": ((K, B), 1e-11), "spherical_in": ((K, B), 1e-11),
    "spherical_kn": ((K, B), 1e-11),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_values(name: str) -> None:
    arguments, tolerance = SAME[name]
    want = getattr(scipy.special, name)(*arguments)
    given = [np.asarray(x, complex if np.iscomplexobj(x) else float) for x in arguments]
    if name.startswith("eval"):
        given[0] = arguments[0]
    got = getattr(S, name)(*given).numpy()
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 1e-2)


@pytest.mark.parametrize("name", ["gammaincinv", "gammainccinv", "betaincinv"])
def test_inverses_are_rounded_once(name: str) -> None:
    count = 2 if "gamma" in name else 1
    a = powers(-1, 4 / count, 900).astype(np.float32)
    p = np.concatenate([uniform(0, 1, 500), powers(-8, -1, 400)]).astype(np.float32)
    arguments = (a, p) if count == 2 else (a, a[::-1].copy(), p)
    got = getattr(S, name)(*arguments).numpy()
    want = getattr(scipy.special, name)(*(x.astype(float) for x in arguments))
    fine = (want > 1e-37) & (want < 0.99 if name == "betaincinv" else want > 0)
    np.testing.assert_allclose(got[fine], want[fine], rtol=6.3e-8)


@pytest.mark.parametrize("n", [30, 200])
def test_high_orders_are_loops(n: int) -> None:
    x = lm.asarray(uniform(-1, 1, 20))
    for name in ("eval_legendre", "eval_chebyu", "eval_hermitenorm"):
        got, want = getattr(S, name)(n, x), getattr(scipy.special, name)(n, x.numpy())
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-10 * abs(want).max())
    slope = lm.grad(lambda x: S.eval_chebyt(n, x).sum())(x).numpy()
    np.testing.assert_allclose(slope, n * scipy.special.eval_chebyu(n - 1, x.numpy()), rtol=1e-8)


def test_orders_of_polynomials() -> None:
    assert S.eval_legendre([-1, 0, 1], 0.5).tolist() == [0.0, 1.0, 0.5]
    assert S.eval_legendre(0, lm.ones((2, 3))).shape == (2, 3)
    assert S.hermite_polynomial_h(lm.ones(3), [[1], [2]]).shape == (2, 3)
    with pytest.raises(LamellaError, match=r"^\[eval_chebyt\]"):
        S.eval_chebyt(1.5, 0.5)


EDGES = np.array([0.0, -0.0, 1.0, -1.0, 2.0, 0.5, np.inf, -np.inf, np.nan, -2.5, 40.0, 1e-300])
# SciPy has no limit there, is complex, or uses another branch
ELSEWHERE = {"rgamma": [-np.inf], "loggamma": [-np.inf],
             "zetac": [0.5, -0.0, 0.0, -1.0, -2.5, 1e-300, 1.0]}  # fmt: skip


@pytest.mark.parametrize("name", [
    "exp1", "expi", "dawsn", "erfi", "ellipk", "ellipe", "ellipkm1", "k0", "k1", "k0e", "k1e",
    "rgamma", "loggamma", "kolmogorov", "ndtri_exp", "exp10", "softplus", "zetac",
])  # fmt: skip
def test_edges_are_scipys(name: str) -> None:
    x = EDGES[~np.isin(EDGES, ELSEWHERE.get(name, []))]
    with np.errstate(all="ignore"):
        if name == "softplus":
            want = np.logaddexp(x, 0.0)
        else:
            want = getattr(scipy.special, name)(x)
    np.testing.assert_allclose(getattr(S, name)(x).numpy(), want, rtol=1e-10, atol=1e-290)


@pytest.mark.parametrize("name", ["agm", "poch", "boxcox", "huber", "pseudo_huber", "gammaincinv"])
def test_edges_of_two_arguments_are_scipys(name: str) -> None:
    values = np.array([0.0, 1.0, -1.0, 0.5, 3.0] + [np.nan] * (name != "poch"))
    a, b = (v.ravel() for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        want = getattr(scipy.special, name)(a, b)
    fine = ~((name == "gammaincinv") & (a == 0))  # SciPy: 0 or nan by the other argument
    np.testing.assert_allclose(getattr(S, name)(a, b).numpy()[fine], want[fine], rtol=1e-11)


def test_bessel_functions_of_any_order_at_edges() -> None:
    v = np.array([0.0, 1.0, 2.0, -1.0, 0.5, -0.5])
    for x in (0.0, 1.0, 3.0):
        for name in ("iv", "kv", "kve"):
            want = getattr(scipy.special, name)(v, x)
            np.testing.assert_allclose(getattr(S, name)(v, x).numpy(), want, rtol=1e-13)
    want = scipy.special.iv(v[:4], -2.0)
    np.testing.assert_allclose(S.iv(v[:4], -2.0).numpy(), want, rtol=1e-13)
    for name in ("jv", "yv"):
        got = getattr(S, name)(v, lm.tensor(3.0, dtype="float64")).numpy()
        np.testing.assert_allclose(got, getattr(scipy.special, name)(v, 3.0), rtol=1e-12)
    assert S.jv([0.0, 1.0, 0.5], 0.0).tolist() == [1.0, 0.0, 0.0]
    assert S.yv([0.0, 1.5], 0.0).tolist() == [-np.inf] * 2 and np.isnan(S.yv(0.0, -1.0).item())
    for name in ("spherical_jn", "spherical_yn", "spherical_in", "spherical_kn"):
        n, z = np.array([0, 1, 2]), np.array([[0.0], [-2.0], [2.0]])[1 if name[-2] == "k" else 0 :]
        got, want = getattr(S, name)(n, z).numpy(), getattr(scipy.special, name)(n, z)
        fine = np.isfinite(want) & (z > 0 if name[-2] == "k" else z == z)
        np.testing.assert_allclose(got[fine], want[fine], rtol=1e-11, atol=1e-300)
    assert np.isnan(S.iv(0.5, -1.0).item()) and np.isnan(S.kv(1.0, -1.0).item())
    assert S.kv(1.0, np.inf).item() == 0.0 and S.iv(2.0, np.inf).item() == np.inf


def slopes(function: Callable[..., Any], arguments: list[Array], place: int) -> Array:
    """Derivatives by central differences of the exact function in 40 digits."""
    import mpmath as mp

    order = tuple(int(k == place) for k in range(len(arguments)))
    with mp.workdps(40):
        rows = zip(*arguments, strict=True)
        return np.array([
            float(mp.re(mp.diff(function, tuple(mp.mpf(float(v)) for v in row), order)))
            for row in rows
        ])  # fmt: skip


NEAR = {"ellipk": [0.2, -3.0], "ellipe": [0.2, -3.0], "expi": [0.7, -2.0], "kolmogorov": [0.5, 1.2]}
FIXED = {"expn": [0], "poch_whole": [1], "spherical_jn": [0]}


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("kve", "ive")])
def test_derivatives(name: str) -> None:
    case = CASES[name]
    count = len(case.arguments)
    points = [np.array(NEAR.get(name, [0.6, 2.3])) + 0.2 * k for k in range(count)]
    if name in FIXED:
        points[FIXED[name][0]] = np.array([2.0, 3.0])
    if name.startswith("ellip") and name.endswith("inc"):
        points = [np.array([0.6, 2.3]), np.array([0.4, -2.0])]
    inputs = [lm.tensor(p, dtype="float64") for p in points]
    places = tuple(k for k in range(count) if k not in FIXED.get(name, []))
    found = lm.grad(lambda *x: case.function(*x).sum(), argnums=places)(*inputs)
    for place, got in zip(places, found, strict=True):
        want = slopes(case.exact, points, place)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("name", [n for n in CASES if len(CASES[n].arguments) == 1])
def test_no_nan_where_the_value_is_finite(name: str) -> None:
    x = lm.tensor([0.0, 1.0, -1.0, 0.5, 30.0, -30.0, 1e-30], dtype="float64")
    function = CASES[name].function

    def total(v: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor]:
        value = function(v)
        return lm.where(lm.isfinite(v), value, 0).sum(), value

    slope, value = lm.grad(total, has_aux=True)(x)
    assert not np.isnan(slope.numpy()[np.isfinite(value.numpy())]).any()


def test_inverses_have_the_derivatives_of_quantiles() -> None:
    step = 1e-6
    for name, point in (("gammaincinv", (2.0, 0.9)), ("gammainccinv", (0.5, 0.1)),
                        ("betaincinv", (30.0, 9.0, 0.01))):  # fmt: skip
        inputs = [lm.tensor(p, dtype="float64") for p in point]
        found = lm.grad(getattr(S, name), argnums=tuple(range(len(point))))(*inputs)
        for place, got in enumerate(found):
            ends = []
            for side in (step, -step):
                moved = [p + side * (k == place) for k, p in enumerate(point)]
                ends.append(getattr(scipy.special, name)(*moved))
            assert got.item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("name", ["kve", "gammaincinv", "exp1", "ellipk", "airy_ai"])
def test_under_transformations_and_in_all_types(name: str) -> None:
    function = getattr(S, name)
    count = 2 if name in ("kve", "gammaincinv") else 1
    x = [lm.tensor([0.3, 0.6]) for _ in range(count)]
    want = function(*x).numpy()
    np.testing.assert_allclose(lm.jit(lm.vmap(function))(*x).numpy(), want, rtol=1e-6)
    _, ahead = lm.jvp(function, tuple(x), tuple(lm.ones_like(v) for v in x))
    back = sum(lm.grad(lambda *v: function(*v).sum(), argnums=tuple(range(count)))(*x))
    np.testing.assert_allclose(ahead.numpy(), back.numpy(), rtol=1e-5)
    for dtype in ("float16", "bfloat16") if count == 1 else ("float64",):
        low = [v.astype(dtype) for v in x]
        assert function(*low).dtype.name == dtype
        np.testing.assert_allclose(function(*low).float().numpy(), want, rtol=2e-2)
    assert function(*[lm.full((0, 3), 0.5)] * count).shape == (0, 3)
    assert function(*[lm.tensor([1, 1])] * count).dtype == lm.float32


def test_bessel_functions_of_several_orders() -> None:
    z = uniform(-9, 30, 20)
    want = scipy.special.jv(np.arange(6.0)[:, None], z)
    np.testing.assert_allclose(S.bessel_jn(z, v=5).numpy(), want, rtol=1e-11, atol=1e-13)
    with pytest.raises(LamellaError, match=r"^\[bessel_jn\]"):
        S.bessel_jn(z, v=-1)


def test_bodies_of_loops_do_not_wait_to_be_computed() -> None:
    with lm.config(flush=3):
        got = [S.gammaincinv(2.0, p).item() for p in (0.3, 0.5, 0.7)]
    np.testing.assert_allclose(got, scipy.special.gammaincinv(2.0, [0.3, 0.5, 0.7]), rtol=1e-6)


def test_numbers() -> None:
    np.testing.assert_allclose(S.bernoulli(20).numpy(), scipy.special.bernoulli(20), rtol=1e-6)
    np.testing.assert_allclose(S.euler(12).numpy(), scipy.special.euler(12), rtol=1e-6)
    assert S.stirling2(9, 4) == 7770
    for act in (lambda: S.bernoulli(-1), lambda: S.euler(1.5), lambda: S.stirling2(-1, 1)):
        with pytest.raises(LamellaError, match=r"^\["):
            act()
