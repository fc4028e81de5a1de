"""The support table: what each primitive can do, found by doing it to the samples in its class.

Input: ``PRIMITIVES``. Output: Markdown (``python -m tools.support_table docs/support.md``). A cell
says "yes" when every sample it applies to passed, "zero" when the derivative is zero wherever it
exists, "–" when the column does not apply (no floating-point input, a leaf), and "MISSING" with a
note below the table otherwise. The numbers themselves are checked by tests/ops; here they are
compared as well, against the interpreter.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import lamella.ops
from lamella.dtypes import ALL, COMPLEX, DType, complex128, float64, iinfo
from lamella.errors import CompilerError, DTypeError, ShapeError
from lamella.graph.batch import batch
from lamella.graph.forward import jvp
from lamella.graph.reverse import vjp
from lamella.ir.dim import Dim
from lamella.ir.interp import interpret
from lamella.ir.node import Node, topological
from lamella.ops import data, full, placeholder
from lamella.ops.base import PRIMITIVES, Primitive, Sample
from lamella.ops.calls import Call
from lamella.tensor.core import array_of

lamella.ops.load_all()
Array = npt.NDArray[Any]


class NotApplicableError(Exception):
    """A column that says nothing about this primitive."""


@dataclass(frozen=True)
class Case:
    """A sample with its inputs drawn in one element type."""

    op: type[Primitive]
    sample: Sample
    dtype: DType
    arrays: tuple[Array, ...]

    def leaves(self) -> list[Node]:
        """Fresh input nodes."""
        found = []
        for array, dtype in zip(self.arrays, input_dtypes(self.sample, self.dtype), strict=True):
            found.append(data(array, array.shape, dtype, tracked=dtype.inexact))
        return found

    def node(self) -> Node:
        """The node under test on fresh inputs."""
        return self.sample.build(*self.leaves())


@dataclass
class Row:
    """What is known of one primitive."""

    name: str
    kind: str
    dtypes: str
    cells: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def input_dtypes(sample: Sample, dtype: DType) -> list[DType]:
    """The element type of each input of a sample."""
    own = sample.input_dtypes or (None,) * len(sample.shapes)
    return [found or dtype for found in own]


def draw(sample: Sample, shape: tuple[int, ...], dtype: DType, position: int) -> Array:
    """Values for one input."""
    rng = np.random.default_rng([position, *shape])
    if sample.draw is not None:
        return np.asarray(sample.draw(rng, shape, dtype, position)).astype(dtype.numpy)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "c":
        parts = rng.uniform(sample.low, sample.high, (2, *shape))
        return np.asarray(parts[0] + 1j * parts[1]).astype(dtype.numpy)
    if dtype.is_integer:
        low = max(int(sample.low), iinfo(dtype).min)
        return rng.integers(low, int(sample.high) + 1, shape).astype(dtype.numpy)
    return rng.uniform(sample.low, sample.high, shape).astype(dtype.numpy)


def cases(op: type[Primitive], one: DType | None = None) -> Iterator[Case]:
    """Every sample of a primitive in each of its element types, or in ``one`` of them."""
    for sample in op.samples():
        for dtype in sample.dtypes:
            if one is None or dtype is one:
                types = input_dtypes(sample, dtype)
                shapes = zip(sample.shapes, types, strict=True)
                arrays = tuple(draw(sample, s, d, i) for i, (s, d) in enumerate(shapes))
                yield Case(op, sample, dtype, arrays)


def complex_case(case: Case) -> Case:
    """The same sample on complex numbers."""
    types = input_dtypes(case.sample, complex128)
    arrays = tuple(
        np.asarray(array * np.exp(0.5j)) if dtype is complex128 else array
        for array, dtype in zip(case.arrays, types, strict=True)
    )
    return Case(case.op, case.sample, complex128, arrays)


def floats(case: Case) -> list[Node]:
    """Fresh floating-point inputs, and the node made of them last.

    Raises:
        NotApplicableError: when there are none, or the result is no floating-point number.
    """
    if not case.sample.differentiable or not case.op.differentiable:
        raise NotApplicableError
    leaves = case.leaves()
    node = case.sample.build(*leaves)
    inputs = [leaf for leaf in leaves if leaf.dtype.inexact]
    if not inputs or not node.dtype.inexact:
        raise NotApplicableError
    return [*inputs, node]


def ones(node: Node) -> Node:
    """A cotangent or tangent of ones."""
    return full(1.0, node.shape, node.dtype)


def reference(case: Case) -> None:
    """The meaning in NumPy has the shape and type that the node says."""
    node = case.node()
    node.op.check(node)
    (value,) = interpret([node])
    if value.shape != node.shape or value.dtype != node.dtype.numpy:
        raise ValueError(f"{value.dtype}{value.shape} for {node!r}")


def gradient(case: Case) -> None:
    """Reverse and forward mode both exist, and agree on the sum of all derivatives."""
    *inputs, node = floats(case)
    back = [g for g in vjp([node], [ones(node)], inputs) if g is not None]
    (forth,) = jvp([node], inputs, [ones(leaf) for leaf in inputs])
    if not back or forth is None:
        return
    left = sum(float(value.real.astype(np.float64).sum()) for value in interpret(back))
    right = float(interpret([forth])[0].real.astype(np.float64).sum())
    if not np.isclose(left, right, rtol=1e-6, atol=1e-6, equal_nan=True):
        raise ValueError(f"reverse mode says {left}, forward mode {right}")


def second(case: Case) -> None:
    """The gradient has a gradient."""
    *inputs, node = floats(case)
    first = [g for g in vjp([node], [ones(node)], inputs) if g is not None]
    interpret([g for g in vjp(first, [ones(g) for g in first], inputs) if g is not None])


def batching(case: Case) -> None:
    """A batch of two equal inputs gives two equal results."""
    if not case.arrays:
        raise NotApplicableError
    inputs = [placeholder(leaf.shape, leaf.dtype) for leaf in case.leaves()]
    node = case.sample.build(*inputs)
    doubled = [np.stack([array, array]) for array in case.arrays]
    pairs = zip(inputs, doubled, strict=True)
    stacked = {leaf: data(array, array.shape, leaf.dtype) for leaf, array in pairs}
    ((many, has_batch),) = batch([node], stacked, 2)
    if not has_batch:
        raise NotApplicableError
    (result,) = interpret([many])
    (single,) = interpret([case.node()])
    exact = np.stack([single, single]).tobytes()
    if np.ascontiguousarray(result).tobytes() != exact:
        close(result, np.stack([single, single]), node.dtype)


def close(value: Array, wanted: Array, dtype: DType) -> None:
    """Raise unless the compiled value is the interpreter's, within the element type."""
    rtol = {64: 1e-11, 32: 2e-5}.get(dtype.part.bits, 2e-2) if dtype.inexact else 0.0
    if dtype.kind == "f":
        value, wanted = value.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(value, wanted, rtol=rtol, atol=rtol, equal_nan=True)


def llvm(case: Case) -> None:
    """The compiled program gives the interpreter's value."""
    from lamella.runtime.buffer import from_numpy
    from lamella.runtime.evaluate import evaluate

    leaves = case.leaves()
    for leaf in leaves:
        leaf.value = from_numpy(np.ascontiguousarray(leaf.value))
        leaf.tracked = False
    node = case.sample.build(*leaves)
    (wanted,) = interpret([case.node()])
    evaluate([node])
    close(array_of(node), wanted, node.dtype)


def c_emitter(case: Case) -> None:
    """The same kernels, as C99 by the system's compiler, give the interpreter's value."""
    if any(isinstance(node.op, Call) and node.op.opaque for node in topological([case.node()])):
        raise NotApplicableError
    from tests.support.c_backend import run_kernel_c
    from tests.support.programs import run_program

    (value,) = run_program([case.node()], run_kernel_c)
    (wanted,) = interpret([case.node()])
    close(value, wanted, case.node().dtype)


def complex_numbers(case: Case) -> None:
    """On complex inputs the compiled parts give what NumPy's complex arithmetic gives."""
    if case.sample.note == "special values":
        raise NotApplicableError
    try:
        (wanted,) = interpret([case.node()])
    except DTypeError:
        raise NotApplicableError from None  # refused when it is recorded
    if not np.iscomplexobj(wanted) and all(leaf.dtype.kind != "c" for leaf in case.leaves()):
        raise NotApplicableError
    llvm(case)


def with_shapes(
    case: Case, wanted: Callable[[tuple[int, ...]], bool], instead: tuple[int, ...]
) -> Case:
    """The case if an input has a ``wanted`` shape; an elementwise one with shape ``instead``.

    Raises:
        NotApplicableError: for another case.
    """
    if any(wanted(array.shape) for array in case.arrays):
        return case
    if case.op.kind != "elementwise" or not case.arrays or case.sample.note:
        raise NotApplicableError
    sample = replace(case.sample, shapes=(instead,) * len(case.arrays))
    types = input_dtypes(sample, case.dtype)
    arrays = tuple(draw(sample, instead, d, i) for i, d in enumerate(types))
    return Case(case.op, sample, case.dtype, arrays)


def empty(case: Case) -> None:
    """Inputs without elements: compiled, and differentiated where that applies."""
    chosen = with_shapes(case, lambda shape: 0 in shape, (0, 3))
    llvm(chosen)
    with contextlib.suppress(NotApplicableError):
        gradient(chosen)


def zero_dimensional(case: Case) -> None:
    """0-d inputs."""
    llvm(with_shapes(case, lambda shape: shape == (), ()))


def dynamic(case: Case) -> None:
    """A program whose first axis is open gives the interpreter's value."""
    from lamella.runtime.buffer import empty, from_numpy
    from lamella.runtime.evaluate import compile_program

    first = next((a.shape[0] for a in case.arrays if a.ndim and a.shape[0] > 1), None)
    if first is None:
        raise NotApplicableError
    leaves = case.leaves()
    inputs = [
        placeholder(tuple(Dim("n") if s == first and i == 0 else s for i, s in enumerate(n.shape)),
                    n.dtype) for n in leaves
    ]  # fmt: skip
    try:
        node = case.sample.build(*inputs)
        program = compile_program([node], inputs, [])
    except (ShapeError, TypeError, CompilerError):
        raise NotApplicableError from None
    at = program.bind(tuple(first for _ in program.blueprint.symbols))
    given = [from_numpy(np.ascontiguousarray(array)) for array in case.arrays]
    made = [empty(n) for n in at.nbytes]
    program.run([b.ptr for b in given], [], [b.ptr for b in made], at)
    (wanted,) = interpret([case.node()])
    if 0 not in program.blueprint.same:
        close(made[0].numpy(wanted.shape, node.dtype.numpy), wanted, node.dtype)


COLUMNS: dict[str, tuple[Callable[[Case], None], bool]] = {
    "reference": (reference, False),  # in every element type
    "gradient": (gradient, True),  # in float64 only
    "second gradient": (second, True),
    "batching": (batching, True),
    "compiled": (llvm, False),
    "C99": (c_emitter, True),
    "complex": (complex_numbers, True),
    "zero-size": (empty, True),
    "0-d": (zero_dimensional, True),
    "open axis": (dynamic, True),
}


def attempt(check: Callable[[Case], None], found: Sequence[Case]) -> tuple[str, str]:
    """The cell of one column, and a note when something is missing."""
    applied = False
    for case in found:
        try:
            check(case)
            applied = True
        except NotApplicableError:
            continue
        except Exception as error:
            first = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            return "MISSING", f"{case.dtype.name} {case.sample.note or case.sample.shapes}: {first}"
    return ("yes" if applied else "–"), ""


def row(name: str, op: type[Primitive]) -> Row:
    """Everything about one primitive."""
    every = list(cases(op))
    types = {
        dtype for case in every for dtype in (case.dtype, *input_dtypes(case.sample, case.dtype))
    }
    made = Row(name, op.kind, " ".join(d.name for d in (*ALL, *COMPLEX) if d in types))
    for column, (check, double) in COLUMNS.items():
        chosen = list(cases(op, float64)) if double else every
        if column == "complex":
            chosen = [complex_case(case) for case in chosen if case.sample.shapes][:3]
        cell, note = attempt(check, chosen or every)
        if column.endswith("gradient") and cell == "–" and not op.differentiable:
            cell = "zero" if {"float64", "complex128"} & set(made.dtypes.split()) else "–"
        made.cells[column] = cell
        if note:
            made.notes.append(f"`{name}`, {column}: {note}")
    return made


def shown() -> dict[str, type[Primitive]]:
    """The primitives that have samples, by kind and name."""
    found = [(op.kind, name) for name, op in PRIMITIVES.items() if any(True for _ in op.samples())]
    return {name: PRIMITIVES[name] for _, name in sorted(found)}


def groups(dtypes: str) -> str:
    """Element types, shortened to groups where a whole group is there.

    >>> groups("float16 bfloat16 float32 float64 int64")
    'floats, int64'
    """
    left = dtypes.split()
    shown = []
    for title, chosen in (
        ("all", ALL),
        ("integers", [d for d in ALL if d.is_integer]),
        ("floats", [d for d in ALL if d.is_floating]),
        ("complex", list(COMPLEX)),
    ):
        names = [d.name for d in chosen]
        if set(names) <= set(left):
            shown.append(title)
            left = [name for name in left if name not in names]
    return ", ".join(shown + left)


def line(made: Row) -> str:
    """A primitive's line of the table."""
    cells = " | ".join(made.cells[column] for column in COLUMNS)
    return f"| `{made.name}` | {made.kind} | {cells} | {groups(made.dtypes)} |"


def markdown(table: Sequence[Row]) -> str:
    """The page."""
    lines = [
        "# Support table",
        "",
        "Written by `make support`, from the samples in each primitive's class; a test holds",
        "this page to what it finds. Everything else is composed of these primitives and has their",
        "rules.",
        "",
        "- *yes*: done to every sample, and the values agree; *zero*: the derivative is zero where",
        "  it exists; *–*: the column does not apply.",
        "- *gradient* means reverse and forward mode; *batching* is `vmap`; *compiled* is what",
        "  `lm.jit` and lazy evaluation run by way of LLVM, *C99* the same kernels by the other",
        "  emitter; both are compared with the interpreter. *complex*: takes complex numbers too.",
        "- *zero-size* and *0-d*: inputs without elements, without axes. *open axis*: a program",
        "  whose first size is known only when it runs; – there means a program for each size.",
        "",
        f"| primitive | kind | {' | '.join(COLUMNS)} | element types |",
        f"| --- | --- |{' --- |' * (len(COLUMNS) + 1)}",
    ]
    lines += [line(made) for made in table]
    notes = [f"- {note}" for made in table for note in made.notes]
    if notes:
        lines += ["", "## Missing", "", *notes]
    return "\n".join(lines) + "\n"


def main(path: str) -> int:
    """Write the page; 1 when something is missing."""
    table = [row(name, op) for name, op in shown().items()]
    Path(path).write_text(markdown(table), encoding="utf-8")
    missing = [note for made in table for note in made.notes]
    print(f"{len(table)} primitives, {len(missing)} missing", *missing, sep="\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
