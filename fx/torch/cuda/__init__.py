"""``torch.cuda``: there is none; the questions that scripts ask before they use it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from fx.errors import DeviceError
from fx.torch.cuda import amp


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing: ``torch.manual_seed`` seeds the one generator."""


manual_seed_all = manual_seed


def seed() -> None:
    """Nothing."""


seed_all = seed


def empty_cache() -> None:
    """Nothing: there is no cache."""


def synchronize(device: Any = None) -> None:
    """Nothing: every operation has ended when it returns."""


def memory_allocated(device: Any = None) -> int:
    """0."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing."""


reset_max_memory_allocated = reset_peak_memory_stats


@contextmanager
def device(device: Any) -> Any:
    """A context that changes nothing, for ``None`` and -1; there is no other device."""
    yield


def get_rng_state_all() -> list[Any]:
    """An empty list."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Nothing."""


def _refused(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise DeviceError(
            f"torch.cuda.{name}: fx has no CUDA device here; guard the line with "
            f"`if torch.cuda.is_available():`"
        )

    function.__name__ = name
    function.__doc__ = "Refused: there is no CUDA device."
    return function


current_device, get_device_name = _refused("current_device"), _refused("get_device_name")
get_device_properties, set_device = _refused("get_device_properties"), _refused("set_device")
get_device_capability, get_rng_state = _refused("get_device_capability"), _refused("get_rng_state")
OutOfMemoryError = MemoryError
Stream, Event = _refused("Stream"), _refused("Event")
