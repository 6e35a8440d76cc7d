"""``Mesh``: the ranks of the world as an array with named axes; ``P``: which of them cut what."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from fx.config import modes
from fx.distributed import mpi
from fx.errors import ArgumentError, AxisError, DistError

Names = tuple[Hashable, ...]
_MOST = 2**24  # ranks of a mesh


class PartitionSpec(tuple[Any, ...]):
    """For each axis of a tensor the axis of a mesh that cuts it, several of them, or None.

    Axes that it does not mention are whole. What no axis of the mesh cuts is the same on all ranks.

    Example:
        >>> import fx
        >>> fx.P("data", None, ("rows", "columns"))
        P('data', None, ('rows', 'columns'))
    """

    __slots__ = ()

    def __new__(cls, *entries: Any) -> PartitionSpec:
        return super().__new__(cls, entries)

    def __repr__(self) -> str:
        return f"P({', '.join(map(repr, self))})"

    def __reduce__(self) -> Any:
        return PartitionSpec, tuple(self)

    def cuts(self) -> list[Names]:
        """For each axis the names that cut it, the outermost first."""
        return [() if e is None else e if type(e) is tuple else (e,) for e in self]


P = PartitionSpec


class MeshAxis(NamedTuple):
    """An axis of a mesh, as collectives find it by name."""

    axis_name: Hashable
    number: str  # the key of its ranks
    size: int


class Mesh:
    """Ranks as an array whose axes have names.

    Args:
        devices: a tuple of sizes: of the first ranks of the world in order; or a list or an array
            of ranks of that shape, each one once.
        axis_names: a name for each axis.
        lanes: let lanes of a ``vmap`` in this process stand for the ranks: the same program and the
            same numbers, on one process.

    Raises:
        DistError: if the world has fewer ranks.
        ArgumentError: if names or ranks do not fit.

    Example:
        >>> import fx
        >>> mesh = fx.Mesh((2, 2), ("rows", "columns"), lanes=True)
        >>> mesh.shape, mesh.size
        ({'rows': 2, 'columns': 2}, 4)
    """

    def __init__(self, devices: Any, axis_names: Any, *, lanes: bool = False) -> None:
        names = _names(axis_names)
        ranks = _ranks(devices)
        if len(names) != ranks.ndim or len(set(names)) != len(names):
            raise ArgumentError(
                f"Mesh: {ranks.ndim} axes of shape {ranks.shape} need as many different names, got "
                f"{names!r}"
            )
        flat = [int(r) for r in ranks.flat]
        self.axis_names: Names = names
        self.lanes = lanes
        self._sizes = tuple(ranks.shape)
        self._ranks = tuple(flat)
        self._axes: tuple[MeshAxis, ...] = ()
        self._place: tuple[int, ...] = ()  # of this rank; of others nothing
        self._here = True
        if not lanes:
            self._axes = self._connected(ranks)

    def _connected(self, ranks: Any) -> tuple[MeshAxis, ...]:
        """The axes, with a communicator for each that this rank is on."""
        size, rank = world()
        if max(self._ranks) >= size:
            needed = max(self._ranks) + 1
            raise DistError(
                f"Mesh: {self._sizes} takes rank {needed - 1}, but the world has {size} "
                f"{'ranks' if size > 1 else 'rank'}; start {needed}: python -m fx.run "
                f"--nproc-per-node {needed} …, or let lanes stand for them: lanes=True"
            )
        in_order = self._ranks == tuple(range(len(self._ranks)))
        told = "x".join(map(str, self._sizes))
        told += "" if in_order else "@" + ",".join(map(str, self._ranks))
        axes = [
            MeshAxis(name, f"{told}/{k}", n)
            for k, (name, n) in enumerate(zip(self.axis_names, self._sizes))
        ]
        self._here = rank in self._ranks
        if self._here:
            from fx.distributed.ranks import Ranks, known

            self._place = place = tuple([int(i[0]) for i in np.nonzero(ranks == rank)])
            for k, axis in enumerate(axes):
                if axis.number not in known:
                    line = tuple(slice(None) if i == k else p for i, p in enumerate(place))
                    Ranks(axis.number, [int(r) for r in ranks[line]], place[k])
        return tuple(axes)

    @property
    def shape(self) -> dict[Hashable, int]:
        """The size of each axis."""
        return dict(zip(self.axis_names, self._sizes))

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return len(self._ranks)

    @property
    def devices(self) -> np.ndarray:
        """The ranks."""
        return np.asarray(self._ranks).reshape(self._sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the axes, in their order."""
        return self._sizes

    @property
    def place(self) -> tuple[int, ...]:
        """Where this rank is, a number for each axis.

        Raises:
            DistError: if it is not in the mesh.
        """
        if not self._place:
            raise DistError(
                f"{self!r} has lanes of one process for ranks, which hold no parts of tensors"
                if self.lanes
                else f"rank {world()[1]} is not in {self!r}, which has the ranks {self._ranks}"
            )
        return self._place

    def ranks(self, axis: int) -> Any:
        """The ranks along an axis to whom this rank belongs (``ranks.py``)."""
        from fx.distributed.ranks import known

        return self.place and known[self._axes[axis].number]

    def placed(self, local: Any, shape: tuple[int, ...], placements: Any) -> Any:
        """The array of which this rank has a part (``placed.py``)."""
        from fx.distributed.placed import Placed

        return Placed(local, shape, self, placements)

    def axis(self, name: Hashable, what: str) -> int:
        """The place of an axis.

        Raises:
            AxisError: listing those there are.
        """
        if name not in self.axis_names:
            raise AxisError(f"{what}: the mesh has no axis {name!r}; its axes are {self.shape}")
        return self.axis_names.index(name)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={n}" for name, n in self.shape.items())
        return f"Mesh({sizes}{', lanes' if self.lanes else ''})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Mesh) and self._told() == other._told()

    def __hash__(self) -> int:
        return hash(self._told())

    def _told(self) -> Any:
        return self._sizes, self._ranks, self.axis_names, self.lanes


def _names(axis_names: Any) -> Names:
    names = tuple(axis_names) if isinstance(axis_names, tuple | list) else (axis_names,)
    try:
        hash(names)
    except TypeError:
        raise ArgumentError(f"Mesh: names of axes must be hashable, got {axis_names!r}") from None
    return names


def _ranks(devices: Any) -> Any:
    """The ranks as an array."""
    if isinstance(devices, int | tuple):
        sizes = devices if isinstance(devices, tuple) else (devices,)
        if not sizes or not all(type(n) is int and n > 0 for n in sizes):
            raise ArgumentError(f"Mesh: sizes must be positive ints, got {devices!r}")
        if prod(sizes) > _MOST:
            raise ArgumentError(f"Mesh: {prod(sizes)} ranks are more than any world has, {_MOST}")
        return np.arange(prod(sizes)).reshape(sizes)
    try:
        ranks = np.asarray(devices if isinstance(devices, list | np.ndarray) else None)
    except ValueError:  # ragged
        ranks = np.asarray(None)
    fits = ranks.ndim and ranks.size and ranks.dtype.kind in "iu" and ranks.min() >= 0
    if not fits or len(np.unique(ranks)) != ranks.size:
        raise ArgumentError(
            f"Mesh: devices are a tuple of sizes, or a list or array of ranks, each one once, got "
            f"{devices!r}"
        )
    return ranks


def world() -> tuple[int, int]:
    """How many ranks there are, and which one this is."""
    if not mpi.is_started() and not mpi.is_launched():
        return 1, 0
    comm = mpi.start().COMM_WORLD
    return comm.size, comm.rank


class Running:
    """The axes of a mesh, while a function runs on its ranks."""

    def __init__(self, axes: Sequence[MeshAxis]) -> None:
        self.axes = tuple(axes)

    def __enter__(self) -> None:
        self.saved = modes.axes
        modes.axes = (*modes.axes, *self.axes)

    def __exit__(self, *error: object) -> None:
        modes.axes = self.saved
