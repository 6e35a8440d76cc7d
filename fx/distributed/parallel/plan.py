"""``parallelize_module``: styles for modules, found by their names."""

from __future__ import annotations

import warnings
from fnmatch import fnmatchcase
from typing import Any

from fx.distributed.mesh import Mesh
from fx.distributed.parallel.styles import ParallelStyle
from fx.errors import ArgumentError


def parallelize_module(
    module: Any,
    device_mesh: Any = None,
    parallelize_plan: Any = None,
    *,
    src_data_rank: int | None = 0,
) -> Any:
    """Cut the parameters of modules along an axis of a mesh, and bring what they take there.

    Args:
        module: changed in place.
        device_mesh: the ranks. Of several axes the last one is that of the styles; tensors lie on
            the others as they come, such as a batch that is cut for data parallel.
        parallelize_plan: a style, or a dict of them by names of submodules such as
            ``"layers.*.mlp"``, where ``*`` and ``?`` stand for what has no dot.
        src_data_rank: whose values count, as of ``distribute_tensor``.

    Returns:
        the module.

    Raises:
        ArgumentError: for what is no mesh or no plan, a style that does not fit a module, or
            parameters that two modules share and their styles lay differently.

    Warns:
        UserWarning: where a name finds no submodule, or there is no plan.

    Example:
        >>> import fx
        >>> import fx.distributed as dist
        >>> from fx.torch.distributed.tensor.parallel import (
        ...     ColwiseParallel,
        ...     RowwiseParallel,
        ...     parallelize_module,
        ... )
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> net = fx.nn.Sequential(fx.nn.Linear(4, 8), fx.nn.ReLU(), fx.nn.Linear(8, 4))
        >>> plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        >>> net = parallelize_module(net, mesh, plan)
        >>> net[0].weight.placements, net[2].weight.placements, net(fx.ones(3, 4)).shape
        ((Shard(dim=0),), (Shard(dim=1),), (3, 4))
    """
    if not isinstance(device_mesh, Mesh):
        raise ArgumentError(
            f"parallelize_module: device_mesh must be a mesh, got {device_mesh!r}; write "
            f"init_device_mesh('cpu', (size,))"
        )
    if parallelize_plan is None:
        warnings.warn("parallelize_module: no plan is given; nothing is changed", stacklevel=2)
        return module
    plan = parallelize_plan if isinstance(parallelize_plan, dict) else {"": parallelize_plan}
    for style in plan.values():
        if not isinstance(style, ParallelStyle):
            raise ArgumentError(
                f"parallelize_module: the plan is a style such as ColwiseParallel() or a dict of "
                f"styles by names, got {style!r}"
            )
    shared = _shared(module)
    for name, style in plan.items():
        found = _named(module, name)
        if not found:
            warnings.warn(
                f"parallelize_module: no submodule has the name {name!r}; there are "
                f"{[n for n, _ in module.named_modules() if n]}",
                stacklevel=2,
            )
        for part in found:
            style.src_data_rank = src_data_rank
            style._apply(part, device_mesh)
    for names in shared:
        _tie(module, names)
    return module


def _named(module: Any, pattern: str) -> list[Any]:
    """The submodules whose names are as a pattern says, which matches part for part."""
    found, words = [module], pattern.split(".") if pattern else []
    for word in words:
        found = [
            child for part in found for name, child in part.named_children()
            if fnmatchcase(name, word)
        ]  # fmt: skip
    return found


# parameters of several modules ------------------------------------------------------------------


def _shared(module: Any) -> list[list[str]]:
    """The names of each parameter that has several."""
    names: dict[int, list[str]] = {}
    for name, p in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(p), []).append(name)
    return [found for found in names.values() if len(found) > 1]


def _tie(module: Any, names: list[str]) -> None:
    """One parameter again, which all its modules lay in the same way."""
    first = module.get_parameter(names[0])
    for name in names[1:]:
        other = module.get_parameter(name)
        if other is first:
            continue
        here, there = (getattr(p, "placements", None) if p.device.name == "mesh" else None
                       for p in (first, other))  # fmt: skip
        if here != there:
            raise ArgumentError(
                f"parallelize_module: {names[0]!r} and {name!r} are one parameter, which the plan "
                f"lays as {here} and as {there}; give both modules styles that lay it alike"
            )
        home, _, key = name.rpartition(".")
        module.get_submodule(home).register_parameter(key, first)
