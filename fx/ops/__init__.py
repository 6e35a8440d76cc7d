"""The array functions: the Python Array API's names, written on primitives."""

from typing import Any


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("segment_sum", "segment_prod", "segment_max", "segment_min"):
        return getattr(import_module("fx.ops.segments"), name)
    raise AttributeError(f"module 'fx.ops' has no attribute {name!r}")
