"""Debugging: printing at run time, and the one ladder of debug levels, ``FX_DEBUG``.

======  ==========================================================
level   what jit writes to stderr
======  ==========================================================
0       nothing
1       each program that it compiles, and why
2       the same, and optimised graphs; passes are checked
3       the same, and schedules and memory plans
4       the same, and the generated code
======  ==========================================================
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable
from typing import Any

import fx.prims.shape as shape_prims
from fx.config import modes
from fx.primitive import NOT_DIFFERENTIABLE, Primitive
from fx.staged_number import StagedNumber
from fx.tensor import Tensor, new_tensor


def level() -> int:
    """The debug level, from the environment variable ``FX_DEBUG``; 0 where it is no number.

    Example:
        >>> import fx
        >>> fx.debug.level()
        0
    """
    told = os.environ.get("FX_DEBUG", "")
    return int(told) if told.isdecimal() else 0


def log(at: int, text: str) -> None:
    """Write to stderr if the debug level is at least ``at``."""
    if level() >= at:
        builtins.print(text, file=sys.stderr, flush=True)


# printing ---------------------------------------------------------------------------------------


def _show(*arrays: Any, template: str, fixed: Any, names: Any, device: str) -> tuple[()]:
    tensors = iter([new_tensor(a) for a in arrays])
    values = [next(tensors) if value is _TENSOR else value for value in fixed]
    count = len(values) - len(names)
    builtins.print(template.format(*values[:count], **dict(zip(names, values[count:]))))
    return ()


def _lane_by_lane(lanes: Any, args: Any, dims: Any, **params: Any) -> Any:
    for i in range(lanes.size):
        debug_print(*[x if d is None else lane_of(x, d, i) for x, d in zip(args, dims)], **params)
    return (), ()


def lane_of(x: Tensor, dim: int, i: int) -> Tensor:
    """One lane of a tensor whose lanes lie along an axis."""
    start, stop = [0] * x.ndim, list(x.shape)
    start[dim], stop[dim] = i, i + 1
    return shape_prims.slice(
        x, start=tuple(start), stop=tuple(stop), step=(1,) * x.ndim, drop=(dim,)
    )


class _Tensor:
    """Stands for a tensor among the values of a line."""

    def __repr__(self) -> str:
        return "tensor"

    def __reduce__(self) -> str:
        return "_TENSOR"


_TENSOR = _Tensor()


class Staged(Primitive):
    """One that is staged where its arguments are known, too: it has its effect in each call."""

    __slots__ = ()

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Bind."""
        if modes.stage is not None and all(type(x) is Tensor for x in args):
            return modes.stage.emit(self, args, params)
        return super().__call__(*args, **params)


debug_print = Staged(  # no results: it is kept for its effect
    "debug_print", cpu=_show, multiple=True, effectful="print", differentiable=False,
    spec=lambda *specs, **params: (),
    jvp=NOT_DIFFERENTIABLE,
    vjp=NOT_DIFFERENTIABLE,
    batch=_lane_by_lane,
    sample=None,  # it is no operation whose laws could be tested
)  # fmt: skip


def print(template: str, *args: Any, **kwargs: Any) -> None:
    """Print when the values are there: under ``jit`` in every call, not once while it is staged.

    Under ``vmap`` each lane prints its line, under ``grad`` and ``jvp`` the value itself is shown.

    Args:
        template: as ``str.format`` takes it.
        args, kwargs: tensors, and other values, which are shown as they are at first.

    Example:
        >>> import fx
        >>> @fx.jit
        ... def f(x):
        ...     fx.debug.print("x = {}, sum {total:.1f}", x, total=x.sum())
        ...     return x * 2
        >>> y = f(fx.tensor([1.0, 2.0]))
        x = tensor([1., 2.]), sum 3.0
    """
    tensors, fixed = [], []
    for value in (*args, *kwargs.values()):
        value = value.in_dtype() if isinstance(value, StagedNumber) else value
        if isinstance(value, Tensor):
            tensors.append(value)
            fixed.append(_TENSOR)
        else:
            fixed.append(value if _is_constant(value) else str(value))
    device = tensors[0].device.name if tensors else "cpu"
    debug_print(*tensors, template=template, fixed=tuple(fixed), names=tuple(kwargs), device=device)


def callback(
    function: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any
) -> None:
    """Call a Python function when the values are there, for what it does.

    Args:
        function: takes NumPy arrays in the place of tensors and numbers; what it gives is dropped.
        args, kwargs: pytrees of tensors and numbers.
        ordered: accepted for JAX's sake: calls and prints always keep their order.

    Source: ``jax.debug.callback``.

    Example:
        >>> import fx
        >>> largest = []
        >>> @fx.jit
        ... def f(x):
        ...     fx.debug.callback(lambda a: largest.append(float(a)), x.max())
        ...     return x * 2
        >>> y = f(fx.tensor([1.0, 2.0]))
        >>> largest
        [2.0]
    """
    from fx.callbacks import called_for_effect

    called_for_effect(function, args, kwargs)


def _is_constant(x: Any) -> bool:
    return isinstance(x, bool | int | float | complex | str | bytes | type(None))
