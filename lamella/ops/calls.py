"""Primitives with several results: a call node, and a part of it for each result.

Input: a primitive derived from :class:`Call` and its inputs. Output: one node a result. The call
itself has no value; ``part(call, i)`` is result ``i``, and while that node lives there is only one.
Rules of a call are given for all results at once (``vjp_all``, ``jvp_all``, ``batch_all``). An
*opaque* call is computed by its ``evaluate``, in Python, in the thread that runs the program:
factorisations by LAPACK, callbacks. A *control* call becomes jumps between the launches of its
subgraphs: loops, branches. Any other call gives ``grid`` and ``kernel`` as primitives of kind
"kernel" do, and stores with ``out.part(i, index, value)``.

Results of a call through which a derivative may pass are remembered with the call, so that a
derivative which needs a result nobody else held does not compute the call again.
"""
from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from lamella.dtypes import ALL, DType, uint8
from lamella.errors import CompilerError, MissingRuleError
from lamella.ir.dim import Shape, Size
from lamella.ir.node import Node, gradient_mode
from lamella.ir.subgraph import Subgraph
from lamella.ops.base import Array, Kind, Needs, Primitive, Sample
from lamella.ops.families import check_fits, unary
from lamella.ops.leaf import Identity, placeholder

__all__ = [
    "Barrier", "Call", "PairedCall", "Part", "Result", "adopt", "barrier", "call",
    "effects_first", "has_effects", "is_token", "keep", "living", "part", "parts", "token_of",
]  # fmt: skip

Result = tuple[Shape, DType]


@dataclass(frozen=True, slots=True)
class Call(Primitive):
    """The base of primitives with several results; see the module."""

    kind: ClassVar[Kind] = "call"
    opaque: ClassVar[bool] = False
    transposed: ClassVar[bool] = False  # reverse mode is derived from ``jvp_all``
    control: ClassVar[bool] = False  # lowered to jumps between launches: loops, branches
    partial: ClassVar[bool] = False  # its kernel may leave elements unwritten: they are zeros

    @property
    def in_memory(self) -> bool:
        """Whether every input must lie in memory: no kernel of the call's own reads them."""
        return self.opaque or self.control

    @property
    def tokens(self) -> tuple[int, ...]:
        """The numbers of the results whose computation is an effect: it must be had exactly once,
        after those recorded before it.
        """
        return ()

    def when(self, flag: Node, inputs: Sequence[Node]) -> tuple[Call, Sequence[Node]]:
        """The call and its inputs, with its effects only where ``flag`` (0-d bool) holds."""
        raise MissingRuleError(self.name, "having effects under a condition", "when")

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """Shape and dtype of each result."""
        raise MissingRuleError(self.name, "recording", "results")

    def check(self, node: Node) -> None:
        """The call node itself is 0-d; ``results`` checks the inputs."""
        check_fits(node, (), _marker(self.results(node.inputs)))

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The meaning, in NumPy: every result. What an opaque call runs."""
        raise MissingRuleError(self.name, "interpretation", "evaluate")

    def made_for_sizes(self, node: Node) -> bool:
        """Whether the call is better compiled for each of its sizes than for any of them."""
        return False

    def composed(self, node: Node) -> Sequence[Node] | None:
        """The results as other operations, which the compiler puts in the call's place."""
        return None

    def vjp_all(
        self, node: Node, cotangents: Sequence[Node | None], needs: Needs
    ) -> Sequence[Node | None]:
        """The cotangent of each input from those of the results; None is zero."""
        raise MissingRuleError(self.name, "reverse-mode differentiation", "vjp_all")

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """The tangent of each result from those of the inputs; None is zero."""
        raise MissingRuleError(self.name, "forward-mode differentiation", "jvp_all")

    def batch_all(
        self, node: Node, args: Sequence[Node], batched: Needs, size: Size
    ) -> Sequence[Node]:
        """Every result with a new leading axis of ``size``; by default those of ``batch``."""
        return parts(self.batch(node, args, batched, size))

    def bound(self, sizes: Mapping[str, int]) -> Call:
        """The same call with numbers for size symbols in its parameters."""
        return self

    def over_graphs(self, change: Callable[[Subgraph], Subgraph]) -> Call:
        """The same call with each of its subgraphs changed."""
        return self

    def kept(
        self, node: Node, used: Sequence[int]
    ) -> tuple[Call, Sequence[Node], dict[int, int]] | None:
        """The call without what only unused results need, its inputs, and the new numbers of its
        results; None: it stays as it is.
        """
        return None


@dataclass(frozen=True, slots=True)
class PairedCall(Call):
    """The opaque call ``inner`` while a program is compiled: where an input's dtype is complex, the
    input here is the real one with an axis of 2 more that lies in the same memory, and so are
    complex results.
    """

    opaque: ClassVar[bool] = True
    inner: Call
    dtypes: tuple[DType, ...]

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """Those of ``inner``, complex ones as pairs."""
        found = self.inner.results(self.seen(inputs).inputs)
        return tuple(
            ((*shape, 2), dtype.part) if dtype.kind == "c" else (shape, dtype)
            for shape, dtype in found
        )

    def seen(self, inputs: Sequence[Node]) -> Node:
        """The call of ``inner`` on placeholders of the inputs' true shapes and dtypes."""
        shapes = (
            source.shape[:-1] if dtype.kind == "c" else source.shape
            for source, dtype in zip(inputs, self.dtypes, strict=True)
        )
        given = tuple(placeholder(s, d) for s, d in zip(shapes, self.dtypes, strict=True))
        return Node(self.inner, given, (), _marker(self.inner.results(given)))


@dataclass(frozen=True, slots=True)
class Part(Primitive):
    """One result of a call."""

    name: ClassVar[str] = "part"
    kind: ClassVar[Kind] = "part"
    linear: ClassVar[bool] = True
    index: int

    def check(self, node: Node) -> None:
        """The shape and dtype the call says."""
        (source,) = node.inputs
        if not isinstance(source.op, Call):
            raise CompilerError(f"[part] {source.op.name} is no call with several results")
        check_fits(node, *source.op.results(source.inputs)[self.index])


@dataclass(slots=True)
class _Record:
    """What is known of a call: its living parts, and buffers that derivatives may need."""

    living: dict[int, weakref.ref[Node]] = field(default_factory=dict)
    kept: dict[int, Any] = field(default_factory=dict)


def has_effects(node: Node) -> bool:
    """Whether ``node`` is a call with effects."""
    op = node.op.inner if isinstance(node.op, PairedCall) else node.op
    return isinstance(op, Call) and bool(op.tokens)


def token_of(node: Node) -> Node | None:
    """The result of a call whose computation is an effect and of which ``node`` is a repetition, if
    there is one.
    """
    while node.op.kind == "movement" and len(node.inputs) == 1:
        node = node.inputs[0]
    if not isinstance(node.op, Part) or not node.inputs:
        return None
    op = node.inputs[0].op
    op = op.inner if isinstance(op, PairedCall) else op
    return node if isinstance(op, Call) and node.op.index in op.tokens else None


def is_token(node: Node) -> bool:
    """Whether computing ``node`` is having an effect."""
    return token_of(node) is not None


def effects_first(outputs: Sequence[Node]) -> list[Node]:
    """``outputs`` in the order in which to compute them: effects as they come, then the rest."""
    return sorted(outputs, key=lambda node: not is_token(node))


_records: weakref.WeakKeyDictionary[Node, _Record] = weakref.WeakKeyDictionary()


def _marker(results: Sequence[Result]) -> DType:
    """The dtype of a call node: one with derivatives if a result has them, for only that is
    tracked.
    """
    return next((dtype for _, dtype in results if dtype.inexact), uint8)


def call(op: Call, *inputs: Node) -> tuple[Node, ...]:
    """Every result of ``op`` on ``inputs``, as a node each."""
    node = Node(op, inputs, (), _marker(op.results(inputs)))
    tracked = op.differentiable and any(source.tracked for source in inputs)
    node.tracked = tracked and gradient_mode.enabled and node.dtype is not uint8
    return parts(node)


def parts(node: Node) -> tuple[Node, ...]:
    """Every result of the call ``node``."""
    return tuple(part(node, i) for i in range(len(_results(node))))


def _results(node: Node) -> tuple[Result, ...]:
    if not isinstance(node.op, Call):
        raise CompilerError(f"[part] {node.op.name} is no call with several results")
    return node.op.results(node.inputs)


def part(node: Node, index: int) -> Node:
    """Result ``index`` of the call ``node``: the living node, else a new one, computed if the
    result was kept.
    """
    record = _records.get(node)
    if record is None:
        record = _records[node] = _Record()
    known = record.living.get(index)
    found = known() if known is not None else None
    if found is None:
        shape, dtype = _results(node)[index]
        found = Node(Part(index), (node,), shape, dtype)
        found.tracked = node.tracked and dtype.inexact
        found.value = record.kept.get(index)
        record.living[index] = weakref.ref(found)
    return found


def adopt(node: Node) -> None:
    """Make ``node`` the living one of its call's results that it stands for."""
    if isinstance(node.op, Part):
        record = _records.setdefault(node.inputs[0], _Record())
        record.living[node.op.index] = weakref.ref(node)


def living(node: Node) -> list[Node]:
    """The parts of the call ``node`` that somebody holds."""
    record = _records.get(node)
    found = [] if record is None else [known() for known in list(record.living.values())]
    return [node for node in found if node is not None]


def keep(node: Node, value: object) -> None:
    """Remember the value of a part with its call."""
    record = _records.get(node.inputs[0])
    if record is not None and isinstance(node.op, Part):
        record.kept[node.op.index] = value


@dataclass(frozen=True, slots=True)
class Barrier(Identity):
    """The input, in memory of its own: nothing is composed or merged across it."""

    name: ClassVar[str] = "barrier"
    linear: ClassVar[bool] = True

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """All dtypes."""
        yield Sample(((2, 3),), barrier, ALL)


def barrier(x: Node) -> Node:
    """``x``, computed and stored by itself."""
    return unary(Barrier(), x)
