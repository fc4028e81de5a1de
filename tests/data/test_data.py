"""The loader, random splits and the digits."""

from __future__ import annotations

import numpy as np
import pytest

import lamella as lm
from lamella.data import DataLoader, Subset, TensorDataset, digits, random_split
from lamella.errors import OptionError, ShapeError

X = np.arange(20.0).reshape(10, 2)
Y = np.arange(10)


def test_digits_are_split_without_overlap_and_evenly() -> None:
    parts = digits()
    assert sum(len(labels) for _, labels in parts) == 1797
    rows = np.concatenate([images.reshape(len(images), -1) for images, _ in parts])
    assert len(np.unique(rows, axis=0)) == len(np.unique(rows.round(6), axis=0)) == 1797
    for images, labels in parts:
        assert images.dtype == np.float32
        assert images.shape[1:] == (1, 8, 8)
        assert images.min() == 0
        assert images.max() == 1
        counts = np.bincount(labels)
        assert counts.max() - counts.min() <= 0.1 * len(labels) / 10 + 2
    assert 350 <= len(parts.test[1]) <= 370


def test_digits_split_repeats_and_follows_the_seed() -> None:
    assert np.array_equal(digits().test[0], digits().test[0])
    assert np.array_equal(digits(seed=3).test[0], digits(seed=3).test[0])
    assert not np.array_equal(digits(seed=3).test[0], digits(seed=4).test[0])


@pytest.mark.parametrize("shares", [(-0.1, 0.2), (0.5, 0.5), (0.9, 0.9)])
def test_digits_refuse_shares_that_leave_nothing(shares: tuple[float, float]) -> None:
    with pytest.raises(OptionError, match=r"\[digits\]"):
        digits(validation=shares[0], test=shares[1])


def test_batches_in_order() -> None:
    batches = list(DataLoader((X, Y), batch_size=4, as_numpy=True))
    assert [len(y) for _, y in batches] == [4, 4, 2]
    assert np.array_equal(np.concatenate([x for x, _ in batches]), X)


def test_tensors_by_default() -> None:
    x, y = next(iter(DataLoader((X, Y), batch_size=3)))
    assert isinstance(x, lm.Tensor)
    assert y.tolist() == [0, 1, 2]


def test_drop_last() -> None:
    loader = DataLoader((X, Y), batch_size=4, drop_last=True, as_numpy=True)
    assert len(loader) == len(list(loader)) == 2


def test_shuffle_covers_all_keeps_rows_together_and_differs_by_epoch() -> None:
    loader = DataLoader((X, Y), batch_size=3, shuffle=True, seed=0, as_numpy=True)
    epochs = [list(loader) for _ in range(2)]
    orders = [np.concatenate([y for _, y in epoch]) for epoch in epochs]
    assert all(sorted(order) == list(range(10)) for order in orders)
    assert not np.array_equal(*orders)
    for epoch in epochs:
        assert all(np.array_equal(x, X[y]) for x, y in epoch)
    again = DataLoader((X, Y), batch_size=3, shuffle=True, seed=0, as_numpy=True)
    assert np.array_equal(np.concatenate([y for _, y in again]), orders[0])


def test_manual_seed_repeats_the_order() -> None:
    def order() -> list[int]:
        lm.manual_seed(5)
        return [y.item() for y in DataLoader(Y, shuffle=True, as_numpy=True)]

    assert order() == order()


def test_structures() -> None:
    assert next(iter(DataLoader({"x": X, "y": Y}, 2, as_numpy=True)))["y"].tolist() == [0, 1]
    assert next(iter(DataLoader(Y, 2, as_numpy=True))).tolist() == [0, 1]
    assert next(iter(DataLoader(TensorDataset(X, Y), 2, as_numpy=True)))[1].tolist() == [0, 1]

    class Squares:
        def __len__(self) -> int:
            return 5

        def __getitem__(self, index: int) -> dict[str, object]:
            return {"n": index, "pair": (np.full(2, index), float(index) ** 2)}

    batch = next(iter(DataLoader(Squares(), 3, as_numpy=True)))
    assert batch["n"].tolist() == [0, 1, 2]
    assert batch["pair"][0].shape == (3, 2)
    assert batch["pair"][1].tolist() == [0.0, 1.0, 4.0]


def test_collate() -> None:
    loader = DataLoader(
        [[1], [2, 3]], 2, collate=lambda rows: [x for row in rows for x in row], as_numpy=True
    )
    assert next(iter(loader)) == [1, 2, 3]


def test_random_split() -> None:
    parts = random_split((X, Y), [7, 3], seed=0)
    assert sorted(np.concatenate([y for _, y in parts])) == list(range(10))
    assert all(np.array_equal(x, X[y]) for x, y in parts)
    assert [len(y) for _, y in random_split((X, Y), [0.75, 0.25], seed=0)] == [8, 2]
    subsets = random_split(list("abcde"), [2, 3], seed=0)
    assert isinstance(subsets[0], Subset)
    assert sorted([*subsets[0], *subsets[1]]) == list("abcde")


def test_errors() -> None:
    with pytest.raises(ShapeError, match="no common first size"):
        DataLoader((X, Y[:5]), 2)
    with pytest.raises(OptionError, match="batch_size=0"):
        DataLoader((X, Y), 0)
    with pytest.raises(OptionError, match="do not sum"):
        random_split((X, Y), [5, 6])
    with pytest.raises(ShapeError, match="cannot be stacked"):
        list(DataLoader([[1], [2, 3]], 2))


@pytest.mark.parametrize("data", [3, None, {1, 2}, (n for n in range(3))])
def test_what_cannot_be_counted_and_indexed_is_refused(data: object) -> None:
    with pytest.raises(OptionError, match=r"\[DataLoader\] a .* __getitem__"):
        DataLoader(data)


@pytest.mark.parametrize("seed", ["a", -1, 2.5])
def test_a_seed_that_is_none_is_refused_at_once(seed: object) -> None:
    with pytest.raises(OptionError, match=r"\[DataLoader\] seed="):
        DataLoader(X, shuffle=True, seed=seed)  # type: ignore[arg-type]
