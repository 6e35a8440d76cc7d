"""A bar that shows how far a loop is, by tqdm."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from fx.tensor import Tensor


def progress(iterable: Any = None, **kwargs: Any) -> Any:
    """Show how far a loop over an iterable is, and how fast.

    Args:
        iterable: what is looped over: a DataLoader, a range, a list; None for a bar that is moved
            by ``bar.update(n)``.
        **kwargs: of ``tqdm.tqdm``: ``total``, ``desc``, ``unit``, ``leave``, ``disable`` ...

    Returns:
        a ``tqdm`` bar to loop over; ``bar.set_postfix(loss=loss)`` takes tensors of one element.

    Raises:
        ModuleNotFoundError: if tqdm is not installed.

    Example:
        >>> import fx, io
        >>> bar = fx.progress(range(3), desc="epoch", file=io.StringIO())
        >>> for step in bar:
        ...     bar.set_postfix(loss=fx.tensor(0.5))
        >>> bar.n
        3
    """
    return _bar("ipykernel" in sys.modules)(iterable, **kwargs)


@cache
def _bar(notebook: bool) -> Any:
    try:
        if notebook:
            from tqdm.auto import tqdm
        else:
            from tqdm import tqdm
    except ModuleNotFoundError as error:
        if error.name != "tqdm":
            raise
        raise ModuleNotFoundError(
            'fx.progress needs tqdm; write: pip install "fxgrad[progress]"', name="tqdm"
        ) from None

    class Bar(tqdm):  # type: ignore[misc]
        """tqdm, with tensors of one element shown as numbers."""

        def set_postfix(
            self, ordered_dict: Any = None, refresh: bool = True, **kwargs: Any
        ) -> None:
            """Show values after the bar."""
            shown = {**(ordered_dict or {}), **kwargs}
            super().set_postfix({k: _number(v) for k, v in shown.items()}, refresh)

    return Bar


def _number(value: Any) -> Any:
    if isinstance(value, Tensor) and value.size == 1:
        return value.detach().item()
    return value
