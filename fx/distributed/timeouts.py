"""How long is waited: a ``timedelta``, or a float of seconds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any


def span(timeout: Any, what: str) -> timedelta:
    """The timeout that a function was given.

    Raises:
        TypeError: if it is neither a ``timedelta`` nor a float of seconds.
    """
    if isinstance(timeout, timedelta):
        return timeout
    if isinstance(timeout, float):
        return timedelta(seconds=timeout)
    raise TypeError(
        f"{what}: Expected timeout argument to be of type datetime.timedelta, got {timeout!r}; "
        f"write datetime.timedelta(seconds={timeout if isinstance(timeout, int) else 30})"
    )
