"""Modules that hold modules: in sequence, in a list, by name."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, overload

from lamella.errors import LamellaIndexError
from lamella.nn.module import Module, bump

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


class _Listed(Module):
    """Submodules named ``"0"``, ``"1"`` …, with the list operations both containers share."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(tuple(self._modules.values()))

    @overload
    def __getitem__(self, index: int) -> Module: ...

    @overload
    def __getitem__(self, index: slice) -> Any: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            part = type(self)()
            part._set(list(self)[index])
            return part
        return self._modules[str(self._position(index))]

    def __setitem__(self, index: int, module: Module) -> None:
        self._put(self._modules, str(self._position(index)), module)

    def __delitem__(self, index: int) -> None:
        modules = list(self)
        del modules[self._position(index)]
        self._set(modules)

    def append(self, module: Module) -> Any:
        """Add one module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Put one module before position ``index``."""
        modules = list(self)
        modules.insert(index, module)
        self._set(modules)
        return self

    def _set(self, modules: Iterable[Module]) -> None:
        self._modules.clear()
        self._modules.update({str(i): module for i, module in enumerate(modules)})
        bump()

    def _position(self, index: int) -> int:
        count = len(self)
        if not -count <= index < count:
            raise LamellaIndexError(
                f"[{type(self).__name__}] index {index} is outside its {count} modules; use 0 to "
                f"{count - 1}"
            )
        return index % count


class Sequential(_Listed):
    """Modules applied one after another; give them in order, or as a dict of names to modules.

    >>> from lamella import nn
    >>> nn.Sequential(nn.Linear(2, 4), nn.ReLU())
    Sequential(
      (0): Linear(in_features=2, out_features=4, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            named = dict(modules[0])
        else:
            named = {str(i): module for i, module in enumerate(modules)}  # type: ignore[misc]
        for name, module in named.items():
            self.add_module(name, module)

    def __getitem__(self, index: Any) -> Any:
        names = list(self._modules)
        if isinstance(index, slice):
            return Sequential({name: self._modules[name] for name in names[index]})
        return self._modules[names[self._position(index)]]

    def __setitem__(self, index: int, module: Module) -> None:
        self._put(self._modules, list(self._modules)[self._position(index)], module)

    def forward(self, x: Any) -> Any:
        """The last module's result."""
        for module in self._modules.values():
            x = module(x)
        return x


class ModuleList(_Listed):
    """A list whose modules are registered.

    >>> from lamella import nn
    >>> layers = nn.ModuleList(nn.Linear(1, 1) for _ in range(2))
    >>> len(layers), [name for name, _ in layers.named_parameters()][:2]
    (2, ['0.weight', '0.bias'])
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)


class ModuleDict(Module):
    """A dict whose modules are registered.

    >>> from lamella import nn
    >>> list(nn.ModuleDict({"a": nn.ReLU()}))
    ['a']
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    def __getitem__(self, name: str) -> Module:
        module: Module = self._modules[name]
        return module

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __delitem__(self, name: str) -> None:
        del self._modules[name]
        bump()

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._modules.values()

    def items(self) -> ItemsView[str, Module]:
        """Names and modules."""
        return self._modules.items()

    def update(self, modules: Mapping[str, Module]) -> None:
        """Hold every module of a mapping."""
        for name, module in modules.items():
            self.add_module(name, module)
