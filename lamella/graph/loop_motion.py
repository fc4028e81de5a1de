"""Products that need not wait for the loop: computed for all steps at once, before it or after it.

Input: a loop and its inputs. Output: its results, from a loop that does less. What depends on
slices alone is computed from the stacks before the loop; what only rows depend on, from stacks
after it. That pays where a contraction is among it: many small products become one large one.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lamella import ops
from lamella.errors import MissingRuleError
from lamella.graph.batch import batch
from lamella.graph.effects import returned
from lamella.graph.replay import Recording, replay, twins
from lamella.ir.dim import Size, typical
from lamella.ir.node import Node, topological
from lamella.ir.subgraph import Subgraph
from lamella.ops.calls import has_effects

if TYPE_CHECKING:
    from lamella.graph.loops import Loop

__all__ = ["fits", "moved", "sums_of", "unmoved"]

Make = Callable[["Loop", Sequence[Node]], Sequence[Node]]
MOST = 1 << 28  # bytes of stacks that this may add


def moved(op: Loop, inputs: Sequence[Node], make: Make) -> Sequence[Node]:
    """The loop's results; ``make`` records the loop that is left."""
    most = op.most(inputs)
    if op.counted or op.condition is not None or most is None or most in (0, 1):
        return make(op, inputs)
    try:
        op, inputs = _before(op, inputs, most)
        after = _After(op, most)
    except MissingRuleError:  # an operation that cannot be batched stays
        return make(op, inputs)
    return after.results(make(after.smaller, inputs), inputs)


def _has_contraction(nodes: Sequence[Node]) -> bool:
    return any(node.op.kind == "contraction" for node in nodes)


def fits(nodes: Sequence[Node], steps: Size) -> bool:
    """Whether stacks of these nodes are no burden."""
    nbytes = sum(typical(node.size) * node.dtype.itemsize for node in nodes)
    return nbytes * typical(steps) <= MOST


def _reaching(graph: Subgraph, inputs: Collection[Node]) -> set[Node]:
    """The nodes that depend on some of the inputs."""
    found = set(inputs)
    for node in topological(graph.outputs, stop=graph.inputs):
        if any(source in found for source in node.inputs):
            found.add(node)
    return found


def unmoved(node: Node, allowed: Collection[Node]) -> Node:
    """What a node only moves around: the fewest elements are stacked."""
    while node.op.kind == "movement" and node.inputs[0] in allowed:
        if any(source in allowed for source in node.inputs[1:]):
            break
        node = node.inputs[0]
    return node


def _stacks(
    op: Loop, wanted: Sequence[Node], given: dict[Node, Node], inputs: Sequence[Node], steps: Size
) -> list[Node]:
    """Body nodes for all steps, from stacks of nodes below them."""
    with Recording():
        found = batch(wanted, given, steps)
    constants = dict(zip(op.body.inputs, op.split(inputs).constants, strict=False))
    known = constants | {stack: stack for stack in given.values()}
    made = replay([node for node, _ in found], known)
    return [
        node if has else ops.broadcast_to(node, (steps, *node.shape))
        for node, (_, has) in zip(made, found, strict=True)
    ]


# -- before the loop -------------------------------------------------------------------------------
def _before(op: Loop, inputs: Sequence[Node], steps: Size) -> tuple[Loop, Sequence[Node]]:
    """The loop with stacks of what depends on slices alone instead of those slices."""
    roots = _of_slices(op)
    if not roots or not fits(roots, steps):
        return op, inputs
    operands = op.split(inputs)
    places = op.body.inputs[op.constants + op.carries :]
    stacks = _stacks(op, roots, dict(zip(places, operands.slices, strict=True)), inputs, steps)
    given = twins(roots)
    with Recording():
        known = {n: n for n in op.body.inputs} | dict(zip(roots, given, strict=True))
        outputs = replay(op.body.outputs, known)
    wider = [*op.body.inputs, *given]
    kept = set(topological(outputs, stop=wider)) | set(wider[op.constants :][: op.carries])
    left = [n for n in wider if n in kept]
    slices = sum(n in kept for n in (*places, *given))
    everything = (*operands.for_body, *stacks)
    chosen = [node for n, node in zip(wider, everything, strict=True) if n in kept]
    return replace(op, body=Subgraph(left, outputs), slices=slices), chosen


def _of_slices(op: Loop) -> list[Node]:
    """What depends on slices and a contraction, but on no carry, and is read by something else."""
    body, first, last = op.body, op.constants, op.constants + op.carries
    order = topological(body.outputs, stop=body.inputs)
    calls = [n for n in order if has_effects(n)]  # they are had in the loop, step by step
    carried = _reaching(body, [*body.inputs[first:last], *calls])
    sliced = _reaching(body, body.inputs[last:]) - carried
    heavy: set[Node] = set()
    for node in order:
        if node in sliced and (_has_contraction([node]) or any(s in heavy for s in node.inputs)):
            heavy.add(node)
    read = [s for node in order if node not in sliced for s in node.inputs if s in heavy]
    found = [unmoved(node, heavy) for node in (*read, *(n for n in body.outputs if n in heavy))]
    return list(dict.fromkeys(found))


# -- after the loop --------------------------------------------------------------------------------
class _After:
    """Rows that are computed from stacks once the loop has ended."""

    def __init__(self, op: Loop, steps: Size) -> None:
        self.op, self.steps = op, steps
        body, carries = op.body, op.carries
        self.slices = body.inputs[op.constants + carries :]
        self.inner = set(topological(body.outputs[:carries], stop=body.inputs))
        self.inner |= {*body.inputs, *returned(body.outputs, body.inputs)}
        self.late: list[int] = []
        self.read: list[Node] = []
        for number, row in enumerate(op.row_nodes):
            above = [n for n in topological([row], stop=list(self.inner)) if n not in self.inner]
            if _has_contraction(above):
                self.late.append(number)
                self.read += [s for n in above for s in n.inputs if s in self.inner]
        constants = set(body.inputs[: op.constants])
        self.read = [n for n in dict.fromkeys(self.read) if n not in constants]
        extra = [n for n in self.read if n not in self.slices and n not in op.row_nodes]
        if not self.late or not fits(extra, steps):
            self.late, self.read = [], []
        self.smaller = self._smaller()

    def _smaller(self) -> Loop:
        if not self.late:
            return self.op
        carries = self.op.body.outputs[: self.op.carries]
        self.kept = [n for i, n in enumerate(self.op.row_nodes) if i not in self.late]
        self.stacked = [n for n in self.read if n not in self.slices and n not in self.kept]
        outputs = (*carries, *self.kept, *self.stacked)
        return replace(self.op, body=Subgraph(self.op.body.inputs, outputs))

    def results(self, made: Sequence[Node], inputs: Sequence[Node]) -> Sequence[Node]:
        """Those of the whole loop."""
        if not self.late:
            return made
        first = self.op.carries
        stacks = dict(zip((*self.kept, *self.stacked), made[first:], strict=False))
        stacks |= zip(self.slices, self.op.split(inputs).slices, strict=True)
        given = {n: stacks[n] for n in self.read}
        late = [self.op.row_nodes[i] for i in self.late]
        found = dict(zip(self.late, _stacks(self.op, late, given, inputs, self.steps), strict=True))
        kept = iter(made[first:])
        rows = [found[i] if i in found else next(kept) for i in range(len(self.op.row_nodes))]
        return [*made[:first], *rows]


# -- sums over all steps ---------------------------------------------------------------------------
def sums_of(graph: Subgraph, constant: Node) -> list[tuple[Node, Node | None]] | None:
    """Where a constant enters a body so that its cotangents need not be summed in the loop.

    Pairs of a node, whose cotangents at all steps are to be stacked, and what it is multiplied by:
    contractions that read the constant, for which the sum is one product of stacks; and (with
    None) wider nodes that only repeat it, for which it is one sum. None if it enters otherwise.
    """
    order = topological(graph.outputs, stop=graph.inputs)
    alike, depends = {constant}, {constant}  # the constant moved around; what depends on it
    for node in order:
        if any(source in depends for source in node.inputs):
            depends.add(node)
            if node.op.kind == "movement" and len(node.inputs) == 1 and node.inputs[0] in alike:
                alike.add(node)
    if any(node in alike for node in graph.outputs):
        return None
    found: dict[Node, Node | None] = {}
    for node in order:
        for source in node.inputs if node not in alike else ():
            if source not in alike:
                continue
            others = [other for other in node.inputs if other not in depends]
            if node.op.kind == "contraction" and len(others) == 1:
                found[node] = others[0]
            elif source.size != constant.size:
                found[source] = None
            else:
                return None
    return list(found.items())
