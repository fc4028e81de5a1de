"""Derivatives of the special functions: against mpmath's, never NaN at the edges, and under the
transformations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import lamella as lm
from tests.special.test_values import CASES, TWO

S = lm.special
POINTS = {"erfinv": [-0.9, 0.3], "erfcinv": [0.2, 1.7], "ndtri": [0.1, 0.8], "logit": [0.2, 0.9],
          "gamma": [0.7, 3.2, -1.4], "lgamma": [0.7, 3.2, 12.0, -1.4], "digamma": [0.7, 12.0],
          "y0": [0.5, 11.0], "y1": [0.5, 11.0], "entr": [0.2, 3.0], "spence": [0.3, 1.5, 4.0],
          "lambertw": [-0.2, 0.5, 8.0]}  # fmt: skip


def derivative(function: Callable[..., Any], x: float) -> float:
    with mp.workdps(40):
        return float(mp.re(mp.diff(function, mp.mpf(x))))


@pytest.mark.parametrize("name", CASES)
def test_one_argument(name: str) -> None:
    points = POINTS.get(name, [-2.3, 0.4, 1.7, 9.5])
    x = lm.tensor(points, dtype="float64")
    slope = lm.grad(lambda v: getattr(S, name)(v).sum())
    want = [derivative(CASES[name][0], p) for p in points]
    np.testing.assert_allclose(slope(x).numpy(), want, rtol=1e-10, atol=1e-12)
    _, ahead = lm.jvp(getattr(S, name), (x,), (lm.ones_like(x),))
    np.testing.assert_allclose(ahead.numpy(), want, rtol=1e-10, atol=1e-12)
    second = lm.grad(lambda v: slope(v).sum())(x).numpy()
    with mp.workdps(40):
        curve = [float(mp.re(mp.diff(CASES[name][0], mp.mpf(p), 2))) for p in points]
    np.testing.assert_allclose(second, curve, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", TWO)
def test_two_arguments(name: str) -> None:
    a, b = [1.5, 2.5, 4.0], [0.7, 3.0, 2.2]
    x, y = lm.tensor(a, dtype="float64"), lm.tensor(b, dtype="float64")
    function, exact = getattr(S, name), TWO[name][0]
    by_y = lm.grad(lambda v: function(x, v).sum())(y).numpy()
    want = [derivative(lambda t, p=p: exact(mp.mpf(p), t), q) for p, q in zip(a, b, strict=True)]
    np.testing.assert_allclose(by_y, want, rtol=1e-10)
    by_x = lm.grad(lambda v: function(v, y).sum())(x).numpy()
    want = [derivative(lambda t, q=q: exact(t, mp.mpf(q)), p) for p, q in zip(a, b, strict=True)]
    np.testing.assert_allclose(by_x, want, rtol=1e-10)


def test_zeta_by_its_first_argument_to_the_third_order() -> None:
    s, q = [1.1, 2.5, 9.0], [0.3, 1.0, 40.0]
    y = lm.tensor(q, dtype="float64")
    functions = [lambda v: S.zeta(v, y).sum()]
    for order in (1, 2, 3):
        slope = lm.grad(functions[-1])
        functions.append(lambda v, slope=slope: slope(v).sum())
        got = functions[-1](lm.tensor(s, dtype="float64"))
        with mp.workdps(40):
            want = sum(mp.zeta(mp.mpf(a), mp.mpf(b), order) for a, b in zip(s, q, strict=True))
        assert got.item() == pytest.approx(float(want), rel=1e-11)
    mixed = lm.grad(lambda v: lm.grad(lambda w: S.zeta(v, w).sum())(y).sum())
    want = [derivative(lambda t, b=b: -t * mp.zeta(t + 1, b), a) for a, b in zip(s, q, strict=True)]
    np.testing.assert_allclose(mixed(lm.tensor(s, dtype="float64")).numpy(), want, rtol=1e-10)


def test_incomplete_beta() -> None:
    def exact(a: Any, b: Any, x: Any) -> Any:
        return mp.betainc(a, b, 0, x, regularized=True)

    for point in ((2.0, 3.0, 0.2), (0.4, 1.5, 0.9), (20.0, 9.0, 0.6)):
        inputs = [lm.tensor(p, dtype="float64") for p in point]
        found = lm.grad(S.betainc, argnums=(0, 1, 2))(*inputs)
        for place in range(3):

            def along(t: Any, place: int = place, point: Any = point) -> Any:
                return exact(*(t if k == place else mp.mpf(p) for k, p in enumerate(point)))

            wanted = derivative(along, point[place])
            assert found[place].item() == pytest.approx(wanted, rel=1e-9)


EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 30.0, -30.0, 1e-30]


@pytest.mark.parametrize("name", CASES)
def test_no_nan_where_the_value_is_finite(name: str) -> None:
    def total(v: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor]:
        value = getattr(S, name)(v)
        return lm.where(lm.isfinite(v), value, 0).sum(), value

    slope, value = lm.grad(total, has_aux=True)(lm.tensor(EDGES, dtype="float64"))
    assert not np.isnan(slope.numpy()[np.isfinite(value.numpy())]).any()


@pytest.mark.parametrize("name", ["xlogy", "xlog1py", "rel_entr", "kl_div", "gammainc",
                                  "gammaincc"])  # fmt: skip
def test_no_nan_where_the_value_of_two_is_finite(name: str) -> None:
    values = np.array([0.0, 1.0, 0.5, 30.0])
    a, b = (lm.tensor(v.ravel()) for v in np.meshgrid(values, values))

    def total(x: lm.Tensor, y: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor]:
        value = getattr(S, name)(x, y)
        return value.sum(), value

    slopes, value = lm.grad(total, argnums=(0, 1), has_aux=True)(a, b)
    for slope in slopes:
        assert not np.isnan(slope.numpy()[np.isfinite(value.numpy())]).any()


def test_derivatives_where_formulas_cancel() -> None:
    x = lm.tensor([1e-6, 0.0], dtype="float64")
    slope = lm.grad(lambda v: S.sinc(v).sum())(x).numpy()
    np.testing.assert_allclose(slope, [-(np.pi**2) / 3 * 1e-6, 0], rtol=1e-9)
    slope = lm.grad(lambda v: S.exprel(v).sum())(x).numpy()
    np.testing.assert_allclose(slope, [0.5 + 1e-6 / 3, 0.5], rtol=1e-12)
    far = lm.tensor([1e5], dtype="float64")
    slope = lm.grad(lambda v: S.erfcx(v).sum())(far).numpy()
    np.testing.assert_allclose(slope, [-1e-10 / np.sqrt(np.pi)], rtol=1e-9)
    zero = lm.tensor(0.0, dtype="float64")
    assert lm.grad(S.j1)(zero).item() == lm.grad(S.i1e)(zero).item() == 0.5
    assert lm.grad(S.log_expit)(zero).item() == 0.5


def test_transformations_compose() -> None:
    a, x = lm.tensor([0.5, 2.0, 30.0]), lm.tensor([0.4, 2.5, 28.0])
    each = lm.jit(lm.vmap(lm.grad(S.gammainc, argnums=1)))(a, x).numpy()
    want = lm.grad(lambda v: S.gammainc(a, v).sum())(x).numpy()
    np.testing.assert_allclose(each, want, rtol=1e-6)
