"""``jit``: a function as one compiled program, with the state it reads and rebinds found by itself.

Input: a function of pytrees (imperative or not). Output: a function with the same results and effects on tensors. The first call with arguments of a
structure runs it once on placeholders (``tracing``), compiles the graph, and remembers what of Python it saw (``guards``); later calls check that and run
the program. A difference makes another trace, never a stale result.
"""
from __future__ import annotations

import functools
import inspect
import threading
import types
import warnings

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lamella import tree
from lamella.config import config
from lamella.errors import OptionError, did_you_mean
from lamella.ir.dim import Dim, Shape
from lamella.ir.node import gradient_mode
from lamella.tensor.core import TensorCore
from lamella.tensor.creation import asarray
from lamella.tensor.pending import current_trace, traces
from lamella.transforms.entry import Entry, Lowered
from lamella.transforms.guards import Environment
from lamella.transforms.tracing import record

__all__ = ["Jit", "jit"]

MANY = 16  # programs of one function after which a warning names the reason


class Call:
    """One call's arguments: tensors in order, and a key for everything else."""

    __slots__ = ("args", "key", "options", "shapes", "sizes", "tensors")

    def __init__(self, args: tuple[Any, ...], options: dict[str, Any], dynamic: Mapping[str | int, Mapping[int, str]]) -> None:
        leaves, structure = tree.flatten((args, options)) if options or not _flat(args) else (list(args), len(args))
        self.tensors: list[TensorCore] = []
        self.shapes: dict[int, Shape] = {}
        self.sizes: dict[str, int] = {}
        signature: list[object] = [structure, gradient_mode.enabled]
        changed = False
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, (np.ndarray, np.generic)):
                leaf = leaves[i] = asarray(leaf)
                changed = True
            if isinstance(leaf, TensorCore):
                node = leaf.node
                signature += (node.shape, node.dtype.name, node.tracked)
                self.tensors.append(leaf)
            else:
                signature.append(_static(leaf))
        self.args, self.options = args, options
        if changed:
            self.args, self.options = (tuple(leaves), {}) if isinstance(structure, int) else tree.unflatten(structure, leaves)
        count = len(self.tensors)
        if count > 1 and len(set(map(id, self.tensors))) < count:
            first = {id(t): i for i, t in reversed(list(enumerate(self.tensors)))}
            signature.append(tuple(first[id(t)] for t in self.tensors))
        if dynamic:
            self._open(dynamic, signature)
        self.key = tuple(signature)

    def _open(self, dynamic: Mapping[str | int, Mapping[int, str]], signature: list[object]) -> None:
        """Gives named axes their symbols; the key then holds the symbols instead of the sizes."""
        for name, axes in dynamic.items():
            value = self.options.get(name) if name in self.options else None
            if value is None and isinstance(name, int) and name < len(self.args):
                value = self.args[name]
            for leaf in tree.leaves(value):
                if isinstance(leaf, TensorCore) and id(leaf) not in self.shapes:
                    self.shapes[id(leaf)] = self._shape(leaf, name, axes)
        at = 2
        place = iter(self.tensors)
        while at < len(signature):
            if isinstance(signature[at], tuple) and at + 2 < len(signature) and isinstance(signature[at + 2], bool):
                tensor = next(place, None)
                if tensor is not None:
                    signature[at] = self.shapes.get(id(tensor), signature[at])
                at += 3
            else:
                at += 1

    def _shape(self, tensor: TensorCore, name: object, axes: Mapping[int, str]) -> Shape:
        shape = list(tensor.shape)
        for axis, symbol in axes.items():
            if not -len(shape) <= axis < len(shape):
                raise OptionError(f"[jit] dynamic={{{name!r}: {dict(axes)}}}: axis {axis} is not one of shape {tuple(shape)}")
            size = shape[axis]
            if self.sizes.setdefault(symbol, size) != size:
                raise OptionError(
                    f"[jit] the dynamic size {symbol!r} is {self.sizes[symbol]} in one place and {size} in another; "
                    "give axes that may differ different names"
                )
            shape[axis] = Dim(symbol)  # type: ignore[call-overload]
        return tuple(shape)


def _flat(args: tuple[Any, ...]) -> bool:
    """Whether the arguments are their own leaves."""
    return all(isinstance(a, (TensorCore, np.ndarray, int, float, str)) for a in args)


def _static(leaf: object) -> tuple[str, object]:
    """An argument that is no tensor: part of the key, by value."""
    try:
        hash(leaf)
    except TypeError:
        raise OptionError(
            f"[jit] an argument holds a {type(leaf).__name__}, which can be neither traced nor compared; pass tensors, arrays, "
            "numbers, text, or containers of them (register a class with lm.tree.register)"
        ) from None
    return type(leaf).__name__, repr(leaf) if isinstance(leaf, float) else leaf


class Jit:
    """A compiled function. ``lower(*args)`` shows what was made of it; ``programs`` counts its compiled programs."""

    def __init__(self, f: Callable[..., Any], dynamic: Mapping[str, Mapping[int, str]] | None = None) -> None:
        functools.update_wrapper(self, f)
        self._f = f
        self._dynamic = _positions(f, dynamic or {})
        self._entries: dict[tuple[object, ...], list[Entry]] = {}
        self._lock = threading.RLock()
        self.programs = 0

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """As a method: one compiled function an instance, so that instances share no state."""
        if instance is None:
            return self
        name = f"_jit {self._f.__name__}"
        held = instance.__dict__
        found = held.get(name)
        if found is None:
            dynamic = {k: v for k, v in self._dynamic.items() if isinstance(k, str)}
            found = held[name] = Jit(types.MethodType(self._f, instance), dynamic)
        return found

    def __call__(self, *args: Any, **options: Any) -> Any:
        """The function's result."""
        if traces and current_trace() is not None:
            return self._f(*args, **options)  # inside another transformation: part of its graph
        if config.backend == "interpret":
            return self._f(*args, **options)
        call = Call(args, options, self._dynamic)
        return self._entry(call).run(call.tensors, call.sizes)

    def lower(self, *args: Any, **options: Any) -> Lowered:
        """The program for these arguments, to be looked at; it is compiled but not run."""
        return self._entry(Call(args, options, self._dynamic)).lowered()

    def _entry(self, call: Call) -> Entry:
        with self._lock:
            entries = self._entries.setdefault(call.key, [])
            reason = None
            for entry in reversed(entries):
                reason = entry.misfit(call.tensors)
                if reason is None:
                    return entry
            return self._trace(call, entries, reason)

    def _trace(self, call: Call, entries: list[Entry], reason: str | None) -> Entry:
        environment = Environment(self._f)
        recording = record(self._f, call.args, call.options, call.tensors, call.shapes)
        entry = Entry(recording, environment)
        self.programs += 1
        name = getattr(self._f, "__qualname__", "function")
        if config.debug >= 1:
            other = "arguments of a new structure, shape or dtype" if self.programs > 1 else "first call"
            print(f"jit {name}: traced ({reason or other})")
        if self.programs == MANY + 1:
            warnings.warn(
                f"[jit] {name} has been compiled {self.programs} times, last because {reason or 'of arguments of new shapes or values'}; "
                "pass what changes as a tensor, or name changing sizes in dynamic=",
                RuntimeWarning, stacklevel=4,
            )  # fmt: skip
        if len(entries) >= 4 * MANY:
            entries.pop(0)
        entries.append(entry)
        return entry


def _positions(f: Callable[..., Any], dynamic: Mapping[str, Mapping[int, str]]) -> dict[str | int, Mapping[int, str]]:
    """``dynamic`` under the names and the positions of arguments."""
    if not dynamic:
        return {}
    names = list(inspect.signature(f).parameters)
    found: dict[str | int, Mapping[int, str]] = {}
    for name, axes in dynamic.items():
        if name not in names:
            raise OptionError(f"[jit] dynamic names an argument {name!r} the function does not have; {did_you_mean(name, names)}")
        found[name] = axes
        found[names.index(name)] = axes
    return found


def jit(f: Callable[..., Any] | None = None, *, dynamic: Mapping[str, Mapping[int, str]] | None = None) -> Any:
    """Compile ``f`` whole: forward, backward, optimiser update, random numbers and running statistics become one program.

    Args:
        f: a function or method of trees of tensors, arrays and Python values. Tensors it reads or rebinds anywhere (in modules, optimisers,
            closures) are state and need not be declared. Numbers, text and flags are part of the program: another value makes another.
        dynamic: for arguments by name, axes whose size may change, as ``{"x": {0: "batch"}}``: one program serves every size.

    Raises:
        TraceError: when called, if ``f`` looks at a value that a program cannot know when it is compiled.

    >>> import lamella as lm
    >>> @lm.jit
    ... def f(x):
    ...     return (x * 2).sum()
    >>> f(lm.ones(3)).item()
    6.0
    """
    if f is None:
        return lambda g: Jit(g, dynamic)
    return Jit(f, dynamic)


