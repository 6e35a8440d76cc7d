"""``custom_vjp`` and ``custom_jvp``: functions whose derivative the user gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from inspect import signature
from typing import Any

from fx import tree
from fx.config import NEVER, modes
from fx.dtypes import INEXACT
from fx.errors import TreeError
from fx.ops.convert import as_tensor
from fx.prims.creation import zeros_like_spec
from fx.spec import TensorSpec
from fx.tensor import Tensor
from fx.transforms._arguments import name_of
from fx.transforms.application import returned
from fx.transforms.rules import JVPApplication, Tensors, VJPApplication


class _Call:
    """The arguments of one call, taken apart into tensors and what is static."""

    def __init__(
        self, function: Callable[..., Any], nondiff: tuple[int, ...], args: Any, kwargs: Any
    ) -> None:
        if kwargs:
            bound = signature(function).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        self.args = args
        self.nondiff = tuple(n % len(args) for n in nondiff)
        self.diff = [i for i in range(len(args)) if i not in self.nondiff]
        self.static = [args[i] for i in self.nondiff]
        self.leaves, self.treedef = tree.flatten(tuple(args[i] for i in self.diff))
        self.places = [i for i, x in enumerate(self.leaves) if isinstance(x, Tensor)]
        self.tensors = [self.leaves[i] for i in self.places]
        self.treedef_out: Any = None

    def subtrees(self, xs: Sequence[Any]) -> tuple[Any, ...]:
        """The differentiable arguments with other tensors."""
        leaves = list(self.leaves)
        for i, x in zip(self.places, xs):
            leaves[i] = x
        return tree.unflatten(self.treedef, leaves)

    def with_tensors(self, xs: Sequence[Any]) -> tuple[Any, ...]:
        """All arguments, in their order, with other tensors."""
        args = list(self.args)
        for i, arg in zip(self.diff, self.subtrees(xs)):
            args[i] = arg
        return tuple(args)

    def flat_out(self, out: Any) -> list[Tensor]:
        """The results, taken apart."""
        leaves, self.treedef_out = tree.flatten(out)
        return [as_tensor(x) for x in leaves]


def _value(x: Any) -> Any:
    """What a written tensor is at this moment; anything else as it is."""
    return x.read() if getattr(x, "written", False) else x


class custom_vjp:
    """A function with its own reverse rule, given by ``defvjp``.

    What it computes inside is not differentiated. It works under every transform: in forward mode
    the pullback is transposed, and ``vmap`` batches the rule with the function.

    Args:
        function: takes and returns pytrees of tensors.
        nondiff_argnums: positions of arguments that are no tensors; they come first in ``bwd``.

    Example:
        >>> import fx
        >>> @fx.custom_vjp
        ... def clip_gradient(x):
        ...     return x
        >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, ct: (fx.clip(ct, -1.0, 1.0),))
        >>> fx.grad(lambda x: 5.0 * clip_gradient(x))(fx.tensor(2.0))
        tensor(1.)
    """

    is_closed = False  # whether function and rule read nothing but their arguments

    def __init__(self, function: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        update_wrapper(self, function)
        self.function = function
        self.nondiff_argnums = tuple(nondiff_argnums)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Give the rule.

        Args:
            fwd: takes what the function takes and returns ``(result, residuals)``; the residuals
                are a pytree of whatever ``bwd`` needs.
            bwd: takes ``(*nondiff_args, residuals, cotangent)`` and returns a tuple with one
                cotangent for each differentiable argument; None means zero.
        """
        self.fwd, self.bwd = fwd, bwd

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = name_of(self.function)
        if self.fwd is None or self.bwd is None:
            raise TypeError(
                f"custom_vjp: {name} has no rule yet; write {name}.defvjp(fwd, bwd) before it is "
                f"called"
            )
        call = _Call(self.function, self.nondiff_argnums, args, kwargs)
        user_fwd, user_bwd, user_function = self.fwd, self.bwd, self.function
        specs = [x.spec for x in call.tensors]
        arg_defs = [tree.structure(args) for args in call.subtrees(call.tensors)]

        def function(*xs: Tensor) -> list[Tensor]:
            return call.flat_out(user_function(*call.with_tensors(xs)))

        def fwd(*xs: Tensor) -> tuple[list[Tensor], list[Any], Any]:
            pair = user_fwd(*call.with_tensors(xs))
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(
                    f"custom_vjp: the fwd rule of {name} must return (result, residuals), got "
                    f"{type(pair).__name__}"
                )
            residuals, structure = tree.flatten(pair[1])
            return call.flat_out(pair[0]), residuals, structure

        def bwd(structure: Any, residuals: list[Any], cts: list[Any]) -> list[Tensor | None]:
            ct = tree.unflatten(call.treedef_out, cts)
            kept = tree.unflatten(structure, [_value(x) for x in residuals])
            pulling, modes.pulling = modes.pulling, NEVER  # the rule sees what it writes itself
            try:
                return cotangents(user_bwd(*call.static, kept, ct))
            finally:
                modes.pulling = pulling

        def cotangents(found: Any) -> list[Tensor | None]:
            if not isinstance(found, tuple) or len(found) != len(call.diff):
                got = f"{len(found)} values" if isinstance(found, tuple) else type(found).__name__
                raise TreeError(
                    f"custom_vjp: the bwd rule of {name} must return a tuple of "
                    f"{len(call.diff)}, one cotangent for each differentiable argument, got {got}"
                )
            flat: list[Any] = []
            for treedef, part in zip(arg_defs, found):
                flat += (
                    [None] * treedef.num_leaves
                    if part is None
                    else tree.flatten_up_to(treedef, part)
                )
            what = f"custom_vjp: {name}: cotangent"
            return [
                returned(_value(flat[i]), s, what, k) if s.dtype in INEXACT else None
                for k, (i, s) in enumerate(zip(call.places, specs))
            ]

        application = VJPApplication(name, function, fwd, bwd)
        application.closed = self.is_closed
        outs = application(*call.tensors)
        return tree.unflatten(call.treedef_out, outs)


class custom_jvp:
    """A function with its own forward rule, given by ``defjvp``.

    What it computes inside is not differentiated. It works under every transform: in reverse mode
    the rule's tangent map is transposed, so it has to be linear in the tangents.

    Args:
        function: takes and returns pytrees of tensors.
        nondiff_argnums: positions of arguments that are no tensors; they come first in the rule.

    Example:
        >>> import fx
        >>> @fx.custom_jvp
        ... def log1pexp(x):
        ...     return fx.log1p(fx.exp(x))
        >>> @log1pexp.defjvp
        ... def rule(primals, tangents):
        ...     (x,), (t,) = primals, tangents
        ...     return log1pexp(x), t / (1.0 + fx.exp(-x))
        >>> fx.grad(log1pexp)(fx.tensor(100.0))
        tensor(1.)
    """

    is_closed = False

    def __init__(self, function: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        update_wrapper(self, function)
        self.function = function
        self.nondiff_argnums = tuple(nondiff_argnums)
        self.rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Give the rule: ``(*nondiff_args, primals, tangents) -> (result, tangent of it)``.

        ``primals`` and ``tangents`` are tuples of the differentiable arguments; a tangent that is
        zero comes as zeros. Returns the rule, so that it serves as a decorator.
        """
        self.rule = rule
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """Give the rule one argument at a time.

        Args:
            rules: for each argument ``(tangent, result, *primals) -> tangent of the result``, or
                None where it is zero. For functions of tensors that return one tensor.
        """

        def rule(primals: Any, tangents: Any) -> tuple[Any, Any]:
            out = self(*primals)
            parts = [r(t, out, *primals) for r, t in zip(rules, tangents) if r is not None]
            total = zeros_like_spec(out.spec)
            for part in parts:
                total = total + part
            return out, total

        self.rule = rule

    __get__ = custom_vjp.__get__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = name_of(self.function)
        if self.rule is None:
            raise TypeError(
                f"custom_jvp: {name} has no rule yet; write {name}.defjvp(rule) before it is called"
            )
        call = _Call(self.function, self.nondiff_argnums, args, kwargs)
        user_rule, user_function = self.rule, self.function

        def function(*xs: Tensor) -> list[Tensor]:
            return call.flat_out(user_function(*call.with_tensors(xs)))

        def rule(primals: Tensors, tangents: Tensors) -> tuple[list[Tensor], list[Tensor]]:
            pair = user_rule(*call.static, call.subtrees(primals), call.subtrees(tangents))
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(
                    f"custom_jvp: the rule of {name} must return (result, tangent), got "
                    f"{type(pair).__name__}"
                )
            outs = call.flat_out(pair[0])
            try:
                pushed = tree.flatten_up_to(call.treedef_out, pair[1])
            except TreeError:
                raise TreeError(
                    f"custom_jvp: the rule of {name} returned a tangent of structure "
                    f"{tree.structure(pair[1])} for a result of structure {call.treedef_out}"
                ) from None
            what = f"custom_jvp: {name}: tangent"
            return outs, [
                _tangent(t, o.spec, what, i) for i, (t, o) in enumerate(zip(pushed, outs))
            ]

        application = JVPApplication(name, function, rule)
        application.closed = self.is_closed
        outs = application(*call.tensors)
        return tree.unflatten(call.treedef_out, outs)


def _tangent(t: Any, spec: TensorSpec, what: str, index: int) -> Tensor:
    if t is None or spec.dtype not in INEXACT:
        return zeros_like_spec(spec)
    return returned(t, spec, what, index)
