"""``DeviceMesh``: ``Mesh`` by PyTorch's names, for the placements of tensors."""

from __future__ import annotations

import os
from math import prod
from typing import Any

import numpy as np

from fx.distributed import mpi
from fx.distributed.mesh import Mesh, MeshAxis, world
from fx.errors import ArgumentError, AxisError, DeviceError


class DeviceMesh(Mesh):
    """Ranks as an array, whose axes may have names.

    In a process that a launcher started it calls ``init_process_group()`` if nobody has.

    Args:
        device_type: where parts lie, ``"cpu"``.
        mesh: the ranks: nested lists, an array or a tensor of ints.
        mesh_dim_names: a name for each axis.

    Raises:
        DistError: if the world has fewer ranks.
        DeviceError: if parts cannot lie there.

    Example:
        >>> from fx.distributed import DeviceMesh
        >>> mesh = DeviceMesh("cpu", [0], mesh_dim_names=("dp",))
        >>> mesh.size(), mesh.get_local_rank("dp")
        (1, 0)
    """

    def __init__(
        self, device_type: str, mesh: Any, *, mesh_dim_names: Any = None, backend: Any = None
    ) -> None:
        if str(device_type) != "cpu":
            raise DeviceError(
                f"DeviceMesh: parts of tensors lie on the CPU, got {device_type!r}; write 'cpu'"
            )
        _join()
        ranks = np.asarray(mesh.numpy() if hasattr(mesh, "numpy") else mesh)
        names = range(ranks.ndim) if mesh_dim_names is None else mesh_dim_names
        super().__init__(ranks, tuple(names))
        self._named = mesh_dim_names is not None
        self._of, self._axis_of_root = self, tuple(range(ranks.ndim))

    device_type = "cpu"
    outer: DeviceMesh
    _of: DeviceMesh  # of which it is a part
    _axis_of_root: tuple[int, ...]

    def _sub(self, axes: list[int]) -> DeviceMesh:
        """The ranks along some axes to which this rank belongs."""
        line = tuple([slice(None) if k in axes else p for k, p in enumerate(self.place)])
        out: DeviceMesh = object.__new__(DeviceMesh)
        order = [sorted(axes).index(k) for k in axes]
        ranks = self.devices[line].transpose(order)
        out.axis_names = tuple([self.axis_names[k] for k in axes])
        out.lanes, out._here, out._named = False, True, True
        out._of, out._axis_of_root = self._of, tuple([self._axis_of_root[k] for k in axes])
        out._sizes, out._ranks = ranks.shape, tuple([int(r) for r in ranks.flat])
        out._axes = tuple([self._axes[k] for k in axes])
        out._place = tuple([self.place[k] for k in axes])
        return out

    def __getitem__(self, names: Any) -> DeviceMesh:
        """The mesh along an axis, or along several in their order.

        Raises:
            AxisError: listing those there are.
        """
        given = names if isinstance(names, tuple) else (names,)
        axes = [self.axis(name, "DeviceMesh") for name in given]
        if axes != sorted(set(axes)):
            raise AxisError(f"DeviceMesh: {names!r} is not in the order of {self.axis_names}")
        return self if len(axes) == len(self.axis_names) else self._sub(axes)

    def in_front_of(self, mesh: DeviceMesh) -> DeviceMesh:
        """The mesh of the axes of this one and, behind them, those of another part of the same.

        Its attribute ``outer`` is this one.
        """
        out = self._of._sub([*self._axis_of_root, *mesh._axis_of_root])
        out.outer = self
        return out

    def _number(self, mesh_dim: Any) -> int:
        if mesh_dim is None:
            if len(self.axis_names) > 1:
                raise ArgumentError(
                    f"DeviceMesh: which axis of {self!r}? Give mesh_dim, one of {self.axis_names}"
                )
            return 0
        if type(mesh_dim) is int and mesh_dim not in self.axis_names:
            if not -self.ndim <= mesh_dim < self.ndim:
                raise AxisError(f"DeviceMesh: there is no axis {mesh_dim} of {self.ndim}")
            return mesh_dim % self.ndim
        return self.axis(mesh_dim, "DeviceMesh")

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.axis_names)

    @property
    def shape(self) -> Any:
        """The sizes of the axes."""
        return self._sizes

    def size(self, mesh_dim: Any = None) -> int:  # type: ignore[override]
        """How many ranks there are, along an axis if one is given."""
        return prod(self._sizes) if mesh_dim is None else self._sizes[self._number(mesh_dim)]

    @property
    def mesh_dim_names(self) -> tuple[Any, ...] | None:
        """The names of the axes; None where none were given."""
        return self.axis_names if self._named else None

    @property
    def mesh(self) -> Any:
        """The ranks, a tensor of int32."""
        import fx

        return fx.from_numpy(self.devices.astype(np.int32))

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Where this rank is; None if it is not in the mesh."""
        return self._place or None

    def get_local_rank(self, mesh_dim: Any = None) -> int:
        """The place of this rank along an axis."""
        return self.place[self._number(mesh_dim)]

    def get_rank(self) -> int:
        """The number of this rank in the world."""
        return world()[1]

    def get_group(self, mesh_dim: Any = None) -> Any:
        """The process group along an axis; all ranks of the world ask for it.

        Raises:
            DistError: before ``init_process_group``.
        """
        return _group(self, self._number(mesh_dim))

    def get_all_groups(self) -> list[Any]:
        """``get_group`` of each axis."""
        return [_group(self, k) for k in range(self.ndim)]

    def _flatten(self, mesh_dim_name: Any = None) -> DeviceMesh:
        """The same ranks along one axis; all of them ask for it."""
        name = mesh_dim_name or "_".join(map(str, self.axis_names))
        return DeviceMesh("cpu", self.devices.ravel(), mesh_dim_names=(name,))

    def __repr__(self) -> str:
        names = self.mesh_dim_names
        told = (
            ", ".join(f"{name}={n}" for name, n in zip(names, self._sizes))
            if names
            else ", ".join(map(str, self._sizes))
        )
        return f"DeviceMesh(({told}), 'cpu')"


def _join() -> None:
    """Join the world as ``init_process_group()`` does, if a launcher said who this process is."""
    from fx.distributed import groups, rendezvous

    if not groups.is_initialized() and (mpi.is_launched() or "WORLD_SIZE" in os.environ):
        rendezvous.init_process_group()


_groups: dict[Any, Any] = {}


def _group(mesh: DeviceMesh, k: int) -> Any:
    from fx.distributed import groups

    axis: MeshAxis = mesh._axes[k]
    world_group = groups.group.WORLD
    key = (id(world_group), axis.number)
    if key not in _groups:
        whole, k = mesh._of.devices, mesh._axis_of_root[k]
        lines = np.moveaxis(whole, k, -1).reshape(-1, whole.shape[k]).tolist()
        if len(lines) == 1 and lines[0] == list(range(groups.get_world_size())):
            _groups[key] = world_group
        else:
            _groups[key], _ = groups.new_subgroups_by_enumeration(lines)
    return _groups[key]


def init_device_mesh(
    device_type: str, mesh_shape: Any, *, mesh_dim_names: Any = None, backend_override: Any = None
) -> DeviceMesh:
    """A mesh of the first ranks of the world.

    Args:
        device_type: where parts lie, ``"cpu"``.
        mesh_shape: the sizes of the axes.
        mesh_dim_names: a name for each axis.

    Raises:
        DistError: if the world has fewer ranks.

    Example:
        >>> from fx.distributed import init_device_mesh
        >>> init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
        DeviceMesh((dp=1, tp=1), 'cpu')
    """
    shape = tuple(mesh_shape) if isinstance(mesh_shape, tuple | list) else (mesh_shape,)
    if not shape or not all(type(n) is int and n > 0 for n in shape):
        raise ArgumentError(f"init_device_mesh: sizes must be positive ints, got {mesh_shape!r}")
    if mesh_dim_names is not None and len(mesh_dim_names) != len(shape):
        raise ArgumentError(
            f"init_device_mesh: {len(mesh_dim_names)} names {mesh_dim_names!r} for the "
            f"{len(shape)} axes of {shape}"
        )
    ranks = np.arange(prod(shape)).reshape(shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)
