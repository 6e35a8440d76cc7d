"""Ranges: numbers that are evenly apart."""

from __future__ import annotations

from math import ceil
from operator import index
from typing import Any

import numpy as np

import fx.prims.compare as compare
import fx.prims.creation as prims
import fx.prims.elementwise as elementwise
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.config import default_dtype, modes
from fx.errors import DTypeError, ShapeError
from fx.ops.axes import integer
from fx.ops.convert import device_name
from fx.ops.making.interop import with_grad
from fx.tensor import Tensor, new_tensor


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The numbers ``start, start + step, ...`` before ``stop``.

    Args:
        start: the first number; where ``stop`` is None, the end of a range from 0.
        stop: the end, which is not included.
        step: the distance, not 0.
        dtype: int64 where all three are ints, else the default dtype. As in PyTorch int64
            makes ints of all three, a narrower integer dtype of ``start`` and ``step``.
        device: the default device unless told.
        requires_grad: whether ``.backward()`` accumulates a gradient for it.

    Raises:
        ValueError: if ``step`` is 0.
        DTypeError: if an integer of them does not fit int64.

    Example:
        >>> import fx
        >>> fx.arange(1, 10, 3)
        tensor([1, 4, 7])
    """
    if stop is None:
        start, stop = 0, start
    exact = type(start) is type(stop) is type(step) is int
    if not exact:
        start, stop, step = (x.item() if isinstance(x, Tensor) else x for x in (start, stop, step))
        given, floats = (start, stop, step), float | np.floating
        exact = all(hasattr(v, "__index__") and not isinstance(v, floats) for v in given)
    if dtype is None:
        wanted = dtypes.int64 if exact else default_dtype()
    else:
        wanted = dtypes.as_dtype(dtype)
        if not exact and wanted == dtypes.int64:
            exact, (start, stop, step) = True, map(int, (start, stop, step))
    if step == 0:
        raise ValueError(f"arange({start}, {stop}, {step}): the step must not be 0")
    if exact:
        numbers = range(start, stop, step)
        size = len(numbers)
        if not (-_BEYOND <= numbers.start < _BEYOND and -_BEYOND <= numbers.stop <= _BEYOND):
            _check_numbers(numbers, wanted)
    else:
        size = index(max(0, ceil((stop - start) / step)))
        if wanted.kind in "iu":
            start, step = int(start), int(step)
    out: Tensor = prims.counted((size,), 0, start, step, wanted, device_name(device))
    return with_grad(out, "arange") if requires_grad else out


_BEYOND = 2**63


def _check_numbers(numbers: range, dtype: Any) -> None:
    if dtype.kind in "iu" and len(numbers):
        for number in (numbers[0], numbers[-1]):
            if not -_BEYOND <= number < _BEYOND:
                raise DTypeError(
                    f"arange({numbers.start}, {numbers.stop}, {numbers.step}): {number} does not "
                    f"fit int64; choose another dtype, for example dtype=fx.float64"
                )


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
    shapes = [getattr(end, "shape", ()) for end in (start, stop)]
    if shapes != [(), ()]:
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
    if isinstance(start, Tensor) or isinstance(stop, Tensor):
        t = linspace(0.0, 1.0, num, endpoint=endpoint, device=name)
        out = start * (1.0 - t) + stop * t
        return out if dtype is None else compare.astype(out, dtype=dtypes.as_dtype(dtype))
    if dtype is None:
        is_complex = isinstance(start, complex) or isinstance(stop, complex)
        wanted = dtypes.dtype_of_scalar(1j if is_complex else 1.0)
    else:
        wanted = dtypes.as_dtype(dtype)
    gaps = num - 1 if endpoint else num
    step = (stop - start) / gaps if gaps > 0 else 0.0
    start = start + 0.0  # so that integer dtypes are reached from floats as well
    if endpoint and num > 1 and name == "cpu" and modes.stage is None:
        out = new_tensor(_both_ways(start, stop + 0.0, step, num, wanted))
    elif endpoint and num > 1:  # from both ends to the middle
        half = num // 2
        left = prims.counted((half,), 0, start, step, wanted, name)
        right = prims.counted((num - half,), 0, stop + 0.0, -step, wanted, name)
        right = shape_prims.flip(right, axes=(0,))
        out = shape_prims.concatenate(left, right, axis=0)
    else:
        out = prims.counted((num,), 0, start, step, wanted, name)
    return with_grad(out, "linspace") if requires_grad else out


def _both_ways(start: Any, stop: Any, step: Any, num: int, dtype: Any) -> np.ndarray:
    """The numbers of ``linspace``, from both ends to the middle."""
    half = num // 2
    out = np.empty(num, dtype)
    gaps = step * np.arange(num - half, dtype=np.float64)
    out[:half] = start + gaps[:half]
    out[: half - 1 : -1] = stop - gaps
    return out


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
