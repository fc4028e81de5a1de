"""``backward()`` and what belongs to it: leaves, ``.grad``, hooks, and the gradient mode.

Input: a tensor computed from leaves that require a gradient. Output: ``.grad`` of those leaves,
accumulated. The graph stays usable, so ``backward()`` may be called again (there is no
``retain_graph``). Gradients are recorded lazily like everything else: forward and backward run as
one program when a value is looked at.

The gradient of a real number L by a complex tensor is dL/d(real part) + i dL/d(imaginary part), as
in PyTorch: ``x -= rate * x.grad`` descends. JAX's ``grad`` is its conjugate.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, cast
from weakref import WeakKeyDictionary, ref

from lamella import ops
from lamella.errors import DTypeError, GradientError, OptionError, ShapeError
from lamella.graph.reverse import vjp
from lamella.ir.node import Node, gradient_mode
from lamella.ops.base import Needs
from lamella.ops.leaf import Mark
from lamella.tensor.core import Leaf, TensorCore, describe, leaf_node, node_of, owners, wrap
from lamella.tensor.operands import as_node
from lamella.tensor.pending import current_trace, note

__all__ = [
    "backward", "enable_grad", "grad_of", "is_grad_enabled", "no_grad", "register_hook",
    "require_grad", "requires_grad", "retain_grad", "set_grad", "set_grad_enabled", "stop_gradient",
]  # fmt: skip

Hook = Callable[[Any], Any]
Function = TypeVar("Function", bound=Callable[..., Any])


# -- mode ------------------------------------------------------------------------------------------
class set_grad_enabled:  # noqa: N801 - used like a function
    """A context manager and decorator that turns the recording of gradients on or off, in this
    thread.

    >>> with set_grad_enabled(False):
    ...     is_grad_enabled()
    False
    """

    def __init__(self, enabled: bool) -> None:
        self._enabled = bool(enabled)
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(gradient_mode.enabled)
        gradient_mode.enabled = self._enabled

    def __exit__(self, *exc: object) -> None:
        gradient_mode.enabled = self._before.pop()

    def __call__(self, function: Function) -> Function:
        """``function`` running in this mode."""
        enabled = self._enabled

        @functools.wraps(function)
        def call(*args: object, **options: object) -> object:
            with set_grad_enabled(enabled):
                return function(*args, **options)

        return cast(Function, call)


class no_grad(set_grad_enabled):  # noqa: N801 - used like a function
    """Nothing recorded inside can be differentiated by ``backward()``; a context manager and
    decorator.

    >>> with no_grad():
    ...     is_grad_enabled()
    False
    """

    def __init__(self) -> None:
        super().__init__(False)

    def __new__(cls, function: Any = None) -> Any:
        """``no_grad()``, or ``@no_grad`` without parentheses."""
        made = super().__new__(cls)
        if function is None:
            return made
        made.__init__()  # type: ignore[misc]
        return made(function)


class enable_grad(set_grad_enabled):  # noqa: N801 - used like a function
    """Records gradients again inside ``no_grad``; a context manager and decorator.

    >>> with no_grad(), enable_grad():
    ...     is_grad_enabled()
    True
    """

    def __init__(self) -> None:
        super().__init__(True)


def is_grad_enabled() -> bool:
    """Whether operations recorded now can be differentiated by ``backward()``.

    >>> is_grad_enabled()
    True
    """
    return gradient_mode.enabled


# -- leaves ----------------------------------------------------------------------------------------
def requires_grad(tensor: TensorCore) -> bool:
    """Whether gradients flow to or through ``tensor``."""
    return node_of(tensor).tracked


def is_leaf(tensor: TensorCore) -> bool:
    """Whether ``tensor`` is no result of a recorded operation."""
    leaf = tensor._leaf
    return not node_of(tensor).tracked or (leaf is not None and leaf.required)


def require_grad(tensor: TensorCore, required: bool = True) -> None:
    """Make ``tensor`` a leaf that ``backward()`` gives a gradient, or stop that.

    Raises:
        DTypeError: if it is not floating point or complex.
        GradientError: if it is the result of a recorded operation (when stopping).
    """
    if required and not tensor.dtype.inexact:
        raise DTypeError(
            f"[requires_grad] {tensor.dtype.name} tensors have no gradient, only floating point "
            "and complex do; cast with .astype(lm.float32)"
        )
    node = node_of(tensor)
    if not required:
        if node.tracked and not is_leaf(tensor):
            raise GradientError(
                "[requires_grad] the result of a recorded operation cannot stop requiring a "
                "gradient; "
                "use .detach() for a tensor that does not"
            )
        if node.tracked:
            tensor._leaf = None
            _replace(tensor, detached_node(node))
    elif not node.tracked:
        tensor._leaf = Leaf(required=True)
        _replace(tensor, leaf_node(node))
        owners[tensor.node] = ref(tensor)


def _replace(tensor: TensorCore, node: Node) -> None:
    """Another node of the same value under a handle; not an in-place operation."""
    trace = current_trace()
    if trace is not None:
        trace.rebind(tensor)
    tensor.node = node
    if trace is None and node.value is None:
        note(tensor)


def detached_node(node: Node) -> Node:
    """An untracked node with the value of ``node``."""
    if not node.tracked:
        return node
    if node.value is None:
        return ops.stop_gradient(node)
    return ops.data(node.value, node.shape, node.dtype)


def stop_gradient(x: Any) -> Any:
    """``x`` as a constant for differentiation.

    >>> import lamella as lm
    >>> stop_gradient(lm.ones(2, requires_grad=True)).requires_grad
    False
    """
    return wrap(detached_node(as_node(x)))


# -- .grad -----------------------------------------------------------------------------------------
def grad_of(tensor: TensorCore) -> TensorCore | None:
    """``tensor.grad``."""
    trace = current_trace()
    if trace is not None:
        trace.read_grad(tensor)
    return None if tensor._leaf is None else tensor._leaf.grad


def set_grad(tensor: TensorCore, value: TensorCore | None) -> None:
    """``tensor.grad = value``.

    Raises:
        ShapeError, DTypeError: if the gradient is not of the tensor's shape and element type.
    """
    if value is not None:
        if not isinstance(value, TensorCore):
            raise DTypeError(
                f"[grad] {type(value).__name__} is no gradient; assign a tensor or None"
            )
        if value.shape != tensor.shape or value.dtype is not tensor.dtype:
            kind = ShapeError if value.shape != tensor.shape else DTypeError
            raise kind(
                f"[grad] a gradient {describe(value.shape, value.dtype)} for a tensor "
                f"{describe(tensor.shape, tensor.dtype)}; they must agree"
            )
    trace = current_trace()
    if trace is not None:
        trace.write_grad(tensor)
    if tensor._leaf is None:
        if value is None:
            return
        tensor._leaf = Leaf(required=False)
    tensor._leaf.grad = value


def _accumulate(tensor: TensorCore, gradient: Node) -> None:
    leaf = tensor._leaf
    if leaf is None:
        return
    for hook in tuple(leaf.hooks.values()):
        gradient = _hooked(hook, gradient)
    before = grad_of(tensor)
    if before is None:
        set_grad(tensor, wrap(gradient))
    else:
        trace = current_trace()
        if trace is not None:
            trace.write_grad(tensor)
        before.rebind(ops.add(node_of(before), gradient))


def _hooked(hook: Hook, gradient: Node) -> Node:
    """The gradient after a hook."""
    changed = hook(wrap(gradient))
    if changed is None:
        return gradient
    node = as_node(changed, gradient.dtype)
    if node.shape != gradient.shape:
        raise ShapeError(
            f"[register_hook] a hook returned shape {node.shape} for a gradient of shape "
            f"{gradient.shape}; return a gradient of the same shape, or None to keep it"
        )
    return node


# -- hooks on intermediates ------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Hooked(Mark):
    """The identity, whose cotangent passes through functions on its way back."""

    name: ClassVar[str] = ""  # no primitive of its own: a mark with side effects
    hooks: dict[int, Hook] = field(default_factory=dict, compare=False, hash=False)

    def vjp(self, node: Node, cotangent: Node, needs: Needs) -> Sequence[Node | None]:
        """The cotangent, as the hooks leave it."""
        for hook in tuple(self.hooks.values()):
            cotangent = _hooked(hook, cotangent)
        return (cotangent,)


class HookHandle:
    """What ``register_hook`` returns: ``remove()`` takes the hook away."""

    __slots__ = ("_hooks", "_key")

    def __init__(self, hooks: dict[int, Hook], key: int) -> None:
        self._hooks = hooks
        self._key = key

    def remove(self) -> None:
        """Stop calling the hook."""
        self._hooks.pop(self._key, None)


def register_hook(tensor: TensorCore, hook: Hook) -> HookHandle:
    """Call ``hook(gradient)`` whenever ``backward()`` computes the gradient of ``tensor``.

    What the hook returns, unless None, replaces the gradient. On a result of an operation it sees
    the gradient of uses that come after its registration.

    Raises:
        GradientError: if ``tensor`` does not require a gradient.
        OptionError: if ``hook`` is no function.
    """
    if not callable(hook):
        raise OptionError(
            f"[register_hook] {type(hook).__name__} cannot be called; pass a function of the "
            "gradient"
        )
    if not tensor.node.tracked:
        raise GradientError(
            "[register_hook] the tensor does not require a gradient, so none is computed; "
            "set requires_grad=True first"
        )
    leaf = tensor._leaf
    if leaf is not None and leaf.required:
        hooks = leaf.hooks
    elif isinstance(tensor.node.op, Hooked):
        hooks = tensor.node.op.hooks
    else:
        source = tensor.node
        op = Hooked(hooks={})
        _replace(tensor, Node(op, (source,), source.shape, source.dtype, tracked=True))
        hooks = op.hooks
    key = max(hooks, default=-1) + 1
    hooks[key] = hook
    return HookHandle(hooks, key)


_retained: WeakKeyDictionary[Node, ref[TensorCore]] = WeakKeyDictionary()


def retain_grad(tensor: TensorCore) -> None:
    """Keep the gradient of a result of an operation in its ``.grad`` too.

    Raises:
        GradientError: if ``tensor`` does not require a gradient.
    """
    if not tensor.node.tracked:
        raise GradientError(
            "[retain_grad] the tensor does not require a gradient; set requires_grad=True first"
        )
    if tensor._leaf is None or not tensor._leaf.required:
        tensor._leaf = tensor._leaf or Leaf(required=False)
        _retained[tensor.node] = ref(tensor)


# -- backward --------------------------------------------------------------------------------------
def _leaves(root: Node) -> list[tuple[Node, TensorCore]]:
    """The nodes below ``root`` whose gradient a live handle wants, in an order that the graph
    decides.
    """
    found: list[tuple[Node, TensorCore]] = []
    seen = {root}
    stack = [root]
    while stack:
        node = stack.pop()
        inner = [source for source in node.inputs if source.tracked]
        reference = owners.get(node) if not inner else _retained.get(node) if _retained else None
        handle = None if reference is None else reference()
        if handle is not None:
            found.append((node, handle))
        for source in inner:
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return found


def _start(tensor: TensorCore, gradient: Any) -> Node:
    """The cotangent that ``backward`` begins with."""
    root = node_of(tensor)
    if not root.tracked:
        raise GradientError(
            f"[backward] the tensor {describe(root.shape, root.dtype)} does not depend on one that "
            "requires a "
            "gradient, or was computed under lm.no_grad(); set requires_grad=True on the inputs"
        )
    if gradient is not None:
        node = as_node(gradient, root.dtype)
        if node.shape != root.shape:
            raise ShapeError(
                f"[backward] a gradient of shape {node.shape} for a tensor of shape {root.shape}; "
                "they must agree"
            )
        return node
    if any(size != 1 for size in root.shape):
        raise GradientError(
            f"[backward] a tensor of shape {root.shape} is no single number, so its derivative is "
            "no gradient; "
            "reduce it, as in .sum(), or pass backward(gradient) of its shape"
        )
    if root.dtype.kind == "c":
        raise GradientError(
            f"[backward] {describe(root.shape, root.dtype)} is complex, and only a real number "
            "grows in one direction; differentiate its real part or modulus, or pass "
            "backward(gradient)"
        )
    return ops.full(1.0, root.shape, root.dtype)


def backward(
    tensor: TensorCore,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Sequence[TensorCore] | None = None,
) -> None:
    """Add the derivative of ``tensor`` to ``.grad`` of the leaves it was computed from.

    Args:
        tensor: a single number, unless ``gradient`` is given.
        gradient: the derivative of what is differentiated by ``tensor``; 1 by default.
        retain_graph: accepted and ignored; the graph always stays usable.
        create_graph: record the gradients themselves, so that they can be differentiated.
        inputs: the only leaves to accumulate into; all by default.

    Raises:
        GradientError: if nothing requires a gradient, or ``tensor`` is not a single number.
    """
    cotangent = _start(tensor, gradient)
    root = tensor.node
    trace = current_trace()
    if trace is not None:
        trace.backward(root)
    pairs = _leaves(root)
    if inputs is not None:
        wanted = {id(handle) for handle in inputs}
        pairs = [(node, handle) for node, handle in pairs if id(handle) in wanted]
    with set_grad_enabled(create_graph):
        found = vjp([root], [cotangent], [node for node, _ in pairs])
        for (_, handle), part in zip(pairs, found, strict=True):
            if part is not None:
                _accumulate(handle, part)
