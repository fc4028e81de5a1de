"""Shortcuts of compiled functions: calls of the same form take them, and all others do not."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import lamella as lm
from lamella.config import config
from lamella.errors import OutOfMemoryError
from lamella.runtime.memory import memory_in_use, trim_memory

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def warm(f, *args):
    """Calls until there is a shortcut."""
    for _ in range(3):
        f(*args)
    assert f._shortcuts
    return f


def test_arguments_of_any_form_give_what_the_function_gives():
    f = warm(lm.jit(lambda x, k=2: x * k + 1), X, 2)
    forms = [
        X, X[::-1], X.T, X[:1], X.astype(np.float64), X.astype(">f4"), lm.asarray(X), X[0, 0],
        3, 2.5, np.zeros((0, 3), np.float32), lm.asarray(X) * 1,
        np.frombuffer(b"x" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3),
        X.copy().view(type("Sub", (np.ndarray,), {})),
    ]  # fmt: skip
    read_only = X.copy()
    read_only.setflags(write=False)
    for x in [*forms, read_only, *forms]:
        for k in (2, 3, True, 2.0, -0.0, 0.0):
            wanted = np.asarray(x.numpy() if isinstance(x, lm.Tensor) else x) * k + 1
            np.testing.assert_allclose(np.asarray(f(x, k)), wanted)
    np.testing.assert_array_equal(f(x=X).numpy(), X * 2 + 1)


def test_results_are_never_written_over():
    f = warm(lm.jit(lambda x: (x + 1, {"b": x * 2})), X)
    found = [f(X + i) for i in range(5)]
    for i, (one, two) in enumerate(found):
        np.testing.assert_array_equal(one.numpy(), X + i + 1)
        np.testing.assert_array_equal(two["b"].numpy(), (X + i) * 2)


def test_large_temporaries_are_borrowed_for_each_call():
    """And so lie elsewhere where their last place is taken; what does not fit is said as ever."""
    x, w = np.ones((512, 512), np.float32), np.full((512, 512), 2**-9, np.float32)
    f = warm(lm.jit(lambda x, w: ((x @ w) @ w).sum()), x, w)
    assert f.lower(x, w).memory > 1 << 20
    before, held = memory_in_use(), []
    for number in range(6):
        assert f(x * number, w).item() == number * 512 * 512
        held.append(lm.zeros((512, 512)) + number)
        lm.eval(held)
    del held
    assert memory_in_use() <= before + (1 << 12)
    trim_memory()
    with config(memory_limit=1), pytest.raises(OutOfMemoryError):
        f(x, w)
    assert f(x, w).item() == 512 * 512


def test_a_function_without_arguments():
    weight = lm.asarray(X)
    f = warm(lm.jit(lambda: weight * 2))
    np.testing.assert_array_equal(f().numpy(), X * 2)
    weight.mul_(2)
    np.testing.assert_array_equal(f().numpy(), X * 4)


def test_captured_tensors_and_python_values_may_change():
    weight, settings, rate = lm.asarray(X), [1.0], {"a": 1.0}
    scale = 1.0

    @lm.jit
    def f(x):
        return x * weight * settings[0] * scale + rate["a"]

    warm(f, X)
    weight.mul_(2)
    np.testing.assert_array_equal(f(X).numpy(), 2 * X * X + 1)
    warm(f, X)
    settings[0] = 3.0
    np.testing.assert_array_equal(f(X).numpy(), 6 * X * X + 1)
    warm(f, X)
    scale = 0.5
    np.testing.assert_array_equal(f(X).numpy(), 3 * X * X + 1)
    warm(f, X)
    rate["a"] = 0.0
    np.testing.assert_array_equal(f(X).numpy(), 3 * X * X)
    np.testing.assert_array_equal(f(weight).numpy(), 2 * X * 2 * X * 1.5)


def test_a_tensor_that_is_captured_or_passed_twice():
    weight, other = lm.asarray(X), lm.asarray(X + 1)

    @lm.jit
    def f(x, y):
        return x * 2 + y * weight

    warm(f, other, lm.asarray(X))
    for x, y in [(other, other), (weight, other), (other, weight), (weight, weight)]:
        wanted = x.numpy() * 2 + y.numpy() * X
        np.testing.assert_array_equal(f(x, y).numpy(), wanted)


def test_gradients_are_recorded_where_they_are_asked_for():
    f = warm(lm.jit(lambda x: (x * x).sum()), lm.asarray(X))
    x = lm.asarray(X)
    x.requires_grad_()
    f(x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * X)
    with lm.no_grad():
        assert not f(x).requires_grad
    assert f(x).requires_grad
    np.testing.assert_array_equal(lm.grad(f)(lm.asarray(X)).numpy(), 2 * X)
    np.testing.assert_array_equal(lm.vmap(f)(lm.asarray(X)).numpy(), (X * X).sum(1))


def test_gradients_that_are_only_read():
    x = lm.asarray(X)
    x.requires_grad_()
    (x * x * x).sum().backward()
    f = lm.jit(lambda x: x.grad * 2)
    for _ in range(4):
        np.testing.assert_allclose(f(x).numpy(), 6 * X * X)


@pytest.mark.usefixtures("optimized")  # which decides how many kernels there are
@pytest.mark.parametrize("setting", [{"backend": "interpret"}, {"debug_nans": 1}, {"lines": 1}])
def test_settings_are_obeyed(setting):
    f = warm(lm.jit(lambda x: lm.log(x) * 1), X + 1)
    with config(**setting):
        np.testing.assert_allclose(f(X + 1).numpy(), np.log(X + 1), rtol=1e-6)
        if "debug_nans" in setting:
            with pytest.raises(lm.errors.NaNError):
                f(X - 1)
    with lm.profile() as p:
        f(X + 1)
    assert len(p.rows()) == 1


def test_threads_do_not_share_what_a_call_uses():
    f = warm(lm.jit(lambda x: lm.sin(x) + 1), X)
    wrong = []

    def work(seed):
        x = np.full((2, 3), seed, np.float32)
        found = [f(x).numpy() for _ in range(300)]
        wrong.extend(y for y in found if not np.allclose(y, np.sin(x) + 1, atol=1e-6))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
