"""``vmap``: run a function written for one example on a whole batch of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any

import fx.prims.shape as shape_prims
from fx import tree
from fx.config import modes
from fx.errors import AxisError, BatchedValueError, ShapeError, TreeError
from fx.levels import Level, Tracer, live
from fx.ops.convert import as_tensor
from fx.prims.families import to_front
from fx.tape import CELL, off_inner_tape
from fx.tensor import Tensor, _new
from fx.transforms._arguments import name_of


class BatchTracer(Tracer):
    """One lane's view of a tensor: ``dim`` is the axis of ``value`` along which the lanes lie."""

    __slots__ = ("dim",)
    transform = "vmap"
    dim: int

    @property
    def shape(self) -> tuple[int, ...]:
        shape, d = self.value.shape, self.dim
        return (*shape[:d], *shape[d + 1 :])

    @property
    def requires_grad(self) -> bool:
        return self.value.requires_grad  # type: ignore[no-any-return]

    def concrete(self) -> Tensor:
        raise BatchedValueError(
            f"inside vmap a value {self.spec!r} differs from lane to lane, and Python asked for "
            f"one concrete value (bool(), int(), float(), .item(), if, while, np.asarray). "
            f"Choose with fx.where(condition, x, y), or return the value and look at it outside"
        )

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        number = self.level
        level = live[number]
        values = tuple([x.value if x.level == number else x for x in args])
        dims = tuple([x.dim if x.level == number else None for x in args])
        out, dim = primitive.batch(level, values, dims, **params)
        if primitive.multiple:
            return tuple([batch_tracer(number, o, d) for o, d in zip(out, dim, strict=True)])
        return batch_tracer(number, out, dim)


def batch_tracer(level: int, value: Tensor, dim: int | None) -> Tensor:
    """A tracer, or the value alone where it is the same for all lanes."""
    if dim is None:
        return value
    tracer = _new(BatchTracer)
    tracer.level = level
    tracer.value = value
    tracer.dim = dim
    tracer._node = None
    return tracer


def vmap(
    function: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    axis_name: Hashable | None = None,
) -> Callable[..., Any]:
    """Map ``function`` over an axis of its arguments, all lanes at once.

    Args:
        function: takes and returns pytrees of tensors, written for one lane.
        in_axes: the mapped axis of each positional argument: an int, None (the same for every
            lane), or a pytree prefix of the arguments of these. Keyword arguments map along 0.
        out_axes: where the lanes go in each result: an int or a pytree prefix; None for a result
            that is the same for every lane.
        axis_size: the number of lanes, needed only if every axis is None.
        axis_name: a name by which ``fx.psum``, ``fx.pmean``, ``fx.pmax`` reach across the lanes.

    Returns:
        the mapped function.

    Raises:
        ShapeError: if the mapped axes differ in size.
        AxisError: if an argument has no such axis.
        TreeError: if ``in_axes`` or ``out_axes`` does not fit.

    Example:
        >>> import fx
        >>> fx.vmap(fx.dot, (0, None))(fx.ones((3, 2)), fx.tensor([1.0, 2.0]))
        tensor([3., 3., 3.])
    """

    @wraps(function)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = tree.flatten((args, kwargs))
        dims = _input_dims(in_axes, args, kwargs, function)
        values = [
            as_tensor(x) if d is not None else x for x, d in zip(leaves, dims, strict=True)
        ]
        dims = [_check_axis(x, d, function) for x, d in zip(values, dims, strict=True)]
        size = _size(values, dims, axis_size, function)
        saved = modes.axes
        with Level("vmap", size, axis_name) as level:
            number = level.number
            if axis_name is not None:
                modes.axes = (*saved, level)
            try:
                traced = [
                    x if d is None else batch_tracer(number, _plain(x), d)
                    for x, d in zip(values, dims, strict=True)
                ]
                new_args, new_kwargs = tree.unflatten(treedef, traced)
                outs, treedef_out = tree.flatten(function(*new_args, **new_kwargs))
                out_dims = _spread(out_axes, treedef_out, "out_axes", function)
                results = [
                    _land(off_inner_tape(x, number), d, number, size, function)
                    for x, d in zip(outs, out_dims, strict=True)
                ]
            finally:
                modes.axes = saved
        return tree.unflatten(treedef_out, results)

    return mapped


def _plain(x: Tensor) -> Tensor:
    return x.read() if x.level == CELL else x


def _input_dims(in_axes: Any, args: Any, kwargs: Any, function: Any) -> list[int | None]:
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise TreeError(
            f"vmap: in_axes has {len(in_axes)} entries, but {name_of(function)} was called with "
            f"{len(args)} positional arguments; give one entry an argument, or one int for all"
        )
    positional = _spread(in_axes, tree.structure(args), "in_axes", function)
    return positional + [0] * len(tree.leaves(kwargs))


def _is_none(x: Any) -> bool:
    return x is None


def _spread(axes: Any, treedef: Any, what: str, function: Any) -> list[int | None]:
    """One entry a leaf, from an int, None, or a pytree prefix of them."""
    if axes is None or isinstance(axes, int):
        return [axes] * treedef.num_leaves
    prefix, structure = tree.flatten(axes, is_leaf=_is_none)
    marks = tree.unflatten(treedef, list(range(treedef.num_leaves)))
    try:
        subtrees = structure.flatten_up_to(marks)
    except (ValueError, TypeError):
        raise TreeError(
            f"vmap: {what}={axes} is no prefix of {treedef}, the "
            f"{'arguments' if what == 'in_axes' else 'results'} of {name_of(function)}"
        ) from None
    out: list[int | None] = [None] * treedef.num_leaves
    for d, subtree in zip(prefix, subtrees, strict=True):
        if d is not None and not isinstance(d, int):
            raise TreeError(f"vmap: {what} takes ints and None, got {d!r}")
        for i in tree.leaves(subtree):
            out[i] = d
    return out


def _check_axis(x: Any, d: int | None, function: Any) -> int | None:
    if d is None:
        return None
    if not -x.ndim <= d < x.ndim:
        raise AxisError(
            f"vmap of {name_of(function)}: axis {d} is out of range for an argument of shape "
            f"{x.shape}; pass None in in_axes for what is the same in every lane"
        )
    return d % x.ndim


def _size(values: Any, dims: Any, axis_size: int | None, function: Any) -> int:
    sizes = {x.shape[d] for x, d in zip(values, dims, strict=True) if d is not None}
    if axis_size is not None:
        sizes.add(axis_size)
    if not sizes:
        raise ShapeError(
            f"vmap of {name_of(function)}: no argument is mapped; give axis_size="
        )
    if len(sizes) > 1:
        shapes = ", ".join(
            f"{x.shape} along {d}" for x, d in zip(values, dims, strict=True) if d is not None
        )
        raise ShapeError(f"vmap of {name_of(function)}: mapped axes differ in size: {shapes}")
    return sizes.pop()


def _land(x: Any, d: int | None, number: int, size: int, function: Any) -> Tensor:
    """A result below the level, its lanes along ``d``."""
    if isinstance(x, BatchTracer) and x.level == number:
        if d is None:
            raise AxisError(
                f"vmap: a result {x.spec!r} of {name_of(function)} differs from lane to lane, but "
                f"out_axes says None; give it an axis"
            )
        value, source = x.value, x.dim
    else:
        value = as_tensor(x)
        if d is None:
            return value
        value, source = shape_prims.broadcast_to(value, shape=(size, *value.shape)), 0
    if not -value.ndim <= d < value.ndim:
        raise AxisError(f"vmap: out_axes={d} is out of range for a result of shape {value.shape}")
    d %= value.ndim
    if d == source:
        return value
    front = to_front(value, source)
    axes = (*range(1, d + 1), 0, *range(d + 1, value.ndim))
    return shape_prims.transpose(front, axes=axes)
