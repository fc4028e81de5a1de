"""Loops for many examples, and loops without what nobody uses.

Input: a loop node, its batched inputs. Output: results with the new axis in front. Carries that no
batched value reaches stay single. Where examples end at different steps, the loop goes on until all
have ended, and those that have keep their carries.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lamella import ops
from lamella.dtypes import int64
from lamella.graph.batch import batch
from lamella.graph.effects import guarded
from lamella.graph.replay import Recording, replay
from lamella.ir.dim import Size
from lamella.ir.node import Node, topological
from lamella.ir.subgraph import Subgraph
from lamella.ops.base import Needs
from lamella.ops.calls import Call, call, is_token

if TYPE_CHECKING:
    from lamella.graph.loops import Loop

__all__ = ["batched_inputs", "batched_loop", "like", "pruned", "swapped", "widened"]


def widened(node: Node, size: Size) -> Node:
    """``node`` repeated along a new leading axis."""
    return ops.broadcast_to(ops.reshape(node, (1, *node.shape)), (size, *node.shape))


def swapped(node: Node) -> Node:
    """``node`` with its first two axes exchanged."""
    return ops.permute(node, (1, 0, *range(2, node.ndim)))


def batched_inputs(graph: Subgraph, has: Sequence[bool], size: Size) -> dict[Node, Node]:
    """Placeholders for many examples in place of the inputs that ``has`` says."""
    return {
        n: ops.placeholder((size, *n.shape), n.dtype, n.tracked)
        for n, wide in zip(graph.inputs, has, strict=True) if wide
    }  # fmt: skip


class Batched:
    """A loop's body and condition for many examples."""

    def __init__(self, op: Loop, has: Sequence[bool], size: Size, apart: bool) -> None:
        self.op, self.size, self.apart = op, size, apart
        self.first, self.last = op.constants, op.constants + op.carries
        self.has = list(has)
        with Recording():
            self._find()

    def _find(self) -> None:
        """Which carries become batched, and whether examples may end at different steps."""
        op = self.op
        while True:
            if self.apart:
                self.has[self.first : self.last] = [True] * op.carries
            self.many = batched_inputs(op.body, self.has, self.size)
            self.found = batch(op.body.outputs, self.many, self.size)
            more = [j for j in range(op.carries) if self.found[j][1] and not self._carried(j)]
            for j in more:
                self.has[self.first + j] = True
            self._condition()
            if not more and (self.apart or not self.ends_apart):
                return
            self.apart = self.ends_apart

    def _carried(self, j: int) -> bool:
        return self.has[self.first + j]

    def _condition(self) -> None:
        self.ends_apart = self.apart
        if self.op.condition is not None:
            test, has = self.op.condition, self.has[: self.last]
            self.test_many = batched_inputs(test, has, self.size)
            ((self.test, wide),) = batch(test.outputs, self.test_many, self.size)
            self.ends_apart = self.ends_apart or wide

    def inputs(self) -> list[Node]:
        """The body's, with the new axis where they have it."""
        return [self.many.get(n, n) for n in self.op.body.inputs]

    def outputs(self) -> list[Node]:
        """The body's: carries as they came in, rows as they are."""
        made = []
        for j, (node, wide) in enumerate(self.found):
            missing = j < self.op.carries and self._carried(j) and not wide
            made.append(widened(node, self.size) if missing else node)
        return made

    def condition(self) -> Subgraph | None:
        """The condition on batched carries, where it does not differ between examples."""
        test = self.op.condition
        if test is None:
            return None
        return Subgraph([self.test_many.get(n, n) for n in test.inputs], [self.test])

    # -- examples that end at different steps ------------------------------------------------------
    def alive(self) -> Node:
        """Which examples go on, from the body's inputs."""
        test = self.op.condition
        if test is None:
            raise TypeError("a loop without a condition")
        given = dict(zip(test.inputs, self.inputs()[: self.last], strict=True))
        known = {self.test_many.get(n, n): given[n] for n in test.inputs}
        (flag,) = replay([self.test], known)
        return ops.greater(flag, ops.full(0, flag.shape, flag.dtype))

    def chosen(self, alive: Node, inputs: Sequence[Node]) -> list[Node]:
        """Carries and rows where examples go on; else carries as they were, and zeros."""
        rows = self.outputs()[self.op.carries :]
        rows = [
            row if wide else widened(row, self.size)
            for row, (_, wide) in zip(rows, self.found[self.op.carries :], strict=True)
        ]
        before = [*inputs[self.first : self.last],
                  *(ops.full(0, row.shape, row.dtype) for row in rows)]  # fmt: skip
        after = [*self.outputs()[: self.op.carries], *rows]
        return [
            new if is_token(new) else ops.where(like(alive, new), new, old)
            for new, old in zip(after, before, strict=True)
        ]


def like(alive: Node, node: Node) -> Node:
    """A flag for each example at every element of ``node``."""
    shape = (*alive.shape, *[1] * (node.ndim - 1))
    return ops.broadcast_to(ops.reshape(alive, shape), node.shape)


def _given(
    op: Loop, args: Sequence[Node], flags: Sequence[bool], has: Sequence[bool], size: Size
) -> list[Node]:
    """The batched loop's inputs: carries widened, the steps of slices in front."""
    first, last = op.constants, op.constants + op.carries
    found = []
    for i, (arg, wide) in enumerate(zip(args, flags, strict=True)):
        if first <= i < last and has[i] and not wide:
            arg = widened(arg, size)
        found.append(swapped(arg) if i >= last and wide else arg)
    return found


def batched_loop(
    node: Node, op: Loop, args: Sequence[Node], batched: Needs, size: Size
) -> list[Node]:
    """Every result of the loop for many examples."""
    head = 1 if op.counted else 0
    flags = batched[head:]
    made = Batched(op, flags, size, apart=op.counted and batched[0])
    if made.ends_apart and op.tokens:
        op = _while_alive(op)
        made = Batched(op, flags, size, apart=True)
    given = _given(op, args[head:], flags, made.has, size)
    if made.ends_apart:
        if op.counted:
            return _by_count(made, args[0], given)
        return _by_condition(made, given)
    body = Subgraph(made.inputs(), made.outputs())
    found = call(replace(op, body=body, condition=made.condition()), *args[:head], *given)
    wide = [made.has[made.first + j] for j in range(op.carries)]
    results = [r if w else widened(r, size) for r, w in zip(found, wide, strict=False)]
    if op.condition is not None:
        results.append(widened(found[op.carries], size))
    rows = zip(found[op.first_row :], made.found[op.carries :], strict=True)
    return results + [swapped(row) if wide else widened(row, size) for row, (_, wide) in rows]


def _while_alive(op: Loop) -> Loop:
    """The loop with effects only while its condition holds, whoever goes on."""
    test = op.condition
    if test is None:
        raise TypeError("effects in a loop of counted steps")
    known = dict(zip(test.inputs, op.body.inputs[: op.constants + op.carries], strict=True))
    with Recording():
        (flag,) = replay(test.outputs, known)
        alive = ops.greater(flag, ops.full(0, (), flag.dtype))
    return replace(op, body=Subgraph(op.body.inputs, guarded(op.body, alive)))


def _by_condition(made: Batched, given: Sequence[Node]) -> list[Node]:
    """The loop goes on while any example does; each counts its own steps."""
    op, inputs = made.op, made.inputs()
    with Recording():
        alive = made.alive()
        steps = ops.placeholder((made.size,), int64)
        chosen = made.chosen(alive, inputs)
        after = ops.add(steps, ops.cast(alive, int64))
        flags = ops.reduce_sum(ops.cast(alive, int64))
    outputs = [*chosen[: op.carries], after, *chosen[op.carries :]]
    body = Subgraph([*inputs[: made.last], steps, *inputs[made.last :]], outputs)
    test = Subgraph([*inputs[: made.last], steps], [flags])
    zero = ops.full(0, (made.size,), int64)
    start = [*given[: made.last], zero, *given[made.last :]]
    found = call(replace(op, body=body, condition=test, carries=op.carries + 1), *start)
    return [*found[: op.carries + 1], *(swapped(row) for row in found[op.carries + 2 :])]


def _by_count(made: Batched, counts: Node, given: Sequence[Node]) -> list[Node]:
    """The loop takes the most steps that any example takes."""
    op, inputs = made.op, made.inputs()
    zero = ops.constant(0, int64)
    most = ops.maximum(ops.reduce_max(counts), zero) if made.size != 0 else zero
    with Recording():
        own = ops.placeholder(counts.shape, int64)
        at = ops.placeholder((), int64)
        alive = ops.less(ops.full(at, counts.shape), own)
        chosen = made.chosen(alive, inputs)
        after = ops.add(at, ops.constant(-1 if op.reverse else 1, int64))
    outputs = [*chosen[: op.carries], after, *chosen[op.carries :]]
    body = Subgraph([own, *inputs[: made.last], at, *inputs[made.last :]], outputs)
    begin = ops.subtract(most, ops.constant(1, int64)) if op.reverse else zero
    start = [most, counts, *given[: made.last], begin, *given[made.last :]]
    found = call(replace(op, body=body, carries=op.carries + 1), *start)
    return [*found[: op.carries], *(swapped(row) for row in found[op.carries + 1 :])]


# -- what nobody uses ------------------------------------------------------------------------------
def pruned(
    node: Node, op: Loop, used: Sequence[int]
) -> tuple[Call, Sequence[Node], dict[int, int]] | None:
    """The loop with the results ``used`` and what they need, its inputs, and the new numbers of
    its results; None if that is all of it.
    """
    first, last, inputs = op.constants, op.constants + op.carries, op.body.inputs
    rows = [i for i in range(len(op.row_nodes)) if op.first_row + i in used]
    tested = [] if op.condition is None else _reached(op.condition, op.condition.outputs)
    live = {j for j in range(op.carries) if j in used or is_token(op.body.outputs[j])}
    while True:
        outputs = [op.body.outputs[j] for j in sorted(live)]
        outputs += [op.row_nodes[i] for i in rows]
        reached = {*_reached(op.body, outputs), *tested}
        more = {j for j in range(op.carries) if first + j in reached} - live
        if not more:
            break
        live |= more
    kept = [i for i in range(len(inputs)) if i in reached or (i - first in live and i < last)]
    if len(kept) == len(inputs) and len(rows) == len(op.row_nodes):
        return None
    slices = sum(i >= last for i in kept)
    test = op.condition
    if test is not None:
        test = Subgraph([n for i, n in enumerate(test.inputs) if i in kept], test.outputs)
    smaller = replace(
        op, body=Subgraph([inputs[i] for i in kept], outputs), condition=test, carries=len(live),
        slices=slices, length=None if slices else op.most(node.inputs),
    )  # fmt: skip
    head = 1 if op.counted else 0
    given = [*node.inputs[:head], *(node.inputs[head + i] for i in kept)]
    numbers = [*sorted(live), *([op.carries] if test is not None else [])]
    numbers += [op.first_row + i for i in rows]
    return smaller, given, {old: new for new, old in enumerate(numbers)}


def _reached(graph: Subgraph, outputs: Sequence[Node]) -> list[int]:
    """The numbers of the inputs that outputs depend on."""
    below = set(topological(outputs, stop=graph.inputs))
    return [i for i, node in enumerate(graph.inputs) if node in below]
