"""skip_init: a layer whose parameters are not drawn, since they are going to be loaded."""

from __future__ import annotations

import inspect
from typing import Any

from fx.nn.base.module import Module


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A module without the work of drawing its parameters, which hold anything.

    Args:
        module_cls: a Module class that takes ``device``.
        args, kwargs: of its constructor; ``device`` says where the parameters are made.

    Raises:
        RuntimeError: if it is no Module class, or takes no ``device``.

    Example:
        >>> import fx
        >>> fx.nn.utils.skip_init(fx.nn.Linear, 3, 2).weight.shape
        (2, 3)
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    kwargs["device"] = "meta"
    return module_cls(*args, **kwargs).to_empty(device=device)
