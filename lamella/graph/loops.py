"""The loop primitive: ``scan``, ``fori_loop`` and ``while_loop`` as one node of the graph.

Input: constants (the same at every step), initial carries, and stacks of slices (one slice a step).
Output: the final carries, the number of steps if a condition decides it, and rows: one value a
step, stacked. The body is a :class:`~lamella.ir.subgraph.Subgraph`::

    for k in range(steps):
        carries, rows[k] = body(constants, carries, slices[k])

With ``reverse`` the indices k come in the opposite order. The compiler lowers it to launches of the
body with jumps between them (``compiler.control``); rules are in ``loop_reverse``,
``loop_forward`` and ``loop_batch``.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lamella import ops
from lamella.dtypes import float64, int64
from lamella.errors import OptionError, ShapeError
from lamella.graph import loop_batch, loop_forward, loop_motion, loop_reverse
from lamella.graph.effects import conditional, interpreted
from lamella.graph.replay import with_sizes
from lamella.ir.dim import Size, bind, unify
from lamella.ir.interp import interpret
from lamella.ir.loop_parse import parse_size
from lamella.ir.node import Node, gradient_mode
from lamella.ir.subgraph import Subgraph
from lamella.ops.base import PRIMITIVES, Array, Needs, Sample
from lamella.ops.calls import Call, Result, call, is_token

__all__ = ["Loop", "Operands", "loop"]


@dataclass(frozen=True, slots=True)
class Operands:
    """The inputs of a loop by their part in it; ``count`` is there if the loop is ``counted``."""

    count: Node | None
    constants: tuple[Node, ...]
    initial: tuple[Node, ...]
    slices: tuple[Node, ...]

    @property
    def for_body(self) -> tuple[Node, ...]:
        """In the order of the body's inputs, slices stacked."""
        return (*self.constants, *self.initial, *self.slices)

    @property
    def all(self) -> tuple[Node, ...]:
        """In the order of the node's inputs."""
        first = () if self.count is None else (self.count,)
        return (*first, *self.for_body)


@dataclass(frozen=True, slots=True)
class Loop(Call):
    """Repeats ``body``; see the module.

    Attributes:
        body: inputs (constants, carries, slices) to outputs (carries, rows).
        condition: inputs (constants, carries) to one int64: the loop goes on while it is positive.
        carries, slices: how many there are of each.
        counted: the first input is the number of steps, a 0-d int64.
        length: the most steps if there are no slices to say it; None is without end.
    """

    name: ClassVar[str] = "loop"
    control: ClassVar[bool] = True
    body: Subgraph
    condition: Subgraph | None = None
    carries: int = 0
    slices: int = 0
    counted: bool = False
    reverse: bool = False
    length: Size | None = None

    def __post_init__(self) -> None:
        """Parameters may be given as text, as they are read from files."""
        for name in ("body", "condition", "length"):
            text = getattr(self, name)
            if isinstance(text, str):
                value = parse_size(text) if name == "length" else Subgraph.parse(text, PRIMITIVES)
                object.__setattr__(self, name, value)

    # -- form --------------------------------------------------------------------------------------
    def split(self, inputs: Sequence[Node]) -> Operands:
        """The inputs by their part."""
        given = tuple(inputs)
        count = given[0] if self.counted else None
        first = 1 if self.counted else 0
        slices = len(given) - self.slices
        initial = slices - self.carries
        return Operands(count, given[first:initial], given[initial:slices], given[slices:])

    @property
    def constants(self) -> int:
        """How many constants the body has."""
        return len(self.body.inputs) - self.carries - self.slices

    @property
    def first_row(self) -> int:
        """The number of the result that is the first stack of rows."""
        return self.carries + (self.condition is not None)

    @property
    def row_nodes(self) -> tuple[Node, ...]:
        """What the body gives for each stack of rows."""
        return self.body.outputs[self.carries :]

    @property
    def most_is_open(self) -> bool:
        """Whether nothing bounds the number of steps."""
        return not self.slices and self.length is None

    @property
    def tokens(self) -> tuple[int, ...]:
        """The numbers of the carries whose computation is an effect of a step."""
        return tuple(j for j in range(self.carries) if is_token(self.body.outputs[j]))

    def most(self, inputs: Sequence[Node]) -> Size | None:
        """The most steps there can be."""
        return inputs[-1].shape[0] if self.slices else self.length

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """Carries, the number of steps under a condition, rows."""
        found = [(n.shape, n.dtype) for n in self.body.outputs[: self.carries]]
        if self.condition is not None:
            found.append(((), int64))
        most = self.most(inputs)
        for node in self.row_nodes:
            if most is None:
                raise OptionError("[loop] rows of a loop without end; give it a most of steps")
            found.append(((most, *node.shape), node.dtype))
        return tuple(found)

    def check(self, node: Node) -> None:
        """Every input has the shape and dtype that the body takes."""
        super(Loop, self).check(node)
        given = self.split(node.inputs)
        wanted = [n.shape for n in self.body.inputs]
        held = [n.shape for n in (*given.constants, *given.initial)]
        held += [n.shape[1:] for n in given.slices]
        if wanted != held:
            raise ShapeError(f"[loop] inputs of shapes {held} for a body that takes {wanted}")

    # -- meaning -----------------------------------------------------------------------------------
    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Step by step, each by the interpreter."""
        bound: dict[str, int] = {}
        for source, array in zip(node.inputs, arrays, strict=True):
            unify(source.shape, array.shape, bound)
        first = 1 if self.counted else 0
        carry_at = first + self.constants
        constants, slices = arrays[first:carry_at], arrays[carry_at + self.carries :]
        carries = list(arrays[carry_at : carry_at + self.carries])
        most = self.most(node.inputs)
        steps = np.inf if most is None else bind(most, bound)
        if self.counted:
            steps = min(steps, int(arrays[0]))
        kinds = self.results(node.inputs)[self.first_row :]
        rows = [np.zeros([bind(s, bound) for s in shape], d.numpy) for shape, d in kinds]
        done = 0
        while done < steps and self._goes_on(constants, carries, bound):
            k = int(steps) - 1 - done if self.reverse else done
            given = [*constants, *carries, *(stack[k] for stack in slices)]
            found = interpreted(self.body, given, bound)
            carries = list(found[: self.carries])
            for stack, row in zip(rows, found[self.carries :], strict=True):
                stack[k] = row
            done += 1
        counts = [] if self.condition is None else [np.asarray(done, np.int64)]
        return (*carries, *counts, *rows)

    def _goes_on(
        self, constants: Sequence[Array], carries: Sequence[Array], bound: Mapping[str, int]
    ) -> bool:
        test = self.condition
        if test is None:
            return True
        known = dict(zip(test.inputs, (*constants, *carries), strict=True))
        return bool(interpret(test.outputs, known, bound)[0] > 0)

    # -- rules -------------------------------------------------------------------------------------
    def vjp_all(
        self, node: Node, cotangents: Sequence[Node | None], needs: Needs
    ) -> Sequence[Node | None]:
        """A loop in the opposite order."""
        return loop_reverse.pull(node, self, cotangents, needs)

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """A loop over the carries' tangents."""
        return loop_forward.push(node, self, tangents)

    def batch_all(
        self, node: Node, args: Sequence[Node], batched: Needs, size: Size
    ) -> Sequence[Node]:
        """The batched body, step by step."""
        return loop_batch.batched_loop(node, self, args, batched, size)

    def bound(self, sizes: Mapping[str, int]) -> Loop:
        """The loop with numbers for size symbols."""
        length = None if self.length is None else bind(self.length, sizes)
        return replace(self.over_graphs(lambda g: with_sizes(g, sizes)), length=length)

    def over_graphs(self, change: Callable[[Subgraph], Subgraph]) -> Loop:
        """The loop with another body and condition."""
        condition = None if self.condition is None else change(self.condition)
        return replace(self, body=change(self.body), condition=condition)

    def when(self, flag: Node, inputs: Sequence[Node]) -> tuple[Loop, Sequence[Node]]:
        """The flag is one more constant."""
        head, test = int(self.counted), self.condition
        if test is not None:
            test = Subgraph([ops.placeholder((), flag.dtype), *test.inputs], test.outputs)
        op = replace(self, body=conditional(self.body), condition=test)
        return op, [*inputs[:head], flag, *inputs[head:]]

    def kept(
        self, node: Node, used: Sequence[int]
    ) -> tuple[Call, Sequence[Node], dict[int, int]] | None:
        """The loop without unused rows, and without carries that nothing used depends on."""
        return loop_batch.pruned(node, self, used)

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        """A cumulative product with rows."""

        def build(xs: Node, start: Node, factor: Node) -> Node:
            x, carry = ops.placeholder((3,), xs.dtype, True), ops.placeholder((3,), xs.dtype, True)
            scale = ops.placeholder((3,), xs.dtype, True)
            after = ops.add(ops.multiply(carry, scale), ops.sin(x))
            body = Subgraph((scale, carry, x), (after, ops.multiply(after, x)))
            return loop(Loop(body, carries=1, slices=1), factor, start, xs)[1]

        yield Sample(((4, 3), (3,), (3,)), build, (float64,))


def loop(op: Loop, *inputs: Node) -> tuple[Node, ...]:
    """Every result of ``op``; what a derivative will read is stacked along the way, and products
    that need not wait for the loop are computed before or after it.
    """
    return tuple(loop_motion.moved(op, inputs, _record))


def _record(op: Loop, inputs: Sequence[Node]) -> Sequence[Node]:
    count = len(op.results(inputs))
    op = loop_reverse.with_returned(op)
    if gradient_mode.enabled and any(node.tracked for node in inputs):
        op = loop_reverse.with_residuals(op, inputs)
    return call(op, *inputs)[:count]
