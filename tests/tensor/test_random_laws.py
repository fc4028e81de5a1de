"""Distributions with parameters: Kolmogorov–Smirnov and chi-square tests against SciPy with fixed
seeds, tails, gradients against the quantile functions, and wrong uses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats as st

import lamella as lm

pytestmark = pytest.mark.makes_no_program

R = lm.random
N = 10_000


def key(seed: int = 3) -> Any:
    return R.key(seed)


CONTINUOUS: dict[str, tuple[Any, Any]] = {
    "laplace": (lambda **o: R.laplace((N,), 1.0, 2.0, **o), st.laplace(1, 2)),
    "logistic": (lambda **o: R.logistic((N,), 1.0, 2.0, **o), st.logistic(1, 2)),
    "cauchy": (lambda **o: R.cauchy((N,), 1.0, 2.0, **o), st.cauchy(1, 2)),
    "rayleigh": (lambda **o: R.rayleigh((N,), 2.0, **o), st.rayleigh(scale=2)),
    "weibull": (lambda **o: R.weibull((N,), 1.7, **o), st.weibull_min(1.7)),
    "pareto": (lambda **o: R.pareto((N,), 1.7, **o), st.pareto(1.7)),
    "lognormal": (lambda **o: R.lognormal((N,), **o), st.lognorm(1)),
    "far tail": (lambda **o: R.truncated_normal((N,), 8.0, 9.0, **o), st.truncnorm(8, 9)),
    "low tail": (lambda **o: R.truncated_normal((N,), -30.0, -9.0, **o), st.truncnorm(-30, -9)),
    "gamma 0.1": (lambda **o: R.gamma(0.1, (N,), **o), st.gamma(0.1)),
    "gamma 1": (lambda **o: R.gamma(1.0, (N,), **o), st.gamma(1)),
    "gamma 2.5": (lambda **o: R.gamma(2.5, (N,), 3.0, **o), st.gamma(2.5, scale=3)),
    "gamma 1e6": (lambda **o: R.gamma(1e6, (N,), **o), st.gamma(1e6)),
    "loggamma": (lambda **o: R.loggamma(1e-3, (N,), **o), st.loggamma(1e-3)),
    "beta": (lambda **o: R.beta(0.5, 3.0, (N,), **o), st.beta(0.5, 3)),
    "chisquare": (lambda **o: R.chisquare(3.0, (N,), **o), st.chi2(3)),
    "student_t": (lambda **o: R.student_t(2.5, (N,), 1.0, 2.0, **o), st.t(2.5, 1, 2)),
    "dirichlet": (lambda **o: R.dirichlet([0.5, 1.0, 2.0], (N,), **o)[:, 0], st.beta(0.5, 3)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name: str, dtype: str) -> None:
    draw, law = CONTINUOUS[name]
    x = draw(dtype=dtype, key=key())
    assert x.dtype.name == dtype and x.shape == (N,)
    assert st.kstest(x.numpy().astype(np.float64), law.cdf).pvalue > 1e-3


DISCRETE: dict[str, tuple[Any, Any]] = {
    "poisson 0.3": (lambda **o: R.poisson(0.3, (N,), **o), st.poisson(0.3)),
    "poisson 11.9": (lambda **o: R.poisson(11.9, (N,), **o), st.poisson(11.9)),
    "poisson 12.5": (lambda **o: R.poisson(12.5, (N,), **o), st.poisson(12.5)),
    "poisson 1e7": (lambda **o: R.poisson(lm.full((N,), 1e7), **o), st.poisson(1e7)),
    "binomial 5": (lambda **o: R.binomial(5, 0.3, (N,), **o), st.binom(5, 0.3)),
    "binomial 30": (lambda **o: R.binomial(lm.full((N,), 30), 0.9, **o), st.binom(30, 0.9)),
    "binomial 100": (lambda **o: R.binomial(100, 0.5, (N,), **o), st.binom(100, 0.5)),
    "binomial 1e7": (lambda **o: R.binomial(10**7, 0.6, (N,), **o), st.binom(10**7, 0.6)),
    "geometric": (lambda **o: R.geometric(0.3, (N,), **o), st.geom(0.3)),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name: str) -> None:
    """A whole number, spread evenly over its step of the distribution function, is uniform."""
    draw, law = DISCRETE[name]
    x = draw(key=key()).numpy()
    assert x.dtype == np.int64 and draw(key=key(), dtype="int32").dtype == lm.int32
    spread = law.cdf(x) - np.random.default_rng(0).random(N) * law.pmf(x)
    assert st.kstest(spread, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("mean", [0.0, 0.5, 5.0, 12.0, 12.000001, 13.0, 200.0, 1e5])
def test_poisson_is_the_quantile_of_its_uniform(mean: float) -> None:
    u = R.uniform((2000,), dtype="float64", key=key()).numpy() + 2.0**-54
    assert np.array_equal(R.poisson(mean, (2000,), key=key()).numpy(), st.poisson(mean).ppf(u))


@pytest.mark.parametrize(("n", "p"), [(0, 0.5), (1, 0.5), (7, 0.0), (7, 1.0), (40, 0.29),
                                      (40, 0.31), (24, 0.5), (25, 0.5), (999, 0.2)])  # fmt: skip
def test_binomial_is_the_quantile_of_its_uniform(n: int, p: float) -> None:
    u = R.uniform((2000,), dtype="float64", key=key()).numpy() + 2.0**-54
    want = st.binom(n, p).ppf(u) if p <= 0.5 else n - st.binom(n, 1 - p).ppf(u)
    assert np.array_equal(R.binomial(n, p, (2000,), key=key()).numpy(), want)


def test_several_things_at_once() -> None:
    p = np.array([0.2, 0.3, 0.5])
    counts = R.multinomial(10, p, (N,), key=key()).numpy()
    assert counts.shape == (N, 3) and set(counts.sum(-1)) == {10}
    np.testing.assert_allclose(counts.mean(0) / 10, p, atol=0.005)
    exact = np.diag(p) - np.outer(p, p)
    np.testing.assert_allclose(np.cov(counts.T) / 10, exact, atol=0.01)
    assert R.multinomial(3, lm.ones((2, 4)), key=key()).shape == (2, 4)
    assert R.multinomial(3, [1.0], (2,), key=key()).tolist() == [[3], [3]]
    rows = R.dirichlet(lm.ones((2, 3)), (5, 2), key=key())
    assert rows.shape == (5, 2, 3)
    np.testing.assert_allclose(rows.sum(-1).numpy(), 1, rtol=1e-6)
    signs = R.rademacher((N,), key=key()).numpy()
    assert set(signs) == {-1.0, 1.0} and abs(signs.mean()) < 0.05


def test_multivariate_normal() -> None:
    cov = np.array([[2.0, 0.6], [0.6, 0.5]])
    x = R.multivariate_normal([1.0, -1.0], cov, (N,), key=key()).numpy()
    assert x.dtype == np.float64 and x.shape == (N, 2)
    np.testing.assert_allclose(x.mean(0), [1, -1], atol=0.05)
    np.testing.assert_allclose(np.cov(x.T), cov, atol=0.06)
    white = np.linalg.solve(np.linalg.cholesky(cov), (x - [1, -1]).T)
    assert st.kstest(np.sum(white**2, 0), st.chi2(2).cdf).pvalue > 1e-3
    assert R.multivariate_normal(lm.zeros((3, 1, 2)), lm.eye(2), key=key()).shape == (3, 1, 2)

    def spread(c: Any) -> Any:
        draws = R.multivariate_normal(lm.zeros(2, dtype="float64"), c, (N,), key=key())
        return (draws[:, 0] ** 2).mean()

    slope = lm.grad(spread)(lm.tensor(cov)).numpy()
    np.testing.assert_allclose(slope, [[1, 0], [0, 0]], atol=0.05)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_balls_and_spheres(d: int) -> None:
    inside = R.ball(d, (N,), key=key(), dtype="float64").numpy()
    radius = np.linalg.norm(inside, axis=-1)
    assert st.kstest(radius**d, "uniform").pvalue > 1e-3
    on = R.sphere(d, (N,), key=key(), dtype="float64").numpy()
    np.testing.assert_allclose(np.linalg.norm(on, axis=-1), 1, rtol=1e-12)
    np.testing.assert_allclose(on.T @ on / N, np.eye(d) / d, atol=0.02)


def test_orthogonal_matrices() -> None:
    q = R.orthogonal(4, (500,), key=key(), dtype="float64").numpy()
    np.testing.assert_allclose(q @ q.transpose(0, 2, 1), np.broadcast_to(np.eye(4), q.shape),
                               atol=1e-12)  # fmt: skip
    assert abs(q.mean(0)).max() < 0.1 and 0.35 < (np.linalg.det(q) > 0).mean() < 0.65


def test_choice_without_replacement_by_probability() -> None:
    p = [0.1, 0.2, 0.3, 0.4]
    drawn = np.array([
        R.choice(4, (2,), replace=False, p=p, key=k).numpy() for k in R.split(key(), 1000)
    ])  # fmt: skip
    assert (drawn[:, 0] != drawn[:, 1]).all()
    assert st.chisquare(np.bincount(drawn[:, 0]), 1000 * np.array(p)).pvalue > 1e-3
    assert R.choice(3, (2,), replace=False, p=[0, 0.5, 0.5], key=key()).numpy().min() == 1


def test_split_keys_are_independent() -> None:
    draws = np.stack([R.gamma(1.5, (4000,), key=k).numpy() for k in R.split(key(), 3)])
    off = np.corrcoef(draws)[~np.eye(3, dtype=bool)]
    assert np.abs(off).max() < 0.05


@pytest.mark.parametrize("a", [0.02, 0.5, 2.0, 30.0])
def test_gradients_of_gamma_follow_the_quantile(a: float) -> None:
    x = lm.full((200,), a, dtype="float64")
    drawn = R.gamma(x, key=key()).numpy()
    first = lm.grad(lambda v: R.gamma(v, key=key()).sum())
    slope = first(x).numpy()
    u, h = scipy.special.gammainc(a, drawn), 1e-3 * a
    fine = (u < 0.999) & (drawn > 1e-9)
    at = [scipy.special.gammaincinv(a + k * h, u)[fine] for k in (-2, -1, 1, 2)]
    want = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h)
    np.testing.assert_allclose(slope[fine], want, rtol=1e-6)
    second = lm.grad(lambda v: first(v).sum())(x).numpy()[fine]
    curve = (at[1] - 2 * drawn[fine] + at[2]) / h**2
    np.testing.assert_allclose(second, curve, rtol=0.05, atol=1e-3 * np.abs(curve).max())


def test_gradients_of_tiny_gamma_numbers_are_finite() -> None:
    x = lm.full((500,), 1e-3)
    slope = lm.grad(lambda v: R.loggamma(v, key=key()).sum())(x).numpy()
    assert np.isfinite(slope).all() and (slope > 0).all()


def test_gradients_have_the_mean_they_must() -> None:
    """The mean's derivative is that of the mean: of beta a / (a + b), of Dirichlet alike."""
    a, b = lm.full((N,), 2.0, dtype="float64"), lm.full((N,), 3.0, dtype="float64")
    by_a = lm.grad(lambda v: R.beta(v, b, key=key()).mean())(a).sum().item()
    assert by_a == pytest.approx(3 / 25, rel=0.05)
    alpha = lm.tensor([0.5, 1.0, 2.5], dtype="float64")
    by_alpha = lm.grad(lambda v: R.dirichlet(v, (N,), key=key()).mean(0)[0])(alpha).numpy()
    want = np.array([0.5, 1.0, 2.5])
    exact = (np.eye(3)[0] * 4 - want[0]) / 16
    np.testing.assert_allclose(by_alpha, exact, atol=0.01)
    slope = lm.grad(lambda s: R.laplace((N,), 0.0, s, key=key()).abs().mean())(lm.tensor(2.0))
    assert slope.item() == pytest.approx(1.0, rel=0.05)
    spread = lm.grad(lambda s: R.truncated_normal((N,), std=s, key=key()).square().mean())
    assert spread(lm.tensor(1.0)).item() == pytest.approx(2 * st.truncnorm(-2, 2).var(), rel=0.05)


def test_draws_are_the_same_under_jit_and_from_the_implicit_generator() -> None:
    f = lm.jit(lambda k: (R.gamma(2.0, (5,), key=k), R.poisson(40.0, (5,), key=k)))
    got = [x.tolist() for x in f(key())]
    want = [R.gamma(2.0, (5,), key=key()), R.poisson(40.0, (5,), key=key())]
    assert got == [x.tolist() for x in want]
    lm.manual_seed(4)
    one = [R.beta(1.0, 2.0, (3,)).tolist(), R.student_t(3.0, (2,)).tolist()]
    two = [R.beta(1.0, 2.0, (3,)).tolist(), R.student_t(3.0, (2,)).tolist()]
    lm.manual_seed(4)
    assert [R.beta(1.0, 2.0, (3,)).tolist(), R.student_t(3.0, (2,)).tolist()] == one != two


def test_shapes_and_empty_draws() -> None:
    assert R.gamma(lm.ones((3, 1)), (2, 3, 4), key=key()).shape == (2, 3, 4)
    assert R.beta(lm.ones((3, 1)), lm.ones(2), key=key()).shape == (3, 2)
    assert R.poisson(lm.ones((0, 2)), key=key()).shape == (0, 2)
    assert R.binomial(lm.full((2, 0), 20), 0.5, key=key()).shape == (2, 0)
    assert R.laplace((0,), key=key()).shape == (0,)
    assert R.student_t(3.0, key=key()).shape == ()
    assert R.gamma(2.0, (3,), dtype="bfloat16", key=key()).dtype == lm.bfloat16


NAN = float("nan")
MARKED: list[Any] = [
    lambda b: R.gamma(b, (2,)), lambda b: R.gamma(1.0, (2,), b), lambda b: R.beta(1.0, b, (2,)),
    lambda b: R.chisquare(b, (2,)), lambda b: R.student_t(b, (2,)), lambda b: R.dirichlet([b, b]),
    lambda b: R.weibull((2,), b), lambda b: R.weibull((2,), 1.0, b), lambda b: R.pareto((2,), b),
    lambda b: R.exponential((2,), b), lambda b: R.normal((2,), 0.0, b),
    lambda b: R.lognormal((2,), 0.0, b), lambda b: R.uniform((2,), 1.0, b),
    lambda b: R.truncated_normal((2,), 1.0, b), lambda b: R.truncated_normal((2,), std=b),
    lambda b: R.laplace((2,), 0.0, b), lambda b: R.logistic((2,), 0.0, b),
    lambda b: R.cauchy((2,), 0.0, b), lambda b: R.rayleigh((2,), b),
    lambda b: R.poisson(b, (2,)), lambda b: R.binomial(b, 0.5, (2,)),
    lambda b: R.binomial(9, b, (2,)), lambda b: R.geometric(b, (2,)),
    lambda b: R.multinomial(3, lm.stack([b, b]) if isinstance(b, lm.Tensor) else [b, b]),
    lambda b: R.choice(2, (2,), p=lm.stack([b, 1 - b]) if isinstance(b, lm.Tensor) else [b, 1 - b]),
]  # fmt: skip


@pytest.mark.parametrize("bad", [-1.0, NAN])
@pytest.mark.parametrize("draw", MARKED)
def test_values_outside_the_domain(draw: Any, bad: float) -> None:
    """Known ones are refused, those of tensors marked."""
    with pytest.raises(ValueError, match=r"^\["):
        draw(bad)
    found = draw(lm.tensor(bad)).numpy()
    assert (np.isnan(found) if found.dtype.kind == "f" else found == -1).all()


def test_single_bad_elements_are_marked() -> None:
    assert np.isnan(R.gamma(lm.tensor([-1.0, 1.0]), key=key()).numpy()).tolist() == [True, False]
    assert R.poisson(lm.tensor([-1.0, NAN, 0.0, 1e30]), key=key()).tolist() == [-1, -1, 0, -1]
    binomial = R.binomial(lm.tensor([-1, 2, 2, 2.5]), lm.tensor([0.5, 1.5, 1.0, 1.0]), key=key())
    assert binomial.tolist() == [-1, -1, 2, -1]
    assert np.isnan(R.weibull((2,), lm.tensor([0.0, 1.0])).numpy()).tolist() == [True, False]
    assert R.geometric(lm.tensor([0.0, 1.0])).tolist() == [-1, 1]
    p = lm.tensor([[1.0, NAN], [-1.0, 1.0], [0.0, 0.0], [np.inf, 1.0], [0.0, 2.0]])
    assert R.multinomial(3, p, key=key()).tolist() == [[-1, -1]] * 4 + [[0, 3]]
    logits = [[NAN, 0.0], [np.inf, 0.0], [-np.inf, -np.inf], [0.0, -np.inf]]
    assert R.categorical(lm.tensor(logits), key=key()).tolist() == [-1, -1, -1, 0]
    assert R.bernoulli(lm.tensor([NAN, -1.0, 2.0])).tolist() == [False, False, True]


def test_choice_by_a_tensor_of_probabilities() -> None:
    found = R.choice(3, (N,), p=lm.tensor([0.0, 1.0, 3.0]), key=key()).numpy()
    assert set(found) == {1, 2} and abs((found == 2).mean() - 0.75) < 0.02
    with pytest.raises(IndexError, match="outside an axis"):
        R.choice(lm.arange(3), (2,), p=lm.tensor([0.5, NAN, 0.5])).numpy()
    assert R.choice(0, (0,)).shape == R.choice(lm.zeros((0,)), (0,)).shape == (0,)


@pytest.mark.parametrize(
    "act",
    [
        lambda: R.gamma(-1.0),
        lambda: R.gamma(lm.ones(3), (2,)),
        lambda: R.gamma(1.0, dtype="int32"),
        lambda: R.poisson(-2.0),
        lambda: R.binomial(3, 1.5),
        lambda: R.multinomial(-1, [1.0]),
        lambda: R.multinomial(2, 1.0),
        lambda: R.choice(3, (2,), p=[0.5, 0.5]),
        lambda: R.choice(2, (2,), p=[0.5, 0.6]),
        lambda: R.choice(2, (2,), p=np.array([1.5, -0.5])),
        lambda: R.choice(2, (2,), p=[1.0, 0.0], replace=False),
        lambda: R.choice(0, (2,)),
        lambda: R.weibull((2,), 0.0),
        lambda: R.uniform((2,), 0.0, np.inf),
        lambda: R.uniform((2,), [0.0, 2.0], [1.0, 1.0]),
        lambda: R.poisson(1e30),
        lambda: R.binomial(2.5, 0.5),
        lambda: R.multinomial(2, [0.0, 0.0]),
        lambda: R.laplace((2,), scale=-1.0),
        lambda: R.truncated_normal((2,), 2.0, 1.0),
        lambda: R.beta(1.0, 2.0, shap=(2,)),
        lambda: R.multivariate_normal([1.0], [[1.0, 0.0], [0.0, 1.0]]),
        lambda: R.ball(0),
        lambda: R.orthogonal(2.5),
    ],
)
def test_wrong_uses(act: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"^\["):
        act()
