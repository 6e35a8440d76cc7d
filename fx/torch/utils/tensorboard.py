"""``torch.utils.tensorboard``: ``fx.SummaryWriter``."""

from fx.io import SummaryWriter

__all__ = ["SummaryWriter"]
