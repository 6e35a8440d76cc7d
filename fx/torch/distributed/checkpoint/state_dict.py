"""``torch.distributed.checkpoint.state_dict``: states of models and optimizers cut over ranks."""

from fx.nn.fully_sharded.state import StateDictOptions as StateDictOptions
from fx.nn.fully_sharded.state import get_model_state_dict as get_model_state_dict
from fx.nn.fully_sharded.state import get_optimizer_state_dict as get_optimizer_state_dict
from fx.nn.fully_sharded.state import get_state_dict as get_state_dict
from fx.nn.fully_sharded.state import set_model_state_dict as set_model_state_dict
from fx.nn.fully_sharded.state import set_optimizer_state_dict as set_optimizer_state_dict
from fx.nn.fully_sharded.state import set_state_dict as set_state_dict
