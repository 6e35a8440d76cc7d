"""``torch.distributions.utils``: what distributions of users' own are written with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fx
from fx.dtypes import FLOATING
from fx.tensor import Tensor

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits",
    "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers in one shape; numbers get the dtype and device of the first tensor.

    Raises:
        ValueError: for anything else.

    Example:
        >>> import fx.torch as torch
        >>> from fx.torch.distributions.utils import broadcast_all
        >>> broadcast_all(torch.zeros(2), 1.0)
        (tensor([0., 0.]), tensor([1., 1.]))
    """
    if not all(isinstance(x, Tensor | int | float) for x in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
            "__torch_function__."
        )
    first = next((x for x in values if isinstance(x, Tensor)), None)
    dtype = fx.default_dtype() if first is None else first.dtype
    where = "cpu" if first is None else first.device
    tensors = [
        x if isinstance(x, Tensor) else fx.tensor(x, dtype=dtype, device=where) for x in values
    ]
    return tuple(fx.broadcast_tensors(*tensors))


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities from eps to 1 - eps, of the dtype's eps."""
    eps = float(fx.finfo(probs.dtype).eps)
    return probs.clamp(eps, 1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of logits: of each element, or of classes along the last axis."""
    return fx.sigmoid(logits) if is_binary else fx.softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logits of probabilities: of each element, or of classes along the last axis.

    Raises:
        TypeError: if they are not floating.
    """
    if probs.dtype not in FLOATING:
        raise TypeError(f"probs_to_logits takes floating probabilities, got {probs.dtype.name}")
    held = clamp_probs(probs)
    return fx.log(held) - fx.log1p(-held) if is_binary else fx.log(held)


class lazy_property:
    """A property that is computed when it is first read, and then an attribute."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with fx.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements on and below a diagonal of matrices (..., n, n), row by row, as vectors.

    Raises:
        ValueError: if there is no such diagonal.
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = fx.tril_indices(n, diag, n)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Matrices (..., n, n) of vectors of what is on and below a diagonal, and zeros.

    Raises:
        ValueError: if no n has so many elements there.
    """
    count = vec.shape[-1]
    odd = 1 + 2 * diag
    root = (odd**2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5
    if (root - odd) % 2:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower "
            f"triangular part of a square D x D matrix."
        )
    n = int(root - odd) // 2
    rows, columns = fx.tril_indices(n, diag, n)
    out = fx.zeros((*vec.shape[:-1], n, n), dtype=vec.dtype, device=vec.device)
    return out.at[..., rows, columns].set(vec)
