"""Shardings: where a tensor shall lie, as a constraint inside a function or at its doors.

The names are JAX's. A sharding is ``NamedSharding(mesh, spec)``, or a spec alone for a tensor that
lies on a mesh already; a spec is a ``fx.P``, or a placement for each axis of the mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import fx.prims.placing as prims
from fx import tree
from fx.config import modes
from fx.distributed.mesh import Mesh, PartitionSpec
from fx.distributed.placed import DEVICE
from fx.distributed.placements import REPLICATE, Placement, Placements, Shard, checked
from fx.errors import ArgumentError, DeviceError, DistError, ShapeError, TreeError
from fx.ops.convert import as_tensor
from fx.slotted import slotted
from fx.tensor import Tensor
from fx.transforms._arguments import name_of
from fx.transforms.jitting.signature import holds_state


@slotted(frozen=True)
class NamedSharding:
    """Where the parts of a tensor lie: a mesh, and which of its axes cut what.

    Args:
        mesh: the ranks.
        spec: a ``fx.P`` with, for each axis of the tensor, the axes of the mesh that cut it; or
            placements, one an axis of the mesh.

    Raises:
        AxisError: if the spec names an axis that the mesh has not.
        ArgumentError: if it names one twice, or asks for what is no placement of whole values.

    Example:
        >>> import fx
        >>> import fx.distributed as dist
        >>> mesh = dist.init_device_mesh("cpu", (1,), mesh_dim_names=("data",))
        >>> fx.NamedSharding(mesh, fx.P("data"))
        NamedSharding(mesh=DeviceMesh((data=1), 'cpu'), spec=P('data'))
    """

    mesh: Mesh
    spec: Any

    def __post_init__(self) -> None:
        if not isinstance(self.mesh, Mesh):
            raise ArgumentError(f"NamedSharding: mesh must be a fx.Mesh, got {self.mesh!r}")
        if not isinstance(self.spec, PartitionSpec) and not _are_placements(self.spec):
            raise ArgumentError(
                f"NamedSharding: spec is a fx.P, or a placement for each axis of the mesh, got "
                f"{self.spec!r}"
            )
        if isinstance(self.spec, PartitionSpec):
            _check_names("NamedSharding", self.spec, self.mesh)


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The same values, lying as ``shardings`` say: all ranks of the mesh call this.

    Eagerly and under ``jit`` the messages go that bring the parts there. Axes that do not divide
    evenly have parts as ``Shard`` has them. Cotangents and tangents come by the same way.

    Args:
        x: a pytree of tensors. A tensor of the CPU, which is believed to be the same on all ranks,
            is brought to the mesh of a ``NamedSharding``.
        shardings: for all leaves, or a pytree prefix of ``x``: ``NamedSharding(mesh, spec)``; or a
            spec alone, which is about the mesh that the tensor lies on; None leaves it as it is.

    Raises:
        DistError: if a spec alone meets a tensor that lies on no mesh, this rank is not in the
            mesh, or the tensor is a part, inside of ``shard_map``.
        AxisError: if a spec names an axis that the mesh has not.
        ShapeError: if a spec is longer than its tensor has axes.
        ArgumentError: if placements do not fit the mesh, or ask for addends.
        TreeError: if the shardings are no prefix.

    Source: ``jax.lax.with_sharding_constraint``.

    Example:
        >>> import fx
        >>> import fx.distributed as dist
        >>> mesh = dist.init_device_mesh("cpu", (1,), mesh_dim_names=("data",))
        >>> rows = fx.NamedSharding(mesh, fx.P("data"))
        >>> f = fx.jit(lambda x: fx.with_sharding_constraint(x * 2, rows))
        >>> f(fx.ones((2, 3))).placements
        (Shard(dim=0),)
    """
    return _constrained("with_sharding_constraint", x, shardings, "shardings", "the argument")


def between(
    function: Callable[..., Any],
    in_shardings: Any,
    out_shardings: Any,
    static_argnums: Sequence[int],
    static_argnames: Sequence[str],
) -> Callable[..., Any]:
    """A function whose arguments come, and whose results go, as shardings say; for ``jit``.

    Args:
        function: of pytrees.
        in_shardings: of the positional arguments that are not static, a pytree prefix of their
            tuple; None: as they come.
        out_shardings: of the result; None: as they are.
        static_argnums: positional arguments that are no tensors.
        static_argnames: the same by name.
    """
    name = name_of(function)
    for what, given in (("in_shardings", in_shardings), ("out_shardings", out_shardings)):
        for spec in tree.leaves(given, is_leaf=_is_sharding):
            if not _is_sharding(spec):
                raise TreeError(
                    f"jit of {name}: {what} are fx.NamedSharding, fx.P, lists of placements, or "
                    f"pytrees of them, got {spec!r}"
                )

    @wraps(function)
    def placed(*args: Any, **kwargs: Any) -> Any:
        if in_shardings is not None:
            named = [k for k in kwargs if k not in static_argnames]
            if named:
                raise ArgumentError(
                    f"jit of {name}: in_shardings are of positional arguments; pass "
                    f"{', '.join(named)} without a keyword"
                )
            static = {i % len(args) for i in static_argnums if -len(args) <= i < len(args)}
            given = tuple([x for i, x in enumerate(args) if i not in static])
            found = iter(
                _constrained(f"jit of {name}", given, in_shardings, "in_shardings", "its arguments")
            )
            args = tuple([x if i in static else next(found) for i, x in enumerate(args)])
        out = function(*args, **kwargs)
        if out_shardings is None:
            return out
        return _constrained(f"jit of {name}", out, out_shardings, "out_shardings", "its results")

    return placed


# a tree, a tensor --------------------------------------------------------------------------------


def _constrained(who: str, x: Any, shardings: Any, what: str, of: str) -> Any:
    """A tree as shardings say; what has none is the object that it was."""
    prefix, structure = tree.flatten(shardings, is_leaf=_is_sharding)
    leaves, treedef = tree.flatten(x, is_leaf=holds_state)
    try:  # with marks in place of tensors, whose values the words of an error would show
        structure.flatten_up_to(tree.unflatten(treedef, list(range(len(leaves)))))
    except (ValueError, TypeError):
        raise TreeError(f"{who}: {what}={shardings!r} is no prefix of {treedef}, {of}") from None
    subtrees = structure.flatten_up_to(x)
    return tree.unflatten(
        structure,
        [sub if s is None else _laid(who, sub, s) for s, sub in zip(prefix, subtrees, strict=True)],
    )


def _laid(who: str, x: Any, sharding: Any) -> Any:
    """A tree all of whose leaves lie as one sharding says."""
    leaves, treedef = tree.flatten(x, is_leaf=holds_state)
    for leaf in leaves:
        if holds_state(leaf):
            raise ArgumentError(
                f"{who}: the parameters of {type(leaf).__name__} stay where they are; write None "
                f"for it, and fx.distributed.distribute_module(module, mesh) before"
            )
    return tree.unflatten(treedef, [_lying(who, leaf, sharding) for leaf in leaves])


def _is_sharding(x: Any) -> bool:
    return x is None or isinstance(x, NamedSharding | PartitionSpec) or _are_placements(x)


def _are_placements(x: Any) -> bool:
    return isinstance(x, tuple | list) and bool(x) and all(isinstance(p, Placement) for p in x)


def _lying(who: str, x: Any, sharding: Any) -> Tensor:
    """One tensor as a sharding says."""
    if not _is_sharding(sharding):
        raise TreeError(
            f"{who}: shardings are fx.NamedSharding, fx.P, lists of placements, or pytrees of "
            f"them, got {sharding!r}"
        )
    x = as_tensor(x)
    alone = not isinstance(sharding, NamedSharding)
    # a mesh that is given needs no question, so that one program serves however arguments lie
    found = prims.placements_of(x) if alone or modes.stage is None else None
    if alone and found is None:
        if modes.stage is not None and x.device.name == DEVICE:
            modes.stage.give_up(
                f"{who}: it is not known which mesh {sharding!r} is about; write "
                f"fx.NamedSharding(mesh, {sharding!r})"
            )
        raise DistError(
            f"{who}: {sharding!r} is about the mesh of a tensor, and this one, {x.spec!r}, lies on "
            f"none; write fx.NamedSharding(mesh, {sharding!r})"
        )
    mesh, spec = (found[0], sharding) if alone else (sharding.mesh, sharding.spec)
    placed = _placements(who, spec, mesh, x.shape)
    mesh.place  # noqa: B018 - refuses where this rank has no part
    if found is not None and found[0] != mesh:
        raise DistError(f"{who}: the tensor lies on {found[0]!r}, not on {mesh!r}")
    if found == (mesh, placed):
        return x
    if x.device.name == "cpu":
        if any(axis in modes.axes for axis in mesh._axes):
            raise DistError(
                f"{who}: inside of shard_map on {mesh!r} tensors are parts, which no sharding "
                f"lays; write it outside"
            )
        whole = (REPLICATE,) * len(placed)
        x = prims.from_local(x, mesh=mesh, placements=whole, shape=x.shape, home=None)
    elif x.device.name != DEVICE:
        raise DeviceError(f"{who}: parts of tensors lie on the CPU, got {x.spec!r}")
    return prims.redistribute(x, mesh=mesh, placements=placed)  # type: ignore[no-any-return]


# specs -------------------------------------------------------------------------------------------


def _check_names(who: str, spec: PartitionSpec, mesh: Mesh) -> None:
    numbers = [[mesh.axis(name, f"{who}: {spec!r}") for name in entry] for entry in spec.cuts()]
    flat = [k for entry in numbers for k in entry]
    if len(set(flat)) != len(flat):
        raise ArgumentError(f"{who}: {spec!r} names an axis of the mesh twice")
    for entry in numbers:
        if entry != sorted(entry):
            names = tuple([mesh.axis_names[k] for k in sorted(entry)])
            raise ArgumentError(
                f"{who}: in {spec!r} several axes of {mesh!r} cut one axis, and they do so in the "
                f"order of the mesh: {names!r}"
            )


def _placements(who: str, spec: Any, mesh: Mesh, shape: tuple[int, ...]) -> Placements:
    """A spec as placements."""
    if isinstance(spec, PartitionSpec):
        _check_names(who, spec, mesh)
        cuts = spec.cuts()
        if len(cuts) > len(shape):
            raise ShapeError(
                f"{who}: {spec!r} has {len(cuts)} entries for a tensor of shape {tuple(shape)}"
            )
        out: list[Placement] = [REPLICATE] * len(mesh.axis_names)
        for d, names in enumerate(cuts):
            for name in names:
                out[mesh.axis(name, who)] = Shard(d)
        return tuple(out)
    placed = checked(who, spec, mesh, len(shape))
    if any(p.is_partial() for p in placed):
        raise ArgumentError(
            f"{who}: values that stay have no addends, got {placed}; write Shard or Replicate"
        )
    return placed
