"""Products of groups of rows or columns, each with a matrix of its own: ``grouped_mm``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

import lamella as lm
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.nn.functional.support import tensor
from lamella.tensor.core import node_of
from lamella.tensor.pending import placeholder_in
from lamella.tensor.tensor import Tensor

__all__ = ["grouped_mm"]


def grouped_mm(
    mat_a: Any, mat_b: Any, *, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Tensor:
    """Matrix products ``a_g @ b_g`` of groups g, as experts compute them (PyTorch's).

    ====================  ====================  ========================  ==============
    ``mat_a``             ``mat_b``             groups                    result
    ====================  ====================  ========================  ==============
    ``(rows, k)``         ``(groups, k, n)``    rows, cut at ``offs``     ``(rows, n)``
    ``(groups, m, k)``    ``(k, columns)``      columns, cut at ``offs``  ``(m, columns)``
    ``(m, k)``            ``(k, n)``            k, cut at ``offs``        ``(groups, m, n)``
    ``(groups, m, k)``    ``(groups, k, n)``    the first axis            ``(groups, m, n)``
    ====================  ====================  ========================  ==============

    Args:
        mat_a: numbers of one floating-point type with ``mat_b``.
        mat_b: as above.
        offs: where each group ends: whole numbers that do not decrease. What lies beyond the last
            belongs to no group, and results are 0 there. Known numbers cost no more than the
            products; as an argument of a compiled function, each group goes through all of the axis
            that is cut.
        bias: added to the result of each group, ``(n,)`` or ``(m, n)`` where groups do not cut it.
        out_dtype: the type of sums and result; by default that of ``mat_a``.

    Raises:
        ShapeError, DTypeError, OptionError: for operands that do not fit.

    >>> a, b = lm.ones((3, 2)), lm.stack([lm.ones((2, 1)), lm.ones((2, 1)) * 10])
    >>> grouped_mm(a, b, offs=[2, 3]).tolist()
    [[2.0], [2.0], [20.0]]
    """
    a, b = tensor(mat_a), tensor(mat_b)
    _check(a, b, offs)
    kind = a.dtype if out_dtype is None else lm.asarray(0, dtype=out_dtype).dtype
    made = lm.matmul(a, b, dtype=kind) if offs is None else _cut(a, b, tensor(offs), kind)
    return made if bias is None else made + tensor(bias)


def _check(a: Tensor, b: Tensor, offs: Any) -> None:
    if a.dtype is not b.dtype or a.dtype.kind != "f":
        raise DTypeError(
            f"[grouped_mm] {a.dtype.name} and {b.dtype.name}; both are of one floating-point type"
        )
    whole = a.ndim == 3 and b.ndim == 3
    fits = a.ndim in (2, 3) and b.ndim in (2, 3) and a.shape[-1] == b.shape[-2]
    if not fits or (whole and a.shape[0] != b.shape[0]):
        raise ShapeError(
            f"[grouped_mm] {a.shape} times {b.shape}: two or three axes each, as many columns of "
            "the first as rows of the second, and as many groups"
        )
    if whole != (offs is None):
        raise OptionError(
            f"[grouped_mm] {a.shape} times {b.shape} "
            + ("has a group a matrix; leave offs out" if whole else "needs offs, the groups' ends")
        )


def _cut(a: Tensor, b: Tensor, offs: Tensor, kind: Any) -> Tensor:
    groups = [m.shape[0] for m in (a, b) if m.ndim == 3]
    if offs.ndim != 1 or offs.dtype.kind not in "iu" or (groups and groups != [offs.shape[0]]):
        raise ShapeError(
            f"[grouped_mm] offs of {offs.dtype.name}{list(offs.shape)} for {groups or 'any'} "
            "groups; one whole number for each, where it ends"
        )
    size = a.shape[0] if b.ndim == 3 else b.shape[-1] if a.ndim == 3 else a.shape[1]
    if placeholder_in(node_of(offs)):
        return _masked(a, b, offs, size, kind)
    ends = [int(end) for end in np.asarray(offs.numpy())]
    if not all(x <= y for x, y in zip([0, *ends], [*ends, size], strict=True)):
        raise OptionError(
            f"[grouped_mm] offs={ends!r:.80} for {size} places; they do not decrease, from 0 to "
            f"{size}"
        )
    return _sliced(a, b, [0, *ends], size, kind)


def _sliced(a: Tensor, b: Tensor, ends: Sequence[int], size: int, kind: Any) -> Tensor:
    """Each group's product by itself."""
    spans = [slice(x, y) for x, y in itertools.pairwise(ends)]
    if b.ndim == 3:
        made = [lm.matmul(a[span], b[g], dtype=kind) for g, span in enumerate(spans)]
        made.append(lm.zeros((size - ends[-1], b.shape[-1]), dtype=kind))
        return lm.concat(made, 0)
    if a.ndim == 3:
        made = [lm.matmul(a[g], b[:, span], dtype=kind) for g, span in enumerate(spans)]
        made.append(lm.zeros((a.shape[1], size - ends[-1]), dtype=kind))
        return lm.concat(made, 1)
    if not spans:
        return lm.zeros((0, a.shape[0], b.shape[1]), dtype=kind)
    return lm.stack([lm.matmul(a[:, span], b[span], dtype=kind) for span in spans])


def _masked(a: Tensor, b: Tensor, offs: Tensor, size: int, kind: Any) -> Tensor:
    """Each group's product with all places, of which it keeps its own."""
    place = lm.arange(size)
    starts = lm.concat([lm.zeros(1, dtype=offs.dtype), offs[:-1]])
    inside = (place >= starts[:, None]) & (place < offs[:, None])
    if a.ndim == b.ndim:
        zero = lm.asarray(0, dtype=a.dtype)
        found: Tensor = lm.map(
            lambda own: lm.matmul(
                lm.where(own, a, zero), lm.where(own[:, None], b, zero), dtype=kind
            ),
            inside,
        )  # fmt: skip
        return found
    rows = b.ndim == 3
    shape = (size, b.shape[-1]) if rows else (a.shape[1], size)

    def step(found: Tensor, given: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        matrix, own = given
        made = lm.matmul(*((a, matrix) if rows else (matrix, b)), dtype=kind)
        return lm.where(own[:, None] if rows else own, made, found), None

    found, _ = lm.scan(step, lm.zeros(shape, dtype=kind), (b if rows else a, inside))
    return found
