"""Shortcuts: Python functions written for the calls of one form, as straight-line code.

Input: a :class:`~lamella.transforms.direct.Direct` and the arguments of a call that it has served.
Output: a function of such arguments that checks everything a call depends on, without loops and
look-ups, runs the program and wraps its results. Numbers that change are read, computed, packed
into the frame, and set in the same code. It answers ``MISS`` to any other call, to be made
the long way; that keeps the frames up to date.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lamella import tree
from lamella.config import config
from lamella.graph import names as naming
from lamella.ir.dim import Dim
from lamella.ir.node import Node, gradient_mode
from lamella.ops.leaf import DATA
from lamella.runtime import buffer as memory
from lamella.runtime import profiling, threads
from lamella.runtime.buffer import Buffer
from lamella.runtime.launch import FORMATS, UNFIT
from lamella.tensor.core import TensorCore
from lamella.tensor.host import NATIVE
from lamella.transforms.direct import CELL, Direct
from lamella.transforms.guards import Environment
from lamella.transforms.numbers import Numbers, write_all

__all__ = ["MISS", "Shortcut", "shortcut"]

MISS: Final = object()
Shortcut = Callable[[tuple[Any, ...]], Any]
_STATIC: Final = (int, bool, str)  # arguments that are compared by value
_TEMPLATE: Final = """
def shortcut(args):
    if len(args) != {count}:
        return MISS
    {unpack}
    if not ({checks}):
        return MISS
    {numbers}
    {pointers}
    try:
        frame = frames.pop()
        {made}
    except (IndexError, MemoryError):
        return MISS
    if frame.owner is not direct.owner:
        return MISS
    words = frame.words
    {packed}
    {stores}
    if not pool.ready:
        start_pool()
    start(plan, frame.address)
    frames.append(frame)
    {writes}
    {results}
    return {result}
"""
_NUMBERS: Final = """try:
        places = environment.places
        holders = [{holders}]
        found = compute({sources})
    except Exception:  # as the function itself will raise it
        return MISS
    if type(found) is not tuple:
        return MISS
    ({values}) = found"""
_PACKED: Final = """cells = frame.cells
    try:
        pack_into(cells, 0, {values})
    except UNFIT:
        return MISS
    cell = frame.cell"""
_CHECKS: Final = """settings.plain and profiling.active is None and not naming.active
            and mode.enabled is {enabled}"""
_ARRAY: Final = """try:
        p{i} = address_of(probe(a{i}))
    except (TypeError, ValueError, BufferError):  # it may only be read, or is not contiguous
        if not a{i}.flags.c_contiguous:
            return MISS
        p{i} = a{i}.ctypes.data
    if p{i} & {mask}:
        return MISS"""
_RESULT: Final = """n = new(Node)
    n.op, n.inputs, n.shape, n.dtype, n.tracked, n.site = DATA, (), shape{i}, dtype{i}, False, None
    n.value = y{i}
    t{i} = new(Tensor)
    t{i}.node, t{i}._leaf = n, None"""


class _Settings:
    """Whether the settings are those that shortcuts are for."""

    plain: bool = True


_settings: Final = _Settings()


def _settings_changed() -> None:
    _settings.plain = config.backend == "llvm" and not (config.debug_nans or config.lines)


for _flag in ("backend", "debug_nans", "lines"):
    config.watch(_flag, _settings_changed)
_settings_changed()


def shortcut(
    direct: Direct, args: Sequence[Any], environment: Environment, numbers: Numbers | None,
    sizes: Mapping[str, int], captured: Collection[int], result: type[TensorCore],
) -> Shortcut | None:  # fmt: skip
    """A function for calls with arguments like these; None where they are of other kinds.

    Args:
        direct: has run with these arguments.
        args: of the call, all by position.
        environment: says whether Python values are those that the trace saw.
        numbers: those that may have other values.
        sizes: the open ones of the call.
        captured: the ids of the captured tensors.
        result: the class of tensors.
    """
    if not direct.is_steady():
        return None
    names = _names(direct, environment.same, captured, result)
    opened = () if numbers is None else numbers.sources
    found = [_argument(i, arg, names, i in opened) for i, arg in enumerate(args)]
    parts = _Parts() if numbers is None else _parts(numbers, environment, sizes, names)
    if None in found or parts is None:
        return None
    text = _text(direct, args, [f for f in found if f is not None], parts)
    exec(compile(text, "<shortcut>", "exec"), names)  # noqa: S102
    return names["shortcut"]  # type: ignore[no-any-return]


@dataclass(slots=True)
class _Parts:
    """What a call does with numbers, as text in the order of a call."""

    inputs: int = 0  # numbers that the program is given
    computed: str = ""
    packed: str = ""
    writes: str = ""


def _text(
    direct: Direct, args: Sequence[Any], found: Sequence[tuple[str, str]], parts: _Parts
) -> str:
    """The text of a shortcut; ``found`` is what :func:`_argument` says of each argument."""
    handles = [i for i, arg in enumerate(args) if isinstance(arg, TensorCore)]
    checks = [_CHECKS.format(enabled=gradient_mode.enabled), *(check for check, _ in found)]
    checks += [f"a{i} is not a{j}" for i in handles for j in handles if i < j]
    checks += [f"id(a{i}) not in captured" for i in handles]
    checks += [f"tensor{i}.node is nodes[{i}]" for i in range(len(direct.tensors))]
    pointers = [f"p{i}" for i, arg in enumerate(args) if not isinstance(arg, (*_STATIC, float))]
    pointers += [f"cell + {CELL * i}" for i in range(parts.inputs)]
    stores = [f"words[{slot}] = {pointers[w]}" for w, slot in direct.passed]
    stores += [f"words[{direct.first_output + i}] = y{i}.ptr" for i in range(len(direct.nbytes))]
    outputs = [f"y{i} = empty({nbytes})" for i, nbytes in enumerate(direct.nbytes)]
    borrowed = ["borrowed = furnish(frame, at)"] if direct.program.is_large else []
    roots = [place for place in direct.places if isinstance(place, int)]
    made = [f"t{p}" if isinstance(p, int) else f"r{p.index}" for p in direct.places]
    return _TEMPLATE.format(
        count=len(args), unpack=f"({''.join(f'a{i}, ' for i in range(len(args)))}) = args",
        checks=" and ".join([*checks, "same()"]), numbers=parts.computed,
        pointers="\n    ".join(pointer for _, pointer in found), packed=parts.packed,
        made="\n        ".join([*outputs, *borrowed]), stores="\n    ".join(stores),
        writes=parts.writes, results="\n    ".join(_RESULT.format(i=root) for root in roots),
        result=made[0] if direct.structure.kind is None
        else f"unflatten(structure, [{', '.join(made)}])",
    )  # fmt: skip


def _parts(
    numbers: Numbers, environment: Environment, sizes: Mapping[str, int], names: dict[str, Any]
) -> _Parts | None:
    """The parts for ``numbers``; None where one is of a type that needs more than packing."""
    formats = [FORMATS.get(dtype.name) for dtype in numbers.inputs]
    if None in formats:
        return None
    if any(environment.places[path][0].announced for path in numbers.writes):
        return None  # each call would make every other look at everything
    names |= {
        "compute": numbers.function, "write_all": write_all, "UNFIT": UNFIT,
        "environment": environment,
        "pack_into": struct.Struct("=" + "".join(f"{f}{CELL - 8}x" for f in formats)).pack_into,
    }  # fmt: skip
    names |= {f"path{i}": source for i, source in enumerate(numbers.sources)}
    names |= {f"written{i}": path for i, path in enumerate(numbers.writes)}
    sources = [
        f"a{source}" if isinstance(source, int)
        else str(sizes[str(source)]) if isinstance(source, Dim)
        else f"places[path{i}][0].read()"
        for i, source in enumerate(numbers.sources)
    ]  # fmt: skip
    inputs = [f"i{i}" for i in range(len(formats))]
    writes = [f"w{i}" for i in range(len(numbers.writes))]
    results = [f"r{i}" for i in range(numbers.result_count)]
    computed = _NUMBERS.format(
        sources=", ".join(sources), values="".join(f"{v}, " for v in (*inputs, *writes, *results)),
        holders=", ".join(f"places[written{i}][0]" for i in range(len(writes))),
    )  # fmt: skip
    pairs = "".join(f"(holders[{i}], {value}), " for i, value in enumerate(writes))
    return _Parts(
        len(inputs), computed, _PACKED.format(values=", ".join(inputs)) if inputs else "",
        f"write_all(({pairs}))" if writes else "",
    )  # fmt: skip


def _names(
    direct: Direct, same: Callable[[], bool], captured: Collection[int], result: type[TensorCore]
) -> dict[str, Any]:
    """What a shortcut refers to by name."""
    names: dict[str, Any] = {
        "MISS": MISS, "DATA": DATA, "Node": Node, "Tensor": result, "Buffer": Buffer,
        "new": object.__new__, "settings": _settings, "profiling": profiling,
        "naming": naming.state, "mode": gradient_mode, "pool": threads.pool,
        "start_pool": threads.start_pool, "empty": memory.empty, "probe": memory.probe,
        "address_of": ctypes.addressof, "unflatten": tree.unflatten,
        "structure": direct.structure, "same": same, "captured": frozenset(captured),
        "nodes": direct.nodes, "direct": direct, "frames": direct.frames,
        "furnish": direct.program.furnish, "at": direct.at,
        "start": direct.program.plan.start, "plan": direct.program.plan.address,
    }  # fmt: skip
    names |= {f"tensor{i}": tensor for i, tensor in enumerate(direct.tensors)}
    for i, (shape, dtype) in enumerate(direct.kinds):
        names[f"shape{i}"], names[f"dtype{i}"] = shape, dtype
    return names


def _argument(
    i: int, arg: object, names: dict[str, Any], is_opened: bool
) -> tuple[str, str] | None:
    """A condition for argument number ``i`` to be like ``arg``, and what finds its address."""
    kind = names[f"class{i}"] = type(arg)
    same = f"type(a{i}) is class{i} and"
    if is_opened:
        return f"type(a{i}) is class{i}", "pass"
    if kind is float and arg and arg == arg:  # neither 0.0, which is -0.0, nor NaN
        names[f"value{i}"] = arg
        return f"{same} a{i} == value{i}", "pass"
    if kind in _STATIC:
        names[f"value{i}"] = arg
        return f"{same} a{i} == value{i}", "pass"
    if isinstance(arg, np.ndarray):
        names[f"form{i}"], names[f"type{i}"] = arg.shape, arg.dtype
        if kind is not np.ndarray or NATIVE.get(arg.dtype) is None:
            return None
        pointer = _ARRAY.format(i=i, mask=arg.dtype.itemsize - 1)
        return f"{same} a{i}.shape == form{i} and a{i}.dtype is type{i}", pointer
    if not isinstance(arg, TensorCore) or arg.node.tracked or arg._leaf is not None:
        return None
    names[f"form{i}"], names[f"type{i}"] = arg.node.shape, arg.node.dtype
    return (
        f"{same} a{i}._leaf is None and (n := a{i}.node).shape == form{i} and n.dtype is type{i} "
        f"and not n.tracked and type(b{i} := n.value) is Buffer"
    ), f"p{i} = b{i}.ptr"
