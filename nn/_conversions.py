"""Casting and moving a Module's parameters and buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

from fx.config import no_grad
from fx.devices import Device, as_device
from fx.dtypes import INEXACT, as_dtype, bfloat16, float16, float32, float64
from fx.errors import DTypeError
from fx.state import Cell
from fx.tensor import Tensor


class Conversions:
    """The part of Module that rebinds its cells to other dtypes and devices."""

    parameters: Callable[[], Iterator[Cell]]
    buffers: Callable[[], Iterator[Cell]]

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters and buffers to a dtype (floating ones only) and a device.

        Takes ``to(dtype)``, ``to(device)``, ``to(device, dtype)`` or ``to(tensor)``.

        Raises:
            DTypeError: if the dtype is not floating or complex.
        """
        kwargs.pop("non_blocking", None)
        dtype, device = _target(*args, **kwargs)
        if dtype is not None and dtype not in INEXACT:
            raise DTypeError(
                f"Module.to takes floating or complex dtypes, got {dtype.name}; integer buffers "
                f"keep their dtype"
            )

        def move(x: Tensor) -> Tensor:
            if dtype is not None and x.dtype in INEXACT and x.dtype != dtype:
                x = x.astype(dtype)
            return x if device is None or x.device == device else x.to(device)

        return self._apply(move)

    def float(self) -> Self:
        """Cast floating parameters and buffers to float32."""
        return self.to(float32)

    def double(self) -> Self:
        """Cast floating parameters and buffers to float64."""
        return self.to(float64)

    def half(self) -> Self:
        """Cast floating parameters and buffers to float16."""
        return self.to(float16)

    def bfloat16(self) -> Self:
        """Cast floating parameters and buffers to bfloat16."""
        return self.to(bfloat16)

    def cpu(self) -> Self:
        """Move parameters and buffers to the CPU."""
        return self.to("cpu")

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> Self:
        with no_grad():
            for cell in (*self.parameters(), *self.buffers()):
                grad = cell.grad
                cell.rebind(fn(cell.read()))
                if grad is not None:
                    cell.grad = fn(grad)
        return self


def _target(*args: Any, dtype: Any = None, device: Any = None) -> tuple[Any, Any]:
    """dtype and device of the arguments of ``to``."""
    for arg in args:
        if isinstance(arg, Tensor):
            dtype, device = arg.dtype, arg.device
        elif isinstance(arg, Device) or (isinstance(arg, str) and not _names_dtype(arg)):
            device = arg
        elif arg is not None:
            dtype = arg
    return (
        None if dtype is None else as_dtype(dtype),
        None if device is None else as_device(device),
    )


def _names_dtype(name: str) -> bool:
    try:
        as_dtype(name)
    except DTypeError:
        return False
    return True
