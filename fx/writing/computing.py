"""Computing in place: what one kernel makes of a tensor, written into memory of the tensor's own.

These are the kernels that eager operations call: ``x.exp_()`` has the bits of ``x.exp()``.
Where anything else is to be looked at (what is recorded, staged, shared, or of another dtype) they
write nothing and say so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import dtype, ndarray

from fx.config import modes
from fx.devices import backend
from fx.dtypes import float32, float64
from fx.ops.operators import weak_numbers
from fx.primitive import registry
from fx.random.generator import _current
from fx.tape import CELL
from fx.tensor import Tensor
from fx.writing.memory import own_memory

# methods in place of another name than their primitive
_PRIMITIVES = {
    "sub": "subtract", "mul": "multiply", "div": "divide", "true_divide": "divide",
    "truediv": "divide", "neg": "negative", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor",
}  # fmt: skip
_SCALED = frozenset(("add", "sub"))  # those that take ``alpha``
_NOT_GIVEN: Any = object()
# those that round once: their bits do not depend on how elements lie
_ANYWHERE = frozenset((
    "add", "subtract", "multiply", "divide", "bitwise_and", "bitwise_or", "bitwise_xor",
))  # fmt: skip


def computing(name: str) -> Callable[..., bool] | None:
    """``put(x, *others)`` for the function of that name; False where it cannot, None for others."""
    primitive = registry.get(_PRIMITIVES.get(name, name))
    found = None if primitive is None else backend("cpu").kernel_into(primitive)
    if found is None:
        return None
    kernel, count, chars = found
    dtypes = frozenset(map(dtype, chars))
    parts = primitive.name in _ANYWHERE
    scaled = registry["multiply"].cpu if name in _SCALED else None

    def one(x: Any, *args: Any, **options: Any) -> bool:
        place = None if args or options else own_memory(x)
        if place is None or place.dtype not in dtypes or not place.flags.writeable:
            return False
        kernel(place, place)
        return True

    def two(x: Any, other: Any = None, *more: Any, alpha: Any = _NOT_GIVEN, **options: Any) -> bool:
        if more or options or (alpha is not _NOT_GIVEN and scaled is None):
            return False
        place = own_memory(x, parts)
        if place is None or place.dtype not in dtypes:
            return False
        if type(other) is not Tensor:
            if (weak := weak_numbers.get(type(other))) is not None:
                known = weak.get(place.dtype)
                if known is not None:
                    other = known.get(other or repr(other))  # where it was met before
            elif isinstance(other, Tensor) and other.level == CELL:
                other = other.read()
            if type(other) is not Tensor:
                return False
        if other._node is not None and modes.record0:
            return False
        given = other._a
        if type(given) is not ndarray or given.dtype is not place.dtype:
            return False
        if alpha is not _NOT_GIVEN:
            weak = weak_numbers.get(type(alpha))
            known = None if weak is None else weak.get(place.dtype)
            by = None if known is None else known.get(alpha or repr(alpha))
            if by is None or not given.ndim:
                return False
            given = scaled(given, by._a)
        try:
            kernel(place, given, place)
        except ValueError:  # of another shape, or read-only
            return False
        return True

    return one if count == 1 else two


def drawing(family: str) -> Callable[..., bool]:
    """``put(x)`` for draws of a standard distribution."""

    def put(x: Any, a: Any = 0, b: Any = 1, *, generator: Any = None, **ends: Any) -> bool:
        if a != 0 or b != 1 or generator is not None or ends:
            return False
        place = own_memory(x)
        if place is None or place.dtype not in _DTYPES:
            return False
        flags = place.flags
        if not (flags.c_contiguous and flags.writeable):
            return False
        draw = _current.generator.draw_into
        return draw(place, family, place.shape, place.dtype) is not None

    return put


_DTYPES = frozenset((float32, float64))
