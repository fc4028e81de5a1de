"""Samples shared by elementwise primitives: shapes, 0-d operands and special values."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from lamella.dtypes import DType
from lamella.ir.node import Node
from lamella.ops.base import Array, Sample

__all__ = ["SHAPES", "binary_samples", "special", "unary_samples"]

SHAPES: tuple[tuple[int, ...], ...] = ((), (0, 3), (17,), (2, 3, 5))


def special(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, position: int) -> Array:
    """Values at the edges of a dtype: all pairs meet in two inputs of 144 elements."""
    values: list[object]
    if dtype.kind == "c":
        ends = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 3.0, 1e-4, -30.0]
        values = [complex(a, b) for a in ends for b in ends]
    elif dtype.kind == "f":
        values = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 3.0, 1e-4, -30.0]
    elif dtype.kind == "b":
        values = [False, True]
    else:
        limits = np.iinfo(dtype.name)
        values = [0, 1, 2, 3, limits.max, limits.min, limits.max - 1, 7]
        values += [-1, -2, -7] if dtype.kind == "i" else [limits.max // 2]
    table = np.asarray(values, dtype=dtype.numpy)
    count = int(np.prod(shape, dtype=int))
    order = np.arange(count) // (1 if position == 0 else len(table) ** (position % 2))
    return np.asarray(table[order % len(table)].reshape(shape))


def unary_samples(
    build: Callable[..., Node], dtypes: Sequence[DType], low: float = -2.0, high: float = 2.0, *,
    rtol: float | None = None, differentiable: bool = True,
) -> Iterator[Sample]:  # fmt: skip
    """Every shape between ``low`` and ``high``, then special values."""
    kinds = tuple(dtypes)
    for shape in SHAPES:
        yield Sample((shape,), build, kinds, None, low, high, None, rtol, differentiable)
    yield Sample(((24,),), build, kinds, draw=special, rtol=rtol, differentiable=False,
                 note="special values")  # fmt: skip


def binary_samples(
    build: Callable[..., Node], dtypes: Sequence[DType], low: float = -2.0, high: float = 2.0, *,
    rtol: float | None = None, differentiable: bool = True,
) -> Iterator[Sample]:  # fmt: skip
    """Every shape, a 0-d operand on either side, broadcasting, then all pairs of special values."""
    kinds = tuple(dtypes)
    pairs = [(shape, shape) for shape in SHAPES]
    pairs += [((), (5,)), ((2, 3), ()), ((2, 1), (3,))]
    for shapes in pairs:
        yield Sample(shapes, build, kinds, None, low, high, None, rtol, differentiable)
    yield Sample(((144,), (144,)), build, kinds, draw=special, rtol=rtol, differentiable=False,
                 note="special values")  # fmt: skip
