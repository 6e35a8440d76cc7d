"""In place: what layers with ``inplace=True``, initialisers and ``out=`` write for the user."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, wraps
from sys import _getframe
from typing import Any

from fx.config import is_grad_enabled, writing
from fx.errors import WriteError
from fx.frames import is_internal, user_frame
from fx.gradients import check_differentiable
from fx.levels import live
from fx.state import Cell
from fx.tape import Leaf
from fx.tensor import Tensor
from fx.writing.who import writes


def user_writes(depth: int = 2) -> bool:
    """Whether the user's code that is running writes into tensors.

    Args:
        depth: the frames that are known to be fx's own.
    """
    if not writing.enabled:
        return False
    frame: Any = _getframe(depth)
    if is_internal(frame.f_code.co_filename):
        frame = user_frame(depth + 1)
    return frame is not None and writes(frame)


def written(x: Any, operation: str, value: Any) -> Any:
    """``value``, which ``x`` gets where the user writes."""
    if value is x or not isinstance(x, Tensor) or not user_writes():
        return value
    if isinstance(x, Cell):
        return x._renew(operation, value)
    return _storing().renew(x, operation, value)


@cache
def _storing() -> Any:
    from fx.writing import storing  # only where somebody writes

    return storing


def may_write(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of ``input`` that writes its result there if it is told ``inplace=True``."""
    place = list(inspect.signature(function).parameters).index("inplace") - 1

    @wraps(function)
    def called(input: Any, *args: Any, **kwargs: Any) -> Any:
        out = function(input, *args, **kwargs)
        if kwargs.get("inplace") or (len(args) > place and args[place]):
            return written(input, f"{function.__name__}_", out)
        return out

    return called


def layer_may_write(forward: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a layer, whose attribute ``inplace`` says so."""

    @wraps(forward)
    def called(self: Any, input: Any) -> Any:
        out = forward(self, input)
        return written(input, type(self).__name__, out) if self.inplace else out

    return called


# lines of numbers, which keep the shape of what has room for as many
_LINES = frozenset(("arange", "linspace", "logspace", "range"))


def give_out(out: Any, value: Any, name: str) -> Any:
    """``value`` as what ``out`` holds from now on.

    Raises:
        WriteError: if a gradient would have to flow, or the dtype or the shape does not fit.
    """
    plain = not live and type(value) is Tensor and value._node is None
    if plain and isinstance(out, Tensor) and _storing().replaced_all(out, value):
        return out
    if isinstance(out, tuple | list):
        for x, v in zip(out, value, strict=True):
            give_out(x, v, name)
        return out
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if is_grad_enabled() and (value._node is not None or out._node is not None):
        raise WriteError(
            f"{name}(): functions with out=... arguments don't support automatic "
            f"differentiation, but one of the arguments requires grad."
        )
    if name in _LINES and out.numel() == value.numel():
        value = value.reshape(out._shape)
    if out._shape != value._shape:
        if isinstance(out, Cell):
            raise WriteError(f"{name}(out=...): a parameter keeps its shape {out.shape}")
        from fx.writing.data import adopt
        from fx.writing.resizing import resized

        if out._node is not None:
            return adopt(out, value.astype(out.dtype), f"{name}(out=...)")
        resized(out, value._shape, f"{name}(out=...)")  # its views see what stays of the memory
    return out._renew(f"{name}(out=...)", value)


def cell_of(x: Any) -> Any:
    """The cell that holds a plain tensor that requires grad, for an optimizer.

    Raises:
        WriteError: if it shares its elements with others, or is computed from others.
    """
    from fx.writing.noting import start
    from fx.writing.records import Family, Storage, View, record_of
    from fx.writing.written import begin

    start()

    if x._node is None:
        check_differentiable(x)
    elif type(x._node) is not Leaf:
        raise ValueError("can't optimize a non-leaf Tensor")
    record = record_of(x)
    if record.path:
        family = record.family
        others = [m for m in (*family.alive(), family.root()) if m is not None and m is not x]
        if others or x.written:
            raise WriteError(
                f"an optimizer's tensor {x.spec!r} shares its elements with others; write "
                f"x = x.detach().clone().requires_grad_()"
            )
        x._view = record = View(Family(x), (), None, False)
    if record.family.cell is None:
        begin(record.family)
    cell = record.family.cell
    if type(cell) is Storage:
        cell.kept = True
    return cell
