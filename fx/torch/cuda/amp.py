"""``torch.cuda.amp``: mixed precision for a device that is not there, and so switched off."""

from __future__ import annotations

from functools import partial
from typing import Any

import fx.amp


class autocast(fx.amp.autocast):
    """Without a CUDA device this is disabled, as in PyTorch."""

    __slots__ = ()

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled)


class GradScaler(fx.amp.GradScaler):
    """Without a CUDA device this is disabled, as in PyTorch."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__("cuda", *args, **options)


custom_fwd = partial(fx.amp.custom_fwd, device_type="cuda")
custom_bwd = partial(fx.amp.custom_bwd, device_type="cuda")

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
