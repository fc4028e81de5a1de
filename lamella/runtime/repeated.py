"""Graphs that are evaluated again and again: Python functions written for them, as straight-line
code.

Input: pending nodes. Output: their values, where a graph like theirs (primitives, connections,
shapes, dtypes) has been evaluated before, without laying it out for look-up, or looking inside
deferred calls. A function checks node by node that the graph is the one it was written for, runs
its program and settles the results; where anything differs it does nothing, and the graph goes the
long way, which offers its program here. Graphs that derivatives may pass through always go that
way. Invariant: a program kept here is the one that the long way would find; both forget at the same
time.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from lamella.config import config
from lamella.dtypes import DType
from lamella.graph.deferred import Deferred, DeferredCall, call_at
from lamella.ir.node import Node
from lamella.ops.calls import Part
from lamella.ops.families import Elementwise
from lamella.ops.leaf import DATA, SCALAR
from lamella.runtime import buffer as memory
from lamella.runtime import profiling, threads
from lamella.runtime.buffer import Buffer
from lamella.runtime.launch import FORMATS, UNFIT
from lamella.runtime.program import Binding, Executable

__all__ = ["at_once", "forget", "is_bare", "offer", "settings", "surface"]

Repeat = Callable[[Sequence[Node]], bool]
Surface = Mapping[Node, DeferredCall | None]  # inputs before users, with their calls if deferred

_LARGEST: Final = 96  # nodes of a graph, inputs and numbers among them
_ALIKE: Final = 4  # functions for graphs whose first results look alike
_TEMPLATE: Final = """
def make({names}):
    def repeat(nodes):
        ({roots},) = nodes
        {checks}
        {made}
        try:
            frame = frames.pop()
        except IndexError:
            frame = new_frame(at)
        try:
            pack_into(frame.words, 0, {words})
        except UNFIT:
            return False
        {borrowed}
        if not pool.ready:
            start_pool()
        start(plan, frame.address)
        frames.append(frame)
        {faults}
        {settled}
        return True
    return repeat
"""


class _Bare(dict[type, bool]):
    """Whether primitives of a class have no parameters, so that the class says all."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = found = not fields(kind)
        return found


class _Settings:
    """Whether the settings are those under which programs run without being watched."""

    plain: bool = True


is_bare: Final = _Bare()
settings: Final = _Settings()
_known: Final[dict[tuple[object, ...], list[Repeat]]] = {}


def _settings_changed() -> None:
    settings.plain = config.backend == "llvm" and not config.debug_nans


for _flag in ("backend", "debug_nans"):
    config.watch(_flag, _settings_changed)
_settings_changed()


def at_once(nodes: Sequence[Node]) -> bool:
    """Compute ``nodes``, where there is a function for their graph; whether it did.

    Raises:
        MemoryError: if there is no room for the results.
        LamellaIndexError: for an index out of range.
    """
    if not settings.plain or profiling.active is not None:
        return False
    node = nodes[0]
    call = call_at(node)
    kind = call.template if type(call) is DeferredCall else node.op.__class__
    for repeat in _known.get((kind, node.shape, len(nodes)), ()):  # noqa: SIM110 - faster than any
        if repeat(nodes):
            return True
    return False


def surface(roots: Sequence[Node]) -> Surface:
    """What there is to see of the graph of ``roots`` without looking inside calls; empty if it is
    too large for a function.
    """
    found: dict[Node, DeferredCall | None] = {}
    calls: dict[Node, DeferredCall | None] = {}  # of nodes whose inputs come first
    stack = [*roots]
    while stack:
        node = stack[-1]
        if node in found or node in calls or node.value is not None:
            found.setdefault(node, calls.get(node))
            stack.pop()
            continue
        call = call_at(node)
        calls[node] = call = call if type(call) is DeferredCall else None
        if len(calls) > _LARGEST:
            return {}
        stack += [s for s in (call.given if call else node.inputs) if s not in found]
    return found


def offer(
    roots: Sequence[Node], seen: Surface, leaves: Sequence[Node], program: Executable, at: Binding
) -> None:
    """Have a function written for graphs like that of ``roots``, once it has been evaluated a few
    times: the larger it is, the more. ``seen`` is its surface; ``leaves`` are the inputs and
    scalars of the program, in order. Before it runs.
    """
    at.uses += 1
    if not seen or at.uses < 2 + len(seen) // 8 or len(seen) > _LARGEST:
        return
    at.uses = 0  # a function that others have displaced is written again as late
    if program.same or not program.has_frames or not _can_repeat(roots, seen, leaves):
        return
    if len(_known) >= config.programs:
        _known.clear()
    call = seen[roots[0]]
    kind = roots[0].op.__class__ if call is None else call.template
    key = kind, roots[0].shape, len(roots)
    alike = _known.get(key, [])[: _ALIKE - 1]
    _known[key] = [_Writer(roots, seen, leaves).function(program, at), *alike]


def _can_repeat(roots: Sequence[Node], seen: Surface, leaves: Sequence[Node]) -> bool:
    """Whether a function may compute ``roots``, and knows where everything it reads comes from."""
    for root in roots:
        if root not in seen or root.tracked or (not seen[root] and isinstance(root.op, Part)):
            return False
    shared = _shared(seen)
    return all(leaf in seen or leaf in shared or leaf.op is SCALAR for leaf in leaves)


def _shared(seen: Surface) -> set[Node]:
    """The nodes inside the calls that all calls of their forms share."""
    templates = {call.template for call in seen.values() if call is not None}
    return {step.known for each in templates for step in each.steps if step.known is not None}


def forget() -> None:
    """Drop every function."""
    _known.clear()


_COMMON: Final[dict[str, object]] = {  # what all functions refer to
    "Buffer": Buffer, "DeferredCall": DeferredCall, "Deferred": Deferred, "call_at": call_at,
    "DATA": DATA, "SCALAR": SCALAR, "UNFIT": UNFIT,
    "pool": threads.pool, "start_pool": threads.start_pool, "memory": memory, "len": len,
    "type": type, "any": any, "IndexError": IndexError, "ValueError": ValueError,
}  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _maker(text: str) -> Callable[..., Repeat]:
    """What makes functions of a text: graphs that differ in shapes and dtypes alone share it."""
    made: dict[str, Any] = {}
    exec(compile(text, "<repeat>", "exec"), _COMMON, made)  # noqa: S102
    return made["make"]  # type: ignore[no-any-return]


class _Writer:
    """Writes the function for a graph: node ``i`` of its surface is ``ni``, ``vi`` its buffer,
    ``ci`` the call of a deferred one. Program arguments inside calls that are the same for all
    calls are ``ki``, where ``i`` is the argument's number.
    """

    def __init__(self, roots: Sequence[Node], seen: Surface, leaves: Sequence[Node]) -> None:
        self._nodes = list(seen)
        self._number = {node: i for i, node in enumerate(seen)}
        self._calls = seen
        self._leaves = leaves
        self._roots = [self._number[root] for root in roots]
        self._names: dict[str, object] = {}
        self._checks: list[str] = []
        self._opened: dict[DeferredCall, int] = {}  # calls whose inputs have names
        # a template implies shapes and dtypes of what it is given
        plain = [node for node, call in seen.items() if call is None and node.value is None]
        self._implied = {*seen} - {source for node in plain for source in node.inputs}

    def function(self, program: Executable, at: Binding) -> Repeat:
        """The function, which runs ``program``."""
        self._check()
        formats, words = self._words(len(at.nbytes))
        self._names |= {
            "frames": at.frames, "new_frame": program.frame, "at": at, "program": program,
            "pack_into": struct.Struct(formats).pack_into, "start": program.plan.start,
            "plan": program.plan.address, "pack_scalars": program.pack_scalars,
        }  # fmt: skip
        self._names |= {f"nbytes{i}": nbytes for i, nbytes in enumerate(at.nbytes)}
        made = [f"y{i} = memory.empty(nbytes{i})" for i in range(len(at.nbytes))]
        text = _TEMPLATE.format(
            names=", ".join(self._names), roots=", ".join(f"n{root}" for root in self._roots),
            checks=_lines(self._checks), made=_lines(made), words=", ".join(words),
            borrowed="borrowed = program.furnish(frame, at)" if program.is_large else "",
            faults="if any(frame.faults): program.fail(frame)" if program.may_fail else "",
            settled=_lines(map(self._settled, self._roots, range(len(self._roots)))),
        )  # fmt: skip
        return _maker(text)(**self._names)

    def _settled(self, root: int, result: int) -> str:
        if self._calls[self._nodes[root]] is not None:
            return f"n{root}.settle(y{result})"
        return f"n{root}.value = y{result}; n{root}.op = DATA; n{root}.inputs = ()"

    def _check(self) -> None:
        """The checks, users before inputs, so that every node has its name."""
        for root in self._roots:
            self._refuse(f"n{root}.tracked")
        self._distinct(self._roots)
        found = {*self._roots}
        shared = _shared(self._calls)
        for i in reversed(range(len(self._nodes))):
            node = self._nodes[i]
            call = self._calls[node]
            if call is not None:
                self._check_deferred(i, call, found)
            elif node.value is None:
                self._check_pending(i, node, found)
            else:
                self._check_leaf(i, node)
            if node in shared:
                self._names[f"same{i}"] = node
                self._refuse(f"n{i} is not same{i}")
        data = [leaf for leaf in self._leaves if leaf.op is not SCALAR]
        self._distinct([self._number[leaf] for leaf in data if leaf in self._number])

    def _check_leaf(self, i: int, node: Node) -> None:
        if node.op is SCALAR:
            other = f"n{i}.op is not SCALAR or n{i}.dtype is not {self._dtype(i)}"
            self._refuse(f"n{i}.value is None or {other}")  # op of what is deferred looks inside
            return
        self._checks.append(f"v{i} = n{i}.value")
        other = f"type(v{i}) is not Buffer"
        self._refuse(other if node in self._implied else f"{other} or {self._differs(i)}")

    def _check_deferred(self, i: int, call: DeferredCall, found: set[int]) -> None:
        opened = self._opened.get(call)
        if opened is None:
            self._opened[call] = opened = i
            self._names[f"template{i}"] = call.template
            self._checks.append(f"c{i} = call_at(n{i})")
            self._refuse(f"type(c{i}) is not DeferredCall or c{i}.template is not template{i}")
            self._open(f"c{i}.given", call.given, found)
        else:
            self._refuse(f"call_at(n{i}) is not c{opened}")
        if call.results:
            place = [result() for result in call.results].index(self._nodes[i])  # type: ignore[arg-type]
            self._refuse(f"c{opened}.results[{place}]() is not n{i}")

    def _check_pending(self, i: int, node: Node, found: set[int]) -> None:
        kind = type(node.op)
        self._names[f"op{i}"] = node.op
        other = f"n{i}.op is not op{i} and n{i}.op != op{i}"
        if is_bare[kind]:
            self._names[f"kind{i}"] = kind
            other = f"n{i}.op is not op{i} and type(n{i}.op) is not kind{i}"
        implied = isinstance(node.op, Elementwise)  # its shape follows from those of its inputs
        differs = f"n{i}.dtype is not {self._dtype(i)}" if implied else self._differs(i)
        deferred = "" if i == self._roots[0] else f"type(n{i}) is Deferred or "
        self._refuse(f"n{i}.value is not None or {deferred}{other} or {differs}")
        if not implied:  # of others there may be any number
            self._refuse(f"len(n{i}.inputs) != {len(node.inputs)}")
        self._open(f"n{i}.inputs", node.inputs, found)

    def _open(self, text: str, inputs: Sequence[Node], found: set[int]) -> None:
        """Give the inputs of a node, which ``text`` stands for, their names."""
        names, again = [], []
        for place, source in enumerate(inputs):
            number = self._number[source]
            again += [f"s{place} is not n{number}"] * (number in found)
            names.append(f"s{place}" if number in found else f"n{number}")
            found.add(number)
        if names:
            self._checks.append(f"({', '.join(names)},) = {text}")
        if again:
            self._refuse(" or ".join(again))

    def _words(self, results: int) -> tuple[str, list[str]]:
        """The words of inputs, results and numbers: how they are packed, and where they are."""
        data: list[str] = []
        numbers: list[str] = []
        formats: list[str] = []
        for place, leaf in enumerate(self._leaves):
            i = self._number.get(leaf)
            if i is None:
                self._names[f"k{place}"] = leaf
            if leaf.op is SCALAR:
                numbers.append(f"k{place}.value" if i is None else f"n{i}.value")
                formats.append(FORMATS.get(leaf.dtype.name, ""))
            else:
                data.append(f"k{place}.value.ptr" if i is None else f"v{i}.ptr")
        if "" in formats:
            formats = ["Q"] * len(formats)
            numbers = [f"*pack_scalars([{', '.join(numbers)}])"]
        words = data + [f"y{i}.ptr" for i in range(results)]
        return f"={len(words)}Q{''.join(formats)}", words + numbers

    def _refuse(self, condition: str) -> None:
        self._checks.append(f"if {condition}: return False")

    def _distinct(self, numbers: Sequence[int]) -> None:
        if len(numbers) == 2:
            self._refuse(f"n{numbers[0]} is n{numbers[1]}")
        elif len(numbers) > 2:
            self._refuse(f"len({{{', '.join(f'n{i}' for i in numbers)}}}) != {len(numbers)}")

    def _differs(self, i: int) -> str:
        self._names[f"shape{i}"] = self._nodes[i].shape
        return f"n{i}.dtype is not {self._dtype(i)} or n{i}.shape != shape{i}"

    def _dtype(self, i: int) -> str:
        dtype: DType = self._nodes[i].dtype
        self._names[dtype.name] = dtype
        return dtype.name


def _lines(lines: Iterable[str]) -> str:
    return "\n        ".join(lines)
