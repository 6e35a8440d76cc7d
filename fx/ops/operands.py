"""Operands: what the array functions take, as tensors of one dtype.

Array functions take tensors, NumPy arrays and Python scalars. Lists are refused: reading one
element by element is slow, and ``fx.asarray`` says that it happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

import numpy as np

import fx.prims.compare as compare
import fx.prims.creation as creation
import fx.prims.indexing as indexing
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.config import modes, writing
from fx.errors import DeviceError, DTypeError, IndexingError
from fx.ops.convert import as_operand, as_tensor, promote
from fx.ops.operators import in_floats, weak_numbers
from fx.prims.axes import check_ordered
from fx.staged_number import StagedNumber
from fx.staged_number import weak as weak_number
from fx.tape import CELL, Leaf
from fx.tensor import Tensor, new_tensor

SCALARS = frozenset((bool, int, float, complex))


def argument(name: str, x: Any, beside: Tensor | None = None) -> Tensor:
    """``x`` as a tensor; a cell is read. What is none yet comes to the device of ``beside``.

    Raises:
        DTypeError: if it is no tensor, array or scalar.
    """
    if type(x) is Tensor:
        return x
    if isinstance(x, Tensor):
        return x.read() if x.level == CELL and not x.written else x
    if type(x) in SCALARS or isinstance(x, (np.ndarray, np.generic, StagedNumber)):
        return as_tensor(x, device=None if beside is None else beside.device)
    raise DTypeError(
        f"{name} takes tensors, got {type(x).__name__}; write fx.asarray(...) around it"
    )


def viewed(name: str, x: Any) -> Tensor:
    """``x`` as a tensor, of which a view is to be given: also a cell stays itself."""
    return x if isinstance(x, Tensor) else argument(name, x)


def same_view(x: Tensor) -> Tensor:
    """A view of ``x`` of its own shape: itself, and of a cell a tensor.

    Where a program may write, another tensor of the same elements.
    """
    leaf = False
    if writing.enabled and type(x) is Tensor and not writing.started:
        leaf = type(x._node) is Leaf
        if not leaf:
            return _another(x)
    if leaf or modes.views or (x.level == CELL and not x.written):
        return shape_prims.reshape(x, shape=x._shape)  # type: ignore[no-any-return]
    return x


def _another(x: Tensor) -> Tensor:
    """Another tensor of the same array, before the first write, which would not tell the two."""
    out = new_tensor(x._a)
    out._node = x._node
    known = getattr(x, "_view", None)
    if known is not None and known.family is not None:
        writing.note(x, out, shape_prims.reshape, {"shape": x._shape})
    elif known is not None:
        out._view = known.another(x)
    return out


def own(x: Tensor) -> Tensor:
    """``x`` as PyTorch's copy of it: where a program may write, in memory of its own."""
    if not writing.enabled:
        return x
    return compare.converted(x, x._dtype)  # type: ignore[no-any-return]


def ordered(name: str, x: Any) -> Tensor:
    """``x`` as a tensor of a dtype that has an order.

    Raises:
        DTypeError: for complex ``x``.
    """
    x = argument(name, x)
    if x._dtype.kind == "c":
        check_ordered(name, x)
    return x


def floating(name: str, x: Any) -> Tensor:
    """``x`` as a tensor; integers and bool become the default floating dtype."""
    x = argument(name, x)
    dtype = x._dtype
    if dtype in dtypes.INEXACT:
        return x
    return compare.astype(x, dtype=dtypes.to_float(dtype))


def cast(x: Tensor, dtype: Any) -> Tensor:
    """``x`` in ``dtype``; itself if it has it."""
    own = x._dtype
    return x if own is dtype or own == dtype else compare.converted(x, dtype)


def classes(name: str, x: Tensor, count: int) -> Tensor:
    """Integers ``x`` as int64; those outside of 0..count - 1 are refused, compiled too.

    Raises:
        IndexingError: naming the function.
    """
    unsigned = cast(cast(x, dtypes.int64), dtypes.uint64)  # negative ones lie beyond every size
    try:
        return indexing.wrap_index(unsigned, size=count)
    except IndexError:
        raise IndexingError(
            f"{name}: a class lies outside of 0..{count - 1}, of {count} classes"
        ) from None


def requested(x: Tensor, dtype: Any) -> Tensor:
    """``x`` in the dtype that a ``dtype=`` argument names; None leaves it."""
    return x if dtype is None else cast(x, dtypes.as_dtype(dtype))


def known_scalar(x: Any, value: Any, float_only: bool = False) -> Tensor | None:
    """The tensor of a weak scalar that met the dtype of ``x`` before, ``x`` being plain.

    With ``float_only`` that dtype has to be floating.
    """
    weak = (in_floats if float_only else weak_numbers).get(type(value))
    if weak is not None and type(x) is Tensor:
        array = x._a
        if type(array) is np.ndarray and (known := weak.get(array.dtype)) is not None:
            return known.get(value if value else repr(value))
    return None


def operands(name: str, x: Any, y: Any, float_only: bool = False) -> tuple[Tensor, Tensor]:
    """Both operands in their common dtype, Python scalars being weak.

    Raises:
        DTypeError: if one is no tensor, array or scalar, or the dtypes have no common one.
    """
    if type(x) is Tensor and type(y) is Tensor and x._a.dtype is y._a.dtype and not float_only:
        return x, y
    if isinstance(x, Tensor):
        if x.level == CELL:
            return operands(name, x.read(), y, float_only)
        if isinstance(y, Tensor) and y.level == CELL:
            return operands(name, x, y.read(), float_only)
        known = known_scalar(x, y, float_only)
        if known is not None:
            return x, known
        other = as_operand(y, x)
        if other is not NotImplemented:
            return promote(x, other, float_only)
    elif isinstance(y, Tensor):
        other = as_operand(x, y)
        if other is not NotImplemented:
            return promote(other, y, float_only)
    return promote(argument(name, x), argument(name, y), float_only)


def alike(name: str, *xs: Any) -> list[Tensor]:
    """All operands in their common floating dtype, Python scalars being weak."""
    lead = xs[0]
    for x in xs[1:]:
        lead = operands(name, lead, x, True)[0]
    lead = floating(name, lead)
    return [operands(name, x, lead, True)[0] for x in xs]


def partner(name: str, word: str, value: Any, x: Tensor) -> Tensor:
    """An argument that takes the dtype of ``x``: a tensor, an array or a weak scalar.

    Raises:
        DTypeError: naming the function and the argument, if it is none of these, or complex where
            ``x`` is not.
    """
    if type(value) is Tensor and value._dtype is x._dtype:
        return value
    found = known_scalar(x, value)
    if found is not None:
        return found
    found = as_operand(value, x)
    if found is NotImplemented:
        raise DTypeError(
            f"{name}: {word} must be a tensor or a number, got {type(value).__name__}; "
            f"write {word}=fx.asarray(...)"
        )
    if found._dtype.kind == "c" and x._dtype.kind != "c":
        raise DTypeError(
            f"{name}: {word} is {found._dtype.name}, which {x._dtype.name} does not hold; write "
            f"{word}={word}.real, or x.astype(fx.{found._dtype.name})"
        )
    return cast(found, x._dtype)


def number_or_partner(name: str, word: str, value: Any, x: Tensor) -> Any:
    """The same, but that a Python number stays one where x is floating: kernels take it."""
    if type(value) in (float, int) and x._dtype in dtypes.FLOATING:
        return value
    return partner(name, word, value, x)


def common_dtype(name: str, values: Iterable[Any]) -> Any:
    """The dtype that tensors, arrays and weak scalars are promoted to together."""
    found, weak = None, []
    for value in values:
        if type(value) in SCALARS:
            weak.append(value)
        elif isinstance(value, np.generic):
            weak.append(value.item())
        elif type(value) is StagedNumber:
            weak.append(weak_number(value))
        else:
            dtype = argument(name, value).dtype
            found = dtype if found is None else dtypes.promote_types(found, dtype)
    for value in weak:
        if found is None:
            found = dtypes.dtype_of_scalar(value)
        else:
            found = dtypes.result_dtype_with_scalar(found, value)
    return found


def promoted(name: str, *values: Any) -> list[Tensor]:
    """All operands in their common dtype, Python scalars being weak."""
    lead, plain = values[0], True
    if isinstance(lead, Tensor):
        dtype = lead._a.dtype if type(lead) is Tensor else lead._dtype
        for v in values:
            if type(v) is Tensor:
                if v._a.dtype is not dtype:
                    break
            elif isinstance(v, Tensor) and v._dtype is dtype:
                plain = False
            else:
                break
        else:
            return list(values) if plain else [argument(name, v) for v in values]
    dtype = common_dtype(name, values)
    values = tuple([v.item() if isinstance(v, np.generic) else v for v in values])
    device = next((v.device.name for v in values if isinstance(v, Tensor)), None)
    if device is None:
        return [as_tensor(v, dtype=dtype) for v in values]
    return [
        creation.constant(v, dtype, device)
        if type(v) in SCALARS
        else cast(argument(name, v), dtype)
        for v in values
    ]


def accumulator(dtype: Any, unsigned: Any = dtypes.uint64) -> Any:
    """The dtype in which sums and products of ``dtype`` are returned.

    Integers go to 64 bits; where unsigned ones go differs between the standard and PyTorch.
    """
    kind = dtype.kind
    if kind == "u":
        return unsigned
    return dtypes.int64 if kind in "ib" else dtype


def averaged(name: str, x: Any, dtype: Any = None) -> Tensor:
    """``x`` in a dtype that has a mean.

    Raises:
        DTypeError: for integers and bool.
    """
    x = requested(argument(name, x), dtype)
    if x._dtype.kind in "biu":
        raise DTypeError(
            f"{name} takes a floating dtype, got {x.dtype.name}; "
            f"write fx.{name}(x.astype(fx.float32)) or fx.{name}(x, dtype=fx.float32)"
        )
    return x


def boolean(name: str, mask: Any) -> Tensor:
    """A condition or mask as a tensor.

    Raises:
        DTypeError: if it is not bool.
    """
    mask = argument(name, mask)
    if mask._dtype != dtypes.bool_:
        word = "condition" if name == "where" else "mask"
        raise DTypeError(f"{name}: the {word} must be bool, got {mask.dtype.name}; write m != 0")
    return mask


def same_device(name: str, x: Tensor, y: Tensor) -> None:
    """Refuse two tensors on different devices.

    Raises:
        DeviceError: naming the function and both.
    """
    if x.device != y.device:
        raise DeviceError(
            f"{name} got tensors on different devices: {x.spec}, {y.spec}; move them together, "
            f"for example x.to({y.device.name!r})"
        )


def truth(x: Tensor) -> Tensor:
    """``x != 0`` as bool."""
    if x._dtype == dtypes.bool_:
        return x
    return compare.not_equal(x, creation.constant_like(0, x))


def of_scalar(function: Callable[..., Any], x: Tensor, *args: Any, **options: Any) -> Any:
    """What a function of one axis gives for a scalar, which is a line of one element.

    PyTorch takes ``dim=0`` and ``dim=-1`` of a scalar; what comes out is a scalar again.

    Args:
        function: called with ``x``, ``args`` and ``options``, scalar tensors as lines.
        x: the scalar.
    """

    def line(value: Any) -> Any:
        scalar = isinstance(value, Tensor) and not value.shape
        return shape_prims.reshaped(value, (1,)) if scalar else value

    def back(out: Tensor) -> Tensor:
        return shape_prims.reshaped(out, ()) if out._shape == (1,) else out

    out = function(line(x), *map(line, args), **{k: line(v) for k, v in options.items()})
    return type(out)(*map(back, out)) if isinstance(out, tuple) else back(out)


def flattened(x: Tensor) -> Tensor:
    """All elements along one axis, for functions that give no view of them."""
    shape = x._shape
    return x if len(shape) == 1 else shape_prims.reshaped(x, (prod(shape),))  # type: ignore[no-any-return]


def iota(size: int, like: Tensor, start: int = 0, step: int = 1) -> Tensor:
    """``start + step * i`` for i < size, int64, on the device of ``like``."""
    return creation.iota(
        shape=(size,), axis=0, start=start, step=step, dtype=dtypes.int64, device=like.device.name
    )


def public(namespace: dict[str, Any], but: tuple[str, ...] = ()) -> list[str]:
    """The names for ``__all__``: the functions a module defines for users, aliases too."""
    home = namespace["__name__"]
    return [
        name
        for name, value in namespace.items()
        if not name.startswith("_")
        and name not in but
        and not isinstance(value, type)
        and getattr(value, "__module__", None) == home
    ]


def offered(namespace: dict[str, Any], *more: str) -> list[str]:
    """The names for ``__all__`` of a package: what it imports from fx, no modules, and ``more``."""
    own = [n for n, v in namespace.items() if n[0] != "_" and v is not offered and _is_of_fx(v)]
    return [*own, *more]


def _is_of_fx(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).startswith("fx.")
