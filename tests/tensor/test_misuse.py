"""Numbers and arguments that do not fit: refused with a reason, never wrapped or guessed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella.errors import DTypeError, LamellaIndexError, OptionError, ShapeError

COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("compare", COMPARISONS)
@pytest.mark.parametrize("number", [-1, 256, 2**70, -(2**70)])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64"])
def test_integers_compare_with_numbers_their_type_cannot_hold(
    compare: Callable[[Any, Any], Any], number: int, dtype: str
) -> None:
    values = [0, 1, 127]
    x = lm.asarray(values, dtype=dtype)
    assert compare(x, number).tolist() == [compare(v, number) for v in values]
    assert compare(number, x).tolist() == [compare(number, v) for v in values]


@pytest.mark.parametrize(
    ("x", "low", "high"),
    [
        (np.array([1, 2, 3]), 1.5, 2.5),
        (np.array([1, 2, 3]), 0.5, None),
        (np.array([1, 2, 3], np.int8), np.array([200]), None),
        (np.array([1.0, 2.0], np.float32), np.array([1.1]), 1.5),
    ],
)
def test_clip_does_not_truncate_its_limits(x: Any, low: Any, high: Any) -> None:
    expected = np.clip(x.astype(np.float64), low, high)
    found = lm.clip(lm.asarray(x), low, high)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    assert found.dtype == x.dtype or x.dtype.kind == "i"


def assign(x: lm.Tensor, value: Any) -> None:
    x[0] = value


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: lm.full((2,), math.nan, dtype="int32"), OptionError, r"\[full\] nan is no int32"),
        (lambda: assign(lm.zeros(2, dtype="uint8"), math.inf), OptionError, r"\[assign\] inf"),
        (lambda: lm.ones(2) * 10**400, OptionError, r"\[multiply\].* 1329 bits"),
        (lambda: lm.ones(2) < 10**400, OptionError, r"\[less\].* 1329 bits"),
        (lambda: lm.arange(math.inf), OptionError, r"\[arange\].*finite"),
        (lambda: lm.arange(math.nan), OptionError, r"\[arange\].*finite"),
        (lambda: lm.arange("a"), DTypeError, r"\[arange\] str 'a'"),
        (lambda: lm.arange(300, dtype="int8"), OptionError, r"\[arange\] 299 does not fit int8"),
        (lambda: lm.arange(0, 2**64, 2**63), OptionError, r"\[arange\].*does not fit int64"),
        (lambda: lm.asarray(2**64), DTypeError, "64 bits"),
        (lambda: lm.from_dlpack(5), DTypeError, r"\[from_dlpack\] int has no __dlpack__"),
        (lambda: lm.random.uniform((2,), low=3, high=1), OptionError, r"\[uniform\] high=1"),
        (lambda: lm.random.normal((2,), std=-1), OptionError, r"\[normal\] std=-1"),
        (lambda: lm.random.normal((2,), std=math.nan), OptionError, r"\[normal\] std=nan"),
        (lambda: lm.random.bernoulli(2.0, (3,)), OptionError, r"\[bernoulli\] p=2.0"),
        (lambda: lm.random.exponential((3,), -1), OptionError, r"\[exponential\] scale=-1"),
        (lambda: lm.random.randint(0, 300, (3,), dtype="int8"), OptionError, r"\[randint\] 299"),
        (lambda: lm.manual_seed("a"), DTypeError, r"\[manual_seed\] the seed 'a'"),
        (lambda: lm.random.key(1.5), DTypeError, r"\[key\] the seed 1.5"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(
    call: Callable[[], Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        call()


def test_hooks_are_checked_when_registered_and_when_they_return() -> None:
    x = lm.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(OptionError, match=r"\[register_hook\] int cannot be called"):
        x.register_hook(3)
    for tensor in (x, x * 2):
        handle = tensor.register_hook(lambda gradient: lm.ones((3, 2)))
        with pytest.raises(ShapeError, match=r"\[backward\] a hook returned shape \(3, 2\)"):
            tensor.sum().backward()
        handle.remove()


def test_an_embedding_has_no_negative_rows() -> None:
    table = lm.nn.Embedding(3, 2)
    for dtype in ("int8", "int64"):
        with pytest.raises(LamellaIndexError):
            table(lm.asarray([0, -1], dtype=dtype)).numpy()
    assert lm.nn.Embedding(300, 2)(lm.asarray([[1], [0]], dtype="int8")).shape == (2, 1, 2)


def test_functions_of_numpy_and_python_take_tensors() -> None:
    x = lm.asarray([[1.0, 2.0], [3.0, 4.0]])
    for function in (np.sum, np.mean, np.max, np.min, np.prod, np.std, np.var, np.cumsum):
        np.testing.assert_allclose(np.asarray(function(x)), function(x.numpy()), rtol=1e-6)
    assert np.sum(x, axis=1, keepdims=True).shape == (2, 1)
    assert math.trunc(lm.asarray(-2.5)) == -2
    assert [part.tolist() for part in divmod(lm.asarray([7, -7]), 3)] == [[2, -3], [1, 2]]
    assert [part.tolist() for part in divmod(7, lm.asarray([2]))] == [[3], [1]]
