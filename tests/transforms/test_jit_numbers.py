"""Python numbers that change from call to call: of ``lm.jit`` no trace a value, and never a stale
one. What is expected is computed by NumPy and Python, on numbers that nothing stands for.
"""

from __future__ import annotations

import json
import math
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn
from tests.transforms.holders import HOLDERS

X = np.arange(1, 4, dtype=np.float32)
STEP = 0
RATE = 1.0


@pytest.fixture(autouse=True)
def _warnings_and_globals() -> Iterator[None]:
    global STEP, RATE
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    STEP, RATE = 0, 1.0


# -- numbers that the caller changes ---------------------------------------------------------------
@pytest.mark.parametrize("kind", [int, float])
@pytest.mark.parametrize("name", HOLDERS)
def test_the_caller_changes_a_number(name: str, kind: type) -> None:
    read, write = HOLDERS[name]()
    write(kind(3))
    f = lm.jit(lambda x: x * read() + 1)
    for i in range(7):
        write(kind(3) + kind(i * 2))
        expected = X * np.float32(read()) + 1
        np.testing.assert_array_equal(f(X).numpy(), expected)
        assert type(read()) is kind
    assert f.programs == 2


def test_globals() -> None:
    global RATE
    f = lm.jit(lambda x: x * RATE)
    for i in range(6):
        RATE = 0.9**i
        np.testing.assert_array_equal(f(X).numpy(), X * np.float32(0.9**i))
    assert f.programs == 2


def test_arguments() -> None:
    f = lm.jit(lambda x, n, more: x * n + more["t"])
    for i in range(6):
        got = f(X, i, more={"t": i / 3}).numpy()
        np.testing.assert_array_equal(got, X * np.float32(i) + np.float32(i / 3))
    assert f.programs == 2
    np.testing.assert_array_equal(f(X, 2.5, more={"t": 1}).numpy(), X * np.float32(2.5) + 1)
    assert f.programs == 3, "of another type"
    f(X, True, more={"t": 1})
    assert f.programs == 4, "a flag is no number"


def test_several_numbers_and_a_flag() -> None:
    config: dict[str, Any] = {"a": 1.0, "b": 2, "on": True}
    f = lm.jit(lambda x: x * config["a"] + (config["b"] if config["on"] else -config["b"]))
    for i in range(8):
        config.update(a=i / 2, b=i, on=i < 4)
        sign = 1 if i < 4 else -1
        np.testing.assert_array_equal(f(X).numpy(), X * np.float32(i / 2) + sign * i)
    assert f.programs == 3


def test_the_holder_is_exchanged() -> None:
    box = types.SimpleNamespace(held={"t": 1.0})
    f = lm.jit(lambda x: x * box.held["t"])
    for i in range(5):
        box.held = {"t": i / 4}
        np.testing.assert_array_equal(f(X).numpy(), X * np.float32(i / 4))
    assert f.programs == 2


def test_what_is_rounded_as_a_number_of_the_program() -> None:
    box, half = [0.1], lm.ones(3, dtype=lm.float16)
    whole = lm.ones(3, dtype=lm.int32)
    f = lm.jit(lambda x: (x * box[0], half * box[0], whole * box[0], lm.asarray(box[0])))
    for value in (0.1, 1 / 3, 1e-8, -0.0, math.inf, math.nan, 65519.0):
        box[0] = value
        a, b, c, d = f(X)
        with np.errstate(over="ignore", invalid="ignore"):
            np.testing.assert_array_equal(a.numpy(), X * np.float32(value))
            np.testing.assert_array_equal(b.numpy(), np.ones(3, np.float16) * np.float16(value))
        np.testing.assert_array_equal(c.numpy(), np.full(3, value, np.float32))
        assert c.dtype is lm.float32 and d.dtype is lm.float32
        np.testing.assert_array_equal(np.signbit(d.numpy()), np.signbit(value))
    assert f.programs == 2


# -- numbers that the function changes -------------------------------------------------------------
@pytest.mark.parametrize("name", HOLDERS)
def test_the_function_changes_a_number(name: str) -> None:
    read, write = HOLDERS[name]()
    write(1)

    @lm.jit
    def f(x: Any) -> Any:
        write(read() + 1)
        return x * read()

    for i in range(6):
        np.testing.assert_array_equal(f(X).numpy(), X * (i + 2))
        assert read() == i + 2 and type(read()) is int
    write(100)
    np.testing.assert_array_equal(f(X).numpy(), X * 101)
    assert read() == 101
    assert f.programs == 2


def test_a_global_that_the_function_changes() -> None:
    @lm.jit
    def f(x: Any) -> Any:
        global STEP
        STEP += 1
        return x + STEP

    for i in range(5):
        np.testing.assert_array_equal(f(X).numpy(), X + i + 1)
        assert i + 1 == STEP
    assert f.programs == 2


def test_the_first_program_also_sets_what_it_was_traced_to_set() -> None:
    box: dict[str, Any] = {"n": 0, "ready": False}

    @lm.jit
    def f(x: Any) -> Any:
        box["n"] += 1
        box["ready"] = True
        return x * box["n"]

    for _ in range(3):
        box.update(n=0, ready=False)
        np.testing.assert_array_equal(f(X).numpy(), X)
        assert box == {"n": 1, "ready": True}
    assert f.programs == 1


def test_integers_have_no_bounds_and_floats_have_64_bits() -> None:
    box: list[Any] = [1, 1.0]

    @lm.jit
    def f(x: Any) -> Any:
        box[0] = box[0] * 2**40 + 1
        box[1] = box[1] / 3 + 1e-17
        return x

    n, t = 1, 1.0
    for _ in range(6):
        f(X)
        n, t = n * 2**40 + 1, t / 3 + 1e-17
        assert box == [n, t] and type(box[0]) is int
    assert f.programs == 2


def test_results_are_python_numbers() -> None:
    box = [1, 1.5]

    @lm.jit
    def f(x: Any) -> Any:
        box[0] += 3
        return {"x": x * box[1], "n": box[0], "more": (box[1] / 2, "text")}

    for i in range(5):
        box[1] = i + 0.5
        found = f(X)
        assert found["n"] == 1 + 3 * (i + 1) and type(found["n"]) is int
        assert found["more"] == ((i + 0.5) / 2, "text") and type(found["more"][0]) is float
    assert f.programs == 2


def test_all_arithmetic_is_pythons() -> None:
    box: list[Any] = [7, 2.5]

    def f(x: Any) -> Any:
        n, t = box
        whole = [n + 2, 2 - n, n * 3, n // 2, 7 // n, n % 3, -n, +n, abs(-n), n << 2, n >> 1, n & 6]
        whole += [n | 8, n ^ 5, ~n, divmod(n, 2)[0], round(n), n**2, 2**n, 1 << n, 3 & n]
        real = [n / 2, t + n, t - 1, 1 - t, t * t, t / 3, 3 / t, t // 2, t % 2, t**2, 2**t, -t]
        real += [abs(-t), round(t, 1), round(t), math.floor(t), math.ceil(t), math.trunc(t)]
        return x, whole, real, min(n, 3), max(t, 9.5)

    compiled = lm.jit(f)
    for n, t in [(7, 2.5), (8, 2.75), (9, 3.5), (11, -1.25), (12, 8.0)]:
        box[:] = n, t
        _, *found = compiled(X)
        _, *expected = f(X)
        assert found == expected
        assert [type(v) for v in found[1]] == [type(v) for v in expected[1]]
    assert compiled.programs <= 3


# -- Python values ---------------------------------------------------------------------------------
USES: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "branch": (lambda x, n: x if n > 3 else -x, 2),
    "truth": (lambda x, n: x if n else -x, 2),
    "every third": (lambda x, n: x if n % 3 == 0 else -x, 2),
    "range": (lambda x, n: sum((x for _ in range(n)), start=x), 8),
    "shape": (lambda x, n: x.reshape(3, 1) * np.ones((1, n + 1), np.float32), 8),
    "rows": (lambda x, n: x * (n // 4), 2),
    "list index": (lambda x, n: x * [1.0, 3.0, 7.0, 8.0, 2.0, 4.0, 5.0, 6.0][n], 8),
    "key": (lambda x, n: x * {i: i + 0.5 for i in range(8)}[n], 8),
    "text": (lambda x, n: x * len(f"{n:b}"), 8),
    "C": (lambda x, n: x * np.float32(math.cos(n)), 8),
    "float": (lambda x, n: x * float(n), 8),
    "json": (lambda x, n: x * len(json.dumps({"n": n})), 8),
    "NumPy": (lambda x, n: x * np.multiply(n, np.ones(3, np.float32)), 8),
    "array": (lambda x, n: x * (np.ones(3, np.float32) * n), 8),
    "power": (lambda x, n: x**n, 8),
    "match": (lambda x, n: x * (2 if isinstance(n, int) and n in (1, 2) else 3), 8),
    "sort": (lambda x, n: x * sorted([5, n, 3])[0], 8),
    "type": (lambda x, n: x * 2 if type(n) is int else x * n, 8),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("place", ["argument", "item"])
def test_a_number_as_a_python_value(use: str, place: str) -> None:
    f, most = USES[use]
    box = [0]
    compiled = lm.jit(f) if place == "argument" else lm.jit(lambda x: f(x, box[0]))
    for n in [0, 1, 2, 3, 4, 5, 6, 7, 3, 0]:
        box[0] = n
        got = compiled(X, n) if place == "argument" else compiled(X)
        expected = f(X, n)
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6)
        assert got.dtype.name == expected.dtype.name or use == "text"
    assert compiled.programs <= most + 1


def test_numbers_in_indices_slices_and_constants() -> None:
    table = np.arange(40, dtype=np.float32).reshape(8, 5)
    box = [0]

    def f(x: Any) -> Any:
        i = box[0]
        return x[i], x[i + 1, 2], x[-1 - i], x[i : i + 1], x[i // 2 : 1 + i // 2, 1:], x[i:]

    compiled = lm.jit(f)
    for i in range(7):
        box[0] = i
        for got, expected in zip(compiled(table), f(table), strict=True):
            np.testing.assert_array_equal(got.numpy(), expected)
    assert compiled.programs <= 9, "one for every length"
    moving = lm.jit(lambda x: (x[box[0]], x[box[0] : box[0] + 1], x[: 1 + 0 * box[0]]))
    for i in range(7):
        box[0] = i
        wanted = table[i], table[i : i + 1], table[:1]
        for got, expected in zip(moving(table), wanted, strict=True):
            np.testing.assert_array_equal(got.numpy(), expected)
    assert moving.programs == 2
    box[0] = 9
    with pytest.raises(IndexError):
        compiled(table)
    with pytest.raises(IndexError):
        moving(table)
    box[0] = 1
    np.testing.assert_array_equal(compiled(table)[0].numpy(), table[1])


def test_functions_with_number_options() -> None:
    box = [0.5]
    checks: list[Callable[[Any, float], Any]] = [
        lambda x, t: lm.clip(x, -t, t), lambda x, t: lm.where(x > t, x, t),
        lambda x, t: nn.functional.leaky_relu(x, t), lambda x, t: lm.full((3,), t),
        lambda x, t: nn.functional.elu(x, t), lambda x, t: lm.linspace(0.0, t, 4),
        lambda x, t: nn.functional.layer_norm(x, (3,), eps=t), lambda x, t: lm.maximum(x, t),
        lambda x, t: lm.asarray(t) * 2, lambda x, t: x / t, lambda x, t: t / x,
        lambda x, t: lm.pad(x, 1, constant_values=t), lambda x, t: nn.functional.gelu(x) * t,
        lambda x, t: lm.arange(0.0, 3 * t, t), lambda x, t: lm.isclose(x, x * t, rtol=t),
    ]  # fmt: skip
    for f in checks:
        compiled = lm.jit(lambda x, f=f: f(x, box[0]))
        for value in (0.5, 0.25, 0.75, 2.0):
            box[0] = value
            got, expected = compiled(X), f(lm.asarray(X), value)
            np.testing.assert_array_equal(got.numpy(), expected.numpy())
            assert got.dtype is expected.dtype


def test_integers_out_of_range_raise_as_they_do_outside() -> None:
    box, small = [1], lm.ones(3, dtype=lm.int8)
    f = lm.jit(lambda: small + box[0])
    for value in (1, 2, 100):
        box[0] = value
        assert f().tolist() == [1 + value] * 3
    box[0] = 1000
    with pytest.raises(lm.errors.OptionError, match="1000 does not fit int8"):
        f()
    box[0] = 10**400
    real = lm.jit(lambda x: x * box[0])
    with pytest.raises(lm.errors.OptionError):
        real(X)
    box[0] = 3
    assert f().tolist() == [4] * 3


def test_division_by_zero_raises_on_the_users_line() -> None:
    box = [1]
    f = lm.jit(lambda x: x * (12 // box[0]))
    for value in (1, 2, 3, 4):
        box[0] = value
        np.testing.assert_array_equal(f(X).numpy(), X * (12 // value))
    box[0] = 0
    with pytest.raises(ZeroDivisionError):
        f(X)
    box[0] = 6
    np.testing.assert_array_equal(f(X).numpy(), X * 2)
    assert f.programs == 2




@pytest.mark.parametrize(
    "scalar",
    [np.float64(1.5), np.float32(2), np.float16(2), np.int64(3), np.int8(3), np.complex64(1j)],
)
@pytest.mark.parametrize("dtype", [lm.float32, lm.float16, lm.int32])
def test_scalars_of_numpy_compute_as_outside_jit(scalar: np.generic, dtype: lm.DType) -> None:
    x = lm.ones((3,), dtype=dtype)
    expected = x * scalar
    for f in (lm.jit(lambda x, s: x * s), lm.jit(lm.jit(lambda x, s: x * s))):
        found = f(x, scalar)
        assert found.dtype is expected.dtype
        assert np.array_equal(found.numpy(), expected.numpy())


def test_scalars_of_numpy_are_flags_and_sizes() -> None:
    double = lm.jit(lambda x, twice: x * 2 if twice else x)
    assert double(lm.ones(2), np.bool_(True)).tolist() == [2.0, 2.0]
    assert double(lm.ones(2), np.bool_(False)).tolist() == [1.0, 1.0]
    assert lm.jit(lambda n: lm.zeros((n, 2)))(np.int64(3)).shape == (3, 2)
