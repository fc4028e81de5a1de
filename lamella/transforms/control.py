"""Loops that compile to native loops: ``scan``, ``fori_loop``, ``while_loop``, ``map``.

Input: Python functions of one step. Output: results as nodes of one loop; the body is recorded and
compiled once, whatever the number of steps, and everything can be differentiated, batched and
compiled. Tensors that a body closes over are found, and derivatives reach them.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from lamella import ops, tree
from lamella.dtypes import DType, bool_, int64
from lamella.errors import DTypeError, OptionError, ShapeError
from lamella.graph.loop_unroll import unrolled
from lamella.graph.loops import Loop, loop
from lamella.graph.replay import subgraph_of
from lamella.ir.dim import Size
from lamella.ir.node import Node
from lamella.ir.subgraph import Subgraph
from lamella.tensor.core import describe, node_of, wrap
from lamella.tensor.creation import asarray
from lamella.tensor.tensor import Tensor
from lamella.transforms.bodies import Body, as_tensors, compiled_once, trace

__all__ = ["fori_loop", "map", "scan", "while_loop"]

Step = Callable[..., Any]
MANY: Final = 1 << 16  # steps from which fori_loop counts them one by one


# -- carries ---------------------------------------------------------------------------------------
class Carry:
    """What goes from step to step: a tree of tensors whose structure, shapes and dtypes stay.

    Python numbers take the dtype that the body gives them.
    """

    def __init__(self, name: str, init: Any) -> None:
        self.name = name
        leaves, self.structure = tree.flatten(init)
        self.paths = tree.paths(init)
        self._free = [isinstance(leaf, (bool, int, float)) for leaf in leaves]
        self.tensors: list[Tensor] = tree.leaves(as_tensors(name, init))

    @property
    def value(self) -> Any:
        """The tree."""
        return tree.unflatten(self.structure, self.tensors)

    @property
    def nodes(self) -> list[Node]:
        """The tensors' nodes."""
        return [node_of(tensor) for tensor in self.tensors]

    def adapted(self, outputs: Sequence[Node]) -> bool:
        """Whether a number had to take another dtype, so that the body must be run again."""
        found = False
        for i, (tensor, out) in enumerate(zip(self.tensors, outputs, strict=False)):
            if self._free[i] and tensor.shape == out.shape and tensor.dtype is not out.dtype:
                self.tensors[i] = wrap(ops.cast(node_of(tensor), out.dtype))
                found = True
        self._free = [False] * len(self._free)
        return found

    def check(self, structure: tree.Structure, outputs: Sequence[Node]) -> None:
        """Raise unless the body returned what it took."""
        if structure != self.structure:
            raise OptionError(
                f"[{self.name}] the carry goes in as {self.structure} and comes out as {structure};"
                " return the same containers, keys and lengths"
            )
        for path, tensor, out in zip(self.paths, self.tensors, outputs, strict=True):
            before, after = node_of(tensor), out
            if before.shape != after.shape:
                raise ShapeError(
                    f"[{self.name}] the carry at {path} goes in as "
                    f"{describe(before.shape, before.dtype)} and comes out as "
                    f"{describe(after.shape, after.dtype)}; a carry keeps its shape"
                )
            if before.dtype is not after.dtype:
                raise DTypeError(
                    f"[{self.name}] the carry at {path} goes in as {before.dtype.name} and comes "
                    f"out as {after.dtype.name}; start with, or cast to, one dtype"
                )


def _stack_length(name: str, xs: Any, tensors: Sequence[Tensor], length: int | None) -> Size:
    """The number of steps that stacks and ``length`` say."""
    if length is not None and (isinstance(length, bool) or not isinstance(length, int)):
        raise OptionError(f"[{name}] length={length!r} is no whole number; give steps, or xs")
    if length is not None and length < 0:
        raise OptionError(f"[{name}] length={length} is below 0; give the number of steps")
    found: Size | None = length
    for path, tensor in zip(tree.paths(xs), tensors, strict=True):
        if not tensor.ndim:
            raise ShapeError(
                f"[{name}] xs at {path} is 0-d and has no axis to run over; give it a first axis "
                "with one entry a step, or close over it"
            )
        size = tensor.shape[0]
        if found is not None and size != found:
            raise ShapeError(
                f"[{name}] xs at {path} has {size} entries along its first axis, but {found} were "
                "expected; all of xs, and length, say the same number of steps"
            )
        found = size
    if found is None:
        raise OptionError(f"[{name}] the number of steps is not known; pass xs or length=")
    return found


def _slices(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors like one entry of each stack, for the body to be recorded with."""
    found = []
    for tensor in tensors:
        node = node_of(tensor)
        found.append(wrap(ops.placeholder(node.shape[1:], node.dtype)))
    return found


def _rebind(body: Body, values: Sequence[Node]) -> None:
    """Give the tensors from outside that the body rebinds their last values."""
    for tensor, node in zip(body.states, values, strict=True):
        tensor.rebind(node)


def _tokens(body: Body) -> tuple[list[Node], list[Node]]:
    """Carries that stand for the effects of a body: what comes out, and what goes in."""
    tokens = body.tokens
    return tokens, [ops.placeholder(n.shape, n.dtype) for n in tokens]


def _none(tokens: Sequence[Node]) -> list[Node]:
    return [ops.full(0, token.shape, token.dtype) for token in tokens]


# -- scan ------------------------------------------------------------------------------------------
def scan(
    body: Step, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:  # fmt: skip
    """Run ``body`` along the first axis of ``xs``, with a carry from step to step.

    ``carry, y = body(carry, x)`` for every entry x of ``xs``. The body is compiled once, to a
    native loop: neither compile time nor the graph grows with the number of steps. Derivatives
    keep what each step computed that is dear to compute again; they run the steps backwards.

    Args:
        body: a function of (carry, x) that returns (carry, y): trees of tensors (y may be None).
        init: the first carry, any tree. It keeps structure, shapes and dtypes.
        xs: a tree of tensors with one entry a step along their first axes, or None.
        length: the number of steps, needed without ``xs``.
        reverse: from the last entry to the first; y keep the places of their x.
        unroll: at most so many steps (a divisor of their number) become one iteration of the loop;
            True for all of them. The results are the same.

    Returns:
        The last carry, and the y of all steps stacked along a new first axis.

    Raises:
        ShapeError, DTypeError, OptionError: naming the path where the carry changes its form, or
            where ``xs`` disagree.
        TraceError: if the body looks at a value that depends on the carry or on x.

    >>> import lamella as lm
    >>> total, sums = scan(lambda c, x: (c + x, c + x), 0.0, lm.asarray([1.0, 2.0, 3.0]))
    >>> total.item(), sums.tolist()
    (6.0, [1.0, 3.0, 6.0])
    """
    xs = as_tensors("scan", xs)
    stacks, form = tree.flatten(xs)
    steps = _stack_length("scan", xs, stacks, length)
    times = _times(unroll, steps)
    carry = Carry("scan", init)

    def record() -> tuple[Body, tree.Structure]:
        entries = tree.unflatten(form, _slices(stacks))
        found = trace("scan", body, [carry.value, entries], effects=True)
        return found, _pair(found.structure)

    made, rows = record()
    if carry.adapted(made.outputs):
        made, rows = record()
    count = len(carry.tensors)
    carry.check(made.structure.children[0], made.outputs[:count])
    carries, ys = _loop(made, carry, [node_of(stack) for stack in stacks], steps, reverse, times)
    result = tree.unflatten(carry.structure, [wrap(node) for node in carries])
    return result, tree.unflatten(rows, [wrap(node) for node in ys])


def _times(unroll: int | bool, steps: Size) -> int:
    """How many steps become one."""
    if not isinstance(unroll, int) or unroll < 1:
        raise OptionError(f"[scan] unroll={unroll!r}; give a number of steps from 1 on, or True")
    if not isinstance(steps, int) or not steps:
        return 1
    most = steps if unroll is True else min(unroll, steps)
    return max(n for n in range(1, most + 1) if steps % n == 0)


def _pair(structure: tree.Structure) -> tree.Structure:
    """The structure of y where the body returned (carry, y)."""
    if structure.kind is not tuple or len(structure.children) != 2:
        raise OptionError(
            f"[scan] the body returned {structure}, which is no pair; return (carry, y), with None "
            "for y where there is nothing to stack"
        )
    return structure.children[1]


def _loop(
    body: Body, carry: Carry, stacks: list[Node], steps: Size, reverse: bool, times: int
) -> tuple[Sequence[Node], Sequence[Node]]:
    """The last carries and the stacked rows."""
    count, states = len(carry.tensors), len(body.states)
    last = len(body.arguments) - states
    # the states are carries too
    tokens, kept = _tokens(body)
    arguments = [*body.arguments[:count], *body.arguments[last:], *kept]
    arguments += body.arguments[count:last]
    first = len(body.outputs) - states
    outputs = [*body.outputs[:count], *body.outputs[first:], *tokens, *body.outputs[count:first]]
    graph, outside = subgraph_of(arguments, outputs, compiled_once(), body.calls)
    carries = count + states + len(tokens)
    op = Loop(
        graph, carries=carries, slices=len(stacks), reverse=reverse,
        length=None if stacks else steps,
    )  # fmt: skip
    initial = [*carry.nodes, *(node_of(state) for state in body.states), *_none(tokens)]
    inputs = [*outside, *initial, *stacks]
    if times > 1 and not tokens and isinstance(steps, int):
        found = unrolled(op, inputs, steps, times, loop)
    else:
        found = loop(op, *inputs)
    _rebind(body, found[count : count + states])
    body.have(dict(zip(tokens, found[count + states : carries], strict=True)))
    return found[:count], found[carries:]


def map(f: Step, xs: Any) -> Any:
    """``f`` of every entry along the first axis of ``xs``, one after the other.

    As ``vmap``, but with the memory of a single entry.

    Raises:
        ShapeError: if the first axes of ``xs`` disagree.

    >>> import lamella as lm
    >>> map(lambda x: x * x, lm.asarray([1.0, 2.0])).tolist()
    [1.0, 4.0]
    """
    return scan(lambda _, x: (None, f(x)), None, xs)[1]


# -- loops with a counter or a condition -----------------------------------------------------------
def fori_loop(lower: Any, upper: Any, body: Step, init: Any) -> Any:
    """``carry = body(i, carry)`` for i from ``lower`` to ``upper - 1``.

    With Python integers the number of steps is known and reverse mode works; with tensors as
    bounds it is a ``while_loop``.

    Returns:
        The last carry.

    >>> import lamella as lm
    >>> fori_loop(0, 4, lambda i, x: x * 2, lm.asarray(1.0)).item()
    16.0
    """
    if not (_is_integer(lower) and _is_integer(upper)):
        return _open_fori(lower, upper, body, init)
    count = max(int(upper) - int(lower), 0)
    if count > MANY:  # an array of all the numbers would be large
        step = lambda c, _: ((c[0] + 1, body(c[0], c[1])), None)  # noqa: E731
        return scan(step, (asarray(int(lower)), init), None, length=count)[0][1]
    numbers = ops.iota((count,), 0, int64)
    start = ops.full(int(lower), (count,), int64)
    xs = wrap(ops.add(numbers, start) if lower else numbers)
    carry, _ = scan(lambda c, i: (body(i, c), None), init, xs)
    return carry


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _open_fori(lower: Any, upper: Any, body: Step, init: Any) -> Any:
    bounds = [wrap(_counter(bound)) for bound in as_tensors("fori_loop", (lower, upper))]
    _, _, carry = while_loop(
        lambda state: state[0] < state[1],
        lambda state: (state[0] + 1, state[1], body(state[0], state[2])),
        (bounds[0], bounds[1], init),
    )
    return carry


def _counter(bound: Tensor) -> Node:
    node = node_of(bound)
    if node.shape or node.dtype.kind not in "iu":
        raise DTypeError(
            f"[fori_loop] a bound is {describe(node.shape, node.dtype)}, not a 0-d integer; pass "
            "whole numbers"
        )
    return ops.cast(node, int64)


def while_loop(
    cond: Step, body: Step, init: Any, max_steps: int | None = None
) -> Any:
    """``while cond(carry): carry = body(carry)``.

    Args:
        cond: returns one boolean.
        body: returns a carry of the same structure, shapes and dtypes.
        init: the first carry, any tree.
        max_steps: stop after so many steps. Reverse mode needs it, to keep what each step computed.

    Returns:
        The last carry.

    Raises:
        OptionError: under reverse mode without ``max_steps``.
        ShapeError, DTypeError: naming the path where the carry changes, or if ``cond`` does not
            return one boolean.

    >>> import lamella as lm
    >>> while_loop(lambda x: x < 100, lambda x: x * 3, lm.asarray(1)).item()
    243
    """
    length = None if max_steps is None else _stack_length("while_loop", None, [], max_steps)
    carry = Carry("while_loop", init)
    made = trace("while_loop", body, [carry.value], effects=True)
    if carry.adapted(made.outputs):
        made = trace("while_loop", body, [carry.value], effects=True)
    count, states = len(carry.tensors), len(made.states)
    carry.check(made.structure, made.outputs[:count])
    tested = trace("while_loop", cond, [carry.value])
    flag = _flag(tested)
    tokens, kept = _tokens(made)
    bake = compiled_once()
    arguments, outputs = [*made.arguments, *kept], [*made.outputs, *tokens]
    graph, outside = subgraph_of(arguments, outputs, bake, made.calls)
    extra = [*made.arguments[count:], *kept]  # the condition sees states as they were outside
    test, needed = subgraph_of([*tested.arguments, *extra], [flag], bake)
    constants = list(dict.fromkeys([*outside, *needed]))
    op = Loop(
        _over(graph, outside, constants), _over(test, needed, constants),
        carries=len(graph.outputs), length=length,
    )  # fmt: skip
    initial = [*carry.nodes, *(node_of(state) for state in made.states), *_none(tokens)]
    found = loop(op, *constants, *initial)
    _rebind(made, found[count : count + states])
    made.have(dict(zip(tokens, found[count + states : op.carries], strict=True)))
    return tree.unflatten(carry.structure, [wrap(node) for node in found[:count]])


def _flag(tested: Body) -> Node:
    """What a condition returned, as an int64."""
    if tested.states:
        raise OptionError(
            "[while_loop] cond changes a tensor from outside (or draws random numbers); do it in "
            "body"
        )
    if len(tested.outputs) != 1 or tested.outputs[0].size != 1 or tested.structure.kind:
        kinds = ", ".join(describe(n.shape, n.dtype) for n in tested.outputs) or "nothing"
        raise ShapeError(f"[while_loop] cond returned {kinds}; return one boolean")
    return _as_flag(tested.outputs[0])


def _as_flag(node: Node) -> Node:
    kind: DType = node.dtype
    if kind is not bool_:
        raise DTypeError(f"[while_loop] the condition is {kind.name}; compare it, as in x > 0")
    return ops.cast(ops.reshape(node, ()), int64)


def _over(graph: Subgraph, own: Sequence[Node], constants: Sequence[Node]) -> Subgraph:
    """``graph`` with all ``constants`` before its arguments, of which it has its ``own``."""
    place = dict(zip(own, graph.inputs, strict=False))
    given = [place.get(n) or ops.placeholder(n.shape, n.dtype) for n in constants]
    return Subgraph([*given, *graph.inputs[len(own) :]], graph.outputs)
