"""Containers: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from operator import index as as_index
from typing import Any, Self

from fx.nn.base.module import Module
from fx.nn.base.parameter_containers import pairs
from fx.versions import touch


class Sequential(Module):
    """Modules that are applied one after the other.

    Args:
        *args: the modules, or one ``OrderedDict`` of modules by name.

    Example:
        >>> from fx import nn
        >>> nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        Sequential(
          (0): Linear(in_features=4, out_features=8, bias=True)
          (1): ReLU()
        )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Any:
        """Apply every module in order."""
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[_key(self, index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, _key(self, index), module)

    def __delitem__(self, index: int | slice) -> None:
        _delete(self, index)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in Module.__dir__(self) if not name.isdigit()]

    def __add__(self, other: Any) -> Sequential:
        _check_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Self:
        _check_sequential(other)
        return self.extend(list(other))

    def __mul__(self, times: int) -> Sequential:
        _check_factor(self, times)
        return Sequential(*list(self) * times)

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        _check_factor(self, times)
        return self.extend(list(self) * (times - 1))

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before the one at ``index``.

        Raises:
            IndexError: if there is no such place.
        """
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        _insert(self, index, module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Remove and return the module at ``key``."""
        found = self[key]
        del self[key]
        return found


class ModuleList(Module):
    """A list of modules, each registered under its position.

    Example:
        >>> from fx import nn
        >>> layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(2))
        >>> [name for name, _ in layers.named_parameters()]
        ['0.weight', '0.bias', '1.weight', '1.bias']
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[_key(self, index)]

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    append = Sequential.append
    pop = Sequential.pop
    __setitem__ = Sequential.__setitem__
    __delitem__ = Sequential.__delitem__
    __len__ = Sequential.__len__
    __iter__ = Sequential.__iter__
    __dir__ = Sequential.__dir__

    def insert(self, index: int, module: Module) -> None:
        """Add a module before the one at ``index``."""
        _insert(self, index, module)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end.

        Raises:
            TypeError: if ``modules`` is not iterable.
        """
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"ModuleList.extend should be called with an iterable, but got "
                f"{type(modules).__name__}"
            )
        for module in modules:
            self.add_module(str(len(self)), module)
        return self

    def __repr__(self) -> str:
        """Equal neighbours on one line, ``(0-2): 3 x Linear(...)``, as PyTorch prints them."""
        groups: list[tuple[int, int, str]] = []
        for i, text in enumerate(map(repr, self)):
            if groups and groups[-1][2] == text:
                groups[-1] = (groups[-1][0], i, text)
            else:
                groups.append((i, i, text))
        lines = [
            f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}"
            for a, b, text in groups
        ]
        body = "".join("\n  " + line.replace("\n", "\n  ") for line in lines)
        return f"{self._get_name()}({body}\n)" if body else f"{self._get_name()}()"


class ModuleDict(Module):
    """Modules by name, in the order in which they were added.

    Args:
        modules: a mapping, or pairs of a name and a module.

    Example:
        >>> from fx import nn
        >>> heads = nn.ModuleDict({"a": nn.Linear(2, 1), "b": nn.Identity()})
        >>> list(heads)
        ['a', 'b']
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        touch()
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def items(self) -> Any:
        """Pairs of a name and a module."""
        return self._modules.items()

    def clear(self) -> None:
        """Remove every module."""
        touch()
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return a module."""
        touch()
        return self._modules.pop(key)

    def update(self, modules: Any) -> None:
        """Add or replace modules.

        Raises:
            TypeError: if ``modules`` is neither a mapping nor an iterable of pairs.
        """
        ordered = (Mapping, ModuleDict)
        for name, module in pairs("ModuleDict", modules, ordered):
            self[name] = module


def _check_sequential(other: Any) -> None:
    if not isinstance(other, Sequential):
        raise ValueError(
            f"add operator supports only objects of Sequential class, but {type(other)} is given."
        )


def _check_factor(container: Sequential, times: Any) -> None:
    if not isinstance(times, int):
        raise TypeError(f"unsupported operand type(s) for *: {type(container)} and {type(times)}")
    if times <= 0:
        raise ValueError(f"Non-positive multiplication factor {times} for {type(container)}")


def _key(container: Any, index: int) -> str:
    """The name of the module at a position, which may count from the end."""
    size, i = len(container), as_index(index)
    if not -size <= i < size:
        raise IndexError(f"index {i} is out of range for a container of {size} modules")
    return next(islice(container._modules, i % size, None))


def _delete(container: Any, index: int | slice) -> None:
    names = list(container._modules)
    gone = names[index] if isinstance(index, slice) else [_key(container, index)]
    kept = [module for name, module in container._modules.items() if name not in gone]
    touch()
    container._modules.clear()
    container._modules.update((str(i), module) for i, module in enumerate(kept))


def _insert(container: Any, index: int, module: Module) -> None:
    if not isinstance(module, Module):
        raise TypeError(f"{type(module).__name__} is not a Module subclass")
    modules = list(container._modules.values())
    modules.insert(index, module)
    touch()
    container._modules.clear()
    container._modules.update((str(i), m) for i, m in enumerate(modules))
