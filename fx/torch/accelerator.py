"""``torch.accelerator``: there is none."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """None."""


def synchronize(device: Any = None) -> None:
    """Nothing: every operation has ended when it returns."""


def empty_cache() -> None:
    """Nothing: there is no cache."""
