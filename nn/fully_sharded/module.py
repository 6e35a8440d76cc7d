"""``fully_shard``: let each rank hold a part of the parameters, gradients and optimizer slots."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fx import tree
from fx.config import modes
from fx.distributed import agreement
from fx.distributed.device_mesh import init_device_mesh
from fx.distributed.distributing import distribute_tensor
from fx.distributed.mesh import Mesh, world
from fx.distributed.placed import Placed
from fx.distributed.placements import Replicate, Shard, local_shape
from fx.distributed.tensor import DTensor
from fx.errors import ArgumentError, DistError
from fx.nn.base.module import Module
from fx.nn.fully_sharded import staged
from fx.nn.fully_sharded.unit import Unit, as_now
from fx.tensor import Tensor, new_tensor
from fx.transforms.checkpoint import surroundings

NAME = "fully_shard"
_running: list[Any] = []  # the modules of units whose forward passes run, the outermost first


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes of a unit; parameters, gradients and slots are kept in their own.

    Args:
        param_dtype: of the whole parameters, and of inputs where ``cast_forward_inputs``.
        reduce_dtype: in which gradients are sent; None: that of the whole parameters.
        output_dtype: of what the module gives.
        cast_forward_inputs: whether floating inputs are cast to ``param_dtype``.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


class OffloadPolicy:
    """Parts stay where they are."""


class CPUOffloadPolicy(OffloadPolicy):
    """Parts lie on the CPU between their uses, as they do anyway.

    Args:
        pin_memory: accepted.
    """

    def __init__(self, pin_memory: bool = True) -> None:
        self.pin_memory = pin_memory


class UnshardHandle:
    """What ``unshard(async_op=True)`` gives: all is there already."""

    def wait(self) -> None:
        """Nothing is left to wait for."""


class FSDPModule:
    """What a module can do besides, once ``fully_shard`` was called on it."""

    _unit: Unit
    _reshards: bool | int | None
    _ahead: list[Any]

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Make its parameters whole: for its next forward pass, or until ``reshard``."""
        self._unit.hold()
        return UnshardHandle() if async_op else None

    def reshard(self) -> None:
        """Hold the parts alone."""
        self._unit.let_go(release=True)
        self._unit.release()

    def _each(self, recurse: bool) -> list[Any]:
        found = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        return [m for m in found if isinstance(m, FSDPModule)]

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Whether backward passes send gradients; those that do not add up, whole, in this rank."""
        for m in self._each(recurse):
            m._unit.syncs = requires_gradient_sync

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Accepted: nothing is put off to the last backward pass."""

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether the whole parameters are let go of between forward and backward."""
        for m in self._each(recurse):
            m._reshards = bool(reshard_after_forward)

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Whether the whole parameters are let go of behind backward."""
        for m in self._each(recurse):
            m._unit.reshard_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """Gather the parameters of other units right behind those of this one.

        Raises:
            ArgumentError: if one of them is no unit.
        """
        if not all(isinstance(m, FSDPModule) for m in modules):
            raise ArgumentError(
                f"set_modules_to_forward_prefetch takes modules of {NAME}, got {modules!r}"
            )
        self._ahead = list(modules)

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """Accepted: units are gathered when backward comes to them.

        Raises:
            ArgumentError: if one of them is no unit.
        """
        if not all(isinstance(m, FSDPModule) for m in modules):
            raise ArgumentError(
                f"set_modules_to_backward_prefetch takes modules of {NAME}, got {modules!r}"
            )

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide the sums of gradients by this instead of the number of ranks."""
        self._unit.divisor = float(factor)


def fully_shard(
    module: Any,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Any], Any] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: Any = None,
    ignored_params: Iterable[Any] | None = None,
) -> Any:
    """Let each rank hold a part of a module's parameters: one unit of those that no unit has yet.

    Called from the inside out, on blocks and then on the whole model. Parameters become tensors on
    the mesh, cut along their first axis, and stay the same objects. A unit's parameters are whole
    while its forward and backward passes run; backward leaves the parts of the mean gradients.

    Args:
        module: changed in place; a list: one unit of several modules is not there.
        mesh: ranks along one axis, or along two: replicas, each of which is cut. All unless given.
        reshard_after_forward: whether whole parameters are let go of between forward and backward;
            None: in all units but the outermost.
        shard_placement_fn: None, or what gives ``Shard(0)`` for each parameter.
        mp_policy: dtypes.
        offload_policy: None, or what says that parts lie on the CPU, as they do.
        ignored_params: parameters that stay as they are.

    Returns:
        the module, whose class has the methods of ``FSDPModule`` too.

    Raises:
        ArgumentError: naming what it cannot do.
        DistError: if the ranks' units have other parameters or dtypes, with those of each.

    Source: ``torch.distributed.fsdp.fully_shard``.

    Example:
        >>> import fx, fx.distributed as dist
        >>> from fx.nn.fully_sharded import fully_shard
        >>> model = fx.nn.Linear(3, 2)
        >>> mesh = dist.init_device_mesh("cpu", (1,))  # under fx.run: the number of ranks
        >>> model = fully_shard(model, mesh=mesh)
        >>> model(fx.ones((4, 3))).sum().backward()
        >>> model.bias.grad.placements, model.bias.grad.to_local()
        ((Shard(dim=0),), tensor([4., 4.]))
    """
    if not isinstance(module, Module):
        raise ArgumentError(f"{NAME} takes one module, got {type(module).__name__}")
    if isinstance(module, FSDPModule):
        raise ArgumentError(f"{NAME} was called on this {type(module).__name__} already")
    if offload_policy is not None and not isinstance(offload_policy, OffloadPolicy):
        raise ArgumentError(
            f"{NAME}: offload_policy is an OffloadPolicy, got {type(offload_policy).__name__}"
        )
    if reshard_after_forward is not None and not isinstance(reshard_after_forward, bool):
        raise ArgumentError(
            f"{NAME}: reshard_after_forward is a bool or None; parts on fewer ranks, as "
            f"{reshard_after_forward!r} asks for, are not there"
        )
    policy = mp_policy or MixedPrecisionPolicy()
    mesh = init_device_mesh("cpu", (world()[0],)) if mesh is None else mesh
    if not isinstance(mesh, Mesh) or len(mesh.sizes) > 2:
        raise ArgumentError(
            f"{NAME}: mesh has one axis, or two, replicas and parts, got {mesh!r}; write "
            f"init_device_mesh('cpu', (ranks,))"
        )
    placements = [Replicate()] * (len(mesh.sizes) - 1) + [Shard(0)]
    places = _places(module, {id(p) for p in ignored_params or ()})
    _compare(mesh, places, policy)
    for path, owner, name in places:
        _cut(path, owner._parameters[name], mesh, placements, shard_placement_fn)
    unit = Unit(
        [(owner, name) for _, owner, name in places], mesh,
        len(mesh.sizes) - 1, policy.param_dtype, policy.reduce_dtype,
    )  # fmt: skip
    kind = type(module)
    module.__class__ = type(
        f"FSDP{kind.__name__}", (FSDPModule, kind), {"__module__": kind.__module__}
    )
    own = module.__dict__
    own["_unit"], own["_policy"], own["_ahead"] = unit, policy, []
    own["_reshards"] = reshard_after_forward
    module.register_forward_pre_hook(_before, prepend=True, with_kwargs=True)
    module.register_forward_hook(_behind, always_call=True)
    return module


def _places(module: Any, ignored: set[int]) -> list[tuple[str, Any, str]]:
    """Path, module and name of the parameters of a unit: not below another one."""
    out = []
    below: list[tuple[str, Any]] = [("", module)]
    seen = set()
    while below:
        path, m = below.pop()
        if id(m) in seen or (m is not module and isinstance(m, FSDPModule)):
            continue
        seen.add(id(m))
        out += [
            (path + name, m, name)
            for name, p in m._parameters.items()
            if p is not None and id(p) not in ignored
        ]
        below += [(f"{path}{n}.", c) for n, c in reversed(m._modules.items()) if c is not None]
    return out


def _compare(mesh: Mesh, places: list[tuple[str, Any, str]], policy: MixedPrecisionPolicy) -> None:
    """See that a unit is the same on all ranks: they send each other bytes without shapes."""
    params = [(path, owner._parameters[name]) for path, owner, name in places]
    first = {id(p): path for path, p in reversed(params)}  # where it stands first: ties
    listed = [
        f"{path} {p.dtype} {tuple(p.shape)}"
        + ("" if p.requires_grad else " frozen")
        + ("" if first[id(p)] == path else f" = {first[id(p)]}")
        for path, p in params
    ]
    listed += [
        f"{name}={dtype}"
        for name, dtype in (("param", policy.param_dtype), ("reduce", policy.reduce_dtype))
        if dtype is not None
    ]
    for m in range(len(mesh.sizes)):
        agreement.same(mesh.ranks(m), NAME, *listed)


def _cut(path: str, p: Any, mesh: Any, placements: Any, choose: Any) -> None:
    """Let this rank have its part of a parameter."""
    wanted = None if choose is None else choose(p)
    if wanted is not None and wanted != Shard(0):
        raise ArgumentError(f"{NAME}: parameters are cut along axis 0, not {wanted!r}: {path}")
    if isinstance(p, DTensor):
        if (p.device_mesh, list(p.placements)) != (mesh, placements):
            again = _cut_again(path, p, mesh, placements)
            p.rebind(p.detach().to_local())  # a cell keeps the placements that it has
            p.rebind(again)
        return
    if not p.ndim:
        raise ArgumentError(
            f"{NAME} doesn't support scalar parameters. Change {path} to a 1D tensor with numel "
            f"equal to 1."
        )
    if p.device.name == "meta":
        p.rebind(_without_values(path, p, mesh, placements))
        return
    if p.device.name != "cpu":
        raise ArgumentError(f"{NAME}: {path} lies on {p.device.name}, and parts on the CPU")
    part = distribute_tensor(p.detach(), mesh, placements, src_data_rank=None)
    array = part._a
    array.local = array.local.copy()  # not a view, which would keep the whole
    p.rebind(part)


def _cut_again(path: str, p: Any, mesh: Any, placements: Any) -> Any:
    """A part of the part that tensor parallel has left to this rank."""
    outer = p.device_mesh
    if set(outer._axis_of_root) & set(mesh._axis_of_root) or outer._of != mesh._of:
        raise ArgumentError(
            f"{NAME}: {path} lies on {outer!r} by {p.placements}; a parameter that is cut already "
            f"lies on other axes of the mesh that {mesh!r} is of: write mesh = "
            f"init_device_mesh('cpu', (n, m), mesh_dim_names=('dp', 'tp')), and cut by mesh['dp']"
        )
    part = distribute_tensor(p.detach().to_local(), mesh, placements, src_data_rank=None)
    both = outer.in_front_of(mesh)
    local = part._a.local.copy()
    return new_tensor(Placed(local, tuple(p.shape), both, (*p.placements, *placements)))


def _without_values(path: str, p: Any, mesh: Any, placements: Any) -> Any:
    """A part that takes no memory, for a parameter of the meta device: one NaN, seen everywhere."""
    if not p.is_floating_point():
        raise ArgumentError(f"{NAME}: {path} has no values, and {p.dtype} no NaN to say so")
    shape = tuple(p.shape)
    local = local_shape(shape, tuple(placements), mesh.sizes, mesh.place)
    nan = np.broadcast_to(np.array(np.nan, p.dtype), local)
    return new_tensor(Placed(nan, shape, mesh, tuple(placements)))


# around a forward pass ---------------------------------------------------------------------------


# a checkpointed function that runs again has the whole parameters that it had
surroundings.append(lambda: as_now([m._unit for m in _running]) if _running else None)


def _before(module: Any, args: Any, kwargs: Any) -> Any:
    if modes.stage is not None:
        _before_staged(module, staged.passes())
    else:
        if module._reshards is None:
            module._reshards = bool(_running)
        _running.append(module)
        module._unit.show()
        module._unit.let_go(release=False)  # this pass says when they are let go of
        for ahead in module._ahead:
            ahead._unit.show()
            ahead._unit.hide(release=False)
    policy = module._policy
    if policy.param_dtype is None or not policy.cast_forward_inputs:
        return None
    return _cast((args, kwargs), policy.param_dtype)


def _behind(module: Any, args: Any, out: Any) -> Any:
    changed = None
    if modes.stage is not None:
        changed = out = _behind_staged(module, staged.passes(), out)
    else:
        if module in _running:
            del _running[_running.index(module) :]
        module._unit.hide(release=bool(module._reshards))
    dtype = module._policy.output_dtype
    return changed if dtype is None else _cast(out, dtype)


def _before_staged(module: Any, passes: staged.Passes) -> None:
    passes.running.append(module)
    for unit in (module._unit, *[ahead._unit for ahead in module._ahead]):
        if unit.cells:
            now = passes.of(unit)
            if unit is module._unit:
                now.show()


def _behind_staged(module: Any, passes: staged.Passes, out: Any) -> Any:
    if module not in passes.running:
        return out
    del passes.running[passes.running.index(module) :]
    now = passes.open.get(id(module._unit))
    if now is None or not now.hide():
        return out
    if passes.again:  # backward follows
        passes.close(module._unit)
        return out
    reshards = bool(passes.running) if module._reshards is None else module._reshards
    if not reshards:
        return out
    del passes.open[id(module._unit)]
    return now.release(out)


def _cast(values: Any, dtype: Any) -> Any:
    floating = lambda x: isinstance(x, Tensor) and x.is_floating_point()
    return tree.map(lambda x: x.astype(dtype) if floating(x) else x, values)


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Let another method of a unit's module run as ``forward`` does: with whole parameters.

    Raises:
        DistError: if ``fully_shard`` was not called on the module.
        ArgumentError: if it has no such method.
    """
    if not isinstance(module, FSDPModule):
        raise DistError(f"register_fsdp_forward_method: call {NAME}(module) first")
    method = getattr(module, method_name, None)
    if not callable(method):
        raise ArgumentError(f"{type(module).__name__} does not have a method {method_name}")

    def called(*args: Any, **kwargs: Any) -> Any:
        changed = _before(module, args, kwargs)
        out = None
        try:
            given, named = (args, kwargs) if changed is None else changed
            out = method(*given, **named)
        finally:
            cast = _behind(module, args, out)
        return out if cast is None else cast

    module.__dict__[method_name] = called
