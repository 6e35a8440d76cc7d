"""``torch.distributed.checkpoint.optimizer``: slots that lie as the parameters."""

from fx.distributed.checkpoint import load_sharded_optimizer_state_dict

__all__ = ["load_sharded_optimizer_state_dict"]
