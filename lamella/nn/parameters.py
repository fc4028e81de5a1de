"""Parameters in a list and by name, registered with the module that holds the container."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from lamella.errors import LamellaIndexError
from lamella.nn.module import Module, bump
from lamella.nn.parameter import Parameter
from lamella.tensor.tensor import Tensor

__all__ = ["ParameterDict", "ParameterList"]


def _parameter(value: Any) -> Parameter:
    return value if isinstance(value, Parameter) else Parameter(value)


class ParameterList(Module):
    """A list whose parameters are registered; tensors become parameters.

    >>> import lamella as lm
    >>> [name for name, _ in ParameterList([lm.zeros(2), lm.ones(3)]).named_parameters()]
    ['0', '1']
    """

    def __init__(self, values: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.extend(values)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(tuple(self._parameters.values()))

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return ParameterList(list(self)[index])
        return self._parameters[self._name(index)]

    def __setitem__(self, index: int, value: Tensor) -> None:
        self._put(self._parameters, self._name(index), _parameter(value))

    def _name(self, index: int) -> str:
        if not -len(self) <= index < len(self):
            raise LamellaIndexError(
                f"[ParameterList] index {index} is outside the {len(self)} parameters"
            )
        return str(index % len(self))

    def append(self, value: Tensor) -> ParameterList:
        """Add one parameter at the end."""
        self.register_parameter(str(len(self)), _parameter(value))
        return self

    def extend(self, values: Iterable[Tensor]) -> ParameterList:
        """Add parameters at the end."""
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """The shapes."""
        return ", ".join(str(tuple(each.shape)) for each in self)


class ParameterDict(Module):
    """A dict whose parameters are registered; tensors become parameters.

    >>> import lamella as lm
    >>> list(ParameterDict({"scale": lm.ones(2)}))
    ['scale']
    """

    def __init__(self, parameters: Mapping[str, Tensor] | None = None) -> None:
        super().__init__()
        self.update(parameters or {})

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __contains__(self, name: str) -> bool:
        return name in self._parameters

    def __getitem__(self, name: str) -> Any:
        return self._parameters[name]

    def __setitem__(self, name: str, value: Tensor) -> None:
        self.register_parameter(name, _parameter(value))

    def __delitem__(self, name: str) -> None:
        del self._parameters[name]
        bump()

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._parameters.keys()

    def values(self) -> ValuesView[Any]:
        """The parameters."""
        return self._parameters.values()

    def items(self) -> ItemsView[str, Any]:
        """Names and parameters."""
        return self._parameters.items()

    def update(self, parameters: Mapping[str, Tensor]) -> None:
        """Hold every tensor of a mapping."""
        for name, value in parameters.items():
            self[name] = value

    def extra_repr(self) -> str:
        """Names and shapes."""
        return ", ".join(f"{name}={tuple(each.shape)}" for name, each in self.items())
