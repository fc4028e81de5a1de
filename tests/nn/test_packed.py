"""Packed sequences: to and fro, and recurrent layers over them against each sequence alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lamella as lm
from lamella import nn

rnn = nn.utils.rnn
LENGTHS = [3, 5, 1, 5, 2]


def batch() -> list[Any]:
    rng = np.random.default_rng(0)
    return [lm.tensor(rng.normal(size=(length, 3)).astype(np.float32)) for length in LENGTHS]


@pytest.mark.parametrize("batch_first", [False, True])
def test_packing_and_padding_are_inverse(batch_first: bool) -> None:
    sequences = batch()
    padded = rnn.pad_sequence(sequences, batch_first, padding_value=7.0)
    assert padded.shape == ((5, 5, 3))
    packed = rnn.pack_padded_sequence(padded, LENGTHS, batch_first, enforce_sorted=False)
    assert packed.batch_sizes == (5, 4, 3, 2, 2)
    assert packed.sorted_indices == (1, 3, 0, 4, 2)
    first = np.stack([sequences[k][0].numpy() for k in packed.sorted_indices])
    np.testing.assert_array_equal(packed.data[:5].numpy(), first)
    again, lengths = rnn.pad_packed_sequence(packed, batch_first, 7.0, total_length=5)
    np.testing.assert_array_equal(again.numpy(), padded.numpy())
    assert lengths.tolist() == LENGTHS
    for one, other in zip(rnn.unpack_sequence(packed), sequences, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    left = rnn.pad_sequence(sequences, padding_side="left")
    assert left[0, 2].tolist() == [0.0] * 3 and left[4, 2].tolist() == sequences[2][0].tolist()


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_layers_over_packed_sequences(kind: str, options: dict[str, Any]) -> None:
    lm.manual_seed(0)
    layer, sequences = getattr(nn, kind)(3, 4, **options), batch()
    count = options.get("num_layers", 1) * (2 if options else 1)
    begin = lm.random.normal((count, len(LENGTHS), 4))
    pair = kind == "LSTM"
    hx = (begin, begin * 0.5) if pair else begin
    output, state = layer(rnn.pack_sequence(sequences, enforce_sorted=False), hx)
    ends = state if pair else (state,)
    for k, found in enumerate(rnn.unpack_sequence(output)):
        own = tuple(h[:, k] for h in hx) if pair else hx[:, k]
        alone, last = layer(sequences[k], own)
        np.testing.assert_allclose(found.numpy(), alone.numpy(), rtol=1e-5, atol=1e-6)
        for end, want in zip(ends, last if pair else (last,), strict=True):
            np.testing.assert_allclose(end[:, k].numpy(), want.numpy(), rtol=1e-5, atol=1e-6)


def test_gradients_and_jit() -> None:
    lm.manual_seed(1)
    layer, sequences = nn.GRU(3, 4), batch()

    @lm.jit
    def loss(x: Any) -> Any:
        packed = rnn.pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
        return (rnn.pad_packed_sequence(layer(packed)[0])[0] ** 2).sum()

    padded = rnn.pad_sequence(sequences)
    slope = lm.grad(loss)(padded).numpy()
    alone = [lm.grad(lambda x: (layer(x)[0] ** 2).sum())(x).numpy() for x in sequences]
    for k, want in enumerate(alone):
        np.testing.assert_allclose(slope[: len(want), k], want, rtol=1e-4, atol=1e-6)
        assert not slope[len(want) :, k].any()


def test_misuse() -> None:
    x = lm.ones((3, 2, 4))
    for act in (lambda: rnn.pack_padded_sequence(x, [1, 3]),
                lambda: rnn.pack_padded_sequence(x, [3, 0]),
                lambda: rnn.pack_padded_sequence(x, [4, 1]),
                lambda: rnn.pack_padded_sequence(x, [3]),
                lambda: rnn.pad_sequence([]),
                lambda: rnn.pad_sequence([x], padding_side="top"),
                lambda: nn.GRU(3, 4)(rnn.pack_padded_sequence(x, [3, 1])),
                lambda: rnn.pad_packed_sequence(rnn.pack_sequence([x]), total_length=2),
                ):  # fmt: skip
        with pytest.raises(ValueError, match=r"^\["):
            act()
