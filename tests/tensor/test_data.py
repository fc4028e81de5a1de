"""Element types of what tensors are made of: large integers, names, NumPy's own numbers."""

import warnings

import numpy as np
import pytest

import lamella as lm
from lamella.errors import DTypeError, OptionError, ShapeError


@pytest.mark.parametrize(
    ("data", "dtype", "exact"),
    [
        ([2**63, 1], "uint64", [2**63, 1]),
        ([[2**63], [True]], "uint64", [[2**63], [1]]),
        ([2**64 - 1, 0], "uint64", [2**64 - 1, 0]),
        ([np.uint64(3), -1], "int64", [3, -1]),
        ([-1, np.uint64(3)], "int64", [-1, 3]),
        ([np.array([1, 2], np.uint64), [-1, 2]], "int64", [[1, 2], [-1, 2]]),
        ([2**62, -(2**63)], "int64", [2**62, -(2**63)]),
        ([2**70, 1.5], "float32", None),
        ([2**70, 1j], "complex64", None),
        ([2**63, 1.5], "float32", None),
    ],
)
def test_whole_numbers_stay_whole(data, dtype, exact):
    for make in (lm.asarray, lm.tensor):
        found = make(data)
        assert found.dtype.name == dtype
        if exact is not None:
            assert found.tolist() == exact
        else:
            np.testing.assert_allclose(found.numpy(), np.array(data, complex), rtol=1e-6)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ([2**63, -1], {}), ([np.uint64(2**63), -1], {}), ([2**63, -1], {"dtype": "int64"}),
        ([2**64, 1], {}), ([-(2**70)], {}), ([2**70], {"dtype": "int64"}), (2**70, {}),
        ([2**2000], {"dtype": "float32"}), ([2**2000, 1.5], {}), ([2**70, None], {}),
        ([2**70, "a"], {}), (np.array([1, 2], object), {}), (np.array([2**70], object), {}),
        ([None], {}), (["a"], {}), (None, {}), ([b"a"], {}), (np.array(["a"]), {}),
    ],
)  # fmt: skip
def test_what_no_element_type_holds_is_an_error(data, options):
    with pytest.raises(DTypeError):
        lm.asarray(data, **options)


def test_other_faults_of_large_numbers():
    with pytest.raises(ShapeError, match="ragged"):
        lm.asarray([2**70, [1]])
    with pytest.raises(OptionError, match="does not fit int64"):
        lm.asarray([2**63], dtype="int64")


def test_floats_that_are_asked_for_take_large_numbers():
    for dtype in ("float32", "float64", "complex128"):
        found = lm.asarray([2**70, -1], dtype=dtype)
        np.testing.assert_array_equal(found.numpy(), np.array([2**70, -1], dtype))


NAMES = ["a", "a5", "|a3", "flaot32", "float8", "S", "U4", "M8[s]", "f4,i4", "O", str, 3, None]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_names_of_no_element_type_are_errors_without_warnings(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (
            lambda: lm.finfo(name),
            lambda: lm.ones(2).astype(name),
            lambda: lm.can_cast(name, "float32"),
        ):
            with pytest.raises(DTypeError, match=r"Known: bfloat16, bool"):
                call()
        assert lm.float32 != name


def test_the_nearest_name_is_offered():
    with pytest.raises(DTypeError, match="did you mean 'float32'"):
        lm.zeros(2, dtype="flaot32")
    with pytest.raises(DTypeError, match="did you mean 'bfloat16'"):
        lm.zeros(2, dtype="bf16")


@pytest.mark.parametrize("name", ["<f4", "f4", "single", np.float32, np.dtype("f4"), "float"])
def test_numpys_names_are_known(name):
    assert lm.zeros(2, dtype=name).dtype is lm.float32
    assert lm.float32 == np.dtype("f4")
