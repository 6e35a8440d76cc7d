"""What ``FullyShardedDataParallel`` is told: what is cut, in which dtypes, and how it is saved."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple


class ShardingStrategy(Enum):
    """What ranks have parts of, and for how long."""

    FULL_SHARD = auto()  # parameters, gradients and slots
    SHARD_GRAD_OP = auto()  # parameters stay whole from forward to backward
    NO_SHARD = auto()  # nothing: as DistributedDataParallel
    HYBRID_SHARD = auto()  # FULL_SHARD among the ranks of a host, each of which has a replica
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """Accepted: units are gathered when backward comes to them."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """What ``state_dict`` has."""

    FULL_STATE_DICT = auto()  # whole tensors
    LOCAL_STATE_DICT = auto()  # not there
    SHARDED_STATE_DICT = auto()  # parts


@dataclass(frozen=True)
class MixedPrecision:
    """Dtypes of whole parameters, of gradients that are sent, and of buffers."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True


@dataclass
class CPUOffload:
    """Accepted: parts lie on the CPU."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """How a state dict is made: a subclass says of what."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Whole tensors: in rank 0 alone with ``rank0_only``."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Flat parameters, which are not there: ``StateDictType.LOCAL_STATE_DICT`` is refused."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Parts."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """How the state dict of an optimizer is made: a subclass says of what."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Whole slots: in rank 0 alone with ``rank0_only``."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """As ``LocalStateDictConfig``, of an optimizer's slots."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Parts of slots."""

    _use_dtensor: bool = False


class StateDictSettings(NamedTuple):
    """How the state dicts of a model and its optimizer are made."""

    state_dict_type: StateDictType
    state_dict_config: Any
    optim_state_dict_config: Any


WHOLE = StateDictSettings(
    StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig()
)
PARTS = StateDictSettings(
    StateDictType.SHARDED_STATE_DICT, ShardedStateDictConfig(), ShardedOptimStateDictConfig()
)
