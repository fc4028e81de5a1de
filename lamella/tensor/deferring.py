"""Functions that record one node a call, once they have seen a call of its form.

Input: a function of tensors whose graph depends on shapes, dtypes and Python values alone.
Output: the same function. The second call of a form records the function's graph on placeholders
(with and without values, as the tensors are), twice: what both graphs share, every call shares.
From then on a call of that form makes :class:`~lamella.graph.deferred.Deferred` nodes. Calls with
other arguments than tensors without gradients or names and plain Python values, and those under a
transformation, run the function as it is written.

Invariant: the graph of a call is the one that the function would have recorded, node for node.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, NoReturn, TypeVar

from lamella import tree
from lamella.dtypes import DType
from lamella.errors import TraceError
from lamella.graph import names as naming
from lamella.graph.deferred import Step, Template, deferred
from lamella.ir.node import Node, recording, topological
from lamella.ops.calls import has_effects
from lamella.ops.leaf import placeholder
from lamella.ops.site import user_site
from lamella.runtime.buffer import Buffer
from lamella.tensor import core
from lamella.tensor.core import TensorCore, wrap
from lamella.tensor.pending import Trace, set_trace, traces, weigh

__all__ = ["Forms", "deferring", "of_form"]

Function = TypeVar("Function", bound=Callable[..., Any])
Build = Callable[[Sequence[Node], Sequence[Node]], Node]

_FORMS: Final = 256  # remembered for each function
_PLAIN: Final = frozenset({int, bool, str, type(None), type, type(...)})


class _Form:
    """What is known of calls of one form: nothing but that there was one, at first."""

    __slots__ = ("is_deferrable", "result", "seen", "sited", "template")

    def __init__(self) -> None:
        self.seen = False
        self.template: Template | None = None
        self.result: tree.Structure | None = None  # of several results
        self.is_deferrable = False
        self.sited = False


class Forms(dict[tuple[object, ...], _Form]):
    """The forms of a function's calls: they decide how calls are recorded, never what."""

    is_cache: ClassVar = True  # a compiled function need not watch it

    def form(self, key: tuple[object, ...]) -> _Form | None:
        """The form of a key; None, and remembered from now on, if there was no such call."""
        found = self.get(key)
        if found is None:
            if len(self) >= _FORMS:
                self.clear()
            self[key] = _Form()
        return found


def deferring(function: Function) -> Function:
    """``function``, whose calls are recorded as single nodes where that cannot be told.

    >>> import lamella as lm
    >>> @deferring
    ... def doubled(x):
    ...     return x + x
    >>> x = lm.ones(2)
    >>> [type(doubled(x).node).__name__ for _ in range(2)]
    ['Node', 'Deferred']
    """
    forms = Forms()

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if traces or recording.line is not None:
            return function(*args, **options)
        key: list[object] = []
        given: list[Node] = []
        for value in args:
            if not _describe(value, key, given):
                return function(*args, **options)
        for name, value in options.items():
            key.append(name)
            if not _describe(value, key, given):
                return function(*args, **options)
        form = forms.form(tuple(key))
        if form is None:
            return function(*args, **options)
        if not form.seen:
            _study(form, lambda: _graph(function, args, options))
        if form.template is None:
            return function(*args, **options)
        return _record(form, given)

    return call  # type: ignore[return-value]


def of_form(
    forms: Forms, key: tuple[object, ...], tensors: Sequence[TensorCore], numbers: Sequence[Node],
    build: Build,
) -> Node | None:  # fmt: skip
    """``build(nodes of the tensors, numbers)`` recorded as one node; None where it cannot be, as
    in the first call of a form.

    Unlike the numbers that a :func:`deferring` function is given, these (arguments of the program)
    may change from call to call. The structure of the graph, and the dtypes of the numbers, depend
    on ``key`` and on the shapes and dtypes of the tensors alone.
    """
    if traces or recording.line is not None:
        return None
    about: list[object] = [key]
    given: list[Node] = []
    for x in tensors:
        if not _describe(x, about, given):
            return None
    form = forms.form(tuple(about))
    if form is None:
        return None
    if not form.seen:
        _study(form, lambda: _graph_on(tensors, numbers, build))
    return None if form.template is None else _nodes(form, [*given, *numbers])[0]


def _describe(value: Any, key: list[object], given: list[Node]) -> bool:
    """Add what a call's graph may depend on of an argument to the key, and its node to ``given``;
    False if there is more to it than that.
    """
    kind = type(value)
    if kind is core._class:
        node = value.node
        held = node.value
        if node.tracked or not (held is None or type(held) is Buffer):
            return False
        if naming.state.active and any(naming.names_of(node)):
            return False
        given.append(node)
        key.append(node.dtype.as_data if held is not None else node.dtype.name)
        key.append(node.shape)
        return True
    key.append(kind)
    if kind in _PLAIN:
        key.append(value)
    elif kind is float:
        key.append(value or str(value))  # 0.0 and -0.0 are equal
        return bool(value == value)
    elif kind is DType:
        key.append(value.name)
    elif kind is tuple or kind is list:
        key.append(len(value))
        return all(_describe(each, key, given) for each in value)
    else:
        return False
    return True


def _record(form: _Form, given: list[Node]) -> Any:
    """The results of a call of a known form."""
    nodes = _nodes(form, given)
    if form.result is None:
        return wrap(nodes[0])
    return tree.unflatten(form.result, [wrap(node) for node in nodes])


def _nodes(form: _Form, given: list[Node]) -> Sequence[Node]:
    """The nodes of a call of a known form, one a result."""
    template: Template = form.template  # type: ignore[assignment]
    site = user_site() if form.sited else None
    weigh(len(template.steps))
    if not form.is_deferrable:
        recorded = template.record(given, site, {})
        return [recorded[number] for number in template.roots]
    nodes = deferred(template, given, site)
    if naming.state.active:  # nothing given has names; to find that out would look inside
        for node in nodes:
            naming.assume(node, (None,) * len(node.shape))
    return nodes


_SOMEWHERE: Final = object()  # the value of a placeholder for a tensor that has one


# -- studying a function ---------------------------------------------------------------------------
class _Study(Trace):
    """The trace under which a function is recorded: there may be nothing but operations."""

    def refuse(self, *what: object, **named: object) -> NoReturn:
        """Raise: the function does more than to record operations."""
        raise TraceError("[deferring] the function looks at values, or changes a tensor")

    rebind = value = read_grad = write_grad = backward = expect = effect = refuse


def _study(form: _Form, graph: Callable[[], _Found]) -> None:
    """Find the template of a form, if it has one: twice what ``graph`` records."""
    form.seen = True
    try:
        first, result = graph()
        second, _ = graph()
    except Exception:  # the call itself will raise what is to be raised
        return
    if first is None or second is None or result is None:
        return
    shared = {*map(id, first[1])} & {*map(id, second[1])}
    template, again = _template(*first, shared), _template(*second, shared)
    if template is None or again is None or (template.steps, template.roots) != (
        again.steps, again.roots
    ):  # fmt: skip
        return
    form.sited = any(step.sited for step in template.steps)
    form.is_deferrable = template.is_deferrable
    form.result = None if result.kind is None else result
    form.template = template


_Recorded = tuple[list[Node], list[Node], list[Node]]  # placeholders, nodes in order, roots
_Found = tuple[_Recorded | None, tree.Structure | None]


def _graph(function: Callable[..., Any], args: Any, options: Any) -> _Found:
    """What a function records on placeholders, and the structure of its result."""
    places: list[Node] = []
    handles: list[TensorCore] = []
    previous = set_trace(_Study())
    try:
        inner = [_placed(value, places, handles) for value in args]
        named = {name: _placed(value, places, handles) for name, value in options.items()}
        result = function(*inner, **named)
    finally:
        set_trace(previous)
    leaves, structure = tree.flatten(result)
    if not leaves or not all(type(leaf) is core._class for leaf in leaves):
        return None, None
    if any(leaf is handle for leaf in leaves for handle in handles):
        return None, None  # the caller wants the very tensor
    roots = [leaf.node for leaf in leaves]
    return (places, topological(roots), roots), structure


def _graph_on(tensors: Sequence[TensorCore], numbers: Sequence[Node], build: Build) -> _Found:
    """As :func:`_graph`, of what ``build`` records on numbers too, whose nodes stand for others."""
    places: list[Node] = []
    handles: list[TensorCore] = []
    previous = set_trace(_Study())
    try:
        for x in tensors:
            _placed(x, places, handles)
        root = build(places, numbers)
        leaf = tree.flatten(wrap(root))[1]
    finally:
        set_trace(previous)
    return ([*places, *numbers], topological([root]), [root]), leaf


def _placed(value: Any, places: list[Node], handles: list[TensorCore]) -> Any:
    """An argument with placeholders for its tensors."""
    if type(value) is core._class:
        node = placeholder(value.node.shape, value.node.dtype)
        node.value = None if value.node.value is None else _SOMEWHERE
        places.append(node)
        handles.append(wrap(node))
        return handles[-1]
    if isinstance(value, (tuple, list)):
        return type(value)(_placed(each, places, handles) for each in value)
    return value


def _template(
    places: Sequence[Node], order: Sequence[Node], roots: Sequence[Node], shared: set[int]
) -> Template | None:
    """The template of a graph; None if there is more to it than its inputs."""
    number = {node: i for i, node in enumerate(places)}
    steps: list[Step] = []
    for node in _needed(order, roots, shared):
        if node in number:
            continue
        if node.tracked or node.op.name == "placeholder":
            return None
        if has_effects(node):
            return None
        if id(node) in shared:
            steps.append(Step(node.op, (), node.shape, node.dtype, known=node))
        else:
            sources = tuple([number[source] for source in node.inputs])
            sited = node.site is not None
            steps.append(Step(node.op, sources, node.shape, node.dtype, node.value, sited))
        number[node] = len(number)
    return Template(len(places), tuple(steps), tuple([number[root] for root in roots]))


def _needed(order: Sequence[Node], roots: Sequence[Node], shared: set[int]) -> Iterator[Node]:
    """The nodes that a call records, and of those that all calls share the ones it reads."""
    read = {id(s) for node in order if id(node) not in shared for s in node.inputs}
    read.update(map(id, roots))
    return (node for node in order if id(node) not in shared or id(node) in read)
