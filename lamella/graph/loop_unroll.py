"""Several steps of a loop as one: fewer, larger iterations.

Input: a loop without condition and a number of steps that divides its own. Output: the loop of so
many steps a time, and its results in the places of the first one's.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lamella import ops
from lamella.graph.replay import Recording, apply, twins
from lamella.ir.node import Node
from lamella.ir.subgraph import Subgraph

if TYPE_CHECKING:
    from lamella.graph.loops import Loop

__all__ = ["unrolled"]


def unrolled(
    op: Loop, inputs: Sequence[Node], steps: int, times: int,
    make: Callable[..., Sequence[Node]],
) -> Sequence[Node]:  # fmt: skip
    """The results of ``op``, whose iterations are ``times`` steps each; ``make`` records it."""
    given = op.split(inputs)
    count = steps // times
    with Recording():
        body = _composed(op, times)
    wider = replace(op, body=body, length=None if op.slices else count)
    stacks = [ops.reshape(s, (count, times, *s.shape[1:])) for s in given.slices]
    made = make(wider, *given.constants, *given.initial, *stacks)
    rows = [ops.reshape(row, (steps, *row.shape[2:])) for row in made[op.carries :]]
    return [*made[: op.carries], *rows]


def _composed(op: Loop, times: int) -> Subgraph:
    first, last = op.constants, op.constants + op.carries
    inputs = twins(op.body.inputs[:last])
    stacks = [
        ops.placeholder((times, *n.shape), n.dtype, n.dtype.inexact) for n in op.body.inputs[last:]
    ]
    constants, carries = inputs[:first], inputs[first:]
    rows: list[list[Node]] = [[] for _ in op.row_nodes]
    for k in reversed(range(times)) if op.reverse else range(times):
        entries = [_entry(stack, k) for stack in stacks]
        made = apply(op.body, [*constants, *carries, *entries])
        carries = made[: op.carries]
        for row, value in zip(rows, made[op.carries :], strict=True):
            row.insert(0 if op.reverse else len(row), ops.reshape(value, (1, *value.shape)))
    return Subgraph([*inputs, *stacks], [*carries, *(ops.concatenate(row, 0) for row in rows)])


def _entry(stack: Node, k: int) -> Node:
    shape = stack.shape[1:]
    start, strides = (k, *[0] * len(shape)), (1,) * stack.ndim
    return ops.reshape(ops.slice(stack, start, (1, *shape), strides), shape)
