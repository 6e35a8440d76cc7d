"""Calls of Python functions from compiled code: ``pure_callback``, ``io_callback``.

``fx.debug.callback`` is the third of them, for functions without results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fx.prims.compare as compare
import fx.prims.shape as shape_prims
from fx import dtypes, tree
from fx.debug import Staged, lane_of
from fx.errors import ArgumentError, ShapeError
from fx.ops.convert import as_tensor
from fx.prims.families import to_front
from fx.spec import TensorSpec
from fx.staged_number import StagedNumber
from fx.tensor import Tensor

_METHODS = ("sequential", "expand_dims", "broadcast_all")


class _Function:
    """What is called, with the structures of its arguments and results: one object a call site."""

    __slots__ = ("function", "name", "taken", "told", "vmap_method")

    def __init__(
        self, function: Any, name: str, taken: Any, told: Any, vmap_method: str | None
    ) -> None:
        self.function, self.name = function, name
        self.taken, self.told, self.vmap_method = taken, told, vmap_method

    def __repr__(self) -> str:
        return getattr(self.function, "__qualname__", repr(self.function))

    def __call__(self, arrays: Any, specs: tuple[TensorSpec, ...]) -> tuple[np.ndarray, ...]:
        """The results as arrays, checked."""
        args, kwargs = tree.unflatten(self.taken, [np.array(a) for a in arrays])
        given = self.function(*args, **kwargs)
        if self.told is None:
            return ()
        try:
            leaves = tree.flatten_up_to(self.told, given)
        except Exception as error:
            raise ShapeError(
                f"{self.name}: {self!r} gave {tree.structure(given)}, and was told to give "
                f"{self.told}"
            ) from error
        out = []
        for leaf, spec in zip(leaves, specs, strict=True):
            array = leaf.numpy() if isinstance(leaf, Tensor) else np.asarray(leaf)
            wide = array.dtype in (np.float64, np.int64) and array.dtype.kind == spec.dtype.kind
            if array.shape != spec.shape or not (array.dtype == spec.dtype or wide):
                raise ShapeError(
                    f"{self.name}: {self!r} gave {array.dtype.name} {array.shape}, and was told to "
                    f"give {spec.dtype.name} {spec.shape}"
                )
            out.append(np.array(array, spec.dtype))
        return tuple(out)


def _called(*arrays: Any, function: _Function, specs: Any, kind: str, device: str) -> Any:
    return function(arrays, specs)


def _undifferentiable(*args: Any, function: _Function, **params: Any) -> Any:
    raise ArgumentError(
        f"{function.name}: fx does not know the derivative of {function!r}; write fx.custom_jvp or "
        f"fx.custom_vjp around it, or fx.stop_gradient of what it is given"
    )


def _lanes(level: Any, args: Any, dims: Any, *, function: _Function, specs: Any, kind: str,
           device: str) -> Any:  # fmt: skip
    n, method = level.size, function.vmap_method
    params = {"function": function, "kind": kind, "device": device}
    if method is None and specs:
        raise ValueError(
            f"{function.name} under vmap: say how {function!r} is to be called for many lanes; "
            f"write vmap_method='sequential' (once a lane), or 'broadcast_all' where it takes an "
            f"axis more in front"
        )
    if method in ("expand_dims", "broadcast_all"):
        moved = []
        for x, d in zip(args, dims, strict=True):
            if d is not None:
                moved.append(to_front(x, d))
            elif method == "expand_dims":
                moved.append(shape_prims.reshaped(x, (1, *x.shape)))
            else:
                moved.append(shape_prims.stretched(x, (n, *x.shape)))
        wide = tuple([TensorSpec((n, *s.shape), s.dtype, s.device) for s in specs])
        return callback(*moved, specs=wide, **params), (0,) * len(specs)
    rows = []
    for i in range(n):
        lane = [x if d is None else lane_of(x, d, i) for x, d in zip(args, dims, strict=True)]
        rows.append(callback(*lane, specs=specs, **params))
    out = []
    for results in zip(*rows, strict=True):
        longer = [shape_prims.reshaped(x, (1, *x.shape)) for x in results]
        out.append(shape_prims.concatenate(*longer, axis=0) if n > 1 else longer[0])
    return tuple(out), (0,) * len(out)


callback = Staged(
    "callback", cpu=_called, multiple=True,
    effectful=lambda *, function, specs, kind, device: kind,
    spec=lambda *given, function, specs, kind, device: specs,
    jvp=_undifferentiable,
    vjp=_undifferentiable,
    batch=_lanes,
    sample=None,  # whose laws are those of the user's function
)  # fmt: skip


def _bind(
    name: str, kind: str, function: Any, results: Any, args: Any, kwargs: Any, method: str | None
) -> Any:
    if not callable(function):
        raise TypeError(f"{name}: the first argument is a function, got {function!r:.60}")
    if method is not None and method not in _METHODS:
        raise ValueError(f"{name}: vmap_method must be one of {_METHODS}, got {method!r}")
    leaves, taken = tree.flatten((args, kwargs))
    tensors = [as_tensor(x.in_dtype() if isinstance(x, StagedNumber) else x) for x in leaves]
    device = tensors[0].device.name if tensors else "cpu"
    if results is None:  # what it is told of needs no derivative
        tensors = [compare.stop_gradient(x) for x in tensors]
    told, specs = None, ()
    if results is not None:
        wanted, told = tree.flatten(results)
        specs = tuple([_spec(name, x, device) for x in wanted])
    out = callback(
        *tensors, function=_Function(function, name, taken, told, method), specs=specs, kind=kind,
        device=device,
    )  # fmt: skip
    return None if told is None else tree.unflatten(told, out)


def _spec(name: str, x: Any, device: str) -> TensorSpec:
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is None or dtype is None:
        raise TypeError(
            f"{name}: the results are described by shapes and dtypes, got {x!r:.60}; "
            f"write fx.TensorSpec((2, 3), fx.float32)"
        )
    return TensorSpec(tuple(shape), dtypes.as_dtype(dtype), device)


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """What a Python function gives, also in compiled code.

    It may be called any number of times, or not at all where nobody needs what it gives; one that
    does something besides is for ``io_callback``.

    Args:
        callback: takes NumPy arrays in the place of tensors and numbers; gives what
            ``np.asarray`` takes.
        result_shape_dtypes: a pytree of what has ``.shape`` and ``.dtype``: ``fx.TensorSpec``,
            tensors, arrays.
        args, kwargs: pytrees of tensors and numbers.
        vmap_method: under ``vmap`` it is called once a lane ("sequential"), or once with an axis
            more in front, of which other arguments have one of size 1 ("expand_dims") or all of it
            ("broadcast_all"). None refuses.

    Returns:
        a pytree of tensors as described.

    Raises:
        ShapeError: if the function gives something else.
        ArgumentError: if it is differentiated.

    Source: ``jax.pure_callback``.

    Example:
        >>> import fx, numpy as np
        >>> @fx.jit
        ... def f(x):
        ...     return 2 * fx.pure_callback(lambda a: np.sort(a)[::-1], x, x)
        >>> f(fx.tensor([1.0, 3.0, 2.0]))
        tensor([6., 4., 2.])
    """
    return _bind("pure_callback", "", callback, result_shape_dtypes, args, kwargs, vmap_method)


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """``pure_callback`` of a function that does something besides.

    It is called exactly once in each call, and after those before it. Under ``vmap`` it is called
    once a lane, unless it is to be ``ordered``.

    Args:
        callback, result_shape_dtypes, args, kwargs: as of ``pure_callback``; None for no results.
        ordered: whether calls under ``vmap`` are refused, as the order of lanes means nothing.

    Source: ``jax.experimental.io_callback``.

    Example:
        >>> import fx
        >>> seen = []
        >>> @fx.jit
        ... def f(x):
        ...     fx.io_callback(lambda a: seen.append(float(a)), None, x.sum())
        ...     return x * 2
        >>> y = f(fx.ones(2)), f(fx.ones(3))
        >>> seen
        [2.0, 3.0]
    """
    method = None if ordered else "sequential"
    return _bind("io_callback", "io", callback, result_shape_dtypes, args, kwargs, method)


def called_for_effect(function: Any, args: Any, kwargs: Any) -> None:
    """``fx.debug.callback``: it keeps the order of prints, and derivatives pass it by."""
    _bind("debug.callback", "print", function, None, args, kwargs, "sequential")
