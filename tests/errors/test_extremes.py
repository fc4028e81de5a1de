"""What a first user tries at the edges: each either works or says clearly why it does not."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import lamella as lm
from lamella.errors import DTypeError, LamellaError, OptionError, ShapeError


@lm.kernel(out=lambda x: x)
def doubled(x, out):
    for i in lm.kernel.grid(x.shape[0]):
        out[i] = x[i] * 2


MISUSE = [
    (OptionError, lambda: doubled(lm.asarray(1.0))),
    (OptionError, lambda: lm.fft.fftn(lm.ones((2, 3)), s=3)),
    (OptionError, lambda: lm.fft.irfft2(lm.ones((2, 3)), axes=1)),
    (OptionError, lambda: lm.linalg.matrix_power(lm.eye(2), 1.5)),
    (ShapeError, lambda: lm.linalg.lu_solve(*lm.linalg.lu_factor(lm.eye(3)), lm.ones(3))),
    (OptionError, lambda: lm.random.split(lm.random.key(0), -1)),
    (OptionError, lambda: lm.nn.Conv2d(3, 4, kernel_size=2.5)),
    (OptionError, lambda: lm.nn.MaxPool2d(2.5)(lm.ones((1, 3, 5, 5)))),
    (OptionError, lambda: lm.histogram(lm.ones(3), bins=[1.0, 0.0])),
    (OptionError, lambda: lm.bincount(lm.asarray([1, 2]), minlength=-1)),
    (DTypeError, lambda: float(lm.asarray(1 + 2j))),
    (DTypeError, lambda: int(lm.asarray(1 + 2j))),
    (DTypeError, lambda: lm.linspace(0, 1j, 3)),
    (ShapeError, lambda: lm.repeat(lm.ones(2), lm.asarray([2**62, 2**62]))),
    (DTypeError, lambda: lm.pure_callback(lambda a: "text", lm.ones(2), lm.ones(2)).numpy()),
    (OptionError, lambda: lm.pure_callback(3, lm.ones(2), lm.ones(2))),
    (OptionError, lambda: lm.scan(3, lm.ones(2), lm.ones(2))),
    (LamellaError, lambda: lm.nn.BatchNorm2d(3)("text")),
    (LamellaError, lambda: lm.nn.LSTM(3, 3)(None)),
]


@pytest.mark.parametrize("number", range(len(MISUSE)))
def test_misuse_has_an_error_of_its_own(number):
    kind, call = MISUSE[number]
    with pytest.raises(kind) as found:
        call()
    assert isinstance(found.value, LamellaError)


@pytest.mark.parametrize("jit", [False, True])
def test_switch_clips_an_index_that_int64_cannot_hold(jit):
    def f(i):
        return lm.switch(i, [lambda: lm.asarray(1.0), lambda: lm.asarray(2.0)])

    f = lm.jit(f) if jit else f
    for index, expected in ((0, 1.0), (1, 2.0), (2**63 + 1, 2.0), (2**64 - 1, 2.0)):
        assert f(lm.asarray(np.array(index, np.uint64))).item() == expected


def test_attention_over_no_features_is_the_mean():
    v = np.arange(6, dtype=np.float32).reshape(2, 3)
    q = lm.zeros((2, 0))
    found = lm.nn.functional.scaled_dot_product_attention(q, q, lm.asarray(v))
    np.testing.assert_allclose(found.numpy(), np.tile(v.mean(0), (2, 1)), rtol=1e-6)


@pytest.mark.parametrize("x", [1e-300, -1e-300, -1e-200, -1e-29, -1e-31, 1e-31, -1e-8])
def test_gamma_of_tiny_numbers(x):
    gamma, log = mpmath.gamma(x), mpmath.log(abs(mpmath.gamma(x)))
    assert lm.special.gamma(lm.asarray(np.array(x))).item() == pytest.approx(float(gamma), 1e-13)
    assert lm.special.lgamma(lm.asarray(np.array(x))).item() == pytest.approx(float(log), 1e-13)
    single = lm.asarray(np.array(x, np.float32))
    if abs(x) > 1e-37:
        assert lm.special.lgamma(single).item() == pytest.approx(float(log), 1e-6)
        assert lm.special.gamma(single).item() == pytest.approx(float(gamma), 1e-6)


def test_gumbel_numbers_of_few_bits_are_finite():
    lm.random.manual_seed(0)
    for dtype in (lm.float32, lm.bfloat16, lm.float16):
        for _ in range(4):
            found = lm.random.gumbel((2**21,), dtype=dtype)
            assert bool(lm.isfinite(found).all())


@pytest.mark.parametrize("dtype", [lm.float16, lm.bfloat16])
def test_uniform_numbers_of_few_bits_stay_below_one(dtype):
    lm.random.manual_seed(0)
    found = lm.random.uniform((2**16,), dtype=dtype).astype(lm.float32).numpy()
    assert 0 <= found.min() < found.max() < 1
    assert abs(found.mean() - 0.5) < 0.01


def test_geometric_numbers_of_no_probability():
    p = lm.asarray([0.5, -1.0, np.nan, np.inf, 2.0])
    assert lm.random.geometric(p).tolist()[1:] == [-1, -1, -1, -1]


@pytest.mark.parametrize("jit", [False, True])
def test_a_kernel_is_a_step_of_a_loop(jit):
    def f(x):
        return lm.scan(lambda c, _: (doubled(c), c.sum()), x, None, length=3)

    last, sums = (lm.jit(f) if jit else f)(lm.ones(5))
    assert last.tolist() == [8.0] * 5
    assert sums.tolist() == [5.0, 10.0, 20.0]
    assert "doubled" in lm.jit(f).lower(lm.ones(5)).text(1)
