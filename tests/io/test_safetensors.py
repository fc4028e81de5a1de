"""safetensors: round trips, the reference implementation both ways, every refusal, and a fuzz."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lamella as lm
from lamella.dtypes import ALL
from lamella.errors import DTypeError, FileFormatError, OptionError
from lamella.io.safetensors import MAX_HEADER, read_arrays, read_metadata, save


def _arrays() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {
        f"{dtype.name}/{shape}": generator.integers(0, 2, shape).astype(dtype.numpy)
        for dtype in ALL
        for shape in [(), (0,), (3,), (2, 0, 3), (2, 3, 4)]
    }


def _bytes(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def _entry(
    begin: int, end: int, shape: list[int] | None = None, dtype: str = "U8"
) -> dict[str, object]:
    return {
        "dtype": dtype,
        "shape": [end - begin] if shape is None else shape,
        "data_offsets": [begin, end],
    }


def test_round_trip_keeps_names_order_shapes_dtypes_and_bits(tmp_path: Path) -> None:
    path = tmp_path / "all.safetensors"
    arrays = _arrays()
    arrays["nan"] = np.array([np.nan, -0.0, np.inf], np.float32)
    save(arrays, path, metadata={"ключ": "значение"})
    found = read_arrays(path)
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()
        assert not found[name].flags.writeable or not found[name].size
    assert read_metadata(path) == {"ключ": "значение"}


def test_tensors_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    lm.save({"a": lm.asarray(np.arange(6.0).reshape(2, 3)) + 1, "b": lm.asarray([1, 2])}, path)
    found = lm.load(path)
    assert found["a"].tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert found["b"].dtype is lm.int64


def test_non_contiguous_and_big_endian_arrays_are_written_row_major_and_little(
    tmp_path: Path,
) -> None:
    path = tmp_path / "v.safetensors"
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    save({"t": array.T, "big": array.astype(">f4")}, path)
    found = read_arrays(path)
    assert np.array_equal(found["t"], array.T)
    assert np.array_equal(found["big"], array)


def test_reference_implementation_reads_ours_and_we_read_its(tmp_path: Path) -> None:
    reference = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    ours, theirs = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
    arrays = {n: a for n, a in _arrays().items() if a.dtype != ml_dtypes.bfloat16}
    save(arrays, ours, metadata={"a": "b"})
    for name, array in reference.load_file(ours).items():
        assert np.array_equal(array, arrays[name])
    reference.save_file(arrays, theirs, metadata={"a": "b"})
    found = read_arrays(theirs)
    assert found.keys() == arrays.keys()
    assert all(np.array_equal(found[name], array) for name, array in arrays.items())


def test_unaligned_data_of_other_writers_is_read(tmp_path: Path) -> None:
    path = tmp_path / "odd.safetensors"
    header = {"b": _entry(0, 1), "x": _entry(1, 9, [2], "F32")}
    path.write_bytes(_bytes(header, b"\7" + np.array([1.5, 2.5], "<f4").tobytes()))
    found = read_arrays(path)
    assert found["x"].tolist() == [1.5, 2.5]
    assert found["x"].flags.aligned


def test_first_tensor_is_aligned_to_64_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save({"x": np.ones(3)}, path)
    (length,) = struct.unpack("<Q", path.read_bytes()[:8])
    assert (8 + length) % 64 == 0


def test_a_failed_save_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.safetensors"
    save({"x": np.ones(3)}, path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        save({"x": np.zeros(3)}, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_saving_over_a_mapped_file_keeps_what_was_loaded(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save({"x": np.ones(3)}, path)
    old = read_arrays(path)["x"]
    save({"x": np.zeros(3)}, path)
    assert old.tolist() == [1.0, 1.0, 1.0]
    assert read_arrays(path)["x"].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("tensors", "metadata", "kind", "text"),
    [
        ([np.ones(1)], None, OptionError, "named tensors"),
        ({1: np.ones(1)}, None, OptionError, "cannot name"),
        ({"__metadata__": np.ones(1)}, None, OptionError, "cannot name"),
        ({"a": np.ones(1)}, {"a": 1}, OptionError, "is not a text"),
        ({"a": np.ones(1, np.complex128)}, None, DTypeError, "'a' has dtype complex128"),
        ({"a": np.array(["x"])}, None, DTypeError, "tensor 'a'"),
    ],
)
def test_what_cannot_be_saved(
    tmp_path: Path, tensors: object, metadata: object, kind: type, text: str
) -> None:
    with pytest.raises(kind, match=text):
        save(tensors, tmp_path / "x", metadata=metadata)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []


_DEEP = b"{" + b'"a":' + b"[" * 100_000
REFUSED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "fewer than the 8"),
    "short": (b"\1\0\0", "fewer than the 8"),
    "header longer than the file": (struct.pack("<Q", 100) + b"{}", "only 2 follow"),
    "header over the bound": (
        struct.pack("<Q", MAX_HEADER + 1) + b"{}",
        "more than the 100000000 allowed",
    ),
    "header of 2^63": (struct.pack("<Q", 2**63) + b"{}", "more than the"),
    "no brace": (_bytes(b"[]"), "does not begin with"),
    "not JSON": (_bytes(b"{a}"), "not JSON"),
    "not UTF-8": (_bytes(b'{"\xff":1}'), "not JSON"),
    "deep": (_bytes(_DEEP), "nested too deeply|not JSON"),
    "trailing": (_bytes(b"{} x"), "not JSON"),
    "NaN": (_bytes(b'{"a":NaN}'), "NaN"),
    "number too long": (_bytes(b'{"a":' + b"9" * 5000 + b"}"), "not JSON"),
    "duplicate name": (
        _bytes(b'{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"a":{}}', b"\0"),
        "'a' twice",
    ),
    "duplicate field": (_bytes(b'{"a":{"dtype":"U8","dtype":"U8"}}'), "'dtype' twice"),
    "entry no object": (_bytes({"a": 1}), "tensor 'a': its entry"),
    "field missing": (_bytes({"a": {"dtype": "U8", "shape": []}}), "tensor 'a': its entry"),
    "field unknown": (_bytes({"a": {**_entry(0, 0), "x": 1}}), "tensor 'a': its entry"),
    "dtype unknown": (_bytes({"a": _entry(0, 1, dtype="F8_E5M2")}, b"\0"), "dtype 'F8_E5M2'"),
    "dtype no text": (_bytes({"a": {**_entry(0, 1), "dtype": 3}}, b"\0"), "dtype 3"),
    "shape negative": (_bytes({"a": _entry(0, 1, [-1])}, b"\0"), "its shape"),
    "shape bool": (_bytes({"a": _entry(0, 1, [True])}, b"\0"), "its shape"),
    "shape float": (_bytes({"a": {**_entry(0, 1), "shape": [1.0]}}, b"\0"), "its shape"),
    "shape no list": (_bytes({"a": {**_entry(0, 1), "shape": 1}}, b"\0"), "its shape"),
    "shape 2^63": (_bytes({"a": _entry(0, 0, [2**63, 0])}), "its shape"),
    "shape overflows": (
        _bytes({"a": _entry(0, 0, [2**62, 4])}),
        "takes 18446744073709551616 bytes",
    ),
    "shape huge but empty": (
        _bytes({"a": _entry(0, 0, [2**62, 2**62, 0])}),
        "NumPy cannot describe",
    ),
    "rank": (_bytes({"a": _entry(0, 1, [1] * 65)}, b"\0"), "at most 64"),
    "shape and data differ": (
        _bytes({"a": _entry(0, 2, [3])}, b"\0\0"),
        "takes 3 bytes, but its data has 2",
    ),
    "offsets reversed": (_bytes({"a": _entry(1, 0, [1])}, b"\0"), "its data_offsets"),
    "offsets negative": (_bytes({"a": _entry(-1, 0, [1])}, b"\0"), "its data_offsets"),
    "offsets 2^63": (_bytes({"a": _entry(2**63, 2**63, [0])}), "its data_offsets"),
    "three offsets": (
        _bytes({"a": {**_entry(0, 1), "data_offsets": [0, 1, 2]}}, b"\0"),
        "its data_offsets",
    ),
    "past the end": (_bytes({"a": _entry(0, 4)}, b"\0\0"), "the file has 2"),
    "far past the end": (_bytes({"a": _entry(0, 2**62)}, b"\0\0"), "the file has 2"),
    "overlap": (_bytes({"a": _entry(0, 2), "b": _entry(1, 3)}, b"\0\0\0"), "tensor 'b'.*overlaps"),
    "same place twice": (_bytes({"a": _entry(0, 2), "b": _entry(0, 2)}, b"\0\0"), "overlaps"),
    "hole": (_bytes({"a": _entry(0, 1), "b": _entry(2, 3)}, b"\0\0\0"), "tensor 'b'.*hole"),
    "hole at the start": (_bytes({"a": _entry(1, 2)}, b"\0\0"), "hole"),
    "bytes left over": (_bytes({"a": _entry(0, 1)}, b"\0\0"), "1 bytes follow"),
    "metadata no object": (_bytes({"__metadata__": 1}), "__metadata__"),
    "metadata number": (_bytes({"__metadata__": {"a": 1}}), "__metadata__"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_damaged_and_hostile_files_are_refused(tmp_path: Path, case: str) -> None:
    content, reason = REFUSED[case]
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=reason) as caught:
        read_arrays(path)
    assert "bad.safetensors" in str(caught.value)


def test_an_empty_file_of_tensors_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "none.safetensors"
    save({}, path)
    assert read_arrays(path) == {}


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        lm.load(tmp_path / "nothing")


@given(st.data())
def test_changed_bytes_never_do_worse_than_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    path = folder / "f.safetensors"
    save(
        {"a": np.arange(4, dtype=np.int16), "b": np.ones((2, 3), np.float32)},
        path,
        metadata={"k": "v"},
    )
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        kind = data.draw(st.sampled_from(["flip", "cut", "insert"]))
        place = data.draw(st.integers(0, max(len(content) - 1, 0)))
        if kind == "flip" and content:
            content[place] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del content[place : place + data.draw(st.integers(1, 40))]
        else:
            content[place:place] = data.draw(st.binary(max_size=12))
    path.write_bytes(content)
    try:
        for array in read_arrays(path).values():
            array.sum()
    except FileFormatError:
        return


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2**64) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
)
_FIELDS = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["U8", "F32", "BOOL", "X"]) | _JSON,
        "shape": st.lists(st.integers(0, 3), max_size=3) | _JSON,
        "data_offsets": st.lists(st.integers(0, 12), min_size=2, max_size=2) | _JSON,
    }
)


@given(st.dictionaries(st.text(max_size=4), _FIELDS | _JSON, max_size=3), st.binary(max_size=24))
def test_any_header_gives_tensors_inside_the_file_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, header: dict[str, object], body: bytes
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "h.safetensors"
    path.write_bytes(_bytes(header, body))
    try:
        found = read_arrays(path)
    except FileFormatError:
        return
    assert sum(array.nbytes for array in found.values()) == len(body)


@pytest.mark.parametrize("name", ["\ud800", "__metadata__", 3])
def test_names_that_a_file_cannot_hold_are_refused_before_it_is_touched(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "a.safetensors"
    save({"a": np.ones(2)}, path)
    with pytest.raises(OptionError, match=r"\[save\].*cannot name a tensor"):
        save({name: np.ones(2)}, path)
    with pytest.raises(OptionError, match=r"\[save\] metadata"):
        save({"a": np.ones(2)}, path, metadata={"b": "\udfff"})
    assert list(read_arrays(path)) == ["a"] and os.listdir(tmp_path) == ["a.safetensors"]


def test_trees_are_refused_with_advice(tmp_path: Path) -> None:
    optimizer = lm.optim.Adam(lm.nn.Linear(2, 2).parameters())
    with pytest.raises(OptionError, match=r"'state' holds a dict.*flatten"):
        save(optimizer.state_dict(), tmp_path / "a.safetensors")


def test_saving_to_a_link_replaces_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    target, link = tmp_path / "disk" / "a.safetensors", tmp_path / "latest.safetensors"
    save({"a": np.zeros(2)}, target)
    link.symlink_to(target)
    save({"a": np.ones(2)}, link)
    assert link.is_symlink() and read_arrays(target)["a"].tolist() == [1.0, 1.0]


def test_a_file_that_is_read_may_change_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    x = np.arange(100_000, dtype=np.float32)
    lm.save({"x": x, "none": x[:0], "number": np.int8(3)}, path)
    found = lm.load(path, mmap=False)
    with path.open("r+b") as file:
        file.truncate(100)
    np.testing.assert_array_equal(found["x"].numpy(), x)
    assert found["none"].shape == (0,) and found["number"].item() == 3
