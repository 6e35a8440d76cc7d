"""Parameters as one long vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx.ops.shapes.joining import concat
from fx.prims.compare import astype
from fx.prims.elementwise import abs as magnitude
from fx.prims.reduction import max as maximum_of
from fx.prims.reduction import sum as total
from fx.prims.shape import reshape
from fx.tensor import Tensor


def flat(values: Sequence[Tensor]) -> Tensor:
    """All values one after the other: (n,)."""
    return concat([x.reshape(-1) for x in values], axis=0)


def parts(vector: Tensor, like: Sequence[Any]) -> list[Tensor]:
    """A vector cut into tensors of the shapes and dtypes of others."""
    out, at = [], 0
    for x in like:
        part = reshape(vector[at : at + x.size], shape=x.shape)
        out.append(part if part.dtype == x.dtype else astype(part, dtype=x.dtype))
        at += x.size
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
