"""``torch.distributed.elastic.multiprocessing.errors``: ``record``.

``python -m fx.run`` hears of every exception that ends a rank, with its traceback.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


def record(fn: Callable[..., Any], error_handler: Any = None) -> Callable[..., Any]:
    """The function; the launcher shows what it raises whether or not it is recorded.

    Args:
        fn: a script's entry.
        error_handler: its ``initialize()`` is called before, and its ``record_exception(error)``
            with what the function raises.

    Example:
        >>> from fx.torch.distributed.elastic.multiprocessing.errors import record
        >>> @record
        ... def main():
        ...     return 3
        >>> main()
        3
    """

    @wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        if error_handler is None:
            return fn(*args, **kwargs)
        error_handler.initialize()
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            error_handler.record_exception(error)
            raise

    return called
