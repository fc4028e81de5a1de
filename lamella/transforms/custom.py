"""Rules of people's own for derivatives and batching: ``custom_vjp``, ``custom_jvp``,
``custom_batch``.

Input: a function, and functions that give its rules. Output: a function that every transformation
treats by those rules. The rules are recorded as graphs when the function is called, so they compose
with everything else.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from lamella import ops, tree
from lamella.errors import DTypeError, MissingRuleError, OptionError, ShapeError
from lamella.graph.inlined import BatchRule, Custom, PushRule
from lamella.graph.loop_batch import widened
from lamella.graph.replay import subgraph_of
from lamella.ir.dim import Size
from lamella.ir.node import Node, gradient_mode
from lamella.ir.subgraph import Subgraph
from lamella.ops.base import Needs
from lamella.ops.calls import call
from lamella.tensor.core import describe, node_of, wrap
from lamella.transforms.bodies import Body, as_tensors, trace
from lamella.transforms.pickling import reduced

__all__ = ["custom_batch", "custom_jvp", "custom_vjp"]

Function = Callable[..., Any]
Made = TypeVar("Made")
MOST = 256  # kinds of arguments for which it is remembered that rule and function agree


class _Custom(Generic[Made]):
    """What the three have in common: arguments as tensors, some of them (``nondiff_argnums``) as
    they are.
    """

    name = ""

    def __init__(self, f: Callable[..., Made], nondiff_argnums: Sequence[int] = ()) -> None:
        if not callable(f):
            raise OptionError(f"[{self.name}] {type(f).__name__} cannot be called; pass a function")
        self._f = f
        self._fixed = tuple(nondiff_argnums)
        functools.update_wrapper(self, f, updated=())

    def __reduce__(self) -> Any:
        """By name, as functions are pickled."""
        return reduced(self, self._f, (_with_rules, (type(self), self._f, self._rules())))

    def _rules(self) -> dict[str, Any]:
        """What it was given beside the function."""
        left = ("_f", "_agreed")
        given = {k: v for k, v in vars(self).items() if k[0] == "_" and k[:2] != "__"}
        return {k: v for k, v in given.items() if k not in left}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Itself, as functions."""
        return self

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """As a method."""
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any) -> Made:
        """The function's result."""
        static = tuple(args[i] for i in self._fixed)
        given = as_tensors(self.name, [a for i, a in enumerate(args) if i not in self._fixed])

        def call_with(f: Function) -> Function:
            def run(*tensors: Any) -> Any:
                rest = iter(tensors)
                return f(*(args[i] if i in self._fixed else next(rest) for i in range(len(args))))

            return run

        made: Made = self._record(call_with, static, given)
        return made

    def _record(
        self, call_with: Callable[[Function], Function], static: tuple[Any, ...], given: list[Any]
    ) -> Any:
        raise NotImplementedError

    def _trace(self, f: Function, given: Sequence[Any]) -> Body:
        body = trace(self.name, f, given)
        if body.states:
            raise OptionError(
                f"[{self.name}] the function changes a tensor from outside; return the new value"
            )
        return body


def _with_rules(
    kind: type[_Custom[Made]], f: Callable[..., Made], rules: dict[str, Any]
) -> _Custom[Made]:
    made = kind(f)
    vars(made).update(rules)
    return made


class _Recorded:
    """A function's graph, to which graphs of its rules are added; all share their constants."""

    def __init__(self, arguments: Sequence[Node], outputs: Sequence[Node]) -> None:
        self.arguments = list(arguments)
        self.graph, self.outside = subgraph_of(arguments, outputs)

    def rule(self, extra: Sequence[Node], outputs: Sequence[Node]) -> Subgraph:
        """A rule as a subgraph of (constants, arguments, extra)."""
        graph, outside = subgraph_of([*self.arguments, *extra], outputs)
        more = [node for node in outside if node not in self.outside]
        self.outside += more
        stands = [ops.placeholder(n.shape, n.dtype, n.dtype.inexact) for n in more]
        first = len(self.outside) - len(more)
        own = self.graph.inputs
        self.graph = Subgraph([*own[:first], *stands, *own[first:]], self.graph.outputs)
        known = dict(zip(outside, graph.inputs, strict=False))
        constants = [
            known.get(n) or ops.placeholder(n.shape, n.dtype, n.dtype.inexact)
            for n in self.outside
        ]
        return Subgraph([*constants, *graph.inputs[len(outside) :]], graph.outputs)


def _results(body: Body, nodes: Sequence[Node]) -> Any:
    return tree.unflatten(body.structure, [wrap(node) for node in nodes])


def _nodes(given: Any) -> list[Node]:
    return [node_of(leaf) for leaf in tree.leaves(given)]


class custom_vjp(_Custom[Made]):  # noqa: N801 - used like a function
    """A function with a rule for reverse mode: a decorator, then ``f.defvjp(forward, backward)``.

    ``forward(*args)`` returns ``(f(*args), kept)``; ``backward(kept, cotangents)`` returns a tuple
    with a cotangent for each argument, a tree like it (None: zero). Arguments named in
    ``nondiff_argnums`` may be any Python values; ``backward`` gets them first, before ``kept``.

    Raises:
        MissingRuleError: if it is differentiated before ``defvjp``.
        GradientError: for forward mode through it, and where a tensor that it closes over requires
            a gradient.

    >>> import lamella as lm
    >>> @custom_vjp
    ... def clipped(x):  # the identity, with a gradient of at most 1
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda kept, g: (lm.clip(g, -1, 1),))
    >>> lm.grad(lambda x: clipped(x) * 5)(lm.asarray(2.0)).item()
    1.0
    """

    name = "custom_vjp"
    _forward: Function | None = None
    _backward: Function | None = None
    _inside = False  # its own forward rule runs, which may call the function

    def __init__(self, f: Callable[..., Made], nondiff_argnums: Sequence[int] = ()) -> None:
        super().__init__(f, nondiff_argnums)
        self._agreed: set[Any] = set()  # kinds of arguments and results

    def defvjp(self, forward: Function, backward: Function) -> None:
        """Give the rule."""
        self._forward, self._backward = forward, backward

    def _record(
        self, call_with: Callable[[Function], Function], static: tuple[Any, ...], given: list[Any]
    ) -> Any:
        nodes = _nodes(given)
        tracked = gradient_mode.enabled and any(node.tracked for node in nodes)
        if not tracked or self._inside:
            return call_with(self._f)(*given)
        if self._forward is None or self._backward is None:
            raise MissingRuleError(
                "custom_vjp", "reverse-mode differentiation", "defvjp",
                "call f.defvjp(forward, backward)",
            )  # fmt: skip
        self._inside = True
        try:
            body = self._trace(call_with(self._forward), given)
            if body.structure.kind is not tuple or len(body.structure.children) != 2:
                raise OptionError(
                    f"[custom_vjp] forward returned {body.structure}; return (result, kept)"
                )
            result, kept = body.structure.children
            self._compare(call_with(self._f), given, result, body.outputs[: result.count])
        finally:
            self._inside = False
        count = result.count
        recorded = _Recorded(body.arguments, body.outputs)
        pull, beyond, seeds = self._pull(body, result, kept, static, given)
        rule = recorded.rule([*beyond, *seeds], pull)
        op = Custom(recorded.graph, count=count, pull=rule, fixed=len(recorded.outside))
        found = call(op, *recorded.outside, *nodes)[:count]
        return tree.unflatten(result, [wrap(node) for node in found])

    def _compare(
        self, f: Function, given: list[Any], structure: tree.Structure, outputs: Sequence[Node]
    ) -> None:
        """Raise unless the forward rule returned what the function does for such arguments."""
        made = structure, tuple((n.shape, n.dtype) for n in outputs)
        key = tree.structure(given), tuple((n.shape, n.dtype) for n in _nodes(given)), made
        if key in self._agreed:
            return
        body = trace(self.name, f, given, effects=True)
        if body.structure != structure:
            raise OptionError(
                f"[custom_vjp] forward returned {structure} as the result, but the function "
                f"returns {body.structure}; return the same"
            )
        for path, node, wanted in zip(body.paths, outputs, body.outputs, strict=False):
            if node.shape != wanted.shape or node.dtype is not wanted.dtype:
                kind = ShapeError if node.shape != wanted.shape else DTypeError
                raise kind(
                    f"[custom_vjp] at {path} forward returned {describe(node.shape, node.dtype)}, "
                    f"but the function returns {describe(wanted.shape, wanted.dtype)}; return the "
                    "same"
                )
        if len(self._agreed) < MOST:
            self._agreed.add(key)

    def _pull(
        self, body: Body, result: tree.Structure, kept: tree.Structure, static: tuple[Any, ...],
        given: list[Any],
    ) -> tuple[list[Node], list[Node], list[Node]]:  # fmt: skip
        """The backward rule on placeholders: its cotangents, then what it read."""
        outs, beyond = body.outputs[: result.count], body.outputs[result.count :]
        held = tree.unflatten(kept, [wrap(node) for node in beyond])
        cts = tree.unflatten(result, [wrap(node) for node in outs])
        backward = self._backward
        if backward is None:
            raise MissingRuleError("custom_vjp", "reverse-mode differentiation", "defvjp")
        made = trace(self.name, lambda k, g: _like(given, backward(*static, k, g)), [held, cts])
        places = made.arguments[: len(beyond)]
        seeds = made.arguments[len(beyond) :]
        inexact = [n.dtype.inexact for n in _nodes(given)]
        found = [n for n, floats in zip(made.outputs, inexact, strict=True) if floats]
        return found, places, [s for s in seeds if s.dtype.inexact]


def _like(given: Sequence[Any], cotangents: Any) -> list[Any]:
    """Cotangents as trees like the arguments."""
    if not isinstance(cotangents, (tuple, list)) or len(cotangents) != len(given):
        raise OptionError(
            f"[custom_vjp] backward returned {type(cotangents).__name__} for {len(given)} "
            "arguments; return a tuple with a cotangent for each"
        )
    found = []
    for number, (value, ct) in enumerate(zip(given, cotangents, strict=True)):
        leaves, structure = tree.flatten(value)
        if ct is None:
            ct = tree.unflatten(structure, [wrap(_zeros(node_of(x))) for x in leaves])
        made = as_tensors("custom_vjp", ct)
        if tree.structure(made) != structure:
            raise OptionError(
                f"[custom_vjp] the cotangent of argument {number} is {tree.structure(made)}, but "
                f"the argument is {structure}; return a tree like it"
            )
        found.append(tree.map(_fitted, value, made))
    return found


def _zeros(node: Node) -> Node:
    return ops.full(0, node.shape, node.dtype)


def _fitted(x: Any, ct: Any) -> Any:
    """A cotangent in the shape and dtype of what it belongs to."""
    node, found = node_of(x), node_of(ct)
    if not node.dtype.inexact:
        return wrap(_zeros(node))
    if node.shape != found.shape:
        raise ShapeError(
            f"[custom derivative] {describe(found.shape, found.dtype)} was returned for "
            f"{describe(node.shape, node.dtype)}; a derivative has its shape"
        )
    return wrap(ops.cast(found, node.dtype))


class custom_jvp(_Custom[Made]):  # noqa: N801 - used like a function
    """A function with a rule for forward mode: a decorator, then ``@f.defjvp``.

    The rule takes ``(primals, tangents)``, two tuples, and returns ``(f(*primals), tangent)``; it
    must be linear in the tangents. Reverse mode follows from it. Arguments in ``nondiff_argnums``
    may be any Python values; the rule gets them first.

    Raises:
        MissingRuleError: if it is differentiated before ``defjvp``.

    >>> import lamella as lm
    >>> @custom_jvp
    ... def softplus(x):
    ...     return lm.log(1 + lm.exp(x))
    >>> @softplus.defjvp
    ... def rule(primals, tangents):
    ...     return softplus(primals[0]), lm.sigmoid(primals[0]) * tangents[0]
    >>> round(lm.grad(softplus)(lm.asarray(100.0)).item(), 6)
    1.0
    """

    name = "custom_jvp"
    _rule: Function | None = None

    def defjvp(self, rule: Function) -> Function:
        """Give the rule; a decorator."""
        self._rule = rule
        return rule

    def _record(
        self, call_with: Callable[[Function], Function], static: tuple[Any, ...], given: list[Any]
    ) -> Any:
        nodes = _nodes(given)
        if not any(node.tracked for node in nodes):
            return call_with(self._f)(*given)
        rule = self._rule
        if rule is None:
            raise MissingRuleError("custom_jvp", "differentiation", "defjvp")
        body = self._trace(call_with(self._f), given)
        graph, outside = subgraph_of(body.arguments, body.outputs)
        push = self._push(rule, static, tree.structure(given), body, len(outside))
        op = Custom(graph, len(body.outputs), push=push, fixed=len(outside))
        return _results(body, call(op, *outside, *nodes))

    def _push(
        self, rule: Function, static: tuple[Any, ...], form: tree.Structure, body: Body, first: int
    ) -> PushRule:
        def push(inputs: Sequence[Node], tangents: Sequence[Node]) -> list[Node]:
            moving = iter(tangents)
            args = inputs[first:]
            along = [next(moving) if n.dtype.inexact else _zeros(n) for n in args]
            primals = tree.unflatten(form, [wrap(node) for node in args])
            directions = tree.unflatten(form, [wrap(node) for node in along])
            made = _tangents(body, rule(*static, tuple(primals), tuple(directions)))
            wanted = zip(_nodes(made), body.outputs, strict=True)
            return [n for n, out in wanted if out.dtype.inexact]

        return push


def _tangents(body: Body, result: Any) -> Any:
    """The tangents that a rule returned, like the function's results."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise OptionError(
            "[custom_jvp] the rule of custom_jvp returned no pair; return (result, tangent)"
        )
    leaves, structure = tree.flatten(as_tensors("custom_jvp", result[1]))
    if structure != body.structure:
        raise OptionError(
            f"[custom_jvp] the tangent is {structure}, but the function returns {body.structure}; "
            "return a tree like the result"
        )
    pairs = zip(body.outputs, leaves, strict=True)
    return tree.unflatten(structure, [_fitted(wrap(out), t) for out, t in pairs])


class custom_batch(_Custom[Made]):  # noqa: N801 - used like a function
    """A function with a rule for ``vmap``: a decorator, then ``@f.def_vmap``.

    The rule takes ``(size, batched, *args)``: the number of examples, a tuple like the arguments of
    trees of booleans that say which have a leading axis of examples, and the arguments. It returns
    ``(result, batched)`` likewise. Derivatives are the function's own.

    Raises:
        MissingRuleError: if it is batched before ``def_vmap``.

    >>> import lamella as lm
    >>> @custom_batch
    ... def double(x):
    ...     return x * 2
    >>> @double.def_vmap
    ... def rule(size, batched, x):
    ...     return x * 20, batched[0]
    >>> double(lm.ones(())).item(), lm.vmap(double)(lm.ones((2,))).tolist()
    (2.0, [20.0, 20.0])
    """

    name = "custom_batch"
    _rule: Function | None = None

    def def_vmap(self, rule: Function) -> Function:
        """Give the rule; a decorator."""
        self._rule = rule
        return rule

    def _record(
        self, call_with: Callable[[Function], Function], static: tuple[Any, ...], given: list[Any]
    ) -> Any:
        body = self._trace(call_with(self._f), given)
        recorded = _Recorded(body.arguments, body.outputs)
        form = tree.structure(given)
        first = len(recorded.outside)
        op = Custom(recorded.graph, count=len(body.outputs), rule=self._batch(form, body, first))
        return _results(body, call(op, *recorded.outside, *_nodes(given)))

    def _batch(self, form: tree.Structure, body: Body, first: int) -> BatchRule:
        def batch(args: Sequence[Node], batched: Needs, size: Size) -> Sequence[Node]:
            if self._rule is None:
                raise MissingRuleError(
                    "custom_batch", "vmap", "def_vmap", "give it one by @f.def_vmap"
                )
            if any(batched[:first]):
                raise OptionError(
                    "[custom_batch] the function closes over a value that differs between "
                    "examples; pass it as an argument"
                )
            given = tree.unflatten(form, [wrap(node) for node in args[first:]])
            has = tree.unflatten(form, batched[first:])
            made = self._rule(size, tuple(has), *given)
            if not isinstance(made, tuple) or len(made) != 2:
                raise OptionError(
                    f"[custom_batch] the rule of custom_batch returned {type(made).__name__}; "
                    "return a pair, (result, batched)"
                )
            flags = _flags(made[1], body.structure)
            nodes = _fitting(body, as_tensors("custom_batch", made[0]), flags, size)
            return [
                node if flag else widened(node, size)
                for node, flag in zip(nodes, flags, strict=True)
            ]

        return batch


def _fitting(body: Body, found: Any, flags: Sequence[bool], size: Size) -> list[Node]:
    """The results of a rule, if they are those of the function for many examples."""
    if tree.structure(found) != body.structure:
        raise OptionError(
            f"[custom_batch] the rule of custom_batch returned {tree.structure(found)}, but the "
            f"function {body.structure}; return a tree like it"
        )
    nodes = _nodes(found)
    for path, node, one, flag in zip(body.paths, nodes, body.outputs, flags, strict=True):
        shape = (size, *one.shape) if flag else one.shape
        if node.shape != shape or node.dtype is not one.dtype:
            kind = ShapeError if node.shape != shape else DTypeError
            raise kind(
                f"[custom_batch] at {path} the rule of custom_batch returned "
                f"{describe(node.shape, node.dtype)} for {describe(shape, one.dtype)}; return "
                "that, or correct the flag"
            )
    return nodes


def _flags(wide: Any, structure: tree.Structure) -> list[bool]:
    """One flag a result: a flag for all, or a tree of flags like the result."""
    if isinstance(wide, bool):
        return [wide] * structure.count
    flags, form = tree.flatten(wide)
    if form != structure:
        raise OptionError(
            f"[custom_batch] the rule says {form} of which results are batched, but returns "
            f"{structure}; return a flag for all, or a tree like the result"
        )
    return flags


def linear_with_transpose(
    f: Callable[[Any], Any], transpose: Callable[[Any], Any], x: Any
) -> Any:
    """``f(x)`` of a linear function of one tensor, with its transpose as the rule for reverse mode.

    Where the derivative that follows from what ``f`` is made of would scatter, a transpose that
    gathers is faster. Forward mode is ``f`` of the tangent.

    >>> import lamella as lm
    >>> def doubled(x): return linear_with_transpose(lambda x: x * 2, lambda g: g * 2, x)
    >>> lm.grad(doubled)(lm.asarray(1.0)).item()
    2.0
    """
    node = node_of(x)
    if not (gradient_mode.enabled and node.tracked):
        return f(x)
    body = trace("linear", f, [x])
    made = trace("linear", transpose, [wrap(body.outputs[0])])
    recorded = _Recorded(body.arguments, body.outputs)
    pull = recorded.rule(made.arguments, made.outputs)

    def push(_: Sequence[Node], tangents: Sequence[Node]) -> Sequence[Node]:
        return [node_of(f(wrap(tangents[0])))]

    op = Custom(recorded.graph, 1, pull=pull, push=push, fixed=len(recorded.outside))
    return _results(body, call(op, *recorded.outside, node))
