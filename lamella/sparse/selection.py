"""Rows and columns of a sparse matrix, by NumPy's indexing.

Input: a matrix by compressed rows and an index: numbers, slices, lists or arrays of numbers or of
bools. Output: a sparse matrix of the chosen rows and columns; where one row or column is chosen by
a number, that row or column with its zeros. Which entries these are is worked out at once, so
pattern and index must be known; the values may be traced.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lamella.errors import LamellaIndexError, OptionError
from lamella.sparse.rows import CSR, entries
from lamella.tensor.core import TensorCore, node_of, value_of, wrap
from lamella.tensor.operands import as_node
from lamella.tensor.pending import placeholder_in

__all__ = ["select"]

Numbers = npt.NDArray[np.int64]


def select(a: CSR, index: Any) -> Any:
    """``a[index]``."""
    keys = index if isinstance(index, tuple) else (index,)
    if len(keys) > 2 or any(key is None or key is Ellipsis for key in keys):
        raise LamellaIndexError(
            f"[sparse] {len(keys)} indices, or a new axis, for a matrix; give one for rows, and "
            "one for columns"
        )
    found, single = a, []
    for axis, key in enumerate(keys):
        numbers = _numbers(key, a.pattern.shape[axis], axis)
        single.append(numbers.ndim == 0)
        if not isinstance(key, slice) or key != slice(None):
            found = found.T if axis else found
            found = _rows(found, np.atleast_1d(numbers))
            found = found.T if axis else found
    if not any(single):
        return found
    dense = found.to_dense()
    at = tuple(0 if one else slice(None) for one in (*single, False)[:2])
    return dense[(..., *at)]


def _numbers(key: Any, size: int, axis: int) -> Numbers:
    """The rows (or columns) that a key names, from 0 to ``size``; 0-d for a number."""
    if isinstance(key, slice):
        return np.arange(size)[key]
    if isinstance(key, TensorCore) and placeholder_in(node_of(key)):
        raise OptionError(
            "[sparse] an index that is an argument of a function being transformed, so how many "
            "entries it gives is not known; do it outside, or use to_dense()"
        )
    array = np.asarray(value_of(key) if isinstance(key, TensorCore) else key)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype == bool and array.shape == (size,):
        return np.flatnonzero(array)
    if array.dtype.kind not in "iu" or array.ndim > 1:
        raise LamellaIndexError(
            f"[sparse] an index of {array.dtype}{list(array.shape)} along axis {axis} of size "
            f"{size}; give a number, a slice, numbers, or {size} bools"
        )
    if array.size and not (array.min() >= -size and array.max() < size):
        raise LamellaIndexError(
            f"[sparse] indices from {array.min()} to {array.max()} along axis {axis} of size "
            f"{size}; they count from 0, or from the end by negative numbers"
        )
    return np.asarray(array % max(size, 1), np.int64)


def _rows(a: CSR, rows: Numbers) -> CSR:
    """The rows in this order."""
    starts, columns = a.pattern.known
    counts = starts[rows + 1] - starts[rows]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    places = np.arange(offsets[-1]) + np.repeat(starts[rows] - offsets[:-1], counts)
    data = wrap(entries(node_of(a.data), as_node(places)))
    return CSR(data, columns[places], offsets, (len(rows), a.pattern.shape[1]))
