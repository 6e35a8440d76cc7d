"""Regions of mixed precision, and custom functions in them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from fx import dtypes
from fx.blocks import Block
from fx.config import modes
from fx.devices import Device
from fx.ops.autocasting import HALVES, cast_to
from fx.tree import map as tree_map

_DEVICES = ("cpu", "cuda", "xpu", "mps", "hpu", "mtia", "xla", "ipu", "meta")


class _Defaults:
    dtype: Any = dtypes.bfloat16


def get_autocast_dtype(device_type: str | None = None) -> Any:
    """The dtype of a region that names none: bfloat16 on the CPU, float16 on ``"cuda"``."""
    return dtypes.float16 if device_type == "cuda" else _Defaults.dtype


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Set the dtype of the regions that name none."""
    if device_type == "cpu":
        _Defaults.dtype = dtypes.as_dtype(dtype)


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether a region is running in this thread; PyTorch asks about CUDA without an argument."""
    return device_type == "cpu" and modes.autocast is not None


def set_autocast_enabled(device_type: Any, enabled: bool = False) -> None:
    """Begin or end a region without a block: what PyTorch's own blocks are made of."""
    if device_type == "cpu":
        modes.autocast = _Defaults.dtype if enabled else None


def is_autocast_available(device_type: str) -> bool:
    """Whether there is mixed precision on a device: on the CPU."""
    return device_type == "cpu"


class autocast(Block):
    """A region in which products take half-precision operands: a context manager and a decorator.

    Args:
        device_type: ``"cpu"``; regions of a device that is not there are not entered.
        dtype: bfloat16 or float16; ``get_autocast_dtype(device_type)`` unless told.
        enabled: False for a region within another in which nothing is cast.
        cache_enabled: accepted; casts are cheap or, under ``jit``, merged.

    Raises:
        RuntimeError: for a device that does not exist.

    Source: ``torch.amp.autocast``; the lists of operators are those of its CPU page.

    Example:
        >>> import fx
        >>> from fx.amp import autocast
        >>> x = fx.ones((2, 2))
        >>> with autocast("cpu", dtype=fx.bfloat16):
        ...     (x @ x).dtype.name
        'bfloat16'
    """

    __slots__ = ("device", "enabled", "fast_dtype")

    def __init__(
        self, device_type: Any, dtype: Any = None, enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:  # fmt: skip
        self._entries, self._watch = (), None
        kind = device_type.type if isinstance(device_type, Device) else device_type
        if not isinstance(kind, str):
            raise ValueError(
                f"Expected `device_type` of type `str`, got: `{type(kind)}`; write autocast('cpu')"
            )
        if kind not in _DEVICES:
            raise RuntimeError(
                f"there is no device of type {kind!r} to autocast on; write autocast('cpu')"
            )
        self.device = kind
        self.fast_dtype = get_autocast_dtype(kind) if dtype is None else dtypes.as_dtype(dtype)
        self.enabled = bool(enabled)
        if not enabled:
            return
        if kind != "cpu":
            warnings.warn(
                f"User provided device_type of {kind!r}, but {kind.upper()} is not available. "
                f"Disabling", UserWarning, stacklevel=2,
            )  # fmt: skip
            self.enabled = False
        elif self.fast_dtype not in HALVES:
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                "CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
                UserWarning, stacklevel=2,
            )  # fmt: skip
            self.enabled = False

    def __enter__(self) -> autocast:
        entry = (modes.autocast, self._watch)
        self._watch = None
        self._entries = (*self._entries, entry)
        if self.device == "cpu":
            modes.autocast = self.fast_dtype if self.enabled else None
        return self

    def leave(self) -> None:
        """End the newest block."""
        modes.autocast, _ = self._entries[-1]
        self._entries = self._entries[:-1]

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        device, dtype, enabled = self.device, self.fast_dtype, self.enabled

        @wraps(function)
        def wrapped(*args: Any, **options: Any) -> Any:
            with autocast(device, dtype, enabled):
                return function(*args, **options)

        return wrapped


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str = "cpu", cast_inputs: Any = None
) -> Any:
    """Decorates ``forward`` of a custom function: what the region does within it.

    Args:
        fwd: the method.
        device_type: ``"cpu"``.
        cast_inputs: None to run in the region that is there; a dtype to cast the floating
            arguments to it and run without a region.

    Source: ``torch.amp.custom_fwd``.
    """
    if fwd is None:
        return partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @wraps(fwd)
    def decorated(*args: Any, **options: Any) -> Any:
        region = modes.autocast if device_type == "cpu" else None
        args[0]._dtype = _Defaults.dtype if region is None else region
        if cast_inputs is None or region is None:
            args[0]._fwd_used_autocast = region is not None
            return fwd(*args, **options)
        args[0]._fwd_used_autocast = False
        wanted = dtypes.as_dtype(cast_inputs)
        with autocast("cpu", enabled=False):
            rest, options = tree_map(partial(cast_to, wanted), (args[1:], options))
            return fwd(args[0], *rest, **options)

    return decorated


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str = "cpu") -> Any:
    """Decorates ``backward`` of a custom function: it runs in the region that ``forward`` ran in.

    Source: ``torch.amp.custom_bwd``.
    """
    if bwd is None:
        return partial(custom_bwd, device_type=device_type)

    @wraps(bwd)
    def decorated(*args: Any, **options: Any) -> Any:
        with autocast("cpu", enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **options)

    return decorated
