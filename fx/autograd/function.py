"""``Function``: an operation whose forward and backward the user writes, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from fx import tree
from fx.autograd.applied import Applied, VmapInfo
from fx.autograd.call import Call
from fx.autograd.context import Context
from fx.config import no_grad
from fx.tensor import Tensor


def _absent(method: Callable[..., Any]) -> Callable[..., Any]:
    """Mark what a subclass has not given."""
    method.absent = True  # type: ignore[attr-defined]
    return method


class Function:
    """An operation with its own derivative: subclass it, and call ``apply``.

    ``forward(ctx, *args)`` computes and may keep in ``ctx`` what it needs; or ``forward(*args)``
    only computes and ``setup_context(ctx, inputs, output)`` keeps. ``backward(ctx, *cotangents)``
    gives one gradient for each argument of ``forward``, None where there is none.
    ``jvp(ctx, *tangents)`` and ``vmap(info, in_dims, *args)`` are optional: they are derived.

    Source: ``torch.autograd.Function``.

    Example:
        >>> import fx
        >>> class Cube(fx.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x * x
        ...
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         (x,) = ctx.saved_tensors
        ...         return 3 * g * x * x
        >>> x = fx.tensor(2.0, requires_grad=True)
        >>> Cube.apply(x).backward()
        >>> x.grad
        tensor(12.)
        >>> fx.vmap(fx.grad(fx.grad(Cube.apply)))(fx.tensor([1.0, 2.0]))
        tensor([ 6., 12.])
    """

    def __init__(self) -> None:
        raise TypeError(
            f"a Function is not instantiated; give {type(self).__name__} static methods forward "
            f"and backward, and write {type(self).__name__}.apply(x)"
        )

    @staticmethod
    @_absent
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute; ``forward(ctx, *args)``, or ``forward(*args)`` beside ``setup_context``."""
        raise TypeError("a Function needs a static method forward(ctx, ...)")

    @staticmethod
    @_absent
    def setup_context(ctx: Context, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep in ``ctx`` what ``backward`` needs; where it is given, ``forward`` gets no ctx."""
        raise TypeError("this Function has no setup_context")

    @staticmethod
    @_absent
    def backward(ctx: Context, *cotangents: Any) -> Any:
        """The gradients of all arguments of ``forward``, from those of its results."""
        raise TypeError("a Function needs a static method backward(ctx, ...) to be differentiated")

    vjp = backward

    @staticmethod
    @_absent
    def jvp(ctx: Context, *tangents: Any) -> Any:
        """The tangents of the results, from those of the arguments."""
        raise TypeError("this Function has no jvp")

    @staticmethod
    @_absent
    def vmap(info: VmapInfo, in_dims: tuple[Any, ...], *args: Any) -> tuple[Any, Any]:
        """The results for a batch, and where their lanes lie."""
        raise TypeError("this Function has no vmap")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` on ``args``; where a gradient is needed, record it with ``backward``."""
        if kwargs:
            ctx = (None,) if hasattr(cls.setup_context, "absent") else ()
            bound = signature(cls.forward).bind(*ctx, *args, **kwargs)
            bound.apply_defaults()
            args = bound.args[len(ctx) :]
        call = Call(cls, args)
        return call.assembled(Applied(call)(*[args[i] for i in call.places]))


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Declare that a ``backward`` is not differentiated in turn: its results are constants."""

    @wraps(backward)
    def wrapped(ctx: Any, *cotangents: Any) -> Any:
        with no_grad():
            found = backward(ctx, *cotangents)
        return tree.map(lambda x: x.detach() if isinstance(x, Tensor) else x, found)

    return wrapped
