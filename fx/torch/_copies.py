"""``torch.t_copy`` and its kin: what a view shows, in elements of its own."""

from __future__ import annotations

from typing import Any

import fx
from fx.tensor import Tensor
from fx.torch._extras import view_as_complex, view_as_real
from fx.torch._functions import FUNCTIONS, into

_OF_FUNCTIONS = """
    as_strided detach diagonal narrow permute select split split_with_sizes squeeze t transpose
    unbind unsqueeze"""


def _alias(input: Any) -> Tensor:
    return input  # type: ignore[no-any-return]


def _expand(input: Any, size: Any, *, implicit: bool = False) -> Tensor:
    return input.expand(*size)  # type: ignore[no-any-return]


def _slice(input: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    at = [slice(None)] * input.ndim
    at[dim] = slice(start, end, step)
    return input[tuple(at)]  # type: ignore[no-any-return]


def _view(input: Any, size: Any = None, *, dtype: Any = None) -> Tensor:
    return input.view(dtype if size is None else size)  # type: ignore[no-any-return]


def _copying(name: str, view: Any) -> Any:
    def function(*args: Any, out: Any = None, **options: Any) -> Any:
        if out is not None:
            return into(out, name, "...", function, *args, **options)
        found = view(*args, **options)
        if isinstance(found, Tensor):
            return found.clone()
        return tuple(part.clone() for part in found)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``{name.removesuffix('_copy')}``, copied: no view of the input."
    return function


_VIEWS = {
    **{name: FUNCTIONS[name] for name in _OF_FUNCTIONS.split()},
    "alias": _alias, "expand": _expand, "slice": _slice, "view": _view,
    "view_as_complex": view_as_complex, "view_as_real": view_as_real,
}  # fmt: skip
globals().update({f"{name}_copy": _copying(f"{name}_copy", v) for name, v in _VIEWS.items()})
narrow_copy: Any


def as_strided_scatter(
    input: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """``input`` with ``src`` where ``as_strided`` of the same arguments looks.

    Raises:
        ShapeError: if ``src`` has another shape than ``size``.
    """
    if tuple(src.shape) != tuple(size):
        raise fx.errors.ShapeError(
            f"torch.as_strided_scatter: src has shape {tuple(src.shape)} and size is {tuple(size)}"
        )
    places = fx.arange(input.numel()).reshape(input.shape)
    places = FUNCTIONS["as_strided"](places, size, stride, storage_offset)
    return input.put(places, src)  # type: ignore[no-any-return]
