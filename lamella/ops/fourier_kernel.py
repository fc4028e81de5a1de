"""Discrete Fourier transforms as kernels: many at once, one in each lane of a vector.

Input: real and imaginary parts, two real tensors of shape (B, n, S), or (B, S, n) if they are
*across*; output the same, unscaled. A task takes sixteen transforms into local memory, a row of
lanes for each element, and goes over them once for each factor of n: the method that needs no
reversal of digits (Stockham, 1966; Swarztrauber, "FFT algorithms for vector computers", 1984). So
all arithmetic runs along the lanes, whatever n is, and a transform has the same bits however many
there are beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lamella import ops
from lamella.dtypes import DType, float32, float64
from lamella.errors import DTypeError, ShapeError
from lamella.ir import index as ix
from lamella.ir.dim import Shape, Size
from lamella.ir.loops import Alloc, Declare, Expr, For, If, Load, Read, Stmt, Store
from lamella.ir.node import Node
from lamella.ops.base import Array, Element, Index, KernelWriter, Needs, Sample
from lamella.ops.calls import Call, Result, call
from lamella.ops.families import to_shape
from lamella.ops.fourier_factors import Butterfly, Pair, factors, turns

__all__ = ["Fourier", "fourier", "table_of"]

LANES = 16  # transforms in a task: a vector of float32, two of float64


@dataclass(frozen=True, slots=True)
class Fourier(Call):
    """``Σ_j x[j] exp(sign 2πi jk / n)``. Inputs: both parts, and the table of turns (both parts)
    that :func:`fourier` gives. Results: both parts.
    """

    name: ClassVar[str] = "fourier"
    linear: ClassVar[bool] = True
    sign: int
    across_in: bool
    across_out: bool

    def _sizes(self, inputs: Sequence[Node]) -> tuple[Size, int, Size]:
        """B, n, S."""
        shape = inputs[0].shape
        if len(shape) != 3 or inputs[1].shape != shape:
            raise ShapeError(f"[fourier] parts {shape} and {inputs[1].shape}; both have three axes")
        batch, n, beside = shape if not self.across_in else (shape[0], shape[2], shape[1])
        if not isinstance(n, int):
            raise ShapeError(f"[fourier] an axis of size {n}; it has to be known")
        return batch, n, beside

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """Both parts, of the order of axes that is wanted."""
        batch, n, beside = self._sizes(inputs)
        dtypes = {source.dtype for source in inputs}
        if dtypes not in ({float32}, {float64}):
            raise DTypeError(f"[fourier] takes float32 or float64, not {inputs[0].dtype.name}")
        shape = (batch, beside, n) if self.across_out else (batch, n, beside)
        return ((shape, inputs[0].dtype),) * 2

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """NumPy's transform."""
        x = arrays[0] + 1j * arrays[1]
        axis = 2 if self.across_in else 1
        if self.sign < 0:
            found = np.fft.fft(x, axis=axis)
        else:
            found = np.fft.ifft(x, axis=axis, norm="forward")
        found = np.swapaxes(found, 1, 2) if self.across_in != self.across_out else found
        part = node.inputs[0].dtype.numpy
        return np.ascontiguousarray(found.real, part), np.ascontiguousarray(found.imag, part)

    def vjp_all(
        self, node: Node, cotangents: Sequence[Node | None], needs: Needs
    ) -> Sequence[Node | None]:
        """The transform with the other sign; the matrix is symmetric."""
        c, s = node.inputs[2:]
        op = Fourier(-self.sign, self.across_out, self.across_in)
        return *_of_parts(op, (c, ops.negative(s)), cotangents), None, None

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """Of the tangents."""
        c, s = node.inputs[2:]
        return _of_parts(self, (c, s), tangents[:2])

    def batch_all(
        self, node: Node, args: Sequence[Node], batched: Needs, size: Size
    ) -> Sequence[Node]:
        """More along the first axis."""
        shape = node.inputs[0].shape
        wide = (size * shape[0], *shape[1:])
        re, im = (
            ops.reshape(arg if has else to_shape(arg, (size, *shape)), wide)
            for arg, has in zip(args[:2], batched, strict=False)
        )
        table = (args[2], args[3])
        found = fourier(re, im, table, self.sign, self.across_in, self.across_out)
        return [ops.reshape(part, (size, shape[0], *part.shape[1:])) for part in found]

    def grid(self, node: Node) -> Shape:
        """B, and S in vectors of eight or sixteen."""
        batch, _, beside = self._sizes(node.inputs)
        return (batch, -(-beside // LANES))

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        """Into local memory, a pass for each factor, and out of it."""
        _, n, beside = self._sizes(node.inputs)
        return _Transform(self, node.inputs[0].dtype, n, beside, args, at, out).statements()

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Every factor, both signs, all orders of axes."""
        cases = (1, 3), (8, 16), (24, 5), (35, 17), (26, 2), (64, 33), (121, 1), (40, 16)
        for number, (n, beside) in enumerate(cases):
            sign, part = (-1, 1)[number % 2], number // 2 % 2
            orders = bool(number & 1), number % 4 >= 2
            shape = (2, beside, n) if orders[0] else (2, n, beside)
            table = table_of(n, sign)
            yield Sample(
                (shape, shape, table.shape, table.shape),
                lambda a, b, c, d, s=sign, o=orders, p=part: fourier(a, b, (c, d), s, *o)[p],
                (float32, float64), differentiable=False, rtol=2e-5, draw=_with_table(table),
            )  # fmt: skip
        for n, sign, part in ((16, -1, 0), (15, 1, 1)):  # derivatives, by the parts alone
            yield Sample(
                ((2, n, 3), (2, n, 3)),
                lambda a, b, n=n, s=sign, p=part: fourier(
                    a, b, _constant_table(n, s, a.dtype), s, False, s > 0
                )[p],
                (float32, float64), rtol=2e-5, note="derivatives",
            )  # fmt: skip


def _constant_table(n: int, sign: int, dtype: DType) -> tuple[Node, Node]:
    """The table as numbers that are part of the graph."""
    table = table_of(n, sign)
    re, im = (
        ops.concatenate([ops.full(float(value), (1,), dtype) for value in part], 0)
        for part in (table.real, table.imag)
    )
    return re, im


def _with_table(table: Array) -> Callable[..., Array]:
    """Draws the parts of what is transformed; the table is what it is."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, place: int) -> Array:
        return (rng.uniform(-2, 2, shape), table.real, table.imag)[max(place - 1, 0)]

    return draw


class _Transform:
    """Writes one task."""

    def __init__(
        self, op: Fourier, dtype: DType, n: int, beside: Size, args: Sequence[Element], at: Index,
        out: KernelWriter,
    ) -> None:  # fmt: skip
        self.op, self.dtype, self.n, self.args, self.out = op, dtype, n, args, out
        self.batch, self.first = at[0], ix.mul(at[1], LANES)
        self.beside = beside
        self.width = min(16, max(4, out.unit.lanes(dtype)))  # of a square of registers

    def statements(self) -> list[Stmt]:
        """All of it."""
        stages = factors(self.n)
        here, there = (
            tuple(self.out.temporary(name) for name in names)
            for names in (("re", "im"), ("other_re", "other_im"))
        )
        names = (*here, *there) if stages else here
        found: list[Stmt] = [Alloc(name, self.dtype, self.n * LANES, "local") for name in names]
        found += self._moved(here, self._load, self.op.across_in)
        done, turned = 1, 0
        for radix in stages:
            found.append(self._stage(here, there, radix, done, turned))
            here, there = there, here
            done *= radix
            turned += (self.n // done) * (radix - 1) if done < self.n else 0
        return found + self._moved(here, self._store, self.op.across_out)

    # -- between memory and lanes ------------------------------------------------------------------
    def _moved(
        self, names: Sequence[str], move: Callable[[int, str, Expr, Expr], Stmt], across: bool
    ) -> list[Stmt]:
        """Every element of every lane, by ``move(part, local, element, lane)``."""
        left = ix.minimum(LANES, ix.sub(self.beside, self.first))
        few = self._plain(names, move, left)
        if self.beside % LANES == 0 if isinstance(self.beside, int) else False:
            return self._squares(names, move) if across else self._plain(names, move, LANES)
        whole = self._squares(names, move) if across else self._plain(names, move, LANES)
        fits = ix.lt(ix.add(self.first, LANES - 1), self.beside)
        return [If(fits, tuple(whole), tuple(few))]

    def _plain(
        self, names: Sequence[str], move: Callable[[int, str, Expr, Expr], Stmt], count: Expr | int
    ) -> list[Stmt]:
        """Element by element, along the lanes."""
        element, lane = self.out.var("element", self.n), self.out.var("lane", count)
        moved = tuple(move(part, name, element, lane) for part, name in enumerate(names))
        return [For(element, "serial", (For(lane, "lanes", moved),))]

    def _squares(
        self, names: Sequence[str], move: Callable[[int, str, Expr, Expr], Stmt]
    ) -> list[Stmt]:
        """Elements of a transform that follow each other, in squares turned in registers."""
        size, loading = self.width, move == self._load
        found: list[Stmt] = []
        for part, name in enumerate(names):
            block, group = self.out.var("block", self.n // size), self.out.var("g", LANES // size)
            along, inner = self.out.var("along", size), self.out.var("inner", size)
            step, beside = (inner, along) if loading else (along, inner)
            element = ix.add(ix.mul(block, size), step)
            lane = ix.add(ix.mul(group, size), beside)
            row = For(inner, "lanes", (move(part, name, element, lane),))
            square = For(along, "unroll", (row,))
            found.append(For(block, "serial", (For(group, "serial", (square,)),)))
            if rest := self.n % size:
                last, lane = self.out.var("last", rest), self.out.var("lane", LANES)
                single = move(part, name, ix.add(self.n - rest, last), lane)
                found.append(For(last, "serial", (For(lane, "lanes", (single,)),)))
        return found

    def _load(self, part: int, local: str, element: Expr, lane: Expr) -> Stmt:
        beside = ix.add(self.first, lane)
        index = (beside, element) if self.op.across_in else (element, beside)
        place = ix.add(ix.mul(element, LANES), lane)
        return Store(local, place, self.args[part]((self.batch, *index)))

    def _store(self, part: int, local: str, element: Expr, lane: Expr) -> Stmt:
        beside = ix.add(self.first, lane)
        index = (beside, element) if self.op.across_out else (element, beside)
        value = Load(local, ix.add(ix.mul(element, LANES), lane), self.dtype)
        return self.out.part(part, (self.batch, *index), value)

    # -- the passes --------------------------------------------------------------------------------
    def _stage(
        self, here: Sequence[str], there: Sequence[str], radix: int, done: int, turned: int
    ) -> Stmt:
        """Transforms of ``radix`` elements, a part of the whole apart; ``done`` is the product of
        the factors before, ``turned`` where the turns of this pass begin.
        """
        groups = self.n // (done * radix)
        p, q = self.out.var("p", groups), self.out.var("q", done)
        lane = self.out.var("lane", LANES)
        body: list[Stmt] = []

        def named(value: Expr) -> Expr:
            name = self.out.temporary("t")
            body.append(Declare(name, self.dtype, value))
            return Read(name, self.dtype)

        def place(row: Expr) -> Expr:
            return ix.add(ix.mul(ix.add(ix.mul(row, done), q), LANES), lane)

        def given(k: int) -> Pair:
            at = place(ix.add(p, groups * k))
            re, im = (named(Load(name, at, self.dtype)) for name in here)
            return re, im

        def turn(j: int) -> Pair:
            at = ix.add(ix.mul(p, radix - 1), turned + j - 1)
            return self.args[2]((at,)), self.args[3]((at,))

        butterfly = Butterfly(self.dtype, self.op.sign, named)
        found = butterfly.transform([given(k) for k in range(radix)])
        for j, value in enumerate(found):
            kept = butterfly.times(value, turn(j)) if j and groups > 1 else value
            at = place(ix.add(ix.mul(p, radix), j))
            body += [Store(name, at, part) for name, part in zip(there, kept, strict=True)]
        inner = For(q, "serial", (For(lane, "lanes", tuple(body)),))
        return For(p, "serial", (inner,))


def _of_parts(
    op: Fourier, table: tuple[Node, Node], parts: Sequence[Node | None]
) -> tuple[Node | None, ...]:
    """The transform of what there is of two parts."""
    known = next((part for part in parts if part is not None), None)
    if known is None:
        return (None, None)
    re, im = (ops.full(0.0, known.shape, known.dtype) if x is None else x for x in parts)
    return fourier(re, im, table, op.sign, op.across_in, op.across_out)


def table_of(n: int, sign: int) -> np.ndarray:
    """The turns between the passes of a transform of ``n`` elements, one pass after the other; one
    element where there are none.

    >>> table_of(16, -1).shape, table_of(8, -1).shape
    ((12,), (1,))
    """
    found, done = [np.ones(1, complex)], 1
    for radix in factors(n):
        left = n // done
        done *= radix
        if done < n:
            steps = np.outer(np.arange(left // radix), np.arange(1, radix))
            found.append(turns(sign * steps, left).ravel())
    return np.concatenate(found[1:] or found)


def fourier(
    re: Node, im: Node, table: tuple[Node, Node], sign: int, across_in: bool = False,
    across_out: bool = False,
) -> tuple[Node, Node]:  # fmt: skip
    """Unscaled transforms of pairs of real nodes (B, n, S), or (B, S, n) where ``across_in``;
    the results in the order that ``across_out`` says. n has no prime factor above 13; ``table`` are
    the parts of ``table_of(n, sign)``.

    Raises:
        ShapeError: for other shapes.
        DTypeError: for dtypes other than float32 and float64, or several.

    >>> from lamella import dtypes, ops
    >>> x, one = ops.iota((2, 8, 3), 1, dtypes.float32), ops.iota((1,), 0, dtypes.float32)
    >>> [part.shape for part in fourier(x, x, (one, one), -1, across_out=True)]
    [(2, 3, 8), (2, 3, 8)]
    """
    first, second = call(Fourier(sign, across_in, across_out), re, im, *table)
    return first, second
