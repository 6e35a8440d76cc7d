"""``torch.utils``: data, checkpointing, timing, TensorBoard."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("benchmark", "checkpoint", "data", "tensorboard"):
        from importlib import import_module

        return import_module(f"fx.torch.utils.{name}")
    raise AttributeError(
        f"fx has no torch.utils.{name}; "
        f"there is torch.utils.data, .benchmark, .checkpoint and .tensorboard"
    )
