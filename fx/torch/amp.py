"""``torch.amp``: mixed precision in its disabled form."""

from fx.torch._settings import GradScaler, autocast, get_autocast_dtype, is_autocast_enabled


def is_autocast_available(device_type: str) -> bool:
    """False."""
    return False


__all__ = [
    "GradScaler", "autocast", "get_autocast_dtype", "is_autocast_available", "is_autocast_enabled"
]  # fmt: skip
