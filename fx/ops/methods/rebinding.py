"""In-place methods of cells: ``cell.foo_(...)`` rebinds the cell to what ``foo(...)`` gives.

A function says what each makes of a tensor. One rule makes it of the methods of tensors; written
out are those that no method gives: constants, copies, and random draws, which take PyTorch's
arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from numpy import ndarray

from fx.dtypes import FLOATING, bool_, int64
from fx.errors import DTypeError, InPlaceError
from fx.ops.methods.inplace import NAMES, line_for
from fx.prims.creation import filled
from fx.state import Cell
from fx.tape import CELL
from fx.tensor import Tensor

Value = Callable[..., Tensor]  # of a tensor or cell, and the arguments of a method in place

_SCALED = {"add_": (2, "alpha"), "sub_": (2, "alpha"), "addcmul_": (3, "value"),
           "addcdiv_": (3, "value")}  # fmt: skip


def _by_rule(name: str) -> Value:
    """What the method in place of that name makes of a tensor."""
    pure = name[:-1]
    count, factor = _SCALED.get(name, (0, ""))

    def value(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        if count and len(args) == count:  # older code gives the factor first
            kwargs[factor], *args = args  # type: ignore[assignment]
        if self.level == CELL:
            self = self.read()
        return getattr(self, pure)(*args, **kwargs)  # type: ignore[no-any-return]

    value.__name__ = name
    value.__doc__ = f"Hold ``self.{pure}(...)``, with the shape and dtype kept."
    return value


def _method(name: str, value_of: Value) -> Callable[..., Cell]:
    """The method in place of that name: a cell holds what ``value_of`` makes of it."""

    @wraps(value_of)
    def method(self: Cell, *args: Any, **kwargs: Any) -> Cell:
        return self._renew(name, value_of(self, *args, **kwargs))

    return method


def _now(x: Any) -> Any:
    """What a cell holds; a tensor itself."""
    return x.read() if x.level == CELL else x


def _refused(name: str) -> Callable[..., Cell]:
    def method(self: Cell, *args: Any, **kwargs: Any) -> Cell:
        raise InPlaceError(
            f"{self.name or 'a parameter'}.{name}() has no form that rebinds; write "
            f"{line_for(name)} and give the result to p.data"
        )

    method.__name__ = name
    method.__doc__ = f"Refused: write ``{line_for(name)}``."
    return method


# constants and copies ---------------------------------------------------------------------------


def copy_(self: Any, source: Any, non_blocking: bool = False) -> Tensor:
    """Hold the values of ``source``, broadcast and cast to this cell's shape and dtype."""
    if type(source) in _NUMBERS and (now := _now(self))._dtype in FLOATING:
        return filled(now._shape, source, now._dtype, now.device.name)
    from fx.ops.convert import as_tensor, to_device
    from fx.ops.operands import own
    from fx.prims.shape import stretched

    value = as_tensor(source, dtype=self._dtype, device=self.device)
    if isinstance(source, Tensor):
        value = to_device(value, self.device)
    given = value is source
    shape = self._shape
    if value._shape != shape:
        value, given = stretched(value, shape), True
    placed = self.written and self._view.path and value._node is None
    if given and not placed:  # else it is written into its place
        value = own(value)
    return value


_NUMBERS = frozenset((int, float, bool))


def fill_(self: Any, value: Any) -> Tensor:
    """Hold ``value`` everywhere."""
    return copy_(self, value)


def zero_(self: Any) -> Tensor:
    """Hold zeros."""
    return copy_(self, 0)


def fill_diagonal_(self: Any, fill_value: Any, wrap: bool = False) -> Tensor:
    """Hold ``fill_value`` on the main diagonal; ``wrap`` starts it anew below, in tall matrices.

    Raises:
        InPlaceError: for fewer than 2 axes, or more of different sizes.
    """
    from fx.ops.making.ranges import arange

    shape = self.shape
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise InPlaceError(
            f"fill_diagonal_ takes a matrix, or more axes of one size, got {self.spec!r}"
        )
    x = _now(self)
    step = sum(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    tall = len(shape) == 2 and shape[0] > shape[1]
    end = math.prod(shape) if not tall or wrap else shape[1] * shape[1]
    if x._dtype == bool_:  # any number, as fill_ takes it
        fill_value = bool(fill_value)
    flat = x.reshape(-1).at[arange(0, end, step)].set(fill_value)
    return flat.reshape(shape)


def put_(self: Any, index: Any, source: Any, accumulate: bool = False) -> Tensor:
    """Hold ``source`` at the places ``index`` of the flat tensor, or add it there."""
    place = _now(self).reshape(-1).at[index]
    out = place.add(source) if accumulate else place.set(source)
    return out.reshape(self.shape)


def share_memory_(self: Cell) -> Cell:
    """Itself: what it holds never changes."""
    return self


def detach_(self: Cell) -> Cell:
    """Require no grad from now on."""
    self.requires_grad_(False)
    return self


# random draws -----------------------------------------------------------------------------------


def _floating(self: Tensor, name: str) -> None:
    if self._dtype not in FLOATING:
        raise DTypeError(
            f"{name} draws floating numbers, and the tensor is {self.spec!r}; use random_, or cast "
            f"it first"
        )


@cache
def _random() -> tuple[Any, Any]:
    from fx.random import continuous, stateful

    return continuous, stateful


def _standard(self: Any, name: str, family: str, generator: Any) -> Tensor:
    now = _now(self)
    _floating(now, name)
    _, stateful = _random()
    device = "cpu" if type(now) is Tensor and type(now._a) is ndarray else now.device
    return stateful.standard(family, name, now._shape, now._dtype, generator, device, False)  # type: ignore[no-any-return]


def normal_(self: Any, mean: float = 0, std: float = 1, *, generator: Any = None) -> Tensor:
    """Hold normal values."""
    if std < 0:
        raise ValueError(f"normal_ expects std >= 0.0, but found std {std}")
    continuous, _ = _random()
    return continuous.moved(_standard(self, "normal_", "normal", generator), mean, std)  # type: ignore[no-any-return]


def uniform_(
    self: Any, a: float = 0, b: float = 1, *, generator: Any = None, **ends: Any
) -> Tensor:
    """Hold uniform values in [a, b), PyTorch's ``from`` and ``to``."""
    if ends:
        a, b = ends.pop("from", a), ends.pop("to", b)
    if ends:
        raise TypeError(f"uniform_ got unexpected arguments {sorted(ends)}")
    if a > b:
        raise ValueError(
            f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}"
        )
    continuous, _ = _random()
    return continuous.between(_standard(self, "uniform_", "uniform", generator), a, b)  # type: ignore[no-any-return]


def bernoulli_(self: Any, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Hold 1 with probability ``p`` (a number or a tensor), else 0."""
    import fx.random as random

    if not isinstance(p, Tensor) and not 0 <= p <= 1:
        raise ValueError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    key = random.next_key(generator, self.device)
    drawn = random.bernoulli(key, p, self.shape)
    return drawn.astype(self.dtype)


def exponential_(self: Any, lambd: float = 1, *, generator: Any = None) -> Tensor:
    """Hold exponential values of rate ``lambd``."""
    if lambd <= 0:
        raise ValueError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    drawn = _standard(self, "exponential_", "exponential", generator)
    return drawn / lambd


def geometric_(self: Any, p: float, *, generator: Any = None) -> Tensor:
    """Hold the numbers of trials up to the first success of probability ``p``: 1, 2 ..."""
    import fx.random as random

    if not 0 < p < 1:
        raise ValueError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    key = random.next_key(generator, self.device)
    return random.geometric(key, p, self.shape, self.dtype)


def cauchy_(self: Any, median: float = 0, sigma: float = 1, *, generator: Any = None) -> Tensor:
    """Hold values of Cauchy's distribution."""
    if sigma <= 0:
        raise ValueError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    import fx.random as random

    now = _now(self)
    _floating(now, "cauchy_")
    key = random.next_key(generator, now.device)
    return median + sigma * random.cauchy(key, now.shape, now.dtype)


def log_normal_(self: Any, mean: float = 1, std: float = 2, *, generator: Any = None) -> Tensor:
    """Hold values whose logarithm is normal."""
    if std <= 0:
        raise ValueError(f"log_normal_ expects std > 0.0, but found std={std}")
    drawn = _standard(self, "log_normal_", "normal", generator)
    return (mean + std * drawn).exp()


def random_(self: Any, *ends: int, generator: Any = None, **named: Any) -> Tensor:
    """Hold integers: ``random_()``, ``random_(to)`` or ``random_(from, to)``, ``to`` left out.

    Without ends they are all that the dtype holds, from 0: in floating dtypes the integers up to
    which every one can be told from the next.
    """
    import fx.random as random

    low = named.pop("from", ends[0] if len(ends) == 2 else 0)
    high = named.pop("to", ends[-1] if ends else None)
    if named or len(ends) > 2:
        raise TypeError(f"random_ takes (), (to) or (from, to), got {(*ends, *named)}")
    if high is None:
        high = _whole(self.dtype)
    if low >= high:
        raise ValueError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    key = random.next_key(generator, self.device)
    drawn = random.randint(key, self.shape, low, high, int64)
    return drawn.astype(self.dtype)


def _whole(dtype: Any) -> int:
    """The end of the integers from 0 that a dtype holds each."""
    from fx._namespace import finfo, iinfo

    if dtype in FLOATING:
        return int(2 / float(finfo(dtype).eps)) + 1
    return 2 if dtype == bool_ else int(iinfo(dtype).max)


# operators --------------------------------------------------------------------------------------

_OPERATORS = {
    "pow": "**=",
    "floordiv": "//=",
    "mod": "%=",
    "and": "&=",
    "or": "|=",
    "xor": "^=",
    "lshift": "<<=",
    "rshift": ">>=",
}


def _operator(name: str, sign: str) -> Callable[[Cell, Any], Cell]:
    pure = f"__{name}__"

    def method(self: Cell, other: Any) -> Cell:
        return self._renew(sign, getattr(self.read(), pure)(other))

    return method


_VALUES = {
    value_of.__name__: value_of
    for value_of in (
        copy_, fill_, zero_, fill_diagonal_, put_, normal_, uniform_, bernoulli_, exponential_,
        geometric_, cauchy_, log_normal_, random_,
    )
}  # fmt: skip
_METHODS = {"detach_": detach_, "share_memory_": share_memory_}  # which change no element


def rule_of(name: str) -> tuple[str, int]:
    """The method whose result that of a name in place holds, and how many arguments are others."""
    return ("" if name in _VALUES else name[:-1]), _SCALED.get(name, (-1, ""))[0]


def value_of(name: str) -> Value | None:
    """What the method in place of that name makes of a tensor; None if there is no such method."""
    if name in _VALUES:
        return _VALUES[name]
    return _by_rule(name) if callable(getattr(Tensor, name[:-1], None)) else None


def attach() -> None:
    """Put the methods on Cell."""
    for name in NAMES:
        value = value_of(name)
        method = _refused(name) if value is None else _method(name, value)
        setattr(Cell, name, _METHODS.get(name, method))
    for name, sign in _OPERATORS.items():
        setattr(Cell, f"__i{name}__", _operator(name, sign))
