"""``torch.compile`` and ``torch.compiler``: ``fx.jit`` under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fx
from fx.nn import Module


class OptimizedModule(Module):
    """A module whose calls are compiled; everything else is the module's own.

    Its ``state_dict`` has PyTorch's keys, ``_orig_mod.`` in front of each.
    """

    def __init__(self, module: Module) -> None:
        super().__init__()
        self._orig_mod = module
        object.__setattr__(
            self, "_compiled", fx.jit(lambda *args, **kwargs: module(*args, **kwargs))
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result, compiled."""
        return self._compiled(*args, **kwargs)

    def train(self, mode: bool = True) -> OptimizedModule:
        """Put the module in training mode."""
        super().train(mode)
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_orig_mod":
                raise
            return getattr(self._orig_mod, name)


def compile(
    model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None,
    backend: Any = "inductor", mode: str | None = None, options: Any = None, disable: bool = False,
) -> Any:  # fmt: skip
    """A function or a Module that runs as compiled code: ``fx.jit``.

    Args:
        model: a function or a ``Module``; without it a decorator comes back.
        disable: give ``model`` itself.
        fullgraph, dynamic, backend, mode, options: accepted; there is one way of compiling.

    Example:
        >>> import fx.torch as torch
        >>> @torch.compile
        ... def f(x):
        ...     return (x * x).sum()
        >>> f(torch.ones(3))
        tensor(3.)
    """
    if model is None:
        return lambda found: compile(found, disable=disable)
    if disable:
        return model
    return OptimizedModule(model) if isinstance(model, Module) else fx.jit(model)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself."""
    return (lambda found: found) if fn is None else fn


def is_compiling() -> bool:
    """Whether a function is being staged by ``fx.jit`` now."""
    from fx.config import modes

    return modes.stage is not None


is_dynamo_compiling = is_compiling


def reset() -> None:
    """Nothing: compiled functions go with the functions that they belong to."""


def cudagraph_mark_step_begin() -> None:
    """Nothing: there are no CUDA graphs."""


def allow_in_graph(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself."""
    return fn
