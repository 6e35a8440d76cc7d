"""Helpers over the parameters of a model: gradient clipping, one vector of all."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import fx.prims.elementwise as elementwise
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
from fx.config import no_grad
from fx.dtypes import COMPLEX
from fx.errors import BackwardError, ShapeError
from fx.gradients import set_gradients
from fx.ops.operands import argument
from fx.ops.reductions.norms import norm
from fx.prims.creation import constant, constant_like
from fx.state import Cell, rebind_all
from fx.tensor import Tensor


def _with_grad(parameters: Any) -> list[Any]:
    listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p for p in listed if p.read_grad() is not None]


def get_total_norm(
    tensors: Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The p-norm of all elements of some tensors together.

    Raises:
        BackwardError: where ``error_if_nonfinite``, if it is not finite.

    Example:
        >>> import fx
        >>> fx.nn.utils.get_total_norm([fx.tensor([3.0]), fx.tensor([4.0])])
        tensor(5.)
    """
    listed = list(tensors)
    if not listed:
        return constant(0.0, "float32")
    norms = [_norm(g, norm_type) for g in listed]
    norms = [shape_prims.reshape(n, shape=(1,)) for n in norms]
    total = _norm(shape_prims.concatenate(*norms, axis=0), norm_type)
    if error_if_nonfinite and not math.isfinite(float(total)):
        raise BackwardError(
            f"the total norm of order {norm_type} of the gradients is {float(total)}; pass "
            f"error_if_nonfinite=False to scale them anyway"
        )
    return total


def _norm(x: Tensor, p: float) -> Tensor:
    axes = tuple(range(x.ndim))
    if x._dtype in COMPLEX:
        x = elementwise.abs(x)
    if p == math.inf:
        return reduction.max(elementwise.abs(x), axes=axes, keepdims=False)
    if p == 2:
        return elementwise.sqrt(reduction.sum(elementwise.square(x), axes=axes, keepdims=False))
    return norm(x, p)


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients together so that their norm is at most ``max_norm``.

    Args:
        parameters: one, or an iterable of them; those without a gradient are left out.
        max_norm: the largest norm that is left as it is.
        norm_type: the p of the norm, ``math.inf`` for the largest element.
        error_if_nonfinite: whether a norm that is not finite is an error.
        foreach: accepted for PyTorch's sake.

    Returns:
        the norm before scaling, a scalar.

    Raises:
        BackwardError: where ``error_if_nonfinite``, if the norm is not finite.

    Example:
        >>> import fx
        >>> weight = fx.nn.Parameter(fx.tensor([3.0, 4.0]))
        >>> (weight * weight).sum().backward()
        >>> fx.nn.utils.clip_grad_norm_(weight, max_norm=1.0)
        tensor(10.)
        >>> weight.grad
        tensor([0.6000, 0.8000])
    """
    found = _with_grad(parameters)
    with no_grad():
        total = get_total_norm([p.read_grad() for p in found], norm_type, error_if_nonfinite)
    clip_grads_with_norm_(found, max_norm, total)
    return total


def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale all gradients by ``max_norm / (total_norm + 1e-6)`` where that is below 1.

    Args:
        parameters: one, or an iterable of them; those without a gradient are left out.
        max_norm: the largest norm that is left as it is.
        total_norm: their norm, as ``get_total_norm`` gives it.
        foreach: accepted for PyTorch's sake.

    Example:
        >>> import fx
        >>> weight = fx.nn.Parameter(fx.zeros(1))
        >>> weight.grad = fx.tensor([4.0])
        >>> fx.nn.utils.clip_grads_with_norm_(weight, 1.0, fx.tensor(2.0))
        >>> weight.grad
        tensor([2.0000])
    """
    with no_grad():
        factor = max_norm / (argument("clip_grads_with_norm_", total_norm) + 1e-6)
        factor = elementwise.minimum(factor, constant_like(1.0, factor))
        found = _with_grad(parameters)
        set_gradients([(p, p.read_grad() * factor.astype(p._dtype)) for p in found])


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Hold each element of each gradient between ``-clip_value`` and ``clip_value``.

    Example:
        >>> import fx
        >>> weight = fx.nn.Parameter(fx.tensor([3.0, -4.0]))
        >>> (weight * weight).sum().backward()
        >>> fx.nn.utils.clip_grad_value_(weight, 7.0)
        >>> weight.grad
        tensor([ 6., -7.])
    """
    with no_grad():
        clipped = []
        for p in _with_grad(parameters):
            g = p.read_grad()
            low, high = constant_like(-clip_value, g), constant_like(clip_value, g)
            clipped.append((p, elementwise.minimum(elementwise.maximum(g, low), high)))
        set_gradients(clipped)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters as one vector, in their order.

    Example:
        >>> import fx
        >>> model = fx.nn.Linear(3, 2)
        >>> fx.nn.utils.parameters_to_vector(model.parameters()).shape
        (8,)
    """
    flat = [shape_prims.reshape(p, shape=(math.prod(p.shape),)) for p in parameters]
    if not flat:
        raise ShapeError("parameters_to_vector: there is no parameter; give model.parameters()")
    return shape_prims.concatenate(*flat, axis=0)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Cell]) -> None:
    """Rebind parameters to the parts of a vector, in their order.

    Raises:
        ShapeError: if the vector does not have as many elements as the parameters together.

    Example:
        >>> import fx
        >>> weight = fx.nn.Parameter(fx.zeros((2, 1)))
        >>> fx.nn.utils.vector_to_parameters(fx.tensor([1.0, 2.0]), [weight])
        >>> weight.data
        tensor([[1.],
                [2.]])
    """
    cells = list(parameters)
    wanted = sum(math.prod(p.shape) for p in cells)
    if vec.shape != (wanted,):
        raise ShapeError(
            f"vector_to_parameters: the parameters have {wanted} elements, and the vector has "
            f"shape {vec.shape}"
        )
    start = 0
    values = []
    for p in cells:
        stop = start + math.prod(p.shape)
        part = shape_prims.slice(vec, start=(start,), stop=(stop,), step=(1,))
        values.append((p, shape_prims.reshape(part, shape=p.shape).astype(p.dtype)))
        start = stop
    for p in cells:
        p._leave()  # what was read of a parameter's memory keeps it, as where `p.data = v`
    rebind_all(values)
