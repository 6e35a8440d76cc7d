"""``FullyShardedDataParallel``: the older class, by whose names units are made and saved.

``FSDP(module, ...)`` is ``fully_shard`` on the modules that a policy chooses, then on the module
itself, whose class is one of ``FSDP`` too. So no name has a prefix and no parameter is flattened:
what a state dict holds is what the module without units has.

Source: ``torch.distributed.fsdp.FullyShardedDataParallel``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fx.config import no_grad
from fx.distributed import groups
from fx.distributed.device_mesh import DeviceMesh, init_device_mesh
from fx.distributed.distributing import distribute_tensor
from fx.distributed.mesh import world
from fx.distributed.tensor import DTensor
from fx.errors import ArgumentError
from fx.nn.base.module import Module
from fx.nn.data_parallel.values import take
from fx.nn.fully_sharded import state
from fx.nn.fully_sharded.module import FSDPModule, MixedPrecisionPolicy, fully_shard
from fx.nn.fully_sharded.options import (
    PARTS,
    WHOLE,
    BackwardPrefetch,
    FullOptimStateDictConfig,
    MixedPrecision,
    ShardingStrategy,
    StateDictSettings,
    StateDictType,
)
from fx.nn.fully_sharded.wrapping import wrap_below
from fx.nn.parameter import Parameter
from fx.tensor import Tensor

NAME = "FullyShardedDataParallel"


class FullyShardedDataParallel(FSDPModule):
    """A module whose parameters, gradients and optimizer slots ranks have parts of.

    Args:
        module: changed in place, and given back.
        process_group: the ranks; for HYBRID_SHARD give ``device_mesh``.
        sharding_strategy: FULL_SHARD unless told.
        auto_wrap_policy: which modules below are units of their own, as ``ModuleWrapPolicy``.
        mixed_precision: dtypes.
        ignored_modules, ignored_states: modules and parameters that stay as they are.
        param_init_fn: called with each module that has parameters on the meta device.
        sync_module_states: whether all ranks begin with rank 0's values.
        device_mesh: instead of ``process_group``.
        cpu_offload, backward_prefetch, device_id, forward_prefetch, limit_all_gathers,
            use_orig_params: accepted; they change nothing.

    Raises:
        ArgumentError: naming what it cannot do, as ``fully_shard``.

    Example:
        >>> import fx, fx.distributed as dist
        >>> from fx.nn.fully_sharded.wrapper import FullyShardedDataParallel as FSDP
        >>> mesh = dist.init_device_mesh("cpu", (1,))  # under fx.run: leave it out
        >>> model = FSDP(fx.nn.Linear(3, 2), device_mesh=mesh)
        >>> model.weight.placements, type(model.state_dict()["weight"]).__name__
        ((Shard(dim=0),), 'Tensor')
    """

    _saves: StateDictSettings

    def __new__(cls, module: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(module, Module):
            raise ArgumentError(f"{NAME} takes a module, got {type(module).__name__}")
        return _wrapped(cls, module, *args, **kwargs)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """All is done: the module was there before."""

    def __getattr__(self, name: str) -> Any:
        if name in ("module", "_fsdp_wrapped_module"):
            try:
                return super().__getattr__(name)  # type: ignore[misc]
            except AttributeError:
                return self
        return super().__getattr__(name)  # type: ignore[misc]

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale all gradients so that the norm of all of them is at most ``max_norm``."""
        from fx.nn.utils.gradients import clip_grad_norm_

        total = clip_grad_norm_(self.parameters(), max_norm, norm_type)  # type: ignore[attr-defined]
        return total.full_tensor() if isinstance(total, DTensor) else total

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes inside send nothing; the first one outside sends the sums."""
        units = self._each(True)
        before = [m._unit.syncs for m in units]
        self.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            for m, syncs in zip(units, before):
                m._unit.syncs = syncs

    @staticmethod
    def fsdp_modules(module: Any, root_only: bool = False) -> list[Any]:
        """The units of a model; with ``root_only`` those that are in no other."""
        units = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        inside = {id(m) for unit in units for m in unit.modules() if m is not unit}  # type: ignore[attr-defined]
        return [m for m in units if not (root_only and id(m) in inside)]

    # state dicts --------------------------------------------------------------------------------

    @staticmethod
    def set_state_dict_type(
        module: Any,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> StateDictSettings:
        """How the units of a model are saved from here on; what was before.

        Raises:
            ArgumentError: of LOCAL_STATE_DICT, and of settings of another type.
        """
        if state_dict_type is StateDictType.LOCAL_STATE_DICT:
            raise ArgumentError(
                "LOCAL_STATE_DICT has flat parameters, which fx does not make: write "
                "StateDictType.SHARDED_STATE_DICT"
            )
        kind = WHOLE if state_dict_type is StateDictType.FULL_STATE_DICT else PARTS
        given = state_dict_config or kind[1], optim_state_dict_config or kind[2]
        for config, wanted in zip(given, kind[1:]):
            if not isinstance(config, type(wanted)):
                raise ArgumentError(
                    f"{state_dict_type} takes a {type(wanted).__name__}, got {config!r}"
                )
        units = FullyShardedDataParallel.fsdp_modules(module)
        before = units[0]._saves if units else WHOLE
        for unit in units:
            unit.__dict__["_saves"] = StateDictSettings(state_dict_type, *given)
        return before

    @staticmethod
    def get_state_dict_type(module: Any) -> StateDictSettings:
        """How the units of a model are saved."""
        units = FullyShardedDataParallel.fsdp_modules(module)
        return units[0]._saves if units else WHOLE  # type: ignore[no-any-return]

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Any,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> Iterator[None]:
        """``set_state_dict_type`` for a block."""
        set_type = FullyShardedDataParallel.set_state_dict_type
        before = set_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            set_type(module, *before)

    @staticmethod
    def optim_state_dict(
        model: Any, optim: Any, optim_state_dict: Any = None, group: Any = None
    ) -> dict[str, Any]:
        """State and options of an optimizer by the names of parameters; all ranks call this."""
        if optim_state_dict is not None:
            raise ArgumentError("optim_state_dict: leave it out; the optimizer's own is taken")
        config = FullyShardedDataParallel.get_state_dict_type(model).optim_state_dict_config
        whole = isinstance(config, FullOptimStateDictConfig)
        options = state.StateDictOptions(
            full_state_dict=whole, cpu_offload=whole and config.rank0_only
        )
        return state.get_optimizer_state_dict(model, optim, options=options)

    @staticmethod
    def optim_state_dict_to_load(
        model: Any,
        optim: Any,
        optim_state_dict: Mapping[str, Any],
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: Any = None,
    ) -> dict[str, Any]:
        """What ``optim.load_state_dict`` takes, of what ``optim_state_dict`` gave."""
        if is_named_optimizer:
            raise ArgumentError("optim_state_dict_to_load: no optimizer here is a NamedOptimizer")
        found = state.for_optimizer(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(found)
        return found

    @staticmethod
    def full_optim_state_dict(
        model: Any, optim: Any, optim_input: Any = None, rank0_only: bool = True, group: Any = None
    ) -> dict[str, Any]:
        """Whole slots by the names of parameters; all ranks call this."""
        _without(optim_input)
        options = state.StateDictOptions(full_state_dict=True, cpu_offload=rank0_only)
        return state.get_optimizer_state_dict(model, optim, options=options)

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: Mapping[str, Any],
        model: Any,
        optim_input: Any = None,
        optim: Any = None,
    ) -> dict[str, Any]:
        """What ``optim.load_state_dict`` takes, of whole slots that every rank has."""
        _without(optim_input)
        if optim is None:
            raise ArgumentError("shard_full_optim_state_dict: say which optimizer, optim=...")
        return state.for_optimizer(model, optim, full_optim_state_dict)

    @staticmethod
    @contextmanager
    def summon_full_params(
        module: Any,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """Let modules have whole parameters in a block; what is written into them stays.

        Args:
            module: a model with units.
            recurse: whether units below are made whole too.
            writeback: whether this rank's parts are those of the whole ones behind the block.
            rank0_only: only without ``writeback``; all ranks have them.
            with_grads: whether they have their whole gradients.
            offload_to_cpu: accepted.
        """
        if rank0_only and writeback:
            raise ArgumentError("summon_full_params: rank0_only=True takes writeback=False")
        units = [m for m in module.modules() if isinstance(m, FSDPModule)] if recurse else [module]
        held: list[tuple[Any, str, Any, Any]] = []
        known: dict[int, Any] = {}
        with no_grad():
            for unit in units:
                for owner, name, i in unit._unit.places:
                    cell = unit._unit.cells[i]
                    if id(cell) not in known:
                        whole = Parameter(cell.full_tensor(), requires_grad=cell.requires_grad)
                        if with_grads and cell.grad is not None:
                            whole.grad = cell.grad.full_tensor()
                        known[id(cell)] = whole
                    held.append((owner, name, cell, known[id(cell)]))
                    owner._parameters[name] = known[id(cell)]
        try:
            yield
        finally:
            with no_grad():
                for owner, name, cell, whole in held:
                    owner._parameters[name] = cell
                    if writeback:
                        cell.copy_(_part(whole, cell))


def _without(optim_input: Any) -> None:
    if optim_input is not None:
        raise ArgumentError("optim_input: leave it out; the optimizer tells what it has")


def _part(whole: Any, like: Any) -> Any:
    return distribute_tensor(whole.detach(), like.device_mesh, like.placements, src_data_rank=None)


def _wrapped(
    cls: type,
    module: Any,
    process_group: Any = None,
    sharding_strategy: ShardingStrategy | None = None,
    cpu_offload: Any = None,
    auto_wrap_policy: Any = None,
    backward_prefetch: Any = BackwardPrefetch.BACKWARD_PRE,
    mixed_precision: MixedPrecision | None = None,
    ignored_modules: Iterable[Any] | None = None,
    param_init_fn: Any = None,
    device_id: Any = None,
    sync_module_states: bool = False,
    forward_prefetch: bool = False,
    limit_all_gathers: bool = True,
    use_orig_params: bool = False,
    ignored_states: Iterable[Any] | None = None,
    device_mesh: Any = None,
) -> Any:
    """The module, of which the chosen parts and itself are units."""
    strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
    if not isinstance(strategy, ShardingStrategy):
        raise ArgumentError(f"{NAME}: sharding_strategy is a ShardingStrategy, got {strategy!r}")
    mesh = device_mesh if device_mesh is not None else _mesh(process_group, strategy)
    left = [*(ignored_modules or ()), *(ignored_states or ())]
    alone = {id(m) for x in left if isinstance(x, Module) for m in x.modules()}
    params = [p for x in left for p in (x.parameters() if isinstance(x, Module) else [x])]
    if param_init_fn is not None:
        _without_meta(module, param_init_fn)
    if sync_module_states:
        group = groups.world(process_group)
        states = [*module.parameters(), *module.buffers()]
        take(group, [x for x in states if not isinstance(x, DTensor)], 0)
    mixed = mixed_precision or MixedPrecision()
    options = {
        "mesh": mesh,
        "reshard_after_forward": None if strategy.name in ("FULL_SHARD", "HYBRID_SHARD") else False,
        "mp_policy": MixedPrecisionPolicy(mixed.param_dtype, mixed.reduce_dtype),
        "ignored_params": params,
    }

    def unit(m: Any, **own: Any) -> Any:
        if own:
            return _wrapped(cls, m, **{"device_mesh": mesh, "sharding_strategy": strategy, **own})
        made = fully_shard(m, **options)
        kind = type(made)
        made.__class__ = type(
            kind.__name__, (cls, *kind.__mro__[2:3]), {"__module__": kind.__module__}
        )
        made.__dict__["_saves"] = WHOLE
        _cast_buffers(made, mixed.buffer_dtype)
        made._register_state_dict_hook(_saved)
        made.register_load_state_dict_pre_hook(_loading)
        return made

    if auto_wrap_policy is not None:
        wrap_below(module, auto_wrap_policy, unit, alone | {id(p) for p in params})
    return unit(module)


def _mesh(process_group: Any, strategy: ShardingStrategy) -> Any:
    if strategy.name.endswith(("HYBRID_SHARD", "HYBRID_SHARD_ZERO2")):
        raise ArgumentError(
            f"{NAME}: {strategy.name} asks for the mesh: write "
            f"device_mesh=init_device_mesh('cpu', (replicas, parts))"
        )
    count = world()[0]
    ranks = (
        list(range(count))
        if process_group is None
        else groups.get_process_group_ranks(process_group)
    )
    if strategy is ShardingStrategy.NO_SHARD:
        return DeviceMesh("cpu", [[r] for r in ranks])  # replicas of one part
    return init_device_mesh("cpu", (count,)) if len(ranks) == count else DeviceMesh("cpu", ranks)


def _without_meta(module: Any, init: Any) -> None:
    for m in list(module.modules()):
        own = [*m._parameters.values(), *m._buffers.values()]
        if any(x is not None and x.device.name == "meta" for x in own):
            init(m)


def _cast_buffers(module: Any, dtype: Any) -> None:
    if dtype is not None:
        for m in module.modules():
            for name, x in m._buffers.items():
                if x is not None and x.is_floating_point():
                    m._buffers[name] = x.astype(dtype)


def _saved(module: Any, found: Any, prefix: str, metadata: Any) -> Any:
    """Whole tensors in place of a unit's parts."""
    saves = module._saves
    if state.wants_parts() or saves.state_dict_type is not StateDictType.FULL_STATE_DICT:
        return None
    with no_grad():
        for name, value in list(found.items()):
            if name.startswith(prefix) and isinstance(value, DTensor):
                found[name] = value.detach().full_tensor()
    if saves.state_dict_config.rank0_only and world()[1]:
        for name in [n for n in found if n.startswith(prefix)]:
            del found[name]
    return None


def _loading(module: Any, given: Any, prefix: str, *rest: Any) -> None:
    """A unit's parts of whole tensors."""
    for name, p in module.named_parameters(remove_duplicate=False):
        if prefix + name in given:
            given[prefix + name] = state.placed(given[prefix + name], p)
