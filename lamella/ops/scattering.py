"""Scatter: updates put, added, multiplied or compared into chosen rows of a tensor, in their order.

Input: ``x (*lead, N, *rest)``, integer ``index (*lead, *I)``, ``updates (*lead, *I, *rest)``.
Output: x changed. The order is part of the meaning: of several updates to one place "set" keeps the
last, and sums and products have the same bits on any number of threads. An index outside
``[-N, N)`` is a fault of the program (IndexError when computed) and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

import numpy as np

from lamella import dtypes, ops
from lamella.dtypes import DType
from lamella.errors import DTypeError, OptionError, ShapeError, did_you_mean
from lamella.ir import index as ix
from lamella.ir.dim import Dim, Shape, Size, product
from lamella.ir.loops import (
    Alloc,
    Declare,
    Expr,
    For,
    If,
    Load,
    Read,
    Stmt,
    Store,
    apply,
    cast,
)
from lamella.ir.node import Node, make
from lamella.ops.base import (
    Array,
    Element,
    Index,
    KernelWriter,
    Needs,
    Parts,
    Primitive,
    Sample,
    each_part,
)
from lamella.ops.families import accumulator, check_fits, to_shape, widen
from lamella.ops.gathering import (
    Draw,
    along_axis,
    check_indices,
    flat_index,
    gather,
    split_axes,
    wrap_index,
)
from lamella.ops.movement import permute, reshape, zeros
from lamella.ops.scatter_products import others_at
from lamella.ops.site import user_site
from lamella.ops.validate import require_ordered, require_same_dtype

__all__ = ["MODES", "Scatter", "put_along_axis", "scatter", "scatter_nd"]

Mode = Literal["set", "add", "mul", "max", "min"]
MODES: tuple[Mode, ...] = ("set", "add", "mul", "max", "min")
CHECKED = 512  # indices that are checked together before they are used
_LOGICAL: dict[Mode, Mode] = {"add": "max", "max": "max", "mul": "min", "min": "min"}  # of bools
_NUMPY = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True, slots=True)
class Scatter(Primitive):
    """For each i in order: x[b, index[b, i], r] ⊕= updates[b, i, r], with ``lead`` axes b."""

    mode: Mode
    lead: int = 0
    checked: bool = True

    name = "scatter"
    kind = "kernel"

    def check(self, node: Node) -> None:
        """Updates of the shape a gather at the index has; the shape of x."""
        x, index, updates = node.inputs
        _check(self.name, x, index, updates, self.lead)
        check_fits(node, x.shape, x.dtype)

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """One update of every row after another."""
        x, index, updates = arrays
        lead, size = prod(shape[: self.lead]), shape[self.lead]
        rest = prod(shape[self.lead + 1 :])
        result = x.reshape(lead, size, rest).astype(accumulator(dtype).numpy)
        chosen = wrap_index(self.name, index, size).reshape(lead, prod(index.shape[self.lead :]))
        values = updates.reshape(*chosen.shape, rest).astype(result.dtype)
        rows = np.arange(lead)
        for k in range(chosen.shape[1]):
            at = (rows, chosen[:, k])
            put = values[:, k]
            result[at] = put if self.mode == "set" else _NUMPY[self.mode](result[at], put)
        return result.astype(dtype.numpy).reshape(shape)

    def complex_parts(self, node: Node, args: Sequence[Parts]) -> Parts:
        """Each part by the same indices."""
        return each_part(node, args)

    # -- derivatives ------------------------------------------------------------------------------
    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """Each result element's cotangent goes to what it came from (max and min share ties)."""
        updates = node.inputs[2]
        found = self._gather(cotangent, node)
        if self.mode == "add":
            return cotangent, None, found
        if self.mode == "set":
            erased = self._scatter(cotangent, node, zeros(updates.shape, updates.dtype))
            kept = ops.where(self._winners(node), found, ops.constant(0, updates.dtype))
            return erased, None, kept
        if self.mode == "mul":
            others = self._others(node)
            return ops.multiply(cotangent, others[0]), None, ops.multiply(found, others[1])
        of_x, of_updates, count = self._shares(node)
        share = ops.divide(cotangent, count)
        return (
            ops.multiply(share, of_x),
            None,
            ops.multiply(self._gather(share, node), of_updates),
        )

    def jvp(self, node: Node, tangents: Sequence[Node | None]) -> Node | None:
        """The tangent of what each result element came from (the mean over ties of max and min)."""
        if tangents[0] is None and tangents[2] is None:
            return None
        x, updates = (
            zeros(source.shape, source.dtype) if tangent is None else tangent
            for source, tangent in zip(node.inputs[::2], tangents[::2], strict=True)
        )
        if self.mode in ("add", "set"):
            return self._scatter(x, node, updates, self.mode)
        if self.mode == "mul":
            of_x, of_updates = self._others(node)
            moved = ops.multiply(x, of_x), node, ops.multiply(updates, of_updates)
            return self._scatter(*moved, "add")
        of_x, of_updates, count = self._shares(node)
        total = self._scatter(ops.multiply(x, of_x), node, ops.multiply(updates, of_updates), "add")
        return ops.divide(total, count)

    def _gather(self, x: Node, node: Node) -> Node:
        found = gather(x, node.inputs[1], self.lead, self.checked)
        found.site = node.site
        return found

    def _scatter(self, x: Node, node: Node, updates: Node, mode: Mode = "set") -> Node:
        found = scatter(x, node.inputs[1], updates, mode, self.lead, self.checked)
        found.site = node.site
        return found

    def _winners(self, node: Node) -> Node:
        """Bool of the updates' shape: whether an update is the last one to its place."""
        x, index, updates = node.inputs
        inner = index.shape[self.lead :]
        order = reshape(ops.iota((product(inner),), 0, dtypes.int64), inner)
        order = to_shape(order, index.shape)
        none = ops.full(-1, x.shape[: self.lead + 1], dtypes.int64)
        last = self._gather(self._scatter(none, node, order), node)
        rest = (1,) * (updates.ndim - index.ndim)
        return to_shape(reshape(ops.equal(last, order), (*index.shape, *rest)), updates.shape)

    def _shares(self, node: Node) -> tuple[Node, Node, Node]:
        """max, min: where x is the result, where an update is, and how many each place has."""
        x, _, updates = node.inputs
        result = self._scatter(x, node, updates, self.mode)
        of_x = ops.cast(ops.equal(x, result), x.dtype)
        of_updates = ops.cast(ops.equal(updates, self._gather(result, node)), x.dtype)
        return of_x, of_updates, self._scatter(of_x, node, of_updates, "add")

    def _others(self, node: Node) -> tuple[Node, Node]:
        """mul: for each element of x and each update the product of all other factors of its
        place.
        """
        x, index, updates = node.inputs
        one = ops.full(1, x.shape, x.dtype)
        size = ops.reduce_sum(ops.full(1, x.shape[self.lead : self.lead + 1], dtypes.int64))
        others = others_at(index, updates, self.lead, size)
        of_updates = ops.multiply(self._gather(x, node), others)
        return self._scatter(one, node, updates, "mul"), of_updates

    # -- batching and lowering --------------------------------------------------------------------
    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """One more lead axis."""
        x, index, updates = (
            arg if has else to_shape(arg, (size, *arg.shape))
            for arg, has in zip(args, batched, strict=True)
        )
        found = scatter(x, index, updates, self.mode, self.lead + 1, self.checked)
        found.site = node.site
        return found

    def grid(self, node: Node) -> Shape:
        """Every column is independent."""
        return (*node.shape[: self.lead], *node.shape[self.lead + 1 :])

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        """Copy the column, then apply the updates in order."""
        lead, rest = at[: self.lead], at[self.lead :]
        size = node.shape[self.lead]
        row = out.var("row", size)
        here = (*lead, row, *rest)
        # the column lies along memory where it is all that an iteration of the grid has
        copy = For(row, "serial" if rest else "lanes", (out.store(here, args[0](here)),))
        counts = node.inputs[1].shape[self.lead :]
        count = counts[0] if len(counts) == 1 and self.checked and not rest else 0
        if isinstance(count, Dim) or count >= CHECKED:
            body = self._in_blocks(node, args, lead, count, out)
        else:
            inner = tuple(out.var("update", n) for n in counts)
            body = self._update(node, args, (lead, inner, rest), out)
            for var in reversed(inner):
                body = (For(var, "serial", body),)
        if isinstance(size, Dim):  # it may turn out to be 0: nothing may be written then
            return [copy, If(ix.lt(0, size), body)]
        return [copy, *body]

    def _in_blocks(
        self, node: Node, args: Sequence[Element], lead: Index, count: Size, out: KernelWriter
    ) -> tuple[Stmt, ...]:
        """The indices of a block checked side by side, then its updates in order."""
        places = out.temporary("places")
        blocked: list[Stmt] = [Alloc(places, dtypes.int64, CHECKED, "local")]
        whole, rest = count // CHECKED, count % CHECKED
        for first, blocks, size in ((0, whole, CHECKED), (whole * CHECKED, 1, rest)):
            block, side = out.var("block", blocks), out.var("side", size)
            start = ix.add(first, ix.mul(block, CHECKED))
            place, fine = self._place(node, args[1]((*lead, ix.add(start, side))))
            found = out.temporary("found")  # apart: what is not chosen would not be reported
            kept = Read(found, dtypes.int64), ix.constant(-1)
            store = Store(places, side, apply("select", fine, *kept, dtype=dtypes.int64))
            steps = (8, 4, 2, 1) if isinstance(size, int) else (1,)
            step = next(n for n in steps if size % n == 0)
            group, one = out.var("group", size // step), out.var("one", step)
            at = ix.add(ix.mul(group, step), one)
            update = self._at_place(node, args, lead, (places, start, at), out)
            body = (
                For(side, "lanes", (Declare(found, dtypes.int64, place), store)),
                For(group, "serial", (For(one, "unroll", update),)),
            )
            blocked.append(For(block, "serial", body))
        return tuple(blocked)

    def _at_place(
        self, node: Node, args: Sequence[Element], lead: Index, at: tuple[str, Expr, Expr],
        out: KernelWriter,
    ) -> tuple[Stmt, ...]:  # fmt: skip
        """Update ``at`` of a block, whose place was checked before; -1 is none."""
        places, start, i = at
        named, value = out.temporary("named"), out.temporary("value")
        target = Read(named, dtypes.int64)
        where = (*lead, apply("max", target, ix.constant(0)))
        store = self._changed(node, args, (where, (*lead, ix.add(start, i))), out)
        return (
            Declare(named, dtypes.int64, Load(places, i, dtypes.int64)),
            Declare(value, node.dtype, store.value),  # what is read under no mask costs less
            replace(store, value=Read(value, node.dtype), mask=ix.lt(-1, target)),
        )

    def _place(self, node: Node, index: Expr) -> tuple[Expr, Expr]:
        """The row an index names, and whether there is one."""
        size, named = node.shape[self.lead], cast(index, dtypes.int64)
        fine = ix.both(ix.lt(-1 - size, named), ix.lt(named, size))
        return apply("checked_index", named, ix.constant(size)) if self.checked else named, fine

    def _changed(
        self, node: Node, args: Sequence[Element], at: tuple[Index, Index], out: KernelWriter
    ) -> Store:
        """The store of one update: where in the result, from where in the updates."""
        where, source = at
        value = args[2](source)
        if self.mode != "set":
            value = apply(self.mode, widen(out.load(where)), widen(value))
        return out.store(where, cast(value, node.dtype))

    def _update(
        self, node: Node, args: Sequence[Element], at: tuple[Index, Index, Index],
        out: KernelWriter,
    ) -> tuple[Stmt, ...]:  # fmt: skip
        lead, inner, rest = at
        target = out.temporary("target")
        place, fine = self._place(node, args[1]((*lead, *inner)))
        where = (*lead, Read(target, dtypes.int64), *rest)
        store = self._changed(node, args, (where, (*lead, *inner, *rest)), out)
        if self.checked:  # a faulty index changes nothing
            store = replace(store, mask=fine)
        return Declare(target, dtypes.int64, place), store

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Every mode with repeated indices, lead axes, 0-d indices and empty updates."""
        cases: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int], ...] = (
            ((5,), (), (), 0), ((4,), (7,), (7,), 0), ((4, 3), (2, 3), (2, 3, 3), 0),
            ((3, 2), (0,), (0, 2), 0), ((2, 4), (2, 3), (2, 3), 1),
            ((2, 3, 2), (2, 4), (2, 4, 2), 1), ((0, 2), (0,), (0, 2), 0),
        )  # fmt: skip
        for mode in MODES:
            allowed = dtypes.ALL if mode == "set" else dtypes.INTEGERS + dtypes.FLOATS
            for x, index, updates, lead in cases:
                yield Sample(
                    (x, index, updates),
                    lambda a, i, u, m=mode, n=lead: scatter(a, i, u, m, n),
                    allowed,
                    input_dtypes=(None, dtypes.int64, None),
                    draw=_draw(x[lead], 4 if mode == "mul" else 1),
                )
                if mode == "add":
                    break


def _draw(size: int, unit: int) -> Draw:
    """Distinct numbers (so that max and min have no ties), whole ones over ``unit``, and indices in
    range.
    """

    def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, place: int) -> Array:
        if place == 1:
            return rng.integers(-size, max(size, 1), shape)
        values = rng.permutation(prod(shape)).reshape(shape) * 2 + place // 2
        return np.asarray(values % 2 if dtype.kind == "b" else values / unit)

    return draw


def _check(op: str, x: Node, index: Node, updates: Node, lead: int) -> None:
    require_same_dtype(op, x, updates)
    fits = 0 <= lead < x.ndim and x.shape[:lead] == index.shape[:lead]
    if not fits or updates.shape != (*index.shape, *x.shape[lead + 1 :]):
        raise ShapeError(
            f"[{op}] x {x.shape}, index {index.shape}, updates {updates.shape} with {lead} lead "
            "axes: updates have the index's axes and then those of x after the indexed one; "
            "broadcast them to that shape"
        )
    check_indices(op, index, x.shape[lead])


def scatter(
    x: Node, index: Node, updates: Node, mode: str, lead: int = 0, checked: bool = True
) -> Node:
    """``x (*lead, N, *rest)`` with updates ``(*lead, *I, *rest)`` in rows ``index (*lead, *I)``.

    Args:
        x: the tensor to start from; of bools "add" and "max" are "or", "mul" and "min" are "and".
        index: any integer dtype; negative indices count from the end.
        updates: of the dtype of ``x``.
        mode: "set" (the last wins), "add" and "mul" (of float16 and bfloat16 in float32), "max"
            or "min".
        lead: how many leading axes the three share.
        checked: False promises that every index lies in ``[0, N)``.

    Raises:
        ShapeError: when the shapes do not fit.
        DTypeError: for other index dtypes, and of complex numbers for "mul", "max" and "min".
        OptionError: for an unknown mode.
        LamellaIndexError: here, for an axis of size 0; when computed, for an index
            outside ``[-N, N)``.

    >>> from lamella import dtypes, ops
    >>> x, i = ops.iota((5, 2), 0, dtypes.float32), ops.iota((3,), 0, dtypes.int64)
    >>> scatter(x, i, ops.iota((3, 2), 0, dtypes.float32), "add").shape
    (5, 2)
    """
    known: Mode | None = next((m for m in MODES if m == mode), None)
    if known is None:
        raise OptionError(f"[scatter] mode {mode!r} is unknown; {did_you_mean(mode, MODES)}")
    if x.dtype.kind == "b" and known != "set":
        bits = scatter(
            ops.cast(x, dtypes.uint8), index, ops.cast(updates, dtypes.uint8), _LOGICAL[known],
            lead, checked,
        )  # fmt: skip
        return ops.cast(bits, x.dtype)
    if known == "mul" and x.dtype.kind == "c":
        raise DTypeError(
            f"[scatter] products of {x.dtype.name} numbers at indices that may repeat are not "
            "supported; use x.at[i].set(x[i] * values) for distinct ones"
        )
    if known in ("max", "min"):
        require_ordered("scatter", x)
    _check("scatter", x, index, updates, lead)
    wide = accumulator(x.dtype)
    if known in ("add", "mul") and wide is not x.dtype:
        total = scatter(ops.cast(x, wide), index, ops.cast(updates, wide), known, lead, checked)
        return ops.cast(total, x.dtype)
    node = make(Scatter(known, lead, checked), (x, index, updates), x.shape, x.dtype)
    if checked:
        node.site = user_site()
    return node


def scatter_nd(
    x: Node,
    indices: Sequence[Node],
    axes: Sequence[int],
    updates: Node,
    mode: str,
    checked: Sequence[bool] | None = None,
) -> Node:
    """``x`` with ``updates``, of the shape of ``gather_nd(x, indices, axes)``, where that reads.

    Raises:
        ShapeError: for wrong axes or shapes.
        DTypeError: as :func:`scatter`.
        OptionError: for an unknown mode.
        LamellaIndexError: when computed, for an index outside its axis.

    >>> from lamella import dtypes, ops
    >>> x, i = ops.iota((3, 5, 4), 0, dtypes.float32), ops.iota((3,), 0, dtypes.int64)
    >>> scatter_nd(x, [i, i], (0, 2), ops.iota((3, 5), 0, dtypes.float32), "set").shape
    (3, 5, 4)
    """
    chosen, rest = split_axes("scatter_nd", x.ndim, indices, axes)
    flat, check = flat_index(x, indices, chosen, checked)
    order = (*chosen, *rest)
    moved = permute(x, order)
    total = product(moved.shape[: len(chosen)])
    rows = reshape(moved, (total, *moved.shape[len(chosen) :]))
    result = reshape(scatter(rows, flat, updates, mode, 0, check), moved.shape)
    return permute(result, tuple(order.index(a) for a in range(x.ndim)))


def put_along_axis(x: Node, index: Node, updates: Node, axis: int, mode: str = "set") -> Node:
    """``x`` with ``updates`` applied where ``take_along_axis(x, index, axis)`` reads.

    Raises:
        ShapeError: for a wrong axis or shapes that do not line up.
        DTypeError: as :func:`scatter`.
        OptionError: for an unknown mode.
        LamellaIndexError: when computed, for an index outside the axis.

    >>> from lamella import dtypes, ops
    >>> x, i = ops.iota((3, 5), 0, dtypes.float32), ops.iota((3, 2), 1, dtypes.int64)
    >>> put_along_axis(x, i, ops.iota((3, 2), 0, dtypes.float32), 1).shape
    (3, 5)
    """
    source, chosen, order, back = along_axis("put_along_axis", x, index, axis)
    values = to_shape(permute(updates, order), chosen.shape)
    return permute(scatter(source, chosen, values, mode, x.ndim - 1), back)
