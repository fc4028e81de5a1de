"""Batches of sequences of different lengths: padded to one length, or packed step by step.

A packed batch holds its steps one after the other, each with the sequences that are still running,
longest first. Lengths are numbers known when a program is recorded, not tensors being computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import lamella as lm
from lamella.errors import OptionError, ShapeError
from lamella.tensor.tensor import Tensor

__all__ = [
    "PackedSequence", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip

Order = tuple[int, ...] | None


class PackedSequence(NamedTuple):
    """A packed batch: ``data`` (steps of all sequences, ...), how many sequences run at each step,
    and the order that sorts them by length (None: they were sorted) with its inverse.
    """

    data: Tensor
    batch_sizes: tuple[int, ...]
    sorted_indices: Order = None
    unsorted_indices: Order = None

    def lengths(self) -> list[int]:
        """The lengths of the sequences in sorted order."""
        counts = np.asarray(self.batch_sizes)
        return [int((counts > place).sum()) for place in range(self.batch_sizes[0])]


def _lengths(op: str, lengths: Any, batch: int, most: int) -> list[int]:
    found = [int(length) for length in np.asarray(lengths)]
    if len(found) != batch or not all(1 <= length <= most for length in found):
        raise ShapeError(
            f"[{op}] lengths {found} of {batch} sequences of up to {most} steps: give one number "
            "for each, from 1 to the padded length"
        )
    return found


def _inside(lengths: Sequence[int] | np.ndarray, steps: int) -> np.ndarray:
    """Whether a step (rows) is within a sequence (columns)."""
    return np.arange(steps)[:, None] < np.asarray(lengths, np.int64)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch ``(L, N, ...)``, with ``batch_first`` ``(N, L, ...)``.

    Args:
        input: the padded batch.
        lengths: one number of steps for each sequence.
        batch_first: which of the two layouts.
        enforce_sorted: refuse lengths that do not descend; otherwise they are sorted.

    Raises:
        ShapeError: for lengths that do not fit.
        OptionError: for lengths that do not descend and must.

    >>> pack_padded_sequence(lm.ones((3, 2)), [3, 1]).batch_sizes
    (2, 1, 1)
    """
    x = lm.swapaxes(input, 0, 1) if batch_first else input
    steps, batch = x.shape[:2]
    sizes = np.asarray(_lengths("pack_padded_sequence", lengths, batch, steps))
    order = np.argsort(-sizes, kind="stable")
    if enforce_sorted and (np.diff(sizes) > 0).any():
        raise OptionError(
            f"[pack_padded_sequence] lengths {sizes.tolist()} do not descend; sort the sequences, "
            "or pass enforce_sorted=False"
        )
    inside = _inside(sizes[order], int(sizes.max()))
    place = (np.arange(len(inside))[:, None] * batch + order)[inside]
    data = lm.take(x.reshape(steps * batch, *x.shape[2:]), place, axis=0)
    counts = tuple(int(n) for n in inside.sum(1))
    if enforce_sorted:
        return PackedSequence(data, counts)
    back = np.argsort(order)
    return PackedSequence(data, counts, tuple(order.tolist()), tuple(back.tolist()))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The padded batch, in the order from before packing, and the lengths (int64).

    Raises:
        OptionError: if ``total_length`` is shorter than the longest sequence.

    >>> packed = pack_padded_sequence(lm.ones((3, 2)), [3, 1])
    >>> padded, lengths = pad_packed_sequence(packed)
    >>> padded.tolist(), lengths.tolist()
    ([[1.0, 1.0], [1.0, 0.0], [1.0, 0.0]], [3, 1])
    """
    longest = len(sequence.batch_sizes)
    steps = longest if total_length is None else total_length
    if steps < longest:
        raise OptionError(
            f"[pad_packed_sequence] total_length={steps} for a sequence of {longest} steps; give "
            "at least as many"
        )
    sizes = sequence.lengths()
    inside = _inside(sizes, steps)
    total = sum(sequence.batch_sizes)
    place = np.full(inside.shape, total)
    place[inside] = np.arange(total)
    if sequence.unsorted_indices is not None:
        back = list(sequence.unsorted_indices)
        place, sizes = place[:, back], [sizes[k] for k in back]
    data = sequence.data
    padding = lm.full((1, *data.shape[1:]), padding_value, dtype=data.dtype)
    found = lm.take(lm.concat([data, padding]), place, axis=0)
    return lm.swapaxes(found, 0, 1) if batch_first else found, lm.tensor(sizes)


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:  # fmt: skip
    """Sequences ``(L, ...)`` of different lengths as one batch ``(longest, N, ...)``, with
    ``batch_first`` ``(N, longest, ...)``.

    Raises:
        OptionError: for another side than ``"left"`` or ``"right"``, or no sequence.

    >>> pad_sequence([lm.ones(2), lm.ones(1)], batch_first=True).tolist()
    [[1.0, 1.0], [1.0, 0.0]]
    """
    if padding_side not in ("left", "right") or not sequences:
        raise OptionError(
            f"[pad_sequence] {len(sequences)} sequences, padding_side={padding_side!r}; give one "
            "or more, and 'left' or 'right'"
        )
    longest = max(sequence.shape[0] for sequence in sequences)
    rows = []
    for sequence in sequences:
        gap = (longest - sequence.shape[0], *sequence.shape[1:])
        padding = lm.full(gap, padding_value, dtype=sequence.dtype)
        parts = [sequence, padding] if padding_side == "right" else [padding, sequence]
        rows.append(lm.concat(parts))
    return lm.stack(rows, axis=0 if batch_first else 1)


def unpad_sequence(padded: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch without their padding.

    >>> [x.shape for x in unpad_sequence(lm.ones((3, 2)), [3, 1])]
    [(3,), (1,)]
    """
    x = padded if batch_first else lm.swapaxes(padded, 0, 1)
    sizes = _lengths("unpad_sequence", lengths, *x.shape[:2])
    return [x[k, :size] for k, size in enumerate(sizes)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences ``(L, ...)`` of different lengths.

    >>> pack_sequence([lm.ones(2), lm.ones(1)]).batch_sizes
    (2, 1)
    """
    lengths = [int(sequence.shape[0]) for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed batch.

    >>> [x.shape for x in unpack_sequence(pack_sequence([lm.ones(2), lm.ones(1)]))]
    [(2,), (1,)]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
