"""Graphs that are evaluated again and again: Python functions written for them, as straight-line
code.

Input: pending nodes. Output: their values, where a graph like theirs (primitives, connections,
shapes, dtypes) has been evaluated before, without laying it out for look-up. A function checks node
by node that the graph is the one it was written for, runs its program and settles the results;
where anything differs it does nothing, and the graph goes the long way, which offers its program
here. Graphs that derivatives may pass through always go that way. Invariant: a program kept here is
the one that the long way would find; both forget at the same time.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from lamella.config import config
from lamella.dtypes import DType
from lamella.ir.node import Node
from lamella.ops.calls import Part
from lamella.ops.families import Elementwise
from lamella.ops.leaf import DATA, SCALAR
from lamella.runtime import buffer as memory
from lamella.runtime import profiling, threads
from lamella.runtime.buffer import Buffer
from lamella.runtime.launch import FORMATS, UNFIT
from lamella.runtime.program import Binding, Executable

__all__ = ["at_once", "forget", "is_bare", "offer", "settings"]

Repeat = Callable[[Sequence[Node]], bool]

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
    for repeat in _known.get((node.op.__class__, node.shape, len(nodes)), ()):
        if repeat(nodes):
            return True
    return False


def offer(
    roots: Sequence[Node], order: Mapping[Node, int], program: Executable, at: Binding
) -> None:
    """Have a function written for graphs like that of ``roots``, once it has been evaluated a few
    times: the larger it is, the more. ``order`` has its nodes, inputs before users. Before it runs.
    """
    at.uses += 1
    if at.uses < 2 + len(order) // 8 or len(order) > _LARGEST:
        return
    at.uses = 0  # a function that others have displaced is written again as late
    if program.same or not program.has_frames:
        return
    if any(root.tracked or isinstance(root.op, Part) for root in roots):
        return
    if len(_known) >= config.programs:
        _known.clear()
    key = roots[0].op.__class__, roots[0].shape, len(roots)
    alike = _known.get(key, [])[: _ALIKE - 1]
    _known[key] = [_Writer(roots, order).function(program, at), *alike]


def forget() -> None:
    """Drop every function."""
    _known.clear()


_COMMON: Final[dict[str, object]] = {  # what all functions refer to
    "Buffer": Buffer, "DATA": DATA, "SCALAR": SCALAR, "UNFIT": UNFIT,
    "pool": threads.pool, "start_pool": threads.start_pool, "memory": memory, "len": len,
    "type": type, "any": any, "IndexError": IndexError, "ValueError": ValueError,
}  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _maker(text: str) -> Callable[..., Repeat]:
    """What makes functions of a text: graphs that differ in shapes and dtypes alone share it."""
    made: dict[str, Any] = {}
    exec(compile(text, "<repeat>", "exec"), _COMMON, made)  # noqa: S102
    return made["make"]  # type: ignore[no-any-return]


@dataclass(slots=True)
class _Leaves:
    """The numbers of the nodes with buffers, and of those with Python numbers."""

    data: list[int]
    scalars: list[int]


class _Writer:
    """Writes the function for a graph: node ``i`` in order is ``ni``, ``vi`` its buffer."""

    def __init__(self, roots: Sequence[Node], order: Mapping[Node, int]) -> None:
        self._nodes = list(order)
        self._number = order
        self._roots = [order[root] for root in roots]
        self._names: dict[str, object] = {}
        self._checks: list[str] = []
        known = [(i, node) for i, node in enumerate(order) if node.value is not None]
        self._leaves = _Leaves(
            [i for i, node in known if node.op is not SCALAR],
            [i for i, node in known if node.op is SCALAR],
        )

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
        settled = [
            f"n{root}.value = y{i}; n{root}.op = DATA; n{root}.inputs = ()"
            for i, root in enumerate(self._roots)
        ]
        made = [f"y{i} = memory.empty(nbytes{i})" for i in range(len(at.nbytes))]
        text = _TEMPLATE.format(
            names=", ".join(self._names), roots=", ".join(f"n{root}" for root in self._roots),
            checks=_lines(self._checks), made=_lines(made), words=", ".join(words),
            borrowed="borrowed = program.furnish(frame, at)" if program.is_large else "",
            faults="if any(frame.faults): program.fail(frame)" if program.may_fail else "",
            settled=_lines(settled),
        )  # fmt: skip
        return _maker(text)(**self._names)

    def _check(self) -> None:
        """The checks, users before inputs, so that every node has its name."""
        for root in self._roots:
            self._refuse(f"n{root}.tracked")
        self._distinct(self._roots)
        found = {*self._roots}
        for i in reversed(range(len(self._nodes))):
            node = self._nodes[i]
            if node.value is None:
                self._check_pending(i, node, found)
            elif node.op is SCALAR:
                self._refuse(f"n{i}.op is not SCALAR or n{i}.dtype is not {self._dtype(i)}")
            else:
                self._checks.append(f"v{i} = n{i}.value")
                self._refuse(f"type(v{i}) is not Buffer or {self._differs(i)}")
        self._distinct(self._leaves.data)

    def _check_pending(self, i: int, node: Node, found: set[int]) -> None:
        kind = type(node.op)
        self._names[f"op{i}"] = node.op
        other = f"n{i}.op is not op{i} and n{i}.op != op{i}"
        if is_bare[kind]:
            self._names[f"kind{i}"] = kind
            other = f"n{i}.op is not op{i} and type(n{i}.op) is not kind{i}"
        implied = isinstance(node.op, Elementwise)  # its shape follows from those of its inputs
        differs = f"n{i}.dtype is not {self._dtype(i)}" if implied else self._differs(i)
        self._refuse(f"n{i}.value is not None or {other} or {differs}")
        names, again = [], []
        for place, source in enumerate(node.inputs):
            number = self._number[source]
            again += [f"s{place} is not n{number}"] * (number in found)
            names.append(f"s{place}" if number in found else f"n{number}")
            found.add(number)
        if names and not issubclass(kind, Elementwise):  # of others there may be any number
            self._refuse(f"len(n{i}.inputs) != {len(names)}")
        if names:
            self._checks.append(f"({', '.join(names)},) = n{i}.inputs")
        if again:
            self._refuse(" or ".join(again))

    def _words(self, results: int) -> tuple[str, list[str]]:
        """The words of inputs, results and numbers: how they are packed, and where they are."""
        nodes, leaves = self._nodes, self._leaves
        words = [f"v{i}.ptr" for i in leaves.data] + [f"y{i}.ptr" for i in range(results)]
        formats = [FORMATS.get(nodes[i].dtype.name, "") for i in leaves.scalars]
        numbers = [f"n{i}.value" for i in leaves.scalars]
        if "" in formats:
            formats = ["Q"] * len(formats)
            numbers = [f"*pack_scalars([{', '.join(numbers)}])"]
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
