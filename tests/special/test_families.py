"""Values of Bessel, Airy and elliptic functions, integrals, polynomials and distribution functions:
float32 within 0.6 ulp of mpmath's or SciPy's float64, float64 within the bounds that the docstrings
state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
import pytest

import lamella as lm
from tests.special.test_values import errors, powers, uniform

Array = np.ndarray[Any, Any]
S = lm.special
RNG = np.random.default_rng(3)


class Case(NamedTuple):
    """A function, its exact values, arguments, and the error of float64 that is allowed."""

    function: Callable[..., Any]
    exact: Callable[..., Any]
    arguments: tuple[Array, ...]
    ulp: float = 8
    absolute: float = 0
    single: float = 0


def part(name: str, k: int) -> Callable[..., Any]:
    return lambda *x: getattr(S, name)(*x)[k]


def scaled(f: Callable[..., Any], sign: int, at: int = -1) -> Callable[..., Any]:
    return lambda *x: f(*x) * mp.exp(sign * x[at])


P = np.concatenate([powers(-8, 2), uniform(0, 12, 60)])
B = np.concatenate([P, -P])
UNIT = np.concatenate([uniform(0, 1, 60), 1 - powers(-6, -1, 40), -powers(-3, 5, 40)])
LARGE = np.concatenate([uniform(0, 20, 60), -uniform(0, 60, 60), powers(-6, 1)])
ORDERS = np.concatenate([uniform(0, 4, 30), powers(-5, 1.6, 30), np.arange(30.0) % 9])
X = powers(-4, 2, 90)
A3 = [powers(-5, 5) for _ in range(3)]
WHOLE = RNG.integers(1, 30, 120).astype(float)
TURNS = np.concatenate([uniform(0, 4, 20), powers(-3, 1.7, 20), np.arange(20.0) % 13])
FAR = np.concatenate([powers(-3, 2, 30), TURNS[30:] * uniform(0.8, 1.2, 30) + 1e-3])
CASES: dict[str, Case] = {
    "exp1": Case(S.exp1, mp.e1, (P,)),
    "expi": Case(S.expi, mp.ei, (B,), 8, 4e-16),
    "expn": Case(S.expn, mp.expint, (WHOLE, P), 900),
    "si": Case(part("sici", 0), mp.si, (B,)),
    "ci": Case(part("sici", 1), mp.ci, (P,), 8, 1e-15),
    "shi": Case(part("shichi", 0), mp.shi, (B,)),
    "chi": Case(part("shichi", 1), lambda x: mp.chi(abs(x)), (B,), 8, 1e-15),
    "fresnel_s": Case(part("fresnel", 0), mp.fresnels, (B,), 8, 1e-14),
    "fresnel_c": Case(part("fresnel", 1), mp.fresnelc, (B,), 8, 1e-14),
    "dawsn": Case(S.dawsn, lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), (B,)),
    "erfi": Case(S.erfi, mp.erfi, (uniform(-9, 9),), 90),
    "ellipk": Case(S.ellipk, mp.ellipk, (UNIT,)),
    "ellipe": Case(S.ellipe, mp.ellipe, (UNIT,), 16),
    "ellipkm1": Case(S.ellipkm1, lambda p: mp.ellipk(1 - p), (powers(-35, 5),)),
    "agm": Case(S.agm, mp.agm, (powers(-30, 30), powers(-30, 30))),
    "elliprf": Case(S.elliprf, mp.elliprf, (*A3,)),
    "elliprd": Case(S.elliprd, mp.elliprd, (*A3,)),
    "elliprg": Case(S.elliprg, mp.elliprg, (*A3,), 16),
    "elliprc": Case(S.elliprc, mp.elliprc, (A3[0], A3[1])),
    "ellipkinc": Case(S.ellipkinc, mp.ellipf, (uniform(-9, 9, 140), UNIT), 16),
    "ellipeinc": Case(S.ellipeinc, mp.ellipe, (uniform(-9, 9, 140), UNIT), 32),
    "airy_ai": Case(S.airy_ai, mp.airyai, (LARGE,), 120, 1e-13),
    "airy_aip": Case(part("airy", 1), lambda x: mp.airyai(x, derivative=1), (LARGE,), 120, 1e-12),
    "airy_bi": Case(part("airy", 2), mp.airybi, (LARGE,), 120, 1e-13),
    "airy_bip": Case(part("airy", 3), lambda x: mp.airybi(x, derivative=1), (LARGE,), 120, 1e-12),
    "k0": Case(S.k0, lambda x: mp.besselk(0, x), (P,)),
    "k1": Case(S.k1, lambda x: mp.besselk(1, x), (P,)),
    "k0e": Case(S.k0e, scaled(lambda x: mp.besselk(0, x), 1), (P,)),
    "k1e": Case(S.k1e, scaled(lambda x: mp.besselk(1, x), 1), (P,)),
    "kv": Case(S.kv, mp.besselk, (ORDERS, X), 200),
    "kve": Case(S.kve, scaled(mp.besselk, 1), (ORDERS, X), 200),
    "iv": Case(S.iv, mp.besseli, (ORDERS, X), 400),
    "ive": Case(S.ive, scaled(mp.besseli, -1), (ORDERS, X), 400),
    "jv": Case(S.jv, mp.besselj, (TURNS, FAR), 400, 3e-14, 1e-12),
    "yv": Case(S.yv, mp.bessely, (TURNS, FAR), 400, 3e-14, 1e-12),
    "spherical_jn": Case(
        S.spherical_jn, lambda n, x: mp.sqrt(mp.pi / (2 * x)) * mp.besselj(n + 0.5, x),
        (WHOLE[:60], FAR), 400, 3e-15, 1e-13,
    ),
    "rgamma": Case(S.rgamma, mp.rgamma, (uniform(-20, 30),), 64),
    "poch": Case(S.poch, mp.rf, (uniform(0, 30, 60), uniform(-1, 9, 60)), 400),
    "poch_whole": Case(S.poch, mp.rf, (uniform(-9, 9, 12), np.arange(12.0))),
    "boxcox": Case(S.boxcox, lambda x, r: (x**r - 1) / r, (powers(-3, 3), uniform(-2, 2, 60)), 16),
    "powm1": Case(S.powm1, lambda x, y: x**y - 1, (powers(-2, 2), uniform(-1, 1, 60)), 8),
    "exp10": Case(S.exp10, lambda x: mp.mpf(10) ** x, (uniform(-30, 30),), 40),
    "softplus": Case(S.softplus, lambda x: mp.log1p(mp.exp(x)), (uniform(-60, 60),), 4),
    "kolmogorov": Case(
        S.kolmogorov, lambda y: 1 - mp.sqrt(2 * mp.pi) / y * mp.nsum(
            lambda k: mp.exp(-((2 * k - 1) ** 2) * mp.pi**2 / (8 * y * y)), [1, 40],
        ), (uniform(0.2, 3, 20),), 16, 1e-15,
    ),
    "spherical_bessel_j0": Case(
        S.spherical_bessel_j0, lambda x: mp.sin(x) / x, (np.concatenate([B, powers(-9, -1)]),)
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, dtype: str) -> None:
    case = CASES[name]
    arguments = [x.astype(dtype) for x in case.arguments]
    with np.errstate(over="ignore"):
        got = case.function(*arguments).numpy()
        assert got.dtype == dtype
        with mp.workdps(50):
            rows = [[mp.mpf(float(v)) for v in row] for row in zip(*arguments, strict=True)]
            want = [case.exact(*row) for row in rows]
        worst = errors(got, want, case.absolute if dtype == "float64" else case.single)
    limit = 0.6 if dtype == "float32" else case.ulp
    place = [float(x[worst.argmax()]) for x in arguments]
    assert worst.max() <= limit, f"{worst.max()} at {place}"
