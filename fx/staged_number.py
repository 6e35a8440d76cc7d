"""What stands for a Python number while a function is staged."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from fx.dtypes import as_dtype, dtype_of_scalar
from fx.slotted import slotted
from fx.tensor import Tensor


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
            if modulus is None and not _answers(other, "__rpow__"):
                return pow(self.known(own_value), other)
            return NotImplemented
        return self.stage.on_numbers(pow, (self, other) + (modulus is not None) * (modulus,))

    def __hash__(self) -> int:
        return hash(self.known(own_value))

    def __format__(self, spec: str) -> str:
        return format(self.known(own_value), spec)

    def __str__(self) -> str:
        return str(self.known(own_value))

    def __repr__(self) -> str:
        return repr(self.known(own_value))

    def __reduce__(self) -> Any:
        return own_value, (self.known(own_value),)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy as np

        return np.asarray(self.known(own_value), dtype)

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
        known = [x.known(own_value) if type(x) is StagedNumber else x for x in inputs]
        return getattr(ufunc, method)(*known, **options)

    def __divmod__(self, other: Any) -> Any:
        return _divided(self, other) if _is_number(other) else NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        return _divided(other, self) if _is_number(other) else NotImplemented

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(type(self.now), name):
            raise AttributeError(f"{type(self.now).__name__!r} object has no attribute {name!r}")
        return getattr(self.known(own_value), name)


def own_value(x: Any) -> Any:
    return x


def settled(*numbers: Any) -> Any:
    """What numbers are in the call that is staged, which the program then is for alone."""
    return [x.known(own_value) if type(x) is StagedNumber else x for x in numbers]


@slotted(frozen=True)
class Length:
    """How long an axis, or a slice of it, is: a part of shapes, and so of the program.

    Attributes:
        size: of the axis that is cut; None of one that is made.
    """

    size: int | None = None

    def __call__(self, now: Any) -> int:
        return now.known(self) if type(now) is StagedNumber else int(now)  # type: ignore[no-any-return]


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
        if _is_number(other):
            return self.stage.on_numbers(on_numbers, (self, other))
        if _answers(other, f"__r{name}__"):
            return NotImplemented
        return on_numbers(self.known(own_value), other)

    def reflected(self: Any, other: Any) -> Any:
        if _is_number(other):
            return self.stage.on_numbers(on_numbers, (other, self))
        return NotImplemented if _is_theirs(other) else on_numbers(other, self.known(own_value))

    if name != "pow":
        setattr(StagedNumber, f"__{name}__", forward)
    setattr(StagedNumber, f"__r{name}__", reflected)


def _compare(name: str, on_numbers: Callable[..., Any]) -> None:
    """A comparison: of numbers, a guarded Python bool."""
    mirror = f"__{_MIRRORS.get(name, name)}__"
    weak = name in ("eq", "ne")  # a Python number is equal to no other thing

    def method(self: Any, other: Any) -> Any:
        if _is_number(other):
            found = self.stage.computed(on_numbers, (self, other))
            return self.stage.assume(found, own_value)
        if _answers(other, mirror) or (weak and not isinstance(self.now, np.generic)):
            return NotImplemented
        return on_numbers(self.known(own_value), other)

    setattr(StagedNumber, f"__{name}__", method)


def _is_theirs(x: Any) -> bool:
    """Whether a thing is neither Python's nor NumPy's, as a tensor."""
    return type(x).__module__ not in ("builtins", "numpy")


def _answers(x: Any, mirror: str) -> bool:
    """Whether the other side of an operator is to answer: a tensor, or a class of the user's.

    Together with all else, as a string or a list, a number counts as the value that it is: then
    the result or the refusal is Python's, or NumPy's.
    """
    return _is_theirs(x) and getattr(type(x), mirror, None) is not getattr(object, mirror, None)


_MIRRORS = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


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
