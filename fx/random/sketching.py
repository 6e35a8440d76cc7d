"""Sketches: few rows that stand for many."""

from __future__ import annotations

from typing import Any

from fx.errors import ShapeError
from fx.linalg.operands import matrices
from fx.ops.axes import integer
from fx.ops.convert import to_device
from fx.ops.making.creation import zeros
from fx.random.counts import rademacher
from fx.random.discrete import randint
from fx.random.generator import Generator, next_key
from fx.random.keys import key as make_key
from fx.random.keys import split
from fx.tensor import Tensor


def clarkson_woodruff_transform(input_matrix: Any, sketch_size: int, rng: Any = None) -> Tensor:
    """Few rows whose norms, products and least squares are nearly those of all rows.

    Each row is added, or subtracted, to one of ``sketch_size`` rows; both are drawn. The same for
    all matrices of a stack.

    Args:
        input_matrix: (*B, m, n).
        sketch_size: how many rows there will be.
        rng: a key of ``fx.random``, an int that seeds one, or a ``fx.Generator``; the default
            generator unless given.

    Returns:
        (*B, sketch_size, n), linear in the matrix.

    Raises:
        ShapeError: if it has fewer than two axes, or ``sketch_size`` is not positive.

    Source: K. L. Clarkson, D. P. Woodruff, Low rank approximation and regression in input sparsity
    time, 2013; ``scipy.linalg.clarkson_woodruff_transform``.

    Example:
        >>> import fx
        >>> a = fx.random.normal(fx.random.key(0), (1000, 3))
        >>> b = fx.linalg.clarkson_woodruff_transform(a, 200, rng=1)
        >>> b.shape, fx.allclose(b.mT @ b, a.mT @ a, rtol=0.2, atol=200.0)
        ((200, 3), True)
    """
    name = "linalg.clarkson_woodruff_transform"
    a, size = matrices(name, input_matrix), integer(name, "sketch_size", sketch_size)
    if size < 1:
        raise ShapeError(f"{name}: sketch_size is at least 1, got {size}")
    if rng is None or isinstance(rng, Generator):
        key = next_key(rng)
    else:
        key = rng if isinstance(rng, Tensor) and rng.ndim else make_key(rng)
    rows, signs = split(key)
    m = a.shape[-2]
    target = to_device(randint(rows, (m,), 0, size), a.device)
    signed = a * to_device(rademacher(signs, (m,)).astype(a.dtype), a.device)[:, None]
    start = zeros((*a.shape[:-2], size, a.shape[-1]), dtype=a.dtype, device=a.device)
    return start.at[..., target, :].add(signed)  # type: ignore[no-any-return]


__all__ = ["clarkson_woodruff_transform"]
