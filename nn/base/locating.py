"""Naming the layer in which an error was raised, by its path in the model."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from fx.errors import FxError

if TYPE_CHECKING:
    from fx.nn.base.module import Module

_innermost: WeakKeyDictionary[FxError, Module] = WeakKeyDictionary()  # the layer of each error


def locate(error: FxError, module: Module) -> None:
    """Note that ``error`` passes through the call of ``module``; the innermost call comes first."""
    layer = _innermost.setdefault(error, module)
    shown = f"{layer._get_name()}({layer.extra_repr()})"
    path = next((path for path, found in module.named_modules() if found is layer), "")
    if path:
        error.layer = f"{path}: {shown}"
    elif layer is module:
        error.layer = shown
