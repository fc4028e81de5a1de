"""Shortcuts: Python functions written for the calls of one form, as straight-line code.

Input: a :class:`~lamella.transforms.direct.Direct` and the arguments of a call that it has served.
Output: a function of such arguments that checks everything a call depends on, without loops and
look-ups, runs the program and wraps its results. It answers ``MISS`` to any other call, to be made
the long way; that keeps the frames up to date.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import numpy as np

from lamella import tree
from lamella.config import config
from lamella.graph import names as naming
from lamella.ir.node import Node, gradient_mode
from lamella.ops.leaf import DATA
from lamella.runtime import buffer as memory
from lamella.runtime import profiling, threads
from lamella.runtime.buffer import Buffer
from lamella.tensor.core import TensorCore
from lamella.tensor.host import NATIVE
from lamella.transforms.direct import Direct

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
    {pointers}
    try:
        frame = frames.pop()
        {made}
    except (IndexError, MemoryError):
        return MISS
    if frame.owner is not direct.owner:
        return MISS
    words = frame.words
    {stores}
    if not pool.ready:
        start_pool()
    start(plan, frame.address)
    frames.append(frame)
    {results}
    return {result}
"""
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
    direct: Direct, args: Sequence[Any], same: Callable[[], bool], captured: Collection[int],
    result: type[TensorCore],
) -> Shortcut | None:  # fmt: skip
    """A function for calls with arguments like these; None where they are of other kinds.

    Args:
        direct: has run with these arguments.
        args: of the call, all by position.
        same: whether Python values are those that the trace saw.
        captured: the ids of the captured tensors.
        result: the class of tensors.
    """
    if not direct.is_steady():
        return None
    names = _names(direct, same, captured, result)
    found = [_argument(i, arg, names) for i, arg in enumerate(args)]
    if None in found:
        return None
    checks = [_CHECKS.format(enabled=gradient_mode.enabled), *(f[0] for f in found if f)]
    handles = [i for i, arg in enumerate(args) if isinstance(arg, TensorCore)]
    checks += [f"a{i} is not a{j}" for i in handles for j in handles if i < j]
    checks += [f"id(a{i}) not in captured" for i in handles]
    checks += [f"tensor{i}.node is nodes[{i}]" for i in range(len(direct.tensors))]
    numbers = [i for i, arg in enumerate(args) if not isinstance(arg, _STATIC)]
    stores = [f"words[{slot}] = p{numbers[w]}" for w, slot in direct.passed]
    stores += [f"words[{direct.first_output + i}] = y{i}.ptr" for i in range(len(direct.nbytes))]
    outputs = [f"y{i} = empty({nbytes})" for i, nbytes in enumerate(direct.nbytes)]
    borrowed = ["borrowed = furnish(frame, at)"] if direct.program.is_large else []
    made = [f"t{place}" for place in direct.places]
    text = _TEMPLATE.format(
        count=len(args), unpack=f"({''.join(f'a{i}, ' for i in range(len(args)))}) = args",
        checks=" and ".join([*checks, "same()"]), made="\n        ".join([*outputs, *borrowed]),
        pointers="\n    ".join(f[1] for f in found if f),
        stores="\n    ".join(stores),
        results="\n    ".join(_RESULT.format(i=place) for place in direct.places),
        result=made[0] if direct.structure.kind is None
        else f"unflatten(structure, [{', '.join(made)}])",
    )  # fmt: skip
    exec(compile(text, "<shortcut>", "exec"), names)  # noqa: S102
    return names["shortcut"]  # type: ignore[no-any-return]


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
        "furnish": direct.program.furnish, "at": direct.program.bind(()),
        "start": direct.program.plan.start, "plan": direct.program.plan.address,
    }  # fmt: skip
    names |= {f"tensor{i}": tensor for i, tensor in enumerate(direct.tensors)}
    for i, (shape, dtype) in enumerate(direct.kinds):
        names[f"shape{i}"], names[f"dtype{i}"] = shape, dtype
    return names


def _argument(i: int, arg: object, names: dict[str, Any]) -> tuple[str, str] | None:
    """A condition for argument number ``i`` to be like ``arg``, and what finds its address."""
    kind = names[f"class{i}"] = type(arg)
    same = f"type(a{i}) is class{i} and"
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
