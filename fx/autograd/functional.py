"""Derivatives of functions by ``torch.autograd.functional``'s names; the transforms do the work.

Unless ``create_graph``, results have no history, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx import tree
from fx.prims.complex import repaired_tree
from fx.tensor import Tensor
from fx.transforms import forward, jacobians, reverse


def _several(inputs: Any) -> tuple[tuple[Any, ...], Any]:
    """The inputs as a tuple, and the argnums that give results in their form."""
    if isinstance(inputs, tuple | list):
        return tuple(inputs), tuple(range(len(inputs)))
    return (inputs,), 0


def _like(found: tuple[Any, ...], argnums: Any) -> Any:
    return found[0] if argnums == 0 else found


def _done(result: Any, create_graph: bool) -> Any:
    if create_graph:
        return result
    return tree.map(lambda x: x.detach() if isinstance(x, Tensor) else x, result)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of ``func`` at ``inputs``.

    Args:
        func: takes tensors and returns a tensor or a tuple of them.
        inputs: a tensor or a tuple of them.
        create_graph: whether the result can be differentiated by what requires grad.
        strict, vectorize: PyTorch's; have no effect, all rows are computed together.
        strategy: ``"reverse-mode"`` or ``"forward-mode"``.

    Example:
        >>> import fx
        >>> fx.autograd.functional.jacobian(lambda x: x * x, fx.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    xs, argnums = _several(inputs)
    if strategy == "forward-mode":
        found = jacobians.jacfwd(func, argnums)(*xs)
    else:
        found = repaired_tree(jacobians.jacrev(func, argnums)(*xs))
    return _done(found, create_graph)


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a scalar ``func`` at ``inputs``; arguments as for ``jacobian``.

    Example:
        >>> import fx
        >>> fx.autograd.functional.hessian(lambda x: (x * x * x).sum(), fx.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    xs, argnums = _several(inputs)
    return _done(jacobians.hessian(func, argnums)(*xs), create_graph)


def vjp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """``func(*inputs)``, and the vector ``v`` times its Jacobian; ``v`` is 1 for a scalar.

    Example:
        >>> import fx
        >>> fx.autograd.functional.vjp(lambda x: x.sum(), fx.tensor([1.0, 2.0]))
        (tensor(3.), tensor([1., 1.]))
    """
    xs, argnums = _several(inputs)
    out, pullback = reverse.vjp(func, *xs)
    if v is None:
        v = tree.map(lambda _: 1.0, out)
    found = repaired_tree(_like(pullback(repaired_tree(v)), argnums))
    return _done((out, found), create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """``func(*inputs)``, and its Jacobian times the vector ``v``; ``v`` is 1 for one scalar input.

    Example:
        >>> import fx
        >>> fx.autograd.functional.jvp(lambda x: x * x, fx.tensor(3.0))
        (tensor(9.), tensor(6.))
    """
    xs, _ = _several(inputs)
    vs = (1.0,) if v is None else _several(v)[0]
    return _done(forward.jvp(func, xs, vs), create_graph)


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """``func(*inputs)``, a scalar, and its Hessian times the vector ``v``.

    Example:
        >>> import fx
        >>> fx.autograd.functional.hvp(lambda x: (x * x * x).sum(), fx.ones(2), fx.ones(2))
        (tensor(2.), tensor([6., 6.]))
    """
    xs, argnums = _several(inputs)
    vs = (1.0,) if v is None else _several(v)[0]

    def both(*xs: Any) -> Any:
        value, gradient = reverse.value_and_grad(func, argnums)(*xs)
        return value, repaired_tree(gradient)

    (value, _), (_, product) = forward.jvp(both, xs, vs)
    return _done((value, product), create_graph)


vhp = hvp  # the Hessian is symmetric
