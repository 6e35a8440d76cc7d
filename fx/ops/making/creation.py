"""Creation functions: the Python Array API's, with PyTorch's ``requires_grad=``."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

import fx.prims.compare as compare
import fx.prims.creation as prims
import fx.prims.elementwise as elementwise
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.config import default_device, default_dtype, modes, writing
from fx.devices import as_device, name_of
from fx.errors import DTypeError, ShapeError
from fx.ops.axes import integer
from fx.ops.convert import as_tensor, device_name
from fx.ops.making.interop import with_grad
from fx.tape import CELL
from fx.tensor import Tensor, new_tensor


def _shape(name: str, sizes: tuple[Any, ...], shape: Any) -> tuple[int, ...]:
    """Sizes from ``zeros(2, 3)``, ``zeros((2, 3))`` or ``zeros(shape=(2, 3))`` as plain ints."""
    given: Any = sizes if shape is None else shape
    if len(sizes) == 1 and type(sizes[0]) is tuple and shape is None:
        given = sizes[0]
    for n in given if type(given) is tuple else (None,):
        if type(n) is not int or n < 0:
            break
    else:
        return given  # type: ignore[no-any-return]
    if shape is None and len(sizes) == 1 and hasattr(sizes[0], "__iter__"):
        given = sizes[0]
        if isinstance(given, Tensor) and not given.ndim:
            given = sizes
    if not hasattr(given, "__iter__"):
        given = (given,)
    try:
        out = tuple([n if type(n) is int else n.__index__() for n in given])
    except (AttributeError, TypeError):
        raise DTypeError(
            f"{name}: sizes must be integers, got {_listed(given)}; write fx.{name}((2, 3))"
        ) from None
    if out and min(out) < 0:
        raise ShapeError(f"{name}: sizes must not be negative, got {out}")
    return out


def _beside(sizes: tuple[Any, ...], dtype: Any) -> tuple[tuple[Any, ...], Any]:
    """``zeros((2, 3), fx.int32)``, as NumPy has it: the shape, and a dtype in the second place."""
    second = sizes[1]
    if dtype is not None or isinstance(second, Tensor | np.generic):
        return sizes, dtype
    if isinstance(second, str | type) or hasattr(second, "itemsize"):
        return sizes[:1], dtypes.as_dtype(second)
    return sizes, dtype


def _listed(given: Any) -> str:
    return f"a tensor of shape {given.shape}" if isinstance(given, Tensor) else f"{tuple(given)}"


def _filled(
    name: str, shape: tuple[int, ...], value: Any, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    wanted = default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    where = default_device() if device is None else as_device(device).name
    out: Tensor = prims.filled(shape, value, wanted, where)
    return with_grad(out, name) if requires_grad else out


def filled(name: str, value: Any) -> Any:
    """``f(sizes, dtype, device, requires_grad)`` for a function that fills with one value."""

    def fill(size: tuple[Any, ...], dtype: Any, device: Any, requires_grad: bool) -> Tensor:
        return _filled(name, _shape(name, size, None), value, dtype, device, requires_grad)

    return fill


def zeros(
    *size: Any,
    shape: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of zeros.

    Args:
        size: the shape, as one tuple or as several ints; also as ``shape=``. A dtype may come after
            a tuple, as in NumPy.
        dtype: the default dtype unless told.
        device: the default device unless told.
        requires_grad: whether ``.backward()`` accumulates a gradient for it.

    Raises:
        ShapeError: for a negative size.

    Example:
        >>> import fx
        >>> fx.zeros(2, 3)
        tensor([[0., 0., 0.],
                [0., 0., 0.]])
    """
    if len(size) == 2 and type(size[1]) is not int:
        size, dtype = _beside(size, dtype)
    return _filled("zeros", _shape("zeros", size, shape), 0, dtype, device, requires_grad)


def ones(
    *size: Any,
    shape: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of ones; arguments as in ``fx.zeros``.

    Example:
        >>> import fx
        >>> fx.ones((2,), dtype=fx.int64)
        tensor([1, 1])
    """
    if len(size) == 2 and type(size[1]) is not int:
        size, dtype = _beside(size, dtype)
    return _filled("ones", _shape("ones", size, shape), 1, dtype, device, requires_grad)


def empty(
    *size: Any,
    shape: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor whose values nobody should rely on (they are zeros); arguments as in ``fx.zeros``.

    Example:
        >>> import fx
        >>> fx.empty(2, 0).shape
        (2, 0)
    """
    if len(size) == 2 and type(size[1]) is not int:
        size, dtype = _beside(size, dtype)
    return _filled("empty", _shape("empty", size, shape), 0, dtype, device, requires_grad)


def full(
    shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of one value.

    Args:
        shape: a tuple of ints, or one int.
        fill_value: a Python number, or a 0-d tensor, through which gradients flow.
        dtype: that of ``fill_value`` unless told: int64 for an int, the default for a float.
        device: the default device unless told.
        requires_grad: whether ``.backward()`` accumulates a gradient for it.

    Raises:
        ShapeError: for a negative size, or a ``fill_value`` with axes.
        DTypeError: if ``fill_value`` does not fit ``dtype``.

    Example:
        >>> import fx
        >>> fx.full((2,), 7)
        tensor([7, 7])
    """
    sizes = _shape("full", (shape,), None)
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    name = device_name(device)
    if type(fill_value) is float and (wanted is None or wanted in dtypes.FLOATING):
        wanted = default_dtype() if wanted is None else wanted
        out: Tensor = prims.filled(sizes, fill_value, wanted, name)
    elif type(fill_value) in (int, float, bool):
        value = as_tensor(fill_value, wanted, name, "full")  # refuses what does not fit
        out = prims.full(shape=sizes, value=fill_value, dtype=value._dtype, device=name)
    else:
        value = as_tensor(fill_value, wanted, device, "full")
        if value.ndim:
            raise ShapeError(
                f"full: fill_value must be one number, got shape {value.shape}; "
                f"write fx.broadcast_to(fill_value, {sizes})"
            )
        out = shape_prims.stretched(value, sizes)
    return with_grad(out, "full") if requires_grad else out


def zeros_like(
    x: Any, /, dtype: Any = None, *, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Zeros with the shape, and unless told the dtype and device, of ``x``.

    Example:
        >>> import fx
        >>> fx.zeros_like(fx.tensor([1, 2]))
        tensor([0, 0])
    """
    return _like("zeros_like", x, 0, dtype, device, requires_grad)


def ones_like(
    x: Any, /, dtype: Any = None, *, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones with the shape, and unless told the dtype and device, of ``x``.

    Example:
        >>> import fx
        >>> fx.ones_like(fx.tensor([1, 2]), dtype=fx.float32)
        tensor([1., 1.])
    """
    return _like("ones_like", x, 1, dtype, device, requires_grad)


def empty_like(
    x: Any, /, dtype: Any = None, *, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """``fx.empty`` with the shape, and unless told the dtype and device, of ``x``.

    Example:
        >>> import fx
        >>> fx.empty_like(fx.ones(3)).shape
        (3,)
    """
    return _like("empty_like", x, 0, dtype, device, requires_grad)


def full_like(
    x: Any, /, fill_value: Any, dtype: Any = None, *, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """One value with the shape, and unless told the dtype and device, of ``x``.

    Raises:
        DTypeError: if ``fill_value`` does not fit the dtype.

    Example:
        >>> import fx
        >>> fx.full_like(fx.ones(2), 3)
        tensor([3., 3.])
    """
    x = as_tensor(x)
    if type(fill_value) is float and dtype is None and x._dtype in dtypes.FLOATING:
        return _like("full_like", x, fill_value, None, device, requires_grad)
    out = full(
        x._shape,
        fill_value,
        dtype=dtype or x._dtype,
        device=device or x.device,
        requires_grad=requires_grad,
    )
    return lay_as(out, x) if writing.enabled else out


def _like(name: str, x: Any, value: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    if type(x) is not Tensor:
        x = as_tensor(x)
    wanted = x._dtype if dtype is None else dtypes.as_dtype(dtype)
    if device is None and type(x) is Tensor:
        where = name_of(x._a)
    else:
        where = device_name(device or x.device)
    out: Tensor = prims.filled(x._shape, value, wanted, where)
    if writing.enabled:
        lay_as(out, x)
    return with_grad(out, name) if requires_grad else out


def lay_as(out: Tensor, x: Any) -> Tensor:
    """Let a new tensor lie in memory as another of its shape does, as PyTorch's ``*_like`` do."""
    held = x if type(x) is Tensor or x.level != CELL else x.read()
    if type(held) is Tensor and type(out) is Tensor and type(held._a) is np.ndarray:
        array = held._a
        if array.flags.c_contiguous:
            return out
        if array.size and all(array.strides) and array.shape == out._a.shape:
            laid = np.empty_like(array, dtype=out._a.dtype, order="K")
            laid[...] = out._a
            out._a = laid
    return out


def linspace(
    start: Any, stop: Any, /, num: int = 100, endpoint: bool = True, retstep: bool = False, *,
    dtype: Any = None, device: Any = None, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """``num`` numbers from ``start`` to ``stop``, evenly apart; both ends are exact.

    Args:
        start, stop: Python numbers, or 0-d tensors, through which gradients flow.
        num: how many.
        dtype: the default dtype unless told, complex where an end is complex.
        device: the default device unless told.
        endpoint: whether ``stop`` is the last of them, or would be the next.
        retstep: whether to return the distance of neighbours as well, as a number.
        requires_grad: whether ``.backward()`` accumulates a gradient for it.

    Raises:
        ShapeError: if ``num`` is negative.

    Example:
        >>> import fx
        >>> fx.linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    num = integer("linspace", "num", num)
    if num < 0:
        raise ShapeError(f"linspace: num must not be negative, got {num}")
    name = device_name(device)
    plain = type(start) in _REAL and type(stop) in _REAL
    shapes = [] if plain else [getattr(end, "shape", ()) for end in (start, stop)]
    if not plain and shapes != [(), ()]:
        raise ShapeError(
            f"linspace: start and stop must be numbers or 0-d tensors, got shapes {shapes[0]} and "
            f"{shapes[1]}; write fx.vmap(lambda a, b: fx.linspace(a, b, {num}))(start, stop)"
        )
    if retstep:
        gaps = num - 1 if endpoint else num
        numbers = linspace(
            start, stop, num, dtype=dtype, device=device, endpoint=endpoint,
            requires_grad=requires_grad,
        )  # fmt: skip
        return numbers, (stop - start) / gaps if gaps > 0 else float("nan")
    if not plain and (isinstance(start, Tensor) or isinstance(stop, Tensor)):
        return _between(start, stop, num, endpoint, dtype, name)
    if dtype is not None:
        wanted = dtypes.as_dtype(dtype)
    elif plain:
        wanted = default_dtype()
    else:
        is_complex = isinstance(start, complex) or isinstance(stop, complex)
        wanted = dtypes.dtype_of_scalar(1j if is_complex else 1.0)
    gaps = num - 1 if endpoint else num
    step = (stop - start) / gaps if gaps > 0 else 0.0
    start = start + 0.0  # so that integer dtypes are reached from floats as well
    if endpoint and 1 < num <= len(_LINE) and name == "cpu" and modes.stage is None:
        out = new_tensor(_both_ways(start, stop + 0.0, step, num, wanted))
    else:
        whole = wanted in dtypes.INTEGRAL or wanted == dtypes.bool_  # which count by whole steps
        counts = dtypes.float64 if whole else wanted
        if endpoint and num > 1:  # from both ends to the middle
            half = num // 2
            left = prims.counted((half,), 0, start, step, counts, name)
            right = prims.counted((num - half,), 0, stop + 0.0, -step, counts, name)
            right = shape_prims.flip(right, axes=(0,))
            out = shape_prims.concatenate(left, right, axis=0)
        else:
            out = prims.counted((num,), 0, start, step, counts, name)
        out = compare.astype(out, dtype=wanted) if whole else out
    return with_grad(out, "linspace") if requires_grad else out


def _between(start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, device: str) -> Tensor:
    """``linspace`` of tensors, computed in the dtype of the result: it may be finer than theirs."""
    start, stop = as_tensor(start), as_tensor(stop)
    if dtype is None:
        both = dtypes.promote_types(start._dtype, stop._dtype)
        wanted = dtypes.promote_types(both, default_dtype())
    else:
        wanted = dtypes.as_dtype(dtype)
    inner = wanted if wanted in dtypes.INEXACT else dtypes.float64
    t = linspace(0.0, 1.0, num, endpoint=endpoint, device=device, dtype=dtypes.real_of(inner))
    start, stop = compare.astype(start, dtype=inner), compare.astype(stop, dtype=inner)
    return compare.astype(start * (1.0 - t) + stop * t, dtype=wanted)  # type: ignore[no-any-return]


def _both_ways(start: Any, stop: Any, step: Any, num: int, dtype: Any) -> np.ndarray:
    """A few numbers of ``linspace``, from both ends to the middle."""
    half = num // 2
    out = _both_lines(num) * step
    left, right = out[:half], out[half:]
    np.add(left, start, left)
    np.add(right, stop, right)
    return out if out.dtype is dtype else out.astype(dtype)


@lru_cache(maxsize=16)
def _both_lines(num: int) -> np.ndarray:
    """The steps of so many numbers to the end that is nearer: 0, 1 ... -1, -0."""
    half = num // 2
    return np.concatenate([_LINE[:half], -_LINE[: num - half][::-1]])


_REAL = frozenset((int, float))
_LINE = np.arange(1 << 14, dtype=np.float64)


def logspace(
    start: Any, stop: Any, /, num: int = 100, base: float = 10.0, *, dtype: Any = None,
    device: Any = None, endpoint: bool = True, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``num`` numbers from ``base ** start`` to ``base ** stop``, evenly apart in their logarithm.

    Args:
        start, stop: Python numbers: the exponents of the ends.
        num: how many.
        base: the base, positive.
        dtype, device, endpoint, requires_grad: as in ``fx.linspace``.

    Example:
        >>> import fx
        >>> fx.logspace(0, 3, 4)
        tensor([   1.,   10.,  100., 1000.])
    """
    if isinstance(base, bool):
        raise TypeError("logspace: the argument after num is base; write endpoint= by name")
    wanted = default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    exponents = linspace(start, stop, num, dtype=dtypes.float64, device=device, endpoint=endpoint)
    powers = elementwise.power(prims.constant_like(float(base), exponents), exponents)
    out = compare.astype(powers, dtype=wanted)
    return with_grad(out, "logspace") if requires_grad else out
