"""``torch.distributed._composable.checkpoint_activation``: values that are computed again."""

from fx.torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    checkpoint_wrapper as checkpoint,
)

__all__ = ["checkpoint"]
