"""``torch.mps``: there is no such device."""

from fx.torch.accelerator import device_count, empty_cache, is_available, synchronize


def manual_seed(seed: int) -> None:
    """Nothing: ``torch.manual_seed`` seeds the one generator."""


__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]
