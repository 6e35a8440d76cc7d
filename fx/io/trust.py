"""Classes and functions that files may use because the user has said so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

trusted: dict[str, Any] = {}  # by the full name that files give them


def _named(entry: Any) -> tuple[str, Any]:
    if isinstance(entry, tuple):
        if len(entry) != 2 or type(entry[1]) is not str:
            raise TypeError(
                f"add_safe_globals takes classes, functions, or pairs of one and the full name "
                f"that the file gives it, got {entry!r:.80}"
            )
        return entry[1], entry[0]
    return f"{entry.__module__}.{entry.__qualname__}", entry


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let files make objects of these classes, and call these functions.

    Args:
        safe_globals: classes and functions, or pairs of one and the name that files give it.

    Raises:
        TypeError: for an entry of another kind.

    Source: ``torch.serialization.add_safe_globals``.

    Example:
        >>> import argparse, io, fx
        >>> file = io.BytesIO()
        >>> fx.save({"args": argparse.Namespace(lr=0.1)}, file)
        >>> with fx.io.safe_globals([argparse.Namespace]):
        ...     fx.load(file)["args"].lr
        0.1
    """
    trusted.update(map(_named, safe_globals))


def get_safe_globals() -> list[Any]:
    """The classes and functions that files may use."""
    return list(trusted.values())


def clear_safe_globals() -> None:
    """Trust nothing any more but the table of fx."""
    trusted.clear()


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """``add_safe_globals`` for the block."""
    before = dict(trusted)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        trusted.clear()
        trusted.update(before)
