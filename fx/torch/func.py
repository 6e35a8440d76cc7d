"""``torch.func``: fx's transforms in PyTorch's words (``in_dims``, ``grad_and_value``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import fx
from fx.nn.utils.stateless import functional_call
from fx.prims.complex import repaired_tree


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the gradient of ``func``; of complex arguments PyTorch's conjugate one.

    Example:
        >>> import fx.torch as torch
        >>> torch.func.grad(lambda z: z.abs() ** 2)(torch.tensor(1 + 2j))
        tensor(2.+4.j)
    """
    return _repaired(fx.grad(func, argnums, has_aux), has_aux)


def _repaired(function: Callable[..., Any], has_aux: bool) -> Callable[..., Any]:
    """A derivative in PyTorch's pairing."""

    @wraps(function)
    def derivative(*args: Any, **kwargs: Any) -> Any:
        out = function(*args, **kwargs)
        return (repaired_tree(out[0]), out[1]) if has_aux else repaired_tree(out)

    return derivative


def grad_and_value(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradient and then the value (with ``has_aux``, value and aux).

    Example:
        >>> import fx.torch as torch
        >>> torch.func.grad_and_value(lambda x: x * x)(torch.tensor(3.0))
        (tensor(6.), tensor(9.))
    """
    both = fx.value_and_grad(func, argnums, has_aux)

    @wraps(func)
    def function(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return repaired_tree(gradient), value

    return function


def jacrev(
    func: Callable[..., Any], argnums: Any = 0, *, has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """The Jacobian in reverse mode; see ``fx.jacrev``. Of complex numbers PyTorch's conjugate."""
    return _repaired(fx.jacrev(func, argnums, has_aux, chunk_size), has_aux)


def jacfwd(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *,
    randomness: str = "error", chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """The Jacobian in forward mode; see ``fx.jacfwd``."""
    _check_randomness(randomness)
    return fx.jacfwd(func, argnums, has_aux, chunk_size)


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """The matrix of second derivatives, ``jacfwd(jacrev(func))``."""
    return jacfwd(jacrev(func, argnums), argnums)


def _check_randomness(randomness: str) -> None:
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. "
            f"Got {randomness}"
        )


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """``func`` over a batch: ``in_dims`` says which axis of each argument is the batch's.

    Args:
        randomness: ``"same"`` draws once for all lanes, ``"different"`` anew for each, as the loop
            would. ``"error"`` is accepted and draws anew, where PyTorch refuses to draw.
    """
    _check_randomness(randomness)
    drawn = "same" if randomness == "same" else "different"
    return fx.vmap(func, in_dims, out_dims, chunk_size=chunk_size, randomness=drawn)


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value, and a function that takes a cotangent to a tuple of gradients."""
    out = fx.vjp(func, *primals, has_aux=has_aux)
    pullback = out[1]

    def vjp_fn(*cotangents: Any) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        return repaired_tree(pullback(repaired_tree(given)))

    return (out[0], vjp_fn, *out[2:])


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False,
    has_aux: bool = False,
) -> Any:  # fmt: skip
    """The value and its derivative along the tangents."""
    return fx.jvp(func, primals, tangents, has_aux=has_aux)


def linearize(func: Callable[..., Any], *primals: Any) -> Any:
    """The value, and the derivative as a function of tangents."""
    return fx.linearize(func, *primals)


def stack_module_state(models: Any) -> Any:
    """The parameters and the buffers of models of one architecture, stacked: for ensembles."""
    from fx import nn

    return nn.stack_module_state(models)


__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "linearize", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
