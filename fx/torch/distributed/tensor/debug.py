"""``torch.distributed.tensor.debug``: which messages a block sends."""

from typing import Any

from fx.distributed.counting import CommDebugMode

__all__ = ["CommDebugMode"]


def __getattr__(name: str) -> Any:
    if name == "visualize_sharding":
        raise AttributeError(
            "fx has no torch.distributed.tensor.debug.visualize_sharding: print x.placements and "
            "x.to_local().shape"
        )
    raise AttributeError(f"module 'torch.distributed.tensor.debug' has no attribute {name!r}")
