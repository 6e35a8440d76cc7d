"""Layers that compare vectors."""

from __future__ import annotations

from typing import Any

from fx.nn import functional as F
from fx.nn.base.module import Module
from fx.tensor import Tensor


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along an axis.

    Args:
        dim: the axis of the vectors.
        eps: the least length that is divided by.

    Example:
        >>> import fx
        >>> fx.nn.CosineSimilarity()(fx.tensor([[3.0, 4.0]]), fx.tensor([[4.0, 3.0]]))
        tensor([0.9600])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Any, x2: Any) -> Tensor:
        """Two shapes that broadcast together, to that shape without ``dim``."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of ``x1 - x2 + eps`` over the last axis.

    Args:
        p: the p of the norm.
        eps: added to every difference.
        keepdim: keep the last axis, with size 1.

    Example:
        >>> import fx
        >>> fx.nn.PairwiseDistance(eps=0.0)(fx.tensor([[3.0, 4.0]]), fx.zeros((1, 2)))
        tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Any, x2: Any) -> Tensor:
        """(..., features) twice, to (...)."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
