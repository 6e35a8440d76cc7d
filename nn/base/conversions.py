"""Casting and moving a Module's parameters and buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

from fx.config import modes, no_grad
from fx.devices import Device, as_device
from fx.dtypes import FLOATING, INEXACT, as_dtype, bfloat16, float16, float32, float64
from fx.errors import DTypeError
from fx.nn.base.uninitialized import is_lazy
from fx.tensor import Tensor
from fx.transaction import whole


class Conversions:
    """The part of Module that rebinds its cells to other dtypes and devices."""

    children: Callable[[], Iterator[Any]]
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters and buffers to a dtype (floating and complex ones only) and a device.

        Takes ``to(dtype)``, ``to(device)``, ``to(device, dtype)`` or ``to(tensor)``;
        ``non_blocking`` and ``memory_format`` are accepted and change nothing. All of them change
        in one instant, after the last was made: an error or a signal leaves none or all moved.

        Raises:
            DTypeError: if the dtype is not floating or complex.
        """
        for name in ("non_blocking", "memory_format"):
            kwargs.pop(name, None)
        args = tuple(x for x in args if not isinstance(x, bool))
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
        return self._real_to(float32)

    def double(self) -> Self:
        """Cast floating parameters and buffers to float64."""
        return self._real_to(float64)

    def half(self) -> Self:
        """Cast floating parameters and buffers to float16."""
        return self._real_to(float16)

    def bfloat16(self) -> Self:
        """Cast floating parameters and buffers to bfloat16."""
        return self._real_to(bfloat16)

    def _real_to(self, dtype: Any) -> Self:
        return self._apply(lambda x: x.astype(dtype) if x.dtype in FLOATING else x)

    def cpu(self) -> Self:
        """Move parameters and buffers to the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        """Refused where there is no such device, which the DeviceError says."""
        return self.to("cuda" if device is None else _numbered(device))

    def type(self, dst_type: Any) -> Self:
        """Cast all parameters and buffers, integers too."""
        dtype = as_dtype(dst_type)
        return self._apply(lambda x: x.astype(dtype))

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Give parameters and buffers memory on a device, and no values to speak of.

        Parts of a mesh lie on the CPU, and stay parts.
        """
        from fx.ops.making.creation import empty_like

        cpu = str(device).partition(":")[0] == "cpu"
        kept = lambda x: cpu and x.device.name == "mesh"
        return self._apply(
            lambda x: empty_like(x) if kept(x) else empty_like(x, device=device), recurse
        )

    def share_memory(self) -> Self:
        """Itself: what parameters hold never changes."""
        return self

    @whole
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Rebind every parameter, gradient and buffer to what ``fn`` makes of it, all at once."""
        changes = modes.transaction
        if recurse:
            for module in self.children():
                if type(module)._apply is Conversions._apply:
                    module._apply(fn)
                else:
                    changes.outside(module._apply, fn)
        with no_grad():
            for cell in (*self._parameters.values(), *self._buffers.values()):
                if cell is None:
                    continue
                grad = cell.read_grad()
                changes.rebind(cell, fn(cell.value if is_lazy(cell) else cell.read()))
                if grad is not None:
                    changes.gradient(cell, fn(grad))
        return self


def _numbered(device: Any) -> str:
    return f"cuda:{device}" if isinstance(device, int) else str(device)


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
