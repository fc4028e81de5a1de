"""What the kernels of factorisations share: their base, how they fail, how they are tested.

The primitives of ``solving``, ``factorization`` and ``determinants`` are composed of these when
they are compiled for real matrices of known sizes (``Call.composed``), so derivatives, batching and
NumPy's meaning are theirs. A kernel reads its matrices from memory. Where a result does not exist
(a pivot is 0) it reports a fault, and the program ends with the error that ``failure`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from lamella.dtypes import DType, bool_, int64
from lamella.errors import DTypeError, MissingRuleError, ShapeError
from lamella.ir import index as ix
from lamella.ir.dim import Size, ceildiv
from lamella.ir.loops import (
    Accumulate,
    Alloc,
    Assign,
    Const,
    Declare,
    Expr,
    For,
    If,
    Load,
    Read,
    Stmt,
    Store,
    Var,
    apply,
)
from lamella.ir.node import Node
from lamella.ops.base import KernelWriter, Sample
from lamella.ops.lapack import no_result
from lamella.ops.matrices import REALS, MatrixCall, sample

__all__ = [
    "Flag", "KernelCall", "MatrixKernel", "Square", "failure_of", "fixed", "kernel_sample",
    "require_real", "swap", "turned", "where_finite",
]  # fmt: skip

LARGE: Final = 8192  # elements from which compiling kernels pays
LINE: Final = 64  # bytes of a line of the caches


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixKernel(MatrixCall):
    """A function of real matrices computed by a kernel; ``failure``: the message of the error if it
    fails, "" where it cannot.
    """

    opaque: ClassVar[bool] = False
    differentiable: ClassVar[bool] = False
    failure: str = ""


def require_real(name: str, *matrices: Node) -> None:
    """Raise unless the matrices are real, of one type.

    Raises:
        DTypeError.
    """
    dtypes = {a.dtype for a in matrices}
    if len(dtypes) > 1 or not dtypes <= set(REALS):
        found = ", ".join(a.dtype.name for a in matrices)
        raise DTypeError(f"[{name}] takes float32 or float64, not {found}; cast the operands")


def fixed(size: Size) -> int:
    """A size that is known.

    Raises:
        ShapeError: for another.
    """
    if not isinstance(size, int):
        raise ShapeError(f"[linalg] a matrix of size {size}, which must be known; this is a bug")
    return size


@dataclass(frozen=True, slots=True)
class KernelCall(MatrixCall):
    """A function of matrices that is composed of kernels for large real ones of known sizes.

    Of less work, of complex numbers, of sizes that are known only when a program runs, it is an
    opaque call, which needs no compiling: sizes alone decide.
    """

    def made_for_sizes(self, node: Node) -> bool:
        """Where there are kernels."""
        first = node.inputs[0]
        sizes = [size for source in node.inputs for size in source.shape]
        known = all(isinstance(size, int) and size > 0 for size in sizes)
        large = max(source.size for source in node.inputs) >= LARGE if known else False
        return large and first.dtype in REALS

    def composed(self, node: Node) -> Sequence[Node] | None:
        """The kernels."""
        return self.kernels(node) if self.made_for_sizes(node) else None

    def kernels(self, node: Node) -> Sequence[Node]:
        """The results, by kernels."""
        raise MissingRuleError(self.name, "compilation", "kernels")


def failure_of(name: str, what: str, *matrices: Node) -> str:
    """The message of an error: ``name`` has no result because ``what`` was found."""
    return no_result(name, what, [(a.dtype.name, a.shape) for a in matrices])


class Flag:
    """A variable that becomes true, and the fault it is in the end."""

    def __init__(self, out: KernelWriter, name: str) -> None:
        self._out, self._name = out, out.temporary(name)
        self.value = Read(self._name, bool_)

    def begin(self) -> Stmt:
        """It is false."""
        return Declare(self._name, bool_, Const(False, bool_))

    def raised(self, condition: Expr) -> Stmt:
        """It stays or becomes true where ``condition`` holds."""
        return Assign(self._name, apply("or", self.value, condition))

    def fail(self) -> Stmt:
        """Report a fault if it is true."""
        place = apply("select", self.value, ix.constant(1), ix.constant(0), dtype=int64)
        fault = apply("checked_index", place, ix.constant(1))
        return Declare(self._out.temporary("fault"), int64, fault)


class Square:
    """A matrix in local memory. Rows begin an odd number of cache lines apart: no column of it lies
    in one set of a cache.
    """

    def __init__(
        self, out: KernelWriter, name: str, dtype: DType, rows: int, columns: int
    ) -> None:
        self._name, self._dtype, self._rows = out.temporary(name), dtype, rows
        self._stride = (fixed(ceildiv(columns * dtype.itemsize, LINE)) | 1) * LINE // dtype.itemsize

    def alloc(self) -> Stmt:
        """The memory, to the end of the enclosing block."""
        return Alloc(self._name, self._dtype, max(1, self._rows * self._stride), "local")

    def _place(self, i: Expr | int, j: Expr | int) -> Expr:
        return ix.add(ix.mul(i, self._stride), j)

    def at(self, i: Expr | int, j: Expr | int) -> Load:
        """An element."""
        return Load(self._name, self._place(i, j), self._dtype)

    def store(self, i: Expr | int, j: Expr | int, value: Expr) -> Store:
        """Set an element."""
        return Store(self._name, self._place(i, j), value)


def turned(
    out: KernelWriter, dtype: DType, rows: int | Expr, columns: int | Expr,
    move: Callable[[Expr, Expr], Stmt],
) -> list[Stmt]:  # fmt: skip
    """``move(i, j)`` everywhere, which reads along j and stores along i: in squares that are
    transposed in registers. A count that is no number is a multiple of their size.
    """
    size = min(16, out.unit.lanes(dtype))
    down, across = _squares(rows, size), _squares(columns, size)
    block, beside = out.var("block", down), out.var("beside", across)
    along, inner = out.var("along", size), out.var("inner", size)
    i, j = ix.add(ix.mul(block, size), along), ix.add(ix.mul(beside, size), inner)
    square = For(along, "unroll", (For(inner, "lanes", (move(i, j),)),))
    found: list[Stmt] = [For(block, "serial", (For(beside, "serial", (square,)),))]
    if isinstance(rows, int) and rows % size:
        last, j = out.var("last", rows % size), out.var("j", columns)
        edge = move(ix.add(rows - rows % size, last), j)
        found.append(For(last, "serial", (For(j, "lanes", (edge,)),)))
    if isinstance(columns, int) and columns % size:
        last, i = out.var("last", columns % size), out.var("i", rows)
        edge = move(i, ix.add(columns - columns % size, last))
        found.append(For(last, "serial", (For(i, "lanes", (edge,)),)))
    return found


def _squares(count: int | Expr, size: int) -> int | Expr:
    return count // size if isinstance(count, int) else ix.floordiv(count, size)


def swap(
    out: KernelWriter, get: Callable[[Expr], Expr], put: Callable[[Expr, Expr], Stmt], a: Expr,
    b: Expr,
) -> tuple[Stmt, ...]:  # fmt: skip
    """What is at ``a`` and at ``b`` changes places."""
    names = out.temporary("one"), out.temporary("other")
    dtype = get(a).dtype
    one, other = (Read(name, dtype) for name in names)
    declared = (Declare(n, dtype, get(i)) for n, i in zip(names, (a, b), strict=True))
    return (*declared, put(a, other), put(b, one))


def where_finite(
    out: KernelWriter, dtype: DType, row: Var, column: Var, value: Expr, then: Sequence[Stmt],
    otherwise: Sequence[Stmt],
) -> list[Stmt]:  # fmt: skip
    """``then`` if ``value`` is finite at every row and column, else ``otherwise``."""
    total = out.temporary("total")
    nothing = apply("mul", value, Const(0.0, dtype))
    bad = apply("isnan", Read(total, dtype), dtype=bool_)
    return [
        Declare(total, dtype, Const(0.0, dtype)),
        For(row, "serial", (For(column, "lanes", (Accumulate((total,), "add", (nothing,)),)),)),
        If(bad, tuple(otherwise), tuple(then)),
    ]


def kernel_sample(build: Callable[..., Node], *shapes: tuple[int, ...]) -> Iterator[Sample]:
    """A sample of matrices far from singular."""
    for made in sample(build, *shapes):
        yield Sample(
            made.shapes, build, made.dtypes, draw=made.draw, rtol=made.rtol, differentiable=False
        )
