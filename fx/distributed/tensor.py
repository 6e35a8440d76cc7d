"""``DTensor``: tensors of global shape of which each rank has a part, and their methods.

A DTensor is a ``Tensor`` on the device ``"mesh"`` (``placed.py``): every operation, transform,
module and optimizer takes it. ``distributing.py`` makes them of what is whole, ``creation.py`` new
ones, and ``local_mapping.py`` has functions of their parts.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import fx.prims.placing as prims
from fx.config import modes
from fx.distributed.errors import NotOnMesh
from fx.distributed.mesh import Mesh
from fx.distributed.placed import DEVICE
from fx.distributed.placements import REPLICATE, Placements, Shard, checked, local_shape
from fx.errors import ArgumentError, DistError
from fx.tensor import Tensor, new_tensor

__all__ = ["DTensor"]


def mesh_of(what: str, mesh: Any) -> Mesh:
    """A mesh that a function was given, on which this rank has a part."""
    if not isinstance(mesh, Mesh):
        raise ArgumentError(
            f"{what}: device_mesh must be a mesh, got {mesh!r}; write init_device_mesh('cpu', "
            f"(size,))"
        )
    mesh.place  # noqa: B018 - refuses where this rank has no part
    return mesh


def _where(what: str, x: Any) -> tuple[Mesh, Placements]:
    found = prims.placements_of(x)
    if found is None:
        if x.device.name == DEVICE:
            if modes.stage is not None:
                modes.stage.give_up(
                    f"{what} asks where the parts of a tensor on a mesh lie, which does not follow "
                    f"from where its arguments lie"
                )
            raise DistError(
                f"{what}: lanes of vmap are cut or have no mesh, so that one lane has no parts; "
                f"write it outside of vmap"
            )
        raise NotOnMesh(
            f"{what}: the tensor lies on no mesh; write distribute_tensor(x, mesh, placements)"
        )
    return found  # type: ignore[no-any-return]


def refuse_staging(what: str) -> None:
    """What a rank has that others have not cannot be a node of a program."""
    if modes.stage is not None:
        modes.stage.give_up(
            f"{what} sends what the first rank has; of a tensor that is the same on all ranks "
            f"write fx.with_sharding_constraint(x, fx.NamedSharding(mesh, placements))"
        )


def replicated(mesh: Mesh) -> Placements:
    """The placements of what every rank has whole."""
    return (REPLICATE,) * len(mesh.axis_names)


# the face ---------------------------------------------------------------------------------------


class _OnMesh:
    """A method of tensors that lie on a mesh: the others have no such attribute."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.__doc__ = function, function.__doc__

    def __get__(self, x: Tensor | None, cls: type) -> Any:
        if x is None:
            return self.function
        if x.device.name != DEVICE:
            _where(self.function.__name__[1:], x)
        return MethodType(self.function, x)


class _Kind(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and prims.placements_of(x) is not None


class DTensor(metaclass=_Kind):
    """The tensors that lie on a mesh: ``isinstance(x, DTensor)``; ``from_local`` makes one.

    They have the attributes ``placements`` and ``device_mesh`` and the methods ``to_local``,
    ``full_tensor`` and ``redistribute``. Values that a rank has not (``item``, ``numpy``, ``bool``)
    are refused: no message is sent unless one is asked for.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a DTensor is made by DTensor.from_local or distribute_tensor")

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: Any = None,
        placements: Any = None,
        *,
        run_check: bool = False,
        shape: Any = None,
        stride: Any = None,
        grad_placements: Any = None,
    ) -> Tensor:
        """The tensor of which each rank has ``local_tensor``.

        Args:
            local_tensor: the part of this rank.
            device_mesh: the ranks.
            placements: one an axis of the mesh; replicated unless given.
            run_check: make what is replicated that of the first rank, by a message.
            shape: of the whole; that of equal parts unless given.
            stride: taken as PyTorch gives it, together with ``shape``; values are in C order.
            grad_placements: of the gradient, before this rank takes its part.

        Raises:
            ArgumentError: if placements do not fit the mesh, or parts of them have other shapes.
        """
        mesh = mesh_of("from_local", device_mesh)
        if local_tensor.device.name == DEVICE:
            raise ArgumentError(
                f"from_local takes the part of a rank, a tensor of the CPU, got "
                f"{local_tensor.spec!r}; write x.redistribute(mesh, placements)"
            )
        given = replicated(mesh) if placements is None else placements
        placed = checked("from_local", given, mesh, local_tensor.ndim)
        if shape is None:
            if stride is not None:
                raise ArgumentError("from_local: stride is given with shape")
            size = list(local_tensor.shape)
            for p, n in zip(placed, mesh.sizes):
                if isinstance(p, Shard):
                    size[p.dim] *= n
            shape = size
        shape = tuple(int(n) for n in shape)
        wanted = local_shape(shape, placed, mesh.sizes, mesh.place)
        if wanted != tuple(local_tensor.shape):
            raise ArgumentError(
                f"from_local: of a tensor of shape {shape} with placements {placed} this rank has "
                f"a part of shape {wanted}, got {tuple(local_tensor.shape)}"
            )
        if run_check:
            refuse_staging("from_local(run_check=True)")
            local_tensor = _of_the_first(local_tensor, mesh, placed)
        home = grad_placements and checked("from_local", grad_placements, mesh, len(shape))
        return prims.from_local(  # type: ignore[no-any-return]
            local_tensor, mesh=mesh, placements=placed, shape=shape, home=home
        )


def _to_local(self: Tensor, *, grad_placements: Any = None) -> Tensor:
    """The part of this rank, a tensor of the CPU.

    Args:
        grad_placements: how the gradient of the parts lies; as the tensor unless given.

    Raises:
        DistError: if the tensor lies on no mesh.
    """
    mesh, placements = _where("to_local", self)
    home = grad_placements and checked("to_local", grad_placements, mesh, self.ndim)
    shape = local_shape(self.shape, placements, mesh.sizes, mesh.place)
    return prims.to_local(self, mesh=mesh, placements=placements, shape=shape, home=home)  # type: ignore[no-any-return]


def _full_tensor(self: Tensor, *, grad_placements: Any = None) -> Tensor:
    """The whole, a tensor of the CPU: all ranks call this, which sends messages.

    Args:
        grad_placements: how the gradient lies; replicated unless given.
    """
    mesh, _ = _where("full_tensor", self)
    return _to_local(_redistribute(self, mesh, replicated(mesh)), grad_placements=grad_placements)


def _redistribute(
    self: Tensor, device_mesh: Any = None, placements: Any = None, *, async_op: bool = False
) -> Tensor:
    """The same tensor by other placements: all ranks call this.

    Args:
        device_mesh: that of the tensor.
        placements: one an axis of the mesh.
        async_op: the result is complete at once all the same.

    Raises:
        DistError: if the tensor lies on no mesh, or on another one.
        ArgumentError: if placements do not fit, or ask for addends of a whole.
    """
    mesh, before = _where("redistribute", self)
    if device_mesh is not None and device_mesh != mesh:
        raise DistError(f"redistribute: the tensor lies on {mesh!r}, not on {device_mesh!r}")
    placed = checked("redistribute", placements, mesh, self.ndim)
    if any(p.is_partial() and p != q for p, q in zip(placed, before)):
        raise ArgumentError(f"redistribute: {before} cannot become {placed}; addends come of sums")
    return self if placed == before else prims.redistribute(self, mesh=mesh, placements=placed)


def _placements(self: Tensor) -> Placements:
    """Where the parts lie, one placement an axis of the mesh."""
    return _where("placements", self)[1]


def _device_mesh(self: Tensor) -> Mesh:
    """The ranks that have the parts."""
    return _where("device_mesh", self)[0]


for _name, _method in {
    "to_local": _OnMesh(_to_local),
    "full_tensor": _OnMesh(_full_tensor),
    "redistribute": _OnMesh(_redistribute),
    "placements": property(_placements, doc=_placements.__doc__),
    "device_mesh": property(_device_mesh, doc=_device_mesh.__doc__),
}.items():
    setattr(Tensor, _name, _method)


def _of_the_first(x: Tensor, mesh: Mesh, placements: Placements) -> Tensor:
    """What the first ranks of the axes along which it is not cut hold."""
    array = x.detach()._a
    for m, p in enumerate(placements):
        if not p.is_shard():
            array = mesh.ranks(m).broadcast(array, 0)
    return x + (new_tensor(array) - x.detach())  # its gradient is that of x
