"""Computing in place: what one kernel makes of a tensor, written into memory of the tensor's own.

These are the kernels that eager operations call: ``x.exp_()`` has the bits of ``x.exp()``.
Where anything else is to be looked at (what is recorded, staged, shared, or of another dtype) they
write nothing and say so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import copyto, dtype, ndarray

from fx.config import modes
from fx.devices import backend
from fx.dtypes import bool_, float32, float64
from fx.ops.operators import weak_numbers
from fx.ops.pointwise.composed import AT_ONCE
from fx.primitive import registry
from fx.random.generator import _current
from fx.tape import CELL
from fx.tensor import Tensor
from fx.writing.memory import own_memory

# methods in place of another name than their primitive
_PRIMITIVES = {
    "sub": "subtract", "mul": "multiply", "div": "divide", "true_divide": "divide",
    "truediv": "divide", "neg": "negative", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "clip": "clamp",
}  # fmt: skip
_SCALED = frozenset(("add", "sub"))  # those that take ``alpha``
_NOT_GIVEN: Any = object()
# those that round once: their bits do not depend on how elements lie
_ANYWHERE = frozenset((
    "add", "subtract", "multiply", "divide", "bitwise_and", "bitwise_or", "bitwise_xor",
))  # fmt: skip


def computing(name: str) -> Callable[..., bool] | None:
    """``put(x, *others)`` for the function of that name; False where it cannot, None for others."""
    known = _PRIMITIVES.get(name, name)
    primitive = AT_ONCE.get(known) or registry.get(known)
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
        given = _array(other, place.dtype)
        if given is None:
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

    def three(
        x: Any, a: Any = None, b: Any = None, *more: Any, value: Any = _NOT_GIVEN, **options: Any
    ) -> bool:
        if more or options or (value is not _NOT_GIVEN and not words):
            return False
        place = own_memory(x)
        if place is None or (kind := place.dtype) not in dtypes:
            return False
        first, second = _array(a, kind), _array(b, kind)
        if first is None or second is None or first.base is place or second.base is place:
            return False  # a part of what is written would be read again
        if words:
            factor = 1.0 if value is _NOT_GIVEN else value
            return kernel(place, first, second, place, value=factor) is not None
        return kernel(place, first, second, place) is not None

    def limited(x: Any, min: Any = None, max: Any = None, *more: Any, **options: Any) -> bool:
        return not (more or options) and three(x, min, max)

    if count == 3:
        words = primitive.words
        return limited if known == "clamp" else three
    return one if count == 1 else two


def _array(x: Any, dtype: Any) -> Any:
    """The array of an operand of that dtype, a number that was met before; None of others."""
    if type(x) is not Tensor:
        if (weak := weak_numbers.get(type(x))) is not None:
            x = weak.get(dtype, _NONE).get(x or repr(x))
        elif isinstance(x, Tensor) and x.level == CELL:
            x = x.read()
        if type(x) is not Tensor:
            return None
    if x._node is not None and modes.record0:
        return None
    array = x._a
    return array if type(array) is ndarray and array.dtype is dtype else None


def filling(x: Any, mask: Any, value: Any) -> bool:
    """``put(x, mask, value)`` for one value where a mask is true."""
    place = own_memory(x, True)
    if place is None:
        return False
    where, given = _array(mask, bool_), _array(value, place.dtype)
    if where is None or given is None or given.ndim:
        return False
    owner = where if where.base is None else where.base
    if owner is place or owner is place.base:
        return False
    try:
        copyto(place, given, where=where)
    except ValueError:  # of another shape, or read-only
        return False
    return True


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
_NONE: dict[Any, Any] = {}
