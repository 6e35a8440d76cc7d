"""NumPy's names of what applies functions: along axes, one after the other, number by number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any

from fx.errors import ShapeError
from fx.ops.axes import normal_axis
from fx.ops.convert import as_tensor
from fx.ops.given import listed
from fx.ops.making.interop import asarray
from fx.ops.operands import argument
from fx.ops.shapes.broadcasting import broadcast_shapes
from fx.ops.shapes.manipulation import expand_dims, moveaxis, reshape
from fx.tensor import Tensor


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    """A function of vectors on each line along an axis; what it returns takes that axis' place.

    Example:
        >>> import fx
        >>> fx.apply_along_axis(fx.cumsum, 1, fx.ones(2, 3))
        tensor([[1., 2., 3.],
                [1., 2., 3.]])
    """
    from fx import tree
    from fx.transforms import vmap

    x = argument("apply_along_axis", arr)
    at = normal_axis("apply_along_axis", axis, x.shape)
    lead = x.shape[:at] + x.shape[at + 1 :]
    rows = reshape(moveaxis(x, at, -1), (-1, x.shape[at]))
    out = vmap(lambda row: func1d(row, *args, **kwargs))(rows)

    def back(y: Tensor) -> Tensor:
        y = reshape(y, (*lead, *y.shape[1:]))
        for k in range(y.ndim - len(lead)):
            y = moveaxis(y, len(lead) + k, at + k)
        return y

    return tree.map(back, out)


def apply_over_axes(func: Callable[..., Any], a: Any, axes: int | Sequence[int]) -> Tensor:
    """``func(a, axis)`` for one axis after the other; axes that it drops are put back as 1.

    Example:
        >>> import fx
        >>> fx.apply_over_axes(fx.sum, fx.ones(2, 3, 4), (0, 2))
        tensor([[[8.],
                 [8.],
                 [8.]]])
    """
    x = argument("apply_over_axes", a)
    rank = x.ndim
    for axis in (axes,) if isinstance(axes, int) else listed("apply_over_axes", "axes", axes):
        y = asarray(func(x, axis))
        x = expand_dims(y, normal_axis("apply_over_axes", axis, x.shape)) if y.ndim < rank else y
        if x.ndim != rank:
            raise ShapeError("apply_over_axes: the function must keep the axis or drop it")
    return x


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Any = None,
    signature: str | None = None,
) -> Callable[..., Any]:
    """A function of numbers as a function of tensors that broadcast together, through ``vmap``.

    Args:
        pyfunc: takes scalars (with ``signature`` arrays of its core axes) and returns tensors.
        excluded: positions or names of arguments that are passed as they are.
        signature: the core axes, as ``"(n),(n)->()"``.

    Example:
        >>> import fx
        >>> fx.vectorize(lambda a, b: a * b + 1)(fx.arange(3), fx.tensor([[1], [2]]))
        tensor([[1, 2, 3],
                [1, 3, 5]])
    """
    from fx.transforms import vmap

    fixed = set(listed("vectorize", "excluded", excluded or ()))
    core = None if signature is None else _core_axes(signature)
    parameters = _names(pyfunc)

    @wraps(pyfunc)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        held = {i: x for i, x in enumerate(args) if i in fixed or _named(parameters, i) in fixed}
        moving = [as_tensor(x) for i, x in enumerate(args) if i not in held]
        ranks = [0] * len(moving) if core is None else core
        if len(ranks) != len(moving):
            raise ShapeError(
                f"vectorize: signature {signature!r} has {len(ranks)} arguments, got {len(moving)}"
            )
        for x, rank in zip(moving, ranks):
            if x.ndim < rank:
                raise ShapeError(f"vectorize: {signature!r} wants {rank} axes, got {x.shape}")
        lead = [x.shape[: x.ndim - rank] for x, rank in zip(moving, ranks)]
        whole = broadcast_shapes(*lead) if lead else ()

        def run(*xs: Any) -> Any:
            rest = iter(xs)
            every = [held[i] if i in held else next(rest) for i in range(len(args))]
            return pyfunc(*every, **kwargs)

        for depth in range(len(whole)):  # the innermost axis first
            axes = [0 if len(s) > depth and s[-1 - depth] != 1 else None for s in lead]
            run = (
                vmap(run, in_axes=tuple(axes))
                if any(a == 0 for a in axes)
                else _repeated(run, whole[-1 - depth])
            )
        small = [
            x.reshape([n for n in s if n != 1] + list(x.shape[len(s) :]))
            for x, s in zip(moving, lead)
        ]
        return run(*small)

    return mapped


def _repeated(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    from fx.transforms import vmap

    return lambda *xs: vmap(lambda _: function(*xs))(as_tensor([0] * count))


def _core_axes(text: str) -> list[int]:
    given, arrow, _ = str(text).replace(" ", "").partition("->")
    if not arrow or not given.startswith("(") or not given.endswith(")"):
        raise ValueError(f'vectorize: signature must be like "(n),(n)->()", got {text!r}')
    return [len([a for a in part.split(",") if a]) for part in given[1:-1].split("),(")]


def _names(function: Callable[..., Any]) -> list[str]:
    try:
        found = signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in found if p.kind in kinds]


def _named(parameters: list[str], i: int) -> str | None:
    return parameters[i] if i < len(parameters) else None
