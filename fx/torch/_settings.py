"""Switches of ``torch`` that scripts flip: those that mean something here, and those that do not.

fx is deterministic, has one way of multiplying float32 matrices and denormals as they are; what
a switch cannot change is remembered, so that a script reads what it wrote.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from fx.amp import regions
from fx.autograd import anomalies
from fx.backends.cpu.threads import get_num_threads
from fx.seen import TORCH

_HELD: dict[str, Any] = {
    "deterministic": True, "warn_only": False, "precision": "highest", "warn_always": False,
    "cache": True, "nesting": 0,
}  # fmt: skip


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Remember ``mode``; every algorithm of fx is deterministic."""
    _HELD["deterministic"], _HELD["warn_only"] = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """What was asked for; True at first, since all are."""
    return _HELD["deterministic"]  # type: ignore[no-any-return]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What ``use_deterministic_algorithms`` was told."""
    return _HELD["warn_only"]  # type: ignore[no-any-return]


_DEBUG_MODES = ("default", "warn", "error")


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """``use_deterministic_algorithms`` by number or word: "default", "warn", "error".

    Raises:
        RuntimeError: for another one.
    """
    modes: dict[Any, int] = {word: i for i, word in enumerate(_DEBUG_MODES)}
    mode = modes.get(debug_mode, debug_mode)
    if mode not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected one of {_DEBUG_MODES} or 0, 1, 2, "
            f"got {debug_mode!r}"
        )
    use_deterministic_algorithms(mode != 0, warn_only=mode == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: ``use_deterministic_algorithms`` is off, warns, raises."""
    if not _HELD["deterministic"]:
        return 0
    return 1 if _HELD["warn_only"] else 2


def set_float32_matmul_precision(precision: str) -> None:
    """Remember the precision; float32 is always multiplied as float32.

    Raises:
        RuntimeError: for another word than "highest", "high" or "medium".
    """
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"{precision!r} is not one of 'highest', 'high', or 'medium'")
    _HELD["precision"] = precision


def get_float32_matmul_precision() -> str:
    """The precision that was asked for."""
    return _HELD["precision"]  # type: ignore[no-any-return]


def set_flush_denormal(mode: bool) -> bool:
    """False: fx computes with denormals as they are."""
    return False


def get_num_interop_threads() -> int:
    """The number of threads; there is one pool."""
    return get_num_threads()


def set_num_interop_threads(number: int) -> None:
    """Accepted; there is one pool, which ``set_num_threads`` sizes."""


def set_warn_always(mode: bool) -> None:
    """Remember whether every warning is to be shown; Python's filters decide."""
    _HELD["warn_always"] = bool(mode)


def is_warn_always_enabled() -> bool:
    """What ``set_warn_always`` was told."""
    return _HELD["warn_always"]  # type: ignore[no-any-return]


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Look for NaN in backward passes from now on: ``torch.autograd.set_detect_anomaly``."""
    anomalies.look(mode, check_nan)


def is_anomaly_enabled() -> bool:
    """Whether NaN is looked for in backward passes."""
    return anomalies.state()[0]


def is_anomaly_check_nan_enabled() -> bool:
    """Whether a NaN is an anomaly."""
    return anomalies.state()[1]


# autocast by the names of devices ----------------------------------------------------------------


def _of_device(kind: str, device: str) -> Any:
    def get() -> Any:
        return TORCH[regions.get_autocast_dtype(device)]

    def put(dtype: Any) -> None:
        regions.set_autocast_dtype(device, dtype)

    def ask() -> bool:
        return regions.is_autocast_enabled(device)

    def switch(enabled: bool) -> None:
        regions.set_autocast_enabled(device, enabled)

    functions = {"get_dtype": get, "set_dtype": put, "is_enabled": ask, "set_enabled": switch}
    function: Any = functions[kind]
    verb, noun = kind.split("_")
    function.__doc__ = f"``torch.{verb}_autocast_{noun}`` of {device!r}."
    return function


get_autocast_cpu_dtype, get_autocast_gpu_dtype = (
    _of_device("get_dtype", device) for device in ("cpu", "cuda")
)
set_autocast_cpu_dtype, set_autocast_gpu_dtype = (
    _of_device("set_dtype", device) for device in ("cpu", "cuda")
)
is_autocast_cpu_enabled = _of_device("is_enabled", "cpu")
set_autocast_cpu_enabled = _of_device("set_enabled", "cpu")


def autocast_increment_nesting() -> int:
    """One block deeper; the depth."""
    _HELD["nesting"] += 1
    return _HELD["nesting"]  # type: ignore[no-any-return]


def autocast_decrement_nesting() -> int:
    """One block less deep; the depth."""
    _HELD["nesting"] -= 1
    return _HELD["nesting"]  # type: ignore[no-any-return]


def clear_autocast_cache() -> None:
    """Nothing: no casts are kept."""


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Remember whether casts are to be kept; none are."""
    _HELD["cache"] = bool(enabled)


def is_autocast_cache_enabled() -> bool:
    """What ``set_autocast_cache_enabled`` was told."""
    return _HELD["cache"]  # type: ignore[no-any-return]


def init_num_threads() -> None:
    """Nothing: the pool begins with its first work."""


def is_vulkan_available() -> bool:
    """False."""
    return False


def compiled_with_cxx11_abi() -> bool:
    """True, as for every build of today."""
    return True


@contextmanager
def flags(*values: Any, **options: Any) -> Any:
    """A context that accepts any flag and changes nothing."""
    yield
