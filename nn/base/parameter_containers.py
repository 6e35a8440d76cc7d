"""Containers of parameters: ParameterList, ParameterDict."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from operator import index as as_index
from typing import Any, Self

from fx.nn.base.module import Module
from fx.nn.parameter import Parameter
from fx.seen import face
from fx.tensor import Tensor


def _entry(value: Any) -> Any:
    """A tensor as a parameter; other things as they are."""
    return Parameter(value) if isinstance(value, Tensor) and not _is_held(value) else value


def _is_held(value: Any) -> bool:
    return isinstance(value, Parameter)


def _shown(key: Any, value: Any, named: bool) -> str:
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    kind = "Parameter" if _is_held(value) else "Tensor"
    dtype = value.type() if named else f"{face()}.{value.dtype.name}"
    size = "x".join(map(str, value.shape))
    return f"  ({key}): {kind} containing: [{dtype} of size {size}]"


class ParameterList(Module):
    """A list whose tensors are parameters; other things are kept as they are.

    Args:
        values: what it holds at first; tensors become Parameters.

    Example:
        >>> import fx
        >>> scales = fx.nn.ParameterList([fx.ones(2), fx.zeros(3)])
        >>> [name for name, _ in scales.named_parameters()]
        ['0', '1']
        >>> scales
        ParameterList(
            (0): Parameter containing: [fx.float32 of size 2]
            (1): Parameter containing: [fx.float32 of size 3]
        )
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _key(self, index: int) -> str:
        i = as_index(index)
        if not -self._size <= i < self._size:
            raise IndexError(f"index {i} is out of range")
        return str(i % self._size)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(self[i] for i in range(*index.indices(self._size)))
        return getattr(self, self._key(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._key(index), _entry(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self._size))

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> Self:
        """Add something at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add things at the end.

        Raises:
            TypeError: if ``values`` is one tensor, or not iterable.
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                f"ParameterList.extend should be called with an iterable, but got "
                f"{type(values).__name__}"
            )
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """An entry a line."""
        return "\n".join(_shown(i, x, named=False) for i, x in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict whose tensors are parameters; other things are kept as they are.

    Args:
        parameters: a mapping, or pairs of a name and a value; tensors become Parameters.

    Example:
        >>> import fx
        >>> weights = fx.nn.ParameterDict({"left": fx.ones(2)})
        >>> weights["right"] = fx.zeros(2)
        >>> [name for name, _ in weights.named_parameters()]
        ['left', 'right']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, _name(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, _name(key), _entry(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, _name(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Another dict of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, which is made ``default`` where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove everything."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return a value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the pair that was added last."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, or ``default`` where there is none."""
        return self[key] if key in self else default  # noqa: SIM401 - this is `get`

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Another dict that holds ``default`` under each of ``keys``."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Any:
        """The names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Pairs of a name and a value."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add or replace values; those of an unordered mapping in the order of their names.

        Raises:
            TypeError, ValueError: if ``parameters`` is no mapping and no iterable of pairs.
        """
        for key, value in pairs("ParameterDict", parameters, (OrderedDict, ParameterDict)):
            self[key] = value

    def extra_repr(self) -> str:
        """An entry a line."""
        return "\n".join(_shown(key, x, named=True) for key, x in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: Any) -> ParameterDict:
        out = self.copy()
        out.update(other)
        return out

    def __ror__(self, other: Any) -> Any:
        out = other.copy()
        out.update(self)
        return out

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self


def _name(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(
            f"Index given to ParameterDict cannot be used as a key as it is not a string (type is "
            f"'{type(key).__name__}'); write str(key)"
        )
    return key


def pairs(name: str, given: Any, ordered: tuple[type, ...]) -> list[tuple[Any, Any]]:
    """What ``update`` of a dict of that name is given, as pairs."""
    if not isinstance(given, Iterable):
        raise TypeError(
            f"{name}.update should be called with an iterable of key/value pairs, but got "
            f"{type(given).__name__}"
        )
    if isinstance(given, ordered):
        return list(given.items())  # type: ignore[attr-defined]
    if isinstance(given, Mapping):
        return sorted(given.items())
    found = []
    for i, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{name} update sequence element #{i} should be Iterable; is {type(pair).__name__}"
            )
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(
                f"{name} update sequence element #{i} has length {len(pair)}; 2 is required"
            )
        found.append(pair)
    return found
