"""The base of every layer and model: named parameters, buffers and submodules, as in PyTorch; also
a pytree.

A ``Module`` holds tensors under the names PyTorch uses, so that public checkpoints load without
renaming. As a pytree (:mod:`lamella.tree`) its leaves are the distinct tensors it holds, in the
order of :meth:`Module.state_dict`; a tensor held twice (tied weights) is one leaf. :data:`epoch`
counts every change that could change what a traced function does without changing a tensor's value:
``jit`` compares it before it looks any closer, but at numbers of a user's modules, which it sees at
every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Protocol, Self, TypeVar

from lamella.errors import LamellaError, OptionError, did_you_mean
from lamella.nn.parameter import Parameter
from lamella.nn.place import tell_place
from lamella.nn.state import LoadResult, load_state_dict
from lamella.tensor.symbolic import SymbolicNumber
from lamella.tensor.tensor import Tensor

__all__ = ["Configured", "Module", "RemovableHandle", "bump", "epoch"]

epoch = 0
"""How often an attribute, submodule or tensor handle of any module has been exchanged."""

def is_own(kind: type) -> bool:
    """Whether a class of modules is a user's, whose numbers ``jit`` looks at: they change without
    a :func:`bump`.
    """
    return kind.__module__.split(".")[0] != "lamella"


Given = ParamSpec("Given")
Made = TypeVar("Made", covariant=True)

_TABLES = ("_parameters", "_buffers", "_modules")


def bump() -> None:
    """Count one change that traced functions must notice."""
    global epoch
    epoch += 1


class RemovableHandle:
    """What registering a hook returns; :meth:`remove` takes the hook away."""

    def __init__(self, hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any]) -> None:
        self._hooks = hooks
        self._key = max(hooks, default=-1) + 1
        hooks[self._key] = hook
        bump()

    def remove(self) -> None:
        """Take the hook away; a second call does nothing."""
        if self._hooks.pop(self._key, None) is not None:
            bump()


if TYPE_CHECKING:

    class _Forward(Protocol[Given, Made]):
        def forward(self, *args: Given.args, **kwargs: Given.kwargs) -> Made: ...

    class _Call:
        """The type of calling a module: that of its own ``forward``."""

        def __get__(self, one: _Forward[Given, Made], owner: object) -> Callable[Given, Made]: ...


class Module:
    """A layer or model. Subclasses call ``super().__init__()``, assign layers, and define
    ``forward``.

    >>> from lamella import nn
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.fc = nn.Linear(2, 3)
    ...     def forward(self, x):
    ...         return self.fc(x)
    >>> net = Net()
    >>> [(name, p.shape) for name, p in net.named_parameters()]
    [('fc.weight', (3, 2)), ('fc.bias', (3,))]
    >>> net
    Net(
      (fc): Linear(in_features=2, out_features=3, bias=True)
    )
    """

    training: bool
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]

    def __init__(self) -> None:
        values = self.__dict__
        values["training"] = True
        values["_parameters"] = {}
        values["_buffers"] = {}
        values["_modules"] = {}
        values["_not_saved"] = set()
        values["_hooks"] = {}
        values["_pre_hooks"] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module computes; subclasses define it."""
        raise NotImplementedError(
            f"[{type(self).__name__}] has no forward method, so calling it computes nothing; "
            "define forward(self, ...) in the class"
        )

    if TYPE_CHECKING:
        __call__ = _Call()
    else:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """:meth:`forward` between the hooks registered on this module."""
            for hook in tuple(self._pre_hooks.values()):
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
            try:
                result = self.forward(*args, **kwargs)
            except LamellaError as error:
                tell_place(error, self)
                raise
            for hook in tuple(self._hooks.values()):
                changed = hook(self, args, result)
                result = result if changed is None else changed
            return result

    # Attributes

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__
        for table in _TABLES:
            if table in values and name in values[table]:
                return values[table][name]
        if "_modules" not in values:
            raise AttributeError(
                f"[{type(self).__name__}] {name!r} is looked up before Module.__init__ has run; "
                "call super().__init__() first in the class's __init__"
            )
        known = [known for table in _TABLES for known in values[table]]
        raise AttributeError(
            f"[{type(self).__name__}] has no attribute {name!r}; {did_you_mean(name, known)}"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        values = self.__dict__
        if isinstance(value, (Parameter, Module)):
            if "_modules" not in values:
                raise AttributeError(
                    f"[{type(self).__name__}] cannot hold {name!r} before Module.__init__ has run; "
                    "call super().__init__() first in the class's __init__"
                )
            table = "_parameters" if isinstance(value, Parameter) else "_modules"
            self._put(values[table], name, value)
            return
        for table in _TABLES:
            if table in values and name in values[table]:
                self._replace(table, name, value)
                return
        old = values.get(name, values)
        values[name] = value
        if old is value:
            return
        if type(old) is type(value) and (
            isinstance(value, SymbolicNumber)
            or (type(value) in (int, float) and is_own(type(self)))
            or (_plain(value) and old == value)
        ):
            return
        bump()

    def __delattr__(self, name: str) -> None:
        for table in (*(self.__dict__[table] for table in _TABLES), self.__dict__):
            if name in table:
                del table[name]
                bump()
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for table in _TABLES for name in self.__dict__[table])]

    def _put(self, table: dict[str, Any], name: str, value: Any) -> None:
        """Hold ``value`` under ``name`` in one table only."""
        if table.get(name) is value and name in table:
            return
        for other in (*(self.__dict__[table] for table in _TABLES), self.__dict__):
            if other is not table:
                other.pop(name, None)
        table[name] = value
        bump()

    def _replace(self, table: str, name: str, value: Any) -> None:
        """Exchange what a table holds for something that is neither a parameter nor a module."""
        held = self.__dict__[table]
        if value is None:
            if held[name] is not None:
                held[name] = None
                bump()
        elif table == "_buffers" and isinstance(value, Tensor):
            if held[name] is None:
                held[name] = value
                bump()
            elif held[name] is not value:
                held[name].data = value  # the handle stays, so compiled steps keep finding it
        else:
            what = {"_parameters": "Parameter", "_buffers": "Tensor", "_modules": "Module"}[table]
            raise OptionError(
                f"[{type(self).__name__}] {name!r} holds a {what} and cannot become a "
                f"{type(value).__name__}; assign a {what} or None, or change its values with "
                ".copy_(...)"
            )

    def register_parameter(self, name: str, value: Parameter | None) -> None:
        """Hold a parameter, or ``None`` to reserve the name."""
        self._put(self._parameters, name, value)

    def register_buffer(self, name: str, value: Tensor | None, persistent: bool = True) -> None:
        """Hold a tensor that is state but not trained; ``persistent`` ones are in the state dict.

        >>> import lamella as lm
        >>> module = lm.nn.Module()
        >>> module.register_buffer("steps", lm.zeros(()))
        >>> list(module.state_dict())
        ['steps']
        """
        self._put(self._buffers, name, value)
        (self._not_saved.discard if persistent else self._not_saved.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Hold a submodule under a computed name."""
        self._put(self._modules, name, module)

    register_module = add_module

    # Walking

    def named_modules(
        self, memo: set[int] | None = None, prefix: str = ""
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with dotted names."""
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below this one, with their names."""
        return ((name, module) for name, module in self._modules.items() if module is not None)

    def children(self) -> Iterator[Module]:
        """The modules directly below this one."""
        return (module for _, module in self.named_children())

    def _named(self, table: str, prefix: str, recurse: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self.named_modules(prefix=prefix) if recurse else [(prefix, self)]:
            for name, value in module.__dict__[table].items():
                if value is not None and id(value) not in seen:
                    seen.add(id(value))
                    yield f"{path}.{name}" if path else name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters, each once, with dotted names."""
        return self._named("_parameters", prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        return (value for _, value in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """The buffers, each once, with dotted names."""
        return self._named("_buffers", prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once."""
        return (value for _, value in self.named_buffers(recurse=recurse))

    def get_submodule(self, path: str) -> Module:
        """The module of a dotted name (the empty name is this one).

        Raises:
            OptionError: if there is none.
        """
        modules = dict(self.named_modules())
        if path not in modules:
            raise OptionError(f"[get_submodule] no module {path!r}; {did_you_mean(path, modules)}")
        return modules[path]

    # State

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """Every parameter and persistent buffer by dotted name: a snapshot that later training
        leaves alone.

        >>> from lamella import nn
        >>> list(nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1)).state_dict())[2:]
        ['1.weight', '1.bias', '1.running_mean', '1.running_var', '1.num_batches_tracked']
        """
        return {name: value.detach() for name, value in self._state(prefix)}

    def _state(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        start = f"{prefix}." if prefix and not prefix.endswith(".") else prefix
        held = {
            **self._parameters,
            **{n: b for n, b in self._buffers.items() if n not in self._not_saved},
        }
        yield from ((start + name, value) for name, value in held.items() if value is not None)
        for name, module in self.named_children():
            yield from module._state(start + name)

    def load_state_dict(self, state: dict[str, Any], strict: bool = True) -> LoadResult:
        """Copy values in by name; every problem found is named in one error and nothing is changed
        then.

        Args:
            state: names to tensors or arrays, as :meth:`state_dict` gives or ``lm.load`` reads.
            strict: whether missing and unexpected names are errors.

        Returns:
            ``(missing_keys, unexpected_keys)``.

        Raises:
            ShapeError: if a shape differs.
            OptionError: if ``strict`` and a name is missing or unexpected.
        """
        return load_state_dict(type(self).__name__, dict(self._state()), state, strict)

    # Modes

    def train(self, mode: bool = True) -> Self:
        """Set training mode here and below (it matters to Dropout and BatchNorm)."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Set evaluation mode here and below."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Choose whether all parameters are trained."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        bump()
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget (or zero) the gradients of all parameters."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    def apply(self, function: Callable[[Module], object]) -> Self:
        """Call ``function`` on every module, the deepest first."""
        for module in self.children():
            module.apply(function)
        function(self)
        return self

    def to(self, *where: Any, dtype: Any = None, device: Any = None) -> Self:
        """Cast all floating-point tensors to a dtype (a device other than ``"cpu"`` is not there
        yet).

        Raises:
            OptionError: for another device.
            DTypeError: if the dtype is not a floating-point one.
        """
        from lamella.nn.state import cast_all, target_dtype

        target = target_dtype(where, dtype, device)
        if target is not None:
            cast_all([*self.parameters(), *self.buffers()], target)
            bump()
        return self

    def half(self) -> Self:
        """:meth:`to` float16."""
        return self.to("float16")

    def float(self) -> Self:
        """:meth:`to` float32."""
        return self.to("float32")

    def double(self) -> Self:
        """:meth:`to` float64."""
        return self.to("float64")

    def bfloat16(self) -> Self:
        """:meth:`to` bfloat16."""
        return self.to("bfloat16")

    def type(self, dst_type: Any) -> Self:
        """:meth:`to` a dtype."""
        return self.to(dtype=dst_type)

    def register_forward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, args, result)`` after each forward; a value it returns replaces the
        result.
        """
        return RemovableHandle(self._hooks, hook)

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, args)`` before each forward; a value it returns replaces the
        arguments.
        """
        return RemovableHandle(self._pre_hooks, hook)

    # Pytree and text

    def tree_flatten(self) -> tuple[list[Any], Any]:
        """The distinct tensors held here and below, and the structure that puts them back."""
        from lamella.nn.structure import flatten

        return flatten(self)

    @classmethod
    def tree_unflatten(cls, structure: Any, leaves: Any) -> Module:
        """A new module of the same structure that holds ``leaves``."""
        from lamella.nn.structure import unflatten

        return unflatten(structure, leaves)

    def extra_repr(self) -> str:
        """The options shown between the brackets of ``repr``; subclasses define it."""
        return ""

    def __repr__(self) -> str:
        lines = [
            f"({name}): {module!r}".replace("\n", "\n  ") for name, module in self._modules.items()
        ]
        name, extra = type(self).__name__, self.extra_repr()
        if not lines:
            return f"{name}({extra})"
        body = "\n  ".join([*([extra] if extra else []), *lines])
        return f"{name}(\n  {body}\n)"


class Configured(Module):
    """A module that shows the attributes named in ``options`` in its text."""

    options: ClassVar[tuple[str, ...]] = ()

    def extra_repr(self) -> str:
        """The options."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.options)


def _plain(value: object) -> bool:
    """Whether equal values of this type are interchangeable for a trace."""
    return isinstance(value, (bool, int, str, bytes, type(None))) or (
        isinstance(value, tuple) and all(_plain(item) for item in value)
    )
