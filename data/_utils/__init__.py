"""What PyTorch's users import from ``torch.utils.data._utils``: ``collate`` and ``worker``."""

from fx.data._utils import collate, worker

__all__ = ["collate", "worker"]
