"""Whole derivatives: ``jacfwd``, ``jacrev``, ``hessian``; and the product ``hvp``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import prod
from typing import Any

import fx.prims.shape as shape_prims
from fx import tree
from fx.dtypes import FLOATING, INEXACT
from fx.dtypes import int64 as _INDEX
from fx.ops.convert import as_tensor
from fx.prims.compare import astype, equal
from fx.prims.creation import iota
from fx.spec import TensorSpec
from fx.tensor import Tensor
from fx.transforms._arguments import (
    Argnums,
    check_function,
    check_result,
    check_tuples,
    differentiable_leaf,
    kinds_of,
    pair,
    replace,
    select,
)
from fx.transforms.batching import vmap
from fx.transforms.forward import jvp
from fx.transforms.reverse import grad, vjp

_AS_AUX = "return what is not differentiated as aux, with has_aux=True"


def jacfwd(
    function: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    *,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of ``function`` in forward mode, a column at a time: for few inputs.

    Args:
        function: takes and returns pytrees of tensors.
        argnums: the positional argument, or a tuple of them, to differentiate.
        has_aux: whether ``function`` returns ``(result, aux)``.
        chunk_size: at most so many columns at once, to bound memory.
        holomorphic: whether ``function`` is a holomorphic function of complex arguments.

    Returns:
        a function that gives, for each leaf of the result, a tree of the argument's structure (a
        tuple of them where ``argnums`` is a tuple) of tensors of shape
        ``(*shape of the result, *shape of the argument)``; with ``has_aux`` a pair of it and
        ``aux``.

    Raises:
        DTypeError: when an argument is not floating.

    Example:
        >>> import fx
        >>> fx.jacfwd(lambda x: x * x)(fx.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    check_function(function, "jacfwd")
    kinds = kinds_of(holomorphic, FLOATING)

    @wraps(function)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        chosen = select(argnums, args, "jacfwd")
        leaves, treedef = tree.flatten(chosen)
        values = [differentiable_leaf(x, "jacfwd", kinds) for x in leaves]

        def of_values(*new: Tensor) -> Any:
            out = function(*replace(argnums, args, tree.unflatten(treedef, new)), **kwargs)
            out, aux = pair(out, "jacfwd", function) if has_aux else (out, None)
            if holomorphic:
                for x in tree.leaves(out):
                    check_result(as_tensor(x), "jacfwd", function, True, _AS_AUX)
            return out, aux

        aux = None  # anything, and the same in every direction

        def push(*direction: Tensor) -> Any:
            nonlocal aux
            _, pushed, aux = jvp(of_values, tuple(values), direction, has_aux=True)
            return pushed

        basis = _basis([x.spec for x in values])
        pushed = vmap(push, out_axes=-1, chunk_size=chunk_size, randomness="same")(*basis)

        def columns(t: Tensor) -> Any:
            lead = t.shape[:-1]
            parts, at = [], 0
            for x in values:
                n = prod(x.shape)
                part = shape_prims._along(t, len(lead), at, at + n)
                parts.append(shape_prims.reshape(part, shape=(*lead, *x.shape)))
                at += n
            return _chosen(tree.unflatten(treedef, parts), argnums)

        out = tree.map(columns, pushed)
        return (out, aux) if has_aux else out

    return jacobian


def jacrev(
    function: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    *,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian of ``function`` in reverse mode, a row at a time: for few results.

    Args:
        function: takes and returns pytrees of tensors; it runs once.
        argnums: the positional argument, or a tuple of them, to differentiate.
        has_aux: whether ``function`` returns ``(result, aux)``.
        chunk_size: at most so many rows at once, to bound memory.
        holomorphic: as for ``grad``.

    Returns:
        what ``jacfwd`` gives.

    Raises:
        DTypeError: when an argument is neither floating nor complex.
        BackwardError: when a result is not floating, nor complex of a holomorphic function.

    Example:
        >>> import fx
        >>> fx.jacrev(lambda x, y: x * y, argnums=(0, 1))(fx.tensor([1.0, 2.0]), fx.tensor(3.0))
        (tensor([[3., 0.],
                [0., 3.]]), tensor([1., 2.]))
    """
    check_function(function, "jacrev")
    kinds = kinds_of(holomorphic, INEXACT)

    @wraps(function)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        chosen = select(argnums, args, "jacrev")
        for leaf in tree.leaves(chosen):
            differentiable_leaf(leaf, "jacrev", kinds)

        def of_chosen(*new: Any) -> Any:
            out = function(*replace(argnums, args, new), **kwargs)
            return pair(out, "jacrev", function) if has_aux else (out, None)

        out, pullback, aux = vjp(of_chosen, *chosen, has_aux=True)
        leaves, treedef = tree.flatten(out)
        results = [as_tensor(x) for x in leaves]
        for x in results:
            check_result(x, "jacrev", function, holomorphic, _AS_AUX)

        def pull(*cts: Tensor) -> Any:
            return pullback(tree.unflatten(treedef, cts))

        every = vmap(pull, chunk_size=chunk_size, randomness="same")
        pulled = every(*_basis([x.spec for x in results]))
        blocks, inner = tree.flatten(pulled)
        rows, at = [], 0
        for x in results:
            n = prod(x.shape)
            parts = [
                shape_prims.reshape(
                    shape_prims._along(t, 0, at, at + n), shape=(*x.shape, *t.shape[1:])
                )
                for t in blocks
            ]
            rows.append(_chosen(tree.unflatten(inner, parts), argnums))
            at += n
        jac = tree.unflatten(treedef, rows)
        return (jac, aux) if has_aux else jac

    return jacobian


def _chosen(trees: tuple[Any, ...], argnums: Argnums) -> Any:
    return trees[0] if isinstance(argnums, int) else trees


def _basis(specs: list[TensorSpec]) -> list[Tensor]:
    """The unit vectors of the space of all specs together, along a new leading axis of each."""
    total = sum(s.size for s in specs)
    out, at = [], 0
    for s in specs:
        shape, device = (total, s.size), s.device
        rows = iota(shape=shape, axis=0, start=-at, step=1, dtype=_INDEX, device=device)
        columns = iota(shape=shape, axis=1, start=0, step=1, dtype=_INDEX, device=device)
        unit = astype(equal(rows, columns), dtype=s.dtype)
        out.append(shape_prims.reshape(unit, shape=(total, *s.shape)))
        at += s.size
    return out


def hessian(
    function: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    chunk_size: int | None = None,
    *,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The matrix of second derivatives, forward over reverse: ``jacfwd(jacrev(function))``.

    Args:
        function: takes and returns pytrees of tensors.
        argnums: the positional argument, or a tuple of them, to differentiate.
        has_aux: whether ``function`` returns ``(result, aux)``.
        chunk_size: at most so many columns at once, to bound memory.
        holomorphic: whether ``function`` is a holomorphic function of complex arguments.

    Returns:
        a function that gives, for each leaf of the result and each pair of leaves of the arguments,
        a tensor of shape ``(*result, *first argument, *second argument)``.

    Example:
        >>> import fx
        >>> fx.hessian(lambda x: (x * x * x).sum())(fx.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    check_function(function, "hessian")
    rows = jacrev(function, argnums, has_aux, holomorphic=holomorphic)
    return jacfwd(rows, argnums, has_aux, chunk_size, holomorphic=holomorphic)


def hvp(function: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """The Hessian of a scalar function times a vector, without the Hessian.

    Args:
        function: returns a floating scalar.
        primals: a tuple of all its arguments; every leaf floating.
        tangents: a tuple of the same structure, shapes and dtypes: the vector.

    Returns:
        the product in the structure of the argument; a tuple where there are several.

    Example:
        >>> import fx
        >>> fx.hvp(lambda x: (x * x * x).sum(), (fx.tensor([1.0, 2.0]),), (fx.ones(2),))
        tensor([ 6., 12.])
    """
    check_function(function, "hvp")
    check_tuples(primals, tangents, "hvp")
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    return jvp(grad(function, argnums), primals, tangents)[1]
