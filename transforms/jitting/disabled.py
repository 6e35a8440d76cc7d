"""``disable_jit``: compiled functions run as the Python that they were made of."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fx.transforms.jitting.function import Jitted

_compiled = Jitted.__call__
_lock = threading.Lock()
_running = 0


def _as_it_is(self: Jitted, *args: Any, **kwargs: Any) -> Any:
    return self.function(*args, **kwargs)


@contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """A context in which jitted functions, of all threads, run eagerly.

    Prints and debuggers see values, and errors the lines where they happen. What was compiled stays
    compiled. A call of a jitted function costs nothing more outside: inside, the class calls
    something else.

    Args:
        disable: False leaves everything as it is.

    Source: ``jax.disable_jit``.

    Example:
        >>> import fx
        >>> @fx.jit
        ... def f(x):
        ...     print(type(x).__name__)
        ...     return x * 2
        >>> with fx.disable_jit():
        ...     y = f(fx.tensor(1.0))
        Tensor
    """
    global _running
    with _lock:
        _running += bool(disable)
        if disable and _running == 1:
            Jitted.__call__ = _as_it_is  # type: ignore[method-assign]
    try:
        yield
    finally:
        with _lock:
            _running -= bool(disable)
            if disable and not _running:
                Jitted.__call__ = _compiled  # type: ignore[method-assign]
