"""The transforms users call: checks, lengths, axes and scales around ``plan.transform``.

Input: tensors or anything :func:`lamella.asarray` takes. Output: complex tensors (real ones of
``irfft``, ``irfftn`` and ``hfft``).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamella import ops
from lamella.dtypes import DType, float32, float64
from lamella.errors import DTypeError, OptionError, ShapeError, did_you_mean
from lamella.ir.dim import Dim, Size, product
from lamella.ir.node import Node
from lamella.ops.families import to_shape
from lamella.tensor.axes import axes_of, axis_of
from lamella.tensor.complex import complex, conj
from lamella.tensor.core import node_of, wrap
from lamella.tensor.deferring import deferring
from lamella.tensor.fft.plan import Pair, kept, settled, transform, turns
from lamella.tensor.host import node_from_array
from lamella.tensor.joining import concat, stack
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.linalg import matmul
from lamella.tensor.manipulation import flip
from lamella.tensor.operands import TensorLike, as_float, as_node

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "fft", "fft2", "fftn", "hfft", "ifft", "ifft2", "ifftn", "ihfft", "irfft", "irfft2", "irfftn",
    "rfft", "rfft2", "rfftn",
]  # fmt: skip

_FORWARD: Final = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}
_SHORT: Final = 512  # real transforms up to this length are contractions of their own


# -- checks ----------------------------------------------------------------------------------------
def _input(name: str, x: TensorLike, real: bool = False) -> Node:
    node = as_float(as_node(x))
    if node.ndim == 0:
        raise ShapeError(f"[{name}] takes an axis, but a 0-d value has none; reshape it to (1,)")
    if node.dtype.kind == "c":
        if real:
            raise DTypeError(
                f"[{name}] takes real numbers, not {node.dtype.name}; use "
                f"{name.replace('rfft', 'fft').replace('ihfft', 'ifft')}, or pass the real part"
            )
        return node
    return ops.cast(node, float64 if node.dtype is float64 else float32)


def _scale(name: str, norm: Norm, n: int, sign: int) -> float:
    norm = "backward" if norm is None else norm
    if norm not in _FORWARD:
        raise OptionError(f"[{name}] no norm {norm!r}; {did_you_mean(str(norm), _FORWARD)}")
    power = _FORWARD[norm] if sign < 0 else 1.0 - _FORWARD[norm]
    return math.pow(n, -power)


def length_of(name: str, n: Any, present: Any) -> int:
    """The length ``n`` of a transform, by default the one there is."""
    if n is None:
        n = present
    if isinstance(n, Dim):
        raise ShapeError(
            f"[{name}] an axis of unknown size {n}: its program depends on the size; give n=, or "
            "do not mark the axis dynamic"
        )
    try:
        found = operator.index(n)
    except TypeError:
        raise DTypeError(f"[{name}] the length {n!r:.40} is not an integer; give one") from None
    if found < 1:
        raise OptionError(f"[{name}] a transform of length {found}; lengths are positive")
    return found


def fitted(x: Tensor, n: int) -> Tensor:
    """The last axis cut or filled with zeros to length ``n``."""
    size: Size = x.shape[-1]
    if size == n:
        return x
    if not isinstance(size, Dim) and size > n:
        return x[..., :n]
    fill = wrap(ops.full(0.0, (*x.shape[:-1], n - size), x.dtype))
    return concat([x, fill], axis=-1)


def _parts(node: Node) -> tuple[Tensor, Tensor | None]:
    if node.dtype.kind != "c":
        return wrap(node), None
    return wrap(ops.real(node)), wrap(ops.imag(node))


def _whole(p: Tensor, q: Tensor) -> Tensor:
    """The pair, of parts in memory: what is computed lane by lane is not computed pairwise."""
    return complex(settled(p), settled(q))


def _scaled(pair: tuple[Tensor, Tensor], scale: float) -> tuple[Tensor, Tensor]:
    return pair if scale == 1.0 else (pair[0] * scale, pair[1] * scale)


# -- along one axis --------------------------------------------------------------------------------
def _along(pair: Pair, axis: int, n: int, sign: int, scale: float) -> tuple[Tensor, Tensor]:
    re, im = (None if x is None else fitted(x.moveaxis(axis, -1), n) for x in pair)
    shape = re.shape  # type: ignore[union-attr]
    flat = (product(shape[:-1]), n)
    re, im = (None if x is None else x.reshape(flat) for x in (re, im))
    p, q = _scaled(transform(re, im, sign), scale)  # type: ignore[arg-type]
    return p.reshape(shape).moveaxis(-1, axis), q.reshape(shape).moveaxis(-1, axis)


def _one(name: str, x: TensorLike, n: Any, axis: int, norm: Norm, sign: int) -> Tensor:
    node = _input(name, x)
    place = axis_of(name, axis, node.shape)
    length = length_of(name, n, node.shape[place])
    scale = _scale(name, norm, length, sign)
    return _whole(*_along(_parts(node), place, length, sign, scale))


@deferring
@with_synonyms
def fft(x: TensorLike, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """``X[k] = Σ x[j] exp(-2πi jk / n)`` along ``axis``, cut or filled with zeros to length ``n``.

    Raises:
        OptionError: for an unknown ``norm`` or a length below 1.
        ShapeError: for an axis that is not there, or a 0-d input.

    >>> fft([1.0, 2.0]).tolist()
    [(3+0j), (-1+0j)]
    """
    return _one("fft", x, n, axis, norm, -1)


@deferring
@with_synonyms
def ifft(x: TensorLike, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """``x[j] = 1/n Σ X[k] exp(2πi jk / n)``, the inverse of :func:`fft`.

    >>> ifft([3.0, -1.0]).tolist()
    [(1+0j), (2+0j)]
    """
    return _one("ifft", x, n, axis, norm, 1)


@lru_cache(maxsize=64)
def _half_matrix(n: int, inverse: bool, dtype: DType) -> Node:
    """cos and -sin of 2π jk / n for k up to n/2, side by side: (n, n + 2); the inverse's
    transposed, with each frequency counted as often as it stands for.
    """
    j, k = np.arange(n)[:, None], np.arange(n // 2 + 1)
    table = turns(-j * k, n)
    parts = [table.real, table.imag]
    if inverse:
        often = np.where((k == 0) | (2 * k == n), 1.0, 2.0)
        parts = [part * often for part in parts]
    matrix = np.concatenate(parts, axis=1)
    return node_from_array(np.ascontiguousarray(matrix.T if inverse else matrix, dtype.numpy))


@lru_cache(maxsize=64)
def _half_turns(n: int, dtype: DType) -> tuple[Node, Node]:
    """Half of ``exp(-2πi k / n)`` for k up to n/2."""
    table = turns(-np.arange(n // 2 + 1), n) / 2
    c, s = (node_from_array(part.astype(dtype.numpy)) for part in (table.real, table.imag))
    return c, s


def _mirrored(x: Tensor) -> Tensor:
    """``x[k]`` with the last axis at -k modulo its length plus one: x[m-1], …, x[0]."""
    return flip(x, -1)


def _real_last(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The frequencies up to n/2 of a real tensor along the last axis, unscaled.

    An even length is one complex transform of half of it, of the even and odd elements as parts.
    """
    if n <= _SHORT:
        both = kept(matmul(x, wrap(_half_matrix(n, False, x.dtype))))
        return both[..., : n // 2 + 1], both[..., n // 2 + 1 :]
    if n % 2:
        p, q = transform(x, None, -1)
        return p[..., : n // 2 + 1], q[..., : n // 2 + 1]
    node, rows, half = node_of(x), x.shape[0], n // 2
    even, odd = (wrap(ops.slice(node, (0, k), (rows, half), (1, 2))) for k in (0, 1))
    found = map(node_of, transform(even, odd, -1))
    re, im = (
        ops.concatenate([z, ops.slice(z, (0, 0), (rows, 1))], 1)  # Z[m] = Z[0]
        for z in found
    )
    re, im = _untangled((re, im), (ops.flip(re, (1,)), ops.flip(im, (1,))), n)
    return wrap(re), wrap(im)


def _untangled(z: tuple[Node, Node], back: tuple[Node, Node], n: int) -> tuple[Node, Node]:
    """The spectrum of real numbers from that of a complex half as many, and the same from its
    end: the even elements have ``(Z[k] + conj Z[m-k]) / 2``, the odd ones ``(Z[k] - conj Z[m-k]) /
    2i`` (Press et al., Numerical Recipes, 12.3).
    """
    (p, q), (r, t) = z, back
    c, s = (to_shape(table, p.shape) for table in _half_turns(n, p.dtype))
    half = ops.constant(0.5, p.dtype)
    even = ops.multiply(ops.add(p, r), half), ops.multiply(ops.subtract(q, t), half)
    a, b = ops.add(q, t), ops.subtract(r, p)  # twice the odd ones; the table has the halves
    return (
        ops.add(even[0], ops.subtract(ops.multiply(a, c), ops.multiply(b, s))),
        ops.add(even[1], ops.add(ops.multiply(a, s), ops.multiply(b, c))),
    )


def weighted_spectra(frames: Tensor, weights: Tensor, norm: str) -> Tensor:
    """:func:`rfft` of ``frames * weights`` along the last axis, its frequencies along the last axis
    but one: for short frames one contraction, which reads and writes in the order it likes.
    """
    n = int(frames.shape[-1])
    if n > _SHORT or frames.dtype.kind != "f" or weights.dtype is not frames.dtype:
        return rfft(frames * weights, norm=norm).swapaxes(-1, -2)
    scale = _scale("rfft", norm, n, -1)
    table = wrap(_half_matrix(n, False, frames.dtype)) * (weights * scale).unsqueeze(-1)
    both = kept(matmul(table.swapaxes(0, 1), frames.swapaxes(-1, -2)))
    half = n // 2 + 1
    return complex(both[..., :half, :], both[..., half:, :])


def _real_inverse_last(p: Tensor, q: Tensor, n: int) -> Tensor:
    """The real tensor of length n with these frequencies up to n/2, unscaled."""
    if n <= _SHORT:
        return matmul(concat([p, q], axis=-1), wrap(_half_matrix(n, True, p.dtype)))
    half = n // 2
    if n % 2:
        p, q = (
            concat([p, flip(p[..., 1:], -1)], axis=-1),
            concat([q[..., :1] * 0, q[..., 1:], -flip(q[..., 1:], -1)], axis=-1),
        )
        return transform(p, q, 1)[0]
    edge = q[..., :1] * 0  # the imaginary parts of the first and last frequency do not count
    q = concat([edge, q[..., 1:half], edge], axis=-1)
    r, t = _mirrored(p), _mirrored(q)
    c, s = (wrap(node) for node in _half_turns(n, p.dtype))
    even, odd = (p + r, q - t), (p - r, q + t)
    a, b = odd[0] * c + odd[1] * s, odd[1] * c - odd[0] * s  # times exp(2πi k / n) / 2
    re, im = (even[0] - b * 2)[..., :half], (even[1] + a * 2)[..., :half]
    x, y = transform(re, im, 1)
    return stack([x, y], axis=-1).reshape((*x.shape[:-1], n))


@deferring
@with_synonyms
def rfft(x: TensorLike, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """:func:`fft` of real numbers, only the frequencies 0 … n//2 (the others are conjugates).

    Raises:
        DTypeError: for a complex input.

    >>> rfft([1.0, 2.0, 3.0]).shape
    (2,)
    """
    node = _input("rfft", x, real=True)
    place = axis_of("rfft", axis, node.shape)
    length = length_of("rfft", n, node.shape[place])
    scale = _scale("rfft", norm, length, -1)
    moved = fitted(wrap(node).moveaxis(place, -1), length)
    flat = moved.reshape((product(moved.shape[:-1]), length))
    p, q = _scaled(_real_last(flat, length), scale)
    shape = (*moved.shape[:-1], length // 2 + 1)
    p, q = (part.reshape(shape).moveaxis(-1, place) for part in (p, q))
    plain = length <= _SHORT and place == node.ndim - 1
    return complex(p, q) if plain else _whole(p, q)


def _inverse_real(
    name: str, node: Node, n: Any, axis: int, norm: Norm, sign: int = 1
) -> Tensor:
    place = axis_of(name, axis, node.shape)
    present = node.shape[place]
    length = length_of(name, n, None if isinstance(present, Dim) else 2 * (present - 1))
    scale = _scale(name, norm, length, sign)
    re, im = _parts(node)
    im = re * 0 if im is None else im
    p, q = (fitted(part.moveaxis(place, -1), length // 2 + 1) for part in (re, im))
    shape = p.shape
    p, q = (part.reshape((product(shape[:-1]), shape[-1])) for part in (p, q))
    found = _real_inverse_last(p, q, length)
    found = (found if scale == 1.0 else found * scale).reshape((*shape[:-1], length))
    return found.moveaxis(-1, place)


@deferring
@with_synonyms
def irfft(x: TensorLike, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of :func:`rfft`: real numbers of length ``n`` (default 2 (m - 1)). The imaginary
    parts of frequency 0 and, for even ``n``, n/2 are not looked at.

    >>> irfft([3.0, -1.0]).tolist()
    [1.0, 2.0]
    """
    return _inverse_real("irfft", _input("irfft", x), n, axis, norm)


@with_synonyms
def hfft(x: TensorLike, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """:func:`fft` of numbers with conjugate symmetry, given by their first half: a real result of
    length ``n`` (default 2 (m - 1)).

    >>> hfft([1.0, 2.0]).tolist()
    [3.0, -1.0]
    """
    node = as_node(conj(wrap(_input("hfft", x))))
    return _inverse_real("hfft", node, n, axis, norm, -1)


@with_synonyms
def ihfft(x: TensorLike, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of :func:`hfft`: the first half of a result with conjugate symmetry.

    >>> ihfft([3.0, -1.0]).tolist()
    [(1+0j), (2+0j)]
    """
    node = _input("ihfft", x, real=True)
    place = axis_of("ihfft", axis, node.shape)
    length = length_of("ihfft", n, node.shape[place])
    scale = _scale("ihfft", norm, length, 1)
    return conj(rfft(wrap(node), length, axis)) * scale


# -- along several axes ----------------------------------------------------------------------------
def _listed(name: str, what: str, value: Any) -> list[Any]:
    """The lengths or axes given."""
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str):
        raise OptionError(f"[{name}] {what}={value!r:.40}; give a tuple, an entry for each axis")
    return list(value)


def axes_and_lengths(name: str, node: Node, s: Any, axes: Any) -> tuple[tuple[int, ...], list[Any]]:
    """The axes in the order given, and the length of each (None: its own)."""
    ndim = node.ndim
    s, axes = (each if each is None else _listed(name, what, each)
               for what, each in (("s", s), ("axes", axes)))  # fmt: skip
    if axes is None:
        count = ndim if s is None else len(s)
        if count > ndim:
            raise ShapeError(
                f"[{name}] {count} lengths s={tuple(s)} for shape {node.shape}, which has {ndim} "
                "axes; give one for each axis"
            )
        places = tuple(range(ndim - count, ndim))
    else:
        places = tuple(axis_of(name, axis, node.shape) for axis in axes)
        axes_of(name, places, node.shape)  # refuses an axis named twice
    lengths = [None] * len(places) if s is None else list(s)
    if len(lengths) != len(places):
        raise ShapeError(
            f"[{name}] {len(lengths)} lengths for {len(places)} axes; give one for each axis"
        )
    return places, lengths


def _several(name: str, x: TensorLike, s: Any, axes: Any, norm: Norm, sign: int) -> Tensor:
    node = _input(name, x)
    places, lengths = axes_and_lengths(name, node, s, axes)
    pair: Any = _parts(node)
    for place, length in zip(places, lengths, strict=True):
        n = length_of(name, length, node.shape[place])
        pair = _along(pair, place, n, sign, _scale(name, norm, n, sign))
    if pair[1] is None:
        return complex(pair[0], pair[0] * 0)
    return _whole(*pair)


Norm = str | None  # None is "backward"
Sizes = Sequence[int] | None


@deferring
@with_synonyms
def fftn(x: TensorLike, s: Sizes = None, axes: Sizes = None, norm: Norm = "backward") -> Tensor:
    """:func:`fft` along several axes (None: all, or the last ``len(s)``), of lengths ``s``.

    >>> fftn([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[(10+0j), (-2+0j)], [(-4+0j), 0j]]
    """
    return _several("fftn", x, s, axes, norm, -1)


@deferring
@with_synonyms
def ifftn(x: TensorLike, s: Sizes = None, axes: Sizes = None, norm: Norm = "backward") -> Tensor:
    """The inverse of :func:`fftn`.

    >>> ifftn([[10.0, -2.0], [-4.0, 0.0]]).tolist()
    [[(1+0j), (2+0j)], [(3+0j), (4+0j)]]
    """
    return _several("ifftn", x, s, axes, norm, 1)


@deferring
@with_synonyms
def rfftn(x: TensorLike, s: Sizes = None, axes: Sizes = None, norm: Norm = "backward") -> Tensor:
    """:func:`rfft` along the last of ``axes``, :func:`fft` along the others.

    >>> rfftn([[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 2)
    """
    node = _input("rfftn", x, real=True)
    places, lengths = axes_and_lengths("rfftn", node, s, axes)
    if not places:
        raise ShapeError("[rfftn] no axes; give at least one")
    first = rfft(wrap(node), lengths[-1], places[-1], norm)
    return _several("rfftn", first, lengths[:-1], places[:-1], norm, -1) if lengths[1:] else first


@deferring
@with_synonyms
def irfftn(x: TensorLike, s: Sizes = None, axes: Sizes = None, norm: Norm = "backward") -> Tensor:
    """The inverse of :func:`rfftn`: real numbers, of length 2 (m - 1) along the last axis unless
    ``s`` says another.

    >>> irfftn([[10.0, -2.0], [-4.0, 0.0]]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    node = _input("irfftn", x)
    places, lengths = axes_and_lengths("irfftn", node, s, axes)
    if not places:
        raise ShapeError("[irfftn] no axes; give at least one")
    if lengths[1:]:
        node = as_node(_several("irfftn", wrap(node), lengths[:-1], places[:-1], norm, 1))
    return _inverse_real("irfftn", node, lengths[-1], places[-1], norm)


_LAST_TWO: Final = (-2, -1)


@deferring
@with_synonyms
def fft2(
    x: TensorLike, s: Sizes = None, axes: Sizes = _LAST_TWO, norm: Norm = "backward"
) -> Tensor:
    """:func:`fftn` along two axes.

    >>> fft2([[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 2)
    """
    return fftn(x, s, axes, norm)


@deferring
@with_synonyms
def ifft2(
    x: TensorLike, s: Sizes = None, axes: Sizes = _LAST_TWO, norm: Norm = "backward"
) -> Tensor:
    """:func:`ifftn` along two axes.

    >>> ifft2([[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 2)
    """
    return ifftn(x, s, axes, norm)


@deferring
@with_synonyms
def rfft2(
    x: TensorLike, s: Sizes = None, axes: Sizes = _LAST_TWO, norm: Norm = "backward"
) -> Tensor:
    """:func:`rfftn` along two axes.

    >>> rfft2([[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 2)
    """
    return rfftn(x, s, axes, norm)


@deferring
@with_synonyms
def irfft2(
    x: TensorLike, s: Sizes = None, axes: Sizes = _LAST_TWO, norm: Norm = "backward"
) -> Tensor:
    """:func:`irfftn` along two axes.

    >>> irfft2([[10.0, -2.0], [-4.0, 0.0]]).shape
    (2, 2)
    """
    return irfftn(x, s, axes, norm)
