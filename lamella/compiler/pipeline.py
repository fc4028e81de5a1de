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
from lamella.compiler.contraction_split import split_contractions
from lamella.compiler.fusion import fuse
from lamella.compiler.layout import layouts
from lamella.compiler.partition import materialised
from lamella.compiler.prune import prune
from lamella.compiler.split_complex import split_complex
from lamella.compiler.statements import build
from lamella.graph.inlined import expand
from lamella.ir.node import Node, topological
from lamella.ir.verify import verify_graph
from lamella.ir.verify_loops import verify_kernel

__all__ = ["GRAPH_PASSES", "PASSES", "compile_graph"]

GraphPass = Callable[[Sequence[Node], int], list[Node]]  # outputs, bytes of a vector

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
        "layouts",
        layouts,
        "orders of axes decide what is stored; the graph still says what is padded and pooled",
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
)
PASSES: tuple[tuple[str, str], ...] = (
    ("expand", "first of all: functions with rules of their own are ordinary graphs from here on"),
    ("split_complex", "before everything else, which then knows real numbers only"),
    *((name, why) for name, _, why in GRAPH_PASSES),
    ("inline", "decide what is stored; everything else is composed into its users"),
    ("fuse", "statements that share outer loops become one kernel"),
    ("reuse", "when every kernel is known: write results over operands that die"),
)


def _closed(nodes: Sequence[Node]) -> bool:
    """Whether every size is known: relations between open sizes hold but cannot be shown."""
    return all(isinstance(size, int) for node in topological(nodes) for size in node.shape)


def compile_graph(
    outputs: Sequence[Node],
    inputs: Sequence[Node],
    scalars: Sequence[Node],
    vector_bytes: int,
    skip: frozenset[str] = frozenset(),
    donated: Mapping[int, int] | None = None,
    verify: bool = False,
) -> Blueprint:
    """The program that computes ``outputs`` from the buffers ``inputs`` and the numbers
    ``scalars``.

    ``skip`` names optional passes of ``PASSES`` to leave out. ``donated`` maps outputs to inputs
    (by number) that the caller gives up where nothing else holds them. ``verify`` checks the graph
    after every pass, and every kernel.

    Raises:
        ShapeError, DTypeError, CompilerError: what ``verify`` found.
    """
    nodes, given = split_complex(expand(outputs), inputs)
    for name, run, _ in GRAPH_PASSES:
        if name not in skip or name == "canonicalise":
            nodes = run(nodes, vector_bytes)
            if verify and _closed(nodes):
                verify_graph(nodes)
    order = topological(nodes)
    stored = materialised(order, nodes, fuse="inline" not in skip)
    program = build(order, nodes, stored)
    groups = fuse(program.statements, enabled="fuse" not in skip)
    offered = {} if "reuse" in skip else donated or {}

    def nested(
        outputs: Sequence[Node], inputs: Sequence[Node], donated: Mapping[int, int]
    ) -> Blueprint:
        return compile_graph(outputs, inputs, (), vector_bytes, skip, donated, verify)

    assembler = Assembler(program, groups, nodes, given, scalars, offered, nested)
    blueprint = assembler.run(vector_bytes, reuse="reuse" not in skip)
    blueprint.outputs = [(node.shape, node.dtype) for node in outputs]
    if verify:
        for kernel in blueprint.kernels:
            verify_kernel(kernel)
    return blueprint
