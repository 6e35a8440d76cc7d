"""``torch.distributed.algorithms.ddp_comm_hooks``: for ``register_comm_hook``."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, member
from functools import partial
from typing import Any

from fx.nn.data_parallel import hooks as _hooks
from fx.nn.data_parallel import power_sgd as _power_sgd
from fx.torch._absent import refusing

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


def _registers(hook: Callable[..., Any]) -> Any:
    return member(partial(_register, hook=hook))


def _register(model: Any, state: Any, hook: Callable[..., Any]) -> None:
    model.register_comm_hook(state, hook)


def _of_rank(rank: int, hook: Callable[..., Any] = _power_sgd.powerSGD_hook) -> Any:
    return member(partial(_register_power_sgd, rank=rank, hook=hook))


def _register_power_sgd(model: Any, state: Any, rank: int, hook: Callable[..., Any]) -> None:
    model.register_comm_hook(_power_sgd.PowerSGDState(state, rank), hook)


class DDPCommHookType(Enum):
    """The hooks by name; ``DDPCommHookType.NOOP.value(model=model, state=group)`` registers one."""

    ALLREDUCE = _registers(_hooks.allreduce_hook)
    FP16_COMPRESS = _registers(_hooks.fp16_compress_hook)
    BF16_COMPRESS = _registers(_hooks.bf16_compress_hook)
    POWER_SGD = _of_rank(1)
    POWER_SGD_RANK2 = _of_rank(2)
    BATCHED_POWER_SGD = _of_rank(1, _power_sgd.batched_powerSGD_hook)
    BATCHED_POWER_SGD_RANK2 = _of_rank(2, _power_sgd.batched_powerSGD_hook)
    NOOP = _registers(_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Let gradients be sent by a hook that is named.

    Args:
        comm_hook_type: which.
        model: a ``DistributedDataParallel``.
        state: the ranks; None: all.
    """
    comm_hook_type.value(model=model, state=state)


__getattr__ = refusing("distributed.algorithms.ddp_comm_hooks")
