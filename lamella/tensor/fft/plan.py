"""Discrete Fourier transforms of pairs of real tensors along the last axis, of any length.

Input: real and imaginary parts (the second None where it is zero), the sign of the exponent.
Output: both parts of ``Σ x[j] exp(sign 2πi j k / n)``, unscaled.

Method: short lengths are one contraction with a matrix. Those without a prime factor above 13 are
transformed by ``ops.fourier``, whole where there are many beside each other, else as n = n1 n2
(Cooley and Tukey, 1965): transforms of length n1, twiddle factors, transforms of length n2. Of the
others those up to 128 (to 400 without good factors) are contractions; longer ones are split in the
same way, and large primes are convolutions with a chirp (Bluestein, 1970), of a length that is a
power of 2. Derivatives and batching follow from the parts. Tables are computed in float64, their
angles reduced exactly.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamella import ops
from lamella.dtypes import DType
from lamella.ir.decisions import at_least
from lamella.ir.dim import product
from lamella.ir.node import Node
from lamella.ops.families import to_shape
from lamella.ops.fourier_factors import GREATEST, turns
from lamella.ops.fourier_kernel import table_of
from lamella.tensor.core import node_of, wrap
from lamella.tensor.host import node_from_array
from lamella.tensor.joining import concat
from lamella.tensor.linalg import matmul

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["Pair", "divisor", "kept", "settled", "split", "transform", "turns"]

Pair = tuple["Tensor", "Tensor | None"]

_DIRECT: Final = 128  # lengths that are one contraction
_DIRECT_ODD: Final = 400  # the same, of those without two factors from 16 on
_RADIX: Final = 64  # the longest transforms that others are split into, where there is a choice
_LEAST: Final = 16  # shorter contractions are slow
_MATRIX: Final = 16  # lengths up to which nothing is quicker than one contraction
_WHOLE: Final = 2048  # lengths up to which many transforms are done whole
_LONGEST: Final = 4096  # the longest transform that is not split
_MANY: Final = 8  # transforms beside each other that fill vectors


def divisor(n: int) -> int:
    """The length of the first transforms that one of ``n`` is split into: a divisor up to 64 near
    the right root of n, else the least prime factor; n itself is not split.

    >>> divisor(1024), divisor(128), divisor(200), divisor(1009), divisor(2 * 1009)
    (32, 128, 200, 1009, 2)
    """
    found = [d for d in range(2, _RADIX + 1) if n % d == 0]
    wide = [d for d in found if d >= _LEAST and n // d >= _LEAST]
    if n <= _DIRECT or (n <= _DIRECT_ODD and not wide):
        return n
    stages = math.ceil(math.log(n, _RADIX) - 1e-9)
    target = n ** (1 / stages)
    if found:
        return min(wide or found, key=lambda d: abs(math.log(d / target)))
    return next((d for d in range(_RADIX + 1, math.isqrt(n) + 1) if n % d == 0), n)


def _nodes(table: np.ndarray, dtype: DType) -> tuple[Node, Node]:
    parts = (np.ascontiguousarray(part, dtype.numpy) for part in (table.real, table.imag))
    real, imag = (node_from_array(part) for part in parts)
    return real, imag


@lru_cache(maxsize=256)
def _matrix(n: int, sign: int, dtype: DType) -> tuple[Node, Node]:
    place = np.arange(n)
    return _nodes(turns(sign * np.outer(place, place), n), dtype)


@lru_cache(maxsize=64)
def _twiddles(n1: int, n2: int, sign: int, dtype: DType) -> tuple[Node, Node]:
    return _nodes(turns(sign * np.outer(np.arange(n1), np.arange(n2)), n1 * n2), dtype)


@lru_cache(maxsize=64)
def _chirp(n: int, length: int, sign: int, dtype: DType) -> tuple[Node, Node, Node, Node]:
    """The chirp ``exp(sign πi j² / n)``, and the transform of its conjugate around 0."""
    squares = np.array([j * j % (2 * n) for j in range(n)])
    chirp = turns(sign * squares, 2 * n)
    around = np.zeros(length, complex)
    around[:n] = chirp.conj()
    around[length - n + 1 :] = chirp[1:][::-1].conj()
    return *_nodes(chirp, dtype), *_nodes(np.fft.fft(around) / length, dtype)


def kept(x: Tensor) -> Tensor:
    """``x`` in memory of its own."""
    return wrap(ops.barrier(node_of(x)))


def settled(x: Tensor) -> Tensor:
    """``x`` in memory, where it is not the result of a kernel already."""
    node = node_of(x)
    while node.op.name == "reshape" and node.value is None:
        node = node.inputs[0]
    return x if node.value is not None or node.op.name in ("part", "barrier") else kept(x)


def _times(a: Tensor, b: Tensor | None, c: Any, d: Any) -> tuple[Tensor, Tensor]:
    """``(a + ib) (c + id)``."""
    if b is None:
        return a * c, a * d
    return a * c - b * d, a * d + b * c


def _direct(re: Tensor, im: Tensor | None, n: int, sign: int) -> tuple[Tensor, Tensor]:
    """One contraction along the last axis, in memory of its own: what moves elements afterwards
    then reads one tensor, and the sum is made where the contraction ends.
    """
    c, s = (wrap(node) for node in _matrix(n, sign, re.dtype))
    if im is None:
        return kept(matmul(re, c)), kept(matmul(re, s))
    return kept(matmul(re, c) - matmul(im, s)), kept(matmul(re, s) + matmul(im, c))


def _first(re: Tensor, im: Tensor | None, n: int, sign: int) -> tuple[Tensor, Tensor]:
    """Transforms along the last axis but one."""
    if n > _RADIX:
        turned = None if im is None else im.swapaxes(-1, -2)
        p, q = transform(re.swapaxes(-1, -2), turned, sign)
        return p.swapaxes(-1, -2), q.swapaxes(-1, -2)
    c, s = (wrap(node) for node in _matrix(n, sign, re.dtype))
    if im is None:
        return matmul(c, re), matmul(s, re)
    return matmul(c, re) - matmul(s, im), matmul(s, re) + matmul(c, im)


def _bluestein(re: Tensor, im: Tensor | None, n: int, sign: int) -> tuple[Tensor, Tensor]:
    """``jk = (j² + k² - (k - j)²) / 2`` makes the transform a convolution."""
    length = 1 << (2 * n - 2).bit_length()
    c, s, fc, fs = (wrap(node) for node in _chirp(n, length, sign, re.dtype))
    p, q = _times(re, im, c, s)
    fill = p[..., :1] * 0
    zeros = fill.expand((*p.shape[:-1], length - n))
    p, q = transform(concat([p, zeros], axis=-1), concat([q, zeros], axis=-1), -1)
    p, q = _times(p, q, fc, fs)
    p, q = transform(p, q, 1)
    return _times(p[..., :n], q[..., :n], c, s)


@lru_cache(maxsize=64)
def _table(n: int, sign: int, dtype: DType) -> tuple[Node, Node]:
    return _nodes(table_of(n, sign), dtype)


@lru_cache(maxsize=256)
def split(n: int, many: bool) -> tuple[int, int] | None:
    """The lengths of two transforms that one of ``n`` becomes: (1, n) where it is done whole, None
    where the kernel does not do it. Both are near the root of n; the second is a multiple of 16
    where that is as good, for a short table.

    >>> split(1000, True), split(1024, False), split(1009, True), split(10**7, False)
    ((1, 1000), (32, 32), None, (3125, 3200))
    """
    left = n
    for prime in (2, 3, 5, 7, 11, GREATEST):
        while left % prime == 0:
            left //= prime
    if left != 1 or n <= _MATRIX:
        return None
    if many and n <= _WHOLE:
        return 1, n
    found = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    pairs = [pair for d in found for pair in ((d, n // d), (n // d, d)) if max(pair) <= _LONGEST]
    if not pairs:
        return None
    return min(pairs, key=lambda pair: (sum(pair) + (pair[1] % 16 > 0) * pair[1] / 4, pair))


def _by_kernel(
    re: Tensor, im: Tensor | None, sizes: tuple[int, int], sign: int
) -> tuple[Tensor, Tensor]:
    """Transforms of the rows of ``re`` and ``im``, of two axes each."""
    (n1, n2), rows, dtype = sizes, re.shape[0], re.dtype
    x, y = node_of(re), node_of(re * 0 if im is None else im)
    shape = (1, rows, n2) if n1 == 1 else (rows, n1, n2)
    x, y = ops.reshape(x, shape), ops.reshape(y, shape)
    if n1 == 1:
        x, y = ops.fourier(x, y, _table(n2, sign, dtype), sign, True, True)
    else:
        x, y = ops.fourier(x, y, _table(n1, sign, dtype), sign)
        c, s = (to_shape(node_of(part), shape) for part in _turned(n1, n2, sign, dtype))
        x, y = (
            ops.subtract(ops.multiply(x, c), ops.multiply(y, s)),
            ops.add(ops.multiply(x, s), ops.multiply(y, c)),
        )
        x, y = ops.fourier(x, y, _table(n2, sign, dtype), sign, True, False)
    return wrap(ops.reshape(x, re.shape)), wrap(ops.reshape(y, re.shape))


def _turned(n1: int, n2: int, sign: int, dtype: DType) -> tuple[Tensor, Tensor]:
    """The twiddle factors (n1, n2); those of large tables are products of two, sixteen apart."""
    if n1 * n2 <= 2**16 or n2 % 16:
        c, s = (wrap(node) for node in _twiddles(n1, n2, sign, dtype))
        return c, s
    (a, b), (c, d) = ((wrap(x), wrap(y)) for x, y in _apart(n1, n2, sign, dtype))
    p, q = _times(a, b, c, d)
    return p.reshape((n1, n2)), q.reshape((n1, n2))


@lru_cache(maxsize=64)
def _apart(n1: int, n2: int, sign: int, dtype: DType) -> tuple[tuple[Node, Node], ...]:
    """Of ``j = 16 h + l`` the twiddle factors by h (n1, n2 / 16, 1) and by l (n1, 1, 16)."""
    k = np.arange(n1)[:, None, None]
    steps = (np.arange(0, n2, 16)[:, None], np.arange(16))
    return tuple(_nodes(turns(sign * k * step, n1 * n2), dtype) for step in steps)


def transform(re: Tensor, im: Tensor | None, sign: int) -> tuple[Tensor, Tensor]:
    """The unscaled transform along the last axis; ``sign`` is -1 forwards, 1 backwards.

    >>> from lamella.tensor.creation import tensor
    >>> [part.tolist() for part in transform(tensor([1.0, 2.0]), None, -1)]
    [[3.0, -1.0], [0.0, 0.0]]
    """
    n = int(re.shape[-1])
    rows = product(re.shape[:-1])
    sizes = split(n, at_least(rows, _MANY, False))
    if sizes is not None:
        flat = None if im is None else im.reshape((rows, n))
        p, q = _by_kernel(re.reshape((rows, n)), flat, sizes, sign)
        return p.reshape(re.shape), q.reshape(re.shape)
    re, im = settled(re), None if im is None else settled(im)
    n1 = divisor(n)
    if n1 == n:
        if n > _DIRECT_ODD:
            return _bluestein(re, im, n, sign)
        p, q = _direct(re, im, n, sign)
        return p, q
    n2 = n // n1
    shape = (*re.shape[:-1], n1, n2)
    p, q = _first(re.reshape(shape), None if im is None else im.reshape(shape), n1, sign)
    c, s = (wrap(node) for node in _twiddles(n1, n2, sign, re.dtype))
    p, q = _times(p, q, c, s)
    p, q = transform(p, q, sign)
    return p.swapaxes(-1, -2).reshape(re.shape), q.swapaxes(-1, -2).reshape(re.shape)
