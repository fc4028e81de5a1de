"""float32 numbers of any bits: subnormal, huge, at edges; each result is SciPy in float64, rounded
once or the neighbour of that.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import lamella as lm

Array = np.ndarray[Any, Any]
NAMES = [
    "erfcx", "erfinv", "erfcinv", "ndtr", "ndtri", "log_ndtr", "gamma", "lgamma", "digamma", "i0",
    "i1", "i0e", "i1e", "j0", "j1", "y0", "y1", "expit", "log_expit", "logit", "entr", "exprel",
    "cosm1", "spence", "factorial",
]  # fmt: skip
LIMIT = {"j0": 1e4, "j1": 1e4, "y0": 1e4, "y1": 1e4, "cosm1": 1e6}  # beyond, SciPy loses the phase


def numbers() -> Array:
    rng = np.random.default_rng(5)
    drawn = rng.integers(0, 2**32, 30_000, dtype=np.uint32).view(np.float32)
    edges = np.array([0, -0.0, np.nan, 1e-45, 1.2e-38, 3.4e38, 8, 10, 0.5, 1, 2, 3, 172, 88.7,
                      103.9], np.float32)  # fmt: skip
    edges = np.concatenate([edges, -edges])
    around = [np.nextafter(edges, np.float32(side)) for side in (np.inf, -np.inf)]
    return np.concatenate([drawn, edges, *around])


@pytest.mark.parametrize("name", NAMES)
def test_rounded_once(name: str) -> None:
    x = numbers()
    x = x[~(np.abs(x) > LIMIT.get(name, 3.5e38))]
    got = getattr(lm.special, name)(x).numpy()
    function = getattr(scipy.special, "gammaln" if name == "lgamma" else name)
    with np.errstate(all="ignore"):
        want = function(x.astype(np.float64))
        rounded = want.astype(np.float32)
        ulp = np.maximum(np.spacing(np.abs(rounded)).astype(float), 2.0**-149)
        error = np.abs(got.astype(float) - want) / np.where(np.isfinite(ulp), ulp, 2.0**104)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    assert np.all(same | (error <= 0.6))


@pytest.mark.parametrize("name", ["j0", "j1", "y0", "y1"])
def test_the_phase_of_large_arguments(name: str) -> None:
    x = (10.0 ** np.random.default_rng(0).uniform(4, 30, 40)).astype(np.float32)
    exact = (mp.besselj if name[0] == "j" else mp.bessely, int(name[1]))
    with mp.workdps(60):
        want = np.array([float(exact[0](exact[1], mp.mpf(float(v)))) for v in x])
    size = np.sqrt(2 / np.pi / x.astype(float))
    got = getattr(lm.special, name)(x).numpy()
    np.testing.assert_array_less(np.abs(got - want), np.spacing(np.abs(got)) + 1e-12 * size)


@pytest.mark.parametrize("name", ["gamma", "lgamma", "digamma", "gammasgn", "sinc", "j0", "i1"])
def test_halves_and_quarters(name: str) -> None:
    x = np.arange(-40, 41) / 4 + 0.0
    got = getattr(lm.special, name)(x).numpy()
    functions = {"lgamma": scipy.special.gammaln, "sinc": np.sinc}
    want = functions.get(name, getattr(scipy.special, name, None))(x)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)
