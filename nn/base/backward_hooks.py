"""Watch: how a Module's backward hooks see and replace the gradients of one call.

What goes into the module and what comes out of it passes through an identity each, whose pullback
hands the cotangents to the hooks: first those of the outputs, then those of the inputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from fx.config import is_grad_enabled
from fx.dtypes import INEXACT
from fx.prims.complex import repaired
from fx.prims.creation import zeros_like_spec
from fx.tensor import Tensor
from fx.transforms.custom import custom_vjp

_NO_INPUT = (
    "Backward hook for Modules where no input requires gradient should always return None or None "
    "for all gradients."
)


class Watch:
    """The backward hooks of one call.

    Args:
        module: what is called.
        hooks: get ``(module, grad_input, grad_output)``.
        pre_hooks: get ``(module, grad_output)``, before.
    """

    def __init__(self, module: Any, hooks: Sequence[Any], pre_hooks: Sequence[Any]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.count = 0  # of positional arguments
        self.follows = False  # whether gradients go on to the inputs
        self.wanted: list[bool] = []  # to which of them
        self.grad_output: tuple[Any, ...] | None = None

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The positional arguments, watched."""
        self.count = len(args)
        self.wanted = [isinstance(x, Tensor) and x.requires_grad for x in args]
        self.follows = _recorded(args)
        return _identity(args, self._at_inputs) if self.follows else args

    def outputs(self, result: Any) -> Any:
        """The result, watched."""
        if not isinstance(result, Tensor | tuple):
            warnings.warn(
                f"For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(result)}",
                stacklevel=4,
            )
            return result
        outs = result if isinstance(result, tuple) else (result,)
        if not _recorded(outs):
            return result
        outs = _identity(outs, self._at_outputs)
        if not isinstance(result, tuple):
            return outs[0]
        return type(result)(*outs) if hasattr(result, "_fields") else outs

    def _at_outputs(self, cts: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.pre_hooks:
            cts = _replaced(hook(self.module, cts), cts, "pre hook", "grad_output")
        self.grad_output = cts
        if not self.follows:
            none = (None,) * self.count
            for hook in self.hooks:
                out = hook(self.module, none, cts)
                if out is not None and any(g is not None for g in _tuple(out)):
                    raise RuntimeError(_NO_INPUT)
        return cts

    def _at_inputs(self, cts: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.grad_output is not None:  # else nothing came through the outputs
            cts = tuple([
                ct if wanted or ct is None else zeros_like_spec(ct.spec)
                for ct, wanted in zip(cts, self.wanted, strict=True)
            ])  # fmt: skip
            for hook in self.hooks:
                cts = _replaced(hook(self.module, cts, self.grad_output), cts, "hook", "grad_input")
        return cts


def _recorded(values: tuple[Any, ...]) -> bool:
    """Whether gradients are recorded for some of the tensors."""
    return is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in values)


def _tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def _replaced(out: Any, cts: tuple[Any, ...], kind: str, what: str) -> tuple[Any, ...]:
    """The gradients after a hook that returned ``out``."""
    if out is None:
        return cts
    out = _tuple(out)
    if len(out) != len(cts):
        raise RuntimeError(
            f"Backward {kind} returned an invalid number of {what}, got {len(out)}, but expected "
            f"{len(cts)}"
        )
    return out


def _identity(
    values: tuple[Any, ...], see: Callable[[tuple[Any, ...]], tuple[Any, ...]]
) -> tuple[Any, ...]:
    """The same values; ``see`` gets and gives the cotangents, None for what is not floating."""
    places = [i for i, x in enumerate(values) if isinstance(x, Tensor) and x.dtype in INEXACT]

    def backward(_: None, cts: Any) -> tuple[Any, ...]:
        full = [None] * len(values)
        for i, ct in zip(places, cts, strict=True):
            full[i] = repaired(ct)
        seen = see(tuple(full))
        return tuple([repaired(seen[i]) for i in places])

    same = custom_vjp(lambda *xs: xs)
    same.defvjp(lambda *xs: (xs, None), backward)
    out = list(values)
    for i, x in zip(places, same(*[values[i] for i in places]), strict=True):
        out[i] = x
    return tuple(out)
