"""``torch.jit``: TorchScript is not there; the questions and marks that models carry are."""

from __future__ import annotations

from typing import Any


def is_scripting() -> bool:
    """False."""
    return False


def is_tracing() -> bool:
    """False."""
    return False


def unused(fn: Any) -> Any:
    """The function itself."""
    return fn


def export(fn: Any) -> Any:
    """The function itself."""
    return fn


def ignore(drop: Any = False, **options: Any) -> Any:
    """The function itself; also as ``@torch.jit.ignore(drop=True)``."""
    return drop if callable(drop) else unused


Final = Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"fx has no torch.jit.{name}: there is no TorchScript. To compile write @fx.jit or "
        f"torch.compile(f); to save a model write torch.save(model.state_dict(), path)"
    )
