"""Calls of people's Python functions as steps of a program.

Inputs of a callback node: a number that names the function, for each result an array of its shape
and one more axis of size 0 (so that no size is a static parameter), then the arguments. Results:
one a template. A pure callback may run any number of times, or never; an *effect* runs
exactly once: whoever records one hands it to ``tensor.pending.perform``, and programs keep effects
in the order in which they were recorded. Under ``vmap`` the function runs example by example, or
once for all with ``vectorized``.
"""
from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np

from lamella.dtypes import DType, int64
from lamella.errors import DTypeError, GradientError, ShapeError
from lamella.ir.dim import Shape, Size
from lamella.ir.node import Node, make
from lamella.ops.base import Array, Needs
from lamella.ops.bitwise import logical_and
from lamella.ops.calls import Call, Result, call
from lamella.ops.leaf import SCALAR, full

__all__ = ["Host", "IoCallback", "PureCallback", "callback"]

Host = Callable[[Sequence[Array]], Sequence[Any]]
Levels = tuple[tuple[bool, ...], ...]

_functions: Final[dict[int, Host]] = {}
_numbers: Final = itertools.count(1)


def _named(function: Host) -> Node:
    """A number for ``function``, which lives as long as the node; an argument of the program."""
    node = Node(SCALAR, (), (), int64)
    node.value = number = next(_numbers)
    _functions[number] = function
    weakref.finalize(node, _functions.pop, number, None).atexit = False
    return node


@dataclass(frozen=True, slots=True)
class Callback(Call):
    """What pure callbacks and effects share. ``mapped``: for each level of ``vmap``, outermost
    first, which arguments have its axis.
    """

    opaque: ClassVar[bool] = True
    count: int  # results
    vectorized: bool = False
    mapped: Levels = ()

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """The templates' shapes without their last axis, for every example."""
        sizes = self._sizes([node.shape for node in inputs])
        return tuple((sizes + t.shape[:-1], t.dtype) for t in inputs[1 : 1 + self.count])

    def _sizes(self, shapes: Sequence[Shape]) -> Shape:
        """The sizes of the mapped axes: each read off the first argument that has it."""
        given = shapes[1 + self.count :]
        found: list[Size] = []
        for level, has in enumerate(self.mapped):
            which = has.index(True)
            found.append(given[which][sum(outer[which] for outer in self.mapped[:level])])
        return tuple(found)

    def evaluate(self, node: Node, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """The function's results. It is given copies: it may keep them."""
        function = _functions[int(arrays[0])]
        templates, given = arrays[1 : 1 + self.count], arrays[1 + self.count :]
        shapes = [t.shape[:-1] for t in templates]
        sizes: tuple[int, ...] = self._sizes([a.shape for a in arrays])  # type: ignore[assignment]
        made = [np.zeros(sizes + s, t.dtype) for s, t in zip(shapes, templates, strict=True)]
        if self.vectorized:
            found = function([self._spread(i, a).copy() for i, a in enumerate(given)])
            self._take(made, (), found)
            return tuple(made)
        for at in np.ndindex(sizes):
            one = [self._one(i, a, at).copy() for i, a in enumerate(given)]
            results = self._on_one(function, one)
            if results is not None:
                self._take(made, at, results)
        return tuple(made)

    def _on_one(self, function: Host, arguments: Sequence[Array]) -> Sequence[Any] | None:
        """The function's results for one example; None leaves zeros."""
        return function(arguments)

    def _one(self, number: int, array: Array, at: tuple[int, ...]) -> Array:
        """The argument of one example."""
        chosen = tuple(i for i, has in zip(at, self.mapped, strict=True) if has[number])
        return np.asarray(array[chosen])

    def _spread(self, number: int, array: Array) -> Array:
        """The argument with an axis for every level; of size 1 where it is the same for all."""
        axes = [axis for axis, has in enumerate(self.mapped) if not has[number]]
        return np.expand_dims(array, axes)

    def _take(self, made: Sequence[Array], at: tuple[int, ...], found: Sequence[Any]) -> None:
        for number, (whole, value) in enumerate(zip(made, found, strict=True)):
            part = whole[at]
            try:
                result = np.asarray(value, None if hasattr(value, "dtype") else part.dtype)
            except (TypeError, ValueError) as error:
                raise DTypeError(
                    f"[{self.name}] the function returned {value!r:.40} for result {number}, which "
                    f"is no array of {part.dtype}: {error}; return one"
                ) from error
            if result.shape != part.shape or result.dtype != part.dtype:
                kind = ShapeError if result.shape != part.shape else DTypeError
                raise kind(
                    f"[{self.name}] the function returned {result.dtype}{list(result.shape)} for "
                    f"result {number}, but {part.dtype}{list(part.shape)} was promised; return "
                    "that, or correct result_shape_dtypes"
                )
            whole[at] = result

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """One more level."""
        level = tuple(batched[1 + self.count :])
        op = replace(self, mapped=(level, *self.mapped))
        return make(op, tuple(args), (), node.dtype)

    def vjp_all(
        self, node: Node, cotangents: Sequence[Node | None], needs: Needs
    ) -> Sequence[Node | None]:
        """None is known."""
        raise self._no_derivative()

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """None is known, unless nothing moves."""
        if all(tangent is None for tangent in tangents):
            return (None,) * self.count
        raise self._no_derivative()

    def _no_derivative(self) -> GradientError:
        return GradientError(
            f"[{self.name}] the derivative of a Python function is not known; pass its arguments "
            "through lm.stop_gradient, or give it one with lm.custom_vjp"
        )


@dataclass(frozen=True, slots=True)
class PureCallback(Callback):
    """A Python function without effects."""

    name: ClassVar[str] = "pure_callback"


@dataclass(frozen=True, slots=True)
class IoCallback(Callback):
    """A Python function that must run exactly once, in order with others. ``guarded``: only where
    its last argument, a bool, holds; elsewhere its results are zeros.
    """

    name: ClassVar[str] = "io_callback"
    guarded: bool = False

    @property
    def tokens(self) -> tuple[int, ...]:
        """The first result."""
        return (0,)

    def when(self, flag: Node, inputs: Sequence[Node]) -> tuple[Call, Sequence[Node]]:
        """Guarded, or by one flag more."""
        if not self.guarded:
            levels = tuple((*level, False) for level in self.mapped)
            return replace(self, guarded=True, mapped=levels), [*inputs, flag]
        before = inputs[-1]
        return self, [*inputs[:-1], logical_and(before, full(flag, before.shape))]

    def _on_one(self, function: Host, arguments: Sequence[Array]) -> Sequence[Any] | None:
        """Where the guard holds."""
        if not self.guarded:
            return function(arguments)
        return function(arguments[:-1]) if arguments[-1] else None


def callback(
    op: type[Callback], function: Host, results: Sequence[Result], args: Sequence[Node],
    vectorized: bool = False,
) -> tuple[Node, ...]:  # fmt: skip
    """The results of ``function``, which takes and returns a sequence of arrays."""
    templates = [_template(shape, dtype) for shape, dtype in results]
    return call(op(len(results), vectorized), _named(function), *templates, *args)


def _template(shape: Shape, dtype: DType) -> Node:
    return full(0, (*shape, 0), dtype)
