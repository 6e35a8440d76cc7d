"""Several processes that compute together: groups of ranks, their store and their collectives.

The functions have PyTorch's names (``torch.distributed``) and give results; ``README.md`` says how
a collective works. Nothing of it is loaded before it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "fx.distributed.errors": "DistError DistBackendError DistNetworkError DistStoreError",
}
_LAZY = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'fx.distributed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_LAZY)
