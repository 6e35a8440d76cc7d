"""Values of the host: what stands for an array or a time that Python makes anew in each call.

Eagerly they are what they are: NumPy's arrays, times of ``datetime``. While a function is staged,
those that it draws are ``StagedValue``s. What is done with them is done again in each call, by the
same functions of Python and NumPy; where one meets a tensor, it is an input of the graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from fx.dtypes import as_dtype
from fx.tensor import Tensor

_FIXED = frozenset(("shape", "ndim", "size", "dtype", "itemsize", "nbytes"))
_CHANGING = frozenset((
    "fill", "sort", "partition", "put", "resize", "setflags", "itemset", "byteswap", "setfield",
    "data", "base", "flags", "ctypes", "strides", "flat",
))  # fmt: skip


class StagedValue:
    """What stands for an array or a time while a function is staged.

    Attributes:
        stage: notes what is done with it.
        now: the value in the call that is being staged.
        host: computes it in another call.
    """

    __slots__ = ("host", "now", "stage")
    __array_priority__ = 1000.0

    def __init__(self, stage: Any, now: Any, host: Any) -> None:
        self.stage = stage
        self.now = now
        self.host = host

    @property  # isinstance() is told what the value is
    def __class__(self) -> Any:  # type: ignore[override]
        return type(self.now)

    def tensor(self, dtype: Any = None) -> Tensor:
        """The array as a tensor, of its own dtype unless told."""
        return self.stage.meet_array(self, as_dtype(self.now.dtype if dtype is None else dtype))  # type: ignore[no-any-return]

    def known(self, ask: Callable[[Any], Any]) -> Any:
        """The answer to a question about it, which the compiled program then assumes."""
        return self.stage.assume(self, ask)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self.now, name):
            raise AttributeError(f"{type(self.now).__name__!r} object has no attribute {name!r}")
        if name in _FIXED:
            return getattr(self.now, name)
        if name in _CHANGING:
            self.stage.give_up(f"it uses .{name} of an array that it draws")
        if callable(getattr(self.now, name)):
            return partial(self.stage.applied, _call, self, name)
        return self.stage.applied(getattr, self, name)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.stage.give_up("it writes into an array that it draws")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.stage.give_up("it hands an array that it draws to a function of a library")

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, Tensor) for x in args):
            return NotImplemented
        return self.stage.applied(getattr(ufunc, method), *args, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self.stage.applied(function, *args, **kwargs)

    def __len__(self) -> int:
        return len(self.now)

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __bool__(self) -> bool:
        return self.known(bool)  # type: ignore[no-any-return]

    def __index__(self) -> int:
        return self.known(operator.index)  # type: ignore[no-any-return]

    def __int__(self) -> int:
        return self.known(int)  # type: ignore[no-any-return]

    def __float__(self) -> float:
        return self.known(float)  # type: ignore[no-any-return]

    def __hash__(self) -> int:
        return hash(self.known(hash))

    def __repr__(self) -> str:
        return self.known(repr)  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return self.known(str)  # type: ignore[no-any-return]

    def __format__(self, spec: str) -> str:
        return self.known(partial(_formatted, spec))  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        return self.stage.give_up("it pickles or copies a value that it draws")


def _call(x: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(x, name)(*args, **kwargs)


def _formatted(spec: str, x: Any) -> str:
    return format(x, spec)


def _operator(name: str, function: Callable[..., Any]) -> None:
    def forward(self: Any, *others: Any) -> Any:
        if any(isinstance(x, Tensor) for x in others):
            return NotImplemented
        return self.stage.applied(function, self, *others)

    def reflected(self: Any, other: Any) -> Any:
        return self.stage.applied(function, other, self)

    setattr(StagedValue, f"__{name}__", forward)
    if name in _BINARY:
        setattr(StagedValue, f"__r{name}__", reflected)


_BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift",
    "rshift", "matmul",
)  # fmt: skip
for _name in (*_BINARY, "eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert"):
    _operator(_name, getattr(operator, f"{_name}_" if _name in ("and", "or") else _name))
_operator("getitem", operator.getitem)
