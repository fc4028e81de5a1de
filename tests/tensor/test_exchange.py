"""Values out and in: NumPy, DLPack, pickle, copies, printing, Python's own protocols."""

from __future__ import annotations

import copy
import gc
import pickle
import sys

import numpy as np
import pytest

import lamella as lm
from lamella.errors import OptionError
from lamella.tensor import dlpack

DTYPES = [d.name for d in lm.dtypes.ALL]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_round_trip_shares_memory(dtype: str) -> None:
    x = lm.asarray(np.arange(6).reshape(2, 3).astype(lm.dtypes.as_dtype(dtype).numpy))
    y = lm.from_dlpack(x)
    assert y.dtype == x.dtype and y.shape == (2, 3)
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    assert y.numpy().ctypes.data == x.numpy().ctypes.data
    del x
    gc.collect()
    assert (
        y.astype("float64").tolist()
        == (
            np.arange(6).reshape(2, 3).astype(bool)
            if dtype == "bool"
            else np.arange(6).reshape(2, 3)
        ).tolist()
    )


def test_dlpack_with_numpy_both_ways() -> None:
    x = lm.arange(6).reshape(2, 3) * 2
    a = np.from_dlpack(x)
    np.testing.assert_array_equal(a, [[0, 2, 4], [6, 8, 10]])
    assert a.ctypes.data == x.numpy().ctypes.data
    b = np.arange(12.0).reshape(3, 4)
    assert lm.from_dlpack(b).numpy().ctypes.data == b.ctypes.data
    np.testing.assert_array_equal(lm.from_dlpack(b[:, ::2]).numpy(), b[:, ::2])
    assert lm.from_dlpack(b, copy=True).numpy().ctypes.data != b.ctypes.data


def holders(x: lm.Tensor) -> int:
    """How many references there are to the memory of a tensor."""
    return sys.getrefcount(x.node.value)


def test_dlpack_lends_and_gets_back() -> None:
    x = lm.asarray([2.0, 2.0, 2.0])
    before = holders(x)
    capsule = x.__dlpack__()
    assert holders(x) == before + 1
    del capsule
    assert holders(x) == before
    for version in (None, (0, 5), (1, 0), (2, 3)):
        y = lm.asarray(dlpack.wrap(dlpack.node_from_dlpack(x.__dlpack__(max_version=version))))
        assert holders(x) == before + 1
        del y
        gc.collect()
        assert holders(x) == before


class Refusing:
    """A consumer that drops a capsule because of an exception."""

    def take(self, capsule: object) -> None:
        raise KeyError("refused")


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_a_consumer_raises_arrives(dtype: str) -> None:
    x = lm.asarray([[0, 1, 0], [1, 0, 1]], dtype=dtype)
    x.numpy()  # computed
    before = holders(x)
    if dtype == "bfloat16":  # NumPy has no such type, and drops the capsule with the error set
        with pytest.raises((BufferError, RuntimeError), match=r"[Uu]nsupported dtype"):
            np.from_dlpack(x)
    else:
        assert np.from_dlpack(x).dtype == dtype
    with pytest.raises(KeyError, match="refused"):
        Refusing().take(x.__dlpack__())
    gc.collect()
    assert holders(x) == before


def test_dlpack_of_bfloat16_says_so() -> None:
    x = lm.asarray([1.5, -2.0], dtype="bfloat16")
    for version in (None, (1, 0)):
        managed = dlpack._managed(x.__dlpack__(max_version=version))[1]
        assert (managed.tensor.code, managed.tensor.bits, managed.tensor.lanes) == (4, 16, 1)
    assert lm.from_dlpack(x).tolist() == [1.5, -2.0]


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), ()])
def test_dlpack_of_few_elements(shape: tuple[int, ...]) -> None:
    for dtype in (*DTYPES, "complex64", "complex128"):
        x = lm.zeros(shape, dtype=dtype)
        y = lm.from_dlpack(x)
        assert y.shape == shape and y.dtype is x.dtype
        assert lm.from_dlpack(x, copy=True).tolist() == x.tolist()


def test_dlpack_refuses_devices_and_used_capsules() -> None:
    x = lm.ones(3)
    assert x.__dlpack_device__() == (1, 0)
    for error in (ValueError, BufferError):
        with pytest.raises(error, match=r"dlpack"):
            x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match=r"dlpack__\] stream=1"):
        x.__dlpack__(stream=1)
    with pytest.raises(OptionError, match=r"\[from_dlpack\] there is no device 'cuda'"):
        lm.from_dlpack(np.zeros(2), device="cuda")
    assert lm.from_dlpack(np.zeros(2), device="cpu").shape == (2,)
    capsule = x.__dlpack__()
    lm.from_dlpack(capsule)
    with pytest.raises(BufferError, match=r"\[from_dlpack\].*taken"):
        lm.from_dlpack(capsule)


def test_without_a_copy_only_what_can_be_shared() -> None:
    array = np.arange(12.0).reshape(3, 4)
    for source in (array, lm.asarray(array), np.zeros((0, 2))):
        assert lm.from_dlpack(source, copy=False).shape == source.shape
        assert lm.asarray(source, copy=False).shape == source.shape
    assert lm.from_dlpack(array, copy=False).numpy().ctypes.data == array.ctypes.data
    assert lm.asarray(array, copy=False).numpy().ctypes.data == array.ctypes.data
    with pytest.raises(BufferError, match=r"\[from_dlpack\] shape \(3, 2\) .* can only be copied"):
        lm.from_dlpack(array[:, ::2], copy=False)
    for source in (array[:, ::2], [1.0, 2.0], 1.0, np.float32(1.0), array.astype(">f8")):
        with pytest.raises(ValueError, match=r"\[asarray\] copy=False"):
            lm.asarray(source, copy=False)
    for source in (array, lm.asarray(array)):
        with pytest.raises(BufferError, match=r"\[asarray\] copy=False"):
            lm.asarray(source, dtype="float32", copy=False)


def test_numpy_protocol() -> None:
    x = lm.tensor([1.0, 2.0])
    assert np.asarray(x).dtype == np.float32 and np.asarray(x, dtype="float64").dtype == np.float64
    assert np.array(x).flags.writeable and not x.numpy().flags.writeable
    assert isinstance(np.ones(2) * x, lm.Tensor) and isinstance(np.ones(2) - x, lm.Tensor)
    assert (np.float64(2.0) * x).tolist() == [2.0, 4.0]
    assert (np.ones(2) == x).tolist() == [True, False]
    np.testing.assert_array_equal(np.stack([x, x]), [[1, 2], [1, 2]])


def test_python_protocols() -> None:
    x = lm.tensor([[1, 2], [3, 4]])
    assert len(x) == 2 and [row.tolist() for row in x] == [[1, 2], [3, 4]] and 3 in x and 9 not in x
    assert (
        float(lm.tensor(1.5)) == 1.5
        and int(lm.tensor(2)) == 2
        and bool(lm.tensor(0)) is False
        and complex(lm.tensor(1.0)) == 1
    )
    assert [10, 20, 30][lm.tensor(1)] == 20 and list(range(5))[lm.tensor(1) : lm.tensor(3)] == [
        1,
        2,
    ]
    assert x.size == 4 and x.size() == (2, 2) and x.size(0) == 2 and x.numel() == 4 and x.dim() == 2
    assert (
        x.shape == (2, 2)
        and x.ndim == 2
        and x.nbytes == 32
        and x.itemsize == 8
        and x.device == "cpu"
    )
    assert (x == None) is False and (x != "a") is True  # noqa: E711
    assert len({x, x}) == 1 and f"{lm.tensor(1.2345):.2f}" == "1.23"
    assert (
        x.tolist() == [[1, 2], [3, 4]]
        and isinstance(lm.tensor(1.5).item(), float)
        and lm.tensor(1).tolist() == 1
    )
    with pytest.raises(TypeError):
        x + None
    with pytest.raises(TypeError):
        x + "a"


@pytest.mark.parametrize("dtype", DTYPES)
def test_pickle(dtype: str) -> None:
    x = lm.arange(4).astype(dtype)
    y = pickle.loads(pickle.dumps(x))
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    p = pickle.loads(pickle.dumps(lm.ones(2, requires_grad=True)))
    assert p.requires_grad and p.is_leaf


class Weight(lm.Tensor):
    """A subclass with an attribute of its own."""

    def __init__(self, data: object, tag: str) -> None:
        super().__init__(data, requires_grad=True)  # type: ignore[arg-type]
        self.tag = tag


def test_copies_are_independent_and_keep_the_class() -> None:
    w = Weight([1.0, 2.0], "bias")
    (w * w).sum().backward()
    for made in (copy.copy(w), copy.deepcopy(w)):
        assert type(made) is Weight and made.tag == "bias" and made.requires_grad and made.is_leaf
        with lm.no_grad():
            made += 1
        assert made.tolist() == [2.0, 3.0] and w.tolist() == [1.0, 2.0]
    assert copy.deepcopy(w).grad.tolist() == [2.0, 4.0]  # type: ignore[union-attr]
    a, b = copy.deepcopy([w, w])
    assert a is b
    x = w * 2
    y = x.clone()
    x += 1
    assert y.tolist() == [2.0, 4.0]


def test_printing_is_numpys() -> None:
    for array in (
        np.arange(6.0).reshape(2, 3),
        np.array(3),
        np.zeros((0, 2)),
        np.arange(2000),
        np.array([True]),
    ):
        assert str(lm.asarray(array)) == str(array)
    assert repr(lm.tensor([1, 2])) == "tensor([1, 2], dtype=int64)"
    assert repr(lm.ones(1, dtype="bfloat16")) == "tensor([1.], dtype=bfloat16)"
    assert (
        repr(lm.ones(2, requires_grad=True))
        == "tensor([1., 1.], dtype=float32, requires_grad=True)"
    )
    assert "shape=(0, 2)" in repr(lm.zeros(0, 2))


def test_in_place_operators_keep_type_and_identity() -> None:
    x = lm.tensor([1.0, 2.0])
    same = x
    x += lm.tensor([1.0, 1.0], dtype="float64")
    x *= 2
    x -= 1
    x /= 2
    assert same is x and x.dtype == lm.float32 and x.tolist() == [1.5, 2.5]
    x.zero_().fill_(3.0).add_(1).clamp_(max=3.5)
    assert x.tolist() == [3.5, 3.5]
    with pytest.raises(ValueError, match=r"\[add_\]"):
        x += lm.ones(2, 2)
    i = lm.tensor([1, 2])
    with pytest.raises(TypeError, match=r"\[add_\]"):
        i += 0.5
    i //= 2
    i <<= 1
    assert i.tolist() == [0, 2]
