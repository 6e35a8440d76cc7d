"""Which implementation of attention to use: there is one, so a choice is checked and remembered."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from enum import Enum


class SDPBackend(Enum):
    """PyTorch's implementations of ``scaled_dot_product_attention``."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False
) -> Generator[None, None, None]:
    """A block in which attention runs on one of ``backends``; fx has one way, the same values.

    Raises:
        TypeError: for what is no ``SDPBackend``.

    Example:
        >>> from fx.nn.attention import SDPBackend, sdpa_kernel
        >>> with sdpa_kernel(SDPBackend.MATH):
        ...     pass
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    for one in chosen:
        if not isinstance(one, SDPBackend):
            raise TypeError(f"sdpa_kernel takes SDPBackend members, got {one!r}")
    yield


__all__ = ["SDPBackend", "sdpa_kernel"]
