"""Batches from arrays or datasets: the loader, its datasets, and random splits.

Input: a tuple (or dict) of arrays with equal first sizes, one array, or anything with ``__len__``
and ``__getitem__``.
Output: batches of the same structure, as tensors (or NumPy arrays on request).
Invariant: the order depends on the seed and the epoch alone, so a run repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from lamella.errors import OptionError, ShapeError

__all__ = ["DataLoader", "Dataset", "Subset", "TensorDataset", "random_split"]


class Dataset(Protocol):
    """Anything with a length whose items are examples: arrays, numbers, tuples or dicts of them."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Any: ...


class TensorDataset:
    """Arrays with equal first sizes, read as one dataset of tuples.

    Raises:
        ShapeError: if the first sizes differ or an array has no axes.

    >>> TensorDataset(np.arange(3), np.ones((3, 2)))[1]
    (np.int64(1), array([1., 1.]))
    """

    def __init__(self, *arrays: object) -> None:
        self.arrays = tuple(np.asarray(array) for array in arrays)
        _common_length(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(array[index] for array in self.arrays)


class Subset:
    """The examples of ``dataset`` at ``indices``.

    >>> list(Subset("abcd", [3, 0]))
    ['d', 'a']
    """

    def __init__(self, dataset: Dataset, indices: Sequence[int] | np.ndarray) -> None:
        self.dataset = dataset
        self.indices = np.asarray(indices, np.int64)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[int(self.indices[index])]


def random_split(
    data: Any, lengths: Sequence[int | float], *, seed: int | None = None
) -> list[Any]:
    """Split examples at random into parts of the given lengths, or of the given shares when they
    sum to 1.

    Args:
        data: a tuple, list or dict of arrays (each part is one too) or a dataset (each part is a
            :class:`Subset`).
        lengths: whole numbers that sum to the number of examples, or shares that sum to 1.
        seed: the order; ``None`` takes it from ``lamella.random``'s implicit generator.

    Raises:
        OptionError: if the lengths do not add up.

    >>> [part.tolist() for (part,) in random_split((np.arange(5),), [3, 2], seed=0)]
    [[2, 4, 3], [0, 1]]
    """
    arrays = _arrays(data)
    count = len(data) if arrays is None else _common_length(arrays)
    sizes = _sizes(lengths, count)
    order = np.random.default_rng(_seed(seed)).permutation(count)
    parts = np.split(order, np.cumsum(sizes)[:-1])
    if arrays is None:
        return [Subset(data, part) for part in parts]
    return [_like(data, [array[part] for array in arrays]) for part in parts]


class DataLoader:
    """Batches of a dataset, each pass over it being one epoch.

    Args:
        data: a tuple, list or dict of arrays with equal first sizes, one array, or a dataset.
        batch_size: the number of examples a batch.
        shuffle: whether every epoch has its own random order.
        drop_last: whether to leave out a last batch that is short.
        seed: the order of the epochs; ``None`` takes it from ``lamella.random``'s implicit
            generator, so ``manual_seed`` repeats it.
        collate: turns a list of a dataset's examples into a batch (default: stacks arrays and
            numbers, inside tuples and dicts); arrays are indexed as a whole and need none.
        as_numpy: whether to yield NumPy arrays in place of tensors.

    Raises:
        OptionError: if ``batch_size`` is not positive, ``seed`` negative or no whole number, or
            ``data`` nothing that can be counted and indexed.
        ShapeError: if the arrays' first sizes differ.

    >>> loader = DataLoader((np.arange(5), np.ones((5, 2))), batch_size=2, as_numpy=True)
    >>> len(loader), [ids.tolist() for ids, _ in loader]
    (3, [[0, 1], [2, 3], [4]])
    """

    def __init__(
        self,
        data: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        *,
        seed: int | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
        as_numpy: bool = False,
    ) -> None:
        if not isinstance(batch_size, int) or batch_size < 1:
            raise OptionError(
                f"[DataLoader] batch_size={batch_size!r} is not a positive whole number; give one"
            )
        _check(data, seed)
        self.dataset = data
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.collate = collate or _stack
        self.as_numpy = as_numpy
        self._arrays = _arrays(data)
        self._length = len(data) if self._arrays is None else _common_length(self._arrays)
        self._seed = seed
        self._generator: np.random.Generator | None = None

    def __len__(self) -> int:
        """The number of batches an epoch."""
        whole, rest = divmod(self._length, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        order = self._order()
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            batch = self._batch(order[start : start + self.batch_size])
            yield batch if self.as_numpy else _to_tensors(batch)

    def _order(self) -> np.ndarray:
        if not self.shuffle:
            return np.arange(self._length)
        if self._generator is None:
            self._generator = np.random.default_rng(_seed(self._seed))
        return self._generator.permutation(self._length)

    def _batch(self, chosen: np.ndarray) -> Any:
        if self._arrays is None:
            return self.collate([self.dataset[int(index)] for index in chosen])
        if not self.shuffle and len(chosen):
            rows: Any = slice(int(chosen[0]), int(chosen[-1]) + 1)
        else:
            rows = chosen
        return _like(self.dataset, [array[rows] for array in self._arrays])


def _check(data: Any, seed: Any) -> None:
    countable = hasattr(data, "__len__") and hasattr(data, "__getitem__")
    if not (countable or hasattr(data, "__dlpack__")):
        raise OptionError(
            f"[DataLoader] a {type(data).__name__} has no length or cannot be indexed; pass arrays "
            "or a dataset with __len__ and __getitem__ (a generator: make a list of it)"
        )
    if seed is not None and not (isinstance(seed, int | np.integer) and seed >= 0):
        raise OptionError(
            f"[DataLoader] seed={seed!r} is not a whole number from 0 up; give one, or None"
        )


def _arrays(data: Any) -> list[np.ndarray] | None:
    """The arrays that ``data`` holds, or ``None`` if it is a dataset of single examples."""
    if isinstance(data, np.ndarray) or hasattr(data, "__dlpack__"):
        return [np.asarray(data)]
    if isinstance(data, TensorDataset):
        return list(data.arrays)
    parts = list(data.values()) if isinstance(data, Mapping) else data
    if isinstance(parts, (tuple, list)) and parts and all(hasattr(part, "shape") for part in parts):
        if isinstance(data, list) and not all(len(part.shape) for part in parts):
            return None
        return [np.asarray(part) for part in parts]
    return None


def _like(data: Any, parts: list[np.ndarray]) -> Any:
    if isinstance(data, Mapping):
        return dict(zip(data, parts, strict=True))
    if isinstance(data, (tuple, TensorDataset)):
        return tuple(parts)
    return parts if isinstance(data, list) else parts[0]


def _common_length(arrays: Sequence[np.ndarray]) -> int:
    lengths = [array.shape[0] if array.ndim else None for array in arrays]
    if not lengths or None in lengths or len(set(lengths)) > 1:
        raise ShapeError(
            f"[DataLoader] shapes {[array.shape for array in arrays]} have no common first size, "
            "which counts the examples; pass arrays with one row per example"
        )
    return int(lengths[0] or 0)


def _sizes(lengths: Sequence[int | float], count: int) -> list[int]:
    sizes = [int(n) for n in lengths]
    if any(isinstance(n, float) for n in lengths) and abs(sum(lengths) - 1) < 1e-6:
        sizes = [int(count * share) for share in lengths]
        for index in range(count - sum(sizes)):
            sizes[index % len(sizes)] += 1
    if sum(sizes) != count or min(sizes, default=0) < 0:
        raise OptionError(
            f"[random_split] lengths {list(lengths)} do not sum to the {count} examples (nor to "
            "1); give lengths or shares that add up"
        )
    return sizes


def _seed(seed: int | None) -> int:
    if seed is not None:
        return seed
    import lamella as lm

    return int(lm.random.randint(2**31).item())


def _stack(examples: list[Any]) -> Any:
    """Stack the examples' arrays and numbers along a new first axis, inside tuples and dicts."""
    first = examples[0]
    if isinstance(first, Mapping):
        return {name: _stack([example[name] for example in examples]) for name in first}
    if isinstance(first, tuple) or (
        isinstance(first, list) and len({len(e) for e in examples}) == 1
    ):
        return tuple(_stack(list(column)) for column in zip(*examples, strict=True))
    try:
        return np.stack([np.asarray(example) for example in examples])
    except ValueError:
        shapes = sorted({np.shape(example) for example in examples})
        raise ShapeError(
            f"[DataLoader] examples of shapes {shapes} cannot be stacked into one batch; bring "
            "them to one shape or pass collate=..."
        ) from None


def _to_tensors(batch: Any) -> Any:
    import lamella as lm

    if isinstance(batch, Mapping):
        return {name: _to_tensors(value) for name, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        return type(batch)(_to_tensors(value) for value in batch)
    if isinstance(batch, np.ndarray) and batch.dtype.kind not in "OUS":
        return lm.asarray(batch)
    return batch
