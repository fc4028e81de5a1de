"""One compiled trace: whether it fits a call, and running it on the call's tensors.

Input: a recording. Output: :class:`Entry`. Running takes the addresses of the inputs' buffers, runs
the program, and rebinds what the function rebound: state and gradients. Outputs of a differentiable
function keep a history that replays the graph. Every run fills buffers of its own, so that no
result is ever overwritten by a later call.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lamella import tree
from lamella.compiler.blueprint import STREAM
from lamella.config import config
from lamella.graph import names as naming
from lamella.ir.decisions import at_least, deciding
from lamella.ir.node import Node, gradient_mode, topological
from lamella.ops.calls import parts
from lamella.ops.leaf import data
from lamella.runtime import buffer as memory
from lamella.runtime import profiling
from lamella.runtime.buffer import Buffer, Lost
from lamella.runtime.evaluate import compile_program, too_large
from lamella.runtime.launch import Passage, pack_scalar
from lamella.runtime.program import target
from lamella.tensor.core import TensorCore, describe, wrap
from lamella.tensor.symbolic import At
from lamella.tensor.tensor import Tensor
from lamella.transforms.called import Called, Graph
from lamella.transforms.direct import Direct, Directs
from lamella.transforms.extents import Extents
from lamella.transforms.guards import Environment
from lamella.transforms.lowered import Lowered
from lamella.transforms.numbers import Numbers
from lamella.transforms.prepared import Prepared, is_lasting, room_for_panels
from lamella.transforms.replaced import replaced
from lamella.transforms.results import (
    Run,
    axis_names,
    computed,
    is_required,
    lasting,
    number,
    places,
    plain,
    rebind,
    returned,
    settled,
    value_of_handle,
)  # fmt: skip
from lamella.transforms.shortcut import Shortcut, shortcut
from lamella.transforms.signature import Call
from lamella.transforms.sizes import refuse_schedules
from lamella.transforms.tracing import (
    Outside,
    Recording,
    compute_later,
    leaf_grad,
    set_leaf_grad,
)

if TYPE_CHECKING:
    from lamella.compiler.hoisting import Hoisted

__all__ = ["Entry"]

OFTEN: Final = 16  # calls with the same open sizes before they get a function of their own
PATIENCE: Final = 5.0  # seconds that an interrupted program may take to leave its state whole


class Entry:
    """A program with what it was made for.

    Args:
        recording: what the function did.
        environment: the Python values it depended on.
        numbers: those that may have other values.
        call: of its tensors, those that the function also reaches by itself stay required; by its
            open sizes is decided.
    """

    def __init__(
        self, recording: Recording, environment: Environment, numbers: Numbers,
        call: Call, fixed: bool = False, budget: int | None = None,
    ) -> None:  # fmt: skip
        self._environment = environment
        self._numbers = numbers if numbers.matters else None
        self._steadiness = object()  # another one whenever a captured tensor has changed
        self._budget = budget
        self._sizes = None if call.opening is None else call.sizes  # to decide by
        self._fixed = fixed  # where slices start is a part of the program
        self._shortened: set[tuple[object, ...]] = set()  # forms of arguments of its shortcuts
        self._has_lines = config.lines or config.debug_nans
        outsides = recording.outsides
        self._outsides = outsides
        self._structure = recording.structure
        self._single = recording.structure.kind is None
        self._inputs = tuple(o.placeholder for o in outsides)
        self._captured = [o for o in outsides if o.is_captured]
        self._captured_ids = {id(o.tensor) for o in self._captured}
        self._pinned = [(i, t) for i, t in enumerate(call.tensors) if id(t) in environment.tensors]
        self._where = [(o.tensor if o.is_captured else o.argument) for o in outsides]
        changing = {
            id(o) for o, node, required in recording.states
            if _unlike(node, required, o.placeholder, o.required)
        }  # fmt: skip
        self._steady = [o for o in self._captured if id(o) not in changing]
        numbered = {id(o): i for i, o in enumerate(outsides)}
        self._gradient_inputs = [
            (i, numbered[id(o.parent)]) for i, o in enumerate(outsides) if o.parent is not None
        ]
        self._slots = [(slot, numbered[id(slot.outside)]) for slot in recording.slots]
        self._expected = recording.expected
        self._plan(recording, numbered)
        for o in outsides:
            o.forget()
        for slot in recording.slots:
            slot.forget()

    def _plan(self, recording: Recording, numbers: dict[int, int]) -> None:
        """Numbers the program's outputs; roots that are already known stay as they are."""
        root: dict[Node, int] = {}

        def place(node: Node) -> int | Node:
            return node if node.value is not None else root.setdefault(node, len(root))

        differentiable = not recording.is_step and gradient_mode.enabled
        seen = _had(recording.effects) if differentiable and _has_history(recording) else []
        for node in seen or _had(recording.effects, bool(config.debug_nans)):
            place(node)  # first, and so in their order
        self._results: list[Callable[[Run], Any]] = []
        self._places = places(recording.result, place)
        for leaf in recording.result:
            if isinstance(leaf, Outside):
                self._results.append(returned(numbers[id(leaf)], leaf.argument))
            elif isinstance(leaf, Node):
                self._results.append(computed(place(leaf), axis_names(leaf)))
            elif isinstance(leaf, At):
                self._results.append(number(leaf.index))
            else:
                self._results.append(plain(leaf))
        self._states: list[tuple[int, int]] = []
        self._leaves: list[tuple[int, int | Node, bool]] = []  # differentiated by, before or now
        for o, node, required in recording.states:
            where = place(node)
            if isinstance(where, int) and not (required or o.required):
                self._states.append((numbers[id(o)], where))
            else:
                self._leaves.append((numbers[id(o)], where, required))
        self._gradients = [
            (numbers[id(slot.outside)], None if n is None else place(n))
            for slot, n in recording.gradients
        ]
        self._escaped = [(reference, place(n)) for reference, n in recording.escaped]
        self._roots = list(root)
        # a history does not repeat effects: their results are inputs of its graph
        self._seen = [root[node] for node in seen]
        inputs = (*self._inputs, *(self._roots[i] for i in self._seen))
        self._graphs = {
            i: Graph(node, inputs) for node, i in root.items()
            if differentiable and node.tracked
        }  # fmt: skip
        self._compile()

    def _compile(self) -> None:
        from lamella.compiler.canonicalise import fixed_starts, one_of_each

        roots = one_of_each(fixed_starts(self._roots) if self._fixed else self._roots)
        order = topological(roots)
        constants = [n for n in order if n.value is not None and n.op.name != "scalar"]
        scalars = [n for n in order if n.op.name == "scalar"]
        self._constants = [settled(n) for n in constants]
        self._words = [pack_scalar(n.value, n.dtype) for n in scalars]  # type: ignore[arg-type]
        states = [*self._states, *((i, place) for i, place, _ in self._leaves)]
        offered = {place: i for i, place in states if isinstance(place, int)}
        if self._graphs:
            offered = {}  # a history reads the old state
        given = [*self._inputs, *constants]
        if self._sizes:
            refuse_schedules(self._roots)
        with deciding(self._sizes or {}) as decisions:
            hoisted = self._hoisted(roots, constants)
            large = bool([n for n in roots if at_least(n.size * n.dtype.itemsize, STREAM, False)])
        self._decisions = decisions.all()
        self._prepared = None if hoisted is None else Prepared(hoisted, given, self._where)
        if hoisted is not None:
            roots, given = hoisted.outputs, [*given, *hoisted.placeholders]
        self._program = compile_program(
            roots, given, scalars, offered, self._budget, large and bool(self._sizes), self._sizes
        )
        self._donated = self._program.blueprint.over
        self._symbols = self._program.blueprint.symbols
        self._extents = Extents(self._roots if self._symbols else (), self._expected)
        self._same = list(self._program.blueprint.same.items())
        self._dtypes = [node.dtype for node in self._roots]
        self._direct: Directs | None = None
        more = (
            self._states or self._leaves or self._gradients or self._escaped or self._graphs
            or self._same or self._donated or self._slots or self._gradient_inputs
        )  # fmt: skip
        if self._program.is_light and self._places is not None and not more:
            self._direct = Directs(self._program, self._extents.check, partial(
                Direct, self._program, self._where, self._constants, self._words, self._prepared,
                self._steady, self._roots, self._places, self._structure,
                0 if self._numbers is None else len(self._numbers.inputs),
            ))  # fmt: skip

    def _hoisted(
        self, roots: Sequence[Node], constants: Sequence[Node]
    ) -> Hoisted | None:
        """What need not be computed on every call, where the call changes nothing."""
        steady = {o.placeholder for o in self._steady} | {*constants}
        changes = self._states or self._leaves or self._gradients or self._graphs
        if not steady or changes or not config.optimize or config.backend != "llvm":
            return None
        from lamella.compiler.hoisting import hoist

        lasting = [o.placeholder for o in self._steady if is_lasting(o.tensor.node)]
        room = room_for_panels() if lasting else 0
        return hoist(roots, steady, target().unit, bool(config.winograd), lasting, room)

    def lowered(self) -> Lowered:
        """The program, to be looked at."""
        blueprint = self._program.blueprint
        return Lowered(self._roots, blueprint.kernels, blueprint)

    # -- does it fit -------------------------------------------------------------------------------
    def misfit(self, call: Call) -> str | None:
        """None if a call may run this program, else the reason."""
        tensors = call.tensors
        if (config.lines or config.debug_nans) > self._has_lines:
            return "the lines that recorded its operations are wanted"
        if not self.fits_sizes(call):
            return self._extents.misfit(call.sizes, self._suits)
        changed = self._environment.changed()
        if any(reference() is not None for reference, _ in self._escaped):
            return (
                f"{'' if changed is None else f'{changed}: '}it left a tensor in a place outside, "
                "which belongs to one call (return it, or write into the tensor that is there, as "
                "x += 1 and x.copy_() do)"
            )
        if changed is not None:
            return changed
        for o in self._captured:
            if o.tensor.node is not o.original:
                self._steadiness = object()  # frames are out of date
                required = is_required(o.tensor)
                changed = _unlike(o.tensor.node, required, o.placeholder, o.required)
                if changed is not None:
                    return f"a captured tensor {changed}"
        ids = self._captured_ids
        for tensor in tensors:
            if id(tensor) in ids:
                return "a tensor the function captures is passed as an argument"
        for i, tensor in self._pinned:
            if tensors[i] is not tensor:
                return "an argument was a tensor that the function also captures, and is not"
        if self._numbers is not None:
            call.values = self._numbers.values(self._environment.places, call)
            if isinstance(call.values, str):
                return call.values
        return self._gradients_misfit(self._given(call)) if self._slots else None

    def fits_sizes(self, call: Call) -> bool:
        """Whether the program is for the sizes of a call."""
        return self._sizes is None or not self._extents.misfit(call.sizes, self._suits)

    def _suits(self, sizes: Mapping[str, int]) -> bool:
        """Whether the program is that of these sizes."""
        if not self._program.blueprint.suits(sizes):
            return False
        return all(decision.suits(sizes) for decision in self._decisions)

    def varied(self) -> set[str]:
        """The paths of numbers that have other values of the same type than when it was made."""
        return self._environment.varied()

    def _gradients_misfit(self, tensors: Sequence[TensorCore]) -> str | None:
        handles = self._handles(tensors)
        for slot, i in self._slots:
            leaf = handles[i]._leaf
            grad = None if leaf is None else leaf.grad
            if slot.was_read and (slot.before is None) != (grad is None):
                return "a gradient was None and is not, or the reverse"
            hooks = tuple(leaf.hooks.values()) if leaf is not None and leaf.hooks else ()
            if hooks != slot.hooks:
                return "a tensor's gradient hooks have changed"
        for i, _ in self._gradient_inputs:
            changed = _unlike(handles[i].node, False, self._inputs[i], False)
            if changed is not None:
                return f"a gradient {changed}"
        return None

    def _handles(self, tensors: Sequence[TensorCore]) -> list[TensorCore]:
        """The program's inputs as tensors."""
        handles = [tensors[w] if type(w) is int and w >= 0 else w for w in self._where]
        for i, parent in self._gradient_inputs:
            handles[i] = leaf_grad(handles[parent])  # type: ignore[assignment,arg-type]
        return handles  # type: ignore[return-value]

    def keep(self, call: Call) -> None:
        """Compute later what the trace left outside, after a first run that failed."""
        made = [reference() for reference, _ in self._escaped]
        given = [handle.node for handle in self._handles(self._given(call))]
        compute_later(made, dict(zip(self._inputs, given, strict=True)), call.sizes)

    def _given(self, call: Call) -> Sequence[TensorCore]:
        """A call's tensors, and the program's inputs that it makes of numbers."""
        numbers = self._numbers
        if numbers is None:
            return call.tensors
        if call.values is None:  # the call that has been traced
            call.values = numbers.first()
        return [*call.tensors, *numbers.tensors(call.values)]

    def shortcut(self, args: Sequence[Any], call: Call) -> Shortcut | None:
        """A function for calls with arguments like these, with which this has run; None the second
        time for arguments of the same classes, or open sizes that are still rare.
        """
        kinds = (*map(type, args), *call.sizes.values())
        if self._direct is None or self._pinned or kinds in self._shortened:
            return None
        direct = self._direct.of(call.sizes)
        if direct.owner is not self._steadiness or (call.sizes and direct.uses < OFTEN):
            return None
        self._shortened.add(kinds)
        given = (self._environment, self._numbers, call.sizes, self._captured_ids)
        return shortcut(direct, args, *given, Tensor)

    # -- running -----------------------------------------------------------------------------------
    def run(self, call: Call) -> Any:
        """The function's result."""
        tensors, numbers = self._given(call), self._numbers
        if self._direct is not None and not config.debug_nans and profiling.active is None:
            found = () if numbers is None else numbers.results(call.values)
            result = self._direct.of(call.sizes).run(tensors, self._steadiness, found)
            if numbers is not None:
                numbers.write(call.values, self._environment.places)
            return result
        program, sizes = self._program, call.sizes
        handles = self._handles(tensors)
        buffers = [value_of_handle(handle) for handle in handles]
        buffers += self._constants
        if self._prepared is not None:
            buffers += self._prepared.values(buffers, self._steadiness)
        at = program.fixed
        if at is None:
            self._extents.check(sizes)
            at = program.bind(tuple([sizes[name] for name in self._symbols]))
        lossless = program.blueprint.guarded and not config.debug_nans
        grads = replaced(self._gradients, handles, at.nbytes) if lossless else {}
        try:
            made = self._results_memory(at.nbytes, handles, buffers, grads)
        except MemoryError as error:
            raise too_large(self._roots, error) from None
        over = [*self._written_over(made, handles, buffers), *grads.values()]
        passage, checked = Passage(PATIENCE if over else 0.0), False
        try:
            program.run(
                [b.ptr for b in buffers], self._words.copy(), [b.ptr for b in made], at, passage
            )
            if config.debug_nans:
                self._refuse_nans(handles, buffers, made, at.shapes, sizes)
            checked = True
            return self._finish(handles, buffers, made, at.shapes, call)
        except BaseException:
            # a signal (Ctrl-C) may strike anywhere, but state must change as a whole or not at all
            whole = lossless and not any(passage.faults)
            if checked or (passage.begun and whole and not passage.partial):
                self._finish(handles, buffers, made, at.shapes, call)
            elif passage.partial:
                for handle, buffer in over:
                    handle.node.value = Lost(buffer.nbytes)
            raise

    def _finish(
        self, handles: list[TensorCore], buffers: Sequence[Buffer], made: list[Buffer],
        shapes: Sequence[tuple[int, ...]], call: Call,
    ) -> Any:  # fmt: skip
        """Hand out what a program has made; may be called again after an interruption."""
        for i, source in self._same:
            made[i] = made[source] if source >= 0 else lasting(buffers[-1 - source])
        nodes = self._nodes(handles, made, shapes, call.sizes)
        found = () if self._numbers is None else self._numbers.results(call.values)
        return self._deliver(Run(handles, nodes, call.sizes, call.shared, found), call)

    def _nodes(
        self, handles: Sequence[TensorCore], made: Sequence[Buffer],
        shapes: Sequence[tuple[int, ...]], sizes: dict[str, int],
    ) -> list[Node]:  # fmt: skip
        """The roots, with a history that replays the graph where they can be differentiated."""
        nodes = list(map(data, made, shapes, self._dtypes))
        if self._graphs:
            before = tuple([handle.node for handle in handles])
            before += tuple([nodes[i] for i in self._seen])
            if any(node.tracked for node in before):
                for i, graph in self._graphs.items():
                    node = nodes[i]
                    node.op, node.inputs, node.tracked = Called(graph, sizes), before, True
        return nodes

    def _refuse_nans(
        self, handles: Sequence[TensorCore], buffers: Sequence[Buffer], made: Sequence[Buffer],
        shapes: Sequence[tuple[int, ...]], sizes: dict[str, int],
    ) -> None:  # fmt: skip
        from lamella.runtime.nans import refuse_nans

        given = {
            node: b.numpy(handle.shape, node.dtype.numpy)
            for node, handle, b in zip(self._inputs, handles, buffers, strict=False)
        }
        same = dict(self._same)
        own = [i for i in range(len(made)) if i not in same]
        arrays = [made[i].numpy(shapes[i], self._dtypes[i].numpy) for i in own]
        refuse_nans([self._roots[i] for i in own], arrays, given, sizes)

    def _results_memory(
        self, nbytes: Sequence[int], handles: Sequence[TensorCore], buffers: Sequence[Buffer],
        grads: Mapping[int, tuple[TensorCore, Buffer]],
    ) -> list[Buffer]:  # fmt: skip
        """Memory for the roots: that of the state they replace, where nothing else holds it."""
        donated = {} if config.debug_nans else self._donated
        if not donated and not grads:
            return [memory.empty(n) for n in nbytes]
        return [
            grads[i][1] if i in grads
            else buffers[donated[i]]
            if i in donated and self._is_sole(donated[i], handles, buffers)
            else memory.empty(n)
            for i, n in enumerate(nbytes)
        ]

    def _written_over(
        self, made: Sequence[Buffer], handles: Sequence[TensorCore], buffers: Sequence[Buffer]
    ) -> list[tuple[TensorCore, Buffer]]:
        """The inputs whose memory a run writes its results to."""
        return [
            (handles[source], buffers[source])
            for i, source in self._donated.items() if made[i] is buffers[source]
        ]  # fmt: skip

    def _is_sole(
        self, i: int, handles: Sequence[TensorCore], buffers: Sequence[Buffer]
    ) -> bool:
        """Whether a tensor's handle alone holds its value; the counts of references say so."""
        node, outside = handles[i].node, self._outsides[i]
        holders = 3 + (outside.original is node)  # the handle, `node`, the count's own argument
        return (
            buffers[i].writable
            and sys.getrefcount(node) == holders
            and sys.getrefcount(buffers[i]) == 3  # the node, `buffers`, the count's own argument
        )

    def _deliver(self, run: Run, call: Call) -> Any:
        leaves = [result(run) for result in self._results]
        handles, nodes = run.handles, run.nodes
        for i, which in self._states:
            handles[i].node = nodes[which]
        for i, place, required in self._leaves:
            rebind(handles[i], run.node(place), required)
        for i, grad in self._gradients:
            set_leaf_grad(handles[i], None if grad is None else wrap(run.node(grad)))
        for reference, place in self._escaped:
            tensor = reference()
            if tensor is not None:
                tensor.node = run.node(place)
        for o in self._steady:
            o.original = o.tensor.node
        if self._numbers is not None:
            self._numbers.write(call.values, self._environment.places)
        return leaves[0] if self._single else tree.unflatten(self._structure, leaves)


def _unlike(node: Node, required: bool, made_for: Node, was_required: bool) -> str | None:
    """How the node of a tensor differs from the one that was traced, if that matters."""
    if naming.state.active and naming.names_of(node) != naming.names_of(made_for):
        return "has other names for its axes"
    if node.shape != made_for.shape or node.dtype is not made_for.dtype:
        was, now = describe(made_for.shape, made_for.dtype), describe(node.shape, node.dtype)
        return f"was {was} and is {now}"
    if node.tracked != made_for.tracked or required != was_required:
        return "has begun or ceased to require a gradient"
    return None


def _had(tokens: Sequence[Node], everything: bool = True) -> list[Node]:
    """What is computed for effects to be had, and ``everything`` that they return."""
    if not everything:
        return list(tokens)
    return [node for call in dict.fromkeys(t.inputs[0] for t in tokens) for node in parts(call)]


def _has_history(recording: Recording) -> bool:
    """Whether anything that stays after a call may be differentiated."""
    kept = [*recording.result, *(node for _, node, _ in recording.states)]
    kept += [node for _, node in (*recording.gradients, *recording.escaped)]
    return any(isinstance(node, Node) and node.tracked for node in kept)
