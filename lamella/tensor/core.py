"""The tensor without its methods: a mutable handle on an immutable node, rebinding, and its value.

``TensorCore`` is the base of :class:`lamella.Tensor`, which adds the functions of the other modules
as methods; those modules import only this one, so that imports keep one direction.

Invariants: ``node`` is replaced only by :meth:`TensorCore.rebind` (or by a trace); a handle whose
node is pending is noted, except under a trace; a leaf that requires a gradient has a tracked node
that is registered in ``owners`` and shared with no other handle.
"""

from __future__ import annotations

from threading import get_ident, local
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary, ref

import numpy as np

from lamella import ops
from lamella.dtypes import DType
from lamella.errors import GradientError, OptionError
from lamella.graph import names as naming
from lamella.ir.dim import Shape
from lamella.ir.node import Node, gradient_mode, recording
from lamella.ops.leaf import DATA, Mark, data
from lamella.ops.site import user_site
from lamella.runtime.buffer import Buffer
from lamella.tensor import pending
from lamella.tensor.pending import note, noted, traces

if TYPE_CHECKING:
    from lamella.ops.base import Array, Primitive
    from lamella.tensor.tensor import Tensor

__all__ = [
    "Leaf", "TensorCore", "announce", "check_device", "leaf_node", "looks", "node_of", "owners",
    "record", "value_of", "wrap",
]  # fmt: skip


class Leaf:
    """What a handle keeps for differentiation: its gradient, and hooks called when that is
    computed.
    """

    __slots__ = ("grad", "hooks", "required")

    def __init__(self, required: bool) -> None:
        self.grad: TensorCore | None = None
        self.hooks: dict[int, Any] = {}
        self.required = required  # a leaf to differentiate by; False: only a place for a gradient


class Looks(local):
    """Values of differentiable nodes that left the graph as numbers or arrays, in this thread.

    ``found`` is a list while a derivative is being taken: what was done, where, and the node.
    """

    found: list[tuple[str, str | None, Node]] | None = None


looks: Final = Looks()
_LEAVING: Final = frozenset({"numpy", "np.asarray", "item", "tolist", "dlpack"})
owners: Final[WeakKeyDictionary[Node, ref[TensorCore]]] = WeakKeyDictionary()
_MARK: Final = Mark()
_new = object.__new__
_ref = ref
_append = noted.append


class TensorCore:
    """A mutable handle on a node. Compared by identity as a key; ``==`` is elementwise in the
    subclass.
    """

    __slots__ = ("__weakref__", "_leaf", "node")

    node: Node
    _leaf: Leaf | None

    def rebind(self, node: Node) -> None:
        """Make this handle stand for another value, as in-place operations do.

        Raises:
            GradientError: for a leaf that requires a gradient, outside ``no_grad``.
        """
        if traces:
            trace = traces.get(get_ident())
            if trace is not None:
                trace.rebind(self)
        leaf = self._leaf
        if leaf is not None and leaf.required:
            if gradient_mode.enabled:
                raise GradientError(
                    f"[in-place] a leaf tensor {node.dtype.name}{list(node.shape)} that requires a "
                    "gradient was "
                    "changed in place while gradients are recorded, which would lose its gradient; "
                    "do it under lm.no_grad(), or on t.data, or write t = t + ..."
                )
            node = leaf_node(node)
            owners[node] = ref(self)
        self.node = node
        if node.value is None and not (traces and get_ident() in traces):
            note(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes; symbolic (``lamella.ir.dim.Dim``) for dynamic axes of a traced
        function.
        """
        return cast("tuple[int, ...]", node_of(self).shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return node_of(self).dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(node_of(self).shape)


_class: type[TensorCore] = TensorCore  # lamella.Tensor once it is defined


def use_class(cls: type[TensorCore]) -> None:
    """Make ``cls`` the class of the results of all operations (called once, by the module that
    defines it).
    """
    global _class
    _class = cls


def wrap(node: Node) -> Tensor:
    """A new handle on ``node``; noted when its value is pending."""
    tensor = _new(_class)
    tensor.node = node
    tensor._leaf = None
    if naming.state.active:
        naming.names_of(node)
    if traces:
        trace = traces.get(get_ident())
        if trace is not None:
            trace.created(tensor)
            return cast("Tensor", tensor)
    if node.value is None:
        _append(_ref(tensor))
        if len(noted) > pending._limit:
            pending._consider()
    return tensor  # type: ignore[return-value]


def record(
    op: Primitive, inputs: tuple[Node, ...], shape: Shape, dtype: DType, tracked: bool = False
) -> Tensor:
    """``wrap`` of a new node, in one step: operations that are recorded often have no time for
    more.
    """
    node = _new(Node)
    node.op = op
    node.inputs = inputs
    node.shape = shape
    node.dtype = dtype
    node.tracked = tracked
    node.value = None
    node.site = None if recording.line is None else recording.line()
    if traces or naming.state.active:
        return wrap(node)
    tensor = _new(_class)
    tensor.node = node
    tensor._leaf = None
    _append(_ref(tensor))
    if len(noted) > pending._limit:
        pending._consider()
    return tensor  # type: ignore[return-value]


def check_device(device: object, name: str = "device") -> None:
    """Raise unless ``device`` is None or the CPU, the only device programs run on.

    Raises:
        OptionError: for another device.

    >>> check_device("cpu")
    """
    if device is not None and str(device).split(":")[0] != "cpu":
        raise OptionError(f"[{name}] there is no device {device!r} here; known devices: cpu")


def announce(tensor: TensorCore) -> None:
    """Tell the trace, if there is one, of a handle that :func:`wrap` has not made."""
    trace = traces.get(get_ident()) if traces else None
    if trace is not None:
        trace.created(tensor)


def node_of(tensor: TensorCore) -> Node:
    """The node an operation reads, after telling the trace if there is one."""
    if traces:
        trace = traces.get(get_ident())
        if trace is not None:
            trace.touch(tensor)
    return tensor.node


def leaf_node(node: Node) -> Node:
    """A fresh tracked leaf with the value of ``node``: a node to differentiate by."""
    if node.value is None:
        if node.tracked:
            node = ops.stop_gradient(node)
        leaf = Node(_MARK, (node,), node.shape, node.dtype, tracked=True)
    else:
        leaf = data(node.value, node.shape, node.dtype, tracked=True)
    return leaf


def value_of(tensor: TensorCore, looked_at: str = "value") -> Array:
    """The value as a read-only NumPy array that shares memory with the tensor; computes what is
    pending.

    Raises:
        TraceError: inside a transformed function, where there is no value.
    """
    if traces:
        trace = traces.get(get_ident())
        if trace is not None:
            trace.value(tensor)
    node = tensor.node
    if node.value is None:
        pending.flush(node, looked_at)
    if node.tracked and looks.found is not None and looked_at in _LEAVING:
        looks.found.append((looked_at, user_site(), node))
    leaf = tensor._leaf
    if leaf is not None and leaf.required and node.inputs and node is tensor.node:
        node.op, node.inputs = DATA, ()  # a leaf's history is never needed again
    return array_of(node)


def array_of(node: Node) -> Array:
    """The value of a computed node as a read-only array."""
    value: Any = node.value
    if type(value) is Buffer:
        return value.numpy(node.shape, node.dtype.numpy)
    if isinstance(value, (bool, int, float)):
        array = np.asarray(value, dtype=node.dtype.numpy)
    elif isinstance(value, np.ndarray):
        array = value.view()
    else:
        return cast("Array", value.numpy(node.shape, node.dtype.numpy))
    array.flags.writeable = False
    return array


def describe(shape: Shape, dtype: DType) -> str:
    """``float32[2, 3]``: a shape and dtype in messages.

    >>> from lamella.dtypes import float32
    >>> describe((2, 3), float32)
    'float32[2, 3]'
    """
    return f"{dtype.name}[{', '.join(map(str, shape))}]"
