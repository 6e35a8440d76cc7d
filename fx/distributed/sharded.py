"""``shard_map``: a function that every rank of a mesh runs on its own part of the arguments."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any

import fx.prims.shape as shape_prims
from fx import tree
from fx.config import modes
from fx.distributed.mesh import Mesh, MeshAxis, PartitionSpec, Running
from fx.errors import ArgumentError, DistError, ShapeError, TreeError
from fx.ops.convert import as_tensor
from fx.prims.mesh import mesh_index, shard, unshard
from fx.tensor import Tensor
from fx.transforms._arguments import check_function, name_of
from fx.transforms.batching import vmap

Cuts = list[tuple[Hashable, ...]]


def shard_map(
    function: Callable[..., Any],
    mesh: Mesh,
    in_specs: Any,
    out_specs: Any,
    *,
    local: bool = False,
) -> Callable[..., Any]:
    """Run ``function`` on every rank of a mesh, on its part of the arguments.

    Inside, ``fx.psum`` and its kin know the axes of the mesh by name. Outside, every rank has the
    whole arguments and gets the whole results, so that a program means the same on one rank and on
    many. Derivatives are those of the whole.

    Args:
        function: takes and returns pytrees of tensors, of the part of one rank.
        mesh: its ranks.
        in_specs: a ``fx.P``, or a pytree prefix of the arguments of them: how each one is cut.
        out_specs: how each result is put together. What no axis of the mesh cuts is the same on all
            ranks: the first one's counts.
        local: the arguments are this rank's parts already, and so are the results: nothing is cut
            or put together.

    Raises:
        AxisError: if a spec names an axis that the mesh has not.
        ShapeError: if an axis cannot be cut into equal parts, or a spec is longer than its tensor
            has axes.
        TreeError: if the specs do not fit.
        DistError: if this rank is not on the mesh.

    Example:
        >>> import fx
        >>> mesh = fx.Mesh((2,), ("i",), lanes=True)
        >>> centred = fx.shard_map(lambda x: x - fx.pmean(x, "i"), mesh, fx.P("i"), fx.P("i"))
        >>> centred(fx.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([-1., -1.,  1.,  1.])
    """
    check_function(function, "shard_map")
    if not isinstance(mesh, Mesh):
        raise ArgumentError(f"shard_map: mesh must be a fx.Mesh, got {type(mesh).__name__}")
    if mesh.lanes and local:
        raise ArgumentError("shard_map: ranks that are lanes have no local parts; leave out local")
    for specs in (in_specs, out_specs):
        _check_specs(specs, mesh)

    @wraps(function)
    def sharded(*args: Any) -> Any:
        leaves, treedef = tree.flatten(args)
        cuts = _spread(in_specs, treedef, "in_specs", function)
        values = [as_tensor(x) for x in leaves]
        for x, cut in zip(values, cuts):
            _check_cut(x, cut, mesh, local)
        return (_in_lanes if mesh.lanes else on_ranks)(values, treedef, cuts)

    def on_ranks(values: list[Tensor], treedef: Any, cuts: list[Cuts]) -> Any:
        if not mesh._here:
            raise DistError(
                f"shard_map: this rank is not on {mesh!r} of ranks {mesh.devices.tolist()}"
            )
        if any(axis in modes.axes for axis in mesh._axes):
            raise ArgumentError(f"shard_map: {mesh!r} runs already; call the function itself")
        if not local:
            values = [_part(x, cut, mesh) for x, cut in zip(values, cuts)]
        with Running(mesh._axes):
            outs = function(*tree.unflatten(treedef, values))
        found, out_tree = tree.flatten(outs)
        out_cuts = _spread(out_specs, out_tree, "out_specs", function)
        found = [as_tensor(x) for x in found]
        for x, cut in zip(found, out_cuts):
            _check_rank(x, cut)
        if not local:
            found = [_whole(x, cut, mesh) for x, cut in zip(found, out_cuts)]
        return tree.unflatten(out_tree, found)

    def _in_lanes(values: list[Tensor], treedef: Any, cuts: list[Cuts]) -> Any:
        told: list[Any] = []

        def one(*parts: Tensor) -> list[Tensor]:
            found, out_tree = tree.flatten(function(*tree.unflatten(treedef, list(parts))))
            told[:] = [out_tree]
            return [as_tensor(x) for x in found]

        run: Any = one
        for name in reversed(mesh.axis_names):
            dims = [0 if any(name in entry for entry in cut) else None for cut in cuts]
            run = vmap(run, tuple(dims), 0, mesh.shape[name], name)
        outs = run(*[_lanes_of(x, cut, mesh) for x, cut in zip(values, cuts)])
        (out_tree,) = told
        out_cuts = _spread(out_specs, out_tree, "out_specs", function)
        joined = [_of_lanes(x, cut, mesh) for x, cut in zip(outs, out_cuts)]
        return tree.unflatten(out_tree, joined)

    return sharded


# specs ------------------------------------------------------------------------------------------


def _is_spec(x: Any) -> bool:
    return isinstance(x, PartitionSpec)


def _check_specs(specs: Any, mesh: Mesh) -> None:
    for spec in tree.leaves(specs, is_leaf=_is_spec):
        if not isinstance(spec, PartitionSpec):
            raise TreeError(f"shard_map: specs are fx.P, or pytrees of them, got {spec!r}")
        names = [name for entry in spec.cuts() for name in entry]
        for name in names:
            mesh.axis(name, f"shard_map: {spec!r}")
        if len(set(names)) != len(names):
            raise ArgumentError(f"shard_map: {spec!r} names an axis of the mesh twice")


def _spread(specs: Any, treedef: Any, what: str, function: Any) -> list[Cuts]:
    """The cuts of each leaf, from a spec or a pytree prefix of them."""
    if isinstance(specs, PartitionSpec):
        return [specs.cuts()] * treedef.num_leaves
    prefix, structure = tree.flatten(specs, is_leaf=_is_spec)
    marks = tree.unflatten(treedef, list(range(treedef.num_leaves)))
    try:
        subtrees = structure.flatten_up_to(marks)
    except (ValueError, TypeError):
        raise TreeError(
            f"shard_map: {what}={specs!r} is no prefix of {treedef}, the "
            f"{'arguments' if what == 'in_specs' else 'results'} of {name_of(function)}"
        ) from None
    out: list[Cuts] = [[]] * treedef.num_leaves
    for spec, subtree in zip(prefix, subtrees, strict=True):
        for i in tree.leaves(subtree):
            out[i] = spec.cuts()
    return out


def _check_rank(x: Tensor, cuts: Cuts) -> None:
    if len(cuts) > x.ndim:
        raise ShapeError(
            f"shard_map: a spec of {len(cuts)} axes for a tensor of shape {x.shape}; leave out "
            f"{len(cuts) - x.ndim} of {cuts}"
        )


def _check_cut(x: Tensor, cuts: Cuts, mesh: Mesh, local: bool) -> None:
    _check_rank(x, cuts)
    for d, names in enumerate(cuts):
        count = _count(names, mesh)
        if not local and x.shape[d] % count:
            raise ShapeError(
                f"shard_map: axis {d} of shape {x.shape} cannot be cut into {count} equal parts "
                f"along {' and '.join(map(repr, names))} of {mesh!r}; "
                f"pad it to a multiple of {count}"
            )


def _count(names: tuple[Hashable, ...], mesh: Mesh) -> int:
    count = 1
    for name in names:
        count *= mesh.sizes[mesh.axis(name, "")]
    return count


# on ranks ---------------------------------------------------------------------------------------


def _others(cuts: Cuts, mesh: Mesh) -> list[MeshAxis]:
    """The axes of the mesh that cut nothing."""
    return [axis for axis in mesh._axes if not any(axis.axis_name in entry for entry in cuts)]


def _lane(axis: MeshAxis) -> Tensor:
    return mesh_index(axis=axis.number, device="cpu")  # type: ignore[no-any-return]


def _part(x: Tensor, cuts: Cuts, mesh: Mesh) -> Tensor:
    """This rank's part of a whole tensor."""
    for axis in _others(cuts, mesh):
        x = shard(x, _lane(axis), axis=axis.number, size=axis.size, how="same")
    for d, names in enumerate(cuts):
        for name in names:
            axis, shape = mesh._axes[mesh.axis(name, "")], x.shape
            cut = (*shape[:d], axis.size, shape[d] // axis.size, *shape[d + 1 :])
            rows = _moved(shape_prims.reshaped(x, cut), d, 0)
            x = shard(rows, _lane(axis), axis=axis.number, size=axis.size, how="rows")
    return x


def _whole(x: Tensor, cuts: Cuts, mesh: Mesh) -> Tensor:
    """The whole of which every rank has a part."""
    for d, names in reversed(list(enumerate(cuts))):
        for name in reversed(names):
            axis, shape = mesh._axes[mesh.axis(name, "")], x.shape
            rows = unshard(x, _lane(axis), axis=axis.number, size=axis.size, how="rows")
            joined = (*shape[:d], axis.size * shape[d], *shape[d + 1 :])
            x = shape_prims.reshaped(_moved(rows, 0, d), joined)
    for axis in _others(cuts, mesh):
        x = unshard(x, _lane(axis), axis=axis.number, size=axis.size, how="first")
    return x


def _moved(x: Tensor, source: int, to: int) -> Tensor:
    """One axis moved."""
    if source == to:
        return x
    order = [i for i in range(x.ndim) if i != source]
    order.insert(to, source)
    return shape_prims.transpose(x, axes=tuple(order))  # type: ignore[no-any-return]


# in lanes ---------------------------------------------------------------------------------------


def _lanes_of(x: Tensor, cuts: Cuts, mesh: Mesh) -> Tensor:
    """The axes of the mesh that cut it in front, in their order."""
    shape: list[int] = []
    where: dict[Hashable, int] = {}
    rest: list[int] = []
    for d, n in enumerate(x.shape):
        names = cuts[d] if d < len(cuts) else ()
        for name in names:
            where[name] = len(shape)
            shape.append(mesh.shape[name])
        rest.append(len(shape))
        shape.append(n // _count(names, mesh))
    order = [where[name] for name in mesh.axis_names if name in where]
    wide = shape_prims.reshaped(x, tuple(shape))
    return shape_prims.transpose(wide, axes=(*order, *rest)) if order else wide  # type: ignore[no-any-return]


def _of_lanes(x: Tensor, cuts: Cuts, mesh: Mesh) -> Tensor:
    """The whole of (sizes of the mesh …, *part)."""
    count = len(mesh.axis_names)
    shape = x.shape[count:]
    if len(cuts) > len(shape):
        raise ShapeError(f"shard_map: a spec of {len(cuts)} axes for a tensor of shape {shape}")
    used = {name for entry in cuts for name in entry}
    start = (0,) * x.ndim
    drop = tuple([k for k, name in enumerate(mesh.axis_names) if name not in used])
    if drop:
        stop = tuple([1 if k in drop else n for k, n in enumerate(x.shape)])
        x = shape_prims.slice(x, start=start, stop=stop, step=(1,) * x.ndim, drop=drop)
    place = {name: k for k, name in enumerate([n for n in mesh.axis_names if n in used])}
    order: list[int] = []
    joined = []
    for d, n in enumerate(shape):
        names = cuts[d] if d < len(cuts) else ()
        order += [*[place[name] for name in names], len(place) + d]
        joined.append(n * _count(names, mesh))
    x = shape_prims.transpose(x, axes=tuple(order)) if len(order) > 1 else x
    return shape_prims.reshaped(x, tuple(joined))  # type: ignore[no-any-return]
