"""State dicts of models and optimizers whose tensors lie on a mesh: as parts, or whole.

Source: ``torch.distributed.checkpoint.state_dict``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fx import tree
from fx.config import no_grad
from fx.distributed.collectives import broadcast
from fx.distributed.distributing import distribute_tensor
from fx.distributed.mesh import world
from fx.distributed.messages import broadcast_object_list
from fx.distributed.tensor import DTensor
from fx.errors import ArgumentError, StateError
from fx.ops.convert import as_tensor
from fx.tensor import Tensor, new_tensor

_asking: list[Any] = []  # the models whose parts are wanted, whatever they save by themselves


@dataclass
class StateDictOptions:
    """How state dicts are made, and taken.

    Args:
        full_state_dict: whole tensors of the CPU instead of parts.
        cpu_offload: with ``full_state_dict``: rank 0 alone gets the values, the others ``{}``.
        ignore_frozen_params: leave out parameters that require no grad.
        keep_submodule_prefixes: True.
        strict: whether missing and unexpected names are errors.
        broadcast_from_rank0: rank 0 has the whole values, which are sent to the others.
        flatten_optimizer_state_dict: False.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False

    def __post_init__(self) -> None:
        if not self.keep_submodule_prefixes or self.flatten_optimizer_state_dict:
            raise ArgumentError(
                "StateDictOptions: names keep their prefixes, and the state of optimizers is "
                "nested: leave keep_submodule_prefixes and flatten_optimizer_state_dict out"
            )


def get_model_state_dict(
    model: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The values of a model by name; all ranks call this.

    Args:
        model: a module.
        submodules: None.
        options: parts unless it says ``full_state_dict``.
    """
    options = _checked(options, submodules)
    _asking.append(model)
    try:
        state = dict(model.state_dict())
    finally:
        _asking.pop()
    if options.ignore_frozen_params:
        for name, p in model.named_parameters(remove_duplicate=False):
            if not p.requires_grad:
                state.pop(name, None)
    return _told(state, options)


def set_model_state_dict(
    model: Any, model_state_dict: Mapping[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Give a model values by name: whole tensors, of which each rank takes its part, or parts.

    Args:
        model: a module.
        model_state_dict: values, as ``get_model_state_dict`` gives them.
        options: with ``broadcast_from_rank0`` the other ranks may give ``{}``.

    Returns:
        ``missing_keys`` and ``unexpected_keys``.

    Raises:
        StateError: as ``load_state_dict``.
    """
    options = _checked(options)
    here = model.state_dict()
    given = dict(model_state_dict)
    if options.broadcast_from_rank0:
        given = _of_rank_0(given, here)
    else:
        given = {name: placed(value, here.get(name)) for name, value in given.items()}
    return model.load_state_dict(given, strict=options.strict)


def get_optimizer_state_dict(
    model: Any,
    optimizers: Any,
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """State and options of optimizers, by the names of the parameters; all ranks call this.

    Args:
        model: has the parameters.
        optimizers: one, or several.
        submodules: None.
        options: parts unless it says ``full_state_dict``.

    Returns:
        ``{"state": {name: {slot: tensor}}, "param_groups": [options and names]}``.
    """
    options = _checked(options, submodules)
    names = _names(model)
    state: dict[str, Any] = {}
    groups = []
    for optimizer in _several(optimizers):
        numbered = _numbered(optimizer, names)
        found = optimizer.state_dict()
        state.update({numbered[i]: held for i, held in found["state"].items()})
        groups += [{**g, "params": [numbered[i] for i in g["params"]]}
                   for g in found["param_groups"]]  # fmt: skip
    out = {name: _told(held, options) for name, held in state.items()}
    if options.full_state_dict and options.cpu_offload and world()[1]:
        return {}
    return {"state": out, "param_groups": groups}


def set_optimizer_state_dict(
    model: Any,
    optimizers: Any,
    optim_state_dict: Mapping[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Give optimizers what ``get_optimizer_state_dict`` gave; whole slots are cut as parameters.

    Raises:
        StateError: if groups have other parameters.
    """
    options = _checked(options)
    if options.broadcast_from_rank0:
        optim_state_dict = _state_of_rank_0(optim_state_dict)
    for optimizer in _several(optimizers):
        optimizer.load_state_dict(for_optimizer(model, optimizer, optim_state_dict))


def for_optimizer(model: Any, optimizer: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    """What an optimizer's ``load_state_dict`` takes, of a state by the names of parameters.

    Raises:
        StateError: if groups have other parameters.
    """
    names = _names(model)
    groups = list(found["param_groups"])
    numbered = _numbered(optimizer, names)
    numbers = {name: i for i, name in numbered.items()}
    params = {names[id(p)]: p for g in optimizer.param_groups for p in g["params"]}
    own = []
    for group in optimizer.param_groups:
        wanted = [names[id(p)] for p in group["params"]]
        its = next((g for g in groups if sorted(g["params"]) == sorted(wanted)), None)
        if its is None:
            raise StateError(
                f"set_optimizer_state_dict: no group of the state has the parameters {wanted}"
            )
        own.append({**its, "params": [numbers[name] for name in wanted]})
    state = {
        numbers[name]: {k: placed(v, params[name]) for k, v in held.items()}
        for name, held in found["state"].items()
        if name in numbers
    }
    return {"state": state, "param_groups": own}


def _state_of_rank_0(given: Mapping[str, Any]) -> Any:
    """An optimizer's state, of which rank 0 has the values: whole tensors one by one."""
    leaves, treedef = tree.flatten(dict(given)) if world()[1] == 0 else ([], None)
    told: list[Any] = [treedef] + [
        (tuple(x.shape), np.dtype(x.dtype)) if isinstance(x, Tensor) else (None, x) for x in leaves
    ]
    sent = [told]
    broadcast_object_list(sent, src=0)
    treedef, *kinds = sent[0]
    whole = []
    for i, (shape, kind) in enumerate(kinds):
        if shape is None:
            whole.append(kind)
        else:
            x = leaves[i].detach() if leaves else new_tensor(np.zeros(shape, kind))
            whole.append(broadcast(x, src=0))
    return tree.unflatten(treedef, whole)


def get_state_dict(
    model: Any,
    optimizers: Any,
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """``get_model_state_dict`` and ``get_optimizer_state_dict``."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(
    model: Any,
    optimizers: Any,
    *,
    model_state_dict: Mapping[str, Any],
    optim_state_dict: Mapping[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """``set_model_state_dict`` and ``set_optimizer_state_dict``."""
    out = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return out


def _checked(options: StateDictOptions | None, submodules: Any = None) -> StateDictOptions:
    if submodules:
        raise ArgumentError("state dicts of submodules: call it on the submodule")
    return options or StateDictOptions()


def _several(optimizers: Any) -> list[Any]:
    return list(optimizers) if isinstance(optimizers, Iterable) else [optimizers]


def _names(model: Any) -> dict[int, str]:
    return {id(p): name for name, p in model.named_parameters()}


def _numbered(optimizer: Any, names: dict[int, str]) -> dict[int, str]:
    """The names of an optimizer's parameters by their numbers."""
    params = [p for g in optimizer.param_groups for p in g["params"]]
    if any(id(p) not in names for p in params):
        raise ArgumentError("an optimizer has a parameter that is not one of the model's")
    return {i: names[id(p)] for i, p in enumerate(params)}


def _told(state: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    """Values as parts, or whole."""
    if not options.full_state_dict:
        return state
    keeps = not (options.cpu_offload and world()[1])
    out = {}
    with no_grad():
        for name, value in state.items():
            whole = value.full_tensor() if isinstance(value, DTensor) else _of_cpu(value)
            if keeps:
                out[name] = whole
    return out


def _of_cpu(value: Any) -> Any:
    return value.to("cpu") if isinstance(value, Tensor) else value


def wants_parts() -> bool:
    """Whether a state dict is being made of which parts are wanted."""
    return bool(_asking)


def placed(value: Any, like: Any) -> Any:
    """A whole tensor as the one lies that it is for."""
    on_mesh = isinstance(like, DTensor) and isinstance(value, Tensor)
    if not on_mesh or isinstance(value, DTensor) or value.shape != like.shape:
        return value
    place = like.device_mesh, like.placements
    return distribute_tensor(value.detach(), *place, src_data_rank=None)


def _of_rank_0(given: dict[str, Any], here: Mapping[str, Any]) -> dict[str, Any]:
    """What rank 0 has for each name of a model, sent to all."""
    mesh = next((x.device_mesh for x in here.values() if isinstance(x, DTensor)), None)
    if mesh is None:
        raise ArgumentError("broadcast_from_rank0: no parameter of the model lies on a mesh")
    out = {}
    for name, like in here.items():
        if world()[1] == 0 and name not in given:
            raise StateError(f"broadcast_from_rank0: rank 0 has no {name}")
        value = (
            as_tensor(given[name]).detach()
            if world()[1] == 0
            else new_tensor(np.zeros(like.shape, like.dtype))
        )
        array = value._a
        for m in range(len(mesh.sizes)):
            array = mesh.ranks(m).broadcast(array, 0)
        out[name] = placed(new_tensor(array), like)
    return out
