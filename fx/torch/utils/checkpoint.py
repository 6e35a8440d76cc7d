"""``torch.utils.checkpoint``: values are computed again in the backward pass, not kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fx
from fx.nn import Sequential


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
    preserve_rng_state: bool = True, context_fn: Any = None, determinism_check: Any = "default",
    debug: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """``function(*args)``, whose inner values are computed again when gradients are asked for.

    Args:
        function: takes and returns tensors.
        args, kwargs: passed to it.
        use_reentrant, preserve_rng_state, context_fn, determinism_check, debug: accepted; there is
            one way, and it draws the same random numbers again.

    Example:
        >>> import fx.torch as torch
        >>> from fx.torch.utils.checkpoint import checkpoint
        >>> checkpoint(torch.sin, torch.tensor(0.0), use_reentrant=False)
        tensor(0.)
    """
    return fx.checkpoint(lambda *given: function(*given, **kwargs))(*args)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """A chain of functions in ``segments`` parts; each part keeps only its input."""
    steps = list(functions.children()) if isinstance(functions, Sequential) else list(functions)
    size = len(steps) // segments

    def part(start: int, end: int) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for step in steps[start:end]:
                x = step(x)
            return x

        return run

    start = 0
    for _ in range(segments - 1):
        input = checkpoint(part(start, start + size), input)
        start += size
    return part(start, len(steps))(input)
