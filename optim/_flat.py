"""Parameters as one long vector."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from fx.dtypes import COMPLEX
from fx.ops.pointwise.complex_numbers import view_as_complex, view_as_real
from fx.ops.shapes.joining import concat
from fx.prims.compare import astype
from fx.prims.elementwise import abs as magnitude
from fx.prims.reduction import max as maximum_of
from fx.prims.reduction import sum as total
from fx.prims.shape import reshape
from fx.tensor import Tensor


def flat(values: Sequence[Tensor]) -> Tensor:
    """All values one after the other: (n,). Complex numbers are pairs."""
    return concat([_real(x).reshape(-1) for x in values], axis=0)


def _real(x: Any) -> Any:
    return view_as_real(x) if x.dtype in COMPLEX else x


def parts(vector: Tensor, like: Sequence[Any]) -> list[Tensor]:
    """A vector cut into tensors of the shapes and dtypes of others."""
    out, at = [], 0
    for x in like:
        pairs = x.dtype in COMPLEX
        shape = (*x.shape, 2) if pairs else x.shape
        part = reshape(vector[at : at + prod(shape)], shape=shape)
        part = view_as_complex(part) if pairs else part
        out.append(part if part.dtype == x.dtype else astype(part, dtype=x.dtype))
        at += prod(shape)
    return out


def dot(x: Tensor, y: Tensor) -> Tensor:
    """The inner product of two vectors."""
    return total(x * y, axes=(0,), keepdims=False)


def largest(x: Tensor) -> Tensor:
    """The greatest magnitude in a vector."""
    return maximum_of(magnitude(x), axes=(0,), keepdims=False)


def length_one(x: Tensor) -> Tensor:
    """The sum of magnitudes in a vector."""
    return total(magnitude(x), axes=(0,), keepdims=False)
