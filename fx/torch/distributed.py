"""``torch.distributed``: there is one process; the questions that scripts ask."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """False."""
    return False


def get_rank(group: Any = None) -> int:
    """0."""
    return 0


def get_world_size(group: Any = None) -> int:
    """1."""
    return 1


def barrier(*args: Any, **kwargs: Any) -> None:
    """Nothing: there is nobody to wait for."""


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"fx has no torch.distributed.{name}: there is one process; guard the line with "
        f"`if torch.distributed.is_available():`"
    )
