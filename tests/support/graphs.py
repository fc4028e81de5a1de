"""Random graphs over the builders of ``lamella.ops``, and what their values may differ by.

Input: a seed and the sizes that axes are made of. Output: a graph whose structure depends on the
seed alone, so that the same seed with other sizes gives the same graph of other sizes (unless two
sizes happen to be equal). ``reference`` gives the interpreter's values with, for each element, how
far they move when every rounding is perturbed: what compiled code may differ by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from lamella import ops
from lamella.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
)  # fmt: skip
from lamella.errors import LamellaError, ShapeError
from lamella.ir.node import Node, topological
from lamella.runtime.buffer import from_numpy

Array = npt.NDArray[np.generic]
ROUNDING = {float64: 4e-16, float32: 2e-7, float16: 1e-3, bfloat16: 8e-3}
SUMS = ("reduction", "contraction", "kernel")
EXACT = ("reduce_max", "reduce_min", "argmax", "argmin", "argsort", "cummax", "cummin")
DTYPES = (float32, float32, float32, float64, int32, int64, bool_, float16, bfloat16)

Op = Callable[..., Node]
FLOAT_UNARY: tuple[Op, ...] = (
    ops.negative, ops.abs, ops.sign, ops.square, ops.reciprocal, ops.sqrt, ops.exp, ops.exp2,
    ops.expm1, ops.log, ops.log2, ops.log10, ops.log1p, ops.erf, ops.erfc, ops.sigmoid, ops.sin,
    ops.cos, ops.tan, ops.asin, ops.acos, ops.atan, ops.sinh, ops.cosh, ops.tanh, ops.asinh,
    ops.acosh, ops.atanh, ops.floor, ops.ceil, ops.trunc, ops.round, ops.rsqrt, ops.isnan,
    ops.isinf, ops.isfinite,
)  # fmt: skip
INT_UNARY: tuple[Op, ...] = (
    ops.negative, ops.abs, ops.sign, ops.square, ops.bitwise_invert,
)  # fmt: skip
ANY_BINARY: tuple[Op, ...] = (
    ops.add, ops.subtract, ops.multiply, ops.maximum, ops.minimum, ops.floor_divide, ops.remainder,
    ops.equal, ops.not_equal, ops.less, ops.less_equal, ops.greater, ops.greater_equal,
)  # fmt: skip
FLOAT_BINARY: tuple[Op, ...] = (ops.divide, ops.atan2, ops.pow, *ANY_BINARY)
INT_BINARY: tuple[Op, ...] = (
    *ANY_BINARY, ops.bitwise_and, ops.bitwise_or, ops.bitwise_xor, ops.bitwise_left_shift,
    ops.bitwise_right_shift,
)  # fmt: skip
BOOL_BINARY: tuple[Op, ...] = (ops.logical_and, ops.logical_or, ops.logical_xor, ops.equal)
SMOOTH_UNARY: tuple[Op, ...] = (
    ops.negative, ops.square, ops.exp, ops.sin, ops.cos, ops.tanh, ops.sigmoid, ops.erf, ops.atan,
    ops.abs, ops.asinh,
)  # fmt: skip
SMOOTH_BINARY: tuple[Op, ...] = (
    ops.add, ops.subtract, ops.multiply, ops.maximum, ops.minimum,
)  # fmt: skip


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Values of every kind; floats are multiples of 1/8 half of the time, so that ties occur."""
    if dtype is bool_:
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.kind == "i":
        return np.asarray(rng.integers(-9, 10, shape)).astype(dtype.numpy)
    values = rng.uniform(-2, 2, shape)
    if rng.random() < 0.5:
        values = np.round(values * 8) / 8
    return np.asarray(values).astype(dtype.numpy)


class Graph:
    """Grows a graph. ``smooth`` keeps to what derivatives are exact and tame for."""

    def __init__(self, seed: int, sizes: Sequence[int], limit: int, smooth: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.values = np.random.default_rng(seed + 1)
        self.sizes = list(sizes)
        self.limit = limit
        self.smooth = smooth
        self.dtypes = (float32, float32, float64) if smooth else DTYPES
        self.leaves: list[Node] = []
        self.nodes: list[Node] = []

    # -- choices -----------------------------------------------------------------------------------
    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def one(self, items: Sequence[object]) -> object:
        return items[self.below(len(items))]

    def pick(self, kinds: str = "bif", ndim: int = 0) -> Node:
        """A node of a dtype kind and at least ``ndim`` axes, late ones more often."""
        found = [n for n in self.nodes if n.dtype.kind in kinds and n.ndim >= ndim]
        if not found:
            return self.leaf(self.one([d for d in self.dtypes if d.kind in kinds]), ndim)
        return found[max(self.below(len(found)), self.below(len(found)))]

    def leaf(self, dtype: object = None, ndim: int = 0) -> Node:
        kind = dtype or self.one(self.dtypes)
        assert isinstance(kind, DType)
        rank = max(ndim, (0, 1, 2, 2, 3, 3, 4)[self.below(7)])
        shape: list[int] = []
        for _ in range(rank):
            size = self.sizes[self.below(len(self.sizes))]
            shape.append(size if size * int(np.prod(shape, dtype=int)) <= self.limit else 1)
        return self.data(tuple(shape), kind)

    def data(self, shape: tuple[int, ...], dtype: DType) -> Node:
        if np.prod(shape, dtype=float) > self.limit:
            raise ShapeError("larger than this graph may be")
        if not self.smooth and shape == () and self.rng.random() < 0.6:
            node = ops.scalar(draw(self.values, (), dtype).astype(np.float64).item(), dtype)
            if dtype.kind != "f":
                node.value = (bool if dtype.kind == "b" else int)(node.value)  # type: ignore[call-overload]
        else:
            array = np.ascontiguousarray(draw(self.values, shape, dtype))
            tracked = self.smooth and dtype.kind == "f"
            node = ops.data(from_numpy(array), shape, dtype, tracked)
        self.leaves.append(node)
        self.nodes.append(node)
        return node

    def like(self, node: Node) -> Node:
        """A node of the dtype of ``node`` that broadcasts with it."""
        found = [
            n for n in self.nodes
            if n.dtype is node.dtype and (n.shape == node.shape or n.shape == node.shape[-n.ndim :])
        ]  # fmt: skip
        if found and self.rng.random() < 0.7:
            return found[self.below(len(found))]
        shape = tuple(s if self.rng.random() < 0.5 else 1 for s in node.shape)
        return self.data(shape[self.below(len(shape) + 1) :], node.dtype)

    # -- growing -----------------------------------------------------------------------------------
    def grow(self, count: int) -> list[Node]:
        """Add ``count`` nodes; the outputs are the last and some others, some of them twice."""
        self.leaf(), self.leaf()
        made: list[Node] = []
        kinds = list(SMOOTH_STEPS if self.smooth else STEPS)
        for _ in range(count):
            step = self.one(kinds)
            try:
                node = step(self)  # type: ignore[operator]
            except LamellaError:
                continue
            if node.size <= self.limit and node not in self.nodes:
                self.nodes.append(node)
                made.append(node)
        outputs = [made[-1]] if made else [self.nodes[-1]]
        outputs += [node for node in made[:-1] if self.rng.random() < 0.15]
        if self.rng.random() < 0.2:
            outputs.append(outputs[0])
        return outputs

    def unary(self) -> Node:
        x = self.pick()
        if x.dtype.kind == "b":
            return ops.logical_not(x)
        choice = INT_UNARY if x.dtype.kind == "i" else FLOAT_UNARY
        return self.one(SMOOTH_UNARY if self.smooth else choice)(x)  # type: ignore[operator]

    def binary(self) -> Node:
        x = self.pick()
        y = self.like(x)
        choice = {"b": BOOL_BINARY, "i": INT_BINARY, "f": FLOAT_BINARY}[x.dtype.kind]
        a, b = (x, y) if self.below(2) else (y, x)
        return self.one(SMOOTH_BINARY if self.smooth else choice)(a, b)  # type: ignore[operator]

    def where(self) -> Node:
        x = self.pick("f" if self.smooth else "bif")
        y = self.like(x)
        return ops.where(ops.less(x, y), ops.negative(x) if x.dtype.kind != "b" else x, y)

    def cast(self) -> Node:
        target = self.one(self.dtypes)
        assert isinstance(target, DType)
        return ops.cast(self.pick(), target)

    def constant(self) -> Node:
        x = self.pick("if")
        return ops.multiply(x, ops.constant(self.below(4), x.dtype))

    def iota(self) -> Node:
        x = self.pick("if", 1)
        return ops.add(x, ops.iota(x.shape, self.below(x.ndim), x.dtype))

    def reshape(self) -> Node:
        x = self.pick(ndim=1)
        shape = list(x.shape)
        axis, way = self.below(x.ndim), self.below(4)
        if way == 0 and axis + 1 < x.ndim:
            shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
        elif way == 1:
            factors = [f for f in (2, 3, 5, 64) if shape[axis] % f == 0 and shape[axis]] or [1]
            factor = factors[self.below(4) % len(factors)]
            shape[axis : axis + 1] = [shape[axis] // factor, factor]
        elif way == 2:
            shape.insert(axis, 1)
        else:
            shape = [x.size]
        return ops.reshape(x, shape)

    def permute(self) -> Node:
        x = self.pick(ndim=2)
        return ops.permute(x, [int(a) for a in self.rng.permutation(x.ndim)])

    def broadcast(self) -> Node:
        x = self.pick()
        shape = [self.sizes[self.below(len(self.sizes))] if s == 1 else s for s in x.shape]
        if self.below(2):
            shape.insert(0, (2, 3)[self.below(2)])
        return ops.broadcast_to(x, shape)

    def slice(self) -> Node:
        x = self.pick(ndim=1)
        starts: list[int | Node] = []
        sizes, steps = [], []
        for size in x.shape:
            way = self.below(5)
            if way == 0 and size > 1:
                starts.append(1), sizes.append(size - 1), steps.append(1)
            elif way == 1 and size > 1:
                starts.append(0), sizes.append((size + 1) // 2), steps.append(2)
            elif way == 2 and size > 1:
                starts.append(size - 1), sizes.append(size // 2), steps.append(-2)
            elif way == 3 and size > 2:
                starts.append(ops.scalar(self.below(3), int64)), sizes.append(size - 2)
                steps.append(1)
            else:
                starts.append(0), sizes.append(size), steps.append(1)
        return ops.slice(x, starts, sizes, steps)

    def update_slice(self) -> Node:
        x = self.pick(ndim=1)
        sizes = tuple(s - 1 if s > 1 and self.below(2) else s for s in x.shape)
        starts = [self.below(s - n + 1) for s, n in zip(x.shape, sizes, strict=True)]
        update = ops.slice(self.like(x), [0] * x.ndim, sizes) if self.below(2) else None
        return ops.update_slice(x, update or self.data(sizes, x.dtype), starts)

    def pad(self) -> Node:
        x = self.pick(ndim=1)
        low, high, gaps = ([self.below(3) for _ in x.shape] for _ in range(3))
        interior = [g % 2 for g in gaps] if self.below(2) else None
        return ops.pad(x, low, high, self.below(2), interior)

    def flip(self) -> Node:
        x = self.pick(ndim=1)
        return ops.flip(x, (self.below(x.ndim),))

    def concatenate(self) -> Node:
        x = self.pick(ndim=1)
        axis = self.below(x.ndim)
        others = [
            n for n in self.nodes
            if n.dtype is x.dtype and n.ndim == x.ndim
            and n.shape[:axis] == x.shape[:axis] and n.shape[axis + 1 :] == x.shape[axis + 1 :]
        ]  # fmt: skip
        return ops.concatenate([x, *(others[self.below(len(others))] for _ in range(2))], axis)

    def axes(self, x: Node) -> tuple[int, ...]:
        found = tuple(a for a in range(x.ndim) if self.below(2))
        return found or (self.below(x.ndim),)

    def reduce(self) -> Node:
        x = self.pick(ndim=1)
        axes = self.axes(x)
        if x.dtype.kind == "b":
            return (ops.reduce_any, ops.reduce_all)[self.below(2)](x, axes)
        choice = (ops.reduce_sum, ops.reduce_max, ops.reduce_min, ops.reduce_prod)
        tame = np.prod([x.shape[a] for a in axes]) < 100  # longer products overflow on the way
        return choice[self.below(4 if tame and not self.smooth else 3)](x, axes)

    def centre(self) -> Node:
        """x minus its mean, or x over its sum of exponentials: a reduction used with its input."""
        x = self.pick("f", 1)
        axes = self.axes(x)
        kept = tuple(1 if a in axes else s for a, s in enumerate(x.shape))
        if self.below(2):
            top = ops.reshape(ops.reduce_max(x, axes), kept)
            x = ops.exp(ops.subtract(x, top))
            return ops.divide(x, ops.reshape(ops.reduce_sum(x, axes), kept))
        return ops.subtract(x, ops.reshape(ops.reduce_sum(x, axes), kept))

    def normalise(self) -> Node:
        """x less its mean over its deviation: two reductions, the second of what uses the first."""
        x = self.pick("f", 1)
        axes = self.axes(x)
        kept = tuple(1 if a in axes else s for a, s in enumerate(x.shape))
        scale = ops.constant(1 / max(1, np.prod([x.shape[a] for a in axes])), x.dtype)
        mean = ops.multiply(ops.reshape(ops.reduce_sum(x, axes), kept), scale)
        away = ops.subtract(x, mean)
        square = ops.reshape(ops.reduce_sum(ops.square(away), axes), kept)
        spread = ops.add(ops.multiply(square, scale), ops.constant(0.25, x.dtype))
        return ops.multiply(away, ops.rsqrt(spread))

    def chain(self) -> Node:
        """Several functions one after the other, with the first value used again at the end."""
        first = x = self.pick("f")
        for _ in range(2 + self.below(6)):
            x = self.one(SMOOTH_UNARY)(ops.multiply(x, ops.constant(0.5, x.dtype)))  # type: ignore[operator]
        return ops.add(x, first)

    def position(self) -> Node:
        x = self.pick("if", 1)
        return (ops.argmax, ops.argmin)[self.below(2)](x, self.below(x.ndim))

    def scan(self) -> Node:
        x = self.pick("if", 1)
        choice = (ops.cumsum, ops.cummax, ops.cumprod, ops.cummin)
        return choice[self.below(1 if self.smooth else 4)](
            x, self.below(x.ndim), bool(self.below(2))
        )

    def sort(self) -> Node:
        x = self.pick("if", 1)
        if x.size > 20000:
            return ops.negative(x)
        return (ops.sort, ops.argsort)[self.below(1 if self.smooth else 2)](
            x, self.below(x.ndim), bool(self.below(2))
        )

    def index(self, size: int, shape: tuple[int, ...]) -> Node:
        kind = (int32, int64)[self.below(2)]
        whole = self.data(shape, kind)
        return ops.remainder(whole, ops.constant(max(size, 1), kind))

    def gather(self) -> Node:
        x = self.pick(ndim=1)
        if self.below(2):
            shape = ((), (3,), (2, 5))[self.below(3)]
            return ops.gather(x, self.index(x.shape[0], shape), 0, bool(self.below(2)))
        axis = self.below(x.ndim)
        return ops.take_along_axis(x, self.index(x.shape[axis], x.shape), axis)

    def scatter(self) -> Node:
        x = self.pick("if", 1)
        mode = ("set", "add", "max", "min")[self.below(2 if self.smooth else 4)]
        count = (3, 7)[self.below(2)]
        updates = self.data((count, *x.shape[1:]), x.dtype)
        if mode == "set":  # duplicates would leave derivatives to the last one
            count = min(1, x.shape[0])
            updates = self.data((count, *x.shape[1:]), x.dtype)
        return ops.scatter(x, self.index(x.shape[0], (count,)), updates, mode)

    def contract(self) -> Node:
        x = self.pick("if", 1)
        labels = list(range(x.ndim))
        shared = [a for a in labels if self.below(2)] or [0]
        free = [x.ndim + i for i in range(self.below(3))]
        order = [*shared, *free]
        of_y = [order[int(i)] for i in self.rng.permutation(len(order))]
        sizes = dict(enumerate(x.shape)) | {
            f: self.sizes[self.below(len(self.sizes))] for f in free
        }
        y = self.data(tuple(sizes[i] for i in of_y), x.dtype)
        summed = {a for a in shared if self.below(3)}
        kept = [a for a in (*labels, *free) if a not in summed]
        out = [kept[int(i)] for i in self.rng.permutation(len(kept))]
        if np.prod([sizes[i] for i in {*labels, *free}], dtype=float) > 20 * self.limit:
            return ops.negative(x)
        return ops.contract(x, y, labels, of_y, out)

    def conv(self) -> Node:
        x = self.pick("f", 3)
        if x.ndim > 4 or x.size > 5000:
            return ops.negative(x)
        space = x.ndim - 2
        groups = x.shape[1] if x.shape[1] and self.below(4) == 0 else 1
        taps = [min(1 + self.below(3), max(s, 1)) for s in x.shape[2:]]
        out = groups * (1 + self.below(4))
        w = self.data((out, x.shape[1] // groups, *taps), x.dtype)
        stride = [1 + self.below(2) for _ in range(space)]
        return ops.conv(x, w, stride, [(self.below(2), self.below(2))] * space, groups=groups)

    def window(self) -> Node:
        x = self.pick(ndim=1)
        size = min(1 + self.below(3), x.shape[-1])
        found = ops.window(x, (size,), (1 + self.below(2),))
        if self.below(2) and x.dtype.kind != "b":
            return ops.reduce_max(found, (found.ndim - 1,))
        return found

    def fold(self) -> Node:
        x = self.pick("if", 1)
        size = min(2, x.shape[-1])
        return ops.fold(ops.window(x, (size,), (1,)), (x.shape[-1],), (1,))


STEPS: tuple[Callable[[Graph], Node], ...] = (
    Graph.unary, Graph.unary, Graph.binary, Graph.binary, Graph.binary, Graph.where, Graph.cast,
    Graph.constant, Graph.iota, Graph.reshape, Graph.reshape, Graph.permute, Graph.broadcast,
    Graph.slice, Graph.update_slice, Graph.pad, Graph.flip, Graph.concatenate, Graph.reduce,
    Graph.reduce, Graph.reduce, Graph.centre, Graph.normalise, Graph.chain, Graph.position,
    Graph.scan, Graph.sort,
    Graph.gather, Graph.scatter, Graph.contract, Graph.contract, Graph.conv, Graph.window,
    Graph.fold,
)  # fmt: skip
SMOOTH_STEPS: tuple[Callable[[Graph], Node], ...] = tuple(
    s for s in STEPS if s not in (Graph.position, Graph.constant, Graph.iota)
)


# -- values ----------------------------------------------------------------------------------------
def copied(outputs: Sequence[Node]) -> list[Node]:
    """The same graph of new pending nodes over the same leaves."""
    new: dict[Node, Node] = {}
    for node in topological(outputs):
        made = Node(node.op, tuple(new[n] for n in node.inputs), node.shape, node.dtype)
        made.value = node.value
        new[node] = made if node.value is None else node
    return [new[node] for node in outputs]


def _disturbed(array: Array, rng: np.random.Generator, seed: int, size: float) -> Array:
    """Every element up for seed 1, down for seed 2, at random for others."""
    if seed in (1, 2):
        noise = np.full(array.shape, size if seed == 1 else -size)
    else:
        noise = rng.choice([-1.0, -0.5, 0.5, 1.0], array.shape) * size
    return np.asarray(array.astype(np.float64) * (1 + noise)).astype(array.dtype)


def _applied(node: Node, inputs: list[Array], rng: np.random.Generator, seed: int | None) -> Array:
    sums = node.op.kind in SUMS and node.op.name not in EXACT
    noisy = seed is not None and node.op.name not in EXACT
    kind = node.dtype
    for i, source in enumerate(node.inputs):
        if sums and source.dtype.kind == "f":
            if noisy:
                inputs[i] = _disturbed(inputs[i], rng, seed or 0, ROUNDING[source.dtype])
            if kind.kind == "f":  # long sums in NumPy's order are less exact than compiled ones
                inputs[i] = inputs[i].astype(np.float64)
    shape = tuple(int(s) for s in node.shape)
    exact = float64 if sums and kind.kind == "f" else kind
    result = np.asarray(node.op.reference(*inputs, shape=shape, dtype=exact))
    result = result.astype(kind.numpy, copy=False)
    if sums and seed in (1, 2) and kind.kind == "f":  # the sign of a sum's zero is anyone's
        result = np.where(result == 0, kind.numpy.type(0.0 if seed == 1 else -0.0), result)
    if noisy and kind.kind == "f" and (sums or node.op.kind == "elementwise"):
        result = _disturbed(result, rng, seed or 0, ROUNDING[kind])
    return result


def values(outputs: Sequence[Node], seed: int | None = None) -> list[Array]:
    """The values of ``outputs`` by the primitives' references; with a seed, each rounding is
    disturbed.
    """
    rng = np.random.default_rng(seed)
    found: dict[Node, Array] = {}
    with np.errstate(all="ignore"):
        for node in topological(outputs):
            shape = tuple(int(s) for s in node.shape)
            if node.value is not None:
                held = node.value
                found[node] = (
                    held.numpy(shape, node.dtype.numpy)  # type: ignore[attr-defined]
                    if hasattr(held, "numpy")
                    else np.asarray(held).astype(node.dtype.numpy)
                )
                continue
            found[node] = _applied(node, [found[n] for n in node.inputs], rng, seed)
    return [found[node] for node in outputs]


def wrong(node: Node, found: Array, expected: Array, moved: Sequence[Array]) -> Array:
    """Where ``found`` is further from ``expected`` than rounding explains."""
    if node.dtype.kind != "f":
        steady = np.all([m == expected for m in moved], axis=0)
        return np.asarray((found != expected) & steady)
    with np.errstate(all="ignore"):
        a, b = found.astype(np.float64), expected.astype(np.float64)
        others = [m.astype(np.float64) for m in moved]
        finite = np.isfinite(b)
        steady = np.all(
            [
                np.where(finite, np.isfinite(m), (m == b) | (np.isnan(m) & np.isnan(b)))
                for m in others
            ],
            axis=0,
        )
        spread = np.max([np.abs(m - b) for m in others], axis=0)
        allowed = 16 * ROUNDING[node.dtype] * np.abs(b) + 40 * spread + 1e-37
        if node.dtype.bits == 16:
            allowed = allowed + 1e-6
        near = np.abs(a - b) <= allowed
        same = np.where(finite, near, (a == b) | (np.isnan(a) & np.isnan(b)))
        half = (node.dtype.bits == 16) & ~finite
    return np.asarray(~same & steady & ~half)
