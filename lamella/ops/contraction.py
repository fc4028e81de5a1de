"""Contraction: any einsum of two operands, and matmul written with it.

Input: two nodes of one dtype and an integer label for each of their axes. Output: the sum of
products over the labels that the output does not name. Convolution lowers through the same record,
:class:`Contraction`: four groups of loops and three functions of their indices, all that a
matrix-product schedule needs to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lamella import dtypes, ops
from lamella.dtypes import DType, bool_
from lamella.errors import DTypeError, ShapeError
from lamella.ir.dim import Shape, Size
from lamella.ir.loops import Expr
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Element, Index, Needs, Sample
from lamella.ops.families import Multilinear, accumulator, check_fits, to_shape
from lamella.ops.movement import permute, reshape
from lamella.ops.validate import require_same_dtype

__all__ = ["Contract", "Contraction", "contract", "matmul", "result_dtype"]

Labels = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Contraction:
    """result[b, m, n] = sum over k of left(b, m, k) * right(b, k, n): what a schedule is given.

    ``batch``, ``m``, ``n``, ``k`` are the extents of four groups of loops (any may be empty); the
    functions take one index per loop of a group. ``left`` and ``right`` give elements in the
    operands' own dtypes; products are summed in ``accumulate``. ``out_index`` is the place of the
    result.
    """

    batch: Shape
    m: Shape
    n: Shape
    k: Shape
    left: Callable[[Index, Index, Index], Expr]
    right: Callable[[Index, Index, Index], Expr]
    out_index: Callable[[Index, Index, Index], Index]
    accumulate: DType


def exact(array: Array, dtype: DType) -> Array:
    """An operand as the reference multiplies it: float64, complex128, or the result's integer
    dtype.
    """
    wide = {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}
    return array.astype(wide.get(dtype.kind, dtype.numpy))


def result_dtype(op: str, given: DType, wanted: DType | None) -> DType:
    """The dtype of a sum of products of ``given``: itself, or a wider one of its kind.

    Raises:
        DTypeError: for bool, another kind or a narrower dtype.

    >>> result_dtype("contract", dtypes.int8, dtypes.int32)
    lamella.int32
    """
    found = wanted or given
    if given is bool_ or found.kind != given.kind or found.bits < given.bits:
        raise DTypeError(
            f"[{op}] operands of {given.name} to {found.name}: products are summed in their own "
            "dtype or a wider one of its kind, and bool has no sum; cast the operands first"
        )
    return found


@dataclass(frozen=True, slots=True)
class Contract(Multilinear):
    """result[out] = sum over the other labels of a[a_labels] * b[b_labels].

    Labels are distinct within an operand; one that only an operand has is in the output.
    """

    a_labels: Labels
    b_labels: Labels
    out_labels: Labels

    name = "contract"
    kind = "contraction"

    def check(self, node: Node) -> None:
        """Sizes of a label agree; the output's follow."""
        a, b = node.inputs
        require_same_dtype(self.name, a, b)
        shape = _fit(a, b, _plan(self.a_labels, self.b_labels, self.out_labels))
        check_fits(node, shape, result_dtype(self.name, a.dtype, node.dtype))

    def reference(self, *arrays: Array, shape: tuple[int, ...], dtype: DType) -> Array:
        """``np.einsum`` in float64 (integers in the result's dtype), rounded once."""
        a, b = (exact(array, dtype) for array in arrays)
        total = np.einsum(
            a, list(self.a_labels), b, list(self.b_labels), list(self.out_labels), optimize=True
        )
        return np.asarray(total).astype(dtype.numpy).reshape(shape)

    def transpose(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """Contractions of the cotangent with the other operand."""
        a, b = (ops.cast(source, cotangent.dtype) for source in node.inputs)
        out, of_a, of_b = self.out_labels, self.a_labels, self.b_labels
        dtype = node.inputs[0].dtype
        return (
            ops.cast(contract(cotangent, b, out, of_b, of_a), dtype) if needs[0] else None,
            ops.cast(contract(a, cotangent, of_a, out, of_b), dtype) if needs[1] else None,
        )

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """A new label for the batch axis of each operand that has it."""
        new = max((*self.a_labels, *self.b_labels), default=-1) + 1
        of_a, of_b = (
            (new, *labels) if has else labels
            for labels, has in zip((self.a_labels, self.b_labels), batched, strict=True)
        )
        return contract(args[0], args[1], of_a, of_b, (new, *self.out_labels), node.dtype)

    def contraction(self, node: Node, args: Sequence[Element]) -> Contraction:
        """Labels of both operands and the output batch; a's and b's own are m and n; the rest k."""
        of_a, of_b, out = self.a_labels, self.b_labels, self.out_labels
        batch = tuple(label for label in out if label in of_a and label in of_b)
        m = tuple(label for label in out if label not in of_b)
        n = tuple(label for label in out if label not in of_a)
        k = tuple(label for label in of_a if label not in out)
        sizes: dict[int, Size] = {}
        for source, labels in zip(node.inputs, (of_a, of_b), strict=True):
            sizes |= zip(labels, source.shape, strict=True)

        def place(labels: Labels, *pairs: tuple[Labels, Index]) -> Index:
            at: dict[int, Expr] = {}
            for group, index in pairs:
                at |= zip(group, index, strict=True)
            return tuple(at[label] for label in labels)

        return Contraction(
            batch=tuple(sizes[label] for label in batch),
            m=tuple(sizes[label] for label in m),
            n=tuple(sizes[label] for label in n),
            k=tuple(sizes[label] for label in k),
            left=lambda at, row, step: args[0](place(of_a, (batch, at), (m, row), (k, step))),
            right=lambda at, step, col: args[1](place(of_b, (batch, at), (k, step), (n, col))),
            out_index=lambda at, row, col: place(out, (batch, at), (m, row), (n, col)),
            accumulate=accumulator(node.dtype),
        )

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """Dots, matrix products of every orientation, batches, several summed labels, no terms."""
        cases: tuple[tuple[tuple[int, ...], tuple[int, ...], Labels, Labels, Labels], ...] = (
            ((5,), (5,), (0,), (0,), ()),
            ((3, 4), (4, 5), (0, 1), (1, 2), (0, 2)),
            ((4, 3), (5, 4), (1, 0), (2, 1), (2, 0)),
            ((2, 3, 4), (2, 4, 2), (0, 1, 2), (0, 2, 3), (0, 1, 3)),
            ((2, 3, 4), (4, 3, 2), (0, 1, 2), (2, 1, 3), (3, 0)),
            ((3, 2, 4), (3, 4), (0, 1, 2), (0, 2), (1, 0)),
            ((3, 0), (0, 2), (0, 1), (1, 2), (0, 2)),
            ((0, 3), (3, 2), (0, 1), (1, 2), (0, 2)),
            ((17, 9), (9,), (0, 1), (1,), (0,)),
        )
        numbers = dtypes.INTEGERS + dtypes.FLOATS
        for a, b, of_a, of_b, out in cases:
            yield Sample(
                (a, b),
                lambda x, y, i=of_a, j=of_b, o=out: contract(x, y, i, j, o),
                numbers,
            )
        for given, wide in ((dtypes.int8, dtypes.int32), (dtypes.bfloat16, dtypes.float32)):
            yield Sample(
                ((3, 20), (20, 2)),
                lambda x, y, d=wide: contract(x, y, (0, 1), (1, 2), (0, 2), d),
                (given,),
            )


@dataclass(frozen=True, slots=True)
class _Plan:
    """What follows from the labels alone."""

    op: Contract  # with labels in order of first use, so that equal structures are equal
    shared: tuple[tuple[int, int], ...]  # axes of a and b that have one label
    sources: tuple[tuple[bool, int], ...]  # for each output axis: whether it is a's, and which
    summed: bool  # a label is in one operand only
    product: bool  # no label is summed


@lru_cache(maxsize=4096)
def _plan(a_labels: Labels, b_labels: Labels, out_labels: Labels) -> _Plan:
    names: dict[int, int] = {}
    for label in (*a_labels, *b_labels):
        names.setdefault(label, len(names))
    for labels in (a_labels, b_labels):
        if len(set(labels)) != len(labels):
            raise ShapeError(
                f"[contract] labels {labels} name two axes alike; take their diagonal with "
                "ops.diagonal first"
            )
    if len(set(out_labels)) != len(out_labels) or not names.keys() >= set(out_labels):
        raise ShapeError(
            f"[contract] output labels {out_labels} from {a_labels} and {b_labels}: each must be a "
            "different label of an operand; name only those"
        )
    of_a, of_b, out = (
        tuple(names[label] for label in labels) for labels in (a_labels, b_labels, out_labels)
    )
    return _Plan(
        Contract(of_a, of_b, out),
        shared=tuple((of_a.index(label), of_b.index(label)) for label in of_a if label in of_b),
        sources=tuple(
            (True, of_a.index(label)) if label in of_a else (False, of_b.index(label))
            for label in out
        ),
        summed=not set(of_a) ^ set(of_b) <= set(out),
        product=set(names.values()) == set(out),
    )


def _fit(a: Node, b: Node, plan: _Plan) -> Shape:
    """The result's shape.

    Raises:
        ShapeError: when the operands' shapes do not fit the labels or each other.
    """
    first, second = a.shape, b.shape
    of_a, of_b = plan.op.a_labels, plan.op.b_labels
    if len(of_a) != len(first) or len(of_b) != len(second):
        raise ShapeError(
            f"[contract] labels {of_a} and {of_b} for shapes {first} and {second}: each axis needs "
            "one; pass as many as there are axes"
        )
    for i, j in plan.shared:
        if first[i] != second[j]:
            raise ShapeError(
                f"[contract] shapes {first} and {second}: {first[i]} ≠ {second[j]} on axes {i} and "
                f"{j}, which share the label {of_a[i]}; make the two sizes equal"
            )
    return tuple([first[i] if of_first else second[i] for of_first, i in plan.sources])


def _summed(node: Node, labels: Labels, kept: set[int]) -> tuple[Node, Labels]:
    """``node`` summed over the labels that nothing else has."""
    axes = tuple(axis for axis, label in enumerate(labels) if label not in kept)
    if not axes:
        return node, labels
    return ops.reduce_sum(node, axes), tuple(label for label in labels if label in kept)


def _product(a: Node, b: Node, of_a: Labels, of_b: Labels, out: Labels, shape: Shape) -> Node:
    """Nothing is summed: an elementwise product, which fuses with what is around it."""
    fitted = []
    for node, labels in ((a, of_a), (b, of_b)):
        order = [labels.index(label) for label in out if label in labels]
        ones = tuple(size if label in labels else 1 for label, size in zip(out, shape, strict=True))
        fitted.append(to_shape(reshape(permute(node, order), ones), shape) if labels else node)
    return to_shape(ops.multiply(*fitted), shape)


def contract(
    a: Node,
    b: Node,
    a_labels: Sequence[int],
    b_labels: Sequence[int],
    out_labels: Sequence[int],
    dtype: DType | None = None,
) -> Node:
    """result[out] = Σ a[a_labels] · b[b_labels] over every label that the output does not name.

    Args:
        a: integers or floats.
        b: of the dtype of ``a``.
        a_labels: a label for each axis of ``a``.
        b_labels: likewise for ``b``; axes with a common label have one size.
        out_labels: the labels of the result's axes, in order.
        dtype: the result's, a wider one of the same kind; default that of ``a``. float16 and
            bfloat16 are summed in float32 whatever it is.

    Raises:
        ShapeError: when sizes or labels do not fit.
        DTypeError: for bool, differing dtypes, or a narrower ``dtype``.

    >>> from lamella import dtypes, ops
    >>> a, b = ops.iota((2, 3), 0, dtypes.float32), ops.iota((3, 4), 0, dtypes.float32)
    >>> contract(a, b, (0, 1), (1, 2), (2, 0)).shape
    (4, 2)
    """
    require_same_dtype("contract", a, b)
    wanted = result_dtype("contract", a.dtype, dtype)
    plan = _plan(tuple(a_labels), tuple(b_labels), tuple(out_labels))
    shape = _fit(a, b, plan)
    if not plan.summed and not plan.product:
        return make(plan.op, (a, b), shape, wanted)
    a, b = ops.cast(a, wanted), ops.cast(b, wanted)
    of_a, of_b, out = plan.op.a_labels, plan.op.b_labels, plan.op.out_labels
    if plan.product:
        return _product(a, b, of_a, of_b, out, shape)
    a, of_a = _summed(a, of_a, {*of_b, *out})
    b, of_b = _summed(b, of_b, {*of_a, *out})
    return contract(a, b, of_a, of_b, out)


def matmul(a: Node, b: Node, dtype: DType | None = None) -> Node:
    """The matrix product, as ``numpy.matmul``: 1-d is a row or column, leading axes broadcast.

    Raises:
        ShapeError: for 0-d operands, or shapes that do not fit.
        DTypeError: for bool, differing dtypes, or a narrower ``dtype``.

    >>> from lamella import dtypes, ops
    >>> a, b = ops.iota((5, 1, 2, 3), 0, dtypes.float32), ops.iota((4, 3, 6), 0, dtypes.float32)
    >>> matmul(a, b).shape
    (5, 4, 2, 6)
    """
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(
            f"[matmul] shapes {a.shape} and {b.shape}: a scalar has no axis to sum over; "
            "multiply instead"
        )
    inner = (a.shape[-1], b.shape[-2 if b.ndim > 1 else 0])
    if inner[0] != inner[1]:
        raise ShapeError(
            f"[matmul] shapes {a.shape} and {b.shape}: {inner[0]} ≠ {inner[1]}, but the last axis "
            "of the first and the last but one of the second are summed together; transpose one"
        )
    lead_a, lead_b = a.shape[:-2], b.shape[:-2]
    if not lead_a or not lead_b or lead_a == lead_b:  # nothing stretches
        return contract(a, b, *_matrix_labels(a.ndim, b.ndim), dtype)
    count = max(len(lead_a), len(lead_b))
    a, of_a = _batch_labels(a, lead_a, lead_b, count)
    b, of_b = _batch_labels(b, lead_b, lead_a, count)
    batch = sorted({*of_a, *of_b})
    row, column, summed = count, count + 1, count + 2
    found = contract(
        a, b, (*of_a, row, summed), (*of_b, summed, column), (*batch, row, column), dtype
    )
    sizes = dict(zip(batch, found.shape, strict=False))
    lead = (sizes.get(label, 1) for label in range(count))
    return reshape(found, (*lead, *found.shape[-2:]))


@lru_cache(maxsize=64)
def _matrix_labels(a_ndim: int, b_ndim: int) -> tuple[Labels, Labels, Labels]:
    """Labels of a matrix product whose leading axes are equal, or only one operand's."""
    lead_a, lead_b = tuple(range(a_ndim - 2)), tuple(range(b_ndim - 2))
    lead = max(lead_a, lead_b, key=len)
    rows = (-1,) if a_ndim > 1 else ()
    columns = (-2,) if b_ndim > 1 else ()
    return (*lead_a, *rows, -3), (*lead_b, -3, *columns), (*lead, *rows, *columns)


def _batch_labels(node: Node, own: Shape, other: Shape, count: int) -> tuple[Node, Labels]:
    """Leading axes' labels, counted in the broadcast batch; axes of size 1 are dropped where the
    result's is not 1 or theirs.
    """
    labels, kept = [], []
    for axis, size in enumerate(own):
        label = count - len(own) + axis
        across = label - (count - len(other))
        match = other[across] if across >= 0 else 1
        if size == 1:
            continue
        if match not in (1, size):
            raise ShapeError(
                f"[matmul] leading axes {own} and {other} do not broadcast: {size} ≠ {match} and "
                "neither is 1; reshape one of them"
            )
        labels.append(label)
        kept.append(size)
    return reshape(node, (*kept, *node.shape[len(own) :])), tuple(labels)
