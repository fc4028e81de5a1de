"""The compiler as a list of passes, from a graph to a program of kernels.

Input: the outputs of a graph and its external inputs in order. Output: a ``Blueprint``: kernels as
plain data, which slots each is launched with, and where temporaries live. Nothing here depends on
the machine but the width of its vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lamella.compiler.assemble import Assembler
from lamella.compiler.blueprint import Blueprint
from lamella.compiler.canonicalise import canonicalise, split_reductions
from lamella.compiler.contraction_pieces import split_concatenations
from lamella.compiler.contraction_split import split_contractions
from lamella.compiler.early_checks import early_checks
from lamella.compiler.fusion import fuse
from lamella.compiler.layout import layouts
from lamella.compiler.loop_factors import loop_factors
from lamella.compiler.partition import materialised
from lamella.compiler.prune import prune
from lamella.compiler.recompute import Planned, Renewed, recomputed
from lamella.compiler.results import results
from lamella.compiler.split_complex import split_complex
from lamella.compiler.statements import build
from lamella.compiler.transposes import transposes
from lamella.errors import OptionError
from lamella.graph.inlined import expand
from lamella.ir.node import Node, topological
from lamella.ir.vectors import VectorUnit
from lamella.ir.verify import verify_graph
from lamella.ir.verify_loops import verify_kernel
from lamella.ops.calls import effects_first

__all__ = ["GRAPH_PASSES", "PASSES", "compile_graph"]

LARGE = 32 << 20  # bytes of values between that are worth a second plan
WORTH = 3.0  # bytes that memory may move for a byte that is not kept
MOST = 1e5  # the same, beyond which nothing more would be computed again
GAIN = 0.95  # the share of memory that a plan with more work may take
ROUNDS = 3  # moments of most memory that are looked at, one after the other

GraphPass = Callable[[Sequence[Node], VectorUnit], list[Node]]

# In order: name, pass, why it stands here.
GRAPH_PASSES: tuple[tuple[str, GraphPass, str], ...] = (
    (
        "prune",
        lambda nodes, _: prune(nodes),
        "first of all: what no result needs must cost nothing later",
    ),
    (
        "canonicalise",
        lambda nodes, _: canonicalise(nodes),
        "early: later passes see each value once and no identities",
    ),
    (
        "transposes",
        lambda nodes, _: transposes(nodes),
        "when equal values are one, for it asks who reads a product",
    ),
    (
        "layouts",
        layouts,
        "orders of axes decide what is stored; the graph still says what is padded and pooled",
    ),
    (
        "loop_factors",
        loop_factors,
        "before products are split, for those of a loop's body are its own",
    ),
    (
        "split_concatenations",
        lambda nodes, _: split_concatenations(nodes),
        "before products are split, for those with pieces are",
    ),
    (
        "split_contractions",
        lambda nodes, _: split_contractions(nodes),
        "before fusion, which asks how the work is shared",
    ),
    (
        "split_reductions",
        lambda nodes, _: split_reductions(nodes),
        "before fusion, which asks how many results there are",
    ),
    (
        "share",
        lambda nodes, _: canonicalise(nodes),
        "splitting and layouts make new nodes, some of them equal",
    ),
    (
        "results",
        lambda nodes, _: results(nodes),
        "last: from here on outputs may have another shape than who asked for them",
    ),
)
PASSES: tuple[tuple[str, str], ...] = (
    ("expand", "first of all: functions with rules of their own are ordinary graphs from here on"),
    ("split_complex", "before everything else, which then knows real numbers only"),
    ("early_checks", "where state may be written over; before passes share what it makes equal"),
    *((name, why) for name, _, why in GRAPH_PASSES),
    ("inline", "decide what is stored; everything else is composed into its users"),
    ("fuse", "statements that share outer loops become one kernel"),
    ("recompute", "when it is known what lives how long: cheap values are made twice, not kept"),
    ("reuse", "when every kernel is known: write results over operands that die"),
    ("split_loops", "last: a kernel in pieces no longer shows that each element is stored once"),
)


def _closed(nodes: Sequence[Node]) -> bool:
    """Whether every size is known: relations between open sizes hold but cannot be shown."""
    return all(isinstance(size, int) for node in topological(nodes) for size in node.shape)


Planner = Callable[[Renewed], Planned]


def _planner(taken: Mapping[int, Node], skip: frozenset[str]) -> Planner:
    """What is stored, and in which groups; ``taken``: outputs (by number) offered an input."""

    def plan(graph: Renewed) -> Planned:
        nodes = graph.outputs
        order = topological(effects_first(nodes))
        stored = materialised(order, nodes, fuse="inline" not in skip)
        program = build(order, nodes, stored, graph.copies)
        offered = {nodes[number]: source for number, source in taken.items()}
        groups = fuse(program.statements, "fuse" not in skip, nodes, offered)
        return Planned(graph, order, program, groups)

    return plan


def _smaller(planned: Planned, plan: Planner, worth: float) -> Planned:
    """The plan, or one that takes less memory and more time, as far as that is worth it."""
    for _ in range(ROUNDS):
        graph = recomputed(planned, worth)
        found = None if graph is None else plan(graph)
        if found is None or found.peak >= GAIN * planned.peak:
            break
        planned = found
    return planned


def _within(
    budget: int, planned: Planned, plan: Planner, assemble: Callable[[Planned], Blueprint]
) -> Blueprint:
    """The program that computes least again of those whose memory fits."""
    least: Planned | None = None
    worth = WORTH
    tried: set[int] = set()
    while worth < MOST:
        found = _smaller(planned, plan, worth)
        worth *= 2
        if found.peak in tried:
            continue
        tried.add(found.peak)
        if least is None or found.peak < least.peak:
            least = found
        if found.peak <= 2 * budget:  # by sharing memory in place, it may yet fit
            made = assemble(found)
            if made.memory <= budget:
                return made
    need = budget if least is None else assemble(least).memory
    raise OptionError(
        f"[jit] memory_budget={budget:,}, but values between and results take {need:,} bytes at "
        "once, however much is computed again; raise it, or use smaller batches"
    )


def _passed(
    nodes: list[Node], unit: VectorUnit, skip: frozenset[str], verify: bool
) -> list[Node]:
    """The graph after its passes."""
    for name, run, _ in GRAPH_PASSES:
        if name not in skip or name == "canonicalise":
            nodes = run(nodes, unit)
            if verify and _closed(nodes):
                verify_graph(nodes)
    return nodes


def compile_graph(
    outputs: Sequence[Node],
    inputs: Sequence[Node],
    scalars: Sequence[Node],
    unit: VectorUnit,
    skip: frozenset[str] = frozenset(),
    donated: Mapping[int, int] | None = None,
    verify: bool = False,
    budget: int | None = None,
    large: bool = False,
) -> Blueprint:
    """The program that computes ``outputs`` from the buffers ``inputs`` and the numbers
    ``scalars``.

    ``skip`` names optional passes of ``PASSES`` to leave out. ``donated`` maps outputs to inputs
    (by number) that the caller gives up where nothing else holds them. ``verify`` checks the graph
    after every pass, and every kernel. ``budget``: bytes that values between and results may take.
    ``large``: results whose sizes are not known will be of ``STREAM`` bytes or more.

    Raises:
        ShapeError, DTypeError, CompilerError: what ``verify`` found.
        OptionError: for a budget that cannot be kept, however much is computed again.
    """
    nodes, given = split_complex(expand(outputs), inputs)
    offered = {} if "reuse" in skip else donated or {}
    if offered and "early_checks" not in skip:
        nodes = early_checks(nodes)
    nodes = _passed(nodes, unit, skip, verify)
    taken = {o: given[i] for o, i in offered.items()}
    plan = _planner(taken, skip)
    planned = plan(Renewed(nodes, {}))

    def nested(
        outputs: Sequence[Node], inputs: Sequence[Node], donated: Mapping[int, int]
    ) -> Blueprint:
        return compile_graph(outputs, inputs, (), unit, skip, donated, verify)

    def assemble(planned: Planned) -> Blueprint:
        program, roots = planned.program, planned.graph.outputs
        made = Assembler(
            program, planned.groups, roots, given, scalars, offered, nested, large,
            [(node.shape, node.dtype) for node in outputs],
        )  # fmt: skip
        return made.run(unit, "reuse" not in skip, "split_loops" not in skip)

    if budget is not None:
        blueprint = _within(budget, planned, plan, assemble)
    else:
        small = "recompute" in skip or planned.peak < LARGE
        blueprint = assemble(planned if small else _smaller(planned, plan, WORTH))
    if verify:
        for kernel in blueprint.kernels:
            verify_kernel(kernel)
    return blueprint
