"""What the array-API standard asks beside values; the conformance suite itself is run by
``tools/array_api_tests.py``.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import lamella as lm
from lamella.errors import DTypeError, OptionError, ShapeError


def test_inspection() -> None:
    info = lm.__array_namespace_info__()
    assert lm.__array_api_version__ == "2024.12"
    assert info.capabilities()["boolean indexing"] is True
    assert info.devices() == [info.default_device()] == ["cpu"]
    defaults = info.default_dtypes(device="cpu")
    assert defaults["real floating"] is lm.ones(1).dtype
    assert defaults["complex floating"] is lm.asarray([1j]).dtype
    assert defaults["integral"] is lm.asarray([1]).dtype
    assert defaults["indexing"] is lm.argmax(lm.ones(2)).dtype
    assert set(info.dtypes(kind="complex floating")) == {"complex64", "complex128"}
    assert len(info.dtypes()) == 13
    with pytest.raises(OptionError, match="no device"):
        info.dtypes(device="cuda:0")
    assert lm.asarray([1]).__array_namespace__() is lm
    assert lm.bool is lm.bool_


def test_limits_of_types() -> None:
    for name in ("float16", "float32", "float64", "complex64"):
        found, expected = lm.finfo(name), np.finfo(name)
        assert found.bits == expected.bits and isinstance(found.max, float)
        for field in ("eps", "max", "min", "smallest_normal", "tiny", "smallest_subnormal"):
            assert getattr(found, field) == float(getattr(expected, field))
    assert lm.finfo("bfloat16").eps == 2.0**-7
    for name in ("int8", "uint8", "int64", "uint64"):
        found, expected = lm.iinfo(name), np.iinfo(name)
        assert (found.bits, found.min, found.max) == (expected.bits, expected.min, expected.max)
    assert lm.finfo(lm.ones(2)).dtype is lm.float32 and lm.iinfo(lm.arange(2)).bits == 64
    with pytest.raises(DTypeError, match="iinfo"):
        lm.finfo("int8")
    with pytest.raises(DTypeError, match="finfo"):
        lm.iinfo("float32")
    assert lm.float32 != "nonsense\n, text" and lm.float32 == np.float32
    with pytest.raises(DTypeError):
        lm.zeros(2, dtype="a, b\n- c")


def test_nextafter() -> None:
    ends = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4028235e38, 2.0]
    for dtype in (np.float32, np.float64, np.float16):
        a, b = (g.ravel() for g in np.meshgrid(np.array(ends, dtype), np.array(ends, dtype)))
        expected = np.nextafter(a, b)
        found = lm.nextafter(lm.asarray(a), lm.asarray(b)).numpy()
        np.testing.assert_array_equal(found, expected)
        same = a == b  # then it is b, as the standard says; NumPy's is a
        np.testing.assert_array_equal(np.signbit(found[same]), np.signbit(b[same]))


def test_unique_with_positions() -> None:
    x = np.array([[3.0, np.nan, 1.0], [3.0, np.nan, -0.0]])
    values, indices, inverse, counts = lm.unique_all(x)
    assert counts.tolist() == [1, 1, 2, 1, 1] and inverse.shape == x.shape
    np.testing.assert_array_equal(x.ravel()[indices.numpy()], values.numpy())
    np.testing.assert_array_equal(values.numpy()[inverse.numpy()], x)
    assert lm.unique_counts([2, 2]).counts.tolist() == [2]
    assert lm.unique_inverse([5, 2]).inverse_indices.tolist() == [1, 0]
    assert lm.unique_values([1j, 1j, 2]).tolist() == [1j, 2]


def test_searchsorted_puts_nan_last() -> None:
    row = np.array([1.0, 2.0, 2.0, np.nan, np.nan])
    values = np.array([0.0, 2.0, np.inf, np.nan])
    for side in ("left", "right"):
        np.testing.assert_array_equal(
            lm.searchsorted(row, values, side=side).numpy(), np.searchsorted(row, values, side=side)
        )
    shuffled = np.array([3, 1, 2])
    order = np.argsort(shuffled)
    assert lm.searchsorted(shuffled, [2], sorter=order).tolist() == [1]


def test_axes_and_masks_that_do_not_fit() -> None:
    for error in (IndexError, ValueError, ShapeError):
        with pytest.raises(error, match="axis 2"):
            lm.sum(lm.ones(3), axis=2)
    x = np.zeros((0, 3))
    assert lm.asarray(x)[np.zeros((0, 0), bool)].shape == x[np.zeros((0, 0), bool)].shape
    assert lm.ones(3)[np.zeros(0, bool)].shape == (0,)


def test_diff_with_ends() -> None:
    x = np.arange(6).reshape(2, 3) ** 2
    expected = np.diff(x, axis=1, prepend=5, append=x[:, :2])
    found = lm.diff(x, axis=1, prepend=5, append=x[:, :2])
    np.testing.assert_array_equal(found.numpy(), expected)


def test_floor_division_of_small_by_large() -> None:
    a, b = np.array([1.0, -1.0, 0.1, 1.0]), np.array([-9007199254740996.0, 1e20, -1e10, 3e38])
    for dtype in (np.float32, np.float64):
        x, y = a.astype(dtype), b.astype(dtype)
        np.testing.assert_array_equal((lm.asarray(x) // lm.asarray(y)).numpy(), x // y)
        np.testing.assert_array_equal((lm.asarray(x) % lm.asarray(y)).numpy(), x % y)


def test_signatures_of_the_standard() -> None:
    assert lm.zeros(shape=(2,)).shape == lm.zeros(2).shape == (2,)
    assert lm.reshape(lm.ones(4), shape=(2, 2), copy=True).shape == (2, 2)
    assert lm.ones(4).reshape(2, -1).shape == lm.ones(4).reshape((2, -1)).shape == (2, 2)
    assert lm.permute_dims(lm.ones((2, 3)), axes=(1, 0)).shape == (3, 2)
    assert lm.broadcast_to(lm.ones(3), shape=(2, 3)).shape == (2, 3)
    a = lm.ones((2, 3))
    for option in ("axes", "axis", "dims"):
        assert lm.tensordot(a, a, **{option: ((0, 1), (0, 1))}).item() == 6.0
    assert lm.ones(1).to_device("cpu").tolist() == [1.0]
    with pytest.raises(OptionError):
        lm.ones(1).to_device("cuda")
    assert lm.eye(2, k=2**70).tolist() == [[0.0, 0.0]] * 2
    assert math.copysign(1.0, lm.sign(-0.0).item()) == 1.0
    assert lm.vecdot([1j, 2], [1j, 1]).item() == 3 + 0j
    with pytest.raises(ShapeError, match="axis"):
        lm.vecdot(lm.ones((2, 3)), lm.ones((2, 1)))
