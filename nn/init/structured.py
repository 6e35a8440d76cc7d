"""Initialisers with a structure: identities, orthogonal matrices, sparse ones."""

from __future__ import annotations

import math
from typing import Any

import fx.prims.compare as compare
import fx.prims.creation as creation
import fx.prims.shape as shape_prims
import fx.prims.sorting as sorting
from fx import random
from fx.config import no_grad
from fx.errors import ShapeError
from fx.nn.init.cells import as_cell, draw_normal, put
from fx.ops.making.patterns import eye
from fx.ops.operands import iota


def eye_(tensor: Any) -> Any:
    """The identity matrix.

    Raises:
        ShapeError: if ``tensor`` does not have two axes.

    Example:
        >>> import fx
        >>> fx.nn.init.eye_(fx.nn.Buffer(fx.zeros((2, 3))))
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    cell = as_cell("eye_", tensor)
    if cell.ndim != 2:
        raise ShapeError(f"init.eye_ takes two axes, got shape {cell.shape}")
    return put(cell, eye(*cell.shape, dtype=cell.dtype, device=cell.device))


def dirac_(tensor: Any, groups: int = 1) -> Any:
    """The kernel of a convolution that passes its input through, as far as channels allow.

    Args:
        tensor: a Parameter or Buffer (out_channels, in_channels // groups, ...) with one to three
            spatial axes.
        groups: the groups of the convolution.

    Raises:
        ShapeError: for another number of axes, or out_channels that groups do not divide.

    Example:
        >>> import fx
        >>> fx.nn.init.dirac_(fx.nn.Buffer(fx.zeros((1, 1, 3))))
        tensor([[[0., 1., 0.]]])
    """
    cell = as_cell("dirac_", tensor)
    shape = cell.shape
    if len(shape) not in (3, 4, 5):
        raise ShapeError(
            f"init.dirac_ takes the weight of a convolution, with 3, 4 or 5 axes, got shape {shape}"
        )
    if groups < 1 or shape[0] % groups:
        raise ShapeError(
            f"init.dirac_: dim 0 must be divisible by groups, got shape {shape} and groups {groups}"
        )
    outs = shape_prims.reshape(iota(shape[0], cell) % (shape[0] // groups), shape=(shape[0], 1))
    ones = compare.equal(outs, shape_prims.reshape(iota(shape[1], cell), shape=(1, shape[1])))
    for n in shape[2:]:
        middle = compare.equal(iota(n, cell), iota(1, cell, start=n // 2))
        ones = shape_prims.reshape(ones, shape=(*ones.shape, 1))
        ones = compare.logical_and(ones, middle)
    return put(cell, compare.astype(ones, dtype=cell.dtype))


def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """A (semi-)orthogonal matrix: its rows, or its columns if those are fewer, are orthonormal.

    Further axes count as one with the second. All such matrices are as likely
    (``fx.random.orthogonal``).

    Raises:
        ShapeError: for fewer than two axes.

    Source: Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear
    neural networks", 2013.

    Example:
        >>> import fx
        >>> w = fx.nn.init.orthogonal_(fx.nn.Parameter(fx.zeros((2, 5))))
        >>> bool((abs(w @ w.mT - fx.eye(2)) < 1e-5).all())
        True
    """
    cell = as_cell("orthogonal_", tensor)
    if cell.ndim < 2:
        raise ShapeError(f"init.orthogonal_ takes at least two axes, got shape {cell.shape}")
    if 0 in cell.shape:
        return cell
    rows, columns = cell.shape[0], math.prod(cell.shape[1:])
    with no_grad():
        key = random.next_key(generator, cell.device)
        q = random.orthogonal(key, rows, dtype="float64", m=columns) * gain
        return put(cell, q.reshape(cell.shape).astype(cell.dtype))


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """Normal values, of which in each column a part is 0.

    Args:
        tensor: a Parameter or Buffer with two axes.
        sparsity: the part of each column, rounded up to whole elements.
        std: the deviation of the others.
        generator: of the random numbers.

    Raises:
        ShapeError: if ``tensor`` does not have two axes.

    Source: Martens, "Deep learning via Hessian-free optimization", 2010.

    Example:
        >>> import fx
        >>> weight = fx.nn.init.sparse_(fx.nn.Buffer(fx.zeros((10, 3))), sparsity=0.25)
        >>> (weight == 0).sum(dim=0)
        tensor([3, 3, 3])
    """
    cell = as_cell("sparse_", tensor)
    if cell.ndim != 2:
        raise ShapeError(f"init.sparse_ takes two axes, got shape {cell.shape}")
    values = draw_normal(cell, 0.0, std, generator)
    zeros = math.ceil(sparsity * cell.shape[0])
    key = random.next_key(generator, cell.device)
    order = random.uniform(key, cell.shape)  # whose ranks in each column are a random order
    for _ in range(2):
        order = sorting.argsort(order, axis=0, descending=False)
    return put(cell, compare.where(order < zeros, creation.constant_like(0, values), values))
