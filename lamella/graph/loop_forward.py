"""Forward mode through loops: tangents run along with the values.

Input: a loop node and tangents of its inputs. Output: tangents of its results. Where the loop has
stacked all that the tangents read, they are a loop of their own over those stacks; else a loop over
values and tangents together.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lamella import ops
from lamella.graph.cut import forward_nodes, read_by
from lamella.graph.forward import jvp
from lamella.graph.loop_motion import moved
from lamella.graph.loop_reverse import returned_values, stacked
from lamella.graph.replay import Recording, replay, subgraph_of, twins
from lamella.ir.node import Node
from lamella.ir.subgraph import Subgraph
from lamella.ops.calls import call, part

if TYPE_CHECKING:
    from lamella.graph.loops import Loop

__all__ = ["push"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The derivative of a body along tangents of some inputs.

    ``moving`` are the numbers of the carries with tangents, ``rows`` those of the rows, ``fixed``
    those of the constants that are read; ``reads`` are the nodes read a slice at a time. None:
    the body computes the values too, from all of its own inputs.
    """

    moving: tuple[int, ...]
    rows: tuple[int, ...]
    fixed: tuple[int, ...]
    reads: tuple[Node, ...] | None
    held: tuple[Node, ...]  # what effects returned, a slice at a time, where values are computed
    outside: list[Node]  # what rules of people's own read from outside: more constants
    body: Subgraph


class Derivation:
    """Works out a :class:`Plan` for tangents of the inputs that ``moves`` says."""

    def __init__(self, op: Loop, moves: Sequence[bool]) -> None:
        self.op = op
        self.first, self.last = op.constants, op.constants + op.carries
        self.active = list(moves)
        self.seeds = twins(op.body.inputs)

    def _tangents(self) -> Sequence[Node | None]:
        """Tangents of the body's outputs; finds which carries have any."""
        body = self.op.body
        while True:
            pairs = zip(self.seeds, self.active, strict=True)
            found = jvp(body.outputs, body.inputs, [seed if on else None for seed, on in pairs])
            places = [self.first + j for j in range(self.op.carries) if found[j] is not None]
            more = [place for place in places if not self.active[place]]
            if not more:
                return found
            for place in more:
                self.active[place] = True

    def _seeds(self, begin: int, end: int | None) -> list[Node]:
        pairs = zip(self.seeds[begin:end], self.active[begin:end], strict=True)
        return [seed for seed, on in pairs if on]

    def plan(self) -> Plan:
        """The derivative."""
        found = self._tangents()
        body, first, last = self.op.body, self.first, self.last
        moving = tuple(j for j in range(self.op.carries) if self.active[first + j])
        rows = tuple(i for i, t in enumerate(found[self.op.carries :]) if t is not None)
        outputs = [found[j] or ops.full(0, self.seeds[first + j].shape, self.seeds[first + j].dtype)
                   for j in moving]  # fmt: skip
        outputs += [t for t in found[self.op.carries :] if t is not None]
        kept = {*body.inputs, *self.op.row_nodes, *returned_values(self.op, outputs)}
        forward = forward_nodes(body.outputs, body.inputs)
        read = read_by(outputs, forward, kept, lambda node: False)
        carried = [n for n in read if n in body.inputs[first:last]]
        if any(node not in self.op.row_nodes for node in carried):
            return self._with_values(moving, rows, outputs)
        return self._alone(moving, rows, outputs, read)

    def _with_values(
        self, moving: tuple[int, ...], rows: tuple[int, ...], outputs: Sequence[Node]
    ) -> Plan:
        body, first, last = self.op.body, self.first, self.last
        inputs = [
            *body.inputs[:first], *self._seeds(0, first),
            *body.inputs[first:last], *self._seeds(first, last),
            *body.inputs[last:], *self._seeds(last, None),
        ]  # fmt: skip
        carries = [
            body.inputs[first + j] if j in self.op.tokens else body.outputs[j]
            for j in range(self.op.carries)
        ]
        found = [*carries, *outputs]
        held = returned_values(self.op, found)
        if held:
            given = twins(held)
            known = {n: n for n in inputs} | dict(zip(held, given, strict=True))
            found, inputs = replay(found, known), [*inputs, *given]
        made, outside = subgraph_of(inputs, found)
        return Plan(moving, rows, tuple(range(first)), None, tuple(held), outside, made)

    def _alone(
        self, moving: tuple[int, ...], rows: tuple[int, ...], outputs: Sequence[Node],
        read: Sequence[Node],
    ) -> Plan:  # fmt: skip
        constants = self.op.body.inputs[: self.first]
        fixed = tuple(i for i, n in enumerate(constants) if n in read)
        reads = tuple(n for n in read if n not in constants)
        before = [*(constants[i] for i in fixed), *reads]
        stand = twins(before)
        inputs = [
            *stand[: len(fixed)], *self._seeds(0, self.last),
            *stand[len(fixed) :], *self._seeds(self.last, None),
        ]  # fmt: skip
        known = dict(zip(before, stand, strict=True)) | {n: n for n in inputs}
        made, outside = subgraph_of(inputs, replay(outputs, known))
        return Plan(moving, rows, fixed, reads, (), outside, made)


def _plan(op: Loop, moves: tuple[bool, ...]) -> Plan:
    key = ("push", op.carries, op.slices, moves)
    found = op.body.cache.get(key)
    if not isinstance(found, Plan):
        with Recording():
            found = Derivation(op, moves).plan()
        if not found.outside:  # or values of nobody's would be kept
            op.body.cache[key] = found
    return found


def push(node: Node, op: Loop, tangents: Sequence[Node | None]) -> list[Node | None]:
    """The tangents of a loop's results."""
    own = tangents[1:] if op.counted else tangents
    given = op.split(node.inputs)
    first, last = op.constants, op.constants + op.carries
    plan = _plan(op, tuple(tangent is not None for tangent in own))
    fixed = [*plan.outside, *(given.constants[i] for i in plan.fixed)]
    fixed += [t for t in own[:first] if t is not None]
    initial = [] if plan.reads is not None else list(given.initial)
    values = len(initial)
    starts = [(own[first + j], given.initial[j]) for j in plan.moving]
    initial += [t or ops.full(0, n.shape, n.dtype) for t, n in starts]
    slices = list(given.slices) if plan.reads is None else stacked(node, op, plan.reads)
    slices += [t for t in own[last:] if t is not None]
    slices += stacked(node, op, plan.held)
    count = part(node, op.carries) if op.condition is not None else given.count
    tangent = replace(
        op, body=plan.body, condition=None, carries=len(initial), slices=len(slices),
        counted=count is not None, length=None if slices else op.most(node.inputs),
    )  # fmt: skip
    inputs = [*([] if count is None else [count]), *fixed, *initial, *slices]
    made = moved(tangent, inputs, lambda op, inputs: call(op, *inputs))
    found: list[Node | None] = [None] * len(op.results(node.inputs))
    for place, j in enumerate(plan.moving):
        found[j] = made[values + place]
    for place, i in enumerate(plan.rows):
        found[op.first_row + i] = made[len(initial) + place]
    return found
