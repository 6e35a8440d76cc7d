"""``torch.cuda.amp``: mixed precision in its disabled form."""

from __future__ import annotations

from typing import Any

from fx.torch._settings import GradScaler as GradScaler
from fx.torch._settings import autocast as _autocast


class autocast(_autocast):
    """Without a CUDA device this is disabled, as in PyTorch."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True):
        super().__init__("cuda", dtype, False)


__all__ = ["GradScaler", "autocast"]
