"""Random numbers: the same stream on every machine and for any number of threads.

Two ways: an explicit ``key`` (made by :func:`key`, multiplied by :func:`split`), or the implicit
generator that :func:`manual_seed` seeds. Bits come from the counter-based Threefry-2x32 cipher
(Salmon et al., "Parallel random
numbers: as easy as 1, 2, 3", 2011). The implicit generator's state is two tensors, a key and a
counter of elements drawn, so that a jitted function finds it as state like any other.
"""

from __future__ import annotations

import math
import operator
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from lamella import ops
from lamella.dtypes import DType, as_dtype, default_float, float32, float64, int64, uint32, uint64
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.ir.dim import Shape
from lamella.ir.node import Node
from lamella.tensor.axes import axis_of, shape_of
from lamella.tensor.core import TensorCore, node_of, wrap
from lamella.tensor.host import node_from_array
from lamella.tensor.keywords import with_synonyms
from lamella.tensor.operands import TensorLike, as_float, as_node, cast, count_node, scalar_node

if TYPE_CHECKING:
    from lamella.tensor.tensor import Tensor

__all__ = [
    "Generator", "bernoulli", "categorical", "choice", "exponential", "fold_in", "generator",
    "gumbel", "key", "manual_seed", "normal", "permutation", "randint", "shuffle", "split",
    "truncated_normal", "uniform",
]  # fmt: skip


def _number(name: str, option: str, value: Any, low: float, high: float = math.inf) -> None:
    """Raise unless ``value``, where it is a Python number, lies between limits."""
    if isinstance(value, int | float) and not low <= value <= high:
        limits = f"at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
        raise OptionError(f"[{name}] {option}={value!r} is not {limits}; give such a number")


def _key_array(seed: int) -> np.ndarray:
    try:
        seed = operator.index(seed)
    except TypeError:
        raise DTypeError(
            f"[random] the seed {seed!r:.40} is a {type(seed).__name__}; give a whole number"
        ) from None
    number = seed & (2**64 - 1)
    return np.array([number >> 32, number & (2**32 - 1)], np.uint32)


class Generator:
    """A stream of random bits with its own state: ``key`` (uint32[2]) and ``counter`` (int64)."""

    __slots__ = ("_lock", "counter", "key")

    def __init__(self, seed: int = 0) -> None:
        self._lock = threading.Lock()
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
    return wrap(ops.random_split(_key_node(key), num))


def fold_in(key: TensorLike, data: TensorLike) -> Tensor:
    """The key that ``key`` and an integer (a step, an epoch) give.

    >>> fold_in(globals()["key"](0), 5).shape
    (2,)
    """
    number = scalar_node(data, int64) if isinstance(data, int) else cast(as_node(data), int64)
    return wrap(ops.random_fold_in(_key_node(key), number))


# -- draws -----------------------------------------------------------------------------------------
Source = Any  # a key, a Generator or None


def _bits(source: Source, shape: Shape, dtype: DType) -> Node:
    if source is None:
        return generator().bits(shape, dtype)
    if isinstance(source, Generator):
        return source.bits(shape, dtype)
    return ops.random_bits(_key_node(source), shape, dtype)


def _float_dtype(name: str, dtype: object) -> DType:
    kind = default_float() if dtype is None else as_dtype(dtype)
    if kind.kind != "f":
        raise DTypeError(
            f"[{name}] draws real numbers, not {kind.name}; use a floating-point dtype, or randint"
        )
    return kind


def _unit(source: Source, shape: Shape, kind: DType) -> Node:
    """Uniform in [0, 1): 24 random bits as float32, 53 as float64."""
    if kind is float64:
        bits = ops.bitwise_right_shift(_bits(source, shape, uint64), ops.constant(11, uint64))
        return ops.multiply(cast(bits, float64), ops.constant(2.0**-53, float64))
    bits = ops.bitwise_right_shift(_bits(source, shape, uint32), ops.constant(8, uint32))
    return ops.multiply(cast(bits, float32), ops.constant(2.0**-24, float32))


def _affine(node: Node, scale: Any, shift: Any, kind: DType) -> Node:
    """``node * scale + shift`` in its own type, then as ``kind``."""
    work = node.dtype
    if not (isinstance(scale, int | float) and scale == 1):
        node = ops.multiply(node, as_node(scale, work))
    if not (isinstance(shift, int | float) and shift == 0):
        node = ops.add(node, as_node(shift, work))
    return cast(node, kind)


@with_synonyms
def uniform(
    shape: Any = (),
    low: TensorLike = 0.0,
    high: TensorLike = 1.0,
    dtype: object = None,
    key: Source = None,
) -> Tensor:
    """Numbers spread evenly over [``low``, ``high``); float32 by default.

    >>> uniform((2, 3), key=globals()["key"](0)).shape
    (2, 3)
    """
    kind = _float_dtype("uniform", dtype)
    if isinstance(low, int | float):
        _number("uniform", "high", high, low)
    node = _unit(key, shape_of("uniform", shape), kind)
    width = high - low if isinstance(low, int | float) and isinstance(high, int | float) else (
        wrap(as_node(high, node.dtype)) - low
    )  # fmt: skip
    return wrap(_affine(node, width, low, kind))


def _normal_node(source: Source, shape: Shape, work: DType) -> Node:
    """Standard normal numbers by Box and Muller (1958): ``sqrt(-2 log u) cos(2π v)``."""
    if work is float64:
        both = _unit(source, (2, *shape), float64)
        rest = [0] * len(shape)
        u, v = (ops.reshape(ops.slice(both, (i, *rest), (1, *shape)), shape) for i in (0, 1))
        u = ops.subtract(ops.constant(1.0, float64), u)  # in (0, 1]
    else:
        bits = _bits(source, shape, uint64)
        high = cast(ops.bitwise_right_shift(bits, ops.constant(32, uint64)), uint32)
        low = cast(bits, uint32)
        scale = ops.constant(2.0**-32, float32)
        half = ops.constant(2.0**-33, float32)
        u = ops.add(ops.multiply(cast(high, float32), scale), half)  # in (0, 1]
        v = ops.multiply(cast(low, float32), scale)
    radius = ops.sqrt(ops.multiply(ops.log(u), ops.constant(-2.0, work)))
    return ops.multiply(radius, ops.cos(ops.multiply(v, ops.constant(2.0 * math.pi, work))))


@with_synonyms
def normal(
    shape: Any = (),
    mean: TensorLike = 0.0,
    std: TensorLike = 1.0,
    dtype: object = None,
    key: Source = None,
) -> Tensor:
    """Normally distributed numbers with the given mean and standard deviation; float32 by default.

    >>> normal((2, 3), key=globals()["key"](0)).shape
    (2, 3)
    """
    kind = _float_dtype("normal", dtype)
    _number("normal", "std", std, 0)
    work = float64 if kind is float64 else float32
    return wrap(_affine(_normal_node(key, shape_of("normal", shape), work), std, mean, kind))


@with_synonyms
def truncated_normal(
    shape: Any = (),
    low: float = -2.0,
    high: float = 2.0,
    mean: float = 0.0,
    std: float = 1.0,
    dtype: object = None,
    key: Source = None,
) -> Tensor:
    """Normal numbers cut off at ``low`` and ``high`` standard deviations: quantiles of uniform
    numbers, interpolated in a table of 4097.

    >>> bool((abs(truncated_normal((50,), key=globals()["key"](0)).numpy()) <= 2).all())
    True
    """
    kind = _float_dtype("truncated_normal", dtype)
    _number("truncated_normal", "std", std, 0)
    _number("truncated_normal", "high", high, low)
    sizes = shape_of("truncated_normal", shape)
    below, above = (0.5 * (1 + math.erf(edge / math.sqrt(2))) for edge in (low, high))
    table = _quantiles(low, high, below, above)
    u = ops.multiply(_unit(key, sizes, float32), scalar_node(float(len(table) - 1), float32))
    left = ops.minimum(ops.floor(u), scalar_node(float(len(table) - 2), float32))
    place = cast(left, int64)
    nodes = node_from_array(table)
    a = ops.gather(nodes, place, checked=False)
    b = ops.gather(nodes, ops.add(place, ops.constant(1, int64)), checked=False)
    node = ops.add(a, ops.multiply(ops.subtract(u, left), ops.subtract(b, a)))
    return wrap(_affine(node, std, mean, kind))


def _quantiles(low: float, high: float, below: float, above: float) -> np.ndarray:
    """The normal quantiles of 4097 even probabilities from ``below`` to ``above``, as float32."""
    wanted = np.linspace(below, above, 4097)
    a, b = np.full_like(wanted, low), np.full_like(wanted, high)
    for _ in range(50):
        middle = (a + b) / 2
        value = np.array([0.5 * math.erfc(-m / math.sqrt(2)) for m in middle.tolist()])
        a, b = np.where(value < wanted, middle, a), np.where(value < wanted, b, middle)
    return ((a + b) / 2).astype(np.float32)


@with_synonyms
def randint(
    low: int,
    high: Any = None,
    shape: Any = (),
    dtype: object = int64,
    key: Source = None,
) -> Tensor:
    """Whole numbers in [``low``, ``high``), or in [0, ``low``) without ``high``.

    A 64-bit random number times the width, shifted right by 64: the bias is below width / 2⁶⁴.

    Raises:
        OptionError: if the interval is empty or wider than 2³².

    >>> randint(0, 10, (3,), key=globals()["key"](0)).shape
    (3,)
    """
    kind = as_dtype(dtype)
    if high is not None and not isinstance(high, int):
        high, shape = None, high  # randint(10, (2, 3))
    start, stop = (0, low) if high is None else (low, int(high))
    if not start < stop or stop - start > 2**32 or not kind.is_integer:
        raise OptionError(
            f"[randint] integers of type {kind.name} in [{start}, {stop}): the interval must hold "
            "1 to 2**32 "
            "numbers, the type be an integer one; change them"
        )
    for edge in (start, stop - 1):
        scalar_node(edge, kind, "randint")  # refuses what the type cannot hold
    bits = _bits(key, shape_of("randint", shape), uint64)
    width = scalar_node(stop - start, uint64)
    shift, low_half = ops.constant(32, uint64), ops.constant(2**32 - 1, uint64)
    upper = ops.multiply(ops.bitwise_right_shift(bits, shift), width)
    lower = ops.bitwise_right_shift(ops.multiply(ops.bitwise_and(bits, low_half), width), shift)
    found = cast(ops.bitwise_right_shift(ops.add(upper, lower), shift), int64)
    return wrap(cast(ops.add(found, scalar_node(start, int64)), kind))


@with_synonyms
def bernoulli(
    p: TensorLike = 0.5, shape: Any = None, dtype: object = bool, key: Source = None
) -> Tensor:
    """True with probability ``p`` (a number or a tensor of them).

    >>> bernoulli(1.0, (3,)).tolist()
    [True, True, True]
    """
    _number("bernoulli", "p", p, 0, 1)
    chance = as_float(as_node(p))
    sizes = chance.shape if shape is None else shape_of("bernoulli", shape)
    work = float64 if chance.dtype is float64 else float32
    draw = _unit(key, sizes, work)
    return wrap(cast(ops.less(draw, cast(chance, work)), as_dtype(dtype)))


@with_synonyms
def exponential(
    shape: Any = (), scale: TensorLike = 1.0, dtype: object = None, key: Source = None
) -> Tensor:
    """Exponentially distributed numbers of mean ``scale``: ``-scale * log(1 - u)``.

    >>> exponential((3,), key=globals()["key"](0)).shape
    (3,)
    """
    kind = _float_dtype("exponential", dtype)
    _number("exponential", "scale", scale, 0)
    u = _unit(key, shape_of("exponential", shape), kind)
    return wrap(_affine(ops.negative(ops.log1p(ops.negative(u))), scale, 0, kind))


@with_synonyms
def gumbel(shape: Any = (), dtype: object = None, key: Source = None) -> Tensor:
    """Numbers of the standard Gumbel distribution: ``-log(-log(u))``.

    >>> gumbel((3,), key=globals()["key"](0)).shape
    (3,)
    """
    kind = _float_dtype("gumbel", dtype)
    u = _unit(key, shape_of("gumbel", shape), kind)
    u = ops.add(u, ops.constant(2.0**-54 if kind is float64 else 2.0**-25, u.dtype))
    return wrap(cast(ops.negative(ops.log(ops.negative(ops.log(u)))), kind))


@with_synonyms
def categorical(
    logits: TensorLike, shape: Any = None, axis: int = -1, key: Source = None
) -> Tensor:
    """Positions along ``axis``, each with probability proportional to ``exp(logits)``: the largest
    of logits plus Gumbel noise. ``shape`` adds leading axes of independent draws.

    >>> categorical([-1e9, 0.0, -1e9], (4,)).tolist()
    [1, 1, 1, 1]
    """
    node = as_float(as_node(logits))
    place = axis_of("categorical", axis, node.shape)
    extra = () if shape is None else shape_of("categorical", shape)
    noise = as_node(gumbel((*extra, *node.shape), dtype=node.dtype, key=key))
    return wrap(ops.argmax(ops.add(node, noise), place + len(extra)))


# -- orders ----------------------------------------------------------------------------------------
def permutation(x: int | TensorLike, axis: int = 0, key: Source = None) -> Tensor:
    """The numbers 0 … ``x`` - 1, or the slices of ``x`` along ``axis``, in random order.

    >>> sorted(permutation(4).tolist())
    [0, 1, 2, 3]
    """
    from lamella.tensor.searching import take_node

    if isinstance(x, int):
        (size,) = shape_of("permutation", x)
        return wrap(ops.argsort(_bits(key, (size,), uint64), 0))
    node = as_node(x)
    place = axis_of("permutation", axis, node.shape)
    order = ops.argsort(_bits(key, (node.shape[place],), uint64), 0)
    return wrap(take_node(node, order, place))


def shuffle(x: TensorLike, axis: int = 0, key: Source = None) -> Tensor:
    """The slices of ``x`` along ``axis`` in random order, as a new tensor.

    >>> sorted(shuffle([3, 1, 2]).tolist())
    [1, 2, 3]
    """
    return permutation(wrap(as_node(x)), axis, key)


@with_synonyms
def choice(
    a: int | TensorLike,
    shape: Any = (),
    replace: bool = True,
    p: TensorLike | None = None,
    axis: int = 0,
    key: Source = None,
) -> Tensor:
    """Slices of ``a`` (or numbers below it) chosen at random, with probabilities ``p``.

    Raises:
        OptionError: for more than there are without replacement, or ``p`` without replacement.

    >>> choice(1, (2,)).tolist()
    [0, 0]
    """
    from lamella.tensor.searching import searchsorted, take_node

    sizes = shape_of("choice", shape)
    node = None if isinstance(a, int) else as_node(a)
    place = 0 if node is None else axis_of("choice", axis, node.shape)
    total = int(a if isinstance(a, int) else node.shape[place])  # type: ignore[union-attr]
    count = math.prod(int(size) for size in sizes)
    if not replace:
        if p is not None or count > total:
            raise OptionError(
                f"[choice] {count} of {total} without replacement: p must be None and the shape no "
                "larger; "
                "use replace=True"
            )
        order = as_node(permutation(total, key=key))
        index = ops.reshape(ops.slice(order, (0,), (count,)), sizes)
    elif p is None:
        index = as_node(randint(0, total, sizes, key=key))
    else:
        ends = ops.cumsum(as_float(as_node(p)), 0)
        draw = uniform(sizes, 0.0, 1.0, dtype=ends.dtype, key=key)
        top = ops.slice(ends, (total - 1,), (1,))
        scaled = ops.multiply(as_node(draw), ops.reshape(top, ()))
        index = as_node(searchsorted(wrap(ends), wrap(scaled), side="right"))
        index = ops.minimum(index, scalar_node(total - 1, int64))
    return wrap(index if node is None else take_node(node, index, place))
