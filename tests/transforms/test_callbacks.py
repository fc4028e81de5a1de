"""Python functions inside programs, printing, checks that raise, and finding NaNs."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import lamella as lm
from lamella.errors import (
    CheckError,
    DTypeError,
    GradientError,
    NaNError,
    OptionError,
    ShapeError,
    TraceError,
)

X = np.array([3.0, 1.0, 2.0])


def plain(f):
    return f


BOTH = pytest.mark.parametrize("jit", [plain, lm.jit])


# -- pure callbacks --------------------------------------------------------------------------------
@BOTH
def test_pure_callback(jit):
    def f(x):
        first, rest = lm.pure_callback(
            lambda a, k, b: (np.sort(a) * k, {"n": np.int64(b["y"].size)}),
            (x, {"n": lm.ShapeDtypeStruct((), "int64")}), x, 2, {"y": x * x},
        )  # fmt: skip
        return first + 1, rest["n"]

    total, count = jit(f)(lm.asarray(X))
    np.testing.assert_array_equal(total.numpy(), np.sort(X) * 2 + 1)
    assert count.item() == 3


@BOTH
@pytest.mark.parametrize("vectorized", [False, True])
def test_vmap_of_a_pure_callback(jit, vectorized):
    calls = []

    def host(a, b):
        calls.append(a.shape)
        return np.cumsum(a * b, -1)

    def f(a, b):
        return lm.pure_callback(host, a, a, b, vectorized=vectorized)

    a, b = np.arange(24.0).reshape(2, 4, 3), np.arange(6.0).reshape(2, 3)
    wanted = np.cumsum(a * b[:, None], -1)
    many = jit(lm.vmap(lm.vmap(f, in_axes=(0, None)), in_axes=(0, 0)))
    np.testing.assert_array_equal(many(a, b).numpy(), wanted)
    assert calls == ([(2, 4, 3)] if vectorized else [(3,)] * 8)


def test_a_batch_of_none():
    f = lm.vmap(lambda a: lm.pure_callback(np.cumsum, a, a))
    assert f(lm.ones((0, 3))).shape == (0, 3)


def test_sizes_may_change_and_functions_too():
    for n in (2, 3, 5, 8):
        x = lm.arange(n, dtype=lm.float64)
        found = lm.pure_callback(lambda a, n=n: a * n, x, x)
        np.testing.assert_array_equal(found.numpy(), np.arange(n) * n)
    f = lm.jit(lambda x: lm.pure_callback(np.flip, x, x), dynamic={"x": {0: "n"}})
    for n in (4, 6):
        np.testing.assert_array_equal(f(np.arange(n)).numpy(), np.arange(n)[::-1])
    assert f.programs == 1


def test_arguments_may_be_kept():
    kept = []
    for i in range(3):
        lm.pure_callback(lambda a: (kept.append(a), a)[1], lm.ones(3), lm.ones(3) * i).numpy()
    assert [float(a[0]) for a in kept] == [0, 1, 2]


@BOTH
def test_wrong_results(jit):
    x = lm.asarray(X)
    for host, error in (
        (lambda a: a[:2], ShapeError),
        (lambda a: a.astype(np.float32), DTypeError),
        (lambda a: (a, a), OptionError),
    ):
        with pytest.raises(error, match="promised"):
            jit(lambda x, h=host: lm.pure_callback(h, x, x))(x).numpy()
    with pytest.raises(OptionError, match="ShapeDtypeStruct"):
        lm.pure_callback(np.sort, 3, x)
    with pytest.raises(ShapeError):
        lm.pure_callback(np.sort, lm.ShapeDtypeStruct((-1,), "float32"), x)


@BOTH
def test_exceptions_reach_the_caller(jit):
    def host(a):
        raise ZeroDivisionError("on purpose")

    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            jit(lambda x: lm.pure_callback(host, x, x) + 1)(lm.asarray(X)).numpy()
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            jit(lambda x: lm.io_callback(host, x, x) + 1)(lm.asarray(X))


@BOTH
def test_no_derivative_is_an_error(jit):
    x = lm.asarray(X)
    for kind in (lm.pure_callback, lm.io_callback):
        with pytest.raises(GradientError, match="custom_vjp"):
            jit(lm.grad(lambda x, k=kind: (k(np.exp, x, x) * x).sum()))(x)
        with pytest.raises(GradientError, match="custom_vjp"):
            jit(lambda x, k=kind: lm.jvp(lambda x: k(np.exp, x, x), (x,), (x,)))(x)
        f = jit(lm.grad(lambda x, k=kind: (k(np.exp, x, lm.stop_gradient(x)) * x).sum()))
        np.testing.assert_allclose(f(x).numpy(), np.exp(X))


def test_a_callback_may_compute():
    inner = lm.jit(lambda a: lm.pure_callback(np.sin, a, a) * 2)
    f = lm.jit(lambda x: lm.pure_callback(lambda a: inner(lm.asarray(a)), x, x) + x)
    np.testing.assert_allclose(f(lm.asarray(X)).numpy(), np.sin(X) * 2 + X)


# -- effects ---------------------------------------------------------------------------------------
@BOTH
def test_effects_run_once_and_in_order(jit):
    seen = []

    def f(x):
        lm.io_callback(lambda a: seen.append(("a", a.tolist())), None, x)
        back = lm.io_callback(lambda a: (seen.append("b"), a + 1)[1], x, x * 2)
        lm.io_callback(lambda: seen.append("c"), None)
        lm.io_callback(lambda: seen.append("c"), None)
        return back.sum() + x

    run = jit(f)
    for i in range(3):
        seen.clear()
        result = run(lm.asarray(X))
        assert seen == [("a", X.tolist()), "b", "c", "c"]
        np.testing.assert_allclose((result + i).numpy(), (2 * X + 1).sum() + X + i)
        assert len(seen) == 4
    if jit is lm.jit:
        assert run.programs == 1  # what a callback changes is no reason to compile again


@BOTH
def test_complex_numbers(jit):
    seen = []

    def f(z):
        lm.io_callback(lambda a: seen.append(a.tolist()), None, z)
        lm.io_callback(lambda a: seen.append(a.tolist()), None, z.real)
        return lm.pure_callback(np.conj, z, z) * 2 + lm.io_callback(lambda a: a, z, z)

    z = np.array([1 + 2j, 3 - 1j])
    assert jit(f)(lm.asarray(z)).tolist() == (np.conj(z) * 2 + z).tolist()
    assert seen == [z.tolist(), z.real.tolist()]


@BOTH
def test_vmap_runs_effects_example_by_example(jit):
    seen = []

    def f(a, b):
        lm.io_callback(lambda a: seen.append(int(a)), None, a)
        lm.io_callback(lambda b: seen.append("once"), None, b)
        return a + lm.io_callback(lambda a: a * 10, a, a)

    found = jit(lm.vmap(f, in_axes=(0, None)))(lm.asarray([1, 2, 3]), lm.asarray(5))
    assert found.tolist() == [11, 22, 33] and seen == [1, 2, 3, "once"]


@BOTH
def test_differentiation_does_not_repeat_effects(jit):
    seen = []

    def f(x):
        scale = lm.io_callback(lambda a: (seen.append(1), a)[1], x, lm.stop_gradient(x))
        return (scale * x * x).sum()

    for wrapped in (lm.grad(f), lm.grad(lambda x: (lm.grad(f)(x) * x).sum())):
        seen.clear()
        jit(wrapped)(lm.asarray(X)).numpy()
        assert len(seen) == 1
    seen.clear()
    x = lm.tensor(X, requires_grad=True)
    jit(f)(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * X * X)
    assert len(seen) == 1


def test_the_value_of_an_effect_has_no_value_while_compiling():
    def f(x):
        return x if float(lm.io_callback(lambda: 1.0, lm.ones(()))) > 0 else -x

    with pytest.raises(TraceError, match="looked at"):
        lm.jit(f)(lm.asarray(X))


def test_state_changes_as_a_whole_or_not_at_all():
    count, fail = lm.zeros(1000), [False]

    def host():
        if fail[0]:
            raise ValueError("on purpose")

    @lm.jit
    def step(x):
        count.add_(1)
        lm.io_callback(host, None)
        return x

    for _ in range(3):
        step(lm.ones(2))
    fail[0] = True
    with pytest.raises(ValueError, match="on purpose"):
        step(lm.ones(2))
    fail[0] = False
    assert count[0].item() == 3
    step(lm.ones(2))
    assert count[0].item() == 4


@pytest.mark.skipif(os.name == "nt", reason="signals to oneself")
def test_interrupted_steps():
    count, seen = lm.zeros(3), []

    def host(name, stop):
        seen.append(name)
        if stop:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):  # where the handler runs
                pass
        seen.append(name + " ended")

    @lm.jit
    def step(x):
        count.add_(1)
        lm.io_callback(host, None, "first", x[0] > 0)
        lm.io_callback(host, None, "second", x[1] > 0)
        return x

    step(lm.zeros(2))
    assert seen == ["first", "first ended", "second", "second ended"]
    for which, wanted in ((0, ["first"]), (1, ["first", "first ended", "second"])):
        seen.clear()
        with pytest.raises(KeyboardInterrupt):
            step(lm.asarray(np.eye(2)[which].astype(np.float32)))
        assert seen == wanted
    assert count.tolist() == [1, 1, 1]


# -- printing and checks ---------------------------------------------------------------------------
@BOTH
def test_debug_print(jit, capsys):
    def f(x):
        lm.debug_print("{} {y:.2f} {word}", x, y=x.sum(), word="end")
        return (x * x).sum()

    jit(f)(lm.asarray(X))
    jit(lm.grad(f))(lm.asarray(X))
    jit(lm.vmap(lm.grad(f)))(lm.asarray(X[:, None]))
    assert capsys.readouterr().out.splitlines() == [
        "[3. 1. 2.] 6.00 end", "[3. 1. 2.] 6.00 end",
        "[3.] 3.00 end", "[1.] 1.00 end", "[2.] 2.00 end",
    ]  # fmt: skip
    for wrong in ("{1}", "{y}", "{", "{x[0]}"):
        with pytest.raises(OptionError, match="debug_print"):
            lm.debug_print(wrong, 1)


@BOTH
def test_check(jit):
    @jit
    def f(x):
        lm.check(x > 0, "x was {}", x)
        return lm.log(x)

    np.testing.assert_allclose(f(lm.asarray(X)).numpy(), np.log(X))
    with pytest.raises(CheckError, match=r"x was \[-3.*test_callbacks.py"):
        f(lm.asarray(-X))
    with pytest.raises(CheckError):
        jit(lm.vmap(f))(lm.asarray([1.0, -1.0]))
    with pytest.raises(CheckError, match="failed"):
        lm.check(False)
    lm.check(True)
    with pytest.raises(DTypeError):
        lm.check(lm.ones(3))


# -- NaN -------------------------------------------------------------------------------------------
def test_debug_nans_names_the_operation_and_the_line():
    with lm.config(debug_nans=1):
        x = lm.asarray(X) - 1
        bad = lm.log(x - 0.5)
        with pytest.raises(NaNError, match=r"\[log\].*test_callbacks.py") as found:
            (bad + 1).numpy()
        line = int(str(found.value).split("test_callbacks.py:")[1].split(";")[0])
        assert line == test_debug_nans_names_the_operation_and_the_line.__code__.co_firstlineno + 3
        assert (x * 2).tolist() == [4, 0, 2]
        with pytest.raises(NaNError, match="input"):
            (lm.asarray([np.nan]) + 1).numpy()
        with pytest.raises(NaNError, match="pure_callback"):
            lm.pure_callback(lambda a: a * np.nan, x, x).numpy()
    assert np.isnan((lm.asarray([np.nan]) + 1).numpy())


def test_debug_nans_in_compiled_functions():
    count = lm.zeros(3)

    @lm.jit
    def f(x):
        count.add_(1)
        lm.debug_print("", x)
        return lm.sqrt(x) * 2

    f(lm.asarray([1.0]))
    f(lm.asarray([-1.0]))
    with lm.config(debug_nans=True):
        f(lm.asarray([1.0]))
        with pytest.raises(NaNError, match=r"\[sqrt\].*test_callbacks.py"):
            f(lm.asarray([-1.0]))
        with pytest.raises(NaNError, match="sqrt"):
            lm.jit(lm.grad(lambda x: lm.sqrt(x).sum()))(lm.asarray([-1.0]))
    assert count.tolist() == [3, 3, 3]
