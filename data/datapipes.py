"""Data pipes: PyTorch's streams and maps that call one another by method; a frozen API there.

Only what a script needs to define its own: the base classes, and ``functional_datapipe``, which
makes a pipe a method of the others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any, ClassVar, get_type_hints

from fx.data.dataset import Dataset, IterableDataset


class _Methods:
    """Pipes that are methods of all pipes of a kind."""

    functions: ClassVar[dict[str, Any]]

    def __getattr__(self, name: str) -> Any:
        made = type(self).functions.get(name)
        if made is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return partial(made, self)

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Make a function a method: it is called with the pipe and the arguments."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Make a pipe a method of the pipes before it.

        Raises:
            Exception: if there is one of that name.
        """
        if function_name in cls.functions:
            raise Exception(
                f"Unable to add DataPipe function name {function_name} as it is already taken"
            )
        cls.functions[function_name] = cls_to_register


class IterDataPipe(_Methods, IterableDataset[Any]):
    """A stream that other streams are made of.

    Example:
        >>> import fx
        >>> @fx.data.functional_datapipe("doubled")
        ... class Doubled(fx.data.IterDataPipe):
        ...     def __init__(self, source):
        ...         self.source = source
        ...
        ...     def __iter__(self):
        ...         return (2 * x for x in self.source)
        >>> class Three(fx.data.IterDataPipe):
        ...     def __iter__(self):
        ...         return iter(range(3))
        >>> list(Three().doubled())
        [0, 2, 4]
    """

    functions: ClassVar[dict[str, Any]] = {}


class DFIterDataPipe(IterDataPipe):
    """A stream of data frames."""


class MapDataPipe(_Methods, Dataset[Any]):
    """Samples by index that other such are made of."""

    functions: ClassVar[dict[str, Any]] = {}


class DataChunk(list[Any]):
    """Items of a stream that belong together.

    Example:
        >>> import fx
        >>> list(fx.data.DataChunk([1, 2]).raw_iterator())
        [1, 2]
    """

    @property
    def items(self) -> list[Any]:
        """The items."""
        return list(self)

    def as_str(self, indent: str = "") -> str:
        """The items, as text."""
        return f"{indent}[{', '.join(map(str, self))}]"

    def raw_iterator(self) -> Iterator[Any]:
        """The items, one by one."""
        return iter(list(self))


class functional_datapipe:
    """A decorator that makes a pipe a method, ``name``, of all pipes of its kind."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: Any) -> Any:
        base = cls.cls if isinstance(cls, non_deterministic) else cls
        if not (isinstance(base, type) and issubclass(base, IterDataPipe | MapDataPipe)):
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")
        kind = IterDataPipe if issubclass(base, IterDataPipe) else MapDataPipe
        kind.register_datapipe_as_function(self.name, cls)
        return cls


class _Setting:
    """A flag that holds from the call on, or within a block."""

    flag: ClassVar[list[bool]]
    value: ClassVar[bool]

    def __init__(self) -> None:
        self._before = self.flag[0]
        self.flag[0] = self.value

    def __enter__(self) -> None:
        """It holds since it was made."""

    def __exit__(self, *error: object) -> None:
        self.flag[0] = self._before


class guaranteed_datapipes_determinism(_Setting):
    """Refuse pipes that are declared ``non_deterministic``."""

    flag: ClassVar[list[bool]] = [False]
    value = True


class runtime_validation_disabled(_Setting):
    """Let ``runtime_validation`` check nothing."""

    flag: ClassVar[list[bool]] = [True]
    value = False


class non_deterministic:
    """A decorator of pipes that may give another order each time; or of such as a function tells.

    Args:
        arg: the pipe; or a function of the pipe's arguments that says whether it is such.
    """

    def __init__(self, arg: Any) -> None:
        whole = isinstance(arg, type)
        if not callable(arg) or (whole and not issubclass(arg, IterDataPipe)):
            raise TypeError(f"Only `IterDataPipe` can be decorated with `non_deterministic`: {arg}")
        self.cls = arg if whole else None
        self._asks = None if whole else arg

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls is None:
            self.cls = args[0]
            return self
        random = self._asks is None or self._asks(*args, **kwargs)
        if random and guaranteed_datapipes_determinism.flag[0]:
            raise TypeError(
                f"{self.cls.__name__} is non-deterministic, but you set "
                "'guaranteed_datapipes_determinism'"
            )
        return self.cls(*args, **kwargs)


def argument_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Check that arguments which are annotated as pipes are pipes."""
    signature, hints = inspect.signature(f), get_type_hints(f)
    pipes = {n: t for n, t in hints.items() if isinstance(t, type) and issubclass(t, _Methods)}

    @wraps(f)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name in pipes and not isinstance(value, pipes[name]):
                raise TypeError(
                    f"Expected argument '{name}' as a {pipes[name].__name__}, but found "
                    f"{type(value)}"
                )
        return f(*args, **kwargs)

    return checked


def runtime_validation(f: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Check each item of an ``__iter__`` that is annotated as an iterator of a class."""
    hint = get_type_hints(f).get("return")
    found = getattr(hint, "__args__", ())
    kind = found[0] if found and isinstance(found[0], type) else object

    @wraps(f)
    def checked(self: Any) -> Iterator[Any]:
        for item in f(self):
            if runtime_validation_disabled.flag[0] and not isinstance(item, kind):
                raise RuntimeError(
                    f"Expected an instance as subtype of {kind}, but found {item} of {type(item)}"
                )
            yield item

    return checked
