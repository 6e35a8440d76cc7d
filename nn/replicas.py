"""The steps of PyTorch's ``DataParallel``, for scripts that write them one by one.

``scatter`` cuts a batch, ``replicate`` makes the modules, ``parallel_apply`` calls them, ``gather``
puts the results together. The CPU is one device, whose kernels use all cores, so the replicas run
one after the other; devices say how many there are.

Source: ``torch.nn.parallel``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from fx.config import no_grad
from fx.errors import ArgumentError, ShapeError
from fx.nn.base.module import Module
from fx.nn.parameter import Buffer, Parameter
from fx.ops.shapes.joining import concat, stack
from fx.tensor import Tensor


def _names(x: Any) -> bool:
    return isinstance(x, tuple) and hasattr(x, "_fields")


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Cut tensors into parts, one a device: of each container as many, other values in each.

    Args:
        inputs: tensors, in tuples, lists, dicts and named tuples.
        target_gpus: the devices; fewer parts than devices where the axis is short.
        dim: the axis that is cut, (*S) with S[dim] in equal parts but the last.

    Returns:
        a tuple of parts of a tensor, a list of parts of a container.

    Example:
        >>> import fx
        >>> from fx.nn.parallel import scatter
        >>> scatter((fx.arange(3), "mean"), [0, 1])
        [(tensor([0, 1]), 'mean'), (tensor([2]), 'mean')]
    """
    if isinstance(inputs, Tensor):
        return tuple(inputs.chunk(len(target_gpus), dim))
    if _names(inputs):
        return [type(inputs)(*x) for x in zip(*[scatter(x, target_gpus, dim) for x in inputs])]
    if isinstance(inputs, list | tuple) and inputs:
        return [type(inputs)(x) for x in zip(*[scatter(x, target_gpus, dim) for x in inputs])]
    if isinstance(inputs, dict) and inputs:
        parts = zip(*[scatter(x, target_gpus, dim) for x in inputs.values()])
        return [type(inputs)(zip(inputs, part)) for part in parts]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    target_gpus: Sequence[Any],
    dim: int = 0,
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """``scatter`` of positional and keyword arguments, of each as many parts.

    Example:
        >>> import fx
        >>> from fx.nn.parallel import scatter_kwargs
        >>> scatter_kwargs((fx.arange(2),), {"scale": 3}, [0, 1])
        (((tensor([0]),), (tensor([1]),)), ({'scale': 3}, {'scale': 3}))
    """
    parts = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    count = max(len(parts), len(named))
    parts += [()] * (count - len(parts))
    named += [{}] * (count - len(named))
    return tuple(parts), tuple(named)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Put the parts of tensors together, in whatever containers they are.

    Args:
        outputs: one thing a device, all alike. Tensors of no axis become a vector.
        target_device: accepted.
        dim: the axis along which they are joined.

    Raises:
        ShapeError: if dicts differ in their number of keys, or tensors in another axis.

    Example:
        >>> import fx
        >>> from fx.nn.parallel import gather
        >>> gather([{"y": fx.ones(2)}, {"y": fx.zeros(1)}], "cpu")
        {'y': tensor([1., 1., 0.])}
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        if dim == 0 and all(x.ndim == 0 for x in outputs):
            warnings.warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will "
                "instead unsqueeze and return a vector.",
                stacklevel=2,
            )
            return stack(list(outputs))
        return concat(list(outputs), axis=dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(x) != len(first) for x in outputs):
            raise ShapeError("gather: All dicts must have the same number of keys")
        return type(first)((k, gather([x[k] for x in outputs], target_device, dim)) for k in first)
    joined = [gather(x, target_device, dim) for x in zip(*outputs, strict=True)]
    return type(first)(*joined) if _names(first) else type(first)(joined)


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """Modules of the same parameters, one a device: what they add to gradients is the network's.

    Args:
        network: the module.
        devices: how many there are.
        detach: give each values of its own, which require no grad.

    Returns:
        the modules. The first shares the network's buffers, the others have copies.

    Example:
        >>> import fx
        >>> from fx.nn.parallel import replicate
        >>> net = fx.nn.Linear(3, 1)
        >>> first, second = replicate(net, ["cpu", "cpu"])
        >>> first.weight is net.weight, first is net
        (True, False)
    """
    return [_copy(network, {}, i == 0, detach) for i in range(len(devices))]


def _copy(module: Module, made: dict[int, Any], first: bool, detach: bool) -> Module:
    """A module in whose tree everything that is shared is shared once more."""
    if id(module) in made:
        return made[id(module)]  # type: ignore[no-any-return]
    out = made[id(module)] = object.__new__(type(module))
    out.__dict__.update(module.__dict__)

    def own(cell: Any, kind: Any, shares: bool) -> Any:
        if cell is None or shares:
            return cell
        if id(cell) not in made:
            with no_grad():
                made[id(cell)] = kind(cell.detach())
        return made[id(cell)]

    fixed = lambda value: Parameter(value, requires_grad=False)
    out.__dict__["_parameters"] = {
        name: own(p, fixed, not detach) for name, p in module._parameters.items()
    }
    out.__dict__["_buffers"] = {
        name: own(b, Buffer, first and not detach) for name, b in module._buffers.items()
    }
    out.__dict__["_modules"] = {
        name: None if child is None else _copy(child, made, first, detach)
        for name, child in module._modules.items()
    }
    return out


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[Mapping[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Call each module with its arguments.

    Args:
        modules: one a device.
        inputs: a tuple or list of positional arguments of each, or the only one.
        kwargs_tup: keyword arguments of each.
        devices: accepted.

    Raises:
        ArgumentError: if there are not as many of one as of the other.

    Example:
        >>> import fx
        >>> from fx.nn.parallel import parallel_apply
        >>> parallel_apply([fx.nn.ReLU(), fx.nn.Tanh()], [(fx.ones(1),), fx.zeros(1)])
        [tensor([1.]), tensor([0.])]
    """
    kwargs = [{}] * len(modules) if kwargs_tup is None else kwargs_tup
    for what, given in (("inputs", inputs), ("kwargs_tup", kwargs), ("devices", devices)):
        if given is not None and len(given) != len(modules):
            raise ArgumentError(
                f"parallel_apply: The number of modules {len(modules)} is not equal to the number "
                f"of {what} {len(given)}"
            )
    return [
        module(*(x if isinstance(x, list | tuple) else (x,)), **kw)
        for module, x, kw in zip(modules, inputs, kwargs)
    ]


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """What a module gives of a batch: on the CPU, which is one device, as it is.

    Args:
        module: the module.
        inputs: its positional arguments, or the only one.
        device_ids, output_device, dim: accepted; there is one device.
        module_kwargs: its keyword arguments.

    Example:
        >>> import fx
        >>> fx.nn.parallel.data_parallel(fx.nn.ReLU(), fx.asarray([-1.0, 1.0]))
        tensor([0., 1.])
    """
    arguments = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*arguments, **(module_kwargs or {}))
