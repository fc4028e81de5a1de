"""Streams of random bits: keys, the implicit generator, uniform and normal numbers as nodes.

Bits come from the counter-based Threefry-2x32 cipher (Salmon et al., "Parallel random numbers: as
easy as 1, 2, 3", 2011). The implicit generator's state is two tensors, a key and a counter of
elements drawn, so that a jitted function finds it as state like any other.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from lamella import ops
from lamella.dtypes import DType, as_dtype, default_float, float32, float64, int64, uint32, uint64
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.forks import new_lock
from lamella.ir.dim import Shape
from lamella.ir.node import Node
from lamella.ops.families import broadcast_shapes
from lamella.tensor.axes import shape_of
from lamella.tensor.core import TensorCore, node_of, wrap
from lamella.tensor.host import node_from_array
from lamella.tensor.operands import TensorLike, as_node, cast, count_node, scalar_node
from lamella.tensor.random.domain import whole

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = ["Generator", "fold_in", "generator", "key", "manual_seed", "split"]


def _key_array(seed: int) -> np.ndarray:
    try:
        seed = operator.index(seed)
    except TypeError:
        raise DTypeError(
            f"[random] the seed {seed!r:.40} is a {type(seed).__name__}; give a whole number"
        ) from None
    if not -(2**63) <= seed < 2**64:
        raise OptionError(f"[random] the seed {seed} has more than 64 bits; give a smaller number")
    number = seed & (2**64 - 1)
    return np.array([number >> 32, number & (2**32 - 1)], np.uint32)


class Generator:
    """A stream of random bits with its own state: ``key`` (uint32[2]) and ``counter`` (int64)."""

    __slots__ = ("_lock", "counter", "key")

    def __init__(self, seed: int = 0) -> None:
        self._lock = new_lock()
        self.key: Tensor = wrap(node_from_array(_key_array(seed)))
        self.counter: Tensor = wrap(node_from_array(np.zeros((), np.int64)))

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream that ``seed`` names from its beginning."""
        self.key.rebind(node_from_array(_key_array(seed)))
        self.counter.rebind(node_from_array(np.zeros((), np.int64)))
        return self

    def get_state(self) -> tuple[Tensor, Tensor]:
        """The state, to come back to with :meth:`set_state`."""
        return wrap(node_of(self.key)), wrap(node_of(self.counter))

    def set_state(self, state: tuple[TensorCore, TensorCore]) -> None:
        """Continue from a state that :meth:`get_state` gave."""
        self.key.rebind(node_of(state[0]))
        self.counter.rebind(node_of(state[1]))

    def __getstate__(self) -> tuple[Tensor, Tensor]:
        return self.get_state()

    def __setstate__(self, state: tuple[Tensor, Tensor]) -> None:
        self._lock = new_lock()
        self.key, self.counter = state

    def bits(self, shape: Shape, dtype: DType) -> Node:
        """The next bits of the stream."""
        with self._lock:
            place = node_of(self.counter)
            found = ops.random_bits(node_of(self.key), shape, dtype, place)
            self.counter.rebind(ops.add(place, count_node(shape, int64)))
        return found


class _Lazy:
    """The implicit generator, made at first use."""

    generator: Generator | None = None


def generator() -> Generator:
    """The implicit generator.

    >>> generator() is generator()
    True
    """
    if _Lazy.generator is None:
        _Lazy.generator = Generator(0)
    return _Lazy.generator


def manual_seed(seed: int) -> Generator:
    """Seed the implicit generator: the draws that follow are always the same.

    >>> from lamella.tensor.random import uniform
    >>> _ = manual_seed(0); first = uniform((2,)).tolist()
    >>> _ = manual_seed(0); uniform((2,)).tolist() == first
    True
    """
    return generator().manual_seed(seed)


# -- keys ------------------------------------------------------------------------------------------
def key(seed: int) -> Tensor:
    """The key (uint32[2]) that an integer names.

    >>> key(7).tolist()
    [0, 7]
    """
    return wrap(node_from_array(_key_array(seed)))


def _key_node(value: TensorLike) -> Node:
    node = as_node(value)
    if node.shape != (2,) or node.dtype is not uint32:
        raise ShapeError(
            f"[random] a key is uint32[2], not {node.dtype.name}{list(node.shape)}; make it with "
            "lm.random.key(seed)"
        )
    return node


def split(key: TensorLike, num: int = 2) -> Tensor:
    """``num`` independent keys made from one, as rows; do not use the old one again.

    >>> k1, k2 = split(globals()["key"](0)); k1.shape
    (2,)
    """
    return wrap(ops.random_split(_key_node(key), whole("split", "num", num, 0)))


def fold_in(key: TensorLike, data: TensorLike) -> Tensor:
    """The key that ``key`` and an integer (a step, an epoch) give.

    >>> fold_in(globals()["key"](0), 5).shape
    (2,)
    """
    number = scalar_node(data, int64) if isinstance(data, int) else cast(as_node(data), int64)
    return wrap(ops.random_fold_in(_key_node(key), number))


# -- draws -----------------------------------------------------------------------------------------
Source = Any  # a key, a Generator or None


def bits_node(source: Source, shape: Shape, dtype: DType) -> Node:
    """Random bits as uint32 or uint64."""
    if source is None:
        return generator().bits(shape, dtype)
    if isinstance(source, Generator):
        return source.bits(shape, dtype)
    return ops.random_bits(_key_node(source), shape, dtype)


def float_dtype(name: str, dtype: object) -> DType:
    """The floating-point type of a draw; None is the default.

    Raises:
        DTypeError: for another type.
    """
    kind = default_float() if dtype is None else as_dtype(dtype)
    if kind.kind != "f":
        raise DTypeError(
            f"[{name}] draws real numbers, not {kind.name}; use a floating-point dtype, or randint"
        )
    return kind


def unit_node(source: Source, shape: Shape, kind: DType) -> Node:
    """Uniform in [0, 1): 24 random bits as float32, 53 as float64."""
    if kind is float64:
        bits = ops.bitwise_right_shift(bits_node(source, shape, uint64), ops.constant(11, uint64))
        return ops.multiply(cast(bits, float64), ops.constant(2.0**-53, float64))
    bits = ops.bitwise_right_shift(bits_node(source, shape, uint32), ops.constant(8, uint32))
    return ops.multiply(cast(bits, float32), ops.constant(2.0**-24, float32))


def affine_node(node: Node, scale: Any, shift: Any, kind: DType) -> Node:
    """``node * scale + shift`` in its own type, then as ``kind``."""
    work = node.dtype
    if not (isinstance(scale, int | float) and scale == 1):
        node = ops.multiply(node, as_node(scale, work))
    if not (isinstance(shift, int | float) and shift == 0):
        node = ops.add(node, as_node(shift, work))
    return cast(node, kind)


def normal_node(source: Source, shape: Shape, work: DType) -> Node:
    """Standard normal numbers by Box and Muller (1958): ``sqrt(-2 log u) cos(2π v)``."""
    if work is float64:
        both = unit_node(source, (2, *shape), float64)
        rest = [0] * len(shape)
        u, v = (ops.reshape(ops.slice(both, (i, *rest), (1, *shape)), shape) for i in (0, 1))
        u = ops.subtract(ops.constant(1.0, float64), u)  # in (0, 1]
    else:
        bits = bits_node(source, shape, uint64)
        high = cast(ops.bitwise_right_shift(bits, ops.constant(32, uint64)), uint32)
        low = cast(bits, uint32)
        scale = ops.constant(2.0**-32, float32)
        half = ops.constant(2.0**-33, float32)
        u = ops.add(ops.multiply(cast(high, float32), scale), half)  # in (0, 1]
        v = ops.multiply(cast(low, float32), scale)
    radius = ops.sqrt(ops.multiply(ops.log(u), ops.constant(-2.0, work)))
    return ops.multiply(radius, ops.cos(ops.multiply(v, ops.constant(2.0 * math.pi, work))))


def streams(source: Source, count: int) -> list[Source]:
    """``count`` independent sources from one: keys made of a key, or the same generator again."""
    if source is None or isinstance(source, Generator):
        return [source] * count
    rows = ops.random_split(_key_node(source), count)
    return [
        wrap(ops.reshape(ops.slice(rows, (k, 0), (1, 2)), (2,))) for k in range(count)
    ]


def sizes_of(name: str, shape: Any, *parameters: Node) -> Shape:
    """The shape of a draw: as given, or that of its parameters together.

    Raises:
        ShapeError: if the parameters do not broadcast to it.
    """
    own = broadcast_shapes(name, *(node.shape for node in parameters))
    if shape is None:
        return own
    sizes = shape_of(name, shape)
    if broadcast_shapes(name, own, sizes) != sizes:
        raise ShapeError(
            f"[{name}] parameters of shape {own} do not broadcast to the shape {sizes}; give a "
            "shape that ends with theirs"
        )
    return sizes
