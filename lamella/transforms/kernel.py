"""Kernels in Python: ``@lm.kernel`` compiles a small function over indices, on every target.

Input: a function of arrays with a loop over ``lm.kernel.grid``. Output: a function of tensors that
records one operation, with derivative and batching rules if they are given. ``kernel_language`` has
the words, ``kernel_compiler`` the translation.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lamella import ops
from lamella.dtypes import DType, as_dtype
from lamella.errors import DTypeError, MissingRuleError, OptionError, ShapeError
from lamella.graph.inlined import for_many
from lamella.ir import index as ix
from lamella.ir.dim import Shape, Size
from lamella.ir.loops import Expr, Load, Stmt, Store, Var
from lamella.ir.node import Node, make
from lamella.ops.base import Array as NumpyArray
from lamella.ops.base import Element, Index, KernelWriter, Needs
from lamella.ops.calls import Call, Result, call
from lamella.ops.leaf import placeholder
from lamella.ops.site import user_site
from lamella.tensor.core import TensorCore, describe, wrap
from lamella.tensor.operands import as_node
from lamella.transforms.kernel_compiler import Array, Compiler
from lamella.transforms.kernel_language import Words
from lamella.transforms.pickling import reduced

__all__ = ["Kernel", "custom_op", "kernel"]

Rule = Callable[..., Any]
_CONSTANTS = (bool, int, float, str, DType, tuple)


@dataclass(frozen=True)
class Spec:
    """An argument or result as the shape rule of a kernel sees it."""

    shape: Shape
    dtype: DType


@dataclass(slots=True, eq=False)
class Definition:
    """A kernel's function, its source, and the rules given for it."""

    function: Callable[..., Any]
    rule: Callable[..., Any]
    tree: ast.FunctionDef
    parameters: tuple[str, ...]
    options: tuple[str, ...]
    inputs: int
    rule_options: tuple[str, ...]  # those the shape rule asks for
    where: str
    vjp: Rule | None = None
    jvp: Rule | None = None

    def __str__(self) -> str:
        return self.where

    def surroundings(self) -> tuple[tuple[str, Any], ...]:
        """Numbers and other constants of the program around it that the function uses, by name:
        another value makes another kernel.
        """
        closure = inspect.getclosurevars(self.function)
        found = {**closure.globals, **closure.nonlocals}
        return tuple((n, v) for n, v in sorted(found.items()) if isinstance(v, _CONSTANTS))

    def results(self, inputs: Sequence[Spec], options: Sequence[Any]) -> tuple[Result, ...]:
        """Shape and dtype of every result."""
        given = zip(self.options, options, strict=True)
        found = self.rule(*inputs, **{n: v for n, v in given if n in self.rule_options})
        many = found if isinstance(found, list) else [found]
        return tuple(_result(one, self.where) for one in many)

    def compiler(
        self, arrays: Sequence[Array], options: Sequence[Any],
        surroundings: Sequence[tuple[str, Any]],
    ) -> Compiler:  # fmt: skip
        """A translation with these parameters."""
        closure = inspect.getclosurevars(self.function)
        names = {**vars(builtins), **self.function.__globals__, **closure.nonlocals}
        names |= dict(surroundings)
        names |= dict(zip(self.parameters, arrays, strict=True))
        names |= dict(zip(self.options, options, strict=True))
        return Compiler(self.tree, names, self.where)


def _result(one: Any, where: str) -> Result:
    if isinstance(one, Spec | TensorCore):
        return tuple(one.shape), one.dtype
    try:
        shape, dtype = one
        return tuple(shape), as_dtype(dtype)
    except (TypeError, ValueError):
        raise OptionError(
            f"[kernel] {where}: out= gives {one!r}; return (shape, dtype), an argument, or a list "
            "of these for several results"
        ) from None


@dataclass(frozen=True, slots=True)
class Custom(Call):
    """One application of a kernel; ``batched`` says which inputs have the axes of ``vmap``."""

    name: ClassVar[str] = "kernel"
    checked: ClassVar[bool] = True
    partial: ClassVar[bool] = True
    definition: Definition
    options: tuple[Any, ...]
    surroundings: tuple[tuple[str, Any], ...]  # what the function read outside when it was called
    batched: tuple[Needs, ...] = ()

    def _specs(self, inputs: Sequence[Node]) -> list[Spec]:
        """The inputs without the axes of ``vmap``."""
        lost = [sum(level[i] for level in self.batched) for i in range(len(inputs))]
        return [Spec(n.shape[k:], n.dtype) for n, k in zip(inputs, lost, strict=True)]

    def _sizes(self, inputs: Sequence[Node]) -> Shape:
        """The sizes of the axes of ``vmap``, outermost first."""
        found: list[Size] = []
        for level, needs in enumerate(self.batched):
            i = needs.index(True)
            before = sum(other[i] for other in self.batched[:level])
            found.append(inputs[i].shape[before])
        return tuple(found)

    def results(self, inputs: Sequence[Node]) -> tuple[Result, ...]:
        """What the shape rule says, with the axes of ``vmap`` before."""
        sizes = self._sizes(inputs)
        found = self.definition.results(self._specs(inputs), self.options)
        return tuple(((*sizes, *shape), dtype) for shape, dtype in found)

    def evaluate(self, node: Node, arrays: Sequence[NumpyArray]) -> tuple[NumpyArray, ...]:
        """The function itself, run on arrays for every example."""
        specs = [Spec(a.shape[len(a.shape) - len(s.shape) :], s.dtype)
                 for a, s in zip(arrays, self._specs(node.inputs), strict=True)]  # fmt: skip
        sizes = tuple(
            arrays[level.index(True)].shape[sum(o[level.index(True)] for o in self.batched[:i])]
            for i, level in enumerate(self.batched)
        )
        results = [
            np.zeros((*sizes, *shape), dtype.numpy)
            for shape, dtype in self.definition.results(specs, self.options)
        ]
        options = dict(zip(self.definition.options, self.options, strict=True))
        for point in np.ndindex(*sizes):
            given = [
                a[tuple(p for p, level in zip(point, self.batched, strict=True) if level[i])]
                for i, a in enumerate(arrays)
            ]
            self.definition.function(*given, *(r[point] for r in results), **options)
        return tuple(results)

    def _arrays(self, node: Node) -> list[Array]:
        """The parameters as the function sees them."""
        specs = self._specs(node.inputs)
        made = self.definition.results(specs, self.options)
        given = [
            Array(name, spec.shape, spec.dtype, i, written=False)
            for i, (name, spec) in enumerate(zip(self.definition.parameters, specs, strict=False))
        ]
        first = len(given)
        names = self.definition.parameters[first:]
        return given + [
            Array(name, shape, dtype, first + i)
            for i, (name, (shape, dtype)) in enumerate(zip(names, made, strict=True))
        ]

    def _compiler(self, node: Node) -> Compiler:
        return self.definition.compiler(self._arrays(node), self.options, self.surroundings)

    def grid(self, node: Node) -> Shape:
        """The axes of ``vmap``, then the grid."""
        compiler = self._compiler(node)
        return (*self._sizes(node.inputs), *compiler.sizes())

    def kernel(
        self, node: Node, args: Sequence[Element], at: Index, out: KernelWriter
    ) -> list[Stmt]:
        """The function's statements."""
        compiler = self._compiler(node)
        compiler.sizes()
        levels = len(self.batched)
        memory = _Memory(args, out, at[:levels], self.batched)
        return compiler.body(memory, at[levels:])

    def vjp_all(
        self, node: Node, cotangents: Sequence[Node | None], needs: Needs
    ) -> Sequence[Node | None]:
        """The rule given with ``vjp``: of the inputs, the results and their cotangents."""
        results = ops.parts(node)
        given = [
            c if c is not None else ops.full(0.0, r.shape, r.dtype)
            for c, r in zip(cotangents, results, strict=True)
        ]
        return self._pulled(node.inputs, [*results, *given])

    def _pulled(self, inputs: Sequence[Node], more: Sequence[Node]) -> list[Node | None]:
        """By results and cotangents (``more``); those of one example, for all of a level."""
        count, half = len(inputs), len(more) // 2
        if self.batched:
            level, one = self.batched[0], replace(self, batched=self.batched[1:])
            has, size = [*level, *[True] * len(more)], self._sizes(inputs)[0]
            rule = lambda nodes: one._pulled(nodes[:count], nodes[count:])  # noqa: E731
            found = for_many(rule, [*inputs, *more], has, size)
            return [
                n if n is None or own else ops.reduce_sum(n, (0,))
                for n, own in zip(found, level, strict=True)
            ]
        if self.definition.vjp is None:
            raise self._missing("reverse-mode differentiation", "vjp")
        made = self.definition.vjp(
            *(tuple(map(wrap, nodes)) for nodes in (inputs, more[:half], more[half:]))
        )
        return self._fitting("vjp", _tuple(made), inputs)

    def jvp_all(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """The rule given with ``jvp``: of the inputs and their tangents."""
        given = [
            t if t is not None else ops.full(0.0, n.shape, n.dtype)
            for t, n in zip(tangents, node.inputs, strict=True)
        ]
        return self._pushed([*node.inputs, *given])

    def _pushed(self, nodes: Sequence[Node]) -> list[Node | None]:
        """By inputs, then their tangents; those of one example, for all of a level."""
        half = len(nodes) // 2
        if self.batched:
            level, one = self.batched[0], replace(self, batched=self.batched[1:])
            return for_many(one._pushed, nodes, [*level, *level], self._sizes(nodes[:half])[0])
        if self.definition.jvp is None:
            raise self._missing("forward-mode differentiation", "jvp")
        made = self.definition.jvp(*(tuple(map(wrap, n)) for n in (nodes[:half], nodes[half:])))
        results = [placeholder(*kind) for kind in self.results(nodes[:half])]
        return self._fitting("jvp", _tuple(made), results)

    def _fitting(
        self, rule: str, made: Sequence[Any], wanted: Sequence[Node]
    ) -> list[Node | None]:
        """What a rule returned, if it is like what it is the derivative of."""
        where = f"[kernel] {self.definition.where}: the rule {rule} returned"
        if len(made) != len(wanted):
            raise OptionError(f"{where} {len(made)} values, not {len(wanted)}; None is zero")
        found = [None if value is None else as_node(value) for value in made]
        for number, (node, like) in enumerate(zip(found, wanted, strict=True)):
            if node is not None and node.shape != like.shape:
                raise ShapeError(
                    f"{where} {describe(node.shape, node.dtype)} for value {number}, which is "
                    f"{describe(like.shape, like.dtype)}; a derivative has its shape"
                )
        return [
            None if node is None or not like.dtype.inexact else ops.cast(node, like.dtype)
            for node, like in zip(found, wanted, strict=True)
        ]

    def _missing(self, transform: str, rule: str) -> MissingRuleError:
        where = self.definition.where
        return MissingRuleError(where, transform, rule, f"give it one by @{where}.{rule}")

    def batch(self, node: Node, args: Sequence[Node], batched: Needs, size: Size) -> Node:
        """One more axis of the grid."""
        op = replace(self, batched=(tuple(batched), *self.batched))
        made = make(op, tuple(args), (), node.dtype)
        made.site = node.site
        return made


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


class _Memory:
    """The arrays of a kernel under compilation."""

    def __init__(
        self, args: Sequence[Element], out: KernelWriter, point: Index, batched: Sequence[Needs]
    ) -> None:
        self._args = args
        self._out = out
        self._point = point
        self._batched = batched

    def load(self, array: Array, index: tuple[Expr, ...]) -> Expr:
        """One element of an input, a result or scratch memory."""
        if array.number < 0:
            return Load(array.name, ix.linearise(index, array.shape), array.dtype)
        if array.number < len(self._args):
            levels = zip(self._point, self._batched, strict=True)
            lead = tuple(p for p, needs in levels if needs[array.number])
            return self._args[array.number]((*lead, *index))
        return self._out.load_part(array.number - len(self._args), (*self._point, *index))

    def store(self, array: Array, index: tuple[Expr, ...], value: Expr) -> Stmt:
        """Write one element."""
        if array.number < 0:
            return Store(array.name, ix.linearise(index, array.shape), value)
        return self._out.part(array.number - len(self._args), (*self._point, *index), value)

    def atomic(self, array: Array, index: tuple[Expr, ...], op: str, value: Expr) -> Stmt:
        """Change one element of a result in one step."""
        place = (*self._point, *index)
        return self._out.atomic(array.number - len(self._args), place, op, value)

    def name(self, name: str) -> str:
        """A name nothing else has."""
        return self._out.temporary(name)

    def var(self, name: str, extent: Any) -> Var:
        """A new loop variable."""
        return self._out.var(name, extent)


class Kernel:
    """A compiled kernel: call it with tensors (results are returned, not passed).

    ``kernel.reference(*arrays)`` runs the function as plain Python.
    """

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(self, name, getattr(definition.function, name, None))

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        """Itself, as functions."""
        return self

    def __reduce__(self) -> Any:
        """By name, as functions are pickled."""
        d = self._definition
        return reduced(self, d.function, (_made, (d.function, d.rule, d.vjp, d.jvp)))

    def __call__(self, *tensors: Any, **options: Any) -> Any:
        """The result, or a tuple of the results."""
        definition = self._definition
        unknown = set(options) ^ set(definition.options)
        if unknown:
            raise OptionError(
                f"[kernel] {definition.where} takes the options {list(definition.options)} by "
                f"name, given were {sorted(options)}; pass each of them once"
            )
        nodes = [as_node(t) for t in tensors]
        if any(node.dtype.kind == "c" for node in nodes):
            raise DTypeError(
                f"[kernel] {definition.where} takes no complex numbers; pass lm.real(x) and "
                "lm.imag(x)"
            )
        chosen = tuple(options[name] for name in definition.options)
        op = Custom(definition, chosen, definition.surroundings())
        if len(nodes) != definition.inputs:
            raise OptionError(
                f"[kernel] {definition.where} takes {definition.inputs} tensors, not {len(nodes)}; "
                "its results are returned"
            )
        made = len(definition.results([Spec(n.shape, n.dtype) for n in nodes], op.options))
        wanted = len(definition.parameters) - definition.inputs
        if made != wanted:
            raise OptionError(
                f"[kernel] {definition.where} has {wanted} parameters after its "
                f"{definition.inputs} inputs, but out= gives {made} results; they must agree"
            )
        op.grid(_example(op, nodes))  # mistakes in the function are raised here
        results = call(op, *nodes)
        results[0].inputs[0].site = user_site()
        found = tuple(map(wrap, results))
        return found[0] if made == 1 else found

    def vjp(self, rule: Rule) -> Rule:
        """Give the derivative for reverse mode: ``rule(inputs, results, cotangents)`` returns the
        cotangent of each input (None: zero). A decorator.
        """
        self._definition.vjp = rule
        return rule

    def jvp(self, rule: Rule) -> Rule:
        """Give the derivative for forward mode: ``rule(inputs, tangents)`` returns the tangent of
        each result. A decorator.
        """
        self._definition.jvp = rule
        return rule

    def reference(self, *arrays: Any, **options: Any) -> Any:
        """The results by running the function itself on NumPy arrays, slowly."""
        given = [np.asarray(a) for a in arrays]
        specs = [Spec(a.shape, as_dtype(a.dtype)) for a in given]
        chosen = [options[name] for name in self._definition.options]
        made = [
            np.zeros(shape, dtype.numpy)
            for shape, dtype in self._definition.results(specs, chosen)
        ]
        self._definition.function(*given, *made, **options)
        return made[0] if len(made) == 1 else tuple(made)


def _example(op: Custom, nodes: Sequence[Node]) -> Node:
    return Node(op, tuple(nodes), (), nodes[0].dtype)


class Decorator(Words):
    """``lm.kernel``."""

    def __call__(self, *, out: Callable[..., Any]) -> Callable[[Callable[..., Any]], Kernel]:
        """Compile a function over indices.

        Args:
            out: from the arguments (with ``shape`` and ``dtype``) and options, the shape and dtype
                of the result: ``(shape, dtype)``, or an argument it resembles, or a list of these
                for several results.

        The function's parameters are its inputs, then its results, which it writes; parameters
        after ``*`` are options, constants of the compiled kernel. Elements of results that it does
        not write are zeros. Its last statement is a loop over ``lm.kernel.grid(sizes…)``, whose
        iterations are independent: no two write the same element; inside are ``range``,
        ``lm.kernel.lanes`` and ``lm.kernel.unroll`` loops, ``if``, local variables, scratch memory
        (``lm.kernel.local(size, dtype)``), arithmetic and elementary functions (``lm.exp``,
        ``math.exp`` …), and ``lm.kernel.atomic_add(result, index, n)`` where iterations meet.
        Indices are checked unless they are known to fit. Inputs that are
        expressions are computed inside the kernel. Without rules (``Kernel.vjp``, ``Kernel.jvp``) a
        derivative is an error; ``vmap`` needs none.

        Raises:
            OptionError: when called, if the function has something without meaning in a kernel.

        >>> import lamella as lm
        >>> @lm.kernel(out=lambda x: x)
        ... def double(x, y):
        ...     for i in lm.kernel.grid(x.shape[0]):
        ...         y[i] = x[i] + x[i]
        >>> double(lm.arange(3.0)).tolist()
        [0.0, 2.0, 4.0]
        """

        def wrapper(function: Callable[..., Any]) -> Kernel:
            return Kernel(_define(function, out))

        return wrapper


def _define(function: Callable[..., Any], out: Callable[..., Any]) -> Definition:
    where = getattr(function, "__qualname__", "kernel")
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise OptionError(
            f"[kernel] the source of {where} is not available; define it in a file"
        ) from None
    tree = ast.parse(source).body[0]
    if not isinstance(tree, ast.FunctionDef):
        raise OptionError(f"[kernel] {where} is no function defined with def")
    signature = inspect.signature(function).parameters.values()
    options = tuple(p.name for p in signature if p.kind is p.KEYWORD_ONLY)
    parameters = tuple(p.name for p in signature if p.kind is p.POSITIONAL_OR_KEYWORD)
    rule = inspect.signature(out).parameters.values()
    inputs = sum(p.kind is p.POSITIONAL_OR_KEYWORD and p.name not in options for p in rule)
    asked = tuple(p.name for p in rule if p.name in options)
    return Definition(function, out, tree, parameters, options, inputs, asked, where)


def _made(function: Rule, out: Rule, vjp: Rule | None, jvp: Rule | None) -> Kernel:
    return custom_op(Kernel(_define(function, out)), vjp=vjp, jvp=jvp)


kernel = Decorator()


def custom_op(of: Kernel, *, vjp: Rule | None = None, jvp: Rule | None = None) -> Kernel:
    """``of`` with derivative rules, as :meth:`Kernel.vjp` and :meth:`Kernel.jvp` take them."""
    if vjp is not None:
        of.vjp(vjp)
    if jvp is not None:
        of.jvp(jvp)
    return of
