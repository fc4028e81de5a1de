"""The generator against the published known answers of Random123, and the layout of its stream."""

from __future__ import annotations

import numpy as np
import pytest

from lamella import ops
from lamella.dtypes import float32, int64, uint32, uint64
from lamella.errors import DTypeError, ShapeError
from lamella.ir.dim import Dim
from tests.ops.evaluate import leaf, value

# threefry2x32, 20 rounds, from Random123's kat_vectors: counter, key, answer
KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]
KEY = np.array([0x13198A2E, 0x03707344], np.uint32)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(counter, key, answer) -> None:
    offset = np.array(counter[0] << 32 | counter[1], np.uint64).astype(np.int64)
    words = np.array(key, np.uint32)
    both = value(lambda k, o: ops.random_bits(k, (), uint64, o), words, offset)
    assert int(both) == answer[0] << 32 | answer[1]
    first = value(lambda k, o: ops.random_bits(k, (), uint32, o), words, offset)
    assert int(first) == answer[0]


def test_a_part_of_the_stream_is_the_stream() -> None:
    whole = value(lambda k: ops.random_bits(k, (4, 6)), KEY).reshape(-1)
    part = value(lambda k, o: ops.random_bits(k, (5,), uint32, o), KEY, np.array(7))
    assert part.tolist() == whole[7:12].tolist()


def test_the_counter_crosses_32_bits() -> None:
    offset = np.array(2**32 - 1)
    two = value(lambda k, o: ops.random_bits(k, (2,), uint32, o), KEY, offset)
    one = value(lambda k, o: ops.random_bits(k, (1,), uint32, o), KEY, offset + 1)
    assert two[1] == one[0]


def test_split_and_fold_in_agree_and_differ_from_draws() -> None:
    keys = value(lambda k: ops.random_split(k, 5), KEY)
    assert keys.shape == (5, 2) and keys.dtype == np.uint32
    for i, key in enumerate(keys):
        folded = value(lambda k, d: ops.random_fold_in(k, d), KEY, np.array(i))
        assert folded.tolist() == key.tolist()
    drawn = value(lambda k: ops.random_bits(k, (5,), uint64), KEY)
    assert not {(int(b) >> 32, int(b) & 0xFFFFFFFF) for b in drawn} & {*map(tuple, keys.tolist())}


def test_bits_are_even() -> None:
    bits = value(lambda k: ops.random_bits(k, (20_000,), uint64), KEY)
    ones = ((bits[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).mean(0)
    assert np.abs(ones - 0.5).max() < 0.02  # 5.6 standard deviations
    assert len(np.unique(bits)) == 20_000


def test_a_symbolic_size_is_allowed() -> None:
    n = Dim("n")
    assert ops.random_bits(leaf(KEY), (n, 3)).shape == (n, 3)
    assert ops.random_split(leaf(KEY), n).shape == (n, 2)


def test_builders_refuse() -> None:
    with pytest.raises(DTypeError, match="uint32 or uint64"):
        ops.random_bits(leaf(KEY), (3,), float32)
    with pytest.raises(ShapeError, match="two uint32 words"):
        ops.random_bits(leaf(KEY.astype(np.int64)), (3,))
    with pytest.raises(ShapeError, match="one int64 offset"):
        ops.random_bits(leaf(KEY), (3,), uint32, ops.full(0, (2,), int64))
    with pytest.raises(DTypeError, match="integers"):
        ops.random_fold_in(leaf(KEY), leaf(1.5))
