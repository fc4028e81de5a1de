"""Random numbers: reproducible streams, and distributions by their moments and a Kolmogorov–Smirnov
test.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

import lamella as lm
from lamella.errors import OptionError

N = 20_000


def key(seed: int = 42) -> Any:
    return lm.random.key(seed)


@pytest.mark.parametrize(
    ("draw", "law"),
    [
        (lambda **o: lm.random.uniform((N,), **o), scipy.stats.uniform()),
        (lambda **o: lm.random.uniform((N,), -2.0, 3.0, **o), scipy.stats.uniform(-2, 5)),
        (lambda **o: lm.random.normal((N,), **o), scipy.stats.norm()),
        (lambda **o: lm.random.normal((N,), 1.0, 2.0, **o), scipy.stats.norm(1, 2)),
        (lambda **o: lm.random.exponential((N,), 3.0, **o), scipy.stats.expon(scale=3)),
        (lambda **o: lm.random.gumbel((N,), **o), scipy.stats.gumbel_r()),
        (lambda **o: lm.random.truncated_normal((N,), **o), scipy.stats.truncnorm(-2, 2)),
        (
            lambda **o: lm.random.truncated_normal((N,), -1.0, 3.0, 2.0, 0.5, **o),
            scipy.stats.truncnorm(-1, 3, 2, 0.5),
        ),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distributions(draw: Any, law: Any, dtype: str) -> None:
    x = draw(dtype=dtype, key=key())
    assert x.dtype.name == dtype
    assert scipy.stats.kstest(x.numpy().astype(np.float64), law.cdf).pvalue > 1e-3


def test_uniform_stays_below_one_and_normal_is_finite() -> None:
    x = lm.random.uniform((200_000,), key=key()).numpy()
    assert x.min() >= 0 and x.max() < 1
    z = lm.random.normal((200_000,), key=key()).numpy()
    assert np.isfinite(z).all() and abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 0.01


@pytest.mark.parametrize(
    ("low", "high"), [(0, 10), (-5, 5), (0, 3), (0, 2**32), (2**40, 2**40 + 7)]
)
def test_integers_are_even(low: int, high: int) -> None:
    x = lm.random.randint(low, high, (N,), key=key()).numpy()
    assert x.min() >= low and x.max() < high
    count = math.gcd(high - low, 8) if high - low > 16 else high - low  # equal parts
    parts = (x - low) // ((high - low) // count)
    assert scipy.stats.chisquare(np.bincount(parts, minlength=count)).pvalue > 1e-4


def test_bernoulli_and_categorical() -> None:
    p = lm.tensor([0.1, 0.5, 0.9])
    x = lm.random.bernoulli(lm.broadcast_to(p, N, 3), key=key())
    assert x.dtype == lm.bool_
    np.testing.assert_allclose(x.numpy().mean(0), [0.1, 0.5, 0.9], atol=0.015)
    c = lm.random.categorical(lm.log(lm.tensor([0.2, 0.3, 0.5])), (N,), key=key()).numpy()
    np.testing.assert_allclose(np.bincount(c) / N, [0.2, 0.3, 0.5], atol=0.015)


def test_orders_and_choices() -> None:
    p = lm.random.permutation(100, key=key()).numpy()
    assert sorted(p.tolist()) == list(range(100)) and p.tolist() != list(range(100))
    rows = lm.random.permutation(lm.arange(10).reshape(5, 2), key=key()).numpy()
    assert sorted(map(tuple, rows.tolist())) == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    some = lm.random.choice(50, (20,), replace=False, key=key()).numpy()
    assert len(set(some.tolist())) == 20
    weighted = lm.random.choice(lm.tensor([10, 20]), (N,), p=[0.25, 0.75], key=key()).numpy()
    assert abs((weighted == 20).mean() - 0.75) < 0.015
    assert set(lm.random.choice(3, (99,), key=key()).tolist()) == {0, 1, 2}
    assert sorted(lm.random.shuffle([3, 1, 2], key=key()).tolist()) == [1, 2, 3]


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1, 2**80])
def test_a_seed_beyond_64_bits_is_not_that_of_its_last_bits(seed: int) -> None:
    with pytest.raises(OptionError, match="64 bits"):
        lm.random.key(seed)
    with pytest.raises(OptionError, match="64 bits"):
        lm.manual_seed(seed)


def test_the_seed_decides_everything() -> None:
    def draws() -> list[Any]:
        return [
            lm.random.normal((3,)).tolist(),
            lm.random.randint(0, 99, (3,)).tolist(),
            lm.random.bernoulli(0.5, (3,)).tolist(),
        ]

    lm.manual_seed(7)
    first, second = draws(), draws()
    lm.manual_seed(7)
    assert draws() == first and draws() == second and first != second
    lm.manual_seed(8)
    assert draws() != first


def test_draws_do_not_depend_on_when_they_are_looked_at() -> None:
    lm.manual_seed(1)
    a, b = lm.random.uniform((4,)), lm.random.uniform((4,))
    late = (b.tolist(), a.tolist())
    lm.manual_seed(1)
    a = lm.random.uniform((4,)).tolist()
    assert late == (lm.random.uniform((4,)).tolist(), a)


def test_one_stream_whatever_the_pieces() -> None:
    """Elements are numbered along the stream, so two small draws are one large one."""
    lm.manual_seed(3)
    whole = lm.random.uniform((6,)).tolist()
    lm.manual_seed(3)
    assert lm.random.uniform((2,)).tolist() + lm.random.uniform((4,)).tolist() == whole


def test_state_is_two_tensors_that_can_be_kept() -> None:
    generator = lm.random.generator()
    lm.manual_seed(5)
    lm.random.uniform((3,))
    state = generator.get_state()
    first = lm.random.uniform((3,)).tolist()
    generator.set_state(state)
    assert lm.random.uniform((3,)).tolist() == first
    assert isinstance(generator.key, lm.Tensor) and generator.counter.tolist() == 6
    own = lm.random.Generator(5)
    assert lm.random.uniform((3,), key=own).tolist() != lm.random.uniform((3,), key=own).tolist()


def test_keys() -> None:
    k1, k2 = lm.random.split(key())
    assert k1.tolist() != k2.tolist() and k1.dtype == lm.uint32
    assert lm.random.fold_in(key(), 3).tolist() == lm.random.fold_in(key(), lm.tensor(3)).tolist()
    a = lm.random.normal((2,), key=k1).tolist()
    assert a == lm.random.normal((2,), key=k1).tolist() != lm.random.normal((2,), key=k2).tolist()
    assert lm.random.split(key(), 5).shape == (5, 2)


def test_tensors_fill_themselves() -> None:
    x = lm.zeros(1000, dtype="float64")
    assert 0.4 < x.uniform_().mean().item() < 0.6
    assert abs(x.normal_(3.0, 0.5).mean().item() - 3.0) < 0.1
    assert math.isclose(x.std().item(), 0.5, rel_tol=0.1)


@pytest.mark.parametrize(
    "act",
    [
        lambda: lm.random.uniform((2,), key=lm.tensor([1, 2])),
        lambda: lm.random.normal((2,), dtype="int32"),
        lambda: lm.random.randint(5, 5),
        lambda: lm.random.randint(0, 2**33),
        lambda: lm.random.choice(3, (4,), replace=False),
        lambda: lm.random.uniform((2,), keey=None),
        lambda: lm.random.randint((4, 9), 1, 20),
        lambda: lm.random.randint(1.5, 20),
        lambda: lm.random.randint(None),
        lambda: lm.random.split(lm.random.key(0), 1.5),
        lambda: lm.random.split(lm.random.key(0), -1),
        lambda: lm.random.multinomial(1.5, [1.0]),
        lambda: lm.random.sphere(0),
    ],
)
def test_wrong_uses(act: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"^\["):
        act()


WRONG: tuple[Any, ...] = (
    (4, 9), "zz", b"zz", 1.5, None, [1, "x"], -1, {}, object(), math.nan, 3 + 2j, 2**70, range(3),
    [[1, 2], [3]], np.array(["q"]), lm.asarray([1, 2]), lm.asarray(2.5),
)  # fmt: skip
SOUND: dict[str, Any] = {
    "low": 1, "high": 5, "n": 3, "p": 0.5, "lam": 1.0, "a": 3, "logits": [0.0, 1.0], "shape": (2,),
    "x": 4, "df": 3.0, "alpha": [1.0, 2.0], "mean": [0.0], "cov": [[1.0]], "d": 2, "seed": 1,
    "num": 2, "data": 1, "b": 2.0,
}  # fmt: skip
DRAWS = [
    name for name, function in vars(lm.random).items()
    if callable(function) and name[0].islower() and name not in ("manual_seed", "generator")
]  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_wrong_arguments_are_named(name: str) -> None:
    """A wrong argument, or right ones in a wrong order, is refused in the usual form or has a
    meaning; none raises what Python or NumPy does.
    """
    function = getattr(lm.random, name)
    options = inspect.signature(function).parameters
    given = {option: SOUND.get(option, p.default) for option, p in options.items()}
    if name in ("split", "fold_in"):
        given["key"] = lm.random.key(0)
    if name in ("choice", "multinomial"):
        given["p"] = [0.2, 0.3, 0.5]
    for option in options:
        for value in WRONG:
            with contextlib.suppress(lm.errors.LamellaError):
                function(**(given | {option: value}))


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    three = np.int64(3)
    assert lm.random.randint(np.int8(0), three, (2,)).shape == (2,)
    assert lm.random.randint(0, np.array(3), (2,)).shape == (2,)
    assert lm.random.randint(three, (5, 1)).shape == (5, 1)
    assert lm.random.permutation(three).shape == (3,)
    assert lm.random.choice(three, (2,), replace=False).shape == (2,)
    assert lm.random.multinomial(three, [0.0, 1.0]).tolist() == [0, 3]
    assert lm.random.sphere(three, (2,)).shape == (2, 3)


@pytest.mark.parametrize("p", [[math.nan, 0.5], [-1.0, 2.0], [0.0, 0.0], [math.inf, 1.0]])
@pytest.mark.parametrize("compiled", [False, True])
def test_slices_chosen_with_probabilities_that_are_none(p: list[float], compiled: bool) -> None:
    """They raise; memory beyond the slices is not read."""

    def act(p: Any) -> Any:
        return lm.random.choice(lm.arange(2) * 10, (3,), p=p)

    for backend in ("interpret", "llvm"):
        with lm.config(backend=backend), pytest.raises(IndexError, match=r"\[gather\] .*index"):
            (lm.jit(act) if compiled else act)(lm.asarray(p)).numpy()
    assert set(act(lm.asarray([0.0, 1.0])).tolist()) == {10}
