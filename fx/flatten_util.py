"""A pytree of tensors as one vector, by the name of ``jax.flatten_util``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from math import prod
from typing import Any

import fx.prims.shape as shape_prims
from fx import dtypes, tree
from fx.config import default_dtype
from fx.errors import DTypeError, ShapeError
from fx.ops.convert import as_tensor
from fx.ops.making.creation import zeros
from fx.tensor import Tensor


def ravel_pytree(pytree: Any) -> tuple[Tensor, Callable[[Any], Any]]:
    """All numbers of a pytree in one vector, and the way back.

    Args:
        pytree: its leaves are tensors and numbers.

    Returns:
        the vector, (n,), of the dtype that all leaves are promoted to, and a function from such a
        vector to a pytree of the same structure, shapes and dtypes. Both are differentiable.

    Raises:
        DTypeError: if the leaves have no common dtype. From the way back: if the vector has
            another dtype than this one, where the leaves' dtypes differ.
        ShapeError: from the way back: unless the vector has the shape (n,).

    Example:
        >>> import fx
        >>> w, back = fx.flatten_util.ravel_pytree({"a": fx.ones(2), "b": fx.zeros(1, 2)})
        >>> w
        tensor([1., 1., 0., 0.])
        >>> back(2 * w)
        {'a': tensor([2., 2.]), 'b': tensor([[0., 0.]])}
    """
    leaves, treedef = tree.flatten(pytree)
    parts = [as_tensor(leaf) for leaf in leaves]
    shapes = [part.shape for part in parts]
    own = [part.dtype for part in parts]
    dtype = own[0] if own else default_dtype()
    for other in own[1:]:
        dtype = dtypes.promote_types(dtype, other)
    flat = [shape_prims.reshaped(part.astype(dtype), (prod(part.shape),)) for part in parts]
    vector = shape_prims.concatenate(*flat, axis=0) if len(flat) > 1 else (*flat, zeros(0))[0]
    ends = [0, *accumulate(prod(shape) for shape in shapes)]
    mixed = any(d != dtype for d in own)

    def unravel(vector: Any) -> Any:
        x = _checked(vector, ends[-1])
        if mixed and x.dtype != dtype:
            raise DTypeError(
                f"the way back from ravel_pytree takes a vector of {dtype.name}, as the leaves "
                f"differ in their dtypes, got {x.dtype.name}; write x.astype(fx.{dtype.name})"
            )
        pieces = []
        for begin, end, shape, kind in zip(ends[:-1], ends[1:], shapes, own, strict=True):
            piece = shape_prims.reshaped(x[begin:end], shape)
            pieces.append(piece.astype(kind) if mixed else piece)
        return tree.unflatten(treedef, pieces)

    return vector, unravel


def _checked(vector: Any, n: int) -> Tensor:
    x = as_tensor(vector)
    if x.shape != (n,):
        raise ShapeError(f"the way back from ravel_pytree takes a vector ({n},), got {x.shape}")
    return x
