"""``custom_gradient``: a function that gives its pullback along with its result."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from fx.transforms._arguments import name_of
from fx.transforms.custom import custom_vjp


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives its result and its pullback, as one that gives its result.

    Where it is differentiated it runs once more on the way back; ``fx.custom_vjp`` keeps residuals.

    Args:
        fun: takes pytrees of tensors and gives a pair: the result, and a function of its cotangent,
            which gives a tuple with the cotangent of each argument, or that of the only one.

    Source: ``jax.custom_gradient``.

    Example:
        >>> import fx
        >>> @fx.custom_gradient
        ... def f(x):
        ...     return x**2, lambda ct: (ct * x,)
        >>> fx.grad(f)(fx.tensor(3.0))
        tensor(3.)
    """

    @wraps(fun)
    def result(*args: Any) -> Any:
        return _pair(fun, args)[0]

    def backwards(args: Any, ct: Any) -> Any:
        found = _pair(fun, args)[1](ct)
        return found if isinstance(found, tuple) or len(args) != 1 else (found,)

    whole = custom_vjp(result)
    whole.defvjp(lambda *args: (_pair(fun, args)[0], args), backwards)
    return whole


def _pair(fun: Callable[..., Any], args: Any) -> Any:
    found = fun(*args)
    if not isinstance(found, tuple) or len(found) != 2 or not callable(found[1]):
        raise TypeError(
            f"custom_gradient: {name_of(fun)} gives its result and a function of the cotangent, "
            f"got {type(found).__name__}"
        )
    return found
