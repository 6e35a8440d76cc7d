"""Ranks that are actors of Ray (``fx.ray``), and the backend ``"ray"``."""

from __future__ import annotations

from typing import Any

PIP = "pip install 'fxgrad[ray]'"


def engine() -> Any:
    """The package ``ray``.

    Raises:
        DistBackendError: if it is not installed.
    """
    try:
        import ray
    except ImportError as error:
        from fx.distributed.errors import DistBackendError

        raise DistBackendError(f"there is no Ray here ({error}); write {PIP}") from None
    return ray
