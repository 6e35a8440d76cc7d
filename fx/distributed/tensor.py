"""``DTensor`` and what makes one: tensors of global shape of which each rank has a part.

The names and arguments are those of ``torch.distributed.tensor``. A DTensor is a ``Tensor`` on the
device ``"mesh"`` (``placed.py``): every operation, transform, module and optimizer takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from types import MethodType
from typing import Any

import fx.prims.placing as prims
from fx import tree
from fx.config import modes
from fx.distributed.errors import NotOnMesh
from fx.distributed.mesh import Mesh
from fx.distributed.placed import DEVICE, Placed
from fx.distributed.placements import (
    REPLICATE,
    Partial,
    Placement,
    Placements,
    Replicate,
    Shard,
    checked,
    local_shape,
)
from fx.errors import ArgumentError, DistError
from fx.random import stateful
from fx.tensor import Tensor, new_tensor

__all__ = [
    "DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
    "distribute_tensor", "empty", "full", "local_map", "ones", "rand", "randn", "zeros",
]  # fmt: skip


def _mesh(what: str, mesh: Any) -> Mesh:
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


def _refuse_staging(what: str) -> None:
    if modes.stage is not None:
        modes.stage.give_up(
            f"{what} sends what the first rank has; of a tensor that is the same on all ranks "
            f"write fx.with_sharding_constraint(x, fx.NamedSharding(mesh, placements))"
        )


def _replicated(mesh: Mesh) -> Placements:
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
        mesh = _mesh("from_local", device_mesh)
        if local_tensor.device.name == DEVICE:
            raise ArgumentError(
                f"from_local takes the part of a rank, a tensor of the CPU, got "
                f"{local_tensor.spec!r}; write x.redistribute(mesh, placements)"
            )
        given = _replicated(mesh) if placements is None else placements
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
            _refuse_staging("from_local(run_check=True)")
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
    return _to_local(_redistribute(self, mesh, _replicated(mesh)), grad_placements=grad_placements)


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


# from whole tensors -----------------------------------------------------------------------------


def _of_the_first(x: Tensor, mesh: Mesh, placements: Placements) -> Tensor:
    """What the first ranks of the axes along which it is not cut hold."""
    array = x.detach()._a
    for m, p in enumerate(placements):
        if not p.is_shard():
            array = mesh.ranks(m).broadcast(array, 0)
    return x + (new_tensor(array) - x.detach())  # its gradient is that of x


def distribute_tensor(
    tensor: Tensor,
    device_mesh: Any = None,
    placements: Any = None,
    *,
    src_data_rank: int | None = 0,
) -> Tensor:
    """A tensor on a mesh, of a whole one that all ranks have: a new leaf.

    Args:
        tensor: the whole, (*S).
        device_mesh: the ranks.
        placements: one an axis of the mesh, ``Shard`` or ``Replicate``; replicated unless given.
        src_data_rank: the place along each axis of the rank whose values count, which are sent to
            the others; None: nothing is sent, every rank takes its part of what it has.

    Raises:
        ArgumentError: if placements do not fit the mesh, or the tensor was computed from what
            requires grad.

    Example:
        >>> import fx
        >>> import fx.distributed as dist
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> x = dist.distribute_tensor(fx.ones(3), mesh, [dist.Shard(0)])
        >>> (x + 1).placements, (x + 1).to_local()
        ((Shard(dim=0),), tensor([2., 2., 2.]))
    """
    mesh = _mesh("distribute_tensor", device_mesh)
    _refuse_staging("distribute_tensor")
    given = _replicated(mesh) if placements is None else placements
    placed = checked("distribute_tensor", given, mesh, tensor.ndim)
    if any(p.is_partial() for p in placed):
        raise ArgumentError(f"distribute_tensor: a whole is no addend, got {placed}")
    found = prims.placements_of(tensor)
    if found is not None:
        if found != (mesh, placed):
            raise ArgumentError(
                f"distribute_tensor: the tensor lies on {found[0]!r} by {found[1]}; write "
                f"x.redistribute(mesh, placements)"
            )
        return tensor
    if not tensor.is_leaf:
        raise ArgumentError(
            "distribute_tensor: the tensor was computed from what requires grad, and the result "
            "is a leaf; write x.detach(), or DTensor.from_local"
        )
    array = tensor.detach()._a
    if src_data_rank is not None:
        for m in range(len(placed)):
            array = mesh.ranks(m).broadcast(array, src_data_rank)
    whole = Placed(array, array.shape, mesh, _replicated(mesh))
    return new_tensor(whole.moved(mesh, placed)).requires_grad_(tensor.requires_grad)


def distribute_module(
    module: Any,
    device_mesh: Any = None,
    partition_fn: Callable[..., Any] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Any:
    """Bring the parameters and buffers of a module to a mesh.

    Args:
        module: changed in place.
        device_mesh: the ranks.
        partition_fn: ``(name, module, mesh)``, called for each module: gives it parameters that are
            distributed. What it leaves is replicated.
        input_fn: ``(module, inputs, mesh) -> inputs``, before each call.
        output_fn: ``(module, outputs, mesh) -> outputs``, behind each call.

    Returns:
        the module.
    """
    from fx.nn import Parameter

    mesh = _mesh("distribute_module", device_mesh)
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        for key, p in [*part._parameters.items()]:
            if p is not None and not isinstance(p, DTensor):
                moved = distribute_tensor(p.detach(), mesh)
                part.register_parameter(key, Parameter(moved, requires_grad=p.requires_grad))
        for key, b in [*part._buffers.items()]:
            if b is not None and not isinstance(b, DTensor):
                part.register_buffer(
                    key, distribute_tensor(b.detach(), mesh),
                    persistent=key not in part._non_persistent_buffers_set,
                )  # fmt: skip
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, inputs, outs: output_fn(m, outs, mesh))
    return module


# new ones ---------------------------------------------------------------------------------------


def _made(name: str, doc: str, draws: bool) -> Callable[..., Tensor]:
    def make(
        *size: Any,
        dtype: Any = None,
        layout: Any = None,
        requires_grad: bool = False,
        device_mesh: Any = None,
        placements: Any = None,
    ) -> Tensor:
        import fx

        if layout is not None and "strided" not in str(layout):
            raise ArgumentError(f"{name}: tensors are dense, got layout={layout!r}")
        mesh = _mesh(name, device_mesh)
        value: tuple[Any, ...] = ()
        if name == "full":
            *size, fill = size  # type: ignore[assignment]
            value = (fill,)
        shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], tuple | list) else size
        given = _replicated(mesh) if placements is None else placements
        placed = checked(name, given, mesh, len(shape))
        if any(p.is_partial() for p in placed):
            raise ArgumentError(f"{name}: a new tensor is no addend, got {placed}")
        if draws:
            whole = getattr(stateful, name)(shape, dtype=dtype)
            out = distribute_tensor(whole, mesh, placed)
        else:
            part = local_shape(tuple(shape), placed, mesh.sizes, mesh.place)
            local = getattr(fx, name)(part, *value, dtype=dtype)
            out = new_tensor(Placed(local._a, tuple(shape), mesh, placed))
        return out.requires_grad_() if requires_grad else out

    make.__name__ = make.__qualname__ = name
    make.__doc__ = doc
    return make


_ARGUMENTS = """

    Args:
        size: of the whole, ints or one tuple.
        dtype: of the elements.
        layout: strided.
        requires_grad: whether gradients are accumulated for it.
        device_mesh: the ranks.
        placements: one an axis of the mesh; replicated unless given.
    """
zeros = _made("zeros", "Zeros on a mesh." + _ARGUMENTS, False)
ones = _made("ones", "Ones on a mesh." + _ARGUMENTS, False)
empty = _made("empty", "A tensor on a mesh whose values nobody has set." + _ARGUMENTS, False)
full = _made("full", "One number everywhere, given behind the size." + _ARGUMENTS, False)
rand = _made("rand", "Uniform numbers: those that one process draws." + _ARGUMENTS, True)
randn = _made("randn", "Normal numbers: those that one process draws." + _ARGUMENTS, True)


# functions of parts -----------------------------------------------------------------------------


def local_map(
    func: Callable[..., Any],
    out_placements: Any,
    in_placements: Any = None,
    in_grad_placements: Any = None,
    device_mesh: Any = None,
    *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """A function of parts as a function of tensors on a mesh.

    Args:
        func: takes and gives parts, and may send messages.
        out_placements: of its result, or a tuple of those of its results; None of no tensor.
        in_placements: for each argument the placements that it must have, None of what is no
            tensor on a mesh.
        in_grad_placements: for each argument how its gradient lies.
        device_mesh: the ranks; those of the arguments unless given.
        redistribute_inputs: bring arguments to ``in_placements`` instead of refusing others.

    Raises:
        ArgumentError: if an argument has other placements, or none is on a mesh.
    """

    @wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        mesh = device_mesh
        values, treedef = tree.flatten(args)
        _check_count("in_placements", in_placements, len(values))
        _check_count("in_grad_placements", in_grad_placements, len(values))
        parts = []
        for i, x in enumerate(values):
            if isinstance(x, DTensor):
                mesh = mesh or x.device_mesh
                wanted = in_placements and in_placements[i]
                if wanted is not None:
                    placed = checked("local_map", wanted, mesh, x.ndim)
                    if placed != x.placements and not redistribute_inputs:
                        raise ArgumentError(
                            f"local_map: argument {i} has placements {x.placements}, in_placements "
                            f"says {placed}; give redistribute_inputs=True"
                        )
                    x = prims.redistribute(x, mesh=mesh, placements=placed)
                home = in_grad_placements and in_grad_placements[i]
                x = x.to_local(grad_placements=home)
            parts.append(x)
        mesh = _mesh("local_map", mesh)
        found, out_tree = tree.flatten(func(*tree.unflatten(treedef, parts), **kwargs))
        one = not isinstance(out_placements, tuple)
        outs = [out_placements] * len(found) if one else out_placements
        _check_count("out_placements", outs, len(found))
        made = [
            x if p is None else DTensor.from_local(x, mesh, p)
            for x, p in zip(found, outs, strict=True)
        ]
        return tree.unflatten(out_tree, made)

    return mapped


def _check_count(what: str, given: Sequence[Any] | None, count: int) -> None:
    if given is not None and len(given) != count:
        raise ArgumentError(f"local_map: {what} has {len(given)} entries for {count} tensors")
