"""Random bits: a counter-based generator, the same stream on every target and for any number of
threads.

Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2,
3; SC 2011). Input: a key of two uint32 words. Output: element i of the result is the cipher of the
64-bit counter ``offset + i`` under the key, so any part can be computed by itself. New keys use the
counters with the highest bit set, which draws never reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lamella import dtypes, ops
from lamella.dtypes import DType, int64, uint32, uint64
from lamella.errors import DTypeError, ShapeError
from lamella.ir import index as ix
from lamella.ir.dim import Size
from lamella.ir.loops import Const, Expr, apply, cast
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Element, Index, Needs, Primitive, Sample
from lamella.ops.families import check_fits, to_shape
from lamella.ops.movement import reshape
from lamella.ops.validate import require_integer

__all__ = ["RandomBits", "random_bits", "random_fold_in", "random_split", "threefry"]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_TURNS = 5  # of four rounds
_KEYS_FROM = -(2**63)  # as an unsigned counter: 2**63


def threefry(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """The Threefry-2x32 block cipher on uint32 arrays, in NumPy.

    >>> zero = np.zeros((), np.uint32)
    >>> [hex(word) for word in threefry((zero, zero), (zero, zero))]
    ['0x6b200159', '0x99ba4efe']
    """
    with np.errstate(over="ignore"):
        keys = (*key, key[0] ^ key[1] ^ np.uint32(_PARITY))
        x, y = counter[0] + keys[0], counter[1] + keys[1]
        for step in range(_TURNS):
            for turn in _ROTATIONS[step % 2]:
                x = x + y
                y = (y << np.uint32(turn) | y >> np.uint32(32 - turn)) ^ x
            x = x + keys[(step + 1) % 3]
            y = y + keys[(step + 2) % 3] + np.uint32(step + 1)
    return x, y


def _cipher(key: tuple[Expr, Expr], counter: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
    """``threefry`` as loop IR expressions."""
    word = partial(Const, dtype=uint32)
    keys = (*key, apply("xor", apply("xor", *key), word(_PARITY)))
    x, y = apply("add", counter[0], keys[0]), apply("add", counter[1], keys[1])
    for step in range(_TURNS):
        for turn in _ROTATIONS[step % 2]:
            x = apply("add", x, y)
            rotated = apply("or", apply("shl", y, word(turn)), apply("shr", y, word(32 - turn)))
            y = apply("xor", rotated, x)
        x = apply("add", x, keys[(step + 1) % 3])
        y = apply("add", y, apply("add", keys[(step + 2) % 3], word(step + 1)))
    return x, y


@dataclass(frozen=True, slots=True)
class RandomBits(Primitive):
    """key (*L, 2) and offset (*L) to (*L, *shape): the cipher of offset + row-major position in
    ``shape``.

    uint32 results are the first word, uint64 results both, the first one high.
    """

    name = "random_bits"
    kind = "movement"
    cost = 80
    differentiable = False

    def check(self, node: Node) -> None:
        """uint32 keys of two words, int64 offsets of their leading axes."""
        key, offset = node.inputs
        _check(key, offset, node.dtype)
        lead = key.ndim - 1
        check_fits(node, (*key.shape[:-1], *node.shape[lead:]), node.dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """The cipher on all counters at once."""
        key, offset = arrays
        lead = offset.ndim
        inner = shape[lead:]
        ones = (1,) * len(inner)
        count = np.arange(int(np.prod(inner, dtype=np.int64))).reshape(inner)
        counter = (offset.reshape((*offset.shape, *ones)) + count).astype(np.uint64)
        words = (key[..., w].reshape((*key.shape[:-1], *ones)) for w in (0, 1))
        high, low = threefry(
            (next(words), next(words)),
            ((counter >> np.uint64(32)).astype(np.uint32), counter.astype(np.uint32)),
        )
        if dtype is uint32:
            return np.broadcast_to(high, shape)
        return high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """None: bits are integers."""
        return None, None

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """None: bits are integers."""
        return None

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """One more leading axis of keys, each with its own counters from its offset."""
        key, offset = (
            arg if has else to_shape(arg, (size, *arg.shape))
            for arg, has in zip(args, batched, strict=True)
        )
        return make(self, (key, offset), (size, *node.shape), node.dtype)

    def element(self, node: Node, args: Sequence[Element], index: Index) -> Expr:
        """The cipher of the element's counter."""
        lead = node.inputs[1].ndim
        at = ix.linearise(index[lead:], node.shape[lead:])
        counter = ix.add(at, args[1](index[:lead]))
        key = (
            args[0]((*index[:lead], ix.constant(0))),
            args[0]((*index[:lead], ix.constant(1))),
        )
        high = apply("shr", counter, Const(32, int64))
        first, second = _cipher(key, (cast(high, uint32), cast(counter, uint32)))
        if node.dtype is uint32:
            return first
        upper = apply("shl", cast(first, uint64), Const(32, uint64))
        return apply("or", upper, cast(second, uint64))

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """0-d to 3-d results, several keys, far and negative offsets, empty results."""
        cases: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
            ((), ()), ((), (7,)), ((), (2, 3, 5)), ((), (0, 2)), ((3,), (4,)), ((2, 2), (2, 3)),
        )  # fmt: skip
        for lead, shape in cases:
            for dtype in (uint32, uint64):
                yield Sample(
                    ((*lead, 2), lead),
                    lambda k, o, s=shape, d=dtype: random_bits(k, s, d, o),
                    (dtype,),
                    input_dtypes=(uint32, int64),
                    draw=lambda rng, s, d, place: (
                        rng.integers(0, 2**32, s)
                        if place == 0
                        else rng.integers(-(2**62), 2**62, s)
                    ),
                    differentiable=False,
                )


def _check(key: Node, offset: Node, dtype: DType) -> None:
    if dtype is not uint32 and dtype is not uint64:
        raise DTypeError(
            f"[random_bits] dtype {dtype.name}, but bits come as uint32 or uint64; cast the result"
        )
    if key.dtype is not uint32 or key.ndim == 0 or key.shape[-1] != 2:
        raise ShapeError(
            f"[random_bits] a key of {key.dtype.name} {key.shape}, but keys are two uint32 words "
            "in the last axis; make one with lamella.random.key"
        )
    if offset.dtype is not int64 or offset.shape != key.shape[:-1]:
        raise ShapeError(
            f"[random_bits] an offset of {offset.dtype.name} {offset.shape} for keys {key.shape}: "
            "each key has one int64 offset; broadcast it"
        )


def random_bits(
    key: Node, shape: Sequence[Size], dtype: DType = dtypes.uint32, offset: Node | None = None
) -> Node:
    """Uniform random bits: element i of ``shape`` is Threefry-2x32-20 of the counter ``offset +
    i``.

    Args:
        key: uint32 ``(*L, 2)``; each key fills a result of its own.
        shape: the shape for each key.
        dtype: uint32 (the first word) or uint64 (both, the first one high).
        offset: int64 ``(*L)``; default 0. Draws keep it non-negative.

    Returns:
        ``(*L, *shape)`` of ``dtype``.

    Raises:
        DTypeError, ShapeError: for other dtypes or shapes.

    >>> key = ops.full(0, (2,), dtypes.uint32)
    >>> random_bits(key, (2, 3)).shape
    (2, 3)
    """
    start = ops.full(0, key.shape[:-1], int64) if offset is None else offset
    _check(key, start, dtype)
    return make(RandomBits(), (key, start), (*key.shape[:-1], *shape), dtype)


def _as_key(bits: Node) -> Node:
    """Both words of uint64 bits, along a new last axis."""
    high = ops.cast(ops.bitwise_right_shift(bits, ops.constant(32, uint64)), uint32)
    pair = [reshape(word, (*word.shape, 1)) for word in (high, ops.cast(bits, uint32))]
    return ops.concatenate(pair, bits.ndim)


def random_split(key: Node, count: Size) -> Node:
    """``count`` new keys from a ``key`` uint32 (2): ``(count, 2)``.

    Key i is ``random_fold_in(key, i)``.

    Raises:
        ShapeError: for other keys.

    >>> random_split(ops.full(0, (2,), dtypes.uint32), 3).shape
    (3, 2)
    """
    first = ops.full(_KEYS_FROM, key.shape[:-1], int64)
    return _as_key(random_bits(key, (count,), uint64, first))


def random_fold_in(key: Node, data: Node) -> Node:
    """The new key that ``key`` gives for the 0-d integer ``data``: the cipher of 2⁶³ + data.

    Raises:
        ShapeError: for other keys, or data that is not 0-d.
        DTypeError: for data that is not an integer.

    >>> random_fold_in(ops.full(0, (2,), dtypes.uint32), ops.constant(7, dtypes.int64)).shape
    (2,)
    """
    require_integer("random_fold_in", data)
    place = ops.add(ops.cast(data, int64), ops.constant(_KEYS_FROM, int64))
    return _as_key(random_bits(key, (), uint64, place))
