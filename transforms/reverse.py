"""Reverse mode: ``vjp``, ``grad``, ``value_and_grad``. The engine is ``fx.backward_pass``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from fx import tree
from fx.backward_pass import backward_pass
from fx.dtypes import INEXACT
from fx.errors import BackwardError, TreeError
from fx.levels import Level
from fx.ops.convert import as_tensor
from fx.prims.compare import stop_gradient as stop
from fx.prims.creation import constant_like, zeros_like_spec
from fx.tape import GradTracer, Leaf, Node, grad_tracer
from fx.tensor import Tensor, bare
from fx.transforms._arguments import (
    Argnums,
    check_function,
    check_result,
    differentiable_leaf,
    fitting,
    kinds_of,
    leave,
    name_of,
    pair,
    replace,
    select,
)


class _Pulled:
    """A function that ran once at a level: its result below the level, and the way back."""

    __slots__ = ("inputs", "level", "nodes", "outs", "treedef_in", "treedef_out")

    level: int
    inputs: list[tuple[Leaf, Tensor]]
    outs: list[Any]
    nodes: list[Node | None]

    def back(self, cts: list[Tensor], keep: bool) -> list[Tensor]:
        """The cotangent of every input leaf."""
        roots = [(n, ct) for n, ct in zip(self.nodes, cts, strict=True) if n is not None]
        wanted = [leaf for leaf, _ in self.inputs]
        found = backward_pass(roots, level=self.level, keep=keep, inputs=wanted, accumulate=False)
        out, seen = [], set()
        for leaf, x in self.inputs:
            ct = found.get(leaf)
            if ct is None:
                ct = zeros_like_spec(x.spec)
            elif type(ct) is Tensor and ct._node is None:
                if id(ct) in seen:  # each its own object: one of them may come to require grad
                    ct = bare(ct)
                seen.add(id(ct))
            out.append(ct)
        return out


def _run(
    function: Callable[..., Any],
    primals: tuple[Any, ...],
    what: str,
    has_aux: bool,
    named: Callable[..., Any] | None = None,
    kinds: frozenset[Any] = INEXACT,
) -> tuple[_Pulled, Any]:
    leaves, treedef = tree.flatten(primals)
    pulled = _Pulled()
    pulled.treedef_in = treedef
    values = [differentiable_leaf(leaf, what, kinds) for leaf in leaves]
    with Level(what) as level:
        number = pulled.level = level.number
        pulled.inputs = [(Leaf(number), x) for x in values]
        tracers = [grad_tracer(number, x, leaf) for leaf, x in pulled.inputs]
        out = function(*tree.unflatten(treedef, tracers))
        aux = None
        if has_aux:
            out, aux = pair(out, what, named or function)
            aux = tree.map(lambda x: _below(leave(x, number), number), aux)
        outs, pulled.treedef_out = tree.flatten(out)
        outs = [leave(x, number) for x in outs]
        pulled.outs = [_below(x, number) for x in outs]
        pulled.nodes = [x._node if _is_at(x, number) else None for x in outs]
    return pulled, aux


def _is_at(x: Any, level: int) -> bool:
    return isinstance(x, GradTracer) and x.level == level


def _below(x: Any, level: int) -> Any:
    return x.value if _is_at(x, level) else x


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Run ``function`` and return its result with the pullback.

    Args:
        function: takes and returns pytrees of tensors.
        primals: the arguments; every leaf floating or complex.
        has_aux: whether ``function`` returns ``(result, aux)``.

    Returns:
        ``(result, pullback)``, and ``aux`` as a third where ``has_aux``. ``pullback(ct)`` takes a
        cotangent of the structure of the result and gives a tuple, one cotangent an argument; it
        may be called again.

    Raises:
        DTypeError: if a leaf of ``primals`` is neither floating nor complex.

    Example:
        >>> import fx
        >>> y, pullback = fx.vjp(fx.sin, fx.tensor(0.0))
        >>> pullback(fx.tensor(2.0))
        (tensor(2.),)
    """
    check_function(function, "vjp")
    pulled, aux = _run(function, primals, "vjp", has_aux)
    out = tree.unflatten(pulled.treedef_out, pulled.outs)

    def pullback(ct: Any) -> tuple[Any, ...]:
        cts, structure = tree.flatten(ct)
        if structure != pulled.treedef_out:
            raise TreeError(
                f"pullback: the cotangent must have the structure of the result, "
                f"{pulled.treedef_out}, got {structure}"
            )
        cts = [
            fitting(c, as_tensor(o).spec, "a cotangent", ", but the result has", "ct")
            for c, o in zip(cts, pulled.outs, strict=True)
        ]
        return tree.unflatten(pulled.treedef_in, pulled.back(cts, keep=True))

    return (out, pullback, aux) if has_aux else (out, pullback)


def value_and_grad(
    function: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """A function that returns the value of ``function`` together with its gradient.

    Args:
        function: returns a floating scalar; with ``has_aux`` a pair ``(scalar, aux)``.
        argnums: the positional argument, or a tuple of them, to differentiate.
        has_aux: whether ``function`` returns ``(scalar, aux)``.
        holomorphic: whether ``function`` is a holomorphic function of complex arguments, whose
            complex derivative is wanted. The gradient of a real result at a complex argument
            ``x + iy`` is ``d/dx - i d/dy``, as in JAX; descend along its conjugate.

    Returns:
        a function that gives ``(value, gradient)``, or ``((value, aux), gradient)``. The gradient
        has the structure of the argument (a tuple of structures where ``argnums`` is a tuple).

    Raises:
        BackwardError: when the result is not a scalar.
        DTypeError: when an argument is neither floating nor complex.

    Example:
        >>> import fx
        >>> fx.value_and_grad(lambda x: (x * x).sum())(fx.tensor([1.0, 2.0]))
        (tensor(5.), tensor([2., 4.]))
    """
    check_function(function, "value_and_grad")
    kinds = kinds_of(holomorphic, INEXACT)

    @wraps(function)
    def value_and_grad_of(*args: Any, **kwargs: Any) -> Any:
        chosen = select(argnums, args, "grad")

        def of_chosen(*new: Any) -> Any:
            return function(*replace(argnums, args, new), **kwargs)

        pulled, aux = _run(of_chosen, chosen, "grad", has_aux, function, kinds)
        value = _scalar(pulled, function, holomorphic)
        cts = pulled.back([bare(constant_like(1.0, value))], keep=False)
        grads = tree.unflatten(pulled.treedef_in, cts)
        gradient = grads[0] if isinstance(argnums, int) else grads
        return ((value, aux), gradient) if has_aux else (value, gradient)

    return value_and_grad_of


def _scalar(pulled: _Pulled, function: Callable[..., Any], holomorphic: bool) -> Tensor:
    if len(pulled.outs) != 1 or pulled.treedef_out.num_nodes != 1:
        raise BackwardError(
            f"grad: {name_of(function)} must return one scalar, got {pulled.treedef_out}; "
            f"return a second result with has_aux=True, or use fx.vjp or fx.jacrev"
        )
    value = as_tensor(pulled.outs[0])
    if value.shape != ():
        raise BackwardError(
            f"grad: {name_of(function)} must return a scalar, got shape {value.shape}; "
            f"reduce it, for example with .sum(), or use fx.jacrev"
        )
    check_result(value, "grad", function, holomorphic, "cast it with x.astype(fx.float32)")
    return value


def grad(
    function: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """A function that returns the gradient of ``function``; see ``value_and_grad``.

    Example:
        >>> import fx
        >>> fx.grad(fx.grad(fx.sin))(fx.tensor(1.0)) == -fx.sin(fx.tensor(1.0))
        tensor(True)
        >>> fx.grad(lambda z: z * z, holomorphic=True)(fx.tensor(1 + 2j))
        tensor(2.+4.j)
        >>> fx.grad(lambda z: z.abs() ** 2)(fx.tensor(1 + 2j))
        tensor(2.-4.j)
    """
    check_function(function, "grad")
    both = value_and_grad(function, argnums, has_aux, holomorphic)

    @wraps(function)
    def grad_of(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return grad_of


def stop_gradient(x: Any) -> Any:
    """The same values, through which no transform and no ``.backward()`` differentiates.

    Args:
        x: a tensor or a pytree; leaves that are no tensors pass.

    Example:
        >>> import fx
        >>> fx.grad(lambda x: x * fx.stop_gradient(x))(fx.tensor(3.0))
        tensor(3.)
    """
    return tree.map(lambda leaf: stop(leaf) if isinstance(leaf, Tensor) else leaf, x)
