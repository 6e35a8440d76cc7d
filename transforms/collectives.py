"""Collectives: what the lanes of a ``vmap`` with an ``axis_name``, or ranks, tell each other.

A name is that of the innermost running ``vmap`` or ``fx.shard_map`` which has it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import fx.prims.collective as prims
import fx.prims.shape as shape_prims
from fx import tree
from fx.config import modes
from fx.dtypes import FLOATING, float32, float64
from fx.errors import AxisError, ShapeError
from fx.ops.convert import as_tensor
from fx.prims.elementwise import astype
from fx.prims.mesh import mesh_index
from fx.tensor import Tensor
from fx.transforms.batching import lane_index

AxisName = Hashable | tuple[Hashable, ...]
_NARROW = FLOATING - {float32, float64}


def _axis_of(name: Hashable, what: str) -> Any:
    """The innermost running ``vmap``, or axis of a mesh, of that name.

    Raises:
        AxisError: if there is none, listing those there are.
    """
    for axis in reversed(modes.axes):
        if axis.axis_name == name:
            return axis
    names = ", ".join(repr(axis.axis_name) for axis in modes.axes)
    raise AxisError(
        f"{what}: no running vmap has the axis name {name!r}, and no mesh; "
        + (f"the names here are {names}" if names else "there are no named axes here")
        + f". Name it: fx.vmap(f, axis_name={name!r}), or "
        f"fx.shard_map(f, fx.Mesh((n,), ({name!r},)), in_specs, out_specs)"
    )


def _axes(axis_name: AxisName, what: str) -> list[Any]:
    names = axis_name if isinstance(axis_name, tuple) else (axis_name,)
    return [_axis_of(name, what) for name in names]


def _index(axis: Any) -> Tensor:
    """The number of this lane or rank along an axis."""
    if type(axis.number) is str:
        return mesh_index(axis=axis.number, device="cpu")  # type: ignore[no-any-return]
    return lane_index(axis)


def _summed(leaves: list[Tensor], axis: Any) -> list[Tensor]:
    """The sums over an axis: between ranks one message a dtype, where narrow floats are wide."""
    between = type(axis.number) is str
    dtypes = [x.dtype for x in leaves]
    if between:
        leaves = [astype(x, dtype=float32) if x.dtype in _NARROW else x for x in leaves]
    groups: dict[Any, list[int]] = {}
    for i, x in enumerate(leaves):
        groups.setdefault(x.dtype if between else i, []).append(i)
    out = list(leaves)
    for places in groups.values():
        found = prims.psum(*[leaves[i] for i in places], axis=axis.number, size=axis.size)
        for i, x in zip(places, found):
            out[i] = x if x.dtype == dtypes[i] else astype(x, dtype=dtypes[i])
    return out


def _over(x: Any, axis_name: AxisName, what: str, bind: Callable[[Tensor, Any], Tensor]) -> Any:
    axes = _axes(axis_name, what)

    def each(leaf: Any) -> Tensor:
        out = as_tensor(leaf)
        for axis in axes:
            out = bind(out, axis)
        return out

    return tree.map(each, x)


def _of_each(x: Any, axis: Any, move: Callable[..., Tensor]) -> Any:
    """``move(leaf, index, axis=, size=)`` for each leaf."""
    lane, params = _index(axis), {"axis": axis.number, "size": axis.size}
    return tree.map(lambda leaf: move(as_tensor(leaf), lane, **params), x)


def psum(x: Any, axis_name: AxisName) -> Any:
    """The sum over all lanes, or all ranks of a mesh's axis, the same in each; one message a dtype.

    Args:
        x: a tensor or a pytree of them; the same shape in every lane.
        axis_name: the ``axis_name`` of a running ``vmap``, a name of the mesh of a running
            ``fx.shard_map``, or a tuple of them.

    Raises:
        AxisError: if neither has that name.

    Example:
        >>> import fx
        >>> fx.vmap(lambda x: x / fx.psum(x, "i"), axis_name="i")(fx.tensor([1.0, 3.0]))
        tensor([0.2500, 0.7500])
    """
    leaves, treedef = tree.flatten(x)
    out = [as_tensor(leaf) for leaf in leaves]
    for axis in _axes(axis_name, "psum") if out else ():
        out = _summed(out, axis)
    return tree.unflatten(treedef, out)


def pmean(x: Any, axis_name: AxisName) -> Any:
    """The mean over all lanes, the same in every lane; see ``psum``.

    Example:
        >>> import fx
        >>> fx.vmap(lambda x: x - fx.pmean(x, "i"), axis_name="i")(fx.tensor([1.0, 3.0]))
        tensor([-1.,  1.])
    """
    size = axis_size(axis_name)
    return tree.map(lambda leaf: leaf / size, psum(x, axis_name))


def pmax(x: Any, axis_name: AxisName) -> Any:
    """The maximum over all lanes, the same in every lane; see ``psum``.

    Example:
        >>> import fx
        >>> fx.vmap(lambda x: x - fx.pmax(x, "i"), axis_name="i")(fx.tensor([1.0, 3.0]))
        tensor([-2.,  0.])
    """
    return _over(x, axis_name, "pmax", lambda t, a: prims.pmax(t, axis=a.number, size=a.size))


def pmin(x: Any, axis_name: AxisName) -> Any:
    """The minimum over all lanes, the same in every lane; see ``psum``.

    Example:
        >>> import fx
        >>> fx.vmap(lambda x: x - fx.pmin(x, "i"), axis_name="i")(fx.tensor([1.0, 3.0]))
        tensor([0., 2.])
    """
    return _over(x, axis_name, "pmin", lambda t, a: prims.pmin(t, axis=a.number, size=a.size))


def _row_first(x: Tensor, axis: int) -> Tensor:
    """The axis moved to the front."""
    if not axis:
        return x
    rest = [i for i in range(x.ndim) if i != axis]
    return shape_prims.transpose(x, axes=(axis, *rest))  # type: ignore[no-any-return]


def _row_at(x: Tensor, axis: int) -> Tensor:
    """The first axis moved to a place."""
    if not axis:
        return x
    order = [*range(1, axis + 1), 0, *range(axis + 1, x.ndim)]
    return shape_prims.transpose(x, axes=tuple(order))  # type: ignore[no-any-return]


def _merged(x: Tensor, axis: int) -> Tensor:
    """An axis and the one behind it as one."""
    shape = x.shape
    merged = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
    return shape_prims.reshaped(x, merged)  # type: ignore[no-any-return]


def _parts(x: Tensor, axis: int, size: int, tiled: bool, what: str) -> Tensor:
    """``x`` with an axis of ``size`` parts: cut into equal ones where it is ``tiled``."""
    shape = x.shape
    if not tiled and shape[axis] != size:
        raise ShapeError(
            f"{what}: axis {axis} of shape {shape} must have a row for each of {size} lanes or "
            f"ranks; with tiled=True it is cut into {size} parts"
        )
    if shape[axis] % size:
        raise ShapeError(
            f"{what}: axis {axis} of shape {shape} cannot be cut into {size} equal parts, one for "
            f"each lane or rank; pad it to a multiple of {size}"
        )
    if not tiled:
        return x
    cut = (*shape[:axis], size, shape[axis] // size, *shape[axis + 1 :])
    return shape_prims.reshaped(x, cut)  # type: ignore[no-any-return]


def _place(axis: int, ndim: int, what: str) -> int:
    if not isinstance(axis, int) or not -ndim <= axis < ndim:
        raise AxisError(f"{what}: axis {axis!r} is out of range for {ndim} axes")
    return axis % ndim


def all_gather(x: Any, axis_name: Hashable, *, axis: int = 0, tiled: bool = False) -> Any:
    """The values of all lanes or ranks, stacked along a new axis, the same in each.

    Args:
        x: a tensor or a pytree of them.
        axis_name: as ``psum`` has it, one name.
        axis: where the new axis is, or which one grows.
        tiled: whether they are joined along the axis that is there, and not along a new one.

    Example:
        >>> import fx
        >>> fx.vmap(lambda x: fx.all_gather(x, "i").sum(), axis_name="i")(fx.tensor([1.0, 3.0]))
        tensor([4., 4.])
    """

    def move(x: Tensor, lane: Tensor, **params: Any) -> Tensor:
        at = _place(axis, x.ndim + (not tiled), "all_gather")
        out = _row_at(prims.all_gather(x, lane, **params), at)
        return _merged(out, at) if tiled else out

    return _of_each(x, _axis_of(axis_name, "all_gather"), move)


def psum_scatter(
    x: Any, axis_name: Hashable, *, scatter_dimension: int = 0, tiled: bool = False
) -> Any:
    """Of the sum over all lanes or ranks each its own part: lane i gets row i.

    Args:
        x: a tensor or a pytree of them, with a row for each lane along ``scatter_dimension``.
        axis_name: as ``psum`` has it, one name.
        scatter_dimension: the axis of the rows.
        tiled: whether a part is ``1 / size`` of the axis, which stays, and not one row.

    Raises:
        ShapeError: if the axis has another size, or cannot be cut.

    Example:
        >>> import fx
        >>> f = lambda x: fx.psum_scatter(x, "i")
        >>> fx.vmap(f, axis_name="i")(fx.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([4., 6.])
    """

    def move(x: Tensor, lane: Tensor, **params: Any) -> Tensor:
        at = _place(scatter_dimension, x.ndim, "psum_scatter")
        cut = _parts(x, at, params["size"], tiled, "psum_scatter")
        narrow = x.dtype in _NARROW and type(params["axis"]) is str
        rows = _row_first(astype(cut, dtype=float32) if narrow else cut, at)
        out = prims.psum_scatter(rows, lane, **params)
        return astype(out, dtype=x.dtype) if narrow else out  # type: ignore[no-any-return]

    return _of_each(x, _axis_of(axis_name, "psum_scatter"), move)


def all_to_all(
    x: Any, axis_name: Hashable, split_axis: int, concat_axis: int, *, tiled: bool = False
) -> Any:
    """Each lane or rank sends a part to each: lane i gets the parts i of all, in order.

    Args:
        x: a tensor or a pytree of them, with a part for each lane along ``split_axis``.
        axis_name: as ``psum`` has it, one name.
        split_axis: the axis of the parts, which goes away unless ``tiled``.
        concat_axis: where the axis of what came is, or with ``tiled`` which one grows.
        tiled: whether parts are cut from an axis and joined along one.

    Example:
        >>> import fx
        >>> f = lambda x: fx.all_to_all(x, "i", 0, 0)
        >>> fx.vmap(f, axis_name="i")(fx.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[1., 3.],
                [2., 4.]])
    """

    def move(x: Tensor, lane: Tensor, **params: Any) -> Tensor:
        split = _place(split_axis, x.ndim, "all_to_all")
        joined = _place(concat_axis, x.ndim, "all_to_all")
        cut = _parts(x, split, params["size"], tiled, "all_to_all")
        out = _row_at(prims.all_to_all(_row_first(cut, split), lane, **params), joined)
        return _merged(out, joined) if tiled else out

    return _of_each(x, _axis_of(axis_name, "all_to_all"), move)


def pbroadcast(x: Any, axis_name: Hashable, source: int) -> Any:
    """What one lane or rank holds, the same in each.

    Args:
        x: a tensor or a pytree of them.
        axis_name: as ``psum`` has it, one name.
        source: the number of the lane.

    Example:
        >>> import fx
        >>> fx.vmap(lambda x: fx.pbroadcast(x, "i", 1), axis_name="i")(fx.tensor([1.0, 3.0]))
        tensor([3., 3.])
    """
    found = _axis_of(axis_name, "pbroadcast")
    if not isinstance(source, int) or not 0 <= source < found.size:
        raise AxisError(f"pbroadcast: source {source!r} is none of the {found.size} lanes or ranks")
    return _of_each(x, found, lambda *xs, **p: prims.pbroadcast(*xs, source=source, **p))


def ppermute(x: Any, axis_name: Hashable, perm: Sequence[tuple[int, int]]) -> Any:
    """Send values from lane to lane; a lane that receives nothing gets zeros.

    Args:
        x: a tensor or a pytree of them.
        axis_name: as ``psum`` has it, one name.
        perm: pairs ``(source, destination)``, no lane twice on either side.

    Example:
        >>> import fx
        >>> shift = lambda x: fx.ppermute(x, "i", [(0, 1), (1, 2)])
        >>> fx.vmap(shift, axis_name="i")(fx.tensor([1.0, 2.0, 3.0]))
        tensor([0., 1., 2.])
    """
    axis = _axis_of(axis_name, "ppermute")
    size = axis.size
    sources = [-1] * size
    for source, destination in perm:
        taken = not 0 <= destination < size or sources[destination] >= 0
        if taken or not 0 <= source < size or source in sources:
            raise AxisError(
                f"ppermute: {list(perm)} must name lanes below {size}, each at most once as a "
                f"source and once as a destination"
            )
        sources[destination] = source
    received = tuple(sources)
    return _of_each(x, axis, lambda *xs, **p: prims.ppermute(*xs, sources=received, **p))


def axis_index(axis_name: Hashable) -> Tensor:
    """The number of this lane or rank, 0-d int64.

    Example:
        >>> import fx
        >>> fx.vmap(lambda x: x * fx.axis_index("i"), axis_name="i")(fx.ones(3))
        tensor([0., 1., 2.])
    """
    return _index(_axis_of(axis_name, "axis_index"))


def axis_size(axis_name: AxisName) -> int:
    """The number of lanes of a running ``vmap``, of ranks of an axis, or of several together.

    Example:
        >>> import fx
        >>> fx.vmap(lambda x: x * fx.axis_size("i"), axis_name="i")(fx.tensor([1.0, 3.0]))
        tensor([2., 6.])
    """
    size = 1
    for axis in _axes(axis_name, "axis_size"):
        size *= axis.size
    return size
