"""Numbers: Python numbers that a program changes, as a learning rate or a step count.

Eagerly they are plain Python numbers. While a function is staged, those that live in a ``Numbers``
dict or behind a ``Number`` attribute become inputs of the graph, and writing one becomes an output:
a jitted step is not compiled again because a scheduler moved.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from fx.commit import Stores
from fx.config import modes
from fx.dtypes import as_dtype, dtype_of_scalar
from fx.tensor import Tensor
from fx.versions import changes, note_change, touch


class StagedNumber:
    """What stands for a Python number while a function is staged.

    Arithmetic with numbers gives another one, which Python computes in each call; together with a
    tensor it is as weak as any Python number. Where Python asks for its value (``if``, ``int()``,
    ``range``), the value at hand answers and is guarded: the compiled program serves only calls
    that give the same answer.

    Attributes:
        tensor: the number in the graph; None where it becomes an input when it meets a tensor.
        now: the number in the call that is being staged.
        host: computes the number from the numbers of another call.
    """

    __slots__ = ("host", "now", "stage", "tensor")

    def __init__(
        self, stage: Any, tensor: Tensor | None, now: Any, host: Callable[..., Any]
    ) -> None:
        self.stage = stage
        self.tensor = tensor
        self.now = now
        self.host = host

    @property  # isinstance() is told what the number is
    def __class__(self) -> Any:  # type: ignore[override]
        return type(self.now)

    def in_dtype(self, dtype: Any = None) -> Tensor:
        """The number as a 0-d tensor; of the dtype that ``fx.asarray`` gives unless told.

        Raises:
            OverflowError: if the number does not fit the dtype.
        """
        from fx.prims.compare import astype

        if dtype is None:
            strong = isinstance(self.now, np.generic)
            dtype = as_dtype(self.now.dtype) if strong else dtype_of_scalar(self.now)
        if self.tensor is None:
            return self.stage.meet(self, dtype)  # type: ignore[no-any-return]
        return self.tensor if self.tensor.dtype == dtype else astype(self.tensor, dtype=dtype)

    def known(self, ask: Callable[[Any], Any]) -> Any:
        """The answer to a question about the number, which the compiled program then assumes."""
        return self.stage.assume(self, ask)

    def __bool__(self) -> bool:
        return self.known(bool)  # type: ignore[no-any-return]

    def __int__(self) -> int:
        return self.known(int)  # type: ignore[no-any-return]

    def __index__(self) -> int:
        return self.known(operator.index)  # type: ignore[no-any-return]

    def __float__(self) -> float:
        return self.known(float)  # type: ignore[no-any-return]

    def __complex__(self) -> complex:
        return self.known(complex)  # type: ignore[no-any-return]

    def __round__(self, digits: Any = None) -> Any:
        args = (self,) if digits is None else (self, digits)
        return self.stage.on_numbers(round, args)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if not _is_number(other):
            return NotImplemented
        return self.stage.on_numbers(pow, (self, other) + (modulus is not None) * (modulus,))

    def __hash__(self) -> int:
        return hash(self.known(_itself))

    def __format__(self, spec: str) -> str:
        return format(self.known(_itself), spec)

    def __str__(self) -> str:
        return str(self.known(_itself))

    def __repr__(self) -> str:
        return repr(self.known(_itself))

    def __reduce__(self) -> Any:
        return _itself, (self.known(_itself),)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy as np

        return np.asarray(self.known(_itself), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """An operator of NumPy's numbers, or a function of NumPy: it sees what the number is."""
        if (
            method == "__call__"
            and not options
            and ufunc.nout == 1
            and all(map(_is_number, inputs))
        ):
            strong = any(isinstance(x, np.generic) for x in inputs)
            return self.stage.on_numbers(_OPERATOR.get(ufunc, ufunc) if strong else ufunc, inputs)
        known = [x.known(_itself) if type(x) is StagedNumber else x for x in inputs]
        return getattr(ufunc, method)(*known, **options)

    def __divmod__(self, other: Any) -> Any:
        return _divided(self, other) if _is_number(other) else NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        return _divided(other, self) if _is_number(other) else NotImplemented

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(type(self.now), name):
            raise AttributeError(f"{type(self.now).__name__!r} object has no attribute {name!r}")
        return getattr(self.known(_itself), name)


def _itself(x: Any) -> Any:
    return x


def _quotient(x: Any, y: Any) -> Any:
    return divmod(x, y)[0]


def _remainder(x: Any, y: Any) -> Any:
    return divmod(x, y)[1]


def _divided(x: Any, y: Any) -> tuple[Any, Any]:
    stage = (x if type(x) is StagedNumber else y).stage
    return stage.on_numbers(_quotient, (x, y)), stage.on_numbers(_remainder, (x, y))


def _arithmetic(name: str, on_numbers: Callable[..., Any]) -> None:
    """An operator and its reflection on StagedNumber; one with a tensor is the tensor's."""

    def forward(self: Any, other: Any) -> Any:
        return self.stage.on_numbers(on_numbers, (self, other)) if _is_number(other) else (
            NotImplemented
        )  # fmt: skip

    def reflected(self: Any, other: Any) -> Any:
        return self.stage.on_numbers(on_numbers, (other, self)) if _is_number(other) else (
            NotImplemented
        )  # fmt: skip

    if name != "pow":
        setattr(StagedNumber, f"__{name}__", forward)
    setattr(StagedNumber, f"__r{name}__", reflected)


def _compare(name: str, on_numbers: Callable[..., Any]) -> None:
    """A comparison: of numbers, a guarded Python bool."""

    def method(self: Any, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        found = self.stage.computed(on_numbers, (self, other))
        return self.stage.assume(found, _itself)

    setattr(StagedNumber, f"__{name}__", method)


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float | complex | StagedNumber | np.number | np.bool_)


_BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift",
    "rshift",
)  # fmt: skip
for _name in _BINARY:
    _arithmetic(_name, getattr(operator, f"{_name}_" if _name in ("and", "or") else _name))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _compare(_name, getattr(operator, _name))


_OPERATOR = {  # Python's for NumPy's: an operator of NumPy's number calls the function
    getattr(np, ufunc): getattr(operator, name)
    for name, ufunc in {
        "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
        "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "and_": "bitwise_and",
        "or_": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
        "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
        "ge": "greater_equal",
    }.items()
}  # fmt: skip


def _unary(name: str, on_numbers: Callable[..., Any]) -> None:
    """An operator of one number."""
    setattr(StagedNumber, f"__{name}__", lambda self: self.stage.on_numbers(on_numbers, (self,)))


for _name in ("neg", "pos", "abs", "invert"):
    _unary(_name, getattr(operator, _name))
for _name in ("floor", "ceil", "trunc"):
    _unary(_name, getattr(math, _name))


def weak(value: Any) -> Any:
    """A number as an operation with a tensor takes it: NumPy's are as weak as Python's."""
    value = value.now if type(value) is StagedNumber else value
    return value.item() if isinstance(value, np.generic) else value


def is_dynamic(value: Any) -> bool:
    """Whether a Python value is a number that may become an input: no flag, and no subclass."""
    return type(value) is float or type(value) is int or type(value) is StagedNumber


def is_dynamic_argument(value: Any) -> bool:
    """The same of an argument, which may be one of NumPy's numbers too."""
    return is_dynamic(value) or (
        isinstance(value, np.number) and type(value.item()) in (int, float)
    )


class Number:
    """An attribute that holds a Python number which jitted functions may read and write.

    Example:
        >>> from fx.numbers import Number
        >>> class Schedule:
        ...     rate = Number()
        >>> schedule = Schedule()
        >>> schedule.rate = 0.5
        >>> schedule.rate
        0.5
    """

    __slots__ = ("name",)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        try:
            held = instance.__dict__
            if modes.stage is None or not is_dynamic(held[self.name]):
                return held[self.name]
        except KeyError:
            raise AttributeError(
                f"{type(instance).__name__!r} object has no attribute {self.name!r}"
            ) from None
        return modes.stage.read_number(held, self.name)

    def __set__(self, instance: Any, value: Any) -> None:
        held = instance.__dict__
        stage = modes.stage
        if stage is not None and stage.write_number(held, self.name, value):
            return
        held[self.name] = value


class Numbers(dict[Any, Any]):
    """A dict whose numbers jitted functions may read and write, as an optimizer's options are.

    Numbers in a tuple, as Adam's betas, are read in the same way; who writes another tuple does so
    outside of staging, or by ``on_host``.

    Attributes:
        tuples: for each key whose value is a tuple of numbers, these by their place.
    """

    __slots__ = ("tuples",)

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.tuples: dict[Any, dict[int, Any]] = {}
        for key, value in dict.items(self):
            if type(value) is tuple:
                self._note_tuple(key, value)

    def _note_tuple(self, key: Any, value: Any) -> bool:
        """Keep the numbers of a tuple where they are read; whether only their values changed."""
        held = self.tuples.get(key)
        if type(value) is not tuple or not value or not all(map(is_dynamic, value)):
            self.tuples.pop(key, None)
            return False
        same = held is not None and [*map(type, held.values())] == [*map(type, value)]
        if not same:
            held = self.tuples[key] = {}
        held.update(enumerate(value))  # type: ignore[union-attr]
        return same

    def __getitem__(self, key: Any) -> Any:
        value = dict.__getitem__(self, key)
        stage = modes.stage
        if stage is None:
            return value
        if is_dynamic(value):
            return value if type(value) is StagedNumber else stage.read_number(self, key)
        held = self.tuples.get(key)
        return value if held is None else tuple([stage.read_number(held, i) for i in held])

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401 - through __getitem__

    def __setitem__(self, key: Any, value: Any) -> None:
        stage = modes.stage
        if stage is not None and stage.write_number(self, key, value):
            return
        if type(value) is not float and type(value) is not int:
            if type(value) is not tuple and key not in self.tuples:
                note_change(dict.get(self, key, changes), value)
            elif not self._note_tuple(key, value):
                touch()
        elif key in self.tuples:
            del self.tuples[key]
            touch()
        dict.__setitem__(self, key, value)

    def plan(self, stores: Stores, key: Any, value: Any) -> None:
        """List the stores that set a number, or another value, outside of staging."""
        stores.put(self, key, value)
        held = self.tuples.get(key)
        if type(value) is not tuple or not value or not all(map(is_dynamic, value)):
            stores.drop(self.tuples, key)
        elif held is not None and [*map(type, held.values())] == [*map(type, value)]:
            for i, x in enumerate(value):
                stores.put(held, i, x)
        else:
            stores.put(self.tuples, key, dict(enumerate(value)))
        stores.noted = True

    def __delitem__(self, key: Any) -> None:
        self.tuples.pop(key, None)
        touch()
        dict.__delitem__(self, key)

    def pop(self, key: Any, *default: Any) -> Any:
        self.tuples.pop(key, None)
        touch()
        return dict.pop(self, key, *default)

    def clear(self) -> None:
        self.tuples.clear()
        touch()
        dict.clear(self)

    def update(self, *others: Any, **more: Any) -> None:
        for key, value in dict(*others, **more).items():
            self[key] = value

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, other: Any) -> Numbers:  # type: ignore[override,misc]
        self.update(other)
        return self

    def items(self) -> Any:
        if modes.stage is None:
            return dict.items(self)
        return [(key, self[key]) for key in self]

    def values(self) -> Any:
        if modes.stage is None:
            return dict.values(self)
        return [self[key] for key in self]

    def __reduce__(self) -> Any:
        return Numbers, (dict(dict.items(self)),)


def on_host(effect: Callable[..., None], held: tuple[dict[Any, Any], ...], *args: Any) -> None:
    """Do something with Python numbers that no graph holds, as a scheduler's step does.

    Eagerly that is a call. While a function is staged, ``effect`` becomes a part of the program: it
    is called again in every call of the compiled function, before the numbers that are read after
    it are fetched.

    Args:
        effect: changes numbers in ``held``, and nothing else.
        held: the dicts that it changes, so that it can be undone.
        args: tensors whose values it gets; then it is called at the end of the program.
    """
    stage = modes.stage
    if stage is None:
        before = [(d, dict(dict.items(d))) for d in held]
        try:
            effect(*args)
        except BaseException:
            for d, was in before:
                dict.clear(d)
                dict.update(d, was)
            raise
    else:
        parts = [part for x in held if isinstance(x, Numbers) for part in x.tuples.values()]
        stage.host(effect, (*held, *parts), args)
