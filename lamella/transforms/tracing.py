"""One run of a user's function on placeholders: what it computes, reads and rebinds.

Input: a function and its arguments. Output: :class:`Recording`: the graph's inputs (tensors by
where to find them), its outputs, and what each is for. The function sees its real tensors, but an
outside tensor that an operation touches stands for a placeholder until the run ends; then every
outside tensor and gradient is put back, whether the run ended well or not, so that an exception
half-way loses nothing. What the run has put into variables and attributes by then stays there, as
it would in Python, with the values that it would have.
"""
from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import ref

from lamella import tree
from lamella.errors import TraceError
from lamella.forks import in_child, new_lock
from lamella.graph import names as naming
from lamella.graph.replay import Recording as Replayed
from lamella.graph.replay import replay
from lamella.ir.asking import known_as
from lamella.ir.dim import Shape, unify
from lamella.ir.node import Node, topological
from lamella.ops.leaf import placeholder
from lamella.tensor import pending, random
from lamella.tensor.core import Leaf, TensorCore, describe, owners
from lamella.tensor.pending import placeholder_in, set_trace
from lamella.transforms.extents import Expected
from lamella.transforms.guards import Environment
from lamella.transforms.numbers import Numbers
from lamella.transforms.signature import Call

__all__ = [
    "GradientSlot", "Outside", "Recording", "compute_later", "leaf_grad", "record", "set_leaf_grad",
]  # fmt: skip

_NOTHING: Final = TensorCore()
# a trace exchanges nodes of tensors that others may use
one_at_a_time: Final = new_lock()
_running: Final[list[tuple[int, JitTrace]]] = []  # by thread, one inside the other


@dataclass(slots=True, eq=False)
class Outside:
    """A tensor from outside the function.

    It is argument number ``argument``, or the gradient of ``parent``, or else (-1, None) captured.
    ``leaf`` and ``required`` are what it kept for differentiation before the run.
    """

    tensor: TensorCore
    original: Node
    placeholder: Node
    argument: int
    parent: Outside | None
    leaf: Leaf | None
    required: bool

    @property
    def is_captured(self) -> bool:
        """Whether it is the same tensor at every call."""
        return self.argument < 0 and self.parent is None

    def restore(self) -> None:
        """Put the tensor back as it was before the run."""
        owners.pop(self.placeholder, None)
        if self.tensor.node is not self.placeholder:
            owners.pop(self.tensor.node, None)
        self.tensor.node, self.tensor._leaf = self.original, self.leaf
        if self.leaf is not None:
            self.leaf.required = self.required

    def forget(self) -> None:
        """Let go of a tensor, unless it is the same at every call."""
        if not self.is_captured:
            self.tensor, self.original, self.leaf = _NOTHING, self.placeholder, None


@dataclass(slots=True, eq=False)
class GradientSlot:
    """The ``.grad`` of an outside tensor: what it held, and whether that mattered to the run."""

    outside: Outside
    before: TensorCore | None
    was_read: bool
    hooks: tuple[Callable[..., Any], ...]

    def forget(self) -> None:
        """Keep whether there was a gradient, but not the gradient."""
        if self.before is not None:
            self.before = _NOTHING


@dataclass(slots=True)
class Recording:
    """A traced function.

    ``result`` leaves: a node, an ``Outside`` (the tensor itself is returned), or a plain value.
    """

    outsides: list[Outside]
    result: list[object]
    structure: tree.Structure
    states: list[tuple[Outside, Node, bool]]  # rebound, with whether a gradient is required now
    gradients: list[tuple[GradientSlot, Node | None]]
    slots: list[GradientSlot]
    is_step: bool  # it has differentiated and used the gradients by itself
    effects: list[Node]  # calls that must run once, in order
    functions: list[Callable[..., Any]]  # that they are calls of
    expected: list[Expected]  # of sizes known only when the program runs
    escaped: list[tuple[ref[TensorCore], Node]] = field(default_factory=list)


class JitTrace(pending.Trace):
    """The trace that the tensor layer reports to; see ``tensor.pending.Trace``."""

    def __init__(self, shapes: dict[int, Shape]) -> None:
        self.outsides: dict[int, Outside] = {}
        self.slots: dict[int, GradientSlot] = {}
        self.created_here: dict[int, ref[TensorCore]] = {}
        self.effects: list[Node] = []
        self.functions: list[Callable[..., Any]] = []
        self.expected: list[Expected] = []
        self._shapes = shapes  # symbolic shapes of arguments, by id of the tensor
        self._gradient_of: dict[int, Outside] = {}

    def touch(self, tensor: TensorCore) -> None:
        """An outside tensor becomes a placeholder when it is first used."""
        if id(tensor) in self.outsides or self._is_inner(tensor):
            return
        if tensor.node.value is None:
            if placeholder_in(tensor.node):
                return  # an unannounced handle of the function's own
            pending.compute([tensor.node])
        self._take(tensor, -1)

    def _take(self, tensor: TensorCore, argument: int) -> None:
        node, leaf = tensor.node, tensor._leaf
        stand_in = placeholder(self._shapes.get(id(tensor), node.shape), node.dtype)
        stand_in.tracked = node.tracked
        if naming.state.active:
            naming.assume(stand_in, naming.names_of(node))
        required = leaf is not None and leaf.required
        if required:
            owners[stand_in] = ref(tensor)
        parent = None if argument >= 0 else self._gradient_of.get(id(tensor))
        self.outsides[id(tensor)] = Outside(
            tensor, node, stand_in, argument, parent, leaf, required
        )
        tensor.node = stand_in

    def take_argument(self, tensor: TensorCore, number: int) -> None:
        """Arguments are known from the start."""
        if id(tensor) not in self.outsides:
            if tensor.node.value is None:
                pending.compute([tensor.node])
            self._take(tensor, number)

    def _is_inner(self, tensor: TensorCore) -> bool:
        found = self.created_here.get(id(tensor))
        return found is not None and found() is tensor

    def rebind(self, tensor: TensorCore) -> None:
        """An outside tensor that is rebound is state."""
        self.touch(tensor)

    def created(self, tensor: TensorCore) -> None:
        """A tensor of the function's own."""
        self.created_here[id(tensor)] = ref(tensor)

    def value(self, tensor: TensorCore) -> None:
        """A value may be looked at only if no input decides it."""
        self.touch(tensor)
        node = tensor.node
        if node.value is None and placeholder_in(node):
            raise TraceError(
                f"[jit] the value of {describe(node.shape, node.dtype)} was looked at (by a branch,"
                " print, float() or the like) while the function was being compiled, where it has "
                "none yet; use lm.where instead of Python branches on values, or return the tensor "
                "and look at it outside"
            )

    def read_grad(self, tensor: TensorCore) -> None:
        """Whether there is a gradient decides what is computed."""
        self.touch(tensor)
        self._slot(tensor, read=True)

    def write_grad(self, tensor: TensorCore) -> None:
        """A gradient that is set is state."""
        self.touch(tensor)
        self._slot(tensor, read=False)

    def backward(self, root: Node) -> None:
        """Refuse what ``backward()`` outside would go on through."""
        below = set(topological([root]))
        for o in self.outsides.values():
            if o.original.tracked and not o.required and o.placeholder in below:
                what = describe(o.original.shape, o.original.dtype)
                raise TraceError(
                    f"[jit] the function calls backward() and uses a tensor {what} computed "
                    "outside from others that require gradients, which backward() inside cannot "
                    "reach; pass x.detach(), or compute it inside"
                )

    def expect(self, shape: Shape, check: Callable[[Shape], None]) -> None:
        """The program will be asked for its shapes before it runs."""
        self.expected.append((shape, check))

    def effect(self, token: Node, function: Callable[..., Any]) -> None:
        """The program will see to it."""
        self.effects.append(token)
        self.functions.append(function)

    def _slot(self, tensor: TensorCore, read: bool) -> None:
        outside = self.outsides.get(id(tensor))
        if outside is None or id(tensor) in self.slots:
            return
        before, leaf = leaf_grad(tensor), outside.leaf
        hooks = () if leaf is None else tuple(leaf.hooks.values())
        self.slots[id(tensor)] = GradientSlot(outside, before, read, hooks)
        if before is not None and id(before) not in self.outsides:
            self._gradient_of[id(before)] = outside

    def restore(self) -> None:
        """Put every outside tensor and gradient back."""
        for outside in self.outsides.values():
            outside.restore()
        for slot in self.slots.values():
            set_leaf_grad(slot.outside.tensor, slot.before)

    def keep(self, held: set[int]) -> None:
        """Compute later, from the outside tensors as they are, those of the run's own in ``held``.

        They are what a function that has raised leaves in variables and attributes.
        """
        made = [reference() for key, reference in self.created_here.items() if key in held]
        sizes: dict[str, int] = {}
        for o in self.outsides.values():
            unify(o.placeholder.shape, tuple(map(int, o.original.shape)), sizes)
        given = {o.placeholder: o.original for o in self.outsides.values()}
        compute_later(made, given, sizes)

    def escaped(self) -> list[tuple[ref[TensorCore], Node]]:
        """Tensors made during the run that something outside still holds."""
        if any(reference() is not None for reference in self.created_here.values()):
            gc.collect()
        found: list[tuple[ref[TensorCore], Node]] = []
        for reference in self.created_here.values():
            tensor = reference()
            if tensor is not None and tensor.node.value is None:
                found.append((reference, tensor.node))
        return found


def compute_later(
    made: Sequence[TensorCore | None], given: dict[Node, Node], sizes: dict[str, int]
) -> None:
    """Leave tensors of a trace pending, with the nodes of ``given`` for its placeholders."""
    left = [t for t in made if t is not None and t.node.value is None]
    with Replayed():
        nodes = replay([tensor.node for tensor in left], given, sizes)
    for tensor, node in zip(left, nodes, strict=True):
        tensor.rebind(node)


def leaf_grad(tensor: TensorCore) -> TensorCore | None:
    """``tensor.grad``, unseen by traces."""
    return None if tensor._leaf is None else tensor._leaf.grad


def set_leaf_grad(tensor: TensorCore, grad: TensorCore | None) -> None:
    """``tensor.grad = grad``, unseen by traces."""
    if tensor._leaf is None:
        if grad is None:
            return
        tensor._leaf = Leaf(required=False)
    tensor._leaf.grad = grad


def record(
    f: Callable[..., Any], call: Call, environment: Environment, numbers: Numbers
) -> Recording:
    """Run ``f`` on placeholders for the tensors of a call, and stand-ins for ``numbers``.

    Raises:
        TraceError: for what a compiled program could not repeat faithfully.
    """
    with one_at_a_time:
        pending.flush()
        random.generator()  # made inside, it would begin anew at every call
        trace = JitTrace(call.shapes)
        try:
            recording = _run(trace, f, call, environment, numbers)
        except BaseException:
            numbers.restore()
            trace.keep(environment.held().union(map(id, tree.leaves((call.args, call.options)))))
            raise
        finally:
            numbers.finish()
        recording.escaped = trace.escaped()
    return recording


def _run(
    trace: JitTrace, f: Callable[..., Any], call: Call, environment: Environment, numbers: Numbers
) -> Recording:
    before = environment.random_states()
    previous = set_trace(trace)
    _running.append((threading.get_ident(), trace))
    try:
        for number, tensor in enumerate(call.tensors):
            trace.take_argument(tensor, number)
        leaves, structure = _called(trace, f, call, environment, numbers)
        if environment.random_states() != before:
            raise TraceError(
                "[jit] the function draws from Python's or NumPy's random numbers, which would "
                "be frozen; use lm.random, or draw outside and pass the result as an argument"
            )
        return _finish(trace, leaves, structure)
    finally:
        _running.pop()
        set_trace(previous)
        trace.restore()


def _called(
    trace: JitTrace, f: Callable[..., Any], call: Call, environment: Environment, numbers: Numbers
) -> tuple[list[Any], tree.Structure]:
    """The function's result, in which nothing is a stand-in any more."""
    first = len(call.tensors)
    given = numbers.install(lambda handle, i: trace.take_argument(handle, first + i))
    args, options = call.traced_arguments(given)
    with environment.watch_calls(), known_as(numbers.of_size, call.opening is not None):
        leaves, structure = tree.flatten(f(*args, **options))
    del args, options, given
    leaves = [numbers.result(leaf) for leaf in leaves]
    numbers.collect()
    numbers.restore()
    numbers.release()
    return leaves, structure


def _forget_other_threads() -> None:
    """In a forked child: put back what traces of threads that it has not had taken."""
    for thread, trace in reversed(_running):
        if thread != threading.get_ident():
            trace.restore()
            pending.traces.pop(thread, None)
    _running[:] = [each for each in _running if each[0] == threading.get_ident()]


in_child(_forget_other_threads)


def _finish(trace: JitTrace, leaves: Sequence[Any], structure: tree.Structure) -> Recording:
    result: list[object] = [
        (trace.outsides.get(id(leaf)) or leaf.node) if isinstance(leaf, TensorCore) else leaf
        for leaf in leaves
    ]
    outsides = list(trace.outsides.values())
    states: list[tuple[Outside, Node, bool]] = []
    for o in outsides:
        if o.tensor.node is not o.placeholder:
            leaf = o.tensor._leaf
            states.append((o, o.tensor.node, leaf is not None and leaf.required))
    gradients: list[tuple[GradientSlot, Node | None]] = []
    for slot in trace.slots.values():
        now = leaf_grad(slot.outside.tensor)
        if now is not slot.before:
            gradients.append((slot, None if now is None else now.node))
    is_step = any(node is not None for _, node in gradients) or any(
        o.required or o.parent is not None for o, _, _ in states
    )
    slots = list(trace.slots.values())
    return Recording(
        outsides, result, structure, states, gradients, slots, is_step, trace.effects,
        trace.functions, trace.expected,
    )  # fmt: skip
