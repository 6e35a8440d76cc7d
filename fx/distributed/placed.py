"""The device ``"mesh"``: an array of which each rank has a part, and what its kernels are.

A kernel asks the sharding rule of its primitive (``fx/prims/factors.py``), chooses the placements
of the operands for which the fewest bytes are sent, sends them, runs the kernel of the CPU on the
parts, and knows the placements of the results. ``placements.md`` shows it by an example.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fx.devices import backend, register_backend
from fx.distributed.drawn import Key, keys_of, met
from fx.distributed.placements import (
    REPLICATE,
    Placements,
    local_range,
    local_shape,
)
from fx.distributed.redistribution import ARRAYS, redistributed
from fx.distributed.ways import Way, choice
from fx.errors import DeviceError
from fx.prims.collective import MESSAGES
from fx.prims.factors import WHOLE, Factors, factors_of
from fx.prims.places import looked_up
from fx.prims.placing import redistribute
from fx.spec import TensorSpec
from fx.tensor import new_tensor

DEVICE = "mesh"
Shape = tuple[int, ...]


class Placed:
    """An array of which this rank has a part.

    Args:
        local: the part.
        shape: of the whole.
        mesh: the ranks; None for a whole that is the same on any: a number, zeros.
        placements: one an axis of the mesh.

    Attributes:
        settled: of addends the sum, from when it was first wanted: it is not sent twice.
        keys: of draws that it depends on and that met no mesh yet (``drawn.py``).
    """

    __slots__ = ("dtype", "keys", "local", "mesh", "ndim", "placements", "settled", "shape")
    on: Any = ARRAYS  # works with parts

    def __init__(
        self, local: Any, shape: Shape, mesh: Any = None, placements: Placements = ()
    ) -> None:
        self.local, self.shape, self.mesh, self.placements = local, shape, mesh, placements
        self.dtype, self.ndim = local.dtype, len(shape)
        self.settled: Placed | None = None
        self.keys: tuple[Key, ...] = ()

    def whole(self) -> bool:
        """Whether this rank has all of it."""
        return all(p.is_replicate() for p in self.placements)

    def moved(self, mesh: Any, placements: Placements) -> Placed:
        """By other placements."""
        if self.mesh is None:
            met((self,), mesh, self.on)
            source: Placements = (REPLICATE,) * len(placements)
        else:
            _check_one(mesh, self.mesh)
            source = self.placements
        if self.settled is not None and not any(p.is_partial() for p in placements):
            return self.settled.moved(mesh, placements)
        local = redistributed(self.local, self.shape, mesh, source, placements, self.on)
        out = self.like(local, self.shape, mesh, placements)
        if any(p.is_partial() and not q.is_partial() for p, q in zip(source, placements)):
            self.settled = out
        return out

    def like(self, local: Any, shape: Shape, mesh: Any, placements: Placements) -> Placed:
        """Another one, whose parts are of the same kind."""
        return Placed(local, shape, mesh, placements)

    def held_as(self, before: Any) -> Placed:
        """What a cell holds that held ``before``: its placements stay."""
        kept = type(before) is Placed and before.mesh is not None and before.shape == self.shape
        return self.moved(before.mesh, before.placements) if kept else self

    def staged_as(self) -> Any:
        """A primitive and its parameters that do the same to what a staged function rebinds."""
        if self.mesh is None:
            return None
        return redistribute, {"mesh": self.mesh, "placements": self.placements}

    def shown(self) -> tuple[np.ndarray, list[str]]:
        """What is printed: the part of this rank, and what is to know besides."""
        if self.mesh is None:
            return self.local, []
        of = [] if self.local.shape == self.shape else [f"part of {self.shape}"]
        return self.local, [*of, f"placements={self.placements}", f"mesh={self.mesh!r}"]


def _check_one(mesh: Any, other: Any) -> None:
    if other is not mesh and other != mesh:
        raise DeviceError(
            f"a tensor on {other!r} of ranks {other.devices.tolist()} meets another on {mesh!r} of "
            f"ranks {mesh.devices.tolist()}; bring them to one mesh: x.full_tensor(), then "
            f"distribute_tensor(x, mesh, placements)"
        )


# the backend ------------------------------------------------------------------------------------

ARRAY = Placed


def from_numpy(array: np.ndarray) -> Placed:
    """The same on all ranks."""
    return Placed(array.copy(), array.shape)


def to_numpy(array: Placed) -> np.ndarray:
    """The values, where this rank has all of them.

    Raises:
        DeviceError: if it has not: nothing is sent by asking for values.
    """
    if not array.whole():
        raise DeviceError(
            f"this rank has only its part of a tensor of shape {array.shape} with placements "
            f"{array.placements}; on all ranks write x.full_tensor(), which sends messages, or "
            f"x.to_local() for the part"
        )
    return array.local.copy()


def kernel_for(primitive: Any) -> Any:
    """The kernel of the CPU on the parts."""

    def kernel(*arrays: Placed, **params: Any) -> Any:
        out = computed(primitive, arrays, params)
        return tuple(out) if primitive.multiple else out[0]

    return kernel


def compile(graph: Any) -> Any:
    """What runs a graph on parts, compiled for the placements that they come by."""
    from fx.distributed.propagation import Sharded

    return Sharded(graph)


def following() -> Any:
    """What knows where the values of a graph lie that is still being staged."""
    from fx.distributed.following import Following

    return Following()


_NUMBER = Placed(np.zeros(()), ())  # says what parts are where nothing is given


def computed(
    primitive: Any, arrays: Sequence[Placed], params: dict[str, Any], kind: Placed = _NUMBER
) -> list[Placed]:
    """The results of a primitive: placements are chosen, messages sent, parts computed.

    ``kind`` is of the kind of the results: arrays now, or values of the graph of what is done.
    """
    meshes = [a.mesh for a in arrays if a.mesh is not None]
    mesh: Any = meshes[0] if meshes else None
    for other in meshes[1:]:
        _check_one(mesh, other)
    on = kind.on
    if "device" in params:
        params = {**params, "device": "cpu"}
    if primitive.effectful:
        _check_effect(primitive, params)
    if mesh is not None:
        met(arrays, mesh, on)
    if all(a.whole() for a in arrays):
        placed = () if mesh is None else (REPLICATE,) * len(mesh.axis_names)
        out = on.call(primitive, [a.local for a in arrays], params)
        found = [kind.like(a, on.shape(a), mesh, placed) for a in out]
        if mesh is None:
            keys = keys_of(primitive, arrays)
            for x in found if keys else ():
                x.keys = keys
        return found
    arrays = [a.settled or a for a in arrays]
    specs = [TensorSpec(a.shape, a.dtype) for a in arrays]
    told = factors_of(primitive, specs, params)
    wanted = _several(primitive.spec(*specs, **params))
    if on is not ARRAYS and told.places:  # what is looked up in parts is no primitive of a graph
        told = replace(
            told, operands=tuple([n.replace(told.places, WHOLE) for n in told.operands]), places=""
        )
    sides = [(a.shape, a.dtype.itemsize, None if a.mesh is None else a.placements) for a in arrays]
    ways = choice(told, tuple(sides), tuple([s.shape for s in wanted]), mesh.sizes)
    if on is ARRAYS and primitive.name in _IN_STEPS and _gathers(ways, arrays):
        out = primitive.formula(*map(new_tensor, arrays), **params)
        if out is not None:
            return [out._a]
    moved = [a.moved(mesh, tuple([w.operands[i] for w in ways])) for i, a in enumerate(arrays)]
    placements = [tuple([w.results[i] for w in ways]) for i in range(len(wanted))]
    shapes = [
        local_shape(s.shape, p, mesh.sizes, mesh.place)
        for s, p in zip(wanted, placements, strict=True)
    ]
    parts = _computed(primitive, told, ways, moved, params, wanted, shapes, on)
    return [
        kind.like(a, s.shape, mesh, p) for a, s, p in zip(parts, wanted, placements, strict=True)
    ]


# along a cut their steps send a number a line, and the whole would be gathered
_IN_STEPS = ("softmax", "log_softmax", "logsumexp")


def _gathers(ways: Sequence[Way], arrays: Sequence[Placed]) -> bool:
    """Whether a part is to be put together with the others of its axis of the mesh."""
    return any(
        a.placements[m].is_shard() and way.operands[i].is_replicate()
        for m, way in enumerate(ways)
        for i, a in enumerate(arrays)
        if a.mesh is not None
    )


def _several(out: Any) -> tuple[Any, ...]:
    return out if isinstance(out, tuple) else (out,)


def _check_effect(primitive: Any, params: dict[str, Any]) -> None:
    effect = primitive.effectful(**params) if callable(primitive.effectful) else primitive.effectful
    if effect == MESSAGES:
        raise DeviceError(
            f"{primitive.name} is a message of parts, and this tensor is the whole of all ranks; "
            f"take x.to_local(), or let placements send: x.redistribute(mesh, placements)"
        )


def _computed(
    primitive: Any,
    told: Factors,
    ways: Sequence[Way],
    moved: Sequence[Placed],
    params: dict[str, Any],
    wanted: Sequence[TensorSpec],
    shapes: Sequence[Shape],
    on: Any,
) -> list[Any]:
    """The results of the kernel on the parts; of parts without an element what changes nothing."""
    parts = [a.local for a in moved]
    summed = [w.letter for w in ways if w.letter and told.summed(w.letter)]
    empty = [c for a, n in zip(parts, told.operands) for c, size in zip(n, on.shape(a)) if not size]
    cut = all(any(c in names for c in summed) for names in told.operands)
    if cut and any(c in summed for c in empty):  # where an operand is whole, it counts
        return [
            on.full(n, _neutral(told.op, s.dtype), s.dtype, parts)
            for n, s in zip(shapes, wanted, strict=True)
        ]
    if all(0 in n for n in shapes):
        return [on.full(n, 0, s.dtype, parts) for n, s in zip(shapes, wanted, strict=True)]
    if any(w.letter and w.letter == told.places for w in ways):
        source, places = moved
        axis = told.operands[0].index(told.places)
        bounds = local_range(source.shape, source.placements, source.mesh.sizes, source.mesh.place)
        kernel = partial(primitive.cpu, **params)
        size, start = source.shape[axis], bounds[axis][0]
        return [looked_up(kernel, told, source.local, places.local, size, start)]
    if told.local is not None:
        params = told.local(params, [on.shape(a) for a in parts], list(shapes))
    return on.call(primitive, parts, params)  # type: ignore[no-any-return]


def _neutral(op: str, dtype: Any) -> Any:
    """What changes no sum, product, minimum or maximum."""
    if op in ("sum", "product"):
        return int(op == "product")
    if dtype.kind == "b":
        return op == "min"
    if dtype.kind not in "iu":
        return -np.inf if op == "max" else np.inf
    found = np.iinfo(dtype)
    return int(found.min if op == "max" else found.max)


register_backend(DEVICE, sys.modules[__name__])
backend(DEVICE)
