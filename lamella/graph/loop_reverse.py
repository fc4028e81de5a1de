"""Reverse mode through loops: the cotangents run through the steps in the opposite order.

Input: a loop node and cotangents of its results. Output: cotangents of its inputs, the results of
another loop. Its body is the derivative of the body: it carries the cotangents of the carries and
the sums of those of the constants, and reads what the forward loop has stacked: slices, rows, and
the values that are dearer to compute again than to keep.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lamella import ops
from lamella.errors import GradientError, LamellaError, OptionError
from lamella.graph.batch import batch
from lamella.graph.cut import forward_nodes, read_by
from lamella.graph.effects import returned
from lamella.graph.loop_motion import fits, moved, sums_of, unmoved
from lamella.graph.replay import Recording, replay, subgraph_of, twins
from lamella.graph.reverse import vjp
from lamella.ir.dim import Size
from lamella.ir.node import Node
from lamella.ir.subgraph import Subgraph
from lamella.ops.base import Needs
from lamella.ops.calls import call, is_token, part, parts, token_of

if TYPE_CHECKING:
    from lamella.graph.loops import Loop

__all__ = ["pull", "returned_values", "stacked", "with_residuals", "with_returned"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The derivative of a body, for cotangents of some results by some inputs.

    ``carries``: the numbers of the carries that have cotangents; ``constants``, ``slices``: those
    of the inputs that get one; ``reads``: the forward nodes to be given; ``body``: inputs
    (forward constants, cotangents and sums, cotangents of rows, forward slices) to outputs.
    """

    carries: tuple[int, ...]
    constants: tuple[int, ...]
    slices: tuple[int, ...]
    rows: tuple[int, ...]
    products: dict[int, list[tuple[Node, Node | None]]]  # constants whose sums come after the loop
    fixed: tuple[int, ...]  # forward constants that are read, by number
    reads: tuple[Node, ...]  # forward nodes that are read a slice at a time
    outside: list[Node]  # what rules of people's own read from outside: more constants
    body: Subgraph


def _float(node: Node) -> bool:
    return node.dtype.kind in "fc"


class Derivation:
    """Works out a :class:`Plan`."""

    def __init__(
        self, op: Loop, carries: Sequence[int], rows: Sequence[int], needs: Needs,
        steps: Size | None,
    ) -> None:  # fmt: skip
        self.op = op
        body, first = op.body, op.constants
        last = first + op.carries
        self.constants = body.inputs[:first]
        self.carries = body.inputs[first:last]
        self.slices = body.inputs[last:]
        self.rows = tuple(rows)
        self.needs = needs
        self.active = set(carries)
        self.products = self._products(steps)
        self.seeds = dict(enumerate(twins(body.outputs)))

    def _products(self, steps: Size | None) -> dict[int, list[tuple[Node, Node | None]]]:
        """The needed constants whose sums can wait, if stacks for that are no burden."""
        found = {}
        for i, node in enumerate(self.constants):
            pairs = sums_of(self.op.body, node) if self.needs[i] and _float(node) else None
            stacks = [n for pair in pairs or () for n in pair if n is not None]
            if pairs and steps is not None and fits(stacks, steps):
                found[i] = [
                    (user, None if other is None else unmoved(other, self._inner()))
                    for user, other in pairs
                ]
        return found

    def _inner(self) -> set[Node]:
        return forward_nodes(self.op.body.outputs, self.op.body.inputs)

    def _needed(self) -> list[Node]:
        fixed = [
            n for i, n in enumerate(self.constants) if self.needs[i] and i not in self.products
        ]
        slices = self.needs[len(self.constants) + len(self.carries) :]
        return [*fixed, *(n for n, need in zip(self.slices, slices, strict=True) if need)]

    def _cotangents(self) -> dict[Node, Node]:
        """Cotangents of the body's inputs; finds which carries have any."""
        wanted = [n for n in (*self._needed(), *self.carries) if _float(n)]
        wanted += dict.fromkeys(user for pairs in self.products.values() for user, _ in pairs)
        while True:
            outs = [*sorted(self.active), *(self.op.carries + i for i in self.rows)]
            outputs = [self.op.body.outputs[i] for i in outs]
            found = vjp(outputs, [self.seeds[i] for i in outs], wanted)
            known = {n: ct for n, ct in zip(wanted, found, strict=True) if ct is not None}
            more = {j for j, n in enumerate(self.carries) if n in known} - self.active
            if not more:
                return known
            self.active |= more

    def plan(self) -> Plan:
        """The derivative."""
        found = self._cotangents()
        carries = tuple(sorted(self.active))
        constants = tuple(i for i, n in enumerate(self.constants) if n in found)
        slices = tuple(i for i, n in enumerate(self.slices) if n in found)
        sums = twins([self.constants[i] for i in constants])
        after = [found.get(self.carries[j]) or _zeros(self.carries[j]) for j in carries]
        after += [
            ops.add(total, found[self.constants[i]])
            for i, total in zip(constants, sums, strict=True)
        ]
        self.products = {
            i: [pair for pair in pairs if pair[0] in found] for i, pairs in self.products.items()
        }
        users = dict.fromkeys(user for pairs in self.products.values() for user, _ in pairs)
        outputs = [*after, *(found[self.slices[i]] for i in slices), *(found[u] for u in users)]
        read = self._read(outputs)
        others = [other for pairs in self.products.values() for _, other in pairs]
        read = list(dict.fromkeys([*read, *(n for n in others if n is not None)]))
        fixed = tuple(i for i, n in enumerate(self.constants) if n in read)
        reads = tuple(n for n in read if n not in self.constants)
        before = [*(self.constants[i] for i in fixed), *reads]
        stand = dict(zip(before, twins(before), strict=True))
        inputs = [
            *(stand[self.constants[i]] for i in fixed),
            *(self.seeds[j] for j in carries), *sums,
            *(self.seeds[self.op.carries + i] for i in self.rows),
            *(stand[n] for n in reads),
        ]  # fmt: skip
        made = replay(outputs, stand | {n: n for n in inputs})
        body, outside = subgraph_of(inputs, made)
        return Plan(
            carries, constants, slices, self.rows, self.products, fixed, reads, outside, body
        )

    def _read(self, outputs: Sequence[Node]) -> list[Node]:
        return read_by(outputs, self._inner(), {*self.op.body.inputs, *self.op.row_nodes})


def _zeros(node: Node) -> Node:
    return ops.full(0, node.shape, node.dtype)


def _plan(
    op: Loop, carries: tuple[int, ...], rows: tuple[int, ...], needs: Needs, steps: Size | None
) -> Plan:
    cache = op.body.cache
    key = ("pull", op.carries, op.slices, carries, rows, needs, steps)
    found = cache.get(key)
    if not isinstance(found, Plan):
        with Recording():
            found = Derivation(op, carries, rows, needs, steps).plan()
        if not found.outside:  # or values of nobody's would be kept
            cache[key] = found
    return found


def _plain_steps(op: Loop, inputs: Sequence[Node]) -> Size | None:
    """The number of steps if it is always the same."""
    return None if op.counted or op.condition is not None else op.most(inputs)


def with_residuals(op: Loop, inputs: Sequence[Node]) -> Loop:
    """``op`` with further rows: all that its derivative by any input will read.

    Where there is no such derivative it stays as it is: who asks for one is told why.
    """
    if op.most_is_open:
        return op
    carries = tuple(j for j in range(op.carries) if _float(op.body.outputs[j]))
    rows = tuple(i for i, n in enumerate(op.row_nodes) if _float(n))
    try:
        needs = (True,) * len(op.body.inputs)
        plan = _plan(op, carries, rows, needs, _plain_steps(op, inputs))
    except LamellaError:
        return op
    return _with_rows(op, plan.reads)


def _with_rows(op: Loop, nodes: Sequence[Node]) -> Loop:
    """``op`` with rows of those ``nodes`` of its body that it does not stack yet."""
    known = {*op.row_nodes, *op.body.inputs[op.constants + op.carries :]}
    more = [node for node in nodes if node not in known]
    if not more:
        return op
    key = ("rows", tuple(more))
    body = op.body.cache.get(key)
    if not isinstance(body, Subgraph):
        body = op.body.cache[key] = Subgraph(op.body.inputs, (*op.body.outputs, *more))
    return replace(op, body=body)


def returned_values(op: Loop, outputs: Sequence[Node]) -> list[Node]:
    """What effects of the body returned and ``outputs`` read.

    Raises:
        GradientError: if it cannot be kept, for nothing bounds the number of steps.
    """
    found = returned(outputs, op.body.inputs)
    if found and op.most_is_open:
        raise GradientError(
            "[while_loop] the derivative reads what io_callback returned at each step, which must "
            "be kept, for it does not run again; pass max_steps=..."
        )
    return found


def with_returned(op: Loop) -> Loop:
    """``op`` with further rows: what its effects returned, for derivatives do not repeat them."""
    if op.most_is_open or not op.tokens:
        return op
    tokens = [token_of(op.body.outputs[j]) for j in op.tokens]
    calls = dict.fromkeys(token.inputs[0] for token in tokens if token is not None)
    results = [node for found in calls for node in parts(found)]
    return _with_rows(op, [node for node in results if not is_token(node)])


def _without_effects(node: Node, op: Loop, fuller: Loop) -> tuple[Loop, Sequence[Node]]:
    """``fuller``, which is ``op`` with further rows, and its inputs: what effects returned is read
    from the rows of ``node``.
    """
    if not op.tokens:
        return fuller, node.inputs
    inputs = fuller.body.inputs
    outputs = list(fuller.body.outputs)
    for j in op.tokens:
        outputs[j] = inputs[op.constants + j]
    held = returned_values(op, outputs)
    given = twins(held)
    with Recording():
        outputs = replay(outputs, {n: n for n in inputs} | dict(zip(held, given, strict=True)))
    body = Subgraph([*inputs, *given], outputs)
    slices = op.slices + len(held)
    op = replace(fuller, body=body, slices=slices, length=None if slices else op.length)
    return op, [*node.inputs, *stacked(node, node.op, held)]  # type: ignore[arg-type]


def stacked(node: Node, op: Loop, wanted: Sequence[Node]) -> list[Node]:
    """The values of body nodes at all steps, stacked; runs the loop again if some were not kept."""
    fuller, source = _with_rows(op, wanted), node
    if fuller is not op:
        again, inputs = _without_effects(node, op, fuller)
        source = call(again, *inputs)[0].inputs[0]
    place = {n: i for i, n in reversed(list(enumerate(fuller.row_nodes)))}
    slices = op.body.inputs[op.constants + op.carries :]
    given = dict(zip(slices, op.split(node.inputs).slices, strict=True))
    return [given[n] if n in given else part(source, op.first_row + place[n]) for n in wanted]


def pull(
    node: Node, op: Loop, cotangents: Sequence[Node | None], needs: Needs
) -> list[Node | None]:
    """The cotangents of a loop's inputs."""
    if op.most_is_open:
        raise OptionError(
            "[while_loop] reverse-mode differentiation needs a bound on the number of steps, to "
            "keep what each step computed; pass max_steps=..., or use forward mode (lm.jvp)"
        )
    own = needs[1:] if op.counted else needs
    given = op.split(node.inputs)
    carries = tuple(j for j in range(op.carries) if cotangents[j] is not None)
    rows_given = cotangents[op.first_row :]
    rows = tuple(i for i, ct in enumerate(rows_given) if ct is not None)
    plan = _plan(op, carries, rows, own, _plain_steps(op, node.inputs))
    initial = [cotangents[j] or _zeros(op.body.outputs[j]) for j in plan.carries]
    initial += [_zeros(given.constants[i]) for i in plan.constants]
    slices = [ct for ct in rows_given if ct is not None]
    stacks = stacked(node, op, plan.reads)
    slices += stacks
    count = part(node, op.carries) if op.condition is not None else given.count
    backward = replace(
        op, body=plan.body, condition=None, carries=len(initial), slices=len(slices),
        counted=count is not None, reverse=not op.reverse,
        length=None if slices else op.most(node.inputs),
    )  # fmt: skip
    fixed = [*plan.outside, *(given.constants[i] for i in plan.fixed)]
    first = [] if count is None else [count]
    inputs = [*first, *fixed, *initial, *slices]
    made = moved(backward, inputs, lambda op, inputs: call(op, *inputs))
    found = _by_input(op, plan, made)
    first_product = len(initial) + len(plan.slices)
    read = dict(zip(plan.reads, stacks, strict=True))
    for i, sum_ in _products(op, plan, made[first_product:], read, given.constants):
        found[i + op.counted] = sum_
    return found


def _products(
    op: Loop, plan: Plan, cotangents: Sequence[Node], stacks: dict[Node, Node],
    constants: Sequence[Node],
) -> Iterator[tuple[int, Node]]:  # fmt: skip
    """The cotangents of constants that were not summed in the loop, from stacks."""
    users = dict.fromkeys(user for pairs in plan.products.values() for user, _ in pairs)
    seeds = dict(zip(users, cotangents, strict=True))
    for i, pairs in plan.products.items():
        total: Node | None = None
        for user, other in pairs:
            given = {} if other is None else {other: stacks[other]}
            seed = seeds[user] if given else ops.reduce_sum(seeds[user], 0)
            with Recording():
                many = batch([user], given, seed.shape[0])[0][0] if given else user
                (one,) = vjp([many], [seed], [op.body.inputs[i]])
            if one is not None:
                known = dict(zip(op.body.inputs, constants, strict=False))
                known |= {node: node for node in (seed, *given.values())}
                (one,) = replay([one], known)
                total = one if total is None else ops.add(total, one)
        if total is not None:
            yield i, total


def _by_input(op: Loop, plan: Plan, made: Sequence[Node]) -> list[Node | None]:
    """The backward loop's results in the order of the loop's inputs."""
    found: list[Node | None] = [None] * len(op.body.inputs)
    first, sums = op.constants, len(plan.carries)
    for place, j in enumerate(plan.carries):
        found[first + j] = made[place]
    for place, i in enumerate(plan.constants):
        found[i] = made[sums + place]
    for place, i in enumerate(plan.slices):
        found[first + op.carries + i] = made[sums + len(plan.constants) + place]
    return [None, *found] if op.counted else found
