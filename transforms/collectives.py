"""Collectives: what the lanes of a ``vmap`` with an ``axis_name`` tell each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import fx.prims.collective as prims
from fx import tree
from fx.config import modes
from fx.errors import AxisError
from fx.levels import Level
from fx.ops.convert import as_tensor
from fx.tensor import Tensor
from fx.transforms.batching import lane_index

AxisName = Hashable | tuple[Hashable, ...]


def _level_of(name: Hashable, what: str) -> Level:
    """The innermost running ``vmap`` of that name.

    Raises:
        AxisError: if there is none, listing those there are.
    """
    for level in reversed(modes.axes):
        if level.axis_name == name:
            return level
    names = ", ".join(repr(level.axis_name) for level in modes.axes)
    raise AxisError(
        f"{what}: no running vmap has the axis name {name!r}; "
        + (f"the names here are {names}" if names else "there are no named axes here")
        + f". Name it: fx.vmap(f, axis_name={name!r})"
    )


def _levels(axis_name: AxisName, what: str) -> list[Level]:
    names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    return [_level_of(name, what) for name in names]


def _over(x: Any, axis_name: AxisName, what: str, bind: Callable[[Tensor, Level], Tensor]) -> Any:
    levels = _levels(axis_name, what)

    def each(leaf: Any) -> Tensor:
        out = as_tensor(leaf)
        for level in levels:
            out = bind(out, level)
        return out

    return tree.map(each, x)


def psum(x: Any, axis_name: AxisName) -> Any:
    """The sum over all lanes, the same in every lane.

    Args:
        x: a tensor or a pytree of them; the same shape in every lane.
        axis_name: the ``axis_name`` of a running ``vmap``, or a tuple of them.

    Raises:
        AxisError: if no running ``vmap`` has that name.

    Example:
        >>> import fx
        >>> fx.vmap(lambda x: x / fx.psum(x, "i"), axis_name="i")(fx.tensor([1.0, 3.0]))
        tensor([0.2500, 0.7500])
    """
    return _over(x, axis_name, "psum", lambda t, lv: prims.psum(t, axis=lv.number, size=lv.size))


def pmean(x: Any, axis_name: AxisName) -> Any:
    """The mean over all lanes, the same in every lane; see ``psum``.

    Example:
        >>> import fx
        >>> fx.vmap(lambda x: x - fx.pmean(x, "i"), axis_name="i")(fx.tensor([1.0, 3.0]))
        tensor([-1.,  1.])
    """
    return _over(
        x, axis_name, "pmean", lambda t, lv: prims.psum(t, axis=lv.number, size=lv.size) / lv.size
    )


def pmax(x: Any, axis_name: AxisName) -> Any:
    """The maximum over all lanes, the same in every lane; see ``psum``.

    Example:
        >>> import fx
        >>> fx.vmap(lambda x: x - fx.pmax(x, "i"), axis_name="i")(fx.tensor([1.0, 3.0]))
        tensor([-2.,  0.])
    """
    return _over(x, axis_name, "pmax", lambda t, lv: prims.pmax(t, axis=lv.number, size=lv.size))


def pmin(x: Any, axis_name: AxisName) -> Any:
    """The minimum over all lanes, the same in every lane; see ``psum``.

    Example:
        >>> import fx
        >>> fx.vmap(lambda x: x - fx.pmin(x, "i"), axis_name="i")(fx.tensor([1.0, 3.0]))
        tensor([0., 2.])
    """
    return _over(x, axis_name, "pmin", lambda t, lv: prims.pmin(t, axis=lv.number, size=lv.size))


def all_gather(x: Any, axis_name: Hashable) -> Any:
    """The values of all lanes, stacked along a new leading axis, the same in every lane.

    Example:
        >>> import fx
        >>> fx.vmap(lambda x: fx.all_gather(x, "i").sum(), axis_name="i")(fx.tensor([1.0, 3.0]))
        tensor([4., 4.])
    """
    level = _level_of(axis_name, "all_gather")
    lane = lane_index(level)

    def each(leaf: Any) -> Tensor:
        return prims.all_gather(as_tensor(leaf), lane, axis=level.number, size=level.size)

    return tree.map(each, x)


def ppermute(x: Any, axis_name: Hashable, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values from lane to lane; a lane that receives nothing gets zeros.

    Args:
        x: a tensor or a pytree of them.
        axis_name: the ``axis_name`` of a running ``vmap``.
        perm: pairs ``(source, destination)``, no lane twice on either side.

    Example:
        >>> import fx
        >>> shift = lambda x: fx.ppermute(x, "i", [(0, 1), (1, 2)])
        >>> fx.vmap(shift, axis_name="i")(fx.tensor([1.0, 2.0, 3.0]))
        tensor([0., 1., 2.])
    """
    level = _level_of(axis_name, "ppermute")
    size = level.size
    sources = [-1] * size
    for source, destination in perm:
        taken = not 0 <= destination < size or sources[destination] >= 0
        if taken or not 0 <= source < size or source in sources:
            raise AxisError(
                f"ppermute: {list(perm)} must name lanes below {size}, each at most once as a "
                f"source and once as a destination"
            )
        sources[destination] = source
    lane = lane_index(level)

    def each(leaf: Any) -> Tensor:
        return prims.ppermute(
            as_tensor(leaf), lane, axis=level.number, size=size, sources=tuple(sources)
        )

    return tree.map(each, x)


def axis_index(axis_name: Hashable) -> Tensor:
    """The number of this lane, 0-d int64.

    Example:
        >>> import fx
        >>> fx.vmap(lambda x: x * fx.axis_index("i"), axis_name="i")(fx.ones(3))
        tensor([0., 1., 2.])
    """
    return lane_index(_level_of(axis_name, "axis_index"))


def axis_size(axis_name: AxisName) -> int:
    """The number of lanes of a running ``vmap``, or of several together.

    Example:
        >>> import fx
        >>> fx.vmap(lambda x: x * fx.axis_size("i"), axis_name="i")(fx.tensor([1.0, 3.0]))
        tensor([2., 6.])
    """
    size = 1
    for level in _levels(axis_name, "axis_size"):
        size *= level.size
    return size
