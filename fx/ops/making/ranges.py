"""Ranges: numbers from one to another by steps."""

from __future__ import annotations

from math import ceil
from operator import index
from typing import Any

import numpy as np

import fx.prims.creation as prims
from fx import dtypes
from fx.config import default_dtype
from fx.errors import DTypeError
from fx.ops.convert import device_name
from fx.ops.making.interop import with_grad
from fx.staged_number import StagedNumber, settled
from fx.tensor import Tensor


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
        if type(step) is not int or step != 1:  # how many there are is no sum of the ends
            start, stop, step = settled(start, stop, step)
        elif StagedNumber in (type(start), type(stop)) and stop < start:
            stop = start  # on which side the end lies is assumed: at other sizes it may be reached
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
