"""``torch.distributed.checkpoint.state_dict``: states of models and optimizers cut over ranks."""

from typing import Any

from fx.nn.fully_sharded.state import StateDictOptions as StateDictOptions
from fx.nn.fully_sharded.state import get_model_state_dict as get_model_state_dict
from fx.nn.fully_sharded.state import get_optimizer_state_dict as get_optimizer_state_dict
from fx.nn.fully_sharded.state import get_state_dict as get_state_dict
from fx.nn.fully_sharded.state import set_model_state_dict as set_model_state_dict
from fx.nn.fully_sharded.state import set_optimizer_state_dict as set_optimizer_state_dict
from fx.nn.fully_sharded.state import set_state_dict as set_state_dict
from fx.tensor import Tensor

# what annotations say of states
PrimitiveType = Tensor | int | float | str
ValueType = PrimitiveType | list[PrimitiveType] | tuple[PrimitiveType, ...] | dict[str, Any]
DictValueType = dict[str, ValueType]
ListDictValueType = list[DictValueType]
OptimizerStateType = dict[str, DictValueType | ListDictValueType]
FQNS_T = set[str]
