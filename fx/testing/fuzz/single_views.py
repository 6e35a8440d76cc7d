"""torch's functions that return several views, one view at a time.

torch refuses to write into one of several views that a function returned together, which fx takes;
so for ``twins.py`` these functions make each view by itself.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def single_views() -> Iterator[None]:
    """torch's functions that return several views make them one by one, so that it lets them
    be written into; and iterating does."""
    for owner, name, function in _SINGLE_OLD:
        setattr(owner, name, functools.wraps(function)(_SINGLE[name]))
    try:
        yield
    finally:
        for owner, name, function in _SINGLE_OLD:
            setattr(owner, name, function)


def _unbind(x: Any, dim: int = 0) -> Any:
    return tuple(x.select(dim, i) for i in range(x.shape[dim]))


def _split(x: Any, size: Any, dim: int = 0) -> Any:
    length = x.shape[dim]
    if isinstance(size, int):
        size = [min(size, length - at) for at in range(0, length, size)] or [0]
    if sum(size) != length:
        raise RuntimeError("split_with_sizes expects split_sizes to sum exactly to the length")
    return tuple(x.narrow(dim, sum(size[:i]), n) for i, n in enumerate(size))


def _chunk(x: Any, chunks: int, dim: int = 0) -> Any:
    return _split(x, max(-(-x.shape[dim] // chunks), 1), dim)


def _sections(x: Any, sections: int, dim: int = 0) -> Any:
    size, more = divmod(x.shape[dim], sections)
    return _split(x, [size + (i < more) for i in range(sections)], dim)


def _equal(x: Any, sections: int, dim: int = 0) -> Any:
    if x.shape[dim] % sections:
        raise RuntimeError(f"{x.shape[dim]} at dimension {dim} are not divisible by {sections}")
    return _sections(x, sections, dim)


def _across(x: Any, sections: int) -> Any:
    return _equal(x, sections, 1 if x.ndim > 1 else 0)


def _iterated(x: Any) -> Any:
    return iter(_unbind(x))


_SINGLE = {
    "unbind": _unbind, "split": _split, "chunk": _chunk, "__iter__": _iterated,
    "tensor_split": _sections, "hsplit": _across, "vsplit": _equal,
}  # fmt: skip
_SINGLE_OLD: list[tuple[Any, str, Any]] = []
if importlib.util.find_spec("torch") is not None:
    import torch as _torch

    _SINGLE_OLD += [(_torch.Tensor, name, getattr(_torch.Tensor, name)) for name in _SINGLE]
    _SINGLE_OLD += [(_torch, name, getattr(_torch, name)) for name in _SINGLE if name[0] != "_"]
