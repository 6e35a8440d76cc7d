"""Placements: other ones for a tensor of the device ``"mesh"``, and the way there from parts.

Of ``from_local`` and ``to_local`` ``shape`` is that of the result, and ``home`` says how the
cotangent lies, None: as the tensor, and in place of addends the whole. A mesh of None is that of
samplers: the tensor stays as it is.
"""

from __future__ import annotations

from typing import Any

from fx.config import modes
from fx.primitive import define
from fx.prims import factors
from fx.prims.families import to_front
from fx.prims.sampling import Sample
from fx.spec import TensorSpec


def placements_of(x: Any) -> Any:
    """Where the value of a tensor of any level lies: a mesh and placements; None if unknown.

    Of what is staged it is known where it follows from the inputs, which are assumed to lie so
    from then on.
    """
    lanes: list[int] = []
    if modes.stage is not None and hasattr(x, "read"):  # a cell, or a name
        x = x.read()
    while hasattr(x, "value") and not hasattr(x, "read") and not hasattr(x, "lies"):  # a tracer
        if type(x.dim) is int:  # the axis of its lanes; of other tracers it is the method
            lanes.append(x.dim)
        x = x.value
    if hasattr(x, "lies"):
        found = x.lies()
    else:
        array = getattr(x, "_a", None)
        mesh = getattr(array, "mesh", None)
        found = None if mesh is None else (mesh, array.placements)  # type: ignore[union-attr]
    if found is None:
        return None
    mesh, placements = found
    for d in reversed(lanes):
        if any(p.is_shard(d) for p in placements):
            return None  # of no lane does each rank have a part
        placements = tuple(
            [type(p)(p.dim - (p.dim > d)) if p.is_shard() else p for p in placements]
        )
    return mesh, placements


def _home(mesh: Any, placements: Any) -> Any:
    """Where the cotangent of what lies somewhere goes: there, and in place of addends the whole."""
    return {"mesh": mesh, "placements": tuple([p.of_cotangent() for p in placements])}


def _with_lanes(placements: Any, d: int) -> Any:
    """Placements of a tensor with one more axis, at ``d``."""
    return tuple([p.with_lanes(d) for p in placements])


def _linear(get: Any) -> Any:
    return lambda primals, ts, **params: (get()(*primals, **params), get()(*ts, **params))


_NOWHERE = {"mesh": None, "placements": ()}


def _sample(d: Any) -> Sample:
    shape = d.shape()
    return Sample([d.floats(shape)], {**_NOWHERE, "shape": shape, "home": None})


# redistribute -----------------------------------------------------------------------------------


def _redistributed(array: Any, *, mesh: Any, placements: Any) -> Any:
    return array if mesh is None else array.moved(mesh, placements)


def _redistribute_vjp(needs: Any, x: Any, *, mesh: Any, placements: Any) -> Any:
    home = _home(*(placements_of(x) or (mesh, placements)))
    return lambda ct: (redistribute(ct, **home),)


def _redistribute_batch(level: Any, args: Any, dims: Any, *, mesh: Any, placements: Any) -> Any:
    d = dims[0]
    return redistribute(args[0], mesh=mesh, placements=_with_lanes(placements, d)), d


redistribute = define(
    "redistribute", cpu=_redistributed, anywhere=True, torch_name="Redistribute",
    spec=lambda x, *, mesh, placements: x,
    jvp=_linear(lambda: redistribute),
    vjp=_redistribute_vjp,
    sharding=factors.elementwise((0,)),
    batch=_redistribute_batch,
    sample=lambda d: Sample([d.floats(d.shape())], _NOWHERE),
)  # fmt: skip


# from parts -------------------------------------------------------------------------------------


def _placed(array: Any, *, mesh: Any, placements: Any, shape: Any, home: Any) -> Any:
    return array if mesh is None else mesh.placed(array, shape, placements)


def _from_local_vjp(
    needs: Any, x: Any, *, mesh: Any, placements: Any, shape: Any, home: Any
) -> Any:
    there = _home(mesh, home or placements)
    local = x._shape
    return lambda ct: (to_local(ct, shape=local, home=placements, **there),)


def _from_local_batch(level: Any, args: Any, dims: Any, *, shape: Any, **params: Any) -> Any:
    x = to_front(args[0], dims[0])
    for name in ("placements", "home"):
        params[name] = params[name] and _with_lanes(params[name], 0)
    return from_local(x, shape=(level.size, *shape), **params), 0


def _from_local_spec(x: Any, *, mesh: Any, placements: Any, shape: Any, home: Any) -> TensorSpec:
    return x if mesh is None else TensorSpec(shape, x.dtype, "mesh")


from_local = define(  # the tensor of shape ``shape`` of which this rank has x
    "from_local", cpu=_placed, anywhere=True, torch_name="FromLocal",
    spec=_from_local_spec,
    jvp=_linear(lambda: from_local),
    vjp=_from_local_vjp,
    batch=_from_local_batch,
    sample=_sample,
    sharding=factors.elementwise((0,)),
)  # fmt: skip


# to parts ---------------------------------------------------------------------------------------


def _local(array: Any, *, mesh: Any, placements: Any, shape: Any, home: Any) -> Any:
    return array if mesh is None else array.moved(mesh, placements).local


def _to_local_vjp(needs: Any, x: Any, *, mesh: Any, placements: Any, shape: Any, home: Any) -> Any:
    there = {"mesh": mesh, "placements": home} if home else _home(mesh, placements)
    whole = x._shape
    return lambda ct: (from_local(ct, shape=whole, home=placements, **there),)


def _to_local_batch(level: Any, args: Any, dims: Any, *, shape: Any, **params: Any) -> Any:
    x = to_front(args[0], dims[0])
    for name in ("placements", "home"):
        params[name] = params[name] and _with_lanes(params[name], 0)
    return to_local(x, shape=(level.size, *shape), **params), 0


def _to_local_spec(x: Any, *, mesh: Any, placements: Any, shape: Any, home: Any) -> TensorSpec:
    return x if mesh is None else TensorSpec(shape, x.dtype, "cpu")


to_local = define(  # the part of this rank, of shape ``shape``, by placements
    "to_local", cpu=_local, anywhere=True, torch_name="ToTorchTensor",
    spec=_to_local_spec,
    jvp=_linear(lambda: to_local),
    vjp=_to_local_vjp,
    batch=_to_local_batch,
    sample=_sample,
    sharding=factors.elementwise((0,)),
)  # fmt: skip
