"""What waits to be computed, and when it is.

Input: handles noted as operations are recorded. Output: their nodes hold values.
Looking at any value computes every live pending handle together, so a training step is one program.
A loop that never looks flushes by itself: past ``config.flush`` noted handles (0: never), as soon
as an operation is recorded where the first one after the last flush was (after a flush of few, the
one past ``FEW``: where an operation is recorded takes longer to find out than to record it), or
where the one was that passed the limit (so that every flush of a loop has one structure); at four
times that number, anywhere.

Traces: while a transformation runs a user's function, it registers a :class:`Trace` for its thread.
Every recording function tells it which handles are read and rebound; nothing recorded meanwhile is
noted.

Invariant: ``noted`` holds weak references only, so a value nobody holds is never computed for its
own sake.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from threading import get_ident
from types import FrameType
from typing import TYPE_CHECKING, Final
from weakref import ref

from lamella.config import config
from lamella.errors import TraceError
from lamella.forks import new_lock
from lamella.ir.dim import Shape
from lamella.ir.node import Node, topological
from lamella.ops.calls import has_effects, parts
from lamella.runtime.memory import relief

if TYPE_CHECKING:
    from lamella.tensor.core import TensorCore

__all__ = [
    "Trace", "compute", "current_trace", "flush", "hold", "note", "noted", "perform",
    "placeholder_in", "set_trace", "soft_limit", "traces", "weigh",
]  # fmt: skip

HARD: Final = 4  # times the soft limit, anywhere
NEVER: Final = 2**62
_PACKAGE: Final = __file__.rsplit("tensor", 1)[0]
_DEPTH: Final = 48  # frames of a recording site that are compared

Site = tuple[tuple[object, int], ...]


class Trace:
    """What a transformation learns while it runs a user's function, and here lets pass. Each call
    comes before the act.
    """

    def touch(self, tensor: TensorCore) -> None:
        """An operation is about to read ``tensor.node`` (the trace may replace it first)."""

    def rebind(self, tensor: TensorCore) -> None:
        """``tensor.node`` is about to be replaced, as by ``x += 1``."""

    def created(self, tensor: TensorCore) -> None:
        """``tensor`` is a new handle on the result of an operation (called once its node is
        set).
        """

    def value(self, tensor: TensorCore) -> None:
        """The value of ``tensor`` is about to be looked at; raise TraceError where that is
        unfaithful.
        """

    def read_grad(self, tensor: TensorCore) -> None:
        """``tensor.grad`` is about to be read."""

    def write_grad(self, tensor: TensorCore) -> None:
        """``tensor.grad`` is about to be set or accumulated into."""

    def backward(self, root: Node) -> None:
        """``backward()`` is about to walk down from ``root``."""

    def expect(self, shape: Shape, check: Callable[[Shape], None]) -> None:
        """``check`` raises for a shape that the function cannot do with; some of ``shape`` is known
        only when a program runs.
        """

    def effect(self, token: Node, function: Callable[..., object]) -> None:
        """``token``, a result of a call of a person's ``function``, must be computed once, after
        those announced before.
        """


traces: Final[dict[int, Trace]] = {}  # by thread; empty almost always, which is the fast path
noted: Final[list[ref[TensorCore]]] = []
_lock: Final = new_lock()
HELD: Final = 256 << 20
_held = 0  # bytes of arrays taken in since the last flush, which pending operations may keep alive
FEW: Final = 64
_few = 0  # the limit after a flush of few
_weight = 0  # of what stands for more than one operation, since the last flush
_limit = 0  # number of noted handles at which the recording site is looked at, less that weight
_sites: list[Site] = []  # of an operation after the last flush, and of the one past the limit


def set_trace(trace: Trace | None) -> Trace | None:
    """Make ``trace`` the one of this thread (None: no trace) and return the one it replaces."""
    thread = get_ident()
    previous = traces.pop(thread, None)
    if trace is not None:
        traces[thread] = trace
    return previous


def current_trace() -> Trace | None:
    """The trace of this thread, if a transformation is running a function in it."""
    return traces.get(get_ident()) if traces else None


def note(tensor: TensorCore) -> None:
    """Remember a handle whose node is pending; may compute what is pending when there is much."""
    noted.append(ref(tensor))
    if len(noted) > _limit:
        _consider()


def weigh(operations: int) -> None:
    """Count a handle that is about to be noted as so many operations."""
    global _limit, _weight
    _weight += operations
    _limit -= operations


def _recording_site() -> Site:
    """The stack of the recording operation, from the first frame outside the package outwards and
    inwards.
    """
    frame: FrameType | None = sys._getframe(3)
    found: list[tuple[object, int]] = []
    while frame is not None and len(found) < _DEPTH:
        found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


def soft_limit() -> int:
    """The number of noted handles after which a loop flushes: ``config.flush``."""
    return config.flush or NEVER


def _flush_changed() -> None:
    global _few
    _few = min(FEW, soft_limit())


config.watch("flush", _flush_changed)
_flush_changed()


def _consider() -> None:
    """Called by an operation that finds ``_limit`` passed: the first after a flush, or any when
    there is much.
    """
    global _limit
    site = _recording_site()
    many = len(noted) + _weight >= HARD * soft_limit()
    if not _sites:
        _limit = soft_limit() - _weight
        _sites[:] = [site]
    elif len(_sites) == 1 and site not in _sites and not many:
        _sites.append(site)
    elif site in _sites or many:
        newest = noted.pop()  # the operation being recorded starts the next structure
        flush()
        noted.append(newest)
        _limit = soft_limit()
        _sites[:] = [site]


def placeholder_in(node: Node) -> bool:
    """Whether the value of ``node`` depends on an input of a function being transformed, or on an
    effect of one.
    """
    return any(
        part.op.name == "placeholder" or has_effects(part)
        for part in topological([node]) if part.value is None
    )  # fmt: skip


def perform(token: Node, function: Callable[..., object]) -> None:
    """See to an effect: have it now, or hand it to the trace of this thread, which will."""
    trace = current_trace()
    if trace is not None:
        trace.effect(token, function)
        return
    if token.value is not None:  # with another effect of the same call
        return
    (call,) = token.inputs
    for source in call.inputs:
        if source.value is None and source.size != 0:  # templates of results have no elements
            flush(source)
    with _lock:
        evaluator(parts(call))


def hold(nbytes: int) -> None:
    """Count host memory that pending operations may keep alive; compute them when it is much."""
    global _held
    _held += nbytes
    if _held > HELD and noted:
        _give_up()


def _give_up() -> None:
    """Compute what is pending, so that operands only it needs are freed."""
    global _held
    _held = 0
    if current_trace() is None:
        flush()


relief.append(_give_up)


def _load_evaluator(nodes: Sequence[Node]) -> None:
    global evaluator
    from lamella.runtime.evaluate import evaluate

    evaluator = evaluate
    evaluate(nodes)


evaluator: Callable[[Sequence[Node]], None] = _load_evaluator  # at first


def _refuse_traced(node: Node, looked_at: str) -> None:
    if placeholder_in(node):
        raise TraceError(
            f"[{looked_at}] the value of a {node.dtype.name}{list(node.shape)} tensor was looked "
            "at inside a function being transformed (jit, vmap), where it has no value yet; use "
            "lm.where instead of a Python branch on it, or return it and look at it outside"
        )


def compute(nodes: Sequence[Node], looked_at: str = "value") -> None:
    """Give the given nodes their values, and nothing else.

    Raises:
        TraceError: if a value depends on an input of a function being transformed.
    """
    waiting = [node for node in nodes if node.value is None]
    for node in waiting:
        _refuse_traced(node, looked_at)
    if waiting:
        with _lock:
            evaluator(waiting)


def flush(node: Node | None = None, looked_at: str = "value") -> None:
    """Compute every live pending handle, and ``node``, together.

    When the joint program fails (an index out of range, no memory) each node is computed by itself,
    so that only what depends on the fault raises: ``node``'s own error, or the first one if no node
    is given.
    """
    if traces and node is not None and current_trace() is not None:
        compute([node], looked_at)
        return
    with _lock:
        waiting = _take()
        if node is not None and node.value is None and node not in waiting:
            waiting.append(node)
        if not waiting:
            return
        try:
            evaluator(waiting)
        except Exception as fault:
            if len(waiting) == 1:
                _refuse_traced(waiting[0], looked_at)
                raise
            _separately(waiting, node, fault, looked_at)


def _take() -> list[Node]:
    """The pending nodes of live noted handles, once each; ``noted`` is empty afterwards."""
    global _held, _limit, _weight
    _held = _weight = 0
    references = noted[:]
    count = len(references)
    del noted[:count]  # other threads may have added to the end meanwhile
    _limit = 0 if count > FEW else _few
    if _sites:
        _sites.clear()
    if count == 1:
        handle = references[0]()
        return [handle.node] if handle is not None and handle.node.value is None else []
    found: dict[Node, None] = {}
    for reference in references:
        handle = reference()
        if handle is not None and (node := handle.node).value is None:
            found[node] = None
    return [*found]


def _separately(
    waiting: Sequence[Node], node: Node | None, fault: Exception, looked_at: str
) -> None:
    failure: Exception | None = None
    for each in waiting:
        if each.value is not None:
            continue
        try:
            compute([each], looked_at)
        except Exception as error:
            if each is node or (node is None and failure is None):
                failure = error
    if failure is not None:
        raise failure from fault
